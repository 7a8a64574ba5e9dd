//! `memprof diff`: changes from one job to another, component by component.

pub mod compare;
pub mod growth;
pub mod text;

use crate::report;
use crate::terminal::{self, Look, Progress, say};
pub use compare::{
    Change, Comparison, Component, Floors, NodeChange, PhaseChange, Verdict, compare,
};
use std::path::PathBuf;
use std::process::ExitCode;

/// Compare the peaks of two jobs.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "With --fail-above the exit status is 1 where memory grew by more than that, and where traces are missing."
)]
pub struct Options {
    /// The folder of the job before
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// The folder of the job after
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    /// Fail if a component, the largest rank or the largest node grew by more than this
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub fail_above: Option<f64>,
    /// Ignore changes of fewer bytes; suffixes K, M and G
    #[arg(long, value_name = "BYTES", default_value = "64K", value_parser = bytes)]
    pub least: u64,
    /// Treat smaller changes of the resident bytes of a component as noise, and four times as large ones of a whole rank
    #[arg(long, value_name = "BYTES", default_value = "256K", value_parser = bytes)]
    pub noise: u64,
    /// Compare only this job of both folders, where scripts started several; 1 is the first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub job: Option<u32>,
    /// Show all rows of the table
    #[arg(short, long, conflicts_with = "json")]
    pub all: bool,
    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// # Errors
/// If an argument does not fit the folder, no job can be read there, or the output cannot be written.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let mut progress = Progress::new("reading the job before");
    let before = report::load_as_part(&options.before, options.job, &mut progress)?;
    progress.part("reading the job after");
    let after = report::load_as_part(&options.after, options.job, &mut progress)?;
    drop(progress);
    let comparison = compare(&before, &after);
    let floors = Floors { least: options.least, noise: options.noise };
    let growth = growth::compare(&before, &after);
    let verdict = options.fail_above.map(|percent| comparison.judge(percent, floors));
    if options.json {
        terminal::print(&text::json(&comparison, growth.as_ref(), verdict.as_ref())?)?;
    } else {
        let look = Look::stdout();
        let mut table = text::table(&comparison, floors, options.all, look);
        if let Some(growth) = &growth {
            table += &format!("\n{}", growth.table(look));
        }
        terminal::print(&table)?;
    }
    for job in [&before, &after].into_iter().filter(|job| !job.is_whole() || job.jobs.len() > 1) {
        let folder = report::table::shown(&job.folder);
        for line in report::table::missing(job, Look::plain()).lines() {
            say(&format!("{}: {}", terminal::clean(&folder), line.trim_start_matches("note: ")));
        }
    }
    let Some(verdict) = verdict else { return Ok(ExitCode::SUCCESS) };
    for grown in &verdict.grown {
        say(grown);
    }
    for side in &verdict.incomplete {
        say(&format!("traces of the job {side} are missing or damaged: it cannot be judged"));
    }
    Ok(if verdict.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(value) if value >= 0.0 && value.is_finite() => Ok(value),
        _ => Err("a percentage, 0 or more".to_owned()),
    }
}

/// Parses a number of bytes with or without a unit.
fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || "bytes, as 65536, 64K or 1.5M".to_owned();
    let text = text.trim();
    let lower = text.to_ascii_lowercase();
    let number = lower.trim_end_matches("ib").trim_end_matches('b');
    let (number, size) = match number.chars().last() {
        Some('k') => (&number[..number.len() - 1], 1u64 << 10),
        Some('m') => (&number[..number.len() - 1], 1 << 20),
        Some('g') => (&number[..number.len() - 1], 1 << 30),
        _ => (number, 1),
    };
    let value: f64 = number.trim().parse().map_err(|_| wrong())?;
    if !(0.0..=1e18).contains(&(value * size as f64)) {
        return Err(wrong());
    }
    Ok((value * size as f64) as u64)
}
