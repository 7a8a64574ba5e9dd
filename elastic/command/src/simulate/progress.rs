//! A line on standard error that shows the progress of a long simulation.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use elastic_lab::simulate::{Observer, Progress};
use elastic_lab::workload::Workload;
use elastic_policy::action::Decision;
use elastic_policy::time::Time;

/// Work shorter than this shows no progress.
const QUIET: Duration = Duration::from_millis(500);
const EVERY: Duration = Duration::from_millis(200);

/// Shows progress if standard error is a terminal, and passes decisions on.
pub struct Watcher<'a> {
    name: String,
    workload: &'a Workload,
    begun: Instant,
    shown: Option<Instant>,
    is_terminal: bool,
    decisions: Option<&'a mut dyn Write>,
    /// The first failure to write a decision.
    pub failure: Option<std::io::Error>,
}

impl<'a> Watcher<'a> {
    /// Watches a simulation with this name; decisions are written as lines of JSON.
    pub fn new(
        name: String,
        workload: &'a Workload,
        decisions: Option<&'a mut dyn Write>,
    ) -> Watcher<'a> {
        Watcher {
            name,
            workload,
            begun: Instant::now(),
            shown: None,
            is_terminal: std::io::stderr().is_terminal(),
            decisions,
            failure: None,
        }
    }
}

impl Observer for Watcher<'_> {
    fn decided(&mut self, now: Time, decision: &Decision) {
        let Some(into) = &mut self.decisions else { return };
        let job = self.workload.jobs.get(decision.action.job().0 as usize);
        let line = serde_json::json!({
            "at_s": now.as_seconds(),
            // Reasons refer to jobs by these numbers.
            "id": decision.action.job(),
            "job": job.map(|job| job.name.to_string()),
            "action": decision.action,
            "reason": decision.reason,
        });
        if self.failure.is_none() {
            self.failure = writeln!(into, "{line}").err();
        }
    }

    fn progressed(&mut self, progress: Progress) {
        let is_due = self.shown.is_none_or(|shown| shown.elapsed() >= EVERY);
        if !self.is_terminal || self.begun.elapsed() < QUIET || !is_due {
            return;
        }
        self.shown = Some(Instant::now());
        let Progress { now, done, jobs } = progress;
        let share = 100 * done / jobs.max(1);
        let line = format!("{}: {done} of {jobs} jobs ({share} %), at {now}", self.name);
        // A failure to write to the terminal is ignored: results are printed elsewhere.
        let _ = write!(std::io::stderr(), "\r{line}\x1b[K");
    }
}

impl Drop for Watcher<'_> {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
