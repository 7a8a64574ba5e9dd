//! Processes that the guard of a process watches, as its world changes.

use std::sync::Arc;

use super::World;
use crate::node::guard::Guard;
use crate::node::mailbox::NodeMailbox;

impl World {
    /// Guards the processes of the next world as well.
    pub(super) fn guard_also(&mut self, after: &Arc<NodeMailbox>) -> Result<(), String> {
        let Some(root) = &self.guards else { return Ok(()) };
        let all = self.lifecycle.mailbox().into_iter().chain([after]).cloned();
        match &self.guard {
            Some(guard) => guard.watch(all),
            None => {
                let guard = Guard::over(all, root);
                self.guard =
                    Some(guard.map_err(|error| format!("a thread that watches: {error}"))?);
            }
        }
        Ok(())
    }

    /// Guards the processes of the present world only; none if this process is in no world.
    pub(super) fn guard_own(&mut self) {
        match (&self.guard, self.lifecycle.mailbox()) {
            (Some(guard), Some(mailbox)) => guard.watch([Arc::clone(mailbox)]),
            _ => self.guard = None,
        }
    }
}
