//! CPU bindings of this process as a stack, thread by thread.
//!
//! A push moves *the threads that follow the process*: every thread whose mask equals the calling
//! thread's mask. A thread with a mask of its own (an MPI progress thread, a pinned pool thread, an
//! observer) is left alone. A pop brings back exactly the masks from before the push, also for
//! threads born in between.
//!
//! - [`Target`]: from "that package" or "the package around me" to a set of CPUs, a pure decision;
//! - `stack`: the stack and its per-thread rule, over any back end;
//! - `ledger`: the pushes of all contexts of the process, and what each thread gets back;
//! - `mover`: masks of threads, changed one by one and put back when a change fails;
//! - `kernel`: the back end that asks the Linux kernel;
//! - `simulated`: the back end for a machine that is not there;
//! - [`MemoryPolicy`]: pages of threads and of ranges of memory;
//! - [`InitialBinding`]: how ranks start out on such a machine.

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

/// The system as a binding stack needs it: masks of the threads of this process.
///
/// A thread that has ended between being listed and being asked is reported as
/// [`io::ErrorKind::NotFound`], which the stack takes as "nothing to do".
#[doc(hidden)]
pub trait Backend: Send + Sync + std::fmt::Debug {
    /// The number of threads in this process; meant to be cheap, it is asked on every push and pop.
    ///
    /// # Errors
    /// The system's own error.
    fn thread_count(&self) -> io::Result<usize>;

    /// Replaces the contents of `threads` by the threads of this process, in no particular order.
    /// May stop when it has found `count` of them.
    ///
    /// # Errors
    /// The system's own error.
    fn threads(&self, threads: &mut Vec<ThreadId>, count: usize) -> io::Result<()>;

    /// The number of the calling thread.
    fn caller(&self) -> ThreadId;

    /// The mask of a thread of this process, now.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] for a thread that has ended, else the system's own error.
    fn mask(&self, thread: ThreadId) -> io::Result<CpuSet>;

    /// Sets the mask of a thread of this process.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] for a thread that has ended, else the system's own error.
    fn set_mask(&self, thread: ThreadId, mask: &CpuSet) -> io::Result<()>;

    /// The pushes made over this back end, which all its stacks share.
    fn ledger(&self) -> &Mutex<Ledger>;

    /// A set of more CPUs than there can be, which the system takes for "all that are allowed", now and
    /// after changes. `None` where it would be taken as it is.
    fn everything(&self) -> Option<CpuSet> {
        None
    }
}

/// Why a binding was not changed. After any of these the masks are those from before the call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// More pops than pushes; the base binding stays as it is.
    #[error("pop: nothing has been pushed, the stack holds only the base binding")]
    NothingPushed,
    /// The set asked for has CPUs this process may not use.
    #[error("push: CPUs {asked} are not all inside the allowed set {allowed}")]
    OutsideAllowed {
        /// The CPUs asked for.
        asked: CpuSet,
        /// The CPUs that the control group and the machine allow.
        allowed: CpuSet,
    },
    /// The set asked for is empty.
    #[error("push: an empty set of CPUs was asked for (allowed: {allowed})")]
    Empty {
        /// The CPUs that the control group and the machine allow.
        allowed: CpuSet,
    },
    /// No object of the type encloses the caller's mask.
    #[error("push: no {kind} encloses the caller's mask {mask}")]
    NotEnclosed {
        /// The type asked for.
        kind: ObjectType,
        /// The caller's mask.
        mask: CpuSet,
    },
    /// The object asked for does not exist.
    #[error("push: {0}")]
    Topology(#[from] crate::topology::TopologyError),
    /// The system accepted the call but the mask read back is another one.
    #[error("{call}: asked for CPUs {asked}, the system granted {granted}")]
    NotGranted {
        /// `push` or `pop`.
        call: &'static str,
        /// The CPUs asked for.
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
