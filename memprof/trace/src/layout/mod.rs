//! Where everything is in a trace, version 1.
//!
//! A later version gets a module of its own beside `v1`, and this one stays: [`crate::read`] needs it.

mod class;
mod geometry;
mod v1;

pub use class::Class;
pub(crate) use geometry::ROWS_LIMIT;
pub use geometry::{Geometry, Placement, Section, SectionKind};
pub use v1::*;
