//! The last selection among the ranks of a node: with equal inputs it is not planned again.

use std::sync::Arc;

use super::confinement::Machine;
use crate::cpuset::CpuSet;
use crate::node::Exchange;
use crate::plan::Distribution;

/// The last selection among the ranks of a node. Programs repeat it in every step; equal messages
/// give an equal plan.
#[derive(Debug)]
pub(super) struct LastSelection {
    machine: Arc<Machine>,
    /// Number of each rank's message.
    messages: Vec<u64>,
    pub(super) plan: Arc<Distribution>,
    pub(super) masks: Arc<[Option<CpuSet>]>,
}

impl LastSelection {
    /// Returns what a selection had as its inputs and result; `None` if a rank sent no message,
    /// since then the next one must be checked.
    pub(super) fn of(
        machine: &Arc<Machine>,
        all: &Exchange<'_>,
        plan: &Arc<Distribution>,
        masks: &Arc<[Option<CpuSet>]>,
    ) -> Option<Self> {
        Some(Self {
            machine: Arc::clone(machine),
            messages: (0..masks.len()).map(|rank| all.number_of(rank)).collect::<Option<_>>()?,
            plan: Arc::clone(plan),
            masks: Arc::clone(masks),
        })
    }

    /// Returns true if a selection on this machine after these messages has the same result.
    pub(super) fn is_of(&self, machine: &Arc<Machine>, all: &Exchange<'_>) -> bool {
        let mut messages = self.messages.iter().enumerate();
        Arc::ptr_eq(&self.machine, machine)
            && messages.all(|(rank, &number)| all.number_of(rank) == Some(number))
    }
}
