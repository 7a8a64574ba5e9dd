//! The same operations in the same order give every rank the same registry.

use serde::{Deserialize, Serialize};

use super::{AttributeChange, DeltaEnd, DeltaKind, Members, Registry, SetName, SetOp, SetsError};
use crate::model::member::MemberId;

/// A change of the registry, as it travels between ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// [`Registry::operate`].
    Operate {
        /// The process that asks.
        caller: MemberId,
        /// The operation.
        op: SetOp,
        /// One set.
        first: SetName,
        /// The other set.
        second: SetName,
        /// The wanted name.
        target: Option<SetName>,
        /// Attributes that are not to be inherited.
        attributes: AttributeChange,
    },
    /// [`Registry::update`].
    Update {
        /// Of which set.
        target: SetName,
        /// The attributes.
        attributes: AttributeChange,
    },
    /// [`Registry::split`].
    Split {
        /// The process that asks.
        caller: MemberId,
        /// The set.
        set: SetName,
        /// Into how many each.
        sizes: Vec<u64>,
        /// Below which name.
        below: SetName,
    },
    /// [`Registry::define_delta`].
    Define {
        /// True if they join or leave.
        kind: DeltaKind,
        /// The members.
        members: Members,
    },
    /// [`Registry::conclude_delta`].
    Conclude {
        /// Of which resize.
        delta: SetName,
        /// Its end.
        end: DeltaEnd,
    },
    /// [`Registry::prune`].
    Prune {
        /// The set.
        set: SetName,
    },
    /// [`Registry::publish`].
    Publish {
        /// The process that publishes.
        publisher: MemberId,
        /// The set that has it.
        set: SetName,
        /// Under which key.
        key: String,
        /// The value.
        value: Vec<u8>,
    },
    /// [`Registry::withdraw`].
    Withdraw {
        /// The set that has it.
        set: SetName,
        /// The key.
        key: String,
    },
    /// All of these or none.
    Batch(Vec<Operation>),
}

/// Result of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// A set of this name was made or changed.
    Set(SetName),
    /// These sets were made.
    Sets(Vec<SetName>),
    /// A value of this version was published; [`Waiters::wake`](super::Waiters::wake) says for whom.
    Published(u64),
    /// Nothing to be named.
    Done,
    /// Result of each operation of a batch.
    Batch(Vec<Outcome>),
}

impl Registry {
    /// Carries out an operation; all of it or nothing.
    pub fn apply(&mut self, operation: &Operation) -> Result<Outcome, SetsError> {
        match operation {
            Operation::Operate { caller, op, first, second, target, attributes } => self
                .operate(*caller, *op, first, second, target.as_ref(), attributes)
                .map(Outcome::Set),
            Operation::Update { target, attributes } => {
                self.update(target, attributes).map(|()| Outcome::Done)
            }
            Operation::Split { caller, set, sizes, below } => {
                self.split(*caller, set, sizes, below).map(Outcome::Sets)
            }
            Operation::Define { kind, members } => {
                self.define_delta(*kind, members.clone()).map(Outcome::Set)
            }
            Operation::Conclude { delta, end } => {
                self.conclude_delta(delta, *end).map(|()| Outcome::Done)
            }
            Operation::Prune { set } => self.prune(set).map(|()| Outcome::Done),
            Operation::Publish { publisher, set, key, value } => {
                self.publish(*publisher, set, key, value).map(Outcome::Published)
            }
            Operation::Withdraw { set, key } => self.withdraw(set, key).map(|_| Outcome::Done),
            Operation::Batch(operations) => {
                let mut after = self.clone();
                let outcomes = operations.iter().map(|operation| after.apply(operation));
                let outcomes = outcomes.collect::<Result<_, _>>()?;
                *self = after;
                Ok(Outcome::Batch(outcomes))
            }
        }
    }
}

/// A registry and the number of operations it has seen: sent to joiners, and kept by every rank.
///
/// One rank numbers the operations of all from 0; each rank applies them in that order. An
/// operation that fails counts too: it fails everywhere, and changes nothing anywhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replica {
    registry: Registry,
    applied: u64,
}

impl Replica {
    /// Before the first operation.
    pub fn new(registry: Registry) -> Replica {
        Replica { registry, applied: 0 }
    }

    /// The sets as they are now.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Number of operations applied, which is the number of the next.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Applies the operation with this number. Returns `Ok(None)` for one that was applied before,
    /// so that a message may come twice, and [`SetsError::OutOfOrder`] if one is missing.
    pub fn apply(
        &mut self,
        number: u64,
        operation: &Operation,
    ) -> Result<Option<Outcome>, SetsError> {
        if number > self.applied {
            return Err(SetsError::OutOfOrder { given: number, expected: self.applied });
        }
        if number < self.applied {
            return Ok(None);
        }
        self.applied += 1;
        self.registry.apply(operation).map(Some)
    }
}
