//! Workloads from files: the Standard Workload Format, the output of `sacct`, and a description in TOML.

pub mod described;
mod peak;
pub mod sacct;
pub mod swf;

pub use peak::Peak;
pub use sacct::mebibytes;

use std::io;

use serde::Serialize;
use thiserror::Error;

use crate::workload::Workload;

/// Largest length of a line in bytes.
const LONGEST_LINE: usize = 1 << 16;
/// Largest valid time in seconds: some thirty thousand years.
const LONGEST_TIME: f64 = 1e12;
/// Number of problems kept with their lines; further ones are only counted.
const MOST_PROBLEMS: usize = 20;

/// What to do with wrong lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WrongLines {
    /// They are skipped and reported.
    #[default]
    Skip,
    /// The first ends the reading.
    Fail,
}

/// The settings for reading a log.
#[derive(Clone, Copy, Debug)]
pub struct LogSettings {
    /// The cores of a node, for logs that count processors; 1 if each processor is a node.
    pub cores_per_node: u32,
    /// The treatment of wrong lines.
    pub wrong_lines: WrongLines,
    /// True to take each run of a requeued job as a job, false to take its last one.
    pub each_run: bool,
}

impl Default for LogSettings {
    fn default() -> LogSettings {
        LogSettings { cores_per_node: 1, wrong_lines: WrongLines::default(), each_run: false }
    }
}

/// A wrong line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The number of the line, from 1.
    pub line: u64,
    /// The cause.
    pub cause: String,
}

/// Lines of a log that gave no job, or fewer jobs than lines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// The first wrong lines.
    pub problems: Vec<Problem>,
    /// The number of wrong lines.
    pub wrong: u64,
    /// The number of jobs that never ran; each task of an array counts.
    pub never_ran: u64,
    /// The number of jobs that have not ended, and are taken as ending with the log, or earlier at
    /// their walltime.
    pub not_ended: u64,
    /// The number of steps of jobs, and of the bursts of swapped jobs.
    pub steps: u64,
    /// The number of jobs with several runs.
    pub requeued: u64,
    /// The number of jobs with several parts.
    pub heterogeneous: u64,
    /// The number of repeated job numbers.
    pub repeated: u64,
    /// The number of lines with more fields than the format has.
    pub longer: u64,
    /// True if some times have a zone and some have none.
    pub mixed_zones: bool,
}

/// The processor time of a log and of its jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hours {
    /// The unit: `CPU`, `processor` or `node`.
    pub unit: &'static str,
    /// The hours of all lines with known hours.
    pub log: f64,
    /// The hours of each job, in the order of the workload's jobs.
    pub jobs: Vec<f64>,
    /// The number of lines with unknown hours: wrong ones, and those without processors.
    pub unknown: u64,
}

/// A log as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// The jobs.
    pub workload: Workload,
    /// The lines that gave no job.
    pub skipped: Skipped,
    /// The processor time.
    pub hours: Hours,
    /// The peak of nodes and processors held at the same time.
    pub peak: Peak,
}

/// Why a workload could not be read.
#[derive(Debug, Error)]
pub enum InputError {
    /// The file cannot be read.
    #[error("reading line {line}: {source}")]
    Read {
        /// The number of the line.
        line: u64,
        /// The cause.
        source: io::Error,
    },
    /// A line is wrong.
    #[error("line {}: {}", .0.line, .0.cause)]
    Line(Problem),
    /// The description is not TOML, or has unknown keys or values.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// A job of the description is invalid.
    #[error("job {job}: {cause}")]
    Job {
        /// The job's name.
        job: String,
        /// The cause.
        cause: String,
    },
    /// There is no job.
    #[error("the log has no job")]
    Empty,
}

/// Reads lines and collects the problems with them.
struct Lines<R> {
    from: R,
    number: u64,
    line: Vec<u8>,
    wrong_lines: WrongLines,
    skipped: Skipped,
}

impl<R: io::BufRead> Lines<R> {
    fn new(from: R, wrong_lines: WrongLines) -> Lines<R> {
        let (line, skipped) = (Vec::new(), Skipped::default());
        Lines { from, number: 0, line, wrong_lines, skipped }
    }

    /// Reads the next line, or the problem with it; `None` at the end of the file.
    fn line(&mut self) -> Result<Option<Result<String, String>>, InputError> {
        self.line.clear();
        self.number += 1;
        let line = self.number;
        // Limited, so that a file without line breaks does not fill the memory.
        let mut limited = io::Read::take(&mut self.from, LONGEST_LINE as u64);
        let length = io::BufRead::read_until(&mut limited, b'\n', &mut self.line)
            .map_err(|source| InputError::Read { line, source })?;
        if length == 0 {
            return Ok(None);
        }
        let is_cut = length == LONGEST_LINE && self.line.last() != Some(&b'\n');
        if is_cut {
            self.skip_rest().map_err(|source| InputError::Read { line, source })?;
        }
        Ok(Some(match std::str::from_utf8(&self.line) {
            _ if is_cut => Err(format!("it is longer than {LONGEST_LINE} bytes")),
            Ok(text) => Ok(text.trim_end().to_owned()),
            Err(_) => Err("it is not UTF-8 text".to_owned()),
        }))
    }

    /// Records a wrong line, or fails because of it.
    fn wrong(&mut self, line: u64, cause: String) -> Result<(), InputError> {
        let problem = Problem { line, cause };
        if self.wrong_lines == WrongLines::Fail {
            return Err(InputError::Line(problem));
        }
        self.skipped.wrong += 1;
        if self.skipped.problems.len() < MOST_PROBLEMS {
            self.skipped.problems.push(problem);
        }
        Ok(())
    }

    fn skip_rest(&mut self) -> io::Result<()> {
        loop {
            let buffer = self.from.fill_buf()?;
            let (length, is_over) = match buffer.iter().position(|&byte| byte == b'\n') {
                Some(place) => (place + 1, true),
                None => (buffer.len(), buffer.is_empty()),
            };
            self.from.consume(length);
            if is_over {
                return Ok(());
            }
        }
    }
}
