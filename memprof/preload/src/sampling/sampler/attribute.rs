//! Assignment of the present pages of a mapping to owners. Pure: facts about owners are provided by
//! [`World`].
//!
//! Every present byte is assigned to exactly one component, so the sum is that of the walk. The
//! order of precedence is: the tool's memory; blocks of the allocator; mappings whose creation the
//! tool saw; loaded objects; the kind of the mapping; the object that requested the memory from the
//! kernel; no owner.

use memprof_trace::classify;

use super::free_pages::{ALIGNMENT as ARENA, FreePages, HeapHead};
use crate::base::component::{Component, LIMIT};
use crate::base::kernel;
use crate::base::pagemap::Run;

/// Address range of one owner.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub start: usize,
    pub end: usize,
    pub owner: Component,
}

/// Facts about owners. A function that returns a span returns the one with the lowest end above an
/// address; spans of one kind do not overlap.
pub trait World {
    fn tool(&self, address: usize) -> Option<Span>;
    /// Returns a large block, with its exact bytes.
    fn block(&self, address: usize) -> Option<Span>;
    /// Returns a mapping whose creation the tool saw. An allocator's mapping has
    /// [`Component::SLACK`].
    fn range(&self, address: usize) -> Option<Span>;
    /// Returns private memory by the object that requested it from the kernel, where the call may
    /// have served another one.
    fn asked(&self, address: usize) -> Option<Span>;
    fn object(&self, address: usize) -> Option<Span>;
    /// Calls `each` with the live bytes of small blocks between two addresses by owner. Returns how
    /// many of them are a guess; `None` where no block ever lived.
    fn share(&self, start: usize, end: usize, each: &mut dyn FnMut(Component, u64)) -> Option<u64>;
    /// Calls `each` with the components that last used the memory between two addresses, and the
    /// bytes that they may have left free.
    fn freed(&self, start: usize, end: usize, each: &mut dyn FnMut(Component, u64));
    /// Calls `each` with parts of a range in ascending order: begin, end, and the live bytes of
    /// small blocks there.
    fn live(&self, start: usize, end: usize, each: &mut dyn FnMut(usize, usize, u64));
    /// Returns the first words of a heap of a thread arena, if the memory can be read.
    fn heap(&self, start: usize) -> Option<HeapHead>;
    fn is_mpi(&self, component: Component) -> bool;
    /// Returns true if a block was there a moment ago: it may be free while its pages are still
    /// resident.
    fn was_block(&self, start: usize, end: usize) -> bool;
}

/// Backing of a mapping.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Backing {
    Anonymous,
    /// The mapping that `brk` moves.
    Heap,
    /// Stack of the first thread.
    Stack,
    /// Made by the kernel: vdso and others.
    Kernel,
    /// Pages of a file, or modified copies of them.
    File,
    /// Pages of a file whose changes all processes see.
    SharedFile,
    /// Memory shared with other processes.
    SharedMemory,
    /// Memory that an MPI library shares with other processes, as its name shows.
    MpiMemory,
    /// Shared memory that is a window of the program in an MPI, as its name shows.
    MpiWindow,
}

/// One mapping.
#[derive(Copy, Clone, Debug)]
pub struct Mapping {
    pub start: usize,
    pub end: usize,
    pub backing: Backing,
    /// True if it is in huge pages that the kernel does not count as resident.
    pub hugetlb: bool,
}

/// Memory of a component.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    pub resident: u64,
    pub shared: u64,
    pub huge: u64,
    pub swapped: u64,
    /// Bound on the error of `resident`, to which `moved` adds.
    pub error: u64,
    /// Bytes moved to the component after the walk.
    pub moved: u64,
}

impl Share {
    /// Moves bytes of private memory to another component.
    pub fn give(&mut self, to: &mut Share, bytes: u64) {
        self.resident -= bytes;
        to.resident += bytes;
        let huge = self.huge.saturating_sub(self.resident);
        self.huge -= huge;
        to.huge += huge;
    }
}

/// Memory of all components.
pub struct Totals {
    pub components: [Share; LIMIT],
    /// Part of the resident memory in huge pages that the kernel does not count.
    pub hugetlb: u64,
    /// Part of the slack that each component has left.
    pub left: [u64; LIMIT],
    /// Resident and swapped bytes that components own because they requested them from the kernel,
    /// and no other owner is known.
    pub asked: [u64; LIMIT],
    /// Pages of the C library's heaps without a live block.
    pub free_pages: FreePages,
    /// Bytes of small blocks in the range being examined; stored here since the stack may be a
    /// program's small one.
    small: [u64; LIMIT],
}

impl Totals {
    pub const fn new() -> Totals {
        const NOTHING: Share =
            Share { resident: 0, shared: 0, huge: 0, swapped: 0, error: 0, moved: 0 };
        Totals {
            components: [NOTHING; LIMIT],
            hugetlb: 0,
            left: [0; LIMIT],
            asked: [0; LIMIT],
            free_pages: FreePages::new(),
            small: [0; LIMIT],
        }
    }

    pub fn clear(&mut self) {
        self.components.fill(Share::default());
        self.left.fill(0);
        self.asked.fill(0);
        self.free_pages.clear();
        self.hugetlb = 0;
    }

    pub fn resident(&self) -> u64 {
        self.components.iter().map(|share| share.resident).sum()
    }

    fn add(&mut self, owner: Component, bytes: u64, run: &Run) {
        let share = &mut self.components[usize::from(owner.0) % LIMIT];
        if run.is_present() {
            share.resident += bytes;
            if run.is_shared() {
                share.shared += bytes;
            }
            if run.is_huge() {
                share.huge += bytes;
            }
        } else {
            share.swapped += bytes;
        }
    }
}

/// Bytes that the C library and the profiler add to a block, before or behind it.
const BESIDE: usize = 16;
/// Size of the ranges looked up at once: the regions of the table of small blocks.
const REGION: usize = 4 << 20;

/// Cached result for one kind of span, so that each span is looked up once.
#[derive(Copy, Clone)]
enum Cursor {
    Unknown,
    At(Span),
    None,
}

impl Cursor {
    fn at(&mut self, address: usize, look: impl FnOnce(usize) -> Option<Span>) -> Option<Span> {
        let stale = match self {
            Cursor::Unknown => true,
            Cursor::At(span) => span.end <= address,
            Cursor::None => false,
        };
        if stale {
            *self = look(address).map_or(Cursor::None, Cursor::At);
        }
        match self {
            Cursor::At(span) => Some(*span),
            _ => None,
        }
    }
}

/// Unclaimed memory, until the whole mapping has been walked: only the sums of the runs matter.
#[derive(Copy, Clone, Default)]
struct Pending {
    plain: u64,
    shared: u64,
    huge: u64,
    swapped: u64,
}

/// Walks through the present pages of mappings in ascending order of address.
pub struct Walker<'w, W> {
    world: &'w W,
    /// Component of the C library.
    system: Component,
    totals: &'w mut Totals,
    tool: Cursor,
    range: Cursor,
    object: Cursor,
    asked: Cursor,
    pending: Pending,
    /// Part of the unclaimed memory that an object is known to have requested, and the last such
    /// object.
    asked_for: Pending,
    asker: Component,
    /// True if small blocks live in this mapping.
    small: bool,
    /// Upper bound of the bytes that large blocks of this mapping leave unused.
    spare: u64,
}

impl<'w, W: World> Walker<'w, W> {
    pub fn new(world: &'w W, system: Component, totals: &'w mut Totals) -> Walker<'w, W> {
        Walker {
            world,
            system,
            totals,
            tool: Cursor::Unknown,
            range: Cursor::Unknown,
            object: Cursor::Unknown,
            asked: Cursor::Unknown,
            pending: Pending::default(),
            asked_for: Pending::default(),
            asker: Component::UNATTRIBUTED,
            small: false,
            spare: 0,
        }
    }

    /// Adds a run of equal pages of a mapping. The runs of a mapping are added in order, then
    /// [`Self::end`] is called.
    pub fn run(&mut self, mapping: &Mapping, run: &Run) {
        let (mut at, end) = (run.start as usize, run.end as usize);
        if mapping.hugetlb && run.is_present() {
            self.totals.hugetlb += (end - at) as u64;
        }
        while at < end {
            let world = self.world;
            let tool = self.tool.at(at, |address| world.tool(address));
            let range = self.range.at(at, |address| world.range(address));
            let object = self.object.at(at, |address| world.object(address));
            let mut stop = end;
            let mut owner = None;
            // The first span that covers the address is the owner; the others limit the length.
            for span in [tool, range, object].into_iter().flatten() {
                if span.start > at {
                    stop = stop.min(span.start);
                } else {
                    stop = stop.min(span.end);
                    owner = owner.or(Some(span.owner));
                }
            }
            let asked = self.asked.at(at, |address| world.asked(address));
            let asker = match asked {
                Some(span) if span.start <= at => {
                    stop = stop.min(span.end);
                    Some(span.owner)
                }
                Some(span) => {
                    stop = stop.min(span.start);
                    None
                }
                None => None,
            };
            let is_tool = tool.is_some_and(|span| span.start <= at);
            if is_tool {
                self.totals.add(Component::TOOL, (stop - at) as u64, run);
            } else {
                self.stretch(mapping, run, at, stop, (owner, asker));
            }
            at = stop;
        }
    }

    /// Returns the owner of a shared mapping or of one of a file, determined by its first address.
    pub fn owner(&self, mapping: &Mapping) -> Component {
        let covers = |span: &Span| span.start <= mapping.start;
        let claim = self.world.range(mapping.start).filter(covers);
        let claim = claim.or_else(|| self.world.object(mapping.start).filter(covers));
        let claim = claim.map(|span| span.owner);
        if self.world.tool(mapping.start).is_some_and(|span| covers(&span)) {
            Component::TOOL
        } else if mapping.backing == Backing::File {
            claim.unwrap_or(self.system)
        } else {
            self.shared_owner(mapping.backing, claim)
        }
    }

    /// Adds present pages with at most one claim, and at most one object that requested them.
    fn stretch(
        &mut self,
        mapping: &Mapping,
        run: &Run,
        start: usize,
        end: usize,
        (claim, asker): (Option<Component>, Option<Component>),
    ) {
        let length = (end - start) as u64;
        match mapping.backing {
            Backing::Anonymous | Backing::Heap => {
                let given = self.blocks(mapping, run, (start, end), claim);
                let rest = length - given;
                match (mapping.backing, claim) {
                    (_, Some(owner)) => self.totals.add(owner, rest, run),
                    (_, None) if given == 0 && self.world.was_block(start, end) => {
                        self.totals.add(Component::SLACK, rest, run);
                    }
                    (Backing::Heap, None) => self.totals.add(Component::SLACK, rest, run),
                    _ => self.keep(rest, run, asker),
                }
            }
            Backing::Stack => {
                self.totals.add(claim.unwrap_or(Component::MAIN_STACK), length, run);
            }
            Backing::Kernel => self.totals.add(self.system, length, run),
            Backing::File => self.totals.add(claim.unwrap_or(self.system), length, run),
            Backing::SharedFile
            | Backing::SharedMemory
            | Backing::MpiMemory
            | Backing::MpiWindow => {
                let owner = self.shared_owner(mapping.backing, claim);
                self.totals.add(owner, length, run);
            }
        }
    }

    /// Returns the component of shared pages whose mapping `claim` made.
    fn shared_owner(&self, backing: Backing, claim: Option<Component>) -> Component {
        match claim {
            Some(Component::MPI_FOR_USER) => Component::MPI_FOR_USER,
            _ if backing == Backing::MpiWindow => Component::MPI_FOR_USER,
            Some(owner) if self.world.is_mpi(owner) => Component::MPI_SHARED,
            _ if backing == Backing::MpiMemory => Component::MPI_SHARED,
            _ if backing == Backing::SharedMemory => Component::APPLICATION_SHARED,
            Some(owner) => owner,
            None => self.system,
        }
    }

    /// Assigns the bytes of blocks between two addresses to their owners. Returns their number.
    fn blocks(
        &mut self,
        mapping: &Mapping,
        run: &Run,
        (start, end): (usize, usize),
        claim: Option<Component>,
    ) -> u64 {
        // A component that maps memory seldom has small blocks in it, unless it is the allocator.
        let has_small = claim.is_none_or(|owner| owner == Component::SLACK);
        let mut given = 0;
        let mut at = start;
        while at < end {
            let stop = if has_small { ((at / REGION + 1) * REGION).min(end) } else { end };
            let large = self.large_blocks(run, at, stop, start);
            given += large;
            if has_small {
                let room = (stop - at) as u64 - large;
                let small = self.small_blocks(run, at, stop, room);
                if run.is_present() {
                    let is_heap = claim.is_none() && self.free_pages(mapping, at, stop);
                    if is_heap {
                        self.totals.free_pages.count((stop - at) as u64, large + small);
                    }
                    self.leave(at, stop, room - small, is_heap);
                }
                given += small;
            }
            at = stop;
        }
        given
    }

    /// Does what [`Self::blocks`] does for large blocks, between two addresses of the range that
    /// began at `start`.
    fn large_blocks(&mut self, run: &Run, from: usize, stop: usize, start: usize) -> u64 {
        let mut given = 0;
        let mut at = from;
        while at < stop
            && let Some(block) = self.world.block(at).filter(|block| block.start < stop)
        {
            let bytes = (block.end.min(stop) - block.start.max(at)) as u64;
            self.totals.add(block.owner, bytes, run);
            // Only where it was not counted before.
            if from == start || block.start >= from {
                self.spare += spare_beside(block.start);
            }
            given += bytes;
            at = block.end;
        }
        given
    }

    /// Does what [`Self::blocks`] does for small blocks in one region, of which there cannot be
    /// more than the `room` that large ones leave.
    fn small_blocks(&mut self, run: &Run, at: usize, stop: usize, room: u64) -> u64 {
        let mut sum = 0;
        let small = &mut self.totals.small;
        small.fill(0);
        let guess = self.world.share(at, stop, &mut |component, bytes| {
            sum += bytes;
            small[usize::from(component.0) % LIMIT] += bytes;
        });
        let Some(guess) = guess else { return 0 };
        if sum == 0 {
            return 0;
        }
        self.small = true;
        let scale = |bytes: u64| {
            if sum <= room {
                bytes
            } else {
                (u128::from(bytes) * u128::from(room) / u128::from(sum)) as u64
            }
        };
        let mut total = 0;
        for index in 0..LIMIT {
            let bytes = scale(self.totals.small[index]);
            if bytes == 0 {
                continue;
            }
            self.totals.add(Component(index as u16), bytes, run);
            let error = if sum > room { bytes } else { guess.min(bytes) };
            self.totals.components[index].error += error;
            total += bytes;
        }
        total
    }

    /// Adds the pages between two addresses that belong to a heap, with what lives there. Returns
    /// false if they belong to none.
    fn free_pages(&mut self, mapping: &Mapping, start: usize, end: usize) -> bool {
        let (world, page) = (self.world, kernel::page());
        let pages = &mut self.totals.free_pages;
        let (mut at, mut all) = (start, true);
        while at < end {
            let (heap, stop) = match mapping.backing {
                Backing::Heap => (0, end),
                _ if mapping.start.is_multiple_of(ARENA) => {
                    let heap = at & !(ARENA - 1);
                    (heap, (heap + ARENA).min(end))
                }
                _ => return false,
            };
            let is_heap = pages.enter(heap, || world.heap(heap));
            all &= is_heap;
            while at < stop && is_heap {
                let block = world.block(at).filter(|block| block.start < stop + BESIDE);
                let edge = |block: Span| (block.start - BESIDE) & !(page - 1);
                let from = block.map_or(stop, |block| edge(block).clamp(at, stop));
                if at < from {
                    world.live(at, from, &mut |start, end, live| pages.add(start, end, live, page));
                }
                let Some(block) = block else { break };
                at = (block.end + BESIDE).next_multiple_of(page).clamp(from, stop);
                if from < at {
                    pages.add(from, at, (at - from) as u64, page);
                }
            }
            at = stop;
        }
        all
    }

    /// Distributes the `free` bytes between two addresses among the components that left them, of
    /// the current heap too if they are in one.
    fn leave(&mut self, start: usize, end: usize, free: u64, is_heap: bool) {
        let small = &mut self.totals.small;
        small.fill(0);
        let mut sum = 0_u64;
        self.world.freed(start, end, &mut |component, bytes| {
            sum += bytes;
            small[usize::from(component.0) % LIMIT] += bytes;
        });
        // Bytes that no component is known to have left go to none.
        let whole = sum.max(free);
        for (index, (left, bytes)) in self.totals.left.iter_mut().zip(small).enumerate() {
            if *bytes > 0 {
                let bytes = (u128::from(*bytes) * u128::from(free) / u128::from(whole)) as u64;
                *left += bytes;
                if is_heap {
                    self.totals.free_pages.left(index, bytes);
                }
            }
        }
    }

    fn keep(&mut self, bytes: u64, run: &Run, asker: Option<Component>) {
        self.asker = asker.unwrap_or(self.asker);
        let pending = if asker.is_some() { &mut self.asked_for } else { &mut self.pending };
        if run.is_present() {
            pending.plain += bytes;
            pending.shared += if run.is_shared() { bytes } else { 0 };
            pending.huge += if run.is_huge() { bytes } else { 0 };
        } else {
            pending.swapped += bytes;
        }
    }

    /// Ends a mapping: its unclaimed part belongs to the allocator if blocks live there.
    pub fn end(&mut self, mapping: &Mapping) {
        let arena = mapping.start.is_multiple_of(ARENA) && mapping.end - mapping.start <= ARENA;
        let beside_blocks = if self.small { u64::MAX } else { self.spare };
        (self.small, self.spare) = (false, 0);
        let asked_for = core::mem::take(&mut self.asked_for);
        let pending = core::mem::take(&mut self.pending);
        let slack = if arena { u64::MAX } else { beside_blocks };
        let (taken, _) = self.assign_unclaimed(pending, slack, Component::UNATTRIBUTED);
        // The C library requests its arenas in another way.
        let (_, rest) =
            self.assign_unclaimed(asked_for, beside_blocks.saturating_sub(taken), self.asker);
        self.totals.asked[usize::from(self.asker.0) % LIMIT] += rest;
    }

    /// Assigns unclaimed memory to the allocator, up to `slack` bytes, and the rest to `owner`.
    /// Returns the present bytes that the allocator got, and all bytes that `owner` got.
    fn assign_unclaimed(&mut self, pending: Pending, slack: u64, owner: Component) -> (u64, u64) {
        let taken = pending.plain.min(slack);
        let all = taken == pending.plain;
        let part = |bytes: u64| if all { bytes } else { bytes.min(taken) };
        let (shared, huge, swapped) =
            (part(pending.shared), part(pending.huge), pending.swapped.min(slack));
        let allocator = &mut self.totals.components[usize::from(Component::SLACK.0)];
        allocator.resident += taken;
        allocator.shared += shared;
        allocator.huge += huge;
        allocator.swapped += swapped;
        let rest = &mut self.totals.components[usize::from(owner.0) % LIMIT];
        rest.resident += pending.plain - taken;
        rest.shared += pending.shared - shared;
        rest.huge += pending.huge - huge;
        rest.swapped += pending.swapped - swapped;
        (taken, pending.plain - taken + pending.swapped - swapped)
    }
}

/// Returns an upper bound of the bytes that a large block in a separate mapping leaves unused
/// there: a head and an end and, for a block requested at an aligned address, the alignment. Huge
/// pages make these bytes resident.
fn spare_beside(block: usize) -> u64 {
    const MOST: u64 = 1 << 30;
    let page = kernel::page();
    let alignment = if block.is_multiple_of(page) { 1_u64 << block.trailing_zeros() } else { 0 };
    2 * page as u64 + alignment.min(MOST)
}

/// Returns the backing that the path of a mapping shows. The kernel's own names are in brackets.
pub fn backing(path: &[u8], inode: u64, shared: bool) -> Backing {
    match path {
        b"[heap]" => Backing::Heap,
        b"[stack]" => Backing::Stack,
        b"" | b"[anon]" if !shared => Backing::Anonymous,
        _ if path.starts_with(b"[anon:") => Backing::Anonymous,
        _ if path.starts_with(b"[") && inode == 0 => Backing::Kernel,
        // Huge pages without a file.
        _ if path.starts_with(b"/anon_hugepage") && !shared => Backing::Anonymous,
        _ if !shared => Backing::File,
        _ if classify::is_window_memory(path) => Backing::MpiWindow,
        _ if classify::is_mpi_memory(path) => Backing::MpiMemory,
        _ if path.starts_with(b"/dev/shm/")
            || path.starts_with(b"/memfd:")
            || path.starts_with(b"/SYSV")
            || path.starts_with(b"/dev/zero")
            || path.starts_with(b"/anon_hugepage")
            || path.starts_with(b"/run/shm/")
            || path.is_empty() =>
        {
            Backing::SharedMemory
        }
        _ => Backing::SharedFile,
    }
}

/// Returns the owner of a shared mapping that the tool did not see being made.
pub fn maker(backing: Backing) -> Option<Component> {
    match backing {
        Backing::MpiMemory => Some(Component::MPI_SHARED),
        Backing::MpiWindow => Some(Component::MPI_FOR_USER),
        Backing::SharedMemory => Some(Component::APPLICATION_SHARED),
        _ => None,
    }
}

#[cfg(test)]
#[path = "attribute_tests.rs"]
mod tests;
