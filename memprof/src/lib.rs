//! Analysis of memory traces: from the files of a job to tables and pictures.

pub mod model;
