//! Emulated machines: a shape from a file, a separate kernel, the checkout visible inside.
//!
//! The development machine rarely has two packages, SMT or several NUMA nodes. QEMU emulates a
//! machine that has them, with or without KVM; it boots Debian's kernel, whose root is the host's
//! file system with all changes kept in memory, runs one command there, and returns its output and
//! exit status. Masks, topology and page placement are then those of a real kernel.
//!
//! | question | file |
//! |---|---|
//! | what is the machine like? | [`Shape`] in `shape.rs`, the shapes of the suites in `shapes/` |
//! | how is QEMU called? | `arguments.rs` |
//! | which kernel, which drivers, from where? | `kernel.rs` |
//! | what runs first in it? | `guest/init.c`, packed by `first_files.rs` and `archive.rs` |
//! | KVM or not? | [`Accelerator`] in `accelerator.rs` |
//! | how does it run, and how does it end? | [`Machine`] in `machine.rs`, `frames.rs` |
//!
//! ```no_run
//! use quo_machine::{Ending, Machine, Shape, Task};
//!
//! # fn main() -> anyhow::Result<()> {
//! let machine = Machine::new(Shape::named("smt")?, "target/machine".into());
//! let task = Task::here(["lscpu"])?;
//! let ending = machine.run(&task, &mut std::io::stdout(), &mut std::io::stderr())?;
//! assert_eq!(ending, Ending::Exited(0));
//! # Ok(())
//! # }
//! ```

mod accelerator;
mod archive;
mod arguments;
mod first_files;
mod frames;
mod kernel;
mod machine;
mod shape;
mod task;

pub use accelerator::Accelerator;
pub use kernel::prepare;
pub use machine::{Ending, Machine, missing};
pub use shape::{Numa, Shape};
pub use task::Task;
