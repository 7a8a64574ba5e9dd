//! What depends on the processor: the thread's own block, and entry points that know their caller.

#![allow(unsafe_code)]

use crate::thread::Local;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod block {
    use super::Local;

    // Initial-exec storage: an access is two instructions, and never allocates.
    core::arch::global_asm!(
        ".section .tbss.memprof_local,\"awT\",@nobits",
        ".p2align 6",
        ".hidden memprof_local",
        ".globl memprof_local",
        ".type memprof_local,@object",
        ".size memprof_local, 256",
        "memprof_local:",
        ".zero 256",
        ".previous",
    );

    #[inline(always)]
    pub fn local() -> *mut Local {
        let block: *mut Local;
        // SAFETY: reads the thread pointer and the offset of the block, which is in the static block
        // of every thread.
        unsafe {
            core::arch::asm!(
                "mov {block}, qword ptr fs:[0]",
                "add {block}, qword ptr [rip + memprof_local@GOTTPOFF]",
                block = out(reg) block,
                options(pure, nomem, nostack),
            );
        }
        block
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod block {
    use super::Local;

    std::thread_local! {
        static LOCAL: Local = const { Local::new() };
    }

    pub fn local() -> *mut Local {
        LOCAL
            .try_with(|local| core::ptr::from_ref(local).cast_mut())
            .unwrap_or(core::ptr::null_mut())
    }
}

pub use block::local;

const _: () = assert!(size_of::<Local>() <= 256);
