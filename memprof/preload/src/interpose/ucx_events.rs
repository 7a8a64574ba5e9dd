//! When UCX is linked into a program, it writes a jump over the first bytes of the functions that
//! the program calls for mappings: over the tool's entries, which the linker has put there. The
//! tool then asks UCX to report its mappings, which UCX does for any handler
//! (`ucm_set_event_handler` of `ucm/api/ucm.h`).

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};

use crate::base::thread::local;
use crate::interpose::mappings;
use crate::ledger::ranges;
use crate::owners;
use crate::sampling::sampler;

const MAPPED: c_int = 1;
const MOVED: c_int = 1 << 2;
const ATTACHED: c_int = 1 << 3;
/// Event: memory is about to be unmapped in any way.
const UNMAPPED: c_int = 1 << 17;
/// Flag: UCX must not replace functions for this handler.
const NO_INSTALL: c_int = 1 << 24;

/// Words of a handler; each kind of event has its own first words.
type Words = [usize; 7];

type Handler = unsafe extern "C" fn(event: c_int, words: *const Words, ours: *mut c_void);
type Subscribe = unsafe extern "C" fn(c_int, c_int, Handler, *mut c_void) -> c_int;

/// Returns the function, if UCX is linked in.
fn subscribe() -> Option<Subscribe> {
    let found: usize;
    // SAFETY: reads a word of this program's address table; 0 if the linker knows no such name.
    unsafe {
        core::arch::asm!(
            ".weak ucm_set_event_handler",
            "mov {found}, qword ptr [rip + ucm_set_event_handler@GOTPCREL]",
            found = out(reg) found,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    // SAFETY: the function of this name has this type.
    (found != 0).then(|| unsafe { core::mem::transmute::<usize, Subscribe>(found) })
}

/// Registers the handler, once.
pub fn start() {
    static DONE: AtomicBool = AtomicBool::new(false);
    let Some(subscribe) = subscribe() else { return };
    if DONE.swap(true, Ordering::AcqRel) {
        return;
    }
    // SAFETY: the handler lives as long as the program. It runs before the original for unmapping,
    // and after it for mapping.
    unsafe {
        subscribe(UNMAPPED | NO_INSTALL, -1, handle, core::ptr::null_mut());
        subscribe(MAPPED | MOVED | ATTACHED | NO_INSTALL, 1000, handle, core::ptr::null_mut());
    }
}

unsafe extern "C" fn handle(event: c_int, words: *const Words, _: *mut c_void) {
    if local().guard.get() > 0 {
        return;
    }
    // SAFETY: the library's event, of which at most seven words are used, as many as it has.
    let words = unsafe { &*words };
    let here = 0u8;
    // The event does not contain the caller, so the thread determines the owner.
    let maker = || owners::owner(0, core::ptr::from_ref(&here) as usize);
    let failed = words[0] == libc::MAP_FAILED as usize;
    match event {
        UNMAPPED => {
            let [start, length, ..] = *words;
            if length >= mappings::LOOKED_AT {
                sampler::before_release(start, length);
            }
            ranges::unmapped(start, length);
        }
        MAPPED if !failed => {
            let [start, _, length, protection_and_flags, file, ..] = *words;
            // The word contains two four-byte numbers.
            let flags = (protection_and_flags >> 32) as c_int;
            mappings::mapped(start, length, flags, file as c_int, maker());
        }
        MOVED if !failed => {
            let [start, _, _, length, ..] = *words;
            ranges::mapped(start, length, maker(), false);
        }
        ATTACHED if !failed => mappings::attached(words[0], words[1] as c_int, maker()),
        _ => {}
    }
}
