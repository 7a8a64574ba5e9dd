//! Input decks: the problem of a run. Read by one rank, checked, and sent to all.

use std::fmt;

use quo::ObjectType;
use serde::{Deserialize, Serialize};

use crate::flow::Mesh;
use crate::flow::initial::{Initial, Round, Shape};

/// A checked deck.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deck {
    /// The mesh.
    pub mesh: MeshPart,
    /// Steps in time.
    pub time: TimePart,
    /// The water at the start.
    pub water: WaterPart,
    /// Its heat at the start.
    pub heat: HeatPart,
    /// Meeting of the solvers.
    pub coupling: CouplingPart,
    /// The implicit solver.
    pub diffusion: DiffusionPart,
}

/// Cells and size of the mesh.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeshPart {
    /// Cells.
    pub nx: usize,
    /// Cells.
    pub ny: usize,
    /// Metres.
    pub width: f64,
    /// Metres.
    pub height: f64,
}

/// Steps in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimePart {
    /// Steps of the flow.
    pub steps: usize,
    /// Length of a step as a part of the longest stable one, up to 0.5.
    pub cfl: f64,
}

/// The water at the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaterPart {
    /// Its shape.
    pub shape: Shape,
    /// Metres.
    pub level: f64,
    /// Metres per second squared.
    #[serde(default = "earth")]
    pub gravity: f64,
    /// The hump or the dam.
    #[serde(default = "nothing")]
    pub rise: Round,
    /// A hill of the bed.
    #[serde(default)]
    pub hill: Option<Round>,
}

/// Heat of the water at the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeatPart {
    /// Away from the warm place.
    pub background: f64,
    /// The warm place.
    pub warm: Round,
}

/// Coupling of the implicit solver, and the ranks that run it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CouplingPart {
    /// Steps of the flow per step of the diffusion.
    pub every: usize,
    /// At most `max` workers per object of this type.
    pub over: Over,
    /// Workers per object.
    pub max: usize,
    /// Caller of `quo`, unless the command line names one.
    #[serde(default)]
    pub variant: Variant,
}

/// The implicit solver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiffusionPart {
    /// Square metres per second.
    pub kappa: f64,
    /// Of the residual, relative to the right-hand side.
    pub tolerance: f64,
    /// Iterations after which a step fails.
    pub max_iterations: usize,
}

/// The hardware objects that workers can be spread over.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Over {
    /// The whole machine.
    Machine,
    /// NUMA nodes.
    Numa,
    /// Packages.
    #[serde(alias = "socket")]
    Package,
    /// Cores.
    Core,
}

impl Over {
    /// The deck's word for `quo`'s.
    pub fn object_type(self) -> ObjectType {
        match self {
            Over::Machine => ObjectType::Machine,
            Over::Numa => ObjectType::NumaNode,
            Over::Package => ObjectType::Package,
            Over::Core => ObjectType::Core,
        }
    }
}

/// Caller of `quo`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Variant {
    /// The driver selects ranks, pushes, calls the unmodified solver and pops.
    #[default]
    Caller,
    /// A library function does all that inside; the driver is oblivious.
    Callee,
}

impl Variant {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Caller => "caller",
            Variant::Callee => "callee",
        }
    }
}

fn earth() -> f64 {
    9.81
}

fn nothing() -> Round {
    Round { x: 0.5, y: 0.5, radius: 1.0, height: 0.0 }
}

/// Error in a deck, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeckError {
    /// Counted from 1.
    pub line: Option<usize>,
    /// As `section.key`, where known.
    pub field: Option<String>,
    /// The cause.
    pub cause: String,
}

impl fmt::Display for DeckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if let Some(field) = &self.field {
            write!(f, "{field}: ")?;
        }
        f.write_str(&self.cause)
    }
}

impl std::error::Error for DeckError {}

impl DeckError {
    fn at(text: &str, field: &str, cause: String) -> Self {
        DeckError { line: line_of(text, field), field: Some(field.to_owned()), cause }
    }
}

impl Deck {
    /// Reads and checks the text of a deck.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line and field.
    pub fn parse(text: &str) -> Result<Deck, DeckError> {
        let deck: Deck = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| text[..span.start].matches('\n').count() + 1);
            let field = line.and_then(|line| field_at(text, line));
            DeckError { line, field, cause: error.message().trim().to_owned() }
        })?;
        let wrong = |(field, cause)| DeckError::at(text, field, cause);
        deck.check().map_err(wrong).map(|()| deck)
    }

    /// The first wrong value: its field, and the value with its rule.
    fn check(&self) -> Result<(), (&'static str, String)> {
        let Deck { mesh, time, water, heat, coupling, diffusion } = self;
        let hill = water.hill.unwrap_or_else(nothing);
        let lowest = water.level - hill.height.max(0.0) + water.rise.height.min(0.0);
        let positive = |field, value: f64| {
            (field, value, value > 0.0 && value.is_finite(), "a positive number")
        };
        let count = |field, number| (field, number as f64, number > 0, "at least 1");
        let cells = |field, number| {
            (field, number as f64, (1..=65_536).contains(&number), "from 1 to 65536")
        };
        let round = |field, round: Round| {
            let finite = [round.x, round.y, round.height].iter().all(|value| value.is_finite());
            let fits = finite && round.radius > 0.0 && round.radius.is_finite();
            (field, round.radius, fits, "a positive radius of a finite place and height")
        };
        let rules = [
            cells("mesh.nx", mesh.nx),
            cells("mesh.ny", mesh.ny),
            positive("mesh.width", mesh.width),
            positive("mesh.height", mesh.height),
            ("time.steps", time.steps as f64, time.steps <= 100_000_000, "at most 1e8"),
            ("time.cfl", time.cfl, time.cfl > 0.0 && time.cfl <= 0.5, "stable: from 0 to 0.5"),
            positive("water.level", water.level),
            positive("water.gravity", water.gravity),
            round("water.rise", water.rise),
            round("water.hill", hill),
            ("water.level", lowest, lowest > 0.0, "a positive depth at the shallowest cell"),
            ("heat.background", heat.background, heat.background.is_finite(), "finite"),
            round("heat.warm", heat.warm),
            count("coupling.every", coupling.every),
            count("coupling.max", coupling.max),
            count("diffusion.max_iterations", diffusion.max_iterations),
            (
                "diffusion.kappa",
                diffusion.kappa,
                diffusion.kappa >= 0.0 && diffusion.kappa.is_finite(),
                "a number from 0 up",
            ),
            (
                "diffusion.tolerance",
                diffusion.tolerance,
                diffusion.tolerance > 0.0 && diffusion.tolerance < 1.0,
                "between 0 and 1",
            ),
        ];
        match rules.into_iter().find(|(.., fits, _)| !fits) {
            Some((field, value, _, rule)) => Err((field, format!("{value} is not {rule}"))),
            None => Ok(()),
        }
    }

    /// Checks the values that depend on the number of ranks.
    ///
    /// # Errors
    /// If there are more ranks than rows.
    pub fn check_ranks(&self, text: &str, ranks: usize) -> Result<(), DeckError> {
        if self.mesh.ny >= ranks {
            return Ok(());
        }
        let cause = format!("{} rows are too few for {ranks} ranks", self.mesh.ny);
        Err(DeckError::at(text, "mesh.ny", cause))
    }

    /// The mesh in cells and metres.
    pub fn mesh(&self) -> Mesh {
        let (nx, ny) = (self.mesh.nx, self.mesh.ny);
        Mesh { nx, ny, dx: self.mesh.width / nx as f64, dy: self.mesh.height / ny as f64 }
    }

    /// The state at the start.
    pub fn initial(&self) -> Initial {
        Initial {
            level: self.water.level,
            shape: self.water.shape,
            water: self.water.rise,
            bed: self.water.hill,
            background: self.heat.background,
            warm: self.heat.warm,
        }
    }
}

/// The keys of a deck in order: line from 1, `section.key`.
fn keys(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut section = String::new();
    text.lines().enumerate().filter_map(move |(number, line)| {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix('[') {
            section = rest.split(']').next().unwrap_or_default().trim().to_owned();
            return Some((number + 1, section.clone()));
        }
        if line.starts_with('#') {
            return None;
        }
        let key = line.split_once('=')?.0.trim();
        let field = if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") };
        Some((number + 1, field))
    })
}

/// The line that gives `field`, or the one of its section.
fn line_of(text: &str, field: &str) -> Option<usize> {
    let section = field.split('.').next().unwrap_or(field);
    let find = |wanted: &str| keys(text).find(|(_, key)| key == wanted).map(|(line, _)| line);
    find(field).or_else(|| find(section))
}

fn field_at(text: &str, line: usize) -> Option<String> {
    keys(text).find(|(number, _)| *number == line).map(|(_, field)| field)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = include_str!("../decks/small.toml");
    const LARGE: &str = include_str!("../decks/large.toml");

    fn with(line: &str, replacement: &str) -> DeckError {
        assert!(SMALL.contains(line), "the deck has no `{line}`");
        Deck::parse(&SMALL.replace(line, replacement)).unwrap_err()
    }

    #[test]
    fn the_decks_of_the_project_are_good() {
        for text in [SMALL, LARGE] {
            let deck = Deck::parse(text).unwrap();
            let initial = deck.initial();
            let mesh = deck.mesh();
            for j in 0..mesh.ny {
                assert!((0..mesh.nx).all(|i| initial.cell(&mesh, i, j).depth > 0.0));
            }
        }
    }

    #[test]
    fn wrong_value_is_named_with_line_and_field() {
        for (line, bad, field, word) in [
            ("nx = 96", "nx = \"many\"", "mesh.nx", "string"),
            ("nx = 96", "nz = 4\nnx = 96", "mesh.nz", "unknown field"),
            ("over = \"machine\"", "over = \"planet\"", "coupling.over", "package"),
        ] {
            let error = with(line, bad);
            assert_eq!(error.field.as_deref(), Some(field), "{error}");
            let place = SMALL.lines().position(|of_it| of_it.starts_with(line)).unwrap() + 1;
            assert_eq!(error.line, Some(place), "{error}");
            assert!(error.cause.contains(word), "{error}");
        }
    }

    #[test]
    fn value_out_of_range_is_named_with_line_and_field() {
        let error = with("cfl = 0.45", "cfl = 0.9");
        assert_eq!(error.field.as_deref(), Some("time.cfl"));
        assert_eq!(error.line, line_of(SMALL, "time.cfl"));
        assert!(error.to_string().contains("0.9"), "{error}");
        for (line, bad) in [
            ("nx = 96", "nx = 0"),
            ("cfl = 0.45", "cfl = nan"),
            ("every = 10", "every = 0"),
            ("max = 1", "max = 0"),
            ("level = 2.0", "level = 0.5"),
            ("kappa = 20.0", "kappa = -1.0"),
            ("tolerance = 1e-10", "tolerance = 1.0"),
        ] {
            let field = bad.split(' ').next().unwrap();
            let error = with(line, bad);
            assert!(error.field.as_deref().unwrap().ends_with(field), "{error}");
            assert!(error.line.is_some(), "{error}");
        }
    }

    #[test]
    fn a_missing_key_and_a_missing_section_are_named() {
        assert!(with("every = 10", "").cause.contains("every"));
        let error = Deck::parse("[mesh]\nnx = 1\nny = 1\nwidth = 1.0\nheight = 1.0\n").unwrap_err();
        assert!(error.cause.contains("missing field `time`"), "{error}");
    }

    #[test]
    fn text_that_is_no_deck_is_an_error_with_line() {
        assert_eq!(Deck::parse("[mesh\nnx = 1").unwrap_err().line, Some(1));
        assert_eq!(with("every = 10", "every = = 10").line, line_of(SMALL, "coupling.every"));
    }

    #[test]
    fn more_ranks_than_rows_are_refused() {
        let deck = Deck::parse(SMALL).unwrap();
        assert!(deck.check_ranks(SMALL, deck.mesh.ny).is_ok());
        let error = deck.check_ranks(SMALL, deck.mesh.ny + 1).unwrap_err();
        assert_eq!(error.line, line_of(SMALL, "mesh.ny"));
    }
}
