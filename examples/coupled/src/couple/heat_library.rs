//! Callee-driven: a heat library that uses threads well for any caller and launch. It owns its
//! context; callers of `diffuse` need not know of it.

use anyhow::{Context as _, Result, bail};
use quo::Context;
use quo::phase::{PhasePlan, PhaseSpec, Remap, Threads};

use super::{Coupling, Setup, Step, Team, same_node};
use crate::flow::FlowBlock;
use crate::l1::Problem;
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
    team: Team,
}

impl HeatLibrary {
    /// Over the context `given`, or a new one. Collective over all ranks.
    ///
    /// # Errors
    /// If a context or shared memory is not to be had.
    pub fn new(setup: &Setup<'_>, given: Option<Context>) -> Result<Self> {
        let (over, max) = setup.spread();
        let spec =
            PhaseSpec::over(over).max_per_object(max).threads(Threads::Follow).name("diffusion");
        let context = setup.context(given)?;
        let share = Share::new(&context, &spec, setup.layout, setup.values)?;
        Ok(HeatLibrary { problem: setup.problem(), context, spec, share })
    }
}

impl Share {
    fn new(context: &Context, spec: &PhaseSpec, layout: &Layout, values: usize) -> Result<Self> {
        let rows = same_node(context, layout)
            .and_then(|()| context.remap(values).context("sharing the rows of the node"));
        let rows = agree(&layout.ranks, rows)?;
        let plan = agree(&layout.ranks, context.plan_phase(spec.clone()).map_err(Into::into))?;
        let team = Team::new(layout, plan.assignment().map(|worker| worker.threads()));
        Ok(Share { plan, rows, team })
    }
}

impl Coupling for HeatLibrary {
    fn team(&self) -> &Team {
        &self.share.team
    }

    fn diffuse(&mut self, block: &mut FlowBlock, dt: f64, recorder: &mut Recorder) -> Result<Step> {
        let HeatLibrary { problem, context, share, .. } = self;
        let Share { plan, rows, team } = share;
        recorder.enter(Phase::Remap, 1);
        block.copy_rows_out(rows.local_mut()?);
        let phase = context.phase_of(plan);
        if phase.assignment().is_none() {
            recorder.enter(Phase::Wait, 1);
        }
        let outcome = phase.run_on(rows, |worker, rows| -> Result<_> {
            let Some(workers) = &team.workers else { bail!("a worker has no communicator") };
            recorder.enter(Phase::Diffusion, worker.threads());
            recorder.explain(context);
            Ok(problem.solve(Some(workers), dt, rows))
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
        self.context.free().context("freeing the context")
    }
}
