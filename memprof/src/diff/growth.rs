//! Changes of growth between equal moments, by component.

use crate::growth::Slope;
use crate::model::Job;
use crate::report::grid::{Align, Grid, Weight};
use crate::report::growth::{self, Named};
use crate::terminal::{Look, clean};
use serde_json::{Value, json};
use std::sync::Arc;

/// Growth of two jobs in the same unit.
#[derive(Debug)]
pub struct Growths {
    jobs: [Named; 2],
    components: Vec<Changed>,
}

/// Growth of a component; `None` where it does not grow.
#[derive(Clone, Debug, PartialEq)]
struct Changed {
    name: Arc<str>,
    slopes: [Option<Slope>; 2],
    /// Call with the fastest growth, after the change if it grows there.
    place: Option<String>,
}

/// Compares the growth of two jobs: per iteration or entry if both jobs count the same, otherwise
/// over time. Returns `None` if a job is too short, or nothing grows in either.
pub fn compare(before: &Job, after: &Job) -> Option<Growths> {
    let mut jobs = [before, after].map(growth::of);
    if jobs[0].counted() != jobs[1].counted() {
        jobs = [before, after].map(growth::over_time);
    }
    if jobs.iter().any(Named::is_too_short) {
        return None;
    }
    let components = changed(&jobs.each_ref().map(Named::slopes));
    (!components.is_empty()).then_some(Growths { jobs, components })
}

/// Component, slope, and the call with the fastest growth.
type Growing = (Arc<str>, Slope, Option<String>);

/// Returns the components that grow in either job, in descending order of the later slopes.
fn changed(slopes: &[Vec<Growing>; 2]) -> Vec<Changed> {
    let mut components: Vec<Changed> = Vec::new();
    for (side, growing) in slopes.iter().enumerate() {
        for (name, slope, place) in growing {
            let at = components.iter().position(|known| known.name == *name).unwrap_or_else(|| {
                components.push(Changed { name: name.clone(), slopes: [None; 2], place: None });
                components.len() - 1
            });
            components[at].slopes[side] = Some(*slope);
            components[at].place = place.clone().or(components[at].place.take());
        }
    }
    let bytes = |slope: Option<Slope>| slope.map_or(0.0, |slope| slope.bytes);
    components.sort_by(|one, other| {
        let key = |of: &Changed| [bytes(of.slopes[1]), bytes(of.slopes[0])];
        key(other).partial_cmp(&key(one)).unwrap_or(std::cmp::Ordering::Equal)
    });
    components
}

impl Changed {
    /// Returns true if both intervals have common values: the change may be noise.
    fn is_noise(&self) -> bool {
        match self.slopes {
            [Some(before), Some(after)] => before.low <= after.high && after.low <= before.high,
            _ => false,
        }
    }
}

impl Growths {
    /// Returns the table.
    pub fn table(&self, look: Look) -> String {
        use Align::{Left, Right};
        let unit = &self.jobs[1];
        let mut grid = Grid::new(&[Left, Right, Right, Right, Left, Left]);
        let head = format!("growth per {}, all {}", unit.unit_name(), unit.processes_name());
        grid.row(Weight::Head, [&head, "before", "after", "change", "", "by"].map(String::from));
        for of in &self.components {
            let side =
                |slope: Option<Slope>| slope.map_or("-".to_owned(), |slope| unit.per(slope.bytes));
            let [before, after] = of.slopes.map(|slope| slope.map_or(0.0, |slope| slope.bytes));
            let size = unit.per((after - before).abs());
            let change = match after.total_cmp(&before) {
                std::cmp::Ordering::Less => format!("-{size}"),
                std::cmp::Ordering::Equal => "=".to_owned(),
                std::cmp::Ordering::Greater => format!("+{size}"),
            };
            let remark = match of.slopes {
                _ if before == after => "",
                _ if of.is_noise() => "noise",
                [None, _] => "new",
                [_, None] => "no longer",
                _ => "",
            };
            grid.row(
                Weight::Plain,
                [
                    clean(&of.name),
                    side(of.slopes[0]),
                    side(of.slopes[1]),
                    change,
                    remark.to_owned(),
                    of.place.as_deref().map(clean).unwrap_or_default(),
                ],
            );
        }
        grid.text(look)
    }

    /// Returns the growth of both jobs, and the changes.
    pub fn json(&self) -> Value {
        let changes = self.components.iter().map(|of| {
            let bytes = of.slopes.map(|slope| slope.map(|slope| slope.bytes));
            json!({
                "name": of.name,
                "before": bytes[0],
                "after": bytes[1],
                "noise": of.is_noise(),
                "place": of.place,
            })
        });
        let changes: Vec<Value> = changes.collect();
        let [before, after] = self.jobs.each_ref().map(Named::json);
        json!({ "before": before, "after": after, "components": changes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growing(name: &str, bytes: f64) -> Growing {
        (name.into(), Slope { bytes, low: 0.9 * bytes, high: 1.1 * bytes }, Some(name.to_owned()))
    }

    #[test]
    fn slopes_of_both_jobs_are_paired_by_component() {
        let before = vec![growing("app.exe:a", 100.0), growing("mpi.core:mpi", 50.0)];
        let after = vec![growing("app.lib:b", 500.0), growing("app.exe:a", 105.0)];
        let found = changed(&[before, after]);
        let told: Vec<_> = found
            .iter()
            .map(|of| (&*of.name, of.slopes.map(|s| s.map(|s| s.bytes)), of.is_noise()))
            .collect();
        assert_eq!(
            told,
            [
                ("app.lib:b", [None, Some(500.0)], false),
                ("app.exe:a", [Some(100.0), Some(105.0)], true),
                ("mpi.core:mpi", [Some(50.0), None], false),
            ]
        );
        let faster = changed(&[vec![growing("a", 1.0)], vec![growing("a", 2.0)]]);
        assert!(!faster[0].is_noise() && changed(&[Vec::new(), Vec::new()]).is_empty());
    }
}
