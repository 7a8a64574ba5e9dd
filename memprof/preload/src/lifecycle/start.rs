//! Actions when the object is loaded, when MPI begins and ends, and when the process ends.

#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use memprof_trace::layout::flags;

use crate::base::diagnostics::{self, Code};
use crate::base::kernel::Errno;
use crate::base::lock::SpinLock;
use crate::base::options::{self, Options, Record, Text};
use crate::base::thread::{Guard, local};
use crate::base::{deferred, kernel, memory};
use crate::interpose;
use crate::ledger::{call_stacks, heap, ranges};
use crate::lifecycle::fork;
use crate::owners;
use crate::recording::identity::{self, Place, Process};
use crate::recording::{conflicts, file, limit, mpi_time, phases, writer};
use crate::sampling::{faults, sampler};

/// Facts about the process that are known once the object is loaded.
struct Settled {
    options: Options,
    place: Place,
    job: Text<64>,
}

impl Settled {
    /// Returns true if no launcher started the process, and it is recorded nevertheless if it holds
    /// much memory.
    fn is_of_command(&self) -> bool {
        matches!(self.options.record, Record::Command { .. }) && self.place.rank < 0
    }

    /// Returns true for the process that `memprof run` itself started.
    fn is_command(&self) -> bool {
        let Record::Command { of } = self.options.record else { return false };
        self.place.rank < 0 && kernel::parent() == of
    }
}

struct Shared(UnsafeCell<Settled>);

// SAFETY: written before LOADED is set, by the one thread that loads, and only read afterwards.
unsafe impl Sync for Shared {}

static SETTLED: Shared = Shared(UnsafeCell::new(Settled {
    options: Options::new(),
    place: Place { rank: -1, size: -1, local_rank: -1 },
    job: Text::empty(),
}));
static LOADED: AtomicBool = AtomicBool::new(false);
static ENDED: AtomicBool = AtomicBool::new(false);
/// True if this process is to be recorded, if possible.
static WANTED: AtomicBool = AtomicBool::new(false);
/// True if the trace of this process is in a file.
static KEPT: AtomicBool = AtomicBool::new(false);
/// Remaining task of a process made by a fork, or of one that is not recorded yet, as a [`Forked`].
static FORKED: AtomicU8 = AtomicU8::new(Forked::No as u8);
/// Owned bytes at that fork, or when the program began; and the number of the parent.
static OWNED_AT_FORK: AtomicU64 = AtomicU64::new(0);
static PARENT: AtomicU32 = AtomicU32::new(0);
/// True if no trace is possible, which has been reported.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// Task of a process made by a fork, once it does something, or of a process that is not recorded
/// yet.
#[repr(u8)]
enum Forked {
    No,
    /// Begins a separate trace.
    Records,
    /// Begins a trace once the process holds much memory.
    Grows,
    /// Reports once the process holds much memory that it is not recorded although its parent is.
    Tells,
}

/// Growth after which a process is reported or recorded: less is needed merely to start a program.
const CHILD: u64 = 1 << 20;

/// Held while a trace begins; `fork` takes it. Taken outside of all other locks.
static OPENING: SpinLock = SpinLock::new();

// The linker is given this name: nothing else in an archive refers to the module, so it would be
// left out.
#[cfg(not(test))]
#[cfg_attr(feature = "archive", unsafe(export_name = "memprof_archive_load"))]
#[used]
#[unsafe(link_section = ".init_array")]
static LOAD: extern "C" fn() = load;

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".fini_array")]
static UNLOAD: extern "C" fn() = end;

fn variable(name: &str) -> Option<&'static [u8]> {
    let mut text = [0; 64];
    text.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
    let name = CStr::from_bytes_until_nul(&text).ok()?;
    // SAFETY: the name is zero-terminated; values are copied before the program runs.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: as above.
    if value.is_null() { None } else { Some(unsafe { CStr::from_ptr(value) }.to_bytes()) }
}

fn settled() -> Option<&'static Settled> {
    // SAFETY: written before the flag.
    LOADED.load(Ordering::Acquire).then(|| unsafe { &*SETTLED.0.get() })
}

/// Returns true if this object may record the process, as far as is known before loading has
/// finished.
pub fn may_record() -> bool {
    settled().is_none() || WANTED.load(Ordering::Acquire)
}

/// Initializes the tool when the object has been loaded.
#[cfg_attr(test, allow(dead_code))]
extern "C" fn load() {
    #[cfg(all(feature = "archive", not(test), target_arch = "x86_64", target_os = "linux"))]
    if crate::interpose::archive::stands_aside() {
        return;
    }
    let _guard = Guard::enter();
    let options = options::parse(&variable, &mut |name, wanted| {
        let instead =
            if name == "MEMPROF_DIR" { "nothing is recorded" } else { "the default is used" };
        diagnostics::say(Code::BadSetting, format_args!("{name} has to be {wanted}; {instead}"));
    });
    // SAFETY: nothing reads it before the flag is set.
    let settled = unsafe { &mut *SETTLED.0.get() };
    *settled =
        Settled { options, place: identity::place(&variable), job: identity::job(&variable) };
    let is_recorded = variable("MEMPROF_DIR").is_some_and(|folder| !folder.is_empty());
    // Threads of libraries loaded earlier may already call the interface.
    WANTED.store(is_recorded, Ordering::Release);
    LOADED.store(true, Ordering::Release);
    if options.exact {
        heap::be_exact();
    }
    // A directory that cannot be used is reported once there is something to record.
    let stacks = if is_recorded { options.stacks } else { 0 };
    call_stacks::configure(stacks, settled.place.rank);
    fork::register();
    heap::look_around();
    if !is_recorded || !has_stack(settled) {
        // Nothing is recorded here; blocks keep their owners, since children inherit them.
        return;
    }
    let all = options.record == Record::All;
    let is_rank = settled.place.rank >= 0;
    if !all && !is_rank && identity::is_launcher(started_as()) {
        // Its ranks wait for the launcher, and its memory is of no interest.
        call_stacks::configure(0, -1);
        heap::disable();
        fork::stand_aside();
        return;
    }
    #[cfg(all(target_env = "gnu", not(test)))]
    await_quick_exit();
    owners::refresh();
    let standing_aside = conflicts::find_conflicts();
    if standing_aside {
        heap::disable();
    } else {
        if options.time {
            mpi_time::start();
            if options.loops > 0 {
                mpi_time::loops::start(options.loops);
            }
        }
        interpose::start(&EVENTS);
    }
    heap::on_release(&sampler::BEFORE_RELEASE);
    phases::start(&sampler::PHASES);
    found();
    // A program without MPI may load it later, as Python does, or be a shell or a tool that a rank
    // started. Its trace stays in memory until it calls MPI.
    let has_mpi = cfg!(feature = "archive") || owners::mpi().is_some();
    let wanted = all || settled.is_command();
    if wanted || has_mpi || is_rank {
        record(wanted || (has_mpi && is_rank));
        if standing_aside && has_mpi && is_rank {
            // The process is a rank although its calls are not seen.
            writer::flags(flags::MPI_SEEN | flags::NO_BOUNDARY, 0);
        }
        if wanted || has_mpi {
            sampler::start();
        }
    } else if settled.is_of_command() {
        await_growth(Forked::Grows);
    }
}

/// Bytes of stack needed to begin a trace, with a margin for the program.
const STACK: u64 = 256 << 10;

/// Returns true if the stack is large enough to begin a trace on it. Reports it otherwise.
fn has_stack(settled: &Settled) -> bool {
    let limit = kernel::stack_limit();
    if limit >= STACK {
        return true;
    }
    GIVEN_UP.store(true, Ordering::Relaxed);
    let Settled { options, place, .. } = settled;
    if options.record == Record::All || place.rank >= 0 {
        diagnostics::of_rank(place.rank);
        if !options.quiet {
            diagnostics::aloud();
        }
        diagnostics::say(
            Code::NoStack,
            format_args!("the stack may not be larger than {limit} bytes: nothing is recorded"),
        );
        let process = identity::process();
        file::leave_word(options.directory.as_bytes(), &process, place.rank, Errno(libc::ENOMEM));
    }
    false
}

/// Returns the path that was passed to the kernel to execute.
fn started_as() -> &'static [u8] {
    // SAFETY: only reads a word.
    let path = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const core::ffi::c_char;
    // SAFETY: the kernel's zero-terminated text, which stays.
    if path.is_null() { b"" } else { unsafe { CStr::from_ptr(path) }.to_bytes() }
}

/// Enters unnamed mappings as those of the loader and the C library, except for those of the tool
/// and data of objects, which may lie in the same mapping.
fn found() {
    let Some(system) = owners::component_at(libc::getpid as *const () as usize) else { return };
    let Ok(file) = kernel::open(c"/proc/self/maps") else { return };
    sampler::each_mapping(file, &mut |line| {
        if !line.path.is_empty() || line.inode != 0 || line.shared {
            return;
        }
        let mut at = line.start;
        while at < line.end {
            let others = [memory::next(at), owners::next_above(at)].into_iter().flatten();
            let other = others.filter(|other| other.0 < line.end).min();
            let (stop, next) = other.unwrap_or((line.end, line.end));
            if at < stop && stop - at <= FOUND && is_nobodys(at, stop) {
                ranges::found(at, stop - at, system);
            }
            at = next;
        }
    });
    kernel::close(file);
}

/// Upper bound of what the loader and the C library map before a program runs.
const FOUND: usize = 1 << 20;

fn is_nobodys(start: usize, end: usize) -> bool {
    let mut blocks = 0;
    heap::share(start, end, &mut |_, bytes| blocks += bytes);
    blocks == 0
        && owners::component_at(start).is_none()
        && ranges::next(start).is_none_or(|piece| piece.start >= end)
}

/// Begins the trace, if it is requested and has not begun; `keep` puts it into a file.
fn record(keep: bool) {
    let Some(settled) = settled() else { return };
    let Settled { options, place, job } = settled;
    if variable("MEMPROF_DIR").is_none_or(<[u8]>::is_empty)
        || ENDED.load(Ordering::Acquire)
        || kernel::stack_limit() < STACK
    {
        return;
    }
    if keep && writer::is_kept() {
        return;
    }
    let _guard = Guard::enter();
    OPENING.lock();
    let process = identity::process();
    let begins = !writer::has_begun()
        && !GIVEN_UP.load(Ordering::Relaxed)
        && writer::begin(options, place, job.as_bytes(), &process);
    if keep && writer::is_recording() {
        diagnostics::of_rank(place.rank);
        if !options.quiet {
            diagnostics::aloud();
        }
        limit::record_limit();
        let kept = writer::keep(options, place, &process);
        GIVEN_UP.store(!kept, Ordering::Relaxed);
        KEPT.store(kept, Ordering::Release);
    }
    OPENING.unlock();
    if begins && writer::is_recording() {
        let bit = |set: bool, flag: u64| if set { flag } else { 0 };
        writer::flags(
            bit(options.exact, flags::EXACT_PEAKS)
                | bit(options.stacks > 0, flags::STACKS)
                | bit(options.record == Record::All, flags::ALL_PROCESSES)
                | conflicts::flags(),
            0,
        );
        sampler::prepare_sampler(options, conflicts::allocator());
        if options.faults {
            faults::start();
        }
        writer::phases();
    }
}

/// Returns the lock, for [`crate::lifecycle::fork`].
pub fn lock() -> &'static SpinLock {
    &OPENING
}

/// Handles a fork in the child, which continues without a file, or gets its own as soon as it does
/// something. `was_kept` is true if its parent has a file, or has yet to report itself.
pub fn forked(was_kept: bool) {
    GIVEN_UP.store(false, Ordering::Relaxed);
    has_forked();
    let all = settled().is_some_and(|settled| settled.options.record == Record::All);
    let of_command =
        WANTED.load(Ordering::Acquire) && settled().is_some_and(Settled::is_of_command);
    await_growth(match (all, of_command, was_kept) {
        (true, ..) => Forked::Records,
        (_, true, _) => Forked::Grows,
        (.., true) => Forked::Tells,
        (.., false) => Forked::No,
    });
}

/// Handles a fork that left pages shared by this process and others. Where these are recorded, such
/// pages are counted by shares.
pub fn has_forked() {
    let Some(settled) = settled() else { return };
    let all = settled.options.record == Record::All;
    if all || settled.is_of_command() {
        sampler::has_forked(all);
    }
}

/// Has [`after_fork`] carry out a task.
fn await_growth(duty: Forked) {
    if !matches!(duty, Forked::No) {
        // Makes a small growth sufficient for the deferred work to run.
        heap::begin_own_anew();
        OWNED_AT_FORK.store(heap::all().0, Ordering::Relaxed);
        PARENT.store(kernel::parent(), Ordering::Relaxed);
    }
    let waits = !matches!(duty, Forked::No);
    FORKED.store(duty as u8, Ordering::Release);
    if waits {
        const WORK: fn() = after_fork;
        deferred::defer(&WORK);
    }
}

/// Resets the state in a child that begins. Its parent, itself a child, may not have reached
/// [`after_fork`], which would open a trace here, under the locks of the fork. Returns the argument
/// for [`forked`].
pub fn forget_fork() -> bool {
    let duty = FORKED.swap(Forked::No as u8, Ordering::AcqRel);
    deferred::cancel();
    KEPT.swap(false, Ordering::AcqRel) || duty == Forked::Tells as u8
}

/// Carries out the deferred task of a child. It opens its file here, since the handler of a fork
/// may do little.
#[cold]
fn after_fork() {
    let duty = FORKED.load(Ordering::Relaxed);
    let grown = heap::all().0.saturating_sub(OWNED_AT_FORK.load(Ordering::Relaxed));
    if duty != Forked::Records as u8 && grown < CHILD
        || FORKED
            .compare_exchange(duty, Forked::No as u8, Ordering::AcqRel, Ordering::Relaxed)
            .is_err()
    {
        return;
    }
    deferred::cancel();
    if duty != Forked::Tells as u8 {
        record(true);
        sampler::start();
    } else if let Some(Settled { options, place, .. }) = settled() {
        let _guard = Guard::enter();
        let parent = PARENT.load(Ordering::Relaxed);
        let parent = Process { pid: parent, start_ticks: 0, ..identity::process() };
        file::tell_of_children(options.directory.as_bytes(), &parent, place.rank);
    }
}

static EVENTS: interpose::Events = interpose::Events {
    begins: mpi_begins,
    is_ready: mpi_ready,
    ends: mpi_ends,
    has_ended: mpi_ended,
    leaves,
    is_replaced,
};

/// Handles the first call of `MPI_Init` or an equivalent.
fn mpi_begins() {
    record(true);
    writer::flags(flags::MPI_SEEN, 0);
    sampler::start();
}

/// Handles the return of that call.
fn mpi_ready() {
    writer::flags(flags::INITIALIZED, flags::FINALIZED);
    conflicts::look_at_hooks();
}

/// Handles the begin of `MPI_Finalize`.
fn mpi_ends() {
    sampler::ending();
}

/// Handles the return of `MPI_Finalize`.
fn mpi_ended() {
    writer::flags(flags::FINALIZED, 0);
}

/// Handles `_exit`, which children of forks call. The trace stays open, since it is not known which
/// locks were held.
fn leaves() {
    // A signal handler may have interrupted the tool in a guarded section.
    if local().guard.get() > 0 || ENDED.load(Ordering::Acquire) {
        return;
    }
    deferred::run();
    let _guard = Guard::enter();
    sampler::leaving();
    writer::phases();
}

/// Handles the replacement of this program by another. It keeps its trace if it held much memory.
fn is_replaced() {
    if local().guard.get() > 0 || ENDED.load(Ordering::Acquire) {
        return;
    }
    leaves();
    // A program that was replaced in a rank, such as a shell, leaves no trace.
    let keeps = settled()
        .is_some_and(|settled| settled.options.record == Record::All || settled.is_of_command());
    if keeps && heap::all().1 >= CHILD {
        writer::flags(flags::REPLACED, 0);
    }
}

/// Makes `quick_exit` end the trace too, since it calls none of the functions that `exit` does.
#[cfg(all(target_env = "gnu", not(test)))]
fn await_quick_exit() {
    use core::ffi::{c_int, c_void};

    unsafe extern "C" {
        fn __cxa_at_quick_exit(handler: extern "C" fn(*mut c_void), object: *mut c_void) -> c_int;
    }
    extern "C" fn ended(_: *mut c_void) {
        end();
    }
    // SAFETY: a function of this object, which stays loaded. Where there is no room for it, the
    // trace looks like that of a killed process. It is registered before all functions of the
    // program, and so is called after them.
    unsafe { __cxa_at_quick_exit(ended, core::ptr::null_mut()) };
}

/// Handles the normal end of the process.
#[cfg_attr(test, allow(dead_code))]
extern "C" fn end() {
    // A signal handler that interrupted the tool in this thread ends the process: locks of the tool
    // may be held and are never released. The trace then looks like that of a killed process.
    if ENDED.load(Ordering::Acquire) || local().guard.get() > 0 {
        return;
    }
    // The memory may have been allocated all at once, with no deferred work run since.
    deferred::run();
    if ENDED.swap(true, Ordering::AcqRel) {
        return;
    }
    let _guard = Guard::enter();
    let Some(settled) = settled() else { return };
    sampler::last();
    // Includes the findings of the last sample.
    writer::phases();
    // A shell that started the program has the variables of a rank, but is none.
    let keep =
        writer::has_seen_mpi() || settled.options.record == Record::All || settled.is_of_command();
    writer::finish(keep);
    if keep && settled.options.flush > 0 {
        writer::flush();
    }
}
