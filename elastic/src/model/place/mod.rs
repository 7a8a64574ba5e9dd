//! Places of ranks: the present places, places for joiners, the choice of leavers, and the allowed
//! sizes.
//!
//! [`Nodes`] lists the nodes with their slots and the processes in them. [`place`] and [`spread`]
//! choose nodes and hosts for joiners, [`leavers`] chooses leavers, and [`Bounds`] defines the
//! sizes that a job may have. Only [`Nodes::occupy`] and [`Nodes::vacate`] change the places, once
//! processes have joined or left.
//!
//! Sources: D. Huber, master's thesis, TU München 2021, section 7.2 (stack over slots); I. A.
//! Comprés Ureña, dissertation, TU München 2017, section 9.1 (node order, highest ranks leave, the
//! launcher's node stays); M. C. Cera, dissertation, UFRGS 2012, sections 4.1 and 4.2 (round robin
//! that continues where it stopped; last listed leaves first).

mod bounds;
mod choose;
mod error;
mod leave;
mod loads;
mod nodes;
#[cfg(test)]
mod tests;

pub use bounds::{Allowed, AllowedSizes, Bounds, SizeLimits};
pub use choose::{Choice, Cursor, Placement, Site, place, spread};
pub use error::PlaceError;
pub use leave::{Reclaim, leavers};
pub use loads::Loads;
pub use nodes::{Node, NodeState, Nodes, Seat};
