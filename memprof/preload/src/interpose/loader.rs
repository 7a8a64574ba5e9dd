//! The program's calls to the loader: opened objects are patched, and lookups of functions return
//! the tool's entries.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int, c_void};

use super::hooked::{DLSYM, Function, hook, real};
use memprof_boundary::functions;

use super::patch;
use crate::base::arch::code;
use crate::base::component::Component;
use crate::base::dictionary::{self, Class};
use crate::base::thread::{Guard, local};
use crate::owners::{self, Known};

/// Longer names are passed on unchanged.
const NAME: usize = 4096;

type Open = unsafe extern "C-unwind" fn(*const c_char, c_int) -> *mut c_void;

fn real_open(name: *const c_char, flags: c_int) -> *mut c_void {
    // SAFETY: the real function, with the arguments of its caller or a zero-terminated text.
    unsafe {
        let open: Open = core::mem::transmute(real(Function::Dlopen));
        core::hint::black_box(open(name, flags))
    }
}

hook! {
    dlopen => open_work;
}

/// Opens an object for the program. The loader considers the object that calls it, with its search
/// path and its directory. Since the tool calls in its place, the tool does that part of the search
/// itself.
unsafe extern "C-unwind" fn open_work(
    name: *const c_char,
    flags: c_int,
    _c: usize,
    _d: usize,
    _e: usize,
    _f: usize,
    caller: usize,
    stack: usize,
) -> *mut c_void {
    if local().guard.get() > 0 {
        return real_open(name, flags);
    }
    owners::refresh_surely();
    let since = owners::serial();
    let by_mpi = is_mpis(caller, stack);
    let handle = open(name, flags, caller);
    if handle.is_null() {
        return handle;
    }
    owners::refresh_surely();
    // SAFETY: a handle is the loader's entry, whose first word is the address of the object.
    owners::mark_opened(unsafe { *handle.cast::<usize>() }, since, by_mpi);
    patch::everything(handle);
    handle
}

/// Returns true if the call is MPI's own, not one of a program function that MPI called.
fn is_mpis(caller: usize, stack: usize) -> bool {
    let caller = owners::caller(caller);
    let inside = local().inside_mpi(stack);
    match dictionary::class(caller.component) {
        Class::MpiCore | Class::MpiDependency => true,
        Class::System | Class::Unattributed => {
            inside || dictionary::class(local().home.get()).is_mpi()
        }
        // A loader library that is not yet known to belong to MPI alone.
        Class::AppLibrary => inside && caller.neutral,
        _ => false,
    }
}

fn open(name: *const c_char, flags: c_int, caller: usize) -> *mut c_void {
    if name.is_null() {
        return real_open(name, flags);
    }
    // SAFETY: a name for the loader is zero-terminated.
    let text = unsafe { CStr::from_ptr(name) }.to_bytes();
    let dollar = text.contains(&b'$');
    if (text.contains(&b'/') && !dollar) || text.is_empty() || text.len() > NAME / 4 {
        return real_open(name, flags);
    }
    let Some(object) = object_of(caller) else {
        return real_open(name, flags);
    };
    let mut buffer = [0u8; NAME];
    if dollar {
        return match in_its_folder(text, &object, &mut buffer) {
            Some(path) => real_open(path.as_ptr(), flags),
            None => real_open(name, flags),
        };
    }
    if !object.has_search_path {
        return real_open(name, flags);
    }
    // A loaded object is found by name, wherever it was found first.
    let found = real_open(name, flags | libc::RTLD_NOLOAD);
    if !found.is_null() {
        return found;
    }
    forget_error();
    search(text, flags, &object, &mut buffer).unwrap_or_else(|| real_open(name, flags))
}

fn forget_error() {
    // SAFETY: no arguments.
    unsafe { libc::dlerror() };
}

fn object_of(address: usize) -> Option<Known> {
    let mut index = 0;
    while let Some(object) = owners::at(index) {
        if let Some(object) = object
            && address >= object.low
            && address < object.high
        {
            return Some(object);
        }
        index += 1;
    }
    None
}

/// Replaces `$ORIGIN` at the beginning of a name by the directory of the calling object.
fn in_its_folder<'b>(text: &[u8], object: &Known, buffer: &'b mut [u8; NAME]) -> Option<&'b CStr> {
    let rest = text.strip_prefix(b"$ORIGIN").or_else(|| text.strip_prefix(b"${ORIGIN}"))?;
    let path = object.path();
    let folder = path.get(..path.rfind('/')?)?.as_bytes();
    join(buffer, &[folder, rest])
}

fn join<'b>(buffer: &'b mut [u8; NAME], parts: &[&[u8]]) -> Option<&'b CStr> {
    let mut length = 0;
    for part in parts {
        buffer.get_mut(length..length + part.len())?.copy_from_slice(part);
        length += part.len();
    }
    *buffer.get_mut(length)? = 0;
    CStr::from_bytes_with_nul(buffer.get(..=length)?).ok()
}

/// Result of `dlinfo` about the directories that are searched.
#[repr(C)]
struct Folders {
    size: usize,
    count: u32,
}

#[repr(C)]
struct Folder {
    name: *const c_char,
    flags: u32,
}

const SIZE_OF_FOLDERS: c_int = 5;
const FOLDERS: c_int = 4;

/// Search directories of an object, as many as fit; on the stack, since nothing here may allocate.
struct Searched {
    /// Array of words, for alignment.
    space: [usize; 1024],
}

impl Searched {
    const fn new() -> Searched {
        Searched { space: [0; 1024] }
    }

    /// Returns the directories that the loader searches for an open object, in their order.
    fn of(&mut self, handle: *mut c_void) -> &[Folder] {
        let head = self.space.as_mut_ptr().cast::<Folders>();
        // SAFETY: the handle is open; the loader writes what fits, and reports the required size
        // before.
        unsafe {
            let mut need = Folders { size: 0, count: 0 };
            if libc::dlinfo(handle, SIZE_OF_FOLDERS, (&raw mut need).cast()) != 0
                || need.size > size_of_val(&self.space)
            {
                return &[];
            }
            *head = need;
            if libc::dlinfo(handle, FOLDERS, head.cast()) != 0 {
                return &[];
            }
            core::slice::from_raw_parts(head.add(1).cast(), (*head).count as usize)
        }
    }
}

impl Folder {
    fn name(&self) -> &[u8] {
        if self.name.is_null() {
            return b"";
        }
        // SAFETY: the loader's names are zero-terminated, and are in the buffer that it has filled.
        unsafe { CStr::from_ptr(self.name) }.to_bytes()
    }
}

/// Returns the number of an object's directories that are searched before the loader's cache. The
/// last ones are the system's, which are searched after it. They equal the last ones of an object
/// without directories of its own, except that there the directories of the environment come before
/// them.
fn before_cache<'t>(
    own: impl DoubleEndedIterator<Item = &'t [u8]> + ExactSizeIterator,
    of_other: impl DoubleEndedIterator<Item = &'t [u8]>,
    environment: &[u8],
) -> usize {
    let count = own.len();
    let alike = own.rev().zip(of_other.rev()).take_while(|(own, other)| own == other);
    let is_environments = |folder: &[u8]| {
        let mut entries = environment.split(|&byte| byte == b':' || byte == b';');
        entries.any(|entry| entry.strip_suffix(b"/").unwrap_or(entry) == folder)
    };
    // Number of the system's directories, from the end; some of the environment's may precede them.
    let (mut systems, mut seen) = (0, 0);
    for (folder, _) in alike {
        seen += 1;
        if !is_environments(folder) {
            systems = seen;
        }
    }
    count - systems
}

/// Tries the directories that the loader would try before its cache, had the object called it.
fn search(
    text: &[u8],
    flags: c_int,
    object: &Known,
    buffer: &mut [u8; NAME],
) -> Option<*mut c_void> {
    let path = object.loader_path()?;
    let path = if object.executable { core::ptr::null() } else { path.as_ptr() };
    let handle = real_open(path, libc::RTLD_NOLOAD | libc::RTLD_LAZY);
    if handle.is_null() {
        forget_error();
        return None;
    }
    let other = real_open(c"libc.so.6".as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
    let (mut own, mut of_other) = (Searched::new(), Searched::new());
    let own = own.of(handle);
    let of_other = if other.is_null() { &[] } else { of_other.of(other) };
    // SAFETY: the name is zero-terminated, and so is the result.
    let environment = unsafe {
        let found = libc::getenv(c"LD_LIBRARY_PATH".as_ptr());
        if found.is_null() { b"" } else { CStr::from_ptr(found).to_bytes() }
    };
    let first =
        before_cache(own.iter().map(Folder::name), of_other.iter().map(Folder::name), environment);
    let mut found = None;
    for folder in own[..first].iter().filter(|folder| !folder.name().is_empty()) {
        let Some(path) = join(buffer, &[folder.name(), b"/", text]) else { continue };
        // SAFETY: a zero-terminated text.
        if unsafe { libc::access(path.as_ptr(), libc::R_OK) } != 0 {
            continue;
        }
        let opened = real_open(path.as_ptr(), flags);
        if !opened.is_null() {
            found = Some(opened);
            break;
        }
        forget_error();
    }
    for handle in [handle, other].into_iter().filter(|handle| !handle.is_null()) {
        // SAFETY: opened above.
        unsafe { libc::dlclose(handle) };
    }
    if other.is_null() {
        forget_error();
    }
    found
}

/// `dlsym`: with a handle, the tool looks up in the program's place, and returns its own function
/// where calls by name would reach it. The result of `RTLD_NEXT` depends on the caller, so the call
/// is passed on unchanged; one with `RTLD_DEFAULT` as well, unless it is for an MPI function that
/// all objects see.
///
/// # Safety
///
/// As required by the function of this name in the C library.
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn dlsym() {
    code!(
        x86_64: ".cfi_startproc",
        "cmp rdi, -1",
        "je 2f",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "mov rdx, qword ptr [rsp + 24]",
        "call {find_replacement}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "test rax, rax",
        "jz 2f",
        "ret",
        "2:",
        "jmp qword ptr [rip + {real}]",
        ".cfi_endproc";
        aarch64: ".cfi_startproc",
        "cmn x0, #1",
        "b.eq 2f",
        "stp x29, x30, [sp, #-32]!",
        ".cfi_def_cfa_offset 32",
        ".cfi_offset x29, -32",
        ".cfi_offset x30, -24",
        "stp x0, x1, [sp, #16]",
        "mov x2, x30",
        "bl {find_replacement}",
        "mov x16, x0",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "cbz x16, 2f",
        "mov x0, x16",
        "ret",
        "2:",
        "adrp x16, {real}",
        "ldr x16, [x16, :lo12:{real}]",
        "br x16",
        ".cfi_endproc";
        find_replacement = sym find_replacement,
        real = sym DLSYM,
    )
}

/// Returns the address, or 0 where the call has to be passed on unchanged.
unsafe extern "C-unwind" fn find_replacement(
    handle: *mut c_void,
    name: *const c_char,
    caller: usize,
) -> usize {
    if name.is_null() || local().guard.get() > 0 {
        return 0;
    }
    // SAFETY: a name for the loader is zero-terminated.
    let name = unsafe { CStr::from_ptr(name) };
    let symbol = name.to_bytes();
    #[cfg(not(feature = "archive"))]
    if super::block_functions::is_one(symbol) {
        return super::block_functions::find(handle, name, caller);
    }
    if super::runtimes::gpu::is_one(symbol) {
        let is_runtimes =
            object_of(caller).is_some_and(|by| super::runtimes::gpu::is_runtime(by.name()));
        let found = if is_runtimes { None } else { look_up(handle, name) };
        let found = found.filter(|found| !owners::is_executables(*found));
        return found.and_then(|found| super::runtimes::gpu::target(symbol, found)).unwrap_or(0);
    }
    if !symbol.starts_with(b"MPI") && !symbol.starts_with(b"PMPI") {
        return 0;
    }
    // Objects may have been opened in ways that the tool did not see.
    owners::refresh_surely();
    patch::everything(core::ptr::null_mut());
    if functions::find(symbol).is_none() && !symbol.ends_with(b"MPI_Pcontrol") {
        return 0;
    }
    let _guard = Guard::enter();
    // From here, everything but the program's own stubs is reached by `RTLD_NEXT`.
    let handle = if handle == libc::RTLD_DEFAULT { libc::RTLD_NEXT } else { handle };
    let Some(found) = look_up(handle, name) else { return 0 };
    let whose = owners::component_at(found);
    if whose.is_none_or(|whose| whose == Component::TOOL) || owners::is_executables(found) {
        return 0;
    }
    patch::mpi_target(symbol, found).unwrap_or(0)
}

/// Returns the address of a symbol. Where there is none, the program looks up again itself and gets
/// the error.
pub(super) fn look_up(handle: *mut c_void, name: &CStr) -> Option<usize> {
    // SAFETY: the caller's handle and name. The result is used after the call, so that the call
    // does not become a jump.
    let found = core::hint::black_box(unsafe { libc::dlsym(handle, name.as_ptr()) }) as usize;
    if found == 0 {
        forget_error();
    }
    (found != 0).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_the_system_come_after_the_cache() {
        let count = |own: &[&'static str], other: &[&'static str], environment: &str| {
            let bytes = |names: &[&'static str]| -> Vec<&'static [u8]> {
                names.iter().map(|name| name.as_bytes()).collect()
            };
            let (own, other) = (bytes(own), bytes(other));
            before_cache(own.into_iter(), other.into_iter(), environment.as_bytes())
        };
        assert_eq!(count(&["/a", "/lib", "/usr/lib"], &["/lib", "/usr/lib"], ""), 1);
        assert_eq!(count(&["/lib", "/usr/lib"], &["/lib", "/usr/lib"], ""), 0);
        // RUNPATH is searched after the environment, RPATH before it.
        assert_eq!(count(&["/e", "/a", "/lib"], &["/e", "/lib"], "/e/"), 2);
        assert_eq!(count(&["/a", "/e", "/lib"], &["/e", "/lib"], "/e"), 2);
        // A directory of an object may also be one of the system's.
        assert_eq!(count(&["/lib", "/lib", "/usr/lib"], &["/lib", "/usr/lib"], ""), 1);
        // A directory may also be one of the environment's.
        assert_eq!(
            count(&["/usr/lib", "/lib", "/usr/lib"], &["/usr/lib", "/lib", "/usr/lib"], "/usr/lib"),
            1
        );
        // Where nothing is known of another object, all existing directories are tried.
        assert_eq!(count(&["/a", "/lib"], &[], ""), 2);
    }

    #[test]
    fn the_loader_tells_of_the_folders_of_the_system_last() {
        // SAFETY: the library is loaded.
        let handle =
            unsafe { libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
        let mut searched = Searched::new();
        let folders = searched.of(handle);
        let last = folders.last().map(|folder| folder.name().to_vec());
        assert!(last.is_some_and(|last| last.starts_with(b"/")), "{}", folders.len());
    }
}
