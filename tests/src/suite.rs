//! A runner for test programs in which a test may find that it cannot run here.
//!
//! The standard runner cannot report a test as skipped. This one takes names to run, `--exact`,
//! `--skip NAME` and `--list` like the standard one, runs one test after the other, and limits the
//! time of each.
#![allow(clippy::print_stdout)] // Its output is for the user that runs the tests.

use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::selection::Selection;

/// Time limit of a test: much longer than any test takes.
pub const LIMIT: Duration = Duration::from_secs(240);

/// Time limit of tests that may build an installation.
pub const LONG_LIMIT: Duration = Duration::from_secs(1800);

/// A test: its name, which states its promise, and its function.
pub type Test = (&'static str, fn() -> Result<()>);

/// Error of a test that cannot run on this machine, with the reason. The test counts as skipped.
#[derive(Debug)]
pub struct Skipped(pub String);

impl std::fmt::Display for Skipped {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Skipped {}

/// Ends the calling test, on its own thread: it cannot run on this machine, for this reason. The
/// test counts as skipped.
pub fn skip(reason: impl Into<String>) -> ! {
    std::panic::resume_unwind(Box::new(Skipped(reason.into())))
}

/// Verdict of a test, from what its function returns.
pub trait Verdict {
    /// Returns the verdict.
    fn verdict(self) -> Result<()>;
}

impl Verdict for () {
    fn verdict(self) -> Result<()> {
        Ok(())
    }
}

impl Verdict for Result<()> {
    fn verdict(self) -> Result<()> {
        self
    }
}

/// Defines a test program of these functions, without arguments, for tests that may find that they
/// cannot run.
///
/// ```no_run
/// fn sums_are_right() {
///     assert_eq!(1 + 1, 2);
/// }
///
/// quo_tests::suite! {
///     sums_are_right
/// }
/// ```
#[macro_export]
macro_rules! suite {
    ($($name:ident)*) => {
        fn main() -> std::process::ExitCode {
            use $crate::suite::{LONG_LIMIT, Test, Verdict as _, run_within};
            const TESTS: &[Test] = &[$((stringify!($name), || $name().verdict())),*];
            run_within(LONG_LIMIT, TESTS)
        }
    };
}

/// Returns true in the full suite, which shortens nothing and checks times (`QUO_TESTS_LONG`).
#[must_use]
pub fn is_long() -> bool {
    std::env::var_os("QUO_TESTS_LONG").is_some()
}

/// Runs the selected tests. With a reason in `obstacle`, all are skipped.
#[must_use]
pub fn run(tests: &[Test], obstacle: Option<String>) -> ExitCode {
    run_and_look(LIMIT, tests, obstacle, || Ok(()))
}

/// As [`run`], for tests that may take longer than others.
#[must_use]
pub fn run_within(limit: Duration, tests: &[Test]) -> ExitCode {
    run_bounded(limit, tests, None, || Ok(()))
}

/// As [`run`]; a test that passes still fails if the check after it fails.
#[must_use]
pub fn run_and_look(
    limit: Duration,
    tests: &[Test],
    obstacle: Option<String>,
    look: impl Fn() -> Result<()>,
) -> ExitCode {
    run_bounded(limit, tests, obstacle, look)
}

fn run_bounded(
    limit: Duration,
    tests: &[Test],
    obstacle: Option<String>,
    look: impl Fn() -> Result<()>,
) -> ExitCode {
    let selection = Selection::of_this_program();
    let wanted: Vec<&Test> = tests.iter().filter(|(name, _)| selection.wants(name)).collect();
    if selection.is_listing() {
        wanted.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {} tests", wanted.len());
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (name, test) in wanted {
        if let Some(reason) = &obstacle {
            println!("test {name} ... ignored: {reason}");
            skipped += 1;
            continue;
        }
        let start = Instant::now();
        let verdict = bounded(*test, limit).and_then(|()| look());
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

fn bounded(test: fn() -> Result<()>, limit: Duration) -> Result<()> {
    let (report, verdict) = channel();
    let thread = std::thread::spawn(move || {
        let outcome = test();
        let _nobody_waits_any_more = report.send(outcome);
    });
    match verdict.recv_timeout(limit) {
        Ok(outcome) => {
            let _already_reported = thread.join();
            outcome
        }
        Err(RecvTimeoutError::Disconnected) => {
            match thread.join().map_err(|cause| cause.downcast::<Skipped>()) {
                Err(Ok(skipped)) => Err((*skipped).into()),
                _ => Err(anyhow!("it panicked; see above")),
            }
        }
        Err(RecvTimeoutError::Timeout) => Err(anyhow!("still running after {} s", limit.as_secs())),
    }
}
