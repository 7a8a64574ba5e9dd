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
    /// What keeps the main heap.
    #[serde(flatten)]
    pub holder: Holder,
    /// The arenas with most free memory, largest first, and the sum of the others; empty where the
    /// trace has none.
    pub by_arena: Vec<Arena>,
}

/// Owner of the last page of an arena that has a live block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// Component with most bytes in that page.
    pub held_by: Option<Arc<str>>,
    /// Position of a sampled call stack of that page among the call stacks of the process.
    #[serde(skip)]
    pub site: Option<usize>,
}

/// Resident bytes of an arena of the C library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Arena {
    /// 0 for the main arena; others are numbered by address. `None` for the sum of several.
    pub number: Option<u32>,
    /// Arenas in these figures.
    pub arenas: u32,
    /// All of it.
    pub resident: u64,
    /// Part in live blocks.
    pub in_use: u64,
    /// Part in no live block.
    pub free: u64,
    /// Part of `free` in whole pages without a live block.
    pub free_pages: u64,
    /// Part of `free_pages` that `malloc_trim(0)` returns at least.
    pub returned_by_trim: u64,
    /// Upper bound of what there is beyond `free_pages`.
    pub uncertain: u64,
    /// What keeps the arena.
    #[serde(flatten)]
    pub holder: Holder,
    /// Component that used most of the free memory last.
    pub left_by: Option<Arc<str>>,
    /// Part of the free memory that it used last.
    pub left: u64,
}

impl Arena {
    /// Adds another one to the sum of several.
    pub fn add(&mut self, other: &Arena) {
        let Arena { arenas, resident, in_use, free, free_pages, .. } = self;
        *arenas = arenas.saturating_add(other.arenas);
        *resident = resident.saturating_add(other.resident);
        *in_use = in_use.saturating_add(other.in_use);
        *free = free.saturating_add(other.free);
        *free_pages = free_pages.saturating_add(other.free_pages);
        (self.number, self.holder) = (None, Holder::default());
        self.returned_by_trim = self.returned_by_trim.saturating_add(other.returned_by_trim);
        self.uncertain = self.uncertain.saturating_add(other.uncertain);
        if self.left_by == other.left_by {
            self.left = self.left.saturating_add(other.left);
        } else if other.left > self.left {
            (self.left_by, self.left) = (other.left_by.clone(), other.left);
        }
    }
}

impl FreePages {
    /// Returns the bytes that `malloc_trim(0)` returns at least: all but the ends of thread arenas.
    pub fn returned_by_trim(&self) -> u64 {
        self.main.saturating_add(self.arenas.saturating_sub(self.arenas_top))
    }
}
