//! Whole pages of the C library's heaps in which no block is live: what `malloc_trim` would return,
//! without a call of it. Pure: the walk reports facts about memory.
//!
//! `malloc_trim` returns the pages of free chunks between blocks in all heaps, and those behind the
//! last block of the main heap. Behind the last block of the newest heap of a thread's arena it
//! returns nothing.

use memprof_trace::layout::{NONE, SlackRow};

/// Alignment and maximum size of the heaps of thread arenas.
pub const ALIGNMENT: usize = 64 << 20;
/// Largest distance of an arena's data from the beginning of its first heap.
const NEAR: usize = 4096;
/// Number of heaps of thread arenas that are known one by one. Of further ones, all free pages count
/// as returned.
const HEAPS: usize = 256;

/// First words of a heap of a thread arena.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapHead {
    /// Address of the arena's data, in its first heap.
    pub arena: usize,
    /// Address of the heap before; 0 in the first.
    pub before: usize,
}

impl HeapHead {
    /// Returns true if the memory at `start` begins with such words, and not with other data.
    pub fn is_of_heap(&self, start: usize) -> bool {
        let first = self.arena & !(ALIGNMENT - 1);
        let is_near = (1..NEAR).contains(&(self.arena - first));
        let is_first = first == start;
        let before = self.before;
        is_near && before.is_multiple_of(ALIGNMENT) && is_first == (before == 0) && before != start
    }
}

/// A heap of a thread arena that has been walked.
#[derive(Copy, Clone)]
struct Walked {
    start: usize,
    before: usize,
    /// Free pages behind its last block.
    top: u64,
}

/// The heap that is being walked.
#[derive(Copy, Clone)]
struct Current {
    /// 0 for the main heap.
    start: usize,
    head: HeapHead,
    free: u64,
    uncertain: u64,
    /// Free pages since the last live block.
    top: u64,
}

/// The last range of the main heap with a live block.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct LastLive {
    pub start: usize,
    pub end: usize,
}

/// Free pages of all heaps, added up in a walk.
pub struct FreePages {
    current: Option<Current>,
    heaps: [Walked; HEAPS],
    count: usize,
    main: u64,
    main_top: u64,
    arenas: u64,
    uncertain: u64,
    number_of_arenas: u32,
    last_live: LastLive,
}

/// Findings of a walk, in bytes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub main: u64,
    pub main_top: u64,
    pub arenas: u64,
    pub arenas_top: u64,
    pub uncertain: u64,
    pub number_of_arenas: u32,
    pub last_live: LastLive,
}

impl FreePages {
    pub const fn new() -> FreePages {
        FreePages {
            current: None,
            heaps: [Walked { start: 0, before: 0, top: 0 }; HEAPS],
            count: 0,
            main: 0,
            main_top: 0,
            arenas: 0,
            uncertain: 0,
            number_of_arenas: 0,
            last_live: LastLive { start: 0, end: 0 },
        }
    }

    pub fn clear(&mut self) {
        self.current = None;
        (self.count, self.number_of_arenas) = (0, 0);
        (self.main, self.main_top, self.arenas, self.uncertain) = (0, 0, 0, 0);
        self.last_live = LastLive::default();
    }

    /// Begins or continues a heap, of which `start` is the beginning, or 0 for the main heap. Returns
    /// false if there is no heap; `head` reads the first words.
    pub fn enter(&mut self, start: usize, head: impl FnOnce() -> Option<HeapHead>) -> bool {
        if self.current.is_some_and(|current| current.start == start) {
            return true;
        }
        self.leave();
        let head = match start {
            0 => Some(HeapHead::default()),
            _ => head().filter(|head| head.is_of_heap(start)),
        };
        let Some(head) = head else { return false };
        self.current = Some(Current { start, head, free: 0, uncertain: 0, top: 0 });
        true
    }

    /// Adds resident memory of the current heap in ascending order of address, with its live bytes:
    /// a page, or more where the ledger does not distinguish pages.
    pub fn add(&mut self, start: usize, end: usize, live: u64, page: usize) {
        let Some(current) = &mut self.current else { return };
        let length = (end - start) as u64;
        if live == 0 {
            current.free += length;
            current.top += length;
            return;
        }
        let page = page as u64;
        current.uncertain += length.saturating_sub(live) / page * page;
        current.top = 0;
        if current.start == 0 {
            self.last_live = LastLive { start, end };
        }
    }

    /// Ends the current heap.
    fn leave(&mut self) {
        let Some(current) = self.current.take() else { return };
        self.uncertain += current.uncertain;
        if current.start == 0 {
            self.main += current.free;
            self.main_top = current.top;
            return;
        }
        self.arenas += current.free;
        self.number_of_arenas += u32::from(current.head.before == 0);
        let walked = Walked { start: current.start, before: current.head.before, top: current.top };
        if let Some(place) = self.heaps.get_mut(self.count) {
            *place = walked;
            self.count += 1;
        }
    }

    /// Ends the walk.
    pub fn finish(&mut self) -> Found {
        self.leave();
        let heaps = &self.heaps[..self.count];
        let is_newest = |heap: &&Walked| heaps.iter().all(|other| other.before != heap.start);
        Found {
            main: self.main,
            main_top: self.main_top,
            arenas: self.arenas,
            arenas_top: heaps.iter().filter(is_newest).map(|heap| heap.top).sum(),
            uncertain: self.uncertain,
            number_of_arenas: self.number_of_arenas,
            last_live: self.last_live,
        }
    }
}

impl Found {
    /// Enters the findings as values of the last sample, and of the peak too if `at_peak`. The holder
    /// is the component and the call stack of the last block of the main heap, if they are known.
    pub fn enter(&self, row: &mut SlackRow, holder: Option<(u32, u32)>, at_peak: bool) {
        let (component, site) = holder.unwrap_or((NONE, NONE));
        for moment in 0..=usize::from(at_peak) {
            row.main[moment] = self.main;
            row.main_top[moment] = self.main_top;
            row.arenas[moment] = self.arenas;
            row.arenas_top[moment] = self.arenas_top;
            row.uncertain[moment] = self.uncertain;
            row.number_of_arenas[moment] = self.number_of_arenas;
            row.holder[moment] = component;
            row.holder_site[moment] = site;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    fn add(pages: &mut FreePages, live: &[u64]) {
        for (number, live) in live.iter().enumerate() {
            pages.add(number * PAGE, (number + 1) * PAGE, *live, PAGE);
        }
    }

    fn head(arena: usize, before: usize) -> impl FnOnce() -> Option<HeapHead> {
        move || Some(HeapHead { arena, before })
    }

    #[test]
    fn pages_behind_the_last_block_are_the_top() {
        let mut pages = Box::new(FreePages::new());
        assert!(pages.enter(0, || None));
        add(&mut pages, &[0, 8, 0, 0, 4096, 0]);
        let found = pages.finish();
        let page = PAGE as u64;
        assert_eq!((found.main, found.main_top), (4 * page, page));
        assert_eq!(found.last_live, LastLive { start: 4 * PAGE, end: 5 * PAGE });
        assert_eq!((found.arenas, found.number_of_arenas, found.uncertain), (0, 0, 0));
        pages.clear();
        assert_eq!(pages.finish(), Found::default());
    }

    #[test]
    fn only_newest_heaps_of_arenas_keep_their_top() {
        let mut pages = Box::new(FreePages::new());
        let [old, new] = [3 * ALIGNMENT, 5 * ALIGNMENT];
        assert!(pages.enter(old, head(old + 48, 0)));
        add(&mut pages, &[1, 0, 0]);
        assert!(pages.enter(new, head(old + 48, old)));
        add(&mut pages, &[0, 1, 0]);
        assert!(!pages.enter(7 * ALIGNMENT, head(0, 0)), "data of the program");
        add(&mut pages, &[0]);
        let found = pages.finish();
        let page = PAGE as u64;
        assert_eq!((found.arenas, found.arenas_top), (4 * page, page));
        assert_eq!((found.number_of_arenas, found.main), (1, 0));
    }

    #[test]
    fn large_granules_bound_what_is_free() {
        let mut pages = Box::new(FreePages::new());
        pages.enter(0, || None);
        pages.add(0, 16 * PAGE, 3 * 4096 + 1, PAGE);
        let found = pages.finish();
        assert_eq!((found.main, found.uncertain), (0, 12 * PAGE as u64));
    }
}
