//! OpenMP threads of a worker: moved to its CPUs where the runtime pins them elsewhere.
//!
//! A runtime makes its list of places when it starts, which is before the first push, and pins the
//! threads that it starts later by that list. It does not pin threads again that a later team of the
//! same size takes over: one region at the start of a phase tells the threads, which are then moved.
//! GNU's runtime pins by environment variables only, LLVM's and Intel's confine threads without one.
#![allow(unsafe_code)]

use std::ffi::{c_uint, c_void};
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use crate::affinity::{Backend, ThreadId};
use crate::cpuset::CpuSet;
use crate::threading::symbol;

const PROC_BIND: &str = "OMP_PROC_BIND";
const PLACES: &str = "OMP_PLACES";
const GOMP: &str = "GOMP_CPU_AFFINITY";
const KMP: &str = "KMP_AFFINITY";

/// The values of `KMP_AFFINITY` that pin; its other words modify these.
const KMP_TYPES: [&str; 6] = ["balanced", "compact", "explicit", "logical", "physical", "scatter"];

/// The origin of an OpenMP runtime, which decides on the variables that it obeys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Gnu,
    /// LLVM's and Intel's.
    Kmp,
}

/// An environment variable that pins OpenMP threads, with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pin {
    variable: &'static str,
    value: String,
}

impl fmt::Display for Pin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}={}", self.variable, self.value)
    }
}

/// Returns the variable that pins the threads of a runtime, given the variables that are set. Pure.
fn pin(family: Family, value: impl Fn(&str) -> Option<String>) -> Option<Pin> {
    let set = |variable: &'static str| {
        value(variable).filter(|value| !value.is_empty()).map(|value| Pin { variable, value })
    };
    if family == Family::Kmp {
        if let Some(pin) = set(KMP) {
            // Set at all, it overrides the others.
            let words = pin.value.to_ascii_lowercase();
            let pins = words.split(',').any(|word| KMP_TYPES.contains(&word.trim()));
            return pins.then_some(pin);
        }
        if let Some(pin) = set(GOMP) {
            return Some(pin);
        }
    }
    let bind = set(PROC_BIND);
    if bind.as_ref().is_some_and(|bind| bind.value.trim().eq_ignore_ascii_case("false")) {
        return None;
    }
    bind.or_else(|| set(PLACES)).or_else(|| set(GOMP))
}

/// `GOMP_parallel`, which all runtimes have: runs a function on every thread of a team.
type Parallel = extern "C" fn(extern "C" fn(*mut c_void), *mut c_void, c_uint, c_uint);

/// The OpenMP runtime of this process.
#[derive(Debug)]
struct Runtime {
    family: Family,
    pin: Option<Pin>,
    parallel: Option<Parallel>,
}

impl Runtime {
    /// Looks the runtime up, once: to be called only where there is one.
    fn get() -> &'static Self {
        static RUNTIME: OnceLock<Runtime> = OnceLock::new();
        RUNTIME.get_or_init(|| {
            let is_kmp = symbol(c"__kmpc_fork_call").is_some();
            let family = if is_kmp { Family::Kmp } else { Family::Gnu };
            // SAFETY: the runtimes define the name as a function of this type, and looking it up
            // keeps the library loaded.
            let parallel = symbol(c"GOMP_parallel").map(|parallel| unsafe {
                std::mem::transmute::<*mut c_void, Parallel>(parallel.as_ptr())
            });
            let pin = pin(family, |name| {
                std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
            });
            Runtime { family, pin, parallel }
        })
    }
}

/// Returns the warning about a variable that pins the threads of the OpenMP runtime of this process.
pub(crate) fn warning() -> Option<String> {
    let runtime = Runtime::get();
    runtime.pin.as_ref().map(|pin| warning_of(pin, runtime.parallel.is_some()))
}

/// The words of the warning; `movable` if phases can move the threads. Pure.
fn warning_of(pin: &Pin, movable: bool) -> String {
    let variable = pin.variable;
    let extent = if movable {
        "a phase that sets thread counts moves its threads, other phases and pushes do not"
    } else {
        "neither phases nor pushes can move them"
    };
    format!(
        "{pin} pins OpenMP threads to CPUs that the runtime chose at its start; {extent}: \
         unset {variable}"
    )
}

/// The OpenMP threads that a phase moved, with their masks before.
#[derive(Debug, Default)]
pub(super) struct Moved {
    to: CpuSet,
    before: Vec<(ThreadId, CpuSet)>,
}

impl Moved {
    /// Moves the team of `threads` threads that the caller's next region will have to the CPUs that
    /// the caller was bound to, if the runtime of this process pins or confines threads.
    pub(super) fn by_phase(backend: &dyn Backend, threads: usize, cpus: &CpuSet) -> Self {
        let runtime = Runtime::get();
        match runtime.parallel {
            Some(parallel)
                if threads > 1 && (runtime.pin.is_some() || runtime.family == Family::Kmp) =>
            {
                Self::team(backend, &team(parallel, threads), cpus)
            }
            _ => Self::default(),
        }
    }

    fn team(backend: &dyn Backend, team: &[ThreadId], cpus: &CpuSet) -> Self {
        let caller = backend.caller();
        let mut before = Vec::new();
        for &thread in team {
            // A thread that cannot be moved works where it is.
            let Ok(mask) = backend.mask(thread) else { continue };
            // The runtime may have pinned the caller too, which the pop moves back.
            if mask != *cpus && backend.set_mask(thread, cpus).is_ok() && thread != caller {
                before.push((thread, mask));
            }
        }
        Self { to: cpus.clone(), before }
    }

    /// Gives the threads their masks back, except those whose mask was changed since. To be called
    /// before the pop, which takes threads with the mask of the phase for the caller's followers.
    pub(super) fn restore(self, backend: &dyn Backend) {
        for (thread, mask) in self.before {
            if backend.mask(thread).is_ok_and(|now| now == self.to) {
                // Best effort: the thread may have ended, or its CPUs are no longer allowed.
                let _ = backend.set_mask(thread, &mask);
            }
        }
    }
}

/// The place where the threads of a team write their numbers.
struct Numbers {
    next: AtomicUsize,
    threads: Vec<AtomicI32>,
}

/// Runs a region of `threads` threads and returns their numbers.
fn team(parallel: Parallel, threads: usize) -> Vec<ThreadId> {
    extern "C" fn write_number(numbers: *mut c_void) {
        // SAFETY: the pointer given to `parallel` below, to a value that outlives the region and is
        // only changed through atomics.
        let numbers = unsafe { &*numbers.cast::<Numbers>() };
        let next = numbers.next.fetch_add(1, Ordering::Relaxed);
        if let Some(number) = numbers.threads.get(next) {
            let thread = rustix::thread::gettid().as_raw_nonzero().get();
            number.store(thread, Ordering::Release);
        }
    }
    let threads = threads.min(c_uint::MAX as usize);
    let mut numbers = Numbers {
        next: AtomicUsize::new(0),
        threads: (0..threads).map(|_| AtomicI32::new(0)).collect(),
    };
    // The region ends with a barrier of the team.
    parallel(write_number, (&raw mut numbers).cast(), threads as c_uint, 0);
    // The runtime may have given fewer threads than asked for.
    let numbers = numbers.threads.iter().map(|number| number.load(Ordering::Acquire));
    numbers.filter(|&thread| thread != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Variables = &'static [(&'static str, &'static str)];

    fn pinned_by(family: Family, variables: Variables) -> Option<String> {
        let value = |name: &str| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        pin(family, value).map(|pin| pin.to_string())
    }

    #[test]
    fn each_runtime_is_pinned_by_the_variables_it_obeys() {
        use Family::{Gnu, Kmp};
        let table: [(Family, Variables, Option<&str>); 16] = [
            (Gnu, &[], None),
            (Gnu, &[(PROC_BIND, "")], None),
            (Gnu, &[(PROC_BIND, "close"), (PLACES, "cores")], Some("OMP_PROC_BIND=close")),
            (Gnu, &[(PLACES, "cores"), (GOMP, "0 1")], Some("OMP_PLACES=cores")),
            (Gnu, &[(GOMP, "0 1")], Some("GOMP_CPU_AFFINITY=0 1")),
            (Gnu, &[(PROC_BIND, "FALSE"), (PLACES, "cores"), (GOMP, "0 1")], None),
            (Gnu, &[(KMP, "compact")], None),
            (Kmp, &[], None),
            (Kmp, &[(PROC_BIND, "spread")], Some("OMP_PROC_BIND=spread")),
            (Kmp, &[(PROC_BIND, "false"), (PLACES, "cores")], None),
            (Kmp, &[(PROC_BIND, "false"), (GOMP, "0 1")], Some("GOMP_CPU_AFFINITY=0 1")),
            (Kmp, &[(KMP, "compact"), (PROC_BIND, "false")], Some("KMP_AFFINITY=compact")),
            (Kmp, &[(KMP, "verbose,Scatter")], Some("KMP_AFFINITY=verbose,Scatter")),
            (Kmp, &[(KMP, "verbose,none")], None),
            (Kmp, &[(KMP, "none"), (PROC_BIND, "close")], None),
            (Kmp, &[(KMP, "disabled")], None),
        ];
        for (family, variables, expected) in table {
            let found = pinned_by(family, variables);
            assert_eq!(found.as_deref(), expected, "{family:?} {variables:?}");
        }
    }

    #[test]
    fn warning_names_the_variable_and_its_value() {
        let pin = Pin { variable: PLACES, value: "cores".to_owned() };
        for (movable, extent) in [(true, "moves its threads"), (false, "neither")] {
            let text = warning_of(&pin, movable);
            assert!(text.starts_with("OMP_PLACES=cores pins") && text.contains(extent), "{text}");
        }
    }
}
