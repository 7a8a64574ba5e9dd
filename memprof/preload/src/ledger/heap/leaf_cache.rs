//! Cache of the leaves that a thread used, which saves the search in the table.

use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize};

use super::leaf::{HotSlot, Leaf};

const LEAVES: usize = 64;

/// A cached leaf of the granule table. Two entries fill a cache line.
#[repr(C, align(32))]
pub struct CachedLeaf {
    /// Region of the leaf, if the thread owns the leaf; else [`NOT_OWN`].
    pub region: AtomicUsize,
    /// Address of the leaf's fronts, minus one front for each granule that lies before the region,
    /// so that a granule's number in the address space is its index.
    pub fronts: AtomicPtr<HotSlot>,
    /// Granule size: as a power of two, and in bytes.
    pub shift: AtomicU32,
    pub granule: AtomicU32,
    pub leaf: AtomicPtr<Leaf>,
}

const _: () = assert!(size_of::<CachedLeaf>() == 32);

impl CachedLeaf {
    const fn new() -> CachedLeaf {
        CachedLeaf {
            region: AtomicUsize::new(NOT_OWN),
            fronts: AtomicPtr::new(ptr::null_mut()),
            shift: AtomicU32::new(0),
            granule: AtomicU32::new(0),
            leaf: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

/// Value of `region` for no region.
pub const NOT_OWN: usize = usize::MAX;

/// Leaves of one thread, each in the entry selected by its region.
#[repr(transparent)]
pub struct LeafCache([CachedLeaf; LEAVES]);

impl LeafCache {
    pub const fn new() -> LeafCache {
        LeafCache([const { CachedLeaf::new() }; LEAVES])
    }

    /// Initializes a cache of zeros as empty.
    pub fn begin(&self) {
        self.0.iter().for_each(|leaf| leaf.region.store(NOT_OWN, Relaxed));
    }

    /// Returns the entry for the leaf of a region.
    #[inline(always)]
    pub fn place(&self, region: usize) -> &CachedLeaf {
        &self.0[region % LEAVES]
    }
}
