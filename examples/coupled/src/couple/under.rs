//! As many ranks as workers: every rank runs L1 with threads over its cores, and L0 on one of them.

use anyhow::Result;
use quo::CpuSet;

use super::{Coupling, Setup, Step, Team};
use crate::flow::FlowBlock;
use crate::l1::{self, Problem};
use crate::timeline::{Phase, Recorder};

/// The static choice for L1's sake.
pub struct Under {
    problem: Problem,
    team: Team,
    rows: Vec<f64>,
}

impl Under {
    /// Collective over all ranks.
    pub fn new(setup: &Setup<'_>) -> Self {
        let (problem, layout) = (setup.problem(), setup.layout);
        let threads = fair_share(&layout.masks, layout.node_rank());
        l1::set_threads(threads);
        Under { problem, team: Team::new(layout, Some(threads)), rows: vec![0.0; setup.values] }
    }
}

/// Number of CPUs one of the ranks with these masks has to itself: all of its mask, shared evenly
/// with the ranks of the same mask.
fn fair_share(masks: &[CpuSet], rank: usize) -> usize {
    let sharing = masks.iter().filter(|mask| **mask == masks[rank]).count();
    (masks[rank].len() / sharing.max(1)).max(1)
}

impl Coupling for Under {
    fn team(&self) -> &Team {
        &self.team
    }

    fn diffuse(&mut self, block: &mut FlowBlock, dt: f64, recorder: &mut Recorder) -> Result<Step> {
        recorder.enter(Phase::Remap, 1);
        block.copy_rows_out(&mut self.rows);
        recorder.enter(Phase::Diffusion, self.team.threads);
        let solve = self.problem.solve(self.team.workers.as_ref(), dt, &mut self.rows);
        recorder.enter(Phase::Remap, 1);
        block.copy_heat_in(&self.rows);
        Ok(Some(solve))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_has_its_own_cores_and_shares_common_ones() {
        let set = |text: &str| text.parse::<CpuSet>().unwrap();
        let bound = [set("0-1"), set("2-3")];
        assert_eq!([fair_share(&bound, 0), fair_share(&bound, 1)], [2, 2]);
        let unbound = [set("0-3"), set("0-3")];
        assert_eq!(fair_share(&unbound, 0), 2);
        assert_eq!(fair_share(&[set("0"), set("0"), set("0")], 2), 1);
    }
}
