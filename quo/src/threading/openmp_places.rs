//! Evidence of a binding that OpenMP made at its start.
//!
//! GNU's runtime makes its list of places when it is loaded, from the CPUs that the process has
//! then, and binds the initial thread to one of them. If the places have CPUs that the thread does
//! not, the process had those too, and the thread's mask is the runtime's choice. Other runtimes
//! are not queried: their first query would bind the thread.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};
use std::ptr::NonNull;

use crate::cpuset::CpuSet;

/// Maximum number of CPUs per place that are queried.
const MOST_CPUS: usize = 1 << 14;

/// Returns true if the OpenMP runtime of this process bound the calling thread, which has this mask.
pub(crate) fn bound_by_openmp(mask: &CpuSet) -> bool {
    if symbol(c"__kmpc_fork_call").is_some() {
        return false;
    }
    is_one_of(mask, &places())
}

/// Returns true if the mask is one of several places, which have further CPUs. Pure.
fn is_one_of(mask: &CpuSet, places: &[CpuSet]) -> bool {
    places.contains(mask) && places.iter().any(|place| !place.is_subset(mask))
}

/// Returns the places of GNU's runtime; empty without the runtime, or if it does not bind.
fn places() -> Vec<CpuSet> {
    let functions = [c"omp_get_num_places", c"omp_get_place_num_procs", c"omp_get_place_proc_ids"];
    let [Some(count), Some(size), Some(numbers)] = functions.map(symbol) else {
        return Vec::new();
    };
    // SAFETY: OpenMP 4.5 defines the three names as functions of these types.
    let (count, size, numbers) = unsafe {
        (
            std::mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(count.as_ptr()),
            std::mem::transmute::<*mut c_void, extern "C" fn(c_int) -> c_int>(size.as_ptr()),
            std::mem::transmute::<*mut c_void, extern "C" fn(c_int, *mut c_int)>(numbers.as_ptr()),
        )
    };
    let place = |number| {
        let size = usize::try_from(size(number)).unwrap_or(0).min(MOST_CPUS);
        let mut cpus = vec![0; size];
        if size > 0 {
            numbers(number, cpus.as_mut_ptr());
        }
        cpus.into_iter().filter_map(|cpu| usize::try_from(cpu).ok()).collect()
    };
    (0..count()).map(place).collect()
}

/// Looks up a function in the global scope of the process, which includes the runtime that a
/// program is linked with.
fn symbol(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: dlsym reads a NUL-terminated name and only looks it up.
    let symbol = NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) });
    if symbol.is_none() {
        // The thread would keep the text of the failure; the second call frees it.
        // SAFETY: dlerror only reads and frees what belongs to the calling thread.
        unsafe { (libc::dlerror(), libc::dlerror()) };
    }
    symbol
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_several_places_is_the_choice_of_openmp() {
        let set = |text: &str| text.parse::<CpuSet>().unwrap();
        let places = ["0", "1"].map(set);
        assert!(is_one_of(&set("1"), &places));
        assert!(!is_one_of(&set("0-1"), &places));
        assert!(!is_one_of(&set("1"), &[set("1")]), "all that the process had");
        assert!(!is_one_of(&set("1"), &[]));
    }
}
