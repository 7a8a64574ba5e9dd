//! Stack of areas: one area for each component that is large enough, and one for the others of a group.

use super::palette::{GROUPS, SHADES, Shades, place_of};
use super::{Series, Timeline};

/// More areas of one group cannot be distinguished, and one shade is for the small ones together.
const MOST_OF_GROUP: usize = SHADES - 1;
/// A component that never has this share of the largest total is one of the small ones of its group.
const LEAST_SHARE: f64 = 0.004;

/// One area of the stack.
pub(super) struct Area {
    pub name: String,
    pub group: String,
    /// Bytes, one for each time.
    pub values: Vec<u64>,
    /// The greatest of them.
    pub most: u64,
    /// Several small components together.
    pub several: bool,
}

impl Area {
    pub(super) fn colour(&self, shades: &Shades) -> String {
        shades.colour(&self.name, &self.group)
    }
}

/// Colours of the areas: no two areas of a picture have the same.
pub(super) fn shades(areas: &[Area]) -> Shades {
    Shades::of(areas.iter().map(|area| (area.name.as_str(), area.group.as_str())))
}

/// Areas, from the bottom up; none for components that never hold anything.
pub(super) fn areas(picture: &Timeline) -> Vec<Area> {
    let count = picture.times.len();
    let most_of = |series: &Series| series.values.iter().take(count).copied().max().unwrap_or(0);
    let most = totals(picture).into_iter().max().unwrap_or(0);
    let mut series: Vec<_> =
        picture.series.iter().map(|series| (most_of(series), series)).collect();
    series.retain(|(most, _)| *most > 0);
    series.sort_by(|(one, first), (other, second)| {
        other.cmp(one).then_with(|| first.name.cmp(&second.name))
    });
    let mut areas: Vec<Area> = Vec::new();
    let mut rest: Vec<(u64, &Series)> = Vec::new();
    let mut of_group = [0; GROUPS.len()];
    for (size, member) in series {
        let drawn = &mut of_group[place_of(&member.group)];
        if *drawn < MOST_OF_GROUP && size as f64 >= most as f64 * LEAST_SHARE {
            *drawn += 1;
            areas.push(Area {
                name: member.name.clone(),
                group: member.group.clone(),
                values: (0..count).map(|index| value(&member.values, index)).collect(),
                most: size,
                several: false,
            });
        } else {
            rest.push((size, member));
        }
    }
    rest.sort_by_key(|(_, member)| place_of(&member.group));
    for members in rest.chunk_by(|one, other| place_of(&one.1.group) == place_of(&other.1.group)) {
        let values: Vec<u64> = (0..count)
            .map(|index| {
                members
                    .iter()
                    .fold(0u64, |sum, (_, member)| sum.saturating_add(value(&member.values, index)))
            })
            .collect();
        let group = members[0].1.group.clone();
        let name = match members {
            [(_, only)] => only.name.clone(),
            _ => format!("{group}: {} small ones", members.len()),
        };
        let most = values.iter().copied().max().unwrap_or(0);
        areas.push(Area { name, group, values, most, several: members.len() > 1 });
    }
    areas.sort_by(|one, other| {
        (place_of(&one.group), one.several)
            .cmp(&(place_of(&other.group), other.several))
            .then(other.most.cmp(&one.most))
    });
    areas
}

pub(super) fn value(values: &[u64], index: usize) -> u64 {
    values.get(index).copied().unwrap_or(0)
}

/// Returns the sum of all components at each time.
pub(super) fn totals(picture: &Timeline) -> Vec<u64> {
    (0..picture.times.len())
        .map(|index| {
            picture
                .series
                .iter()
                .fold(0u64, |sum, series| sum.saturating_add(value(&series.values, index)))
        })
        .collect()
}
