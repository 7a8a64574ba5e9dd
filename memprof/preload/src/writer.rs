//! The live file: the only place that writes it.

#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::fmt::Write as _;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use memprof_trace::Text as Field;
use memprof_trace::layout::{
    self, Geometry, HEADER_SIZE, Identity, NONE, PhaseRow, SlotHead, StateRow,
};
use memprof_trace::write::Writer;

use crate::component::LIMIT;
use crate::identity::{Place, Process};
use crate::kernel::{self, Errno, File};
use crate::lock::SpinLock;
use crate::note::{self, Code};
use crate::options::{Options, PATH, Text};
use crate::thread::Guard;
use crate::{memory, phases, sampler};

/// Path of the file, with a zero at its end.
type Path = Text<{ PATH + 128 }>;

struct Live {
    writer: Option<Writer<'static>>,
    path: Path,
}

struct Shared(UnsafeCell<Live>);

// SAFETY: used with LOCK held only.
unsafe impl Sync for Shared {}

static LIVE: Shared = Shared(UnsafeCell::new(Live { writer: None, path: Text::empty() }));
static LOCK: SpinLock = SpinLock::new();
/// The process that may write; 0: none.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// Monotonic time at which the trace began.
static BEGAN: AtomicU64 = AtomicU64::new(0);
static MEMORY: AtomicUsize = AtomicUsize::new(0);
static SIZE: AtomicUsize = AtomicUsize::new(0);
static SEEN_MPI: AtomicBool = AtomicBool::new(false);

/// Whether this process has a file.
pub fn is_recording() -> bool {
    OWNER.load(Ordering::Acquire) != 0
}

/// Nanoseconds since the trace began.
pub fn now() -> u64 {
    kernel::monotonic().saturating_sub(BEGAN.load(Ordering::Relaxed))
}

/// Writes, if this process has a file.
pub fn with<R>(work: impl FnOnce(&mut Writer<'static>, u64) -> R) -> Option<R> {
    live(|live| live.writer.as_mut().map(|writer| work(writer, now())))?
}

/// The number is asked for each time: a child made behind the library's back has its parent's memory.
fn is_owner() -> bool {
    let owner = OWNER.load(Ordering::Acquire);
    owner != 0 && owner == kernel::process()
}

fn live<R>(work: impl FnOnce(&mut Live) -> R) -> Option<R> {
    if !is_owner() {
        return None;
    }
    let _guard = Guard::enter();
    LOCK.lock();
    // SAFETY: the lock is held.
    let result = work(unsafe { &mut *LIVE.0.get() });
    LOCK.unlock();
    Some(result)
}

/// Makes the file. False, with a note, where that cannot be.
pub fn open(options: &Options, place: &Place, job: &[u8], process: &Process) -> bool {
    let _guard = Guard::enter();
    if is_recording() {
        return true;
    }
    let size = options.file_size as usize / 4096 * 4096;
    let Some(geometry) = Geometry::for_file(size) else { return false };
    let (file, path, image) = match create(options, process) {
        Ok(made) => made,
        Err(Errno(error)) => {
            note::say(
                Code::NoDirectory,
                format_args!("no file can be made in the folder for traces (error {error})"),
            );
            return false;
        }
    };
    let address = match allocate(file, size) {
        Ok(address) => address,
        Err(Errno(error)) => {
            kernel::close(file);
            let _ = kernel::unlink(c_path(&path));
            note::say(
                Code::NoFile,
                format_args!(
                    "no room for a trace of {size} bytes (error {error}); nothing is recorded"
                ),
            );
            return false;
        }
    };
    kernel::close(file);
    memory::adopt(address, size);
    let began = kernel::monotonic();
    let identity = Identity {
        rank: place.rank,
        size: place.size,
        local_rank: place.local_rank,
        pid: process.pid,
        parent_pid: kernel::parent(),
        image,
        start_ticks: process.start_ticks,
        realtime_ns: kernel::realtime(),
        monotonic_ns: began,
        page_size: kernel::page() as u32,
        boot_id: process.boot,
        host: Field::bytes(process.host.as_bytes()),
        job: Field::bytes(job),
        program: Field::path(process.program.as_bytes()),
        ..Identity::default()
    };
    // SAFETY: mapped just now, zero, of that size, and stays.
    let bytes = unsafe { core::slice::from_raw_parts_mut(address as *mut u8, size) };
    let Ok(writer) = Writer::create(bytes, &identity, &geometry) else { return false };
    BEGAN.store(began, Ordering::Relaxed);
    MEMORY.store(address, Ordering::Relaxed);
    SIZE.store(size, Ordering::Relaxed);
    LOCK.lock();
    // SAFETY: the lock is held.
    let live = unsafe { &mut *LIVE.0.get() };
    live.writer = Some(writer);
    live.path = path;
    LOCK.unlock();
    OWNER.store(process.pid, Ordering::Release);
    true
}

fn c_path(path: &Path) -> &CStr {
    CStr::from_bytes_until_nul(path.as_bytes()).unwrap_or(c"")
}

/// A new file of this process image: `HOST.PID.START.memprof`, with `-2` and so on for later images.
fn create(options: &Options, process: &Process) -> Result<(File, Path, u32), Errno> {
    for image in 0..100 {
        let mut path = Path::empty();
        path.push(options.directory.as_bytes());
        path.push(b"/");
        for &byte in process.host.as_bytes() {
            path.push(if byte == b'/' { b"_" } else { core::slice::from_ref(&byte) });
        }
        let _ = write!(path, ".{}.{}", process.pid, process.start_ticks);
        if image > 0 {
            let _ = write!(path, "-{}", image + 1);
        }
        path.push(b".memprof\0");
        let flags =
            libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        match kernel::open_with(c_path(&path), flags, 0o600) {
            Ok(file) => return Ok((file, path, image)),
            Err(Errno(libc::EEXIST)) => {
                // This process ran another program before. One that was no rank, a shell that
                // started the program, leaves nothing.
                if was_no_rank(&path)
                    && kernel::unlink(c_path(&path)).is_ok()
                    && let Ok(file) = kernel::open_with(c_path(&path), flags, 0o600)
                {
                    return Ok((file, path, image));
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(Errno(libc::EEXIST))
}

/// Whether the file is a trace whose process never called MPI.
fn was_no_rank(path: &Path) -> bool {
    let Ok(file) = kernel::open(c_path(path)) else { return false };
    let mut header = [0; HEADER_SIZE];
    let whole = kernel::read_all(file, &mut header) == Ok(HEADER_SIZE);
    let flags = if whole { state_flags(&header, file) } else { None };
    kernel::close(file);
    flags.is_some_and(|flags| flags & layout::flags::MPI_SEEN == 0)
}

/// The flags in the newer of the slots of the state.
fn state_flags(header: &[u8; HEADER_SIZE], file: File) -> Option<u64> {
    if header[..8] != layout::MAGIC {
        return None;
    }
    let kind = layout::SectionKind::State as u32;
    let section = (0..layout::SECTIONS_LIMIT)
        .filter_map(|index| {
            let at = layout::SECTION_TABLE + index * layout::SectionEntry::SIZE;
            layout::SectionEntry::from_bytes(&header[at..at + layout::SectionEntry::SIZE])
        })
        .find(|section| section.kind == kind)?;
    let mut newest = (0, None);
    for slot in 0..section.slots.min(4) {
        let mut bytes = [0; SlotHead::SIZE + StateRow::SIZE];
        let at = section.offset + u64::from(slot) * u64::from(section.slot_size);
        kernel::read_at(file, &mut bytes, at).ok()?;
        let head = SlotHead::from_bytes(&bytes[..SlotHead::SIZE])?;
        let row = StateRow::from_bytes(&bytes[SlotHead::SIZE..])?;
        if head.sequence > newest.0 {
            newest = (head.sequence, Some(row.flags));
        }
    }
    newest.1
}

/// Room on the disk, so that no later store can fail, and the mapping.
fn allocate(file: File, size: usize) -> Result<usize, Errno> {
    match kernel::allocate(file, size) {
        Ok(()) => {}
        // A file system that cannot promise room: what is written has it.
        Err(Errno(libc::EOPNOTSUPP | libc::ENOSYS)) => {
            let zeroes = [0; 4096];
            for at in (0..size).step_by(zeroes.len()) {
                kernel::write_at(file, &zeroes, at as u64)?;
            }
        }
        Err(error) => return Err(error),
    }
    kernel::map_at(0, size, libc::MAP_SHARED, file.0)
}

/// Bits of [`layout::flags`] to set and to clear.
pub fn flags(set: u64, clear: u64) {
    if set & layout::flags::MPI_SEEN != 0 {
        SEEN_MPI.store(true, Ordering::Relaxed);
    }
    with(|writer, _| writer.set_flags(set, clear));
}

/// There is a new phase. Its row is written by [`phases`].
pub fn phase(index: u16, _name: &str, _kind: u8, parent: u16) {
    sampler::phase_known(index, parent);
}

/// A phase begins or ends now.
pub fn phase_edge(index: u16, begins: bool) {
    sampler::phase_edge(index, begins);
    with(|writer, time| writer.phase_edge(time, u32::from(index), begins));
}

/// Writes the rows of all phases. Not from where phases change.
pub fn phases() {
    if !is_recording() {
        return;
    }
    let began = BEGAN.load(Ordering::Relaxed);
    phases::each(|index, phase| {
        let row = PhaseRow {
            name: Field::new(phase.name()),
            kind: phase.kind as u32,
            parent: if phase.parent == u16::MAX { NONE } else { u32::from(phase.parent) },
            entries: phase.entries,
            total_ns: phase.total,
            first_time: phase.first.saturating_sub(began),
            last_time: phase.last.saturating_sub(began),
            open: phase.open,
            ..PhaseRow::default()
        };
        with(|writer, _| writer.set_phase(u32::from(index), &row));
    });
}

/// The most that was owned while a phase was open; what was resident then is added.
pub fn phase_peaks(index: u16, owned: &[u64; LIMIT]) {
    sampler::phase_peaks(index, &mut |resident| {
        with(|writer, _| writer.set_phase_peaks(u32::from(index), owned, resident));
    });
}

/// The process ends by itself. `keep` is false for one that turned out to be no rank.
pub fn finish(keep: bool) {
    let _ = live(|live| {
        let Some(writer) = &mut live.writer else { return };
        writer.close(now());
        if !keep {
            let _ = kernel::unlink(c_path(&live.path));
        }
    });
}

/// Whether MPI was ever begun.
pub fn has_seen_mpi() -> bool {
    SEEN_MPI.load(Ordering::Relaxed)
}

/// In the child of a fork, where no other thread is: the file is the parent's alone.
pub fn detach() {
    if OWNER.swap(0, Ordering::AcqRel) == 0 {
        return;
    }
    let (address, size) = (MEMORY.load(Ordering::Relaxed), SIZE.load(Ordering::Relaxed));
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let _ = kernel::map_at(address, size, flags, -1);
    SEEN_MPI.store(false, Ordering::Relaxed);
    // SAFETY: the only thread of the process.
    unsafe { (*LIVE.0.get()).writer = None };
}

/// For [`crate::fork`].
pub fn lock() -> &'static SpinLock {
    &LOCK
}
