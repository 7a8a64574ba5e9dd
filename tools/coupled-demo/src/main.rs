//! The demo of the coupled example: its three modes on this machine, compared, measured from outside, and reported.

mod demo;
mod fields;
mod launch;
mod model;
mod namelist;
mod report;
mod sample;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use coupled::deck::{Deck, Variant};
use coupled::result::RunResult;

use fields::Outcome;
use report::{Measured, Report};

#[derive(Parser)]
#[command(name = "coupled-demo", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a deck in all three modes on this machine, compare and report.
    Run {
        /// Deck to compute.
        #[arg(long)]
        deck: PathBuf,
        /// Directory for results and report.
        #[arg(long)]
        out: PathBuf,
        /// Ranks of the modes with a rank per core; as many as cores if not given.
        #[arg(long)]
        ranks: Option<usize>,
        /// Caller of quo; overrides the deck.
        #[arg(long)]
        variant: Option<Variant>,
        /// The MPI launcher, of the MPI the program was built with.
        #[arg(long, default_value = "mpirun")]
        mpirun: PathBuf,
        /// The program `coupled`; the one beside this program if not given.
        #[arg(long)]
        program: Option<PathBuf>,
        /// Seconds that a mode may take.
        #[arg(long, default_value_t = 600)]
        timeout: u64,
    },
    /// Show the times of runs of one deck: a table and a picture.
    Report {
        /// Results of `coupled run`.
        #[arg(required = true)]
        results: Vec<PathBuf>,
        /// File of the picture of cores.
        #[arg(long)]
        svg: Option<PathBuf>,
    },
    /// Check that two runs computed the same: results (.json) or field files.
    Compare {
        a: PathBuf,
        b: PathBuf,
        /// Largest relative difference that still passes.
        #[arg(long, default_value_t = fields::TOLERANCE)]
        tolerance: f64,
    },
    /// Check a deck and print it as namelists, which the Fortran program reads.
    Namelist { deck: PathBuf },
    /// Draw how the ranks of an elastic run came and went.
    Timeline {
        /// A result of `coupled elastic`.
        result: PathBuf,
        /// Memory of its processes: `memprof export --format json` of the same run.
        #[arg(long, value_name = "FILE")]
        memory: Option<PathBuf>,
        /// File of the picture.
        #[arg(long)]
        svg: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing can be done about a standard error that is closed.
            let _ = writeln!(std::io::stderr(), "coupled-demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Run { deck, out, ranks, variant, mpirun, program, timeout } => {
            let program = program.map_or_else(beside, Ok)?;
            let timeout = Duration::from_secs(timeout);
            demo::demo(&demo::Request { deck, out, ranks, variant, mpirun, program, timeout })
        }
        Command::Report { results, svg } => show(&results, svg.as_deref()),
        Command::Compare { a, b, tolerance } => compare(&a, &b, tolerance),
        Command::Namelist { deck } => {
            let named = || format!("deck {}", deck.display());
            let text = std::fs::read_to_string(&deck).with_context(named)?;
            let deck = Deck::parse(&text).with_context(named)?;
            Ok(write!(std::io::stdout(), "{}", namelist::text(&deck)?)?)
        }
        Command::Timeline { result, memory, svg } => {
            draw_timeline(&result, memory.as_deref(), &svg)
        }
    }
}

/// The program `coupled` of the same build.
fn beside() -> Result<PathBuf> {
    let own = std::env::current_exe().context("finding this program")?;
    Ok(own.with_file_name("coupled"))
}

fn show(results: &[PathBuf], svg: Option<&Path>) -> Result<()> {
    let runs: Result<Vec<Measured>> = results.iter().map(|path| Measured::read(path)).collect();
    let report = Report::new(runs?);
    if let Some(svg) = svg {
        report::write_picture(&report, svg)?;
    }
    write!(std::io::stdout(), "{}", report::table::text(&report))?;
    Ok(())
}

fn compare(a: &Path, b: &Path, tolerance: f64) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let (a_fields, b_fields) = match (Outcome::read(a)?, Outcome::read(b)?) {
        (Outcome::Fields(a), Outcome::Fields(b)) => (a, b),
        (a, b) => {
            let (a, b) = (a.checksum(), b.checksum());
            ensure!(
                a == b,
                "checksums {a} and {b} differ, and without field files not by how much"
            );
            return Ok(writeln!(out, "identical: checksum {a}")?);
        }
    };
    let differences = fields::compare(&a_fields, &b_fields)?;
    for difference in &differences {
        let verdict = if difference.identical { "identical" } else { "differs" };
        writeln!(
            out,
            "{:<12}{verdict:<12}largest relative difference {:.3e}",
            difference.field, difference.relative
        )?;
    }
    let worst = differences.iter().map(|difference| difference.relative).fold(0.0, f64::max);
    ensure!(
        worst <= tolerance,
        "{} and {} differ by {worst:.3e}, more than {tolerance:e}",
        a.display(),
        b.display()
    );
    Ok(())
}

fn draw_timeline(result: &Path, memory: Option<&Path>, svg: &Path) -> Result<()> {
    let run = RunResult::read(result)?;
    let memory = memory.map(report::resizes::Memory::read).transpose()?;
    let picture = report::resizes::picture(&run, memory.as_ref());
    let picture = picture.with_context(|| format!("the ranks of {} stayed", result.display()))?;
    std::fs::write(svg, picture)
        .with_context(|| format!("writing the picture {}", svg.display()))?;
    if let Some(speeds) = report::resizes::speeds(&run) {
        writeln!(std::io::stdout(), "{speeds}")?;
    }
    Ok(())
}
