//! The memory that a job needs on fewer nodes, estimated from measurements of its ranks.

/// The memory of a job's ranks: a fixed part of each rank, and data that are divided among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// The number of ranks at the measurement.
    pub ranks: u32,
    /// The bytes of a rank that do not depend on the number of ranks.
    pub fixed: u64,
    /// The bytes of all ranks together that are divided among them.
    pub divided: u64,
}

/// A node of a job, with the ranks left there by a shrink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRoom {
    /// The name, for messages.
    pub name: String,
    /// The number of ranks left there.
    pub ranks: u32,
    /// The bytes that are free there, without the memory of the ranks.
    pub free: u64,
}

/// A shrink for which a node has too little memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a shrink to {nodes} nodes does not fit on node {node}: {ranks} ranks with {} of old and {} of new data each \
     need {} there, and have {} ({} free)",
    bytes(*.old), bytes(*.new), bytes(*.needed), bytes(*.available), bytes(*.free)
)]
pub struct TooLittleMemory {
    /// The nodes after the shrink.
    pub nodes: u32,
    /// The node with too little memory.
    pub node: String,
    /// The ranks there.
    pub ranks: u32,
    /// The bytes that a rank holds before the shrink.
    pub old: u64,
    /// The bytes of new data of a rank, which it holds in addition to the old ones during the move.
    pub new: u64,
    /// The sum of both over the ranks of the node.
    pub needed: u64,
    /// The bytes held by the ranks and the free bytes.
    pub available: u64,
    /// The bytes that are free.
    pub free: u64,
}

impl Footprint {
    /// Counts all measured bytes of a rank as divided, which overestimates the need of fewer ranks.
    #[must_use]
    pub fn measured(ranks: u32, bytes_per_rank: u64) -> Footprint {
        let divided = bytes_per_rank.saturating_mul(u64::from(ranks));
        Footprint { ranks, fixed: 0, divided }
    }

    /// Separates the fixed part from the divided one by measurements on two sizes; the second
    /// measurement is the present one. `None` if a rank's memory does not decrease with more ranks.
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

    /// Returns the bytes that a rank had at the measurement.
    fn bytes_per_rank(&self) -> u64 {
        self.fixed.saturating_add(self.share(self.ranks))
    }

    /// Returns the bytes of data of each of this many ranks.
    fn share(&self, ranks: u32) -> u64 {
        self.divided.div_ceil(u64::from(ranks.max(1)))
    }

    /// Checks that the nodes that remain after a shrink to `nodes` nodes have room for their new
    /// data in addition to the old.
    ///
    /// # Errors
    /// [`TooLittleMemory`] for the first node with too little, with the sum.
    pub fn check_shrink(&self, nodes: u32, kept: &[NodeRoom]) -> Result<(), TooLittleMemory> {
        let ranks = kept.iter().fold(0_u32, |sum, node| sum.saturating_add(node.ranks));
        let (old, new) = (self.bytes_per_rank(), self.share(ranks));
        for NodeRoom { name, ranks, free } in kept {
            let (ranks, free) = (*ranks, *free);
            let held = old.saturating_mul(u64::from(ranks));
            let needed = held.saturating_add(new.saturating_mul(u64::from(ranks)));
            let available = held.saturating_add(free);
            if needed > available {
                let node = name.clone();
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

    /// Returns the smallest number of nodes, at least one, such that each shrink from `nodes` down
    /// to it fits, and the reason why the next one does not. `kept` returns the nodes that remain
    /// in a shrink to a number of nodes.
    pub fn fewest_nodes(
        &self,
        nodes: u32,
        kept: impl Fn(u32) -> Vec<NodeRoom>,
    ) -> (u32, Option<TooLittleMemory>) {
        let refused = |to| Some((to, self.check_shrink(to, &kept(to)).err()?));
        match (1..nodes).rev().find_map(refused) {
            Some((to, cause)) => (to + 1, Some(cause)),
            None => (1, None),
        }
    }
}

/// Formats a number of bytes.
#[must_use]
pub fn bytes(count: u64) -> String {
    match count {
        0..0x10_0000 => format!("{count} bytes"),
        0x10_0000..0x4000_0000 => format!("{:.1} MiB", count as f64 / f64::from(1 << 20)),
        0x4000_0000..0x100_0000_0000 => format!("{:.1} GiB", count as f64 / f64::from(1 << 30)),
        _ => format!("{:.1} TiB", count as f64 / (1_u64 << 40) as f64),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GIB: u64 = 1 << 30;

    fn room(ranks: u32, free: u64) -> NodeRoom {
        NodeRoom { name: "n1".to_owned(), ranks, free }
    }

    #[test]
    fn shrink_that_does_not_fit_is_refused_with_the_sum() {
        let footprint = Footprint { ranks: 8, fixed: GIB, divided: 16 * GIB };
        let kept = |free| move |to| vec![room(2, free); to as usize];
        assert_eq!(footprint.check_shrink(2, &kept(9 * GIB)(2)), Ok(()), "2 ranks with 4 GiB more");
        let (fewest, error) = footprint.fewest_nodes(4, kept(9 * GIB));
        let error = error.unwrap();
        assert_eq!((fewest, error.needed, error.available), (2, 22 * GIB, 15 * GIB));
        assert_eq!(
            error.to_string(),
            "a shrink to 1 nodes does not fit on node n1: 2 ranks with 3.0 GiB of old and 8.0 GiB of new data each \
             need 22.0 GiB there, and have 15.0 GiB (9.0 GiB free)"
        );
        assert_eq!(
            footprint.fewest_nodes(4, kept(0)).0,
            4,
            "a job that keeps its nodes needs no more"
        );
        assert_eq!(footprint.fewest_nodes(4, kept(16 * GIB)), (1, None));
        assert_eq!(footprint.fewest_nodes(0, kept(0)), (1, None));
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
        fn shrinks_fit_down_to_the_fewest_nodes(
            ranks in 1..5u32, count in 1..9usize, fixed in 0..4 * GIB, divided in 0..64 * GIB,
            free in proptest::collection::vec(0..32 * GIB, 9),
        ) {
            let nodes: Vec<NodeRoom> = free[..count].iter().map(|&free| room(ranks, free)).collect();
            let kept = |to: u32| nodes[..to as usize].to_vec();
            let footprint = Footprint { ranks: ranks * count as u32, fixed, divided };
            let (fewest, cause) = footprint.fewest_nodes(count as u32, kept);
            prop_assert!((1..=count as u32).contains(&fewest));
            prop_assert_eq!(cause.is_some(), fewest > 1);
            for fits in fewest..count as u32 {
                prop_assert!(footprint.check_shrink(fits, &kept(fits)).is_ok());
                // Each remaining node has room for its new data in addition to the old.
                let new = divided.div_ceil(u64::from(ranks * fits)) * u64::from(ranks);
                prop_assert!(kept(fits).iter().all(|node| new <= node.free));
            }
            if let Some(error) = cause {
                prop_assert_eq!(error.nodes, fewest - 1);
                prop_assert_eq!(error.needed, u64::from(ranks) * (error.old + error.new));
                prop_assert_eq!(error.available, u64::from(ranks) * error.old + error.free);
                prop_assert!(error.needed > error.available);
            }
        }

        #[test]
        fn any_measurement_gives_an_answer(
            sizes in any::<((u32, u64), (u32, u64))>(), free in any::<[u64; 3]>(), to in any::<u32>(),
        ) {
            let kept = free.map(|free| room(u32::MAX, free));
            for footprint in Footprint::of_two(sizes.0, sizes.1).into_iter()
                .chain([Footprint::measured(sizes.0.0, sizes.0.1)]) {
                let _ = footprint.check_shrink(to, &kept).map_err(|error| error.to_string());
                prop_assert!((1..=3).contains(&footprint.fewest_nodes(3, |to| kept[..to as usize].to_vec()).0));
            }
        }
    }
}
