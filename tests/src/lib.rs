//! Harness of the end-to-end suites: real launcher, real ranks, nothing left behind.
//!
//! A suite compiles or finds a program ([`Checkout`]), runs it under the launcher ([`Job`]) and
//! judges the [`Outcome`], which also lists the processes and shared-memory segments that the job
//! left behind. Every job is limited in time, and jobs take turns within one test program, since
//! two at once on a small machine only slow each other down.
//!
//! ```no_run
//! use quo_tests::{Checkout, Job};
//!
//! # fn main() -> anyhow::Result<()> {
//! let checkout = Checkout::find()?;
//! let folder = tempfile::tempdir()?;
//! let program = checkout.compile_c("bindings-c/tests/barrier.c", folder.path(), &[])?;
//! Job::new(4, program).topology("pack:2 core:4 pu:1").run()?.expect_success()?;
//! # Ok(())
//! # }
//! ```
//!
//! floors: compilers < listener < selection < wait < stacks < suite < stopped_processes < library <
//!     launcher < nodes < trace_invariants < checkout < installation < memprof < frames < leftovers <
//!     launch < job < spawn < python < memory_group < holdings < cxx < guide < fortran < recorded <
//!     example

mod checkout;
mod compilers;
mod cxx;
pub mod example;
mod fortran;
mod frames;
pub mod guide;
mod holdings;
mod installation;
mod job;
mod launch;
mod launcher;
mod leftovers;
mod library;
mod listener;
mod memory_group;
pub mod memprof;
mod nodes;
mod python;
mod recorded;
mod selection;
mod spawn;
mod stacks;
mod stopped_processes;
pub mod suite;
mod trace_invariants;
mod wait;

pub use checkout::Checkout;
pub use compilers::{mpicc, mpicxx, mpifort, mpirun, python_tools};
pub use cxx::{CXX_WARNINGS, cxx_compiler, has_compiler};
pub use example::coupled_fortran;
pub use fortran::{
    BINDINGS, FortranSupport, STRICT, compile_modules, fortran_support, module_sources,
};
pub use frames::Frames;
pub use holdings::{Holdings, expect_cycles};
pub use installation::Installation;
pub use job::{Job, describe};
pub use launch::{MARK, Outcome, Running};
pub use launcher::{BindTo, Family, Launcher, Network};
pub use leftovers::sweep;
pub use library::{Library, run_compiler};
pub use memory_group::MemoryGroup;
pub use nodes::Nodes;
pub use python::{python_interpreter, python_job, python_surroundings};
pub use recorded::Recorded;
pub use selection::Selection;
pub use spawn::needs_spawn;
pub use stopped_processes::StoppedProcesses;
pub use trace_invariants::{APPLICATION, CheckedTrace, MPI, Which};
pub use wait::{ends_within, until};

/// The Rust program of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
