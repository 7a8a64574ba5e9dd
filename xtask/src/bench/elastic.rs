//! What a world that changes its size costs its ranks.

use anyhow::Result;
use quo_tests::{Job, run_compiler};
use serde_json::Value;

use super::{LIMIT, program_output};
use crate::project;

pub const HEADINGS: [&str; 3] = ["a world of two ranks on one node", "median", "budget"];

/// Name for the reader, where the program says it, the unit and the budget in it.
const ROWS: &[(&str, &str, &str, &str)] = &[
    ("probe with nothing pending", "/probe_ns", "ns", "100 ns"),
    ("grow by one parked rank, with a context", "/grow_us", "us", "1000 us"),
    ("shrink by one rank, with a context", "/shrink_us", "us", "1000 us"),
    ("grow by one started rank: the ranks stand still", "/stall_ms", "ms", "30 ms"),
    ("before that it is started", "/start_ms", "ms", ""),
    ("of which the ranks go on", "/overlap_percent", "%", "95 % or more"),
];

/// What each run of the program says.
pub fn run(rounds: u8) -> Result<Vec<Value>> {
    let mut measured = Vec::new();
    // With who is started there are three ranks: those that wait give their core away.
    let sparing = [
        ("OMPI_MCA_mpi_yield_when_idle", "1"),
        ("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1"),
        ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
    ];
    for (name, variables) in [("resize_cost", &[][..]), ("start_cost", &sparing[..])] {
        let mut cargo = project::cargo()?;
        run_compiler(cargo.args([
            "build",
            "--release",
            "--package",
            "elastic",
            "--example",
            name,
        ]))?;
        let program = project::target()?.join("release/examples").join(name);
        let job = Job::new(2, &program).limit(LIMIT);
        let job = variables.iter().fold(job, |job, (name, value)| job.env(name, value));
        for _ in 0..rounds {
            measured.push(program_output(&job)?);
        }
    }
    Ok(measured)
}

pub fn lines(measured: &[Value]) -> Vec<[String; 3]> {
    let line = |&(name, pointer, unit, budget): &(&str, &str, &str, &str)| {
        let median = super::table::median(measured, pointer).unwrap_or(f64::NAN);
        [name.to_owned(), format!("{median:.0} {unit}"), budget.to_owned()]
    };
    ROWS.iter().map(line).collect()
}
