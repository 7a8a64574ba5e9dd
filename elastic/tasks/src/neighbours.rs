//! Ranks that a rank without work asks: ranks of its own node before ranks of other nodes.
//!
//! Two trees carry requests: one over the ranks of each node, with its first rank at the root, and
//! one over these first ranks, with rank 0 at the root.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Ranks that a request for a task may reach.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Scope {
    /// Ranks of the thief's node.
    Node,
    All,
}

/// A rank's position among the other ranks.
#[derive(Clone, Debug)]
pub(crate) struct Neighbours {
    rank: usize,
    /// Node of each rank.
    nodes: Vec<usize>,
    parent: Option<usize>,
    /// Other ranks of the node.
    mates: Vec<usize>,
    /// Ranks of other nodes.
    others: Vec<usize>,
}

impl Neighbours {
    /// Makes the neighbours of a rank, from the node of each rank.
    pub fn new(rank: usize, nodes: Vec<usize>) -> Self {
        let is_own = |other: &usize| nodes.get(*other) == nodes.get(rank);
        let (all, others): (Vec<_>, Vec<_>) = (0..nodes.len()).partition(is_own);
        let is_first =
            |&rank: &usize| nodes.iter().position(|node| *node == nodes[rank]) == Some(rank);
        let above = |tree: &[usize]| {
            let place = tree.iter().position(|&other| other == rank)?;
            tree.get(place.checked_sub(1)? / 2).copied()
        };
        let parent =
            above(&all).or_else(|| above(&(0..nodes.len()).filter(is_first).collect::<Vec<_>>()));
        let mates = all.into_iter().filter(|&other| other != rank).collect();
        Self { rank, nodes, parent, mates, others }
    }

    pub fn is_mate(&self, other: usize) -> bool {
        self.nodes.get(other) == self.nodes.get(self.rank)
    }

    /// Returns the scope of a request after this many refusals: twice the node, then twice all.
    pub fn scope(&self, refusals: u32) -> Scope {
        if refusals % 4 < 2 && !self.mates.is_empty() { Scope::Node } else { Scope::All }
    }

    /// Returns the rank to ask after this many refusals, and how far it passes the request on.
    /// Every second time it is a random rank. `None`: there is no other rank.
    pub fn victim(
        &self,
        refusals: u32,
        lent: &BTreeSet<usize>,
        random: u64,
    ) -> Option<(usize, Scope)> {
        let one_of = |ranks: &[usize]| {
            let index = random.checked_rem(ranks.len() as u64)?;
            ranks.get(index as usize).copied()
        };
        let scope = self.scope(refusals);
        let is_inside = |other: &usize| scope == Scope::All || self.is_mate(*other);
        let known = self.parent.filter(is_inside);
        let known = known.or_else(|| lent.iter().copied().find(is_inside));
        let known = known.filter(|_| refusals.is_multiple_of(2));
        let any = || match scope {
            Scope::Node => one_of(&self.mates),
            Scope::All => one_of(&self.others).or_else(|| one_of(&self.mates)),
        };
        known.or_else(any).map(|victim| (victim, scope))
    }

    /// Returns the rank that a request is passed on to: the parent, or a rank that was given a
    /// task, on the same node first.
    pub fn next(
        &self,
        thief: usize,
        scope: Scope,
        seen: &[usize],
        lent: &BTreeSet<usize>,
    ) -> Option<usize> {
        let is_open = |rank: &usize| {
            *rank != thief
                && !seen.contains(rank)
                && (scope == Scope::All || self.nodes.get(*rank) == self.nodes.get(thief))
        };
        let lent = || lent.iter().copied().filter(is_open);
        let near = || lent().find(|&rank| self.is_mate(rank));
        let above = self.parent.filter(is_open);
        above.filter(|&rank| self.is_mate(rank)).or_else(near).or(above).or_else(|| lent().next())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parents(nodes: &[usize]) -> Vec<Option<usize>> {
        (0..nodes.len()).map(|rank| Neighbours::new(rank, nodes.to_vec()).parent).collect()
    }

    #[test]
    fn tree_of_one_node_is_by_rank() {
        assert_eq!(parents(&[0; 6]), [None, Some(0), Some(0), Some(1), Some(1), Some(2)]);
    }

    #[test]
    fn trees_of_nodes_meet_at_first_ranks() {
        // Nodes: 7 has ranks 0, 2, 4; 3 has 1, 5; 9 has 3, 6.
        let right = [None, Some(0), Some(0), Some(0), Some(0), Some(1), Some(3)];
        assert_eq!(parents(&[7, 3, 7, 9, 7, 3, 9]), right);
    }

    #[test]
    fn thief_asks_its_node_twice_before_others() {
        let nodes = Neighbours::new(3, vec![0, 0, 1, 1, 1]);
        let lent = BTreeSet::from([0]);
        let asked = |refusals| nodes.victim(refusals, &lent, 1).unwrap();
        assert_eq!(asked(0), (2, Scope::Node));
        assert_eq!(asked(1), (4, Scope::Node));
        assert_eq!(asked(2), (2, Scope::All));
        assert_eq!(asked(3), (1, Scope::All));
        assert_eq!(asked(4), (2, Scope::Node));
        // The first rank of its node, without a parent there.
        let first = Neighbours::new(2, vec![0, 0, 1, 1, 1]);
        assert_eq!(first.victim(0, &lent, 0), Some((3, Scope::Node)));
        assert_eq!(first.victim(0, &BTreeSet::from([0, 4]), 0), Some((4, Scope::Node)));
        assert_eq!(first.victim(2, &lent, 0), Some((0, Scope::All)));
    }

    #[test]
    fn lone_rank_of_a_node_asks_others_at_once() {
        let nodes = Neighbours::new(1, vec![0, 1]);
        assert_eq!(nodes.victim(0, &BTreeSet::new(), 5), Some((0, Scope::All)));
        assert_eq!(Neighbours::new(0, vec![4]).victim(0, &BTreeSet::new(), 5), None);
    }

    proptest! {
        /// From any rank a request visits different ranks, none of another node if its scope
        /// forbids that, and ranks of the same node before others.
        #[test]
        fn request_visits_each_rank_at_most_once(
            nodes in proptest::collection::vec(0_usize..4, 2..20),
            lent in proptest::collection::vec(proptest::collection::btree_set(0_usize..20, 0..20), 20),
            thief in any::<prop::sample::Index>(),
            refusals in 0_u32..9,
            random in any::<u64>(),
        ) {
            let size = nodes.len();
            let all: Vec<_> = (0..size).map(|rank| Neighbours::new(rank, nodes.clone())).collect();
            let lent: Vec<BTreeSet<usize>> = lent.iter().enumerate()
                .map(|(own, set)| set.iter().copied().filter(|&rank| rank < size && rank != own).collect())
                .collect();
            let thief = thief.index(size);
            let (mut at, scope) = all[thief].victim(refusals, &lent[thief], random).unwrap();
            prop_assert!(at != thief && at < size);
            let has_mates = nodes.iter().filter(|node| **node == nodes[thief]).count() > 1;
            prop_assert_eq!(scope == Scope::Node, has_mates && refusals % 4 < 2);
            let mut seen = vec![thief];
            loop {
                prop_assert!(scope == Scope::All || nodes[at] == nodes[thief]);
                seen.push(at);
                let Some(next) = all[at].next(thief, scope, &seen, &lent[at]) else { break };
                prop_assert!(!seen.contains(&next) && next < size);
                if nodes[next] != nodes[at] {
                    let left = lent[at].iter().find(|rank| nodes[**rank] == nodes[at] && !seen.contains(rank));
                    prop_assert_eq!(left, None);
                }
                at = next;
            }
        }
    }
}
