//! EASY backfilling on nodes that jobs share: room for the first job is determined on each node.

use crate::job::Job;
use crate::policy::Draft;
use crate::rooms::{Outlook, Rooms};
use crate::state::{Refusal, State};
use crate::time::Time;

/// Reserves room for the first job of the queue and starts later jobs that do not need it.
pub(super) fn backfill(draft: &mut Draft<'_>, only_short: bool) -> Result<(), Refusal> {
    let state = draft.state();
    let Some(head) = state.queue().head().and_then(|job| state.job(job)) else { return Ok(()) };
    let (head, nodes) = (head.id, head.limits.start);
    let cores = |state: &State| state.rooms().map_or(0, Rooms::free_cores);
    let free = cores(state);
    if state.reservation(head).is_some()
        && state.queue().next(Some(head), |least| u64::from(least.nodes) <= free).is_none()
    {
        return Ok(());
    }
    let Some((at, mut outlook)) = state.job(head).and_then(|job| reservation(state, job)) else {
        return Ok(());
    };
    if state.reservation(head).is_none_or(|before| before.at != at) {
        draft.reserve(head, nodes, at, "first in the queue: the earliest expected start")?;
    }
    let mut last = head;
    loop {
        let state = draft.state();
        let (gap, free) = (at.since(state.now()), cores(state));
        let next = state.queue().next(Some(last), |least| {
            u64::from(least.nodes) <= free && (!only_short || least.walltime <= gap)
        });
        let Some(job) = next.and_then(|job| state.job(job)) else { return Ok(()) };
        last = job.id;
        let Some((need, place)) = state.place(job) else { continue };
        let (id, nodes) = (job.id, job.limits.start);
        if job.walltime <= gap {
            draft.start(id, nodes, format!("ends before {head} can start, at {at}"))?;
        } else if !only_short && outlook.spare(&need, &place) {
            draft.start(id, nodes, format!("uses room that {head} leaves free at {at}"))?;
        }
    }
}

/// Returns the earliest instant at which a job is expected to have room, and the room of all nodes
/// then. `None` if nodes are missing.
fn reservation(state: &State, job: &Job) -> Option<(Time, Outlook)> {
    let mut outlook = Outlook::new(state.rooms()?, state.need(job)?);
    let mut at = outlook.fits().then_some(state.now());
    for (end, other, _) in state.ends() {
        if at.is_some_and(|at| end > at) {
            break;
        }
        let Some(other) = state.job(other) else { continue };
        outlook.add(&state.need(other)?, &other.nodes);
        if at.is_none() && outlook.fits() {
            at = Some(end.max(state.now()));
        }
    }
    Some((at?, outlook))
}
