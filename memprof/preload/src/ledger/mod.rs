//! Two ledgers: of blocks, with the stacks that allocate them, and of mappings.

pub mod call_stacks;
pub mod heap;
pub mod ranges;
