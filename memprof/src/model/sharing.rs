//! Bounds of a node's memory over time, where its processes share pages.
//!
//! The resident memory of a process (R) is private or in pages that other processes may map, too
//! (S). A node holds Σ(R − S) + U, where U is the union of the shared pages. In a bin, S is known
//! between two bounds, from samples. Which pages they were is only known for the last sample of
//! each process, together with the number of pages that were present before it. So U is bounded at
//! every time:
//!
//! - it contains the pages of one process, and all pages of the last samples except those that a
//!   process did not have at that time;
//! - it contains no pages except those of the last samples, and those that were dropped before.

use super::join::{Claim, Joined, Union};
use super::timeline::Then;
use super::timeline::place_of;
use super::{OwnPeak, Series, Timeline};
use std::collections::HashMap;
use std::sync::Arc;

/// The smallest possible page.
const PAGE: u64 = 4096;

/// Sums over the processes of a node, by component.
#[derive(Debug, Default)]
pub struct Sharing {
    parts: HashMap<Arc<str>, Part>,
    bins: usize,
}

/// Memory of a component that may be shared, by bin.
#[derive(Debug, Default)]
struct Part {
    mean: Shares,
    low: Shares,
    floor: Shares,
    /// Upper bounds of the total, in private pages, and in shared pages, added up over the
    /// processes.
    high: Vec<u64>,
    private: Vec<u64>,
    shared: Vec<u64>,
    /// Lower bounds of the shared part, added up.
    certain: Vec<u64>,
    /// Pages that processes had in some sample and may not have had in this bin, added up.
    missing: Vec<u64>,
}

/// Part of a value that may be shared: over all processes, and the largest of one.
#[derive(Debug, Default)]
struct Shares {
    sum: Vec<u64>,
    most: Vec<u64>,
}

impl Shares {
    fn add(&mut self, bin: usize, value: u64, doubled: u64) {
        self.sum[bin] = self.sum[bin].saturating_add(value);
        self.most[bin] = self.most[bin].max(value.saturating_sub(doubled));
    }
}

impl Part {
    fn new(bins: usize) -> Part {
        let shares = || Shares { sum: vec![0; bins], most: vec![0; bins] };
        Part {
            mean: shares(),
            low: shares(),
            floor: shares(),
            high: vec![0; bins],
            private: vec![0; bins],
            shared: vec![0; bins],
            certain: vec![0; bins],
            missing: vec![0; bins],
        }
    }

    /// Returns the part of `value` that the node held at least: shared pages count once.
    fn at_least(&self, shares: &Shares, union: Option<&Union>, bin: usize, value: u64) -> u64 {
        let once = self.union_at_least(union, bin).max(shares.most[bin]).min(shares.sum[bin]);
        value.saturating_sub(shares.sum[bin] - once)
    }

    fn union_at_least(&self, union: Option<&Union>, bin: usize) -> u64 {
        union.map_or(0, |union| union.least.saturating_sub(self.missing[bin]))
    }

    /// Returns the bytes that were counted more than once at every time of a bin.
    fn repeated(&self, union: Option<&Union>, bin: usize) -> u64 {
        union.map_or(0, |union| self.certain[bin].saturating_sub(union.most))
    }

    /// Returns the bytes by which the sum of the processes' maxima exceeds the maximum of the node.
    fn beyond(&self, union: Option<&Union>, bin: usize) -> u64 {
        let shared = union.map_or(u64::MAX, |union| union.most).min(self.shared[bin]);
        self.high[bin].saturating_sub(self.private[bin].saturating_add(shared))
    }
}

impl Sharing {
    /// Creates the state for a timeline of `bins` bins.
    pub fn new(bins: usize) -> Sharing {
        Sharing { parts: HashMap::new(), bins }
    }

    /// Adds a process, whose memory is on the axis of the node. `moved` is the number of bytes of
    /// its segments that counted for another component earlier.
    pub fn add(&mut self, own: &Timeline, claims: &HashMap<Arc<str>, Claim>, moved: u64) {
        for series in
            own.series.iter().filter(|series| series.shared_high.iter().any(|most| *most > 0))
        {
            let claim = claims.get(&series.name).copied().unwrap_or_default();
            let part =
                self.parts.entry(series.name.clone()).or_insert_with(|| Part::new(self.bins));
            for bin in 0..self.bins {
                let shared = series.shared_high[bin];
                for (shares, values) in [
                    (&mut part.mean, &series.mean),
                    (&mut part.low, &series.low),
                    (&mut part.floor, &series.floor),
                ] {
                    shares.add(bin, values[bin].min(shared), claim.doubled);
                }
                // In whole pages, since the values of bins are rounded.
                let certain =
                    series.low[bin].saturating_sub(series.private_high[bin]) & !(PAGE - 1);
                let missing = claim.ever.saturating_add(moved).saturating_sub(certain);
                for (sum, value) in [
                    (&mut part.high, series.high[bin]),
                    (&mut part.private, series.private_high[bin]),
                    (&mut part.shared, shared),
                    (&mut part.certain, certain),
                    (&mut part.missing, missing),
                ] {
                    sum[bin] = sum[bin].saturating_add(value);
                }
            }
        }
        for (name, claim) in claims {
            if !own.series.iter().any(|series| series.name == *name) {
                let part = self.parts.entry(name.clone()).or_insert_with(|| Part::new(self.bins));
                part.missing.iter_mut().for_each(|sum| *sum = sum.saturating_add(claim.ever));
            }
        }
    }

    /// Returns a component of a process at its peak, which lies in a bin of the component's memory.
    pub fn then(own: &Series, claims: &HashMap<Arc<str>, Claim>, bytes: u64, bin: usize) -> Then {
        let (low, shared) = (own.low[bin], own.shared_high[bin]);
        Then {
            name: own.name.clone(),
            bytes,
            shared: shared.min(bytes),
            doubled: claims.get(&own.name).map_or(0, |claim| claim.doubled),
            private: low - low.min(shared),
        }
    }

    /// Makes bounds of sums over processes: `mean`, `low` and `floor` are at most the memory of the node, `high` and
    /// `ceiling` at least. Returns what is certainly repeated in each bin, and puts the others of the node into the
    /// peaks of processes.
    pub fn bound(&self, timeline: &mut Timeline, joined: &Joined, own: &mut [OwnPeak]) -> Vec<u64> {
        let names: Vec<Arc<str>> =
            timeline.series.iter().map(|series| series.name.clone()).collect();
        let places: HashMap<&str, usize> =
            names.iter().enumerate().map(|(at, name)| (&**name, at)).collect();
        let sums: Vec<Vec<u64>> = timeline.series.iter().map(|series| series.low.clone()).collect();
        let mut all_repeated = vec![0u64; timeline.bins];
        for (name, part) in &self.parts {
            let Some(at) = place_of(&places, name) else { continue };
            let series = &mut timeline.series[at];
            let union = joined.unions.get(name);
            for bin in 0..timeline.bins.min(self.bins) {
                for (values, shares) in [
                    (&mut series.mean, &part.mean),
                    (&mut series.low, &part.low),
                    (&mut series.floor, &part.floor),
                ] {
                    values[bin] = part.at_least(shares, union, bin, values[bin]);
                }
                let repeated = part.repeated(union, bin);
                let beyond = part.beyond(union, bin).max(repeated);
                series.high[bin] = series.high[bin].saturating_sub(beyond).max(series.low[bin]);
                series.ceiling[bin] =
                    series.ceiling[bin].saturating_sub(repeated).max(series.high[bin]);
                all_repeated[bin] = all_repeated[bin].saturating_add(repeated);
            }
        }
        for peak in own.iter_mut() {
            self.around(peak, timeline, &places, &sums, joined);
        }
        let least = count_by_shares(timeline, own);
        for (repeated, least) in all_repeated.iter_mut().zip(least) {
            *repeated = repeated.saturating_add(least);
        }
        all_repeated
    }

    /// Adds what the other processes of the node held at least at the peak of a process.
    fn around(
        &self,
        peak: &mut OwnPeak,
        timeline: &Timeline,
        places: &HashMap<&str, usize>,
        sums: &[Vec<u64>],
        joined: &Joined,
    ) {
        let bin = timeline.bin_at(peak.moment.time_ns);
        let mut held: Vec<u64> = timeline.series.iter().map(|series| series.low[bin]).collect();
        for then in &peak.then {
            // The sums do not show whose the merged parts are.
            let Some(&at) = places.get(&*then.name) else { continue };
            let part = self.parts.get(&then.name);
            let private = match part {
                Some(part) => sums[at][bin].saturating_sub(part.low.sum[bin]),
                None => sums[at][bin],
            };
            let union =
                part.map_or(0, |part| part.union_at_least(joined.unions.get(&then.name), bin));
            let once = then.shared.saturating_sub(then.doubled).max(union);
            held[at] = (then.bytes - then.shared)
                .saturating_add(private.saturating_sub(then.private))
                .saturating_add(once);
        }
        let own = peak.then.iter().fold(0, |sum: u64, then| sum.saturating_add(then.bytes));
        let all = held.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        // Memory that no component has is added unchanged.
        peak.moment.bytes = peak.moment.bytes.saturating_sub(own).saturating_add(all);
        peak.held = (timeline.series.iter().zip(held))
            .map(|(series, bytes)| (series.name.clone(), bytes, series.low[bin]))
            .collect();
    }
}

/// Subtracts from each component its part of the anonymous pages that several processes have in
/// common, as forks leave them: the kernel reports their number and the share of a process, not the
/// owner. Returns a lower bound, for each bin, of the amount by which the sums were too large.
fn count_by_shares(timeline: &mut Timeline, own: &mut [OwnPeak]) -> Vec<u64> {
    let [least, most, of_one] = timeline.forked.clone();
    if most.iter().all(|bytes| *bytes == 0) {
        return least;
    }
    let repeated = |bin: usize| most[bin].saturating_sub(of_one[bin]);
    let part = |of: u64, sum: u64, all: u64| {
        (u128::from(of) * u128::from(all.min(sum)) / u128::from(sum.max(1))) as u64
    };
    for bin in 0..timeline.bins.min(most.len()) {
        let sum: u64 = timeline.series.iter().map(|series| series.private_high[bin]).sum();
        for series in &mut timeline.series {
            let private = series.private_high[bin];
            let (from, to) = (part(private, sum, repeated(bin)), part(private, sum, least[bin]));
            for values in [&mut series.mean, &mut series.low, &mut series.floor] {
                values[bin] = values[bin].saturating_sub(from);
            }
            for values in [&mut series.high, &mut series.ceiling] {
                values[bin] = values[bin].saturating_sub(to);
            }
        }
    }
    for peak in own {
        let bin = timeline.bin_at(peak.moment.time_ns);
        let sum: u64 = peak.held.iter().map(|(_, bytes, _)| *bytes).sum();
        for ((_, bytes, low), series) in peak.held.iter_mut().zip(&timeline.series) {
            let less = part(*bytes, sum, repeated(bin));
            *bytes -= less;
            peak.moment.bytes = peak.moment.bytes.saturating_sub(less);
            *low = series.low[bin];
        }
    }
    least
}

#[cfg(test)]
#[path = "sharing_tests.rs"]
mod tests;
