//! EASY backfilling: later jobs may start first unless they delay the first job of the queue.

use crate::event::Event;
use crate::policy::{Draft, Policy};
use crate::rigid::{shared, start_heads};
use crate::state::{Refusal, State};
use crate::time::Time;

/// EASY backfilling.
///
/// The first job of the queue has a reservation at the earliest instant at which enough running
/// jobs are expected to have ended. A later job starts now if it is expected to end by then, or
/// uses nodes that the first job does not need.
#[derive(Clone, Copy, Debug, Default)]
pub struct Easy {
    /// Refuses the nodes that the first job does not need to jobs that end later than its
    /// reservation.
    pub only_short: bool,
}

/// The reservation of the first job of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The earliest instant at which enough nodes are expected to be free.
    pub at: Time,
    /// The nodes that are free at that instant and that the job does not need.
    pub spare: u32,
}

/// Returns the earliest instant at which `nodes` nodes are expected to be free. `None` if there are
/// fewer nodes.
#[must_use]
pub fn shadow(state: &State, nodes: u32) -> Option<Reservation> {
    let mut free = state.idle();
    let mut at = if free >= nodes { Some(state.now()) } else { None };
    for (end, _, held) in state.ends() {
        if at.is_some_and(|at| end > at) {
            break;
        }
        free += held;
        if free >= nodes && at.is_none() {
            at = Some(end.max(state.now()));
        }
    }
    at.map(|at| Reservation { at, spare: free - nodes })
}

impl Policy for Easy {
    fn name(&self) -> &str {
        if self.only_short { "easy-short" } else { "easy" }
    }

    fn shares_nodes(&self) -> bool {
        true
    }

    fn decide(&mut self, _events: &[Event], draft: &mut Draft<'_>) -> Result<(), Refusal> {
        start_heads(draft)?;
        if draft.state().rooms().is_some() {
            return shared::backfill(draft, self.only_short);
        }
        let state = draft.state();
        let Some(head) = state.queue().head().and_then(|job| state.job(job)) else { return Ok(()) };
        let (head, needed) = (head.id, head.limits.start);
        // The reservation is only computed if it is new or another job could start first.
        let idle = state.idle();
        if state.reservation(head).is_some()
            && state.queue().next(Some(head), |least| least.nodes <= idle).is_none()
        {
            return Ok(());
        }
        let Some(Reservation { at, mut spare }) = shadow(state, needed) else { return Ok(()) };
        if self.only_short {
            spare = 0;
        }
        if state.reservation(head).is_none_or(|before| before.at != at) {
            draft.reserve(head, needed, at, "first in the queue: the earliest expected start")?;
        }
        let mut last = head;
        loop {
            let state = draft.state();
            let (now, idle) = (state.now(), state.idle());
            let gap = at.since(now);
            let fits = |nodes, walltime| nodes <= idle && (walltime <= gap || nodes <= spare);
            let next = state.queue().next(Some(last), |least| fits(least.nodes, least.walltime));
            let Some(job) = next.and_then(|job| state.job(job)) else { return Ok(()) };
            let (id, nodes, walltime) = (job.id, job.limits.start, job.walltime);
            last = id;
            if !fits(nodes, walltime) {
                continue;
            }
            if walltime <= gap {
                draft.start(id, nodes, format!("ends before {head} can start, at {at}"))?;
            } else {
                spare -= nodes;
                draft.start(id, nodes, format!("uses nodes that {head} leaves free at {at}"))?;
            }
        }
    }
}
