//! One launch of ranks, bounded in time.

use std::fmt::Write;
use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::leftovers;
use crate::listener::Listener;
use crate::stacks;
use crate::wait::ends_within;

/// Time for a launcher that was told to stop to stop its ranks.
const FAREWELL: Duration = Duration::from_secs(5);

/// Variable that marks all processes of one job.
pub const MARK: &str = "QUO_TESTS_MARK";

/// A started job, ended when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    description: String,
    mark: String,
    end: Instant,
    limit: Duration,
    stdout: Listener,
    stderr: File,
    finished: bool,
}

impl Running {
    /// Starts a launch with a time limit. The command is given a variable, [`MARK`], by which all
    /// processes of the job are found, even after they have changed parents.
    ///
    /// # Errors
    ///
    /// The command cannot be started.
    pub fn start(command: &mut Command, description: &str, limit: Duration) -> Result<Running> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let value = format!("{}-{number}", std::process::id());
        command.env(MARK, &value);
        // A file, since nothing reads it before the end.
        let stderr = tempfile::tempfile()?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr.try_clone()?);
        let mut child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        let stdout = child.stdout.take().context("a child without output")?;
        Ok(Running {
            child,
            description: description.to_owned(),
            mark: format!("{MARK}={value}"),
            end: Instant::now() + limit,
            limit,
            stdout: Listener::new(stdout),
            stderr,
            finished: false,
        })
    }

    /// Waits until the ranks have printed `text` a number of times.
    ///
    /// # Errors
    ///
    /// The job ended first, or its time is up; the error shows the output.
    pub fn wait_for(&self, text: &str, times: usize) -> Result<()> {
        let left = self.end.saturating_duration_since(Instant::now());
        if !self.stdout.heard(text, times, left) {
            bail!(
                "{}\n  did not say \"{text}\" {times} times\n--- output\n{}--- complaints\n{}",
                self.description,
                self.stdout.text(),
                all(&self.stderr)?
            );
        }
        Ok(())
    }

    /// Returns the ranks' output so far.
    #[must_use]
    pub fn said(&self) -> String {
        self.stdout.text()
    }

    /// Waits for the end of the job, and ends it when its time is up.
    ///
    /// # Errors
    ///
    /// The kernel does not let this process watch the job. A job that fails is an [`Outcome`].
    pub fn finish(self) -> Result<Outcome> {
        let left = self.end.saturating_duration_since(Instant::now());
        let out_of_time = !ends_within(Pid::from_child(&self.child), left)?;
        let hanging =
            if out_of_time { leftovers::marked_processes(&self.mark) } else { Vec::new() };
        self.ended(out_of_time, stacks::of(&hanging))
    }

    fn ended(mut self, out_of_time: bool, stacks: String) -> Result<Outcome> {
        if out_of_time {
            self.stop()?;
        }
        let status = self.child.wait()?;
        let leftovers = leftovers::lingering(&self.mark);
        leftovers::end_marked(&self.mark);
        self.finished = true;
        // A forgotten process of another kind could hold the pipe open indefinitely.
        self.stdout.ended_within(FAREWELL);
        Ok(Outcome {
            description: std::mem::take(&mut self.description),
            limit: self.limit,
            status,
            out_of_time,
            stdout: self.stdout.text(),
            stderr: all(&self.stderr)?,
            stacks,
            leftovers,
        })
    }

    /// Ends the job now, as it would not end by itself.
    ///
    /// # Errors
    ///
    /// As [`finish`](Self::finish).
    pub fn end(self) -> Result<Outcome> {
        let runs = !ends_within(Pid::from_child(&self.child), Duration::ZERO)?;
        self.ended(runs, String::new())
    }

    /// Kills the launcher and all ranks at once.
    pub fn kill_all(&self) {
        leftovers::end_marked(&self.mark);
    }

    /// Sends SIGTERM first, so that the launcher removes its own files.
    fn stop(&self) -> Result<()> {
        let launcher = Pid::from_child(&self.child);
        kill_process(launcher, Signal::TERM)?;
        if !ends_within(launcher, FAREWELL)? {
            leftovers::end_marked(&self.mark);
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.finished {
            let _already_ended = self.stop();
            leftovers::end_marked(&self.mark);
            let _already_waited = self.child.wait();
        }
    }
}

/// End of a job, its output, and what it left behind.
#[derive(Debug)]
pub struct Outcome {
    description: String,
    limit: Duration,
    /// Exit status of the launcher.
    pub status: ExitStatus,
    /// The job was ended because its time was up.
    pub out_of_time: bool,
    /// Standard output of the ranks.
    pub stdout: String,
    /// Standard error of the ranks and the launcher.
    pub stderr: String,
    /// Stacks of the processes of a job whose time was up.
    pub stacks: String,
    /// Processes and shared-memory segments that the job left behind.
    pub leftovers: Vec<String>,
}

impl Outcome {
    /// Checks that the job succeeded in time and left nothing behind.
    ///
    /// # Errors
    ///
    /// The job failed, or left something; the error shows everything known about it.
    pub fn expect_success(&self) -> Result<&Outcome> {
        if !self.status.success() || self.out_of_time {
            bail!("the job failed\n{}", self.report());
        }
        self.expect_clean()
    }

    /// Checks that the job left nothing behind, however it ended.
    ///
    /// # Errors
    ///
    /// The job left something.
    pub fn expect_clean(&self) -> Result<&Outcome> {
        if !self.leftovers.is_empty() {
            bail!("the job left something behind\n{}", self.report());
        }
        Ok(self)
    }

    /// Returns everything known about the job, for a failure message.
    #[must_use]
    pub fn report(&self) -> String {
        let mut text = self.description.clone();
        let end = if self.out_of_time {
            format!("ended by us after {} s", self.limit.as_secs())
        } else {
            self.status.to_string()
        };
        let _infallible = write!(
            text,
            "\n  {end}\n--- output\n{}\n--- complaints\n{}",
            self.stdout.trim_end(),
            self.stderr.trim_end()
        );
        if !self.stacks.is_empty() {
            let _infallible = write!(text, "\n--- stacks\n{}", self.stacks.trim_end());
        }
        if !self.leftovers.is_empty() {
            let _infallible = write!(text, "\n--- left behind\n{}", self.leftovers.join("\n"));
        }
        text
    }
}

fn all(mut file: &File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
