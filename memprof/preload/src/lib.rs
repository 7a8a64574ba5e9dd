//! The object that is loaded into the ranks of a program. It keeps two ledgers, of bytes (who
//! allocated which block) and of ranges (who mapped which addresses), asks the kernel what of them is
//! resident, and writes what it finds into a file of fixed size that outlives the process.
//!
//! It defines no MPI symbol, makes no MPI call, and where it cannot work it says so once and stands
//! aside. After start it allocates nothing from the heap of the program.
//!
//! floors: options < registered < deferred < symbols < arch < kernel < lock < component < thread < memory < kept < pagemap < identity < note < losses <
//!     limit < file < objects < sites < heap < ranges < phases < mpi_position < conflicts < writer < faults < sampler <
//!     boundary < subscription < start < hooks < archive < fork

// As an archive (memprof/archive), and in tests, which interpose nothing, it uses less of itself.
#![cfg_attr(any(test, feature = "archive"), allow(unused_imports, dead_code))]

mod arch;
#[cfg(all(feature = "archive", not(test), target_arch = "x86_64", target_os = "linux"))]
mod archive;
mod boundary;
mod component;
mod conflicts;
mod deferred;
mod faults;
mod file;
mod fork;
mod heap;
mod hooks;
mod identity;
mod kept;
mod kernel;
mod limit;
mod lock;
mod losses;
mod memory;
mod mpi_position;
mod note;
mod objects;
mod options;
mod pagemap;
mod phases;
mod ranges;
mod registered;
mod sampler;
mod sites;
mod start;
#[cfg(all(feature = "archive", not(test), target_arch = "x86_64", target_os = "linux"))]
mod subscription;
mod symbols;
mod thread;
mod writer;
