//! Groups of local processes without MPI, for programs that fork and for tests.
//!
//! The parent makes a [`LocalSpace`] before it forks; each child joins with its rank. Everything
//! goes through one node segment, so a child that dies is noticed by the others.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{Group, GroupError, Patience, allgather_bytes};
use crate::node::{CreatedSegment, Node, NodeError, NodeOptions, SegmentName};

/// The bytes one rank passes on in one step of a gather; longer records take several steps.
const CHUNK: usize = 1_024;
/// How long to wait for processes that were to join and may have died before.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

/// The meeting place of a group of local processes, made before they are forked.
///
/// Nothing is left behind when it is dropped, in whichever process.
///
/// ```no_run
/// use quo::group::{Group, local::LocalSpace};
/// let space = LocalSpace::new(2, "/dev/shm".as_ref())?;
/// // fork twice; then, in child `rank`:
/// # let rank = 0;
/// let group = space.join(rank)?;
/// assert_eq!(group.size(), 2);
/// # Ok::<(), quo::group::GroupError>(())
/// ```
#[derive(Debug)]
pub struct LocalSpace {
    name: SegmentName,
    directory: PathBuf,
    size: usize,
    nodes: Vec<u64>,
    // Unlinks the segment when the space is dropped.
    _segment: CreatedSegment,
}

impl LocalSpace {
    /// A meeting place for `size` processes, with its segment in `directory`.
    ///
    /// # Errors
    /// [`GroupError::Node`] when the segment cannot be made.
    pub fn new(size: usize, directory: &Path) -> Result<Self, GroupError> {
        let name = SegmentName::random().map_err(failed("local group"))?;
        let segment = make_segment(&name, directory, size)?;
        Ok(Self {
            name,
            directory: directory.to_owned(),
            size,
            nodes: vec![0; size],
            _segment: segment,
        })
    }

    /// Plays a machine of several nodes: rank `i` counts as being on node `nodes[i]`.
    #[must_use]
    pub fn with_nodes(mut self, nodes: &[u64]) -> Self {
        self.nodes = nodes.to_vec();
        self.nodes.resize(self.size, 0);
        self
    }

    /// Joins as `rank`. Each process joins once, as a rank of its own; returns when all have.
    ///
    /// # Errors
    /// [`GroupError::Node`] for a rank out of range or taken, [`GroupError::Dead`] when another
    /// process ended after joining, [`GroupError::Late`] when not all have joined in a minute.
    pub fn join(&self, rank: usize) -> Result<LocalGroup, GroupError> {
        let hint = self.nodes.get(rank).copied().unwrap_or(0);
        let group = LocalGroup::attach(&self.name, &self.directory, rank, hint)?;
        group.node.barrier_timeout(JOIN_TIMEOUT).map_err(failed("local group"))?;
        Ok(group)
    }
}

fn make_segment(
    name: &SegmentName,
    directory: &Path,
    size: usize,
) -> Result<CreatedSegment, GroupError> {
    let options = NodeOptions {
        exchange_bytes: CHUNK,
        directory: directory.to_owned(),
        ..NodeOptions::new(size)
    };
    Node::create(name, &options).map_err(failed("local group"))
}

/// One process's place in a group of local processes.
#[derive(Debug)]
pub struct LocalGroup {
    node: Node,
    rank: usize,
    size: usize,
    directory: PathBuf,
    hint: u64,
}

impl LocalGroup {
    fn attach(
        name: &SegmentName,
        directory: &Path,
        rank: usize,
        hint: u64,
    ) -> Result<Self, GroupError> {
        let node = Node::attach(name, directory, rank).map_err(failed("local group"))?;
        let size = node.members();
        Ok(Self { node, rank, size, directory: directory.to_owned(), hint })
    }

    fn step(
        &self,
        chunk: &[u8],
        patience: &Patience<'_>,
        each: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), GroupError> {
        const CALL: &str = "gather";
        (patience.watch)()?;
        if let Some(deadline) = patience.deadline {
            // The exchange itself has no timeout; once all are here it needs none.
            let limit = deadline.saturating_duration_since(Instant::now());
            self.node.barrier_timeout(limit).map_err(failed(CALL))?;
        }
        let all = self.node.exchange(chunk).map_err(failed(CALL))?;
        for rank in 0..self.size {
            let record = all.of(rank).filter(|record| record.len() == chunk.len());
            each(
                rank,
                record.ok_or(GroupError::Unsuitable {
                    call: CALL,
                    reason: "the ranks gave records of different lengths",
                })?,
            );
        }
        Ok(())
    }
}

fn failed(call: &'static str) -> impl Fn(NodeError) -> GroupError {
    move |error| match error {
        NodeError::DeadMember { members, .. } => GroupError::Dead { call, ranks: members },
        NodeError::TimedOut => GroupError::Late { call },
        error => GroupError::Node { call, text: error.to_string() },
    }
}

impl Group for LocalGroup {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn allgather(&self, mine: &[u8], patience: &Patience<'_>) -> Result<Vec<u8>, GroupError> {
        let length = mine.len();
        let mut all = vec![0; length * self.size];
        for start in (0..length).step_by(CHUNK) {
            let end = length.min(start + CHUNK);
            self.step(&mine[start..end], patience, &mut |rank, record| {
                all[rank * length + start..rank * length + end].copy_from_slice(record);
            })?;
        }
        Ok(all)
    }

    fn barrier(&self) -> Result<(), GroupError> {
        self.node.barrier().map_err(failed("barrier"))
    }

    fn split(&self, colour: Option<u32>, key: usize) -> Result<Option<Box<dyn Group>>, GroupError> {
        const CALL: &str = "split";
        let patience = Patience { deadline: None, watch: &|| Ok(()) };
        // Everyone learns everyone's colour and key; the first of a colour makes its segment.
        let mut mine = [0_u8; 16];
        let code = colour.map_or(u64::MAX, u64::from);
        mine[..8].copy_from_slice(&code.to_ne_bytes());
        mine[8..].copy_from_slice(&(key as u64).to_ne_bytes());
        let all = self.allgather(&mine, &patience)?;
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        let mut part: Vec<(u64, usize)> = all
            .chunks_exact(16)
            .enumerate()
            .filter(|(_, record)| code != u64::MAX && number(&record[..8]) == code)
            .map(|(rank, record)| (number(&record[8..]), rank))
            .collect();
        part.sort_unstable();
        let leads = part.first().is_some_and(|&(_, rank)| rank == self.rank);
        let made = if leads {
            SegmentName::random()
                .map_err(failed(CALL))
                .and_then(|name| Ok((make_segment(&name, &self.directory, part.len())?, name)))
                .map(Some)
        } else {
            Ok(None)
        };
        // An empty name tells the others that the leader failed, so that nobody waits for it.
        let text = match &made {
            Ok(Some((_, name))) => name.to_string(),
            _ => String::new(),
        };
        let names = allgather_bytes(self, text.as_bytes(), &patience)?;
        let attached = part.first().map(|&(_, leader)| {
            let name: SegmentName =
                String::from_utf8_lossy(&names[leader]).parse().map_err(failed(CALL))?;
            let rank = part.iter().position(|&(_, rank)| rank == self.rank).unwrap_or(0);
            Self::attach(&name, &self.directory, rank, self.hint)
        });
        // All succeed or all fail; and the names are needed until all have attached.
        let good = made.is_ok() && !matches!(attached, Some(Err(_)));
        let verdicts = self.allgather(&[u8::from(good)], &patience)?;
        drop(made?);
        if let Some(rank) = verdicts.iter().position(|&good| good == 0) {
            let group = attached.transpose()?;
            drop(group);
            return Err(GroupError::Node { call: CALL, text: format!("rank {rank} failed") });
        }
        let group = attached.transpose()?;
        Ok(group.map(|group| Box::new(group) as Box<dyn Group>))
    }

    fn node_hint(&self) -> u64 {
        self.hint
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
