//! Samples of the ranks' loops, if the memory profiler detects loops.

use std::time::Duration;

use super::State;

/// Time between two samples.
const EVERY: Duration = Duration::from_secs(1);

impl State {
    /// Asks all nodes for the loops of their ranks, between resizes.
    pub(super) fn look_at_loops(&mut self) {
        let Some(due) = self.next_loops else { return };
        let (now, epoch, running) = {
            let arbiter = self.shared.arbiter();
            (arbiter.now(), arbiter.epoch(), arbiter.running().to_vec())
        };
        if self.busy.is_some() || now < due {
            return;
        }
        self.next_loops = Some(now + EVERY);
        // A node that does not answer is reported when the next resize needs it.
        if let Ok(loops) = self.agents.loops(epoch, &running) {
            *self.shared.loops() = (epoch, loops);
        }
    }
}
