//! Places of ranks: the places now, those of joiners, the choice of leavers, and the number that there may be.
//!
//! [`Nodes`] is the list of nodes with their slots and who sits there. [`place`] and [`spread`] choose nodes and hosts for
//! joiners, [`leavers`] chooses who goes, and [`Bounds`] says which sizes a job may have. Nothing is changed until
//! [`Nodes::occupy`] and [`Nodes::vacate`] are told what has really happened.
//!
//! Sources: D. Huber, master's thesis, TU München 2021, section 7.2 (stack over slots);
//! I. A. Comprés Ureña, dissertation, TU München 2017, section 9.1 (node order, highest ranks leave, the
//! launcher's node stays); M. C. Cera, dissertation, UFRGS 2012, sections 4.1 and 4.2 (round robin
//! that goes on where it stopped; last listed leaves first).

mod bounds;
mod choose;
mod error;
mod leave;
mod loads;
mod nodes;
#[cfg(test)]
mod tests;

pub use bounds::{Allowed, AllowedSizes, Bounds, SizeLimits};
pub use choose::{Choice, Cursor, Fill, Site, place, spread};
pub use error::PlaceError;
pub use leave::{Reclaim, leavers};
pub use loads::Loads;
pub use nodes::{Node, NodeState, Nodes, Seat};
