//! Callers: the return addresses on the stack, by the tables that exceptions use.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

use super::DEPTH;
use super::seen::{Seen, Stack};
use crate::base::component;
use crate::owners;

/// Frames of the tool itself that may stand before that of the caller.
const OWN_FRAMES: usize = 16;

unsafe extern "C" {
    fn _Unwind_Backtrace(
        each: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        to: *mut c_void,
    ) -> c_int;
    /// Also says whether the frame was interrupted by a signal, and called nothing.
    fn _Unwind_GetIPInfo(context: *mut c_void, interrupted: *mut c_int) -> usize;
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
}

const GO_ON: c_int = 0;
const END: c_int = 4;

struct Walk {
    caller: usize,
    /// Place of that.
    innermost: usize,
    skipped: usize,
    stack: Stack,
    /// Each return address stands right below its caller's part of the stack.
    can_be_found_again: bool,
}

extern "C" fn step(context: *mut c_void, walk: *mut c_void) -> c_int {
    // SAFETY: the walk that `stack` started with.
    let walk = unsafe { &mut *walk.cast::<Walk>() };
    // SAFETY: the context the unwinder handed over.
    let (address, above) = unsafe {
        let mut interrupted = 0;
        let address = _Unwind_GetIPInfo(context, &mut interrupted);
        (address, (interrupted == 0).then(|| _Unwind_GetCFA(context)))
    };
    if walk.stack.depth == 0 && address != walk.caller {
        walk.skipped += 1;
        return if walk.skipped > OWN_FRAMES { END } else { GO_ON };
    }
    if address == 0 || walk.stack.depth as usize == DEPTH {
        return END;
    }
    let place = above.map(|above| above.wrapping_sub(size_of::<usize>()));
    walk.can_be_found_again &= walk.stack.push(address, place, walk.innermost);
    GO_ON
}

/// The stack from the frame that continues at `caller` outwards: frames and how many. Only that one
/// where the rest cannot be told. `innermost` is where that address stands, 0 where it is not known.
///
/// Nobody may hold a lock of the tool, and the guard is set: the unwinder may allocate.
pub fn stack(caller: usize, innermost: usize, seen: &Seen) -> ([usize; DEPTH], usize) {
    let version = owners::version();
    if let Some(stack) = seen.find(caller, innermost, version) {
        return (stack.frames, stack.depth as usize);
    }
    let mut walk = Walk {
        caller,
        innermost,
        skipped: 0,
        stack: Stack::NONE,
        can_be_found_again: innermost != 0 && cfg!(target_arch = "x86_64"),
    };
    if may_unwind(caller) {
        // SAFETY: the walk outlives the call.
        unsafe { _Unwind_Backtrace(step, (&raw mut walk).cast()) };
    }
    if walk.stack.depth == 0 {
        walk.stack.frames[0] = caller;
        walk.stack.depth = u32::from(caller != 0);
    } else if walk.can_be_found_again {
        seen.keep(&walk.stack, innermost, version);
    }
    (walk.stack.frames, walk.stack.depth as usize)
}

/// The unwinder allocates under its own lock, and the loader changes the data that the unwinder
/// reads.
fn may_unwind(caller: usize) -> bool {
    match owners::component_at(caller) {
        None => false,
        Some(owner) => {
            let name = component::entered(owner).name;
            !name.starts_with("libgcc_s") && !name.starts_with("ld-") && !name.starts_with("ld.so")
        }
    }
}
