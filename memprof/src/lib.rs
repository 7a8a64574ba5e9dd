//! Analysis of memory traces: from the files of a job to tables and pictures.
//!
//! floors: units < output < terminal < model < picture < growth < report < export < diff < run
//!     < observe < live < generate < flags

pub mod diff;
pub mod export;
pub mod flags;
pub mod generate;
pub mod growth;
pub mod live;
pub mod model;
pub mod observe;
pub mod output;
pub mod picture;
pub mod report;
pub mod run;
pub mod terminal;
pub mod units;
