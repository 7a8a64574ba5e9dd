//! Files and memory that this process shares with others, so that a node counts each page once.

use memprof_trace::Text as Field;
use memprof_trace::layout::{SegmentRow, segment};
use memprof_trace::write::Writer;

use crate::base::component::Component;
use crate::base::options::Text;

/// Number of segments for which a trace has rows.
pub const SEGMENTS: usize = 256;
/// Number of rows reserved for memory; the others are for code and constants of files.
const OF_MEMORY: usize = 64;
/// Size of a bitmap in bytes.
const BITMAP: usize = 1024;

#[derive(Clone, Copy)]
struct Segment {
    device: u64,
    inode: u64,
    /// End of the highest part seen mapped, as an offset from the beginning.
    size: u64,
    component: Component,
    hugetlb: bool,
    shift: u32,
    present: u64,
    /// Same as `present`, but a page counts as often as it is mapped, as it does for its component.
    counted: u64,
    path: Text<96>,
    bitmap: [u8; BITMAP],
    /// Granules present in any sample.
    ever: [u8; BITMAP],
    /// Highest difference between `counted` and `present`.
    doubled: u64,
    /// True if the segment had another owner earlier.
    moved: bool,
    /// True if the row was another file's earlier.
    reused: bool,
    /// True if the current sample has seen the segment.
    fresh: bool,
    /// True if the previous sample did not see the segment.
    gone: bool,
    /// Hash of the last written value.
    written: u64,
}

const EMPTY: Segment = Segment {
    device: 0,
    inode: 0,
    size: 0,
    component: Component::UNATTRIBUTED,
    hugetlb: false,
    shift: 0,
    present: 0,
    counted: 0,
    path: Text::empty(),
    bitmap: [0; BITMAP],
    ever: [0; BITMAP],
    doubled: 0,
    moved: false,
    reused: false,
    fresh: false,
    gone: false,
    written: 0,
};

/// One row for each file or memory object. When it is no longer mapped, its row stays as last seen
/// until another needs the room.
pub struct Segments {
    all: [Segment; SEGMENTS],
    /// Device and inode of each segment.
    keys: [(u64, u64); SEGMENTS],
    count: usize,
    /// Index of the row looked up last.
    last: usize,
    /// Mappings in this sample without room for their files.
    refused: u64,
}

impl Segments {
    pub const fn new() -> Segments {
        Segments { all: [EMPTY; SEGMENTS], keys: [(0, 0); SEGMENTS], count: 0, last: 0, refused: 0 }
    }

    /// Returns the number of mappings in this sample that count once for each process.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Begins a sample.
    pub fn begin(&mut self) {
        self.refused = 0;
        for segment in &mut self.all[..self.count] {
            segment.gone = !segment.fresh;
            segment.fresh = false;
        }
    }

    /// Begins another walk for the same sample.
    pub fn begin_again(&mut self) {
        self.refused = 0;
        self.all[..self.count].iter_mut().for_each(|segment| segment.fresh = false);
    }

    /// Returns true if a file has a row.
    pub fn knows(&self, key: (u64, u64)) -> bool {
        self.place(key).is_some()
    }

    /// Returns the row of a file, if it has one. Mappings of a file are adjacent.
    fn place(&self, key: (u64, u64)) -> Option<usize> {
        let keys = &self.keys[..self.count];
        let is_last = keys.get(self.last) == Some(&key);
        if is_last { Some(self.last) } else { keys.iter().position(|known| *known == key) }
    }

    /// Returns the row of a file that is mapped up to `end`; `None` if there are too many.
    pub fn find(
        &mut self,
        (device, inode): (u64, u64),
        end: u64,
        path: &[u8],
        memory: bool,
    ) -> Option<usize> {
        let key = (device, inode);
        let known = self.place(key);
        let limit = if memory { SEGMENTS } else { SEGMENTS - OF_MEMORY };
        let index = match known {
            Some(index) => index,
            None => {
                let free = (self.count < limit).then_some(self.count);
                let Some(index) = free.or_else(|| self.unused()) else {
                    self.refused += 1;
                    return None;
                };
                let shift = crate::base::kernel::page().trailing_zeros();
                let path = Text::cut(path);
                // The last written value is that of another file.
                let reused = index < self.count;
                self.all[index] = Segment { device, inode, shift, path, reused, ..EMPTY };
                self.keys[index] = key;
                self.count = self.count.max(index + 1);
                index
            }
        };
        self.last = index;
        let segment = &mut self.all[index];
        if !segment.fresh {
            segment.fresh = true;
            (segment.present, segment.counted) = (0, 0);
            segment.bitmap.fill(0);
        }
        segment.size = segment.size.max(end);
        while segment.size > ((BITMAP * 8) as u64) << segment.shift {
            segment.coarsen();
        }
        Some(index)
    }

    /// Returns the row of a segment that is no longer mapped, if there is one.
    fn unused(&self) -> Option<usize> {
        self.all[..self.count].iter().position(|segment| segment.gone && !segment.fresh)
    }

    /// Sets the owner of a segment.
    pub fn owner(&mut self, index: usize, component: Component, hugetlb: bool) {
        let segment = &mut self.all[index];
        segment.moved |= segment.written != 0 && segment.component != component;
        segment.component = component;
        segment.hugetlb |= hugetlb;
    }

    /// Adds present pages by their offset in the file.
    pub fn present(&mut self, index: usize, start: u64, end: u64) {
        let segment = &mut self.all[index];
        if start >= end {
            return;
        }
        segment.present += end - start;
        segment.counted += end - start;
        let first = (start >> segment.shift) as usize;
        let last = ((end - 1) >> segment.shift) as usize;
        for granule in first..=last.min(BITMAP * 8 - 1) {
            segment.bitmap[granule / 8] |= 1 << (granule % 8);
        }
    }

    /// Writes the changes.
    pub fn publish(&mut self, writer: &mut Writer<'static>, time: u64) {
        let page = crate::base::kernel::page();
        for (index, segment) in self.all[..self.count].iter_mut().enumerate() {
            let granules = segment.size.div_ceil(1 << segment.shift) as usize;
            let used = granules.div_ceil(8).min(BITMAP);
            if 1 << segment.shift == page {
                // Pages mapped twice count once.
                let bits: u32 = segment.bitmap[..used].iter().map(|byte| byte.count_ones()).sum();
                segment.present = u64::from(bits) * page as u64;
            }
            segment.doubled = segment.doubled.max(segment.counted.saturating_sub(segment.present));
            let dropped = segment.dropped(used);
            let number = segment.number(used);
            if number == segment.written {
                continue;
            }
            segment.written = number;
            let mut flags = 0;
            flags |= if segment.hugetlb { segment::HUGETLB } else { 0 };
            flags |= if segment.fresh { 0 } else { segment::GONE };
            flags |= if segment.moved { segment::MOVED } else { 0 };
            flags |= if segment.reused { segment::REUSED } else { 0 };
            let row = SegmentRow {
                device: segment.device,
                inode: segment.inode,
                size: segment.size,
                component: u32::from(segment.component.0),
                flags,
                granule_shift: segment.shift,
                present: segment.present,
                counted: segment.counted,
                time,
                path: Field::path(segment.path.as_bytes()),
                dropped,
                doubled: segment.doubled,
                ..SegmentRow::default()
            };
            writer.set_segment(index as u32, &row, &segment.bitmap[..used]);
        }
    }

    /// Forgets all rows, in a new process that has written nothing.
    pub fn forget(&mut self) {
        (self.count, self.last) = (0, 0);
    }
}

impl Segment {
    /// Doubles the granule size.
    fn coarsen(&mut self) {
        self.shift += 1;
        coarsen(&mut self.bitmap);
        coarsen(&mut self.ever);
    }

    /// Returns the bytes that were present in an earlier sample and are not now.
    fn dropped(&mut self, used: usize) -> u64 {
        let mut granules = 0;
        for (ever, now) in self.ever[..used].iter_mut().zip(&self.bitmap[..used]) {
            *ever |= now;
            granules += u64::from((*ever & !now).count_ones());
        }
        granules << self.shift
    }

    /// Returns a hash of everything that is written.
    fn number(&self, used: usize) -> u64 {
        let mut number = 0xcbf2_9ce4_8422_2325_u64;
        let mut take = |value: u64| {
            number = (number ^ value).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        };
        take(self.device);
        take(self.inode);
        take(self.present);
        take(self.counted);
        take(self.size);
        take(
            u64::from(self.component.0) << 8 | u64::from(self.fresh) << 1 | u64::from(self.hugetlb),
        );
        take(u64::from(self.shift));
        for chunk in self.bitmap[..used].chunks(8) {
            take(chunk.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)));
        }
        number.max(1)
    }
}

/// Merges each pair of granules into one.
fn coarsen(bitmap: &mut [u8; BITMAP]) {
    for index in 0..BITMAP * 4 {
        let pair = bitmap[index / 4] >> (index % 4 * 2) & 3;
        let bit = 1 << (index % 8);
        // The byte written is never ahead of the byte read.
        if pair == 0 {
            bitmap[index / 8] &= !bit;
        } else {
            bitmap[index / 8] |= bit;
        }
    }
    bitmap[BITMAP / 2..].fill(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(segment: &Segment) -> Vec<usize> {
        (0..BITMAP * 8).filter(|bit| segment.bitmap[bit / 8] >> (bit % 8) & 1 == 1).collect()
    }

    #[test]
    fn pages_are_kept_by_their_place_in_the_file() {
        let mut segments = Box::new(Segments::new());
        let page = crate::base::kernel::page() as u64;
        segments.begin();
        let index = segments.find((1, 2), 10 * page, b"/dev/shm/x", true).unwrap();
        segments.present(index, 3 * page, 5 * page);
        // The same file is mapped again, at a higher offset.
        assert_eq!(segments.find((1, 2), 20 * page, b"/dev/shm/x", true), Some(index));
        segments.present(index, 19 * page, 20 * page);
        assert_eq!(bits(&segments.all[index]), [3, 4, 19]);
        assert_eq!(segments.find((1, 3), page, b"/dev/shm/y", true), Some(1));
        segments.begin();
        assert_eq!(bits(&segments.all[index]), [3, 4, 19], "kept when it is gone");
        segments.find((1, 2), 10 * page, b"/dev/shm/x", true);
        assert_eq!(bits(&segments.all[index]), [0; 0]);
    }

    #[test]
    fn large_files_have_larger_granules_and_keep_what_was_seen() {
        let mut segments = Box::new(Segments::new());
        let page = crate::base::kernel::page() as u64;
        segments.begin();
        let index = segments.find((1, 2), 8192 * page, b"", true).unwrap();
        for at in [0, 1, 5, 1000, 1001, 8191] {
            segments.present(index, at * page, (at + 1) * page);
        }
        segments.find((1, 2), 4 * 8192 * page, b"", true);
        assert_eq!(bits(&segments.all[index]), [0, 1, 250, 2047]);
        assert_eq!(segments.all[index].present, 6 * page);
        segments.present(index, 4 * 8191 * page, 4 * 8192 * page);
        assert_eq!(bits(&segments.all[index]).last(), Some(&8191));
    }

    #[test]
    fn page_mapped_twice_is_one_and_counts_twice() {
        let mut segments = Box::new(Segments::new());
        let page = crate::base::kernel::page() as u64;
        segments.begin();
        for _ in 0..2 {
            let index = segments.find((1, 2), 10 * page, b"", true).unwrap();
            segments.present(index, 3 * page, 5 * page);
        }
        assert_eq!(bits(&segments.all[0]), [3, 4]);
        assert_eq!(segments.all[0].counted, 4 * page);
    }

    #[test]
    fn pages_that_are_gone_count_as_dropped() {
        let mut segments = Box::new(Segments::new());
        let page = crate::base::kernel::page() as u64;
        for (first, last, dropped) in [(0, 6, 0), (4, 8, 4), (0, 2, 6)] {
            segments.begin();
            let index = segments.find((1, 2), 10 * page, b"", true).unwrap();
            segments.present(index, first * page, last * page);
            assert_eq!(segments.all[index].dropped(2), dropped * page);
        }
    }

    #[test]
    fn rows_of_gone_mappings_are_reused_when_none_are_left() {
        let mut segments = Box::new(Segments::new());
        segments.begin();
        for inode in 0..SEGMENTS as u64 {
            let memory = inode >= (SEGMENTS - OF_MEMORY) as u64;
            assert!(segments.find((7, inode), 4096, b"", memory).is_some());
        }
        assert_eq!(segments.find((7, 9999), 4096, b"", true), None);
        segments.begin();
        for inode in (0..SEGMENTS as u64).filter(|inode| *inode != 5) {
            segments.find((7, inode), 4096, b"", true);
        }
        assert_eq!(segments.find((7, 9999), 4096, b"", true), None, "5 may come yet");
        segments.begin();
        assert_eq!(segments.find((7, 9999), 4096, b"", true), Some(5));
        assert_eq!(segments.find((7, 5), 4096, b"", true), None);
    }

    #[test]
    fn files_leave_room_for_memory() {
        let mut segments = Box::new(Segments::new());
        let found = |inode: u64, segments: &mut Segments| {
            segments.find((7, inode), 4096, b"", false).is_some()
        };
        assert_eq!((0..1000).filter(|inode| found(*inode, &mut segments)).count(), 192);
        assert!(segments.find((8, 1), 4096, b"", true).is_some());
    }
}
