//! Redirects calls of the loaded objects through this one, by the addresses in their global offset
//! tables. Objects that are loaded later are left alone.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

use memprof_boundary::elf::relocation::{GLOBAL_DATA, JUMP_SLOT};
use memprof_boundary::elf::{Image, segment};
use memprof_boundary::slots::{SlotWriter, word};

use crate::{mpi, openmp};

/// First letters of the names of the functions to redirect.
const FIRSTS: &[u8] = b"MPGos";

/// Facts that all objects of a walk share.
struct Walk {
    page: usize,
    /// Addresses of the program, which is the first object.
    program: Option<(usize, usize)>,
}

/// Patches all loaded objects. Must be called by the main thread, before the program starts.
pub fn everything() {
    // SAFETY: no arguments that are read.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let mut walk = Walk { page, program: None };
    // SAFETY: `each` gets the walk that is passed here.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut walk).cast()) };
}

unsafe extern "C" fn each(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    walk: *mut c_void,
) -> c_int {
    // SAFETY: the loader's description of an object that stays loaded during the call, and the walk of `everything`.
    let (info, walk) = unsafe { (&*info, &mut *walk.cast::<Walk>()) };
    let base = info.dlpi_addr as usize;
    // SAFETY: the loader gives the number of headers.
    let headers =
        unsafe { core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let mut image = Image::new(base);
    let mut dynamic = None;
    let (mut low, mut high) = (usize::MAX, 0);
    for header in headers {
        let start = base.wrapping_add(header.p_vaddr as usize);
        let end = start.wrapping_add(header.p_memsz as usize);
        match header.p_type {
            segment::LOAD => {
                (low, high) = (low.min(start), high.max(end));
                if header.p_flags & segment::READABLE != 0 {
                    // SAFETY: a readable segment of an object that is loaded.
                    unsafe { image.add_segment(start, end) };
                }
            }
            segment::RELRO => image.read_only = (start & !(walk.page - 1), end & !(walk.page - 1)),
            segment::DYNAMIC => dynamic = Some((start, end - start)),
            _ => {}
        }
    }
    let object = (low, high);
    let program = *walk.program.get_or_insert(object);
    let is_in = |address: usize, (low, high): (usize, usize)| address >= low && address < high;
    // Yields of the OpenMP runtime, which may hold its locks then, are no sign that MPI waits.
    let left_alone = [everything as *const () as usize, openmp::runtime()];
    if left_alone.iter().any(|address| is_in(*address, object)) {
        return 0;
    }
    if let Some((address, bytes)) = dynamic {
        image.set_dynamic(address, bytes);
    }
    let mut slots = SlotWriter::new(&image, walk.page);
    image.each_relocation(&[JUMP_SLOT, GLOBAL_DATA], |relocation| {
        let Some(symbol) = relocation.symbol(FIRSTS) else { return };
        if relocation.addend != 0 || !relocation.slot.is_multiple_of(8) {
            return;
        }
        // SAFETY: an aligned word of the object, as the symbol's lookup has checked.
        let value = unsafe { word(relocation.slot) }.load(core::sync::atomic::Ordering::Relaxed);
        // Zero is an undefined weak symbol. A stub of a program at a fixed address leads through
        // the program's slot.
        let is_stub = object != program && is_in(value, program);
        if value == 0 || is_stub {
            return;
        }
        // A function that has not been called yet leads to the object's own table.
        let real = if is_in(value, object) { next(symbol) } else { value };
        if real == 0 || is_in(real, program) {
            return;
        }
        let target = mpi::target(symbol, real).or_else(|| openmp::target(symbol, real));
        if let Some(target) = target.filter(|&target| target != value) {
            // SAFETY: an aligned word of a segment that the loader has written to. If it is no
            // longer writable, the calls stay as they are.
            unsafe { slots.write(relocation.slot, target) };
        }
    });
    0
}

/// Returns the address that the loader would find for a function that has not been called yet; 0
/// for none.
fn next(symbol: &[u8]) -> usize {
    let mut name = [0u8; 64];
    let Some(place) = name.get_mut(..symbol.len()).filter(|_| symbol.len() < 64) else { return 0 };
    place.copy_from_slice(symbol);
    // SAFETY: a NUL-terminated text. The result is used after the call, so that the call is not a
    // tail call: the loader examines its return address.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr().cast()) };
    core::hint::black_box(found) as usize
}
