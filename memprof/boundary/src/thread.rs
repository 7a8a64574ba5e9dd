//! Block of each thread, separate so that entries into MPI touch nothing that other threads write.
//! It begins with the thread's position in MPI; the rest belongs to the tool.

#![allow(unsafe_code)]

use core::cell::Cell;

/// Size of the block, which is aligned to a cache line and zero when a thread begins.
pub const BLOCK: usize = 256;

/// Offset of the word in the block into which a timed entry writes the time of entry.
pub const BEGAN: usize = BLOCK - 8;

/// Position of the thread in MPI. All zeros is outside.
#[repr(C)]
#[derive(Debug)]
pub struct Position {
    /// Index of the outermost function plus one; 0 outside.
    pub function: Cell<usize>,
    /// Address of the return address of the outermost entry: the stack pointer there, or a word of
    /// its frame where calls leave the address in a register. A check from a shallower frame shows
    /// that MPI was left by longjmp or an exception.
    pub stack: Cell<usize>,
    /// Return address found there; if it changes, the frame is gone.
    pub return_address: Cell<usize>,
}

/// Distance below which an address above another one is taken to be on the same stack.
const SAME_STACK: usize = 1 << 20;

impl Position {
    /// Returns true if a function entered with this stack pointer runs inside MPI. A call that was left by longjmp or an
    /// exception is forgotten here. `peek` copies the word at an address that may be none.
    #[inline]
    pub fn is_inside(&self, stack: usize, peek: fn(usize) -> Option<usize>) -> bool {
        if self.function.get() == 0 {
            return false;
        }
        let entry = self.stack.get();
        if stack < entry
            && return_address(entry, entry - stack, peek) == Some(self.return_address.get())
        {
            return true;
        }
        self.function.set(0);
        false
    }

    /// Handles the release of a stack. If MPI was called on a stack in this range, for example by a
    /// coroutine that will not be resumed, MPI was left permanently.
    #[inline]
    pub fn forget_stack(&self, start: usize, length: usize) {
        if self.function.get() != 0 && self.stack.get().wrapping_sub(start) < length {
            self.function.set(0);
        }
    }
}

/// Returns the return address at the beginning of a frame. If the frame is so far away that it may
/// be on another stack, which may no longer exist, `peek` reads it.
#[inline]
fn return_address(
    entry: usize,
    distance: usize,
    peek: fn(usize) -> Option<usize>,
) -> Option<usize> {
    if distance < SAME_STACK {
        // SAFETY: an MPI function was called at `entry`, and the stack has grown beyond it since; a
        // stack that this thread has released was forgotten then.
        return Some(unsafe { *(entry as *const usize) });
    }
    peek(entry)
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod place {
    use super::{BLOCK, Position};

    // Initial-exec storage: an access is two instructions, and never allocates.
    core::arch::global_asm!(
        ".section .tbss.memprof_local,\"awT\",@nobits",
        ".p2align 6",
        ".hidden memprof_local",
        ".globl memprof_local",
        ".type memprof_local,@object",
        ".size memprof_local, {bytes}",
        "memprof_local:",
        ".zero {bytes}",
        ".previous",
        bytes = const BLOCK,
    );

    /// Returns the block of the calling thread.
    #[inline(always)]
    #[must_use]
    pub fn block() -> *mut Position {
        let block: *mut Position;
        // SAFETY: reads the thread pointer and the offset of the block, which is in the static block
        // of every thread.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            core::arch::asm!(
                "mov {block}, qword ptr fs:[0]",
                "add {block}, qword ptr [rip + memprof_local@GOTTPOFF]",
                block = out(reg) block,
                options(pure, nomem, nostack),
            );
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            core::arch::asm!(
                "adrp {offset}, :gottprel:memprof_local",
                "ldr {offset}, [{offset}, :gottprel_lo12:memprof_local]",
                "mrs {block}, tpidr_el0",
                "add {block}, {block}, {offset}",
                block = out(reg) block,
                offset = out(reg) _,
                options(pure, nomem, nostack),
            );
        }
        block
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod place {
    use super::{BLOCK, Cell, Position};

    #[repr(align(64))]
    struct Block([Cell<u64>; BLOCK / 8]);

    std::thread_local! {
        static BLOCK_OF_THREAD: Block = const { Block([const { Cell::new(0) }; BLOCK / 8]) };
    }

    /// Returns the block of the calling thread.
    #[must_use]
    pub fn block() -> *mut Position {
        BLOCK_OF_THREAD
            .try_with(|block| core::ptr::from_ref(block).cast::<Position>().cast_mut())
            .unwrap_or(core::ptr::null_mut())
    }
}

pub use place::block;
