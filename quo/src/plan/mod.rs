//! Pure decisions: which ranks work where, on which CPUs, with how many threads, for which ranks.
//!
//! Nothing here queries the machine. Objects, masks and the allowed set are passed as
//! [`CpuSet`](crate::CpuSet)s, so the same plan can be made offline for another machine, and every
//! rank of a node that starts from the same values reaches the same result without communication.
//!
//! | question | answer | file |
//! |---|---|---|
//! | which ranks work, and on which object? | [`distribute`] | `distribute.rs` |
//! | the same, exactly by the published algorithm | [`Policy::LibquoCompat`] | `libquo_compat.rs` |
//! | which CPUs does each of several workers get? | [`split`] | `split.rs` |
//! | the same in given proportions, or by cores that differ in speed | [`shares`], [`counted`] | `shares.rs` |
//! | the same by nearness to devices | [`near`] | `near.rs` |
//! | how many threads does each worker run? | [`threads_per_worker`] | `threads.rs` |
//! | which ranks pass their data to which worker? | [`blocks`] | `blocks.rs` |
//! | which device does each rank use? | [`assign_devices`] | `devices.rs` |
//! | what can be wrong with a request? | [`PlanError`] | `error.rs` |
//!
//! floors: error < shares < request < compatibility < libquo_compat < distribute < reassign <
//!     split < threads < blocks < near < devices

mod blocks;
mod compatibility;
mod devices;
mod distribute;
mod error;
mod libquo_compat;
mod near;
mod reassign;
mod request;
mod shares;
mod split;
mod threads;

#[cfg(test)]
mod tests;

pub use blocks::blocks;
pub use devices::assign_devices;
pub use distribute::{Distribution, distribute};
pub use error::PlanError;
pub use near::near;
pub(crate) use reassign::Vacancy;
pub use request::{DistributeRequest, Policy};
pub use shares::{counted, shares};
pub use split::{split, split_by_weight};
pub use threads::threads_per_worker;
