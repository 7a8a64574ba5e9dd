//! Handling of forks: a child keeps the ledgers, and leaves the file to its parent.
//!
//! All locks are taken before a fork, outer ones first, so that the data under them are consistent
//! in the child.
//!
//! Fork handlers of other objects may do whatever a program does: wait for threads that allocate,
//! map and end. The tool's handlers are therefore registered before all others, when the first
//! object registers any: they run last before a fork, and first after it.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::base::thread::{Guard, local};
use crate::base::{diagnostics, dictionary, memory, symbols};
use crate::interpose;
use crate::ledger::{gpu, handles, heap, ranges};
use crate::lifecycle::{hooks, start};
use crate::owners;
use crate::recording::{mpi_time, phases, writer};
use crate::sampling::{faults, sampler};

static REGISTERED: AtomicBool = AtomicBool::new(false);

/// Address of the C library's function behind `pthread_atfork`, of which each object has its own
/// copy.
static REAL: AtomicUsize = AtomicUsize::new(0);

type Handler = Option<unsafe extern "C" fn()>;
type Register = unsafe extern "C" fn(Handler, Handler, Handler, *mut c_void) -> c_int;

unsafe extern "C" {
    fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
}

/// Registers the three handlers.
pub fn register() {
    if !REGISTERED.swap(true, Ordering::AcqRel) {
        let _guard = Guard::enter();
        // SAFETY: the handlers live as long as the object, which is never unloaded.
        unsafe { pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    }
}

/// Returns the real function. It is looked up once, before the program runs: a later lookup could
/// have to wait for the loader.
fn real() -> Option<Register> {
    let mut found = REAL.load(Ordering::Acquire);
    if found == 0 {
        let _guard = Guard::enter();
        found = symbols::dlsym_next(c"__register_atfork");
        REAL.store(found, Ordering::Release);
    }
    // SAFETY: the address that the loader returned for the function of this name.
    (found != 0).then(|| unsafe { core::mem::transmute::<usize, Register>(found) })
}

/// Replaces the function that the `pthread_atfork` of every object calls, so that the tool's
/// handlers come first although the tool is initialized after the libraries of the program.
///
/// # Safety
///
/// As required by the function of this name in the C library.
#[cfg_attr(not(any(test, feature = "archive")), unsafe(no_mangle))]
#[cfg_attr(any(test, feature = "archive"), allow(dead_code))]
pub unsafe extern "C" fn __register_atfork(
    prepare: Handler,
    parent: Handler,
    child: Handler,
    object: *mut c_void,
) -> c_int {
    register();
    // SAFETY: the caller's arguments.
    real().map_or(libc::ENOMEM, |real| unsafe { real(prepare, parent, child, object) })
}

/// True if neither the process nor any child of it keeps a trace.
static ASIDE: AtomicBool = AtomicBool::new(false);

/// Makes the fork handlers do nothing from now on: in a process that starts others, each page that
/// the handlers write to would be copied, in the process and in its child.
pub fn stand_aside() {
    ASIDE.store(true, Ordering::Relaxed);
}

/// Address of the `Local` of the thread that has taken the locks for its fork; 0 if none has.
static FORKER: AtomicUsize = AtomicUsize::new(0);

fn this_thread() -> usize {
    core::ptr::from_ref(local()) as usize
}

unsafe extern "C" fn prepare() {
    // A signal handler may fork while the thread is inside the tool, with locks taken already.
    if local().guard.get() > 0 || ASIDE.load(Ordering::Relaxed) {
        return;
    }
    let guard = Guard::enter();
    start::lock().lock();
    hooks::lock().lock();
    phases::lock().lock();
    sampler::lock().lock();
    faults::lock().lock();
    owners::before_fork();
    mpi_time::loops::lock().lock();
    handles::lock().lock();
    gpu::lock().lock();
    writer::lock().lock();
    heap::before_fork();
    dictionary::lock().lock();
    ranges::lock().lock();
    diagnostics::lock().lock();
    memory::lock().lock();
    FORKER.store(this_thread(), Ordering::Relaxed);
    // The thread works for the tool until the handler after the fork.
    core::mem::forget(guard);
}

/// Releases the locks. Returns false where [`prepare`] has taken none.
fn release(child: bool) -> bool {
    if FORKER.load(Ordering::Relaxed) != this_thread() {
        return false;
    }
    FORKER.store(0, Ordering::Relaxed);
    memory::lock().unlock();
    diagnostics::lock().unlock();
    ranges::lock().unlock();
    dictionary::lock().unlock();
    heap::after_fork(child);
    writer::lock().unlock();
    gpu::lock().unlock();
    handles::lock().unlock();
    mpi_time::loops::lock().unlock();
    owners::after_fork(child);
    faults::lock().unlock();
    sampler::lock().unlock();
    phases::lock().unlock();
    hooks::lock().unlock();
    start::lock().unlock();
    let guard = &local().guard;
    guard.set(guard.get() - 1);
    true
}

unsafe extern "C" fn parent() {
    if release(false) {
        start::has_forked();
    }
}

unsafe extern "C" fn child() {
    if ASIDE.load(Ordering::Relaxed) {
        return;
    }
    let was_kept = start::forget_fork();
    writer::detach();
    sampler::forget();
    faults::forget();
    if !release(true) {
        // The locks of other threads are never released: the tool does nothing more in this child.
        core::mem::forget(Guard::enter());
        return;
    }
    ranges::forget_calls();
    interpose::after_fork();
    start::forked(was_kept);
}
