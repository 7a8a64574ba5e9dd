//! Writing of a trace from inside the process that it describes.
//!
//! Nothing here allocates, locks, or makes system calls. One thread at a time may use a [`Writer`].
//! Other processes may read the memory at any time, and this process may be killed between any two
//! stores: parts written before stay readable. Rows beyond the capacity of a table are counted, not
//! written.

mod buffer;
#[cfg(test)]
mod kill_tests;
mod memory;
mod ring;
mod table;
mod timeline;

pub use buffer::Buffer;
use memory::Region;
use ring::Ring;
use table::{Filling, Sequence, Table, Written};
use timeline::Timeline;

use crate::layout::{
    ArenaRow, BIN_SHIFT, COMPONENTS_LIMIT, ComponentRow, ENDIAN_MARK, Geometry, HEADER_CHECKSUM,
    HEADER_SIZE, HandleRow, HeaderStart, IDENTITY, Identity, LoopRow, MAGIC, NameRow, NoteRow,
    ObjectRow, PhasePeak, PhaseRow, Placement, ROWS_LIMIT, Record, SECTION_TABLE, SectionEntry,
    SectionKind, SegmentRow, SiteRow, SlackRow, StateRow, SummaryHead, SummaryRow, TimeRow,
    TouchRow, VERSION, edge, record, sample,
};
use crate::plain::Text;

/// Reason why no trace can be written to a memory range.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The memory is too small for the tables and a ring.
    #[error("a trace with these tables needs more than {0} bytes")]
    TooSmall(usize),
    /// The memory does not begin at a multiple of eight.
    #[error("the memory of a trace has to be aligned to eight bytes")]
    Misaligned,
    /// The memory is not all zero.
    #[error("the memory of a new trace has to be zero")]
    NotEmpty,
}

/// A sample of the process as a whole.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SampleHead {
    /// Nanoseconds since the trace began.
    pub time: u64,
    /// Bits of [`sample`]. With [`sample::FULL`], components that are not named have no memory.
    pub flags: u8,
    /// Resident bytes as the kernel counts them.
    pub kernel_resident: u64,
    /// Resident bytes found.
    pub walked: u64,
}

/// A sample of a component, in bytes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ComponentSample {
    /// Component number.
    pub component: u16,
    /// Owned: blocks and ranges.
    pub owned: u64,
    /// Resident part of the owned bytes.
    pub resident: u64,
    /// Part of it shared with other processes.
    pub shared: u64,
    /// Swapped out.
    pub swapped: u64,
    /// Total bytes ever allocated or mapped. This and the next fields are only for the bounds of
    /// the timeline.
    pub allocated: u64,
    /// Highest bytes ever owned.
    pub owned_peak: u64,
    /// Mapped bytes that are not owned: code and data of the component's objects.
    pub image: u64,
}

impl ComponentSample {
    fn is_zero(&self) -> bool {
        self.owned == 0 && self.resident == 0 && self.shared == 0 && self.swapped == 0
    }

    fn has_extra(&self) -> bool {
        self.shared != 0 || self.swapped != 0
    }
}

/// Writer of one trace. Its size is about 28 KiB; it should not be moved.
pub struct Writer<'a> {
    region: Region<'a>,
    sequence: Sequence,
    /// Latest time seen.
    now: u64,
    state: StateRow,
    state_table: Table<1>,
    components: Table<COMPONENTS_LIMIT>,
    objects: Table<ROWS_LIMIT>,
    notes: Table<ROWS_LIMIT>,
    names: Table<ROWS_LIMIT>,
    summary: Table<1>,
    phases: Table<ROWS_LIMIT>,
    peaks: Table<ROWS_LIMIT>,
    segments: Table<ROWS_LIMIT>,
    sites: Table<ROWS_LIMIT>,
    touches: Table<ROWS_LIMIT>,
    times: Table<ROWS_LIMIT>,
    loops: Table<ROWS_LIMIT>,
    handles: Table<ROWS_LIMIT>,
    timeline: Timeline,
    ring: Ring,
}

impl<'a> Writer<'a> {
    /// Begins a trace in memory that is all zero, as a new file is. The magic number is written
    /// last: before that, the file is not a trace.
    ///
    /// # Errors
    /// If the memory is too small for the geometry, misaligned, or its header is not zero.
    pub fn create(
        memory: &'a mut [u8],
        identity: &Identity,
        geometry: &Geometry,
    ) -> Result<Self, CreateError> {
        let length = memory.len();
        let placement = geometry.place(length).ok_or(CreateError::TooSmall(length))?;
        let region = Region::new(memory);
        if !region.is_aligned() {
            return Err(CreateError::Misaligned);
        }
        if region.bytes(0, HEADER_SIZE).iter().any(|byte| *byte != 0) {
            return Err(CreateError::NotEmpty);
        }
        let of = |kind| placement.section(kind);
        let mut writer = Self {
            region,
            sequence: Sequence::new(),
            now: 0,
            state: StateRow::default(),
            state_table: Table::new(of(SectionKind::State)),
            components: Table::new(of(SectionKind::Components)),
            objects: Table::new(of(SectionKind::Objects)),
            notes: Table::new(of(SectionKind::Notes)),
            names: Table::new(of(SectionKind::Names)),
            summary: Table::new(of(SectionKind::Summary)),
            phases: Table::new(of(SectionKind::Phases)),
            peaks: Table::new(of(SectionKind::PhasePeaks)),
            segments: Table::new(of(SectionKind::Segments)),
            sites: Table::new(of(SectionKind::Sites)),
            touches: Table::new(of(SectionKind::Touches)),
            times: Table::new(of(SectionKind::Times)),
            loops: Table::new(of(SectionKind::Loops)),
            handles: Table::new(of(SectionKind::Handles)),
            timeline: Timeline::new(of(SectionKind::Timeline), geometry.components),
            ring: Ring::new(of(SectionKind::Ring)),
        };
        writer.publish_state();
        writer.write_header(identity, geometry, &placement);
        Ok(writer)
    }

    fn write_header(&mut self, identity: &Identity, geometry: &Geometry, placement: &Placement) {
        let present =
            || SectionKind::ALL.into_iter().filter(|kind| placement.section(*kind).slots > 0);
        let start = HeaderStart {
            magic: MAGIC,
            version: VERSION,
            endian: ENDIAN_MARK,
            file_size: self.region.length() as u64,
            header_size: HEADER_SIZE as u32,
            sections: present().count() as u32,
            bin_shift: BIN_SHIFT,
            bitmap_bytes: geometry.bitmap_bytes,
            ..HeaderStart::default()
        };
        // Everything except the magic number, which is part of the checksum although it is written
        // last.
        self.region.copy(8, &start.to_bytes()[8..]);
        let mut at = SECTION_TABLE;
        for kind in present() {
            self.region.copy(at, &placement.section(kind).entry(kind).to_bytes());
            at += SectionEntry::SIZE;
        }
        self.region.copy(IDENTITY, &identity.to_bytes());
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&MAGIC);
        hasher.update(self.region.bytes(8, HEADER_CHECKSUM - 8));
        self.region.copy(HEADER_CHECKSUM, &hasher.finalize().to_le_bytes());
        self.region.store(0, u64::from_le_bytes(MAGIC));
    }

    /// Bits of [`crate::layout::flags`] to set and to clear.
    pub fn set_flags(&mut self, set: u64, clear: u64) {
        let flags = (self.state.flags & !clear) | set;
        if flags != self.state.flags {
            self.state.flags = flags;
            self.publish_state();
        }
    }

    /// Bits of [`crate::layout::flags`] that are set.
    #[must_use]
    pub fn flags(&self) -> u64 {
        self.state.flags
    }

    /// Sets the MPI library in use, by its file name.
    pub fn set_mpi_library(&mut self, name: &str) {
        self.state.mpi_library = Text::new(name);
        self.publish_state();
    }

    /// Records the normal end of the process: sets [`crate::layout::flags::CLOSED`].
    pub fn close(&mut self, time: u64) {
        self.now = self.now.max(time);
        self.state.closed_time = time.max(1);
        self.state.flags |= crate::layout::flags::CLOSED;
        self.publish_state();
    }

    /// Writes a new or changed component.
    pub fn set_component(&mut self, index: u16, row: &ComponentRow) {
        let written = write_row(
            &mut self.components,
            &mut self.region,
            &mut self.sequence,
            u32::from(index),
            &row.to_bytes(),
        );
        self.count(written, |state| &mut state.components);
    }

    /// Writes a new or changed loaded object.
    pub fn set_object(&mut self, index: u32, row: &ObjectRow) {
        let bytes = row.to_bytes();
        let written =
            write_row(&mut self.objects, &mut self.region, &mut self.sequence, index, &bytes);
        self.count(written, |state| &mut state.objects);
    }

    /// Sets flags of an object that has a row.
    pub fn flag_object(&mut self, index: u32, flags: u32) {
        let old = ObjectRow::from_bytes(self.objects.payload(&self.region, index));
        if let Some(old) = old.filter(|old| old.flags | flags != old.flags) {
            self.set_object(index, &ObjectRow { flags: old.flags | flags, ..old });
        }
    }

    /// Adds a note once: for equal code and text, only the count increases. Returns the row, or
    /// `None` if there is no room.
    pub fn add_note(&mut self, time: u64, code: u32, text: &str) -> Option<u32> {
        self.now = self.now.max(time);
        let text = Text::new(text);
        let mut index = 0;
        let mut row = NoteRow { time, code, count: 0, text };
        while let Some(old) = NoteRow::from_bytes(self.notes.payload(&self.region, index)) {
            if old.code == code && old.text == text {
                row = old;
                break;
            }
            index += 1;
        }
        row.count = row.count.saturating_add(1);
        let first = row.count == 1;
        let bytes = row.to_bytes();
        let written =
            write_row(&mut self.notes, &mut self.region, &mut self.sequence, index, &bytes);
        self.count(written, |state| &mut state.notes);
        if written == Written::NoRoom {
            return None;
        }
        if first {
            self.push(record::NOTE, 0, index, time);
            self.ring.commit(&mut self.region);
        }
        Some(index)
    }

    /// Returns the number that stands for a name in `*_function` fields: its index plus 1. Returns
    /// 0 for the empty name, and if there is no room.
    pub fn intern(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let name: Text<48> = Text::new(name);
        let mut index = 0;
        while let Some(old) = NameRow::from_bytes(self.names.payload(&self.region, index)) {
            if old.name == name {
                return index + 1;
            }
            index += 1;
        }
        let bytes = NameRow { name }.to_bytes();
        let written =
            write_row(&mut self.names, &mut self.region, &mut self.sequence, index, &bytes);
        self.count(written, |state| &mut state.names);
        if written == Written::NoRoom { 0 } else { index + 1 }
    }

    /// Writes a new or changed phase, and enters its entries at this time.
    pub fn set_phase(&mut self, time: u64, index: u32, row: &PhaseRow) {
        let before = PhaseRow::from_bytes(self.phases.payload(&self.region, index));
        let mut row = PhaseRow { moments: before.unwrap_or_default().moments, ..*row };
        row.moments.enter(time, row.entries);
        let bytes = row.to_bytes();
        let written =
            write_row(&mut self.phases, &mut self.region, &mut self.sequence, index, &bytes);
        self.count(written, |state| &mut state.phases);
    }

    /// Writes the highest memory of each component during a phase, by component number.
    pub fn set_phase_peaks(&mut self, index: u32, owned: &[u64], resident: &[u64]) {
        let columns = owned.len().min(resident.len()).min(self.components.capacity() as usize);
        let length = columns * PhasePeak::SIZE;
        let (region, sequence) = (&mut self.region, &mut self.sequence);
        let written = self.peaks.write(region, sequence, index, length, |filling| {
            for (owned, resident) in owned.iter().zip(resident).take(columns) {
                filling.put(&PhasePeak { owned: *owned, resident: *resident }.to_bytes());
            }
        });
        self.count(written, |state| &mut state.phase_peaks);
    }

    /// Records the begin or end of a phase, in the history only; see [`Self::set_phase`] for the
    /// row.
    pub fn phase_edge(&mut self, time: u64, index: u32, begins: bool) {
        self.now = self.now.max(time);
        let flags = if begins { edge::BEGIN } else { edge::END };
        self.push(record::PHASE, flags, index, time);
        self.ring.commit(&mut self.region);
    }

    /// Sets the bytes by which the private pages of the process exceed its share of them, for the
    /// next full sample: a lower bound if all processes that share them are recorded, and an upper
    /// bound.
    pub fn beyond_share(&mut self, least: u64, most: u64) {
        self.timeline.beyond(least, most);
    }

    /// Writes a sample with the memory of components: all components that have any if
    /// [`sample::FULL`] is set, otherwise only the sampled ones.
    pub fn sample(&mut self, head: &SampleHead, rows: &[ComponentSample]) {
        self.now = self.now.max(head.time);
        let named = |row: &&ComponentSample| !row.is_zero() || head.flags & sample::FULL == 0;
        let follow: usize =
            rows.iter().filter(named).map(|row| 1 + usize::from(row.has_extra())).sum();
        let begun = self.ring.begun();
        let mut line = Record {
            kind: record::SAMPLE,
            flags: head.flags,
            component: 0,
            argument: u32::try_from(follow).unwrap_or(u32::MAX),
            time: head.time,
            a: head.kernel_resident,
            b: head.walked,
        };
        self.ring.push(&mut self.region, &line);
        (line.flags, line.argument) = (0, 0);
        for row in rows.iter().filter(named) {
            line.component = row.component;
            (line.kind, line.a, line.b) = (record::COMPONENT, row.owned, row.resident);
            self.ring.push(&mut self.region, &line);
            if row.has_extra() {
                (line.kind, line.a, line.b) = (record::EXTRA, row.shared, row.swapped);
                self.ring.push(&mut self.region, &line);
            }
        }
        self.ring.commit(&mut self.region);
        self.timeline.add(&mut self.region, &mut self.sequence, head, rows);
        if self.ring.begun() != begun {
            self.publish_state();
        }
    }

    /// Writes a sample of the kernel's total alone; `walked` is that of the last full sample.
    pub fn quick(&mut self, head: &SampleHead) {
        let flags = (head.flags & !sample::FULL) | sample::QUICK;
        self.sample(&SampleHead { flags, ..*head }, &[]);
    }

    /// Records what components own at a time between samples, in bytes, by component number. Only
    /// the timeline stores it.
    pub fn owned(&mut self, time: u64, owned: &[u64]) {
        self.now = self.now.max(time);
        self.timeline.own(&mut self.region, &mut self.sequence, time, owned);
    }

    /// Writes the present values and the peaks; `rows` is by component number.
    pub fn publish_summary(&mut self, head: &SummaryHead, rows: &[SummaryRow]) {
        self.publish_summary_with(head, rows, None);
    }

    /// Does what [`Self::publish_summary`] does, with the free pages of the heaps and of their arenas.
    /// They are left out where components leave no room.
    pub fn publish_summary_with(
        &mut self,
        head: &SummaryHead,
        rows: &[SummaryRow],
        slack: Option<(&SlackRow, &[ArenaRow])>,
    ) {
        self.now = self.now.max(head.time);
        let capacity = self.components.capacity() as usize;
        let rows = &rows[..rows.len().min(capacity)];
        let slack = slack.filter(|_| rows.len() < capacity);
        let slack = slack.map(|(slack, arenas)| {
            let arenas = if rows.len() + arenas.len() < capacity { arenas } else { &[] };
            (SlackRow { rows: arenas.len() as u32, ..*slack }, arenas)
        });
        let more = slack.map_or(0, |(_, arenas)| arenas.len() * ArenaRow::SIZE + SlackRow::SIZE);
        let length = SummaryHead::SIZE + rows.len() * SummaryRow::SIZE + more;
        let (region, sequence) = (&mut self.region, &mut self.sequence);
        self.summary.write(region, sequence, 0, length, |filling| {
            filling.put(&head.to_bytes());
            for row in rows {
                filling.put(&row.to_bytes());
            }
            if let Some((slack, arenas)) = slack {
                for arena in arenas {
                    filling.put(&arena.to_bytes());
                }
                filling.put(&slack.to_bytes());
            }
        });
    }

    /// Writes a new or changed shared segment. `bitmap_length` of the row is set according to the
    /// available room.
    pub fn set_segment(&mut self, index: u32, row: &SegmentRow, bitmap: &[u8]) {
        let room = self.segments.room().saturating_sub(SegmentRow::SIZE);
        let bitmap = &bitmap[..bitmap.len().min(room)];
        let row = SegmentRow { bitmap_length: bitmap.len() as u32, ..*row };
        let length = SegmentRow::SIZE + bitmap.len();
        let (region, sequence) = (&mut self.region, &mut self.sequence);
        let written = self.segments.write(region, sequence, index, length, |filling| {
            filling.put(&row.to_bytes());
            filling.put(bitmap);
        });
        self.count(written, |state| &mut state.segments);
    }

    /// Writes a new or changed call stack, and enters its live bytes at this time.
    pub fn set_site(&mut self, time: u64, index: u32, row: &SiteRow) {
        let before = SiteRow::from_bytes(self.sites.payload(&self.region, index));
        let mut row = SiteRow { moments: before.unwrap_or_default().moments, ..*row };
        row.moments.enter(time, row.live >> 10);
        let bytes = row.to_bytes();
        let written =
            write_row(&mut self.sites, &mut self.region, &mut self.sequence, index, &bytes);
        self.count(written, |state| &mut state.sites);
    }

    /// Writes a new or changed cell of the matrix of owners and touchers. If there is no room, it
    /// is not written and does not count as lost: the profiler adds up the rows that do not fit.
    pub fn set_touch(&mut self, index: u32, row: &TouchRow) {
        let bytes = row.to_bytes();
        write_row(&mut self.touches, &mut self.region, &mut self.sequence, index, &bytes);
    }

    /// Writes the new or changed times of a region; row 0 is the part of the run in which MPI was
    /// ready, and a phase has the row after its number. Nothing is written if the file has no such
    /// section.
    pub fn set_time(&mut self, index: u32, row: &TimeRow) {
        let bytes = row.to_bytes();
        write_row(&mut self.times, &mut self.region, &mut self.sequence, index, &bytes);
    }

    /// Writes a new or changed call site of MPI, and enters its calls at this time. Nothing is
    /// written if the file has no such section.
    pub fn set_loop(&mut self, time: u64, index: u32, row: &LoopRow) {
        let before = LoopRow::from_bytes(self.loops.payload(&self.region, index));
        // After the loops were forgotten, the row may be that of another call site.
        let is_same = |before: &LoopRow| {
            (before.object, before.offset) == (row.object, row.offset) && before.calls <= row.calls
        };
        let before = before.filter(is_same).unwrap_or_default();
        let mut row = LoopRow { moments: before.moments, ..*row };
        row.moments.enter(time, row.calls);
        let bytes = row.to_bytes();
        write_row(&mut self.loops, &mut self.region, &mut self.sequence, index, &bytes);
    }

    /// Writes a new or changed place that makes MPI objects. Nothing is written if the file has no
    /// such section.
    pub fn set_handle(&mut self, index: u32, row: &HandleRow) {
        let bytes = row.to_bytes();
        write_row(&mut self.handles, &mut self.region, &mut self.sequence, index, &bytes);
    }

    fn push(&mut self, kind: u8, flags: u8, argument: u32, time: u64) {
        let line = Record { kind, flags, argument, time, ..Record::default() };
        self.ring.push(&mut self.region, &line);
    }

    fn count(&mut self, written: Written, counter: impl Fn(&mut StateRow) -> &mut u32) {
        match written {
            Written::Again => return,
            Written::New => *counter(&mut self.state) += 1,
            Written::NoRoom => self.state.rows_lost = self.state.rows_lost.saturating_add(1),
        }
        self.publish_state();
    }

    fn publish_state(&mut self) {
        self.state.time = self.now;
        self.state.blocks = self.ring.begun();
        let bytes = self.state.to_bytes();
        let (region, sequence) = (&mut self.region, &mut self.sequence);
        self.state_table.write(region, sequence, 0, bytes.len(), |filling| filling.put(&bytes));
    }
}

fn write_row<const N: usize>(
    table: &mut Table<N>,
    region: &mut Region<'_>,
    sequence: &mut Sequence,
    index: u32,
    bytes: &[u8],
) -> Written {
    table.write(region, sequence, index, bytes.len(), |filling: &mut Filling<'_, '_>| {
        filling.put(bytes);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::flags;

    #[test]
    fn memory_that_cannot_hold_a_trace_is_refused() {
        let geometry = Geometry::for_file(Geometry::SMALLEST_FILE).unwrap();
        let identity = Identity::default();
        let mut memory = Buffer::new(Geometry::SMALLEST_FILE + 8);
        let bytes = memory.bytes_mut();
        let small = Writer::create(&mut bytes[..8192], &identity, &geometry).err();
        assert_eq!(small, Some(CreateError::TooSmall(8192)));
        let askew = &mut bytes[1..=Geometry::SMALLEST_FILE];
        assert_eq!(
            Writer::create(askew, &identity, &geometry).err(),
            Some(CreateError::Misaligned)
        );
        assert!(Writer::create(bytes, &identity, &geometry).is_ok());
        let again = Writer::create(bytes, &identity, &geometry).err();
        assert_eq!(again, Some(CreateError::NotEmpty));
    }

    #[test]
    fn a_writer_takes_any_time_any_row_and_any_number() {
        let geometry = Geometry::for_file(Geometry::SMALLEST_FILE).unwrap();
        let mut memory = Buffer::new(Geometry::SMALLEST_FILE);
        let mut writer =
            Writer::create(memory.bytes_mut(), &Identity::default(), &geometry).unwrap();
        for time in [0, 1, 1 << 24, 1 << 40, 5, u64::MAX, u64::MAX - 1] {
            let head =
                SampleHead { time, flags: sample::FULL, kernel_resident: time, walked: time };
            let row = |component| ComponentSample {
                component,
                owned: time,
                resident: u64::MAX,
                shared: 1,
                swapped: time,
                allocated: u64::MAX - time,
                owned_peak: u64::MAX,
                image: time,
            };
            writer.sample(&head, &[row(0), row(255), row(256), row(u16::MAX)]);
            writer.quick(&head);
        }
        for index in [0, 1, 600, u32::MAX] {
            writer.set_object(index, &ObjectRow::default());
            writer.set_phase_peaks(index, &[u64::MAX; 300], &[1; 400]);
            writer.set_segment(index, &SegmentRow::default(), &[0xFF; 5000]);
        }
        (0..100).for_each(|code| {
            writer.add_note(code, u32::try_from(code).unwrap(), "full");
            writer.intern(&format!("MPI_Number_{code}"));
        });
        writer.publish_summary(&SummaryHead::default(), &[SummaryRow::default(); 300]);
        assert_eq!(writer.intern("MPI_Number_3"), 4);
        assert_eq!(writer.add_note(9, 0, "full"), Some(0));
        assert_eq!(writer.state.notes, 32);
        assert!(writer.state.rows_lost > 0);
        writer.close(7);
        assert_eq!(writer.flags(), flags::CLOSED);
    }
}
