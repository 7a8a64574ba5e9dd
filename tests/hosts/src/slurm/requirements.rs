//! Checks whether Slurm can run on hosts of this machine.

use std::process::Command;
use std::sync::OnceLock;

use crate::requirements::why_not as why_no_hosts;

/// The programs, each with the option that prints its version.
const TOOLS: &[(&str, &str)] = &[
    ("slurmctld", "-V"),
    ("slurmd", "-V"),
    ("srun", "-V"),
    ("sinfo", "-V"),
    ("munged", "--version"),
];

/// Returns the reason why Slurm cannot run here; `None` if it can.
#[must_use]
pub fn why_not() -> Option<String> {
    static ANSWER: OnceLock<Option<String>> = OnceLock::new();
    ANSWER.get_or_init(|| why_no_hosts().or_else(|| TOOLS.iter().find_map(missing))).clone()
}

fn missing((tool, question): &(&str, &str)) -> Option<String> {
    let error = Command::new(tool).arg(question).output().err()?;
    Some(format!(
        "{tool} (package slurm-wlm) does not start: {error}; \
         `cargo xtask setup --tests` installs what is missing"
    ))
}
