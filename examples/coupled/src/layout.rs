//! Which rank is where: nodes, and the order of blocks.

use anyhow::Result;
use mpi::collective::SystemOperation;
use mpi::datatype::PartitionMut;
use mpi::topology::{Color, SimpleCommunicator};
use mpi::traits::{Communicator, CommunicatorCollectives, Root};
use quo::CpuSet;

use crate::timeline::own_mask;

/// The ranks in an order in which those of a node are consecutive, so that the blocks of a node's
/// ranks are contiguous rows.
pub struct Layout {
    pub ranks: SimpleCommunicator,
    pub node: SimpleCommunicator,
    pub nodes: usize,
    /// Which node this rank is on.
    pub node_index: usize,
    /// CPUs the ranks of this node could use at the start, by node rank.
    pub masks: Vec<CpuSet>,
    /// CPUs all ranks can use together, summed over nodes.
    pub cpus: usize,
}

impl Layout {
    /// With the nodes that MPI sees. Collective over `world`.
    pub fn new<C: Communicator>(world: &C) -> Layout {
        Self::over(world, world.split_shared(world.rank()))
    }

    /// With nodes by their numbers, `node` being this rank's. Collective over `world`.
    ///
    /// Open MPI 4 does not see that ranks that were started later are on the same node.
    pub fn on_nodes<C: Communicator>(world: &C, node: usize) -> Layout {
        let color = Color::with_value(i32::try_from(node).unwrap_or(i32::MAX));
        let node = world.split_by_color_with_key(color, world.rank());
        Self::over(world, node.unwrap_or_else(|| world.duplicate()))
    }

    fn over<C: Communicator>(world: &C, node: SimpleCommunicator) -> Layout {
        let mut head = world.rank();
        node.process_at_rank(0).broadcast_into(&mut head);
        let mut heads = vec![0; size(world)];
        world.all_gather_into(&head, &mut heads[..]);
        heads.sort_unstable();
        heads.dedup();
        let node_index = heads.binary_search(&head).unwrap_or(0);

        // Ranks on earlier nodes come first, then the ranks of this node.
        let mut index_of = vec![0; size(world)];
        world.all_gather_into(&(node_index as i32), &mut index_of[..]);
        let before = index_of.iter().filter(|index| **index < node_index as i32).count();
        let key = before as i32 + node.rank();
        let ranks = world
            .split_by_color_with_key(Color::with_value(0), key)
            .unwrap_or_else(|| world.duplicate());

        let masks = gather_masks(&node);
        let usable = masks.iter().fold(CpuSet::new(), |all, mask| all.union(mask)).len();
        let own = if node.rank() == 0 { usable } else { 0 };
        let mut layout = Layout { ranks, node, nodes: heads.len(), node_index, masks, cpus: 0 };
        layout.cpus = layout.total(own);
        layout
    }

    /// This rank's number and how many there are, in the order of blocks.
    pub fn rank(&self) -> usize {
        rank(&self.ranks)
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        size(&self.ranks)
    }

    /// This rank's number on its node.
    pub fn node_rank(&self) -> usize {
        rank(&self.node)
    }

    /// Number of ranks of its node.
    pub fn node_size(&self) -> usize {
        size(&self.node)
    }

    /// The sum of all ranks' numbers. Collective.
    pub fn total(&self, own: usize) -> usize {
        let mut sum = 0_u64;
        self.ranks.all_reduce_into(&(own as u64), &mut sum, SystemOperation::sum());
        sum as usize
    }

    /// A communicator of the ranks that say `member`, in the order of blocks. Collective.
    pub fn among(&self, member: bool) -> Option<SimpleCommunicator> {
        let color = if member { Color::with_value(0) } else { Color::undefined() };
        self.ranks.split_by_color_with_key(color, self.ranks.rank())
    }
}

/// The rank in `communicator` as an index.
pub fn rank<C: Communicator>(communicator: &C) -> usize {
    usize::try_from(communicator.rank()).unwrap_or(0)
}

/// The size of `communicator` as a length.
pub fn size<C: Communicator>(communicator: &C) -> usize {
    usize::try_from(communicator.size()).unwrap_or(1)
}

/// Gathers the bytes of all ranks, by rank. Collective.
pub fn gather_bytes(communicator: &SimpleCommunicator, mine: &[u8]) -> Vec<Vec<u8>> {
    let length = i32::try_from(mine.len()).unwrap_or(i32::MAX);
    let mut lengths = vec![0_i32; size(communicator)];
    communicator.all_gather_into(&length, &mut lengths[..]);
    let offsets = offsets(&lengths);
    let mut all = vec![0_u8; lengths.iter().map(|length| *length as usize).sum()];
    let mut parts = PartitionMut::new(&mut all[..], &lengths[..], &offsets[..]);
    communicator.all_gather_varcount_into(&mine[..length as usize], &mut parts);
    let part =
        |(start, length): (&i32, &i32)| all[*start as usize..(*start + *length) as usize].to_vec();
    offsets.iter().zip(&lengths).map(part).collect()
}

/// A failure that another rank reports.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("rank {rank} failed")]
pub struct Elsewhere {
    rank: usize,
}

/// Fails on all ranks if `result` is an error on any: with its own error on the failing ranks, with
/// [`Elsewhere`] on the others. Collective.
///
/// # Errors
/// See above.
pub fn agree<T>(ranks: &SimpleCommunicator, result: Result<T>) -> Result<T> {
    match (first_rank(ranks, result.is_err()), result) {
        (Some(rank), Ok(_)) => Err(Elsewhere { rank }.into()),
        (_, result) => result,
    }
}

/// The first rank for which `condition` holds. Collective.
pub fn first_rank(ranks: &SimpleCommunicator, condition: bool) -> Option<usize> {
    // Signed: some MPIs compare unsigned numbers as signed ones.
    let mine = if condition { rank(ranks) as i64 } else { i64::MAX };
    let mut first = i64::MAX;
    ranks.all_reduce_into(&mine, &mut first, SystemOperation::min());
    usize::try_from(first).ok().filter(|_| first != i64::MAX)
}

/// Beginning of each part when parts of these lengths follow each other.
pub fn offsets(lengths: &[i32]) -> Vec<i32> {
    let mut next = 0;
    let start = |length: &i32| {
        let start = next;
        next += length;
        start
    };
    lengths.iter().map(start).collect()
}

fn gather_masks(node: &SimpleCommunicator) -> Vec<CpuSet> {
    gather_bytes(node, own_mask().to_string().as_bytes())
        .iter()
        .map(|text| String::from_utf8_lossy(text).parse().unwrap_or_default())
        .collect()
}
