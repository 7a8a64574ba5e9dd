//! The runner of test programs that need hosts.
//!
//! The usual runner cannot say that a test was skipped. This one takes names to run, `--exact`,
//! `--skip NAME` and `--list` as the usual one does, runs one test after the other, and bounds each.

use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use quo_tests::Selection;

use crate::hosts::Hosts;
use crate::requirements::why_not;

/// How long a test may take: much longer than any does.
const LIMIT: Duration = Duration::from_secs(240);

/// The name of a test, which says what is promised, and the test.
pub type Test = (&'static str, fn() -> Result<()>);

/// The error of a test that cannot be made on this machine, with the reason. It counts as skipped.
#[derive(Debug)]
pub struct Skipped(pub String);

impl std::fmt::Display for Skipped {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Skipped {}

/// A set name that no other test program uses at the same time.
#[must_use]
pub fn set(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

/// Runs the tests whose names are wanted. When hosts cannot be made here, or for the reason in
/// `also_needs`, all are skipped with the reason.
#[must_use]
pub fn run(tests: &[Test], also_needs: Option<String>) -> ExitCode {
    let selection = Selection::of_this_program();
    let wanted: Vec<&Test> = tests.iter().filter(|(name, _)| selection.wants(name)).collect();
    if selection.is_listing() {
        wanted.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {} tests", wanted.len());
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    let obstacle = why_not().or(also_needs);
    for (name, test) in wanted {
        if let Some(reason) = &obstacle {
            println!("test {name} ... ignored: {reason}");
            skipped += 1;
            continue;
        }
        let start = Instant::now();
        let verdict = bounded(*test).and_then(|()| nothing_left());
        let seconds = start.elapsed().as_secs_f64();
        match &verdict {
            Ok(()) => {
                println!("test {name} ... ok ({seconds:.2} s)");
                passed += 1;
            }
            Err(error) if error.is::<Skipped>() => {
                println!("test {name} ... ignored: {error}");
                skipped += 1;
            }
            Err(error) => {
                println!("test {name} ... FAILED ({seconds:.2} s)\n{error:#}\n");
                failed += 1;
            }
        }
    }
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {word}. {passed} passed; {failed} failed; {skipped} ignored\n");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn bounded(test: fn() -> Result<()>) -> Result<()> {
    let (report, verdict) = channel();
    let thread = std::thread::spawn(move || {
        let outcome = test();
        let _nobody_waits_any_more = report.send(outcome);
    });
    match verdict.recv_timeout(LIMIT) {
        Ok(outcome) => {
            let _already_reported = thread.join();
            outcome
        }
        Err(RecvTimeoutError::Disconnected) => Err(anyhow!("it panicked; see above")),
        Err(RecvTimeoutError::Timeout) => Err(anyhow!("still running after {} s", LIMIT.as_secs())),
    }
}

/// No set of this test program is left.
fn nothing_left() -> Result<()> {
    let end = set("");
    let left: Vec<String> = Hosts::sets().into_iter().filter(|set| set.ends_with(&end)).collect();
    if left.is_empty() { Ok(()) } else { Err(anyhow!("hosts are left: {}", left.join(", "))) }
}
