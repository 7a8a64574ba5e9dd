//! What a report needs of one trace. The only place that knows what traces look like.

use super::absent::Who;
use super::assemble::{Clock, Reduced};
use super::{
    BINS, Frame, Group, Held, Identity, Lost, Moment, Object, Rank, RankPhase, Sampler, Series,
    Shared, Site, Span, State, Timeline, Totals, Touch, Touches,
};
use crate::units::share;
use memprof_trace::layout::{self, NONE, SummaryRow, flags, segment};
use memprof_trace::read::{Bin, Fault, Options, Trace};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// How much of a trace is wanted.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// All but the history sample by sample.
    Everything,
    /// What is held now, and peaks.
    Summary,
}

/// Phases nest no deeper than this; a trace that says otherwise is not believed.
const DEEPEST: u32 = 16;
/// Spans kept of a rank, the longest.
const SPANS: usize = 512;

fn open(file: &Path, history: bool) -> Result<Trace, String> {
    Trace::open_with(file, Options { history }).map_err(|error| error.to_string())
}

/// When a process began, on the clocks it knew, for how long it is known, and which it is.
pub fn clock(file: &Path) -> Result<(Clock, Who), String> {
    let trace = open(file, false)?;
    Ok((clock_of(&trace), who(&trace)))
}

fn who(trace: &Trace) -> Who {
    let from = &trace.identity;
    Who {
        process: (from.boot_id, from.pid, from.start_ticks),
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

/// The last that is known of a process.
fn end_of(trace: &Trace) -> u64 {
    let summary = trace.summary.as_ref().map_or(0, |summary| summary.head.time);
    let sample = trace.timeline.last().map_or(0, |bin| bin.head.last_time);
    (trace.state.time.max(trace.state.closed_time)).max(summary).max(sample)
}

/// Reads one trace.
pub fn reduce(file: &Path, part: Part) -> Result<Reduced, String> {
    let trace = open(file, false)?;
    let names = Names::of(&trace);
    let everything = part == Part::Everything;
    let (timeline, totals) = match everything {
        true => timeline(&trace, &names),
        false => Default::default(),
    };
    let (objects, sites) = match everything {
        true => sites(&trace, &names),
        false => Default::default(),
    };
    Ok(Reduced {
        rank: rank(file, &trace, &names),
        timeline,
        totals,
        shared: shared(&trace, &names),
        objects,
        sites,
        notes: notes(&trace),
    })
}

/// Names of a trace, each made once.
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

fn rank(file: &Path, trace: &Trace, names: &Names) -> Rank {
    let head = trace.summary.as_ref().map(|summary| summary.head);
    let head = head.unwrap_or_default();
    let function = |field: u32| trace.function(field).map(Arc::from);
    let worst = (trace.timeline.iter())
        .filter(|bin| bin.is_known())
        .map(|bin| share(u64::from(bin.cell(0).resident_mean) << 10, bin.head.total_mean))
        .max();
    let now = share(head.unattributed, head.walked);
    Rank {
        file: file.to_owned(),
        identity: identity(trace),
        state: state(trace),
        offset_ns: 0,
        duration_ns: end_of(trace),
        held: held(trace, names),
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
        phases: phases(trace, names),
        open: whole_spans(trace, names),
        heat: Vec::new(),
        sampler: Sampler {
            full: head.samples_full,
            quick: head.samples_quick,
            cpu_ns: head.cpu_ns,
            interval_ns: head.interval_ns,
            longest_hold_ns: head.longest_hold_ns,
            releases: head.samples_release,
            releases_skipped: head.releases_skipped,
            mixed_bytes: head.mixed,
        },
        lost: lost(&head.lost),
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
        job: from.job.to_string().into(),
        program: from.program.to_string().into(),
        mpi_library: trace.state.mpi_library.to_string().into(),
    }
}

/// Whether the process ended, by its own word or, on this machine, by looking.
fn state(trace: &Trace) -> State {
    if trace.state.flags & flags::CLOSED != 0 {
        return State::Closed;
    }
    if trace.state.flags & flags::REPLACED != 0 {
        return State::Replaced;
    }
    let this = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let this: String = this.chars().filter(char::is_ascii_hexdigit).collect();
    let boot: String = (trace.identity.boot_id.iter()).map(|byte| format!("{byte:02x}")).collect();
    if this != boot {
        return State::Open;
    }
    match start_ticks(trace.identity.pid) {
        Some(ticks) if ticks == trace.identity.start_ticks => State::Running,
        _ => State::Killed,
    }
}

/// When a process that lives began: the 22nd field, counted after the name in parentheses.
fn start_ticks(pid: u32) -> Option<u64> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = line.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    match fields.next()? {
        "Z" | "X" => None,
        _ => fields.nth(18)?.parse().ok(),
    }
}

fn held(trace: &Trace, names: &Names) -> Vec<Held> {
    let rows = trace.summary.as_ref().map_or(&[][..], |summary| &summary.rows);
    let mut images: HashMap<usize, u64> = HashMap::new();
    for object in &trace.objects {
        let image = images.entry(object.row.component as usize).or_default();
        *image = image.saturating_add(object.row.size);
    }
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

/// The most a component can have had resident at any time; 0 where that is not known.
fn resident_bound(trace: &Trace, index: usize, name: &str) -> u64 {
    if !Group::of(name).has_ledger() {
        return 0;
    }
    let most = trace.timeline.iter().map(|bin| bin.cell(index).ceiling).max();
    most.filter(|most| *most < u32::MAX).map_or(0, |most| u64::from(most) << 10)
}

/// Objects of the same name in different folders are one component in reports. Its peaks are at
/// most the sums of theirs.
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
        (&mut into.resident_bound, other.resident_bound),
    ] {
        *sum = sum.saturating_add(more);
    }
}

fn depth(trace: &Trace, mut index: u32) -> u32 {
    let mut depth = 0;
    while let Some(phase) = trace.phase(index) {
        if phase.parent == NONE || depth == DEEPEST {
            break;
        }
        index = phase.parent;
        depth += 1;
    }
    depth
}

fn phases(trace: &Trace, names: &Names) -> Vec<RankPhase> {
    let end = end_of(trace);
    trace
        .phases
        .iter()
        .map(|phase| {
            let peaks = trace.phase_peaks.iter().find(|peaks| peaks.index == phase.index);
            let peaks = peaks.map_or(&[][..], |peaks| &peaks.row);
            let row = &phase.row;
            let open = row.open > 0;
            let since = if open { end.saturating_sub(row.first_time) } else { 0 };
            RankPhase {
                name: names.phase(phase.index).unwrap_or_default(),
                depth: depth(trace, phase.index),
                parent: names.phase(row.parent),
                entries: row.entries,
                // An entry that has not ended is not in the total; of the first it is known.
                total_ns: match row.entries {
                    1 if open => since,
                    _ => row.total_ns,
                },
                first_ns: row.first_time,
                last_ns: if open { end } else { row.last_time },
                peaks: (peaks.iter().enumerate())
                    .filter(|(_, peak)| peak.owned > 0 || peak.resident > 0)
                    .map(|(index, peak)| (names.component(index), peak.owned, peak.resident))
                    .collect(),
            }
        })
        .collect()
}

/// Phases that were open once: their span is in their row.
fn whole_spans(trace: &Trace, names: &Names) -> Vec<Span> {
    let end = end_of(trace);
    let mut spans: Vec<Span> = (trace.phases.iter())
        .filter(|phase| phase.row.entries == 1)
        .filter_map(|phase| {
            Some(Span {
                name: names.phase(phase.index)?,
                depth: depth(trace, phase.index),
                begin_ns: phase.row.first_time.min(end),
                end_ns: match phase.row.open {
                    0 => phase.row.last_time.min(end),
                    _ => end,
                },
            })
        })
        .collect();
    spans.sort_by_key(|span| (span.begin_ns, span.depth));
    spans
}

/// When phases were open: from the rows, and of those entered several times as far back as the
/// history goes. Nanoseconds since the process started.
pub fn spans(file: &Path) -> Result<Vec<Span>, String> {
    let trace = open(file, true)?;
    let names = Names::of(&trace);
    let mut spans = whole_spans(&trace, &names);
    let end = end_of(&trace);
    let repeated = |index: u32| trace.phase(index).is_some_and(|phase| phase.entries != 1);
    let mut begun: HashMap<u32, Vec<u64>> = HashMap::new();
    let mut add = |index: u32, begin_ns: u64, end_ns: u64| {
        if let Some(name) = names.phase(index) {
            let depth = depth(&trace, index);
            spans.push(Span { name, depth, begin_ns, end_ns });
        }
    };
    for edge in trace.history.phase_edges() {
        if !repeated(edge.phase) {
            continue;
        }
        let open = begun.entry(edge.phase).or_default();
        if edge.begins {
            open.push(edge.time);
        } else if let Some(begin) = open.pop() {
            add(edge.phase, begin, edge.time);
        }
    }
    for (phase, begins) in begun {
        for begin in begins {
            add(phase, begin, end);
        }
    }
    spans.sort_by_key(|span| std::cmp::Reverse(span.end_ns.saturating_sub(span.begin_ns)));
    spans.truncate(SPANS);
    spans.sort_by_key(|span| (span.begin_ns, span.depth));
    Ok(spans)
}

/// Bins of equal width, and the largest total in each.
fn timeline(trace: &Trace, names: &Names) -> (Timeline, Vec<u64>) {
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
    let parts = parts(bins, &timeline);
    let mut totals = vec![0u64; timeline.bins];
    let mut before = 0;
    for (total, range) in totals.iter_mut().zip(&parts) {
        // What is not known has no total; what was before still held.
        let bins = bins[range.clone()].iter().filter(|bin| bin.is_known());
        before = bins.map(|bin| bin.head.total_max).max().unwrap_or(before);
        *total = before;
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

/// Which bins of the trace lie in each bin of the timeline; where none does, the one before, whose
/// values still held.
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

/// `begun` is when the first of them began to be known.
fn fold(series: &mut Series, at: usize, bins: &[Bin], component: usize, begun: u64) {
    let (mut sum, mut length) = (0u128, 0u128);
    let mut low = u32::MAX;
    let (mut high, mut owned) = (0, 0);
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
    }
    series.high[at] = u64::from(high) << 10;
    series.owned[at] = u64::from(owned) << 10;
    if let Some(mean) = sum.checked_div(length) {
        series.mean[at] = (mean as u64) << 10;
        series.low[at] = u64::from(low) << 10;
    } else if at > 0 {
        series.mean[at] = series.mean[at - 1];
        series.low[at] = series.low[at - 1];
        series.high[at] = series.high[at].max(series.mean[at - 1]);
        series.owned[at] = series.owned[at].max(series.owned[at - 1]);
    }
    (series.floor[at], series.ceiling[at]) = (series.low[at], series.high[at]);
}

/// What the trace says of the times between full samples. Such a time counts there for the bin of the
/// later sample, and may have begun bins before.
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

fn shared(trace: &Trace, names: &Names) -> Vec<Shared> {
    let page = u64::from(trace.identity.page_size.max(1));
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
            }
        })
        .collect()
}

fn sites(trace: &Trace, names: &Names) -> (Vec<Object>, Vec<Site>) {
    let mut numbers: HashMap<u32, u32> = HashMap::new();
    let mut objects = Vec::new();
    for object in &trace.objects {
        numbers.insert(object.index, objects.len() as u32);
        let length = (object.row.build_id_length as usize).min(object.row.build_id.len());
        let id = object.row.build_id[..length].iter();
        objects.push(Object {
            path: object.row.path.to_string().into(),
            build_id: id.map(|byte| format!("{byte:02x}")).collect::<String>().into(),
        });
    }
    let sites = trace.sites.iter().map(|site| {
        let row = &site.row;
        let frames = (row.frames as usize).min(layout::FRAMES);
        Site {
            frames: (row.objects.iter().zip(&row.offsets))
                .take(frames)
                .map(|(object, offset)| Frame {
                    object: numbers.get(object).copied().unwrap_or(NONE),
                    offset: *offset,
                })
                .collect(),
            component: names.component(row.component as usize),
            live: row.live,
            peak: row.peak,
            peak_max: row.peak,
            at_peak: row.at_peak,
            total: row.total,
            processes: 1,
        }
    });
    (objects, sites.collect())
}

/// What the profiler said; where it said nothing, what the flags say; and how the process ended.
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
            "ended without MPI_Finalize",
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
    said.chain(of_flags).collect()
}

/// Codes of notes made of flags begin here.
const FROM_FLAGS: u32 = 1000;
