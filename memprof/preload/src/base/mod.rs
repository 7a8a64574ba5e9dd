//! What all floors use: the processor, the kernel, locks, memory of the tool, names of components.

pub mod arch;
pub mod component;
pub mod deferred;
pub mod kept;
pub mod kernel;
pub mod lock;
pub mod losses;
pub mod memory;
pub mod note;
pub mod options;
pub mod pagemap;
pub mod registered;
pub mod symbols;
pub mod thread;
