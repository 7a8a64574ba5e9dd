//! Layout of the parts of the granule table that threads cache.

use core::sync::atomic::{AtomicI64, AtomicU32, AtomicUsize};

/// Owner's first slot of a granule: a component in the low bits, and bytes from bit 41 up. Its
/// limit is half of that of a shared slot. An addition beyond the limit overflows the word, which
/// costs no extra comparison; the owner then takes over the shared counts.
pub type First = AtomicI64;
pub const FIRST_SHIFT: u32 = 41;

/// Overhang of a block beyond the granule it begins in: its component and the number of bytes. The
/// thread that allocates or frees the block writes the word.
pub type Overhang = AtomicU32;

/// Part of a granule that most blocks touch; they touch nothing else.
#[repr(C, align(16))]
pub struct HotSlot {
    pub first: First,
    pub beyond: Overhang,
}

/// Leaf of one region. The fronts of all granules follow it in memory, and then the granules.
#[repr(C, align(16))]
pub struct Leaf {
    /// Region number: address divided by the size of a region.
    pub region: AtomicUsize,
    /// Number of the counters whose thread owns the leaf.
    pub owner: AtomicU32,
    pub shift: AtomicU32,
}
