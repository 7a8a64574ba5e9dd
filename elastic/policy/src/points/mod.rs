//! Resize points as in ReSHAPE: next sizes, the speed of each, and the decisions for a program.
//!
//! [`Topology`] is the arrangement of a program's processors, and [`Growth`] defines the order of
//! [`Configuration`]s. [`History`] keeps the iteration times of each configuration and the cost of
//! redistribution, and answers the questions of schedulers: the sizes that the program can shrink
//! to, the cost of that, and whether more processors are likely to help. [`ResizePoints`] is the
//! bookkeeping of one rank's main loop. Schedulers decide when to resize.
//!
//! Source: R. Sudarsan, dissertation, Virginia Tech 2009, sections 2.3, 2.4 and 4.2.

mod error;
mod growth;
mod history;
mod predict;
mod stay;
mod steps;
#[cfg(test)]
mod tests;

pub use error::PointsError;
pub use growth::{Configuration, Growth, Topology};
pub use history::{History, ShrinkPoint, Visit};
pub use predict::{Measure, Predictor, slope};
pub use stay::{SmallerSize, Stay, smaller_sizes};
pub use steps::{Decision, Report, ResizePoints};
