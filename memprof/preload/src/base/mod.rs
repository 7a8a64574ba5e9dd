//! Basics that all layers use: the processor, the kernel, locks, memory of the tool, names of
//! components.

pub mod arch;
pub mod component;
pub mod deferred;
pub mod diagnostics;
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
