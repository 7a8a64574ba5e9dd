//! A rank per core and threads on top: nothing is lent, no rank sleeps.

use anyhow::Result;
use mpi::datatype::{Partition, PartitionMut};
use mpi::topology::{Color, SimpleCommunicator};
use mpi::traits::{Communicator, CommunicatorCollectives, Root};
use quo::plan::blocks;

use super::{Coupling, Setup, Step, Team};
use crate::flow::FlowBlock;
use crate::l1::{self, Problem};
use crate::layout::{agree, offsets, rank, size};
use crate::timeline::{Phase, Recorder};

/// The static choice for L0's sake.
pub struct Over {
    problem: Problem,
    node: SimpleCommunicator,
    /// The ranks that one worker serves; it is the first of them.
    served: SimpleCommunicator,
    team: Team,
    /// Values of each served rank and where they start, on the worker.
    counts: Vec<i32>,
    starts: Vec<i32>,
    own: Vec<f64>,
    all: Vec<f64>,
}

impl Over {
    /// Collective over all ranks.
    ///
    /// # Errors
    /// If the machine cannot be discovered.
    pub fn new(setup: &Setup<'_>) -> Result<Self> {
        let (problem, layout, values) = (setup.problem(), setup.layout, setup.values);
        let (over, max) = setup.spread();
        let topology = agree(&layout.ranks, quo::Topology::live().map_err(Into::into))?;
        let objects = topology.count(over).max(1);
        let on_node = objects.saturating_mul(max).min(layout.node_size());
        let heads: Vec<usize> = (0..on_node).collect();
        let parts = blocks(layout.node_size(), &heads);
        let mine =
            parts.iter().position(|part| part.contains(&layout.node_rank())).unwrap_or_default();
        let served = layout
            .node
            .split_by_color_with_key(Color::with_value(mine as i32), layout.node.rank())
            .unwrap_or_else(|| layout.node.duplicate());
        let is_worker = served.rank() == 0;
        let threads = (topology.allowed().len() / on_node.max(1)).max(1);
        if is_worker {
            l1::set_threads(threads);
        }
        let mut counts = vec![0; size(&served)];
        served.all_gather_into(&i32::try_from(values).unwrap_or(i32::MAX), &mut counts[..]);
        let all = if is_worker { counts.iter().map(|n| *n as usize).sum() } else { 0 };
        Ok(Over {
            problem,
            node: layout.node.duplicate(),
            starts: offsets(&counts),
            counts,
            served,
            team: Team::new(layout, is_worker.then_some(threads)),
            own: vec![0.0; values],
            all: vec![0.0; all],
        })
    }

    fn gather(&mut self, block: &FlowBlock) {
        block.copy_rows_out(&mut self.own);
        let root = self.served.process_at_rank(0);
        if rank(&self.served) > 0 {
            root.gather_varcount_into(&self.own[..]);
            return;
        }
        let mut parts = PartitionMut::new(&mut self.all[..], &self.counts[..], &self.starts[..]);
        root.gather_varcount_into_root(&self.own[..], &mut parts);
    }

    fn scatter(&mut self, block: &mut FlowBlock) {
        let root = self.served.process_at_rank(0);
        if rank(&self.served) > 0 {
            root.scatter_varcount_into(&mut self.own[..]);
        } else {
            let parts = Partition::new(&self.all[..], &self.counts[..], &self.starts[..]);
            root.scatter_varcount_into_root(&parts, &mut self.own[..]);
        }
        block.copy_heat_in(&self.own);
    }
}

impl Coupling for Over {
    fn team(&self) -> &Team {
        &self.team
    }

    fn diffuse(&mut self, block: &mut FlowBlock, dt: f64, recorder: &mut Recorder) -> Result<Step> {
        recorder.enter(Phase::Remap, 1);
        self.gather(block);
        let solve = self.team.workers.as_ref().map(|workers| {
            recorder.enter(Phase::Diffusion, self.team.threads);
            self.problem.solve(Some(workers), dt, &mut self.all)
        });
        recorder.enter(Phase::Wait, 1);
        self.node.barrier();
        recorder.enter(Phase::Remap, 1);
        self.scatter(block);
        Ok(solve)
    }
}
