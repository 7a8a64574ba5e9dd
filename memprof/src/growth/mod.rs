//! Growth of memory between equal moments of a job: by component, call and node.
//!
//! Nothing that has a bound is called growing; [`memprof_trend`] judges each series.

mod pace;

pub use memprof_trend::{Passing, Point, Slope, Verdict};
pub use pace::{Pace, Unit};

use crate::model::{
    Course, Group, Job, Node, ProcessKey, Rank, Series, Site, Timeline, in_parallel,
};
use memprof_trend::{FEWEST, judge, judge_samples};
use std::collections::HashMap;
use std::sync::Arc;

/// Growth of fewer bytes after the warm-up does not count.
const LEAST: f64 = 65_536.0;
/// Growth of the resident memory of a node that does not count: samples vary.
const LEAST_OF_NODE: f64 = 1_048_576.0;
/// Part of the growth of its component below which a call is not named.
const LEAST_SHARE: f64 = 0.05;
/// Smallest number of moments of a whole run in a trace.
const FEWEST_COURSE: u64 = 24;
/// Maximum number of calls named for a component.
const CALLS: usize = 3;

/// Smallest number of moments from which growth is judged, including the warm-up.
pub const FEWEST_MOMENTS: usize = FEWEST + FEWEST.div_ceil(3);

/// Growth of a job.
#[derive(Clone, Debug)]
pub struct Growth {
    /// Equal moments.
    pub pace: Pace,
    /// Number of moments that were compared.
    pub moments: usize,
    /// Components that are not steady, in descending order of their slopes.
    pub components: Vec<Grown>,
    /// All nodes, in the order of the job; none if there are too few moments.
    pub nodes: Vec<NodeGrown>,
}

/// Growth of a component.
#[derive(Clone, Debug)]
pub struct Grown {
    /// Its name.
    pub name: Arc<str>,
    /// True if the bytes are owned ones, false for resident bytes of components without a ledger.
    pub is_owned: bool,
    /// Finding about all processes together.
    pub verdict: Verdict,
    /// Number of processes in which it grows.
    pub processes: usize,
    /// Process in which it grows fastest, with the slope there.
    pub fastest: Option<(ProcessKey, Slope)>,
    /// Calls with growing memory, fastest first.
    pub calls: Vec<Call>,
}

/// Growth of the memory that a call allocates.
#[derive(Clone, Debug)]
pub struct Call {
    /// Function and line.
    pub place: String,
    /// Estimate from sampled blocks, all processes together.
    pub slope: Slope,
}

/// Growth of a node.
#[derive(Clone, Debug)]
pub struct NodeGrown {
    /// Its name.
    pub host: Arc<str>,
    /// Finding about the resident memory of its processes without the profiler's, shared pages
    /// counted once.
    pub verdict: Verdict,
    /// Resident bytes at the last moment that was judged.
    pub now: Option<Point>,
    /// Memory that its processes may use, if it is known.
    pub limit: Option<Limit>,
    /// Position at which that is passed, if the node grows.
    pub passing: Option<Passing>,
}

/// Memory that the processes of a node may use.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Bytes.
    pub bytes: u64,
    /// True if a control group has the limit, false if it is the memory of the node.
    pub is_of_group: bool,
}

impl Limit {
    /// Returns the memory that the processes of a node may use, if it is known.
    pub fn of(node: &Node) -> Option<Limit> {
        let identities = || node.ranks.iter().map(|rank| &rank.identity);
        let memory = identities().map(|of| of.node_memory).find(|bytes| *bytes > 0);
        smallest(memory, identities().map(|of| of.memory_limit))
    }
}

impl Growth {
    /// Judges a job by its pace; `place` returns the call of a stack.
    pub fn of(job: &Job, pace: Pace, place: &mut dyn FnMut(&Site) -> String) -> Growth {
        let moments = points(&job.timeline, &job.timeline.totals(), &pace).len();
        let moments = moments.min(pace.counted());
        if moments < FEWEST_MOMENTS {
            return Growth { pace, moments, components: Vec::new(), nodes: Vec::new() };
        }
        let series = job.timeline.series.iter().filter(|series| series.group != Group::Tool);
        let mut components: Vec<Grown> =
            series.filter_map(|series| component(&job.timeline, series, &pace)).collect();
        spread(job, &pace, &mut components);
        let is_stable = has_the_same_processes(job, &pace);
        for grown in components.iter_mut().filter(|grown| !is_stable && grown.processes == 0) {
            // Processes that joined hold it, or those that left hide it.
            if let Some(slope) = grown.verdict.slope() {
                grown.verdict = Verdict::Unclear(slope);
            }
        }
        for grown in &mut components {
            if let Some(slope) = grown.verdict.slope() {
                grown.calls = calls(&job.sites.sites, &grown.name, slope, &pace, place);
            }
        }
        let slope = |grown: &Grown| grown.verdict.slope().map_or(0.0, |slope| slope.bytes);
        components.sort_by(|one, other| slope(other).total_cmp(&slope(one)));
        let nodes = job.nodes.iter().map(|node| of_node(node, &pace, is_stable)).collect();
        Growth { pace, moments, components, nodes }
    }

    /// Returns true if there are too few equal moments for a judgement.
    pub fn is_too_short(&self) -> bool {
        self.moments < FEWEST_MOMENTS
    }

    /// Returns the components that grow to the end.
    pub fn growing(&self) -> impl Iterator<Item = &Grown> {
        self.components.iter().filter(|grown| grown.verdict.slope().is_some())
    }
}

/// Width of the narrowest intervals of a trace in nanoseconds, and their largest number.
const INTERVALS: (u64, u64) = (1 << 24, 248);

/// Returns the number of bins between two that do not have the values of one interval of a trace:
/// the bins of sums may be narrower.
fn stride(timeline: &Timeline) -> usize {
    let (mut width, most) = INTERVALS;
    while timeline.end_ns() / width > most {
        width *= 2;
    }
    let bin_ns = timeline.bin_ns.max(1);
    usize::try_from((width + bin_ns / 2) / bin_ns).unwrap_or(1).max(1)
}

/// Returns the resident bytes of the bins in which a sample was taken, at their positions: others
/// have the values of earlier samples.
fn sampled(timeline: &Timeline, values: &[u64], pace: &Pace) -> Vec<Point> {
    let is_sampled = |bin: &usize| timeline.samples.get(*bin).is_some_and(|count| *count > 0);
    let bins = (0..values.len()).filter(is_sampled);
    bins.filter_map(|bin| point(timeline, bin, values[bin], pace)).collect()
}

/// Returns the values of the bins at their positions.
fn points(timeline: &Timeline, values: &[u64], pace: &Pace) -> Vec<Point> {
    let bins = values.iter().enumerate().step_by(stride(timeline));
    bins.filter_map(|(bin, bytes)| point(timeline, bin, *bytes, pace)).collect()
}

fn point(timeline: &Timeline, bin: usize, bytes: u64, pace: &Pace) -> Option<Point> {
    // A bin that is not judged as a whole may contain what came before or after.
    let (begin, end) = (timeline.begin_ns(bin), timeline.begin_ns(bin + 1));
    let (first, last) = (pace.position(begin)?, pace.position(end)?);
    Some(Point { at: f64::midpoint(first, last), bytes: bytes as f64 })
}

/// Judges a component by its owned bytes, or by its resident ones if no ledger counts it. Returns
/// true in the first case.
fn judged(timeline: &Timeline, series: &Series, pace: &Pace) -> (Verdict, bool) {
    match series.group.has_ledger() {
        true => (judge(&points(timeline, &series.owned, pace), LEAST), true),
        false => (judge(&sampled(timeline, &series.mean, pace), LEAST), false),
    }
}

fn component(timeline: &Timeline, series: &Series, pace: &Pace) -> Option<Grown> {
    let (verdict, is_owned) = judged(timeline, series, pace);
    match verdict {
        Verdict::Steady | Verdict::TooShort => None,
        _ => Some(Grown {
            name: series.name.clone(),
            is_owned,
            verdict,
            processes: 0,
            fastest: None,
            calls: Vec::new(),
        }),
    }
}

/// Finds the processes in which components grow.
fn spread(job: &Job, pace: &Pace, components: &mut [Grown]) {
    let mut growing: Vec<&mut Grown> =
        components.iter_mut().filter(|grown| grown.verdict.slope().is_some()).collect();
    if growing.is_empty() {
        return;
    }
    let names: Vec<Arc<str>> = growing.iter().map(|grown| grown.name.clone()).collect();
    let ranks: Vec<&Rank> = job.ranks().collect();
    let found = in_parallel(&ranks, |rank| {
        // The trace may have been removed since.
        let timeline = rank.components().unwrap_or_default();
        let slope = |name: &Arc<str>| {
            let series = timeline.series.iter().find(|series| series.name == *name)?;
            judged(&timeline, series, pace).0.slope()
        };
        names.iter().map(slope).collect::<Vec<Option<Slope>>>()
    });
    for (rank, slopes) in ranks.iter().zip(found) {
        for (grown, slope) in growing.iter_mut().zip(slopes) {
            let Some(slope) = slope else { continue };
            grown.processes += 1;
            if grown.fastest.as_ref().is_none_or(|(_, fastest)| slope.bytes > fastest.bytes) {
                grown.fastest = Some((ProcessKey::of(rank), slope));
            }
        }
    }
}

/// Returns the calls with growing memory, of a component that grows by `whole`.
fn calls(
    sites: &[Site],
    component: &Arc<str>,
    whole: Slope,
    pace: &Pace,
    place: &mut dyn FnMut(&Site) -> String,
) -> Vec<Call> {
    let mut courses: HashMap<String, Course> = HashMap::new();
    let of_component = sites.iter().filter(|site| site.component == *component);
    for site in of_component.filter(|site| site.course.values.last() > Some(&0)) {
        let course = courses.entry(place(site)).or_insert_with(|| Course {
            step_ns: site.course.step_ns,
            values: vec![0; site.course.values.len()],
        });
        course.add(&site.course, 0);
    }
    let mut calls: Vec<Call> = courses
        .into_iter()
        .filter_map(|(place, course)| {
            let point = |moment: usize| {
                let bytes = f64::from(course.values[moment]) * 1024.0;
                Some(Point { at: pace.position(course.time_ns(moment))?, bytes })
            };
            let points: Vec<Point> = (0..course.values.len()).filter_map(point).collect();
            let slope = judge_samples(&points, LEAST).slope()?;
            (slope.bytes >= LEAST_SHARE * whole.bytes).then_some(Call { place, slope })
        })
        .collect();
    calls.sort_by(|one, other| {
        other.slope.bytes.total_cmp(&one.slope.bytes).then_with(|| one.place.cmp(&other.place))
    });
    calls.truncate(CALLS);
    calls
}

/// Returns true if the processes of all judged moments are the same.
fn has_the_same_processes(job: &Job, pace: &Pace) -> bool {
    let lives =
        job.ranks().map(|rank| (rank.offset_ns, rank.offset_ns.saturating_add(rank.duration_ns)));
    are_the_same(lives, pace.window())
}

/// Returns true if each process runs in all of a window or in nothing of it, by its begin and end.
/// Ranks do not start at one moment, and the window is known to a moment of the trace only: starts
/// in the warm-up count as earlier ones, ends within the last moment as later ones.
fn are_the_same(mut lives: impl Iterator<Item = (u64, u64)>, window: (u64, u64)) -> bool {
    let (begin, end) = window;
    let length = end.saturating_sub(begin);
    let (warm, last) = (begin + length / 8, end - length / FEWEST_COURSE);
    lives.all(|(began, ended)| (began <= warm || began >= end) && (ended >= last || ended <= begin))
}

fn of_node(node: &Node, pace: &Pace, is_stable: bool) -> NodeGrown {
    let totals = node.timeline.totals();
    let mut programs = totals.clone();
    // What the profiler holds has a bound, and would not be there without it.
    let tool = node.timeline.series.iter().filter(|series| series.group == Group::Tool);
    for series in tool {
        for (bytes, of_tool) in programs.iter_mut().zip(&series.mean) {
            *bytes = bytes.saturating_sub(*of_tool);
        }
    }
    let points = sampled(&node.timeline, &programs, pace);
    let verdict = match judge(&points, LEAST_OF_NODE) {
        Verdict::Grows(slope) | Verdict::Slowing(slope) if !is_stable => Verdict::Unclear(slope),
        verdict => verdict,
    };
    let now = sampled(&node.timeline, &totals, pace).last().copied();
    let limit = Limit::of(node);
    let passing = match (verdict, now, limit) {
        (Verdict::Grows(slope), Some(now), Some(limit)) => slope.passing(now, limit.bytes as f64),
        _ => None,
    };
    NodeGrown { host: node.host.clone(), verdict, now, limit, passing }
}

/// Returns the memory of a node, or the smallest limit of control groups if that is less; 0 is no
/// limit.
fn smallest(memory: Option<u64>, groups: impl Iterator<Item = u64>) -> Option<Limit> {
    let group = groups.filter(|bytes| *bytes > 0).min();
    let of_group = group.filter(|group| memory.is_none_or(|memory| *group < memory));
    match (of_group, memory) {
        (Some(bytes), _) => Some(Limit { bytes, is_of_group: true }),
        (None, Some(bytes)) => Some(Limit { bytes, is_of_group: false }),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_of_sums_are_compared_once_for_each_interval() {
        let stride_of = |end_ns: u64| stride(&Timeline::axis(0, end_ns, crate::model::BINS));
        // Intervals of 17 ms, and of 34 ms in a run that is just too long for these.
        assert_eq!([1, 2, 3].map(|seconds| stride_of(seconds * 1_000_000_000)), [4, 2, 1]);
        assert_eq!(stride_of(4_200_000_000), 2);
        assert_eq!(stride_of(u64::MAX / 2), 2);
        let of_process = Timeline { bin_ns: 1 << 25, bins: 200, ..Timeline::default() };
        assert_eq!(stride(&of_process), 1);
    }

    #[test]
    fn processes_that_join_or_leave_are_not_the_same() {
        let same = |lives: &[(u64, u64)]| are_the_same(lives.iter().copied(), (100, 24_100));
        // The second rank starts when the loop of the first has begun, and ends a moment earlier.
        assert!(same(&[(0, 25_000), (200, 23_900)]));
        assert!(same(&[(0, 25_000), (0, 90), (24_200, 25_000)]));
        assert!(!same(&[(0, 25_000), (9000, 25_000)]));
        assert!(!same(&[(0, 25_000), (0, 15_000)]));
        assert!(same(&[]) && are_the_same([(0, 1)].into_iter(), (0, 0)));
    }

    #[test]
    fn limit_of_a_group_counts_if_it_is_less() {
        let limit = |memory, groups: [u64; 2]| smallest(Some(memory), groups.into_iter());
        assert_eq!(limit(100, [0, 0]), Some(Limit { bytes: 100, is_of_group: false }));
        assert_eq!(limit(100, [60, 50]), Some(Limit { bytes: 50, is_of_group: true }));
        assert_eq!(limit(100, [200, 0]), Some(Limit { bytes: 100, is_of_group: false }));
        assert_eq!(smallest(None, [0].into_iter()), None);
    }
}
