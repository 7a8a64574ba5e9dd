//! The interface between a scheduler and the world it acts on.

use crate::action::{Action, Choice, Decision, Reason};
use crate::event::Event;
use crate::job::JobId;
use crate::state::{Refusal, State};
use crate::time::{Span, Time};

/// A scheduler: reacts to events with decisions.
///
/// A policy is deterministic: the same states and events give the same decisions.
pub trait Policy {
    /// Returns the name by which users choose the policy.
    fn name(&self) -> &str;

    /// Returns true if the policy can decide about nodes that jobs share.
    fn shares_nodes(&self) -> bool {
        false
    }

    /// Decides after the events of one instant, which the state has already recorded.
    ///
    /// A job of an [`Event::ResizePoint`] waits for the answer; without a decision it keeps its
    /// size.
    ///
    /// # Errors
    ///
    /// A decision of the policy is impossible: a defect of the policy.
    fn decide(&mut self, events: &[Event], draft: &mut Draft<'_>) -> Result<(), Refusal>;
}

/// Decisions in progress. Each is checked and carried out in the state at once, so that the next
/// one builds on it.
#[derive(Debug)]
pub struct Draft<'a> {
    state: &'a mut State,
    decisions: Vec<Decision>,
}

impl<'a> Draft<'a> {
    /// Begins decisions in a state.
    #[must_use]
    pub fn new(state: &'a mut State) -> Draft<'a> {
        Draft { state, decisions: Vec::new() }
    }

    /// Returns the state with all decisions so far.
    #[must_use]
    pub fn state(&self) -> &State {
        self.state
    }

    /// Returns the instant of the decisions.
    #[must_use]
    pub fn now(&self) -> Time {
        self.state.now()
    }

    /// Returns the decisions.
    #[must_use]
    pub fn finish(self) -> Vec<Decision> {
        self.decisions
    }

    /// Carries out an action and records it with its reason.
    ///
    /// # Errors
    ///
    /// The action is not possible; nothing has changed.
    pub fn act(&mut self, action: &Action, reason: impl Into<Reason>) -> Result<(), Refusal> {
        let action = self.state.apply(action)?;
        self.decisions.push(Decision { action, reason: reason.into() });
        Ok(())
    }

    /// Starts a queued job.
    ///
    /// # Errors
    ///
    /// As [`act`](Self::act).
    pub fn start(
        &mut self,
        job: JobId,
        nodes: impl Into<Choice>,
        reason: impl Into<Reason>,
    ) -> Result<(), Refusal> {
        self.act(&Action::Start { job, nodes: nodes.into() }, reason)
    }

    /// Gives a running job additional nodes.
    ///
    /// # Errors
    ///
    /// As [`act`](Self::act).
    pub fn grow(
        &mut self,
        job: JobId,
        nodes: impl Into<Choice>,
        reason: impl Into<Reason>,
    ) -> Result<(), Refusal> {
        self.act(&Action::Grow { job, nodes: nodes.into() }, reason)
    }

    /// Takes nodes from a running job: at once at a resize point, or with a grace time.
    ///
    /// # Errors
    ///
    /// As [`act`](Self::act).
    pub fn shrink(
        &mut self,
        job: JobId,
        nodes: impl Into<Choice>,
        grace: Option<Span>,
        reason: impl Into<Reason>,
    ) -> Result<(), Refusal> {
        self.act(&Action::Shrink { job, nodes: nodes.into(), grace }, reason)
    }

    /// Ends a running best-effort job.
    ///
    /// # Errors
    ///
    /// As [`act`](Self::act).
    pub fn stop(&mut self, job: JobId, reason: impl Into<Reason>) -> Result<(), Refusal> {
        self.act(&Action::Stop { job }, reason)
    }

    /// Leaves a running job unchanged.
    ///
    /// # Errors
    ///
    /// As [`act`](Self::act).
    pub fn keep(&mut self, job: JobId, reason: impl Into<Reason>) -> Result<(), Refusal> {
        self.act(&Action::Keep { job }, reason)
    }

    /// Promises nodes to a queued job.
    ///
    /// # Errors
    ///
    /// As [`act`](Self::act).
    pub fn reserve(
        &mut self,
        job: JobId,
        nodes: u32,
        at: Time,
        reason: impl Into<Reason>,
    ) -> Result<(), Refusal> {
        self.act(&Action::Reserve { job, nodes, at }, reason)
    }
}
