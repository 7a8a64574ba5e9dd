//! Whether those who are waited for are still there.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quo::group::{GroupError, Patience};

use crate::lobby::Lobby;

/// The processes of this node that a resize needs, before it and after it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    lobbies: Vec<Arc<Lobby>>,
}

impl Watch {
    pub(crate) fn over(lobbies: impl IntoIterator<Item = Arc<Lobby>>) -> Self {
        Self { lobbies: lobbies.into_iter().collect() }
    }

    /// Fails when one has ended without a word that was not asleep.
    pub(crate) fn look(&self) -> Result<(), GroupError> {
        self.find("resize", Lobby::missed)
    }

    /// Fails when one has ended without a word, also one that was asleep.
    pub(crate) fn look_for_all(&self) -> Result<(), GroupError> {
        self.find("end", Lobby::dead)
    }

    fn find(&self, call: &'static str, dead: fn(&Lobby) -> Vec<usize>) -> Result<(), GroupError> {
        for lobby in &self.lobbies {
            let dead = dead(lobby);
            if !dead.is_empty() {
                let ranks = dead.into_iter().map(|member| lobby.name_of(member)).collect();
                return Err(GroupError::Dead { call, ranks });
            }
        }
        Ok(())
    }
}

/// How long a process may be gone before the barrier at a world's end fails: one that has left the barrier may end
/// before the others have seen its last message.
const LONGEST_ABSENCE: Duration = Duration::from_secs(2);

/// The moment since which somebody is missing.
#[derive(Debug, Default)]
pub(crate) struct Absence {
    since: Cell<Option<Instant>>,
}

impl Absence {
    /// Passes a failure on once it has lasted for [`LONGEST_ABSENCE`].
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

/// So long, and as long as `look` finds everybody.
pub(crate) fn patient(limit: Duration, look: &dyn Fn() -> Result<(), GroupError>) -> Patience<'_> {
    Patience { watch: look, ..Patience::for_at_most(limit) }
}

#[cfg(test)]
mod tests {
    use super::*;

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
