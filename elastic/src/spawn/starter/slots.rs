//! Launcher slots held by processes that are no members any more: the launcher frees a slot only
//! when it has reaped the process, some milliseconds after the process has left the world.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::model::change::{Cause, CauseKind};
use crate::model::order::ResizePlan;
use crate::node::process_identity::ProcessIdentity;

/// Time that a spawn waits for leavers to end.
const LIMIT: Duration = Duration::from_secs(10);
/// Time for the launcher, after it has reaped a process, to read the last output and free the slot.
const SETTLING: Duration = Duration::from_millis(20);

/// The slots of a launcher that fails if there are too few.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slots {
    /// Number of all slots.
    pub count: usize,
    /// Number of processes launched with the job: their slots are never free.
    pub launched: usize,
}

/// The processes that spawns of this job have made ready, if they are on this host.
#[derive(Debug, Default)]
pub(crate) struct Started(Mutex<Vec<ProcessIdentity>>);

impl Started {
    /// Records processes that are ready.
    pub(super) fn add(&self, lives: &[ProcessIdentity]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(lives);
    }

    /// Counts the processes that hold slots, and those reaped since the last call, which are
    /// forgotten.
    fn holding(&self) -> (usize, usize) {
        let mut lives = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = lives.len();
        lives.retain(ProcessIdentity::is_uncollected);
        (lives.len(), before - lives.len())
    }

    /// Waits until the launcher has the slots that a resize needs.
    ///
    /// # Errors
    /// Processes that have left the world do not end: the launcher must not be asked.
    pub(super) fn wait_for_slots(&self, slots: Slots, resize: &ResizePlan) -> Result<(), Cause> {
        self.wait(slots, resize, LIMIT)
    }

    fn wait(&self, slots: Slots, resize: &ResizePlan, limit: Duration) -> Result<(), Cause> {
        let wanted: usize = resize.units.iter().sum();
        let counted = resize.new.iter().max().map_or(0, |last| last + 1);
        let before = counted.saturating_sub(wanted + resize.lost.len());
        let members = before.saturating_sub(slots.launched);
        let deadline = Instant::now() + limit;
        let mut collected = 0;
        loop {
            let (holding, ended) = self.holding();
            let left = holding.saturating_sub(members);
            collected += ended;
            let is_enough = before + left + wanted <= slots.count;
            if left == 0 || is_enough && resize.hosts.is_empty() {
                if before + left + collected + wanted > slots.count {
                    std::thread::sleep(SETTLING);
                }
                return Ok(());
            }
            if Instant::now() >= deadline {
                let detail = format!(
                    "start of {wanted} processes: {left} that have left the world have not ended within {} s and \
                     hold slots of the launcher, which has {}; ask again when they have ended",
                    limit.as_secs(),
                    slots.count
                );
                return if is_enough {
                    Ok(())
                } else {
                    Err(Cause::new(CauseKind::NoCapacity, detail))
                };
            }
            // Sleeps: the end of another process's child cannot be waited for.
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_leaver_holds_its_slot_until_it_is_collected() {
        let mut leaver = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let started = Started::default();
        started.add(&[ProcessIdentity::of(leaver.id().cast_signed()).unwrap()]);
        let slots = Slots { count: 2, launched: 1 };
        let resize =
            ResizePlan { old: vec![0], new: vec![0, 1], units: vec![1], ..ResizePlan::default() };
        let refused = started.wait(slots, &resize, Duration::ZERO).unwrap_err();
        assert_eq!(refused.kind, CauseKind::NoCapacity);
        // With a spare slot there is no wait.
        assert!(started.wait(Slots { count: 3, ..slots }, &resize, Duration::ZERO).is_ok());
        drop(leaver.stdin.take());
        leaver.wait().unwrap();
        let begin = Instant::now();
        assert!(started.wait(slots, &resize, Duration::ZERO).is_ok());
        assert!(begin.elapsed() >= SETTLING, "the launcher has had no time to free the slot");
    }

    #[test]
    fn a_member_holds_no_slot_of_a_leaver() {
        let mut member = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let started = Started::default();
        started.add(&[ProcessIdentity::of(member.id().cast_signed()).unwrap()]);
        let slots = Slots { count: 3, launched: 1 };
        let resize = ResizePlan {
            old: vec![0, 1],
            new: vec![0, 1, 2],
            units: vec![1],
            ..ResizePlan::default()
        };
        assert!(started.wait(slots, &resize, Duration::ZERO).is_ok());
        drop(member.stdin.take());
        member.wait().unwrap();
    }
}
