//! Processor-specific parts: entry points that know their caller, and sanitizers.

#![allow(unsafe_code)]

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Acquire;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod present {
    // Weak references, which the loader fills before any code runs. They can therefore be read when
    // no function of a library that is being replaced may be called yet.
    pub fn sanitizer() -> bool {
        let (address, thread, memory, leaks): (usize, usize, usize, usize);
        // SAFETY: reads four words of this object's address table.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            core::arch::asm!(
                ".weak __asan_init",
                ".weak __tsan_init",
                ".weak __msan_init",
                ".weak __lsan_init",
                "mov {address}, qword ptr [rip + __asan_init@GOTPCREL]",
                "mov {thread}, qword ptr [rip + __tsan_init@GOTPCREL]",
                "mov {memory}, qword ptr [rip + __msan_init@GOTPCREL]",
                "mov {leaks}, qword ptr [rip + __lsan_init@GOTPCREL]",
                address = out(reg) address,
                thread = out(reg) thread,
                memory = out(reg) memory,
                leaks = out(reg) leaks,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            core::arch::asm!(
                ".weak __asan_init",
                ".weak __tsan_init",
                ".weak __msan_init",
                ".weak __lsan_init",
                "adrp {address}, :got:__asan_init",
                "ldr {address}, [{address}, :got_lo12:__asan_init]",
                "adrp {thread}, :got:__tsan_init",
                "ldr {thread}, [{thread}, :got_lo12:__tsan_init]",
                "adrp {memory}, :got:__msan_init",
                "ldr {memory}, [{memory}, :got_lo12:__msan_init]",
                "adrp {leaks}, :got:__lsan_init",
                "ldr {leaks}, [{leaks}, :got_lo12:__lsan_init]",
                address = out(reg) address,
                thread = out(reg) thread,
                memory = out(reg) memory,
                leaks = out(reg) leaks,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        address | thread | memory | leaks != 0
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod present {
    pub fn sanitizer() -> bool {
        false
    }
}

/// Returns true if a sanitizer is loaded. Calls no function.
pub use present::sanitizer;

/// Writes `with` to a word that is zero. Returns false if the word is not zero; such a word is only
/// read, since other threads may be about to clear it. No other thread makes the word nonzero. A
/// change by a signal handler between the check and the instruction is kept. The instruction is not
/// locked, so it does not wait for earlier stores.
#[inline(always)]
pub fn claim(word: &AtomicUsize, with: usize) -> bool {
    if word.load(Acquire) != 0 {
        return false;
    }
    #[cfg(target_arch = "x86_64")]
    {
        let before: usize;
        // SAFETY: the word is live.
        unsafe {
            core::arch::asm!("cmpxchg qword ptr [{word}], {with}", word = in(reg) word.as_ptr(),
                with = in(reg) with, inout("rax") 0_usize => before, options(nostack));
        }
        before == 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    word.compare_exchange(0, with, Acquire, Acquire).is_ok()
}

/// The error number of the thread, saved while the tool works.
pub struct Errno(i32);

impl Errno {
    #[inline]
    pub fn save() -> Errno {
        // SAFETY: the C library's word of this thread.
        Errno(unsafe { *libc::__errno_location() })
    }

    #[inline]
    pub fn restore(self) {
        Errno::set(self.0);
    }

    /// Sets the error number, by which the program learns why a call failed.
    #[inline]
    pub fn set(code: i32) {
        // SAFETY: the C library's word of this thread.
        unsafe { *libc::__errno_location() = code };
    }
}

/// Defines the whole body of a function for each processor.
#[cfg(target_arch = "x86_64")]
macro_rules! code {
    (x86_64: $($line:expr),*; aarch64: $($other:expr),*; $($name:ident = $kind:ident $value:expr),* $(,)?) => {
        core::arch::naked_asm!($($line,)* $($name = $kind $value),*)
    };
}

/// Defines the whole body of a function for each processor.
#[cfg(target_arch = "aarch64")]
macro_rules! code {
    (x86_64: $($line:expr),*; aarch64: $($other:expr),*; $($name:ident = $kind:ident $value:expr),* $(,)?) => {
        core::arch::naked_asm!($($other,)* $($name = $kind $value),*)
    };
}

/// Defines exported functions of the C library that pass on their arguments, followed by their
/// return address and the stack pointer at entry.
///
/// The entry is a jump: no frame of the tool is between the caller and the function that does the
/// work, whose return is that of the entry.
#[cfg_attr(feature = "archive", allow(unused_macros))] // The archive has entries on x86-64 only.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! entry {
    (@code 1, $work:path) => {
        $crate::base::arch::code!(
            x86_64: "mov rsi, qword ptr [rsp]", "mov rdx, rsp", "jmp {work}";
            aarch64: "mov x1, x30", "mov x2, sp", "b {work}";
            work = sym $work)
    };
    (@code 2, $work:path) => {
        $crate::base::arch::code!(
            x86_64: "mov rdx, qword ptr [rsp]", "mov rcx, rsp", "jmp {work}";
            aarch64: "mov x2, x30", "mov x3, sp", "b {work}";
            work = sym $work)
    };
    (@code 3, $work:path) => {
        $crate::base::arch::code!(
            x86_64: "mov rcx, qword ptr [rsp]", "mov r8, rsp", "jmp {work}";
            aarch64: "mov x3, x30", "mov x4, sp", "b {work}";
            work = sym $work)
    };
    ($($words:tt $name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)? = $work:path;)*) => {$(
        /// # Safety
        /// As required by the function of this name in the C or C++ library.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[cfg_attr(test, allow(dead_code))]
        #[unsafe(naked)]
        pub unsafe extern "C-unwind" fn $name($(_: $kind),*) $(-> $result)? {
            $crate::base::arch::entry!(@code $words, $work)
        }
    )*};
}

/// Defines entry points for processors on which the caller is not known: the thread determines the
/// owner.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
macro_rules! entry {
    ($($words:tt $name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)? = $work:path;)*) => {$(
        /// # Safety
        /// As required by the function of this name in the C or C++ library.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C-unwind" fn $name($($argument: $kind),*) $(-> $result)? {
            // SAFETY: passed on to the caller.
            unsafe { $work($($argument,)* 0, 0) }
        }
    )*};
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) use code;
pub(crate) use entry;
