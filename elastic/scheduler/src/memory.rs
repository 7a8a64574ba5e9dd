//! The memory that a job needs on fewer nodes, from the bytes that were measured of its ranks.

use serde::{Deserialize, Serialize};

/// The memory of a job's ranks: a part that each rank has, and data that are divided among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footprint {
    /// The number of ranks at the measurement.
    pub ranks: u32,
    /// The bytes of a rank that do not depend on the number of ranks.
    pub fixed: u64,
    /// The bytes of all ranks together that are divided among them.
    pub divided: u64,
}

/// One node of a job, in the order in which nodes are kept: the last one leaves first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRoom {
    /// The ranks there, which stay if the node does.
    pub ranks: u32,
    /// The bytes that are free there, beside what the ranks hold.
    pub free: u64,
}

/// A shrink for which a node has too little memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a shrink to {nodes} nodes does not fit on node {node}: {ranks} ranks with {} of old and {} of new data each \
     need {} there, and have {} ({} free)",
    bytes(*.old), bytes(*.new), bytes(*.needed), bytes(*.available), bytes(*.free)
)]
pub struct TooLittleMemory {
    /// The nodes after the shrink.
    pub nodes: u32,
    /// The place of the node that has too little.
    pub node: usize,
    /// The ranks there.
    pub ranks: u32,
    /// The bytes that a rank holds before.
    pub old: u64,
    /// The bytes of data that a rank has afterwards, beside the old ones while they move.
    pub new: u64,
    /// The sum of both over the ranks of the node.
    pub needed: u64,
    /// The bytes that the ranks hold and those that are free.
    pub available: u64,
    /// The bytes that are free.
    pub free: u64,
}

impl Footprint {
    /// Takes all that was measured of a rank as divided, which overestimates what fewer ranks need.
    #[must_use]
    pub fn measured(ranks: u32, bytes_per_rank: u64) -> Footprint {
        let divided = bytes_per_rank.saturating_mul(u64::from(ranks));
        Footprint { ranks, fixed: 0, divided }
    }

    /// Tells the fixed part from the divided one by measurements on two sizes, of which the second one counts. None if
    /// ranks do not get smaller where there are more of them.
    #[must_use]
    pub fn of_two(before: (u32, u64), now: (u32, u64)) -> Option<Footprint> {
        let ((fewer, larger), (more, smaller)) =
            if before.0 < now.0 { (before, now) } else { (now, before) };
        let difference = u128::from(larger.checked_sub(smaller)?);
        let apart = u128::from(more.checked_sub(fewer).filter(|apart| *apart > 0 && fewer > 0)?);
        // larger - smaller = divided / fewer - divided / more
        let divided =
            (difference * u128::from(fewer)).checked_mul(u128::from(more))?.div_ceil(apart);
        let divided = u64::try_from(divided).ok()?;
        let fixed = now.1.saturating_sub(divided.div_ceil(u64::from(now.0)));
        Some(Footprint { ranks: now.0, fixed, divided })
    }

    /// Returns the bytes of data of each of so many ranks.
    fn share(&self, ranks: u32) -> u64 {
        self.divided.div_ceil(u64::from(ranks.max(1)))
    }

    /// Checks that the first `to` nodes have room for their new data beside the old ones.
    ///
    /// # Errors
    /// [`TooLittleMemory`] of the first node that has too little, with the sum.
    pub fn check_shrink(&self, nodes: &[NodeRoom], to: u32) -> Result<(), TooLittleMemory> {
        let kept = &nodes[..nodes.len().min(to as usize)];
        let ranks = kept.iter().fold(0_u32, |sum, node| sum.saturating_add(node.ranks));
        if kept.len() == nodes.len() {
            return Ok(());
        }
        let old = self.fixed.saturating_add(self.share(self.ranks));
        let new = self.share(ranks);
        for (node, room) in kept.iter().enumerate() {
            let here = u64::from(room.ranks);
            let held = old.saturating_mul(here);
            let needed = held.saturating_add(new.saturating_mul(here));
            let available = held.saturating_add(room.free);
            if needed > available {
                let (ranks, free) = (room.ranks, room.free);
                let nodes = to;
                return Err(TooLittleMemory {
                    nodes,
                    node,
                    ranks,
                    old,
                    new,
                    needed,
                    available,
                    free,
                });
            }
        }
        Ok(())
    }

    /// Returns the fewest nodes, at least one, to which the job can be shrunk.
    #[must_use]
    pub fn fewest_nodes(&self, nodes: &[NodeRoom]) -> u32 {
        let all = u32::try_from(nodes.len()).unwrap_or(u32::MAX).max(1);
        (1..all).find(|to| self.check_shrink(nodes, *to).is_ok()).unwrap_or(all)
    }
}

/// Formats a number of bytes.
fn bytes(count: u64) -> String {
    match count {
        0..0x10_0000 => format!("{count} bytes"),
        0x10_0000..0x4000_0000 => format!("{:.1} MiB", count as f64 / f64::from(1 << 20)),
        _ => format!("{:.1} GiB", count as f64 / f64::from(1 << 30)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn shrink_that_does_not_fit_is_refused_with_the_sum() {
        let footprint = Footprint { ranks: 8, fixed: GIB, divided: 16 * GIB };
        let nodes = [NodeRoom { ranks: 2, free: 9 * GIB }; 4];
        assert_eq!(footprint.check_shrink(&nodes, 2), Ok(()), "2 ranks with 4 GiB more each");
        let error = footprint.check_shrink(&nodes, 1).unwrap_err();
        assert_eq!((error.needed, error.available), (22 * GIB, 15 * GIB));
        assert_eq!(
            error.to_string(),
            "a shrink to 1 nodes does not fit on node 0: 2 ranks with 3.0 GiB of old and 8.0 GiB of new data each \
             need 22.0 GiB there, and have 15.0 GiB (9.0 GiB free)"
        );
        assert_eq!(footprint.fewest_nodes(&nodes), 2);
        let full = [NodeRoom { ranks: 2, free: 0 }; 4];
        assert_eq!(footprint.fewest_nodes(&full), 4, "a job that keeps its nodes needs no more");
        assert_eq!(footprint.fewest_nodes(&[]), 1);
    }

    #[test]
    fn two_sizes_tell_the_fixed_part_from_the_divided_one() {
        let right = Footprint { ranks: 8, fixed: 100, divided: 1_600 };
        assert_eq!(Footprint::of_two((4, 500), (8, 300)), Some(right));
        let back = Footprint::of_two((8, 300), (4, 500));
        assert_eq!(back, Some(Footprint { ranks: 4, ..right }));
        assert_eq!(Footprint::of_two((4, 300), (8, 500)), None, "ranks grow");
        assert_eq!(Footprint::of_two((4, 300), (4, 300)), None, "one size");
        assert_eq!(Footprint::of_two((4, 300), (8, 300)).map(|one| one.fixed), Some(300));
        assert_eq!(Footprint::of_two((1, u64::MAX), (u32::MAX, 0)), None, "no number holds it");
        let all = Footprint::measured(4, 500);
        assert_eq!((all.fixed, all.divided), (0, 2_000));
    }

    proptest! {
        #[test]
        fn fewest_nodes_fit_and_fewer_do_not(
            ranks in 1..5u32, count in 1..9usize, fixed in 0..4 * GIB, divided in 0..64 * GIB,
            free in proptest::collection::vec(0..32 * GIB, 9),
        ) {
            let nodes: Vec<NodeRoom> = free[..count].iter().map(|&free| NodeRoom { ranks, free }).collect();
            let footprint = Footprint { ranks: ranks * count as u32, fixed, divided };
            let fewest = footprint.fewest_nodes(&nodes);
            prop_assert!((1..=count as u32).contains(&fewest));
            prop_assert!(footprint.check_shrink(&nodes, fewest).is_ok());
            for fewer in 1..fewest {
                let error = footprint.check_shrink(&nodes, fewer).unwrap_err();
                prop_assert_eq!(error.needed, u64::from(ranks) * (error.old + error.new));
                prop_assert_eq!(error.available, u64::from(ranks) * error.old + error.free);
                prop_assert!(error.needed > error.available);
            }
            // What is kept has its new data, beside the old ones.
            let new = divided.div_ceil(u64::from(ranks * fewest)) * u64::from(ranks);
            let kept = &nodes[..fewest as usize];
            prop_assert!(fewest as usize == count || kept.iter().all(|node| new <= node.free));
        }

        #[test]
        fn any_measurement_gives_an_answer(
            sizes in any::<((u32, u64), (u32, u64))>(), free in any::<[u64; 3]>(), to in any::<u32>(),
        ) {
            let nodes = free.map(|free| NodeRoom { ranks: u32::MAX, free });
            for footprint in Footprint::of_two(sizes.0, sizes.1).into_iter()
                .chain([Footprint::measured(sizes.0.0, sizes.0.1)]) {
                let _ = footprint.check_shrink(&nodes, to).map_err(|error| error.to_string());
                prop_assert!((1..=3).contains(&footprint.fewest_nodes(&nodes)));
            }
        }
    }
}
