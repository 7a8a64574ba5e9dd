//! Boundary between a program and its MPI library, for tools that are loaded into the process.
//!
//! No MPI symbol is defined and no code is written: [`slots`] redirects the calls of a loaded
//! object to the entries of [`thunks`], by the addresses in its global offset table, which [`elf`]
//! finds. Each thread has a block ([`thread`]) that begins with its position in MPI. [`functions`]
//! is the table of MPI functions, [`handles`] says which of them make and free objects.
//!
//! Nothing here allocates, locks or prints.
//!
//! floors: elf < slots < functions < handles < thread < thunks

pub mod elf;
pub mod functions;
pub mod handles;
pub mod slots;
pub mod thread;
pub mod thunks;
