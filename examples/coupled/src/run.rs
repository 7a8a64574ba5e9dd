//! `coupled run`: the time-step loop.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use mpi::topology::SimpleCommunicator;
use mpi::traits::CommunicatorCollectives;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::clock;
use crate::couple::{Coupling, Setup};
use crate::deck::{Deck, Variant};
use crate::fields::Fields;
use crate::flow::{DEPTH, HEAT, rows_of};
use crate::layout::{Layout, agree, gather_bytes};
use crate::result::{Conservation, Elastic, FORMAT, Mode, RankRecord, RunResult, count};
use crate::simulation::{Progress, Simulation};
use crate::timeline::{Phase, Recorder};

/// The request on the command line.
#[derive(clap::Args)]
pub struct Request {
    /// Deck to compute.
    #[arg(long)]
    pub deck: PathBuf,
    /// File of the result (JSON).
    #[arg(long)]
    pub output: PathBuf,
    /// Caller of quo; overrides the deck.
    #[arg(long)]
    pub variant: Option<Variant>,
    /// File of the final fields (binary).
    #[arg(long)]
    pub fields: Option<PathBuf>,
    /// Print lines of progress for a program that watches.
    #[arg(long)]
    pub progress: bool,
}

/// Why a run ended early; agreed by all ranks, reported by one.
pub enum Stop {
    /// The deck is bad: exit status 2.
    Deck(String),
    /// Anything else: exit status 1.
    Failed(anyhow::Error),
    /// The same where all ranks know, and have chosen the reporting rank.
    Told(Option<String>),
}

impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Self {
        Stop::Failed(error)
    }
}

/// Runs the deck. Collective over `world`.
///
/// # Errors
/// The same on all ranks.
pub fn run(world: &SimpleCommunicator, mode: Mode, request: &Request) -> Result<(), Stop> {
    let (_, deck) = read_deck(world, request, crate::layout::size(world))?;
    let layout = Layout::new(world);
    let first = layout.rank() == 0;
    agree(&layout.ranks, if first { prepare(request) } else { Ok(()) })?;
    let variant = request.variant.unwrap_or(deck.coupling.variant);
    let rows = rows_of(deck.mesh.ny, layout.rank(), layout.size());
    let mut simulation = Simulation::new(&deck, rows);
    let values = simulation.block.rows_len();
    let setup = Setup { deck: &deck, layout: &layout, values };
    let mut coupling = agree(&layout.ranks, setup.coupling(mode, variant, None))?;

    if request.progress {
        announce(&layout);
    }
    let before = simulation.gather(&layout);
    let (start, end, progress) =
        advance(&mut simulation, &deck, &layout, coupling.as_mut(), request.progress)?;
    let after = simulation.gather(&layout);

    let record = record(simulation.recorder, &layout, coupling.as_ref());
    let records = gather_values(&layout.ranks, &record)?;
    let written = if first {
        let deck = &deck;
        let run = Ended { deck, mode, variant, start, end, progress, before, after, records };
        run.conclude(request, &layout, coupling.as_ref(), None)
    } else {
        Ok(())
    };
    agree(&layout.ranks, written)?;
    agree(&layout.ranks, coupling.finish())?;
    Ok(())
}

/// Returns the record of this rank's work.
pub fn record(recorder: Recorder, layout: &Layout, coupling: &dyn Coupling) -> RankRecord {
    let (totals, intervals) = recorder.finish();
    RankRecord {
        rank: layout.rank(),
        node: layout.node_index,
        pid: std::process::id(),
        worker: coupling.team().workers.is_some(),
        cpus: layout.masks[layout.node_rank()].to_string(),
        totals,
        intervals,
    }
}

/// Gathers the values of all ranks, by rank. Collective.
///
/// # Errors
/// The same on all ranks.
pub fn gather_values<T: Serialize + DeserializeOwned>(
    ranks: &SimpleCommunicator,
    mine: &T,
) -> Result<Vec<T>> {
    let mine = agree(ranks, serde_json::to_vec(mine).context("forming what a rank tells"))?;
    let all = gather_bytes(ranks, &mine);
    let read = |bytes: &Vec<u8>| serde_json::from_slice(bytes).context("reading what a rank told");
    agree(ranks, all.iter().map(read).collect())
}

/// A completed run, on the first rank.
pub struct Ended<'a> {
    pub deck: &'a Deck,
    pub mode: Mode,
    pub variant: Variant,
    /// When the time-step loop began and ended, in seconds of the monotonic clock.
    pub start: f64,
    pub end: f64,
    pub progress: Progress,
    pub before: Fields,
    pub after: Fields,
    pub records: Vec<RankRecord>,
}

impl Ended<'_> {
    /// Writes the result and says how it went.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn conclude(
        self,
        request: &Request,
        layout: &Layout,
        coupling: &dyn Coupling,
        elastic: Option<Elastic>,
    ) -> Result<()> {
        let Ended { deck, mode, variant, start, end, progress, before, after, records } = self;
        let area = deck.mesh().dx * deck.mesh().dy;
        let Progress { simulated, iterations, residual, .. } = progress;
        let threads = records.iter().flat_map(|record| &record.intervals).map(|i| i.threads).max();
        let result = RunResult {
            format: FORMAT,
            mode,
            variant,
            deck_name: file_name(&request.deck),
            deck: deck.clone(),
            ranks: layout.size(),
            nodes: layout.nodes,
            workers: coupling.team().count,
            threads: coupling.team().threads.max(threads.unwrap_or(1)),
            cpus: layout.cpus,
            start,
            seconds: end - start,
            simulated_seconds: simulated,
            solver_iterations: iterations,
            last_residual: residual,
            conservation: Conservation {
                water_before: before.total(DEPTH) * area,
                water_after: after.total(DEPTH) * area,
                heat_before: before.total(HEAT) * area,
                heat_after: after.total(HEAT) * area,
            },
            checksum: after.checksum(),
            fields: request.fields.as_ref().map(|path| relative_to(path, &request.output)),
            rank_records: records,
            elastic,
        };
        finish(request, &result, &after)
    }
}

/// The deck and its text as the first rank reads it, so that all ranks judge the same text. Collective.
///
/// # Errors
/// If it cannot be read, is wrong, or has too few rows for `ranks` ranks; the same on all ranks.
pub fn read_deck(
    world: &SimpleCommunicator,
    request: &Request,
    ranks: usize,
) -> Result<(String, Deck), Stop> {
    let name = request.deck.display();
    let read = || std::fs::read_to_string(&request.deck).map_err(|error| error.to_string());
    let own = (crate::layout::rank(world) == 0).then(read);
    let text = gather_values(world, &own)?.into_iter().flatten().next();
    let text = text.context("the first rank has read no deck")?;
    let in_deck = |error: String| Stop::Deck(format!("deck {name}: {error}"));
    let text = text.map_err(in_deck)?;
    let deck = Deck::parse(&text).map_err(|error| in_deck(error.to_string()))?;
    deck.check_ranks(&text, ranks).map_err(|error| in_deck(error.to_string()))?;
    Ok((text, deck))
}

/// Finds out before the run, not after it, that results cannot be written.
pub fn prepare(request: &Request) -> Result<()> {
    for path in std::iter::once(&request.output).chain(&request.fields) {
        std::fs::File::create(path)
            .with_context(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(())
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// `path` as seen from the directory of `base`, if it is below it.
fn relative_to(path: &Path, base: &Path) -> PathBuf {
    let directory = base.parent().unwrap_or(Path::new(""));
    path.strip_prefix(directory).unwrap_or(path).to_path_buf()
}

/// Writes the requested files and prints a short summary of the run.
fn finish(request: &Request, result: &RunResult, fields: &Fields) -> Result<()> {
    if let Some(path) = &request.fields {
        fields.write(path)?;
    }
    result.write(&request.output)?;
    let (water, heat) = result.conservation.drift();
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{}: {:.3} s on {}, L1 on {} x {} threads, {} iterations",
        result.mode.name(),
        result.seconds,
        count(result.ranks, "rank"),
        result.workers,
        result.threads,
        result.solver_iterations
    )?;
    writeln!(out, "water kept to {water:+.1e}, heat to {heat:+.1e}, checksum {}", result.checksum)?;
    Ok(())
}

/// Prints the processes of this machine that take part, for the reader of the output.
fn announce(layout: &Layout) {
    let pids = gather_bytes(&layout.node, std::process::id().to_string().as_bytes());
    if layout.rank() == 0 {
        let pids: Vec<String> =
            pids.iter().map(|pid| String::from_utf8_lossy(pid).into_owned()).collect();
        progress(&format!("processes {}", pids.join(" ")));
    }
}

/// A line for people.
///
/// # Errors
/// If it cannot be written.
pub fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).context("writing to the standard output")
}

/// If the reader is gone the run continues.
pub fn progress(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "progress {text}").and_then(|()| out.flush());
}

/// The time-step loop: when it began and ended, and where.
fn advance(
    simulation: &mut Simulation,
    deck: &Deck,
    layout: &Layout,
    coupling: &mut dyn Coupling,
    report: bool,
) -> Result<(f64, f64, Progress)> {
    let steps = deck.time.steps;
    let mut at = Progress::default();
    layout.ranks.barrier();
    let start = clock::now();
    let mut told = start;
    simulation.recorder.enter(Phase::Flow, 1);
    while at.step < steps {
        if let Some(solve) = simulation.interval(deck, layout, coupling, &mut at)? {
            at.iterations += solve.iterations;
            at.residual = solve.residual;
        }
        if report && layout.rank() == 0 && clock::now() - told > 0.1 {
            told = clock::now();
            progress(&format!("step {} of {steps}", at.step));
        }
    }
    simulation.recorder.leave();
    layout.ranks.barrier();
    Ok((start, clock::now(), at))
}
