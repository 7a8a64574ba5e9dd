//! Schedulers that change the sizes of running jobs.
//!
//! | scheduler | jobs | decides | file |
//! |---|---|---|---|
//! | [`Reshape`] with a [`Scenario`] | resizable | at resize points, by measured iteration times | `reshape.rs`, `scenario.rs` |
//! | [`ElasticBackfill`] | malleable | each period, by the ratio of MPI time to computing time | `elastic_backfill.rs` |
//! | [`TwoParts`] | malleable, moldable best effort | when jobs arrive and end | `two_parts.rs` |
//!
//! Jobs of other classes run as under EASY backfilling. Sizes are always allowed by the limits of a
//! job.

mod elastic_backfill;
mod ranked;
mod reshape;
mod scenario;
#[cfg(test)]
mod tests;
mod two_parts;

pub use elastic_backfill::ElasticBackfill;
pub use reshape::Reshape;
pub use scenario::{Preference, Scenario};
pub use two_parts::TwoParts;
