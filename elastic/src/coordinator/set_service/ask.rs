//! Questions to the service of process sets, and the answers.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::coordinator::{Arbiter, Shared};
use crate::model::change::View;
use crate::model::member::MemberId;
use crate::model::sets::{
    Members, Operation, Outcome, Published, SetInfo, SetName, SetsError, SetsErrorKind,
};

/// Question of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ask {
    /// The member id of the asking process.
    Member,
    /// The names that the process may see.
    Names,
    /// The description of a set.
    Info(SetName),
    /// The members of a set.
    Members(SetName),
    /// A change of the sets or of the values published at them.
    Do(Operation),
    /// The value under a key, in this version or a later one.
    Lookup {
        /// The set.
        set: SetName,
        /// The key.
        key: String,
        /// Time to wait for the value.
        milliseconds: u64,
    },
    /// The resize of a set that is under way, if there is one.
    Query(SetName),
    /// The old ranks have agreed to a resize, and its joiners will be in a set.
    Accept {
        /// The delta.
        delta: SetName,
        /// The name of the set.
        new: SetName,
    },
}

/// Answer of the service.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    Member(Option<MemberId>),
    Names(Vec<SetName>),
    Info(SetInfo),
    Members(Members),
    Done(Outcome),
    Found(Option<Published>),
    View(View),
    /// The registry refused.
    Failed(SetsErrorKind, String),
    /// The asking process is not permitted.
    Refused(String),
}

/// Key under which the old ranks publish the name of the new set at a delta.
pub(crate) const ACCEPTED: &str = "accept";

/// Answers a process, given by the [id it had first](Arbiter::process_of).
pub(crate) fn serve(shared: &Shared, birth: MemberId, ask: Ask) -> Reply {
    let mut arbiter = shared.arbiter();
    let member = arbiter.process_of(birth).and_then(|process| arbiter.member_of(process));
    if let Ask::Member = ask {
        return Reply::Member(member);
    }
    let Some(caller) = member else {
        return Reply::Refused("a parked process is in no process set".to_owned());
    };
    match ask {
        Ask::Member => Reply::Member(member),
        Ask::Names => Reply::Names(arbiter.registry.names(caller)),
        Ask::Info(set) => {
            arbiter.registry.info("info", &set, caller).map_or_else(failed, Reply::Info)
        }
        Ask::Members(set) => arbiter
            .registry
            .resolve("members", &set, caller)
            .map_or_else(failed, |set| Reply::Members(set.members().clone())),
        Ask::Query(bound) => Reply::View(arbiter.query(caller, &bound)),
        Ask::Do(operation) => match own(operation, caller) {
            None => Reply::Refused("deltas are defined and ended by the job itself".to_owned()),
            Some(operation) => {
                let outcome = arbiter.registry.apply(&operation);
                drop(arbiter);
                shared.has_changed();
                outcome.map_or_else(failed, Reply::Done)
            }
        },
        Ask::Accept { delta, new } => match accept(&mut arbiter, caller, &delta, &new) {
            Ok(version) => {
                drop(arbiter);
                shared.has_changed();
                Reply::Done(Outcome::Published(version))
            }
            Err(error) => failed(error),
        },
        Ask::Lookup { set, key, milliseconds } => {
            let deadline = Instant::now() + Duration::from_millis(milliseconds.min(1 << 40));
            loop {
                match arbiter.registry.lookup(&set, &key) {
                    Err(error) => return failed(error),
                    Ok(Some(found)) => return Reply::Found(Some(found.clone())),
                    Ok(None) => {}
                }
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() || shared.is_closed() {
                    return Reply::Found(None);
                }
                arbiter = shared.wait_for_change(arbiter, left);
            }
        }
    }
}

fn failed(error: SetsError) -> Reply {
    Reply::Failed(error.kind(), error.to_string())
}

/// Records the old ranks' acceptance, and publishes the name of the new set for the joiners.
fn accept(
    arbiter: &mut Arbiter,
    caller: MemberId,
    delta: &SetName,
    new: &SetName,
) -> Result<u64, SetsError> {
    const CALL: &str = "accept";
    arbiter.registry.resolve(CALL, new, caller)?;
    if !arbiter.registry.is_delta(delta) {
        return Err(SetsError::NoOpenDelta { call: CALL, name: delta.clone() });
    }
    let version = arbiter.registry.publish(caller, delta, ACCEPTED, new.as_str().as_bytes())?;
    arbiter.step(crate::model::change::Step::Pending);
    Ok(version)
}

/// Returns the operation with this caller; `None` if programs must not use it.
fn own(operation: Operation, caller: MemberId) -> Option<Operation> {
    Some(match operation {
        Operation::Operate { op, first, second, target, attributes, .. } => {
            Operation::Operate { caller, op, first, second, target, attributes }
        }
        Operation::Split { set, sizes, below, .. } => {
            Operation::Split { caller, set, sizes, below }
        }
        Operation::Publish { set, key, value, .. } => {
            Operation::Publish { publisher: caller, set, key, value }
        }
        Operation::Define { .. } | Operation::Conclude { .. } => return None,
        Operation::Batch(all) => {
            Operation::Batch(all.into_iter().map(|one| own(one, caller)).collect::<Option<_>>()?)
        }
        other @ (Operation::Update { .. }
        | Operation::Prune { .. }
        | Operation::Withdraw { .. }) => other,
    })
}
