//! Leaves that a thread finds without a search.

use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize};

use super::{Front, Leaf};

const LEAVES: usize = 64;

/// A leaf of the granule table that was used before: two of them are a line of the cache.
#[repr(C, align(32))]
pub struct CachedLeaf {
    /// Which 4 MiB it is of, if the thread owns it; else [`NOT_OWN`].
    pub region: AtomicUsize,
    /// The fronts of its granules, less as many as come before that region.
    pub fronts: AtomicPtr<Front>,
    /// How large granules are: as a power of two, and in bytes.
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

/// No region.
pub const NOT_OWN: usize = usize::MAX;

/// The leaves of one thread. They stand at the places that their regions have.
#[repr(transparent)]
pub struct LeafCache([CachedLeaf; LEAVES]);

impl LeafCache {
    pub const fn new() -> LeafCache {
        LeafCache([const { CachedLeaf::new() }; LEAVES])
    }

    /// Makes one of zeroes: nothing is there.
    pub fn begin(&self) {
        self.0.iter().for_each(|leaf| leaf.region.store(NOT_OWN, Relaxed));
    }

    /// The place of the leaf of a region.
    #[inline(always)]
    pub fn place(&self, region: usize) -> &CachedLeaf {
        &self.0[region % LEAVES]
    }
}
