//! Processors without entries, on which calls of MPI do not pass through the tool.

use super::Observer;
use crate::functions::Name;

/// Implements [`super::observe`]. Without entries, nothing is observed.
pub fn observe(_observer: Observer) {}

/// Implements [`super::entry`].
pub fn entry(_name: Name) -> Option<usize> {
    None
}

/// Implements [`super::set_real`].
pub fn set_real(_name: Name, _address: usize) -> bool {
    false
}

/// Implements [`super::wrap`].
pub fn wrap(_name: Name, _wrapper: usize) {}

/// Implements [`super::real`].
pub fn real(_name: Name) -> usize {
    0
}
