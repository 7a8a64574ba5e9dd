//! `coupled run`: the time-step loop.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use mpi::datatype::PartitionMut;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Root};

use crate::clock;
use crate::couple::Coupling;
use crate::deck::{Deck, Variant};
use crate::fields::Fields;
use crate::flow::halo::Halo;
use crate::flow::{DEPTH, FIELDS, FlowBlock, HEAT, rows_of};
use crate::l1;
use crate::layout::{Layout, agree, gather_bytes, offsets};
use crate::machine;
use crate::report::count;
use crate::result::{Conservation, FORMAT, Mode, RankRecord, RunResult};
use crate::runtime;
use crate::timeline::{Phase, PhaseTotal, Recorder};

/// What was asked for on the command line.
pub struct Request {
    pub deck: PathBuf,
    pub mode: Mode,
    pub variant: Option<Variant>,
    pub solver: l1::Solver,
    pub output: PathBuf,
    pub fields: Option<PathBuf>,
    pub progress: bool,
}

/// Why a run ended early; agreed by all ranks, told by one.
pub enum Stop {
    /// The deck is bad: exit status 2.
    Deck(String),
    /// Anything else: exit status 1.
    Failed(anyhow::Error),
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
pub fn run(world: &SimpleCommunicator, request: &Request) -> Result<(), Stop> {
    let text = shared_text(world, &request.deck).map_err(Stop::Deck)?;
    let name = request.deck.display();
    let in_deck = |error| Stop::Deck(format!("deck {name}: {error}"));
    let deck = Deck::parse(&text).map_err(in_deck)?;
    deck.check_ranks(&text, crate::layout::size(world)).map_err(in_deck)?;

    let layout = Layout::new(world);
    let first = layout.rank() == 0;
    agree(&layout.ranks, if first { prepare(request) } else { Ok(()) })?;
    let variant = request.variant.unwrap_or(deck.coupling.variant);
    let mut simulation = Simulation::new(&deck, &layout);
    let values = simulation.block.rows_len();
    let coupling = runtime::coupling(request.mode, variant, request.solver, &deck, &layout, values);
    let mut coupling = agree(&layout.ranks, coupling)?;

    if request.progress {
        announce(&layout);
    }
    let before = simulation.gather(&layout);
    let outcome = simulation.advance(&deck, &layout, coupling.as_mut(), request.progress)?;
    let after = simulation.gather(&layout);

    let (totals, intervals) = simulation.recorder.finish();
    let record = RankRecord {
        rank: layout.rank(),
        node: layout.node_index,
        pid: std::process::id(),
        worker: coupling.is_worker(),
        cpus: layout.masks[layout.node_rank()].to_string(),
        totals,
        intervals,
    };
    let mine = serde_json::to_vec(&record).context("forming the record of a rank");
    let mine = agree(&layout.ranks, mine)?;
    let records = gather_bytes(&layout.ranks, &mine);
    let written = if first {
        let records: Result<Vec<RankRecord>> = records
            .iter()
            .map(|bytes| serde_json::from_slice(bytes).context("reading the record of a rank"))
            .collect();
        records.and_then(|rank_records| {
            let area = deck.mesh().dx * deck.mesh().dy;
            let result = RunResult {
                format: FORMAT,
                mode: request.mode,
                variant,
                solver: request.solver,
                deck_name: file_name(&request.deck),
                deck: deck.clone(),
                machine: machine::describe(),
                ranks: layout.size(),
                nodes: layout.nodes,
                workers: coupling.workers(),
                threads: coupling.threads().max(
                    rank_records
                        .iter()
                        .flat_map(|r| &r.intervals)
                        .map(|i| i.threads)
                        .max()
                        .unwrap_or(1),
                ),
                cpus: layout.cpus,
                start: outcome.start,
                seconds: outcome.seconds,
                phases: mean_over_workers(&rank_records),
                simulated_seconds: outcome.simulated,
                solver_iterations: outcome.iterations,
                last_residual: outcome.residual,
                conservation: Conservation {
                    water_before: before.total(DEPTH) * area,
                    water_after: after.total(DEPTH) * area,
                    heat_before: before.total(HEAT) * area,
                    heat_after: after.total(HEAT) * area,
                },
                checksum: after.checksum(),
                fields: request.fields.as_ref().map(|path| relative_to(path, &request.output)),
                rank_records,
            };
            finish(request, &result, &after)
        })
    } else {
        Ok(())
    };
    agree(&layout.ranks, written)?;
    agree(&layout.ranks, coupling.finish())?;
    Ok(())
}

/// The deck's text as the first rank reads it, so that all ranks judge the same text.
fn shared_text(world: &SimpleCommunicator, path: &Path) -> Result<String, String> {
    let root = world.process_at_rank(0);
    let mut header = [0_u64; 2];
    let mut bytes = Vec::new();
    if world.rank() == 0 {
        let (failed, text) = match std::fs::read_to_string(path) {
            Ok(text) => (0, text),
            Err(error) => (1, format!("deck {}: {error}", path.display())),
        };
        bytes = text.into_bytes();
        header = [failed, bytes.len() as u64];
    }
    root.broadcast_into(&mut header[..]);
    bytes.resize(header[1] as usize, 0);
    if !bytes.is_empty() {
        root.broadcast_into(&mut bytes[..]);
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if header[0] == 0 { Ok(text) } else { Err(text) }
}

/// Finds out before the run, not after it, that results cannot be written.
fn prepare(request: &Request) -> Result<()> {
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

fn mean_over_workers(records: &[RankRecord]) -> Vec<PhaseTotal> {
    let workers: Vec<&RankRecord> = records.iter().filter(|record| record.worker).collect();
    let count = workers.len().max(1) as f64;
    let mean = |phase: Phase, value: fn(&PhaseTotal) -> f64| {
        let of = |record: &&RankRecord| -> f64 {
            record.totals.iter().filter(|total| total.phase == phase).map(value).sum()
        };
        workers.iter().map(of).sum::<f64>() / count
    };
    Phase::ALL
        .map(|phase| PhaseTotal {
            phase,
            seconds: mean(phase, |total| total.seconds),
            messages: mean(phase, |total| total.messages),
        })
        .to_vec()
}

/// Writes what was asked for and says in a few lines how it went.
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
        request.mode.name(),
        result.seconds,
        count(result.ranks, "rank"),
        result.workers,
        result.threads,
        result.solver_iterations
    )?;
    writeln!(out, "water kept to {water:+.1e}, heat to {heat:+.1e}, checksum {}", result.checksum)?;
    Ok(())
}

/// Tells who reads our output which processes of this machine take part.
fn announce(layout: &Layout) {
    let pids = gather_bytes(&layout.node, std::process::id().to_string().as_bytes());
    if layout.rank() == 0 {
        let pids: Vec<String> =
            pids.iter().map(|pid| String::from_utf8_lossy(pid).into_owned()).collect();
        progress(&format!("processes {}", pids.join(" ")));
    }
}

/// If nobody reads it any more the run goes on all the same.
fn progress(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "progress {text}").and_then(|()| out.flush());
}

struct Simulation {
    block: FlowBlock,
    halo: Halo,
    recorder: Recorder,
}

struct Outcome {
    start: f64,
    seconds: f64,
    simulated: f64,
    iterations: usize,
    residual: f64,
}

impl Simulation {
    fn new(deck: &Deck, layout: &Layout) -> Self {
        let mesh = deck.mesh();
        let rows = rows_of(mesh.ny, layout.rank(), layout.size());
        let block = FlowBlock::new(mesh, rows, deck.water.gravity, &deck.initial());
        Simulation { halo: Halo::new(&block), block, recorder: Recorder::new() }
    }

    /// All fields of the mesh on the first rank (empty on the others).
    fn gather(&self, layout: &Layout) -> Fields {
        let mesh = *self.block.mesh();
        let root = layout.ranks.process_at_rank(0);
        let mut own = vec![0.0; self.block.local_rows() * mesh.nx];
        let first = layout.rank() == 0;
        let values = std::array::from_fn::<_, FIELDS, _>(|field| {
            self.block.copy_out(field, &mut own);
            if !first {
                root.gather_varcount_into(&own[..]);
                return Vec::new();
            }
            let count = |rank| (rows_of(mesh.ny, rank, layout.size()).len() * mesh.nx) as i32;
            let counts: Vec<i32> = (0..layout.size()).map(count).collect();
            let starts = offsets(&counts);
            let mut all = vec![0.0; mesh.nx * mesh.ny];
            let mut parts = PartitionMut::new(&mut all[..], &counts[..], &starts[..]);
            root.gather_varcount_into_root(&own[..], &mut parts);
            all
        });
        Fields { nx: mesh.nx, ny: mesh.ny, values }
    }

    fn advance(
        &mut self,
        deck: &Deck,
        layout: &Layout,
        coupling: &mut dyn Coupling,
        report: bool,
    ) -> Result<Outcome> {
        let (steps, every) = (deck.time.steps, deck.coupling.every);
        let first = layout.rank() == 0;
        let (mut simulated, mut since, mut iterations, mut residual) = (0.0, 0.0, 0, 0.0);
        layout.ranks.barrier();
        let start = clock::now();
        let mut told = start;
        self.recorder.enter(Phase::Flow, 1);
        for step in 1..=steps {
            let dt = self.flow_step(deck.time.cfl, &layout.ranks)?;
            simulated += dt;
            since += dt;
            if step % every != 0 && step != steps {
                continue;
            }
            self.recorder.add_messages(self.halo.take_waited().as_secs_f64());
            let solve = coupling.diffuse(&mut self.block, since, &mut self.recorder);
            self.recorder.enter(Phase::Flow, 1);
            let solve = agree(&layout.ranks, solve)?;
            let failure = solve.and_then(|solve| solve.err());
            self.agree_on_failure(failure, &layout.ranks)
                .with_context(|| format!("after {step} steps"))?;
            if let Some(Ok(solve)) = solve {
                iterations += solve.iterations;
                residual = solve.residual;
            }
            since = 0.0;
            if report && first && clock::now() - told > 0.1 {
                told = clock::now();
                progress(&format!("step {step} of {steps}"));
            }
        }
        self.recorder.leave();
        layout.ranks.barrier();
        Ok(Outcome { start, seconds: clock::now() - start, simulated, iterations, residual })
    }

    /// One step of the flow; returns its length in seconds.
    fn flow_step(&mut self, cfl: f64, ranks: &SimpleCommunicator) -> Result<f64> {
        self.halo.exchange(&mut self.block, ranks);
        let fastest = self.block.derive();
        let fastest = self.halo.largest(fastest, ranks);
        if !(fastest > 0.0 && fastest.is_finite()) {
            bail!("the flow has become unstable: its fastest wave has speed {fastest}");
        }
        let dt = cfl / fastest;
        self.block.advance(dt);
        Ok(dt)
    }

    fn agree_on_failure(
        &mut self,
        failure: Option<l1::Failure>,
        ranks: &SimpleCommunicator,
    ) -> Result<()> {
        let code = failure.map_or(0, |failure| failure as i32);
        let worst = self.halo.largest(f64::from(code), ranks);
        match l1::Failure::from_code(worst as i32) {
            Some(failure) => Err(failure.into()),
            None => Ok(()),
        }
    }
}
