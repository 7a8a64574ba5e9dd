//! A runner for test programs in which a test may find that it cannot run here.
//!
//! The standard runner cannot report a test as skipped. This one takes names to run, `--exact`,
//! `--skip NAME` and `--list` like the standard one, runs one test after the other, and limits the
//! time of each.
#![allow(clippy::print_stdout)] // Its output is for the user that runs the tests.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};

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
    ///
    /// # Errors
    /// The test failed, or was skipped.
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
/// cannot run. `within LIMIT;` before them is another limit of a test than [`LIMIT`], `by RUN;`
/// another function that runs them.
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
    (by $run:expr; $($name:ident)*) => {
        fn main() -> std::process::ExitCode {
            use $crate::suite::{Test, Verdict as _};
            const TESTS: &[Test] = &[$((stringify!($name), || $name().verdict())),*];
            let run: fn(&[Test]) -> std::process::ExitCode = $run;
            run(TESTS)
        }
    };
    (within $limit:expr; $($name:ident)*) => {
        $crate::suite! { by |tests| $crate::suite::run_within($limit, tests); $($name)* }
    };
    ($($name:ident)*) => { $crate::suite! { within $crate::suite::LIMIT; $($name)* } };
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
    let tests = tests.iter().map(|(name, test)| ((*name).to_owned(), test));
    run_each(tests, |test| match &obstacle {
        Some(reason) => bail!(Skipped(reason.clone())),
        None => bounded(*test, limit).and_then(|()| look()),
    })
}

/// Runs the selected ones of some named tests on this thread, one after the other, and prints the
/// usual lines. A test with the error [`Skipped`] is counted as skipped.
#[must_use]
pub fn run_each<T>(
    tests: impl IntoIterator<Item = (String, T)>,
    mut run: impl FnMut(T) -> Result<()>,
) -> ExitCode {
    let selection = Selection::of_this_program();
    let tests = tests.into_iter().filter(|(name, _)| selection.wants(name));
    if selection.is_listing() {
        tests.for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let tests: Vec<(String, T)> = tests.collect();
    println!("\nrunning {} tests", tests.len());
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (name, test) in tests {
        let start = Instant::now();
        let verdict = run(test);
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

/// Runs a test that panics where it fails, or [skips](skip) itself.
///
/// # Errors
/// The test panicked; [`Skipped`] if it skipped itself.
pub fn caught(test: impl FnOnce()) -> Result<()> {
    catch_unwind(AssertUnwindSafe(test)).map_err(error_of)
}

fn error_of(panic: Box<dyn Any + Send>) -> anyhow::Error {
    match panic.downcast::<Skipped>() {
        Ok(skipped) => (*skipped).into(),
        Err(_) => anyhow!("it panicked; see above"),
    }
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
        Err(RecvTimeoutError::Disconnected) => thread.join().map_err(error_of),
        Err(RecvTimeoutError::Timeout) => Err(anyhow!("still running after {} s", limit.as_secs())),
    }
}
