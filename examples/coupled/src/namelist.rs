//! A deck as Fortran namelists, which `fortran/coupled_deck.f90` reads.

use crate::deck::{Deck, Over};
use crate::flow::initial::{Round, Shape};

/// Every value of the deck, numbers with all their digits.
pub fn text(deck: &Deck) -> String {
    let Deck { mesh, time, water, heat, coupling, diffusion } = deck;
    let shape = match water.shape {
        Shape::Lake => "lake",
        Shape::Hump => "hump",
        Shape::Dam => "dam",
    };
    let over = match coupling.over {
        Over::Machine => "machine",
        Over::Numa => "numa",
        Over::Package => "package",
        Over::Core => "core",
    };
    let flat = Round { x: 0.5, y: 0.5, radius: 1.0, height: 0.0 };
    let hill = round("hill", &water.hill.unwrap_or(flat));
    let (rise, warm) = (round("rise", &water.rise), round("warm", &heat.warm));
    let groups = [
        (
            "mesh_part",
            format!(
                "nx = {}, ny = {}, width = {:?}, height = {:?}",
                mesh.nx, mesh.ny, mesh.width, mesh.height
            ),
        ),
        ("time_part", format!("steps = {}, cfl = {:?}", time.steps, time.cfl)),
        (
            "water_part",
            format!(
                "shape = '{shape}', level = {:?}, gravity = {:?},\n{rise},\n{hill}",
                water.level, water.gravity
            ),
        ),
        ("heat_part", format!("background = {:?},\n{warm}", heat.background)),
        (
            "coupling_part",
            format!(
                "every = {}, over = '{over}', max = {}, variant = '{}'",
                coupling.every,
                coupling.max,
                coupling.variant.name()
            ),
        ),
        (
            "diffusion_part",
            format!(
                "kappa = {:?}, tolerance = {:?}, max_iterations = {}",
                diffusion.kappa, diffusion.tolerance, diffusion.max_iterations
            ),
        ),
    ];
    groups.map(|(name, values)| format!("&{name}\n{values}\n/\n")).concat()
}

fn round(name: &str, round: &Round) -> String {
    let Round { x, y, radius, height } = round;
    format!(
        "{name}%x = {x:?}, {name}%y = {y:?}, {name}%radius = {radius:?}, {name}%height = {height:?}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_digits_of_a_number_are_written() {
        let small = include_str!("../decks/small.toml");
        let third = small.replace("kappa = 20.0", &format!("kappa = {:?}", 1.0 / 3.0));
        let text = text(&Deck::parse(&third).unwrap());
        assert!(text.contains("kappa = 0.3333333333333333, tolerance = 1e-10"), "{text}");
        assert!(text.contains("shape = 'dam'") && text.contains("over = 'machine'"), "{text}");
    }

    #[test]
    fn a_line_fits_what_the_reader_allows() {
        let small = include_str!("../decks/small.toml");
        let long = small.replace("0.35", &format!("{:?}", f64::MIN_POSITIVE));
        let text = text(&Deck::parse(&long).unwrap());
        assert!(text.lines().all(|line| line.len() <= 200), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with('&')).count(), 6);
    }
}
