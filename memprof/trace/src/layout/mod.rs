//! Layout of a trace: constants, rows, sections and classes of components.

mod class;
mod geometry;
mod moments;
mod rows;

pub use class::Class;
pub(crate) use geometry::ROWS_LIMIT;
pub use geometry::{Geometry, Placement, Section, SectionKind};
pub use moments::{MOMENT_SHIFT, MOMENTS, Moments};
pub use rows::*;
