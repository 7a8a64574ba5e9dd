//! Stopped processes, so that all observers see the same.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

const LIMIT: Duration = Duration::from_secs(10);

/// Processes that are stopped until this is dropped.
#[derive(Debug)]
pub struct StoppedProcesses {
    processes: Vec<Pid>,
}

impl StoppedProcesses {
    /// Stops processes, each with all its threads.
    ///
    /// # Errors
    ///
    /// A process is gone, or does not stop.
    pub fn hold(processes: &[u32]) -> Result<StoppedProcesses> {
        let mut still = StoppedProcesses { processes: Vec::new() };
        for &process in processes {
            let process = Pid::from_raw(i32::try_from(process)?).context("no process has 0")?;
            kill_process(process, Signal::STOP)?;
            still.processes.push(process);
        }
        let end = Instant::now() + LIMIT;
        for process in &still.processes {
            while !stands(*process)? {
                ensure!(Instant::now() < end, "process {process} does not stop");
                // Sleeps: only the parent is notified.
                thread::sleep(Duration::from_millis(2));
            }
        }
        Ok(still)
    }
}

/// Returns true if all threads have stopped.
fn stands(process: Pid) -> Result<bool> {
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let text = fs::read_to_string(thread?.path().join("stat"))?;
        // The program's name is in parentheses, and may contain parentheses.
        if !text.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T")) {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Drop for StoppedProcesses {
    fn drop(&mut self) {
        for process in &self.processes {
            let _already_gone = kill_process(*process, Signal::CONT);
        }
    }
}
