//! Efficiency of a region from the times of its ranks: the hierarchy of POP, on each node and between nodes too.

use serde::Serialize;

/// Time of one rank in a region, in nanoseconds.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Number of the rank's node.
    pub node: usize,
    /// Time in the region, in nanoseconds.
    pub elapsed: u64,
    /// Part of it inside MPI, in nanoseconds.
    pub mpi: u64,
    /// Part of it in which the rank's processors were lent to others.
    pub lent: u64,
}

impl Share {
    /// Returns the time outside of MPI, without the time in which the processors were lent.
    pub fn useful(&self) -> u64 {
        self.elapsed.saturating_sub(self.mpi).saturating_sub(self.lent)
    }
}

/// Efficiencies of a region, from 0 to 1.
#[derive(Copy, Clone, Debug, PartialEq, Serialize)]
pub struct Efficiency {
    /// Ratio of useful time to the time that all ranks had: `load_balance * communication`.
    pub parallel: f64,
    /// Ratio of the useful time of a mean rank to that of the busiest: `balance_within *
    /// balance_between`.
    pub load_balance: f64,
    /// Ratio of the useful time of the busiest rank to the time of the region.
    pub communication: f64,
    /// Ratio of the mean rank of the busiest node to the busiest rank.
    pub balance_within: f64,
    /// Ratio of the mean rank to the mean rank of the busiest node.
    pub balance_between: f64,
}

/// Computes the efficiencies of a region. Each rank had the longest time of all ranks, less the
/// time in which it lent its processors; if nothing was lent, the figures are those of POP. Returns
/// `None` where no time was useful.
pub fn efficiency(shares: &[Share]) -> Option<Efficiency> {
    let longest = shares.iter().map(|share| share.elapsed).max()?;
    let had = |share: &Share| longest.saturating_sub(share.lent) as f64;
    let rate = |of: &mut dyn Iterator<Item = &Share>| {
        let (useful, all) = of.fold((0.0, 0.0), |(useful, all), share| {
            (useful + share.useful() as f64, all + had(share))
        });
        if all > 0.0 { useful / all } else { 0.0 }
    };
    let parallel = rate(&mut shares.iter());
    let busiest = shares.iter().map(|share| rate(&mut [*share].iter())).fold(0.0, f64::max);
    let nodes = shares.iter().map(|share| share.node).max()? + 1;
    let busiest_node = (0..nodes)
        .map(|node| rate(&mut shares.iter().filter(|share| share.node == node)))
        .fold(0.0, f64::max);
    (parallel > 0.0).then(|| Efficiency {
        parallel,
        load_balance: parallel / busiest,
        communication: busiest,
        balance_within: busiest_node / busiest,
        balance_between: parallel / busiest_node,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(node: usize, elapsed: u64, mpi: u64, lent: u64) -> Share {
        Share { node, elapsed, mpi, lent }
    }

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
    }

    #[test]
    fn one_busy_rank_of_four_is_an_imbalance() {
        let mut shares = vec![share(0, 1000, 100, 0)];
        shares.extend([share(0, 1000, 700, 0); 3]);
        let found = efficiency(&shares).unwrap();
        close(found.parallel, 0.45);
        close(found.communication, 0.9);
        close(found.load_balance, 0.5);
        close(found.balance_within, 0.5);
        close(found.balance_between, 1.0);
    }

    #[test]
    fn idle_node_is_an_imbalance_between_nodes() {
        let shares = [
            share(0, 100, 20, 0),
            share(0, 100, 20, 0),
            share(1, 100, 60, 0),
            share(1, 100, 60, 0),
        ];
        let found = efficiency(&shares).unwrap();
        close(found.balance_within, 1.0);
        close(found.balance_between, 0.75);
        close(found.communication, 0.8);
        close(found.parallel, 0.6);
    }

    #[test]
    fn lent_time_is_neither_useful_nor_lost() {
        let shares = [share(0, 1000, 0, 0), share(0, 1000, 0, 900), share(0, 1000, 0, 900)];
        let found = efficiency(&shares).unwrap();
        close(found.parallel, 1.0);
        close(found.load_balance, 1.0);
        let waits = [share(0, 1000, 0, 0), share(0, 1000, 900, 0), share(0, 1000, 900, 0)];
        close(efficiency(&waits).unwrap().parallel, 0.4);
    }

    #[test]
    fn region_without_useful_time_has_no_efficiency() {
        assert_eq!(efficiency(&[]), None);
        assert_eq!(efficiency(&[share(0, 0, 0, 0)]), None);
        assert_eq!(efficiency(&[share(0, 5, 9, 0)]), None);
    }
}
