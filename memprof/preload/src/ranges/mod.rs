//! The ledger of ranges: who mapped which addresses. Keyed by address, since who unmaps may be another.

use crate::component::Component;

/// `owner` mapped `length` bytes at `start`.
pub fn mapped(_start: usize, _length: usize, _owner: Component, _shared: bool) {}

/// The addresses are about to be unmapped.
pub fn unmapped(_start: usize, _length: usize) {}

/// A mapping moved or changed its length.
pub fn moved(_old: usize, _old_length: usize, _new: usize, _new_length: usize) {}

/// A thread's stack, by an address in it.
pub fn stack(_address: usize, _owner: Component) {}
