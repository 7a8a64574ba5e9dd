//! Resizes malleable jobs each period, by the ratio of MPI time to computing time.

use std::collections::BTreeSet;

use crate::balance::{Share, balance, fill, givers};
use crate::event::Event;
use crate::job::{Class, Job, JobId};
use crate::policy::{Draft, Policy};
use crate::ratio::{Range, Thresholds, range};
use crate::rigid::{Easy, shadow, start_heads};
use crate::sizes::largest_within;
use crate::state::{Refusal, State};
use crate::time::{Span, Time};

/// Elastic backfilling.
///
/// Each period the jobs with a new measurement get a range: jobs that spend too much time in MPI
/// are halved, jobs that spend little may be doubled, others keep their size. If the first job of
/// the queue lacks nodes, jobs that may be doubled are balanced so that they end together on the
/// remaining nodes; if not, idle nodes go to the jobs with the longest remaining time. A job that
/// keeps its size gets no decision.
///
/// Source: I. A. Comprés Ureña, dissertation, TU München 2017, section 10.3.
#[derive(Clone, Debug)]
pub struct ElasticBackfill {
    /// The ratios between which a job keeps its size.
    pub thresholds: Thresholds,
    /// The time in which a job has to leave nodes.
    pub grace: Span,
    /// True if running jobs shrink for waiting ones.
    pub balancing: bool,
    /// True if idle nodes go to running jobs.
    pub filling: bool,
    /// The jobs with a measurement since their last change of size.
    measured: BTreeSet<JobId>,
}

impl Default for ElasticBackfill {
    /// The usual thresholds, 60 s of grace, balancing and filling.
    fn default() -> ElasticBackfill {
        ElasticBackfill {
            thresholds: Thresholds::default(),
            grace: Span::seconds(60),
            balancing: true,
            filling: true,
            measured: BTreeSet::new(),
        }
    }
}

impl ElasticBackfill {
    fn take_in(&mut self, events: &[Event]) {
        for event in events {
            match *event {
                Event::Measured { job, .. } => {
                    self.measured.insert(job);
                }
                Event::Ended(job) | Event::Left(job) | Event::GraceOver(job) => {
                    self.measured.remove(&job);
                }
                _ => {}
            }
        }
    }

    /// Returns the jobs that may change, each with its range.
    fn ranges(&self, state: &State) -> Vec<(JobId, Range)> {
        let job = |id: &JobId| {
            let job = state.job(*id)?;
            if job.class != Class::Malleable || !job.leaving.is_empty() {
                return None;
            }
            let limits = &job.limits;
            Some((*id, range(job.size(), job.mpi_ratio?, limits.min, limits.max, self.thresholds)))
        };
        self.measured.iter().filter_map(job).collect()
    }

    fn shrink(
        &mut self,
        draft: &mut Draft<'_>,
        job: JobId,
        to: u32,
        reason: String,
    ) -> Result<(), Refusal> {
        let Some(size) = draft.state().job(job).map(Job::size) else { return Ok(()) };
        self.measured.remove(&job);
        draft.shrink(job, size - to, Some(self.grace), reason)
    }

    fn halve(&mut self, ranges: &[(JobId, Range)], draft: &mut Draft<'_>) -> Result<(), Refusal> {
        for (id, range) in ranges {
            let (Range::Halve { to }, Some(job)) = (*range, draft.state().job(*id)) else {
                continue;
            };
            let Some(fitting) = largest_within(&job.limits, to) else { continue };
            let ratio = job.mpi_ratio.map_or(0.0, |ratio| ratio.total.max(ratio.recent));
            let reason = format!(
                "halves from {} to {fitting} nodes: MPI takes {ratio:.3} of the computing time, more than {}",
                job.size(),
                self.thresholds.upper
            );
            self.shrink(draft, *id, fitting, reason)?;
        }
        Ok(())
    }

    /// Balances jobs so that the first job of the queue gets its missing nodes.
    fn make_room(
        &mut self,
        ranges: &[(JobId, Range)],
        lacking: (JobId, u32),
        draft: &mut Draft<'_>,
    ) -> Result<(), Refusal> {
        let (head, missing) = lacking;
        let doubles = shares(ranges, draft.state());
        let all: Vec<Share> = doubles.iter().map(|(_, share)| *share).collect();
        let Some(chosen) = givers(&all, missing) else { return Ok(()) };
        let chosen: Vec<(JobId, Share)> = chosen.into_iter().map(|index| doubles[index]).collect();
        let set: Vec<Share> = chosen.iter().map(|(_, share)| *share).collect();
        for ((id, share), to) in chosen.iter().zip(balance(&set, -i64::from(missing))) {
            let fitting = draft.state().job(*id).and_then(|job| largest_within(&job.limits, to));
            let Some(to) = fitting.filter(|to| *to < share.nodes) else { continue };
            let reason = format!(
                "shrinks from {} to {to} nodes: {head} lacks {missing}, and so those that give end together",
                share.nodes
            );
            self.shrink(draft, *id, to, reason)?;
        }
        Ok(())
    }

    fn fill(&mut self, ranges: &[(JobId, Range)], draft: &mut Draft<'_>) -> Result<(), Refusal> {
        let state = draft.state();
        // Nodes that the first job of the queue needs at its reservation stay idle.
        let head = state.queue().head().and_then(|head| state.job(head));
        let idle = match head.map(|head| shadow(state, head.limits.start)) {
            None => state.idle(),
            Some(promise) => promise.map_or(0, |promise| promise.spare.min(state.idle())),
        };
        let doubles = shares(ranges, state);
        let all: Vec<Share> = doubles.iter().map(|(_, share)| *share).collect();
        let fit = |index: usize, most| {
            state.job(doubles[index].0).and_then(|job| largest_within(&job.limits, most))
        };
        let filled = fill(&all, idle, fit);
        for ((id, share), to) in
            doubles.iter().zip(filled).filter(|((_, share), to)| share.nodes < *to)
        {
            let reason = format!(
                "grows from {} to {to} nodes: they are idle, it has {:.0} s left and little MPI time",
                share.nodes, share.remaining
            );
            self.measured.remove(id);
            draft.grow(*id, to - share.nodes, reason)?;
        }
        Ok(())
    }

    /// Starts jobs. While nodes are being left for the first job of the queue, no job starts before
    /// it.
    fn start_waiting(draft: &mut Draft<'_>) -> Result<(), Refusal> {
        start_heads(draft)?;
        match lacking(draft.state()) {
            Some((_, 0)) => Ok(()),
            _ => Easy::default().decide(&[], draft),
        }
    }
}

/// Returns the first job of the queue and the number of nodes that it lacks in addition to those
/// being left.
fn lacking(state: &State) -> Option<(JobId, u32)> {
    let head = state.job(state.queue().head()?)?;
    let leaving: u32 = state.running().map(|job| job.leaving.count()).sum();
    Some((head.id, head.limits.start.saturating_sub(state.idle() + leaving)))
}

/// Returns the jobs that may be doubled, as shares.
fn shares(ranges: &[(JobId, Range)], state: &State) -> Vec<(JobId, Share)> {
    let share = |(id, range): &(JobId, Range)| {
        let (Range::Double { to }, job) = (*range, state.job(*id)?) else { return None };
        let remaining = job.expected_end.unwrap_or(Time::ZERO).since(state.now()).as_seconds();
        Some((*id, Share { nodes: job.size(), remaining, min: job.limits.min, max: to }))
    };
    ranges.iter().filter_map(share).collect()
}

impl Policy for ElasticBackfill {
    fn name(&self) -> &str {
        "elastic-backfill"
    }

    fn decide(&mut self, events: &[Event], draft: &mut Draft<'_>) -> Result<(), Refusal> {
        self.take_in(events);
        Self::start_waiting(draft)?;
        if !events.contains(&Event::Tick) {
            return Ok(());
        }
        let ranges = self.ranges(draft.state());
        self.halve(&ranges, draft)?;
        match lacking(draft.state()).filter(|(_, missing)| *missing > 0) {
            Some(lacking) if self.balancing => self.make_room(&ranges, lacking, draft)?,
            _ => {}
        }
        match lacking(draft.state()) {
            // Nodes are being left for the first job of the queue.
            Some((_, 0)) => Ok(()),
            _ if !self.filling => Ok(()),
            _ => self.fill(&ranges, draft),
        }
    }
}
