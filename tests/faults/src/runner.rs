//! Runs many rounds at once, each in its own process group and limited in time.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, setpgid};
use serde::Serialize;
use tempfile::TempDir;

use crate::plan::{Abilities, Plan};
use crate::{keeper, process};

/// Time that a keeper may take in addition to its members.
const GRACE: Duration = Duration::from_secs(60);

/// Which rounds to run, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of rounds that run at once.
    pub jobs: usize,
    /// Time limit for the members of a round.
    pub bound: Duration,
    /// Number of failed rounds after which to stop.
    pub failures: usize,
}

/// A failed round.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// Seed of the run.
    pub seed: u64,
    /// Number of the round.
    pub round: u64,
    /// Complaints about the round.
    pub complaints: Vec<String>,
    /// Description of the round.
    pub plan: String,
}

/// Summary of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Number of rounds run.
    pub rounds: usize,
    /// Seconds the rounds took in all.
    pub seconds: f64,
    /// Seconds and number of the longest round.
    pub longest: (f64, u64),
    /// Rounds with complaints.
    pub failures: Vec<Failure>,
}

/// Determines the abilities of the machine. Call it from a process with one thread.
#[must_use]
pub fn abilities() -> Abilities {
    // In a child: the attempt changes which namespace later children are in.
    let asked = process::spawn(|| i32::from(!keeper::can_make_namespaces()));
    let namespaces = asked.is_ok_and(|pid| waitpid(pid, None) == Ok(WaitStatus::Exited(pid, 0)));
    Abilities { namespaces }
}

/// Returns the directory of the rounds' segments.
#[must_use]
pub fn home() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

/// A round that is running.
struct Running {
    plan: Plan,
    keeper: Pid,
    directory: TempDir,
    report: File,
    begun: Instant,
}

/// Runs rounds. Call it from a process with one thread; `progress` is called after each round.
///
/// An interrupt ends the running rounds.
///
/// # Errors
/// Faults that prevent rounds from being run at all, and an interrupt.
pub fn run(
    plans: impl IntoIterator<Item = Plan>,
    options: &Options,
    mut progress: impl FnMut(&Summary, Option<&Failure>),
) -> Result<Summary> {
    set_child_subreaper(true).context("becoming the parent of orphans")?;
    let interrupts = interrupts();
    interrupts.thread_block().context("pthread_sigmask")?;
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    let interrupted = SignalFd::with_flags(&interrupts, flags).context("signalfd")?;
    let begun = Instant::now();
    let mut summary = Summary::default();
    let mut plans = plans.into_iter().fuse();
    let mut running: Vec<Running> = Vec::new();
    loop {
        while running.len() < options.jobs.max(1) && summary.failures.len() < options.failures {
            let Some(plan) = plans.next() else { break };
            running.push(start(plan, options.bound)?);
        }
        if running.is_empty() {
            break;
        }
        let mut index = 0;
        let mut quiet = true;
        while index < running.len() {
            let Some(status) = running[index].status(options.bound)? else {
                index += 1;
                continue;
            };
            quiet = false;
            let over = running.swap_remove(index);
            let seconds = over.begun.elapsed().as_secs_f64();
            if seconds > summary.longest.0 {
                summary.longest = (seconds, over.plan.round);
            }
            let failure = over.finish(status)?;
            summary.rounds += 1;
            summary.seconds = begun.elapsed().as_secs_f64();
            progress(&summary, failure.as_ref());
            summary.failures.extend(failure);
        }
        if let Some(signal) = interrupted.read_signal().context("reading signals")? {
            running.into_iter().for_each(Running::abandon);
            bail!("ended by signal {}", signal.ssi_signo);
        }
        if quiet {
            // Sleeps: between two looks at running rounds.
            std::thread::sleep(Duration::from_millis(3));
        }
    }
    interrupts.thread_unblock().context("pthread_sigmask")?;
    summary.seconds = begun.elapsed().as_secs_f64();
    Ok(summary)
}

fn interrupts() -> SigSet {
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect()
}

fn start(plan: Plan, bound: Duration) -> Result<Running> {
    let directory = tempfile::Builder::new()
        .prefix(&format!("quo-faults-{}-", plan.round))
        .tempdir_in(home())
        .context("a directory for segments")?;
    let report: File = memfd_create("quo-faults-report", MFdFlags::MFD_CLOEXEC)
        .context("memory for the report")?
        .into();
    let keeper = process::spawn(|| {
        let apart = interrupts()
            .thread_unblock()
            .and_then(|()| setpgid(Pid::from_raw(0), Pid::from_raw(0)));
        apart.map_or(process::PANICKED, |()| keeper::keep(&plan, directory.path(), bound, &report))
    })
    .context("fork")?;
    // Both processes do this, so that it is done whichever is first.
    let _ = setpgid(keeper, keeper);
    Ok(Running { plan, keeper, directory, report, begun: Instant::now() })
}

impl Running {
    /// Returns the keeper's wait status; `None` while it runs. A keeper whose time is up is ended.
    fn status(&self, bound: Duration) -> Result<Option<WaitStatus>> {
        let status = waitpid(self.keeper, Some(WaitPidFlag::WNOHANG)).context("waitpid")?;
        if status != WaitStatus::StillAlive {
            return Ok(Some(status));
        }
        if self.begun.elapsed() > bound + GRACE {
            let _ = killpg(self.keeper, Signal::SIGKILL);
            return Ok(Some(waitpid(self.keeper, None).context("waitpid")?));
        }
        Ok(None)
    }

    /// Ends the round, whatever it is doing, and removes its directory.
    fn abandon(self) {
        let _ = killpg(self.keeper, Signal::SIGKILL);
        while waitpid(Pid::from_raw(-self.keeper.as_raw()), None).is_ok() {}
    }

    fn finish(mut self, status: WaitStatus) -> Result<Option<Failure>> {
        let mut text = String::new();
        self.report.rewind().context("reading the report")?;
        self.report.read_to_string(&mut text).context("reading the report")?;
        let mut complaints: Vec<String> = text.lines().map(str::to_owned).collect();
        if !matches!(status, WaitStatus::Exited(_, 0 | 1)) {
            complaints.push(format!("the keeper of the round: {status:?}"));
        }
        if killpg(self.keeper, Signal::SIGKILL) != Err(Errno::ESRCH) {
            complaints.push("the round has left processes".to_owned());
            while waitpid(Pid::from_raw(-self.keeper.as_raw()), None).is_ok() {}
        }
        self.directory.close().context("removing the directory of segments")?;
        Ok((!complaints.is_empty()).then(|| Failure {
            seed: self.plan.seed,
            round: self.plan.round,
            plan: self.plan.to_string(),
            complaints,
        }))
    }
}
