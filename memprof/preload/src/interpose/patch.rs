//! Sends the calls of loaded objects through the tool, by the addresses in their global offset
//! tables. No symbol is defined and no code is written.
//!
//! Patching happens at moments when no lock of the loader is needed: at start, after `dlopen` and
//! in `dlsym`. An object that another thread is still loading has link-time addresses in its table;
//! it is patched the next time.

#![allow(unsafe_code)]

use core::ffi::{c_char, c_void};
use core::sync::atomic::{AtomicU32, Ordering};

use memprof_boundary::elf::Relocation;
use memprof_boundary::elf::relocation::{ADDRESS, GLOBAL_DATA, JUMP_SLOT};
use memprof_boundary::slots::{SlotWriter, word};
use memprof_boundary::{functions, thunks};

use super::runtimes::{gpu, openmp};
use super::{hooked, mpi_calls, mpi_handles};
use crate::base::dictionary::Class;
use crate::base::thread::Guard;
use crate::base::{diagnostics, kernel};
use crate::owners::refresh_lock::Turn;
use crate::owners::{self, Known};

/// For each object of the list, the number of the walk that found it when it was patched.
static DONE: [AtomicU32; 1024] = [const { AtomicU32::new(0) }; 1024];

static TURN: Turn = Turn::new();

/// Patches new objects. On return they are patched, by whichever thread. If `opened` is a handle,
/// its object stays loaded meanwhile.
pub fn everything(opened: *mut c_void) {
    let _guard = Guard::enter();
    TURN.walk(true, || {
        let mut index = 0;
        while let Some(since) = owners::since(index) {
            if let (Some(since), Some(done)) = (since, DONE.get(index))
                && done.load(Ordering::Relaxed) != since
                && let Some(Some(object)) = owners::at(index)
                && one(&object, opened)
            {
                done.store(object.since, Ordering::Relaxed);
            }
            index += 1;
        }
    });
}

/// Resets the lock in a child after fork, where a thread that was patching does not exist.
pub fn after_fork() {
    TURN.give();
}

/// Keeps an object loaded while it is patched.
struct Pin {
    handle: *mut c_void,
    /// True if the handle belongs to another function, which closes it.
    is_borrowed: bool,
}

/// Returns the address of a handle's object.
fn base_of(handle: *mut c_void) -> usize {
    // SAFETY: a handle is the loader's entry, whose first word is the address of the object.
    unsafe { *handle.cast::<usize>() }
}

impl Pin {
    fn new(object: &Known, opened: *mut c_void) -> Option<Pin> {
        if object.initial {
            return Some(Pin { handle: core::ptr::null_mut(), is_borrowed: true });
        }
        if !opened.is_null() && base_of(opened) == object.base {
            return Some(Pin { handle: opened, is_borrowed: true });
        }
        // SAFETY: a zero-terminated text; nothing is loaded.
        let handle = unsafe {
            libc::dlopen(object.loader_path()?.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY)
        };
        if handle.is_null() {
            // The program must not find the error of this call.
            // SAFETY: no arguments.
            unsafe { libc::dlerror() };
            return None;
        }
        let pin = Pin { handle, is_borrowed: false };
        (base_of(handle) == object.base).then_some(pin)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        if !self.is_borrowed {
            // SAFETY: the handle that this pin opened.
            unsafe { libc::dlclose(self.handle) };
        }
    }
}

/// Patches one object. Returns true when nothing is left to do for it.
fn one(object: &Known, opened: *mut c_void) -> bool {
    let Some(plan) = Plan::of(object) else {
        return true;
    };
    let Some(pin) = Pin::new(object, opened) else {
        return object.loader_path().is_none();
    };
    // SAFETY: pinned.
    let image = unsafe { object.image() };
    let size = object.high - object.low;
    // Loaders fill the slots in order: if the last one has its address, all have.
    if !object.initial
        && let Some(slot) = image.last_slot(JUMP_SLOT).filter(|slot| slot.is_multiple_of(8))
    {
        // SAFETY: within a segment of the pinned object.
        let value = unsafe { word(slot) }.load(Ordering::Acquire);
        if value != 0 && value < size && owners::is_nobodys(value) {
            return false;
        }
    }
    let mut slots = SlotWriter::new(&image, kernel::page());
    image.each_relocation(&[JUMP_SLOT, GLOBAL_DATA, ADDRESS], |relocation| {
        if relocation.addend == 0
            && let Some(symbol) = relocation.symbol(FIRSTS)
        {
            fill(object, &mut slots, &pin, plan, relocation, symbol);
        }
    });
    true
}

/// Which symbols are looked for in an object.
#[derive(Copy, Clone)]
struct Plan {
    mpi: bool,
    /// Functions that map memory.
    memory: bool,
    /// `dlsym`.
    look_ups: bool,
    /// Functions that allocate the memory of GPUs.
    gpu: bool,
}

impl Plan {
    fn of(object: &Known) -> Option<Plan> {
        let name = object.name();
        match object.class {
            Class::Tool => return None,
            Class::System if !name.starts_with("libstdc++") && !name.starts_with("libgfortran") => {
                return None;
            }
            _ => {}
        }
        let inside = object.class == Class::MpiDependency || object.defines_mpi;
        // These libraries hook the functions themselves, and have to find the originals.
        let hooker = ["libopen-pal", "libucm", "mca_patcher_", "mca_memory_"];
        Some(Plan {
            mpi: !inside,
            memory: !hooker.iter().any(|start| name.starts_with(start)),
            look_ups: !inside,
            gpu: !gpu::is_runtime(name),
        })
    }
}

/// First letters of the names of MPI functions and of the functions of [`hooked`], [`openmp`] and
/// [`gpu`].
pub const FIRSTS: &[u8] = b"GMP_bcdefhmpsu";

fn fill(
    object: &Known,
    slots: &mut SlotWriter<'_>,
    pin: &Pin,
    plan: Plan,
    relocation: Relocation<'_>,
    symbol: &[u8],
) {
    if !relocation.slot.is_multiple_of(8) {
        return;
    }
    // SAFETY: within a segment of the pinned object, aligned.
    let value = unsafe { word(relocation.slot) }.load(Ordering::Relaxed);
    // Zero is a weak symbol without a definition.
    if value == 0 {
        return;
    }
    let own = value >= object.low && value < object.high;
    let target = if symbol.starts_with(b"MPI") || symbol.starts_with(b"PMPI") {
        // The stub of a program at a fixed address stands for the function; calls go through the
        // stub.
        if !plan.mpi || (!own && owners::is_executables(value)) {
            return;
        }
        let real = if own { resolve(pin, symbol, relocation.kind) } else { Some(value) };
        real.and_then(|real| mpi_target(symbol, real))
    } else if relocation.kind == ADDRESS {
        None
    } else if gpu::is_one(symbol) {
        let real = if own { resolve(pin, symbol, relocation.kind) } else { Some(value) };
        real.filter(|_| plan.gpu).and_then(|real| gpu::target(symbol, real))
    } else if hooked::is_late(symbol) {
        let real = if own { resolve(pin, symbol, relocation.kind) } else { Some(value) };
        let real = real.filter(|_| plan.memory);
        real.and_then(|real| hooked::late_target(symbol, real))
    } else if openmp::is_region(symbol) {
        let real = if own { resolve(pin, symbol, relocation.kind) } else { Some(value) };
        real.and_then(|real| openmp::target(symbol, real))
    } else {
        hooked::target(symbol, plan.memory, plan.look_ups)
            // The slot of a function that has not been called yet points into the object's own
            // table.
            .filter(|_| is_systems(if own { hooked::first(symbol) } else { value }))
    };
    let Some(target) = target.filter(|&target| target != value) else {
        return;
    };
    // SAFETY: within a segment of the pinned object, aligned.
    let written = unsafe { slots.write(relocation.slot, target) };
    if !written && !write_as_debugger(relocation.slot, target) {
        diagnostics::say(
            diagnostics::Code::NoBoundary,
            format_args!("calls of {} cannot be redirected", object.name()),
        );
    }
}

fn is_systems(address: usize) -> bool {
    owners::component_at(address)
        .is_some_and(|component| crate::base::dictionary::class(component) == Class::System)
}

/// Returns the target of a call to the MPI function `symbol` whose definition is at `real`.
pub fn mpi_target(symbol: &[u8], real: usize) -> Option<usize> {
    if owners::component_at(real) == Some(crate::base::component::Component::TOOL) {
        return None;
    }
    if let Some(pcontrol) = mpi_calls::pcontrol(symbol, real) {
        return Some(pcontrol);
    }
    let name = functions::find(symbol)?;
    let entry = thunks::entry(name)?;
    if !thunks::set_real(name, real) {
        // Two libraries define the function; calls to the second stay unchanged.
        diagnostics::say(
            diagnostics::Code::NoBoundary,
            format_args!("a second MPI library is loaded: its calls are not seen"),
        );
        return None;
    }
    mpi_handles::wrap(name);
    Some(mpi_calls::around(name).unwrap_or(entry))
}

/// Returns the address that the loader would find for a slot that has not been called through yet.
fn resolve(pin: &Pin, symbol: &[u8], kind: u32) -> Option<usize> {
    if kind != JUMP_SLOT {
        // The function is the object's own.
        return None;
    }
    let mut name = [0u8; 64];
    name.get_mut(..symbol.len())?.copy_from_slice(symbol);
    if symbol.len() == name.len() {
        return None;
    }
    // The tool directly follows the program in the search order, so that `RTLD_NEXT` from here
    // means everything but the program's own stubs.
    let mut found = look_up(libc::RTLD_NEXT, name.as_ptr().cast());
    if found == 0 && !pin.handle.is_null() {
        found = look_up(pin.handle, name.as_ptr().cast());
    }
    (found != 0 && !owners::is_executables(found)).then_some(found)
}

/// Looks up a symbol. The result of `dlsym` is used after the call, so that the call does not
/// become a jump: the loader checks its return address.
#[inline(never)]
fn look_up(handle: *mut c_void, name: *const c_char) -> usize {
    // SAFETY: an open handle, or a special one, and a zero-terminated text.
    let found = unsafe { libc::dlsym(handle, name) } as usize;
    if found == 0 {
        // The program must not find the error of this call.
        // SAFETY: no arguments.
        unsafe { libc::dlerror() };
    }
    core::hint::black_box(found)
}

/// Writes a slot as a debugger does: where the access rights cannot be changed, the kernel may
/// still write.
fn write_as_debugger(slot: usize, value: usize) -> bool {
    let Ok(file) = kernel::open_with(c"/proc/self/mem", libc::O_RDWR | libc::O_CLOEXEC, 0) else {
        return false;
    };
    let bytes = value.to_ne_bytes();
    // SAFETY: the buffer has the stated length; the kernel checks the address.
    let written =
        unsafe { libc::pwrite(file.0, bytes.as_ptr().cast(), bytes.len(), slot as libc::off_t) };
    kernel::close(file);
    written == bytes.len() as isize
}
