//! Three ledgers: of blocks, with the stacks that allocate them, of mappings, and of MPI objects.

pub mod call_stacks;
pub mod handles;
pub mod heap;
pub mod ranges;
