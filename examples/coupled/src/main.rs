//! A coupled program run three ways: an explicit flow solver that wants a rank per core, and an
//! implicit diffusion solver that wants few ranks with many threads.

mod clock;
mod couple;
mod deck;
mod demo;
mod fields;
mod flow;
mod l1;
mod launch;
mod layout;
mod machine;
mod model;
mod namelist;
mod report;
mod resizing;
mod result;
mod run;
mod runtime;
mod sample;
mod simulation;
mod timeline;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use mpi::Threading;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives};

use deck::{Deck, Variant};
use fields::Fields;
use report::{Measured, Report};
use result::{Mode, RunResult};
use run::Stop;

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
    /// Show the times of runs of one deck: a table, a page, a picture.
    Report {
        /// Results of `run`.
        #[arg(required = true)]
        results: Vec<PathBuf>,
        /// File of the page.
        #[arg(long)]
        html: Option<PathBuf>,
        /// File of the picture of cores.
        #[arg(long)]
        svg: Option<PathBuf>,
    },
    /// Draw how the ranks of an elastic run came and went.
    Timeline {
        /// A result of `elastic`.
        result: PathBuf,
        /// Memory of its processes: `memprof export --format json` of the same run.
        #[arg(long, value_name = "FILE")]
        memory: Option<PathBuf>,
        /// File of the picture.
        #[arg(long)]
        svg: PathBuf,
    },
    /// Check a deck; print it in another form.
    Deck {
        deck: PathBuf,
        /// As namelists, which the Fortran program reads.
        #[arg(long)]
        namelist: bool,
    },
    /// Run a deck in all three modes on this machine, compare and report.
    Demo {
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
        /// The MPI launcher, of the MPI this program was built with.
        #[arg(long, default_value = "mpirun")]
        mpirun: PathBuf,
        /// Seconds that a mode may take.
        #[arg(long, default_value_t = 600)]
        timeout: u64,
    },
}

fn main() -> ExitCode {
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
        Command::Report { results, html, svg } => show(&results, html.as_deref(), svg.as_deref()),
        Command::Timeline { result, memory, svg } => {
            draw_timeline(&result, memory.as_deref(), &svg)
        }
        Command::Deck { deck, namelist } => show_deck(&deck, namelist),
        Command::Demo { deck, out, ranks, variant, mpirun, timeout } => {
            demo::demo(&demo::Request {
                deck,
                out,
                ranks,
                variant,
                mpirun,
                timeout: Duration::from_secs(timeout),
            })
        }
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

fn show(results: &[PathBuf], html: Option<&Path>, svg: Option<&Path>) -> Result<()> {
    let runs: Result<Vec<Measured>> = results.iter().map(|path| Measured::read(path)).collect();
    let report = Report::new(runs?);
    report::write(&report, html, svg)?;
    write!(std::io::stdout(), "{}", report::table::text(&report))?;
    Ok(())
}

fn draw_timeline(result: &Path, memory: Option<&Path>, svg: &Path) -> Result<()> {
    let run = RunResult::read(result)?;
    let memory = memory.map(report::resizes::Memory::read).transpose()?;
    let picture = report::resizes::picture(&run, memory.as_ref());
    let picture = picture.with_context(|| format!("the ranks of {} stayed", result.display()))?;
    std::fs::write(svg, picture + "\n")
        .with_context(|| format!("writing the picture {}", svg.display()))
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
