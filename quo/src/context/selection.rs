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
    /// Messages of all ranks, one after the other, and the end of each.
    messages: Vec<u8>,
    ends: Vec<usize>,
    pub(super) plan: Distribution,
    pub(super) masks: Vec<Option<CpuSet>>,
}

impl LastSelection {
    /// Returns what a selection had as its inputs and result; `None` if a rank sent no message,
    /// since then the next one must be checked.
    pub(super) fn of(
        machine: &Arc<Machine>,
        all: &Exchange<'_>,
        plan: &Distribution,
        masks: &[Option<CpuSet>],
    ) -> Option<Self> {
        let (mut messages, mut ends) = (Vec::new(), Vec::new());
        for node_rank in 0..masks.len() {
            messages.extend_from_slice(all.of(node_rank)?);
            ends.push(messages.len());
        }
        let (plan, masks) = (plan.clone(), masks.to_vec());
        Some(Self { machine: Arc::clone(machine), messages, ends, plan, masks })
    }

    /// Returns true if a selection on this machine after these messages has the same result.
    pub(super) fn is_of(&self, machine: &Arc<Machine>, all: &Exchange<'_>) -> bool {
        let mut start = 0;
        Arc::ptr_eq(&self.machine, machine)
            && self.ends.iter().enumerate().all(|(node_rank, &end)| {
                let known = &self.messages[start..end];
                start = end;
                all.of(node_rank) == Some(known)
            })
    }
}
