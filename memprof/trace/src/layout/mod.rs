//! Layout of a trace: constants, rows, sections and classes of components.

mod class;
mod geometry;
mod rows;

pub use class::Class;
pub(crate) use geometry::ROWS_LIMIT;
pub use geometry::{Geometry, Placement, Section, SectionKind};
pub use rows::*;
