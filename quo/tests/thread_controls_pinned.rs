//! GNU OpenMP whose threads the environment pins, in processes started with one CPU.
#![allow(unsafe_code)]
#![allow(clippy::unwrap_used)]

use quo_tests::suite::skip;
use std::ffi::{CStr, c_uint, c_void};
use std::process::Command;
use std::sync::Mutex;

use quo::affinity::kernel::mask_of;
use quo::affinity::{Backend, CALLER, Kernel};
use quo::cpuset::CpuSet;
use quo::phase::PhaseSpec;

const TEST: &str = "pinned_openmp_threads_run_on_all_cpus_of_the_phase";
/// Set in the started processes: the CPUs of the threads of the pool outside phases.
const PLACES: &str = "QUO_TEST_PLACES";

type Parallel = extern "C" fn(extern "C" fn(*mut c_void), *mut c_void, c_uint, c_uint);
type Seen = Mutex<Vec<(i32, CpuSet)>>;

extern "C" fn see(seen: *mut c_void) {
    // SAFETY: the value passed to the region by `masks`, which outlives it.
    let seen = unsafe { &*seen.cast::<Seen>() };
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    seen.lock().unwrap().push((thread, mask_of(CALLER).unwrap()));
}

/// Returns the threads of a region with their masks.
fn masks(parallel: Parallel, threads: usize) -> Vec<(i32, CpuSet)> {
    let mut seen = Seen::default();
    parallel(see, (&raw mut seen).cast(), c_uint::try_from(threads).unwrap(), 0);
    seen.into_inner().unwrap()
}

/// Returns a function of libgomp, which it loads; `None` if libgomp is not installed.
fn libgomp(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: libgomp's initialisers only read the environment.
    let handle =
        unsafe { libc::dlopen(c"libgomp.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if handle.is_null() {
        return None;
    }
    // SAFETY: the handle is open.
    let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
    assert!(!symbol.is_null(), "{name:?}");
    Some(symbol)
}

fn pinned_openmp_threads_run_on_all_cpus_of_the_phase() {
    if let Ok(places) = std::env::var(PLACES) {
        let places: Vec<CpuSet> = places.split(' ').map(|cpu| cpu.parse().unwrap()).collect();
        let parallel = libgomp(c"GOMP_parallel").unwrap();
        // SAFETY: libgomp declares the function with this type.
        let parallel = unsafe { std::mem::transmute::<*mut c_void, Parallel>(parallel) };
        return in_one_process(parallel, &places);
    }
    if libgomp(c"GOMP_parallel").is_none() {
        skip("there is no libgomp.so.1 on this machine");
    }
    let all = mask_of(CALLER).unwrap();
    let cpus: Vec<String> = all.iter().map(|cpu| cpu.to_string()).collect();
    let [first, second, ..] = &cpus[..] else {
        skip("this process may use one CPU only");
    };
    let both = format!("{first} {second}");
    let settings: [(&[(&str, &str)], &str); 2] = [
        (&[("OMP_PROC_BIND", "close"), ("OMP_PLACES", "cores")], first),
        (&[("GOMP_CPU_AFFINITY", &both)], &both),
    ];
    let kernel = Kernel::new().unwrap();
    kernel.set_mask(CALLER, &first.parse().unwrap()).unwrap();
    for (variables, places) in settings {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", TEST, "--nocapture"]).env(PLACES, places);
        for name in ["OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "OMP_THREAD_LIMIT"] {
            command.env_remove(name);
        }
        let output = command.envs(variables.iter().copied()).output().unwrap();
        assert!(output.status.success(), "{variables:?}: {output:?}");
    }
    kernel.set_mask(CALLER, &all).unwrap();
}

fn in_one_process(parallel: Parallel, places: &[CpuSet]) {
    let folder = tempfile::tempdir().unwrap();
    let group = quo::group::local::LocalSpace::new(1, folder.path()).unwrap().join(0).unwrap();
    let context = quo::Context::create(group).unwrap();
    let before = mask_of(CALLER).unwrap();
    let phase = context.phase(PhaseSpec::over(quo::ObjectType::Machine)).unwrap();
    for _ in 0..2 {
        let outcome = phase.run(|worker| (masks(parallel, worker.threads()), worker.clone()));
        let (team, worker) = outcome.unwrap().value.unwrap();
        assert_eq!(team.len(), worker.threads());
        assert!(team.iter().all(|(_, mask)| mask.len() == 1), "{team:?}");
        let together = team.iter().fold(CpuSet::new(), |all, (_, mask)| all.union(mask));
        assert_eq!(together, *worker.cpus(), "one thread per CPU of the phase: {team:?}");
        assert_eq!(mask_of(CALLER).unwrap(), before);
        let mut after: Vec<String> =
            team.iter().map(|&(thread, _)| mask_of(thread).unwrap().to_string()).collect();
        let pinned = (0..team.len()).map(|thread| places[thread % places.len()].to_string());
        let mut pinned: Vec<String> = pinned.collect();
        after.sort();
        pinned.sort();
        assert_eq!(after, pinned, "the runtime's pins hold outside the phase");
    }
    let warnings = context.explain().unwrap().warnings;
    let named = |name| warnings.iter().any(|text| text.starts_with(name));
    assert!(named("OMP_PROC_BIND=close ") || named("GOMP_CPU_AFFINITY="), "{warnings:?}");
    context.free().unwrap();
}

quo_tests::suite! {
    pinned_openmp_threads_run_on_all_cpus_of_the_phase
}
