//! Caller-driven: the driver itself selects workers, widens them, calls the solver, which knows
//! nothing of all this, and narrows them again. Step by step with the calls of a context.

use std::ops::Range;

use anyhow::{Context as _, Result, bail};
use quo::affinity::Target;
use quo::plan::{Policy, blocks, split};
use quo::{Context, CpuSet, ObjectType};

use super::shared::SharedRows;
use super::{Coupling, Setup, Step, Team, same_node};
use crate::flow::FlowBlock;
use crate::l1::{self, Problem};
use crate::layout::{Layout, agree};
use crate::timeline::{Phase, Recorder};

/// The driver's half of the coupling.
pub struct QuoCaller {
    problem: Problem,
    context: Context,
    spread: (ObjectType, usize),
    share: Share,
}

/// The part that depends on the present ranks.
struct Share {
    rows: SharedRows,
    /// The ranks that each worker of this node works for, and this rank's place among the workers.
    parts: Vec<Range<usize>>,
    part: Option<usize>,
    /// Target of this rank's L1.
    target: Option<Target>,
    team: Team,
}

impl QuoCaller {
    /// Over the context `given`, or a new one. Collective over all ranks.
    ///
    /// # Errors
    /// If a context or shared memory is not to be had.
    pub fn new(setup: &Setup<'_>, given: Option<Context>) -> Result<Self> {
        let (context, spread) = (setup.context(given)?, setup.spread());
        let share = Share::new(&context, setup.layout, setup.values, spread)?;
        Ok(QuoCaller { problem: setup.problem(), context, spread, share })
    }

    fn solve_widened(&mut self, dt: f64, recorder: &mut Recorder) -> Result<Step> {
        let QuoCaller { problem, context, share, .. } = self;
        let Share { rows, parts, part, target, team } = share;
        let done = rows.lend(context, parts, *part, |rows| -> Result<_> {
            let (Some(target), Some(workers)) = (target, &team.workers) else {
                bail!("a rank that is no worker was given work");
            };
            // All workers solve or none: the solver would wait for the one that is missing.
            let binding = agree(workers, context.push_guard(target).context("widening a worker"))?;
            l1::set_threads(team.threads);
            recorder.enter(Phase::Diffusion, team.threads);
            recorder.explain(context);
            let solve = problem.solve(Some(workers), dt, rows);
            binding.pop().context("narrowing a worker")?;
            Ok(solve)
        })?;
        done.transpose()
    }
}

impl Share {
    fn new(
        context: &Context,
        layout: &Layout,
        values: usize,
        (over, max): (ObjectType, usize),
    ) -> Result<Self> {
        let rows = same_node(context, layout).and_then(|()| {
            SharedRows::new(context, values).context("sharing the rows of the node")
        });
        let rows = agree(&layout.ranks, rows)?;
        let selection = context.distribute(over, max, Policy::Spread);
        let selection = agree(&layout.ranks, selection.map_err(Into::into))?;
        let selected = selection.selected();
        let parts = blocks(context.node_size(), &selected);
        let part = selected.iter().position(|rank| *rank == context.node_rank());
        let target =
            selection.object_of.get(context.node_rank()).copied().flatten().map(|object| {
                let together = selection.workers_on(object);
                target_on(context, over, object, &together)
            });
        let target = agree(&layout.ranks, target.transpose())?;
        let (target, threads) = target.unzip();
        let team = Team::new(layout, threads);
        Ok(Share { rows, parts, part, target, team })
    }
}

/// Place of a worker on an object and its number of threads: the whole object, or its part of it if
/// there are other workers on the same object.
fn target_on(
    context: &Context,
    over: ObjectType,
    object: usize,
    together: &[usize],
) -> Result<(Target, usize)> {
    let topology = context.topology();
    let whole = topology.object(over, object)?.cpuset.intersection(topology.allowed());
    let Some(place) = together.iter().position(|rank| *rank == context.node_rank()) else {
        bail!("this rank is not among the workers of {over} {object}");
    };
    if together.len() == 1 {
        return Ok((Target::Object(over, object), whole.len()));
    }
    let cores: Vec<CpuSet> =
        topology.objects(ObjectType::Core).iter().map(|core| core.cpuset.clone()).collect();
    let parts = split(&whole, &cores, together.len())?;
    // More workers than CPUs: those left over share all of them.
    let cpus = parts.into_iter().nth(place).filter(|part| !part.is_empty()).unwrap_or(whole);
    let threads = cpus.len();
    Ok((Target::Cpus(cpus), threads))
}

impl Coupling for QuoCaller {
    fn team(&self) -> &Team {
        &self.share.team
    }

    fn diffuse(&mut self, block: &mut FlowBlock, dt: f64, recorder: &mut Recorder) -> Result<Step> {
        recorder.enter(Phase::Remap, 1);
        block.copy_rows_out(self.share.rows.own());
        if self.share.part.is_none() {
            recorder.enter(Phase::Wait, 1);
        }
        let solve = self.solve_widened(dt, recorder)?;
        recorder.enter(Phase::Remap, 1);
        block.copy_heat_in(self.share.rows.own());
        Ok(solve)
    }

    fn adapt(&mut self, layout: &Layout, values: usize) -> Result<()> {
        self.share = Share::new(&self.context, layout, values, self.spread)?;
        Ok(())
    }

    fn context(&self) -> Option<&Context> {
        Some(&self.context)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.context.free().context("freeing the context")
    }
}
