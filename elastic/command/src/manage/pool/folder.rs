//! The folder of a pool's queue: the state of each job, also for the successor of a manager that
//! was killed.
//!
//! Each job has a folder with its name and these files:
//!
//! - `start.json`: its slots and the time, written before the start;
//! - `alive`: locked while the shell that runs the launcher lives, which has it as standard input;
//! - `pid`: the number of that shell;
//! - `log`: the output of the launcher and the job;
//! - `status`: written by that shell, `begun` first and the exit status of the launcher last.
//!
//! No other user can write to the folder: see [`quo_files`]. The shell receives its files open, and
//! names none.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use elastic_policy::time::Time;
use quo_files::Access;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::super::now;

/// Runs the words after the shell's own name, and records how they ended in the file that is its
/// standard error. A hang-up of the terminal does not reach the job.
const SHELL: &str = r#"trap '' HUP; exec 3>&2 2>&1; echo begun >&3; "$@" 3>&-; echo $? >&3"#;

/// First line of a job's `status`.
const BEGUN: &str = "begun\n";

/// Longest time from a process's fork to its exec.
const STARTING: Duration = Duration::from_secs(1);

/// The start of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The slots on which it started, that of rank 0 first.
    pub slots: Vec<u32>,
    /// The instant.
    pub at: Time,
}

/// State of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It has not been started.
    Waiting,
    /// It runs.
    Running(Start),
    /// It has ended, with this status; `None` if its shell was killed.
    Ended(Start, Option<i32>, Time),
}

/// The folder of a queue, locked by one manager.
#[derive(Debug)]
pub struct Folder {
    files: quo_files::Folder,
    /// The instant at which the queue began.
    origin: Time,
    lock: File,
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Not only by closing: a process being started has a copy of the descriptor until its exec.
        let _ = flock(&self.lock, FlockOperation::Unlock);
    }
}

impl Folder {
    /// Opens the folder, and makes it if it is missing.
    ///
    /// # Errors
    /// Another manager has it; or jobs were already started there, and `resume` is false.
    pub fn open(path: &Path, resume: bool) -> Result<Folder> {
        let files = quo_files::Folder::make(path, Access::ReadOnly)?;
        let path = files.path();
        // A job that a killed manager was just starting may hold its lock for a moment.
        let end = Instant::now() + STARTING;
        let lock = loop {
            match locked(&files, "lock")? {
                Some(lock) => break lock,
                None if Instant::now() > end => {
                    bail!("{}: another manager is at work there", path.display())
                }
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let origin = match files.read("began") {
            Ok(_) if !resume => bail!(
                "{}: this queue was begun already: go on with --resume, or name another folder with --dir",
                path.display()
            ),
            Ok(text) => String::from_utf8_lossy(&text).trim().parse().map_or_else(|_| now(), Time),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let origin = now();
                files.replace("began", origin.0.to_string().as_bytes())?;
                origin
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Folder { files, origin, lock })
    }

    /// Returns the instant at which the queue began.
    pub fn origin(&self) -> Time {
        self.origin
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        self.files.path()
    }

    /// Writes a file for launchers.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        Ok(self.files.replace(name, text.as_bytes())?)
    }

    /// Returns the path of a file of a job, for messages.
    pub fn job_file(&self, job: &str, name: &str) -> PathBuf {
        self.files.path().join(job).join(name)
    }

    /// Returns the state of a job.
    pub fn fate(&self, job: &str) -> Result<Fate> {
        let files = match self.files.existing_folder(job) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Fate::Waiting),
            files => files?,
        };
        let text = match files.read("start.json") {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Fate::Waiting),
            text => text?,
        };
        let doing = || format!("reading {}", self.job_file(job, "start.json").display());
        let start: Start = serde_json::from_slice(&text).with_context(doing)?;
        if let Status { exit: Some(exit), at, .. } = self.status(&files, job)? {
            return Ok(Fate::Ended(start, Some(exit), at));
        }
        match locked(&files, "alive")? {
            None => return Ok(Fate::Running(start)),
            Some(lock) => {
                let _ = flock(&lock, FlockOperation::Unlock);
            }
        }
        // It may have ended since the lock was tried.
        Ok(match self.status(&files, job)? {
            Status { exit: Some(exit), at, .. } => Fate::Ended(start, Some(exit), at),
            Status { has_begun: true, at, .. } => Fate::Ended(start, None, at),
            // The manager was killed before it started the job.
            Status { .. } => Fate::Waiting,
        })
    }

    fn status(&self, files: &quo_files::Folder, job: &str) -> Result<Status> {
        // Made if it is missing: a job that has not begun has an empty one.
        let mut file = files.update("status")?;
        let mut text = String::new();
        let doing = || self.job_file(job, "status").display().to_string();
        file.read_to_string(&mut text).with_context(doing)?;
        let at = file.metadata().map_or(Time::ZERO, |found| written(&found));
        let rest = text.strip_prefix(BEGUN);
        // Only complete lines count.
        let line = rest.and_then(|rest| rest.strip_suffix('\n'));
        let number = |line: &str| {
            line.parse().with_context(|| format!("{}: {line:?} is not an exit status", doing()))
        };
        Ok(Status { has_begun: rest.is_some(), exit: line.map(number).transpose()?, at })
    }

    /// Starts a job by the words of its launcher.
    pub fn start(&self, job: &str, start: &Start, words: &[String]) -> Result<Child> {
        let doing = || format!("starting job {job:?} in {}", self.files.path().display());
        let files = self.files.folder(job).with_context(doing)?;
        let Some(alive) = locked(&files, "alive")? else {
            bail!("{}: the job runs already", doing());
        };
        // Either complete or missing.
        files.replace("start.json", &serde_json::to_vec(start)?).with_context(doing)?;
        let log = files.append("log").with_context(doing)?;
        let status = files.append("status").with_context(doing)?;
        status.set_len(0).with_context(doing)?;
        let mut command = Command::new("sh");
        command.arg("-c").arg(SHELL).arg("sh").args(words);
        // Otherwise steps of a Slurm allocation wait for each other.
        command.env("SLURM_OVERLAP", "1").process_group(0);
        command.stdin(Stdio::from(alive)).stdout(log).stderr(status);
        let child = command.spawn().with_context(doing)?;
        files.replace("pid", format!("{}\n", child.id()).as_bytes()).with_context(doing)?;
        Ok(child)
    }

    /// Appends a line to the log of decisions.
    pub fn note(&self, line: &str) -> Result<()> {
        let mut file = self.files.append("decisions")?;
        let doing = || format!("writing {}", self.files.path().join("decisions").display());
        file.write_all(format!("{line}\n").as_bytes()).with_context(doing)
    }
}

/// Contents of a job's status file.
#[derive(Clone, Copy, Debug, Default)]
struct Status {
    has_begun: bool,
    exit: Option<i32>,
    /// Time of the last entry.
    at: Time,
}

/// Locks a file, which is made if it is missing; `None` if another process has locked it.
fn locked(files: &quo_files::Folder, name: &str) -> Result<Option<File>> {
    let file = files.update(name)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => {
            Err(error).with_context(|| format!("locking {}", files.path().join(name).display()))
        }
    }
}

fn written(found: &std::fs::Metadata) -> Time {
    let since = found.modified().ok().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    Time(since.and_then(|since| u64::try_from(since.as_millis()).ok()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};

    use super::*;

    fn words(script: &str) -> Vec<String> {
        ["sh", "-c", script].map(str::to_owned).to_vec()
    }

    #[test]
    fn job_is_found_again_without_the_manager_that_started_it() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("run");
        let folder = Folder::open(&path, false).unwrap();
        assert_eq!(folder.fate("a").unwrap(), Fate::Waiting);
        let start = Start { slots: vec![2, 0], at: Time(5) };
        let fifo = scratch.path().join("fifo");
        let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        let script = format!("echo said; cat {}; exit 3", fifo.display());
        let mut child = folder.start("a", &start, &words(&script)).unwrap();
        // As if it had been killed.
        drop(folder);
        assert!(Folder::open(&path, false).unwrap_err().to_string().contains("--resume"));
        let folder = Folder::open(&path, true).unwrap();
        assert_eq!(folder.fate("a").unwrap(), Fate::Running(start.clone()));
        let other = Folder::open(&path, true).unwrap_err().to_string();
        assert!(other.contains("another manager"), "{other}");
        drop(OpenOptions::new().write(true).open(&fifo).unwrap());
        child.wait().unwrap();
        let Fate::Ended(found, Some(3), at) = folder.fate("a").unwrap() else { panic!() };
        assert!(found == start && at > Time::ZERO);
        assert_eq!(fs::read_to_string(folder.job_file("a", "log")).unwrap(), "said\n");
    }

    #[test]
    fn job_without_its_shell_is_lost_or_was_never_started() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Folder::open(scratch.path(), false).unwrap();
        let start = Start { slots: vec![0], at: Time(5) };
        let mut child = folder.start("a", &start, &words("kill -9 $PPID")).unwrap();
        child.wait().unwrap();
        // The lock may be held for a moment longer by its command.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while folder.fate("a").unwrap() == Fate::Running(start.clone()) {
            assert!(std::time::Instant::now() < end);
        }
        assert!(matches!(folder.fate("a").unwrap(), Fate::Ended(_, None, _)));
        fs::write(folder.job_file("a", "status"), "").unwrap();
        assert_eq!(folder.fate("a").unwrap(), Fate::Waiting);
    }
}
