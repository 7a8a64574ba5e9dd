//! One launch of ranks, bounded in time.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::launcher::{BindTo, Launcher};
use crate::leftovers;
use crate::wait::ends_within;

/// One job at a time in this test program.
static TURN: Mutex<()> = Mutex::new(());

/// Time for a launcher that was told to stop to stop its ranks.
const FAREWELL: Duration = Duration::from_secs(5);

/// A program to run under the launcher.
#[derive(Clone, Debug)]
pub struct Job {
    ranks: usize,
    program: PathBuf,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    bind_to: BindTo,
    limit: Duration,
}

impl Job {
    /// A job of `ranks` ranks, unbound, that may take a minute.
    pub fn new(ranks: usize, program: impl Into<PathBuf>) -> Job {
        Job {
            ranks,
            program: program.into(),
            arguments: Vec::new(),
            variables: Vec::new(),
            bind_to: BindTo::None,
            limit: Duration::from_secs(60),
        }
    }

    /// Adds an argument of the program.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Job {
        self.arguments.push(argument.as_ref().into());
        self
    }

    /// Adds a variable to the environment of every rank.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Job {
        self.variables.push((name.as_ref().into(), value.as_ref().into()));
        self
    }

    /// Simulates a machine: a synthetic description or an XML file.
    #[must_use]
    pub fn topology(self, description: &str) -> Job {
        self.env("QUO_TOPOLOGY", description)
    }

    /// Has the launcher bind the ranks.
    #[must_use]
    pub fn bind_to(mut self, bind_to: BindTo) -> Job {
        self.bind_to = bind_to;
        self
    }

    /// Allows the job another time than a minute.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Job {
        self.limit = limit;
        self
    }

    /// Runs the job to its end, or ends it. Only one job runs at a time in a test program.
    ///
    /// # Errors
    ///
    /// The launcher cannot be started. A job that fails is an [`Outcome`].
    pub fn run(&self) -> Result<Outcome> {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let (name, value) = new_mark();
        let mark = format!("{name}={value}");
        let mut command = Launcher::find()?.command(self.ranks, self.bind_to);
        command.arg(&self.program).args(&self.arguments);
        command.env_remove("QUO_TOPOLOGY").envs(self.variables.iter().map(|(n, v)| (n, v)));
        command.env(name, value);
        // Files, since a forgotten process would hold a pipe open and us with it.
        let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
        command.stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
        let mut child = command.spawn().context("starting the launcher")?;
        let out_of_time = !ends_within(Pid::from_child(&child), self.limit)?;
        if out_of_time {
            stop(&child, &mark)?;
        }
        let status = child.wait()?;
        let leftovers = left_behind(&mark);
        let (stdout, stderr) = (all(&mut stdout)?, all(&mut stderr)?);
        Ok(Outcome { job: self.clone(), status, out_of_time, stdout, stderr, leftovers })
    }
}

/// How a job ended, what it said, and what it forgot.
#[derive(Debug)]
pub struct Outcome {
    job: Job,
    /// The launcher's exit status.
    pub status: ExitStatus,
    /// The job was ended because its time was up.
    pub out_of_time: bool,
    /// What the ranks printed.
    pub stdout: String,
    /// What the ranks and the launcher complained about.
    pub stderr: String,
    /// Processes and shared-memory segments that the job left behind.
    pub leftovers: Vec<String>,
}

impl Outcome {
    /// The job succeeded in time and left nothing behind.
    ///
    /// # Errors
    ///
    /// It did not; the error shows everything known about it.
    pub fn expect_success(&self) -> Result<&Outcome> {
        if !self.status.success() || self.out_of_time {
            bail!("the job failed\n{}", self.report());
        }
        self.expect_clean()
    }

    /// The job left nothing behind, however it ended.
    ///
    /// # Errors
    ///
    /// It left something.
    pub fn expect_clean(&self) -> Result<&Outcome> {
        if !self.leftovers.is_empty() {
            bail!("the job left something behind\n{}", self.report());
        }
        Ok(self)
    }

    /// All that is known, for a failure message.
    #[must_use]
    pub fn report(&self) -> String {
        let mut text = format!("{} ranks of {}", self.job.ranks, self.job.program.display());
        for argument in &self.job.arguments {
            let _infallible = write!(text, " {}", argument.to_string_lossy());
        }
        for (name, value) in &self.job.variables {
            let _infallible =
                write!(text, "\n  with {}={}", name.to_string_lossy(), value.to_string_lossy());
        }
        let end = if self.out_of_time {
            format!("ended by us after {} s", self.job.limit.as_secs())
        } else {
            self.status.to_string()
        };
        let _infallible = write!(
            text,
            "\n  {end}\n--- output\n{}\n--- complaints\n{}",
            self.stdout.trim_end(),
            self.stderr.trim_end()
        );
        if !self.leftovers.is_empty() {
            let _infallible = write!(text, "\n--- left behind\n{}", self.leftovers.join("\n"));
        }
        text
    }
}

/// A variable that all processes of one job carry and no others.
fn new_mark() -> (&'static str, String) {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    ("QUO_TESTS_MARK", format!("{}-{number}", std::process::id()))
}

/// What the job forgot; its processes are ended, its segments stay for whoever looks into it.
fn left_behind(mark: &str) -> Vec<String> {
    let mut found = leftovers::lingering(mark);
    leftovers::end_marked(mark);
    let segments = leftovers::orphaned_segments(Path::new("/dev/shm"));
    found.extend(segments.into_iter().map(|path| format!("segment {}", path.display())));
    found
}

/// Politely first, so that the launcher removes its own files.
fn stop(child: &Child, mark: &str) -> Result<()> {
    let launcher = Pid::from_child(child);
    kill_process(launcher, Signal::TERM)?;
    if !ends_within(launcher, FAREWELL)? {
        leftovers::end_marked(mark);
    }
    Ok(())
}

fn all(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
