//! Loops of a job's ranks, as the ranks of one node and then the nodes are added up. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::observe::measured::LoopFigures;

/// Loops of some ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RankLoops {
    /// Number of ranks that have told their loops.
    ranks: u64,
    /// Their loops, by number.
    loops: BTreeMap<u64, LoopSums>,
}

/// One loop of some ranks; times are sums, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct LoopSums {
    ranks: u64,
    /// The fewest of any rank.
    iterations: u64,
    elapsed: u64,
    mpi: u64,
    recent_elapsed: u64,
    recent_mpi: u64,
}

impl LoopSums {
    fn add(&mut self, other: &Self) {
        self.ranks += other.ranks;
        self.iterations = self.iterations.min(other.iterations);
        self.elapsed = self.elapsed.saturating_add(other.elapsed);
        self.mpi = self.mpi.saturating_add(other.mpi);
        self.recent_elapsed = self.recent_elapsed.saturating_add(other.recent_elapsed);
        self.recent_mpi = self.recent_mpi.saturating_add(other.recent_mpi);
    }
}

impl RankLoops {
    /// Adds a rank.
    pub(crate) fn add_rank(&mut self, loops: &[LoopFigures]) {
        let mut rank = Self { ranks: 1, ..Self::default() };
        for of in loops {
            let LoopFigures { id, iterations, elapsed, mpi, recent_elapsed, recent_mpi } = *of;
            let sums = LoopSums { ranks: 1, iterations, elapsed, mpi, recent_elapsed, recent_mpi };
            // Of two loops with one number the one with more time counts.
            rank.loops.entry(id).or_insert(sums);
        }
        self.add(&rank);
    }

    /// Adds other ranks.
    pub(crate) fn add(&mut self, other: &Self) {
        self.ranks += other.ranks;
        for (id, of) in &other.loops {
            self.loops.entry(*id).and_modify(|sums| sums.add(of)).or_insert(*of);
        }
    }

    /// Returns the loops of a job of so many ranks; none while no rank has told any.
    pub(crate) fn of_job(&self, size: u64) -> Option<JobLoops> {
        let common = self.loops.values().filter(|of| of.ranks == size && of.elapsed > 0);
        let common = common.max_by_key(|of| of.elapsed).map(|of| CommonLoop {
            iterations: of.iterations,
            seconds: of.elapsed as f64 / 1e9 / size as f64,
            mpi_seconds: of.mpi as f64 / 1e9 / size as f64,
            mpi_ratio: ratio(of.elapsed, of.mpi),
            recent_mpi_ratio: ratio(of.recent_elapsed, of.recent_mpi),
        });
        (self.ranks > 0).then_some(JobLoops { ranks: self.ranks, common })
    }
}

/// Returns the time in MPI by the rest; none where nothing was computed.
fn ratio(elapsed: u64, mpi: u64) -> Option<f64> {
    let computing = elapsed.saturating_sub(mpi);
    (computing > 0).then(|| mpi as f64 / computing as f64)
}

/// Loops of a job since the last resize, where the memory profiler looks for them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobLoops {
    /// Number of ranks in which a loop was found.
    pub ranks: u64,
    /// The loop with most time of those that all ranks are in; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common: Option<CommonLoop>,
}

/// A loop that all ranks are in.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommonLoop {
    /// Iterations that all ranks have begun.
    pub iterations: u64,
    /// Time of the measured iterations in seconds, in the mean of the ranks.
    pub seconds: f64,
    /// Part of it inside MPI.
    pub mpi_seconds: f64,
    /// Time in MPI by time of computing, of all ranks; absent where nothing was computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpi_ratio: Option<f64>,
    /// The same of the last ten to twenty seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recent_mpi_ratio: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(id: u64, iterations: u64, elapsed: u64, mpi: u64) -> LoopFigures {
        LoopFigures { id, iterations, elapsed, mpi, recent_elapsed: elapsed / 2, recent_mpi: 0 }
    }

    #[test]
    fn longest_loop_of_all_ranks_is_common() {
        let second = 1_000_000_000;
        let mut here = RankLoops::default();
        assert_eq!(here.of_job(3), None);
        here.add_rank(&[figures(7, 10, 6 * second, second), figures(9, 5, 2 * second, 0)]);
        here.add_rank(&[figures(9, 6, 4 * second, 2 * second), figures(8, 1, second, 0)]);
        let mut there = RankLoops::default();
        there.add_rank(&[figures(9, 4, 3 * second, second)]);
        here.add(&there);
        let loops = here.of_job(3).unwrap();
        let common = CommonLoop {
            iterations: 4,
            seconds: 3.0,
            mpi_seconds: 1.0,
            mpi_ratio: Some(0.5),
            recent_mpi_ratio: Some(0.0),
        };
        assert_eq!(loops, JobLoops { ranks: 3, common: Some(common) });
        // A fourth rank has told nothing.
        assert_eq!(here.of_job(4).unwrap(), JobLoops { ranks: 3, common: None });
    }

    #[test]
    fn loop_without_computing_has_no_ratio() {
        let mut one = RankLoops::default();
        one.add_rank(&[figures(1, 2, 50, 50)]);
        assert_eq!(one.of_job(1).unwrap().common.unwrap().mpi_ratio, None);
    }
}
