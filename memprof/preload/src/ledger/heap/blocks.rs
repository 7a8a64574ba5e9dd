//! The functions of the malloc family: ask the next allocator for eight bytes more, write the tag
//! there, and keep the ledger.
//!
//! Each takes, after its arguments, the address its caller continues at and the stack pointer at
//! entry; both are 0 where they cannot be seen.

#![allow(unsafe_code)]

use core::ptr;

use super::tag::{self, Tag};
use super::{
    GRANULES, IN_FLIGHT, LARGE, ThreadCounters, account, any_address, bootstrap, fast_path, large,
    next_allocator, own_state, registry,
};
use crate::base::arch::Errno;
use crate::base::component::{Component, LIMIT};
use crate::base::overflow_counters::{self, Table};
use crate::base::thread::{Local, local};
use crate::ledger::call_stacks;
use crate::owners;

/// Blocks of this size are looked at before they are released.
pub const LOOK_BEFORE_RELEASE: usize = 1 << 20;

/// End of the last bytes of any possible block; beyond, every allocator says no.
const NO_MEMORY: i32 = libc::ENOMEM;

/// Owner of an allocation.
#[inline(always)]
fn owner(local: &Local, caller: usize, stack: usize) -> Component {
    if caller != 0 && local.guard.get() == 0 {
        let found = owners::caller(caller);
        if !found.neutral {
            account::work_for_caller(local);
            return found.component;
        }
    }
    owner_by_thread(local, stack)
}

/// Owner where the caller cannot be seen, or allocates for others.
#[inline(never)]
fn owner_by_thread(local: &Local, stack: usize) -> Component {
    if local.guard.get() > 0 {
        return Component::TOOL;
    }
    if local.inside_mpi(stack)
        && let Some(mpi) = owners::mpi()
    {
        return mpi;
    }
    match local.home.get() {
        Component::UNATTRIBUTED => owners::executable(),
        home => home,
    }
}

/// A block that the real allocator made with room for a tag becomes one of the ledger. Gives the block.
#[inline(never)]
pub fn enter(block: *mut u8, size: usize, caller: usize, stack: usize) -> *mut u8 {
    #[cfg(test)]
    super::tests::generally();
    // SAFETY: a live block.
    let usable = unsafe { next_allocator::room_for_tag(block) };
    if usable >= size.saturating_add(tag::SIZE) {
        let local = local();
        let owner = owner(local, caller, stack);
        match own_state(local) {
            Some(state) => enter_noted(local, state, block, (size, usable), owner, (caller, stack)),
            None => enter_slowly(local, block, (size, usable), owner, (caller, stack)),
        }
    }
    block
}

#[cold]
#[inline(never)]
fn enter_slowly(
    local: &Local,
    block: *mut u8,
    sizes: (usize, usize),
    owner: Component,
    call: (usize, usize),
) {
    let state = registry::enter(local, block as usize);
    enter_noted(local, state, block, sizes, owner, call);
    registry::leave(local, state);
}

#[inline]
fn enter_noted(
    local: &Local,
    state: &ThreadCounters,
    block: *mut u8,
    (size, usable): (usize, usize),
    owner: Component,
    call: (usize, usize),
) {
    if usable < account::MOST_IN_FRONT
        && account::works_for(state, owner)
        && let Some(left) = account::left_after(state, size)
    {
        let size = write(block, usable, Tag { component: owner, size, sampled: false });
        place(state, block as usize, size, owner);
        return account::allocated_in_front(state, left, size);
    }
    let left = state.current.left() - size as i64;
    let sampled = if left < 0 {
        call_stacks::allocated(local, state, (block as usize, size), left, owner, call)
    } else {
        account::count_down(state, left);
        false
    };
    let size = write(block, usable, Tag { component: owner, size, sampled });
    place(state, block as usize, size, owner);
    account::allocated(state, owner, size);
}

/// Writes the tag of a block. Gives the size that counts.
#[inline(always)]
fn write(block: *mut u8, usable: usize, tag: Tag) -> usize {
    let (word, size) = tag::encode(block as usize, usable, tag, next_allocator::key());
    // SAFETY: the last bytes of the block, which nobody was told of.
    unsafe { block.add(usable - tag::SIZE).cast::<u64>().write_unaligned(word) };
    size
}

fn place(state: &ThreadCounters, start: usize, size: usize, owner: Component) {
    let is_large = size >= large::FROM;
    if !is_large || !LARGE.insert(start, size, owner, state.number()) {
        if is_large {
            overflow_counters::add(Table::Blocks);
        }
        GRANULES.change(state, start, size, owner, 1);
    }
    IN_FLIGHT.entered(usize::from(owner.0) % LIMIT, size);
}

fn displace(state: &ThreadCounters, start: usize, size: usize, owner: Component) {
    if size < large::FROM || !LARGE.remove(start) {
        GRANULES.change(state, start, size, owner, -1);
    }
}

/// The tag of a block and where it is, if it is one of the ledger.
#[inline(always)]
fn tag_of(block: *const u8) -> Option<(Tag, *mut u64)> {
    // SAFETY: a live block.
    let usable = unsafe { next_allocator::room_for_tag(block) };
    if usable < tag::SIZE {
        return None;
    }
    let place = block.wrapping_add(usable - tag::SIZE).cast::<u64>().cast_mut();
    // SAFETY: the last bytes of a live block.
    let word = unsafe { place.read_unaligned() };
    tag::decode(block as usize, usable, word, next_allocator::key()).map(|tag| (tag, place))
}

/// Runs with the counters of this thread, on a block.
fn with_state(block: usize, work: impl FnOnce(&ThreadCounters)) {
    let local = local();
    match own_state(local) {
        Some(state) => work(state),
        None => {
            let state = registry::enter(local, block);
            work(state);
            registry::leave(local, state);
        }
    }
}

/// The block leaves the ledger. Returns owner and size if it was counted by
/// [`InFlight::frees`](super::in_flight::InFlight::frees).
#[inline(always)]
fn leave(block: *mut u8) -> Option<(Component, usize)> {
    let (tag, place) = tag_of(block)?;
    // SAFETY: the tag of a live block.
    unsafe { place.write_unaligned(0) };
    let state = own_state(local());
    match state {
        Some(state) if tag.size < large::FROM && !tag.sampled => {
            GRANULES.change(state, block as usize, tag.size, tag.component, -1);
            account::freed(state, tag.component, tag.size);
            None
        }
        _ => leave_noted(block as usize, tag.size, tag.component, tag.sampled),
    }
}

/// A block that is large, or sampled, or freed by a thread without counters.
#[inline(never)]
fn leave_noted(
    start: usize,
    size: usize,
    owner: Component,
    sampled: bool,
) -> Option<(Component, usize)> {
    let takes_long = size >= LOOK_BEFORE_RELEASE;
    if takes_long {
        super::before_release(start, size);
        IN_FLIGHT.frees(usize::from(owner.0) % LIMIT, size);
    }
    if sampled {
        call_stacks::freed(start);
    }
    with_state(start, |state| {
        displace(state, start, size, owner);
        account::freed(state, owner, size);
    });
    takes_long.then_some((owner, size))
}

#[cold]
#[inline(never)]
fn without_real(size: usize, alignment: usize) -> *mut u8 {
    let block = bootstrap::allocate(size, alignment);
    if block.is_null() {
        Errno::set(NO_MEMORY);
    }
    block
}

/// Finishes an allocation of `size` bytes for which `block` was made.
#[inline(always)]
fn finish(block: *mut u8, size: usize, caller: usize, stack: usize) -> *mut u8 {
    if block.is_null() {
        block
    } else if next_allocator::is_quick() {
        fast_path::enter(block, size, caller, stack)
    } else {
        enter(block, size, caller, stack)
    }
}

pub unsafe extern "C-unwind" fn malloc(size: usize, caller: usize, stack: usize) -> *mut u8 {
    if !next_allocator::is_quick() {
        // SAFETY: as the caller's.
        return unsafe { malloc_generally(size, caller, stack) };
    }
    let Some(ask) = size.checked_add(tag::SIZE) else { return impossible() };
    // SAFETY: as the caller's.
    let block = unsafe { next_allocator::quick_malloc()(ask) };
    if block.is_null() { block } else { fast_path::enter(block, size, caller, stack) }
}

/// More than can be allocated.
#[cold]
#[inline(never)]
fn impossible() -> *mut u8 {
    Errno::set(NO_MEMORY);
    ptr::null_mut()
}

#[inline(never)]
unsafe fn malloc_generally(size: usize, caller: usize, stack: usize) -> *mut u8 {
    let Some(real) = next_allocator::malloc() else { return without_real(size, 1) };
    if next_allocator::is_disabled() {
        // SAFETY: as the caller's.
        return unsafe { real(size) };
    }
    // SAFETY: as the caller's.
    let block = unsafe { real(size.saturating_add(tag::SIZE)) };
    finish(block, size, caller, stack)
}

pub unsafe extern "C-unwind" fn calloc(
    count: usize,
    each: usize,
    caller: usize,
    stack: usize,
) -> *mut u8 {
    let Some(real) = next_allocator::calloc() else {
        return match count.checked_mul(each) {
            Some(size) => without_real(size, 1),
            None => without_real(usize::MAX, 1),
        };
    };
    if next_allocator::is_disabled() {
        // SAFETY: as the caller's.
        return unsafe { real(count, each) };
    }
    match count.checked_mul(each).and_then(|size| Some((size, size.checked_add(tag::SIZE)?))) {
        // SAFETY: as the caller's.
        Some((size, ask)) => finish(unsafe { real(1, ask) }, size, caller, stack),
        // SAFETY: as the caller's; it fails.
        None => unsafe { real(count, each) },
    }
}

pub unsafe extern "C-unwind" fn realloc(
    block: *mut u8,
    size: usize,
    caller: usize,
    stack: usize,
) -> *mut u8 {
    if block.is_null() {
        // SAFETY: as the caller's.
        return unsafe { malloc(size, caller, stack) };
    }
    if bootstrap::holds(block) {
        // SAFETY: as the caller's.
        return unsafe { move_out(block, size, caller, stack) };
    }
    let Some(real) = next_allocator::realloc() else {
        if next_allocator::settled() {
            // SAFETY: as before.
            return unsafe { realloc(block, size, caller, stack) };
        }
        Errno::set(NO_MEMORY);
        return ptr::null_mut();
    };
    if next_allocator::is_disabled() {
        // SAFETY: as the caller's.
        return unsafe { real(block, size) };
    }
    let ask = if size == 0 { 0 } else { size.saturating_add(tag::SIZE) };
    let before = tag_of(block);
    if let Some((tag, place)) = before {
        if tag.size >= LOOK_BEFORE_RELEASE && size < tag.size {
            super::before_release(block as usize, tag.size);
        }
        // SAFETY: the tag of a live block.
        unsafe { place.write_unaligned(0) };
        IN_FLIGHT.leaves(usize::from(tag.component.0) % LIMIT, tag.size);
        with_state(block as usize, |state| {
            displace(state, block as usize, tag.size, tag.component)
        });
    }
    // SAFETY: as the caller's.
    let moved = unsafe { real(block, ask) };
    if let Some((tag, at)) = before {
        if moved.is_null() && size != 0 {
            put_back(block, tag, at);
            IN_FLIGHT.entered_again(usize::from(tag.component.0) % LIMIT, tag.size);
            return moved;
        }
        if tag.sampled {
            call_stacks::freed(block as usize);
        }
        with_state(block as usize, |state| account::freed(state, tag.component, tag.size));
    }
    let moved = finish(moved, size, caller, stack);
    if let Some((tag, _)) = before {
        IN_FLIGHT.entered_again(usize::from(tag.component.0) % LIMIT, tag.size);
    }
    moved
}

/// A reallocation failed: the block is unchanged.
#[cold]
fn put_back(block: *mut u8, tag: Tag, at: *mut u64) {
    let errno = Errno::save();
    let usable = at as usize + tag::SIZE - block as usize;
    let (word, size) = tag::encode(block as usize, usable, tag, next_allocator::key());
    // SAFETY: the place of the tag in a block that still lives.
    unsafe { at.write_unaligned(word) };
    with_state(block as usize, |state| place(state, block as usize, size, tag.component));
    errno.restore();
}

/// A block from before the real allocator was known.
#[cold]
unsafe fn move_out(block: *mut u8, size: usize, caller: usize, stack: usize) -> *mut u8 {
    // SAFETY: as the caller's; both blocks hold what is copied.
    unsafe {
        let new = malloc(size, caller, stack);
        if !new.is_null() {
            ptr::copy_nonoverlapping(block, new, bootstrap::size(block).min(size));
        }
        new
    }
}

pub unsafe extern "C-unwind" fn reallocarray(
    block: *mut u8,
    count: usize,
    each: usize,
    caller: usize,
    stack: usize,
) -> *mut u8 {
    match count.checked_mul(each) {
        // SAFETY: as the caller's.
        Some(size) => unsafe { realloc(block, size, caller, stack) },
        None => {
            Errno::set(NO_MEMORY);
            ptr::null_mut()
        }
    }
}

#[inline(always)]
pub unsafe extern "C-unwind" fn free(block: *mut u8, _caller: usize, _stack: usize) {
    if block.is_null() {
        return;
    }
    // SAFETY: as the caller's.
    unsafe { fast_path::free(block) }
}

/// As `free`, of any block but null.
///
/// # Safety
/// As the real function's.
#[inline(never)]
pub unsafe fn free_generally(block: *mut u8) {
    #[cfg(test)]
    super::tests::generally();
    if bootstrap::holds(block) {
        return;
    }
    let Some(real) = next_allocator::free() else {
        if next_allocator::settled() {
            // SAFETY: as the caller's.
            unsafe { free(block, 0, 0) };
        }
        return;
    };
    let leaving = if next_allocator::is_disabled() { None } else { leave(block) };
    // SAFETY: as the caller's.
    unsafe { real(block) }
    if let Some((owner, size)) = leaving {
        IN_FLIGHT.freed(usize::from(owner.0) % LIMIT, size);
    }
}

pub unsafe extern "C-unwind" fn memalign(
    alignment: usize,
    size: usize,
    caller: usize,
    stack: usize,
) -> *mut u8 {
    let Some(real) = next_allocator::memalign() else { return without_real(size, alignment) };
    if next_allocator::is_disabled() {
        // SAFETY: as the caller's.
        return unsafe { real(alignment, size) };
    }
    // SAFETY: as the caller's.
    let block = unsafe { real(alignment, size.saturating_add(tag::SIZE)) };
    finish(block, size, caller, stack)
}

pub unsafe extern "C-unwind" fn aligned_alloc(
    alignment: usize,
    size: usize,
    caller: usize,
    stack: usize,
) -> *mut u8 {
    if alignment.is_power_of_two() {
        // Some allocators' aligned_alloc wants a multiple of the alignment, which a tag breaks.
        // SAFETY: as the caller's.
        return unsafe { memalign(alignment, size, caller, stack) };
    }
    let Some(real) = next_allocator::aligned_alloc() else { return without_real(size, 1) };
    if next_allocator::is_disabled() {
        // SAFETY: as the caller's.
        return unsafe { real(alignment, size) };
    }
    // SAFETY: as the caller's.
    let block = unsafe { real(alignment, size.saturating_add(tag::SIZE)) };
    finish(block, size, caller, stack)
}

pub unsafe extern "C-unwind" fn posix_memalign(
    into: *mut *mut u8,
    alignment: usize,
    size: usize,
    caller: usize,
    stack: usize,
) -> i32 {
    let Some(real) = next_allocator::posix_memalign() else {
        let block = bootstrap::allocate(size, alignment);
        if block.is_null() {
            return NO_MEMORY;
        }
        // SAFETY: as the caller's.
        unsafe { *into = block };
        return 0;
    };
    if next_allocator::is_disabled() {
        // SAFETY: as the caller's.
        return unsafe { real(into, alignment, size) };
    }
    // SAFETY: as the caller's.
    let result = unsafe { real(into, alignment, size.saturating_add(tag::SIZE)) };
    if result == 0 {
        // SAFETY: it was just written.
        finish(unsafe { *into }, size, caller, stack);
    }
    result
}

fn page_size() -> usize {
    // SAFETY: no precondition.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

pub unsafe extern "C-unwind" fn valloc(size: usize, caller: usize, stack: usize) -> *mut u8 {
    // SAFETY: as the caller's.
    unsafe { memalign(page_size(), size, caller, stack) }
}

pub unsafe extern "C-unwind" fn pvalloc(size: usize, caller: usize, stack: usize) -> *mut u8 {
    match size.checked_next_multiple_of(page_size()) {
        // SAFETY: as the caller's.
        Some(size) => unsafe { memalign(page_size(), size, caller, stack) },
        None => match next_allocator::pvalloc() {
            // SAFETY: as the caller's; it fails.
            Some(real) => unsafe { real(size) },
            None => without_real(size, 1),
        },
    }
}

pub unsafe extern "C-unwind" fn malloc_usable_size(
    block: *mut u8,
    _caller: usize,
    _stack: usize,
) -> usize {
    if block.is_null() {
        return 0;
    }
    if bootstrap::holds(block) {
        // SAFETY: a block of the arena.
        return unsafe { bootstrap::size(block) };
    }
    let Some(real) = next_allocator::usable() else { return 0 };
    // SAFETY: as the caller's.
    let bytes = unsafe { real(block) };
    if tag_of(block).is_some() { bytes - tag::SIZE } else { bytes }
}

/// Another component owns the block from now on. False if it is none of the ledger; any address will do, since memory
/// of an MPI may lie within a mapping or a pool.
pub fn give(block: *const u8, to: Component) -> bool {
    if block.is_null() || bootstrap::holds(block) {
        return false;
    }
    if LARGE.get(block as usize).is_none() && !any_address::seems_a_block(block as usize) {
        return false;
    }
    let Some((tag, at)) = tag_of(block) else { return false };
    let usable = at as usize + tag::SIZE - block as usize;
    let (word, size) =
        tag::encode(block as usize, usable, Tag { component: to, ..tag }, next_allocator::key());
    // SAFETY: the place of the tag in a live block.
    unsafe { at.write_unaligned(word) };
    with_state(block as usize, |state| {
        displace(state, block as usize, size, tag.component);
        place(state, block as usize, size, to);
        account::given(state, tag.component, to, size);
    });
    true
}

/// Owner of a live block.
pub fn owner_of(block: *const u8) -> Option<Component> {
    look(block).map(|(owner, _)| owner)
}

/// Owner of a block, and its requested size.
pub fn look(block: *const u8) -> Option<(Component, usize)> {
    if block.is_null() || bootstrap::holds(block) {
        return None;
    }
    tag_of(block).map(|(tag, _)| (tag.component, tag.size))
}
