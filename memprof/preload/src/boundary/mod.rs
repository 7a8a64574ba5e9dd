//! Entries and exits of the program at MPI, the loader and the kernel's mappings.

#![allow(unsafe_code)]

mod thunks;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod hooked;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod loader;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) mod mappings;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod patch;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) mod special;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) mod threads;

use core::ffi::c_char;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::objects;
use crate::thread::{Guard, local};

/// The main thread's words.
static MAIN: AtomicUsize = AtomicUsize::new(0);

/// Patches loaded objects; later ones follow. To be called once, by the main thread, when the program has not begun.
pub fn start() {
    let _guard = Guard::enter();
    MAIN.store(core::ptr::from_ref(local()) as usize, Ordering::Release);
    objects::holder::prepare();
    objects::refresh();
    if let Some(trouble) = objects::overrides::trouble() {
        crate::note::say(
            crate::note::Code::BadOverride,
            format_args!("MEMPROF_COMPONENTS: {trouble}"),
        );
    }
    if let Some(text) = objects::overrides::text() {
        objects::overrides::each_fault(text, |line, fault| {
            crate::note::say(
                crate::note::Code::BadOverride,
                format_args!("MEMPROF_COMPONENTS, line {line}: {}", fault.text()),
            );
        });
    }
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    {
        hooked::start();
        #[cfg(not(feature = "archive"))]
        {
            patch::everything(core::ptr::null_mut());
            join();
        }
    }
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    crate::note::say(
        crate::note::Code::NoBoundary,
        format_args!("calls of MPI are seen on x86_64 only"),
    );
}

/// Tells where calls of the function that is called `name` and lies at `real` go; 0 for there.
pub type Bind = unsafe extern "C-unwind" fn(name: *const c_char, real: usize) -> usize;

/// See [`Bind`].
///
/// # Safety
///
/// `name` is a text with its end mark, and `real` the MPI function of that name.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub unsafe extern "C-unwind" fn bind(name: *const c_char, real: usize) -> usize {
    let _guard = Guard::enter();
    // SAFETY: as promised.
    let name = unsafe { core::ffi::CStr::from_ptr(name) };
    patch::mpi_target(name.to_bytes(), real).unwrap_or(0)
}

/// Has a program that holds MPI and the archive send its calls through this instance.
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(feature = "archive")))]
fn join() {
    if let Some(word) = objects::archive_word() {
        // SAFETY: the archive's own word, which it has made for this, in the program's data.
        let word = unsafe { &*(word as *const AtomicUsize) };
        word.store(bind as Bind as usize, Ordering::Release);
    }
}

/// In a child after fork, which is the main thread there.
pub fn after_fork() {
    MAIN.store(core::ptr::from_ref(local()) as usize, Ordering::Release);
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    {
        patch::after_fork();
        threads::after_fork();
    }
}

/// Place of the main thread now: the index of an MPI function plus one, 0 outside MPI.
pub fn main_thread() -> usize {
    let main = MAIN.load(Ordering::Acquire) as *const core::sync::atomic::AtomicUsize;
    // SAFETY: the first word of the main thread's block, which lasts as long as the process; it is
    // aligned and written whole.
    if main.is_null() { 0 } else { unsafe { (*main).load(Ordering::Relaxed) } }
}

/// The name of the function in [`crate::thread::Local::mpi`], empty for 0.
pub fn function_name(word: usize) -> &'static str {
    word.checked_sub(1).map_or("", thunks::name)
}
