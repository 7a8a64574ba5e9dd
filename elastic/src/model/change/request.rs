//! Requests, their meaning for members, and the cause of a failure.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::member::MemberId;
use crate::model::sets::SetName;

/// The number of a request, counted from 1 and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(pub u64);

impl fmt::Display for RequestId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "request {}", self.0)
    }
}

/// Kind of a request to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestKind {
    /// This many ranks in total. Drops all requests that still wait.
    Size(u32),
    /// This many more ranks.
    Grow(u32),
    /// This many fewer ranks. Drops growth that still waits.
    Shrink(u32),
    /// No ranks on the hosts [`Request::from`]. Drops growth that still waits.
    Leave,
    /// Migrates the ranks on the hosts [`Request::from`] to the hosts [`Request::on`]; the number
    /// of ranks stays.
    Move,
}

impl RequestKind {
    /// Returns true if `earlier`, which waits for its turn, becomes pointless when this one is
    /// accepted.
    pub fn supersedes(self, earlier: RequestKind) -> bool {
        match self {
            RequestKind::Size(_) => true,
            RequestKind::Shrink(_) | RequestKind::Leave => matches!(earlier, RequestKind::Grow(_)),
            RequestKind::Grow(_) | RequestKind::Move => false,
        }
    }
}

/// A request to resize the world.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The kind of request.
    #[serde(rename = "wish")]
    pub kind: RequestKind,
    /// Hosts to grow on; empty: any host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<String>,
    /// Number of new nodes that the resource manager brings for the growth; 0 for none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub nodes: u32,
    /// Hosts to leave; empty: the highest ranks leave.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<String>,
    /// Time from the announcement within which the resize has to be done.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        rename = "grace_us",
        with = "micros"
    )]
    pub grace: Option<Duration>,
    /// Origin of the request: `plan`, `socket`, `slurm`, `application`.
    pub origin: String,
    /// The reason for the request, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Request {
    /// Makes a request without hosts and without a deadline.
    pub fn new(wish: RequestKind, origin: impl Into<String>) -> Request {
        let (on, from, origin) = (Vec::new(), Vec::new(), origin.into());
        Request { kind: wish, on, nodes: 0, from, grace: None, origin, why: None }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Joiners and leavers, decided in the turn of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetChange {
    /// Members that join, in the order in which they are appended; and the name of their delta.
    pub joining: Option<(SetName, Vec<MemberId>)>,
    /// Members that leave; and the name of their delta.
    pub leaving: Option<(SetName, Vec<MemberId>)>,
    /// The sets that the resize is bound to; `mpi://app/{app}` for the whole application. If there
    /// are leavers, each of these sets has to accept.
    pub bound: Vec<SetName>,
}

impl SetChange {
    /// Number of joiners.
    pub fn joiners(&self) -> u64 {
        self.joining.as_ref().map_or(0, |(_, members)| members.len() as u64)
    }

    /// Number of leavers.
    pub fn leavers(&self) -> u64 {
        self.leaving.as_ref().map_or(0, |(_, members)| members.len() as u64)
    }
}

/// Why a request was refused or aborted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// For programs.
    pub kind: CauseKind,
    /// Details for people: the host, the rank, the system's message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

impl Cause {
    /// Makes a cause with details.
    pub fn new(kind: CauseKind, detail: impl Into<String>) -> Cause {
        Cause { kind, detail: detail.into() }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            CauseKind::NoCapacity => "there is no room",
            CauseKind::NotAllowed => "the job does not allow it",
            CauseKind::Unsupported => "this MPI cannot do it",
            CauseKind::Unreachable => "a host cannot be reached",
            CauseKind::SpawnFailed => "processes could not be started",
            CauseKind::JoinerLost => "a joining process is lost",
            CauseKind::MemberLost => "a process of the job is lost",
            CauseKind::DataLost => "data could not be moved",
            CauseKind::Rejected => "the program gave it up",
            CauseKind::Deadline => "it took longer than allowed",
            CauseKind::Superseded => "a later request takes its place",
            CauseKind::Cancelled => "it was taken back",
            CauseKind::Manager => "the resource manager refused",
            CauseKind::Other => "it failed",
        };
        match self.detail.as_str() {
            "" => to.write_str(kind),
            detail => write!(to, "{kind}: {detail}"),
        }
    }
}

/// Kinds of causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CauseKind {
    /// No slots, nodes or cores.
    NoCapacity,
    /// Outside the minimum, the maximum or the allowed sizes; a rank or node that may not leave.
    NotAllowed,
    /// The MPI in use does not support it.
    Unsupported,
    /// A host does not answer.
    Unreachable,
    /// The start of processes failed.
    SpawnFailed,
    /// A joiner died or never reached its ready point.
    JoinerLost,
    /// A rank of the world died.
    MemberLost,
    /// A transfer failed.
    DataLost,
    /// A rank rejected the resize at the commit; "given-up" in events.
    #[serde(rename = "given-up")]
    Rejected,
    /// The grace time is over.
    Deadline,
    /// A later request made it pointless.
    Superseded,
    /// The requester has cancelled it.
    Cancelled,
    /// Slurm, or another manager, refused.
    Manager,
    /// Any other cause, named in the detail.
    Other,
}

mod micros {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => to.serialize_u64(super::super::event::micros(*time)),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_micros))
    }
}
