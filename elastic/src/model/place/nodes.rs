//! The nodes of a job, their slots, and the processes in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::PlaceError;
use crate::model::member::{MemberId, NodeId, UnitId};

/// State of a node for the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// Known, but not assigned to the job, or not known to be reachable.
    Candidate,
    /// The job may start processes there.
    Available,
    /// The node has to be given back: it gets no new processes, and its processes leave.
    Leaving,
    /// Given back or lost. If the host returns it counts as another node.
    Gone,
}

impl fmt::Display for NodeState {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            NodeState::Candidate => "a candidate",
            NodeState::Available => "available",
            NodeState::Leaving => "leaving",
            NodeState::Gone => "gone",
        })
    }
}

/// A process and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// The process.
    pub member: MemberId,
    /// Node of the process.
    pub node: NodeId,
    /// Unit that the process leaves with.
    pub unit: UnitId,
    /// True if the process can never leave: with some MPIs, processes on the nodes that the job was
    /// launched on.
    pub rigid: bool,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    id: NodeId,
    host: String,
    slots: u32,
    state: NodeState,
    /// Processes by slot; processes beyond the number of slots follow.
    seats: Vec<Option<Seat>>,
}

impl Node {
    /// Number of the node, which is its position in the order of slots.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Name of the host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Number of processes that the node takes without sharing a core: one for each core.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// State of the node for the job.
    pub fn state(&self) -> NodeState {
        self.state
    }

    /// Processes on the node, in order of slots.
    pub fn seats(&self) -> impl Iterator<Item = &Seat> {
        self.seats.iter().flatten()
    }

    /// Number of processes on the node.
    pub fn processes(&self) -> u32 {
        self.seats().count() as u32
    }

    /// Number of processes that can be added without sharing a core.
    pub fn free(&self) -> u32 {
        let slots = self.seats.iter().take(self.slots as usize);
        slots.filter(|seat| seat.is_none()).count() as u32
    }
}

/// All nodes that a job has or had, in the order in which it learned of them. Slots are numbered
/// node by node in that order.
///
/// ```
/// use elastic::place::{NodeState, Nodes};
/// let mut nodes = Nodes::new();
/// let first = nodes.add("n1", 4, NodeState::Available).unwrap();
/// let second = nodes.add("n2", 4, NodeState::Candidate).unwrap();
/// assert_eq!(nodes.free(), 4);
/// nodes.set_state(second, NodeState::Available).unwrap();
/// assert_eq!(nodes.free(), 8);
/// assert!(nodes.set_state(first, NodeState::Candidate).is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nodes {
    nodes: Vec<Node>,
}

impl Nodes {
    /// Returns an empty list.
    pub fn new() -> Nodes {
        Nodes::default()
    }

    /// Adds a node. Its host must not be that of another node, unless that node is gone.
    ///
    /// # Errors
    /// [`PlaceError::HostListed`] for a host in use; [`PlaceError::NoSlots`] for 0 slots.
    pub fn add(
        &mut self,
        host: impl Into<String>,
        slots: u32,
        state: NodeState,
    ) -> Result<NodeId, PlaceError> {
        let host = host.into();
        if let Some(listed) = self.by_host(&host) {
            return Err(PlaceError::HostListed { host, node: listed.id });
        }
        if slots == 0 {
            return Err(PlaceError::NoSlots { host });
        }
        let id = NodeId(self.nodes.len() as u32);
        let seats = vec![None; slots as usize];
        self.nodes.push(Node { id, host, slots, state, seats });
        Ok(id)
    }

    /// All nodes, including gone ones.
    pub fn iter(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter()
    }

    /// Returns the node with this number.
    pub fn get(&self, node: NodeId) -> Option<&Node> {
        self.nodes.get(node.0 as usize)
    }

    /// Returns the node of this host that is not gone.
    pub fn by_host(&self, host: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.host == host && node.state != NodeState::Gone)
    }

    /// Number of free slots on available nodes.
    pub fn free(&self) -> u32 {
        let available = self.nodes.iter().filter(|node| node.state == NodeState::Available);
        available.map(Node::free).sum()
    }

    /// Returns the place of a process.
    pub fn seat(&self, member: MemberId) -> Option<&Seat> {
        self.nodes.iter().flat_map(Node::seats).find(|seat| seat.member == member)
    }

    /// Returns the number of a process's slot, counted node by node; `None` if the process is on no
    /// node, or beyond the slots of its node.
    pub fn slot(&self, member: MemberId) -> Option<u64> {
        let seat = self.seat(member)?;
        let before: u64 =
            self.nodes[..seat.node.0 as usize].iter().map(|node| u64::from(node.slots)).sum();
        let node = self.get(seat.node)?;
        let here = |seat: &Option<Seat>| seat.is_some_and(|seat| seat.member == member);
        let at = node.seats.iter().position(here).filter(|at| *at < node.slots as usize)?;
        Some(before + at as u64)
    }

    /// Changes the state of a node: from candidate to available, from available to leaving, from
    /// leaving to gone or, if the resize was aborted, back to available. A node becomes gone only
    /// once it is empty.
    ///
    /// # Errors
    /// [`PlaceError::NoSuchNode`]; [`PlaceError::State`] for any other change of state, or a node
    /// with processes that is to be gone.
    pub fn set_state(&mut self, node: NodeId, to: NodeState) -> Result<(), PlaceError> {
        use NodeState::{Available, Candidate, Gone, Leaving};
        let missing = PlaceError::NoSuchNode { call: "set_state", node };
        let found = self.nodes.get_mut(node.0 as usize).ok_or(missing)?;
        let legal = match (found.state, to) {
            (from, to) if from == to => true,
            (Candidate, Available | Gone) => true,
            (Available, Leaving | Gone) => true,
            (Leaving, Available | Gone) => true,
            _ => false,
        };
        let occupied = legal && to == Gone && found.processes() > 0;
        if !legal || occupied {
            let (host, from) = (found.host.clone(), found.state);
            return Err(PlaceError::State { node, host, from, to, occupied });
        }
        found.state = to;
        Ok(())
    }

    /// Records that these processes have joined, each in the lowest free slot of its node, or after
    /// the last slot if all are taken: the caller has decided that this is wanted.
    ///
    /// # Errors
    /// [`PlaceError::NoSuchNode`]; [`PlaceError::Placed`] for a process that is on a node already.
    /// Then no process has joined.
    pub fn occupy(&mut self, seats: &[Seat]) -> Result<(), PlaceError> {
        let mut taken = self.by_member();
        for seat in seats {
            if self.get(seat.node).is_none() {
                return Err(PlaceError::NoSuchNode { call: "occupy", node: seat.node });
            }
            if let Some(other) = taken.insert(seat.member, *seat) {
                return Err(PlaceError::Placed { member: seat.member, node: other.node });
            }
        }
        for seat in seats {
            let node = &mut self.nodes[seat.node.0 as usize];
            match node.seats.iter().position(Option::is_none) {
                Some(free) => node.seats[free] = Some(*seat),
                None => node.seats.push(Some(*seat)),
            }
        }
        Ok(())
    }

    /// Records that these processes have left. Returns the nodes that have become empty.
    ///
    /// # Errors
    /// [`PlaceError::Unplaced`] for a process that is on no node. Then no process has left.
    pub fn vacate(&mut self, members: &[MemberId]) -> Result<Vec<NodeId>, PlaceError> {
        let seats = self.by_member();
        let mut touched = BTreeSet::new();
        for &member in members {
            let unplaced = PlaceError::Unplaced { call: "vacate", member };
            touched.insert(seats.get(&member).ok_or(unplaced)?.node);
        }
        let leaving: BTreeSet<&MemberId> = members.iter().collect();
        for node in &mut self.nodes {
            for seat in &mut node.seats {
                if seat.is_some_and(|seat| leaving.contains(&seat.member)) {
                    *seat = None;
                }
            }
            let slots = node.slots as usize;
            while node.seats.len() > slots && node.seats.last() == Some(&None) {
                node.seats.pop();
            }
        }
        let empty = |node: &NodeId| self.nodes[node.0 as usize].processes() == 0;
        Ok(touched.into_iter().filter(empty).collect())
    }

    /// Returns all seats by member, for repeated lookups.
    pub(super) fn by_member(&self) -> BTreeMap<MemberId, Seat> {
        self.nodes.iter().flat_map(Node::seats).map(|seat| (seat.member, *seat)).collect()
    }
}
