//! The folder of a pool's queue: what has become of each job, also for a manager that comes after one that was killed.
//!
//! Each job has a folder of its own name with these files:
//!
//! - `start.json`: its slots and the time, written before it is started;
//! - `alive`: locked as long as the shell lives that runs its launcher, which has it as standard input;
//! - `begun` and `pid`: written by that shell first;
//! - `log`: what the launcher and the job write;
//! - `status`: the exit status of the launcher, written by that shell last.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use scheduler::time::Time;
use serde::{Deserialize, Serialize};

use super::super::now;

/// Runs the words behind the folder, and notes how they ended. A hang-up of the terminal is not the job's.
const SHELL: &str = r#"trap '' HUP; echo $$ >"$0/pid"; : >"$0/begun"; "$@"; s=$?
echo $s >"$0/status.new"; mv "$0/status.new" "$0/status""#;

/// The longest time that a process may take from its fork to its program.
const STARTING: Duration = Duration::from_secs(1);

/// The start of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The slots on which it started, that of rank 0 first.
    pub slots: Vec<u32>,
    /// The instant.
    pub at: Time,
}

/// What has become of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It has not been started.
    Waiting,
    /// It runs.
    Running(Start),
    /// It has ended, with this status; none if whoever ran it was killed.
    Ended(Start, Option<i32>, Time),
}

/// The folder of a queue, held by one manager.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// The instant at which the queue began.
    origin: Time,
    lock: File,
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Not only by the descriptor's end: a process that is being started has a copy until it is.
        let _ = flock(&self.lock, FlockOperation::Unlock);
    }
}

impl Folder {
    /// Opens the folder, and makes it if it is not there.
    ///
    /// # Errors
    /// Another manager has it; or jobs were started there already, and this was not known.
    pub fn open(path: &Path, resume: bool) -> Result<Folder> {
        fs::create_dir_all(path).with_context(|| format!("making {}", path.display()))?;
        let path = path.canonicalize().with_context(|| format!("finding {}", path.display()))?;
        let lock = path.join("lock");
        // A job that a killed manager was just starting may have its lock for a moment.
        let end = Instant::now() + STARTING;
        let lock = loop {
            match locked(&lock)? {
                Some(lock) => break lock,
                None if Instant::now() > end => {
                    bail!("{}: another manager is at work there", path.display())
                }
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let mark = path.join("began");
        let origin = match fs::read_to_string(&mark) {
            Ok(_) if !resume => bail!(
                "{}: this queue was begun already: go on with --resume, or name another folder with --dir",
                path.display()
            ),
            Ok(text) => text.trim().parse().map_or_else(|_| now(), Time),
            Err(_) => {
                let origin = now();
                let text = origin.0.to_string();
                fs::write(&mark, text).with_context(|| format!("writing {}", mark.display()))?;
                origin
            }
        };
        Ok(Folder { path, origin, lock })
    }

    /// Returns the instant at which the queue began.
    pub fn origin(&self) -> Time {
        self.origin
    }

    /// Returns the path of a file.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Returns the path of a file of a job.
    pub fn job_file(&self, job: &str, name: &str) -> PathBuf {
        self.path.join(job).join(name)
    }

    /// Finds out what has become of a job.
    pub fn fate(&self, job: &str) -> Result<Fate> {
        let path = self.job_file(job, "start.json");
        let text = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Fate::Waiting),
            text => text.with_context(|| format!("reading {}", path.display()))?,
        };
        let start: Start =
            serde_json::from_slice(&text).with_context(|| format!("reading {}", path.display()))?;
        if let Some((status, at)) = self.status(job)? {
            return Ok(Fate::Ended(start, Some(status), at));
        }
        match locked(&self.job_file(job, "alive"))? {
            None => return Ok(Fate::Running(start)),
            Some(lock) => {
                let _ = flock(&lock, FlockOperation::Unlock);
            }
        }
        // It may have ended between the two looks.
        if let Some((status, at)) = self.status(job)? {
            return Ok(Fate::Ended(start, Some(status), at));
        }
        let begun = self.job_file(job, "begun");
        match fs::metadata(&begun) {
            Ok(found) => Ok(Fate::Ended(start, None, written(&found))),
            // The manager was killed before it started the job.
            Err(_) => Ok(Fate::Waiting),
        }
    }

    fn status(&self, job: &str) -> Result<Option<(i32, Time)>> {
        let path = self.job_file(job, "status");
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text.with_context(|| format!("reading {}", path.display()))?,
        };
        let status = text
            .trim()
            .parse()
            .with_context(|| format!("{}: {text:?} is not an exit status", path.display()))?;
        let at = fs::metadata(&path).map_or(Time::ZERO, |found| written(&found));
        Ok(Some((status, at)))
    }

    /// Starts a job by the words of its launcher.
    pub fn start(&self, job: &str, start: &Start, words: &[String]) -> Result<Child> {
        let folder = self.path.join(job);
        let doing = || format!("starting job {job:?} in {}", folder.display());
        fs::create_dir_all(&folder).with_context(doing)?;
        let Some(alive) = locked(&folder.join("alive"))? else {
            bail!("{}: the job runs already", doing());
        };
        // Complete or not there.
        let (new, record) = (folder.join("start.new"), folder.join("start.json"));
        fs::write(&new, serde_json::to_vec(start)?).with_context(doing)?;
        fs::rename(&new, &record).with_context(doing)?;
        let log = folder.join("log");
        let log = OpenOptions::new().create(true).append(true).open(log).with_context(doing)?;
        let mut command = Command::new("sh");
        command.arg("-c").arg(SHELL).arg(&folder).args(words);
        // Steps of a Slurm allocation wait for each other otherwise.
        command.env("SLURM_OVERLAP", "1").process_group(0);
        let errors = log.try_clone().with_context(doing)?;
        command.stdin(Stdio::from(alive)).stdout(log).stderr(errors);
        command.spawn().with_context(doing)
    }

    /// Appends a line to the log of decisions.
    pub fn note(&self, line: &str) -> Result<()> {
        let path = self.file("decisions");
        let file = OpenOptions::new().create(true).append(true).open(&path);
        file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()))
            .with_context(|| format!("writing {}", path.display()))
    }
}

/// Locks a file, which is made if it is not there; none if somebody else has locked it.
fn locked(path: &Path) -> Result<Option<File>> {
    let doing = || format!("locking {}", path.display());
    let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path);
    let file = file.with_context(doing)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error).with_context(doing),
    }
}

fn written(found: &fs::Metadata) -> Time {
    let since = found.modified().ok().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    Time(since.and_then(|since| u64::try_from(since.as_millis()).ok()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
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
        // Its command may hold the lock for a moment more.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while folder.fate("a").unwrap() == Fate::Running(start.clone()) {
            assert!(std::time::Instant::now() < end);
        }
        assert!(matches!(folder.fate("a").unwrap(), Fate::Ended(_, None, _)));
        fs::remove_file(folder.job_file("a", "begun")).unwrap();
        assert_eq!(folder.fate("a").unwrap(), Fate::Waiting);
    }
}
