//! The live file: the only place that writes it.

use crate::component::LIMIT;

/// There is a new phase.
pub fn phase(_index: u16, _name: &str, _kind: u8, _parent: u16) {}

/// A phase begins or ends.
pub fn phase_edge(_index: u16, _begins: bool) {}

/// The greatest that components owned during a phase so far.
pub fn phase_peaks(_index: u16, _owned: &[u64; LIMIT]) {}
