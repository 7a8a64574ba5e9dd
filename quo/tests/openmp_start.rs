//! A binding that GNU OpenMP made at its start, before the context: distinguished from the
//! launcher's.
#![allow(unsafe_code)]
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use std::process::Command;

use quo::affinity::kernel::mask_of;
use quo::affinity::{Backend, CALLER, Kernel};
use quo::explain::Reason;
use quo::group::local::LocalSpace;
use quo::{Context, CpuSet};
use support::Segments;
use support::contexts::options;

/// Set in the started processes: the end of their mask's explanation.
const EXPECTED: &str = "QUO_TEST_EXPECTED";

fn main() -> std::process::ExitCode {
    if let Ok(expected) = std::env::var(EXPECTED) {
        in_one_process(&expected);
        return std::process::ExitCode::SUCCESS;
    }
    support::run(&[
        ("thread_bound_by_openmp_is_not_the_launchers", openmp_is_not_the_launcher),
        ("one_place_for_openmp_is_the_launchers_choice", one_place_is_the_launchers),
    ])
}

/// Loads libgomp, like the start of a program linked with it. Returns false if it is not installed.
fn load() -> bool {
    // SAFETY: libgomp's initialisers only read the environment and bind the calling thread.
    let handle =
        unsafe { libc::dlopen(c"libgomp.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    !handle.is_null()
}

fn in_one_process(expected: &str) {
    assert!(load());
    let segments = Segments::new();
    let group = LocalSpace::new(1, segments.path()).unwrap().join(0).unwrap();
    let context = Context::create_with(group, options(segments.path())).unwrap();
    assert_eq!(context.binding().unwrap().len(), 1);
    let explanation = context.explain().unwrap();
    let reason = explanation.ranks[0].reason;
    assert_eq!(matches!(reason, Reason::OpenMp), expected == "openmp", "{explanation}");
    assert_eq!(matches!(reason, Reason::Launched(_)), expected == "launcher", "{explanation}");
    context.free().unwrap();
}

fn start(expected: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(EXPECTED, expected).env_remove("GOMP_CPU_AFFINITY");
    command.env("OMP_PROC_BIND", "spread").env("OMP_PLACES", "threads");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Returns the CPUs of this process, or skips the test without two CPUs or libgomp.
fn cpus() -> CpuSet {
    let all = mask_of(CALLER).unwrap();
    if all.len() < 2 {
        quo_tests::suite::skip("needs two CPUs");
    }
    if !load() {
        quo_tests::suite::skip("there is no libgomp.so.1 on this machine");
    }
    all
}

fn openmp_is_not_the_launcher() {
    cpus();
    start("openmp");
}

fn one_place_is_the_launchers() {
    let all = cpus();
    let kernel = Kernel::new().unwrap();
    kernel.set_mask(CALLER, &CpuSet::single(all.first().unwrap())).unwrap();
    start("launcher");
    kernel.set_mask(CALLER, &all).unwrap();
}
