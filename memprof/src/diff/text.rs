//! The comparison as a table and as JSON.

use super::growth::Growths;
use super::{Change, Comparison, Floors, Verdict};
use crate::model::ProcessKey;
use crate::report::grid::{Align, Grid, Weight};
use crate::terminal::{Look, clean};
use crate::units::{bytes, count, time};
use serde::Serialize;

/// Version of the JSON form; fields are only added within one.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    memprof_diff: u32,
    #[serde(flatten)]
    comparison: &'a Comparison,
    #[serde(skip_serializing_if = "Option::is_none")]
    growth: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<&'a Verdict>,
}

/// Returns the comparison as a document, with growth and the findings of `--fail-above`.
///
/// # Errors
///
/// The document cannot be written as JSON.
pub fn json(
    comparison: &Comparison,
    growth: Option<&Growths>,
    verdict: Option<&Verdict>,
) -> anyhow::Result<String> {
    let growth = growth.map(Growths::json);
    let document = Document { memprof_diff: VERSION, comparison, growth, verdict };
    Ok(serde_json::to_string(&document)? + "\n")
}

/// Returns the components that changed by more than these floors; all components with `all`.
pub fn table(comparison: &Comparison, floors: Floors, all: bool, look: Look) -> String {
    let mut out = String::new();
    for (at, which) in ["before", "after"].into_iter().enumerate() {
        let line = format!(
            "{which:<7} {}, {} on {}",
            clean(&comparison.programs[at]),
            count(comparison.ranks[at], "rank"),
            count(comparison.nodes[at], "node")
        );
        out += &look.bold(&line);
        out.push('\n');
    }
    if comparison.ranks[0] != comparison.ranks[1] {
        out += &look.warn("The numbers of ranks differ: bytes per rank may change for that alone.");
        out.push('\n');
    }
    out.push('\n');

    let columns =
        [Align::Left, Align::Right, Align::Right, Align::Right, Align::Right, Align::Left];
    let mut peaks = Grid::new(&columns);
    peaks.row(Weight::Head, cells(["peaks, resident", "before", "after", "change", "", "where"]));
    let of_node = floors.of_node(comparison);
    for (name, change, noise) in [
        ("largest rank", &comparison.rank_max, floors.of_process()),
        ("mean of ranks", &comparison.rank_mean, floors.of_process()),
        ("largest node", &comparison.node_max, of_node),
        ("whole job", &comparison.job, floors.of_job(comparison)),
    ] {
        peaks.row(Weight::Plain, row(name, change, bytes, noise));
    }
    for node in &comparison.by_node {
        let shown = all || comparison.by_node.len() <= 8 && comparison.by_node.len() > 1;
        if shown {
            let name = format!("  {}", clean(&node.host));
            peaks.row(Weight::Plain, row(&name, &node.peak, bytes, of_node));
        }
    }
    out += &peaks.text(look);
    out.push('\n');

    let mut components = Grid::new(&columns);
    components.row(
        Weight::Head,
        cells(["component, largest rank", "before", "after", "change", "", "where"]),
    );
    let mut left_out = 0;
    for component in &comparison.components {
        let changed = |change: &Change, noise: u64| {
            change.bytes().unsigned_abs() >= u128::from(floors.least.max(noise).max(1))
        };
        let (resident, owned) = (&component.resident_max, &component.owned_max);
        if !all && !changed(resident, floors.noise) && !changed(owned, 0) {
            left_out += 1;
            continue;
        }
        let name = clean(&component.name);
        components.row(Weight::Sum, row(&name, resident, bytes, floors.noise));
        // Owned bytes are shown only where they changed differently.
        if all || changed(owned, 0) && owned.bytes() != resident.bytes() {
            components.row(Weight::Plain, row("  owned", owned, bytes, 0));
        }
        let mean = &component.resident_mean;
        if all || changed(mean, floors.noise) && mean.bytes().abs() * 2 < resident.bytes().abs() {
            components.row(Weight::Plain, row("  mean of ranks", mean, bytes, floors.noise));
        }
    }
    if !components.is_empty() {
        out += &components.text(look);
    }
    if left_out > 0 {
        let line = format!(
            "{} changed by less than {} owned, {} resident",
            count(left_out, "component"),
            bytes(floors.least),
            bytes(floors.least.max(floors.noise))
        );
        out += &look.dim(&line);
        out.push('\n');
    }
    if !comparison.phases.is_empty() {
        out.push('\n');
        let mut phases = Grid::new(&columns);
        phases.row(
            Weight::Head,
            cells(["phase, largest rank", "before", "after", "change", "", "where"]),
        );
        for phase in &comparison.phases {
            let name = clean(&phase.name);
            phases.row(Weight::Plain, row(&name, &phase.resident_max, bytes, floors.of_process()));
            if all {
                phases.row(Weight::Plain, row("  time", &phase.time_ns, time, 0));
            }
        }
        out += &phases.text(look);
    }
    out
}

fn cells<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

/// Returns true if both are the same rank or child. Processes without a number cannot be matched
/// between two jobs.
fn is_same(one: &ProcessKey, other: &ProcessKey) -> bool {
    (one.rank, one.spawned, one.child) == (other.rank, other.spawned, other.child)
}

/// Returns the row of a change, which is marked if it is less than `noise`.
fn row(name: &str, change: &Change, show: fn(u64) -> String, noise: u64) -> Vec<String> {
    let side = |value: Option<u64>| value.map_or("-".to_owned(), show);
    let by = change.bytes();
    let size = show(u64::try_from(by.unsigned_abs()).unwrap_or(u64::MAX));
    let sign = match by {
        0 => "=".to_owned(),
        1.. => format!("+{size}"),
        _ => format!("-{size}"),
    };
    let percent = match change.percent() {
        _ if by != 0 && by.unsigned_abs() < u128::from(noise) => "noise".to_owned(),
        Some(_) if by == 0 => String::new(),
        Some(percent) => format!("{percent:+.1} %"),
        None if by > 0 => "new".to_owned(),
        None => String::new(),
    };
    let place = match (&change.before_at, &change.after_at) {
        (Some(one), Some(other)) if is_same(one, other) => match other.is_numbered() {
            true => other.label(),
            false => String::new(),
        },
        (Some(one), Some(other)) => format!("{}, now {other}", one.label()),
        (None, Some(other)) => other.label(),
        (Some(one), None) => format!("{}, then", one.label()),
        (None, None) => String::new(),
    };
    vec![name.to_owned(), side(change.before), side(change.after), sign, percent, place]
}
