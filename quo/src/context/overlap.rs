//! Bindings that other contexts of this node have pushed.
//!
//! Other contexts of this process are known. Finding contexts of this user's other processes takes
//! a search, whose result is shared by phases that follow one another faster than [`RECENT`].

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::allowed::now;
use super::state::State;
use super::{Context, live_contexts};
use crate::cpuset::CpuSet;
use crate::node::{ForkId, Node, Push};
use crate::topology::{Origin, Topology};

/// Maximum age of a search that phases share: long compared with its cost, short compared with long
/// phases.
const RECENT: Duration = Duration::from_millis(100);

/// Minimum pause after a search, in multiples of its time: searches take one percent at most.
const PAUSE: u64 = 100;

/// Time until which a search without results is recent.
static NOTHING_UNTIL: AtomicU64 = AtomicU64::new(0);

/// Last search of this process.
static LAST: Mutex<Option<Search>> = Mutex::new(None);

#[derive(Debug)]
struct Search {
    process: ForkId,
    until: u64,
    found: Vec<(Origin, Push)>,
}

impl Context {
    /// Returns the pushes of other contexts that this process is part of. Local.
    fn pushed_beside(&self) -> Vec<Push> {
        let others = live_contexts::others(self.number());
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

    /// Returns the pushes of this user's processes in other contexts on this node that the kernel
    /// shows. Local.
    pub(crate) fn pushed_elsewhere(&self) -> Vec<Push> {
        let mut pushes = self.pushed_beside();
        let state = self.state();
        self.add(&mut pushes, &search(&state.node));
        pushes
    }

    /// Like [`pushed_elsewhere`](Self::pushed_elsewhere), at most [`RECENT`] old. Local.
    pub(crate) fn pushed_recently(&self) -> Vec<Push> {
        let mut pushes = self.pushed_beside();
        if now() < NOTHING_UNTIL.load(Ordering::Relaxed) {
            return pushes;
        }
        // If another thread is searching, its result is not waited for.
        let Ok(mut last) = LAST.try_lock() else { return pushes };
        let is_recent = |last: &Search| last.process == ForkId::current() && now() < last.until;
        if !last.as_ref().is_some_and(is_recent) {
            let start = now();
            let found = search(&self.state().node);
            let recent = u64::try_from(RECENT.as_nanos()).unwrap_or(0);
            // Among hundreds of ranks a search takes long.
            let took = now().saturating_sub(start);
            let until = start.saturating_add(recent.max(took.saturating_mul(PAUSE)));
            if found.is_empty() {
                NOTHING_UNTIL.store(until, Ordering::Relaxed);
            }
            *last = Some(Search { process: ForkId::current(), until, found });
        }
        if let Some(last) = &*last {
            self.add(&mut pushes, &last.found);
        }
        pushes
    }

    /// Adds the pushes on this context's machine.
    fn add(&self, pushes: &mut Vec<Push>, found: &[(Origin, Push)]) {
        if found.is_empty() {
            return;
        }
        let machine = self.state().machine();
        let here = found.iter().filter(|(origin, _)| origin == machine.whole.origin());
        pushes.extend(here.map(|(_, push)| push.clone()));
    }
}

/// Returns the pushes in segments of other processes, with the machines they are on.
fn search(node: &Node) -> Vec<(Origin, Push)> {
    let mut found = Vec::new();
    for other in node.others() {
        let pushes = other.pushes();
        let payload = if pushes.is_empty() { None } else { other.payload() };
        let machine = payload.and_then(|bytes| Topology::from_bytes(&bytes).ok());
        if let Some(machine) = machine {
            found.extend(pushes.into_iter().map(|push| (machine.origin().clone(), push)));
        }
    }
    found
}

impl State {
    /// Returns the pushes of the node's ranks in this context whose process ids are valid here.
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

/// Returns the CPUs of a push that other processes have pushed too. Pure.
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
}
