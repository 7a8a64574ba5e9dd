//! Pace of a run while a resize is being prepared: it goes on, or waits.

use std::collections::HashSet;
use std::time::Duration;

use elastic::World;
use elastic::plan::{Plan, When};
use mpi::traits::{Communicator, Root};

use crate::layout::Layout;

/// An elastic run computes on while processes are started. One that is to be the same story each time waits for the
/// steps of its plan.
pub struct Pace {
    holds: bool,
    /// The iterations of the plan's steps, on the first rank.
    due: Vec<u64>,
    /// Requests count whoever has asked, not only those of the plan.
    counts_all: bool,
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
        let counts_all = !outside.is_empty();
        Pace { holds: holds || counts_all, due, counts_all }
    }

    /// Returns true if the ranks are to probe again, and do nothing else. Collective.
    pub fn holds(&self, world: &World, layout: &Layout, iteration: u64) -> bool {
        if !self.holds {
            return false;
        }
        let mut waits = u8::from(self.is_behind(world, iteration));
        layout.ranks.process_at_rank(0).broadcast_into(&mut waits);
        if waits != 0 {
            // The cores are for those who start.
            std::thread::sleep(Duration::from_millis(1));
        }
        waits != 0
    }

    /// Returns true if something that was to happen by now has not ended.
    fn is_behind(&self, world: &World, iteration: u64) -> bool {
        let Some(requests) = world.requests() else { return false };
        let events = requests.events(0);
        let counts = |origin: &str| self.counts_all || origin == "plan";
        let asked: HashSet<_> = events
            .iter()
            .filter(|event| event.asked.as_ref().is_some_and(|asked| counts(&asked.origin)))
            .filter_map(|event| event.request)
            .collect();
        let ended = events
            .iter()
            .filter(|event| event.is_end() && event.request.is_some_and(|id| asked.contains(&id)));
        let due = self.due.iter().filter(|&&at| at <= iteration);
        let status = requests.status();
        ended.count() < due.count() || status.waiting > 0 || status.under_way.is_some()
    }
}
