//! Waits with a limit: for processes that may never end, and for events without notification.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Returns true if the process ends before the limit. A process that does not exist has ended.
///
/// # Errors
///
/// The kernel does not let this process watch the other one.
pub fn ends_within(pid: Pid, limit: Duration) -> Result<bool> {
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(rustix::io::Errno::SRCH) => return Ok(true),
        Err(error) => return Err(error).context("watching a process"),
    };
    let end = Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).context("time limit too long")?;
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("watching a process"),
        }
    }
}

/// Polls until another process has reached a state, which the errors call by the given name. For
/// events without notification.
///
/// # Errors
///
/// The state is not reached within the limit, or polling fails.
pub fn until(limit: Duration, what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + limit;
    while !is_so()? {
        if Instant::now() > end {
            bail!("waited for {} s: {what}", limit.as_secs());
        }
        // Sleeps: so that the other process gets the processor.
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
