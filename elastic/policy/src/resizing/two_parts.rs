//! Fills idle nodes with jobs that give them back as soon as other jobs need them.

use std::cmp::Reverse;

use crate::event::Event;
use crate::job::{Class, Job, JobId};
use crate::malleable::{Flexible, Sharing, offer, reclaim, unpromised};
use crate::policy::{Draft, Policy};
use crate::rigid::shadow;
use crate::sizes::largest_within;
use crate::state::{Refusal, State};
use crate::time::Span;

/// Malleable jobs with a rigid part and a flexible part, and moldable best-effort jobs, after all
/// others.
///
/// Jobs of other classes start in order of arrival. Nodes that one of them lacks are taken back:
/// from malleable jobs only the missing number, the nodes received last first, with a notice;
/// moldable jobs are ended, the latest first. When no other job waits, malleable and moldable jobs
/// start on idle nodes that are not promised within the look-ahead, and malleable jobs grow into
/// the rest. They also grow while a waiting job could not start even if they gave all back, and is
/// not expected to within the look-ahead.
///
/// Source: M. C. Cera, dissertation, UFRGS 2012, section 5.1.
#[derive(Clone, Copy, Debug)]
pub struct TwoParts {
    /// The order in which several malleable jobs get and give nodes.
    pub sharing: Sharing,
    /// The time ahead in which promised nodes are not taken.
    pub look_ahead: Span,
    /// The time between a notice and the loss of the nodes.
    pub grace: Span,
    /// The largest number of malleable and moldable jobs that run at the same time.
    pub at_most: usize,
}

impl Default for TwoParts {
    /// Equi-grow and shrink, 15 minutes of look-ahead, 40 s of grace, and any number of jobs.
    fn default() -> TwoParts {
        TwoParts {
            sharing: Sharing::Egs,
            look_ahead: Span::seconds(900),
            grace: Span::seconds(40),
            at_most: usize::MAX,
        }
    }
}

/// State of the waiting jobs that are not flexible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    /// No such job waits any more.
    Started,
    /// The first waiting job gets nodes that are being left.
    Come,
    /// The first waiting job needs this many nodes, and all that flexible jobs could give back are
    /// too few.
    Wait(u32),
}

impl TwoParts {
    /// Starts jobs that are not flexible, and takes back the nodes that the first of them lacks.
    fn serve_others(self, draft: &mut Draft<'_>) -> Result<Others, Refusal> {
        // Nodes being left that are not yet counted for an earlier job.
        let mut coming: u32 = draft.state().running().map(|job| job.leaving.count()).sum();
        let mut kept = 0;
        let waiting: Vec<JobId> =
            draft.state().queued().filter(|job| !is_flexible(job)).map(|job| job.id).collect();
        let mut all_started = true;
        for id in waiting {
            let Some(wanted) = draft.state().job(id).map(|job| job.limits.start) else { continue };
            let free = draft.state().idle().saturating_sub(kept);
            if all_started && wanted <= free {
                draft.start(id, wanted, "first in the queue, and enough nodes are free")?;
                continue;
            }
            if wanted > free + coming {
                let missing = wanted - free - coming;
                coming += self.take_back(id, missing, draft)?;
            }
            let free = draft.state().idle().saturating_sub(kept);
            if all_started && wanted <= free {
                draft.start(id, wanted, "first in the queue, and best-effort jobs made room")?;
                continue;
            }
            all_started = false;
            if wanted > free + coming {
                return Ok(if kept == 0 && coming == 0 {
                    Others::Wait(wanted)
                } else {
                    Others::Come
                });
            }
            // Free nodes and nodes being left are for this job; the next one needs more.
            coming -= wanted.saturating_sub(free);
            kept += wanted.min(free);
        }
        Ok(if all_started { Others::Started } else { Others::Come })
    }

    /// Takes nodes back for a job, and returns how many follow after a notice. Takes none if there
    /// are too few.
    fn take_back(
        self,
        wanting: JobId,
        missing: u32,
        draft: &mut Draft<'_>,
    ) -> Result<u32, Refusal> {
        let state = draft.state();
        let mut ended = Vec::new();
        let mut left = missing;
        let mut moldable: Vec<&Job> =
            state.running().filter(|job| job.class == Class::Moldable).collect();
        moldable.sort_by_key(|job| Reverse((job.started, job.id)));
        for job in moldable {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(job.size());
            ended.push(job.id);
        }
        let flexible = flexible(state, true);
        let shrinks = reclaim(&flexible, left, self.sharing);
        let size = |id: JobId| flexible.iter().find(|one| one.job == id).map_or(0, |one| one.size);
        let shrinks: Vec<(JobId, u32, u32)> =
            shrinks.into_iter().map(|(id, to)| (id, size(id), to)).collect();
        let coming: u32 = shrinks.iter().map(|(_, from, to)| from - to).sum();
        if coming < left {
            return Ok(0);
        }
        for id in ended {
            draft.stop(id, format!("ends: best effort, and {wanting} lacks {missing} nodes"))?;
        }
        for (id, from, to) in shrinks {
            let reason = format!(
                "shrinks from {from} to {to} nodes within {}: {wanting} lacks {missing}",
                self.grace
            );
            draft.shrink(id, from - to, Some(self.grace), reason)?;
        }
        Ok(coming)
    }

    fn start_flexible(self, draft: &mut Draft<'_>) -> Result<(), Refusal> {
        let waiting: Vec<JobId> =
            draft.state().queued().filter(|job| is_flexible(job)).map(|job| job.id).collect();
        let running = draft.state().running().filter(|job| is_flexible(job)).count();
        for id in waiting.into_iter().take(self.at_most.saturating_sub(running)) {
            let free = self.free(draft.state());
            let Some(job) = draft.state().job(id) else { continue };
            let Some(size) = largest_within(&job.limits, free) else { break };
            let reason = format!(
                "starts on {size} of {free} nodes that nobody wants in the next {}",
                self.look_ahead
            );
            draft.start(id, size, reason)?;
        }
        Ok(())
    }

    fn grow_flexible(self, draft: &mut Draft<'_>) -> Result<(), Refusal> {
        let free = self.free(draft.state());
        let grown = offer(&flexible(draft.state(), false), free, self.sharing);
        for (id, to) in grown {
            let Some(size) = draft.state().job(id).map(Job::size) else { continue };
            let reason = format!(
                "grows from {size} to {to} nodes: nobody wants {free} in the next {}",
                self.look_ahead
            );
            draft.grow(id, to - size, reason)?;
        }
        Ok(())
    }

    fn free(self, state: &State) -> u32 {
        let promises = state.reservations().map(|(_, promise)| (promise.at, promise.nodes));
        unpromised(state.idle(), promises, state.now(), self.look_ahead)
    }
}

fn is_flexible(job: &Job) -> bool {
    matches!(job.class, Class::Malleable | Class::Moldable)
}

/// Returns the running malleable jobs; without `with_leaving`, only jobs that are not leaving nodes.
fn flexible(state: &State, with_leaving: bool) -> Vec<Flexible<'_>> {
    let malleable = state.running().filter(|job| job.class == Class::Malleable);
    malleable
        .filter(|job| with_leaving || job.leaving.is_empty())
        .map(|job| Flexible {
            job: job.id,
            started: job.started.unwrap_or_default(),
            size: job.size(),
            limits: &job.limits,
        })
        .collect()
}

impl Policy for TwoParts {
    fn name(&self) -> &str {
        match self.sharing {
            Sharing::Egs => "two-parts-egs",
            Sharing::Fpsma => "two-parts-fpsma",
        }
    }

    fn decide(&mut self, _events: &[Event], draft: &mut Draft<'_>) -> Result<(), Refusal> {
        match self.serve_others(draft)? {
            Others::Started => {
                self.start_flexible(draft)?;
                self.grow_flexible(draft)
            }
            Others::Wait(wanted) => {
                let soon = draft.now() + self.look_ahead;
                match shadow(draft.state(), wanted) {
                    Some(promise) if promise.at <= soon => Ok(()),
                    _ => self.grow_flexible(draft),
                }
            }
            Others::Come => Ok(()),
        }
    }
}
