//! All requests of a job, and the decisions about their fate.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::event::{Event, Happening, micros};
use super::{Cause, CauseKind, ChangeError, Request, RequestId, SetChange, Step};
use crate::model::sets::{DeltaKind, SetName};

/// Number of ended requests that are remembered, for late queries.
const REMEMBERED: usize = 1024;

/// All requests of a job, and the world's epoch and size.
///
/// At most one resize is under way. Further requests wait their turn in the order of their
/// acceptance; a later one may make an earlier one that still waits pointless
/// ([`RequestKind::supersedes`](super::RequestKind::supersedes)), which is then aborted.
///
/// Every call that ends a resize goes through this value, in the one process that owns it. So of a
/// late acceptance and an abort that arrive together exactly one takes effect, and the other gets
/// [`ChangeError::Ended`].
///
/// Times are given by the caller, since the start of the job; a clock that goes backwards stands
/// still in the log.
///
/// ```
/// use std::time::Duration;
/// use elastic::change::{Changes, Request, SetChange, Step, RequestKind};
/// use elastic::member::MemberId;
/// use elastic::sets::SetName;
///
/// let now = Duration::from_millis;
/// let app = SetName::application("weather").unwrap();
/// let mut changes = Changes::new(4, now(0));
/// let id = changes.request(Request::new(RequestKind::Shrink(1), "socket"), now(10));
/// changes.admit(id, now(10)).unwrap();
/// let leaving = Some((SetName::new("mpi://rte/weather/delta/1").unwrap(), vec![MemberId(3)]));
/// changes.announce(id, SetChange { joining: None, leaving, bound: vec![app.clone()] }, now(11)).unwrap();
/// changes.step(id, Step::Agreed, now(12)).unwrap();
/// changes.step(id, Step::Begun, now(13)).unwrap();
/// changes.accept(id, &app, now(14)).unwrap();
/// assert_eq!(changes.finalize(id, now(15)).unwrap(), 1);
/// assert_eq!((changes.epoch(), changes.size()), (1, 3));
/// let end = changes.events().last().unwrap();
/// assert!(end.is_end() && end.steps[&Step::Announced] == 11_000);
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Changes {
    pub(super) changes: BTreeMap<RequestId, Change>,
    /// Accepted and waiting, in the order of acceptance.
    queue: VecDeque<RequestId>,
    pub(super) under_way: Option<RequestId>,
    ended: VecDeque<RequestId>,
    next: u64,
    epoch: u64,
    size: u64,
    log: Vec<Event>,
    next_event: u64,
    last_time: u64,
}

/// One request and its state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Change {
    request: Request,
    pub(super) resize: SetChange,
    pub(super) steps: BTreeMap<Step, u64>,
    accepted_by: BTreeSet<SetName>,
    deadline: Option<u64>,
    overdue: bool,
    end: Option<(Step, Option<Cause>)>,
}

/// Turn of an accepted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The request may be announced.
    Now,
    /// The request waits for this one, which is under way or waits right before it.
    After(RequestId),
}

/// Result of an acceptance by a bound set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// The joiners or other bound sets have not answered yet: continue computing and ask again.
    #[doc(alias = "MPI_ERR_PENDING")]
    Pending,
    /// All have confirmed: switch, then call [`Changes::finalize`].
    Complete,
}

impl Changes {
    /// Makes the state of a world of `size` ranks in epoch 0.
    pub fn new(size: u64, now: Duration) -> Changes {
        let mut changes = Changes {
            changes: BTreeMap::new(),
            queue: VecDeque::new(),
            under_way: None,
            ended: VecDeque::new(),
            next: 1,
            epoch: 0,
            size,
            log: Vec::new(),
            next_event: 0,
            last_time: 0,
        };
        changes.record(None, Happening::Started, now);
        changes
    }

    /// Number of committed resizes.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Number of the world's ranks.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the announced resize that has not ended.
    pub fn under_way(&self) -> Option<RequestId> {
        self.under_way
    }

    /// Returns the request to be announced next: the first that waits, if no resize is under way.
    pub fn next_in_turn(&self) -> Option<RequestId> {
        self.under_way.is_none().then(|| self.queue.front().copied()).flatten()
    }

    /// Returns true if the resize under way is past its deadline and that was not
    /// [recorded](Changes::overdue).
    pub fn is_overdue(&self, now: Duration) -> bool {
        self.next_deadline().is_some_and(|deadline| now >= deadline)
    }

    /// Returns the time at which [`overdue`](Changes::overdue) has something to record.
    pub fn next_deadline(&self) -> Option<Duration> {
        let change = self.changes.get(&self.under_way?).filter(|change| !change.overdue)?;
        change.deadline.map(Duration::from_micros)
    }

    /// Number of requests that wait for their turn.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Returns the request with a number; `None` if it does not exist, or ended long ago.
    pub fn request_of(&self, id: RequestId) -> Option<&Request> {
        self.changes.get(&id).map(|change| &change.request)
    }

    /// Returns the names of the deltas of an announced resize.
    pub(crate) fn deltas_of(&self, id: RequestId) -> Vec<(SetName, DeltaKind)> {
        let Some(Change { resize, .. }) = self.changes.get(&id) else { return Vec::new() };
        let name = |delta: &Option<(SetName, _)>| delta.as_ref().map(|(name, _)| name.clone());
        let joining = name(&resize.joining).map(|name| (name, DeltaKind::Add));
        joining
            .into_iter()
            .chain(name(&resize.leaving).map(|name| (name, DeltaKind::Sub)))
            .collect()
    }

    /// Returns the latest step of a request.
    pub fn status(&self, id: RequestId) -> Option<Step> {
        let change = self.changes.get(&id)?;
        let end = change.end.as_ref().map(|(step, _)| *step);
        end.or_else(|| change.steps.keys().next_back().copied())
    }

    /// Records a request. The caller answers it by [`admit`](Changes::admit) or
    /// [`refuse`](Changes::refuse).
    #[doc(alias = "MPI_Session_request_res_change")]
    pub fn request(&mut self, request: Request, now: Duration) -> RequestId {
        let id = RequestId(self.next);
        self.next += 1;
        let asked = request.clone();
        self.changes.insert(
            id,
            Change {
                request,
                resize: SetChange::default(),
                steps: BTreeMap::new(),
                accepted_by: BTreeSet::new(),
                deadline: None,
                overdue: false,
                end: None,
            },
        );
        self.reach(id, Step::Requested, now, |event| event.asked = Some(asked));
        id
    }

    /// Refuses a request, which ends it.
    ///
    /// # Errors
    /// [`ChangeError::Unknown`] or [`ChangeError::Ended`] for a request that is not open;
    /// [`ChangeError::Illegal`] after it was accepted.
    pub fn refuse(
        &mut self,
        id: RequestId,
        cause: Cause,
        now: Duration,
    ) -> Result<(), ChangeError> {
        let change = self.open("refuse", id)?;
        if change.steps.contains_key(&Step::Accepted) {
            return Err(illegal(id, Step::Refused, "it was accepted; it can be aborted"));
        }
        self.end(id, Step::Refused, Some(cause), now);
        Ok(())
    }

    /// Accepts a request. Waiting requests that it makes pointless are aborted.
    ///
    /// # Errors
    /// [`ChangeError::Unknown`] or [`ChangeError::Ended`] for a request that is not open;
    /// [`ChangeError::Illegal`] if it was accepted before.
    pub fn admit(&mut self, id: RequestId, now: Duration) -> Result<Turn, ChangeError> {
        let change = self.open("admit", id)?;
        if change.steps.contains_key(&Step::Accepted) {
            return Err(illegal(id, Step::Accepted, "it was accepted before"));
        }
        let wish = change.request.kind;
        self.reach(id, Step::Accepted, now, |_| {});
        let waiting: Vec<RequestId> = self.queue.iter().copied().collect();
        for earlier in waiting {
            if self.changes.get(&earlier).is_some_and(|one| wish.supersedes(one.request.kind)) {
                let cause = Cause::new(CauseKind::Superseded, format!("by {id}"));
                self.end(earlier, Step::Aborted, Some(cause), now);
            }
        }
        let before = self.queue.back().copied().or(self.under_way);
        self.queue.push_back(id);
        Ok(before.map_or(Turn::Now, Turn::After))
    }

    /// Announces the joiners and leavers. From now on queries show the resize, and the grace time
    /// runs. Only for the next request in turn.
    ///
    /// # Errors
    /// [`ChangeError::Unknown`] or [`ChangeError::Ended`] for a request that is not open;
    /// [`ChangeError::Busy`] while another resize is under way; [`ChangeError::Illegal`] if the
    /// request is not next in turn, or the resize changes nothing, leaves no rank or is bound to no
    /// set.
    pub fn announce(
        &mut self,
        id: RequestId,
        resize: SetChange,
        now: Duration,
    ) -> Result<(), ChangeError> {
        self.open("announce", id)?;
        if let Some(running) = self.under_way {
            return Err(ChangeError::Busy { id, running });
        }
        if self.queue.front() != Some(&id) {
            return Err(illegal(id, Step::Announced, "it was not accepted, or others come first"));
        }
        let (joiners, leavers) = (resize.joiners(), resize.leavers());
        if joiners + leavers == 0 {
            return Err(illegal(id, Step::Announced, "it has neither joiners nor leavers"));
        }
        if leavers >= self.size + joiners {
            return Err(illegal(id, Step::Announced, "no rank would be left"));
        }
        if resize.bound.is_empty() {
            return Err(illegal(id, Step::Announced, "it is bound to no process set"));
        }
        self.queue.pop_front();
        self.under_way = Some(id);
        let time = self.time(now);
        if let Some(change) = self.changes.get_mut(&id) {
            let grace = change.request.grace.map(micros);
            change.deadline = grace.map(|grace| time.saturating_add(grace));
            change.resize = resize;
        }
        self.reach(id, Step::Announced, now, |event| {
            event.joining = Some(joiners);
            event.leaving = Some(leavers);
        });
        Ok(())
    }

    /// Records a step of the resize: launched, ready, pending, confirmed, agreed, begun or moved.
    /// The other steps have their own calls.
    ///
    /// # Errors
    /// [`ChangeError::Unknown`] or [`ChangeError::Ended`] for a request that is not open;
    /// [`ChangeError::Illegal`] if the step came before, an earlier one is missing, or it has a
    /// call of its own.
    pub fn step(&mut self, id: RequestId, step: Step, now: Duration) -> Result<(), ChangeError> {
        self.check(id, step)?;
        self.reach(id, step, now, |_| {});
        Ok(())
    }

    /// Records [`Step::Agreed`], with the round at which all ranks enter. May be repeated until the
    /// window is open.
    ///
    /// # Errors
    /// [`ChangeError::Unknown`] or [`ChangeError::Ended`] for a request that is not open;
    /// [`ChangeError::Illegal`] before the announcement, while joiners are not ready, and once the
    /// window is open.
    pub fn agreed(&mut self, id: RequestId, round: u64, now: Duration) -> Result<(), ChangeError> {
        self.check(id, Step::Agreed)?;
        self.reach(id, Step::Agreed, now, |event| event.round = Some(round));
        Ok(())
    }

    /// Records [`Step::Moved`], with the bytes sent from rank to rank.
    ///
    /// # Errors
    /// [`ChangeError::Unknown`] or [`ChangeError::Ended`] for a request that is not open;
    /// [`ChangeError::Illegal`] before [`Step::Begun`], and if the step came before.
    pub fn moved(&mut self, id: RequestId, bytes: u64, now: Duration) -> Result<(), ChangeError> {
        self.check(id, Step::Moved)?;
        self.reach(id, Step::Moved, now, |event| event.bytes = Some(bytes));
        Ok(())
    }

    /// Records that the members of a bound set accept. If there are joiners, the first acceptance
    /// makes the resize [pending](Step::Pending); the call may be repeated to query its state.
    ///
    /// # Errors
    /// [`ChangeError::Unknown`] or [`ChangeError::Ended`] for a request that is not open;
    /// [`ChangeError::Illegal`] before the announcement; [`ChangeError::NotBound`] for a set that
    /// the resize is not bound to.
    #[doc(alias = "MPI_Session_accept_res_change")]
    pub fn accept(
        &mut self,
        id: RequestId,
        bound: &SetName,
        now: Duration,
    ) -> Result<Acceptance, ChangeError> {
        let change = self.open("accept", id)?;
        if !change.steps.contains_key(&Step::Announced) {
            return Err(illegal(id, Step::Pending, "it was not announced"));
        }
        if !change.resize.bound.contains(bound) {
            return Err(ChangeError::NotBound { id, set: bound.clone() });
        }
        let pending = change.resize.joining.is_some() && !change.steps.contains_key(&Step::Pending);
        if let Some(change) = self.changes.get_mut(&id) {
            change.accepted_by.insert(bound.clone());
        }
        if pending {
            self.reach(id, Step::Pending, now, |_| {});
        }
        Ok(match self.missing(id) {
            None => Acceptance::Complete,
            Some(_) => Acceptance::Pending,
        })
    }

    /// Records that the joiners have looked up the set that they will be in: [`Step::Confirmed`].
    ///
    /// # Errors
    /// [`ChangeError::Unknown`] or [`ChangeError::Ended`] for a request that is not open;
    /// [`ChangeError::Illegal`] before [`Step::Launched`] and [`Step::Pending`], and if the step
    /// came before.
    #[doc(alias = "MPI_Session_confirm_res_change")]
    pub fn confirm(&mut self, id: RequestId, now: Duration) -> Result<(), ChangeError> {
        self.step(id, Step::Confirmed, now)
    }

    /// Commits the resize. Returns the new epoch.
    ///
    /// # Errors
    /// [`ChangeError::Unknown`] or [`ChangeError::Ended`] for a request that is not open;
    /// [`ChangeError::Illegal`] while the announcement, a confirmation or an acceptance is missing.
    pub fn finalize(&mut self, id: RequestId, now: Duration) -> Result<u64, ChangeError> {
        let change = self.open("finalize", id)?;
        let (joiners, leavers) = (change.resize.joiners(), change.resize.leavers());
        if let Some(missing) = self.missing(id) {
            return Err(illegal(id, Step::Finalized, missing));
        }
        self.size = self.size + joiners - leavers;
        self.epoch += 1;
        self.end(id, Step::Finalized, None, now);
        Ok(self.epoch)
    }

    /// Aborts the resize; the world stays as it is. The caller has to undo a resize that has begun.
    ///
    /// # Errors
    /// [`ChangeError::Unknown`] or [`ChangeError::Ended`] for a request that is not open;
    /// [`ChangeError::Illegal`] before it is accepted.
    pub fn abort(&mut self, id: RequestId, cause: Cause, now: Duration) -> Result<(), ChangeError> {
        let change = self.open("abort", id)?;
        if !change.steps.contains_key(&Step::Accepted) {
            return Err(illegal(id, Step::Aborted, "it was not accepted; it can be refused"));
        }
        self.end(id, Step::Aborted, Some(cause), now);
        Ok(())
    }

    /// Returns the time by which the resize under way has to be done.
    pub fn deadline(&self, id: RequestId) -> Option<Duration> {
        self.changes.get(&id)?.deadline.map(Duration::from_micros)
    }

    /// Records in the log, once, that the grace time of the resize under way is over, and returns
    /// its request then. The resize continues: the owner of the processes decides whether to wait,
    /// to kill or to abort. `late` are the ranks that have not reached the agreed round, if known.
    pub fn overdue(&mut self, late: &[u64], now: Duration) -> Option<RequestId> {
        let id = self.under_way?;
        let time = self.time(now);
        let change = self.changes.get_mut(&id)?;
        if change.overdue || change.deadline.is_none_or(|deadline| time < deadline) {
            return None;
        }
        change.overdue = true;
        self.record(Some(id), Happening::Overdue, now).late = late.to_vec();
        Some(id)
    }

    /// Adds an event to the log that is no step of a request.
    pub fn note(&mut self, cause: Cause, now: Duration) {
        self.record(None, Happening::Notice, now).cause = Some(cause);
    }

    /// Returns the events that were not [taken](Changes::take_events).
    pub fn events(&self) -> &[Event] {
        &self.log
    }

    /// Takes the events since the last call, for writing the log.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.log)
    }

    /// Returns a request that has not ended.
    fn open(&self, call: &'static str, id: RequestId) -> Result<&Change, ChangeError> {
        let change = self.changes.get(&id).ok_or(ChangeError::Unknown { call, id })?;
        match &change.end {
            None => Ok(change),
            Some((end, cause)) => {
                Err(ChangeError::Ended { call, id, end: *end, cause: cause.clone() })
            }
        }
    }

    /// Checks that an intermediate step is allowed now.
    fn check(&self, id: RequestId, step: Step) -> Result<(), ChangeError> {
        let change = self.open("step", id)?;
        let done = |step| change.steps.contains_key(&step);
        let joins = change.resize.joining.is_some();
        let again = step == Step::Agreed && !done(Step::Begun);
        let missing = match step {
            _ if done(step) && !again => Some("it came before"),
            _ if !done(Step::Announced) => Some("it was not announced"),
            Step::Launched | Step::Pending if !joins => Some("it has no joiners"),
            Step::Launched | Step::Pending => None,
            Step::Ready if !done(Step::Launched) => Some("joiners were not launched"),
            Step::Confirmed if !done(Step::Launched) => Some("joiners were not launched"),
            Step::Confirmed if !done(Step::Pending) => Some("the old side has not accepted"),
            Step::Agreed if joins && !done(Step::Ready) => Some("joiners are not ready"),
            Step::Begun if !done(Step::Agreed) => Some("no round was agreed"),
            Step::Moved if !done(Step::Begun) => Some("the window is not open"),
            Step::Ready | Step::Confirmed | Step::Agreed | Step::Begun | Step::Moved => None,
            _ => Some("this step has a call of its own"),
        };
        missing.map_or(Ok(()), |cause| Err(illegal(id, step, cause)))
    }

    /// Returns the reason why an open resize cannot be finalised.
    fn missing(&self, id: RequestId) -> Option<&'static str> {
        let change = self.changes.get(&id)?;
        let done = |step| change.steps.contains_key(&step);
        let resize = &change.resize;
        if !done(Step::Announced) {
            Some("it was not announced")
        } else if resize.joining.is_some() && !done(Step::Confirmed) {
            Some("the joiners have not confirmed")
        } else if resize.leaving.is_some() && change.accepted_by.len() < resize.bound.len() {
            Some("not all bound sets have accepted")
        } else {
            None
        }
    }

    fn reach(&mut self, id: RequestId, step: Step, now: Duration, with: impl FnOnce(&mut Event)) {
        let time = self.time(now);
        if let Some(change) = self.changes.get_mut(&id) {
            change.steps.insert(step, time);
        }
        with(self.record(Some(id), Happening::Step(step), now));
    }

    fn end(&mut self, id: RequestId, end: Step, cause: Option<Cause>, now: Duration) {
        self.queue.retain(|waiting| *waiting != id);
        if self.under_way == Some(id) {
            self.under_way = None;
        }
        let time = self.time(now);
        let mut steps = BTreeMap::new();
        if let Some(change) = self.changes.get_mut(&id) {
            change.steps.insert(end, time);
            change.end = Some((end, cause.clone()));
            steps = change.steps.clone();
        }
        let event = self.record(Some(id), Happening::Step(end), now);
        event.cause = cause;
        event.steps = steps;
        self.ended.push_back(id);
        if self.ended.len() > REMEMBERED
            && let Some(oldest) = self.ended.pop_front()
        {
            self.changes.remove(&oldest);
        }
    }

    fn record(&mut self, id: Option<RequestId>, what: Happening, now: Duration) -> &mut Event {
        let time_us = self.time(now);
        self.last_time = time_us;
        let resize = id.and_then(|id| self.changes.get(&id)).map(|change| &change.resize);
        let target = match what {
            Happening::Step(step) if step.is_end() => None,
            _ => resize
                .filter(|resize| resize.joiners() + resize.leavers() > 0)
                .map(|resize| self.size + resize.joiners() - resize.leavers()),
        };
        let event = Event {
            sequence: self.next_event,
            time_us,
            what,
            request: id,
            epoch: self.epoch,
            size: self.size,
            target,
            joining: None,
            leaving: None,
            round: None,
            bytes: None,
            late: Vec::new(),
            asked: None,
            cause: None,
            steps: BTreeMap::new(),
        };
        self.next_event += 1;
        let at = self.log.len();
        self.log.push(event);
        &mut self.log[at]
    }

    fn time(&self, now: Duration) -> u64 {
        micros(now).max(self.last_time)
    }
}

fn illegal(id: RequestId, step: Step, cause: &'static str) -> ChangeError {
    ChangeError::Illegal { id, step, cause }
}
