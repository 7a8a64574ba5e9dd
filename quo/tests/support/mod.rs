//! A test runner for suites that fork, and helpers to fork ranks.
//!
//! The standard runner has several threads, and a forked child of such a process may not do much.
//! These suites are separate programs (`harness = false`) with one thread; they take the usual name
//! filter and print the usual lines.
#![allow(dead_code, unsafe_code, clippy::print_stdout, clippy::unwrap_used)]

pub mod contexts;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use quo_tests::suite::{caught, run_each};

/// A named test.
pub type Test = (&'static str, fn());

/// Time that the ranks of one test may take together.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Runs the selected tests on this thread.
pub fn run(tests: &[Test]) -> ExitCode {
    let tests = tests.iter().map(|(name, test)| ((*name).to_owned(), test));
    run_each(tests, caught)
}

/// End of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It returned, or left with this status; a panic is status 101.
    Exited(i32),
    /// A signal ended it.
    Killed(Signal),
}

/// Ranks that were forked; any remaining ones are killed on drop.
pub struct Ranks {
    running: BTreeMap<usize, Pid>,
}

impl Ranks {
    /// Forks `size` ranks that each run `body` with their number.
    pub fn fork(size: usize, body: impl Fn(usize)) -> Self {
        let mut running = BTreeMap::new();
        for rank in 0..size {
            // SAFETY: this process has one thread, so the child may do everything.
            match unsafe { fork() }.unwrap() {
                ForkResult::Parent { child } => {
                    running.insert(rank, child);
                }
                ForkResult::Child => {
                    let good = caught(|| body(rank)).is_ok();
                    // SAFETY: ends this process without running the parent's exit handlers.
                    unsafe { libc::_exit(if good { 0 } else { 101 }) };
                }
            }
        }
        Self { running }
    }

    /// Returns the process of a rank.
    pub fn process(&self, rank: usize) -> Pid {
        self.running[&rank]
    }

    /// Sends a signal to a rank.
    pub fn signal(&self, rank: usize, signal: Signal) {
        kill(self.process(rank), signal).unwrap();
    }

    /// Waits until all ranks have ended, in at most [`LIMIT`].
    pub fn wait(mut self) -> BTreeMap<usize, End> {
        let deadline = Instant::now() + LIMIT;
        let mut ends = BTreeMap::new();
        while !self.running.is_empty() {
            assert!(Instant::now() < deadline, "ranks {:?} hang", self.running.keys());
            let mut quiet = true;
            for (rank, process) in self.running.clone() {
                let end = match waitpid(process, Some(WaitPidFlag::WNOHANG)).unwrap() {
                    WaitStatus::Exited(_, status) => End::Exited(status),
                    WaitStatus::Signaled(_, signal, _) => End::Killed(signal),
                    _ => continue,
                };
                self.running.remove(&rank);
                ends.insert(rank, end);
                quiet = false;
            }
            if quiet {
                std::thread::park_timeout(Duration::from_millis(1));
            }
        }
        ends
    }

    /// Waits and requires that every rank returned without a panic.
    pub fn succeed(self) {
        let ends = self.wait();
        assert!(ends.values().all(|end| *end == End::Exited(0)), "{ends:?}");
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        for process in self.running.values() {
            let _ = kill(*process, Signal::SIGKILL);
            let _ = waitpid(*process, None);
        }
    }
}

/// Mounts a file system in memory over a directory, with options such as `size=8k`, for this
/// process and those it forks from now on. Needs root.
pub fn mount_small_directory(directory: &Path, options: &str) {
    let mount = |source: &str, target: &Path, kind: &str, flags, options: &str| {
        let text = |text: &str| std::ffi::CString::new(text).unwrap();
        let target = text(target.to_str().unwrap());
        let (source, kind, options) = (text(source), text(kind), text(options));
        // SAFETY: all strings live for the duration of the call.
        let status = unsafe {
            libc::mount(
                source.as_ptr(),
                target.as_ptr(),
                kind.as_ptr(),
                flags,
                options.as_ptr().cast(),
            )
        };
        assert_eq!(status, 0, "{}", std::io::Error::last_os_error());
    };
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).unwrap();
    mount("none", Path::new("/"), "none", libc::MS_REC | libc::MS_PRIVATE, "");
    mount("tmpfs", directory, "tmpfs", 0, options);
}

/// A directory in memory for segments, of which nothing may be left at the end.
pub struct Segments {
    directory: tempfile::TempDir,
}

impl Segments {
    /// Creates a directory under `/dev/shm`.
    pub fn new() -> Self {
        Self { directory: tempfile::Builder::new().prefix("test-").tempdir_in("/dev/shm").unwrap() }
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the files of the directory, other than the description of the machine, which stays.
    pub fn files(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().path());
        let stays = |path: &Path| path.to_string_lossy().contains("/quo-machine-");
        files.filter(|path| !stays(path)).collect()
    }

    /// Requires that the directory is empty.
    pub fn assert_empty(&self) {
        assert_eq!(self.files(), Vec::<PathBuf>::new(), "segments were left behind");
    }
}
