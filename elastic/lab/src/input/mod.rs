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

/// The longest line that is read, in bytes.
const LONGEST_LINE: usize = 1 << 16;
/// The longest time that makes sense, in seconds: some thirty thousand years.
const LONGEST_TIME: f64 = 1e12;
/// Problems that are kept with their lines; further ones are only counted.
const MOST_PROBLEMS: usize = 20;

/// The treatment of wrong lines.
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
    /// Takes each run of a requeued job as a job; else its last one.
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

/// The lines of a log that gave no job, or not a job each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// The first wrong lines.
    pub problems: Vec<Problem>,
    /// The number of wrong lines.
    pub wrong: u64,
    /// The number of jobs that never ran; each task of an array is one.
    pub never_ran: u64,
    /// The number of jobs that have not ended, and are taken as ending with the log, or before at their walltime.
    pub not_ended: u64,
    /// The number of steps of jobs, and of the bursts of jobs that were swapped.
    pub steps: u64,
    /// The number of jobs with several runs.
    pub requeued: u64,
    /// The number of jobs with several parts.
    pub heterogeneous: u64,
    /// The number of job numbers that were there before.
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
    /// The hours of all lines whose hours are known.
    pub log: f64,
    /// The hours of each job, in the order of the workload's jobs.
    pub jobs: Vec<f64>,
    /// The number of lines whose hours are not known: wrong ones, and those without processors.
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
    /// The most that jobs held at the same time.
    pub peak: Peak,
}

/// The failure to read a workload.
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
    /// The description is not TOML, or has other keys or values than are known.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// A job of the description makes no sense.
    #[error("job {job}: {cause}")]
    Job {
        /// The job's name.
        job: String,
        /// The cause.
        cause: String,
    },
    /// Nothing was found.
    #[error("the log has no job")]
    Empty,
}

/// Reader of lines, which collects the problems with them.
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

    /// Reads the next line, or why it is none; nothing at the end of the file.
    fn line(&mut self) -> Result<Option<Result<String, String>>, InputError> {
        self.line.clear();
        self.number += 1;
        let line = self.number;
        // A limit, so that a file without lines does not fill the memory.
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

    /// Keeps a wrong line, or fails because of it.
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
