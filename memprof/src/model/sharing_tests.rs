use super::super::assemble::tests::{clock, sharing};
use super::super::{Assembler, Axis, Reduced, Series};
use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const PAGES: u64 = 40;
/// Number of moments at which memory changes; each bin of a trace has some.
const MOMENTS: usize = 24;
const MOMENTS_OF_A_BIN: usize = 4;
const BIN_NS: u64 = 10;

/// A process at each moment: private pages, and pages of the file.
#[derive(Clone, Debug)]
struct Process {
    private: Vec<u64>,
    pages: Vec<BTreeSet<u64>>,
}

impl Process {
    fn resident(&self, moment: usize) -> u64 {
        (self.private[moment] + self.pages[moment].len() as u64) * PAGE
    }

    /// Returns the process as in a trace with a sample at each moment.
    fn traced(&self, number: u32) -> Reduced {
        let last = self.pages.last().cloned().unwrap_or_default();
        let ever: BTreeSet<u64> = self.pages.iter().flatten().copied().collect();
        let bins = MOMENTS / MOMENTS_OF_A_BIN;
        let mut reduced = sharing(number, last.clone(), bins);
        reduced.shared[0].dropped = (ever.len() - last.len()) as u64 * PAGE;
        let by_bin = |of: &dyn Fn(usize) -> u64, fold: fn(&[u64]) -> u64| -> Vec<u64> {
            let moments: Vec<u64> = (0..MOMENTS).map(of).collect();
            moments.chunks(MOMENTS_OF_A_BIN).map(fold).collect()
        };
        let most = |values: &[u64]| values.iter().copied().max().unwrap_or(0);
        let least = |values: &[u64]| values.iter().copied().min().unwrap_or(0);
        let mean = |values: &[u64]| values.iter().sum::<u64>() / values.len() as u64;
        let resident = |moment| self.resident(moment);
        let series = &mut reduced.timeline.series[0];
        series.mean = by_bin(&resident, mean);
        series.low = by_bin(&resident, least);
        series.high = by_bin(&resident, most);
        (series.floor, series.ceiling) = (series.low.clone(), series.high.clone());
        series.private_high = by_bin(&|moment| self.private[moment] * PAGE, most);
        series.shared_high = by_bin(&|moment| self.pages[moment].len() as u64 * PAGE, most);
        reduced.totals = series.high.clone();
        let peak = (0..MOMENTS).max_by_key(|moment| self.resident(*moment)).unwrap_or(0);
        let bytes = self.resident(peak);
        reduced.rank.peak.bytes = bytes;
        reduced.rank.peak.time_ns = peak as u64 * BIN_NS / MOMENTS_OF_A_BIN as u64;
        (reduced.rank.kernel_peak, reduced.rank.held[0].resident_at_peak) = (bytes, bytes);
        reduced
    }
}

/// Segments are mapped and unmapped, so that the pages at one moment differ from the last ones.
fn process() -> impl Strategy<Value = Process> {
    let change = (0..4_u64, 0..PAGES, 0..PAGES, 0..3_u8);
    proptest::collection::vec(change, MOMENTS).prop_map(|changes| {
        let (mut private, mut pages) = (1, BTreeSet::new());
        let mut process = Process { private: Vec::new(), pages: Vec::new() };
        for (own, from, to, kind) in changes {
            match kind {
                0 => pages.extend(from.min(to)..from.max(to)),
                1 => pages.retain(|page| !(from.min(to)..from.max(to)).contains(page)),
                _ => private = own * 7,
            }
            process.private.push(private);
            process.pages.push(pages.clone());
        }
        process
    })
}

/// Returns the bytes of the node at a moment, counting each page once.
fn truth(processes: &[Process], moment: usize) -> u64 {
    let pages: BTreeSet<u64> =
        processes.iter().flat_map(|process| &process.pages[moment]).copied().collect();
    let private: u64 = processes.iter().map(|process| process.private[moment]).sum();
    (private + pages.len() as u64) * PAGE
}

fn together(processes: &[Process]) -> crate::model::Job {
    let length = (MOMENTS / MOMENTS_OF_A_BIN) as u64 * BIN_NS;
    let clocks: Vec<_> = processes.iter().map(|_| clock(1, 0, 0, length)).collect();
    let mut assembler = Assembler::new(Axis::new(&clocks));
    for (number, (clock, process)) in clocks.iter().zip(processes).enumerate() {
        assembler.add(clock, process.traced(number as u32));
    }
    assembler.finish("job".into(), Vec::new())
}

proptest! {
    #[test]
    fn bounds_of_a_node_hold_the_truth_at_every_moment(
        processes in proptest::collection::vec(process(), 2..5),
    ) {
        let job = together(&processes);
        let timeline = &job.nodes[0].timeline;
        let sum = |values: fn(&Series) -> &Vec<u64>, bin: usize| -> u64 {
            timeline.series.iter().map(|series| values(series)[bin]).sum()
        };
        for moments in 0..MOMENTS / MOMENTS_OF_A_BIN {
            let truths: Vec<u64> = (moments * MOMENTS_OF_A_BIN..(moments + 1) * MOMENTS_OF_A_BIN)
                .map(|moment| truth(&processes, moment))
                .collect();
            let bin = timeline.bin_at(moments as u64 * BIN_NS);
            prop_assert!(sum(|series| &series.low, bin) <= truths.iter().copied().min().unwrap());
            prop_assert!(sum(|series| &series.high, bin) >= truths.iter().copied().max().unwrap());
            let mean = truths.iter().sum::<u64>() / truths.len() as u64;
            prop_assert!(sum(|series| &series.mean, bin) <= mean);
        }
        let peak = (0..MOMENTS).map(|moment| truth(&processes, moment)).max().unwrap();
        prop_assert!(timeline.peak.as_ref().unwrap().bytes <= peak);
        prop_assert!(timeline.peak_at_most >= peak);
    }
}

/// Returns a window that one rank has from the second moment of a bin on, and the other later.
fn window() -> [Process; 2] {
    let from = |begin: usize| Process {
        private: vec![3; MOMENTS],
        pages: (0..MOMENTS)
            .map(|moment| if moment < begin { 0..0 } else { 0..32 }.collect())
            .collect(),
    };
    [from(5), from(7)]
}

#[test]
fn window_mapped_at_different_moments_counts_once() {
    let job = together(&window());
    let timeline = &job.nodes[0].timeline;
    assert_eq!(timeline.peak.as_ref().map(|peak| peak.bytes), Some(38 * PAGE));
    assert_eq!(timeline.peak_at_most, 38 * PAGE);
}

#[test]
fn window_of_an_older_trace_makes_an_interval() {
    let processes = window();
    let length = (MOMENTS / MOMENTS_OF_A_BIN) as u64 * BIN_NS;
    let clocks = [clock(1, 0, 0, length), clock(1, 0, 0, length)];
    let mut assembler = Assembler::new(Axis::new(&clocks));
    for (number, (clock, process)) in clocks.iter().zip(&processes).enumerate() {
        let mut reduced = process.traced(number as u32);
        reduced.shared[0].is_whole = false;
        let series = &mut reduced.timeline.series[0];
        series.private_high = series.high.clone();
        series.shared_high = series.high.clone();
        assembler.add(clock, reduced);
    }
    let job = assembler.finish("job".into(), Vec::new());
    let timeline = &job.nodes[0].timeline;
    let least = timeline.peak.as_ref().map_or(0, |peak| peak.bytes);
    assert_eq!((least, timeline.peak_at_most), (35 * PAGE, 70 * PAGE));
}
