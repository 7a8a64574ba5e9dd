//! The real GNU OpenMP runtime, in a separate process.
#![allow(unsafe_code)]
#![allow(clippy::unwrap_used)]

use quo::phase::{PhaseSpec, ThreadControls, ThreadLibrary};
use quo_tests::suite::skip;

fn the_openmp_count_of_this_thread_is_set_and_restored() {
    // SAFETY: libgomp's initialisers only read the environment.
    let handle =
        unsafe { libc::dlopen(c"libgomp.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if handle.is_null() {
        skip("there is no libgomp.so.1 on this machine");
    }
    // SAFETY: the handle is open.
    let symbol = unsafe { libc::dlsym(handle, c"omp_get_max_threads".as_ptr()) };
    assert!(!symbol.is_null());
    // SAFETY: OpenMP declares `int omp_get_max_threads(void)`.
    let max_threads: extern "C" fn() -> i32 = unsafe { std::mem::transmute(symbol) };

    let controls = ThreadControls::new();
    assert!(controls.libraries().contains(&ThreadLibrary::OpenMp));
    let before = max_threads();
    let saved = controls.set(7);
    assert_eq!(max_threads(), 7);
    let elsewhere = std::thread::spawn(move || max_threads()).join().unwrap();
    assert_eq!(elsewhere, before, "the count belongs to the thread that set it");
    saved.restore();
    assert_eq!(max_threads(), before);

    // The same by a phase with default options.
    let folder = tempfile::tempdir().unwrap();
    let group = quo::group::local::LocalSpace::new(1, folder.path()).unwrap().join(0).unwrap();
    let context = quo::Context::create(group).unwrap();
    let _one = controls.set(1);
    let phase = context.phase(PhaseSpec::over(quo::ObjectType::Machine)).unwrap();
    let run = phase.run(|worker| (max_threads(), worker.threads())).unwrap().value.unwrap();
    assert_eq!(usize::try_from(run.0).unwrap(), run.1, "a phase follows its binding by default");
    assert_eq!(max_threads(), 1);
    context.free().unwrap();
}

quo_tests::suite! {
    the_openmp_count_of_this_thread_is_set_and_restored
}
