//! Sizes and positions of the sections.

use super::rows::{
    BLOCK_SIZE, BinHead, COMPONENTS_LIMIT, Cell, ComponentRow, HEADER_SIZE, HandleRow, LoopRow,
    NameRow, NoteRow, ObjectRow, PhasePeak, PhaseRow, SECTIONS_LIMIT, SectionEntry, SegmentRow,
    SiteRow, SlotHead, StateRow, SummaryHead, SummaryRow, TimeRow, TouchRow,
};

/// Content of a section.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
#[expect(missing_docs, reason = "the rows say it")]
pub enum SectionKind {
    State = 1,
    Components = 2,
    Objects = 3,
    Notes = 4,
    Names = 5,
    Summary = 6,
    Phases = 7,
    PhasePeaks = 8,
    Timeline = 9,
    Segments = 10,
    Sites = 11,
    Ring = 12,
    Touches = 13,
    Times = 14,
    Loops = 15,
    Handles = 16,
}

impl SectionKind {
    /// All kinds, in the order of the file.
    pub const ALL: [SectionKind; 16] = [
        SectionKind::State,
        SectionKind::Components,
        SectionKind::Objects,
        SectionKind::Notes,
        SectionKind::Names,
        SectionKind::Summary,
        SectionKind::Phases,
        SectionKind::PhasePeaks,
        SectionKind::Timeline,
        SectionKind::Segments,
        SectionKind::Sites,
        SectionKind::Touches,
        SectionKind::Times,
        SectionKind::Loops,
        SectionKind::Handles,
        SectionKind::Ring,
    ];

    /// Returns the name for users.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            SectionKind::State => "state",
            SectionKind::Components => "components",
            SectionKind::Objects => "objects",
            SectionKind::Notes => "notes",
            SectionKind::Names => "names",
            SectionKind::Summary => "summary",
            SectionKind::Phases => "phases",
            SectionKind::PhasePeaks => "phase peaks",
            SectionKind::Timeline => "timeline",
            SectionKind::Segments => "segments",
            SectionKind::Sites => "sites",
            SectionKind::Ring => "ring",
            SectionKind::Touches => "touches",
            SectionKind::Times => "times",
            SectionKind::Loops => "loops",
            SectionKind::Handles => "handles",
        }
    }

    /// Returns the kind with this number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<SectionKind> {
        Self::ALL.into_iter().find(|kind| *kind as u32 == number)
    }
}

/// Number of kinds of sections, with one more for 0, which is none.
pub(crate) const KINDS: usize = SectionKind::ALL.len() + 1;
const _: () = assert!(SectionKind::ALL.len() <= SECTIONS_LIMIT);

/// Number of rows of each table. The ring gets the rest of the file.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// At most [`COMPONENTS_LIMIT`].
    pub components: u32,
    /// Number of loaded objects.
    pub objects: u32,
    /// Number of notes.
    pub notes: u32,
    /// Number of names.
    pub names: u32,
    /// Number of phases, each with its peaks.
    pub phases: u32,
    /// Bins of the timeline; even.
    pub bins: u32,
    /// Shared segments.
    pub segments: u32,
    /// Bytes of the bitmap of each; a multiple of eight.
    pub bitmap_bytes: u32,
    /// Number of call stacks.
    pub sites: u32,
    /// Number of pairs of owner and toucher.
    pub touches: u32,
    /// Number of regions whose times are measured; 0 for no such section.
    pub times: u32,
    /// Number of call sites of MPI; 0 for no such section.
    pub loops: u32,
    /// Number of places that make MPI objects; 0 for no such section.
    pub handles: u32,
}

/// Slots of the timeline other than its bins: two for the bin being filled, one for folding.
pub(crate) const EXTRA_BINS: u32 = 3;
/// Minimum number of blocks of a useful ring.
const FEWEST_BLOCKS: usize = 4;
/// Maximum number of rows of a table: writers keep two bytes for each in private memory.
pub(crate) const ROWS_LIMIT: usize = 512;

impl Geometry {
    /// Default file size.
    pub const DEFAULT_FILE: usize = 4 << 20;
    /// The smallest file with room for all components.
    pub const SMALLEST_FILE: usize = 512 << 10;

    /// Returns the geometry for a file of that size; nothing if it is smaller than
    /// [`Self::SMALLEST_FILE`].
    #[must_use]
    pub const fn for_file(bytes: usize) -> Option<Geometry> {
        let components = COMPONENTS_LIMIT as u32;
        if bytes >= Self::DEFAULT_FILE {
            Some(Geometry {
                components,
                objects: 512,
                notes: 64,
                names: 128,
                phases: 64,
                bins: 248,
                segments: 256,
                bitmap_bytes: 1024,
                sites: 512,
                touches: 512,
                times: 0,
                loops: 0,
                handles: 0,
            })
        } else if bytes >= 1 << 20 {
            Some(Geometry {
                components,
                objects: 256,
                notes: 64,
                names: 64,
                phases: 32,
                bins: 34,
                segments: 64,
                bitmap_bytes: 1024,
                sites: 128,
                touches: 128,
                times: 0,
                loops: 0,
                handles: 0,
            })
        } else if bytes >= Self::SMALLEST_FILE {
            Some(Geometry {
                components,
                objects: 192,
                notes: 32,
                names: 32,
                phases: 16,
                bins: 8,
                segments: 32,
                bitmap_bytes: 512,
                sites: 32,
                touches: 64,
                times: 0,
                loops: 0,
                handles: 0,
            })
        } else {
            None
        }
    }

    /// Returns the places of the sections in a file of that size; nothing if there is no room, or a
    /// table is larger than there can be.
    #[must_use]
    pub fn place(&self, file_size: usize) -> Option<Placement> {
        let small = |rows: u32| rows >= 1 && rows as usize <= ROWS_LIMIT;
        let tables = [
            self.objects,
            self.notes,
            self.names,
            self.phases,
            self.segments,
            self.sites,
            self.touches,
        ];
        if !tables.into_iter().all(small)
            || self.times as usize > ROWS_LIMIT
            || self.loops as usize > ROWS_LIMIT
            || self.handles as usize > ROWS_LIMIT
            || self.components < 1
            || self.components as usize > COMPONENTS_LIMIT
            || self.bins < 2
            || !self.bins.is_multiple_of(2)
            || self.bins > 1 << 16
            || !self.bitmap_bytes.is_multiple_of(8)
            || self.bitmap_bytes > 1 << 16
        {
            return None;
        }
        let columns = self.components as usize;
        let mut placement = Placement { sections: [Section::EMPTY; KINDS] };
        let mut offset = HEADER_SIZE;
        for kind in SectionKind::ALL {
            let (payload, capacity, spare) = match kind {
                SectionKind::State => (StateRow::SIZE, 1, 1),
                SectionKind::Components => (ComponentRow::SIZE, self.components, 1),
                SectionKind::Objects => (ObjectRow::SIZE, self.objects, 1),
                SectionKind::Notes => (NoteRow::SIZE, self.notes, 1),
                SectionKind::Names => (NameRow::SIZE, self.names, 1),
                SectionKind::Summary => (SummaryHead::SIZE + columns * SummaryRow::SIZE, 1, 1),
                SectionKind::Phases => (PhaseRow::SIZE, self.phases, 1),
                SectionKind::PhasePeaks => (columns * PhasePeak::SIZE, self.phases, 1),
                SectionKind::Timeline => {
                    (BinHead::SIZE + columns * Cell::SIZE, self.bins, EXTRA_BINS)
                }
                SectionKind::Segments => {
                    (SegmentRow::SIZE + self.bitmap_bytes as usize, self.segments, 1)
                }
                SectionKind::Sites => (SiteRow::SIZE, self.sites, 1),
                SectionKind::Touches => (TouchRow::SIZE, self.touches, 1),
                SectionKind::Times if self.times == 0 => continue,
                SectionKind::Times => (TimeRow::SIZE, self.times, 1),
                SectionKind::Loops if self.loops == 0 => continue,
                SectionKind::Loops => (LoopRow::SIZE, self.loops, 1),
                SectionKind::Handles if self.handles == 0 => continue,
                SectionKind::Handles => (HandleRow::SIZE, self.handles, 1),
                SectionKind::Ring => (0, 0, 0),
            };
            let section = if kind == SectionKind::Ring {
                offset = offset.next_multiple_of(BLOCK_SIZE);
                let blocks = file_size.checked_sub(offset)? / BLOCK_SIZE;
                if blocks < FEWEST_BLOCKS {
                    return None;
                }
                let blocks = u32::try_from(blocks).ok()?;
                Section { offset, slot_size: BLOCK_SIZE, slots: blocks, capacity: blocks }
            } else {
                let slot_size = SlotHead::SIZE + payload;
                Section { offset, slot_size, slots: capacity + spare, capacity }
            };
            offset += section.length();
            placement.sections[kind as usize] = section;
        }
        Some(placement)
    }
}

/// Position of a section.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Offset from the beginning of the file.
    pub offset: usize,
    /// Size of each slot in bytes, with its head.
    pub slot_size: usize,
    /// Number of slots.
    pub slots: u32,
    /// Maximum number of different rows.
    pub capacity: u32,
}

impl Section {
    pub(crate) const EMPTY: Section = Section { offset: 0, slot_size: 0, slots: 0, capacity: 0 };

    /// Returns the length in bytes.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.slot_size * self.slots as usize
    }

    /// Returns the offset of a slot in the file.
    #[must_use]
    pub const fn slot(&self, slot: u32) -> usize {
        self.offset + slot as usize * self.slot_size
    }

    /// Returns the entry in the header.
    #[must_use]
    pub fn entry(&self, kind: SectionKind) -> SectionEntry {
        SectionEntry {
            kind: kind as u32,
            slot_size: u32::try_from(self.slot_size).unwrap_or(u32::MAX),
            slots: self.slots,
            capacity: self.capacity,
            offset: self.offset as u64,
            length: self.length() as u64,
        }
    }
}

/// Positions of all sections in a file.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// By the number of the kind.
    sections: [Section; KINDS],
}

impl Placement {
    /// Returns the section of a kind.
    #[must_use]
    pub const fn section(&self, kind: SectionKind) -> Section {
        self.sections[kind as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_of_every_size_fit_and_do_not_overlap() {
        for bytes in [Geometry::SMALLEST_FILE, 1 << 20, 3 << 20, Geometry::DEFAULT_FILE, 64 << 20] {
            let placement = Geometry::for_file(bytes).unwrap().place(bytes).unwrap();
            let mut end = HEADER_SIZE;
            let asked = [SectionKind::Times, SectionKind::Loops, SectionKind::Handles];
            for kind in SectionKind::ALL.into_iter().filter(|kind| !asked.contains(kind)) {
                let section = placement.section(kind);
                assert!(
                    section.offset >= end && section.offset.is_multiple_of(8),
                    "{kind:?} of {bytes}"
                );
                end = section.offset + section.length();
            }
            assert!(end <= bytes);
            let ring = placement.section(SectionKind::Ring).length();
            assert!(ring * 5 >= bytes, "the ring has {ring} of {bytes}");
        }
        assert!(Geometry::for_file(Geometry::SMALLEST_FILE - 1).is_none());
    }

    #[test]
    fn times_have_a_section_only_where_they_are_taken() {
        let bytes = Geometry::DEFAULT_FILE;
        let without = Geometry::for_file(bytes).unwrap();
        assert_eq!(without.place(bytes).unwrap().section(SectionKind::Times), Section::EMPTY);
        let placement = Geometry { times: 65, ..without }.place(bytes).unwrap();
        let section = placement.section(SectionKind::Times);
        assert_eq!((section.capacity, section.slots), (65, 66));
        assert!(section.offset + section.length() <= placement.section(SectionKind::Ring).offset);
        assert_eq!(placement.section(SectionKind::Loops), Section::EMPTY);
        let placement = Geometry { loops: 256, ..without }.place(bytes).unwrap();
        assert_eq!(placement.section(SectionKind::Loops).slots, 257);
        assert_eq!(placement.section(SectionKind::Handles), Section::EMPTY);
        let placement = Geometry { times: 65, loops: 256, handles: 256, ..without }.place(bytes);
        assert_eq!(placement.unwrap().section(SectionKind::Handles).slots, 257);
    }
}
