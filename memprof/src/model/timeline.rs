//! Memory of components over time: bins of equal width on one axis.

use super::{Group, ProcessKey};
use serde::{Serialize, Serializer};
use std::collections::HashMap;
use std::sync::Arc;

/// The most bins a timeline has.
pub const BINS: usize = 256;
/// The most components a sum over ranks has; later ones are put together as `other GROUP`.
pub const NAMES: usize = 512;

/// Components over time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Timeline {
    /// Beginning of the first bin, in nanoseconds since the job started.
    pub start_ns: u64,
    /// Width of a bin; at least 1 where there is a bin.
    pub bin_ns: u64,
    /// Number of bins; every series has as many values.
    pub bins: usize,
    /// Sorted by group, then by the largest value, largest first.
    pub series: Vec<Series>,
    /// Full samples taken in each bin, of sums by all processes together.
    pub samples: Vec<u32>,
    /// Bytes of anonymous pages in each bin that other processes have, too, as forks leave them: by how much they are
    /// more than the process's share at least, how many they are at most, and the most of these of one process.
    #[serde(skip)]
    pub forked: [Vec<u64>; 3],
    /// When which phase was open, in the order in which they began.
    pub phases: Vec<Span>,
    /// The most that all components together are known to have held at once. Of a process that is exact at samples; of
    /// several it is a lower bound: the memory of one of them at its own peak and of the others at least at that time,
    /// or the mean of a bin, whichever is more.
    pub peak: Option<Moment>,
    /// Upper bound of the peak, if all had their highest of a bin at one moment, and with the part of the kernel's own
    /// peaks then that no sample saw.
    pub peak_at_most: u64,
    /// Process that had the peak, where the bins show less.
    pub peak_of: Option<ProcessKey>,
    /// What components held at that peak, of sums: `peak` is their sum. Largest first.
    pub peak_held: Vec<HeldThen>,
}

/// What a component held at a peak.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeldThen {
    /// Display name of the component.
    pub name: Arc<str>,
    /// Resident bytes.
    pub bytes: u64,
}

/// The peak of one process among others, as its trace knows it.
#[derive(Clone, Debug)]
pub struct OwnPeak {
    /// On the axis of the job.
    pub moment: Moment,
    /// Which process.
    pub who: ProcessKey,
    /// What each component held then in the processes of its node, and the node at least in the bin of that moment.
    pub held: Vec<(Arc<str>, u64, u64)>,
    /// Its components then.
    pub then: Vec<Then>,
    /// The most it can have held at any moment, by the kernel's own count.
    pub at_most: u64,
}

/// One component over time, in bytes.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// Display name of the component.
    pub name: Arc<str>,
    /// The group it is shown in.
    pub group: Group,
    /// Resident: mean over the time of each bin.
    pub mean: Vec<u64>,
    /// Resident: least in each bin.
    pub low: Vec<u64>,
    /// Resident: most in each bin.
    pub high: Vec<u64>,
    /// Owned: largest sample in each bin.
    pub owned: Vec<u64>,
    /// Resident at any time of the bin, at least: between samples too. `low` of memory that no ledger counts.
    pub floor: Vec<u64>,
    /// And at most; `high` of memory that no ledger counts.
    pub ceiling: Vec<u64>,
    /// Resident in pages that no other process maps: at most in each bin.
    #[serde(skip)]
    pub private_high: Vec<u64>,
    /// And in pages that others may map, too.
    #[serde(skip)]
    pub shared_high: Vec<u64>,
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
    /// Whether anything is known of what was resident in the phase.
    pub is_sampled: bool,
}

/// A peak, with the activity at that time.
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

impl Moment {
    /// Writes the moment, or `null` where nothing was seen to be resident at any.
    ///
    /// # Errors
    /// Those of the serialiser.
    pub fn or_null<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (self.bytes > 0).then_some(self).serialize(to)
    }
}

impl Timeline {
    /// Returns the end of the last bin.
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.bin_ns.saturating_mul(self.bins as u64))
    }

    /// Returns the beginning of a bin.
    pub fn begin_ns(&self, bin: usize) -> u64 {
        self.start_ns.saturating_add(self.bin_ns.saturating_mul(bin as u64))
    }

    /// Returns the middle of a bin.
    pub fn middle_ns(&self, bin: usize) -> u64 {
        self.start_ns
            .saturating_add(self.bin_ns.saturating_mul(bin as u64))
            .saturating_add(self.bin_ns / 2)
    }

    /// Returns the sum of the means of all components, by bin.
    pub fn totals(&self) -> Vec<u64> {
        self.sum_of(|series| &series.mean)
    }

    /// Returns the upper bound for all components together, by bin: the sums of their bounds.
    pub fn ceilings(&self) -> Vec<u64> {
        self.sum_of(|series| &series.ceiling)
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

    /// Returns the bin that contains a time; the last one for later times.
    pub fn bin_at(&self, time_ns: u64) -> usize {
        let bin = time_ns.saturating_sub(self.start_ns) / self.bin_ns.max(1);
        (bin as usize).min(self.bins.saturating_sub(1))
    }

    /// Sets the peak, from the facts of the processes and from the bins. `most` has the sum of the largest totals of
    /// the processes for each bin, `unseen` the sum of the bytes that each may have held there beyond that.
    pub fn mark_peak(&mut self, own: &[OwnPeak], most: &[u64], unseen: &[u64]) {
        let most = |bin: usize| most.get(bin).copied().unwrap_or(u64::MAX);
        // Sums of bins are rounded up, component by component.
        let totals =
            self.totals().into_iter().enumerate().map(|(bin, sum)| (bin, sum.min(most(bin))));
        let Some((bin, bytes)) =
            totals.max_by_key(|(bin, bytes)| (*bytes, std::cmp::Reverse(*bin)))
        else {
            return;
        };
        let mut peak = Moment { time_ns: self.middle_ns(bin), bytes, ..Moment::default() };
        let mut largest = None;
        let places: HashMap<&str, usize> =
            self.series.iter().enumerate().map(|(at, series)| (&*series.name, at)).collect();
        for one in own {
            let others = self.others_at(one, &places).into_iter().fold(0, u64::saturating_add);
            let bytes = one.moment.bytes.saturating_add(others);
            if bytes >= peak.bytes {
                peak = Moment { bytes, ..one.moment.clone() };
                largest = Some(one);
            }
        }
        let mut held = match largest {
            None => self.series.iter().map(|series| series.mean[bin]).collect(),
            Some(one) => self.others_at(one, &places),
        };
        for (name, then, _) in largest.iter().flat_map(|one| &one.held) {
            if let Some(at) = place_of(&places, name) {
                grow(&mut held[at], *then);
            }
        }
        self.peak_of = largest.map(|one| one.who.clone());
        self.peak_held = self
            .series
            .iter()
            .zip(held)
            .map(|(series, bytes)| HeldThen { name: series.name.clone(), bytes })
            .filter(|held| held.bytes > 0)
            .collect();
        self.peak_held.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
        let high = self.sum_of(|series| &series.high);
        let beyond = |bin: usize| unseen.get(bin).copied().unwrap_or(0);
        let bounds = high.iter().enumerate();
        let bound =
            bounds.map(|(bin, sum)| (*sum).min(most(bin)).saturating_add(beyond(bin))).max();
        self.peak_at_most = match own {
            [one] => one.at_most.max(peak.bytes),
            _ => bound.unwrap_or(0).max(peak.bytes),
        };
        self.peak = Some(peak);
        self.name_peak();
    }

    /// Returns the bytes that the other processes held at least around the peak of one, by series.
    fn others_at(&self, one: &OwnPeak, places: &HashMap<&str, usize>) -> Vec<u64> {
        let bin = self.bin_at(one.moment.time_ns);
        let mut others: Vec<u64> = self.series.iter().map(|series| series.low[bin]).collect();
        for (name, _, low) in &one.held {
            if let Some(at) = place_of(places, name) {
                others[at] = others[at].saturating_sub(*low);
            }
        }
        others
    }

    /// Sets the phase of the peak, if no process provides a better one.
    pub fn name_peak(&mut self) {
        let (None, Some(peak)) = (&self.peak_of, &mut self.peak) else { return };
        let time_ns = peak.time_ns;
        let open =
            self.phases.iter().filter(|span| span.begin_ns <= time_ns && time_ns <= span.end_ns);
        peak.phase = open.max_by_key(|span| span.depth).map(|span| span.name.clone());
    }

    /// Sorts the series as promised.
    pub fn sort(&mut self) {
        self.series.sort_by(|a, b| {
            let most = |series: &Series| series.high.iter().max().copied().unwrap_or(0);
            (a.group.cmp(&b.group)).then(most(b).cmp(&most(a))).then(a.name.cmp(&b.name))
        });
    }

    /// Returns the timeline with one series for each group.
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

    /// Returns the timeline with the `keep` largest components of each group; the others are merged
    /// as `other GROUP`.
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
            let mut other = Series::zero(group.others(), group, self.bins);
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
            samples: self.samples.clone(),
            forked: self.forked.clone(),
            start_ns: self.start_ns,
            bin_ns: self.bin_ns,
            bins: self.bins,
            phases: self.phases.clone(),
            peak: self.peak.clone(),
            peak_at_most: self.peak_at_most,
            peak_of: self.peak_of.clone(),
            peak_held: self.peak_held.clone(),
        }
    }

    /// Adds another timeline, both on the axis of the job.
    pub fn accumulate(&mut self, other: &Timeline) {
        self.accumulate_until(other, other.end_ns());
    }

    /// Adds the memory of another process that was there until `end_ns`, on the axis of the job.
    ///
    /// Before its first bin and after its end it holds nothing: of a bin that it does not fill, its mean is over all
    /// of the bin's time, and its least is nothing.
    pub fn accumulate_until(&mut self, other: &Timeline, end_ns: u64) {
        if self.bins == 0 || other.bins == 0 || other.bin_ns == 0 || self.bin_ns == 0 {
            return;
        }
        let end_ns = end_ns.min(other.end_ns());
        for (part, samples) in other.samples.iter().enumerate().filter(|(_, count)| **count > 0) {
            let bin = self.bin_at(other.middle_ns(part));
            self.samples.resize(self.bins, 0);
            self.samples[bin] = self.samples[bin].saturating_add(*samples);
        }
        let covered: Vec<Cover> =
            (0..self.bins).filter_map(|bin| self.cover(bin, other, end_ns)).collect();
        self.add_beyond(other, &covered);
        let mut known: HashMap<Arc<str>, usize> =
            self.series.iter().enumerate().map(|(at, series)| (series.name.clone(), at)).collect();
        for series in &other.series {
            let at = match known.get(&series.name) {
                Some(at) => *at,
                None => {
                    let name = match self.series.len() < NAMES {
                        true => series.name.clone(),
                        false => series.group.others(),
                    };
                    *known.entry(name.clone()).or_insert_with(|| {
                        self.series.push(Series::zero(name, series.group, self.bins));
                        self.series.len() - 1
                    })
                }
            };
            let into = &mut self.series[at];
            for cover in &covered {
                let bin = cover.bin;
                let most =
                    |values: &[u64]| values[cover.parts()].iter().max().copied().unwrap_or(0);
                let least = |values: &[u64]| match cover.whole {
                    true => values[cover.parts()].iter().min().copied().unwrap_or(0),
                    false => 0,
                };
                grow(&mut into.mean[bin], cover.mean(&series.mean, other, self.bin_ns));
                grow(&mut into.low[bin], least(&series.low));
                grow(&mut into.high[bin], most(&series.high));
                grow(&mut into.owned[bin], most(&series.owned));
                grow(&mut into.floor[bin], least(&series.floor));
                grow(&mut into.ceiling[bin], most(&series.ceiling));
                grow(&mut into.private_high[bin], most(&series.private_high));
                grow(&mut into.shared_high[bin], most(&series.shared_high));
            }
        }
    }

    fn add_beyond(&mut self, other: &Timeline, covered: &[Cover]) {
        let [least, most, _] = &other.forked;
        if most.iter().all(|bytes| *bytes == 0) {
            return;
        }
        for sums in &mut self.forked {
            sums.resize(self.bins, 0);
        }
        let [least_sums, most_sums, of_one] = &mut self.forked;
        for cover in covered {
            let bin = cover.bin;
            let lowest = least[cover.parts()].iter().min().copied().unwrap_or(0);
            let highest = most[cover.parts()].iter().max().copied().unwrap_or(0);
            grow(&mut least_sums[bin], lowest);
            grow(&mut most_sums[bin], highest);
            // It had them for the whole of the bin.
            of_one[bin] = of_one[bin].max(if cover.whole { highest } else { 0 });
        }
    }

    /// Returns the part of `other` in a bin of this axis, up to `end_ns`.
    fn cover(&self, bin: usize, other: &Timeline, end_ns: u64) -> Option<Cover> {
        let begin = self.start_ns.saturating_add(self.bin_ns.saturating_mul(bin as u64));
        let end = begin.saturating_add(self.bin_ns);
        let (from, to) = (begin.max(other.start_ns), end.min(end_ns));
        if from >= to {
            return None;
        }
        let place =
            |time: u64| (((time - other.start_ns) / other.bin_ns) as usize).min(other.bins - 1);
        // The axis of a job is longer than the job by less than a nanosecond for each bin.
        let missing = (from - begin).saturating_add(end - to);
        let whole = missing <= (BINS as u64).min(self.bin_ns / 64);
        Some(Cover { bin, first: place(from), last: place(to - 1), from, to, whole })
    }

    /// Returns an empty timeline from `start_ns` that extends at least to `end_ns`.
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

/// The part of a bin that another timeline fills, and with which of its bins.
struct Cover {
    bin: usize,
    first: usize,
    last: usize,
    from: u64,
    to: u64,
    whole: bool,
}

impl Cover {
    fn parts(&self) -> std::ops::RangeInclusive<usize> {
        self.first..=self.last
    }

    /// Returns the mean over a bin of width `bin_ns`.
    fn mean(&self, values: &[u64], other: &Timeline, bin_ns: u64) -> u64 {
        if self.first == self.last && self.whole {
            return values[self.first];
        }
        let sum = self.parts().fold(0u128, |sum, part| {
            let begin = other.start_ns.saturating_add(other.bin_ns.saturating_mul(part as u64));
            let end = begin.saturating_add(other.bin_ns).min(self.to);
            let length = end.saturating_sub(begin.max(self.from));
            sum.saturating_add(u128::from(values[part]) * u128::from(length))
        });
        let length = if self.whole { self.to - self.from } else { bin_ns };
        match u64::try_from(sum) {
            // Divided many times as fast.
            Ok(sum) => sum / length.max(1),
            Err(_) => u64::try_from(sum / u128::from(length.max(1))).unwrap_or(u64::MAX),
        }
    }
}

/// Returns the index of a component among series, or of the merged series that contains it.
pub fn place_of(places: &HashMap<&str, usize>, name: &str) -> Option<usize> {
    places.get(name).or_else(|| places.get(&*Group::of(name).others())).copied()
}

fn grow(value: &mut u64, by: u64) {
    *value = value.saturating_add(by);
}

impl Series {
    /// Returns a series that is zero in every bin.
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
            private_high: vec![0; bins],
            shared_high: vec![0; bins],
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
            (&mut self.private_high, &other.private_high),
            (&mut self.shared_high, &other.shared_high),
        ] {
            for (value, by) in into.iter_mut().zip(from) {
                grow(value, *by);
            }
        }
    }
}

/// A component of a process at the peak of that process.
#[derive(Clone, Debug)]
pub struct Then {
    /// Display name of the component.
    pub name: Arc<str>,
    /// Bytes resident at the peak.
    pub bytes: u64,
    /// Upper bound of its shared part.
    pub shared: u64,
    /// Pages of `shared` that may have been counted twice.
    pub doubled: u64,
    /// Lower bound of the bytes in no other process, at any time of the peak's bin.
    pub private: u64,
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
