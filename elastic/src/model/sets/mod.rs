//! Named process sets, their algebra, versions and epochs.
//!
//! A program names processes by a set, and gets a new set, or a new version of one, when processes
//! join or leave. Nothing here communicates: a [`Registry`] is a value, and ranks that apply the
//! same [`Operation`]s in the same order hold equal ones.
//!
//! | type | content |
//! |---|---|
//! | [`Members`] | ids in ranges |
//! | [`SetName`], [`Domain`] | names, and which of them a program may make |
//! | [`ProcessSet`], [`SetInfo`] | members, version, epoch, attributes |
//! | [`Registry`] | all sets; operations; deltas of resizes; values at sets |
//! | [`Replica`], [`Operation`] | the same view on all ranks |
//! | [`Waiters`] | waiters to wake when a value is published |
//!
//! Source: D. Huber, master's thesis, TU München 2021, sections 6.1 to 6.3. Decided here: epochs
//! continue to count when sets are pruned; an intersection with a delta leaves other sets
//! unchanged; `mpi://WORLD` is `mpi://app/{app}`; `mpi_dyn` and `mpi_included` refer to the calling
//! process.

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
