//! The command line.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use mpi::Threading;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives};

use crate::deck::{Deck, Variant};
use crate::fields::{self, Fields};
use crate::result::{Mode, RunResult};
use crate::run::{self, Stop};
use crate::{l1, layout, namelist, resizing};

#[derive(Parser)]
#[command(name = "coupled", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a deck; started by an MPI launcher.
    Run {
        /// Deck to compute.
        #[arg(long)]
        deck: PathBuf,
        /// Way in which ranks and threads meet.
        #[arg(long)]
        mode: Mode,
        /// File of the result (JSON).
        #[arg(long)]
        output: PathBuf,
        /// Caller of quo; overrides the deck.
        #[arg(long)]
        variant: Option<Variant>,
        /// In which language L1 is.
        #[arg(long = "l1", default_value = "c")]
        solver: l1::Solver,
        /// File of the final fields (binary).
        #[arg(long)]
        fields: Option<PathBuf>,
        /// Print lines of progress for a program that watches.
        #[arg(long)]
        progress: bool,
    },
    /// Run a deck on ranks that come and go; started by an MPI launcher.
    Elastic {
        /// Deck to compute.
        #[arg(long)]
        deck: PathBuf,
        /// File of the result (JSON).
        #[arg(long)]
        output: PathBuf,
        /// Caller of quo; overrides the deck.
        #[arg(long)]
        variant: Option<Variant>,
        /// In which language L1 is.
        #[arg(long = "l1", default_value = "c")]
        solver: l1::Solver,
        /// File of the final fields (binary).
        #[arg(long)]
        fields: Option<PathBuf>,
        /// Print lines of progress for a program that watches.
        #[arg(long)]
        progress: bool,
        #[command(flatten)]
        sizes: resizing::Sizes,
    },
    /// Check that two runs computed the same: results (.json) or field files.
    Compare {
        a: PathBuf,
        b: PathBuf,
        /// Largest relative difference that still passes.
        #[arg(long, default_value_t = fields::TOLERANCE)]
        tolerance: f64,
    },
    /// Check a deck; print it in another form.
    Deck {
        deck: PathBuf,
        /// As namelists, which the Fortran program reads.
        #[arg(long)]
        namelist: bool,
    },
}

/// Runs the command that the command line names.
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run { deck, mode, output, variant, solver, fields, progress } => {
            let request = run::Request { deck, mode, variant, solver, output, fields, progress };
            let run = |world: &SimpleCommunicator| run::run(world, &request);
            return run_under_mpi(Threading::Funneled, run);
        }
        Command::Elastic { deck, output, variant, solver, fields, progress, sizes } => {
            let mode = Mode::Quo;
            let run = run::Request { deck, mode, variant, solver, output, fields, progress };
            let request = resizing::Request { run, sizes };
            let run = |world: &SimpleCommunicator| resizing::run(world, &request);
            // Processes are started by a thread of their own.
            return run_under_mpi(Threading::Multiple, run);
        }
        Command::Compare { a, b, tolerance } => compare(&a, &b, tolerance),
        Command::Deck { deck, namelist } => show_deck(&deck, namelist),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&format!("{error:#}"), 1),
    }
}

fn complain(message: &str, status: u8) -> ExitCode {
    // Nothing can be done about a standard error that is closed.
    let _ = writeln!(std::io::stderr(), "coupled: {message}");
    ExitCode::from(status)
}

fn run_under_mpi(
    threads: Threading,
    run: impl FnOnce(&SimpleCommunicator) -> Result<(), Stop>,
) -> ExitCode {
    let Some((universe, _)) = mpi::initialize_with_threading(threads) else {
        return complain("MPI could not be initialised", 1);
    };
    let world = universe.world().duplicate();
    let (message, status) = match run(&world) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Stop::Told(message)) => {
            return message.map_or(ExitCode::FAILURE, |message| complain(&message, 1));
        }
        Err(Stop::Failed(error)) if resizing::is_alone(&error) => {
            complain(&format!("{error:#}"), 1);
            world.abort(1)
        }
        Err(Stop::Deck(message)) => (Some(message), 2),
        Err(Stop::Failed(error)) => {
            let own = !error.is::<layout::Elsewhere>();
            (own.then(|| format!("{error:#}")), 1)
        }
    };
    // One rank tells, and before any is gone: the launcher ends the others when the first one
    // leaves with a status.
    let teller = layout::first_rank(&world, message.is_some());
    if let Some(message) = message.filter(|_| teller == Some(layout::rank(&world))) {
        complain(&message, status);
    }
    world.barrier();
    ExitCode::from(status)
}

fn show_deck(path: &Path, as_namelist: bool) -> Result<()> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("deck {name}"))?;
    let deck = Deck::parse(&text).with_context(|| format!("deck {name}"))?;
    let shown = if as_namelist { namelist::text(&deck) } else { text };
    write!(std::io::stdout(), "{shown}")?;
    Ok(())
}

fn compare(a: &Path, b: &Path, tolerance: f64) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let (a_fields, b_fields) = match (load(a)?, load(b)?) {
        (Loaded::Fields(a), Loaded::Fields(b)) => (a, b),
        (a, b) => {
            let (a, b) = (a.checksum(), b.checksum());
            if a == b {
                writeln!(out, "identical: checksum {a}")?;
                return Ok(());
            }
            bail!("checksums {a} and {b} differ, and without field files not by how much");
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
    if worst > tolerance {
        bail!("{} and {} differ by {worst:.3e}, more than {tolerance:e}", a.display(), b.display());
    }
    Ok(())
}

enum Loaded {
    Fields(Fields),
    Checksum(String),
}

impl Loaded {
    fn checksum(&self) -> String {
        match self {
            Loaded::Fields(fields) => fields.checksum(),
            Loaded::Checksum(text) => text.clone(),
        }
    }
}

/// The fields of a run, from a field file or by way of its result; else their checksum.
fn load(path: &Path) -> Result<Loaded> {
    if path.extension().is_none_or(|extension| extension != "json") {
        return Ok(Loaded::Fields(Fields::read(path)?));
    }
    let result = RunResult::read(path)?;
    match &result.fields {
        Some(fields) => {
            let directory = path.parent().unwrap_or(Path::new(""));
            let fields = Fields::read(&directory.join(fields))
                .with_context(|| format!("the fields that {} names", path.display()))?;
            if fields.checksum() != result.checksum {
                bail!("the fields of {} are not those of its run", path.display());
            }
            Ok(Loaded::Fields(fields))
        }
        None => Ok(Loaded::Checksum(result.checksum)),
    }
}
