//! Entries of OpenMP regions of LLVM's and Intel's runtime, by OpenMP's interface for tools, OMPT:
//! the runtime finds the one symbol here and then calls back at the begin and end of regions.
//!
//! Words and numbers are those of OpenMP 5.

#![allow(unsafe_code)]

use core::ffi::{c_char, c_int, c_uint, c_void};

use crate::{openmp, places};

/// Numbers of the callbacks.
const PARALLEL_BEGIN: c_int = 3;
const PARALLEL_END: c_int = 4;
const IMPLICIT_TASK: c_int = 7;
/// Beginning of a scope.
const SCOPE_BEGIN: c_int = 1;
/// Value of the data of regions that [`openmp`] has prepared.
const OURS: u64 = 1;

type Lookup = unsafe extern "C" fn(*const c_char) -> Option<unsafe extern "C" fn()>;
type SetCallback = unsafe extern "C" fn(c_int, *const c_void) -> c_int;
type StartTool = unsafe extern "C" fn(c_uint, *const c_char) -> *const StartResult;

/// Answer to the runtime that asks for a tool.
#[repr(C)]
pub struct StartResult {
    initialize: unsafe extern "C" fn(Lookup, c_int, *mut u64) -> c_int,
    finalize: extern "C" fn(*mut u64),
    data: u64,
}

static RESULT: StartResult = StartResult { initialize, finalize, data: 0 };

/// Answers the runtime's search for a tool: with another tool of the program, if there is one.
///
/// # Safety
/// Called by the runtime, with its version.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompt_start_tool(
    version: c_uint,
    runtime: *const c_char,
) -> *const StartResult {
    // SAFETY: a NUL-terminated text. The result is used after the call, so that the call is not a
    // tail call: the loader examines its return address.
    let other = unsafe { libc::dlsym(libc::RTLD_NEXT, c"ompt_start_tool".as_ptr()) };
    let other = core::hint::black_box(other);
    if !other.is_null() && !core::ptr::eq(other, ompt_start_tool as *const c_void) {
        // SAFETY: the function of this name of another tool, or of the runtime, which finds none.
        let answer = unsafe {
            let other: StartTool = core::mem::transmute(other);
            other(version, runtime)
        };
        if !answer.is_null() {
            return answer;
        }
    }
    if openmp::has_main() { &raw const RESULT } else { core::ptr::null() }
}

unsafe extern "C" fn initialize(lookup: Lookup, _device: c_int, _data: *mut u64) -> c_int {
    // SAFETY: the runtime's function, with a name that OpenMP defines.
    let Some(set) = (unsafe { lookup(c"ompt_set_callback".as_ptr()) }) else { return 0 };
    // SAFETY: the function of this name has this type.
    let set: SetCallback = unsafe { core::mem::transmute(set) };
    for (number, callback) in [
        (PARALLEL_BEGIN, parallel_begin as *const c_void),
        (PARALLEL_END, parallel_end as *const c_void),
        (IMPLICIT_TASK, implicit_task as *const c_void),
    ] {
        // SAFETY: callbacks of the types that OpenMP defines for these numbers.
        unsafe { set(number, callback) };
    }
    1
}

extern "C" fn finalize(_data: *mut u64) {}

/// Before the runtime decides on the number of threads.
unsafe extern "C" fn parallel_begin(
    _task: *mut u64,
    _frame: *const c_void,
    region: *mut u64,
    asked: c_uint,
    _flags: c_int,
    _from: *const c_void,
) {
    if openmp::begin_region(asked as usize) {
        // SAFETY: the region's word for the tool.
        unsafe { region.write(OURS) };
    }
}

unsafe extern "C" fn parallel_end(
    region: *mut u64,
    _task: *mut u64,
    _flags: c_int,
    _from: *const c_void,
) {
    // SAFETY: the region's word for the tool.
    if unsafe { region.read() } == OURS {
        openmp::end_region();
    }
}

unsafe extern "C" fn implicit_task(
    endpoint: c_int,
    region: *const u64,
    _task: *mut u64,
    team: c_uint,
    number: c_uint,
    _flags: c_int,
) {
    // SAFETY: the region's word for the tool; null at the end of a task and for initial tasks.
    if endpoint == SCOPE_BEGIN && !region.is_null() && unsafe { region.read() } == OURS {
        places::take(number as usize, team as usize);
    }
}
