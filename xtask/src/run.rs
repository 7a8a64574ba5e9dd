//! Runs one command with a time limit. When time is up, no process that it started is left.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use quo_tests::ends_within;
use rustix::process::{Pid, Signal, WaitOptions};

/// Interval at which orphans are reaped.
const ROUND: Duration = Duration::from_millis(100);
/// Time within which a killed process must end.
const LAST_STEPS: Duration = Duration::from_secs(5);

/// How a command ended.
#[derive(Debug)]
pub enum Ending {
    Exited(ExitStatus),
    OutOfTime(Duration),
}

impl Ending {
    pub fn is_success(&self) -> bool {
        matches!(self, Ending::Exited(status) if status.success())
    }
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ending::Exited(status) => write!(f, "{status}"),
            Ending::OutOfTime(limit) => write!(f, "stopped after {} s", limit.as_secs()),
        }
    }
}

/// A finished command and its output.
pub struct Finished {
    pub ending: Ending,
    pub output: String,
}

/// Runs a command with both output streams in `log`, in the order they were written.
pub fn logged(command: &mut Command, log: &Path, limit: Duration) -> Result<Finished> {
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    }
    let file = File::create(log).with_context(|| format!("creating {}", log.display()))?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let ending = bounded(command, limit)?;
    let output = String::from_utf8_lossy(&fs::read(log)?).into_owned();
    Ok(Finished { ending, output })
}

/// Runs a command on the user's terminal and fails unless it succeeds.
pub fn shown(command: &mut Command, limit: Duration) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let ending = bounded(command, limit)?;
    if !ending.is_success() {
        bail!("{name}: {ending}");
    }
    Ok(())
}

/// Returns the output of a short command that must succeed; the error has its standard error.
pub fn captured(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("starting {name}"))?;
    if !output.status.success() {
        bail!("{name}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn bounded(command: &mut Command, limit: Duration) -> Result<Ending> {
    // Orphans of the command become children of this process, so that a timeout can end them too.
    // They share this process group: an interrupt from the terminal reaches them directly.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let name = command.get_program().to_string_lossy().into_owned();
    let child = command.spawn().with_context(|| format!("starting {name}"))?;
    let command = Pid::from_child(&child);
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if let Some(status) = collect(command)? {
            forget_dead_orphans();
            return Ok(Ending::Exited(status));
        }
        let left = end.saturating_duration_since(Instant::now());
        ends_within(command, left.min(ROUND))?;
    }
    end_all_descendants();
    forget_dead_orphans();
    Ok(Ending::OutOfTime(limit))
}

/// Reaps ended processes; returns the status of the command if it is among them. Orphans that are
/// not reaped stay in the process table, and a process namespace does not end before its last
/// process has been reaped.
fn collect(command: Pid) -> Result<Option<ExitStatus>> {
    while let Some((pid, status)) = rustix::process::wait(WaitOptions::NOHANG)? {
        if pid == command {
            return Ok(Some(ExitStatus::from_raw(status.as_raw())));
        }
    }
    Ok(None)
}

/// Reaps orphans that ended together with the command.
fn forget_dead_orphans() {
    while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
}

/// Ends every process below this one and waits for each. A process that is started during the
/// search is caught in the next round; rounds and waits are bounded so that an unkillable process
/// cannot block this one.
fn end_all_descendants() {
    for _ in 0..10 {
        let living = descendants(rustix::process::getpid());
        if living.is_empty() {
            return;
        }
        for pid in &living {
            let _already_gone = rustix::process::kill_process(*pid, Signal::KILL);
        }
        for pid in living {
            let _unkillable = ends_within(pid, LAST_STEPS);
        }
    }
}

fn descendants(ancestor: Pid) -> Vec<Pid> {
    let parents: Vec<(i32, i32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| Some((pid, living_parent(pid)?)))
        .collect();
    let mut found = vec![ancestor.as_raw_nonzero().get()];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(parents.iter().filter(|(_, above)| *above == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.into_iter().skip(1).filter_map(Pid::from_raw).collect()
}

/// Returns the parent of a process that has not ended yet. The name field may contain spaces and
/// parentheses, so the fields are counted from the last parenthesis.
fn living_parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    (state != "Z" && state != "X").then(|| fields.next()?.parse().ok())?
}
