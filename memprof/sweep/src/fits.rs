//! Memory of a node at numbers of ranks and nodes that were not measured, and whether it has that
//! much.
//!
//! A node holds the private pages of each of its ranks, and the pages that several of them have
//! once. Both are measured by component where several ranks run on a node, and the private ones are
//! fitted against the number of ranks.

use super::fit::Measured;
use super::gather::{Growth, Study};
use memprof::growth::Limit;
use memprof::model::{Group, Job, Node};
use memprof::terminal::Look;
use memprof::units;
use serde::Serialize;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

/// A number of ranks, and of nodes that they are divided among.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct At {
    /// Ranks, at least 1.
    pub ranks: u32,
    /// Nodes, at least 1 and at most as many as ranks.
    pub nodes: Option<u32>,
}

impl FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<At, String> {
        let number = |text: &str| match text.parse::<u32>() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(format!("{text:?} is not a positive integer; give RANKS or RANKS/NODES")),
        };
        let Some((ranks, nodes)) = text.split_once('/') else {
            return Ok(At { ranks: number(text)?, nodes: None });
        };
        let (ranks, nodes) = (number(ranks)?, number(nodes)?);
        if nodes > ranks {
            return Err(format!("more nodes ({nodes}) than ranks ({ranks})"));
        }
        Ok(At { ranks, nodes: Some(nodes) })
    }
}

/// Memory of a component on a node, as measured in jobs with several ranks on a node.
#[derive(Debug, Serialize)]
pub struct Part {
    /// Bytes of each rank in private pages, by number of ranks of the job.
    pub per_rank: Growth,
    /// Bytes of the node in pages that processes may share, by its number of ranks.
    pub shared: Growth,
}

/// Collects what components hold on the node with most ranks of each job.
#[derive(Debug, Default)]
pub struct Parts {
    /// Ranks of each job, and of its node.
    ranks: Vec<(f64, f64)>,
    /// By component: bytes of a rank and shared bytes of the node, of the jobs that have it.
    found: BTreeMap<Arc<str>, Vec<(usize, f64, f64)>>,
}

impl Parts {
    /// Adds a job of this many ranks; nothing if no node has several ranks.
    pub fn add(&mut self, job: &Job, ranks: f64) {
        // Memory of other processes on a node is in its sum.
        let is_of_ranks = |node: &&Node| node.ranks.iter().all(|one| one.identity.rank.is_some());
        let several = job.nodes.iter().filter(|node| node.ranks.len() > 1).filter(is_of_ranks);
        let Some(node) = several.max_by_key(|node| node.ranks.len()) else { return };
        let timeline = &node.timeline;
        let Some(peak) = &timeline.peak else { return };
        let (bin, of_node) = (timeline.bin_at(peak.time_ns), node.ranks.len() as f64);
        for held in &timeline.peak_held {
            let series = timeline.series.iter().find(|series| series.name == held.name);
            // Without the profiler it would not be there.
            let Some(series) = series.filter(|series| series.group != Group::Tool) else {
                continue;
            };
            let private = series.private_high.get(bin).copied().unwrap_or(0).min(held.bytes);
            let entry = self.found.entry(held.name.clone()).or_default();
            let shared = (held.bytes - private) as f64;
            entry.push((self.ranks.len(), private as f64 / of_node, shared));
        }
        self.ranks.push((ranks, of_node));
    }

    /// Fits the components.
    pub fn finish(self) -> Vec<Part> {
        let Parts { ranks, found } = self;
        let part = |(name, found): (Arc<str>, Vec<(usize, f64, f64)>)| {
            // A job without the component held nothing of it.
            let none = |ranks: f64| Measured { ranks, bytes: 0.0 };
            let mut per_rank: Vec<Measured> = ranks.iter().map(|of| none(of.0)).collect();
            let mut shared: Vec<Measured> = ranks.iter().map(|of| none(of.1)).collect();
            for (job, bytes, of_node) in found {
                (per_rank[job].bytes, shared[job].bytes) = (bytes, of_node);
            }
            let growth = |points| Growth::of(&name, Some(Group::of(&name)), points);
            Part { per_rank: growth(per_rank), shared: growth(shared) }
        };
        found.into_iter().map(part).collect()
    }
}

/// Predicted memory of the largest node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeAt {
    /// Ranks of the job.
    pub ranks: u32,
    /// Its nodes.
    pub nodes: u32,
    /// Ranks of the largest node.
    pub ranks_of_node: u32,
    /// Fewest bytes.
    pub low: f64,
    /// Most bytes.
    pub high: f64,
    /// True if the interval includes the uncertainty of the model; without points to spare it is
    /// unknown.
    pub is_certain: bool,
    /// True if the number of ranks lies outside the measurements.
    pub extrapolated: bool,
    /// Number of ranks, of the job or of a node, over the largest measured: the larger of both.
    pub times_measured: f64,
    /// Memory that the processes of a node may use, if it is known.
    pub limit: Option<u64>,
    /// Expected bytes of each group of components on the node, in descending order.
    pub groups: Vec<GroupAt>,
}

/// Expected memory of a group of components on a node.
#[derive(Copy, Clone, Debug, PartialEq, Serialize)]
pub struct GroupAt {
    /// The group.
    pub group: Group,
    /// Bytes.
    pub bytes: f64,
}

/// Numbers of ranks over the largest measured beyond which a prediction is no verdict.
const FARTHEST: f64 = 8.0;

impl NodeAt {
    /// Predicts the memory of a node; `None` without nodes, or if no job had several ranks on one.
    pub fn of(study: &Study, at: At) -> Option<NodeAt> {
        let nodes = at.nodes.filter(|_| !study.parts.is_empty())?;
        let ranks_of_node = at.ranks.div_ceil(nodes);
        let count = f64::from(ranks_of_node);
        let (mut bytes, mut within) = (0.0, 0.0);
        let (mut is_certain, mut extrapolated, mut times_measured) = (true, false, 0_f64);
        let mut groups: BTreeMap<Group, f64> = BTreeMap::new();
        for Part { per_rank, shared } in &study.parts {
            let terms = [(per_rank, f64::from(at.ranks), count), (shared, count, 1.0)];
            for (growth, ranks, times) in terms {
                let fit = growth.fit.as_ref()?;
                let found = fit.predict(ranks);
                times_measured = times_measured.max(ranks / fit.range.1);
                let expected = found.bytes.max(0.0) * times;
                bytes += expected;
                // Components were read at one moment, so that their errors may go the same way.
                within += found.plus_minus.unwrap_or(0.0) * times;
                is_certain &= found.plus_minus.is_some();
                extrapolated |= found.extrapolated;
                *groups.entry(growth.group?).or_default() += expected;
            }
        }
        let groups = groups.into_iter().map(|(group, bytes)| GroupAt { group, bytes });
        let mut groups: Vec<GroupAt> = groups.collect();
        groups.sort_by(|one, other| other.bytes.total_cmp(&one.bytes));
        Some(NodeAt {
            ranks: at.ranks,
            nodes,
            ranks_of_node,
            low: (bytes - within).max(0.0),
            high: bytes + within,
            is_certain,
            extrapolated,
            times_measured,
            limit: study.limit.map(|limit| limit.bytes),
            groups,
        })
    }

    /// Returns true if the node has that much memory, false if it has not; `None` if its memory or
    /// the error of the model is not known, if its memory lies within the interval, or so far beyond
    /// the measurements that no interval bounds the error.
    pub fn fits(&self) -> Option<bool> {
        let is_near = self.times_measured <= FARTHEST;
        let limit = self.limit.filter(|_| self.is_certain && is_near)? as f64;
        match (self.high <= limit, self.low > limit) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    /// Returns the prediction as lines of text.
    pub fn text(&self, limit: Option<Limit>, look: Look) -> String {
        let bytes = |value: f64| units::bytes(value as u64);
        let count = |number: u32, what: &str| units::count(number as usize, what);
        let mut line = format!(
            "{} on {} (at most {} per node): {} to {} on the fullest node",
            count(self.ranks, "rank"),
            count(self.nodes, "node"),
            self.ranks_of_node,
            bytes(self.low),
            bytes(self.high)
        );
        if let Some(limit) = limit {
            let of = if limit.is_of_group { "whose control group allows" } else { "which has" };
            let verdict = match self.fits() {
                Some(true) => "fits",
                Some(false) => "does not fit",
                None if !self.is_certain => "cannot tell, too few numbers of ranks",
                None if self.high <= limit.bytes as f64 => "fits only if the models hold there",
                None if self.low > limit.bytes as f64 => "does not fit if the models hold there",
                None => "may not fit",
            };
            line += &format!(", {of} {}: {verdict}", units::bytes(limit.bytes));
        }
        if self.times_measured > FARTHEST {
            line += &format!(", at {:.1} times the ranks measured", self.times_measured);
        }
        if self.extrapolated {
            line += " !";
        }
        let mut out = if self.fits() == Some(true) { line } else { look.warn(&line) };
        let all: f64 = self.groups.iter().map(|of| of.bytes).sum();
        let most = self.groups.iter().filter(|of| of.bytes >= all / 100.0);
        let parts: Vec<String> =
            most.map(|of| format!("{} {}", of.group.label(), bytes(of.bytes))).collect();
        out += &format!("\n  of which {}\n", parts.join(", "));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_ranks_or_ranks_and_nodes() {
        assert_eq!("512".parse(), Ok(At { ranks: 512, nodes: None }));
        assert_eq!("512/8".parse(), Ok(At { ranks: 512, nodes: Some(8) }));
        for wrong in ["", "0", "8/0", "8/", "/8", "4/8", "-1", "1/1/1", "99999999999"] {
            assert!(wrong.parse::<At>().is_err(), "{wrong}");
        }
    }

    fn at(low: f64, high: f64, limit: Option<u64>) -> NodeAt {
        NodeAt {
            ranks: 8,
            nodes: 2,
            ranks_of_node: 4,
            low,
            high,
            is_certain: true,
            extrapolated: true,
            times_measured: 4.0,
            limit,
            groups: [(Group::Mpi, high / 2.0), (Group::Stack, high / 1000.0)]
                .map(|(group, bytes)| GroupAt { group, bytes })
                .to_vec(),
        }
    }

    #[test]
    fn only_a_whole_interval_below_the_limit_fits() {
        assert_eq!(at(1.0, 100.0, Some(100)).fits(), Some(true));
        assert_eq!(at(1.0, 101.0, Some(100)).fits(), None);
        assert_eq!(at(101.0, 200.0, Some(100)).fits(), Some(false));
        assert_eq!(at(1.0, 2.0, None).fits(), None);
        let unknown = NodeAt { is_certain: false, ..at(1.0, 1.0, Some(100)) };
        assert_eq!(unknown.fits(), None);
        let limit = Limit { bytes: 100, is_of_group: true };
        let text = unknown.text(Some(limit), Look::plain());
        assert!(text.contains("allows 100 B: cannot tell, too few numbers of ranks"), "{text}");
    }

    #[test]
    fn far_beyond_the_measurements_no_verdict_is_certain() {
        let far = NodeAt { times_measured: 64.0, ..at(1.0, 100.0, Some(100)) };
        assert_eq!(far.fits(), None);
        let text = far.text(Some(Limit { bytes: 100, is_of_group: false }), Look::plain());
        let verdict = ": fits only if the models hold there, at 64.0 times the ranks measured !";
        assert!(text.contains(verdict), "{text}");
        let too_much = NodeAt { times_measured: 64.0, ..at(101.0, 200.0, Some(100)) };
        assert_eq!(too_much.fits(), None);
        let text = too_much.text(Some(Limit { bytes: 100, is_of_group: false }), Look::plain());
        assert!(text.contains(": does not fit if the models hold there"), "{text}");
    }

    #[test]
    fn text_has_interval_limit_verdict_and_large_groups() {
        let gib = f64::from(1 << 30);
        let limit = Limit { bytes: 64 << 30, is_of_group: false };
        let text = at(31.0 * gib, 36.0 * gib, Some(limit.bytes)).text(Some(limit), Look::plain());
        let expected = "8 ranks on 2 nodes (at most 4 per node): 31.0 GiB to 36.0 GiB on the \
            fullest node, which has 64.0 GiB: fits !\n  of which mpi 18.0 GiB\n";
        assert_eq!(text, expected);
    }
}
