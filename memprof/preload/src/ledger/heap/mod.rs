//! Ledger of blocks: which component owns which block.
//!
//! floors: pool < leaf < level < pending_counters < tag < next_allocator < leaf_cache < large <
//!     thread_counters < sums < account < registry < peaks < any_address < bootstrap < in_flight <
//!     blocks < fast_path < granules < calls < operators < malloc_family < exports

#![allow(unsafe_code)]

pub mod account;
mod any_address;
pub(crate) mod blocks;
mod bootstrap;
pub(crate) mod calls;
#[cfg(any(not(feature = "archive"), test))]
pub(crate) mod exports;
mod fast_path;
pub mod granules;
pub mod in_flight;
mod large;
mod leaf;
mod leaf_cache;
mod level;
mod malloc_family;
mod next_allocator;
mod operators;
mod peaks;
mod pending_counters;
mod pool;
mod registry;
mod sums;
mod tag;
#[cfg(test)]
mod tests;
mod thread_counters;

pub use account::{be_exact, count_down, mapped};
pub use blocks::{give, owner_of};
pub use malloc_family::look_around;
pub use next_allocator::{disable, is_disabled};
pub use peaks::{peaks_begin, peaks_end, peaks_open};
pub use sums::{all, ledger, owned, owned_each, snapshot};

use crate::base::component::{Component, LIMIT};
use crate::base::registered::Registered;
pub use pending_counters::PendingCounters;
pub use thread_counters::{ThreadCounters, own};

/// Returns the bytes of tags in live blocks. Only the totals count, since a block may have been
/// allocated as one component's and freed as another's.
pub fn tags(ledgers: &[Ledger; LIMIT]) -> u64 {
    let sum = |count: fn(&Ledger) -> u64| ledgers.iter().map(count).sum::<u64>();
    sum(|ledger| ledger.allocations).saturating_sub(sum(|ledger| ledger.frees)) * tag::SIZE as u64
}

static GRANULES: granules::Table = granules::Table::new();
/// Maximum number of calls that [`each_large`] makes.
pub const MOST_LARGE: usize = large::MOST;

static LARGE: large::Table = large::Table::new();

/// Large blocks that a reader of the tables may miss.
pub static IN_FLIGHT: in_flight::InFlight<LIMIT> = in_flight::InFlight::new();

/// Memory of one component: requested bytes of its blocks, and bytes of its mappings. The counts
/// are of blocks alone.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    pub owned: u64,
    pub peak: u64,
    pub allocations: u64,
    pub frees: u64,
    pub allocated_total: u64,
}

/// Calls `each` with start, length and owner of every live block of at least 32 KiB.
pub fn each_large(each: &mut dyn FnMut(usize, usize, Component)) {
    LARGE.each(&mut |large| each(large.start, large.length, large.component));
}

/// A function that examines the `length` bytes from `start`, which are about to be released.
pub type BeforeRelease = fn(start: usize, length: usize);

static BEFORE_RELEASE: Registered<BeforeRelease> = Registered::none();

/// Has `look` called before large blocks are released.
pub fn on_release(look: &'static BeforeRelease) {
    BEFORE_RELEASE.set(look);
}

fn before_release(start: usize, length: usize) {
    if let Some(look) = BEFORE_RELEASE.get() {
        look(start, length);
    }
}

/// Returns the large block that starts at an address.
pub fn large(start: usize) -> Option<large::Large> {
    LARGE.get(start)
}

/// Calls `each(component, bytes)` with the bytes of live small blocks of each component between two
/// addresses, both multiples of the page size. Returns false where the ledger knows nothing.
pub fn share(start: usize, end: usize, each: &mut dyn FnMut(Component, u64)) -> bool {
    share_and_rest(start, end, each).is_some()
}

/// Does what [`share`] does. Returns how many bytes of the shares have a guessed owner: they found
/// no slot and are distributed as the other bytes are.
pub fn share_and_rest(
    start: usize,
    end: usize,
    each: &mut dyn FnMut(Component, u64),
) -> Option<u64> {
    // If no block began in this region or in the one before, no block is here.
    let region = 1 << granules::REGION_SHIFT;
    let is_one = start / region == (end - 1) / region;
    if is_one && !knows(start) && !knows(start.saturating_sub(region)) {
        return None;
    }
    let mut split = granules::Split { bytes: [0; LIMIT], rest: 0 };
    let known = GRANULES.split(start, end, &mut split);
    let named: i64 = split.bytes.iter().filter(|bytes| **bytes > 0).sum();
    // Where no block ever began, one from an earlier granule may extend to here.
    if !known && named == 0 {
        return None;
    }
    // Bytes without a slot may have been recorded under a component when the block was freed, or
    // when it was allocated.
    let below: i64 = split.bytes.iter().filter(|bytes| **bytes < 0).sum();
    let rest = (split.rest + below).clamp(-named, (end - start) as i64);
    for (index, bytes) in split.bytes.iter().enumerate().filter(|(_, bytes)| **bytes > 0) {
        let more = i128::from(rest) * i128::from(*bytes) / i128::from(named);
        each(Component(index as u16), (*bytes + more as i64) as u64);
    }
    if named == 0 && rest > 0 {
        each(Component::UNATTRIBUTED, rest as u64);
    }
    Some(rest.unsigned_abs())
}

/// Calls `each` with the components that last used the memory between two addresses, and the bytes
/// that they may have left free there.
pub fn freed(start: usize, end: usize, each: &mut dyn FnMut(Component, u64)) {
    GRANULES.freed(start, end, each);
}

/// Calls `each` with parts of a range in ascending order: begin, end, and the live bytes of small
/// blocks there. The addresses are multiples of the page size.
pub fn live(start: usize, end: usize, each: &mut dyn FnMut(usize, usize, u64)) {
    GRANULES.live(start, end, each);
}

/// Returns true if small blocks have ever been within the 4 MiB region of this address.
pub fn knows(address: usize) -> bool {
    GRANULES.knows(address)
}

/// Takes the locks before a fork, so that the data under them are consistent in the child.
pub fn before_fork() {
    registry::before_fork();
    peaks::before_fork();
    GRANULES.before_fork();
    crate::ledger::call_stacks::before_fork();
}

/// Restarts the high-water mark of the calling thread, whose later bytes soon exceed the limit of
/// unreported ones.
pub fn begin_own_anew() {
    account::fold_own();
}

/// Releases the locks after a fork, in parent (`child` false) and child. The child keeps the bytes
/// that other threads held.
pub fn after_fork(child: bool) {
    crate::ledger::call_stacks::after_fork();
    GRANULES.after_fork();
    peaks::after_fork();
    registry::after_fork();
    if child {
        account::forget_other_threads();
        registry::forget_other_threads();
        IN_FLIGHT.forget_other_threads();
    }
}
