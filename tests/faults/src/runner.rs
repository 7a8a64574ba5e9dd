//! Many rounds at a time, each in a process group of its own and bounded in time.

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

/// Time that a keeper may take beyond that of its members.
const GRACE: Duration = Duration::from_secs(60);

/// The rounds to run, and the way.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of rounds that run at a time.
    pub jobs: usize,
    /// Time that the members of a round may take.
    pub bound: Duration,
    /// Stop after so many bad rounds.
    pub failures: usize,
}

/// A round that was not as it should be.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// The seed of the run.
    pub seed: u64,
    /// The number of the round.
    pub round: u64,
    /// The complaints.
    pub complaints: Vec<String>,
    /// The round in words.
    pub plan: String,
}

/// Summary of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Rounds that were run.
    pub rounds: usize,
    /// Seconds they took together.
    pub seconds: f64,
    /// The longest of them in seconds, with its number.
    pub longest: (f64, u64),
    /// Rounds with complaints.
    pub failures: Vec<Failure>,
}

/// Finds out the abilities of the machine. To be asked by a process with one thread.
#[must_use]
pub fn abilities() -> Abilities {
    // In a child: the answer changes what children are born into.
    let asked = process::spawn(|| i32::from(!keeper::can_make_namespaces()));
    let namespaces = asked.is_ok_and(|pid| waitpid(pid, None) == Ok(WaitStatus::Exited(pid, 0)));
    Abilities { namespaces }
}

/// Directory of the rounds' segments.
#[must_use]
pub fn home() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

/// A round under way.
struct Running {
    plan: Plan,
    keeper: Pid,
    directory: TempDir,
    report: File,
    begun: Instant,
}

/// Runs rounds. To be called by a process with one thread; `progress` hears of each that is over.
///
/// An interrupt ends the rounds under way.
///
/// # Errors
/// Faults that keep rounds from being run at all, and an interrupt.
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
            // Sleeps: between two looks at rounds under way.
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
    // Both sides do this, so that it is done whoever comes first.
    let _ = setpgid(keeper, keeper);
    Ok(Running { plan, keeper, directory, report, begun: Instant::now() })
}

impl Running {
    /// Status of the keeper's end; `None` while it has not ended. It is ended when its time is
    /// over.
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

    /// Ends the round, whatever it is doing. Its directory goes with it.
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
