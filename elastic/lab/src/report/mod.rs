//! Reports of simulations: summaries, comparisons, tables and pages.

pub mod chart;
pub mod compare;
pub mod coverage;
pub mod csv;
pub mod html;
pub mod summary;
pub mod text;

pub use compare::{Comparison, Difference};
pub use coverage::Coverage;
pub use summary::{Group, Spread, Summary};
