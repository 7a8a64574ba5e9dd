//! Conflicts with other software in the same place: allocators, sanitizers, preloaded tools.

#![allow(unsafe_code)]

use core::ffi::CStr;
use core::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use memprof_trace::layout::flags;

use crate::base::component::Component;
use crate::base::diagnostics::{self, Code};
use crate::base::dictionary::{self, Class};
use crate::base::thread::Guard;
use crate::base::{kernel, symbols};
use crate::ledger::heap;
use crate::owners;

/// Symbols of the sanitizers' run-time libraries, and their names.
const SANITIZERS: &[(&CStr, &str)] = &[
    (c"__asan_init", "AddressSanitizer"),
    (c"__tsan_init", "ThreadSanitizer"),
    (c"__msan_init", "MemorySanitizer"),
    (c"__hwasan_init", "HWAddressSanitizer"),
    (c"__lsan_do_leak_check", "LeakSanitizer"),
];

/// Prefixes of the file names of other objects that watch allocations.
const WATCHERS: &[&str] = &["libheaptrack", "libmtrace", "libmemusage", "libbytehound", "libvtune"];
const VALGRIND: &str = "vgpreload";

static FLAGS: AtomicU64 = AtomicU64::new(0);
static ALLOCATOR: AtomicU16 = AtomicU16::new(0);

fn defined(name: &CStr) -> usize {
    // SAFETY: the name is zero-terminated. The error message for a missing name is fetched, since
    // the C library would otherwise free it at an arbitrary moment.
    unsafe {
        let found = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) as usize;
        if found == 0 {
            libc::dlerror();
        }
        found
    }
}

/// Returns the owner of the first object that defines a function, in the loader's search order. The
/// loader is not asked: for a function whose address a program without position independence takes,
/// it would return a stub in that program.
fn first_with(name: &[u8]) -> Option<Component> {
    let mut first = None;
    owners::each(|object| {
        // SAFETY: the loader has started the program with the object and keeps it.
        if first.is_none() && object.initial && unsafe { object.image() }.defines(name) {
            first = Some(object.component);
        }
    });
    first
}

/// Looks for conflicts, and records them. Returns true if blocks must not be touched.
pub fn find_conflicts() -> bool {
    linked_statically();
    emulated();
    if cfg!(feature = "archive") {
        // The linker has put the tool in its place; there is no loader to ask.
        return false;
    }
    if let Some((_, name)) = SANITIZERS.iter().find(|(symbol, _)| defined(symbol) != 0) {
        diagnostics::say(
            Code::Sanitizer,
            format_args!("{name} is in the process: blocks and calls of MPI are not seen"),
        );
        FLAGS.fetch_or(flags::OWN_ALLOCATOR, Ordering::Relaxed);
        return true;
    }
    // The program and its libraries call the first definition.
    match first_with(b"malloc") {
        Some(owner) if dictionary::class(owner) == Class::Tool => {}
        Some(owner) if owner == owners::executable() => {
            diagnostics::say(
                Code::OwnAllocator,
                format_args!("the program brings its own malloc: its blocks are not seen"),
            );
            FLAGS.fetch_or(flags::OWN_ALLOCATOR, Ordering::Relaxed);
            ALLOCATOR.store(owner.0, Ordering::Relaxed);
        }
        Some(owner) => {
            let name = dictionary::entered(owner).name;
            diagnostics::say(
                Code::OtherPreload,
                format_args!(
                    "{name} stands before the profiler: blocks are not seen, or count as its own"
                ),
            );
            FLAGS.fetch_or(flags::OWN_ALLOCATOR, Ordering::Relaxed);
        }
        None => {}
    }
    watchers();
    // SAFETY: the name is zero-terminated.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"malloc".as_ptr()) as usize };
    if let Some(owner) = owners::component_at(next)
        && dictionary::class(owner) != Class::System
        && owner != owners::executable()
    {
        ALLOCATOR.store(owner.0, Ordering::Relaxed);
        let name = dictionary::entered(owner).name;
        // A preloaded object may be a tool that passes calls on; heaptrack removes itself from the
        // variable.
        if !is_preloaded(name) && !WATCHERS.iter().any(|watcher| name.starts_with(watcher)) {
            diagnostics::say(
                Code::LinkedAllocator,
                format_args!("blocks are those of {name}: what it keeps free is slack"),
            );
        }
    }
    false
}

/// Makes ThreadSanitizer ignore this thread, which works for the tool for the rest of its life: it
/// does not know the tool's locks, and would end the program with reports.
pub fn be_unseen() {
    if FLAGS.load(Ordering::Relaxed) & flags::OWN_ALLOCATOR == 0 {
        return;
    }
    for name in [c"AnnotateIgnoreReadsBegin", c"AnnotateIgnoreWritesBegin"] {
        let begin = defined(name);
        if begin != 0 {
            type Begin = unsafe extern "C" fn(*const core::ffi::c_char, core::ffi::c_int);
            // SAFETY: functions of these names have this type, wherever they are defined.
            unsafe { core::mem::transmute::<usize, Begin>(begin)(c"memprof".as_ptr(), 0) };
        }
    }
}

/// Returns true if `LD_PRELOAD` names an object with this file name.
fn is_preloaded(name: &str) -> bool {
    // SAFETY: the environment is read as the C library reads it; the tool never changes it.
    let list = unsafe { libc::getenv(c"LD_PRELOAD".as_ptr()) };
    if list.is_null() {
        return false;
    }
    // SAFETY: texts of the environment are zero-terminated.
    let list = unsafe { CStr::from_ptr(list) }.to_bytes();
    let file = |path: &[u8]| path.rsplit(|byte| *byte == b'/').next() == Some(name.as_bytes());
    list.split(|byte| matches!(byte, b':' | b' ')).any(file)
}

/// Reports other objects that watch allocations.
fn watchers() {
    owners::each(|object| {
        let path = object.path();
        let file = path.rsplit('/').next().unwrap_or(path);
        if file.starts_with(VALGRIND) {
            diagnostics::say(
                Code::Emulated,
                format_args!(
                    "valgrind replaces the allocator, and its own memory counts: blocks are not seen"
                ),
            );
        } else if WATCHERS.iter().any(|watcher| file.starts_with(watcher)) {
            let lost = if heap::is_disabled() { ": blocks are not seen" } else { "" };
            diagnostics::say(
                Code::OtherPreload,
                format_args!("{file} watches the allocator as well{lost}"),
            );
        }
    });
}

/// Functions whose first bytes MPI libraries replace, to be notified of mappings.
const HOOKED: [&CStr; 7] = [c"mmap", c"munmap", c"mremap", c"madvise", c"shmat", c"shmdt", c"brk"];

/// Returns the target of a function's jump by its first bytes, in one of the forms in which they
/// are replaced.
fn jump(at: usize, code: &[u8; 16]) -> Option<usize> {
    let number = |from: usize| Some(i32::from_le_bytes(code.get(from..from + 4)?.try_into().ok()?));
    match code {
        [0xe9, ..] => Some(at.wrapping_add(5).wrapping_add_signed(number(1)? as isize)),
        // movabs r11, TARGET; jmp r11
        [0x49, 0xbb, target @ .., 0x41, 0xff, 0xe3, _, _, _] => Some(usize::from_le_bytes(*target)),
        _ => None,
    }
}

/// Checks whether an MPI library has hooked the functions for mappings, which it does while MPI
/// begins. Nothing is lost by that: the tool intercepts the calls where they are made.
pub fn look_at_hooks() {
    let _guard = Guard::enter();
    let found = HOOKED.iter().find_map(|name| {
        let at = symbols::dlsym_next(name);
        let mut code = [0; 16];
        if at == 0 || !kernel::peek(at, &mut code) {
            return None;
        }
        let owner = owners::component_at(jump(at, &code)?)?;
        (Some(owner) != owners::component_at(at)).then_some((name, owner))
    });
    if let Some((name, owner)) = found {
        let (who, name) = (dictionary::entered(owner), name.to_str().unwrap_or("?"));
        diagnostics::say(
            Code::MemoryHooks,
            format_args!("{who} has put itself before {name} of the C library; both see mappings"),
        );
    }
}

/// Reports an emulator, which holds the program's memory in its own: the kernel then reports the
/// emulator's pages.
fn emulated() {
    // The emulator shows the program's file under the name that most programs read.
    let (mut shown, mut real) = ([0; 512], [0; 512]);
    let shown = kernel::read_link(c"/proc/self/exe", &mut shown).unwrap_or(b"");
    let real = kernel::read_link(c"/proc/thread-self/exe", &mut real).unwrap_or(b"");
    let name = real.rsplit(|&byte| byte == b'/').next().unwrap_or(real);
    if shown != real && name.starts_with(b"qemu-") {
        diagnostics::say(
            Code::Emulated,
            format_args!(
                "the program runs under qemu: owned is right, of what is resident much is not seen"
            ),
        );
    }
}

/// Records which parts cannot be distinguished because the linker has made one object of several.
fn linked_statically() {
    let lost = match (cfg!(feature = "archive"), owners::parts_are_known()) {
        (true, true) => {
            "linked statically: libraries are one with the program, MPI's are one component"
        }
        (true, false) => "linked statically, without symbols: calls alone tell what is MPI's",
        (false, true) => {
            "MPI is linked into the program: its code, and libraries it needs, count as the program's"
        }
        (false, false) if owners::archive_word().is_some() => {
            "MPI is linked into the program, without symbols: calls alone tell what is MPI's"
        }
        (false, false) => return,
    };
    diagnostics::say(Code::Static, format_args!("{lost}"));
    FLAGS.fetch_or(flags::STATIC, Ordering::Relaxed);
}

/// Returns the flags of the trace for the conflicts found.
pub fn flags() -> u64 {
    FLAGS.load(Ordering::Relaxed)
}

/// Returns the owner of the heap's mappings, if that is not the C library. It is never the program,
/// which may map memory for other reasons.
pub fn allocator() -> Option<Component> {
    match ALLOCATOR.load(Ordering::Relaxed) {
        0 => None,
        index => Some(Component(index)).filter(|owner| *owner != owners::executable()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_of_others_are_read() {
        let mut code = [0x90; 16];
        assert_eq!(jump(0x1000, &code), None);
        code[0] = 0xe9;
        code[1..5].copy_from_slice(&(-0x105_i32).to_le_bytes());
        assert_eq!(jump(0x1000, &code), Some(0xf00));
        code[..2].copy_from_slice(&[0x49, 0xbb]);
        code[2..10].copy_from_slice(&0x7f12_3456_789a_u64.to_le_bytes());
        assert_eq!(jump(0x1000, &code), None, "nothing jumps there");
        code[10..13].copy_from_slice(&[0x41, 0xff, 0xe3]);
        assert_eq!(jump(0x1000, &code), Some(0x7f12_3456_789a));
    }
}
