//! Writer of the live file, which no other module writes.

#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use memprof_trace::Text as Field;
use memprof_trace::layout::{self, Geometry, Identity, NONE, PhaseRow, SectionKind};
use memprof_trace::write::Writer;

use crate::base::component::LIMIT;
use crate::base::diagnostics::{self, Code};
use crate::base::kernel::{self, Errno, File};
use crate::base::lock::SpinLock;
use crate::base::memory;
use crate::base::options::Options;
use crate::base::pagemap::{Run, Scanner};
use crate::base::thread::Guard;
use crate::ledger::{gpu, handles};
use crate::recording::file::{self, New, Path, Way};
use crate::recording::identity::{Place, Process};
use crate::recording::{limit, mpi_time, phases};

struct Live {
    writer: Option<Writer<'static>>,
    /// Number of this program in the process.
    image: u32,
    /// Path of the file, once there is one.
    path: Option<Path>,
}

struct Shared(UnsafeCell<Live>);

// SAFETY: accessed only while LOCK is held.
unsafe impl Sync for Shared {}

static LIVE: Shared = Shared(UnsafeCell::new(Live { writer: None, image: 0, path: None }));
static LOCK: SpinLock = SpinLock::new();
/// Number of the process that may write; 0 for none.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// Monotonic time at which the trace began.
static BEGAN: AtomicU64 = AtomicU64::new(0);
static MEMORY: AtomicUsize = AtomicUsize::new(0);
static SIZE: AtomicUsize = AtomicUsize::new(0);
static SEEN_MPI: AtomicBool = AtomicBool::new(false);

/// Returns true if this process writes a trace. The process number is queried on each call: a child
/// made without the tool's knowledge has its parent's memory, and must not wait for locks of
/// threads that it does not have.
pub fn is_recording() -> bool {
    let owner = OWNER.load(Ordering::Acquire);
    owner != 0 && owner == kernel::process()
}

/// Returns the start time of this process's trace, which is unique among its traces; 0 where it
/// writes none.
pub fn began() -> u64 {
    if is_recording() { BEGAN.load(Ordering::Relaxed).max(1) } else { 0 }
}

/// Returns true if a trace was begun by this process, or by one whose memory it has copied.
pub fn has_begun() -> bool {
    OWNER.load(Ordering::Acquire) != 0
}

/// Returns the nanoseconds since the trace began.
pub fn now() -> u64 {
    since(kernel::monotonic())
}

/// Returns the nanoseconds from the begin of the trace to a time of the monotonic clock.
pub fn since(monotonic: u64) -> u64 {
    monotonic.saturating_sub(BEGAN.load(Ordering::Relaxed))
}

/// Runs `work` with the writer, if this process has a trace.
pub fn with<R>(work: impl FnOnce(&mut Writer<'static>, u64) -> R) -> Option<R> {
    live(|live| live.writer.as_mut().map(|writer| work(writer, now())))?
}

fn live<R>(work: impl FnOnce(&mut Live) -> R) -> Option<R> {
    if !is_recording() {
        return None;
    }
    let _guard = Guard::enter();
    LOCK.lock();
    // SAFETY: the lock is held.
    let result = work(unsafe { &mut *LIVE.0.get() });
    LOCK.unlock();
    Some(result)
}

/// Begins a trace in the tool's memory. [`keep`] puts it into a file; the trace of a process that
/// turns out not to be a rank, such as a shell that a rank starts, is never put into one.
pub fn begin(options: &Options, place: &Place, job: &[u8], process: &Process) -> bool {
    let _guard = Guard::enter();
    let size = options.file_size as usize / 4096 * 4096;
    let Some(geometry) = geometry(size) else { return false };
    let Ok(address) = kernel::map_anonymous(size) else {
        diagnostics::say(Code::NoFile, format_args!("no memory for a trace; nothing is recorded"));
        return false;
    };
    memory::adopt(address, size);
    let began = kernel::monotonic();
    let identity = Identity {
        rank: place.rank,
        size: place.size,
        local_rank: place.local_rank,
        pid: process.pid,
        parent_pid: kernel::parent(),
        image: file::image(options.directory.as_bytes(), process),
        start_ticks: process.start_ticks,
        realtime_ns: kernel::realtime(),
        monotonic_ns: began,
        page_size: kernel::page() as u32,
        boot_id: process.boot,
        host: Field::bytes(process.host.as_bytes()),
        job: Field::bytes(job),
        program: Field::path(process.program.as_bytes()),
        node_memory: limit::node_memory(),
        memory_limit: limit::memory_limit().unwrap_or(0),
        ..Identity::default()
    };
    // SAFETY: just mapped, zeroed, of that size, and never unmapped.
    let bytes = unsafe { core::slice::from_raw_parts_mut(address as *mut u8, size) };
    let Ok(writer) = Writer::create(bytes, &identity, &geometry) else { return false };
    BEGAN.store(began, Ordering::Relaxed);
    MEMORY.store(address, Ordering::Relaxed);
    SIZE.store(size, Ordering::Relaxed);
    LOCK.lock();
    // SAFETY: the lock is held.
    let live = unsafe { &mut *LIVE.0.get() };
    *live = Live { writer: Some(writer), image: identity.image, path: None };
    LOCK.unlock();
    OWNER.store(process.pid, Ordering::Release);
    true
}

/// Returns the table sizes for a file of this size.
fn geometry(size: usize) -> Option<Geometry> {
    let times = if mpi_time::is_on() { mpi_time::ROWS } else { 0 };
    let loops = if mpi_time::loops::is_on() { mpi_time::loops::SITES as u32 } else { 0 };
    let geometry = Geometry::for_file(size)?;
    let handles = gpu::ROWS as u32 + (geometry.sites / 2).min(handles::SITES as u32);
    Some(Geometry { times, loops, handles, ..geometry })
}

/// Moves a trace that was begun in memory to a file. Reports it where this is not possible; then
/// nothing more is recorded.
pub fn keep(options: &Options, place: &Place, process: &Process) -> bool {
    let folder = options.directory.as_bytes();
    // The file system may take time, so no lock is held.
    let Some((image, false)) = live(|live| (live.image, live.path.is_some())) else {
        return is_recording();
    };
    let mut moved = prepare(folder, process, image, Way::Unnamed).and_then(become_file);
    if moved.is_err_and(file::needs_a_name) {
        moved = prepare(folder, process, image, Way::Renamed).and_then(become_file);
    }
    let Err(error) = moved else { return true };
    let why = file::why(error);
    if matches!(error.0, libc::ENOSPC | libc::EDQUOT | libc::EFBIG) {
        let size = SIZE.load(Ordering::Relaxed);
        diagnostics::say(
            Code::NoFile,
            format_args!("no room for a trace of {size} bytes, {why}: nothing is recorded"),
        );
    } else {
        diagnostics::say(
            Code::NoDirectory,
            format_args!(
                "no trace in the folder MEMPROF_DIR, {why} (error {}): nothing is recorded",
                error.0
            ),
        );
    }
    file::leave_word(folder, process, place.rank, error);
    give_up();
    false
}

/// Creates a new file with room for the trace.
fn prepare(folder: &[u8], process: &Process, image: u32, way: Way) -> Result<New, Errno> {
    let new = file::create(folder, process, image, way)?;
    match file::allocate(new.file, SIZE.load(Ordering::Relaxed)) {
        Ok(()) => Ok(new),
        Err(error) => {
            new.discard();
            Err(error)
        }
    }
}

/// Continues the trace in the file, which gets its name once it is complete: a process that finds
/// it by name can read it.
fn become_file(new: New) -> Result<(), Errno> {
    let moved = live(|live| {
        into(new.file)?;
        live.path = Some(new.path);
        Ok(())
    });
    // The file system may take time, so no lock is held.
    let named = moved.unwrap_or(Err(Errno(libc::ECANCELED))).and_then(|()| new.publish());
    if let Err(error) = named {
        let _ = live(|live| live.path = None);
        new.discard();
        return Err(error);
    }
    // Mapped by its name, which lists of mappings then show for as long as it is mapped.
    let flags = libc::O_RDWR | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    if let Ok(named) = kernel::open_with(file::c_path(&new.path), flags, 0) {
        if kernel::identity(named) == kernel::identity(new.file) {
            let _ = live(|_| map(named));
        }
        kernel::close(named);
    }
    kernel::close(new.file);
    Ok(())
}

/// Replaces the memory by the file, with everything written there. The lock is held.
fn into(file: File) -> Result<(), Errno> {
    let (address, size) = (MEMORY.load(Ordering::Relaxed), SIZE.load(Ordering::Relaxed));
    // SAFETY: memory of the tool, which is not written while the lock is held.
    let bytes = unsafe { core::slice::from_raw_parts(address as *const u8, size) };
    // The first page is written last: without it, the file is not a trace.
    let (first, rest) = bytes.split_at(4096.min(size));
    // Where rows will be written first, the file gets its pages now, many at once: a page that is
    // first touched through the mapping costs tens of microseconds on some file systems.
    let mut done = first.len();
    let placement = geometry(size).and_then(|geometry| geometry.place(size));
    let sections = placement.iter().flat_map(|placement| {
        SectionKind::ALL.map(|kind| (placement.section(kind), beginning(kind)))
    });
    for (section, beginning) in sections {
        let end =
            (section.offset + section.length().min(beginning)).next_multiple_of(4096).min(size);
        let start = done.max(section.offset / 4096 * 4096);
        if start < end {
            kernel::write_zeroes_at(file, end - start, start as u64)?;
            done = end;
        }
    }
    each_written(address + first.len(), address + size, &mut |start, end| {
        let mut pages = rest[start..end].chunks(4096).zip((first.len() + start..).step_by(4096));
        pages.try_for_each(|(page, at)| match page.iter().any(|byte| *byte != 0) {
            true => kernel::write_at(file, page, at as u64),
            false => Ok(()),
        })
    })?;
    kernel::write_at(file, first, 0)?;
    map(file)
}

/// Maps the file in place of the memory.
fn map(file: File) -> Result<(), Errno> {
    let (address, size) = (MEMORY.load(Ordering::Relaxed), SIZE.load(Ordering::Relaxed));
    kernel::map_at(address, size, libc::MAP_SHARED | libc::MAP_FIXED, file.0)?;
    // Otherwise the first touched page makes the kernel fill everything that it would read ahead,
    // which takes a millisecond.
    kernel::advise_random(address, size);
    Ok(())
}

/// Returns the bytes that a rank writes of a section in its first half second: a few rows, for
/// most.
fn beginning(kind: SectionKind) -> usize {
    match kind {
        SectionKind::Segments => 80 << 10,
        SectionKind::Timeline => 160 << 10,
        _ => 16 << 10,
    }
}

/// Calls `each` with the parts that were ever written, as offsets from `start`: to read the others
/// would take longer than the rest of the startup.
fn each_written(
    start: usize,
    end: usize,
    each: &mut dyn FnMut(usize, usize) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let Ok(mut scanner) = Scanner::open() else { return each(0, end - start) };
    let mut runs = [Run::EMPTY; 32];
    let mut at = start;
    let mut result = Ok(());
    while at < end && result.is_ok() {
        let Ok((count, to)) = scanner.next(at, end, false, &mut runs) else {
            result = each(at - start, end - start);
            break;
        };
        let mut parts = runs[..count].iter();
        result =
            parts.try_for_each(|run| each(run.start as usize - start, run.end as usize - start));
        at = to;
    }
    scanner.close();
    result
}

/// Flushes the written bytes to the disk. May take as long as the disk does; no lock is held.
pub fn flush() {
    if is_recording() {
        kernel::flush(MEMORY.load(Ordering::Relaxed), SIZE.load(Ordering::Relaxed));
    }
}

/// Sets and clears bits of [`layout::flags`].
pub fn flags(set: u64, clear: u64) {
    if set & layout::flags::MPI_SEEN != 0 {
        SEEN_MPI.store(true, Ordering::Relaxed);
    }
    with(|writer, _| writer.set_flags(set, clear));
}

/// Reports a new phase. [`phases()`] writes its row.
pub fn phase(index: u16, kind: phases::Kind, parent: u16) {
    if let Some(sampling) = phases::sampling() {
        (sampling.known)(index, parent, kind == phases::Kind::Automatic);
    }
}

/// Records the begin or end of a phase now.
pub fn phase_edge(index: u16, begins: bool) {
    if let Some(sampling) = phases::sampling() {
        (sampling.edge)(index, begins);
    }
    with(|writer, time| writer.phase_edge(time, u32::from(index), begins));
}

/// Writes the rows of all phases, and the peaks of open ones. Not called where phases change.
pub fn phases() {
    if !is_recording() {
        return;
    }
    let began = BEGAN.load(Ordering::Relaxed);
    phases::write_peaks();
    let now = kernel::monotonic();
    phases::each(|index, phase| {
        let total = phases::sampling().map_or(0, |sampling| (sampling.total)(index));
        let kib = total >> 10;
        let row = PhaseRow {
            name: Field::new(phase.name()),
            kind: phase.kind as u32,
            parent: if phase.parent == u16::MAX { NONE } else { u32::from(phase.parent) },
            entries: phase.entries,
            total_ns: phase.total_at(now),
            first_time: phase.first.saturating_sub(began),
            last_time: phase.last.saturating_sub(began),
            open: phase.open,
            resident_kib: u32::try_from(kib).unwrap_or(u32::MAX),
            ..PhaseRow::default()
        };
        with(|writer, time| writer.set_phase(time, u32::from(index), &row));
    });
    times();
}

/// Writes the times of all regions until now, if they are measured.
fn times() {
    if mpi_time::is_on() {
        let scale = mpi_time::scale();
        phases::each_time(|index, times| {
            with(|writer, now| writer.set_time(u32::from(index), &times.row(now, scale)));
        });
    }
}

/// Writes the highest owned bytes in a phase, and its highest resident ones, if one of them has
/// increased since it was written: `rose` is true if owned bytes have.
pub fn phase_peaks(index: u16, is_open: bool, rose: bool, owned: &[u64; LIMIT]) {
    let Some(sampling) = phases::sampling() else { return };
    (sampling.peaks)(index, is_open, rose, &mut |resident| {
        with(|writer, _| writer.set_phase_peaks(u32::from(index), owned, resident));
    });
}

/// Closes the trace when the process ends normally. `keep` is false for a process that turned out
/// not to be a rank.
pub fn finish(keep: bool) {
    let _ = live(|live| {
        let Some(writer) = &mut live.writer else { return };
        writer.close(now());
        if let Some(path) = &live.path
            && !keep
        {
            let _ = kernel::unlink(file::c_path(path));
        }
    });
}

/// Returns true if the trace of this process is in a file.
pub fn is_kept() -> bool {
    live(|live| live.path.is_some()).unwrap_or(false)
}

/// Returns true if MPI was ever begun.
pub fn has_seen_mpi() -> bool {
    SEEN_MPI.load(Ordering::Relaxed)
}

/// Detaches from the file, in the child of a fork, which has no other thread: the file is the
/// parent's alone.
pub fn detach() {
    if OWNER.swap(0, Ordering::AcqRel) == 0 {
        return;
    }
    forget_memory();
    SEEN_MPI.store(false, Ordering::Relaxed);
    // SAFETY: the only thread of the process.
    unsafe { *LIVE.0.get() = Live { writer: None, image: 0, path: None } };
}

/// Gives up if no trace is possible. A thread that still writes does so into memory that is not
/// read.
fn give_up() {
    let _ = live(|live| live.writer = None);
    OWNER.store(0, Ordering::Release);
    forget_memory();
}

fn forget_memory() {
    let (address, size) = (MEMORY.load(Ordering::Relaxed), SIZE.load(Ordering::Relaxed));
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let _ = kernel::map_at(address, size, flags, -1);
}

/// Returns the lock, for [`crate::lifecycle::fork`].
pub fn lock() -> &'static SpinLock {
    &LOCK
}
