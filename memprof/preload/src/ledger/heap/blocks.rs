//! Blocks in the ledger: the tag in the last eight bytes of a block, and the updates of the tables and
//! counters for blocks that are allocated, freed, moved or given to another component.

#![allow(unsafe_code)]

use super::tag::{self, Tag};
use super::{
    GRANULES, IN_FLIGHT, LARGE, ThreadCounters, account, any_address, bootstrap, large,
    next_allocator, registry, thread_counters,
};
use crate::base::arch::Errno;
use crate::base::component::{Component, LIMIT};
use crate::base::overflow_counters::{self, Table};
use crate::base::thread::{Guard, Local, local};
use crate::ledger::call_stacks;
use crate::owners;

/// Blocks of this size and larger are examined before they are released: none of them takes the
/// fast path.
pub const LOOK_BEFORE_RELEASE: usize = account::MAX_PENDING;

/// Returns the owner of an allocation.
#[inline(always)]
fn owner(local: &Local, caller: usize, stack: usize) -> Component {
    if caller != 0 && local.guard.get() == 0 {
        let found = owners::caller(caller);
        if !found.neutral {
            account::work_for_caller(local);
            return found.component;
        }
        if found.trampoline
            && let Some(owner) = owner_further_out(caller, stack)
        {
            return owner;
        }
    }
    owner_by_thread(local, stack)
}

/// Returns the owner of the first frame that is not in a trampoline, if it does not allocate for
/// others.
#[cold]
#[inline(never)]
fn owner_further_out(caller: usize, stack: usize) -> Option<Component> {
    let errno = Errno::save();
    let _guard = Guard::enter();
    let (frames, depth) = call_stacks::stack(caller, stack);
    errno.restore();
    let mut callers = frames[..depth].iter().map(|frame| owners::caller_further_out(*frame));
    let first = callers.find(|caller| !caller.trampoline)?;
    (!first.neutral).then_some(first.component)
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
        registry::with(local, block as usize, |state| {
            enter_noted(local, state, block, (size, usable), owner, (caller, stack));
        });
    }
    block
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
    if usable < account::MAX_PENDING
        && account::works_for(state, owner)
        && let Some(left) = account::left_after(state, size)
    {
        let size = write(block, usable, Tag { component: owner, size, sampled: false });
        place(state, block as usize, size, owner);
        return account::count_pending_allocation(state, left, size);
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

pub fn place(state: &ThreadCounters, start: usize, size: usize, owner: Component) {
    let is_large = size >= large::FROM;
    if !is_large || !LARGE.insert(start, size, owner, state.number()) {
        if is_large {
            overflow_counters::add(Table::Blocks);
        }
        GRANULES.change(state, start, size, owner, 1);
    }
    IN_FLIGHT.entered(usize::from(owner.0) % LIMIT, size);
}

pub fn displace(state: &ThreadCounters, start: usize, size: usize, owner: Component) {
    if size < large::FROM || !LARGE.remove(start) {
        GRANULES.change(state, start, size, owner, -1);
    }
}

/// Returns the tag of a block and its address, if the block is in the ledger.
#[inline(always)]
pub fn tag_of(block: *const u8) -> Option<(Tag, *mut u64)> {
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

/// Removes a block from the ledger. Returns its owner and size if
/// [`InFlight::frees`](super::in_flight::InFlight::frees) counted it.
#[inline(always)]
fn leave(block: *mut u8) -> Option<(Component, usize)> {
    let (tag, place) = tag_of(block)?;
    // SAFETY: the tag of a live block.
    unsafe { place.write_unaligned(0) };
    match thread_counters::own(local()) {
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
    registry::with(local(), start, |state| {
        displace(state, start, size, owner);
        account::freed(state, owner, size);
    });
    takes_long.then_some((owner, size))
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
            unsafe { free_generally(block) };
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

/// Re-enters a block whose reallocation failed: the block is unchanged.
#[cold]
pub fn put_back(block: *mut u8, tag: Tag, at: *mut u64) {
    let errno = Errno::save();
    let usable = at as usize + tag::SIZE - block as usize;
    let (word, size) = tag::encode(block as usize, usable, tag, next_allocator::key());
    // SAFETY: the tag's place in a block that is still live.
    unsafe { at.write_unaligned(word) };
    registry::with(local(), block as usize, |state| {
        place(state, block as usize, size, tag.component)
    });
    errno.restore();
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
    registry::with(local(), block as usize, |state| {
        displace(state, block as usize, size, tag.component);
        place(state, block as usize, size, to);
        account::given(state, tag.component, to, size);
    });
    true
}

/// Returns the owner of a live block.
pub fn owner_of(block: *const u8) -> Option<Component> {
    owner_and_size(block).map(|(owner, _)| owner)
}

/// Returns the owner of a block and its requested size.
pub fn owner_and_size(block: *const u8) -> Option<(Component, usize)> {
    if block.is_null() || bootstrap::holds(block) {
        return None;
    }
    tag_of(block).map(|(tag, _)| (tag.component, tag.size))
}
