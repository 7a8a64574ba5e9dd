//! Free memory of the allocator, by what would return it.

use serde::Serialize;
use std::sync::Arc;

/// Free memory of the allocator of one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Slack {
    /// Name of the allocator if it is not the C library's; nothing is known of another one.
    pub allocator: Option<Arc<str>>,
    /// At the last sample.
    pub now: FreePages,
    /// At the peak of the process.
    pub at_peak: FreePages,
}

/// Resident bytes of the C library's heaps in whole pages without a live block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FreePages {
    /// In the main heap.
    pub main: u64,
    /// Part of `main` behind its last live block.
    pub main_top: u64,
    /// In the heaps of thread arenas.
    pub arenas: u64,
    /// Part of `arenas` behind the last live block of each arena.
    pub arenas_top: u64,
    /// Upper bound of what there is beyond these numbers.
    pub uncertain: u64,
    /// Thread arenas with resident memory.
    pub number_of_arenas: u32,
    /// Component with most bytes in the last page of the main heap that has a live block.
    pub held_by: Option<Arc<str>>,
    /// Position of a sampled call stack of that page among the call stacks of the process.
    #[serde(skip)]
    pub site: Option<usize>,
}

impl FreePages {
    /// Returns the bytes that `malloc_trim(0)` returns at least: all but the ends of thread arenas.
    pub fn returned_by_trim(&self) -> u64 {
        self.main.saturating_add(self.arenas.saturating_sub(self.arenas_top))
    }
}
