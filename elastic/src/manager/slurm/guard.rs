//! A process that cancels a job when this one dies.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, Instant};

use super::command::prepared;

/// Reads from a pipe that only this process holds open: however this process ends, the pipe
/// closes. After the word `later`, other processes get two seconds to end, too.
const SCRIPT: &str = r#"trap "" HUP INT TERM; read -r word
[ "$word" = later ] && { read -r word; sleep 2; }
[ "$word" = done ] || exec scancel --quiet "$0""#;

/// Time that it may take to end after it was dismissed.
const END: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(1);

/// Cancels a job with this value, unless it is dismissed before.
#[derive(Debug)]
pub(super) struct Guard {
    process: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    /// # Errors
    /// The process cannot be started.
    pub(super) fn over(job: u32) -> std::io::Result<Self> {
        let mut process = prepared("sh")
            .args(["-c", SCRIPT, &job.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Launchers kill a rank together with its process group.
            .process_group(0)
            .spawn()?;
        let pipe = process.stdin.take();
        Ok(Self { process, pipe })
    }

    /// Dismisses the guard of a job that has been cancelled.
    pub(super) fn dismiss(mut self) {
        if let Some(mut pipe) = self.pipe.take() {
            let _ = pipe.write_all(b"done\n");
        }
        self.reap();
    }

    /// Leaves the job to the guard, which cancels it soon after this process has ended.
    pub(super) fn entrust(mut self) {
        let is_told = self.pipe.as_mut().is_some_and(|pipe| pipe.write_all(b"later\n").is_ok());
        if is_told {
            // The pipe stays open until the process ends.
            std::mem::forget(self);
        }
    }

    fn reap(&mut self) {
        let end = Instant::now() + END;
        while let Ok(None) = self.process.try_wait() {
            if Instant::now() > end {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.pipe.take().is_some() {
            self.reap();
        }
    }
}
