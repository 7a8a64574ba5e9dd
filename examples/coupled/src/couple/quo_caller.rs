//! Caller-driven: the driver itself selects workers, widens them, calls the solver, which knows
//! nothing of all this, and narrows them again. Step by step with the calls of a context.

use std::ops::Range;

use anyhow::{Context as _, Result, bail};
use mpi::topology::SimpleCommunicator;
use quo::affinity::Target;
use quo::plan::{Policy, blocks, split};
use quo::{Context, CpuSet, ObjectType};
use quo_mpi::MpiGroup;

use super::shared::SharedRows;
use super::{Coupling, Problem};
use crate::flow::FlowBlock;
use crate::l1;
use crate::layout::{Layout, agree, size};
use crate::timeline::{Phase, Recorder};

/// The driver's half of the coupling.
pub struct QuoCaller {
    problem: Problem,
    context: Context,
    over: ObjectType,
    max: usize,
    share: Share,
}

/// The part that depends on the present ranks.
struct Share {
    rows: SharedRows,
    /// For whom each worker of this node works, and which of them this rank is.
    parts: Vec<Range<usize>>,
    part: Option<usize>,
    /// Target of this rank's L1, and the ranks of all nodes that run it.
    target: Option<Target>,
    threads: usize,
    workers: Option<SimpleCommunicator>,
    worker_count: usize,
}

impl QuoCaller {
    /// At most `max` workers per object of type `over` on each node, for blocks of `values` values.
    /// Collective over all ranks.
    ///
    /// # Errors
    /// If a context or shared memory is not to be had.
    pub fn new(
        problem: Problem,
        layout: &Layout,
        values: usize,
        over: ObjectType,
        max: usize,
    ) -> Result<Self> {
        let context = agree(&layout.ranks, create(layout))?;
        Self::over(context, problem, layout, values, over, max)
    }

    /// The same with a context over these ranks that is there.
    ///
    /// # Errors
    /// If it is none, or shared memory is not to be had.
    pub fn over(
        context: Context,
        problem: Problem,
        layout: &Layout,
        values: usize,
        over: ObjectType,
        max: usize,
    ) -> Result<Self> {
        let share = Share::new(&context, layout, values, over, max)?;
        Ok(QuoCaller { problem, context, over, max, share })
    }

    fn solve_widened(
        &mut self,
        dt: f64,
        recorder: &mut Recorder,
    ) -> Result<Option<Result<l1::Solve, l1::Failure>>> {
        let QuoCaller { problem, context, share, .. } = self;
        let Share { rows, parts, part, target, threads, workers, .. } = share;
        let done = rows.lend(context, parts, *part, |rows| -> Result<_> {
            let (Some(target), Some(workers)) = (target, workers) else {
                bail!("a rank that is no worker was given work");
            };
            // All workers solve or none: the solver would wait for the one that is missing.
            let binding = agree(workers, context.push_guard(target).context("widening a worker"))?;
            problem.set_threads(*threads);
            recorder.enter(Phase::Diffusion, *threads);
            recorder.explain(context);
            let solve = problem.solve(workers, dt, rows);
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
        over: ObjectType,
        max: usize,
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
        let workers = layout.among(part.is_some());
        let worker_count = layout.total(usize::from(part.is_some()));
        let threads = threads.unwrap_or(0);
        Ok(Share { rows, parts, part, target, threads, workers, worker_count })
    }
}

fn create(layout: &Layout) -> Result<Context> {
    let group = MpiGroup::new(&layout.ranks).context("making a group for the context")?;
    Context::create(group).context("creating the context")
}

/// Blocks are in the order of node ranks only if the context sees the nodes that MPI does.
pub fn same_node(context: &Context, layout: &Layout) -> Result<()> {
    let (own, theirs) = (context.node_rank(), layout.node_rank());
    if (own, context.node_size()) != (theirs, layout.node_size()) {
        bail!("the context has other nodes than MPI: this rank is {own} on its node, not {theirs}");
    }
    Ok(())
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
    fn workers(&self) -> usize {
        self.share.worker_count
    }

    fn is_worker(&self) -> bool {
        self.share.workers.as_ref().is_some_and(|workers| size(workers) > 0)
    }

    fn threads(&self) -> usize {
        self.share.threads
    }

    fn diffuse(
        &mut self,
        block: &mut FlowBlock,
        dt: f64,
        recorder: &mut Recorder,
    ) -> Result<Option<Result<l1::Solve, l1::Failure>>> {
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
        self.share = Share::new(&self.context, layout, values, self.over, self.max)?;
        Ok(())
    }

    fn context(&self) -> Option<&Context> {
        Some(&self.context)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.context.free().context("freeing the context")
    }
}
