//! What a world that changes its size costs its ranks.

use anyhow::Result;
use quo_tests::{Job, run_compiler};
use serde_json::Value;

use super::{LIMIT, program_output};
use crate::project;

pub const HEADINGS: [&str; 3] = ["a world of two ranks on one node", "median", "budget"];

/// Name for the reader, where the program says it, the unit and the budget in it.
const ROWS: &[(&str, &str, &str, f64)] = &[
    ("probe with nothing pending", "/probe_ns", "ns", 100.0),
    ("grow by one parked rank, with a context", "/grow_us", "us", 1000.0),
    ("shrink by one rank, with a context", "/shrink_us", "us", 1000.0),
];

/// What each run of the program says.
pub fn run(rounds: u8) -> Result<Vec<Value>> {
    let mut cargo = project::cargo()?;
    let build = ["build", "--release", "--package", "elastic", "--example", "resize_cost"];
    run_compiler(cargo.args(build))?;
    let program = project::target()?.join("release/examples/resize_cost");
    (0..rounds).map(|_| program_output(&Job::new(2, &program).limit(LIMIT))).collect()
}

pub fn lines(measured: &[Value]) -> Vec<[String; 3]> {
    let line = |&(name, pointer, unit, budget): &(&str, &str, &str, f64)| {
        let median = super::table::median(measured, pointer).unwrap_or(f64::NAN);
        [name.to_owned(), format!("{median:.0} {unit}"), format!("{budget:.0} {unit}")]
    };
    ROWS.iter().map(line).collect()
}
