//! Which rank is on which node, as process managers write it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::PlaceError;
use crate::member::NodeId;

/// More ranks than this are no job but a mistyped number.
const MOST_RANKS: u64 = 1 << 24;

/// Nodes in a row that have as many processes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Block {
    /// The first of them, by its number in the job's allocation.
    pub node: u32,
    /// Number of nodes.
    pub nodes: u32,
    /// Number of processes on each.
    pub processes: u32,
}

/// A mapping vector: blocks of ranks, lowest ranks first. A node may come again.
///
/// ```
/// use elastic::place::Mapping;
/// let mapping = Mapping::of_ranks([0, 1, 2].iter().flat_map(|&node| vec![node; if node < 2 { 8 } else { 4 }]));
/// assert_eq!(mapping.to_string(), "(vector,(0,2,8),(2,1,4))");
/// assert_eq!(mapping.to_string().parse(), Ok(mapping));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[doc(alias = "PMI_process_mapping")]
pub struct Mapping {
    blocks: Vec<Block>,
}

impl Mapping {
    /// The vector of these nodes, one for each rank.
    pub fn of_ranks(nodes: impl IntoIterator<Item = u32>) -> Mapping {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for node in nodes {
            match runs.last_mut() {
                Some((last, processes)) if *last == node => *processes += 1,
                _ => runs.push((node, 1)),
            }
        }
        let mut blocks: Vec<Block> = Vec::new();
        for (node, processes) in runs {
            match blocks.last_mut() {
                Some(block)
                    if block.processes == processes
                        && u64::from(block.node) + u64::from(block.nodes) == u64::from(node) =>
                {
                    block.nodes += 1;
                }
                _ => blocks.push(Block { node, nodes: 1, processes }),
            }
        }
        Mapping { blocks }
    }

    /// Its blocks.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The node of each rank.
    pub fn ranks(&self) -> impl Iterator<Item = u32> + '_ {
        self.blocks.iter().flat_map(|block| {
            let nodes = (0..block.nodes).map(|at| block.node + at);
            nodes.flat_map(|node| std::iter::repeat_n(node, block.processes as usize))
        })
    }

    /// Number of ranks.
    pub fn len(&self) -> u64 {
        let of = |block: &Block| u64::from(block.nodes) * u64::from(block.processes);
        self.blocks.iter().map(of).sum()
    }

    /// Returns true if there are no ranks.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Display for Mapping {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("(vector")?;
        for Block { node, nodes, processes } in &self.blocks {
            write!(to, ",({node},{nodes},{processes})")?;
        }
        to.write_str(")")
    }
}

impl FromStr for Mapping {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Mapping, PlaceError> {
        let mut reader = Reader { text, at: 0 };
        reader.expect("(vector", "a mapping vector begins with (vector")?;
        let mut mapping = Mapping::default();
        while reader.skip(",") {
            let start = reader.at;
            reader.expect("(", "a block begins with (")?;
            let node = reader.number()?;
            reader.expect(",", "a comma and the number of nodes are missing")?;
            let nodes = reader.number()?;
            reader.expect(",", "a comma and the processes on each node are missing")?;
            let processes = reader.number()?;
            reader.expect(")", "a block ends with )")?;
            mapping.blocks.push(Block { node, nodes, processes });
            if node.checked_add(nodes).is_none() || mapping.len() > MOST_RANKS {
                let cause = "that makes more ranks or nodes than can be";
                return Err(PlaceError::BadVector { column: start + 1, cause });
            }
        }
        reader.expect(")", "a comma and a block, or the closing ) is missing")?;
        match reader.at == text.len() {
            true => Ok(mapping),
            false => Err(reader.wrong("nothing may follow")),
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn skip(&mut self, what: &str) -> bool {
        let there = self.text[self.at..].starts_with(what);
        self.at += if there { what.len() } else { 0 };
        there
    }

    fn expect(&mut self, what: &str, cause: &'static str) -> Result<(), PlaceError> {
        if self.skip(what) { Ok(()) } else { Err(self.wrong(cause)) }
    }

    fn number(&mut self) -> Result<u32, PlaceError> {
        let rest = &self.text[self.at..];
        let end = rest.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        let number = rest[..end].parse().map_err(|_| self.wrong("a number is expected"))?;
        self.at += end;
        Ok(number)
    }

    fn wrong(&self, cause: &'static str) -> PlaceError {
        PlaceError::BadVector { column: self.at + 1, cause }
    }
}

impl From<Mapping> for String {
    fn from(mapping: Mapping) -> String {
        mapping.to_string()
    }
}

impl TryFrom<String> for Mapping {
    type Error = PlaceError;

    fn try_from(text: String) -> Result<Mapping, PlaceError> {
        text.parse()
    }
}

/// Which rank is on which node of the system. Process managers number the nodes of a job from 0 in
/// their own order and expect that to be the order of the system's numbers. After a job has grown
/// onto nodes with lower numbers it is not; the order kept here makes the same vectors right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobMap {
    /// The nodes of the job: at position `i` the one whose number in the allocation is `i`.
    pub nodes: Vec<NodeId>,
    /// Which rank is on which of them.
    pub mapping: Mapping,
}

impl JobMap {
    /// The node of each rank, in order of ranks. Fails if the vector names a node that is not there.
    pub fn node_of_ranks(&self) -> Result<Vec<NodeId>, PlaceError> {
        let node = |index: u32| self.nodes.get(index as usize).copied();
        let missing = |index| PlaceError::NoSuchNode { call: "node_of_ranks", node: NodeId(index) };
        self.mapping.ranks().map(|index| node(index).ok_or_else(|| missing(index))).collect()
    }

    /// For the job's nodes in order of the system's numbers, their numbers in the allocation:
    /// `2,3,0,1` for a job that began on nodes 4 and 5 and grew onto 2 and 3.
    pub fn order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.nodes.len() as u32).collect();
        order.sort_by_key(|&index| self.nodes[index as usize]);
        order
    }
}

/// The maps of one resize: three where somebody joins, two where not. All number nodes alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maps {
    /// The ranks before it.
    pub before: JobMap,
    /// Joiners, ranked among themselves; `None` if there are none.
    pub joining: Option<JobMap>,
    /// The ranks after it.
    pub after: JobMap,
}

impl Maps {
    /// The maps of a resize of ranks on the nodes `before`: those for whom `leaves` holds leave, and
    /// one is appended on each node of `joining`.
    pub fn of(before: &[NodeId], leaves: impl Fn(usize) -> bool, joining: &[NodeId]) -> Maps {
        let mut nodes: Vec<NodeId> = Vec::new();
        for node in before.iter().chain(joining) {
            if !nodes.contains(node) {
                nodes.push(*node);
            }
        }
        let stay = before.iter().enumerate().filter(|(rank, _)| !leaves(*rank));
        let after: Vec<NodeId> =
            stay.map(|(_, node)| *node).chain(joining.iter().copied()).collect();
        let map = |ranks: &[NodeId]| {
            let index =
                |node: &NodeId| nodes.iter().position(|one| one == node).unwrap_or(0) as u32;
            let mapping = Mapping::of_ranks(ranks.iter().map(index));
            JobMap { nodes: nodes.clone(), mapping }
        };
        Maps {
            before: map(before),
            joining: (!joining.is_empty()).then(|| map(joining)),
            after: map(&after),
        }
    }
}
