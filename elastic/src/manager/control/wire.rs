//! Messages between clients and jobs: one value of JSON a line.
//!
//! ```text
//! > {"call":"status"}
//! < {"status":{"job":"weather","epoch":1,"size":4,"capacity":8,"hosts":[{"host":"n1","slots":4,"ranks":[0,1,2,3]}],
//!    "limits":{"min":2,"max":8,"allowed":{"multiple_of":2}},
//!    "report":{"iteration":20,"iteration_seconds":1.5,"mean_seconds":1.25,"reports":2,"size":4,
//!      "redistribution_seconds":0.25,"mpi_ratio":0.04,"mpi_ratio_total":0.05,"remaining_seconds":300.0},
//!    "loops":{"ranks":4,"common":{"iterations":20,"seconds":30.0,"mpi_seconds":2.0,"mpi_ratio":0.07,
//!      "recent_mpi_ratio":0.05}},...}}
//! > {"call":"grow","ranks":2,"wait":true}
//! < {"accepted":{"request":1}}
//! < {"event":{"sequence":12,"event":"finalized","request":1,"epoch":1,"size":4,"steps":{...},...}}
//! > {"call":"shrink","ranks":9}
//! < {"refused":{"request":2,"cause":{"kind":"not-allowed","detail":"..."}}}
//! > {"call":"events","since":0,"follow":true}
//! < {"event":{"sequence":0,"event":"started",...}}
//! ```
//!
//! Every call has an answer, in the order of the calls. With `wait`, the event that ends the
//! request follows the acceptance; with `follow`, events follow until the job ends or the client
//! disconnects. An unreadable call is answered by `wrong`, and a line that is too long by the end
//! of the connection.
//!
//! `limits` and `report` are absent if the job has an earlier version or its program reports
//! nothing. `allowed` is one of `"any"`, `{"multiple_of":N}`, `"power_of_two"`, `"square"` and
//! `{"one_of":[...]}`. Times are those of the report, on its `size`, which differs from the job's
//! after a resize. `loops` is present if the memory profiler detects loops; `common`, the longest
//! loop common to all ranks, is absent if there is none.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::manager::WorldStatus;
use crate::model::change::{Cause, Event, Request, RequestId, RequestKind};
use crate::model::plan::{LONGEST_TIME, MOST_HOSTS, MOST_RANKS};

/// The longest line of a client, in bytes.
pub const LONGEST_LINE: usize = 64 * 1024;

/// The longest reason of a request, in bytes.
pub const LONGEST_REASON: usize = 1000;

/// Message of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "lowercase", deny_unknown_fields)]
pub enum Call {
    /// Asks for the job's status.
    Status {},
    /// Requests this many more ranks.
    Grow(Many),
    /// Requests this many fewer ranks.
    Shrink(Many),
    /// Requests this many ranks in total.
    Size(Many),
    /// Requests that no rank stays on these hosts.
    Leave(Hosts),
    /// Requests that ranks of some hosts move to others.
    Move(Hosts),
    /// Cancels a waiting request.
    Cancel {
        /// Number of the request.
        request: RequestId,
    },
    /// Asks for the events so far.
    Events {
        /// The first event.
        #[serde(default)]
        since: u64,
        /// True to receive later events, too.
        #[serde(default)]
        follow: bool,
    },
}

/// A number of ranks, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Many {
    /// Number of ranks.
    pub ranks: u32,
    /// Hosts to grow on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<String>,
    /// Number of new nodes of the resource manager to grow on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// Hosts to take ranks from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<String>,
    /// Time limit of the resize from its announcement, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// True to receive the event that ends the request.
    #[serde(default)]
    pub wait: bool,
    /// The reason, for people: at most [`LONGEST_REASON`] bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Hosts to leave and hosts to move to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hosts {
    /// Hosts to leave.
    pub from: Vec<String>,
    /// Hosts to move to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<String>,
    /// Time limit of the resize from its announcement, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// True to receive the event that ends the request.
    #[serde(default)]
    pub wait: bool,
    /// The reason, for people: at most [`LONGEST_REASON`] bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Message of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// Status of the job.
    Status(Box<WorldStatus>),
    /// The request will be tried.
    Accepted {
        /// Number of the request.
        request: RequestId,
        /// The request that has to end before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<RequestId>,
    },
    /// The request will not be tried.
    Refused {
        /// Number of the request.
        request: RequestId,
        /// Why.
        cause: Cause,
    },
    /// The request is cancelled.
    Cancelled {
        /// Number of the request.
        request: RequestId,
    },
    /// An event.
    Event(Box<Event>),
    /// All requested events have been sent.
    End {},
    /// The call is unreadable, or cannot be carried out.
    Wrong {
        /// Why.
        reason: String,
    },
}

impl Call {
    /// Reads a line.
    ///
    /// # Errors
    /// The reason why the line is no call.
    pub fn from_line(line: &[u8]) -> Result<Call, String> {
        serde_json::from_slice(line).map_err(|error| error.to_string())
    }

    /// Returns the request in this call, and whether its end is to be sent.
    ///
    /// # Errors
    /// Describes the error: too many ranks or hosts, or an invalid name.
    pub fn request(&self) -> Result<Option<(Request, bool)>, String> {
        let (wish, on, from, grace_ms, wait) = match self {
            Call::Grow(many) => {
                (RequestKind::Grow(many.ranks), &many.on, &many.from, many.grace_ms, many.wait)
            }
            Call::Shrink(many) => {
                (RequestKind::Shrink(many.ranks), &many.on, &many.from, many.grace_ms, many.wait)
            }
            Call::Size(many) => {
                (RequestKind::Size(many.ranks), &many.on, &many.from, many.grace_ms, many.wait)
            }
            Call::Leave(hosts) => {
                (RequestKind::Leave, &hosts.on, &hosts.from, hosts.grace_ms, hosts.wait)
            }
            Call::Move(hosts) => {
                (RequestKind::Move, &hosts.on, &hosts.from, hosts.grace_ms, hosts.wait)
            }
            Call::Status {} | Call::Cancel { .. } | Call::Events { .. } => return Ok(None),
        };
        let nodes = match self {
            Call::Grow(many) | Call::Size(many) | Call::Shrink(many) => many.nodes.unwrap_or(0),
            _ => 0,
        };
        if nodes > 0 && matches!(wish, RequestKind::Shrink(_)) {
            return Err("new nodes are for grow and size".to_owned());
        }
        if nodes > 0 && !on.is_empty() {
            return Err("the names of new nodes are not known before".to_owned());
        }
        match wish {
            RequestKind::Grow(0) | RequestKind::Shrink(0) | RequestKind::Size(0) => {
                return Err("0 ranks are none".to_owned());
            }
            RequestKind::Grow(ranks) | RequestKind::Shrink(ranks) | RequestKind::Size(ranks)
                if ranks > MOST_RANKS =>
            {
                return Err(format!("there are at most {MOST_RANKS} ranks"));
            }
            RequestKind::Grow(_) | RequestKind::Size(_) if !from.is_empty() => {
                return Err("hosts to leave are for shrink, leave and move".to_owned());
            }
            RequestKind::Shrink(_) | RequestKind::Leave if !on.is_empty() => {
                return Err("hosts to go to are for grow, size and move".to_owned());
            }
            RequestKind::Leave if from.is_empty() => {
                return Err("name the hosts to leave".to_owned());
            }
            RequestKind::Move if from.is_empty() || on.is_empty() => {
                return Err("name the hosts to leave and those to go to".to_owned());
            }
            _ => {}
        }
        if let Some(both) = on.iter().find(|host| from.contains(host)) {
            return Err(format!("host {both:?} cannot be left and gone to"));
        }
        if on.len() > MOST_HOSTS || from.len() > MOST_HOSTS {
            return Err(format!("at most {MOST_HOSTS} hosts can be named"));
        }
        let is_name = |host: &&String| host.is_empty() || host.len() > 255;
        if on.iter().chain(from).any(|host| is_name(&host)) {
            return Err("the name of a host has 1 to 255 letters".to_owned());
        }
        let why = match self {
            Call::Grow(many) | Call::Shrink(many) | Call::Size(many) => &many.why,
            Call::Leave(hosts) | Call::Move(hosts) => &hosts.why,
            Call::Status {} | Call::Cancel { .. } | Call::Events { .. } => &None,
        };
        if why.as_ref().is_some_and(|why| why.len() > LONGEST_REASON) {
            return Err(format!("a reason has at most {LONGEST_REASON} bytes"));
        }
        let grace = grace_ms.map(Duration::from_millis);
        if grace.is_some_and(|grace| grace > LONGEST_TIME) {
            return Err("a grace time of more than a year".to_owned());
        }
        let (on, from, why) = (on.clone(), from.clone(), why.clone());
        Ok(Some((Request { on, nodes, from, grace, why, ..Request::new(wish, "socket") }, wait)))
    }
}

/// A value as a line.
pub(in crate::manager) fn line(value: &impl Serialize) -> Vec<u8> {
    // Numbers, texts and maps with text keys: JSON can represent them all.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request(line: &str) -> Result<Option<(Request, bool)>, String> {
        Call::from_line(line.as_bytes())?.request()
    }

    #[test]
    fn calls_are_read_and_written_in_one_form() {
        for line in [
            r#"{"call":"status"}"#,
            r#"{"call":"grow","ranks":2,"on":["n1"],"grace_ms":500,"wait":true}"#,
            r#"{"call":"grow","ranks":2,"nodes":1,"wait":false}"#,
            r#"{"call":"shrink","ranks":2,"from":["n1"],"wait":false}"#,
            r#"{"call":"shrink","ranks":2,"wait":false,"why":"others wait"}"#,
            r#"{"call":"move","from":["n1"],"on":["n2"],"wait":false}"#,
            r#"{"call":"cancel","request":3}"#,
            r#"{"call":"events","since":5,"follow":true}"#,
        ] {
            let call = Call::from_line(line.as_bytes()).unwrap();
            assert_eq!(serde_json::to_string(&call).unwrap(), line);
        }
        let (asked, wait) =
            request(r#"{"call":"size","ranks":3,"grace_ms":1500}"#).unwrap().unwrap();
        assert_eq!(
            (asked.kind, asked.grace, wait),
            (RequestKind::Size(3), Some(Duration::from_millis(1500)), false)
        );
        let call =
            Hosts { from: vec!["n1".into()], why: Some("w".repeat(1001)), ..Hosts::default() };
        let too_long = Err("a reason has at most 1000 bytes".to_owned());
        assert_eq!(Call::Leave(call.clone()).request(), too_long);
        let (asked, _) =
            Call::Leave(Hosts { why: Some("w".into()), ..call }).request().unwrap().unwrap();
        assert_eq!(asked.why.as_deref(), Some("w"));
    }

    #[test]
    fn calls_that_make_no_sense_are_said_to() {
        for (line, cause) in [
            (r#"{"call":"grow","ranks":0}"#, "0 ranks are none"),
            (r#"{"call":"grow","ranks":2000000}"#, "there are at most 1048576 ranks"),
            (
                r#"{"call":"grow","ranks":1,"from":["a"]}"#,
                "hosts to leave are for shrink, leave and move",
            ),
            (
                r#"{"call":"shrink","ranks":1,"on":["a"]}"#,
                "hosts to go to are for grow, size and move",
            ),
            (r#"{"call":"shrink","ranks":1,"nodes":1}"#, "new nodes are for grow and size"),
            (
                r#"{"call":"grow","ranks":1,"nodes":1,"on":["a"]}"#,
                "the names of new nodes are not known before",
            ),
            (r#"{"call":"leave","from":[]}"#, "name the hosts to leave"),
            (r#"{"call":"move","from":["a"]}"#, "name the hosts to leave and those to go to"),
            (r#"{"call":"move","from":["a"],"on":["a"]}"#, "host \"a\" cannot be left and gone to"),
            (r#"{"call":"leave","from":[""]}"#, "the name of a host has 1 to 255 letters"),
            (
                r#"{"call":"grow","ranks":1,"grace_ms":99999999999999}"#,
                "a grace time of more than a year",
            ),
        ] {
            assert_eq!(request(line), Err(cause.to_owned()), "{line}");
        }
        for line in [
            "",
            "[]",
            "null",
            "{}",
            r#"{"call":"jump"}"#,
            r#"{"call":"grow"}"#,
            r#"{"call":"grow","ranks":-1}"#,
            r#"{"call":"grow","ranks":1,"where":"a"}"#,
            r#"{"call":"status"}{"call":"status"}"#,
        ] {
            assert!(request(line).is_err(), "{line}");
        }
    }

    #[test]
    fn status_has_limits_and_report_in_one_form() {
        let line = concat!(
            r#"{"status":{"job":"weather","epoch":1,"size":4,"capacity":8,"waiting":0,"next_event":9,"up_us":7,"#,
            r#""hosts":[{"host":"n1","slots":4,"ranks":[0,1,2,3]}],"#,
            r#""limits":{"min":2,"max":8,"allowed":{"one_of":[2,4,8]}},"#,
            r#""report":{"iteration":20,"iteration_seconds":1.5,"mean_seconds":1.25,"reports":2,"size":4,"#,
            r#""redistribution_seconds":0.25,"mpi_ratio":0.04,"mpi_ratio_total":0.05,"remaining_seconds":300.0},"#,
            r#""loops":{"ranks":4,"common":{"iterations":20,"seconds":30.0,"mpi_seconds":2.0,"mpi_ratio":0.07,"#,
            r#""recent_mpi_ratio":0.05}}}}"#,
        );
        let Answer::Status(status) = serde_json::from_str(line).unwrap() else { panic!("{line}") };
        let limits = status.limits.as_ref().unwrap().bounds().unwrap();
        assert_eq!((limits.at_most(7), limits.at_least(5)), (Some(4), Some(8)));
        assert_eq!(status.mpi_ratio(), Some((0.07, 0.05)));
        let mut alone = status.clone();
        alone.loops = None;
        assert_eq!(alone.mpi_ratio(), Some((0.05, 0.04)));
        alone.size = 5;
        assert_eq!(alone.mpi_ratio(), None, "the report is of four ranks");
        alone.loops = Some(crate::manager::JobLoops { ranks: 5, common: None });
        assert_eq!(alone.mpi_ratio(), None);
        assert_eq!(status.report.as_ref().unwrap().remaining_seconds, Some(300.0));
        assert_eq!(serde_json::to_string(&Answer::Status(status)).unwrap(), line);
    }

    #[test]
    fn status_without_reports_is_that_of_earlier_versions() {
        let line = concat!(
            r#"{"status":{"job":"weather","epoch":1,"size":4,"capacity":8,"waiting":0,"next_event":9,"up_us":7,"#,
            r#""hosts":[]}}"#,
        );
        let Answer::Status(status) = serde_json::from_str(line).unwrap() else { panic!("{line}") };
        assert_eq!((&status.limits, &status.report), (&None, &None));
        assert_eq!(serde_json::to_string(&Answer::Status(status)).unwrap(), line);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_call_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(call) = Call::from_line(&bytes) {
                let _ = call.request();
            }
        }
    }
}
