//! The free cores and memory of nodes that jobs share.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::nodes::{Interval, NodeList};

/// Cores and memory on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Room {
    /// The cores.
    pub cores: u32,
    /// The memory in MiB.
    pub memory: u32,
}

impl Room {
    /// Returns true if the room is large enough for another one.
    #[must_use]
    pub fn holds(self, other: Room) -> bool {
        self.cores >= other.cores && self.memory >= other.memory
    }

    fn less(self, other: Room) -> Room {
        let cores = self.cores.saturating_sub(other.cores);
        Room { cores, memory: self.memory.saturating_sub(other.memory) }
    }

    fn more(self, other: Room) -> Room {
        let cores = self.cores.saturating_add(other.cores);
        Room { cores, memory: self.memory.saturating_add(other.memory) }
    }
}

/// The cores and memory of a job on all its nodes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Share {
    /// The cores.
    pub cores: NonZeroU32,
    /// The memory in MiB; zero if it is not known.
    pub memory: u32,
}

/// The rooms that a job takes, one on each of its nodes: equal ones, or some with one core more
/// than the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    larger: Room,
    larger_count: u32,
    smaller: Room,
    count: u32,
}

impl Need {
    /// Spreads a share over nodes as evenly as possible, with at least one core on each.
    #[must_use]
    pub fn spread(share: Share, nodes: u32) -> Need {
        let cores = share.cores.get().max(nodes);
        let (each, more) = (cores / nodes.max(1), cores % nodes.max(1));
        let memory = share.memory.div_ceil(nodes.max(1));
        let smaller = Room { cores: each, memory };
        let larger = Room { cores: each + u32::from(more > 0), memory };
        Need { larger, larger_count: more, smaller, count: nodes }
    }

    /// Makes the need of a job with exclusive nodes.
    #[must_use]
    pub fn whole(node: Room, nodes: u32) -> Need {
        Need { larger: node, larger_count: 0, smaller: node, count: nodes }
    }

    /// Returns the cores on all nodes.
    #[must_use]
    pub fn cores(&self) -> u64 {
        let larger = u64::from(self.larger_count);
        larger * u64::from(self.larger.cores)
            + (u64::from(self.count) - larger) * u64::from(self.smaller.cores)
    }

    /// Returns true if this many empty nodes are enough.
    #[must_use]
    pub fn fits_on(&self, node: Room, nodes: u32) -> bool {
        self.count <= nodes && node.holds(self.larger)
    }

    /// Returns each node of a job with the room that the job takes there.
    pub fn on<'a>(&self, nodes: &'a NodeList) -> impl Iterator<Item = (u32, Room)> + use<'a> {
        let Need { larger, larger_count, smaller, .. } = *self;
        let room = move |place| if place < larger_count { larger } else { smaller };
        nodes.iter().zip(0..).map(move |(node, place)| (node, room(place)))
    }
}

/// The free room of each node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rooms {
    node: Room,
    free: Vec<Room>,
    /// Nodes by free cores.
    order: BTreeSet<(u32, u32)>,
    cores: u64,
}

impl Rooms {
    /// Makes the rooms of idle nodes, each of the size `node`.
    #[must_use]
    pub fn new(nodes: u32, node: Room) -> Rooms {
        Rooms {
            node,
            free: vec![node; nodes as usize],
            order: (0..nodes).map(|number| (node.cores, number)).collect(),
            cores: u64::from(nodes) * u64::from(node.cores),
        }
    }

    /// Returns the size of an idle node.
    #[must_use]
    pub fn node(&self) -> Room {
        self.node
    }

    /// Returns the free room of each node.
    #[must_use]
    pub fn free(&self) -> &[Room] {
        &self.free
    }

    /// Returns the free cores of all nodes.
    #[must_use]
    pub fn free_cores(&self) -> u64 {
        self.cores
    }

    /// Returns true if no job is on the node.
    #[must_use]
    pub fn is_idle(&self, node: u32) -> bool {
        self.free.get(node as usize).is_some_and(|free| free.cores == self.node.cores)
    }

    /// Returns nodes with room for a job: those with the fewest free cores, and the lowest of equal
    /// ones. `None` if there are too few.
    #[must_use]
    pub fn place(&self, need: &Need) -> Option<NodeList> {
        if need.cores() > self.cores {
            return None;
        }
        let with = |room: Room| {
            let from = self.order.range((room.cores, 0)..).map(|entry| entry.1);
            from.filter(move |node| self.free[*node as usize].holds(room))
        };
        let larger = need.larger_count as usize;
        let mut nodes: Vec<u32> = with(need.larger).take(larger).collect();
        let chosen: BTreeSet<u32> = nodes.iter().copied().collect();
        let others = with(need.smaller).filter(|node| !chosen.contains(node));
        nodes.extend(others.take(need.count as usize - larger));
        (nodes.len() == need.count as usize).then(|| NodeList::of(&nodes))
    }

    /// Takes the room of a job on its nodes, as [`place`](Self::place) returned them.
    pub(crate) fn take(&mut self, need: &Need, nodes: &NodeList) {
        need.on(nodes).for_each(|(node, room)| self.set(node, |free| free.less(room)));
    }

    /// Gives the room of a job back.
    pub(crate) fn give(&mut self, need: &Need, nodes: &NodeList) {
        need.on(nodes).for_each(|(node, room)| self.set(node, |free| free.more(room)));
    }

    fn set(&mut self, node: u32, change: impl Fn(Room) -> Room) {
        let Some(free) = self.free.get_mut(node as usize) else { return };
        let before = free.cores;
        *free = change(*free);
        self.order.remove(&(before, node));
        self.order.insert((free.cores, node));
        self.cores = self.cores + u64::from(free.cores) - u64::from(before);
    }

    /// Returns the nodes of a list that are idle.
    pub(crate) fn idle_of(&self, nodes: &NodeList) -> Vec<Interval> {
        let idle = nodes.iter().filter(|node| self.is_idle(*node));
        idle.map(|first| Interval { first, count: 1 }).collect()
    }
}

/// The room that is free on each node at a future instant, and the number of nodes with room for a
/// given job.
#[derive(Clone, Debug)]
pub struct Outlook {
    free: Vec<Room>,
    need: Need,
    /// The nodes with room for the larger part, and for the smaller one.
    larger: u32,
    smaller: u32,
}

impl Outlook {
    /// Begins with the room that is free now.
    #[must_use]
    pub fn new(rooms: &Rooms, need: Need) -> Outlook {
        let count = |room| rooms.free.iter().filter(|free| free.holds(room)).count();
        let count = |room| u32::try_from(count(room)).unwrap_or(u32::MAX);
        let (larger, smaller) = (count(need.larger), count(need.smaller));
        Outlook { free: rooms.free.clone(), need, larger, smaller }
    }

    /// Returns true if the job has room.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.larger >= self.need.larger_count && self.smaller >= self.need.count
    }

    /// Adds the room of a job that has ended by then.
    pub fn add(&mut self, need: &Need, nodes: &NodeList) {
        need.on(nodes).for_each(|(node, room)| self.set(node, |free| free.more(room)));
    }

    /// Takes the room of another job if the given job still has room then. Returns false, and takes
    /// nothing, if not.
    pub fn spare(&mut self, need: &Need, nodes: &NodeList) -> bool {
        need.on(nodes).for_each(|(node, room)| self.set(node, |free| free.less(room)));
        let fits = self.fits();
        if !fits {
            self.add(need, nodes);
        }
        fits
    }

    fn set(&mut self, node: u32, change: impl Fn(Room) -> Room) {
        let Some(free) = self.free.get_mut(node as usize) else { return };
        let before = *free;
        *free = change(before);
        for (room, count) in
            [(self.need.larger, &mut self.larger), (self.need.smaller, &mut self.smaller)]
        {
            *count = *count + u32::from(free.holds(room)) - u32::from(before.holds(room));
        }
    }
}
