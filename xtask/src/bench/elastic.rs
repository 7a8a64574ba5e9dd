//! Cost of a world's resizes for its ranks.

use std::path::PathBuf;

use anyhow::Result;
use quo_tests::{Job, run_compiler};
use serde_json::Value;

use super::{LIMIT, program_output};
use crate::{project, release};

pub const HEADINGS: [&str; 3] = ["a world of two ranks on one node", "median", "budget"];

/// Four processes change size every ten iterations: parameters of the thesis, on one node.
const SYNTHETIC: [&str; 6] =
    ["start=1", "limit=4", "delta=1", "every=10", "iterations=80", "elements=1000000"];

/// A bound on a median.
#[derive(Clone, Copy)]
enum Budget {
    None,
    AtMost(f64),
    AtLeast(f64),
}

use Budget::{AtLeast, AtMost};

/// Label, path in the program's output, unit and budget of each row.
const ROWS: &[(&str, &str, &str, Budget)] = &[
    ("probe with nothing pending", "/probe_ns", "ns", AtMost(100.0)),
    ("a round of a program, more than of a loop by hand", "/driver_more_ns", "ns", Budget::None),
    ("grow by one parked rank, with a context", "/grow_us", "us", AtMost(1000.0)),
    ("shrink by one rank, with a context", "/shrink_us", "us", AtMost(1000.0)),
    ("grow by one started rank: the ranks stand still", "/stall_ms", "ms", AtMost(30.0)),
    ("before that it is started", "/start_ms", "ms", Budget::None),
    ("of which the ranks go on", "/overlap_percent", "%", AtLeast(95.0)),
    ("arrays in blocks move, of memcpy into memory as new", "/shared_blocks", "", AtLeast(0.7)),
    ("arrays in turns, in columns", "/shared_turns", "", AtLeast(0.7)),
    ("the slowest, of memcpy into memory in use", "/shared_in_use", "", Budget::None),
    ("in messages, as between nodes, of one MPI message", "/messages_blocks", "", Budget::None),
    ("arrays in turns, in columns", "/messages_turns", "", Budget::None),
    ("moved in the background: the ranks compute", "/computed_percent", "%", Budget::None),
    ("a look at it takes at most", "/longest_ms", "ms", Budget::None),
];

/// Runs the program several times and returns the output of each run.
pub fn run(rounds: u8) -> Result<Vec<Value>> {
    let mut measured = Vec::new();
    // With a started process there are three ranks: waiting ranks yield their cores.
    let sparing = [
        ("OMPI_MCA_mpi_yield_when_idle", "1"),
        ("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1"),
        ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
    ];
    let programs: [(_, _, &[&str], &[_]); 6] = [
        ("elastic", "resize_cost", &[], &[]),
        ("elastic-program", "program_cost", &[], &[]),
        ("elastic", "start_cost", &[], &sparing),
        ("elastic", "move_speed", &["shared", "64"], &[]),
        ("elastic", "move_speed", &["messages", "64"], &[]),
        ("elastic", "move_speed", &["background", "64"], &[]),
    ];
    for (package, name, words, variables) in programs {
        let program = built(package, name)?;
        let job = Job::new(2, &program).limit(LIMIT);
        let job = words.iter().fold(job, |job, word| job.arg(word));
        let job = variables.iter().fold(job, |job, (name, value)| job.env(name, value));
        for _ in 0..rounds {
            measured.push(program_output(&job)?);
        }
    }
    Ok(measured)
}

/// Runs the synthetic benchmark and returns its lines on each change, one mode after the other.
pub fn synthetic() -> Result<String> {
    let program = built("elastic", "synthetic")?;
    let mut said = String::new();
    for mode in ["mode=inc", "mode=step"] {
        let job = SYNTHETIC.iter().fold(Job::new(4, &program), |job, word| job.arg(word));
        let outcome = job.arg(mode).limit(LIMIT).run()?;
        outcome.expect_success()?;
        said += &format!("synthetic {mode} {}\n{}", SYNTHETIC.join(" "), outcome.stdout);
    }
    Ok(said)
}

/// Builds an example of a package.
pub fn built(package: &str, example: &str) -> Result<PathBuf> {
    let words = ["--package", package, "--example", example];
    run_compiler(release::cargo()?.args(words))?;
    Ok(project::target()?.join("release/examples").join(example))
}

pub fn lines(measured: &[Value]) -> Vec<[String; 3]> {
    let line = |&(name, pointer, unit, budget): &(&str, &str, &str, Budget)| {
        let median = super::table::median(measured, pointer).unwrap_or(f64::NAN);
        let median_said = match unit {
            "" => format!("{median:.2}"),
            "ns" | "us" => format!("{median:.0} {unit}"),
            _ => format!("{median:.1} {unit}"),
        };
        [name.to_owned(), median_said.trim_end().to_owned(), budget.against(median, unit)]
    };
    ROWS.iter().map(line).collect()
}

impl Budget {
    fn against(self, median: f64, unit: &str) -> String {
        let (is_met, word, limit) = match self {
            Self::None => return String::new(),
            AtMost(limit) => (median <= limit, "at most", limit),
            AtLeast(limit) => (median >= limit, "at least", limit),
        };
        let verdict = if is_met { "met" } else { "missed" };
        let space = if unit.is_empty() { "" } else { " " };
        format!("{word} {limit}{space}{unit}: {verdict}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_is_held_against_its_budget() {
        assert_eq!(AtMost(30.0).against(30.0, "ms"), "at most 30 ms: met");
        assert_eq!(AtLeast(0.7).against(0.69, ""), "at least 0.7: missed");
        assert_eq!(AtMost(100.0).against(f64::NAN, "ns"), "at most 100 ns: missed");
        assert_eq!(Budget::None.against(3.0, "ms"), "");
    }
}
