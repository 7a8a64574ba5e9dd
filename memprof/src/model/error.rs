//! Errors of loading a job.

use serde::Serialize;
use std::path::PathBuf;

/// A folder that cannot be used as a job.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The folder could not be listed.
    #[error("cannot read the folder {folder}: {cause}")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
    /// The folder contains no trace.
    #[error("no traces (*.memprof) in {folder}{}", words.iter().map(|word| format!("\n  {word}")).collect::<String>())]
    Empty {
        /// The folder.
        folder: PathBuf,
        /// Reports left by processes that could not write a trace.
        words: Vec<String>,
    },
    /// None of the traces could be read.
    #[error("no trace in {folder} can be read, of {count}; the first, {first}: {why}")]
    Unreadable {
        /// The folder.
        folder: PathBuf,
        /// Number of jobs.
        count: usize,
        /// One of them.
        first: PathBuf,
        /// Its fault.
        why: String,
    },
    /// There is no job with this number.
    #[error("no job {number} in {folder}; there are {count}")]
    NoJob {
        /// The folder.
        folder: PathBuf,
        /// The number.
        number: u32,
        /// Number of the job's ranks.
        count: u32,
    },
    /// The request is for one job, and there are several.
    #[error("{folder} holds {count} jobs, and this is of one: name it with --job")]
    SeveralJobs {
        /// The folder.
        folder: PathBuf,
        /// Number of traces.
        count: usize,
    },
    /// One trace could not be read.
    #[error("cannot read {file}: {why}")]
    Trace {
        /// The trace.
        file: PathBuf,
        /// The fault.
        why: String,
    },
}

/// A file that looks like a trace and cannot be read as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unread {
    /// The file.
    #[serde(serialize_with = "crate::output::path")]
    pub file: PathBuf,
    /// The fault.
    pub why: String,
}
