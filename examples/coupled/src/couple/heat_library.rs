//! Callee-driven: a heat library that uses threads well whoever calls it and however it was
//! launched. It owns its context; who calls [`HeatLibrary::diffuse`] need not know of it.

use anyhow::{Context as _, Result, bail};
use mpi::topology::SimpleCommunicator;
use quo::phase::{PhasePlan, PhaseSpec, Remap, Threads};
use quo::{Context, ObjectType};
use quo_mpi::MpiGroup;

use super::quo_caller::same_node;
use super::{Coupling, Problem};
use crate::flow::FlowBlock;
use crate::l1;
use crate::layout::{Layout, agree};
use crate::timeline::{Phase, Recorder};

/// The library's state.
pub struct HeatLibrary {
    problem: Problem,
    context: Context,
    spec: PhaseSpec,
    share: Share,
}

/// The part that depends on the present ranks.
struct Share {
    plan: PhasePlan,
    rows: Remap<f64>,
    workers: Option<SimpleCommunicator>,
    worker_count: usize,
    threads: usize,
}

impl HeatLibrary {
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
        let spec =
            PhaseSpec::over(over).max_per_object(max).threads(Threads::Follow).name("diffusion");
        let share = Share::new(&context, &spec, layout, values)?;
        Ok(HeatLibrary { problem, context, spec, share })
    }
}

impl Share {
    fn new(context: &Context, spec: &PhaseSpec, layout: &Layout, values: usize) -> Result<Self> {
        let rows = same_node(context, layout)
            .and_then(|()| context.remap(values).context("sharing the rows of the node"));
        let rows = agree(&layout.ranks, rows)?;
        let plan = agree(&layout.ranks, context.plan_phase(spec.clone()).map_err(Into::into))?;
        let threads = plan.assignment().map(|worker| worker.threads());
        Ok(Share {
            plan,
            rows,
            workers: layout.among(threads.is_some()),
            worker_count: layout.total(usize::from(threads.is_some())),
            threads: threads.unwrap_or(0),
        })
    }
}

fn create(layout: &Layout) -> Result<Context> {
    let group = MpiGroup::new(&layout.ranks).context("making a group for the library")?;
    Context::create(group).context("creating the library's context")
}

impl Coupling for HeatLibrary {
    fn workers(&self) -> usize {
        self.share.worker_count
    }

    fn is_worker(&self) -> bool {
        self.share.workers.is_some()
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
        let HeatLibrary { problem, context, share, .. } = self;
        let Share { plan, rows, workers, .. } = share;
        recorder.enter(Phase::Remap, 1);
        block.copy_rows_out(rows.local_mut()?);
        let phase = context.phase_of(plan);
        if phase.assignment().is_none() {
            recorder.enter(Phase::Wait, 1);
        }
        let outcome = phase.run_on(rows, |worker, rows| -> Result<_> {
            let Some(workers) = workers else { bail!("a worker has no communicator") };
            recorder.enter(Phase::Diffusion, worker.threads());
            recorder.explain(context);
            Ok(problem.solve(workers, dt, rows))
        })?;
        recorder.enter(Phase::Remap, 1);
        block.copy_heat_in(rows.local()?);
        outcome.value.transpose()
    }

    fn adapt(&mut self, layout: &Layout, values: usize) -> Result<()> {
        self.share = Share::new(&self.context, &self.spec, layout, values)?;
        Ok(())
    }

    fn context(&self) -> Option<&Context> {
        Some(&self.context)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.context.free().context("freeing the library's context")
    }
}
