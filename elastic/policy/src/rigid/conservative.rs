//! Conservative backfilling: every waiting job has a reservation, and no reservation is moved back.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::Event;
use crate::job::JobId;
use crate::policy::{Draft, Policy};
use crate::rigid::profile::Profile;
use crate::state::Refusal;
use crate::time::Time;

/// Conservative backfilling.
///
/// Each job has a reservation at the earliest instant that delays no earlier job. When a job ends
/// early, the others move forward in order of arrival, each to the earliest instant that delays no
/// reservation of another. Reservations are moved back only if a running job takes longer than
/// expected.
#[derive(Clone, Debug, Default)]
pub struct Conservative {
    /// The nodes that neither running jobs nor reservations have. `None` if it has to be
    /// recomputed.
    profile: Option<Profile>,
    /// The waiting jobs by the instant of their reservations.
    due: BTreeSet<(Time, JobId)>,
    /// Expected end and nodes of the running jobs, as entered in the profile.
    running: BTreeMap<JobId, (Time, u32)>,
}

impl Policy for Conservative {
    fn name(&self) -> &str {
        "conservative"
    }

    fn decide(&mut self, events: &[Event], draft: &mut Draft<'_>) -> Result<(), Refusal> {
        let now = draft.now();
        let mut profile = match self.profile.take() {
            Some(mut profile) => {
                profile.advance(now);
                Some(profile)
            }
            None => None,
        };
        let mut is_freed = false;
        for event in events {
            match *event {
                Event::Ended(job) => match (self.running.remove(&job), &mut profile) {
                    (Some((end, nodes)), Some(profile)) if end > now => {
                        profile.give(nodes, now, end.since(now));
                        is_freed = true;
                    }
                    (Some(_), _) => {}
                    // Withdrawn from the queue.
                    (None, _) => profile = None,
                },
                Event::Estimated { .. } | Event::Left(_) | Event::GraceOver(_) => profile = None,
                _ => {}
            }
        }
        let mut profile = match profile {
            Some(mut profile) => {
                // A job that moves leaves nodes to others. In the end each is at its earliest
                // instant, at which another job is expected to end: that event calls the policy
                // again.
                while is_freed {
                    is_freed = self.move_forward(&mut profile, draft)?;
                }
                self.plan_new(events, &mut profile, draft)?;
                profile
            }
            None => self.plan_all(draft)?,
        };
        self.start_due(&mut profile, draft)?;
        self.profile = Some(profile);
        Ok(())
    }
}

impl Conservative {
    fn plan_all(&mut self, draft: &mut Draft<'_>) -> Result<Profile, Refusal> {
        let state = draft.state();
        let mut profile = Profile::of_running(state);
        let held = |(end, job, nodes)| (job, (end, nodes));
        self.running = state.ends().map(held).collect();
        self.due.clear();
        for job in state.queue().iter().collect::<Vec<_>>() {
            self.plan(job, &mut profile, draft)?;
        }
        Ok(profile)
    }

    fn plan_new(
        &mut self,
        events: &[Event],
        profile: &mut Profile,
        draft: &mut Draft<'_>,
    ) -> Result<(), Refusal> {
        for event in events {
            if let Event::Submitted(job) = *event {
                self.plan(job, profile, draft)?;
            }
        }
        Ok(())
    }

    fn plan(
        &mut self,
        job: JobId,
        profile: &mut Profile,
        draft: &mut Draft<'_>,
    ) -> Result<(), Refusal> {
        let Some(known) = draft.state().job(job) else { return Ok(()) };
        let (nodes, length) = (known.limits.start, known.walltime);
        // `None` only while nodes of the cluster are missing; the next full plan finds a place.
        let Some(at) = profile.earliest(nodes, length) else { return Ok(()) };
        profile.take(nodes, at, length);
        self.due.insert((at, job));
        if draft.state().reservation(job).is_some_and(|promise| promise.at == at) {
            return Ok(());
        }
        draft.reserve(job, nodes, at, "the earliest start that delays no job before it")
    }

    /// Moves reservations forward into nodes that were freed early. Returns true if one has moved.
    fn move_forward(
        &mut self,
        profile: &mut Profile,
        draft: &mut Draft<'_>,
    ) -> Result<bool, Refusal> {
        let mut is_moved = false;
        for job in draft.state().queue().iter().collect::<Vec<_>>() {
            let state = draft.state();
            let (Some(known), Some(promise)) = (state.job(job), state.reservation(job)) else {
                continue;
            };
            let (nodes, length, before) = (known.limits.start, known.walltime, promise.at);
            let is_hopeless = profile
                .steps()
                .iter()
                .take_while(|step| step.0 < before)
                .all(|step| step.1 < nodes);
            if is_hopeless {
                continue;
            }
            profile.give(nodes, before, length);
            let at = profile.earliest(nodes, length).unwrap_or(before).min(before);
            profile.take(nodes, at, length);
            if at < before {
                is_moved = true;
                self.due.remove(&(before, job));
                self.due.insert((at, job));
                draft.reserve(job, nodes, at, "a job ended early")?;
            }
        }
        Ok(is_moved)
    }

    fn start_due(&mut self, profile: &mut Profile, draft: &mut Draft<'_>) -> Result<(), Refusal> {
        let now = draft.now();
        while let Some(&(at, job)) = self.due.first() {
            if at > now {
                break;
            }
            let state = draft.state();
            let Some(known) = state.job(job) else {
                self.due.pop_first();
                continue;
            };
            let (nodes, length) = (known.limits.start, known.walltime);
            if nodes > state.idle() {
                // A job without walltime holds them until its end, which is an event of this
                // instant.
                break;
            }
            self.due.pop_first();
            if at < now {
                // The policy was not called at the instant of the reservation: the job runs from
                // now on.
                profile.take(nodes, at + length, now.since(at));
            }
            draft.start(job, nodes, "its reservation is due")?;
            self.running.insert(job, (now + length, nodes));
        }
        Ok(())
    }
}
