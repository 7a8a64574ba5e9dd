//! A resize that this process cannot end, and its cause for the coordinator.

use std::sync::Arc;

use crate::coordinator::Shared;
use crate::error::Error;
use crate::model::change::{Cause, CauseKind};
use crate::model::order::{Part, ResizePlan};
use crate::node::mailbox::NodeMailbox;

/// A resize that its participants cannot end.
pub(super) struct LostResize {
    pub resize: Option<ResizePlan>,
    pub before: Option<Arc<NodeMailbox>>,
    pub after: Option<Arc<NodeMailbox>>,
}

impl LostResize {
    /// Reports the cause, so that the request of the resize still ends.
    pub fn report(&self, error: &Error, coordinator: &Shared) {
        if !matches!(error, Error::Aborted { .. } | Error::InvalidState { .. }) {
            coordinator.lost(Cause::new(self.kind(), error.to_string()));
        }
    }

    /// Returns `JoinerLost` if only joiners have ended on this node, else `MemberLost`.
    fn kind(&self) -> CauseKind {
        let Some(resize) = &self.resize else { return CauseKind::MemberLost };
        let dead = |mailbox: &Option<Arc<NodeMailbox>>| {
            let missed = |mailbox: &Arc<NodeMailbox>| {
                let missed = mailbox.missed().into_iter();
                missed.map(|member| mailbox.process_of(member)).collect::<Vec<_>>()
            };
            mailbox.iter().flat_map(missed).collect()
        };
        let (mut ended, after): (Vec<usize>, Vec<usize>) = (dead(&self.before), dead(&self.after));
        ended.extend(after.into_iter().map(|process| resize.before(process)));
        let joined = |process: &usize| resize.part_of(*process) == Part::Joins;
        let only_joiners = !ended.is_empty() && ended.iter().all(joined);
        if only_joiners { CauseKind::JoinerLost } else { CauseKind::MemberLost }
    }
}
