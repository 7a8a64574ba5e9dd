//! The solvers' state on one rank, and its steps.

use std::ops::Range;

use anyhow::{Context, Result, bail};
use mpi::datatype::PartitionMut;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Root};
use serde::{Deserialize, Serialize};

use crate::couple::Coupling;
use crate::deck::Deck;
use crate::fields::Fields;
use crate::flow::halo::Halo;
use crate::flow::{FIELDS, FlowBlock};
use crate::l1;
use crate::layout::{Layout, agree, offsets};
use crate::timeline::{Phase, Recorder};

/// A rank's rows, and its work.
pub struct Simulation {
    pub block: FlowBlock,
    pub recorder: Recorder,
    halo: Halo,
}

/// Progress of a run.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Steps of the flow.
    pub step: usize,
    /// Seconds of the flow's time.
    pub simulated: f64,
    /// Of L1, over all its steps.
    pub iterations: usize,
    /// Of the last step of L1.
    pub residual: f64,
}

impl Simulation {
    /// The rows `rows` as the deck has them at the start.
    pub fn new(deck: &Deck, rows: Range<usize>) -> Self {
        let block = FlowBlock::new(deck.mesh(), rows, deck.water.gravity, &deck.initial());
        Simulation { halo: Halo::new(&block), block, recorder: Recorder::new() }
    }

    /// All fields of the mesh on the first rank (empty on the others). Collective.
    pub fn gather(&self, layout: &Layout) -> Fields {
        let mesh = *self.block.mesh();
        let root = layout.ranks.process_at_rank(0);
        let mut own = vec![0.0; self.block.local_rows() * mesh.nx];
        let mut counts = vec![0_i32; layout.size()];
        let count = i32::try_from(own.len()).unwrap_or(i32::MAX);
        layout.ranks.all_gather_into(&count, &mut counts[..]);
        let starts = offsets(&counts);
        let first = layout.rank() == 0;
        let values = std::array::from_fn::<_, FIELDS, _>(|field| {
            self.block.copy_out(field, &mut own);
            if !first {
                root.gather_varcount_into(&own[..]);
                return Vec::new();
            }
            let mut all = vec![0.0; mesh.nx * mesh.ny];
            let mut parts = PartitionMut::new(&mut all[..], &counts[..], &starts[..]);
            root.gather_varcount_into_root(&own[..], &mut parts);
            all
        });
        Fields { nx: mesh.nx, ny: mesh.ny, values }
    }

    /// Advances to the end of the next step of L1; returns its report, on the ranks that made it.
    /// Collective.
    ///
    /// # Errors
    /// An unstable flow, a solver that gave up, the runtime below: the same on all ranks.
    pub fn interval(
        &mut self,
        deck: &Deck,
        layout: &Layout,
        coupling: &mut dyn Coupling,
        progress: &mut Progress,
    ) -> Result<Option<l1::Solve>> {
        let every = deck.coupling.every;
        let end = deck.time.steps.min((progress.step / every + 1) * every);
        let mut since = 0.0;
        while progress.step < end {
            let dt = self.flow_step(deck.time.cfl, &layout.ranks)?;
            progress.simulated += dt;
            since += dt;
            progress.step += 1;
        }
        self.recorder.add_messages(self.halo.take_waited().as_secs_f64());
        let solve = coupling.diffuse(&mut self.block, since, &mut self.recorder);
        self.recorder.enter(Phase::Flow, 1);
        let solve = agree(&layout.ranks, solve)?;
        let failure = solve.and_then(|solve| solve.err());
        self.agree_on_failure(failure, &layout.ranks)
            .with_context(|| format!("after {end} steps"))?;
        Ok(solve.and_then(Result::ok))
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
