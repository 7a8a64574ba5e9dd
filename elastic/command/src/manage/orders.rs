//! Requests that a manager has sent to jobs and that have not ended.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use elastic::change::{Event, Happening, Request, RequestId, Step};
use elastic::manager::WorldStatus;
use elastic::manager::control::wire::{Answer, Call};
use elastic_policy::job::Limits;
use elastic_policy::time::{Span, Time};

use super::contact::Contact;

/// The time before a job that refused or gave up a change is asked for it again: at first, and at
/// most.
const PAUSES: (Span, Span) = (Span(30_000), Span(600_000));

/// The number of a job's latest events that are searched for requests of an earlier manager.
pub const EVENTS: u64 = 64;

/// The direction of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    Grow,
    Shrink,
}

/// The open requests to one job, all for the same change.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Order {
    change: Change,
    /// The number of the first event that may be about them.
    since: u64,
    requests: Vec<RequestId>,
}

/// A change that a job is not asked for until a later time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pause {
    until: Time,
    length: Span,
}

/// The open requests by job, and the paused changes.
#[derive(Debug, Default)]
pub struct Orders {
    orders: BTreeMap<String, Order>,
    pauses: BTreeMap<(String, Change), Pause>,
}

impl Orders {
    /// Sends requests to a job, one after the other, until one is refused.
    ///
    /// # Errors
    /// The job cannot be reached, or refuses: the change is then paused.
    pub fn send(
        &mut self,
        job: &str,
        contact: &Contact,
        status: &WorldStatus,
        (change, calls): (Change, Vec<Call>),
        now: Time,
    ) -> Result<()> {
        let mut requests = Vec::new();
        let mut refusal = None;
        for call in calls {
            match contact.ask(&call)? {
                Answer::Accepted { request, .. } => requests.push(request),
                Answer::Refused { cause, .. } => refusal = Some(cause.to_string()),
                Answer::Wrong { reason } => refusal = Some(reason),
                other => refusal = Some(format!("{other:?}")),
            }
            if refusal.is_some() {
                break;
            }
        }
        if !requests.is_empty() {
            let order = Order { change, since: status.next_event, requests };
            self.orders.insert(job.to_owned(), order);
        }
        if let Some(refusal) = refusal {
            self.pause(job, change, now);
            bail!("{refusal}");
        }
        Ok(())
    }

    /// Checks whether the requests to a job have ended. Returns the causes of failed ones.
    ///
    /// # Errors
    /// The job cannot be reached.
    pub fn check_orders(
        &mut self,
        job: &str,
        contact: &Contact,
        status: &WorldStatus,
        now: Time,
    ) -> Result<Vec<String>> {
        let Some(order) = self.orders.get(job) else { return Ok(Vec::new()) };
        if is_busy(status) {
            return Ok(Vec::new());
        }
        let events = contact.events(order.since)?;
        let change = order.change;
        let causes = failures(&events, &order.requests);
        self.orders.remove(job);
        match causes.is_empty() {
            true => drop(self.pauses.remove(&(job.to_owned(), change))),
            false => self.pause(job, change, now),
        }
        Ok(causes)
    }

    /// Returns true if this manager has open requests to the job.
    pub fn has(&self, job: &str) -> bool {
        self.orders.contains_key(job)
    }

    /// Adopts requests that an earlier manager has sent.
    pub fn adopt(&mut self, job: &str, change: Change, events: &[Event], open: &[Open]) {
        let since = events.first().map_or(0, |event| event.sequence);
        let requests = open.iter().map(|(request, _)| *request).collect();
        self.orders.insert(job.to_owned(), Order { change, since, requests });
    }

    /// Removes a job that has ended.
    pub fn forget(&mut self, job: &str) {
        self.orders.remove(job);
        self.pauses.retain(|(other, _), _| other != job);
    }

    /// Narrows the limits of a job of this size by its paused changes.
    pub fn narrow(&self, job: &str, size: u32, limits: &mut Limits, now: Time) {
        let is_paused = |change| {
            let pause = self.pauses.get(&(job.to_owned(), change));
            pause.is_some_and(|pause| now < pause.until)
        };
        if is_paused(Change::Grow) {
            limits.max = limits.max.min(size);
        }
        if is_paused(Change::Shrink) {
            limits.min = limits.min.max(size);
        }
        limits.allowed.retain(|allowed| (limits.min..=limits.max).contains(allowed));
    }

    /// Pauses a change of a job: longer each time.
    pub fn pause(&mut self, job: &str, change: Change, now: Time) {
        let pause = self
            .pauses
            .entry((job.to_owned(), change))
            .or_insert(Pause { until: now, length: Span(PAUSES.0.0 / 2) });
        pause.length = Span((pause.length.0 * 2).min(PAUSES.1.0));
        pause.until = now + pause.length;
    }
}

/// Returns true if a request is under way or waits, whatever its origin.
pub fn is_busy(status: &WorldStatus) -> bool {
    status.under_way.is_some() || status.waiting > 0
}

/// An open request.
pub type Open = (RequestId, Request);

/// Returns the open requests, from the latest events of a job.
pub fn open(events: &[Event]) -> Vec<Open> {
    let has_ended =
        |id: RequestId| events.iter().any(|event| event.is_end() && event.request == Some(id));
    let asked = events.iter().filter_map(|event| Some((event.request?, event.asked.clone()?)));
    asked.filter(|(id, _)| !has_ended(*id)).collect()
}

/// Returns the causes of failed requests.
fn failures(events: &[Event], requests: &[RequestId]) -> Vec<String> {
    let ends = events.iter().filter(|event| event.is_end());
    let ours = ends.filter(|event| event.request.is_some_and(|id| requests.contains(&id)));
    let failed = ours.filter(|event| event.what != Happening::Step(Step::Finalized));
    let cause = |event: &Event| match &event.cause {
        Some(cause) => cause.to_string(),
        None => "the request was aborted".to_owned(),
    };
    failed.map(cause).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_changes_are_not_asked_for_and_others_are() {
        let mut orders = Orders::default();
        let limits = |orders: &Orders, at| {
            let mut limits = Limits { allowed: vec![1, 2, 4, 8], ..Limits::between(1, 8, 1) };
            orders.narrow("a", 4, &mut limits, Time::seconds(at));
            (limits.min, limits.max, limits.allowed)
        };
        orders.pause("a", Change::Grow, Time::seconds(10));
        assert_eq!(limits(&orders, 39), (1, 4, vec![1, 2, 4]));
        assert_eq!(limits(&orders, 40), (1, 8, vec![1, 2, 4, 8]));
        orders.pause("a", Change::Shrink, Time::seconds(40));
        orders.pause("a", Change::Grow, Time::seconds(40));
        assert_eq!(limits(&orders, 50), (4, 4, vec![4]));
        assert_eq!(limits(&orders, 71), (1, 4, vec![1, 2, 4]), "twice as long the second time");
        assert_eq!(limits(&orders, 101).1, 8);
        orders.forget("a");
        orders.pause("b", Change::Grow, Time::seconds(0));
        assert_eq!(limits(&orders, 1).1, 8, "another job's");
    }

    #[test]
    fn requests_without_an_end_are_open() {
        let lines = r#"{"sequence":7,"time_us":1,"event":"requested","request":1,"epoch":1,"size":4,"asked":{"wish":{"grow":1},"origin":"socket"}}
{"sequence":8,"time_us":1,"event":"requested","request":2,"epoch":1,"size":4,"asked":{"wish":{"grow":2},"origin":"socket"}}
{"sequence":9,"time_us":1,"event":"finalized","request":1,"epoch":1,"size":5}"#;
        let events = Event::from_lines(lines).unwrap();
        let open = open(&events);
        assert_eq!(open.iter().map(|(id, _)| id.0).collect::<Vec<_>>(), [2]);
        let mut orders = Orders::default();
        orders.adopt("a", Change::Grow, &events, &open);
        assert!(orders.has("a") && orders.orders["a"].since == 7);
    }

    #[test]
    fn only_own_requests_that_failed_are_causes() {
        let lines = r#"{"sequence":1,"time_us":1,"event":"finalized","request":1,"epoch":1,"size":4}
{"sequence":2,"time_us":2,"event":"aborted","request":2,"epoch":1,"size":4,"cause":{"kind":"no-capacity","detail":"x"}}
{"sequence":3,"time_us":3,"event":"aborted","request":3,"epoch":1,"size":4}"#;
        let events = Event::from_lines(lines).unwrap();
        assert_eq!(failures(&events, &[RequestId(1), RequestId(2)]), ["there is no room: x"]);
    }
}
