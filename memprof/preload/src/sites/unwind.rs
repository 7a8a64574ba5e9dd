//! Who called: the return addresses on the stack, by the tables that exceptions use.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

use super::DEPTH;
use crate::{component, objects};

/// Frames of the tool itself that may stand before that of the caller.
const OWN_FRAMES: usize = 16;

unsafe extern "C" {
    fn _Unwind_Backtrace(
        each: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        to: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

const GO_ON: c_int = 0;
const END: c_int = 4;

struct Walk {
    caller: usize,
    skipped: usize,
    frames: [usize; DEPTH],
    depth: usize,
}

extern "C" fn step(context: *mut c_void, walk: *mut c_void) -> c_int {
    // SAFETY: the walk that `stack` started with.
    let walk = unsafe { &mut *walk.cast::<Walk>() };
    // SAFETY: the context the unwinder handed over.
    let address = unsafe { _Unwind_GetIP(context) };
    if walk.depth == 0 && address != walk.caller {
        walk.skipped += 1;
        return if walk.skipped > OWN_FRAMES { END } else { GO_ON };
    }
    if address == 0 || walk.depth == DEPTH {
        return END;
    }
    walk.frames[walk.depth] = address;
    walk.depth += 1;
    GO_ON
}

/// The stack from the frame that continues at `caller` outwards: frames and how many. Only that one
/// where the rest cannot be told.
///
/// Nobody may hold a lock of the tool, and the guard is set: the unwinder may allocate.
pub fn stack(caller: usize) -> ([usize; DEPTH], usize) {
    let mut walk = Walk { caller, skipped: 0, frames: [0; DEPTH], depth: 0 };
    if may_unwind(caller) {
        // SAFETY: the walk outlives the call.
        unsafe { _Unwind_Backtrace(step, (&raw mut walk).cast()) };
    }
    if walk.depth == 0 {
        walk.frames[0] = caller;
        walk.depth = usize::from(caller != 0);
    }
    (walk.frames, walk.depth)
}

/// The unwinder allocates under its own lock, and the loader changes what the unwinder reads.
fn may_unwind(caller: usize) -> bool {
    match objects::component_at(caller) {
        None => false,
        Some(owner) => {
            let name = component::entered(owner).name;
            !name.starts_with("libgcc_s") && !name.starts_with("ld-") && !name.starts_with("ld.so")
        }
    }
}
