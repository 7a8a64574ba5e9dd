//! The C interface: the functions of `memprof.h`.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int};

use crate::hooks::{self, Component, Time, Totals};

const OK: c_int = 0;
const NOT_ACTIVE: c_int = 1;
const NOT_KNOWN: c_int = 2;
const BAD_ARGUMENT: c_int = 3;

/// Returns 1 if the process runs under the profiler, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn memprof_active() -> c_int {
    hooks::find().is_some().into()
}

/// Returns one more than the highest index of a component; 0 without the profiler. The number only
/// grows.
#[unsafe(no_mangle)]
pub extern "C" fn memprof_component_count() -> u32 {
    hooks::find().map_or(0, hooks::Hooks::component_count)
}

/// Writes the memory of the component at an index.
///
/// # Safety
///
/// `out` is null or points to a `memprof_component_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memprof_component(index: u32, out: *mut Component) -> c_int {
    let told = |hooks: &hooks::Hooks| hooks.component(index);
    // SAFETY: the caller's promise.
    unsafe { give(out, told) }
}

/// Writes the memory of the component of a name.
///
/// # Safety
///
/// `name` is null or a C string; `out` is null or points to a `memprof_component_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memprof_component_named(
    name: *const c_char,
    out: *mut Component,
) -> c_int {
    if name.is_null() {
        return BAD_ARGUMENT;
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    let told = |hooks: &hooks::Hooks| {
        let mut all = (0..hooks.component_count()).filter_map(|index| hooks.component(index));
        all.find(|it| CStr::from_bytes_until_nul(&it.name).is_ok_and(|it| it == name))
    };
    // SAFETY: the caller's promise.
    unsafe { give(out, told) }
}

/// Writes the memory of the process.
///
/// # Safety
///
/// `out` is null or points to a `memprof_totals_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memprof_totals(out: *mut Totals) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { give(out, hooks::Hooks::totals) }
}

/// Writes the time of the process.
///
/// # Safety
///
/// `out` is null or points to a `memprof_time_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memprof_time(out: *mut Time) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { give(out, |_| hooks::time()) }
}

/// Writes the value that `told` returns, if there is one.
///
/// # Safety
///
/// `out` is null or points to a `T`.
unsafe fn give<T>(out: *mut T, told: impl Fn(&hooks::Hooks) -> Option<T>) -> c_int {
    if out.is_null() {
        return BAD_ARGUMENT;
    }
    let Some(hooks) = hooks::find() else { return NOT_ACTIVE };
    let Some(answer) = told(hooks) else { return NOT_KNOWN };
    // SAFETY: not null, and the caller's promise.
    unsafe { out.write(answer) };
    OK
}

/// Begins a region. Returns 0 if it is not recorded.
///
/// # Safety
///
/// `name` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memprof_region_begin(name: *const c_char) -> u32 {
    let Some(hooks) = hooks::find() else { return 0 };
    if name.is_null() {
        return 0;
    }
    // SAFETY: not null, and the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    hooks.region_begin(name.to_bytes())
}

/// Ends a region. Does nothing for 0.
#[unsafe(no_mangle)]
pub extern "C" fn memprof_region_end(id: u32) {
    if id != 0
        && let Some(hooks) = hooks::find()
    {
        hooks.region_end(id);
    }
}

/// Takes a sample now.
#[unsafe(no_mangle)]
pub extern "C" fn memprof_flush() -> c_int {
    match hooks::find() {
        None => NOT_ACTIVE,
        Some(hooks) if hooks.flush() => OK,
        Some(_) => NOT_KNOWN,
    }
}
