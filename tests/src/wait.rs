//! Waiting, for so long and no longer: for processes that may never end, and for events that no message tells of.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Returns true if the process ends before the limit. One that is not there has ended.
///
/// # Errors
///
/// The kernel does not let us watch it.
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

/// Asks again and again until the state is reached that only another process can bring about, which the errors call by
/// the given name. For events that nobody is told of.
///
/// # Errors
///
/// It is not so within the limit, or cannot be asked.
pub fn until(limit: Duration, what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + limit;
    while !is_so()? {
        if Instant::now() > end {
            bail!("waited for {} s: {what}", limit.as_secs());
        }
        // Sleeps: so that whoever brings it about gets the processor.
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
