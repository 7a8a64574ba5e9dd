//! Time that a threaded phase loses to the ranks that wait for it. One launch per mode: an OpenMP
//! pool keeps the binding of its creation.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use quo_tests::{BindTo, Job};
use serde_json::Value;

use super::program_output;

pub const HEADINGS: [&str; 3] = ["how the others wait", "phase ÷ ideal", "CPU of a waiter"];

/// Work for a phase of about a second.
const WORK: &str = "1000";

/// How the others wait: a label, the program's mode, and the selected wait.
const WAYS: &[(&str, &str, Option<&str>)] = &[
    ("asleep on a signal (ideal)", "ideal", None),
    ("QUO_barrier", "quo", None),
    ("QUO_barrier, pthread barrier", "quo", Some("pthread")),
    ("MPI_Barrier", "mpi", None),
];

/// Seconds and the waiters' CPU share for each way, in rounds.
pub struct Quiescence {
    rounds: Vec<Vec<Value>>,
}

impl Quiescence {
    pub fn new() -> Quiescence {
        Quiescence { rounds: vec![Vec::new(); WAYS.len()] }
    }

    /// Runs each way once.
    pub fn round(&mut self, program: &Path, ranks: usize) -> Result<()> {
        for ((_, mode, wait), results) in WAYS.iter().zip(&mut self.rounds) {
            let mut job = Job::new(ranks, program).arg(mode).arg(WORK).bind_to(BindTo::Core);
            if let Some(wait) = wait {
                job = job.env("QUO_WAIT", wait);
            }
            results.push(program_output(&job.limit(Duration::from_secs(120)))?);
        }
        Ok(())
    }

    pub fn to_json(&self) -> Value {
        let entry = |((name, ..), rounds): (&(&str, &str, Option<&str>), &Vec<Value>)| {
            ((*name).to_owned(), Value::from(rounds.clone()))
        };
        Value::Object(WAYS.iter().zip(&self.rounds).map(entry).collect())
    }

    /// Returns the printed lines: time as a multiple of the ideal of the same rounds.
    pub fn lines(&self) -> Vec<[String; 3]> {
        let seconds = |rounds: &[Value]| super::table::median(rounds, "/seconds");
        let ideal = seconds(&self.rounds[0]);
        let mut lines = Vec::new();
        for ((name, ..), rounds) in WAYS.iter().zip(&self.rounds) {
            let (Some(ideal), Some(seconds)) = (ideal, seconds(rounds)) else { continue };
            let share = super::table::median(rounds, "/waiter_cpu_share").unwrap_or(f64::NAN);
            let times = format!("{:.2} x", seconds / ideal);
            lines.push([(*name).to_owned(), times, format!("{:.3} %", share * 100.0)]);
        }
        lines
    }
}
