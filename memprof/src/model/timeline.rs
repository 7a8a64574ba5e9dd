//! What components held over time: bins of equal width on one axis.

use super::Group;
use serde::Serialize;
use std::sync::Arc;

/// The most bins a timeline has.
pub const BINS: usize = 256;

/// Components over time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Timeline {
    /// Where the first bin starts, in nanoseconds since the job started.
    pub start_ns: u64,
    /// Width of a bin; at least 1 where there is a bin.
    pub bin_ns: u64,
    /// How many bins; every series has as many values.
    pub bins: usize,
    /// Sorted by group, then by the largest value, largest first.
    pub series: Vec<Series>,
    /// When which phase was open, in the order in which they began.
    pub phases: Vec<Span>,
    /// The moment at which all components together held most, known more finely than the bins.
    pub peak: Option<Moment>,
}

/// One component over time, in bytes.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// Display name of the component.
    pub name: Arc<str>,
    /// The group it is shown in.
    pub group: Group,
    /// Resident: mean of the samples in each bin.
    pub mean: Vec<u64>,
    /// Resident: smallest sample in each bin.
    pub low: Vec<u64>,
    /// Resident: largest sample in each bin.
    pub high: Vec<u64>,
    /// Owned: largest sample in each bin.
    pub owned: Vec<u64>,
    /// Resident at any time of the bin, at least: between samples too. Of what no ledger counts, `low`.
    pub floor: Vec<u64>,
    /// And at most; of what no ledger counts, `high`.
    pub ceiling: Vec<u64>,
}

/// An interval with a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    /// Name of the phase.
    pub name: Arc<str>,
    /// Depth in the nesting of phases: 0 is outermost.
    pub depth: u32,
    /// Nanoseconds since the job started.
    pub begin_ns: u64,
    /// As `begin_ns`; the end of the trace where it was still open.
    pub end_ns: u64,
}

/// A peak, with what was going on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Moment {
    /// Nanoseconds since the job started.
    pub time_ns: u64,
    /// Resident bytes.
    pub bytes: u64,
    /// Innermost phase.
    pub phase: Option<Arc<str>>,
    /// The MPI function the sampled thread was in.
    pub mpi_function: Option<Arc<str>>,
}

impl Timeline {
    /// Where the last bin ends.
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.bin_ns.saturating_mul(self.bins as u64))
    }

    /// Middle of a bin.
    pub fn middle_ns(&self, bin: usize) -> u64 {
        self.start_ns
            .saturating_add(self.bin_ns.saturating_mul(bin as u64))
            .saturating_add(self.bin_ns / 2)
    }

    /// Sum of the means of all components, by bin.
    pub fn totals(&self) -> Vec<u64> {
        self.sum_of(|series| &series.mean)
    }

    /// What all components together had at least and at most, by bin: sums of their bounds.
    pub fn bounds(&self) -> (Vec<u64>, Vec<u64>) {
        (self.sum_of(|series| &series.floor), self.sum_of(|series| &series.ceiling))
    }

    fn sum_of(&self, values: fn(&Series) -> &Vec<u64>) -> Vec<u64> {
        let mut totals = vec![0u64; self.bins];
        for series in &self.series {
            for (total, value) in totals.iter_mut().zip(values(series)) {
                *total = total.saturating_add(*value);
            }
        }
        totals
    }

    /// Sets the peak to the bin with the largest sum of means.
    pub fn mark_peak(&mut self) {
        let totals = self.totals();
        let Some((bin, bytes)) = (totals.iter().enumerate())
            .max_by_key(|(bin, bytes)| (**bytes, std::cmp::Reverse(*bin)))
        else {
            return;
        };
        let time_ns = self.middle_ns(bin);
        let phase = self
            .phases
            .iter()
            .filter(|span| span.begin_ns <= time_ns && time_ns <= span.end_ns)
            .max_by_key(|span| span.depth);
        self.peak = Some(Moment {
            time_ns,
            bytes: *bytes,
            phase: phase.map(|span| span.name.clone()),
            mpi_function: None,
        });
    }

    /// Sorts the series as promised.
    pub fn sort(&mut self) {
        self.series.sort_by(|a, b| {
            let most = |series: &Series| series.high.iter().max().copied().unwrap_or(0);
            (a.group.cmp(&b.group)).then(most(b).cmp(&most(a))).then(a.name.cmp(&b.name))
        });
    }

    /// The same with one series for each group.
    pub fn by_group(&self) -> Timeline {
        let mut groups: Vec<Series> = Vec::new();
        for series in &self.series {
            let at = match groups.iter().position(|known| known.group == series.group) {
                Some(at) => at,
                None => {
                    groups.push(Series::zero(series.group.label().into(), series.group, self.bins));
                    groups.len() - 1
                }
            };
            groups[at].add(series);
        }
        let mut timeline = Timeline { series: groups, ..self.frame() };
        timeline.sort();
        timeline
    }

    /// The same with the `keep` largest components of each group, the others of it together as
    /// `other GROUP`.
    pub fn largest(&self, keep: usize) -> Timeline {
        let mut kept: Vec<Series> = Vec::new();
        let mut rest: Vec<Series> = Vec::new();
        for group in Group::ALL {
            let mut members: Vec<&Series> =
                self.series.iter().filter(|s| s.group == group).collect();
            members.sort_by_key(|s| std::cmp::Reverse(s.high.iter().max().copied().unwrap_or(0)));
            if members.len() <= keep + 1 {
                kept.extend(members.into_iter().cloned());
                continue;
            }
            let mut other =
                Series::zero(format!("other {}", group.label()).into(), group, self.bins);
            for (index, member) in members.into_iter().enumerate() {
                if index < keep {
                    kept.push(member.clone());
                } else {
                    other.add(member);
                }
            }
            rest.push(other);
        }
        kept.append(&mut rest);
        let mut timeline = Timeline { series: kept, ..self.frame() };
        timeline.sort();
        timeline
    }

    fn frame(&self) -> Timeline {
        Timeline {
            series: Vec::new(),
            start_ns: self.start_ns,
            bin_ns: self.bin_ns,
            bins: self.bins,
            phases: self.phases.clone(),
            peak: self.peak.clone(),
        }
    }

    /// Adds what another process held to this timeline, both on the axis of the job.
    ///
    /// Between two samples a process is taken to hold what it held at the earlier one; before its
    /// first bin and after its last it holds nothing.
    pub fn accumulate(&mut self, other: &Timeline) {
        if self.bins == 0 || other.bins == 0 || other.bin_ns == 0 || self.bin_ns == 0 {
            return;
        }
        let covered = self.cover(other);
        for series in &other.series {
            let at = match self.series.iter().position(|known| known.name == series.name) {
                Some(at) => at,
                None => {
                    let zero = Series::zero(series.name.clone(), series.group, self.bins);
                    self.series.push(zero);
                    self.series.len() - 1
                }
            };
            let into = &mut self.series[at];
            for (bin, parts) in covered.iter().enumerate() {
                let Some((first, last)) = *parts else {
                    continue;
                };
                let range = first..=last;
                let count = (last - first + 1) as u64;
                let sum = |values: &[u64]| {
                    values[range.clone()].iter().fold(0u64, |sum, value| sum.saturating_add(*value))
                };
                let most = |values: &[u64]| values[range.clone()].iter().max().copied();
                let least = |values: &[u64]| values[range.clone()].iter().min().copied();
                grow(&mut into.mean[bin], sum(&series.mean) / count);
                grow(&mut into.low[bin], least(&series.low).unwrap_or(0));
                grow(&mut into.high[bin], most(&series.high).unwrap_or(0));
                grow(&mut into.owned[bin], most(&series.owned).unwrap_or(0));
                grow(&mut into.floor[bin], least(&series.floor).unwrap_or(0));
                grow(&mut into.ceiling[bin], most(&series.ceiling).unwrap_or(0));
            }
        }
    }

    /// For each bin of this axis, the bins of `other` that lie in it.
    fn cover(&self, other: &Timeline) -> Vec<Option<(usize, usize)>> {
        (0..self.bins)
            .map(|bin| {
                let begin = self.start_ns.saturating_add(self.bin_ns.saturating_mul(bin as u64));
                let end = begin.saturating_add(self.bin_ns);
                if end <= other.start_ns || begin >= other.end_ns() {
                    return None;
                }
                let first = begin.saturating_sub(other.start_ns) / other.bin_ns;
                let last = (end - 1 - other.start_ns) / other.bin_ns;
                let limit = other.bins - 1;
                Some(((first as usize).min(limit), (last as usize).min(limit)))
            })
            .collect()
    }

    /// An empty timeline from `start_ns` that reaches at least to `end_ns`.
    pub fn axis(start_ns: u64, end_ns: u64, bins: usize) -> Timeline {
        let length = end_ns.saturating_sub(start_ns).max(1);
        let bin_ns = length.div_ceil(bins.max(1) as u64).max(1);
        Timeline {
            start_ns,
            bin_ns,
            bins: (length.div_ceil(bin_ns) as usize).max(1),
            ..Timeline::default()
        }
    }
}

fn grow(value: &mut u64, by: u64) {
    *value = value.saturating_add(by);
}

impl Series {
    /// Nothing held in any bin.
    pub fn zero(name: Arc<str>, group: Group, bins: usize) -> Series {
        Series {
            name,
            group,
            mean: vec![0; bins],
            low: vec![0; bins],
            high: vec![0; bins],
            owned: vec![0; bins],
            floor: vec![0; bins],
            ceiling: vec![0; bins],
        }
    }

    /// Adds another series of the same axis.
    pub fn add(&mut self, other: &Series) {
        for (into, from) in [
            (&mut self.mean, &other.mean),
            (&mut self.low, &other.low),
            (&mut self.high, &other.high),
            (&mut self.owned, &other.owned),
            (&mut self.floor, &other.floor),
            (&mut self.ceiling, &other.ceiling),
        ] {
            for (value, by) in into.iter_mut().zip(from) {
                grow(value, *by);
            }
        }
    }
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
