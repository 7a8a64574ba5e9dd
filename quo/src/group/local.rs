//! Groups of local processes without MPI, for programs that fork and for tests.
//!
//! The parent makes a [`LocalSpace`] before it forks; each child joins with its rank. All
//! communication uses one node segment, so the other processes notice the death of a child.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{Group, GroupError, WaitLimits};
use crate::node::{CreatedSegment, Node, NodeError, NodeOptions, SegmentName};

/// Bytes that one rank sends in one step of a gather; longer records take several steps.
const CHUNK: usize = 1_024;
/// Time to wait for processes that are expected to join and may have died before.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Interval between two checks of the other processes: at first, and at most.
const FIRST_SLICE: Duration = Duration::from_millis(120);
const LAST_SLICE: Duration = Duration::from_secs(2);
/// Interval between two checks for a meeting place that does not exist yet.
const NAP: Duration = Duration::from_micros(200);

/// Meeting place of a group of local processes, made before they are forked.
///
/// No file is left behind when it is dropped, in whichever process.
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
    /// Makes a meeting place for `size` processes, with its segment in `directory`.
    ///
    /// # Errors
    /// [`GroupError::Node`] if the segment cannot be created.
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

    /// Simulates a machine of several nodes: rank `i` counts as being on node `nodes[i]`.
    #[must_use]
    pub fn with_nodes(mut self, nodes: &[u64]) -> Self {
        self.nodes = nodes.to_vec();
        self.nodes.resize(self.size, 0);
        self
    }

    /// Joins as `rank`. Each process joins once, with its own rank; returns when all have joined.
    ///
    /// # Errors
    /// [`GroupError::Node`] for a rank out of range or taken, [`GroupError::Dead`] if
    /// another process ended after joining, [`GroupError::Late`] if not all have joined within a
    /// minute.
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

/// Bytes that a rank sends to the others in a split: colour, key and secret.
const RECORD: usize = 32;

/// Removes a segment's name on drop, whichever process made the segment, if any did.
struct Removed<'a> {
    name: &'a SegmentName,
    directory: &'a Path,
}

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        Node::unlink(self.name, self.directory);
    }
}

/// Reason why a wait for the other ranks ended.
enum Stop {
    Node(NodeError),
    Watch(GroupError),
}

/// Membership of a process in a group of local processes.
#[derive(Debug)]
pub struct LocalGroup {
    node: Node,
    rank: usize,
    size: usize,
    directory: PathBuf,
    hint: u64,
}

impl LocalGroup {
    /// Meets other processes of this user under an agreed name: for processes that were not forked
    /// for this group, such as those that join a running program. Rank 0 makes the meeting place,
    /// the others wait for it; returns when all `size` processes have arrived. A name can be used
    /// only once.
    ///
    /// ```
    /// use quo::group::{Group, LocalGroup};
    /// use quo::node::SegmentName;
    /// let name = SegmentName::random()?; // to be told as a text
    /// # let directory = tempfile::tempdir()?;
    /// # let directory = directory.path();
    /// let group = LocalGroup::meet(&name, directory, 0, 1)?;
    /// assert_eq!((group.rank(), group.size()), (0, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`LocalSpace::join`].
    pub fn meet(
        name: &SegmentName,
        directory: &Path,
        rank: usize,
        size: usize,
    ) -> Result<Self, GroupError> {
        const CALL: &str = "local group";
        let deadline = Instant::now() + JOIN_TIMEOUT;
        // Removed by the process that made it, and once all have attached by every process.
        let segment = if rank == 0 { Some(make_segment(name, directory, size)?) } else { None };
        let group = loop {
            match Node::attach(name, directory, rank) {
                Ok(node) => {
                    break Self { node, rank, size, directory: directory.to_owned(), hint: 0 };
                }
                // Does not exist yet, or is not complete yet.
                Err(
                    NodeError::System { .. }
                    | NodeError::Refused { .. }
                    | NodeError::Damaged { .. },
                ) if rank != 0 && Instant::now() < deadline => std::thread::sleep(NAP),
                Err(error) => return Err(failed(CALL)(error)),
            }
        };
        let met = group.node.barrier_timeout(JOIN_TIMEOUT).map_err(failed(CALL));
        if segment.is_none() {
            Node::unlink(name, directory);
        }
        met.map(|()| group)
    }

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

    /// Waits for all ranks. If one rank gives up to check its peers, all do, and all try again.
    fn gather_until(&self, deadline: Instant, limits: &WaitLimits<'_>) -> Result<(), Stop> {
        let mut slice = FIRST_SLICE;
        loop {
            let limit = deadline.saturating_duration_since(Instant::now());
            match self.node.barrier_timeout(limit.min(slice)) {
                Err(NodeError::TimedOut) if Instant::now() < deadline => {}
                result => return result.map_err(Stop::Node),
            }
            (limits.check_peers)().map_err(Stop::Watch)?;
            slice = (2 * slice).min(LAST_SLICE);
        }
    }

    fn step(
        &self,
        chunk: &[u8],
        limits: &WaitLimits<'_>,
        each: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), GroupError> {
        const CALL: &str = "gather";
        (limits.check_peers)()?;
        if let Some(deadline) = limits.deadline {
            // The exchange itself has no timeout; once all ranks are present it needs none.
            self.gather_until(deadline, limits).map_err(|error| match error {
                Stop::Node(error) => failed(CALL)(error),
                Stop::Watch(error) => error,
            })?;
        }
        let all = self.node.exchange(chunk).map_err(failed(CALL))?;
        for rank in 0..self.size {
            let record = all.of(rank).filter(|record| record.len() == chunk.len());
            each(
                rank,
                record.ok_or(GroupError::Unsuitable {
                    call: CALL,
                    reason: "the ranks gave records of different lengths".into(),
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

    fn allgather(&self, mine: &[u8], limits: &WaitLimits<'_>) -> Result<Vec<u8>, GroupError> {
        let length = mine.len();
        let mut all = vec![0; length * self.size];
        for start in (0..length).step_by(CHUNK) {
            let end = length.min(start + CHUNK);
            self.step(&mine[start..end], limits, &mut |rank, record| {
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
        let limits = WaitLimits { deadline: None, check_peers: &|| Ok(()) };
        // Each rank gets the colour, key and secret of all; the first rank of a colour makes its
        // segment, under a name derived from its secret, so that all can remove it if that rank
        // dies.
        let own = SegmentName::random().map_err(failed(CALL));
        let mut mine = [0_u8; RECORD];
        let code = colour.map_or(u64::MAX, u64::from);
        mine[..8].copy_from_slice(&code.to_ne_bytes());
        mine[8..16].copy_from_slice(&(key as u64).to_ne_bytes());
        if let Ok(own) = &own {
            mine[16..].copy_from_slice(own.secret());
        }
        let all = self.allgather(&mine, &limits)?;
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        let mut part: Vec<(u64, usize)> = all
            .chunks_exact(RECORD)
            .enumerate()
            .filter(|(_, record)| code != u64::MAX && number(&record[..8]) == code)
            .map(|(rank, record)| (number(&record[8..16]), rank))
            .collect();
        part.sort_unstable();
        let leader = part.first().map(|&(_, rank)| rank);
        let name = leader.and_then(|leader| {
            let secret = all.chunks_exact(RECORD).nth(leader)?.get(16..)?;
            Some(SegmentName::from_secret(secret.try_into().ok()?))
        });
        let made = match (&name, own) {
            (Some(name), Ok(_)) if leader == Some(self.rank) => {
                make_segment(name, &self.directory, part.len()).map(Some)
            }
            (_, own) => own.map(|_| None),
        };
        // Removed by every rank, and not before the last has attached.
        let _removed = name.as_ref().map(|name| Removed { name, directory: &self.directory });
        let ready = self.allgather(&[u8::from(made.is_ok())], &limits)?;
        let leader_failed = leader.is_some_and(|leader| ready[leader] == 0);
        let attached = name.as_ref().filter(|_| !leader_failed).map(|name| {
            let rank = part.iter().position(|&(_, rank)| rank == self.rank).unwrap_or(0);
            Self::attach(name, &self.directory, rank, self.hint)
        });
        // All succeed or all fail.
        let good = made.is_ok() && !leader_failed && !matches!(attached, Some(Err(_)));
        let verdicts = self.allgather(&[u8::from(good)], &limits)?;
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
