//! Periodic samples: the load of the nodes if joiners are placed by load, and the loops of the ranks
//! if the memory profiler detects loops.

use std::time::Duration;

use super::thread::CoordinatorThread;

/// Time between two measurements of the load of a node.
const LOADS: Duration = Duration::from_secs(5);

/// Time between two samples of the loops.
const LOOPS: Duration = Duration::from_secs(1);

/// Returns the time from one sample to the next, over `nodes` nodes: between half and one and a
/// half times the mean, so that jobs that began together do not sample together. The first round is
/// made at once.
fn pause(nodes: u64, samples: u64) -> Duration {
    if samples < nodes {
        return Duration::from_millis(10);
    }
    // Multiplying by the golden ratio scatters consecutive numbers.
    let scattered = (samples ^ u64::from(std::process::id())).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let share = 500 + (scattered >> 32) % 1_001;
    LOADS.mul_f64(share as f64 / 1000.0 / nodes.max(1) as f64)
}

impl CoordinatorThread {
    /// Asks one node after another for its load, if joiners are placed by load.
    pub(super) fn sample_loads(&mut self) {
        let (is_wanted, now) = {
            let arbiter = self.shared.arbiter();
            (arbiter.goes_by_load(), arbiter.now())
        };
        let (due, samples) = self.next_load;
        if !is_wanted || now < due {
            return;
        }
        let nodes = self.agents.nodes() as u64;
        let node = (samples % nodes) as usize;
        if let Some(load) = self.agents.load(node) {
            self.shared.arbiter().has_load(node, load);
        }
        self.next_load = (now + pause(nodes, samples), samples + 1);
    }

    /// Asks all nodes for the loops of their ranks, between resizes.
    pub(super) fn sample_loops(&mut self) {
        let Some(due) = self.next_loops else { return };
        let (now, epoch, running) = {
            let arbiter = self.shared.arbiter();
            (arbiter.now(), arbiter.epoch(), arbiter.running().to_vec())
        };
        if self.phase.agreed().is_some() || now < due {
            return;
        }
        self.next_loops = Some(now + LOOPS);
        // A node that does not answer is reported when the next resize needs it.
        if let Ok(loops) = self.agents.loops(epoch, &running) {
            *self.shared.loops() = (epoch, loops);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_samples_are_scattered_around_their_mean() {
        assert_eq!(pause(4, 3), Duration::from_millis(10));
        let pauses: Vec<Duration> = (4..1_004).map(|samples| pause(4, samples)).collect();
        let (least, most) = (LOADS.mul_f64(0.5 / 4.0), LOADS.mul_f64(1.5 / 4.0));
        assert!(pauses.iter().all(|pause| (least..=most).contains(pause)));
        let mean = pauses.iter().sum::<Duration>().as_secs_f64() / 1000.0;
        assert!((mean * 4.0 / LOADS.as_secs_f64() - 1.0).abs() < 0.1, "{mean}");
    }
}
