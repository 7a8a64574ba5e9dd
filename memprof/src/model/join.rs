//! Pages that several processes of a node share, counted once.
//!
//! Each trace records which granules of which file (device, inode) the process had resident. The
//! union over the processes of a node is the memory of the node.

use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;

/// Upper bound of the granule size, as a power of two: 2^13 such granules are larger than any file.
const WIDEST_GRANULE: u32 = 50;

/// One file or segment as one process maps it.
#[derive(Clone, Debug)]
pub struct Shared {
    /// Device of the file.
    pub dev: u64,
    /// Its inode there.
    pub ino: u64,
    /// Path, or the text in its place.
    pub path: Arc<str>,
    /// Display name of the component for which it counts.
    pub component: Arc<str>,
    /// Bytes of the file.
    pub size: u64,
    /// True if its pages are huge TLB pages.
    pub hugetlb: bool,
    /// True if it has been unmapped since; the bitmap is the last one seen.
    pub gone: bool,
    /// Granule size in bytes, as a power of two.
    pub granule_shift: u32,
    /// True if a granule is one page, so that the bitmap is exact.
    pub exact: bool,
    /// Bit n is set if part of granule n of the file is resident.
    pub bitmap: Vec<u64>,
    /// Resident bytes, exact.
    pub present: u64,
    /// As `present`, but a page counts as often as the process maps it, as in the sums of the
    /// process.
    pub counted: u64,
    /// Bytes of pages that were present only in an earlier sample.
    pub dropped: u64,
    /// Highest difference between `counted` and `present`.
    pub doubled: u64,
    /// True if it counted for another component earlier.
    pub is_moved: bool,
    /// True if its row was never that of another file, whose data are gone.
    pub is_whole: bool,
}

/// Upper bounds of a component's memory in files and segments of one process.
#[derive(Copy, Clone, Debug, Default)]
pub struct Claim {
    /// Present in any sample; a page that is mapped twice counts twice.
    pub ever: u64,
    /// Part of it for pages that are mapped more than once.
    pub doubled: u64,
}

/// Returns the bytes of segments that earlier counted for another component, whichever it was.
pub fn moved(segments: &[Shared]) -> u64 {
    let moved = segments.iter().filter(|segment| segment.is_moved);
    moved.fold(0, |sum, segment| sum.saturating_add(segment.ever()))
}

/// Adds up the segments of a process by component.
pub fn claims(segments: &[Shared]) -> HashMap<Arc<str>, Claim> {
    let mut claims: HashMap<Arc<str>, Claim> = HashMap::new();
    for segment in segments {
        let claim = claims.entry(segment.component.clone()).or_default();
        claim.ever = claim.ever.saturating_add(segment.ever());
        claim.doubled = claim.doubled.saturating_add(segment.doubled);
    }
    claims
}

/// Memory of a component in files and segments of a node, with each page counted once.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Union {
    /// Lower bound, as of the last samples of all processes.
    pub least: u64,
    /// Upper bound, including pages that were present before.
    pub most: u64,
}

/// Collects the segments of the ranks of one node.
#[derive(Debug, Default)]
pub struct Join {
    files: HashMap<(u64, u64), File>,
    /// True if the past of a segment is not known.
    is_cut: bool,
}

#[derive(Debug)]
struct File {
    first: Shared,
    sum: u64,
    least: u64,
    processes: u32,
    counted: u32,
    mapped: u32,
    mapped_counted: u32,
    dropped: u64,
    is_moved: bool,
    per_component: HashMap<Arc<str>, u64>,
}

/// One file or segment on a node. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JoinedFile {
    /// Its path, or the text in its place.
    pub path: Arc<str>,
    /// Component for which it counts.
    pub component: Arc<str>,
    /// Bytes of the file.
    pub size: u64,
    /// True if its pages are huge TLB pages.
    pub hugetlb: bool,
    /// Number of processes that map it.
    pub processes: u32,
    /// Number of them that still map it.
    pub mapped: u32,
    /// Resident bytes of all processes added up.
    pub sum: u64,
    /// Lower bound of the node's memory, in bytes.
    pub least: u64,
    /// Upper bound of the node's memory in bytes, and the figure used.
    pub once: u64,
}

/// Memory that the ranks of a node share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Joined {
    /// Largest first.
    pub files: Vec<JoinedFile>,
    /// Bytes counted more than once in the sum over ranks: sum minus once, over all files.
    pub repeated: u64,
    /// The part of `repeated` that is not certain, because a bitmap was coarser than pages.
    pub uncertain: u64,
    /// By component: bytes added up over ranks, and the part counted more than once.
    pub components: Vec<(Arc<str>, u64, u64)>,
    /// By component; missing where the past of a segment is not known.
    #[serde(skip)]
    pub unions: HashMap<Arc<str>, Union>,
}

impl Joined {
    /// Returns the node's memory of files and segments that several processes map, each page once.
    pub fn shared(&self) -> u64 {
        let several = self.files.iter().filter(|file| file.processes > 1);
        several.fold(0u64, |sum, file| sum.saturating_add(file.once))
    }
}

impl Join {
    /// Adds the mappings of one process, which must be added only once.
    pub fn add(&mut self, process: u32, segments: impl IntoIterator<Item = Shared>) {
        for mut segment in segments {
            segment.granule_shift = segment.granule_shift.min(WIDEST_GRANULE);
            let file = self.files.entry((segment.dev, segment.ino)).or_insert_with(|| File {
                first: Shared { bitmap: Vec::new(), exact: true, ..segment.clone() },
                sum: 0,
                least: 0,
                processes: 0,
                counted: u32::MAX,
                mapped: 0,
                mapped_counted: u32::MAX,
                dropped: 0,
                is_moved: false,
                per_component: HashMap::new(),
            });
            if file.counted != process || file.processes == 0 {
                file.processes += 1;
                file.counted = process;
            }
            if !segment.gone && (file.mapped_counted != process || file.mapped == 0) {
                file.mapped += 1;
                file.mapped_counted = process;
            }
            self.is_cut |= !segment.is_whole;
            file.is_moved |= segment.is_moved;
            file.dropped = file.dropped.saturating_add(segment.dropped);
            file.sum = file.sum.saturating_add(segment.counted);
            file.least = file.least.max(segment.present);
            let own = file.per_component.entry(segment.component.clone()).or_default();
            *own = own.saturating_add(segment.counted);
            file.first.merge(segment);
        }
    }

    /// Returns the sums of the node.
    pub fn finish(self) -> Joined {
        let mut joined = Joined::default();
        let mut moved = 0;
        let mut components: HashMap<Arc<str>, (u64, u64)> = HashMap::new();
        for file in self.files.into_values() {
            let covered = file.first.covered();
            let once = covered.min(file.sum).max(file.least);
            let least = if file.first.exact { once } else { file.least };
            let repeated = file.sum - once.min(file.sum);
            joined.repeated = joined.repeated.saturating_add(repeated);
            joined.uncertain = joined.uncertain.saturating_add(once - least.min(once));
            if file.is_moved {
                moved = u64::saturating_add(moved, once).saturating_add(file.dropped);
            }
            for component in file.per_component.keys() {
                let union = joined.unions.entry(component.clone()).or_default();
                let most = once.saturating_add(file.dropped);
                (union.least, union.most) =
                    (union.least.saturating_add(least), union.most.saturating_add(most));
            }
            for (component, bytes) in file.per_component {
                let share = match file.sum {
                    0 => 0,
                    sum => (u128::from(repeated) * u128::from(bytes) / u128::from(sum)) as u64,
                };
                let entry = components.entry(component).or_default();
                entry.0 = entry.0.saturating_add(bytes);
                entry.1 = entry.1.saturating_add(share);
            }
            joined.files.push(JoinedFile {
                path: file.first.path,
                component: file.first.component,
                size: file.first.size,
                hugetlb: file.first.hugetlb,
                processes: file.processes,
                mapped: file.mapped,
                sum: file.sum,
                least,
                once,
            });
        }
        if self.is_cut {
            joined.unions.clear();
        }
        for union in joined.unions.values_mut() {
            union.most = union.most.saturating_add(moved);
        }
        joined.files.sort_by(|a, b| {
            (b.once, b.sum).cmp(&(a.once, a.sum)).then_with(|| a.path.cmp(&b.path))
        });
        joined.components =
            components.into_iter().map(|(name, (sum, repeated))| (name, sum, repeated)).collect();
        joined.components.sort();
        joined
    }
}

impl Shared {
    /// Returns the bytes present in any sample; a page that is mapped twice counts twice.
    fn ever(&self) -> u64 {
        self.present.saturating_add(self.dropped).saturating_add(self.doubled)
    }

    /// Adds the granules of another process; the coarser granule of the two is used.
    fn merge(&mut self, mut other: Shared) {
        while self.granule_shift < other.granule_shift {
            self.coarsen();
        }
        while other.granule_shift < self.granule_shift {
            other.coarsen();
        }
        self.exact &= other.exact;
        self.size = self.size.max(other.size);
        if self.bitmap.len() < other.bitmap.len() {
            self.bitmap.resize(other.bitmap.len(), 0);
        }
        for (word, more) in self.bitmap.iter_mut().zip(&other.bitmap) {
            *word |= more;
        }
    }

    fn coarsen(&mut self) {
        let mut coarse = vec![0u64; self.bitmap.len().div_ceil(2)];
        for (index, word) in self.bitmap.iter().enumerate() {
            // Merges pairs of bits: combine neighbours with or, then collect the even bits.
            let mut even = (word | (word >> 1)) & 0x5555_5555_5555_5555;
            for (shift, mask) in [
                (1, 0x3333_3333_3333_3333u64),
                (2, 0x0f0f_0f0f_0f0f_0f0f),
                (4, 0x00ff_00ff_00ff_00ff),
                (8, 0x0000_ffff_0000_ffff),
                (16, 0x0000_0000_ffff_ffff),
            ] {
                even = (even | (even >> shift)) & mask;
            }
            coarse[index / 2] |= even << (32 * (index % 2));
        }
        self.bitmap = coarse;
        self.granule_shift += 1;
        self.exact = false;
    }

    /// Returns the bytes of the granules that are set.
    fn covered(&self) -> u64 {
        let granules: u64 = self.bitmap.iter().map(|w| u64::from(w.count_ones())).sum();
        granules.saturating_mul(1 << self.granule_shift)
    }
}

#[cfg(test)]
#[path = "join_tests.rs"]
mod tests;
