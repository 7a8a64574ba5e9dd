//! Calls of the program and its libraries to the loader, and for mappings and threads, which pass
//! through the tool: each works as without the tool, and the tool records it.

#![allow(unsafe_code)]

use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::{ending, loader, mappings, threads};

/// Functions that pass through the tool, by name.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Function {
    Mmap,
    Mmap64,
    Munmap,
    Mremap,
    Shmat,
    Shmdt,
    Brk,
    Sbrk,
    Dlopen,
    Dlsym,
    PthreadCreate,
    Exit,
    ExitC,
    Execve,
    Execv,
    Execvp,
    Execvpe,
    Execl,
    Execlp,
    Execle,
    Fexecve,
    Syscall,
    /// UCX's function to map memory, which bypasses the hooks that it has put before the C
    /// library's functions.
    UcxMmap,
    UcxMunmap,
}

/// Number of functions.
const FUNCTIONS: usize = UcxMunmap as usize + 1;

use Function::*;

struct Hook {
    function: Function,
    name: &'static CStr,
    target: unsafe extern "C-unwind" fn(),
}

const HOOKS: [Hook; 22] = [
    Hook { function: Mmap, name: c"mmap", target: mappings::mmap },
    Hook { function: Mmap64, name: c"mmap64", target: mappings::mmap },
    Hook { function: Munmap, name: c"munmap", target: mappings::munmap },
    Hook { function: Mremap, name: c"mremap", target: mappings::mremap },
    Hook { function: Shmat, name: c"shmat", target: mappings::shmat },
    Hook { function: Shmdt, name: c"shmdt", target: mappings::shmdt },
    Hook { function: Brk, name: c"brk", target: mappings::brk },
    Hook { function: Sbrk, name: c"sbrk", target: mappings::sbrk },
    Hook { function: Dlopen, name: c"dlopen", target: loader::dlopen },
    Hook { function: Dlsym, name: c"dlsym", target: loader::dlsym },
    Hook { function: PthreadCreate, name: c"pthread_create", target: threads::pthread_create },
    Hook { function: Exit, name: c"_exit", target: ending::exit },
    Hook { function: ExitC, name: c"_Exit", target: ending::exit_c },
    Hook { function: Execve, name: c"execve", target: ending::execve },
    Hook { function: Execv, name: c"execv", target: ending::execv },
    Hook { function: Execvp, name: c"execvp", target: ending::execvp },
    Hook { function: Execvpe, name: c"execvpe", target: ending::execvpe },
    Hook { function: Execl, name: c"execl", target: ending::execl },
    Hook { function: Execlp, name: c"execlp", target: ending::execlp },
    Hook { function: Execle, name: c"execle", target: ending::execle },
    Hook { function: Fexecve, name: c"fexecve", target: ending::fexecve },
    Hook { function: Syscall, name: c"syscall", target: mappings::syscall },
];

/// Hooks of libraries that may be loaded late; the first definition found is used.
const LATE: [Hook; 2] = [
    Hook { function: UcxMmap, name: c"ucm_orig_mmap", target: mappings::ucx_mmap },
    Hook { function: UcxMunmap, name: c"ucm_orig_munmap", target: mappings::ucx_munmap },
];

static REAL: [AtomicUsize; FUNCTIONS] = [const { AtomicUsize::new(0) }; FUNCTIONS];

/// Functions that calls reach without the tool: the program, or an object preloaded before the
/// tool, may define the function too.
static FIRST: [AtomicUsize; HOOKS.len()] = [const { AtomicUsize::new(0) }; HOOKS.len()];

/// Finds the real functions. Called before anything is patched.
pub fn start() {
    for hook in &HOOKS {
        let found = crate::base::symbols::dlsym_next(hook.name);
        REAL[hook.function as usize].store(found, Ordering::Release);
        let first = crate::base::symbols::dlsym(libc::RTLD_DEFAULT, hook.name);
        FIRST[hook.function as usize].store(first, Ordering::Release);
    }
    DLSYM.store(real(Dlsym), Ordering::Release);
    SYSCALL.store(real(Syscall), Ordering::Release);
}

/// Returns the real function. It exists when its hook is called, since nothing is hooked without
/// it; but the linker of a static program has hooked it whether or not anything is recorded.
pub fn real(function: Function) -> usize {
    let found = REAL[function as usize].load(Ordering::Acquire);
    if !cfg!(feature = "archive") || found != 0 {
        return found;
    }
    let hook = HOOKS.iter().find(|hook| hook.function == function);
    hook.map_or(0, |hook| crate::base::symbols::dlsym_next(hook.name))
}

/// Returns the target of a call to `symbol`, if the tool hooks it.
pub fn target(symbol: &[u8], memory: bool, look_ups: bool) -> Option<usize> {
    let hook = HOOKS.iter().find(|hook| hook.name.to_bytes() == symbol)?;
    let wanted = match hook.function {
        Dlsym => look_ups,
        Mmap | Mmap64 | Munmap | Mremap | Shmat | Shmdt | Brk | Sbrk => memory,
        _ => true,
    };
    (wanted && real(hook.function) != 0).then_some(hook.target as *const () as usize)
}

/// Returns true if `symbol` is a function that may be loaded late.
pub fn is_late(symbol: &[u8]) -> bool {
    LATE.iter().any(|hook| hook.name.to_bytes() == symbol)
}

/// Returns the target of a call to `symbol`, a function that may be loaded late, if it is defined
/// at `found`.
pub fn late_target(symbol: &[u8], found: usize) -> Option<usize> {
    let hook = LATE.iter().find(|hook| hook.name.to_bytes() == symbol)?;
    let real = &REAL[hook.function as usize];
    let before = real.compare_exchange(0, found, Ordering::AcqRel, Ordering::Acquire);
    before.err().is_none_or(|before| before == found).then_some(hook.target as *const () as usize)
}

/// Returns the function that a call to the hooked `symbol` reaches without the tool.
pub fn first(symbol: &[u8]) -> usize {
    let hook = HOOKS.iter().find(|hook| hook.name.to_bytes() == symbol);
    hook.map_or(0, |hook| FIRST[hook.function as usize].load(Ordering::Acquire))
}

/// Addresses of the real `dlsym` and `syscall`, for entries written in assembly.
pub static DLSYM: AtomicUsize = AtomicUsize::new(0);
pub static SYSCALL: AtomicUsize = AtomicUsize::new(0);

/// Body of an entry with up to six words. `work` gets the words, the return address, and the stack
/// pointer at entry.
macro_rules! hook_code {
    ($work:path) => {
        $crate::base::arch::code!(
            x86_64: ".cfi_startproc",
            "mov rax, rsp",
            "sub rsp, 8",
            ".cfi_adjust_cfa_offset 8",
            "push rax",
            ".cfi_adjust_cfa_offset 8",
            "push qword ptr [rax]",
            ".cfi_adjust_cfa_offset 8",
            "call {work}",
            "add rsp, 24",
            ".cfi_adjust_cfa_offset -24",
            "ret",
            ".cfi_endproc";
            aarch64: "mov x6, x30",
            "mov x7, sp",
            "b {work}";
            work = sym $work,
        )
    };
}

/// Defines entries with this body.
macro_rules! hook {
    ($($name:ident => $work:path;)*) => {$(
        /// # Safety
        /// As required by the function of this name in the C library.
        #[unsafe(naked)]
        pub unsafe extern "C-unwind" fn $name() {
            $crate::interpose::hooked::hook_code!($work)
        }
    )*};
}

pub(crate) use {hook, hook_code};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hooked_is_among_the_names_that_are_read() {
        let firsts = super::super::patch::FIRSTS;
        assert!(HOOKS.iter().all(|hook| firsts.contains(&hook.name.to_bytes()[0])));
    }
}
