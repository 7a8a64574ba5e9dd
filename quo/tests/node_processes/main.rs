//! The node with real processes, which are killed, stopped and forked at critical moments.
//!
//! Forking from a program with threads is dangerous, so this suite has its own runner: one thread,
//! and a separate process group for each test, which is bounded in time, must leave no process and
//! must leave its directory empty. It accepts names to run, `--exact`, `--skip NAME` and `--list`
//! like the usual runner.
#![allow(unsafe_code, clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used)]

mod barriers;
mod crew;
mod deaths;
mod intruders;
mod segments;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, setpgid};
use quo_tests::suite::{self, run_each};

/// Time that a test may take before it is killed: much longer than any does.
const LIMIT: Duration = Duration::from_secs(120);

/// A test, which gets a separate directory.
type Test = (&'static str, fn(&Path) -> Result<(), Skipped>);

/// Reason why a test could not run here.
pub struct Skipped(pub &'static str);

fn main() -> ExitCode {
    let tests = [barriers::TESTS, deaths::TESTS, intruders::TESTS, segments::TESTS].concat();
    run_each(tests.into_iter().map(|(name, test)| (name.to_owned(), test)), run)
}

/// Exit codes of a test's process.
const SKIPPED: i32 = 77;
const PASSED: i32 = 0;

fn run(test: fn(&Path) -> Result<(), Skipped>) -> anyhow::Result<()> {
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let directory = tempfile::Builder::new().prefix("quo-test-").tempdir_in(base).unwrap();
    let (reason_out, reason_in) = nix::unistd::pipe().unwrap();
    // SAFETY: this program has one thread.
    let pid = match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            setpgid(Pid::from_raw(0), Pid::from_raw(0)).unwrap();
            // Processes that lose their parent become children of this one, which reaps them.
            // SAFETY: a plain system call.
            assert_eq!(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) }, 0);
            crew::exit_with(|| match test(directory.path()) {
                Ok(()) => {
                    while waitpid(None, None).is_ok() {}
                    PASSED
                }
                Err(Skipped(reason)) => {
                    nix::unistd::write(&reason_in, reason.as_bytes()).unwrap();
                    SKIPPED
                }
            })
        }
        ForkResult::Parent { child } => child,
    };
    drop(reason_in);
    let status = wait_at_most(pid, LIMIT);
    // Any remaining process of the group is a failure, and is killed.
    let left = match killpg(pid, Signal::SIGKILL) {
        Err(Errno::ESRCH) => false,
        _ => status.is_some(),
    };
    let mut reason = [0; 256];
    let length = nix::unistd::read(&reason_out, &mut reason).unwrap();
    match status {
        None => bail!("still running after {} s", LIMIT.as_secs()),
        Some(_) if left => bail!("it left a process behind"),
        Some(WaitStatus::Exited(_, PASSED)) => {}
        Some(WaitStatus::Exited(_, SKIPPED)) => {
            let reason = String::from_utf8_lossy(&reason[..length]).into_owned();
            bail!(suite::Skipped(reason));
        }
        Some(other) => bail!("{other:?}"),
    }
    match std::fs::read_dir(directory.path()).unwrap().next() {
        None => Ok(()),
        Some(entry) => bail!("it left {:?} behind", entry.unwrap().file_name()),
    }
}

/// Waits for a child; returns `None`, after killing the child with its group, if it takes too long.
fn wait_at_most(pid: Pid, limit: Duration) -> Option<WaitStatus> {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        match waitpid(pid, Some(WaitPidFlag::WNOHANG)).unwrap() {
            // Sleeps: between two checks of a child, for which there is no wait with a limit.
            WaitStatus::StillAlive => std::thread::sleep(Duration::from_millis(2)),
            status => return Some(status),
        }
    }
    let _ = killpg(pid, Signal::SIGKILL);
    waitpid(pid, None).unwrap();
    None
}
