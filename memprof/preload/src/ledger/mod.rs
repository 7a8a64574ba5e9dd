//! Four ledgers: of blocks, with the stacks that allocate them, of mappings, of MPI objects, and of
//! the memory of GPUs.

pub mod call_stacks;
pub mod gpu;
pub mod handles;
pub mod heap;
pub mod ranges;
