//! The ledger of bytes: which component owns which block.

use crate::component::{Component, LIMIT};

/// What one component owns, in requested bytes.
#[derive(Copy, Clone, Default)]
pub struct Ledger {
    pub owned: u64,
    pub peak: u64,
    pub allocations: u64,
    pub frees: u64,
    pub allocated_total: u64,
}

/// The ledger of all components now, threads included.
pub fn snapshot(_into: &mut [Ledger; LIMIT]) {}

/// Calls `each` with start, length and owner of every live block of at least 32 KiB.
pub fn each_large(_each: &mut dyn FnMut(usize, usize, Component)) {}

/// How many bytes of live small blocks each component has between two addresses: `each(component,
/// bytes)`. Both ends are multiples of the page size. False where the ledger knows nothing.
pub fn share(_start: usize, _end: usize, _each: &mut dyn FnMut(Component, u64)) -> bool {
    false
}

/// A new innermost phase begins: its peaks start at what is owned now.
pub fn peaks_begin() {}

/// The innermost phase ends: its peaks, which also count for the one around it.
pub fn peaks_end(_into: &mut [u64; LIMIT]) {}
