//! Loops of a job's ranks, summed over the ranks of each node and then over the nodes. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::observe::measured::LoopFigures;

/// Loops of a subset of the ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RankLoops {
    /// Number of ranks that have reported their loops.
    ranks: u64,
    /// Their loops, by number.
    loops: BTreeMap<u64, LoopSums>,
}

/// One loop of a subset of the ranks; times are sums, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct LoopSums {
    ranks: u64,
    /// Minimum over the ranks.
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
    /// Adds the loops of one rank.
    pub(crate) fn add_rank(&mut self, loops: &[LoopFigures]) {
        let mut rank = Self { ranks: 1, ..Self::default() };
        for of in loops {
            let LoopFigures { id, iterations, elapsed, mpi, recent_elapsed, recent_mpi } = *of;
            let sums = LoopSums { ranks: 1, iterations, elapsed, mpi, recent_elapsed, recent_mpi };
            // Of two loops with the same number the one with more time counts.
            rank.loops.entry(id).or_insert(sums);
        }
        self.add(&rank);
    }

    /// Adds the loops of other ranks.
    pub(crate) fn add(&mut self, other: &Self) {
        self.ranks += other.ranks;
        for (id, of) in &other.loops {
            self.loops.entry(*id).and_modify(|sums| sums.add(of)).or_insert(*of);
        }
    }

    /// Returns the loops of a job of `size` ranks; `None` until a rank has reported.
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

/// Returns the ratio of time in MPI to the rest; `None` without computing time.
fn ratio(elapsed: u64, mpi: u64) -> Option<f64> {
    let computing = elapsed.saturating_sub(mpi);
    (computing > 0).then(|| mpi as f64 / computing as f64)
}

/// Loops of a job since the last resize, if the memory profiler detects loops.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobLoops {
    /// Number of ranks in which a loop was found.
    pub ranks: u64,
    /// The longest of the loops common to all ranks; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common: Option<CommonLoop>,
}

/// A loop common to all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommonLoop {
    /// Iterations begun by all ranks.
    pub iterations: u64,
    /// Time of the measured iterations in seconds, as the mean of the ranks.
    pub seconds: f64,
    /// Time inside MPI, included above.
    pub mpi_seconds: f64,
    /// Ratio of time in MPI to time of computing, over all ranks; absent without computing time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpi_ratio: Option<f64>,
    /// The same ratio over the last ten to twenty seconds.
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
        // A fourth rank has reported nothing.
        assert_eq!(here.of_job(4).unwrap(), JobLoops { ranks: 3, common: None });
    }

    #[test]
    fn loop_without_computing_has_no_ratio() {
        let mut one = RankLoops::default();
        one.add_rank(&[figures(1, 2, 50, 50)]);
        assert_eq!(one.of_job(1).unwrap().common.unwrap().mpi_ratio, None);
    }
}
