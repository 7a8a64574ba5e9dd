//! C interface of quo: the functions of `quo.h`, `quo-xpm.h`, `quo-elastic.h`, `quo-program.h` and
//! `quo-reshape.h`, installed as libquo.
//!
//! The headers are the documentation; they are written by hand, and a test compares them with the
//! functions here name by name and type by type. Every function is a few lines between the C types
//! of [`types`] and a call of the `quo` crate:
//!
//! - `codes`: the return codes, and the code of each error;
//! - `failures`: the reaction to failures that the environment requests, and failures that the
//!   program ignored;
//! - `guard`: the common entry of every call;
//! - `handle`: handles, and how they are looked up without being dereferenced;
//! - [`types`]: pointers from C, checked and written to in one place;
//! - [`version`], [`create`], [`query`], [`mask`], [`bind`], [`collective`], [`members`],
//!   [`lending`], [`memory_policy`], [`devices`], [`barriers`], [`phase`], [`scope`], [`xpm`],
//!   [`world`], [`reshape`], [`fortran`], [`fortran_helpers`]: the functions, by the sections of
//!   the headers.
//!
//! floors: codes < failures < guard < types < handle < version < create < mask < query < bind < collective < members <
//!     lending < memory_policy < devices < barriers < phase < scope < xpm < world < fortran_helpers < reshape < fortran
#![allow(
    non_snake_case,
    non_camel_case_types,
    reason = "functions and types carry the names of the C interface"
)]
#![expect(missing_docs, reason = "the headers document the exported functions")]

pub mod barriers;
pub mod bind;
mod codes;
pub mod collective;
pub mod create;
pub mod devices;
mod failures;
pub mod fortran;
pub mod fortran_helpers;
mod guard;
mod handle;
pub mod lending;
pub mod mask;
pub mod members;
pub mod memory_policy;
pub mod phase;
pub mod query;
pub mod reshape;
pub mod scope;
pub mod types;
pub mod version;
pub mod world;
pub mod xpm;

pub use codes::Code;
