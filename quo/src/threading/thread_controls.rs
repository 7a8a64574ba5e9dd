//! The thread counts of threading libraries that the program may or may not have loaded.
//!
//! The libraries are not linked: their set and get functions are looked up in the process's global
//! scope when they are wanted. A library loaded later is found later. One that was found stays
//! loaded: the loader counts a lookup as a dependency, so the addresses kept here stay good.
//! Libraries opened with a private scope (`RTLD_LOCAL`) are not seen.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

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
    /// In the order in which counts are set; restored in the opposite order. OpenMP comes first
    /// because the BLAS libraries may be built on it and change its count with their own.
    const ALL: [Self; 4] = [Self::OpenMp, Self::OpenBlas, Self::Mkl, Self::Blis];

    fn symbols(self) -> (&'static CStr, &'static CStr) {
        match self {
            Self::OpenMp => (c"omp_set_num_threads", c"omp_get_max_threads"),
            Self::OpenBlas => (c"openblas_set_num_threads", c"openblas_get_num_threads"),
            Self::Mkl => (c"MKL_Set_Num_Threads", c"MKL_Get_Max_Threads"),
            Self::Blis => (c"bli_thread_set_num_threads", c"bli_thread_get_num_threads"),
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

/// One thread count that was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The library of the count.
    pub library: ThreadLibrary,
    /// The count before, as the library reported it; BLIS reports −1 for "not set".
    pub before: i64,
    /// The count that was set.
    pub threads: usize,
}

/// Sets the thread counts of whatever threading libraries the process has.
///
/// Local. May be shared between threads; the counts are the process's, except that OpenMP's belongs
/// to the calling thread.
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
    /// Looks nothing up yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The libraries that are loaded now.
    #[must_use]
    pub fn libraries(&self) -> Vec<ThreadLibrary> {
        self.controls().iter().flatten().map(|control| control.library).collect()
    }

    /// Sets the thread count of every library found to `threads`, at least 1, and remembers the
    /// counts before. Where there is no such library, does nothing.
    ///
    /// To be called by the thread that will start the parallel work, since OpenMP keeps its count
    /// per thread. Threads that exist already are not moved.
    #[must_use = "the counts are restored when the value is dropped"]
    pub fn set(&self, threads: usize) -> Saved {
        let count = c_int::try_from(threads.max(1)).unwrap_or(c_int::MAX);
        // All counts are read before the first is set: libraries may change one another's.
        let changed = self.controls().map(|control| {
            control.map(|control| Changed {
                before: control.get(),
                threads: count.unsigned_abs() as usize,
                control,
            })
        });
        for changed in changed.iter().flatten() {
            changed.control.set(count.into());
        }
        Saved { changed, on_this_thread: PhantomData }
    }

    fn controls(&self) -> [Option<Control>; 4] {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.controls.contains(&None) {
            let loaded = objects_ever_loaded();
            if loaded.is_none() || known.loaded != loaded {
                known.controls = ThreadLibrary::ALL.map(Control::find);
                known.loaded = loaded;
            }
        }
        known.controls
    }
}

/// Thread counts to be restored, on drop at the latest.
///
/// Stays on the thread that set them, because OpenMP keeps its count per thread.
#[derive(Debug)]
#[must_use = "the counts are restored when the value is dropped"]
pub struct Saved {
    changed: [Option<Changed>; 4],
    on_this_thread: PhantomData<*const ()>,
}

impl Saved {
    /// Puts every count back to its old value, last one first.
    pub fn restore(self) {
        drop(self);
    }

    /// The settings that were made.
    pub fn settings(&self) -> impl Iterator<Item = Setting> + '_ {
        self.changed.iter().flatten().map(|changed| Setting {
            library: changed.control.library,
            before: changed.before,
            threads: changed.threads,
        })
    }
}

impl Drop for Saved {
    fn drop(&mut self) {
        for changed in self.changed.iter().rev().flatten() {
            // Only BLIS gives a meaning to a count that is not positive.
            if changed.before > 0 || changed.control.library == ThreadLibrary::Blis {
                changed.control.set(changed.before);
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Changed {
    control: Control,
    before: i64,
    threads: usize,
}

/// The functions found, and the number of objects that had been loaded when they were looked for.
#[derive(Debug, Default)]
struct Known {
    loaded: Option<u64>,
    controls: [Option<Control>; 4],
}

/// Number of objects the loader has loaded so far, to tell whether another look is worth its time;
/// `None` when it does not say.
fn objects_ever_loaded() -> Option<u64> {
    unsafe extern "C" fn first(
        info: *mut libc::dl_phdr_info,
        size: usize,
        found: *mut c_void,
    ) -> c_int {
        if size >= size_of::<libc::dl_phdr_info>() {
            // SAFETY: the loader passes a record of `size` bytes, and `found` is the pointer given
            // to dl_iterate_phdr below, which outlives the call.
            unsafe { *found.cast::<Option<u64>>() = Some((*info).dlpi_adds) };
        }
        1 // The count is the same in every record: stop at the first.
    }
    let mut found: Option<u64> = None;
    // SAFETY: the callback matches the expected signature and only writes to `found`.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut found).cast()) };
    found
}

/// The two functions of a library, by address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Control {
    library: ThreadLibrary,
    set: usize,
    get: usize,
}

/// Looks up a symbol of the process.
pub(crate) fn symbol(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: dlsym reads a NUL-terminated name and only looks it up.
    let symbol = NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) });
    if symbol.is_none() {
        // The thread would keep the text of the failure; the second call gives it back.
        // SAFETY: dlerror only reads and frees what belongs to the calling thread.
        unsafe { (libc::dlerror(), libc::dlerror()) };
    }
    symbol
}

impl Control {
    /// Both functions or nothing: a count that cannot be read could not be restored.
    fn find(library: ThreadLibrary) -> Option<Self> {
        let address = |name| symbol(name).map(|symbol| symbol.as_ptr() as usize);
        let (set, get) = library.symbols();
        Some(Self { library, set: address(set)?, get: address(get)? })
    }

    fn get(self) -> i64 {
        if self.library == ThreadLibrary::Blis {
            // SAFETY: the address was found under BLIS's name for a function without arguments that
            // returns its dimension type (64 bits on 64-bit platforms), and looking it up keeps
            // the library loaded.
            unsafe { std::mem::transmute::<usize, extern "C" fn() -> i64>(self.get)() }
        } else {
            // SAFETY: as above; the other libraries' functions return a C int.
            let count =
                unsafe { std::mem::transmute::<usize, extern "C" fn() -> c_int>(self.get)() };
            count.into()
        }
    }

    fn set(self, count: i64) {
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
