//! Runner of test programs that need hosts.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
pub use quo_tests::suite::{Skipped, Test};

use crate::hosts::Hosts;
use crate::requirements::why_not;

/// Returns a set name that no other running test program uses.
#[must_use]
pub fn set(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

/// Runs the selected tests. If hosts cannot be created here, or for the reason in `also_needs`, all
/// are skipped with the reason. Checks after each test that no set of this program is left.
#[must_use]
pub fn run(tests: &[Test], also_needs: Option<String>) -> ExitCode {
    run_within(quo_tests::suite::LIMIT, tests, also_needs)
}

/// As [`run`], for tests that may take longer than others.
#[must_use]
pub fn run_within(limit: Duration, tests: &[Test], also_needs: Option<String>) -> ExitCode {
    quo_tests::suite::run_and_look(limit, tests, why_not().or(also_needs), nothing_left)
}

/// Checks that no set of this test program is left.
fn nothing_left() -> Result<()> {
    let end = set("");
    let left: Vec<String> = Hosts::sets().into_iter().filter(|set| set.ends_with(&end)).collect();
    if left.is_empty() { Ok(()) } else { anyhow::bail!("hosts are left: {}", left.join(", ")) }
}
