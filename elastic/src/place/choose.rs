//! Nodes for joiners.

use serde::{Deserialize, Serialize};

use super::{Node, NodeState, Nodes, PlaceError};
use crate::member::NodeId;

/// In which order slots are taken.
#[derive(Debug)]
pub enum Fill<'a> {
    /// The lowest free slot first: nodes fill up one after the other, and as few as possible are
    /// in use. Huber 2021, section 7.2.
    Stack,
    /// One on each node in turn, from where the cursor stands. Cera 2012, section 4.1.
    RoundRobin(&'a mut Cursor),
}

/// Position at which round robin stopped. Kept from one resize to the next, so that many small ones
/// spread as well as a large one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    last: Option<NodeId>,
}

impl Cursor {
    /// Before the first node.
    pub fn new() -> Cursor {
        Cursor::default()
    }

    /// The next of these nodes, which are in ascending order.
    fn next(&mut self, nodes: impl Iterator<Item = NodeId> + Clone) -> Option<NodeId> {
        let mut rest = nodes.clone().filter(|node| Some(*node) > self.last);
        let chosen = rest.next().or_else(|| nodes.clone().next())?;
        self.last = Some(chosen);
        Some(chosen)
    }
}

/// The node of each of `count` joiners, in the order in which they are appended.
///
/// `hosts` names where they may go; empty means all available nodes. No node gets more processes
/// than it has slots, unless `forced`: then the rest goes where fewest share a slot. The cursor
/// moves only if this succeeds.
pub fn place(
    nodes: &Nodes,
    count: u32,
    hosts: &[String],
    fill: Fill<'_>,
    forced: bool,
) -> Result<Vec<NodeId>, PlaceError> {
    let eligible = eligible(nodes, hosts)?;
    let mut free: Vec<(NodeId, u32)> =
        eligible.iter().map(|node| (node.id(), node.free())).collect();
    let room = free.iter().map(|(_, free)| free).sum();
    if eligible.is_empty() || (count > room && !forced) {
        return Err(PlaceError::NoRoom { asked: count, free: room, named: !hosts.is_empty() });
    }
    let (mut chosen, fitting) = (Vec::with_capacity(count as usize), count.min(room));
    match fill {
        Fill::Stack => {
            for (node, free) in free {
                let here = free.min(fitting - chosen.len() as u32);
                chosen.extend(std::iter::repeat_n(node, here as usize));
            }
        }
        Fill::RoundRobin(cursor) => {
            let mut moved = *cursor;
            while (chosen.len() as u32) < fitting {
                let open = free.iter().filter(|(_, free)| *free > 0).map(|(node, _)| *node);
                let Some(node) = moved.next(open) else { break };
                free.iter_mut().filter(|(id, _)| *id == node).for_each(|(_, free)| *free -= 1);
                chosen.push(node);
            }
            *cursor = moved;
        }
    }
    overcommit(&eligible, &mut chosen, count);
    Ok(chosen)
}

/// Fills `chosen` up to `count` with the nodes that have fewest processes for each slot then.
fn overcommit(eligible: &[&Node], chosen: &mut Vec<NodeId>, count: u32) {
    let here = per_node(chosen);
    let mut load: Vec<(u64, u64, NodeId)> = eligible
        .iter()
        .map(|node| {
            let joining =
                here.iter().find(|(id, _)| *id == node.id()).map_or(0, |(_, count)| *count);
            (u64::from(node.processes() + joining), u64::from(node.slots()), node.id())
        })
        .collect();
    while (chosen.len() as u32) < count {
        // Cross-multiplied, so that no rounding decides.
        let lighter = |a: &&mut (u64, u64, NodeId), b: &&mut (u64, u64, NodeId)| {
            ((a.0 + 1) * b.1).cmp(&((b.0 + 1) * a.1)).then(a.2.cmp(&b.2))
        };
        let Some(lightest) = load.iter_mut().min_by(lighter) else { break };
        lightest.0 += 1;
        chosen.push(lightest.2);
    }
}

/// Available nodes, or those of the named hosts, in ascending order.
fn eligible<'a>(nodes: &'a Nodes, hosts: &[String]) -> Result<Vec<&'a Node>, PlaceError> {
    if hosts.is_empty() {
        return Ok(nodes.iter().filter(|node| node.state() == NodeState::Available).collect());
    }
    let mut found = Vec::new();
    for host in hosts {
        let missing = || PlaceError::NoSuchHost { call: "place", host: host.clone() };
        let node = nodes.by_host(host).ok_or_else(missing)?;
        if node.state() != NodeState::Available {
            return Err(PlaceError::NotAvailable { host: host.clone(), state: node.state() });
        }
        found.push(node);
    }
    found.sort_unstable_by_key(|node| node.id());
    found.dedup_by_key(|node| node.id());
    Ok(found)
}

/// Number of processes for each node, in the order in which nodes are first named: one spawn for each, so that each
/// node can be given back by itself. Joiners are appended in this order.
pub fn per_node(chosen: &[NodeId]) -> Vec<(NodeId, u32)> {
    let mut counts: Vec<(NodeId, u32)> = Vec::new();
    for node in chosen {
        match counts.iter_mut().find(|(id, _)| id == node) {
            Some((_, count)) => *count += 1,
            None => counts.push((*node, 1)),
        }
    }
    counts
}
