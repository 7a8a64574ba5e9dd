//! The queue in the order of user classes and age, with EASY backfilling.

use crate::allocation::{Ageing, Rank};
use crate::job::{Job, JobId, Phase};
use crate::policy::Draft;
use crate::rigid::shadow;
use crate::state::{Refusal, State};
use crate::time::Time;

/// Returns the rank of a job: a waiting job's by its time in the queue and walltime, a running
/// job's by its waiting time and remaining time.
pub(super) fn rank(job: &Job, ageing: &Ageing, now: Time) -> Rank {
    let (queued, left) = match (job.phase, job.started) {
        (Phase::Running, Some(started)) => {
            let end = job.expected_end.unwrap_or(started + job.walltime);
            (started.since(job.submitted), end.since(now))
        }
        _ => (now.since(job.submitted), job.walltime),
    };
    let nodes = match job.phase {
        Phase::Running => job.size(),
        Phase::Queued => job.limits.start,
    };
    let ageing = ageing.priority(queued.as_seconds(), left.as_seconds(), nodes);
    Rank { class: job.priority, ageing }
}

/// Returns the waiting jobs, highest rank first.
pub(super) fn ranked(state: &State, ageing: &Ageing) -> Vec<(JobId, Rank)> {
    let now = state.now();
    let mut jobs: Vec<(JobId, Rank)> =
        state.queued().map(|job| (job.id, rank(job, ageing, now))).collect();
    jobs.sort_by(|a, b| b.1.order(&a.1).then(a.0.cmp(&b.0)));
    jobs
}

/// Starts waiting jobs in rank order, and after the first that does not fit the jobs that do not
/// delay it.
pub(super) fn start(draft: &mut Draft<'_>, ageing: &Ageing) -> Result<(), Refusal> {
    let queue = ranked(draft.state(), ageing);
    let mut waiting = queue.into_iter();
    let head = loop {
        let Some((job, rank)) = waiting.next() else { return Ok(()) };
        let Some(nodes) = draft.state().job(job).map(|job| job.limits.start) else { continue };
        if nodes > draft.state().idle() {
            break (job, nodes);
        }
        let reason = format!(
            "has the highest rank ({}, {:.2}), and enough nodes are free",
            rank.class, rank.ageing
        );
        draft.start(job, nodes, reason)?;
    };
    let Some(promise) = shadow(draft.state(), head.1) else { return Ok(()) };
    if draft.state().reservation(head.0).is_none_or(|before| before.at != promise.at) {
        draft.reserve(
            head.0,
            head.1,
            promise.at,
            "highest rank in the queue: the earliest expected start",
        )?;
    }
    let mut spare = promise.spare;
    for (id, _) in waiting {
        let state = draft.state();
        let Some(job) = state.job(id) else { continue };
        let (nodes, end) = (job.limits.start, state.now() + job.walltime);
        if nodes > state.idle() || (end > promise.at && nodes > spare) {
            continue;
        }
        if end <= promise.at {
            draft.start(
                id,
                nodes,
                format!("ends before {} can start, at {}", head.0, promise.at),
            )?;
        } else {
            spare -= nodes;
            draft.start(
                id,
                nodes,
                format!("uses nodes that {} leaves free at {}", head.0, promise.at),
            )?;
        }
    }
    Ok(())
}
