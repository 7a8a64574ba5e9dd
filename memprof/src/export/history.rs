//! Everything that a trace contains about a process over time, in the finest available resolution.
//!
//! The last part of a run is stored sample by sample; earlier parts are stored as bins.

use crate::model::{Rank, Span};
use anyhow::Context;
use memprof_trace::layout::sample;
use memprof_trace::read::{Bin, Sample, Trace};
use memprof_trace::write::ComponentSample;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Maximum number of rows to which samples are completed, since otherwise a trace would become
/// hundreds of times as large. Of as many neighbouring samples as necessary, the largest stands for
/// all. No trace of the usual size has so many rows, whatever it holds.
const MOST_ROWS: usize = 1 << 24;

/// One process over time.
#[derive(Debug, Default, PartialEq)]
pub struct History {
    /// Display names of components, each once; rows refer to them by index.
    pub names: Vec<Arc<str>>,
    /// Points in order of time.
    pub points: Vec<Point>,
    /// Periods in which phases were open, in nanoseconds since the job started.
    pub phases: Vec<Span>,
}

/// Origin of a point.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A sample at one moment.
    Sample,
    /// A bin over an interval: means of the resident bytes, the highest owned bytes.
    Bin,
}

impl Kind {
    /// Returns the name in the output.
    pub fn label(self) -> &'static str {
        match self {
            Kind::Sample => "sample",
            Kind::Bin => "bin",
        }
    }
}

/// One moment or interval.
#[derive(Debug, PartialEq)]
pub struct Point {
    /// Nanoseconds since the job started; the middle of an interval.
    pub time_ns: u64,
    /// Origin of the point.
    pub kind: Kind,
    /// Sum of the resident bytes.
    pub total: u64,
    /// Resident bytes as the kernel counts them; the highest of an interval.
    pub kernel: u64,
    /// Components that hold memory, in the order of their names' indexes.
    pub rows: Vec<Row>,
}

/// Memory of one component at a point, in bytes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Index of its name.
    pub component: usize,
    /// Owned bytes.
    pub owned: u64,
    /// Resident bytes.
    pub resident: u64,
    /// Lowest resident bytes in the interval.
    pub low: u64,
    /// Highest resident bytes in the interval.
    pub high: u64,
    /// Part of `resident` shared with other processes; not known for intervals.
    pub shared: u64,
    /// Swapped-out bytes; not known for intervals.
    pub swapped: u64,
}

impl Row {
    fn add(&mut self, other: &Row) {
        for (sum, value) in [
            (&mut self.owned, other.owned),
            (&mut self.resident, other.resident),
            (&mut self.low, other.low),
            (&mut self.high, other.high),
            (&mut self.shared, other.shared),
            (&mut self.swapped, other.swapped),
        ] {
            *sum = sum.saturating_add(value);
        }
    }
}

impl History {
    /// Reads the trace of a rank again, relative to the start of its job.
    ///
    /// # Errors
    /// If the file can no longer be read, or is damaged.
    pub fn read(rank: &Rank) -> anyhow::Result<History> {
        let trace = Trace::open(&rank.file)
            .with_context(|| format!("cannot read {}", rank.file.display()))?;
        let mut history = History::of(&trace, rank.offset_ns);
        history.phases = rank.all_spans(&trace);
        Ok(history)
    }

    /// Returns the points of a trace whose process started `offset_ns` after its job.
    pub fn of(trace: &Trace, offset_ns: u64) -> History {
        let mut names = Names::default();
        let places: Vec<usize> =
            (0..trace.columns()).map(|index| names.place(trace.component_name(index))).collect();
        let samples = samples(trace, &places, MOST_ROWS);
        let first = samples.first().map_or(u64::MAX, |point| point.time_ns);
        let bins = || trace.timeline.iter().filter(|bin| bin.is_known());
        let oldest = trace.history.samples().next().map_or(u64::MAX, |(head, _)| head.time);
        let lost = bins().next().is_some_and(|bin| bin.seen().0 < oldest);
        // The last bin may extend into the time of the samples; only the bin has what was before
        // them.
        let before = bins().filter(|bin| lost && bin.seen().0 < first);
        let mut points: Vec<Point> = before.map(|bin| of_bin(bin, &places, first)).collect();
        points.extend(samples);
        points.sort_by_key(|point| point.time_ns);
        for point in &mut points {
            point.time_ns = point.time_ns.saturating_add(offset_ns);
        }
        History { names: names.list, points, phases: Vec::new() }
    }

    /// Returns, for each name, the points that have it, with its memory.
    pub(super) fn by_name(&self) -> Vec<Vec<(usize, &Row)>> {
        let mut found = vec![Vec::new(); self.names.len()];
        for (at, point) in self.points.iter().enumerate() {
            for row in &point.rows {
                found[row.component].push((at, row));
            }
        }
        found
    }

    /// Returns the innermost phase at a time.
    pub fn phase_at(&self, time_ns: u64) -> &str {
        let open =
            self.phases.iter().filter(|span| span.begin_ns <= time_ns && time_ns < span.end_ns);
        open.max_by_key(|span| span.depth).map_or("", |span| &span.name)
    }
}

/// Objects with the same name in several folders are one component.
#[derive(Default)]
struct Names {
    list: Vec<Arc<str>>,
    known: HashMap<Arc<str>, usize>,
}

impl Names {
    fn place(&mut self, name: String) -> usize {
        let name: Arc<str> = name.into();
        *self.known.entry(name.clone()).or_insert_with(|| {
            self.list.push(name);
            self.list.len() - 1
        })
    }
}

/// Returns every complete sample. A sample that contains only changes is completed from earlier
/// ones; samples before the first complete one are left out. If there could be more than `most`
/// rows, only some of the samples are returned.
fn samples(trace: &Trace, places: &[usize], most: usize) -> Vec<Point> {
    let mut totals = Vec::new();
    each(trace, &mut |_, state| totals.push(state.total));
    let together = totals.len().saturating_mul(places.len()).div_ceil(most).max(1);
    let largest = |(number, part): (usize, &[u64])| {
        let at = (0..part.len()).rev().max_by_key(|at| part[*at]).unwrap_or(0);
        number * together + at
    };
    let mut kept = totals.chunks(together).enumerate().map(largest).peekable();
    let mut points = Vec::with_capacity(kept.len());
    let mut number = 0;
    each(trace, &mut |head, state| {
        if kept.next_if_eq(&number).is_some() {
            let named = state.rows.iter().filter_map(|(component, row)| {
                places.get(usize::from(*component)).map(|place| (*row, *place))
            });
            points.push(Point {
                time_ns: head.time,
                kind: Kind::Sample,
                total: state.total,
                kernel: head.kernel_resident,
                rows: by_name(named),
            });
        }
        number += 1;
    });
    points
}

/// State that results from all samples up to one.
#[derive(Default)]
struct State {
    rows: BTreeMap<u16, Row>,
    /// Sum of the resident bytes.
    total: u64,
}

impl State {
    fn set(&mut self, row: &ComponentSample) {
        let ComponentSample { component, owned, resident, shared, swapped, .. } = *row;
        let (low, high) = (resident, resident);
        let now = Row { component: 0, owned, resident, low, high, shared, swapped };
        let before = self.rows.insert(component, now).map_or(0, |before| before.resident);
        self.total = self.total.saturating_sub(before).saturating_add(resident);
    }
}

/// Visits the samples at which the memory of every component is known.
fn each(trace: &Trace, visit: &mut dyn FnMut(&Sample, &State)) {
    let mut known: Option<State> = None;
    for (head, rows) in trace.history.samples() {
        let full = head.flags & sample::FULL != 0;
        if full {
            known = Some(State::default());
        }
        let Some(state) = known.as_mut() else { continue };
        if rows.is_empty() && !full {
            continue;
        }
        rows.iter().for_each(|row| state.set(row));
        visit(head, state);
    }
}

/// Returns the point of a bin, cut at `until`.
fn of_bin(bin: &Bin, places: &[usize], until: u64) -> Point {
    let bytes = |kib: u32| u64::from(kib) << 10;
    let cells = places.iter().enumerate().map(|(index, place)| {
        let cell = bin.cell(index);
        let row = Row {
            owned: bytes(cell.owned_max),
            resident: bytes(cell.resident_mean),
            low: bytes(cell.resident_min),
            high: bytes(cell.resident_max),
            ..Row::default()
        };
        (row, *place)
    });
    let (from, to) = bin.seen();
    let to = to.min(until).max(from);
    Point {
        time_ns: from + (to - from) / 2,
        kind: Kind::Bin,
        total: bin.head.total_mean,
        kernel: bin.head.kernel_max,
        rows: by_name(cells),
    }
}

/// Returns the rows that hold memory, one for each name.
fn by_name(rows: impl Iterator<Item = (Row, usize)>) -> Vec<Row> {
    let mut sums: Vec<Row> = Vec::new();
    let mut filled: Vec<(usize, Row)> =
        rows.filter(|(row, _)| *row != Row::default()).map(|(row, place)| (place, row)).collect();
    filled.sort_by_key(|(place, _)| *place);
    for (place, row) in filled {
        match sums.last_mut() {
            Some(last) if last.component == place => last.add(&row),
            _ => sums.push(Row { component: place, ..row }),
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use memprof_trace::layout::{Class, ComponentRow, Geometry, Identity};
    use memprof_trace::write::{Buffer, ComponentSample, SampleHead, Writer};

    fn row(component: u16, resident: u64) -> ComponentSample {
        ComponentSample { component, owned: 2 * resident, resident, ..ComponentSample::default() }
    }

    fn head(time: u64, flags: u8) -> SampleHead {
        SampleHead { time, flags, kernel_resident: 1, walked: 1 }
    }

    #[test]
    fn partial_sample_is_completed_and_names_are_joined() {
        let size = Geometry::SMALLEST_FILE;
        let mut buffer = Buffer::new(size);
        let geometry = Geometry::for_file(size).unwrap();
        let mut writer =
            Writer::create(buffer.bytes_mut(), &Identity::default(), &geometry).unwrap();
        // Two objects of one name are one component; the third is another.
        for (index, name) in [(16, "libx.so"), (17, "libx.so"), (18, "liby.so")] {
            let class = Class::MpiDependency as u8;
            let name = memprof_trace::Text::new(name);
            writer.set_component(index, &ComponentRow { class, name, ..ComponentRow::default() });
        }
        // This sample is too early to be completed.
        writer.sample(&head(1, sample::RELEASE), &[row(16, 4096)]);
        writer.sample(&head(2, sample::FULL), &[row(16, 100), row(17, 20), row(18, 3)]);
        writer.sample(&head(3, sample::RELEASE), &[row(17, 50)]);
        writer.quick(&head(4, sample::QUICK));
        writer.sample(&head(5, sample::FULL), &[row(18, 7)]);
        writer.close(6);

        let trace = Trace::from_bytes(buffer.bytes()).unwrap();
        let history = History::of(&trace, 1000);
        let seen: Vec<_> = history
            .points
            .iter()
            .map(|point| {
                let rows = point.rows.iter();
                let rows = rows.map(|row| (&*history.names[row.component], row.resident));
                (point.time_ns, point.total, rows.collect())
            })
            .collect();
        let (x, y) = ("mpi.dep:libx.so", "mpi.dep:liby.so");
        assert_eq!(
            seen,
            [
                (1002, 123, vec![(x, 120), (y, 3)]),
                (1003, 153, vec![(x, 150), (y, 3)]),
                (1005, 7, vec![(y, 7)]),
            ]
        );
    }

    #[test]
    fn samples_of_too_many_rows_keep_the_largest_neighbours() {
        let size = Geometry::SMALLEST_FILE;
        let mut buffer = Buffer::new(size);
        let geometry = Geometry::for_file(size).unwrap();
        let mut writer =
            Writer::create(buffer.bytes_mut(), &Identity::default(), &geometry).unwrap();
        writer.sample(&head(0, sample::FULL), &[row(0, 1), row(1, 1), row(2, 1), row(3, 1)]);
        for time in 1..10 {
            writer.sample(&head(time, sample::RELEASE), &[row(3, (time * 7) % 10)]);
        }
        let trace = Trace::from_bytes(buffer.bytes()).unwrap();
        let at = |most| -> Vec<(u64, u64, usize)> {
            let points = samples(&trace, &[0, 1, 2, 3], most).into_iter();
            points.map(|point| (point.time_ns, point.total, point.rows.len())).collect()
        };
        assert_eq!(at(40).len(), 10);
        // Resident bytes next to three other values: 1 7 4, 1 8 5, 2 9 6, 3.
        assert_eq!(at(16), [(1, 10, 4), (4, 11, 4), (7, 12, 4), (9, 6, 4)]);
        assert_eq!(at(1), [(7, 12, 4)]);
    }

    #[test]
    fn rows_lost_from_the_ring_are_bins_without_a_gap() {
        let size = Geometry::SMALLEST_FILE;
        let mut buffer = Buffer::new(size);
        let geometry = Geometry::for_file(size).unwrap();
        let mut writer =
            Writer::create(buffer.bytes_mut(), &Identity::default(), &geometry).unwrap();
        for time in 0..20_000u64 {
            let sample = SampleHead { walked: 4096, ..head(time * 1_000_000, sample::FULL) };
            writer.sample(&sample, &[row(16, 4096)]);
        }
        let trace = Trace::from_bytes(buffer.bytes()).unwrap();
        let points = History::of(&trace, 0).points;
        let bins = points.iter().take_while(|point| point.kind == Kind::Bin).count();
        assert!(bins > 2 && points[bins..].iter().all(|point| point.kind == Kind::Sample));
        let width = trace.timeline[0].width;
        let gap = points[bins].time_ns - points[bins - 1].time_ns;
        assert!(gap <= width, "{gap} ns between the last bin and the first sample");
        assert!(points.iter().all(|point| point.total == 4096));
    }

    #[test]
    fn the_phase_of_a_time_is_the_innermost() {
        let span = |name: &str, depth, begin_ns, end_ns| Span {
            is_sampled: true,
            name: name.into(),
            depth,
            begin_ns,
            end_ns,
        };
        let phases = vec![span("main", 0, 0, 100), span("solve", 1, 10, 20)];
        let history = History { phases, ..History::default() };
        let at = [5, 10, 19, 20, 100].map(|time| history.phase_at(time));
        assert_eq!(at, ["main", "solve", "solve", "main", ""]);
    }
}
