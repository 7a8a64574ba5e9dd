//! Analysis of memory traces: from the files of a job to tables and pictures.

pub mod generate;
pub mod live;
pub mod model;
pub mod picture;
pub mod report;
pub mod run;
pub mod signals;
pub mod terminal;
pub mod units;
