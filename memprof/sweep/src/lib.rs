//! `memprof sweep`: the same program at several numbers of ranks, and how each component grows with them.

mod fit;
mod fits;
mod gather;
mod runs;
pub mod text;

use anyhow::{Context, bail};
pub use fit::{Coefficient, Fit, Law, Measured, Prediction, fit};
pub use fits::{At, NodeAt, Part};
pub use gather::{Growth, Metric, Study, gather};
use memprof::output;
use memprof::terminal::{self, Look, say};
use quo_terminal::child as signals;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Fit bytes per rank against the number of ranks.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
An interrupted sweep resumes if the same command is given again.
With --from, folders of jobs that are there are used and nothing is run.")]
pub struct Options {
    /// Numbers of ranks
    #[arg(short = 'n', long, value_name = "N,N", value_delimiter = ',', required_unless_present = "from",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub ranks: Vec<u32>,
    // Clap makes a new line of `{n}` in a description, but not in a default.
    /// Launcher; n in braces becomes the number of ranks, without it `-n N` is appended
    #[arg(long, value_name = "TEXT", default_value = "mpirun -n {n}")]
    pub mpirun: String,
    /// Number of runs for each number of ranks
    #[arg(long, value_name = "TIMES", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeat: u32,
    /// Folder for the jobs and the results
    #[arg(short, long, value_name = "DIR", required_unless_present = "from")]
    pub output: Option<PathBuf>,
    /// Folders of jobs to use instead of running anything
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with_all = ["ranks", "mpirun", "repeat", "command"])]
    pub from: Vec<PathBuf>,
    /// Peak to fit: resident or owned, the mean of ranks; resident-max or owned-max, of the rank with most
    #[arg(long, value_name = "WHAT", default_value = "resident", hide_possible_values = true)]
    pub metric: Metric,
    /// Predict for N ranks; with N/NODES, whether they fit
    #[arg(long, value_name = "N,N/NODES", value_delimiter = ',')]
    pub at: Vec<At>,
    /// Show all rows of the table
    #[arg(short, long)]
    pub all: bool,
    /// Print everything as JSON instead of the table
    #[arg(long)]
    pub json: bool,
    /// The program and its arguments, without launcher
    #[arg(last = true, required_unless_present = "from", value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Runs the command.
///
/// # Errors
/// If a run fails, its job cannot be read, or the output cannot be written.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    if options.metric != Metric::Resident && options.at.iter().any(|at| at.nodes.is_some()) {
        bail!("--at RANKS/NODES needs --metric resident");
    }
    let folders = match options.from.as_slice() {
        [] => match runs::run(options)? {
            runs::Outcome::Done(folders) => folders,
            runs::Outcome::Stopped(status) => return Ok(ExitCode::from(signals::end_like(status))),
        },
        from => from.to_vec(),
    };
    let study = gather(&folders, options.metric)?;
    if study.counts.len() < 3 {
        say("fewer than three numbers of ranks: no law can be tested");
    }
    let json = text::json(&study, &options.at)?;
    let picture = text::picture(&study);
    if let Some(folder) = &options.output {
        quo_files::Folder::make(folder, quo_files::Access::ReadOnly)
            .with_context(|| format!("cannot use {}", folder.display()))?;
        for (name, content) in [
            ("sweep.json", json.as_bytes()),
            ("sweep.svg", picture.as_bytes()),
            ("sweep.txt", text::table(&study, &options.at, true, Look::plain()).as_bytes()),
        ] {
            output::write(&folder.join(name), content)?;
        }
        say(&format!("wrote sweep.json, sweep.svg and sweep.txt in {}", folder.display()));
    }
    match options.json {
        true => terminal::print(&json)?,
        false => terminal::print(&text::table(&study, &options.at, options.all, Look::stdout()))?,
    };
    if study.growths.is_empty() {
        bail!("none of the jobs recorded anything");
    }
    Ok(ExitCode::SUCCESS)
}
