//! Interposition between the program and MPI, the loader, and the kernel's mappings.

#![allow(unsafe_code)]

#[cfg(all(feature = "archive", not(test), target_arch = "x86_64", target_os = "linux"))]
pub(crate) mod archive;
#[cfg(all(feature = "archive", not(test), target_arch = "x86_64", target_os = "linux"))]
mod ucx_events;

#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(feature = "archive")))]
mod block_functions;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod ending;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod hooked;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod loader;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) mod mappings;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) mod mpi_calls;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod mpi_handles;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod patch;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod runtimes;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) mod threads;

use core::ffi::c_char;
use core::sync::atomic::{AtomicUsize, Ordering};

use memprof_boundary::functions;

use crate::base::registered::Registered;
use crate::base::thread::Guard;
use crate::owners;
use crate::recording::{mpi_position, mpi_time};

/// Functions called when MPI begins and ends, and when the process ends other than by `exit`.
pub struct Events {
    /// The first call of `MPI_Init` or an equivalent begins.
    pub begins: fn(),
    /// That call has returned.
    pub is_ready: fn(),
    /// `MPI_Finalize` begins.
    pub ends: fn(),
    /// `MPI_Finalize` has returned.
    pub has_ended: fn(),
    /// `_exit` is called.
    pub leaves: fn(),
    /// Another program is about to replace this one.
    pub is_replaced: fn(),
}

static EVENTS: Registered<Events> = Registered::none();

/// Name lookup for [`mpi_position`].
static NAMES: mpi_position::Names = functions::name;

/// Patches the loaded objects; objects loaded later follow. Called once, by the main thread, before
/// the program begins.
pub fn start(events: &'static Events) {
    let _guard = Guard::enter();
    EVENTS.set(events);
    mpi_position::named_by(&NAMES);
    mpi_position::be_main();
    owners::dladdr::prepare();
    owners::refresh();
    if let Some(trouble) = owners::overrides::trouble() {
        crate::base::diagnostics::say(
            crate::base::diagnostics::Code::BadOverride,
            format_args!("MEMPROF_COMPONENTS: {trouble}"),
        );
    }
    if let Some(text) = owners::overrides::text() {
        owners::overrides::each_fault(text, |line, fault| {
            crate::base::diagnostics::say(
                crate::base::diagnostics::Code::BadOverride,
                format_args!("MEMPROF_COMPONENTS, line {line}: {}", fault.text()),
            );
        });
    }
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        hooked::start();
        #[cfg(not(feature = "archive"))]
        {
            patch::everything(core::ptr::null_mut());
            join();
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    crate::base::diagnostics::say(
        crate::base::diagnostics::Code::NoBoundary,
        format_args!("calls of MPI are seen on x86_64 and aarch64 only"),
    );
}

/// Returns the target of calls of the function named `name` at `real`; 0 for `real` itself.
pub type Bind = unsafe extern "C-unwind" fn(name: *const c_char, real: usize) -> usize;

/// Implements [`Bind`].
///
/// # Safety
///
/// `name` is a zero-terminated text, and `real` the MPI function of that name.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub unsafe extern "C-unwind" fn bind(name: *const c_char, real: usize) -> usize {
    let _guard = Guard::enter();
    // SAFETY: guaranteed by the caller.
    let name = unsafe { core::ffi::CStr::from_ptr(name) };
    patch::mpi_target(name.to_bytes(), real).unwrap_or(0)
}

/// Makes a program that contains MPI and the archive send its calls through this instance.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(feature = "archive")))]
fn join() {
    if let Some(word) = owners::archive_word() {
        // SAFETY: the archive's word in the program's data, which exists for this purpose.
        let word = unsafe { &*(word as *const AtomicUsize) };
        word.store(bind as Bind as usize, Ordering::Release);
    }
}

/// Resets the state in a child after fork, which is the main thread there.
pub fn after_fork() {
    mpi_position::be_main();
    mpi_time::after_fork();
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        patch::after_fork();
        threads::after_fork();
    }
}
