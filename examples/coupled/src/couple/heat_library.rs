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
        let (context, rows) = agree(&layout.ranks, create(layout, values))?;
        let spec =
            PhaseSpec::over(over).max_per_object(max).threads(Threads::Follow).name("diffusion");
        let plan = agree(&layout.ranks, context.plan_phase(spec).map_err(Into::into))?;
        let threads = plan.assignment().map(|worker| worker.threads());
        Ok(HeatLibrary {
            problem,
            context,
            plan,
            rows,
            workers: layout.among(threads.is_some()),
            worker_count: layout.total(usize::from(threads.is_some())),
            threads: threads.unwrap_or(0),
        })
    }
}

fn create(layout: &Layout, values: usize) -> Result<(Context, Remap<f64>)> {
    let group = MpiGroup::new(&layout.ranks).context("making a group for the library")?;
    let context = Context::create(group).context("creating the library's context")?;
    same_node(&context, layout)?;
    let rows = context.remap(values).context("sharing the rows of the node")?;
    Ok((context, rows))
}

impl Coupling for HeatLibrary {
    fn workers(&self) -> usize {
        self.worker_count
    }

    fn is_worker(&self) -> bool {
        self.workers.is_some()
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn diffuse(
        &mut self,
        block: &mut FlowBlock,
        dt: f64,
        recorder: &mut Recorder,
    ) -> Result<Option<Result<l1::Solve, l1::Failure>>> {
        recorder.enter(Phase::Remap, 1);
        block.copy_rows_out(self.rows.local_mut()?);
        let phase = self.context.phase_of(&self.plan);
        if phase.assignment().is_none() {
            recorder.enter(Phase::Wait, 1);
        }
        let (problem, workers) = (&self.problem, &self.workers);
        let outcome = phase.run_on(&mut self.rows, |worker, rows| -> Result<_> {
            let Some(workers) = workers else { bail!("a worker has no communicator") };
            recorder.enter(Phase::Diffusion, worker.threads());
            Ok(problem.solve(workers, dt, rows))
        })?;
        recorder.enter(Phase::Remap, 1);
        block.copy_heat_in(self.rows.local()?);
        outcome.value.transpose()
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.context.free().context("freeing the library's context")
    }
}
