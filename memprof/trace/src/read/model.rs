//! Content of a trace. Rows are those of the newest layout; readers of older layouts convert.

use std::ops::Range;

use super::Fault;
use crate::layout::{
    ArenaRow, BinHead, COMPONENTS_LIMIT, Cell, Class, ComponentRow, HandleRow, Identity, LoopRow,
    NameRow, NoteRow, ObjectRow, PhasePeak, PhaseRow, SegmentRow, SiteRow, SlackRow, StateRow,
    SummaryHead, SummaryRow, TimeRow, TouchRow,
};
use crate::write::ComponentSample;

/// A row and its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row<T> {
    /// Number by which other rows refer to it.
    pub index: u32,
    /// The row.
    pub row: T,
}

/// Highest memory of each component during a phase, by component number.
pub type PhasePeaks = Vec<PhasePeak>;

/// Everything in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Version of the format.
    pub version: u32,
    /// Size as created; a truncated file is shorter.
    pub file_size: u64,
    /// Identity of the process.
    pub identity: Identity,
    /// Flags, and the other changing state of the whole trace.
    pub state: StateRow,
    /// By number.
    pub components: Vec<Row<ComponentRow>>,
    /// By number.
    pub objects: Vec<Row<ObjectRow>>,
    /// By number.
    pub notes: Vec<Row<NoteRow>>,
    /// By number.
    pub names: Vec<Row<NameRow>>,
    /// The last memory, and the peaks; `None` if the process ended before its first sample.
    pub summary: Option<Summary>,
    /// By number.
    pub phases: Vec<Row<PhaseRow>>,
    /// By number of the phase.
    pub phase_peaks: Vec<Row<PhasePeaks>>,
    /// The whole run, in order of time. Bins do not overlap; times without a sample have no bin,
    /// and the previous state still held then. Widths may differ if the process was killed while
    /// it folded the bins.
    pub timeline: Vec<Bin>,
    /// By number.
    pub segments: Vec<Row<Segment>>,
    /// By number.
    pub sites: Vec<Row<SiteRow>>,
    /// First touches by owner and toucher, if page faults were recorded; by number.
    pub touches: Vec<Row<TouchRow>>,
    /// Times of regions, if they were measured: row 0 is the part of the run in which MPI was
    /// ready, and a phase has the row after its number.
    pub times: Vec<Row<TimeRow>>,
    /// Call sites of MPI, if loops were requested; by number.
    pub loops: Vec<Row<LoopRow>>,
    /// Places that make MPI objects; by number.
    pub handles: Vec<Row<HandleRow>>,
    /// The last part of the run, sample by sample; empty if it was not requested.
    pub history: History,
    /// Parts that could not be read.
    pub faults: Vec<Fault>,
}

/// The last valid summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Totals.
    pub head: SummaryHead,
    /// By component number.
    pub rows: Vec<SummaryRow>,
    /// Free pages of the C library's heaps; none in older traces.
    pub slack: Option<SlackRow>,
    /// Its arenas; none in older traces.
    pub arenas: Vec<ArenaRow>,
}

/// A span of the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bin {
    /// Nanoseconds since the trace began.
    pub start: u64,
    /// Nanoseconds.
    pub width: u64,
    /// Totals.
    pub head: BinHead,
    /// By component number; components beyond have no memory.
    pub cells: Vec<Cell>,
}

impl Bin {
    /// Returns true if the bin has means and minima: those before the first full sample are zero.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.head.samples > 0 || self.head.total_mean > 0
    }

    /// Returns the time from the first sample to the last, or the whole bin if there is no sample.
    /// A forged bin may end before it begins.
    #[must_use]
    pub fn seen(&self) -> (u64, u64) {
        if self.head.samples == 0 && self.head.others == 0 {
            return (self.start, self.end());
        }
        (self.head.first_time, self.head.last_time)
    }

    /// Returns the memory of a component.
    #[must_use]
    pub fn cell(&self, component: usize) -> Cell {
        self.cells.get(component).copied().unwrap_or_default()
    }

    /// Returns the end of the bin.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.width)
    }
}

/// A shared segment and which of its pages are present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The row about it.
    pub row: SegmentRow,
    /// A bit for each granule, lowest first.
    pub bitmap: Vec<u8>,
}

/// Samples and events, in the order in which they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    pub(crate) samples: Vec<Sample>,
    pub(crate) rows: Vec<ComponentSample>,
    pub(crate) phases: Vec<PhaseEdge>,
}

impl History {
    /// Returns each sample and its component rows, oldest first.
    pub fn samples(&self) -> impl DoubleEndedIterator<Item = (&Sample, &[ComponentSample])> {
        self.samples.iter().map(|sample| (sample, &self.rows[sample.rows.clone()]))
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// Returns true if there are no samples.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Beginnings and ends of phases, oldest first.
    #[must_use]
    pub fn phase_edges(&self) -> &[PhaseEdge] {
        &self.phases
    }
}

/// Findings at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Nanoseconds since the trace began.
    pub time: u64,
    /// Bits of [`crate::layout::sample`].
    pub flags: u8,
    /// Resident bytes as the kernel counts them.
    pub kernel_resident: u64,
    /// Resident bytes found.
    pub walked: u64,
    pub(crate) rows: Range<usize>,
}

/// The begin or end of a phase.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PhaseEdge {
    /// Nanoseconds since the trace began.
    pub time: u64,
    /// Number of the phase.
    pub phase: u32,
    /// True if the phase begins, false if it ends.
    pub begins: bool,
}

impl Trace {
    /// Returns the row with this number.
    #[must_use]
    pub fn component(&self, index: usize) -> Option<&ComponentRow> {
        find(&self.components, u32::try_from(index).ok()?)
    }

    /// Returns a name such as `mpi.dep:libopen-pal.so.40`, or `component 77` if the dictionary does
    /// not name it.
    #[must_use]
    pub fn component_name(&self, index: usize) -> String {
        match self.component(index) {
            Some(row) => row.display_name(),
            None => format!("component {index}"),
        }
    }

    /// Returns the MPI function that a `*_function` field stands for; `None` for 0.
    #[must_use]
    pub fn function(&self, field: u32) -> Option<String> {
        find(&self.names, field.checked_sub(1)?).map(|row| row.name.to_string())
    }

    /// Returns the phase with this number.
    #[must_use]
    pub fn phase(&self, index: u32) -> Option<&PhaseRow> {
        find(&self.phases, index)
    }

    /// Returns the peaks of the phase with this number.
    #[must_use]
    pub fn peaks(&self, phase: u32) -> Option<&PhasePeaks> {
        find(&self.phase_peaks, phase)
    }

    /// Returns the object with this number.
    #[must_use]
    pub fn object(&self, index: u32) -> Option<&ObjectRow> {
        find(&self.objects, index)
    }

    /// Returns one more than the highest component number in the trace; at most
    /// [`COMPONENTS_LIMIT`].
    #[must_use]
    pub fn columns(&self) -> usize {
        let named = self.components.last().map_or(0, |row| row.index as usize + 1);
        let summary = self.summary.as_ref().map_or(0, |summary| summary.rows.len());
        let bins = self.timeline.iter().map(|bin| bin.cells.len()).max().unwrap_or(0);
        let history = self.history.rows.iter().map(|row| usize::from(row.component) + 1).max();
        named.max(summary).max(bins).max(history.unwrap_or(0)).min(COMPONENTS_LIMIT)
    }

    /// Returns the latest time in the trace, in nanoseconds since it began.
    #[must_use]
    pub fn last_time(&self) -> u64 {
        let summary = self.summary.as_ref().map_or(0, |summary| summary.head.time);
        let bin = self.timeline.last().map_or(0, |bin| bin.head.last_time);
        let sample = self.history.samples.last().map_or(0, |sample| sample.time);
        let edge = self.history.phases.last().map_or(0, |edge| edge.time);
        [self.state.time, self.state.closed_time, summary, bin, sample, edge]
            .into_iter()
            .max()
            .unwrap_or(0)
    }

    /// Returns true if all of these bits of [`crate::layout::flags`] are set.
    #[must_use]
    pub fn has(&self, flags: u64) -> bool {
        self.state.flags & flags == flags
    }
}

/// Rows are in the order of their numbers.
fn find<T>(rows: &[Row<T>], index: u32) -> Option<&T> {
    let place = rows.binary_search_by_key(&index, |row| row.index).ok()?;
    Some(&rows[place].row)
}

impl ComponentRow {
    /// Its class; `Unattributed` if this memprof does not know the number.
    #[must_use]
    pub fn class(&self) -> Class {
        Class::from_number(self.class)
    }

    /// Returns the name in reports: the class, followed by a colon and the name if there is one.
    #[must_use]
    pub fn display_name(&self) -> String {
        if self.name.is_empty() {
            self.class().name().to_owned()
        } else {
            format!("{}:{}", self.class().name(), self.name)
        }
    }
}
