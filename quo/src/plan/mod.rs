//! Pure decisions: who works where, on which CPUs, with how many threads, for whom.
//!
//! Nothing here asks the machine anything. Objects, masks and the allowed set come in as
//! [`CpuSet`](crate::CpuSet)s, so the same plan can be made offline for a machine one does not
//! have, and every rank of a node that starts from the same values reaches the same answer without
//! exchanging it.
//!
//! | question | answer | file |
//! |---|---|---|
//! | which ranks work, and on which object? | [`distribute`] | `distribute.rs` |
//! | the same, by the published algorithm to the letter | [`Policy::LibquoCompat`] | `libquo_compat.rs` |
//! | which CPUs does each of several workers get? | [`split`] | `split.rs` |
//! | the same in given proportions, or by cores that differ in speed | [`shares`], [`counted`] | `shares.rs` |
//! | the same by nearness to devices | [`near`] | `near.rs` |
//! | how many threads does each worker run? | [`threads_per_worker`] | `threads.rs` |
//! | which ranks hand their data to which worker? | [`blocks`] | `blocks.rs` |
//! | which device does each rank use? | [`assign_devices`] | `devices.rs` |
//! | what can be wrong with a request? | [`PlanError`] | `error.rs` |

mod blocks;
mod compatibility;
mod devices;
mod distribute;
mod error;
mod libquo_compat;
mod near;
mod reassign;
mod shares;
mod split;
mod threads;

#[cfg(test)]
mod tests;

pub use blocks::blocks;
pub use devices::assign_devices;
pub use distribute::{DistributeRequest, Distribution, Policy, distribute};
pub use error::PlanError;
pub use near::near;
pub(crate) use reassign::Vacancy;
pub use shares::{counted, shares};
pub use split::{split, split_by_weight};
pub use threads::threads_per_worker;
