//! Unwinding of call stacks with the tables that exceptions use.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

use super::DEPTH;
use super::seen::{Seen, Stack};
use crate::base::component::Component;
use crate::base::dictionary::{self, Class};
use crate::owners;

/// Number of the tool's own frames that may precede the frame of the caller.
const OWN_FRAMES: usize = 16;

/// Maximum number of frames that are passed over on the way to one of the application.
const PASSED_OVER: usize = 64;

unsafe extern "C" {
    fn _Unwind_Backtrace(
        each: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        to: *mut c_void,
    ) -> c_int;
    /// Also reports whether a signal interrupted the frame, so that the frame made no call.
    fn _Unwind_GetIPInfo(context: *mut c_void, interrupted: *mut c_int) -> usize;
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
}

const GO_ON: c_int = 0;
const END: c_int = 4;

struct Walk {
    caller: usize,
    /// Address at which `caller` is stored.
    innermost: usize,
    skipped: usize,
    stack: Stack,
    /// True if each return address is stored right below its caller's part of the stack.
    can_be_found_again: bool,
    /// Component of the caller.
    asker: Option<Component>,
    /// True if a frame of the application outside the caller's object is in the stack, or if none
    /// is needed because the caller is the program.
    has_application: bool,
    passed_over: usize,
}

impl Walk {
    /// Returns true for code of the program or its libraries that is not the caller's.
    fn is_applications(&self, address: usize) -> bool {
        let owner = owners::component_at(address);
        owner != self.asker
            && owner
                .map(dictionary::class)
                .is_some_and(|class| matches!(class, Class::AppExecutable | Class::AppLibrary))
    }
}

extern "C" fn step(context: *mut c_void, walk: *mut c_void) -> c_int {
    // SAFETY: the walk that `stack` passed to the unwinder.
    let walk = unsafe { &mut *walk.cast::<Walk>() };
    // SAFETY: the context that the unwinder passed.
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
    if !walk.has_application {
        walk.has_application = walk.is_applications(address);
        // The last place is kept for a frame of the application, which may be further out.
        if !walk.has_application && walk.stack.depth as usize == DEPTH - 1 {
            walk.passed_over += 1;
            return if walk.passed_over > PASSED_OVER { END } else { GO_ON };
        }
    }
    let place = above.map(|above| above.wrapping_sub(size_of::<usize>()));
    walk.can_be_found_again &= walk.stack.push(address, place, walk.innermost);
    GO_ON
}

/// Returns the stack from the frame with the return address `caller` outwards: frames and their
/// number. If all but the last are in libraries, the last is the next one of the application, and
/// frames may be missing before it. Returns only the first frame if the rest cannot be unwound. `innermost` is the address at
/// which `caller` is stored, 0 where that is not known.
///
/// The calling thread holds no lock of the tool, and the guard is set: the unwinder may allocate.
pub fn stack(caller: usize, innermost: usize, seen: &Seen) -> ([usize; DEPTH], usize) {
    let version = owners::version();
    if let Some(stack) = seen.find(caller, innermost, version) {
        return (stack.frames, stack.depth as usize);
    }
    let asker = owners::component_at(caller);
    let class = asker.map(dictionary::class);
    let mut walk = Walk {
        asker,
        has_application: class == Some(Class::AppExecutable),
        passed_over: 0,
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

/// Returns true if unwinding is safe. It is not in the unwinder, which allocates under its own
/// lock, nor in the loader, which changes the data that the unwinder reads.
fn may_unwind(caller: usize) -> bool {
    match owners::component_at(caller) {
        None => false,
        Some(owner) => {
            let name = dictionary::entered(owner).name;
            !name.starts_with("libgcc_s") && !name.starts_with("ld-") && !name.starts_with("ld.so")
        }
    }
}
