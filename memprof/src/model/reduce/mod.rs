//! Reduction of one trace to what a report needs. No other module knows the format of traces.

mod bins;
mod counters;
mod gpu;
mod handles;
mod images;
mod phases;
mod sites;
mod slack;

pub use counters::read as counters;
pub use phases::{all_spans, left_open, spans};
pub use sites::read as sites;

use super::assemble::{Clock, Reduced};
use super::missing_ranks::Who;
use super::rank::{missed, unseen};
use super::running_processes::RunningProcesses;
use super::{
    Group, Held, Identity, Lost, Moment, Rank, Sampler, Shared, State, Totals, Touch, Touches, jobs,
};
use crate::units::share;
use memprof_trace::layout::{self, SummaryRow, flags, segment};
use memprof_trace::read::{Fault, Options, Trace, TraceError};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Requested part of a trace.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Everything except the history sample by sample.
    Everything,
    /// Memory now, and peaks.
    Summary,
}

fn open(file: &Path, options: Options) -> Result<Trace, String> {
    Trace::open_with(file, options).map_err(|error| match error {
        // The caller names the file.
        TraceError::Io { cause, .. } => cause.to_string(),
        other => other.to_string(),
    })
}

/// Everything except the history sample by sample.
const DETAIL: Options = Options { history: false, detail: true };

/// Facts about each trace that are needed before any can be added up.
pub struct First {
    /// Start of the process on its clocks, and the time for which it is known.
    pub clock: Clock,
    /// Identity of the process.
    pub who: Who,
    /// The rest, where so little is requested that it need not be read again.
    pub reduced: Option<Box<Reduced>>,
}

/// Reads the first facts of a trace.
pub fn first(file: &Path, part: Part, living: &RunningProcesses) -> Result<First, String> {
    // A timeline is most of the data: it is read only once.
    let detail = part == Part::Summary;
    let trace = open(file, Options { detail, ..DETAIL })?;
    let reduced = (part == Part::Summary).then(|| Box::new(of(file, &trace, part, living)));
    Ok(First { clock: clock_of(&trace), who: who(&trace), reduced })
}

fn who(trace: &Trace) -> Who {
    let from = &trace.identity;
    Who {
        process: (from.boot_id, from.pid, from.start_ticks),
        parent: from.parent_pid,
        image: from.image,
        rank: u32::try_from(from.rank).ok().map(|rank| (from.job.to_string(), rank)),
        mpi: trace.has(flags::MPI_SEEN),
        all: trace.has(flags::ALL_PROCESSES),
    }
}

fn clock_of(trace: &Trace) -> Clock {
    Clock {
        boot_id: trace.identity.boot_id,
        host: trace.identity.host.to_string().into(),
        realtime_ns: trace.identity.realtime_ns,
        monotonic_ns: trace.identity.monotonic_ns,
        duration_ns: end_of(trace),
    }
}

/// Returns the last time known of a process.
fn end_of(trace: &Trace) -> u64 {
    let summary = trace.summary.as_ref().map_or(0, |summary| summary.head.time);
    let sample = trace.timeline.last().map_or(0, |bin| bin.head.last_time);
    (trace.state.time.max(trace.state.closed_time)).max(summary).max(sample)
}

/// Reads one trace.
pub fn reduce(file: &Path, part: Part, living: &RunningProcesses) -> Result<Reduced, String> {
    Ok(of(file, &open(file, DETAIL)?, part, living))
}

fn of(file: &Path, trace: &Trace, part: Part, living: &RunningProcesses) -> Reduced {
    let names = Names::of(trace);
    let everything = part == Part::Everything;
    let (timeline, totals) = match everything {
        true => bins::timeline(trace, &names),
        false => Default::default(),
    };
    let (objects, sites) = match everything {
        true => sites::sites(trace, &names),
        false => Default::default(),
    };
    let handles = if everything { handles::sites(trace) } else { Vec::new() };
    let gpu = if everything { gpu::sites(trace, &names) } else { Vec::new() };
    Reduced {
        rank: rank(file, trace, &names, living),
        timeline,
        totals,
        shared: shared(trace, &names),
        objects,
        sites,
        handles,
        gpu,
        notes: notes(trace),
    }
}

/// Names of a trace, each created once.
struct Names {
    components: Vec<Arc<str>>,
    phases: HashMap<u32, Arc<str>>,
}

impl Names {
    fn of(trace: &Trace) -> Names {
        Names {
            components: (0..layout::COMPONENTS_LIMIT)
                .map(|index| trace.component_name(index).into())
                .collect(),
            phases: (trace.phases.iter())
                .map(|phase| (phase.index, phase.row.name.to_string().into()))
                .collect(),
        }
    }

    fn component(&self, index: usize) -> Arc<str> {
        self.components.get(index).unwrap_or(&self.components[0]).clone()
    }

    fn phase(&self, index: u32) -> Option<Arc<str>> {
        self.phases.get(&index).cloned()
    }
}

fn rank(file: &Path, trace: &Trace, names: &Names, living: &RunningProcesses) -> Rank {
    let head = trace.summary.as_ref().map(|summary| summary.head);
    let head = head.unwrap_or_default();
    let function = |field: u32| trace.function(field).map(Arc::from);
    let worst = (trace.timeline.iter())
        .filter(|bin| bin.is_known())
        .map(|bin| share(u64::from(bin.cell(0).resident_mean) << 10, bin.head.total_mean))
        .max();
    let now = share(head.unattributed, head.walked);
    // Ticks without a full sample count the kernel's resident bytes, too.
    let counted = trace.timeline.iter().map(|bin| bin.head.kernel_max).max();
    let kernel_peak = head.kernel_peak.max(counted.unwrap_or(0));
    let held = held(trace, names);
    // The kernel counts neither page tables nor pages of hugetlbfs as resident. Of the latter the trace
    // has the bytes at its end only: with any, no difference is known.
    let tables = held.iter().filter(|held| held.group == Group::Kernel);
    let tables: u64 = tables.map(|held| held.resident_at_peak).sum();
    let seen = if head.hugetlb > 0 { kernel_peak } else { head.peak.saturating_sub(tables) };
    Rank {
        file: file.to_owned(),
        identity: identity(trace),
        job: None,
        state: state(file, trace, living),
        left: false,
        offset_ns: 0,
        duration_ns: end_of(trace),
        held,
        totals: Totals {
            resident: head.walked,
            kernel_resident: head.kernel_resident,
            unattributed: head.unattributed,
            page_tables: head.page_tables,
            hugetlb: head.hugetlb,
            worst_unattributed: worst.unwrap_or(0).max(now),
        },
        peak: Moment {
            time_ns: head.peak_time,
            bytes: head.peak,
            phase: names.phase(head.peak_phase),
            mpi_function: function(head.peak_function),
        },
        kernel_peak,
        unseen: unseen(kernel_peak, head.peak),
        missed: missed(kernel_peak, seen),
        beyond_share: u64::from(trace.timeline.last().map_or(0, |bin| bin.head.beyond_min)) << 10,
        phases: phases::phases(trace, names, head.peak),
        open: phases::whole_spans(trace, names),
        heat: Vec::new(),
        sampler: Sampler {
            full: head.samples_full,
            in_main: phases::samples_in_main(trace),
            quick: head.samples_quick,
            cpu_ns: head.cpu_ns,
            interval_ns: head.interval_ns,
            longest_hold_ns: head.longest_hold_ns,
            releases: head.samples_release,
            releases_skipped: head.releases_skipped,
            mixed_bytes: head.mixed,
        },
        lost: lost(&head.lost),
        handles: handles::counts(trace),
        gpu: gpu::memory(trace, names),
        slack: slack::of(trace, names),
        touches: touches(trace, names),
        faults: trace.faults.iter().map(ToString::to_string).collect(),
        damaged: trace.faults.iter().any(|fault| !matches!(fault, Fault::NoRoom { .. })),
    }
}

fn lost(counts: &[u32]) -> Vec<Lost> {
    let named = layout::lost::NAMES.iter().zip(counts).filter(|(_, count)| **count > 0);
    named.map(|(name, count)| Lost { table: (*name).into(), count: (*count).into() }).collect()
}

fn touches(trace: &Trace, names: &Names) -> Touches {
    let head = trace.summary.as_ref().map(|summary| summary.head).unwrap_or_default();
    let cells = trace.touches.iter().map(|touch| Touch {
        owner: names.component(touch.row.owner.into()),
        toucher: (touch.row.toucher != layout::NONE_SHORT)
            .then(|| names.component(touch.row.toucher.into())),
        mpi_function: trace.function(touch.row.function).map(Arc::from),
        faults: touch.row.faults,
        bytes: touch.row.bytes,
    });
    let mut touches = Touches {
        cells: cells.collect(),
        faults: head.faults,
        lost: head.faults_lost,
        processes: u32::from(trace.has(flags::FAULTS)),
    };
    touches.sort();
    touches
}

fn identity(trace: &Trace) -> Identity {
    let from = &trace.identity;
    Identity {
        rank: u32::try_from(from.rank).ok(),
        size: u32::try_from(from.size).ok(),
        local_rank: u32::try_from(from.local_rank).ok(),
        pid: from.pid,
        host: from.host.to_string().into(),
        job: jobs::name(&from.job.to_string()).0.into(),
        spawned: None,
        child: None,
        parent: None,
        program: from.program.to_string().into(),
        node_memory: from.node_memory,
        memory_limit: from.memory_limit,
        mpi_library: trace.state.mpi_library.to_string().into(),
    }
}

/// Returns the state of the process, by its own word or, on this machine, by looking.
fn state(file: &Path, trace: &Trace, living: &RunningProcesses) -> State {
    if trace.state.flags & flags::CLOSED != 0 {
        return State::Closed;
    }
    if trace.state.flags & flags::REPLACED != 0 {
        return State::Replaced;
    }
    let from = &trace.identity;
    match living.is_here(&from.boot_id) {
        false => State::Open,
        true if living.runs(from.pid, from.start_ticks, file, &|| wrote(file)) => State::Running,
        true => State::Killed,
    }
}

/// Returns the time when the process of a trace last wrote to it, on its machine's monotonic clock.
fn wrote(file: &Path) -> Option<u64> {
    let trace = open(file, Options { history: false, detail: false }).ok()?;
    trace.identity.monotonic_ns.checked_add(end_of(&trace))
}

fn held(trace: &Trace, names: &Names) -> Vec<Held> {
    let rows = trace.summary.as_ref().map_or(&[][..], |summary| &summary.rows);
    let images = images::images(trace);
    let mut held: Vec<Held> = Vec::new();
    let mut known: HashMap<Arc<str>, usize> = HashMap::new();
    for (index, row) in rows.iter().enumerate() {
        let name = names.component(index);
        if *row == SummaryRow::default() {
            continue;
        }
        let one = Held {
            group: Group::of(&name),
            name: name.clone(),
            owned: row.owned,
            owned_peak: row.owned_peak,
            owned_peak_ns: row.owned_peak_time,
            image: images.get(&index).copied().unwrap_or(0),
            resident: row.resident,
            resident_peak: row.resident_peak,
            resident_peak_ns: row.resident_peak_time,
            phase: names.phase(row.resident_peak_phase),
            mpi_function: trace.function(row.resident_peak_function).map(Arc::from),
            shared: row.shared,
            huge: row.huge,
            swapped: row.swapped,
            allocations: row.allocations,
            frees: row.frees,
            allocated: row.allocated,
            resident_at_peak: row.resident_at_peak,
            owned_at_peak: row.owned_at_peak,
            slack_at_peak: row.slack_at_peak,
            resident_bound: resident_bound(trace, index, &name).max(row.resident_peak),
        };
        match known.get(&name) {
            Some(at) => merge(&mut held[*at], one),
            None => {
                known.insert(name, held.len());
                held.push(one);
            }
        }
    }
    held.sort_by(|a, b| {
        (a.group.cmp(&b.group))
            .then(b.resident_peak.cmp(&a.resident_peak))
            .then(a.name.cmp(&b.name))
    });
    held
}

/// Returns an upper bound of the resident bytes of a component at any time; 0 where it is not
/// known.
fn resident_bound(trace: &Trace, index: usize, name: &str) -> u64 {
    if !Group::of(name).has_ledger() {
        return 0;
    }
    let most = trace.timeline.iter().map(|bin| bin.cell(index).ceiling).max();
    most.filter(|most| *most < u32::MAX).map_or(0, |most| u64::from(most) << 10)
}

/// Merges objects of the same name in different folders into one component in reports. Its peaks
/// are at most the sums of theirs.
fn merge(into: &mut Held, other: Held) {
    if other.resident_peak > into.resident_peak {
        into.resident_peak_ns = other.resident_peak_ns;
        into.phase = other.phase;
        into.mpi_function = other.mpi_function;
    }
    if other.owned_peak > into.owned_peak {
        into.owned_peak_ns = other.owned_peak_ns;
    }
    for (sum, more) in [
        (&mut into.owned, other.owned),
        (&mut into.owned_peak, other.owned_peak),
        (&mut into.image, other.image),
        (&mut into.resident, other.resident),
        (&mut into.resident_peak, other.resident_peak),
        (&mut into.shared, other.shared),
        (&mut into.huge, other.huge),
        (&mut into.swapped, other.swapped),
        (&mut into.allocations, other.allocations),
        (&mut into.frees, other.frees),
        (&mut into.allocated, other.allocated),
        (&mut into.resident_at_peak, other.resident_at_peak),
        (&mut into.owned_at_peak, other.owned_at_peak),
        (&mut into.slack_at_peak, other.slack_at_peak),
        (&mut into.resident_bound, other.resident_bound),
    ] {
        *sum = sum.saturating_add(more);
    }
}

fn shared(trace: &Trace, names: &Names) -> Vec<Shared> {
    let page = u64::from(trace.identity.page_size.max(1));
    let lost =
        trace.summary.as_ref().map_or(0, |summary| summary.head.lost[layout::lost::SEGMENTS]);
    let is_whole = lost == 0 && trace.faults.is_empty();
    trace
        .segments
        .iter()
        .map(|segment| {
            let row = &segment.row.row;
            let words = segment.row.bitmap.chunks(8).map(|bytes| {
                let mut word = [0u8; 8];
                word[..bytes.len()].copy_from_slice(bytes);
                u64::from_le_bytes(word)
            });
            Shared {
                dev: row.device,
                ino: row.inode,
                path: row.path.to_string().into(),
                component: names.component(row.component as usize),
                size: row.size,
                hugetlb: row.flags & segment::HUGETLB != 0,
                gone: row.flags & segment::GONE != 0,
                granule_shift: row.granule_shift,
                exact: 1u64.checked_shl(row.granule_shift) == Some(page),
                bitmap: words.collect(),
                present: row.present,
                counted: row.counted.max(row.present),
                dropped: row.dropped,
                doubled: row.doubled,
                is_moved: row.flags & segment::MOVED != 0,
                is_whole: is_whole && row.flags & segment::REUSED == 0,
            }
        })
        .collect()
}

/// Returns the profiler's notes; where it has none, notes made of the flags; and the end of the
/// process.
fn notes(trace: &Trace) -> Vec<(u32, Arc<str>)> {
    let said = trace.notes.iter().map(|note| (note.row.code, note.row.text.to_string().into()));
    let from_flags = [
        (flags::STATIC, "linked statically: owners are told by the call, not by the library"),
        (flags::OWN_ALLOCATOR, "the program brings its own allocator: its blocks are not seen"),
        (flags::NO_BOUNDARY, "MPI calls are not seen"),
        (flags::NO_RESIDENCY, "what is resident is not seen page by page"),
    ];
    let at_the_end = [
        (flags::PAUSED, flags::PAUSED, "recording was off at the end (MPI_Pcontrol)"),
        (
            flags::CLOSED | flags::INITIALIZED | flags::FINALIZED,
            flags::CLOSED | flags::INITIALIZED,
            "ended without MPI_Finalize, or MPI_Session_finalize of the last session",
        ),
    ];
    let from_flags = from_flags
        .into_iter()
        .filter(|_| trace.notes.is_empty())
        .map(|(flag, text)| (flag, flag, text));
    let of_flags = from_flags
        .chain(at_the_end)
        .filter(|(which, value, _)| trace.state.flags & which == *value)
        .map(|(_, flag, text)| (FROM_FLAGS + flag.trailing_zeros(), Arc::from(text)));
    let open = phases::left_open(trace).into_iter().map(|name| {
        (FROM_REGIONS, format!("region {name} was open when the process ended").into())
    });
    said.chain(of_flags).chain(open).collect()
}

/// Code of notes about regions that were left open.
const FROM_REGIONS: u32 = 2000;
/// First code of notes derived from flags.
const FROM_FLAGS: u32 = 1000;
