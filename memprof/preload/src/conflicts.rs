//! Others that stand where we do: allocators, sanitizers, preloaded tools.

#![allow(unsafe_code)]

use core::ffi::CStr;
use core::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use memprof_trace::layout::flags;

use crate::component::{Class, Component};
use crate::note::{self, Code};
use crate::{component, objects};

/// What a sanitizer's run-time library defines, and its name.
const SANITIZERS: &[(&CStr, &str)] = &[
    (c"__asan_init", "AddressSanitizer"),
    (c"__tsan_init", "ThreadSanitizer"),
    (c"__msan_init", "MemorySanitizer"),
    (c"__hwasan_init", "HWAddressSanitizer"),
    (c"__lsan_do_leak_check", "LeakSanitizer"),
];

/// How the file names of objects begin that watch allocations as well.
const WATCHERS: &[&str] = &["libheaptrack", "libmtrace", "libmemusage", "libbytehound", "libvtune"];
const VALGRIND: &str = "vgpreload";

static FLAGS: AtomicU64 = AtomicU64::new(0);
static ALLOCATOR: AtomicU16 = AtomicU16::new(0);

fn defined(name: &CStr) -> usize {
    // SAFETY: a name with a zero at its end. The message of a name that is not there is fetched, since
    // the C library would free it at a moment of its choice.
    unsafe {
        let found = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) as usize;
        if found == 0 {
            libc::dlerror();
        }
        found
    }
}

/// Looks around, and says what it finds. True if blocks must not be touched.
pub fn look() -> bool {
    linked_statically();
    if cfg!(feature = "archive") {
        // The linker has put the tool where it belongs; there is no loader to ask.
        return false;
    }
    if let Some((_, name)) = SANITIZERS.iter().find(|(symbol, _)| defined(symbol) != 0) {
        note::say(
            Code::Sanitizer,
            format_args!("{name} is in the process: blocks are not seen, only mappings"),
        );
        FLAGS.fetch_or(flags::OWN_ALLOCATOR, Ordering::Relaxed);
        return true;
    }
    objects::each(|object| {
        let path = object.path();
        let file = path.rsplit('/').next().unwrap_or(path);
        if file.starts_with(VALGRIND) {
            note::say(Code::Emulated, format_args!("valgrind replaces the allocator"));
        } else if WATCHERS.iter().any(|watcher| file.starts_with(watcher)) {
            note::say(Code::OtherPreload, format_args!("{file} watches the allocator as well"));
        }
    });
    // The first definition is the one that the program and its libraries call.
    let first = defined(c"malloc");
    match objects::component_at(first) {
        Some(owner) if component::class(owner) == Class::Tool => {}
        Some(owner) if owner == objects::executable() => {
            note::say(
                Code::OwnAllocator,
                format_args!("the program brings its own malloc: its blocks are not seen"),
            );
            FLAGS.fetch_or(flags::OWN_ALLOCATOR, Ordering::Relaxed);
            ALLOCATOR.store(owner.0, Ordering::Relaxed);
        }
        Some(owner) => {
            let name = component::entered(owner).name;
            note::say(
                Code::OtherPreload,
                format_args!("{name} stands before the profiler: blocks are not seen"),
            );
            FLAGS.fetch_or(flags::OWN_ALLOCATOR, Ordering::Relaxed);
        }
        None => {}
    }
    // SAFETY: a name with a zero at its end.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"malloc".as_ptr()) as usize };
    if let Some(owner) = objects::component_at(next)
        && component::class(owner) != Class::System
        && owner != objects::executable()
    {
        ALLOCATOR.store(owner.0, Ordering::Relaxed);
    }
    false
}

/// Says what is not told apart where the linker has made one object of several.
fn linked_statically() {
    let lost = match (cfg!(feature = "archive"), objects::parts_are_known()) {
        (true, true) => {
            "linked statically: libraries are one with the program, MPI's are one component"
        }
        (true, false) => "linked statically, without symbols: calls alone tell what is MPI's",
        (false, true) => {
            "MPI is linked into the program: its code, and libraries it needs, count as the program's"
        }
        (false, false) if objects::archive_word().is_some() => {
            "MPI is linked into the program, without symbols: calls alone tell what is MPI's"
        }
        (false, false) => return,
    };
    note::say(Code::Static, format_args!("{lost}"));
    FLAGS.fetch_or(flags::STATIC, Ordering::Relaxed);
}

/// Flags of the trace that say what was found.
pub fn flags() -> u64 {
    FLAGS.load(Ordering::Relaxed)
}

/// Whose mappings are the heap, if that is not the C library. The program itself never is: it may
/// map for other reasons.
pub fn allocator() -> Option<Component> {
    match ALLOCATOR.load(Ordering::Relaxed) {
        0 => None,
        index => Some(Component(index)).filter(|owner| *owner != objects::executable()),
    }
}
