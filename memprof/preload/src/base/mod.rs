//! Basics that all layers use: the processor, the kernel, locks, memory of the tool, names of
//! components.
//!
//! floors: component < arch < symbols < lock < options < kernel < registered < deferred <
//!     thread < memory < diagnostics < reserved_fds < pagemap < seqlock < overflow_counters <
//!     dictionary

pub mod arch;
pub mod component;
pub mod deferred;
pub mod diagnostics;
pub mod dictionary;
pub mod kernel;
pub mod lock;
pub mod memory;
pub mod options;
pub mod overflow_counters;
pub mod pagemap;
pub mod registered;
pub mod reserved_fds;
pub mod seqlock;
pub mod symbols;
pub mod thread;
