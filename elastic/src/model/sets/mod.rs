//! Named process sets, their algebra, versions and epochs.
//!
//! A program says which processes it means by the name of a set, and gets a new set, or a new version
//! of one, when processes join or leave. Nothing here speaks to anybody: a [`Registry`] is a value,
//! and ranks that apply the same [`Operation`]s in the same order hold equal ones.
//!
//! | who | what |
//! |---|---|
//! | [`Members`] | ids in ranges |
//! | [`SetName`], [`Domain`] | names, and who may make which |
//! | [`ProcessSet`], [`SetInfo`] | members, version, epoch, attributes |
//! | [`Registry`] | all sets; operations; deltas of resizes; values at sets |
//! | [`Replica`], [`Operation`] | the same view on all ranks |
//! | [`Waiters`] | whom to wake when a value is published |
//!
//! Source: D. Huber, master's thesis, TU München 2021, sections 6.1 to 6.3. Decided here: epochs count
//! on when sets are pruned; an intersection with a delta does not carry other sets along;
//! `mpi://WORLD` is `mpi://app/{app}`; `mpi_dyn` and `mpi_included` speak of the process that asks.

mod classes;
mod error;
mod log;
mod members;
mod name;
mod registry;
mod set;
mod store;
#[cfg(test)]
mod tests;

pub use error::{SetsError, SetsErrorKind};
pub use log::{Operation, Outcome, Replica};
pub use members::Members;
pub use name::{Domain, LONGEST_NAME, SetName};
pub use registry::{DeltaEnd, Registry};
pub use set::{
    AttributeChange, Attributes, DeltaKind, HINT_PREFIX, IDEAL_SIZE_HINT, LONGEST_KEY,
    LONGEST_VALUE, ProcessSet, SetInfo, SetOp,
};
pub use store::{Published, Waiters};
