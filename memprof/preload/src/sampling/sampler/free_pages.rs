//! Whole pages of the C library's heaps in which no block is live, arena by arena: what `malloc_trim`
//! would return, without a call of it. Pure: the walk reports facts about memory.
//!
//! `malloc_trim` returns the pages of free chunks between blocks in all heaps, and those behind the
//! last block of the main heap. Behind the last block of the newest heap of a thread's arena it
//! returns nothing.

use core::cmp::Reverse;

use memprof_trace::layout::{ArenaRow, NONE, SlackRow};

use crate::base::component::LIMIT;

/// Alignment and maximum size of the heaps of thread arenas.
pub const ALIGNMENT: usize = 64 << 20;
/// Largest distance of an arena's data from the beginning of its first heap.
const NEAR: usize = 4096;
/// Number of heaps of thread arenas that are known one by one. Of further ones, all free pages count
/// as returned.
const HEAPS: usize = 256;
/// Number of arenas that are known one by one, of which the last stands for all further ones.
const ARENAS: usize = 256;
/// Arenas of a sample that are written one by one; a further row is their sum.
const WRITTEN: usize = 11;
/// Free memory below the last block of an arena from which on that block is looked for.
pub const WORTH_A_HOLDER: u64 = 1 << 20;
/// Arenas whose last block is looked for.
const HELD: usize = 4;
/// Rows of arenas in a summary.
pub const ROWS: usize = WRITTEN + 1;

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
    /// Position of its arena.
    arena: usize,
    /// Free pages behind its last block.
    top: u64,
    last_live: LastLive,
}

/// The heap that is being walked.
#[derive(Copy, Clone)]
struct Current {
    /// 0 for the main heap.
    start: usize,
    head: HeapHead,
    /// Position of its arena.
    arena: usize,
    /// Free pages since the last live block.
    top: u64,
    last_live: LastLive,
}

/// An arena, in bytes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Arena {
    /// Address of the arena's data; 0 for the main arena.
    address: usize,
    /// Arenas that this one stands for.
    arenas: u32,
    resident: u64,
    in_use: u64,
    free_pages: u64,
    uncertain: u64,
    /// Free pages behind the last live block of the newest heap.
    top: u64,
    last_live: LastLive,
}

impl Arena {
    const NONE: Arena = Arena {
        address: 0,
        arenas: 0,
        resident: 0,
        in_use: 0,
        free_pages: 0,
        uncertain: 0,
        top: 0,
        last_live: LastLive { start: 0, end: 0 },
    };

    /// Returns the bytes of the free pages that `malloc_trim` leaves.
    fn kept(&self) -> u64 {
        if self.address == 0 { 0 } else { self.top }
    }

    /// Returns the resident bytes that are in no live block.
    fn slack(&self) -> u64 {
        self.resident.saturating_sub(self.in_use)
    }
}

/// The last range of an arena with a live block; empty if there is none.
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
    /// The main arena, then the others in the order of their first heaps.
    arenas: [Arena; ARENAS],
    number: usize,
    /// Free bytes of each arena by the component that left them.
    left: [[u64; LIMIT]; ARENAS],
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

/// Component and call stack of a block, as in a trace.
pub type Holder = Option<(u32, u32)>;

impl FreePages {
    pub const fn new() -> FreePages {
        const NOTHING: LastLive = LastLive { start: 0, end: 0 };
        FreePages {
            current: None,
            heaps: [Walked { start: 0, before: 0, arena: 0, top: 0, last_live: NOTHING }; HEAPS],
            count: 0,
            arenas: [Arena::NONE; ARENAS],
            number: 0,
            left: [[0; LIMIT]; ARENAS],
        }
    }

    pub fn clear(&mut self) {
        self.current = None;
        self.arenas[..self.number].fill(Arena::NONE);
        self.left[..self.number].fill([0; LIMIT]);
        (self.count, self.number) = (0, 0);
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
        let arena = self.arena(head);
        self.current = Some(Current { start, head, arena, top: 0, last_live: LastLive::default() });
        true
    }

    /// Returns the position of the arena of a heap.
    fn arena(&mut self, head: HeapHead) -> usize {
        // The main arena is the first, also where the walk finds its heap later.
        self.number = self.number.max(1);
        let known = self.arenas[..self.number].iter().position(|it| it.address == head.arena);
        let at = known.unwrap_or(self.number.min(ARENAS - 1));
        self.arenas[at].address = if at == ARENAS - 1 { usize::MAX } else { head.arena };
        let is_new = head.arena != 0 && head.before == 0;
        self.arenas[at].arenas =
            if at == 0 { 1 } else { self.arenas[at].arenas + u32::from(is_new) };
        self.number = self.number.max(at + 1);
        at
    }

    /// Adds resident memory of the current heap in ascending order of address, with its live bytes:
    /// a page, or more where the ledger does not distinguish pages.
    pub fn add(&mut self, start: usize, end: usize, live: u64, page: usize) {
        let Some(current) = &mut self.current else { return };
        let arena = &mut self.arenas[current.arena];
        let length = (end - start) as u64;
        if live == 0 {
            arena.free_pages += length;
            current.top += length;
            return;
        }
        let page = page as u64;
        arena.uncertain += length.saturating_sub(live) / page * page;
        current.top = 0;
        current.last_live = LastLive { start, end };
    }

    /// Adds resident memory of the current heap, and the part of it in live blocks.
    pub fn count(&mut self, resident: u64, in_use: u64) {
        if let Some(current) = &self.current {
            let arena = &mut self.arenas[current.arena];
            arena.resident += resident;
            arena.in_use += in_use;
        }
    }

    /// Adds free bytes of the current heap that a component has left.
    pub fn left(&mut self, component: usize, bytes: u64) {
        if let Some(current) = &self.current {
            self.left[current.arena][component % LIMIT] += bytes;
        }
    }

    /// Ends the current heap.
    fn leave(&mut self) {
        let Some(Current { start, head, arena, top, last_live }) = self.current.take() else {
            return;
        };
        if start == 0 {
            // The main heap may be in several mappings.
            let main = &mut self.arenas[arena];
            let has_live = last_live.start < last_live.end;
            main.top = if has_live { top } else { main.top + top };
            main.last_live = if has_live { last_live } else { main.last_live };
        } else if let Some(place) = self.heaps.get_mut(self.count) {
            *place = Walked { start, before: head.before, arena, top, last_live };
            self.count += 1;
        }
    }

    /// Ends the walk.
    pub fn finish(&mut self) -> Found {
        self.leave();
        let heaps = &self.heaps[..self.count];
        for heap in heaps.iter().filter(|heap| heaps.iter().all(|it| it.before != heap.start)) {
            self.arenas[heap.arena].top += heap.top;
            self.arenas[heap.arena].last_live = heap.last_live;
        }
        let (main, others) = self.arenas.split_at(1);
        let others = &others[..self.number.saturating_sub(1)];
        let sum = |of: fn(&Arena) -> u64| others.iter().map(of).sum::<u64>();
        Found {
            main: main[0].free_pages,
            main_top: main[0].top,
            arenas: sum(|arena| arena.free_pages),
            arenas_top: sum(|arena| arena.top),
            uncertain: main[0].uncertain + sum(|arena| arena.uncertain),
            number_of_arenas: others.iter().map(|arena| arena.arenas).sum(),
            last_live: main[0].last_live,
        }
    }

    /// Enters the arenas with most free memory, and the sum of the others, as values of the last
    /// sample, and of the peak too if `at_peak`. `holder` finds a block in a range of memory.
    pub fn enter_arenas(
        &self,
        rows: &mut [ArenaRow; ROWS],
        holder: impl Fn(LastLive) -> Holder,
        at_peak: bool,
    ) {
        let mut order = [0_u16; ARENAS];
        order.iter_mut().zip(0..).for_each(|(place, number)| *place = number);
        let order = &mut order[..self.number];
        let arena = |at: u16| &self.arenas[usize::from(at)];
        order.sort_unstable_by_key(|at| Reverse((arena(*at).slack(), arena(*at).resident)));
        let used = order.iter().take_while(|at| arena(**at).resident > 0).count();
        for (place, row) in rows.iter_mut().enumerate() {
            let end = if place < WRITTEN { (place + 1).min(used) } else { used };
            let these = &order[place.min(end)..end];
            let sum = |of: fn(&Arena) -> u64| these.iter().map(|at| of(arena(*at))).sum::<u64>();
            let arenas = these.iter().map(|at| arena(*at).arenas).sum();
            let one = these.first().filter(|_| arenas == 1);
            let (left_by, left) = self.left_by(these);
            let held = one.map(|at| arena(*at)).filter(|_| place < HELD);
            let held = held.filter(|it| it.slack() >= WORTH_A_HOLDER);
            let last_live = held.map(|it| it.last_live).filter(|it| it.start < it.end);
            let (component, site) = last_live.and_then(&holder).unwrap_or((NONE, NONE));
            for moment in 0..=usize::from(at_peak) {
                row.resident[moment] = sum(|arena| arena.resident);
                row.in_use[moment] = sum(|arena| arena.in_use);
                row.free_pages[moment] = sum(|arena| arena.free_pages);
                row.kept[moment] = sum(Arena::kept);
                row.uncertain[moment] = sum(|arena| arena.uncertain);
                row.left[moment] = left;
                row.number[moment] = one.map_or(NONE, |at| u32::from(*at));
                row.arenas[moment] = arenas;
                row.holder[moment] = component;
                row.holder_site[moment] = site;
                row.left_by[moment] = left_by;
            }
        }
    }

    /// Returns the component that has left most of the free memory of arenas, and how much of it.
    fn left_by(&self, arenas: &[u16]) -> (u32, u64) {
        let sum = |component: usize| {
            arenas.iter().map(|at| self.left[usize::from(*at)][component]).sum::<u64>()
        };
        let all = (0..LIMIT).map(|component| (component as u32, sum(component)));
        all.max_by_key(|(_, bytes)| *bytes).filter(|(_, bytes)| *bytes > 0).unwrap_or((NONE, 0))
    }
}

impl Found {
    /// Enters the findings as values of the last sample, and of the peak too if `at_peak`. The holder
    /// is the component and the call stack of the last block of the main heap, if they are known.
    pub fn enter(&self, row: &mut SlackRow, holder: Holder, at_peak: bool) {
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
    fn arenas_with_most_free_memory_are_first_and_others_summed() {
        let mut pages = Box::new(FreePages::new());
        let page = PAGE as u64;
        pages.enter(0, || None);
        pages.count(10 * page, 9 * page);
        for number in 1..=14 {
            let start = number * ALIGNMENT;
            assert!(pages.enter(start, head(start + 48, 0)));
            pages.add(start, start + PAGE, 8, PAGE);
            pages.count(1000 * page, (1000 - 50 * number as u64) * page);
            pages.left(16 + number % 2, 3);
        }
        // A second heap of an arena.
        pages.enter(20 * ALIGNMENT, head(3 * ALIGNMENT + 48, 3 * ALIGNMENT));
        pages.add(20 * ALIGNMENT, 20 * ALIGNMENT + 2 * PAGE, 0, PAGE);
        pages.count(600 * page, 0);
        assert_eq!(pages.finish().arenas_top, 2 * page);
        let mut rows = [ArenaRow::default(); ROWS];
        let at = |it: LastLive| Some((u32::from(it.start == 14 * ALIGNMENT), 7));
        pages.enter_arenas(&mut rows, at, false);
        let numbers: Vec<u32> = rows[..WRITTEN].iter().map(|row| row.number[0]).collect();
        assert_eq!(numbers, [3, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5]);
        let [most, next, .., rest] = &rows;
        assert_eq!((most.resident[0], most.in_use[0]), (1600 * page, 850 * page));
        assert_eq!((most.free_pages[0], most.kept[0]), (2 * page, 2 * page));
        assert_eq!(most.holder[0], NONE, "no block is behind its end");
        assert_eq!((next.holder[0], next.holder_site[0], next.left_by[0]), (1, 7, 16));
        assert_eq!((rest.number[0], rest.arenas[0], rest.holder[0]), (NONE, 4, NONE));
        assert_eq!(rest.resident[0] - rest.in_use[0], (50 * (1 + 2 + 4) + 1) * page);
        assert_eq!((rest.left_by[0], rest.left[0]), (16, 6));
        assert!(rows.iter().all(|row| row.resident[1] == 0), "no peak");
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
