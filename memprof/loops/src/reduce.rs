//! Trees of loops, of each process and of all processes together.
//!
//! In each process, call sites outside of loops are dropped, and consecutive calls between two
//! ranks, or of windows, become one block. Loops of processes are merged if they have the same
//! blocks inside the same loop: a rank that sends where others receive is in the same loop. A loop
//! that has only such blocks is identified by its call sites.

use crate::graph::Span;
use std::collections::BTreeMap;

/// Kinds of calls that may be joined into one block.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Joins {
    /// Calls between two ranks, and completions of requests.
    PointToPoint,
    /// Access to windows.
    OneSided,
    /// None: each call is a separate block.
    Nothing,
}

impl Joins {
    /// Returns the way of a kind of functions, by its number in traces.
    #[must_use]
    pub fn of_kind(kind: u32) -> Joins {
        const POINT_TO_POINT: u32 = 0;
        const ONE_SIDED: u32 = 2;
        const WAIT: u32 = 4;
        match kind {
            POINT_TO_POINT | WAIT => Joins::PointToPoint,
            ONE_SIDED => Joins::OneSided,
            _ => Joins::Nothing,
        }
    }
}

/// Number of a loop, by which running processes determine that they are in the same loop: [`merge`]
/// merges exactly the loops with equal numbers. It allocates nothing.
#[derive(Copy, Clone, Debug, Default)]
pub struct Digest {
    /// Hash of the blocks, of joined ones without their sites.
    bare: u64,
    /// Hash with their sites.
    full: u64,
    last: Option<Joins>,
    has_call: bool,
}

impl Digest {
    /// Adds the next call site of the loop, the head first. The key identifies the site in the same
    /// way for all processes.
    pub fn push(&mut self, joins: Joins, key: u64) {
        if joins == Joins::Nothing || self.last != Some(joins) {
            self.bare = mixed(self.bare, joins as u64);
            self.full = mixed(self.full, joins as u64);
        }
        self.full = mixed(self.full, key);
        if joins == Joins::Nothing {
            self.bare = mixed(self.bare, key);
            self.has_call = true;
        }
        self.last = Some(joins);
    }

    /// Returns the number, which is not 0.
    #[must_use]
    pub fn finish(&self) -> u64 {
        (if self.has_call { self.bare } else { self.full }).max(1)
    }
}

/// Mixes a word into a number, one step of a hash.
fn mixed(into: u64, word: u64) -> u64 {
    let word = (word ^ into.rotate_left(27)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Times of a loop in one process.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Number of calls of the head.
    pub iterations: u64,
    /// Number of measured iterations.
    pub turns: u64,
    /// Times of these iterations.
    pub measured: Span,
    /// Times in the last one or two intervals.
    pub recent: Span,
}

/// A call site of a process. `K` identifies it in the program, in the same way for all processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSite<K> {
    /// Address in the program.
    pub key: K,
    /// Kind of its function.
    pub joins: Joins,
    /// Head of the enclosing loop; for a head, of the loop that encloses its loop. A smaller number
    /// than its own.
    pub around: Option<usize>,
    /// Times of its loop, for a head.
    pub figures: Option<Figures>,
}

/// Part of a loop's body.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Block<K> {
    /// A call.
    Call(K),
    /// Consecutive calls of a kind that is joined: their sites.
    Joined(Joins, Vec<K>),
}

impl<K> Block<K> {
    /// Returns the call sites of the block, the first first.
    pub fn sites(&self) -> &[K] {
        match self {
            Block::Call(key) => std::slice::from_ref(key),
            Block::Joined(_, keys) => keys,
        }
    }
}

/// A loop of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop<K> {
    /// Calls directly in the loop, without calls in inner loops; the head's block is first.
    pub blocks: Vec<Block<K>>,
    /// Times.
    pub figures: Figures,
    /// Inner loops.
    pub inner: Vec<Loop<K>>,
}

/// Returns the outermost loops of a process, from its sites in the order of their first calls. Numbers of heads that
/// cannot be are taken for none.
pub fn of_process<K: Clone>(sites: &[CallSite<K>]) -> Vec<Loop<K>> {
    let around = |at: usize| {
        let head = sites[at].around.filter(|head| *head < at)?;
        sites[head].figures.map(|_| head)
    };
    let mut loops: Vec<Option<Loop<K>>> = sites
        .iter()
        .map(|site| {
            let figures = site.figures?;
            let mut of = Loop { blocks: Vec::new(), figures, inner: Vec::new() };
            of.push(site);
            Some(of)
        })
        .collect();
    for (at, site) in sites.iter().enumerate() {
        if site.figures.is_none()
            && let Some(of) = around(at).and_then(|head| loops[head].as_mut())
        {
            of.push(site);
        }
    }
    // Heads of outer loops have smaller numbers: when one is taken, all inner loops are complete,
    // the last first.
    let mut outermost = Vec::new();
    for at in (0..sites.len()).rev() {
        let Some(mut of) = loops[at].take() else { continue };
        of.inner.reverse();
        match around(at).and_then(|head| loops[head].as_mut()) {
            Some(outer) => outer.inner.push(of),
            None => outermost.push(of),
        }
    }
    outermost.reverse();
    outermost
}

impl<K: Clone> Loop<K> {
    fn push(&mut self, site: &CallSite<K>) {
        match self.blocks.last_mut() {
            Some(Block::Joined(joins, keys)) if *joins == site.joins => keys.push(site.key.clone()),
            _ if site.joins == Joins::Nothing => self.blocks.push(Block::Call(site.key.clone())),
            _ => self.blocks.push(Block::Joined(site.joins, vec![site.key.clone()])),
        }
    }
}

/// Least, mean and greatest value over the processes.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Spread {
    /// Least.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Greatest.
    pub max: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Option<Spread> {
        let mut spread: Option<Spread> = None;
        let mut count = 0.0;
        for value in values {
            count += 1.0;
            let of = spread.get_or_insert(Spread { min: value, mean: 0.0, max: value });
            (of.min, of.max) = (of.min.min(value), of.max.max(value));
            of.mean += (value - of.mean) / count;
        }
        spread
    }
}

/// A loop of several processes.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged<K> {
    /// Calls directly in the loop, with the joined blocks of all processes.
    pub blocks: Vec<Block<K>>,
    /// Ranks that run it, as first and last of each range.
    pub ranks: Vec<(u32, u32)>,
    /// Number of these ranks.
    pub count: usize,
    /// Number of iterations of most ranks.
    pub iterations: u64,
    /// Sums over all ranks.
    pub total: Figures,
    /// Times of an iteration, by rank; `None` if nothing was measured.
    pub iteration: Option<Spread>,
    /// Parts of the iterations' time inside MPI, by rank.
    pub mpi_share: Option<Spread>,
    /// Ratios of time in MPI to computing time, by rank.
    pub ratio: Option<Spread>,
    /// Same ratios for the last one or two intervals.
    pub recent_ratio: Option<Spread>,
    /// Inner loops.
    pub inner: Vec<Merged<K>>,
}

/// Merges the loops of processes, each with its rank, in the order of their first occurrence.
pub fn merge<K: Clone + Ord>(processes: Vec<(u32, Vec<Loop<K>>)>) -> Vec<Merged<K>> {
    let mut order: BTreeMap<Vec<Block<K>>, usize> = BTreeMap::new();
    let mut groups: Vec<Vec<(u32, Loop<K>)>> = Vec::new();
    for (rank, loops) in processes {
        for of in loops {
            let group = *order.entry(identity(&of.blocks)).or_insert(groups.len());
            match groups.get_mut(group) {
                Some(group) => group.push((rank, of)),
                None => groups.push(vec![(rank, of)]),
            }
        }
    }
    groups.into_iter().map(one).collect()
}

/// Returns the identity of a loop: its blocks; joined blocks count without their sites if there is
/// any other block.
fn identity<K: Clone>(blocks: &[Block<K>]) -> Vec<Block<K>> {
    let has_call = blocks.iter().any(|block| matches!(block, Block::Call(_)));
    let bare = |block: &Block<K>| match block {
        Block::Joined(joins, _) if has_call => Block::Joined(*joins, Vec::new()),
        block => block.clone(),
    };
    blocks.iter().map(bare).collect()
}

/// Merges equal loops into one.
fn one<K: Clone + Ord>(mut loops: Vec<(u32, Loop<K>)>) -> Merged<K> {
    loops.sort_by_key(|(rank, _)| *rank);
    let mut blocks: Vec<Block<K>> = Vec::new();
    let mut total = Figures::default();
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for (_, of) in &loops {
        total.iterations += of.figures.iterations;
        total.turns += of.figures.turns;
        total.measured = total.measured.plus(of.figures.measured);
        total.recent = total.recent.plus(of.figures.recent);
        *counts.entry(of.figures.iterations).or_default() += 1;
        if blocks.is_empty() {
            blocks.clone_from(&of.blocks);
        }
        for (known, block) in blocks.iter_mut().zip(&of.blocks) {
            if let (Block::Joined(_, known), Block::Joined(_, keys)) = (known, block) {
                for key in keys {
                    if !known.contains(key) {
                        known.push(key.clone());
                    }
                }
            }
        }
    }
    let ranks = ranges(loops.iter().map(|(rank, _)| *rank));
    let by_rank = |of: fn(&Figures) -> Option<f64>| {
        Spread::of(loops.iter().filter_map(|(_, one)| of(&one.figures)))
    };
    Merged {
        blocks,
        count: loops.len(),
        ranks,
        // If several are equally frequent, the largest.
        iterations: counts.iter().max_by_key(|(_, count)| **count).map_or(0, |(of, _)| *of),
        total,
        iteration: by_rank(|of| (of.turns > 0).then(|| of.measured.time as f64 / of.turns as f64)),
        mpi_share: by_rank(|of| {
            (of.measured.time > 0).then(|| of.measured.mpi as f64 / of.measured.time as f64)
        }),
        ratio: by_rank(|of| of.measured.ratio()),
        recent_ratio: by_rank(|of| of.recent.ratio()),
        inner: merge(loops.into_iter().map(|(rank, of)| (rank, of.inner)).collect()),
    }
}

/// Returns the ranges of ascending numbers; repeated numbers count once.
fn ranges(numbers: impl Iterator<Item = u32>) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if number <= last.saturating_add(1) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    ranges
}

#[cfg(test)]
#[path = "reduce_tests.rs"]
mod tests;
