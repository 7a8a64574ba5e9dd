//! Several OpenMP runtimes in one process, and runtimes that give fewer threads than requested,
//! each case in a separate process that starts with one CPU.
#![allow(unsafe_code)]
#![allow(clippy::unwrap_used)]

use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use quo::Context;
use quo::affinity::kernel::mask_of;
use quo::affinity::{Backend, CALLER, Kernel};
use quo::cpuset::CpuSet;
use quo::explain::Explanation;
use quo::phase::{Phase, PhaseMetrics, PhaseSpec, Pinning, Worker};

const TEST: &str = "every_runtime_follows_the_phase_and_its_pinning";
/// Set in the started processes: the name of the case.
const CASE: &str = "QUO_TEST_CASE";
/// A copy of libgomp, which is another runtime to the loader: Python wheels contain such copies.
const COPY: &str = "QUO_TEST_COPY";
/// LLVM's or Intel's runtime.
const KMP: &str = "QUO_TEST_KMP";
/// A second copy of that runtime.
const KMP_COPY: &str = "QUO_TEST_KMP_COPY";

type Parallel = extern "C" fn(extern "C" fn(*mut c_void), *mut c_void, c_uint, c_uint);

/// A runtime that this process has loaded, by its handle.
struct Runtime(usize);

impl Runtime {
    fn open(path: &str, scope: c_int) -> Option<Self> {
        let path = CString::new(path).unwrap();
        // SAFETY: the initialisers of OpenMP runtimes only read the environment.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | scope) };
        (!handle.is_null()).then_some(Self(handle as usize))
    }

    fn gnu() -> Self {
        Self::open("libgomp.so.1", libc::RTLD_GLOBAL).unwrap()
    }

    /// Opens the runtime named by a variable, in a separate scope.
    fn named(variable: &str) -> Self {
        Self::open(&std::env::var(variable).unwrap(), libc::RTLD_LOCAL).unwrap()
    }

    fn symbol(&self, name: &CStr) -> *mut c_void {
        // SAFETY: the handle is open.
        let symbol = unsafe { libc::dlsym(self.0 as *mut c_void, name.as_ptr()) };
        assert!(!symbol.is_null(), "{name:?}");
        symbol
    }

    fn max_threads(&self) -> usize {
        let symbol = self.symbol(c"omp_get_max_threads");
        // SAFETY: OpenMP declares `int omp_get_max_threads(void)`.
        let threads =
            unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(symbol)() };
        usize::try_from(threads).unwrap()
    }

    /// Runs a region of `threads` threads, each of which calls `work`.
    fn region(&self, threads: usize, work: &(dyn Fn() + Sync)) {
        extern "C" fn call(work: *mut c_void) {
            // SAFETY: the closure passed to the region below, which outlives it.
            unsafe { (*work.cast::<&(dyn Fn() + Sync)>())() }
        }
        // SAFETY: the runtimes declare the function with this type.
        let parallel =
            unsafe { std::mem::transmute::<*mut c_void, Parallel>(self.symbol(c"GOMP_parallel")) };
        let mut work = work;
        parallel(call, (&raw mut work).cast(), c_uint::try_from(threads).unwrap(), 0);
    }

    /// Returns the number of the calling thread in its team.
    fn thread(&self) -> usize {
        let symbol = self.symbol(c"omp_get_thread_num");
        // SAFETY: OpenMP declares `int omp_get_thread_num(void)`.
        let thread =
            unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(symbol)() };
        usize::try_from(thread).unwrap()
    }

    /// Returns the masks of the threads of a region.
    fn team(&self) -> Vec<CpuSet> {
        let seen = Mutex::new(Vec::new());
        self.region(0, &|| seen.lock().unwrap().push(mask_of(CALLER).unwrap()));
        seen.into_inner().unwrap()
    }
}

fn context() -> Context {
    let folder = tempfile::tempdir().unwrap();
    let group = quo::group::local::LocalSpace::new(1, folder.path()).unwrap().join(0).unwrap();
    Context::create(group).unwrap()
}

/// Runs a phase over the machine; returns the result of `work`, the part of the worker, and the
/// reports.
fn in_phase<R>(work: impl FnOnce() -> R) -> (R, Worker, PhaseMetrics, Explanation) {
    let context = context();
    let before = mask_of(CALLER).unwrap();
    let phase = context.phase(PhaseSpec::over(quo::ObjectType::Machine)).unwrap();
    let outcome = phase.run(|worker| (work(), worker.clone())).unwrap();
    assert_eq!(mask_of(CALLER).unwrap(), before);
    let explanation = context.explain().unwrap();
    context.free().unwrap();
    let (value, worker) = outcome.value.unwrap();
    (value, worker, outcome.metrics, explanation)
}

fn names(explanation: &Explanation, part: &str) -> bool {
    explanation.openmp.iter().any(|name| name.contains(part))
}

/// Returns true if each thread has one CPU, and together they have all of them.
fn has_one_thread_per_cpu(masks: &[CpuSet], cpus: &CpuSet) -> bool {
    let together = masks.iter().fold(CpuSet::new(), |all, mask| all.union(mask));
    masks.iter().all(|mask| mask.len() == 1) && together == *cpus && masks.len() == cpus.len()
}

/// Runs phases with a pinning option; checks that `expected` holds for the masks of each team, and
/// that all masks are restored afterwards.
fn pinned(runtimes: &[Runtime], pinning: Pinning, expected: impl Fn(&[CpuSet], &CpuSet) -> bool) {
    let context = context();
    let spec = PhaseSpec::over(quo::ObjectType::Machine).pinning(pinning);
    let phase = context.phase(spec).unwrap();
    let before = mask_of(CALLER).unwrap();
    for runtime in runtimes {
        for _ in 0..3 {
            let outcome = phase.run(|worker| (runtime.team(), worker.clone())).unwrap();
            let (team, worker) = outcome.value.unwrap();
            assert!(expected(&team, worker.cpus()), "{team:?} {worker:?}");
            assert_eq!(mask_of(CALLER).unwrap(), before);
        }
    }
    // A thread that the worker starts in the phase is on the rank's CPUs afterwards.
    let (end, wait) = std::sync::mpsc::channel::<()>();
    let outcome = phase.run(|_| {
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            let _ = wait.recv();
        });
        (thread, told.recv().unwrap())
    });
    let (thread, number) = outcome.unwrap().value.unwrap();
    assert_eq!(mask_of(number).unwrap(), before);
    drop(end);
    thread.join().unwrap();
    context.free().unwrap();
}

/// Runs a region of one thread with an inner team of all: if threads pin themselves, each has one
/// CPU.
fn inner_teams(runtime: &Runtime) {
    let context = context();
    let phase = context.phase(PhaseSpec::over(quo::ObjectType::Machine)).unwrap();
    let before = mask_of(CALLER).unwrap();
    let masks = |phase: &Phase<'_>, threads| {
        let seen = Mutex::new(Vec::new());
        runtime.region(1, &|| {
            runtime.region(threads, &|| {
                phase.pin_thread(runtime.thread(), threads).unwrap();
                seen.lock().unwrap().push(mask_of(CALLER).unwrap());
            });
        });
        seen.into_inner().unwrap()
    };
    for _ in 0..3 {
        let outcome =
            phase.run(|worker| (masks(&phase, worker.threads()), worker.clone())).unwrap();
        let (team, worker) = outcome.value.unwrap();
        assert!(has_one_thread_per_cpu(&team, worker.cpus()), "{team:?} {worker:?}");
        assert_eq!(mask_of(CALLER).unwrap(), before);
        let told = |text: &String| text.contains("inner teams") && text.contains("pin_thread");
        assert!(outcome.metrics.notes.iter().any(told), "{:?}", outcome.metrics);
        assert!(context.explain().unwrap().warnings.iter().any(told));
    }
    context.free().unwrap();
}

/// Checks that every runtime has the phase's number and a team on the phase's CPUs, and its own
/// number afterwards.
fn all_follow(load: impl Fn() -> Vec<Runtime>) -> Explanation {
    let runtimes = load();
    let counts = || runtimes.iter().map(Runtime::max_threads).collect::<Vec<_>>();
    let teams = || runtimes.iter().map(Runtime::team).collect::<Vec<_>>();
    let (teams, worker, metrics, explanation) = in_phase(|| (counts(), teams()));
    assert!(worker.threads() > 1, "{worker:?}");
    assert_eq!(teams.0, vec![worker.threads(); runtimes.len()]);
    for team in teams.1 {
        assert_eq!(team.len(), worker.threads());
        assert!(team.iter().all(|mask| mask == worker.cpus()), "{team:?} {worker:?}");
    }
    assert_eq!(counts(), vec![1; runtimes.len()], "restored");
    assert!(metrics.notes.is_empty(), "{metrics:?}");
    assert_eq!(explanation.openmp.len(), runtimes.len(), "{:?}", explanation.openmp);
    explanation
}

/// Checks that the worker gets the number of its team, and a reason with these words.
fn told_the_truth(runtime: &Runtime, words: &str) {
    let (team, worker, metrics, explanation) = in_phase(|| runtime.team().len());
    assert_eq!((team, worker.threads(), metrics.threads), (1, 1, 1), "{explanation}");
    assert!(metrics.notes[0].contains(words), "{metrics:?}");
    let told = |text: &String| text.contains("in the last phase, `phase`") && text.contains(words);
    assert!(explanation.warnings.iter().any(told), "{explanation}");
}

fn run_case(case: &str) {
    match case {
        "two" => {
            let explanation = all_follow(|| vec![Runtime::gnu(), Runtime::named(COPY)]);
            assert!(names(&explanation, "libgomp.so.1") && names(&explanation, "libgomp-copy.so"));
        }
        "late" => {
            let first = all_follow(|| vec![Runtime::gnu()]);
            assert!(!names(&first, "copy"));
            all_follow(|| vec![Runtime::gnu(), Runtime::named(COPY)]);
        }
        "limit" => told_the_truth(&Runtime::named(COPY), "OMP_THREAD_LIMIT"),
        "dynamic" => told_the_truth(&Runtime::gnu(), "OMP_DYNAMIC"),
        "levels" => told_the_truth(&Runtime::gnu(), "OMP_MAX_ACTIVE_LEVELS"),
        "close" | "spread" | "none" | "variable" => {
            let mut runtimes = vec![Runtime::gnu(), Runtime::named(COPY)];
            runtimes.extend(std::env::var_os(KMP).map(|_| Runtime::named(KMP)));
            let whole = |team: &[CpuSet], cpus: &CpuSet| team.iter().all(|mask| mask == cpus);
            match case {
                "close" => pinned(&runtimes, Pinning::Close, has_one_thread_per_cpu),
                "spread" => pinned(&runtimes, Pinning::Spread, has_one_thread_per_cpu),
                "none" => pinned(&runtimes, Pinning::None, whole),
                _ => pinned(&runtimes, Pinning::Environment, has_one_thread_per_cpu),
            }
        }
        "inner" => inner_teams(&Runtime::gnu()),
        "kmp inner" => inner_teams(&Runtime::named(KMP)),
        "kmp" | "kmp machine" => {
            let explanation = all_follow(|| vec![Runtime::gnu(), Runtime::named(KMP)]);
            assert!(names(&explanation, "LLVM's or Intel's"), "{:?}", explanation.openmp);
        }
        "kmp limit" => told_the_truth(&Runtime::named(KMP), "OMP_THREAD_LIMIT"),
        "kmp twice" => {
            // The process ends when the unused one is called.
            let (one, _other) = (Runtime::named(KMP), Runtime::named(KMP_COPY));
            let warns = |explanation: &Explanation, name: &str| {
                let text = "phases do not set the thread count of";
                explanation.warnings.iter().any(|it| it.contains(text) && it.contains(name))
            };
            let ((), _, _, explanation) = in_phase(|| ());
            assert!(warns(&explanation, "copy"), "{explanation}");
            assert_eq!(one.max_threads(), 1, "the first use");
            let (count, worker, _, explanation) = in_phase(|| one.max_threads());
            assert_eq!(count, worker.threads(), "{explanation}");
            assert!(warns(&explanation, "copy"), "{explanation}");
        }
        other => panic!("no case {other}"),
    }
}

/// Returns the file of a loaded library.
fn file_of(runtime: &Runtime) -> PathBuf {
    let address = runtime.symbol(c"omp_get_max_threads");
    // SAFETY: all zeros are a value of the record, which dladdr fills in.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the record outlives the call.
    assert_ne!(unsafe { libc::dladdr(address, &raw mut info) }, 0);
    // SAFETY: the loader's name of the object, which stays loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    PathBuf::from(name.to_str().unwrap())
}

fn copy(of: &Path, folder: &Path, name: &str) -> String {
    let path = folder.join(name);
    std::fs::copy(of, &path).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn every_runtime_follows_the_phase_and_its_pinning() {
    if let Ok(case) = std::env::var(CASE) {
        return run_case(&case);
    }
    let Some(gnu) = Runtime::open("libgomp.so.1", libc::RTLD_LOCAL) else {
        eprintln!("skipped: there is no libgomp.so.1 on this machine");
        return;
    };
    let all = mask_of(CALLER).unwrap();
    if all.len() < 2 {
        eprintln!("skipped: this process may use one CPU only");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Reports that the machine is busy, which libgomp queries.
    let (source, busy) = (folder.path().join("busy.c"), folder.path().join("libbusy.so"));
    let text = "int getloadavg(double *load, int n) { for (int i = 0; i < n; i++) load[i] = 99; return n; }";
    std::fs::write(&source, text).unwrap();
    let compiled =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&busy).arg(&source).status();
    assert!(compiled.expect("a C compiler named cc is needed").success());
    let busy = busy.to_str().unwrap();
    let gnu_copy = copy(&file_of(&gnu), folder.path(), "libgomp-copy.so");
    let mut cases: Vec<(&str, Vec<(&str, &str)>)> = vec![
        ("two", vec![]),
        ("late", vec![]),
        ("limit", vec![("OMP_THREAD_LIMIT", "1")]),
        ("dynamic", vec![("OMP_DYNAMIC", "true"), ("LD_PRELOAD", busy)]),
        ("levels", vec![("OMP_MAX_ACTIVE_LEVELS", "0")]),
        ("close", vec![]),
        ("spread", vec![]),
        ("none", vec![("OMP_PROC_BIND", "close")]),
        ("variable", vec![("OMP_PROC_BIND", "spread")]),
        ("inner", vec![("OMP_PROC_BIND", "close"), ("OMP_MAX_ACTIVE_LEVELS", "2")]),
    ];
    let given = std::env::var(KMP).ok();
    let kmp = given.iter().map(String::as_str).chain(["libomp.so.5", "libiomp5.so", "libomp.so"]);
    let kmp = kmp.into_iter().find_map(|name| Runtime::open(name, libc::RTLD_LOCAL));
    let kmp = kmp.map(|kmp| file_of(&kmp));
    let kmp_copy = kmp.as_ref().map(|kmp| copy(kmp, folder.path(), "libomp-copy.so"));
    match &kmp {
        Some(_) => cases.extend([
            ("kmp", vec![]),
            ("kmp machine", vec![("KMP_AFFINITY", "disabled")]),
            ("kmp inner", vec![("OMP_PROC_BIND", "close"), ("OMP_MAX_ACTIVE_LEVELS", "2")]),
            ("kmp limit", vec![("OMP_THREAD_LIMIT", "1")]),
            ("kmp twice", vec![]),
        ]),
        None => eprintln!("skipped: a part; there is no runtime of LLVM or Intel on this machine"),
    }
    let kernel = Kernel::new().unwrap();
    // Not the first, which is where pinned callers are.
    let last: CpuSet = all.iter().last().unwrap().to_string().parse().unwrap();
    kernel.set_mask(CALLER, &last).unwrap();
    for (case, variables) in cases {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", TEST, "--nocapture"]).env(CASE, case).env(COPY, &gnu_copy);
        for (name, _) in std::env::vars_os() {
            if ["OMP_", "GOMP_", "KMP_"].iter().any(|it| name.to_string_lossy().starts_with(it)) {
                command.env_remove(name);
            }
        }
        command.env("OMP_NUM_THREADS", "1");
        if let (Some(kmp), Some(copy)) = (&kmp, &kmp_copy) {
            command.env(KMP, kmp).env(KMP_COPY, copy);
        }
        let output = command.envs(variables).output().unwrap();
        assert!(output.status.success(), "{case}: {output:?}");
    }
    kernel.set_mask(CALLER, &all).unwrap();
}
