//! The object that is loaded into the ranks of a program. It keeps two ledgers, of bytes (who allocated which block)
//! and of ranges (who mapped which addresses), asks the kernel which of them are resident, and writes its findings into
//! a file of fixed size that outlives the process.
//!
//! It defines no MPI symbol, makes no MPI call, and where it cannot work it says so once and stands
//! aside. After start it allocates nothing from the heap of the program.
//!
//! floors: base < owners < ledger < recording < sampling < interpose < lifecycle

// As an archive (memprof/archive), and in tests, which interpose nothing, it uses less of itself.
#![cfg_attr(any(test, feature = "archive"), allow(unused_imports, dead_code))]

mod base;
mod interpose;
mod ledger;
mod lifecycle;
mod owners;
mod recording;
mod sampling;
