//! Test programs under ThreadSanitizer.
//!
//! ThreadSanitizer sees one process at a time: races between threads that push, publish and share a
//! node. The model checker and the fault suites cover several processes on one segment. Miri, which
//! needs a nightly toolchain and supports neither futexes between processes nor forks, is not used.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::{project, run};

/// The library's own tests, many of which have threads, and the suites that fork.
const PROGRAMS: &[&str] = &[
    "--lib",
    "--test",
    "node_processes",
    "--test",
    "context_processes",
    "--test",
    "context_phases",
];

/// The compiler hides sanitizers behind a switch for nightly toolchains, but its stable releases
/// include them. The standard library stays uninstrumented, which the second flag allows.
const SWITCH: (&str, &str) = ("RUSTC_BOOTSTRAP", "1");
const FLAGS: &str = "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer";

/// Suppressions: exceptions to the reports, with reasons.
const SUPPRESSIONS: &str = "tests/fuzz/sanitizers/thread.supp";

/// Builds and runs the programs. One test at a time: tests share nothing, but the sanitizer does
/// not know that the kernel gave one test the addresses that another has unmapped.
pub fn threads(log: &Path, limit: Duration) -> Result<run::Finished> {
    let suppressions = project::root().join(SUPPRESSIONS);
    let options = format!("exitcode=66 die_after_fork=0 suppressions={}", suppressions.display());
    let mut cargo = project::cargo()?;
    cargo.args(["test", "--profile", "fuzz", "--no-fail-fast", "--target", &project::triple()?]);
    cargo.args(["--package", "quo"]).args(PROGRAMS).args(["--", "--test-threads=1"]);
    cargo.env("CARGO_TARGET_DIR", project::target()?.join("thread"));
    cargo.env("RUSTFLAGS", FLAGS).env(SWITCH.0, SWITCH.1).env("TSAN_OPTIONS", options);
    run::logged(&mut cargo, log, limit)
}
