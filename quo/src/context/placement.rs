//! Memory on the NUMA nodes of bindings: a policy that follows pushes, and placing and locating
//! pages.

use std::ops::Range;

use super::Context;
use super::state::{Bindings, PushedMemory};
use crate::affinity::memory::{KernelPolicy, locate};
use crate::affinity::{BindError, MemoryPolicy, Target};
use crate::cpuset::CpuSet;
use crate::error::Error;
use crate::topology::{ObjectType, Topology};

/// NUMA nodes of a range of memory, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryPlaces {
    /// Bytes on each NUMA node, by the nodes' logical indices.
    pub nodes: Vec<u64>,
    /// Bytes on nodes that the machine's description does not contain.
    pub elsewhere: u64,
    /// Bytes without a page: never written, or swapped out.
    pub absent: u64,
}

impl Bindings {
    /// Sets the calling thread's policy for this mask, or restores the previous one if nothing is
    /// pushed.
    pub(super) fn follow(&self, cpus: &CpuSet) -> Result<(), Error> {
        let Some(pushed) = &self.memory else { return Ok(()) };
        let result = if self.depth() == 0 {
            pushed.before.set_for_thread()
        } else {
            let nodes: Vec<usize> = numbers(&self.own, cpus);
            KernelPolicy::new(pushed.policy, &nodes).set_for_thread()
        };
        result.map_err(failed("set the memory policy", "set_mempolicy"))
    }
}

impl Context {
    /// Makes a memory policy follow this rank's pushes and phases from now on: memory that the
    /// calling thread, or a thread it starts, writes first is allocated on the NUMA nodes of the
    /// CPUs bound to. The pop of the last push restores the thread's own policy, and `None` ends
    /// this. Existing threads keep their policy, as the kernel has it per thread; existing pages
    /// stay where they are, see [`place`](Self::place). Local; call it on the thread that pushes.
    ///
    /// # Errors
    /// [`Error::NotSupported`] on a simulated machine; [`Error::Bind`] if the kernel refuses, as
    /// containers may.
    ///
    /// ```no_run
    /// # fn example(context: &quo::Context) -> Result<(), quo::Error> {
    /// use quo::affinity::{MemoryPolicy, Target};
    /// context.set_memory_policy(Some(MemoryPolicy::Bind))?;
    /// context.push(&Target::Object(quo::ObjectType::NumaNode, 0))?;
    /// let field = vec![1.0; 1 << 20]; // on NUMA node 0
    /// assert!(context.places(&field)?.nodes[0] >= 8 << 20);
    /// context.pop()
    /// # }
    /// ```
    #[doc(alias = "QUO_set_memory_policy")]
    pub fn set_memory_policy(&self, policy: Option<MemoryPolicy>) -> Result<(), Error> {
        const CALL: &str = "set the memory policy";
        self.check(CALL)?;
        let mut bindings = self.shared.bindings();
        refuse_simulated(CALL, &bindings.own)?;
        match (policy, bindings.memory.take()) {
            (Some(policy), before) => {
                let before = match before {
                    Some(pushed) => pushed.before,
                    None => KernelPolicy::of_thread().map_err(failed(CALL, "get_mempolicy"))?,
                };
                bindings.memory = Some(PushedMemory { policy, before });
                let mask = bindings.stack.current()?;
                bindings.follow(&mask)
            }
            (None, Some(pushed)) => {
                pushed.before.set_for_thread().map_err(failed(CALL, "set_mempolicy"))
            }
            (None, None) => Ok(()),
        }
    }

    /// Places memory on the NUMA nodes of a target: existing pages are moved, others are allocated
    /// there when first written. Applies to whole pages, including those that the memory only
    /// partly covers. Local.
    ///
    /// # Errors
    /// As [`push`](Self::push) for the target; [`Error::NotSupported`] on a simulated machine;
    /// [`Error::Bind`] if the kernel refuses, or cannot move all pages: pages shared with other
    /// processes stay.
    #[doc(alias = "QUO_memory_place")]
    pub fn place<T>(
        &self,
        memory: &mut [T],
        target: &Target,
        policy: MemoryPolicy,
    ) -> Result<(), Error> {
        self.place_addresses(addresses(memory), target, policy)
    }

    /// Like [`place`](Self::place), for addresses, which only determine the pages to move.
    #[doc(hidden)]
    pub fn place_addresses(
        &self,
        memory: Range<usize>,
        target: &Target,
        policy: MemoryPolicy,
    ) -> Result<(), Error> {
        const CALL: &str = "place memory";
        self.check(CALL)?;
        let bindings = self.shared.bindings();
        refuse_simulated(CALL, &bindings.own)?;
        let cpus = target.resolve(&bindings.own, &bindings.stack.current()?)?;
        let policy = KernelPolicy::new(policy, &numbers(&bindings.own, &cpus));
        policy.set_for(&memory).map_err(failed(CALL, "mbind"))
    }

    /// Returns the NUMA nodes that hold this memory, as reported by the kernel. Local.
    ///
    /// # Errors
    /// [`Error::NotSupported`] on a simulated machine; [`Error::Bind`] if the kernel refuses.
    #[doc(alias = "QUO_memory_places")]
    pub fn places<T>(&self, memory: &[T]) -> Result<MemoryPlaces, Error> {
        self.places_of_addresses(addresses(memory))
    }

    /// Like [`places`](Self::places), for addresses.
    #[doc(hidden)]
    pub fn places_of_addresses(&self, memory: Range<usize>) -> Result<MemoryPlaces, Error> {
        const CALL: &str = "find memory";
        self.check(CALL)?;
        let machine = self.topology();
        refuse_simulated(CALL, &machine)?;
        let nodes = machine.objects(ObjectType::NumaNode);
        let mut found = MemoryPlaces { nodes: vec![0; nodes.len()], ..MemoryPlaces::default() };
        let index = |number| nodes.iter().position(|node| node.os_index == Some(number));
        let told = locate(&memory, |number, bytes| {
            let place = match number.map(index) {
                None => &mut found.absent,
                Some(None) => &mut found.elsewhere,
                Some(Some(index)) => &mut found.nodes[index],
            };
            *place += bytes as u64;
        });
        told.map_err(failed(CALL, "move_pages"))?;
        Ok(found)
    }
}

fn addresses<T>(memory: &[T]) -> Range<usize> {
    let range = memory.as_ptr_range();
    range.start as usize..range.end as usize
}

/// Returns the kernel's numbers of the NUMA nodes of CPUs.
fn numbers(machine: &Topology, cpus: &CpuSet) -> Vec<usize> {
    let nodes = machine.objects(ObjectType::NumaNode).iter();
    let near = nodes.filter(|node| !node.cpuset.intersection(cpus).is_empty());
    near.filter_map(|node| node.os_index).collect()
}

fn refuse_simulated(call: &'static str, machine: &Topology) -> Result<(), Error> {
    if !machine.is_simulated() {
        return Ok(());
    }
    let reason = "the machine is simulated and has no memory: unset QUO_TOPOLOGY".to_owned();
    Err(Error::NotSupported { call, reason })
}

fn failed(call: &'static str, action: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| BindError::System { call, action, source }.into()
}
