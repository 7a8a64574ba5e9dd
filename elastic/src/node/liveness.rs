//! Liveness checks of awaited processes.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quo::group::{GroupError, WaitLimits};
use serde::{Deserialize, Serialize};

use crate::node::mailbox::NodeMailbox;
use crate::node::process_identity::ProcessIdentity;

/// A joiner as its host identifies it before it has a place in the shared memory of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Joiner {
    /// Its rank after the resize; 0 for rank 0.
    pub rank: usize,
    pub life: ProcessIdentity,
}

/// Check that the processes of this node on which a wait depends are alive.
#[derive(Clone, Debug, Default)]
pub struct LivenessCheck {
    mailboxes: Vec<Arc<NodeMailbox>>,
    joiners: Vec<Joiner>,
    /// The ranks of the world, by their ranks among all live processes, if no other process
    /// matters.
    only: Option<Vec<usize>>,
}

impl LivenessCheck {
    pub(crate) fn over(mailboxes: impl IntoIterator<Item = Arc<NodeMailbox>>) -> Self {
        Self { mailboxes: mailboxes.into_iter().collect(), ..Self::default() }
    }

    /// Checks only the ranks of the world, given by their ranks among all live processes.
    pub(crate) fn only(self, ranks: Vec<usize>) -> Self {
        Self { only: Some(ranks), ..self }
    }

    /// Adds joiners to the processes that are checked.
    pub(crate) fn and(self, joiners: Vec<Joiner>) -> Self {
        Self { joiners, ..self }
    }

    /// Fails if an awake process has ended without [`World::end`](crate::World::end). Local.
    ///
    /// # Errors
    /// [`GroupError::Dead`] with the ranks of those processes.
    pub fn check(&self) -> Result<(), GroupError> {
        self.find("resize", NodeMailbox::missed)?;
        let ended = |joiner: &&Joiner| joiner.life.has_ended().is_some();
        let ended = self.joiners.iter().filter(ended).map(|joiner| joiner.rank);
        match ended.collect::<Vec<_>>() {
            ranks if ranks.is_empty() => Ok(()),
            ranks => Err(GroupError::Dead { call: "resize", ranks }),
        }
    }

    /// Makes a call that waits at most `limit`, and ends earlier if [`check`](Self::check) fails.
    pub fn within<T>(&self, limit: Duration, wait: impl FnOnce(&WaitLimits<'_>) -> T) -> T {
        wait(&wait_limits(limit, &|| self.check()))
    }

    /// Fails if a process has ended without [`World::end`](crate::World::end), even one that was
    /// asleep.
    pub(crate) fn check_all(&self) -> Result<(), GroupError> {
        self.find("end", NodeMailbox::dead)
    }

    /// Fails if a process has ended the world that the caller waits for. Names the processes that
    /// have ended without [`World::end`](crate::World::end), if there are any: others may have left
    /// because of them.
    pub(crate) fn check_departed(&self) -> Result<(), GroupError> {
        let Err(departed) = self.find("end", NodeMailbox::departed) else { return Ok(()) };
        Self { only: None, ..self.clone() }.check_all()?;
        Err(departed)
    }

    fn find(
        &self,
        call: &'static str,
        dead: fn(&NodeMailbox) -> Vec<usize>,
    ) -> Result<(), GroupError> {
        for mailbox in &self.mailboxes {
            let name = |member| match &self.only {
                // Its seat may have been released since.
                Some(only) => only.iter().position(|&it| it == mailbox.process_of(member)),
                None => Some(mailbox.name_of(member)),
            };
            let ranks: Vec<usize> = dead(mailbox).into_iter().filter_map(name).collect();
            if !ranks.is_empty() {
                return Err(GroupError::Dead { call, ranks });
            }
        }
        Ok(())
    }
}

/// Time that a process may be absent before a barrier at a world's end fails: a process that has
/// left the barrier may end before the others have seen its last message.
const LONGEST_ABSENCE: Duration = Duration::from_secs(2);

/// The time since which a process is missing.
#[derive(Debug, Default)]
pub(crate) struct Absence {
    since: Cell<Option<Instant>>,
}

impl Absence {
    /// Returns a failure only once it has lasted for [`LONGEST_ABSENCE`].
    pub(crate) fn judge(
        &self,
        now: Instant,
        seen: Result<(), GroupError>,
    ) -> Result<(), GroupError> {
        let Err(error) = seen else {
            self.since.set(None);
            return Ok(());
        };
        let since = self.since.get().unwrap_or(now);
        self.since.set(Some(since));
        if now.duration_since(since) < LONGEST_ABSENCE { Ok(()) } else { Err(error) }
    }
}

/// Limits of a wait of at most `limit`, which also ends when `check` fails.
pub(crate) fn wait_limits(
    limit: Duration,
    check: &dyn Fn() -> Result<(), GroupError>,
) -> WaitLimits<'_> {
    WaitLimits { check_peers: check, ..WaitLimits::for_at_most(limit) }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn joiner_that_has_ended_is_named_by_its_rank() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let life = ProcessIdentity::of(child.id().cast_signed()).unwrap();
        let joiners = vec![
            Joiner { rank: 0, life: ProcessIdentity::own().unwrap() },
            Joiner { rank: 7, life },
        ];
        let watch = LivenessCheck::default().and(joiners);
        watch.check().unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        let error = watch.check().unwrap_err();
        assert!(matches!(error, GroupError::Dead { ranks, .. } if ranks == [7]));
    }

    #[test]
    fn absence_fails_only_after_its_longest_time() {
        let dead = || Err(GroupError::Dead { call: "end", ranks: vec![2] });
        let (absence, begin) = (Absence::default(), Instant::now());
        absence.judge(begin, dead()).unwrap();
        absence.judge(begin + LONGEST_ABSENCE / 2, dead()).unwrap();
        let error = absence.judge(begin + LONGEST_ABSENCE, dead()).unwrap_err();
        assert!(matches!(error, GroupError::Dead { ranks, .. } if ranks == [2]));
        absence.judge(begin + LONGEST_ABSENCE, Ok(())).unwrap();
        absence.judge(begin + LONGEST_ABSENCE, dead()).unwrap();
    }
}
