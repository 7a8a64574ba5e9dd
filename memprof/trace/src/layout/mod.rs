//! Places of everything in a trace, version 2; [`v1`] has the differences of version 1.
//!
//! A later version gets a module of its own beside these, and they keep the parts that it changes:
//! [`crate::read`] needs them.

mod class;
mod geometry;
pub mod v1;
mod v2;

pub use class::Class;
pub(crate) use geometry::ROWS_LIMIT;
pub use geometry::{Geometry, Placement, Section, SectionKind};
pub use v2::*;
