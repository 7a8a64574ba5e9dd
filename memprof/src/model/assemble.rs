//! Combination of processes into a job: one clock, one axis, sums per node.

use super::gpu::CollectGpu;
use super::handle::CollectHandles;
use super::join::{self, Claim, Join};
use super::sharing::Sharing;
use super::site::Collect;
use super::{
    BINS, GpuSite, HandleSite, Job, MissingRanks, Moment, Node, Note, Object, OwnPeak, ProcessKey,
    Rank, Shared, Site, State, Timeline, Touches, Unread, balance, jobs, phase, statistics,
};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

/// Facts about every process that are needed before the first process is added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Identifies a boot of a machine.
    pub boot_id: [u8; 16],
    /// Name of the machine.
    pub host: Arc<str>,
    /// Realtime clock at the start of the process, nanoseconds since 1970.
    pub realtime_ns: u64,
    /// Monotonic clock at the same moment.
    pub monotonic_ns: u64,
    /// Time from its start to the last known moment.
    pub duration_ns: u64,
}

/// One process, reduced to what reports need.
#[derive(Clone, Debug)]
pub struct Reduced {
    /// Its summary; `offset_ns` and `heat` are set here.
    pub rank: Rank,
    /// Components over time, nanoseconds since the process started.
    pub timeline: Timeline,
    /// Largest total in each bin of `timeline`, where the trace has a better value than the sum.
    pub totals: Vec<u64>,
    /// Its shared mappings.
    pub shared: Vec<Shared>,
    /// Objects that `sites` refer to.
    pub objects: Vec<Object>,
    /// Sampled sites.
    pub sites: Vec<Site>,
    /// Places that make MPI objects; their frames refer to `objects`.
    pub handles: Vec<HandleSite>,
    /// Calls that requested memory from the runtimes of GPUs; their frames refer to `objects`.
    pub gpu: Vec<GpuSite>,
    /// Notes of the profiler.
    pub notes: Vec<(u32, Arc<str>)>,
}

/// Starts of processes on one clock.
///
/// Processes of one boot share a monotonic clock, which is exact. Boots are aligned by realtime, as
/// exactly as the machines' clocks agree.
#[derive(Debug, Default)]
pub struct Axis {
    boots: HashMap<[u8; 16], Boot>,
    nodes: HashMap<(Arc<str>, [u8; 16]), Lived>,
    start_realtime_ns: u64,
    end_ns: u64,
}

#[derive(Debug)]
struct Boot {
    monotonic_ns: u64,
    realtime_ns: u64,
}

/// Processes of one boot of a node; several containers with their own host names may be in one
/// boot.
#[derive(Debug, Default)]
struct Lived {
    /// Start of the last of its processes, relative to the start of the job.
    last_begin_ns: u64,
    /// Last known moment of any process.
    last_end_ns: u64,
}

/// Time before the end of the last process of a node: processes that ended earlier ended
/// separately, later ones with the job.
const APART_NS: u64 = 2_000_000_000;

impl Axis {
    /// Creates the axis from the clocks of all processes.
    pub fn new(clocks: &[Clock]) -> Axis {
        let mut boots: HashMap<[u8; 16], Boot> = HashMap::new();
        for clock in clocks {
            let boot = boots.entry(clock.boot_id).or_insert(Boot {
                monotonic_ns: clock.monotonic_ns,
                realtime_ns: clock.realtime_ns,
            });
            if clock.monotonic_ns < boot.monotonic_ns {
                boot.monotonic_ns = clock.monotonic_ns;
                boot.realtime_ns = clock.realtime_ns;
            }
        }
        let start = boots.values().map(|boot| boot.realtime_ns).min();
        let mut axis = Axis { boots, start_realtime_ns: start.unwrap_or(0), ..Axis::default() };
        for clock in clocks {
            let begin_ns = axis.offset_ns(clock);
            let end_ns = begin_ns.saturating_add(clock.duration_ns);
            axis.end_ns = axis.end_ns.max(end_ns);
            let node = axis.nodes.entry((clock.host.clone(), clock.boot_id)).or_default();
            node.last_begin_ns = node.last_begin_ns.max(begin_ns);
            node.last_end_ns = node.last_end_ns.max(end_ns);
        }
        axis
    }

    /// Returns true if a process that has ended was not there any more when the last of its node began, or long before
    /// the last that is known of any of them.
    fn has_left(&self, clock: &Clock, state: State) -> bool {
        let has_ended =
            matches!(state, State::Closed | State::Replaced | State::Killed | State::Gone);
        let end_ns = self.offset_ns(clock).saturating_add(clock.duration_ns);
        has_ended
            && self.nodes.get(&(clock.host.clone(), clock.boot_id)).is_some_and(|node| {
                end_ns < node.last_begin_ns || end_ns.saturating_add(APART_NS) < node.last_end_ns
            })
    }

    /// Returns the start of a process relative to the start of the job.
    pub fn offset_ns(&self, clock: &Clock) -> u64 {
        let Some(boot) = self.boots.get(&clock.boot_id) else {
            return 0;
        };
        let boot_ns = boot.realtime_ns.saturating_sub(self.start_realtime_ns);
        boot_ns.saturating_add(clock.monotonic_ns.saturating_sub(boot.monotonic_ns))
    }
}

/// Accepts processes one after another.
#[derive(Debug)]
pub struct Assembler {
    axis: Axis,
    nodes: BTreeMap<(Arc<str>, [u8; 16]), Collecting>,
    sites: Collect,
    handles: CollectHandles,
    gpu: CollectGpu,
    notes: Vec<Note>,
    known_notes: HashMap<(u32, Arc<str>), usize>,
    processes: u32,
}

#[derive(Debug)]
struct Collecting {
    ranks: Vec<Rank>,
    timeline: Timeline,
    peaks: Peaks,
    sharing: Sharing,
    join: Join,
    mapped: Join,
}

/// What is known of the peak of a sum in addition to its bins.
#[derive(Debug, Default)]
struct Peaks {
    own: Vec<OwnPeak>,
    /// Sums of the processes' largest totals, by bin.
    most: Vec<u64>,
    /// Sums of the bytes that the processes may have held beyond that, by bin.
    unseen: Vec<u64>,
}

impl Peaks {
    fn add(&mut self, own: Vec<OwnPeak>, most: &[u64], unseen: &[u64]) {
        self.own.extend(own);
        for (sums, values) in [(&mut self.most, most), (&mut self.unseen, unseen)] {
            sums.resize(sums.len().max(values.len()), 0);
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum = sum.saturating_add(*value);
            }
        }
    }
}

/// Returns the bytes that a process may have held beyond its samples, in each bin of the job's
/// axis: if the kernel's own peak was not sampled, it may have occurred at any time between two
/// samples.
fn unseen(rank: &Rank, axis: &Timeline) -> Vec<u64> {
    let end_ns = rank.offset_ns.saturating_add(rank.duration_ns);
    let lived = axis.bin_at(rank.offset_ns)..=axis.bin_at(end_ns);
    let beyond = |(bin, most): (usize, &u64)| match (lived.contains(&bin), rank.unseen) {
        (false, _) => 0,
        (true, 0) => rank.kernel_peak.saturating_sub(rank.peak.bytes),
        (true, _) => rank.kernel_peak.saturating_sub(*most),
    };
    rank.heat.iter().enumerate().map(beyond).collect()
}

/// Returns the peak of a process, whose memory is on the axis of the job.
fn own_peak(rank: &Rank, own: &Timeline, claims: &HashMap<Arc<str>, Claim>) -> OwnPeak {
    let time_ns = rank.peak.time_ns.saturating_add(rank.offset_ns);
    let bin = own.bin_at(time_ns);
    let then = own.series.iter().map(|series| {
        let held = rank.held(&series.name).map_or(0, |held| held.resident_at_peak);
        Sharing::then(series, claims, held, bin)
    });
    OwnPeak {
        moment: Moment { time_ns, ..rank.peak.clone() },
        who: ProcessKey::of(rank),
        held: Vec::new(),
        then: then.collect(),
        at_most: rank.kernel_peak.max(rank.peak.bytes),
    }
}

impl Assembler {
    /// Creates an assembler for processes on this axis.
    pub fn new(axis: Axis) -> Assembler {
        Assembler {
            nodes: BTreeMap::new(),
            sites: Collect::until(axis.end_ns),
            handles: CollectHandles::default(),
            gpu: CollectGpu::default(),
            notes: Vec::new(),
            known_notes: HashMap::new(),
            processes: 0,
            axis,
        }
    }

    /// Adds a process, which must be added only once.
    pub fn add(&mut self, clock: &Clock, reduced: Reduced) {
        let Reduced { mut rank, mut timeline, totals, shared, objects, sites, handles, gpu, notes } =
            reduced;
        rank.offset_ns = self.axis.offset_ns(clock);
        rank.left = self.axis.has_left(clock, rank.state);
        timeline.start_ns = timeline.start_ns.saturating_add(rank.offset_ns);
        let axis = Timeline::axis(0, self.axis.end_ns, BINS);
        rank.heat = heat(&axis, &timeline, &totals);
        let end_ns = rank.offset_ns.saturating_add(rank.duration_ns);
        let mut on_axis = axis.clone();
        on_axis.accumulate_until(&timeline, end_ns);
        let claims = join::claims(&shared);
        let own = own_peak(&rank, &on_axis, &claims);
        let unseen = unseen(&rank, &axis);

        let numbers = self.sites.add_process(objects, sites, rank.offset_ns);
        for mut site in handles {
            let object = numbers.get(site.frame.object as usize);
            site.frame.object = object.copied().unwrap_or(u32::MAX);
            self.handles.add(site);
        }
        for mut site in gpu {
            let object = numbers.get(site.frame.object as usize);
            site.frame.object = object.copied().unwrap_or(u32::MAX);
            self.gpu.add(site);
        }
        for (code, text) in notes {
            let at = *self.known_notes.entry((code, text.clone())).or_insert_with(|| {
                self.notes.push(Note { code, text, processes: 0, example: rank.label() });
                self.notes.len() - 1
            });
            self.notes[at].processes += 1;
        }

        let node =
            self.nodes.entry((clock.host.clone(), clock.boot_id)).or_insert_with(|| Collecting {
                ranks: Vec::new(),
                sharing: Sharing::new(axis.bins),
                timeline: axis,
                peaks: Peaks::default(),
                join: Join::default(),
                mapped: Join::default(),
            });
        node.timeline.accumulate_until(&timeline, end_ns);
        node.sharing.add(&on_axis, &claims, join::moved(&shared));
        node.peaks.add(vec![own], &rank.heat, &unseen);
        let mapped = shared.iter().filter(|segment| !segment.gone && !rank.left).cloned();
        node.mapped.add(self.processes, mapped);
        node.join.add(self.processes, shared);
        self.processes += 1;
        node.ranks.push(rank);
    }

    /// Returns the job.
    pub fn finish(self, folder: PathBuf, unread: Vec<Unread>) -> Job {
        let mut peaks = Peaks::default();
        let mut nodes: Vec<Node> = (self.nodes.into_iter())
            .map(|((host, boot), node)| finish_node(host, boot, node, &mut peaks))
            .collect();
        nodes.sort_by_key(|node| {
            let first = node.ranks.first();
            first.map(Rank::order)
        });
        let mut timeline = Timeline::axis(0, self.axis.end_ns, BINS);
        for node in &nodes {
            timeline.accumulate(&node.timeline);
        }
        timeline.sort();
        let sites = self.sites.finish();
        let mut job = Job {
            folder,
            timeline,
            components: Vec::new(),
            phases: Vec::new(),
            handles: self.handles.finish(&sites),
            gpu: self.gpu.finish(),
            sites,
            balance: balance::balance(&nodes),
            notes: self.notes,
            unread,
            missing: Vec::new(),
            jobs: Vec::new(),
            missing_ranks: MissingRanks::default(),
            touches: Touches::default(),
            started_ns: self.axis.start_realtime_ns,
            nodes,
        };
        job.components = statistics::across(job.nodes.iter().flat_map(|node| &node.ranks));
        job.phases = phase::across(job.nodes.iter().flat_map(|node| &node.ranks));
        job.jobs = jobs::parts(job.ranks().map(|rank| (rank.job, &rank.identity)));
        job.missing = job.jobs.iter().flat_map(|part| part.missing.iter().copied()).collect();
        // If no process was killed, the limits do not matter.
        if job.ranks().all(|rank| rank.state != State::Killed) {
            job.notes.retain(|note| note.code != MEMORY_LIMIT);
        }
        job.touches = Touches::sum(job.ranks().map(|rank| &rank.touches));
        if let Some(rank) = job.nodes.first().and_then(|node| node.ranks.first()) {
            job.timeline.phases = rank.spans();
        }
        job.timeline.mark_peak(&peaks.own, &peaks.most, &peaks.unseen);
        job
    }
}

/// The profiler's note code for the limit of a control group, `MemoryLimit` in
/// `preload/src/base/diagnostics.rs`.
const MEMORY_LIMIT: u32 = 16;

fn finish_node(host: Arc<str>, boot: [u8; 16], node: Collecting, of_job: &mut Peaks) -> Node {
    let Collecting { mut ranks, mut timeline, mut peaks, sharing, join, mapped } = node;
    ranks.sort_by_key(Rank::order);
    let joined = join.finish();
    let repeated = sharing.bound(&mut timeline, &joined, &mut peaks.own);
    for (most, repeated) in peaks.most.iter_mut().zip(repeated) {
        *most = most.saturating_sub(repeated);
    }
    timeline.sort();
    if let Some(rank) = ranks.first() {
        timeline.phases = rank.spans();
    }
    timeline.mark_peak(&peaks.own, &peaks.most, &peaks.unseen);
    of_job.add(peaks.own, &peaks.most, &peaks.unseen);
    let boot_id = boot.iter().map(|byte| format!("{byte:02x}")).collect();
    Node { host, boot_id, ranks, timeline, joined, mapped: mapped.finish() }
}

/// Returns the largest total of the process in each bin of the job's axis.
fn heat(axis: &Timeline, timeline: &Timeline, totals: &[u64]) -> Vec<u64> {
    let values = match totals.len() == timeline.bins {
        true => totals.to_vec(),
        false => timeline.totals(),
    };
    let mut sum = axis.clone();
    let mut series = super::Series::zero("".into(), super::Group::Application, timeline.bins);
    series.high = values;
    sum.accumulate(&Timeline {
        start_ns: timeline.start_ns,
        bin_ns: timeline.bin_ns,
        bins: timeline.bins,
        series: vec![series],
        ..Timeline::default()
    });
    match sum.series.pop() {
        Some(series) => series.high,
        None => vec![0; axis.bins],
    }
}

#[cfg(test)]
#[path = "assemble_tests.rs"]
pub mod tests;
