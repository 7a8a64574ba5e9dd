//! Thread counts of threading libraries that the program may or may not have loaded.
//!
//! The libraries are not linked: their set and get functions are looked up, when they are needed,
//! in every loaded object, whatever its scope. A process may have several OpenMP runtimes; each has
//! a separate count. A library loaded later is found later. A library that was found stays loaded,
//! so the addresses kept here stay valid.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::loaded::{Opened, Seen};
use super::openmp_runtime::{OpenMpRuntime, callable};

/// A library whose number of threads can be controlled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ThreadLibrary {
    /// Any OpenMP runtime: `omp_set_num_threads`. Its count belongs to the calling thread.
    OpenMp,
    /// OpenBLAS: `openblas_set_num_threads`.
    OpenBlas,
    /// Intel's Math Kernel Library: `MKL_Set_Num_Threads`.
    Mkl,
    /// BLIS: `bli_thread_set_num_threads`.
    Blis,
}

impl ThreadLibrary {
    /// The libraries in the order in which counts are set; counts are restored in the opposite
    /// order. OpenMP comes first because the BLAS libraries may be built on it and change its count
    /// with their own.
    const ALL: [Self; 4] = [Self::OpenMp, Self::OpenBlas, Self::Mkl, Self::Blis];

    /// Returns the names of the functions that set and get the count, in the variants of different
    /// builds.
    fn symbols(self) -> &'static [(&'static CStr, &'static CStr)] {
        match self {
            Self::OpenMp => &[(c"omp_set_num_threads", c"omp_get_max_threads")],
            // Also with 64-bit integers, and as distributed with NumPy and SciPy.
            Self::OpenBlas => &[
                (c"openblas_set_num_threads", c"openblas_get_num_threads"),
                (c"openblas_set_num_threads64_", c"openblas_get_num_threads64_"),
                (c"openblas_set_num_threads_64", c"openblas_get_num_threads_64"),
                (c"scipy_openblas_set_num_threads", c"scipy_openblas_get_num_threads"),
                (c"scipy_openblas_set_num_threads64_", c"scipy_openblas_get_num_threads64_"),
            ],
            Self::Mkl => &[(c"MKL_Set_Num_Threads", c"MKL_Get_Max_Threads")],
            Self::Blis => &[(c"bli_thread_set_num_threads", c"bli_thread_get_num_threads")],
        }
    }
}

impl fmt::Display for ThreadLibrary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::OpenMp => "OpenMP",
            Self::OpenBlas => "OpenBLAS",
            Self::Mkl => "MKL",
            Self::Blis => "BLIS",
        })
    }
}

/// A thread count that was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Library of the count.
    pub library: ThreadLibrary,
    /// Count before, as the library reported it; BLIS reports −1 for "not set".
    pub before: i64,
    /// Count that was set.
    pub threads: usize,
}

/// Sets the thread counts of all threading libraries of the process.
///
/// Local. May be shared between threads; the counts belong to the process, except that OpenMP's
/// belongs to the calling thread.
///
/// ```
/// let controls = quo::phase::ThreadControls::new();
/// let saved = controls.set(4);
/// for setting in saved.settings() {
///     assert_eq!(setting.threads, 4);
/// }
/// saved.restore(); // or let it go out of scope
/// ```
#[derive(Clone, Debug, Default)]
pub struct ThreadControls {
    known: Arc<Mutex<Known>>,
}

impl ThreadControls {
    /// Creates the controls without looking up any library yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the libraries that are loaded now. A library that is loaded more than once, as
    /// OpenMP may be, is listed as often.
    #[must_use]
    pub fn libraries(&self) -> Vec<ThreadLibrary> {
        self.controls().iter().map(|control| control.library).collect()
    }

    /// Returns the OpenMP runtimes that are loaded now, and for each whether its count can be set;
    /// see [`callable`].
    pub(crate) fn openmp_runtimes(&self) -> Vec<(Arc<OpenMpRuntime>, bool)> {
        let controls = self.controls();
        let runtimes = || controls.iter().filter_map(|control| control.openmp.as_ref());
        let callable = callable(runtimes().map(|runtime| &**runtime));
        runtimes().map(|runtime| (Arc::clone(runtime), callable.allows(runtime))).collect()
    }

    /// Sets the thread count of every library found to `threads`, at least 1, and remembers the
    /// counts before. Does nothing if there is no such library.
    ///
    /// Must be called by the thread that will start the parallel work, since OpenMP keeps its count
    /// per thread. Existing threads are not moved. Two runtimes of LLVM and Intel end the process
    /// if both are used: of such runtimes only the one in use is set, or all if the user allows it
    /// (`KMP_DUPLICATE_LIB_OK`).
    #[must_use = "the counts are restored when the value is dropped"]
    pub fn set(&self, threads: usize) -> Saved {
        let count = c_int::try_from(threads.max(1)).unwrap_or(c_int::MAX);
        let controls = self.controls();
        let callable = callable(controls.iter().filter_map(|control| control.openmp.as_deref()));
        let is_callable =
            |control: &&Control| control.openmp.as_deref().is_none_or(|it| callable.allows(it));
        // All counts are read before the first is set: libraries may change one another's.
        let changed: Vec<Changed> = controls
            .iter()
            .filter(is_callable)
            .map(|control| Changed {
                before: control.get(),
                threads: count.unsigned_abs() as usize,
                control: control.clone(),
            })
            .collect();
        for changed in &changed {
            changed.control.set(count.into());
        }
        Saved { changed, on_this_thread: PhantomData }
    }

    fn controls(&self) -> Arc<[Control]> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { seen, controls } = &mut *known;
        seen.each_new(|opened| {
            let found: Vec<Control> = ThreadLibrary::ALL
                .into_iter()
                .filter_map(|it| Control::find(it, &opened))
                .collect();
            if !found.is_empty() {
                let mut all: Vec<Control> = controls.iter().cloned().chain(found).collect();
                all.sort_by_key(|control| control.library);
                *controls = all.into();
                opened.keep();
            }
        });
        Arc::clone(controls)
    }
}

/// Thread counts to restore, on drop at the latest.
///
/// Stays on the thread that set them, because OpenMP keeps its count per thread.
#[derive(Debug)]
#[must_use = "the counts are restored when the value is dropped"]
pub struct Saved {
    changed: Vec<Changed>,
    on_this_thread: PhantomData<*const ()>,
}

impl Saved {
    /// Restores every count, last one first.
    pub fn restore(self) {
        drop(self);
    }

    /// Returns the settings that were made.
    pub fn settings(&self) -> impl Iterator<Item = Setting> + '_ {
        self.changed.iter().map(|changed| Setting {
            library: changed.control.library,
            before: changed.before,
            threads: changed.threads,
        })
    }

    /// Returns the OpenMP runtimes whose counts were set.
    pub(crate) fn openmp_runtimes(&self) -> impl Iterator<Item = &OpenMpRuntime> {
        self.changed.iter().filter_map(|changed| changed.control.openmp.as_deref())
    }
}

impl Drop for Saved {
    fn drop(&mut self) {
        for changed in self.changed.iter().rev() {
            // Only for BLIS does a count that is not positive have a meaning.
            if changed.before > 0 || changed.control.library == ThreadLibrary::Blis {
                changed.control.set(changed.before);
            }
        }
    }
}

#[derive(Debug)]
struct Changed {
    control: Control,
    before: i64,
    threads: usize,
}

/// Objects examined, and the functions found in them, in the order in which counts are set.
#[derive(Debug, Default)]
struct Known {
    seen: Seen,
    controls: Arc<[Control]>,
}

/// The two functions of a library, by address.
#[derive(Debug, Clone)]
struct Control {
    library: ThreadLibrary,
    set: usize,
    get: usize,
    openmp: Option<Arc<OpenMpRuntime>>,
}

impl Control {
    /// Finds both functions or none: a count that cannot be read could not be restored.
    fn find(library: ThreadLibrary, opened: &Opened<'_>) -> Option<Self> {
        let both =
            |(set, get): &(&CStr, &CStr)| Some((opened.function(set)?, opened.function(get)?));
        let (set, get) = library.symbols().iter().find_map(both)?;
        let openmp = (library == ThreadLibrary::OpenMp).then(|| OpenMpRuntime::find(opened));
        Some(Self { library, set, get, openmp })
    }

    fn get(&self) -> i64 {
        if self.library == ThreadLibrary::Blis {
            // SAFETY: the address was found under BLIS's name for a function without arguments that
            // returns its dimension type (64 bits on 64-bit platforms), and the library is kept
            // loaded.
            unsafe { std::mem::transmute::<usize, extern "C" fn() -> i64>(self.get)() }
        } else {
            // SAFETY: as above; the other libraries' functions return a C int.
            let count =
                unsafe { std::mem::transmute::<usize, extern "C" fn() -> c_int>(self.get)() };
            count.into()
        }
    }

    fn set(&self, count: i64) {
        if self.library == ThreadLibrary::Blis {
            // SAFETY: as in `get`; the function takes a count of the dimension type and returns
            // nothing.
            unsafe { std::mem::transmute::<usize, extern "C" fn(i64)>(self.set)(count) }
        } else {
            let count = c_int::try_from(count).unwrap_or(c_int::MAX);
            // SAFETY: as in `get`; the function takes a C int and returns nothing.
            unsafe { std::mem::transmute::<usize, extern "C" fn(c_int)>(self.set)(count) }
        }
    }
}
