//! Pace of a run while a resize is being prepared: it continues, or waits.

use std::time::Duration;

use elastic::World;
use elastic::plan::{Plan, When};
use mpi::traits::{Communicator, Root};

use crate::layout::Layout;

/// An elastic run computes on while processes are started. One that is to be the same story each time waits for the
/// steps of its plan.
pub struct Pace {
    holds: bool,
    /// Steps before which so many requests, this one's among them, are to have ended; on the first rank.
    due: Vec<u64>,
}

impl Pace {
    /// `plan` is the first rank's, `holds` and the steps of requests from `outside` the same on all.
    pub fn new(plan: Option<&Plan>, holds: bool, outside: &[u64]) -> Pace {
        let steps = plan.map(Plan::steps).unwrap_or_default().iter();
        let at = steps.filter_map(|step| match step.when {
            When::Iteration(number) => Some(number),
            When::After(_) => None,
        });
        let due = at.filter(|_| holds).chain(outside.iter().copied()).collect();
        Pace { holds: holds || !outside.is_empty(), due }
    }

    /// Returns true if the ranks are to probe again, and do nothing else. Collective.
    pub fn holds(&self, world: &World, layout: &Layout, iteration: u64) -> bool {
        if !self.holds {
            return false;
        }
        let mut waits = u8::from(self.is_behind(world, iteration));
        layout.ranks.process_at_rank(0).broadcast_into(&mut waits);
        if waits != 0 {
            // The cores are left to the starting processes.
            std::thread::sleep(Duration::from_millis(1));
        }
        waits != 0
    }

    /// Returns true if something that was to happen by now has not ended.
    fn is_behind(&self, world: &World, iteration: u64) -> bool {
        let Some(requests) = world.requests() else { return false };
        let ended = requests.events(0).iter().filter(|event| event.is_end()).count();
        let due = self.due.iter().filter(|&&at| at <= iteration);
        let status = requests.status();
        ended < due.count() || status.waiting > 0 || status.under_way.is_some()
    }
}
