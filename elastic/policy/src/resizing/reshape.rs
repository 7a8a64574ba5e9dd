//! Resizes jobs at their resize points, by their measured iteration times.

use std::collections::BTreeMap;

use crate::allocation::{Ageing, Answer, Candidate, Need};
use crate::event::Event;
use crate::job::{Class, Job, JobId};
use crate::policy::{Draft, Policy};
use crate::predict::{LastResize, Prediction, shrink_points};
use crate::resizing::ranked::{rank, ranked, start};
use crate::resizing::scenario::{Preference, Scenario};
use crate::rigid::Easy;
use crate::sizes::next_larger;
use crate::state::{Refusal, State};
use crate::time::Time;

/// The scheduler of a scenario.
///
/// At a resize point three questions are decided in this order: whether the job gives nodes to a
/// waiting job; whether it returns from an expansion that did not help, and stays there; whether it
/// expands. Jobs start between the second question and the third if the scenario favours waiting
/// jobs, and after the third if not. While nodes are being collected for the first job of the
/// queue, no job expands into them.
///
/// Source: R. Sudarsan, dissertation, Virginia Tech 2009, section 4.2.
#[derive(Clone, Debug)]
pub struct Reshape {
    scenario: Scenario,
    prediction: Prediction,
    ageing: Ageing,
    /// The running jobs as of their last resize points.
    running: BTreeMap<JobId, Known>,
}

#[derive(Clone, Debug)]
struct Known {
    candidate: Candidate,
    last_point: Time,
}

/// State of the answer to a job at its resize point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answered {
    Yes,
    NotYet,
}

impl Reshape {
    /// Makes the scheduler of a scenario, with the usual prediction and ageing.
    #[must_use]
    pub fn new(scenario: Scenario) -> Reshape {
        let (prediction, ageing) = (Prediction::default(), Ageing::default());
        Reshape { scenario, prediction, ageing, running: BTreeMap::new() }
    }

    /// Sets how benefits are predicted.
    #[must_use]
    pub fn prediction(mut self, prediction: Prediction) -> Reshape {
        self.prediction = prediction;
        self
    }

    /// Sets the weights of the ageing priority.
    #[must_use]
    pub fn ageing(mut self, ageing: Ageing) -> Reshape {
        self.ageing = ageing;
        self
    }

    /// Records events, and returns the jobs at their resize points.
    fn take_in(&mut self, events: &[Event], state: &State) -> Vec<JobId> {
        let mut at_points = Vec::new();
        for event in events {
            match *event {
                Event::Ended(job) => {
                    self.running.remove(&job);
                }
                Event::ResizePoint { job, .. } => {
                    if let Some(known) = state.job(job).filter(|job| job.class == Class::Resizable)
                    {
                        self.measure(known, state.now());
                        at_points.push(job);
                    }
                }
                _ => {}
            }
        }
        at_points
    }

    fn measure(&mut self, job: &Job, now: Time) {
        let before = self.running.remove(&job.id);
        let last = before.as_ref().map(|known| known.last_point).or(job.started).unwrap_or(now);
        let (holds, contract) = before
            .map_or((false, false), |known| (known.candidate.holds, known.candidate.contract));
        let potential = self.prediction.potential(job);
        let candidate = Candidate {
            job: job.id,
            size: job.size(),
            next: next_larger(&job.limits, job.size()),
            potential,
            promises: self.prediction.promises(potential),
            holds,
            next_point: now + now.since(last),
            rank: rank(job, &self.ageing, now),
            shrinks: shrink_points(job),
            contract,
        };
        self.running.insert(job.id, Known { candidate, last_point: now });
    }

    /// Updates the known values of a job after its size was changed.
    fn changed(&mut self, job: Option<&Job>) {
        let Some(job) = job else { return };
        if let Some(known) = self.running.get_mut(&job.id) {
            known.candidate.size = job.size();
            known.candidate.next = next_larger(&job.limits, job.size());
            known.candidate.shrinks = shrink_points(job);
        }
    }

    fn others(&self, job: JobId) -> impl Iterator<Item = &Candidate> {
        self.running.values().map(|known| &known.candidate).filter(move |other| other.job != job)
    }

    /// Returns the need of the first job of the queue. `None` if no job waits.
    fn need(&self, state: &State) -> Option<Need> {
        let (job, rank) = match self.scenario.by_rank {
            true => ranked(state, &self.ageing).first().copied()?,
            false => {
                let head = state.job(state.queue().head()?)?;
                (head.id, rank(head, &self.ageing, state.now()))
            }
        };
        let missing = state.job(job)?.limits.start.saturating_sub(state.idle());
        Some(Need { job, missing, rank })
    }

    /// Answers a job that gives nodes to a waiting one, or returns from an expansion that did not
    /// help.
    fn contract(&mut self, job: JobId, draft: &mut Draft<'_>) -> Result<Answered, Refusal> {
        let Some(known) = self.running.get(&job) else { return Ok(Answered::Yes) };
        let candidate = known.candidate.clone();
        let need = self.need(draft.state());
        if let (Some(reclaim), Some(need)) = (self.scenario.reclaim, need) {
            let answer = reclaim.decide(&candidate, self.others(job), need);
            if let Some(to) = answer.size {
                draft.shrink(job, candidate.size - to, None, answer.reason)?;
                for known in self.running.values_mut() {
                    known.candidate.contract = known.candidate.job != job;
                }
                self.changed(draft.state().job(job));
                return Ok(Answered::Yes);
            }
        }
        let last = draft.state().job(job).map(|job| self.prediction.last_resize(job));
        let Some(LastResize::DidNotHelp { before }) = last else { return Ok(Answered::NotYet) };
        if candidate.holds {
            return Ok(Answered::NotYet);
        }
        let reason = format!(
            "shrinks from {} back to {before} nodes: the expansion did not help; it stays there",
            candidate.size
        );
        draft.shrink(job, candidate.size - before, None, reason)?;
        if let Some(known) = self.running.get_mut(&job) {
            known.candidate.holds = true;
        }
        self.changed(draft.state().job(job));
        Ok(Answered::Yes)
    }

    /// Answers a job that expands or keeps its size.
    fn expand(&mut self, job: JobId, draft: &mut Draft<'_>) -> Result<(), Refusal> {
        let Some((size, answer)) = self.weigh(job, draft.state()) else { return Ok(()) };
        match answer.size {
            Some(to) => draft.grow(job, to - size, answer.reason)?,
            None => draft.keep(job, answer.reason)?,
        }
        self.changed(draft.state().job(job));
        Ok(())
    }

    /// Returns the present size of a job, and the answer whether it expands.
    fn weigh(&self, job: JobId, state: &State) -> Option<(u32, Answer)> {
        let (job, candidate) = (state.job(job)?, &self.running.get(&job)?.candidate);
        let size = candidate.size;
        let keep =
            |reason: String| Some((size, Answer::keep(format!("keeps {size} nodes: {reason}"))));
        if job.iterations_left == Some(0) {
            return keep("it is about to end".to_owned());
        }
        if let Some(Need { job, missing, .. }) = self.collects(candidate, state) {
            return keep(format!("{missing} nodes are being collected for {job}"));
        }
        let gain = candidate.next.and_then(|next| self.prediction.gain(job, next));
        if let Some(gain) = gain.filter(|gain| self.prediction.gate && !gain.is_worth_it()) {
            let (saved, cost) = (gain.saved, gain.cost);
            return keep(format!("an expansion would save {saved:.1} s and cost {cost:.1} s"));
        }
        let others = self.others(candidate.job);
        Some((size, self.scenario.expand.decide(candidate, others, state.idle())))
    }

    /// Returns the need of the first job of the queue if the running jobs can give all its missing
    /// nodes. A job that does not give to it does not wait for it either.
    fn collects(&self, candidate: &Candidate, state: &State) -> Option<Need> {
        let reclaim = self.scenario.reclaim?;
        let need = self.need(state).filter(|need| need.missing > 0)?;
        let gives = |one: &Candidate| reclaim.may_take(one, &need);
        if !gives(candidate) {
            return None;
        }
        let given = |one: &Candidate| one.smallest().map_or(0, |smallest| one.size - smallest);
        let all = self.running.values().map(|known| &known.candidate).filter(|one| gives(one));
        (all.map(given).sum::<u32>() >= need.missing).then_some(need)
    }

    fn start_waiting(&self, draft: &mut Draft<'_>) -> Result<(), Refusal> {
        match self.scenario.by_rank {
            true => start(draft, &self.ageing),
            false => Easy::default().decide(&[], draft),
        }
    }

    /// Returns true if the job may expand before waiting jobs start.
    fn goes_before_queue(&self, job: JobId, state: &State) -> bool {
        if self.scenario.favours == Preference::Running {
            return true;
        }
        match (self.running.get(&job), self.need(state)) {
            (Some(known), Some(need)) => {
                self.scenario.by_rank && known.candidate.rank.is_above(&need.rank)
            }
            _ => true,
        }
    }
}

impl Policy for Reshape {
    fn name(&self) -> &str {
        self.scenario.name
    }

    fn decide(&mut self, events: &[Event], draft: &mut Draft<'_>) -> Result<(), Refusal> {
        let mut later = Vec::new();
        for job in self.take_in(events, draft.state()) {
            if self.contract(job, draft)? == Answered::Yes {
                continue;
            }
            match self.goes_before_queue(job, draft.state()) {
                true => self.expand(job, draft)?,
                false => later.push(job),
            }
        }
        self.start_waiting(draft)?;
        for job in later {
            self.expand(job, draft)?;
        }
        Ok(())
    }
}
