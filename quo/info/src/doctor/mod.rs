//! `quo-info doctor`: what keeps quo, quo-run, memprof or a world from doing what one expects here.
//!
//! Reading (`machine`, `process`, `ranks`) and judging (`rules`, by the table `knowledge.toml`) are
//! separate: a rule sees only `facts`.
//!
//! floors: facts < knowledge = mpi < rules < report < process = machine < ranks

mod facts;
mod knowledge;
mod machine;
mod mpi;
mod process;
mod ranks;
mod report;
mod rules;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use crate::output;
use facts::Facts;

#[derive(Args)]
pub struct Options {
    /// Print JSON: the situations and everything that was seen
    #[arg(long)]
    json: bool,
    /// Time for the command until MPI begins
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Record this process, a rank that the doctor examines
    #[arg(long, hide = true, exclusive = true)]
    rank: bool,
    /// Examine this command, up to the beginning of MPI
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the command. The status is 1 if something will not work.
///
/// # Errors
/// If the command to examine cannot be started.
pub fn run(options: &Options) -> Result<ExitCode> {
    if options.rank {
        return ranks::record().map(|()| ExitCode::SUCCESS);
    }
    ranks::check_side(&options.command)?;
    let mut facts = Facts {
        machine: machine::read(),
        here: process::read("quo-info", Vec::new(), None),
        built_for: built_for(),
        ..Facts::default()
    };
    if !options.command.is_empty() {
        ranks::examine(&options.command, Duration::from_secs(options.timeout), &mut facts)?;
    }
    let lines = report::lines(rules::recognise(&facts), &facts);
    if options.json {
        output::json(&report::json(&lines, &facts)?)?;
    } else {
        output::text(&report::text(&lines, &facts, output::width()))?;
    }
    let works = !report::has_errors(&lines, &facts);
    Ok(if works { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the MPI that libquo was built for.
fn built_for() -> Option<String> {
    #[cfg(feature = "mpi")]
    return Some(quo_mpi::built_for().to_string());
    #[cfg(not(feature = "mpi"))]
    None
}
