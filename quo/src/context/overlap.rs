//! Bindings that other contexts of this node have pushed.
//!
//! Contexts of this process are known to each other. Those of other processes of this user are found
//! where somebody asks for an explanation, which is not on the way of a phase.

use super::state::State;
use super::{Context, registry};
use crate::cpuset::CpuSet;
use crate::node::Push;
use crate::topology::{Origin, Topology};

impl Context {
    /// What ranks have pushed in other contexts that this process is part of. Local.
    pub(crate) fn pushed_beside(&self) -> Vec<Push> {
        let others = registry::others(self.number());
        if others.is_empty() {
            return Vec::new();
        }
        let machine = self.state().machine();
        others
            .iter()
            .map(|shared| shared.state())
            .filter(|state| state.machine().whole.origin() == machine.whole.origin())
            .flat_map(|state| state.pushes())
            .collect()
    }

    /// What processes of this user have pushed in other contexts on this node, as far as the kernel
    /// shows them. Local.
    pub(crate) fn pushed_elsewhere(&self) -> Vec<Push> {
        let mut pushes = self.pushed_beside();
        let state = self.state();
        let machine = state.machine();
        let is_here = |bytes: Vec<u8>| is_machine(&bytes, machine.whole.origin());
        for other in state.node.others() {
            let more = other.pushes();
            if !more.is_empty() && other.payload().is_some_and(is_here) {
                pushes.extend(more);
            }
        }
        pushes
    }
}

fn is_machine(described: &[u8], origin: &Origin) -> bool {
    Topology::from_bytes(described).is_ok_and(|machine| machine.origin() == origin)
}

impl State {
    /// What ranks of the node have pushed in this context, where their numbers mean them here.
    pub(crate) fn pushes(&self) -> Vec<Push> {
        let members = (0..self.node_size()).filter(|&member| self.node.has_pushed(member));
        members
            .filter_map(|member| {
                let peer = self.peer(member).filter(|peer| peer.visible)?;
                let cpus = self.published_mask(member);
                Some(Push { process: peer.process.id, cpus })
            })
            .collect()
    }
}

/// The CPUs of a push that other processes have pushed too. Pure.
pub(crate) fn overlap(push: &Push, elsewhere: &[Push]) -> CpuSet {
    let others = elsewhere.iter().filter(|other| other.process != push.process);
    others.fold(CpuSet::new(), |all, other| all.union(&other.cpus.intersection(&push.cpus)))
}

/// Names the pushes of other contexts that share CPUs with pushes of this one. Pure.
pub(crate) fn overlap_warnings(here: &[Push], elsewhere: &[Push]) -> Vec<String> {
    let mut told = Vec::new();
    for push in here {
        for other in elsewhere {
            let both = overlap(push, std::slice::from_ref(other));
            if !both.is_empty() {
                let (own, process) = (push.process, other.process);
                told.push(format!(
                    "processes {own} and {process} have both pushed CPUs {both}, in different contexts"
                ));
            }
        }
    }
    told.sort_unstable();
    told.dedup();
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(process: i32, cpus: &str) -> Push {
        Push { process, cpus: cpus.parse().unwrap() }
    }

    #[test]
    fn pushes_of_two_processes_on_one_cpu_are_an_overlap() {
        let here = [push(1, "0-3"), push(2, "4-7")];
        let elsewhere = [push(3, "3-4"), push(3, "3-4"), push(4, "8")];
        let told = overlap_warnings(&here, &elsewhere);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("processes 1 and 3") && told[0].contains("CPUs 3,"), "{told:?}");
        assert_eq!(overlap(&here[0], &elsewhere).to_string(), "3");
    }

    #[test]
    fn pushes_of_one_process_in_two_contexts_are_no_overlap() {
        let nested = [push(1, "0-7")];
        assert!(overlap_warnings(&nested, &nested).is_empty());
        assert!(overlap(&nested[0], &nested).is_empty());
    }

    #[test]
    fn machine_is_told_by_its_origin() {
        let [one, other] =
            ["core:2 pu:1", "core:4 pu:1"].map(|text| Topology::from_synthetic(text).unwrap());
        assert!(is_machine(&one.to_bytes(), one.origin()));
        assert!(!is_machine(&one.to_bytes(), other.origin()));
        assert!(!is_machine(b"", one.origin()));
    }
}
