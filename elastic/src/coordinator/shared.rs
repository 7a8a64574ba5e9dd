//! State that the coordinator's thread shares with rank 0 and with callers of requests.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
#[cfg(test)]
use std::sync::mpsc::channel;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Arbiter, Message, WorldStatus};
use crate::model::change::Cause;
use crate::model::progress::Reports;
use crate::observe::common_loops::RankLoops;

/// State that the coordinator's thread shares with callers of requests.
#[derive(Debug)]
pub(crate) struct Shared {
    arbiter: Mutex<Arbiter>,
    pub(super) sender: Sender<Message>,
    pub(super) iteration: AtomicU64,
    /// The iteration at which a manager asked to be called.
    pub(super) awaited: AtomicU64,
    /// Locked for a few stores only, so that rank 0 never waits long.
    reports: Mutex<Reports>,
    /// The loops of the ranks of an epoch.
    loops: Mutex<(u64, RankLoops)>,
    /// Notified when sets or their values have changed, and when a resize has ended.
    changed: Condvar,
    is_closed: AtomicBool,
    /// Set at the end: MPI has not returned from a spawn.
    pub(super) is_stuck: AtomicBool,
}

impl Shared {
    pub(super) fn new(arbiter: Arbiter, sender: Sender<Message>) -> Self {
        Self {
            arbiter: Mutex::new(arbiter),
            sender,
            iteration: AtomicU64::new(0),
            awaited: AtomicU64::new(u64::MAX),
            reports: Mutex::default(),
            loops: Mutex::default(),
            changed: Condvar::new(),
            is_closed: AtomicBool::new(false),
            is_stuck: AtomicBool::new(false),
        }
    }

    /// Makes a state without a coordinator.
    #[cfg(test)]
    pub(crate) fn alone(arbiter: Arbiter) -> Self {
        Self::new(arbiter, channel().0)
    }

    pub(crate) fn arbiter(&self) -> MutexGuard<'_, Arbiter> {
        // No value in it is left half changed by a panic elsewhere.
        self.arbiter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn reports(&self) -> MutexGuard<'_, Reports> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn loops(&self) -> MutexGuard<'_, (u64, RankLoops)> {
        self.loops.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state of the job, with the program's report.
    pub(crate) fn status(&self) -> WorldStatus {
        let (mut status, redistribution) = {
            let arbiter = self.arbiter();
            (arbiter.status(), arbiter.redistribution_seconds())
        };
        status.report = self.reports().latest(redistribution);
        let loops = self.loops();
        status.loops = loops.1.of_job(status.size).filter(|_| loops.0 == status.epoch);
        drop(loops);
        status
    }

    /// Waits until something has changed, for at most `at_most`.
    pub(crate) fn wait_for_change<'a>(
        &'a self,
        arbiter: MutexGuard<'a, Arbiter>,
        at_most: Duration,
    ) -> MutexGuard<'a, Arbiter> {
        let woken = self.changed.wait_timeout(arbiter, at_most);
        woken.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Wakes the threads that wait for a change.
    pub(crate) fn has_changed(&self) {
        self.changed.notify_all();
    }

    /// Ends all waits for a change.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        // Taken so that no thread is between its check and its wait.
        drop(self.arbiter());
        self.has_changed();
    }

    /// Ends the resize under way with this cause: this process cannot continue in it.
    pub(crate) fn lost(&self, cause: Cause) {
        let _ = self.sender.send(Message::Lost(cause));
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Wakes the coordinator, which checks for work.
    pub(crate) fn wake_coordinator(&self) {
        // Without a coordinator the job is ending anyway.
        let _ = self.sender.send(Message::Wake);
    }
}
