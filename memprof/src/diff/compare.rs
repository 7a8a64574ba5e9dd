//! The comparison: numbers of two jobs side by side.

use crate::model::{Group, Job, ProcessKey, Spread};
use crate::units;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A number before and after.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Value before; `None` where it did not exist.
    pub before: Option<u64>,
    /// Value after; `None` where it no longer exists.
    pub after: Option<u64>,
    /// For a largest value, the rank that had it before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_at: Option<ProcessKey>,
    /// The rank that has it now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_at: Option<ProcessKey>,
}

impl Change {
    fn of(before: Option<u64>, after: Option<u64>) -> Change {
        Change { before, after, ..Change::default() }
    }

    fn mean(before: Option<&Spread>, after: Option<&Spread>) -> Change {
        Change::of(before.map(Spread::mean), after.map(Spread::mean))
    }

    fn largest(before: Option<&Spread>, after: Option<&Spread>) -> Change {
        Change {
            before: before.map(|spread| spread.max),
            after: after.map(|spread| spread.max),
            before_at: before.map(|spread| spread.max_at.clone()),
            after_at: after.map(|spread| spread.max_at.clone()),
        }
    }

    /// Returns the growth in bytes.
    pub fn bytes(&self) -> i128 {
        i128::from(self.after.unwrap_or(0)) - i128::from(self.before.unwrap_or(0))
    }

    /// Returns the growth in percent; `None` where there was nothing before.
    pub fn percent(&self) -> Option<f64> {
        match self.before.unwrap_or(0) {
            0 => None,
            before => Some(self.bytes() as f64 / before as f64 * 100.0),
        }
    }
}

/// One component in both jobs; peaks in bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Component {
    /// Display name.
    pub name: Arc<str>,
    /// Its group.
    pub group: Group,
    /// Mean over ranks of the highest resident bytes.
    pub resident_mean: Change,
    /// Rank with the highest resident bytes.
    pub resident_max: Change,
    /// Mean over ranks of the highest owned bytes, which are exact.
    pub owned_mean: Change,
    /// Rank with the highest owned bytes.
    pub owned_max: Change,
}

/// One phase in both jobs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseChange {
    /// Its name.
    pub name: Arc<str>,
    /// Mean over ranks of the highest resident bytes in it.
    pub resident_mean: Change,
    /// Rank with the highest resident bytes.
    pub resident_max: Change,
    /// Mean over ranks of the time that the phase was open, in nanoseconds.
    pub time_ns: Change,
}

/// One node in both jobs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeChange {
    /// Its name.
    pub host: Arc<str>,
    /// Highest memory of its ranks together, with shared pages counted once.
    pub peak: Change,
}

/// Two jobs side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Programs, before and after.
    pub programs: [String; 2],
    /// Number of ranks with a trace.
    pub ranks: [usize; 2],
    /// Number of nodes.
    pub nodes: [usize; 2],
    /// Mean over ranks of the peak of all components together.
    pub rank_mean: Change,
    /// The rank with the largest peak.
    pub rank_max: Change,
    /// The node with the largest peak.
    pub node_max: Change,
    /// True if the traces of all ranks are present, before and after.
    pub whole: [bool; 2],
    /// Total of the job at its peak.
    pub job: Change,
    /// Largest change first.
    pub components: Vec<Component>,
    /// Phases in the order of the later job, then those that are gone.
    pub phases: Vec<PhaseChange>,
    /// Nodes of the later job, then those that are gone.
    pub by_node: Vec<NodeChange>,
}

/// Bytes below which a change does not count.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Floors {
    /// Smallest change that counts, in bytes.
    pub least: u64,
    /// Floor of the resident bytes of one component in one process: which pages of its file a
    /// library has in memory differs from run to run. Owned bytes have no noise.
    pub noise: u64,
}

impl Floors {
    /// Number of components whose noise adds up in a process.
    const COMPONENTS: u64 = 4;

    /// Returns the floor for the resident bytes of a whole process.
    pub fn of_process(&self) -> u64 {
        self.noise.saturating_mul(Floors::COMPONENTS)
    }

    /// Returns the floor for the resident bytes of all ranks of a node.
    pub fn of_node(&self, comparison: &Comparison) -> u64 {
        let ranks = comparison.ranks.into_iter().max().unwrap_or(1);
        let nodes = comparison.nodes.into_iter().min().unwrap_or(1).max(1);
        self.of_process().saturating_mul(ranks.div_ceil(nodes) as u64)
    }

    /// Returns the floor for the resident bytes of all ranks.
    pub fn of_job(&self, comparison: &Comparison) -> u64 {
        let ranks = comparison.ranks.into_iter().max().unwrap_or(1);
        self.of_process().saturating_mul(ranks as u64)
    }
}

/// Findings of `--fail-above`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Limit of the growth, in percent.
    pub fail_above_percent: f64,
    /// Changes of fewer bytes do not count.
    pub least_bytes: u64,
    /// Threshold below which resident bytes of a component do not count either.
    pub noise_bytes: u64,
    /// Descriptions of everything that grew by more; empty if nothing did.
    pub grown: Vec<String>,
    /// Jobs with missing or damaged traces, for which there is no verdict, since part of the memory
    /// may be missing.
    pub incomplete: Vec<String>,
}

impl Verdict {
    /// Returns true if nothing grew and all ranks of both jobs were compared.
    pub fn is_good(&self) -> bool {
        self.grown.is_empty() && self.incomplete.is_empty()
    }
}

/// Compares two jobs.
pub fn compare(before: &Job, after: &Job) -> Comparison {
    let peaks = |job: &Job| {
        let mut spread = Spread::default();
        for rank in job.ranks() {
            spread.add(rank.peak.bytes, &ProcessKey::of(rank));
        }
        (spread.count > 0).then_some(spread)
    };
    let node_peak = |job: &Job| {
        job.nodes.iter().filter_map(|node| node.timeline.peak.as_ref()).map(|peak| peak.bytes).max()
    };
    let job_peak = |job: &Job| job.timeline.peak.as_ref().map(|peak| peak.bytes);
    let (first, second) = (peaks(before), peaks(after));
    Comparison {
        programs: [before.program().to_owned(), after.program().to_owned()],
        ranks: [before.ranks().count(), after.ranks().count()],
        nodes: [before.nodes.len(), after.nodes.len()],
        whole: [before.is_whole(), after.is_whole()],
        rank_mean: Change::mean(first.as_ref(), second.as_ref()),
        rank_max: Change::largest(first.as_ref(), second.as_ref()),
        node_max: Change::of(node_peak(before), node_peak(after)),
        job: Change::of(job_peak(before), job_peak(after)),
        components: components(before, after),
        phases: phases(before, after),
        by_node: nodes(before, after),
    }
}

/// Pairs items by name: items of the second list in their order, then those that only the first
/// has.
fn paired<'a, T>(
    before: &'a [T],
    after: &'a [T],
    name: impl Fn(&T) -> &Arc<str>,
) -> Vec<(Arc<str>, Option<&'a T>, Option<&'a T>)> {
    let earlier: HashMap<&Arc<str>, &'a T> =
        before.iter().rev().map(|one| (name(one), one)).collect();
    let later: HashSet<&Arc<str>> = after.iter().map(&name).collect();
    let mut pairs: Vec<_> = (after.iter())
        .map(|one| (name(one).clone(), earlier.get(name(one)).copied(), Some(one)))
        .collect();
    let gone = before.iter().filter(|one| !later.contains(name(one)));
    pairs.extend(gone.map(|one| (name(one).clone(), Some(one), None)));
    pairs
}

fn components(before: &Job, after: &Job) -> Vec<Component> {
    let mut components: Vec<Component> =
        paired(&before.components, &after.components, |one| &one.name)
            .into_iter()
            .map(|(name, a, b)| Component {
                group: Group::of(&name),
                name,
                resident_mean: Change::mean(
                    a.map(|a| &a.resident_peak),
                    b.map(|b| &b.resident_peak),
                ),
                resident_max: Change::largest(
                    a.map(|a| &a.resident_peak),
                    b.map(|b| &b.resident_peak),
                ),
                owned_mean: Change::mean(a.map(|a| &a.owned_peak), b.map(|b| &b.owned_peak)),
                owned_max: Change::largest(a.map(|a| &a.owned_peak), b.map(|b| &b.owned_peak)),
            })
            .collect();
    components.sort_by(|a, b| {
        let size =
            |one: &Component| one.resident_max.bytes().abs().max(one.owned_max.bytes().abs());
        size(b).cmp(&size(a)).then(a.name.cmp(&b.name))
    });
    components
}

fn phases(before: &Job, after: &Job) -> Vec<PhaseChange> {
    let pairs = paired(&before.phases, &after.phases, |one| &one.name).into_iter();
    let change = pairs.map(|(name, a, b)| PhaseChange {
        name,
        resident_mean: Change::mean(a.map(|a| &a.resident_peak), b.map(|b| &b.resident_peak)),
        resident_max: Change::largest(a.map(|a| &a.resident_peak), b.map(|b| &b.resident_peak)),
        time_ns: Change::mean(a.map(|a| &a.time_ns), b.map(|b| &b.time_ns)),
    });
    change.collect()
}

fn nodes(before: &Job, after: &Job) -> Vec<NodeChange> {
    let pairs = paired(&before.nodes, &after.nodes, |one| &one.host).into_iter();
    let peak = |node: Option<&crate::model::Node>| {
        node.and_then(|node| node.timeline.peak.as_ref()).map(|peak| peak.bytes)
    };
    pairs.map(|(host, a, b)| NodeChange { host, peak: Change::of(peak(a), peak(b)) }).collect()
}

impl Comparison {
    /// Returns everything that grew by more than `percent`, and by at least these floors. New items
    /// count whatever the percentage. Unattributed memory, such as free chunks of the allocator,
    /// depends on the time of the sample, so it counts only in sums.
    pub fn judge(&self, percent: f64, floors: Floors) -> Verdict {
        let mut grown = Vec::new();
        let mut check = |what: &str, change: &Change, noise: u64| {
            let bytes = change.bytes();
            let floor = floors.least.max(noise);
            if bytes <= 0 || bytes < i128::from(floor) || change.after.is_none() {
                return;
            }
            let by = change.percent();
            if by.is_some_and(|by| by <= percent) {
                return;
            }
            let by = by.map_or("is new".to_owned(), |by| format!("grew by {by:.1} %"));
            grown.push(format!(
                "{what} {by}: {} before, {} after",
                units::bytes(change.before.unwrap_or(0)),
                units::bytes(change.after.unwrap_or(0))
            ));
        };
        check("the largest rank", &self.rank_max, floors.of_process());
        check("the largest node", &self.node_max, floors.of_node(self));
        for component in self.components.iter().filter(|one| one.group.has_ledger()) {
            let name = crate::terminal::clean(&component.name);
            let resident = &component.resident_max;
            check(&format!("{name} (resident, largest rank)"), resident, floors.noise);
            check(&format!("{name} (owned, largest rank)"), &component.owned_max, 0);
        }
        let sides = ["before", "after"].into_iter().zip(self.whole);
        let incomplete =
            sides.filter(|(_, whole)| !whole).map(|(side, _)| side.to_owned()).collect();
        let (least_bytes, noise_bytes) = (floors.least, floors.noise);
        Verdict { fail_above_percent: percent, least_bytes, noise_bytes, grown, incomplete }
    }
}
