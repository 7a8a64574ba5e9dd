//! The part of a log that a result covers.

use std::fmt;

use serde::Serialize;

use super::text::number;
use crate::input::Hours;
use crate::simulate::{Ending, Outcome};

/// The processor time of a log that a result covers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Coverage {
    /// The unit: `CPU`, `processor` or `node`.
    pub unit: &'static str,
    /// The hours of all lines with known hours.
    pub log: f64,
    /// The hours in the log of the jobs that ran in the simulation.
    pub result: f64,
    /// The number of lines with unknown hours.
    pub unknown: u64,
}

impl Coverage {
    /// Returns the part of the hours that an outcome covers: all but those of rejected jobs.
    #[must_use]
    pub fn of(hours: &Hours, outcome: &Outcome) -> Coverage {
        let Hours { unit, log, unknown, .. } = *hours;
        let ran = outcome.records.iter().zip(&hours.jobs);
        let ran = ran.filter(|(record, _)| record.ending != Ending::Rejected);
        let result = ran.fold(0.0, |sum, (_, hours)| sum + hours);
        Coverage { unit, log, result, unknown }
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { unit, log, result, unknown } = *self;
        let (of_result, of_log) = (number(result), number(log));
        write!(f, "{of_result} of the log's {of_log} {unit} hours are in the result")?;
        if log > 0.0 {
            write!(f, " ({:.1} %)", 100.0 * result / log)?;
        }
        match unknown {
            0 => Ok(()),
            1 => write!(f, "; those of 1 line are not known"),
            _ => write!(f, "; those of {unknown} lines are not known"),
        }
    }
}
