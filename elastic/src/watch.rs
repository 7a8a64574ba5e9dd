//! Whether those who are waited for are still there.

use std::sync::Arc;
use std::time::Duration;

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

    /// Fails when one has ended without a word.
    pub(crate) fn look(&self) -> Result<(), GroupError> {
        match self.lobbies.iter().map(|lobby| lobby.dead()).find(|dead| !dead.is_empty()) {
            None => Ok(()),
            Some(ranks) => Err(GroupError::Dead { call: "resize", ranks }),
        }
    }
}

/// So long, and as long as `look` finds everybody.
pub(crate) fn patient(limit: Duration, look: &dyn Fn() -> Result<(), GroupError>) -> Patience<'_> {
    Patience { watch: look, ..Patience::for_at_most(limit) }
}
