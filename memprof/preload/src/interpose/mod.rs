//! Entries and exits of the program at MPI, the loader and the kernel's mappings.

#![allow(unsafe_code)]

#[cfg(all(feature = "archive", not(test), target_arch = "x86_64", target_os = "linux"))]
pub(crate) mod archive;
#[cfg(all(feature = "archive", not(test), target_arch = "x86_64", target_os = "linux"))]
mod subscription;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod ending;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod hooked;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod loader;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) mod mappings;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod openmp;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod patch;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) mod special;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) mod threads;

use core::ffi::c_char;
use core::sync::atomic::{AtomicUsize, Ordering};

use memprof_boundary::functions;

use crate::base::registered::Registered;
use crate::base::thread::Guard;
use crate::owners;
use crate::recording::{mpi_position, mpi_time};

/// What is to be done when MPI begins and ends, and when the process ends otherwise than by `exit`.
pub struct Events {
    /// The first call of `MPI_Init` or one like it begins.
    pub begins: fn(),
    /// It has returned.
    pub is_ready: fn(),
    /// `MPI_Finalize` begins.
    pub ends: fn(),
    /// It has returned.
    pub has_ended: fn(),
    /// `_exit` is called.
    pub leaves: fn(),
    /// Another program is about to take the place of this one.
    pub is_replaced: fn(),
}

static EVENTS: Registered<Events> = Registered::none();

/// How [`mpi_position`] names functions.
static NAMES: mpi_position::Names = functions::name;

/// Patches what is loaded; what is loaded later follows. To be called once, by the main thread, when
/// the program has not begun.
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

/// Tells where calls of the function that is called `name` and lies at `real` go; 0 for there.
pub type Bind = unsafe extern "C-unwind" fn(name: *const c_char, real: usize) -> usize;

/// See [`Bind`].
///
/// # Safety
///
/// `name` is a text with its end mark, and `real` the MPI function of that name.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub unsafe extern "C-unwind" fn bind(name: *const c_char, real: usize) -> usize {
    let _guard = Guard::enter();
    // SAFETY: as promised.
    let name = unsafe { core::ffi::CStr::from_ptr(name) };
    patch::mpi_target(name.to_bytes(), real).unwrap_or(0)
}

/// Has a program that holds MPI and the archive send its calls through this instance.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(feature = "archive")))]
fn join() {
    if let Some(word) = owners::archive_word() {
        // SAFETY: the archive's own word, which it has made for this, in the program's data.
        let word = unsafe { &*(word as *const AtomicUsize) };
        word.store(bind as Bind as usize, Ordering::Release);
    }
}

/// In a child after fork, which is the main thread there.
pub fn after_fork() {
    mpi_position::be_main();
    mpi_time::after_fork();
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        patch::after_fork();
        threads::after_fork();
    }
}
