//! Functions of the malloc family: each asks the next allocator for eight more bytes, writes the
//! tag there, and updates the ledger.
//!
//! Each function takes, after its arguments, the return address of its caller and the stack pointer
//! at entry; both are 0 where they are not known.

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

/// Blocks of this size and larger are examined before they are released.
pub const LOOK_BEFORE_RELEASE: usize = 1 << 20;

/// Error number for a size that no allocator can provide.
const NO_MEMORY: i32 = libc::ENOMEM;

/// Returns the owner of an allocation.
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

/// Returns the owner where the caller is not known, or allocates on behalf of others.
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

/// Enters a block into the ledger, which the real allocator made with room for a tag. Returns the
/// block.
#[inline(never)]
pub fn enter(block: *mut u8, size: usize, caller: usize, stack: usize) -> *mut u8 {
    #[cfg(test)]
    super::tests::generally();
    // SAFETY: the block is live.
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

/// Writes the tag of a block. Returns the size that the ledger counts.
#[inline(always)]
fn write(block: *mut u8, usable: usize, tag: Tag) -> usize {
    let (word, size) = tag::encode(block as usize, usable, tag, next_allocator::key());
    // SAFETY: the last bytes of the block, which the program does not know yet.
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

/// Returns the tag of a block and its address, if the block is in the ledger.
#[inline(always)]
fn tag_of(block: *const u8) -> Option<(Tag, *mut u64)> {
    // SAFETY: the block is live.
    let usable = unsafe { next_allocator::room_for_tag(block) };
    if usable < tag::SIZE {
        return None;
    }
    let place = block.wrapping_add(usable - tag::SIZE).cast::<u64>().cast_mut();
    // SAFETY: the last bytes of a live block.
    let word = unsafe { place.read_unaligned() };
    tag::decode(block as usize, usable, word, next_allocator::key()).map(|tag| (tag, place))
}

/// Runs `work` with the counters of this thread or, if it has none, with shared ones.
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

/// Removes a block from the ledger. Returns its owner and size if
/// [`InFlight::frees`](super::in_flight::InFlight::frees) counted it.
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

/// Removes a block that is large, or sampled, or freed by a thread without counters.
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

/// Enters `block`, which was allocated for `size` bytes, into the ledger.
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
        // SAFETY: guaranteed by the caller.
        return unsafe { malloc_generally(size, caller, stack) };
    }
    let Some(ask) = size.checked_add(tag::SIZE) else { return impossible() };
    // SAFETY: guaranteed by the caller.
    let block = unsafe { next_allocator::quick_malloc()(ask) };
    if block.is_null() { block } else { fast_path::enter(block, size, caller, stack) }
}

/// Fails a request for more bytes than can be allocated.
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
        // SAFETY: guaranteed by the caller.
        return unsafe { real(size) };
    }
    // SAFETY: guaranteed by the caller.
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
        // SAFETY: guaranteed by the caller.
        return unsafe { real(count, each) };
    }
    match count.checked_mul(each).and_then(|size| Some((size, size.checked_add(tag::SIZE)?))) {
        // SAFETY: guaranteed by the caller.
        Some((size, ask)) => finish(unsafe { real(1, ask) }, size, caller, stack),
        // SAFETY: as the caller's; the call fails.
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
        // SAFETY: guaranteed by the caller.
        return unsafe { malloc(size, caller, stack) };
    }
    if bootstrap::holds(block) {
        // SAFETY: guaranteed by the caller.
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
        // SAFETY: guaranteed by the caller.
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
    // SAFETY: guaranteed by the caller.
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

/// Re-enters a block whose reallocation failed: the block is unchanged.
#[cold]
fn put_back(block: *mut u8, tag: Tag, at: *mut u64) {
    let errno = Errno::save();
    let usable = at as usize + tag::SIZE - block as usize;
    let (word, size) = tag::encode(block as usize, usable, tag, next_allocator::key());
    // SAFETY: the tag's place in a block that is still live.
    unsafe { at.write_unaligned(word) };
    with_state(block as usize, |state| place(state, block as usize, size, tag.component));
    errno.restore();
}

/// Moves a block out of the bootstrap arena, which served requests before the real allocator was
/// known.
#[cold]
unsafe fn move_out(block: *mut u8, size: usize, caller: usize, stack: usize) -> *mut u8 {
    // SAFETY: as the caller's; both blocks hold the copied bytes.
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
        // SAFETY: guaranteed by the caller.
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
    // SAFETY: guaranteed by the caller.
    unsafe { fast_path::free(block) }
}

/// Does what `free` does, for any block except null.
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
            // SAFETY: guaranteed by the caller.
            unsafe { free(block, 0, 0) };
        }
        return;
    };
    let leaving = if next_allocator::is_disabled() { None } else { leave(block) };
    // SAFETY: guaranteed by the caller.
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
        // SAFETY: guaranteed by the caller.
        return unsafe { real(alignment, size) };
    }
    // SAFETY: guaranteed by the caller.
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
        // The aligned_alloc of some allocators requires a multiple of the alignment, which the tag
        // would break.
        // SAFETY: guaranteed by the caller.
        return unsafe { memalign(alignment, size, caller, stack) };
    }
    let Some(real) = next_allocator::aligned_alloc() else { return without_real(size, 1) };
    if next_allocator::is_disabled() {
        // SAFETY: guaranteed by the caller.
        return unsafe { real(alignment, size) };
    }
    // SAFETY: guaranteed by the caller.
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
        // SAFETY: guaranteed by the caller.
        unsafe { *into = block };
        return 0;
    };
    if next_allocator::is_disabled() {
        // SAFETY: guaranteed by the caller.
        return unsafe { real(into, alignment, size) };
    }
    // SAFETY: guaranteed by the caller.
    let result = unsafe { real(into, alignment, size.saturating_add(tag::SIZE)) };
    if result == 0 {
        // SAFETY: the call above has just written the pointer.
        finish(unsafe { *into }, size, caller, stack);
    }
    result
}

fn page_size() -> usize {
    // SAFETY: no precondition.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

pub unsafe extern "C-unwind" fn valloc(size: usize, caller: usize, stack: usize) -> *mut u8 {
    // SAFETY: guaranteed by the caller.
    unsafe { memalign(page_size(), size, caller, stack) }
}

pub unsafe extern "C-unwind" fn pvalloc(size: usize, caller: usize, stack: usize) -> *mut u8 {
    match size.checked_next_multiple_of(page_size()) {
        // SAFETY: guaranteed by the caller.
        Some(size) => unsafe { memalign(page_size(), size, caller, stack) },
        None => match next_allocator::pvalloc() {
            // SAFETY: as the caller's; the call fails.
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
    // SAFETY: guaranteed by the caller.
    let bytes = unsafe { real(block) };
    if tag_of(block).is_some() { bytes - tag::SIZE } else { bytes }
}

/// Makes another component the owner of a block. Returns false if the block is not in the ledger.
/// Any address is allowed, since memory of an MPI may lie within a mapping or a pool.
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
    // SAFETY: the tag's place in a live block.
    unsafe { at.write_unaligned(word) };
    with_state(block as usize, |state| {
        displace(state, block as usize, size, tag.component);
        place(state, block as usize, size, to);
        account::given(state, tag.component, to, size);
    });
    true
}

/// Returns the owner of a live block.
pub fn owner_of(block: *const u8) -> Option<Component> {
    look(block).map(|(owner, _)| owner)
}

/// Returns the owner of a block and its requested size.
pub fn look(block: *const u8) -> Option<(Component, usize)> {
    if block.is_null() || bootstrap::holds(block) {
        return None;
    }
    tag_of(block).map(|(tag, _)| (tag.component, tag.size))
}
