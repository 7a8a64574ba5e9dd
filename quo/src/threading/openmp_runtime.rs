//! An OpenMP runtime of this process: what it reports about its teams, and a region that finds its
//! threads.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use super::loaded::{Object, Opened};

/// Origin of an OpenMP runtime, which determines the variables that it obeys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// GNU's, and any other that is not LLVM's or Intel's.
    Gnu,
    /// LLVM's and Intel's.
    Kmp,
}

/// `GOMP_parallel`: runs a function on every thread of a team.
type Parallel = extern "C" fn(extern "C" fn(*mut c_void), *mut c_void, c_uint, c_uint);

/// A runtime, by the addresses of its functions; 0 for a function that it does not have.
#[derive(Debug)]
pub(crate) struct OpenMpRuntime {
    /// Name of its file.
    pub(crate) name: String,
    /// Origin of the runtime.
    pub(crate) family: Family,
    object: Object,
    parallel: usize,
    thread_number: usize,
    dynamic: usize,
    thread_limit: usize,
    active_level: usize,
    most_active_levels: usize,
    blocktime: usize,
    set_blocktime: usize,
}

/// Reason why a team has fewer threads than requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fewer {
    /// `OMP_THREAD_LIMIT` or a similar setting: at most this many threads.
    Limit(usize),
    /// The caller is in a region, and no more regions may be active: one thread.
    Levels,
    /// `OMP_DYNAMIC`: the runtime chooses.
    Dynamic,
}

impl OpenMpRuntime {
    /// Looks up the functions of a runtime in its own object.
    pub(super) fn find(opened: &Opened<'_>) -> Arc<Self> {
        let address = |name: &CStr| opened.function(name).unwrap_or(0);
        let is_kmp = address(c"__kmpc_fork_call") != 0;
        Arc::new(Self {
            name: opened.file_name(),
            family: if is_kmp { Family::Kmp } else { Family::Gnu },
            object: opened.object().clone(),
            parallel: address(c"GOMP_parallel"),
            thread_number: address(c"omp_get_thread_num"),
            dynamic: address(c"omp_get_dynamic"),
            thread_limit: address(c"omp_get_thread_limit"),
            active_level: address(c"omp_get_active_level"),
            most_active_levels: address(c"omp_get_max_active_levels"),
            blocktime: address(c"kmp_get_blocktime"),
            set_blocktime: address(c"kmp_set_blocktime"),
        })
    }

    /// Returns true if [`team`](Self::team) can start a region.
    pub(crate) fn has_regions(&self) -> bool {
        self.parallel != 0
    }

    /// Returns why a region of the calling thread gets fewer than `threads` threads, as the runtime
    /// reports it.
    pub(crate) fn fewer(&self, threads: usize) -> Option<Fewer> {
        if let (Some(level), Some(most)) = (ask(self.active_level), ask(self.most_active_levels))
            && level >= most
        {
            return Some(Fewer::Levels);
        }
        if ask(self.dynamic).is_some_and(|dynamic| dynamic != 0) {
            return Some(Fewer::Dynamic);
        }
        let limit = usize::try_from(ask(self.thread_limit)?).ok()?;
        (limit < threads).then_some(Fewer::Limit(limit.max(1)))
    }

    /// Returns true if regions inside regions may have more than one thread.
    pub(crate) fn has_inner_teams(&self) -> bool {
        ask(self.most_active_levels).is_some_and(|most| most > 1)
    }

    /// Runs a region of `threads` threads and returns their kernel thread ids, in the order of
    /// OpenMP's thread numbers. With `sleeps`, threads of LLVM's and Intel's runtimes do not spin
    /// afterwards.
    pub(crate) fn team(&self, threads: usize, sleeps: bool) -> Vec<i32> {
        if self.parallel == 0 {
            return Vec::new();
        }
        // SAFETY: the runtimes define the name as a function of this type, and are kept loaded.
        let parallel = unsafe { std::mem::transmute::<usize, Parallel>(self.parallel) };
        let _blocktime = sleeps.then(|| Blocktime::none(self));
        let threads = threads.min(c_uint::MAX as usize);
        let mut numbers = Numbers {
            thread_number: self.thread_number,
            threads: (0..threads).map(|_| AtomicI32::new(0)).collect(),
        };
        // The region ends with a barrier of the team.
        parallel(write_number, (&raw mut numbers).cast(), threads as c_uint, 0);
        // The runtime may have given fewer threads than requested.
        let numbers = numbers.threads.iter().map(|number| number.load(Ordering::Acquire));
        numbers.filter(|&thread| thread != 0).collect()
    }
}

/// Calls a function of OpenMP without arguments that returns an `int`, by the address found for its name; `None` for 0.
fn ask(address: usize) -> Option<c_int> {
    (address != 0).then(|| {
        // SAFETY: the address is that of such a function, of a runtime that is kept loaded.
        unsafe { std::mem::transmute::<usize, extern "C" fn() -> c_int>(address)() }
    })
}

/// Slots into which the threads of a team write their ids.
struct Numbers {
    thread_number: usize,
    threads: Vec<AtomicI32>,
}

extern "C" fn write_number(numbers: *mut c_void) {
    // SAFETY: the pointer given to `parallel` by `team`, to a value that outlives the region and is
    // only changed through atomics.
    let numbers = unsafe { &*numbers.cast::<Numbers>() };
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    let write = |place: &AtomicI32| {
        place.compare_exchange(0, thread, Ordering::Release, Ordering::Relaxed).is_ok()
    };
    let own = ask(numbers.thread_number).unwrap_or(0);
    let own = usize::try_from(own).unwrap_or(0);
    let _ = numbers.threads.iter().skip(own).any(write);
}

/// Time that threads spin after a region, set to zero until this value is dropped.
struct Blocktime {
    set: Option<extern "C" fn(c_int)>,
    before: c_int,
}

impl Blocktime {
    fn none(runtime: &OpenMpRuntime) -> Self {
        if runtime.blocktime == 0 || runtime.set_blocktime == 0 {
            return Self { set: None, before: 0 };
        }
        // SAFETY: `int kmp_get_blocktime(void)` of a runtime that is kept loaded.
        let get =
            unsafe { std::mem::transmute::<usize, extern "C" fn() -> c_int>(runtime.blocktime) };
        // SAFETY: `void kmp_set_blocktime(int)` of the same runtime.
        let set =
            unsafe { std::mem::transmute::<usize, extern "C" fn(c_int)>(runtime.set_blocktime) };
        let before = get();
        set(0);
        Self { set: Some(set), before }
    }
}

impl Drop for Blocktime {
    fn drop(&mut self) {
        if let Some(set) = self.set {
            set(self.before);
        }
    }
}

/// Runtimes of LLVM and Intel that may be called. The first of them that is used registers with the
/// process, and ends it when another one is used, unless the user has allowed that by
/// `KMP_DUPLICATE_LIB_OK`.
pub(super) enum Callable {
    All,
    /// Of LLVM's and Intel's, only the one in use, which contains this address. `None` if none is
    /// in use, since the first one to be used is not known.
    Only(Option<usize>),
}

impl Callable {
    pub(super) fn allows(&self, runtime: &OpenMpRuntime) -> bool {
        match self {
            Self::All => true,
            Self::Only(used) => {
                runtime.family != Family::Kmp
                    || used.is_some_and(|address| runtime.object.contains(address))
            }
        }
    }
}

/// Determines which runtimes may be called.
pub(super) fn callable<'a>(runtimes: impl Iterator<Item = &'a OpenMpRuntime>) -> Callable {
    let several = runtimes.filter(|runtime| runtime.family == Family::Kmp).nth(1).is_some();
    if several && !duplicates_are_allowed() { Callable::Only(registered()) } else { Callable::All }
}

fn duplicates_are_allowed() -> bool {
    let value = std::env::var_os("KMP_DUPLICATE_LIB_OK").unwrap_or_default();
    let value = value.to_string_lossy().to_ascii_lowercase();
    ["true", ".true.", "t", "1", "yes", "y", "on", "enabled"].contains(&value.as_str())
}

/// Returns the address in a runtime's data by which the runtime has registered with this process:
/// `ADDRESS-FLAG-NAME` in shared memory, or in a variable.
fn registered() -> Option<usize> {
    let process = rustix::process::getpid().as_raw_nonzero();
    let variable = format!("__KMP_REGISTERED_LIB_{process}");
    let file = format!("/dev/shm/{variable}_{}", rustix::process::getuid().as_raw());
    let text = std::fs::read(&file).or_else(|_| std::fs::read(format!("/tmp/{variable}")));
    let text = match text {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(_) => std::env::var(&variable).ok()?,
    };
    let (address, _) = text.split_once('-')?;
    usize::from_str_radix(address.trim_start_matches("0x"), 16).ok()
}
