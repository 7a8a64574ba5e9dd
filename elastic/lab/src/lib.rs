//! Simulates the jobs of a cluster under the policies of [`elastic_policy`], and compares the outcomes.
//!
//! The floors, each using only those above it:
//!
//! - [`workload`]: jobs for a simulation, and models of their programs;
//! - [`input`]: workloads from files;
//! - [`simulate`]: the simulation of a cluster under a policy;
//! - [`record`]: records of real systems, read as outcomes;
//! - [`reproduce`]: the tables of the sources, replayed;
//! - [`report`]: summaries, comparisons, tables and pages.
//!
//! floors: workload < input < simulate < record < reproduce < report

pub mod input;
pub mod record;
pub mod report;
pub mod reproduce;
pub mod simulate;
pub mod workload;
