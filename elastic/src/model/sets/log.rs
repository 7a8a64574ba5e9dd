//! Operations on the registry: in the same order they give every rank the same registry.

use serde::{Deserialize, Serialize};

use super::{AttributeChange, DeltaEnd, DeltaKind, Members, Registry, SetName, SetOp, SetsError};
use crate::model::member::MemberId;

/// A change of the registry, as ranks exchange it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// [`Registry::operate`].
    Operate {
        /// The calling process.
        caller: MemberId,
        /// The operation.
        op: SetOp,
        /// One set.
        first: SetName,
        /// The other set.
        second: SetName,
        /// The requested name.
        target: Option<SetName>,
        /// Attributes that are not inherited.
        attributes: AttributeChange,
    },
    /// [`Registry::update`].
    Update {
        /// The set.
        target: SetName,
        /// The attributes.
        attributes: AttributeChange,
    },
    /// [`Registry::split`].
    Split {
        /// The calling process.
        caller: MemberId,
        /// The set.
        set: SetName,
        /// Size of each part.
        sizes: Vec<u64>,
        /// Prefix of the parts' names.
        below: SetName,
    },
    /// [`Registry::define_delta`].
    Define {
        /// Whether the members join or leave.
        kind: DeltaKind,
        /// The members.
        members: Members,
    },
    /// [`Registry::conclude_delta`].
    Conclude {
        /// The delta of the resize.
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
        /// The set that gets the value.
        set: SetName,
        /// The key.
        key: String,
        /// The value.
        value: Vec<u8>,
    },
    /// [`Registry::withdraw`].
    Withdraw {
        /// The set that has the value.
        set: SetName,
        /// The key.
        key: String,
    },
    /// All of these operations or none.
    Batch(Vec<Operation>),
}

/// Result of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// A set of this name was made or changed.
    Set(SetName),
    /// These sets were made.
    Sets(Vec<SetName>),
    /// A value of this version was published; [`Waiters::wake`](super::Waiters::wake) returns its
    /// waiters.
    Published(u64),
    /// Done, without a name or value to return.
    Done,
    /// Result of each operation of a batch.
    Batch(Vec<Outcome>),
}

impl Registry {
    /// Carries out an operation, completely or not at all.
    ///
    /// # Errors
    /// The error of the operation; of a batch, that of the first operation that fails.
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

/// A registry and the number of operations applied to it: sent to joiners, and kept by every rank.
///
/// One rank numbers the operations of all ranks from 0; each rank applies them in that order. A
/// failed operation counts, too: it fails on all ranks and changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replica {
    registry: Registry,
    applied: u64,
}

impl Replica {
    /// Starts before the first operation.
    pub fn new(registry: Registry) -> Replica {
        Replica { registry, applied: 0 }
    }

    /// Returns the present sets.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Number of operations applied, which is the number of the next operation.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Applies the operation with this number. Returns `Ok(None)` for an operation applied before,
    /// so that a message may arrive twice.
    ///
    /// # Errors
    /// [`SetsError::OutOfOrder`] if an earlier operation is missing; else the error of the
    /// operation, which counts as applied.
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
