//! CPU bindings of this process as a stack, thread by thread.
//!
//! A push moves *the threads that follow the process*: every thread whose mask equals the calling
//! thread's mask. A thread with a different mask (an MPI progress thread, a pinned pool thread, an
//! observer) is left alone. A pop restores exactly the masks from before the push, also for threads
//! created in between.
//!
//! - [`Target`]: from "that package" or "the package around me" to a set of CPUs, a pure decision;
//! - `stack`: the stack and its per-thread rule, over any back end;
//! - `ledger`: the pushes of all contexts of the process, and the masks to restore to each thread;
//! - `mover`: changes masks of threads one by one and restores them if a change fails;
//! - `kernel`: the back end that uses the Linux kernel;
//! - `simulated`: the back end for a simulated machine;
//! - [`MemoryPolicy`]: pages of threads and of address ranges;
//! - [`InitialBinding`]: initial bindings of ranks on a simulated machine.

mod initial;
#[doc(hidden)]
pub mod kernel;
mod ledger;
pub(crate) mod memory;
mod mover;
mod simulated;
mod stack;
mod target;

use std::io;
use std::sync::Mutex;

use crate::cpuset::CpuSet;
use crate::topology::ObjectType;

pub use initial::{InitialBinding, ParseInitialBindingError};
#[doc(hidden)]
pub use kernel::Kernel;
#[doc(hidden)]
pub use ledger::Ledger;
pub use memory::MemoryPolicy;
#[doc(hidden)]
pub use simulated::Simulated;
pub(crate) use stack::Aim;
#[doc(hidden)]
pub use stack::{BindingStack, Shortfall};
pub use target::Target;

/// A kernel thread number; [`CALLER`] stands for the calling thread.
#[doc(hidden)]
pub type ThreadId = i32;

/// More CPUs than Linux can be built for.
const EVERY_CPU: usize = 8_192;

/// The calling thread, whatever its number.
#[doc(hidden)]
pub const CALLER: ThreadId = 0;

/// System interface of a binding stack: masks of the threads of this process.
///
/// A thread that ends between being listed and being queried is reported as
/// [`io::ErrorKind::NotFound`], which the stack treats as "nothing to do".
#[doc(hidden)]
pub trait Backend: Send + Sync + std::fmt::Debug {
    /// Returns the number of threads in this process. Called on every push and pop, so it should be
    /// cheap.
    ///
    /// # Errors
    /// The system's own error.
    fn thread_count(&self) -> io::Result<usize>;

    /// Replaces the contents of `threads` by the threads of this process, in no particular order.
    /// May stop after `count` of them.
    ///
    /// # Errors
    /// The system's own error.
    fn threads(&self, threads: &mut Vec<ThreadId>, count: usize) -> io::Result<()>;

    /// Returns true if each of `threads` is certain to be a thread of this process. False if that
    /// cannot be found out at less cost than a list.
    fn are_all_here(&self, threads: &[ThreadId]) -> bool {
        let _ = threads;
        false
    }

    /// Returns the number of the calling thread.
    fn caller(&self) -> ThreadId;

    /// Returns the current mask of a thread of this process.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] for a thread that has ended, otherwise the system's own
    /// error.
    fn mask(&self, thread: ThreadId) -> io::Result<CpuSet>;

    /// Sets the mask of a thread of this process.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] for a thread that has ended, otherwise the system's own error.
    fn set_mask(&self, thread: ThreadId, mask: &CpuSet) -> io::Result<()>;

    /// Returns the ledger of the pushes made over this back end, which all its stacks share.
    fn ledger(&self) -> &Mutex<Ledger>;

    /// Returns a set of more CPUs than there can be, which the system takes for "all that are
    /// allowed", now and after changes. `None` if the system would take it literally.
    fn everything(&self) -> Option<CpuSet> {
        None
    }
}

/// Reason why a binding was not changed. After any of these the masks are those from before the
/// call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// More pops than pushes; the base binding stays as it is.
    #[error("pop: nothing has been pushed, the stack holds only the base binding")]
    NothingPushed,
    /// The requested set contains CPUs this process may not use.
    #[error("push: CPUs {asked} are not all inside the allowed set {allowed}")]
    OutsideAllowed {
        /// The requested CPUs.
        asked: CpuSet,
        /// CPUs that the control group and the machine allow.
        allowed: CpuSet,
    },
    /// The requested set is empty.
    #[error("push: an empty set of CPUs was asked for (allowed: {allowed})")]
    Empty {
        /// CPUs that the control group and the machine allow.
        allowed: CpuSet,
    },
    /// No object of the type encloses the caller's mask.
    #[error("push: no {kind} encloses the caller's mask {mask}")]
    NotEnclosed {
        /// The requested type.
        kind: ObjectType,
        /// The caller's mask.
        mask: CpuSet,
    },
    /// The requested object does not exist.
    #[error("push: {0}")]
    Topology(#[from] crate::topology::TopologyError),
    /// The system accepted the call, but the mask read back differs.
    #[error("{call}: asked for CPUs {asked}, the system granted {granted}")]
    NotGranted {
        /// `push` or `pop`.
        call: &'static str,
        /// The requested CPUs.
        asked: CpuSet,
        /// The CPUs of the thread.
        granted: CpuSet,
    },
    /// A system call failed.
    #[error("{call}: {action} failed: {source}")]
    System {
        /// `push`, `pop` or `binding`.
        call: &'static str,
        /// The action that failed.
        action: &'static str,
        /// The system's own error.
        source: io::Error,
    },
}
