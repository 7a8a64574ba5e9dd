//! The object that is loaded into the ranks of a program. It keeps two ledgers, of blocks (which
//! component allocated which bytes) and of ranges (which component mapped which addresses),
//! determines with the kernel which of them are resident, and writes its findings into a file of
//! fixed size that outlives the process.
//!
//! It defines no MPI symbol and makes no MPI call, and where it cannot work it reports this once
//! and disables itself. After startup it allocates nothing from the heap of the program.
//!
//! floors: base < owners < ledger < recording < sampling < interpose < lifecycle

// As an archive (memprof/archive), and in tests, which interpose nothing, only a part is used.
#![cfg_attr(any(test, feature = "archive"), allow(unused_imports, dead_code))]
// The functions of the heap have bytes for `void`, and let exceptions pass. Compilers before 1.99
// do not know this lint.
#![allow(unknown_lints, invalid_runtime_symbol_definitions)]

mod base;
mod interpose;
mod ledger;
mod lifecycle;
mod owners;
mod recording;
mod sampling;
