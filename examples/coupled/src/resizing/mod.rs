//! `coupled elastic`: the time-step loop of a run with changing ranks.
//!
//! | what an elastic program does | where |
//! |---|---|
//! | makes the world, marks where its size may change, knows whether it is a rank | this file |
//! | has its data moved, and continues with the new ranks | `window.rs` |
//! | waits for what a plan says | `pace.rs` |

mod pace;
mod window;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use elastic::data::Pattern;
use elastic::layout::Ranks;
use elastic::manager::{ControlSocket, ScriptedPlan};
use elastic::place::{Allowed, Bounds};
use elastic::plan::Plan;
use elastic::{Status, World, WorldOptions};
use mpi::collective::SystemOperation;
use mpi::topology::SimpleCommunicator;
use mpi::traits::CommunicatorCollectives;
use quo::group::GroupError;
use quo_mpi::communicator::Intercommunicator;

use crate::clock;
use crate::couple::{Coupling, Setup};
use crate::deck::{Deck, Variant};
use crate::fields::Fields;
use crate::flow::Mesh;
use crate::layout::{Layout, agree, rank};
use crate::result::{Bindings, Elastic, Mode, RankRecord, Resize};
use crate::run::{self, Ended, Stop, gather_values, progress};
use crate::simulation::{Progress, Simulation};
use crate::timeline::Phase;

use pace::Pace;

/// Possible numbers of ranks, and the source of resizes.
#[derive(clap::Args)]
pub struct Sizes {
    /// Ranks at the start, the others that were launched are parked; all if not given.
    #[arg(long, value_name = "RANKS")]
    initial_ranks: Option<usize>,
    /// Let it grow to so many ranks, beyond those that were launched.
    #[arg(long, value_name = "RANKS")]
    max_ranks: Option<usize>,
    /// Start processes beyond the launcher's slots.
    #[arg(long)]
    oversubscribe: bool,
    /// When it is to have which size, by steps of the flow: `at 40: size 2`.
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// File of the world's events, a line of JSON each.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Name of the job, by which `quo-elastic` finds it.
    #[arg(long)]
    name: Option<String>,
    /// Be told its size through a control socket in this folder.
    #[arg(long, value_name = "FOLDER")]
    sockets: Option<PathBuf>,
    /// Wait, step by step, for the steps of the plan.
    #[arg(long)]
    hold: bool,
    /// Wait at each of these steps until as many requests as there are steps so far have ended, whoever asked.
    #[arg(long, value_name = "STEPS", value_delimiter = ',')]
    wait_at: Vec<u64>,
}

/// A process of the run, rank or not.
struct Job<'a> {
    request: &'a run::Request,
    text: String,
    /// None in a process that was started and has not heard of the others.
    deck: Option<Deck>,
    world: World,
    pace: Pace,
    /// State of a rank.
    member: Option<Member>,
    progress: Progress,
    /// The bindings in this epoch have not been looked at.
    explains: bool,
    told: Told,
}

/// State of a rank.
struct Member {
    layout: Layout,
    simulation: Simulation,
    coupling: Box<dyn Coupling>,
}

/// Knowledge of the first rank, which never leaves, about the whole run.
#[derive(Default)]
struct Told {
    start: f64,
    ranks: usize,
    before: Option<Fields>,
    resizes: Vec<Resize>,
    bindings: Vec<Bindings>,
    /// Work of the leavers.
    leavers: Vec<RankRecord>,
}

/// Runs the deck. Made by all processes that were launched, or started, together.
///
/// # Errors
/// The same on all ranks, or one that [leaves the others no way on](is_alone).
pub fn run(
    launched: &SimpleCommunicator,
    request: &run::Request,
    sizes: &Sizes,
) -> Result<(), Stop> {
    let started = Intercommunicator::parent().map_err(anyhow::Error::from)?.is_some();
    let (mut text, mut deck, mut plan) = (String::new(), None, None);
    if !started {
        let ranks = sizes.initial_ranks.unwrap_or(crate::layout::size(launched));
        let read = run::read_deck(launched, request, ranks)?;
        (text, deck) = (read.0, Some(read.1));
        let read = || {
            run::prepare(request)?;
            sizes.plan.as_deref().map(read_plan).transpose()
        };
        plan = agree(launched, if rank(launched) == 0 { read() } else { Ok(None) })?;
    }
    let pace = Pace::new(plan.as_ref(), sizes.hold, &sizes.wait_at);
    let world = World::create(options(sizes, deck.as_ref(), plan)?).map_err(anyhow::Error::from)?;
    let mut job = Job {
        request,
        text,
        deck,
        world,
        pace,
        member: None,
        progress: Progress::default(),
        explains: true,
        told: Told::default(),
    };
    let ended = job.go();
    if let Err(error) = &ended
        && is_alone(error)
    {
        return ended.map_err(Stop::Failed);
    }
    let ranks = job.member.as_ref().map(|member| &member.layout.ranks);
    // One rank prints, before any has exited.
    let ended = ended.map_err(|error| {
        let own = !error.is::<crate::layout::Elsewhere>();
        let teller = ranks.and_then(|ranks| crate::layout::first_rank(ranks, own));
        let told = ranks.map(rank) == teller;
        Stop::Told(told.then(|| format!("{error:#}")))
    });
    if let Some(Member { coupling, .. }) = job.member.take() {
        coupling.finish()?;
    }
    job.world.end().map_err(anyhow::Error::from)?;
    ended
}

/// Returns true if the other ranks may know nothing of an error, and wait.
pub fn is_alone(error: &anyhow::Error) -> bool {
    error.is::<elastic::Error>() || error.is::<GroupError>()
}

fn read_plan(path: &Path) -> Result<Plan> {
    let named = || format!("plan {}", path.display());
    let text = std::fs::read_to_string(path).with_context(named)?;
    text.parse().with_context(named)
}

fn options(sizes: &Sizes, deck: Option<&Deck>, plan: Option<Plan>) -> Result<WorldOptions> {
    let mut options = WorldOptions::new().allow_oversubscribe(sizes.oversubscribe);
    if let Some(deck) = deck {
        let rows = deck.mesh.ny;
        let fits = move |ranks: u32| rows_held(rows, ranks as usize - 1, ranks as usize).is_ok();
        let most = u32::try_from(rows).unwrap_or(u32::MAX);
        options =
            options.allowed_sizes(Bounds::new(1, most, Allowed::If(std::sync::Arc::new(fits)))?);
    }
    if let Some(ranks) = sizes.initial_ranks {
        options = options.initial_ranks(ranks);
    }
    if let Some(ranks) = sizes.max_ranks {
        options = options.max_ranks(ranks);
    }
    if let Some(name) = &sizes.name {
        options = options.name(name);
    }
    if let Some(path) = &sizes.log {
        options = options.log(path);
    }
    if let Some(plan) = plan {
        options = options.manager(ScriptedPlan::new(plan));
    }
    if let Some(folder) = &sizes.sockets {
        options = options.manager(ControlSocket::in_folder(folder));
    }
    Ok(options)
}

/// Layout of the registered fields on the ranks, and so of the flow's blocks.
fn pattern(mesh: &Mesh) -> Pattern {
    Pattern::block_rows(mesh.ny, mesh.nx)
}

/// The rows of a rank: an error if there are none for it.
fn rows_held(rows: usize, rank: usize, ranks: usize) -> Result<std::ops::Range<usize>> {
    let lies = Pattern::block_rows(rows, 1).over(Ranks::first(ranks))?;
    let held = |rank| lies.held(rank).0;
    let first = (0..rank).map(held).sum::<usize>();
    match held(rank) {
        0 => Err(anyhow!("{rows} rows are too few for {ranks} ranks")),
        held => Ok(first..first + held),
    }
}

impl Job<'_> {
    fn go(&mut self) -> Result<()> {
        loop {
            match self.world.status() {
                Status::Parked if !self.world.wait()? => return Ok(()),
                Status::Ended => return Ok(()),
                _ => {}
            }
            let joins = self.world.status() == Status::Joining;
            if !joins && self.member.is_none() {
                // Before the first probe: a resize moves what the ranks have by then.
                self.begin()?;
            }
            if joins || self.world.probe()? {
                self.resize()?;
                continue;
            }
            self.world.report_iteration(self.progress.step as u64);
            let Some(member) = &mut self.member else { continue };
            let holds = self.pace.holds(&self.world, &member.layout, self.progress.step as u64);
            if holds {
                member.simulation.recorder.leave();
                continue;
            }
            member.simulation.recorder.resume(Phase::Flow, 1);
            if self.progress.step >= self.deck()?.time.steps {
                return self.conclude();
            }
            self.interval()?;
        }
    }

    fn deck(&self) -> Result<&Deck> {
        self.deck.as_ref().context("no deck has been told of")
    }

    fn variant(&self) -> Result<Variant> {
        Ok(self.request.variant.unwrap_or(self.deck()?.coupling.variant))
    }

    /// The state at the start, on the first ranks.
    fn begin(&mut self) -> Result<()> {
        let world = self.world.communicator().context("no rank")?.duplicate_for_rsmpi()?;
        let layout = Layout::on_nodes(&world, self.world.node());
        agree(&layout.ranks, window::in_order(&layout, &world))?;
        let deck = self.deck()?;
        let rows = agree(&layout.ranks, rows_held(deck.mesh.ny, layout.rank(), layout.size()))?;
        let mut simulation = Simulation::new(deck, rows);
        let coupling = self.coupling(&layout, &simulation)?;
        let before = simulation.gather(&layout);
        layout.ranks.barrier();
        if layout.rank() == 0 {
            let (start, ranks) = (clock::now(), layout.size());
            self.told = Told { start, ranks, before: Some(before), ..Told::default() };
        }
        simulation.recorder.ask_for_bindings();
        simulation.recorder.enter(Phase::Flow, 1);
        self.member = Some(Member { layout, simulation, coupling });
        Ok(())
    }

    /// L1 over the context of the world, which goes along with it. Collective over the ranks; the first ones make
    /// the context, a joiner gets it.
    fn coupling(&self, layout: &Layout, simulation: &Simulation) -> Result<Box<dyn Coupling>> {
        let context = agree(&layout.ranks, self.world.context().map_err(Into::into))?;
        let deck = self.deck()?;
        let setup = Setup { deck, layout, values: simulation.block.rows_len() };
        setup.coupling(Mode::Quo, self.variant()?, Some(context))
    }

    /// To the end of the next step of L1.
    fn interval(&mut self) -> Result<()> {
        let Job { deck, member, progress: at, .. } = self;
        let (Some(deck), Some(member)) = (deck, member) else { return Ok(()) };
        let Member { layout, simulation, coupling } = member;
        let solve = simulation.interval(deck, layout, coupling.as_mut(), at)?;
        // The solving ranks change with the world; the first rank counts.
        let own = solve.map_or([0.0; 2], |solve| [solve.iterations as f64, solve.residual]);
        let mut all = own;
        layout.ranks.all_reduce_into(&own[..], &mut all[..], SystemOperation::max());
        at.iterations += all[0] as usize;
        at.residual = all[1];
        if self.request.progress && layout.rank() == 0 {
            progress(&format!("step {} of {}", at.step, deck.time.steps));
        }
        if std::mem::take(&mut self.explains) { self.explain_bindings() } else { Ok(()) }
    }

    /// Explains the bindings of the ranks, after the first step of L1 since the ranks are these.
    /// Collective.
    fn explain_bindings(&mut self) -> Result<()> {
        let epoch = self.world.epoch();
        let Some(Member { layout, simulation, coupling }) = &mut self.member else { return Ok(()) };
        let explains = layout.node_rank() == 0;
        let explain =
            |context: &quo::Context| -> Result<_> { Ok(serde_json::to_value(context.explain()?)?) };
        let flow = coupling.context().filter(|_| explains).map(explain).transpose();
        let told = (agree(&layout.ranks, flow)?, simulation.recorder.take_bindings());
        let all = gather_values(&layout.ranks, &told)?;
        let (flow, diffusion): (Vec<Option<_>>, Vec<Option<_>>) = all.into_iter().unzip();
        let [flow, diffusion] = [flow, diffusion].map(|told| told.into_iter().flatten().collect());
        self.told.bindings.push(Bindings { epoch, flow, diffusion });
        Ok(())
    }

    /// The result, from the last ranks and the leavers.
    fn conclude(&mut self) -> Result<()> {
        let variant = self.variant()?;
        let Some(Member { layout, simulation, coupling }) = &mut self.member else { return Ok(()) };
        simulation.recorder.leave();
        layout.ranks.barrier();
        let end = clock::now();
        let after = simulation.gather(layout);
        let record = run::record(simulation.recorder.clone(), layout, coupling.as_ref());
        let mut records: Vec<RankRecord> = gather_values(&layout.ranks, &record)?;
        let told = std::mem::take(&mut self.told);
        records.extend(told.leavers);
        let written = if let (Some(before), Some(deck)) = (told.before, &self.deck) {
            let Told { start, ranks, resizes, bindings, .. } = told;
            let progress = self.progress;
            let back_end = self.world.back_end().to_string();
            let elastic =
                Elastic { back_end, start: ranks, calendar: clock::calendar(), resizes, bindings };
            let mode = Mode::Quo;
            let run = Ended { deck, mode, variant, start, end, progress, before, after, records };
            run.conclude(self.request, layout, coupling.as_ref(), Some(elastic))
        } else {
            Ok(())
        };
        agree(&layout.ranks, written)
    }
}
