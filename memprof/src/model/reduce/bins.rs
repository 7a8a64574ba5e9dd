//! The timeline of a trace on bins of equal width.

use super::{Names, end_of};
use crate::model::{BINS, Group, Series, Timeline};
use memprof_trace::layout;
use memprof_trace::read::{Bin, Trace};
use std::collections::HashMap;
use std::sync::Arc;

/// Returns bins of equal width, and the largest total in each.
pub fn timeline(trace: &Trace, names: &Names) -> (Timeline, Vec<u64>) {
    let bins = &trace.timeline;
    let (Some(first), Some(last)) = (bins.first(), bins.last()) else {
        return Default::default();
    };
    let end = end_of(trace).max(last.start.saturating_add(1));
    let mut width = bins.iter().map(|bin| bin.width).max().unwrap_or(1).max(1);
    let start = first.start;
    let count = |width: u64| (end.saturating_sub(start).max(1)).div_ceil(width);
    while count(width) > 2 * BINS as u64 {
        width = width.saturating_mul(2);
    }
    let mut timeline = Timeline {
        start_ns: start,
        bin_ns: width,
        bins: count(width) as usize,
        ..Timeline::default()
    };
    timeline.samples = samples(bins, &timeline);
    let parts = parts(bins, &timeline);
    timeline.forked = forked(bins, &parts);
    let mut totals = vec![0u64; timeline.bins];
    let mut before = 0;
    for (total, range) in totals.iter_mut().zip(&parts) {
        // Unknown times have no total; otherwise, the previous total still held.
        let bins = bins[range.clone()].iter().filter(|bin| bin.is_known());
        before = bins.map(|bin| bin.head.total_max).max().unwrap_or(before);
        *total = before;
    }
    // After the last bin, the findings of the last sample still held.
    let tail = (timeline.bin_at(last.start) + 1)..timeline.bins;
    let now = trace.summary.as_ref();
    if let Some(now) = now {
        totals[tail.clone()].fill(now.head.walked);
    }
    let begun = bins.iter().find(|bin| bin.is_known()).map_or(0, |bin| bin.head.first_time);
    let most = bins.iter().map(|bin| bin.cells.len()).max().unwrap_or(0);
    let mut known: HashMap<Arc<str>, usize> = HashMap::new();
    for index in 0..most.min(layout::COMPONENTS_LIMIT) {
        if bins.iter().all(|bin| bin.cell(index) == Default::default()) {
            continue;
        }
        let name = names.component(index);
        let mut series = Series::zero(name.clone(), Group::of(&name), timeline.bins);
        for (at, range) in parts.iter().enumerate() {
            fold(&mut series, at, &bins[range.clone()], index, begun);
        }
        if let Some(row) = now.and_then(|now| now.rows.get(index)) {
            let Series { mean, low, high, floor, ceiling, private_high, shared_high, .. } =
                &mut series;
            for values in [mean, low, high, floor, ceiling] {
                values[tail.clone()].fill(row.resident);
            }
            private_high[tail.clone()].fill(row.resident.saturating_sub(row.shared));
            shared_high[tail.clone()].fill(row.shared);
            series.owned[tail.clone()].fill(row.owned);
        }
        if series.group.has_ledger() {
            bound(&mut series, bins, &parts, index);
        }
        match known.get(&name) {
            Some(at) => timeline.series[*at].add(&series),
            None => {
                known.insert(name, timeline.series.len());
                timeline.series.push(series);
            }
        }
    }
    timeline.sort();
    (timeline, totals)
}

/// Returns the number of full samples in each bin of the timeline; those of a bin of the trace
/// count in the middle of its samples.
fn samples(bins: &[Bin], timeline: &Timeline) -> Vec<u32> {
    let mut samples = vec![0u32; timeline.bins];
    for bin in bins.iter().filter(|bin| bin.head.samples > 0) {
        let (first, last) = bin.seen();
        let at = timeline.bin_at(first.midpoint(last));
        samples[at] = samples[at].saturating_add(bin.head.samples);
    }
    samples
}

/// Returns the anonymous pages beyond the process's share of them (lower bound), and those that
/// others share (upper bound). Until a sample reports it, the lower bound may have become that of
/// the sample.
fn forked(bins: &[Bin], parts: &[std::ops::Range<usize>]) -> [Vec<u64>; 3] {
    if bins.iter().all(|bin| bin.head.common_max == 0) {
        return [(); 3].map(|()| vec![0; parts.len()]);
    }
    let of =
        |range: &std::ops::Range<usize>| bins[range.clone()].iter().filter(|bin| bin.is_known());
    let kib = |value: Option<u32>| u64::from(value.unwrap_or(0)) << 10;
    let most = parts.iter().map(|range| kib(of(range).map(|bin| bin.head.common_max).max()));
    let mut later = 0;
    let mut least: Vec<u64> = (parts.iter().rev())
        .map(|range| {
            let here = kib(of(range).map(|bin| bin.head.beyond_min).min());
            let low = here.min(later);
            if of(range).any(|bin| bin.head.samples > 0) {
                later = here;
            }
            low
        })
        .collect();
    least.reverse();
    let most: Vec<u64> = most.collect();
    [least, most.clone(), most]
}

/// Returns the bins of the trace that lie in each bin of the timeline; where there are none, the
/// previous bin, whose values still held.
fn parts(bins: &[Bin], timeline: &Timeline) -> Vec<std::ops::Range<usize>> {
    let mut parts: Vec<std::ops::Range<usize>> = Vec::with_capacity(timeline.bins);
    let mut next = 0;
    for bin in 0..timeline.bins as u64 {
        let end = (timeline.start_ns).saturating_add(timeline.bin_ns.saturating_mul(bin + 1));
        let from = next;
        while next < bins.len() && bins[next].start < end {
            next += 1;
        }
        parts.push(match next > from {
            true => from..next,
            false => next.saturating_sub(1)..next,
        });
    }
    parts
}

/// Folds bins into one bin of a series. `begun` is the time from which the first of them is known.
fn fold(series: &mut Series, at: usize, bins: &[Bin], component: usize, begun: u64) {
    let (mut sum, mut length) = (0u128, 0u128);
    let mut low = u32::MAX;
    let (mut high, mut owned) = (0, 0);
    let (mut private_high, mut shared_high) = (0, 0);
    for bin in bins {
        let cell = bin.cell(component);
        high = high.max(cell.resident_max);
        owned = owned.max(cell.owned_max);
        if !bin.is_known() {
            continue;
        }
        let weight = u128::from(bin.end().saturating_sub(bin.start.max(begun)).max(1));
        sum += u128::from(cell.resident_mean) * weight;
        length += weight;
        low = low.min(cell.resident_min);
        private_high = private_high.max(cell.private_max);
        shared_high = shared_high.max(cell.shared_max);
    }
    series.high[at] = u64::from(high) << 10;
    series.owned[at] = u64::from(owned) << 10;
    if let Some(mean) = sum.checked_div(length) {
        series.mean[at] = (mean as u64) << 10;
        series.low[at] = u64::from(low) << 10;
        series.private_high[at] = u64::from(private_high) << 10;
        series.shared_high[at] = u64::from(shared_high) << 10;
    } else if at > 0 {
        series.mean[at] = series.mean[at - 1];
        series.low[at] = series.low[at - 1];
        series.private_high[at] = series.private_high[at - 1];
        series.shared_high[at] = series.shared_high[at - 1];
        series.high[at] = series.high[at].max(series.mean[at - 1]);
        series.owned[at] = series.owned[at].max(series.owned[at - 1]);
    }
    (series.floor[at], series.ceiling[at]) = (series.low[at], series.high[at]);
}

/// Bounds the times between full samples with the trace's bins. Such a time counts there for the
/// bin of the later sample, and may have begun several bins earlier.
fn bound(series: &mut Series, bins: &[Bin], parts: &[std::ops::Range<usize>], component: usize) {
    let mut later: Option<(u64, u64)> = None;
    for (at, range) in parts.iter().enumerate().rev() {
        let cells = bins[range.clone()].iter().filter(|bin| bin.head.samples > 0);
        let here = (cells.map(|bin| bin.cell(component)))
            .map(|cell| (cell.floor, cell.ceiling))
            .reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
            .filter(|bounds| bounds.1 < u32::MAX)
            .map(|(floor, ceiling)| (u64::from(floor) << 10, u64::from(ceiling) << 10));
        for (floor, ceiling) in here.into_iter().chain(later) {
            series.floor[at] = series.floor[at].min(floor);
            series.ceiling[at] = series.ceiling[at].max(ceiling);
        }
        later = here.or(later);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memprof_trace::layout::{
        BIN_SHIFT, ComponentRow, Geometry, Identity, SummaryHead, SummaryRow, sample,
    };
    use memprof_trace::write::{Buffer, ComponentSample, SampleHead, Writer};

    #[test]
    fn last_finding_stands_after_the_last_bin() {
        const MIB: u64 = 1 << 20;
        let width = 1_u64 << BIN_SHIFT;
        let mut memory = Buffer::new(1 << 20);
        let geometry = Geometry::for_file(1 << 20).expect("a geometry");
        let identity = Identity::default();
        let mut writer =
            Writer::create(memory.bytes_mut(), &identity, &geometry).expect("a writer");
        writer.set_component(0, &ComponentRow::default());
        for (time, resident) in [(0, 20 * MIB), (width / 2, 100 * MIB), (width - 1, 100 * MIB)] {
            let row = ComponentSample { component: 0, resident, ..ComponentSample::default() };
            let (flags, walked) = (sample::FULL, resident);
            writer.sample(&SampleHead { time, flags, kernel_resident: walked, walked }, &[row]);
        }
        let head = SummaryHead { time: width / 2, walked: 100 * MIB, ..SummaryHead::default() };
        let row = SummaryRow { resident: 100 * MIB, owned: 120 * MIB, ..SummaryRow::default() };
        writer.publish_summary(&head, &[row]);
        writer.close(3 * width);
        let trace = Trace::from_bytes(memory.bytes()).expect("a trace");
        let (timeline, totals) = super::timeline(&trace, &Names::of(&trace));
        let series = &timeline.series[0];
        assert!((59 * MIB..61 * MIB).contains(&series.mean[0]), "{}", series.mean[0]);
        assert_eq!(series.mean[1..], [100 * MIB; 2]);
        assert_eq!(series.low, [20 * MIB, 100 * MIB, 100 * MIB]);
        assert_eq!(series.owned[1..], [120 * MIB; 2]);
        assert_eq!(totals, [100 * MIB; 3]);
        assert_eq!(timeline.samples, [3, 0, 0]);
    }

    #[test]
    fn bins_before_the_first_sample_hold_nothing() {
        let name = Arc::from("app.exe");
        let mut series = Series::zero(Arc::clone(&name), Group::of(&name), 2);
        fold(&mut series, 0, &[], 0, 0);
        assert_eq!((series.mean[0], series.high[0], series.ceiling[0]), (0, 0, 0));
    }

    #[test]
    fn pages_are_common_from_sample_before_to_sample_after() {
        const MIB: u64 = 1 << 20;
        let width = 1_u64 << BIN_SHIFT;
        let mut memory = Buffer::new(1 << 20);
        let geometry = Geometry::for_file(1 << 20).expect("a geometry");
        let mut writer =
            Writer::create(memory.bytes_mut(), &Identity::default(), &geometry).expect("a writer");
        writer.set_component(0, &ComponentRow::default());
        for (time, common) in [(0, 0), (1, 0), (4, 90 * MIB), (7, 0), (9, 0)] {
            writer.beyond_share(common / 2, common);
            let row = ComponentSample { component: 0, resident: 100 * MIB, ..Default::default() };
            let (flags, walked) = (sample::FULL, 100 * MIB);
            let time = time * width;
            writer.sample(&SampleHead { time, flags, kernel_resident: walked, walked }, &[row]);
        }
        writer.close(10 * width);
        let trace = Trace::from_bytes(memory.bytes()).expect("a trace");
        let (timeline, _) = super::timeline(&trace, &Names::of(&trace));
        let [least, most, _] = &timeline.forked;
        let common: Vec<u64> = most.iter().map(|bytes| bytes / MIB).collect();
        assert_eq!(common, [0, 90, 90, 90, 90, 90, 90, 90, 0, 0]);
        assert!(least.iter().all(|bytes| *bytes == 0), "{least:?}");
    }
}
