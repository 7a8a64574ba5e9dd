//! Two ledgers: one of blocks, with the stacks that allocate them, and one of mappings.

pub mod call_stacks;
pub mod heap;
pub mod ranges;
