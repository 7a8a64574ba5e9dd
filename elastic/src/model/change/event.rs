//! Log of events, one line each.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Cause, Request, RequestId, Step};

/// One event in the life of the world. Times are microseconds since the start of the job.
///
/// As text an event is one line of JSON without line breaks:
///
/// ```
/// use elastic::change::Event;
/// let line = r#"{"sequence":7,"time_us":1500,"event":"agreed","request":2,"epoch":1,"size":4,"target":6,"round":310}"#;
/// let event = Event::from_line(line).unwrap();
/// assert_eq!((event.epoch, event.round), (1, Some(310)));
/// assert_eq!(event.to_line(), line);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Counts from 0 without gaps, so that a lost line is noticed.
    pub sequence: u64,
    /// Time in microseconds since the start of the job. Never less than that of the previous event.
    pub time_us: u64,
    /// The event.
    #[serde(rename = "event")]
    pub what: Happening,
    /// The request that the event belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestId>,
    /// The epoch of the world from this event on.
    pub epoch: u64,
    /// The number of ranks from this event on.
    pub size: u64,
    /// The number of ranks that the request results in, once decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<u64>,
    /// Announced: number of joiners.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joining: Option<u64>,
    /// Announced: number of leavers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaving: Option<u64>,
    /// Agreed: the round at which all enter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u64>,
    /// Moved: number of bytes sent from rank to rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Overdue: the ranks that have not reached the agreed round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub late: Vec<u64>,
    /// Requested: the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Request>,
    /// Refused, aborted: why. Notice: the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// In an event that ends a request: the time at which each step was reached.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub steps: BTreeMap<Step, u64>,
}

/// Subject of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Happening {
    /// The world began, with this size.
    Started,
    /// A manager reports something: a job that ends soon, a command that failed.
    Notice,
    /// The grace time of a resize is over and it has not ended.
    Overdue,
    /// A resize has reached this step.
    #[serde(untagged)]
    Step(Step),
}

/// A line that is no event.
#[derive(Debug, thiserror::Error)]
#[error("event log, line {line}: {cause}")]
pub struct LineError {
    /// Counted from 1.
    pub line: usize,
    /// The error of the parser.
    #[source]
    pub cause: serde_json::Error,
}

impl Event {
    /// Time since the start of the job.
    pub fn time(&self) -> Duration {
        Duration::from_micros(self.time_us)
    }

    /// Returns true if this is the one event that ends its request.
    pub fn is_end(&self) -> bool {
        matches!(self.what, Happening::Step(step) if step.is_end())
    }

    /// The event as one line, without the line break.
    pub fn to_line(&self) -> String {
        // Numbers, texts and maps with text keys: JSON can represent them all.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads the event of one line.
    ///
    /// # Errors
    /// [`LineError`] if the line is no event in JSON.
    pub fn from_line(line: &str) -> Result<Event, LineError> {
        serde_json::from_str(line).map_err(|cause| LineError { line: 1, cause })
    }

    /// Reads the events of a log. Empty lines are skipped.
    ///
    /// # Errors
    /// [`LineError`] with the first line that is no event in JSON.
    pub fn from_lines(text: &str) -> Result<Vec<Event>, LineError> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        lines
            .map(|(index, line)| {
                let wrong = |cause| LineError { line: index + 1, cause };
                serde_json::from_str(line).map_err(wrong)
            })
            .collect()
    }
}

/// Whole microseconds; 584,000 years fit.
pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
