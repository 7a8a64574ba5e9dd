//! What each rank of a node may use.
//!
//! Usually the ranks of a node are in one control group, and what the leader discovered holds for
//! all. They need not be: with a container for each rank, or ranks of several jobs in one
//! communicator, each may have CPUs of its own. Plans are then made over what all have together, so
//! that every rank computes the same one, and each rank is bound inside its own part.

use std::sync::Arc;

use super::machine::Snapshot;
use super::verdict::agree;
use crate::cpuset::CpuSet;
use crate::error::Error;
use crate::group::{Group, Patience};
use crate::node::Node;
use crate::topology::Topology;

/// The machine of a rank, in the sense of its context.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    /// The whole one, with the CPUs that the ranks of the node may use together.
    pub whole: Arc<Topology>,
    /// The same without what the no-SMT option hides: what plans are made over.
    pub topology: Arc<Topology>,
    /// The CPUs that this rank may use.
    pub allowed: CpuSet,
    /// `topology` with nothing else allowed: what this rank is bound inside.
    pub own: Arc<Topology>,
}

impl Machine {
    /// For a rank that may use what the leader of its node may use.
    pub fn common(snapshot: &Snapshot, no_smt: bool) -> Self {
        let whole = Arc::clone(&snapshot.whole);
        let topology = Arc::clone(if no_smt { &snapshot.without_smt } else { &snapshot.whole });
        let allowed = whole.allowed().clone();
        Self { own: Arc::clone(&topology), whole, topology, allowed }
    }

    fn divided(
        snapshot: &Snapshot,
        no_smt: bool,
        parts: &[CpuSet],
        own: usize,
    ) -> Result<Self, Error> {
        let all = parts.iter().fold(CpuSet::new(), |all, part| all.union(part));
        let whole = Arc::new(snapshot.whole.with_allowed(&all)?);
        let topology = if no_smt { Arc::new(whole.without_smt()) } else { Arc::clone(&whole) };
        let allowed = parts.get(own).cloned().unwrap_or_default();
        let own = Arc::new(topology.with_allowed(&allowed.intersection(topology.allowed()))?);
        Ok(Self { whole, topology, allowed, own })
    }
}

/// What this process may use of a machine, whatever others may.
pub(super) fn own_part(machine: &Topology) -> Result<CpuSet, Error> {
    Ok(Topology::discover()?.allowed().intersection(machine.machine_cpuset()))
}

/// The machine of a rank when control groups differ on some node. All ranks have published, in place
/// of their masks, what they may use; when this returns they have published their masks. Collective
/// over the group.
pub(super) fn divide(
    group: &dyn Group,
    call: &'static str,
    node: &Node,
    (snapshot, no_smt): (&Snapshot, bool),
    (members, mask): (usize, &CpuSet),
    patience: &Patience<'_>,
) -> Result<Machine, Error> {
    let part = |member| node.mask_of(member).ok().flatten().unwrap_or_default();
    let parts: Vec<CpuSet> = (0..members).map(part).collect();
    // The verdict also says that everyone has read the parts, so that masks may take their place.
    let machine = Machine::divided(snapshot, no_smt, &parts, node.member());
    let machine = agree(group, call, machine, patience)?;
    agree(group, call, node.publish_mask(mask).map_err(Error::from), patience)?;
    Ok(machine)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    fn divided(no_smt: bool, own: usize) -> Result<Machine, Error> {
        let machine = Topology::from_synthetic("pack:2 core:2 pu:2").unwrap();
        let machine = machine.with_allowed(&set("0-1")).unwrap();
        let snapshot = Snapshot::of_topology(machine);
        Machine::divided(&snapshot, no_smt, &[set("0-1"), set("3-5"), set("5")], own)
    }

    #[test]
    fn plans_see_what_all_have_and_each_rank_is_bound_inside_its_own() {
        let machine = divided(false, 1).unwrap();
        assert_eq!(machine.whole.allowed(), &set("0-1,3-5"));
        assert_eq!(machine.topology.allowed(), &set("0-1,3-5"));
        assert_eq!(machine.own.allowed(), &set("3-5"));
        assert_eq!(machine.allowed, set("3-5"));
        assert_eq!(machine.own.machine_cpuset(), &set("0-7"));
    }

    #[test]
    fn hidden_hardware_threads_are_the_same_for_all_ranks() {
        assert_eq!(divided(true, 0).unwrap().topology.allowed(), &set("0,3-4"));
        assert_eq!(divided(true, 1).unwrap().own.allowed(), &set("3-4"));
        // All this one has is hidden: there is nothing it could be bound to.
        assert!(divided(true, 2).is_err());
    }
}
