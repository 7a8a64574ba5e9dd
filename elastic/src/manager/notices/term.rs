//! The resource manager that turns SIGTERM into a request: the smallest size before the job ends.

use std::io::Write;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, poll};

use super::signal::SigtermGuard;
use crate::manager::{Requests, ResourceManager};
use crate::model::change::{Cause, CauseKind, Request, RequestKind};

/// The variable in which Slurm gives a job its end, in seconds since 1970.
const END_VARIABLE: &str = "SLURM_JOB_END_TIME";

/// Requests the smallest size at SIGTERM.
#[derive(Debug)]
pub(crate) struct TermNotice {
    grace: Duration,
    running: Option<(UnixStream, JoinHandle<()>)>,
}

impl TermNotice {
    /// Makes the manager; the job may continue for `grace` after the signal.
    pub(crate) fn new(grace: Duration) -> Self {
        Self { grace, running: None }
    }
}

impl ResourceManager for TermNotice {
    fn name(&self) -> &'static str {
        "term"
    }

    fn begins(&mut self, requests: Requests) -> Result<(), String> {
        let begin = || {
            let listener = SigtermGuard::listen()?;
            let (over, is_over) = UnixStream::pair()?;
            let grace = self.grace;
            let thread = std::thread::Builder::new().name("elastic-term".to_owned());
            let thread = thread.spawn(move || {
                if wait(listener, &is_over) {
                    give_notice(&requests, grace);
                }
            })?;
            Ok((over, thread))
        };
        let begun = begin().map_err(|error: std::io::Error| error.to_string())?;
        self.running = Some(begun);
        Ok(())
    }

    fn ends(&mut self) {
        if let Some((mut over, thread)) = self.running.take() {
            let _ = over.write_all(&[1]);
            let _ = thread.join();
        }
    }
}

impl Drop for TermNotice {
    fn drop(&mut self) {
        self.ends();
    }
}

/// Waits for the signal, or for the end of the job. Returns true for the signal.
fn wait(listener: BorrowedFd<'_>, is_over: &UnixStream) -> bool {
    loop {
        let mut all = [PollFd::new(&listener, PollFlags::IN), PollFd::new(is_over, PollFlags::IN)];
        match poll(&mut all, None) {
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
            Ok(_) if !all[1].revents().is_empty() => return false,
            Ok(_) => return true,
        }
    }
}

fn give_notice(requests: &Requests, grace: Duration) {
    let end = std::env::var(END_VARIABLE).ok().and_then(|end| end.parse().ok());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let left = time_left(grace, end, now);
    let detail = format!("term: SIGTERM has come, and the job ends in {} s", left.as_secs());
    requests.note(Cause::new(CauseKind::Deadline, detail));
    let status = requests.status();
    let bounds = status.limits.and_then(|limits| limits.bounds().ok());
    let fewest = bounds.and_then(|bounds| bounds.at_least(1));
    if let Some(fewest) = fewest.filter(|fewest| u64::from(*fewest) < status.size) {
        let request =
            Request { grace: Some(left), ..Request::new(RequestKind::Size(fewest), "term") };
        // A refusal is already in the log as an event.
        let _ = requests.ask(request);
    }
}

/// Returns the time until a job ends: its grace time, or less if its end in seconds since 1970 is
/// sooner.
fn time_left(grace: Duration, end: Option<u64>, now: Duration) -> Duration {
    let left = end.map(|end| Duration::from_secs(end).saturating_sub(now));
    // An end in the past has been extended.
    left.filter(|left| !left.is_zero()).map_or(grace, |left| left.min(grace))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::signal::tests::{alone, raise};
    use super::*;
    use crate::model::change::Happening;

    #[test]
    fn grace_is_no_longer_than_the_job_of_slurm() {
        let (grace, now) = (Duration::from_secs(60), Duration::from_millis(1_000_500));
        for (end, seconds) in
            [(None, 60.0), (Some(2_000), 60.0), (Some(1_030), 29.5), (Some(900), 60.0)]
        {
            assert_eq!(time_left(grace, end, now).as_secs_f64(), seconds, "{end:?}");
        }
        assert_eq!(time_left(grace, Some(u64::MAX), now), grace);
    }

    #[test]
    fn sigterm_asks_for_the_fewest_ranks_within_the_grace() {
        let name = "term::tests::sigterm_asks_for_the_fewest_ranks_within_the_grace";
        if let Some(output) = alone(name) {
            assert!(output.status.success(), "{output:?}");
            return;
        }
        for (ranks, asked) in [(3, Some(RequestKind::Size(1))), (1, None)] {
            let requests = Requests::with_ranks(ranks);
            let _term = SigtermGuard::hold();
            let mut manager = TermNotice::new(Duration::from_secs(3_000));
            manager.begins(requests.clone()).unwrap();
            raise();
            let bound = Instant::now() + Duration::from_secs(60);
            let is_notice = |what: Happening| what == Happening::Notice;
            while !requests.events(0).iter().any(|event| is_notice(event.what)) {
                assert!(Instant::now() < bound, "no notice");
                std::thread::yield_now();
            }
            manager.ends();
            let events = requests.events(0);
            let notice = events.iter().find(|event| is_notice(event.what)).unwrap();
            let cause = notice.cause.as_ref().unwrap();
            assert_eq!(cause.kind, CauseKind::Deadline, "{cause}");
            let request = events.iter().find_map(|event| event.asked.as_ref());
            assert_eq!(request.map(|request| request.kind), asked);
            if let Some(request) = request {
                assert_eq!(request.origin, "term");
                assert!(request.grace.is_some_and(|grace| grace <= Duration::from_secs(3_000)));
            }
        }
    }
}
