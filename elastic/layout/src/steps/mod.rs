//! Assigns each message to a step so that no rank sends twice or receives twice in a step.
//!
//! The messages between ranks form a bipartite graph, and a schedule without contention is a
//! colouring of its edges: it needs at least as many steps as the busiest rank has messages, and by
//! Kőnig's theorem no more. Data that stay on their rank are copied and take no step.
//!
//! | graph | how it is coloured | steps | file |
//! |---|---|---|---|
//! | block-cyclic over any two grids: disjoint complete graphs | Latin squares, or the published order where that has no contention | fewest | `groups.rs` |
//! | runs to runs: a path | greedily along it | fewest | `staircase.rs` |
//! | anything else of moderate size, and all with layers of ranks | alternating paths | fewest | `colour.rs` |
//! | anything else of any size | each axis separately, then the product | no contention | `product.rs` |
//! | replicated before or after | doubling, or in turns | fewest | `replicas.rs` |
//!
//! A rank finds its own messages without those of other ranks, except for the third row.

mod colour;
mod groups;
mod product;
mod replicas;
mod staircase;

use super::Distribution;
use colour::Coloured;
use groups::Groups;
use product::Product;

/// A message by the positions of its ranks among the old and the new ones, and its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    pub old: usize,
    pub new: usize,
    /// `None` for data that stay on their rank.
    pub step: Option<usize>,
    /// True if the sender has received the data in this schedule: `old` is then a position among
    /// the new ranks.
    pub passed_on: bool,
}

/// How the steps of a pair of distributions are found.
#[derive(Debug)]
pub(super) enum Plan {
    Groups(Groups),
    Staircase,
    Coloured(Coloured),
    Product(Product),
    /// Replicated before, but not after.
    Deal,
    /// Replicated before and after.
    Double,
}

/// The two distributions of a schedule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<'a> {
    pub old: &'a Distribution,
    pub new: &'a Distribution,
}

impl Pair<'_> {
    /// Returns true if the two positions are the same rank.
    fn is_self(&self, old: usize, new: usize) -> bool {
        self.old.ranks.at(old) == self.new.ranks.at(new)
    }

    /// Returns true if an array of three dimensions is cut along all of them, before or after.
    fn is_layered(&self) -> bool {
        self.old.layers.parts() > 1 || self.new.layers.parts() > 1
    }
}

/// Graphs with more messages are not coloured as a whole, since every rank does so by itself.
const MOST_EDGES: usize = 1 << 16;
/// Axes with more pairs of parts are not examined pair by pair.
const MOST_PAIRS: usize = 1 << 20;

impl Plan {
    pub fn choose(pair: Pair) -> Self {
        match (pair.old.replicated, pair.new.replicated) {
            (true, true) => return Self::Double,
            (true, false) => return Self::Deal,
            (false, true) => return Self::Groups(Groups::to_replicas(pair)),
            (false, false) => {}
        }
        if pair.is_layered() {
            let graph = colour::Graph::of(pair);
            let coloured = graph.and_then(|graph| graph.coloured(pair, graph.busiest(pair)));
            return coloured.map_or_else(|| Self::Groups(Groups::of_all(pair)), Self::Coloured);
        }
        if staircase::fits(pair) {
            return Self::Staircase;
        }
        let groups = Groups::on_grids(pair);
        if groups.is_exact() {
            return Self::Groups(groups);
        }
        let product = Product::of(pair);
        let Some(graph) = colour::Graph::of(pair) else {
            return if groups.steps() <= product.steps() {
                Self::Groups(groups)
            } else {
                Self::Product(product)
            };
        };
        let fewest = graph.busiest(pair);
        if groups.steps() == fewest {
            Self::Groups(groups.known_minimal())
        } else if product.steps() == fewest {
            Self::Product(product.known_minimal())
        } else if let Some(coloured) = graph.coloured(pair, fewest) {
            Self::Coloured(coloured)
        } else if groups.steps() <= product.steps() {
            Self::Groups(groups)
        } else {
            Self::Product(product)
        }
    }

    pub fn steps(&self, pair: Pair) -> usize {
        match self {
            Self::Groups(groups) => groups.steps(),
            Self::Staircase => staircase::steps(pair),
            Self::Coloured(coloured) => coloured.steps,
            Self::Product(product) => product.steps(),
            Self::Deal => replicas::deal_steps(pair),
            Self::Double => replicas::double_steps(pair),
        }
    }

    /// Returns true if no schedule has fewer steps. A number of steps found to be minimal by
    /// examining every message counts as well.
    pub fn is_minimal(&self) -> bool {
        match self {
            Self::Groups(groups) => groups.is_minimal(),
            Self::Product(product) => product.is_minimal(),
            Self::Staircase | Self::Coloured(_) | Self::Deal | Self::Double => true,
        }
    }

    /// Edges that the old rank at a position sends and keeps. With doubling, new ranks send, too: see
    /// [`Plan::passed_on`].
    pub fn sends(&self, pair: Pair, old: usize) -> Vec<Edge> {
        match self {
            Self::Groups(groups) => groups.sends(pair, old),
            Self::Staircase => staircase::edges(pair).filter(|edge| edge.old == old).collect(),
            Self::Coloured(coloured) => coloured.sends(pair, old),
            Self::Product(product) => product.sends(pair, old),
            Self::Deal => replicas::deal_sends(pair, old),
            Self::Double => replicas::double_sends(pair, old),
        }
    }

    /// Edges that the new rank at a position receives; kept data may be among them.
    pub fn receives(&self, pair: Pair, new: usize) -> Vec<Edge> {
        match self {
            Self::Groups(groups) => groups.receives(pair, new),
            Self::Staircase => staircase::edges(pair).filter(|edge| edge.new == new).collect(),
            Self::Coloured(coloured) => coloured.receives(pair, new),
            Self::Product(product) => product.receives(pair, new),
            Self::Deal => replicas::deal_receives(pair, new),
            Self::Double => replicas::double_receives(pair, new),
        }
    }

    /// Edges that the new rank at a position passes on after receiving the data.
    pub fn passed_on(&self, pair: Pair, new: usize) -> Vec<Edge> {
        match self {
            Self::Double => replicas::passed_on(pair, new),
            _ => Vec::new(),
        }
    }

    /// Calls `found` once for every message and every kept part.
    pub fn all(&self, pair: Pair, mut found: impl FnMut(Edge)) {
        match self {
            Self::Staircase => staircase::edges(pair).for_each(found),
            Self::Coloured(coloured) => coloured.all(pair).for_each(found),
            _ => {
                (0..pair.old.ranks.len())
                    .flat_map(|old| self.sends(pair, old))
                    .for_each(&mut found);
                let passed_on = (0..pair.new.ranks.len()).flat_map(|new| self.passed_on(pair, new));
                passed_on.for_each(found);
            }
        }
    }
}
