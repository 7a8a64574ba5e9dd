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

/// Facts of the process once it is loaded.
struct Settled {
    options: Options,
    place: Place,
    job: Text<64>,
}

impl Settled {
    /// Returns true if no launcher has started the process, and it is to be recorded all the same if it holds much.
    fn is_of_command(&self) -> bool {
        matches!(self.options.record, Record::Command { .. }) && self.place.rank < 0
    }

    /// Returns true for the process that `memprof run` itself has started.
    fn is_command(&self) -> bool {
        let Record::Command { of } = self.options.record else { return false };
        self.place.rank < 0 && kernel::parent() == of
    }
}

struct Shared(UnsafeCell<Settled>);

// SAFETY: written before LOADED is set, by the one thread that loads, and only read after.
unsafe impl Sync for Shared {}

static SETTLED: Shared = Shared(UnsafeCell::new(Settled {
    options: Options::new(),
    place: Place { rank: -1, size: -1, local_rank: -1 },
    job: Text::empty(),
}));
static LOADED: AtomicBool = AtomicBool::new(false);
static ENDED: AtomicBool = AtomicBool::new(false);
/// Set if this process is to be recorded as far as it can be.
static WANTED: AtomicBool = AtomicBool::new(false);
/// The trace of this process is in a file.
static KEPT: AtomicBool = AtomicBool::new(false);
/// What is left to do in a process that a fork made, or that is not recorded yet, as a [`Forked`].
static FORKED: AtomicU8 = AtomicU8::new(Forked::No as u8);
/// What all owned at that fork, or when the program began, and who the parent is.
static OWNED_AT_FORK: AtomicU64 = AtomicU64::new(0);
static PARENT: AtomicU32 = AtomicU32::new(0);
/// There can be no trace, which has been said.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// The duty of a process that a fork made, as soon as it does something; and of one that is not recorded yet.
#[repr(u8)]
enum Forked {
    No,
    /// It begins a trace of its own.
    Records,
    /// It begins a trace once it holds much memory.
    Grows,
    /// Its parent is recorded, and it is not: it says so once it holds much memory.
    Tells,
}

/// What a process owns more than at its start before it is told of or recorded: less is what it takes to start a program.
const CHILD: u64 = 1 << 20;

/// Held while a trace begins; `fork` takes it. Outside of all others.
static OPENING: SpinLock = SpinLock::new();

// The linker is told this name: nothing in an archive refers to the module otherwise, and it would be left out.
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
    // SAFETY: a name with a zero at its end; values are copied before the program runs.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: as above.
    if value.is_null() { None } else { Some(unsafe { CStr::from_ptr(value) }.to_bytes()) }
}

fn settled() -> Option<&'static Settled> {
    // SAFETY: written before the flag.
    LOADED.load(Ordering::Acquire).then(|| unsafe { &*SETTLED.0.get() })
}

/// Returns true if this process may be recorded by this object, as far as is known: the loader may not be done with it.
pub fn may_record() -> bool {
    settled().is_none() || WANTED.load(Ordering::Acquire)
}

/// The object has been loaded.
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
    // SAFETY: before the flag is set nobody reads it.
    let settled = unsafe { &mut *SETTLED.0.get() };
    *settled =
        Settled { options, place: identity::place(&variable), job: identity::job(&variable) };
    let is_recorded = variable("MEMPROF_DIR").is_some_and(|folder| !folder.is_empty());
    // Threads of libraries that were loaded before may ask.
    WANTED.store(is_recorded, Ordering::Release);
    LOADED.store(true, Ordering::Release);
    if options.exact {
        heap::be_exact();
    }
    // Where the folder cannot be used, that is said as soon as there is something to be recorded.
    call_stacks::configure(if is_recorded { options.stacks } else { 0 });
    fork::register();
    heap::look_around();
    if !is_recorded || !has_stack(settled) {
        // Nothing is to be recorded here; blocks keep their owners, since children inherit them.
        return;
    }
    let all = options.record == Record::All;
    let is_rank = settled.place.rank >= 0;
    if !all && !is_rank && identity::is_launcher(started_as()) {
        // Its ranks wait for it, and nobody wants to know what it holds.
        call_stacks::configure(0);
        heap::disable();
        fork::stand_aside();
        return;
    }
    #[cfg(all(target_env = "gnu", not(test)))]
    await_quick_exit();
    owners::refresh();
    let standing_aside = conflicts::look();
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
    // A program that brings no MPI along may load it later, as Python does, or be a shell or a tool
    // that a rank has started. Its trace stays in memory until it calls MPI.
    let has_mpi = cfg!(feature = "archive") || owners::mpi().is_some();
    let wanted = all || settled.is_command();
    if wanted || has_mpi || is_rank {
        record(wanted || (has_mpi && is_rank));
        if standing_aside && has_mpi && is_rank {
            // Its calls are not seen, and it is a rank all the same.
            writer::flags(flags::MPI_SEEN | flags::NO_BOUNDARY, 0);
        }
        if wanted || has_mpi {
            sampler::start();
        }
    } else if settled.is_of_command() {
        await_growth(Forked::Grows);
    }
}

/// Bytes that beginning a trace takes, and a margin for the program.
const STACK: u64 = 256 << 10;

/// Returns true if the stack is large enough to begin a trace on it. Where it is not, that is said.
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

/// The path that the kernel was told to start.
fn started_as() -> &'static [u8] {
    // SAFETY: asks for a word.
    let path = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const core::ffi::c_char;
    // SAFETY: the kernel's text with its end mark, which stays.
    if path.is_null() { b"" } else { unsafe { CStr::from_ptr(path) }.to_bytes() }
}

/// Enters mappings without a name as the loader's and the C library's, but for the tool's own, and data of objects,
/// which may lie in the same mapping.
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

/// More than the loader and the C library map before a program runs.
const FOUND: usize = 1 << 20;

fn is_nobodys(start: usize, end: usize) -> bool {
    let mut blocks = 0;
    heap::share(start, end, &mut |_, bytes| blocks += bytes);
    blocks == 0
        && owners::component_at(start).is_none()
        && ranges::next(start).is_none_or(|piece| piece.start >= end)
}

/// Begins the trace, if that is to be and has not been; `keep` puts it into a file.
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
        limit::look();
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
        sampler::settle(options, conflicts::allocator());
        if options.faults {
            faults::start();
        }
        writer::phases();
    }
}

/// For [`crate::lifecycle::fork`].
pub fn lock() -> &'static SpinLock {
    &OPENING
}

/// A child of a fork goes on without a file, or has one of its own as soon as it does something. `was_kept` says that
/// its parent has one, or has yet to tell of itself.
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

/// A fork has left pages that this process and others have; where these are recorded, they are counted by shares.
pub fn has_forked() {
    let Some(settled) = settled() else { return };
    let all = settled.options.record == Record::All;
    if all || settled.is_of_command() {
        sampler::has_forked(all);
    }
}

/// Has [`late`] do this from now on.
fn await_growth(duty: Forked) {
    if !matches!(duty, Forked::No) {
        // So that little brings it to `late`.
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

/// A child begins: its parent, a child itself, may not have come to
/// [`after_fork`], which would open a trace here, under
/// the locks of the fork. Returns what [`forked`] asks.
pub fn forget_fork() -> bool {
    let duty = FORKED.swap(Forked::No as u8, Ordering::AcqRel);
    deferred::cancel();
    KEPT.swap(false, Ordering::AcqRel) || duty == Forked::Tells as u8
}

/// Work of a child of a fork: it opens its file here, since in the handler of the fork it may do little.
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

/// The first call of `MPI_Init` or one like it begins.
fn mpi_begins() {
    record(true);
    writer::flags(flags::MPI_SEEN, 0);
    sampler::start();
}

/// It has returned.
fn mpi_ready() {
    writer::flags(flags::INITIALIZED, flags::FINALIZED);
    conflicts::look_at_hooks();
}

/// `MPI_Finalize` begins.
fn mpi_ends() {
    sampler::ending();
}

/// It has returned.
fn mpi_ended() {
    writer::flags(flags::FINALIZED, 0);
}

/// The process ends by `_exit`, as children of forks do. Its trace stays open: nobody knows who had which locks.
fn leaves() {
    // A handler of a signal may be in the middle of what the tool guards.
    if local().guard.get() > 0 || ENDED.load(Ordering::Acquire) {
        return;
    }
    deferred::run();
    let _guard = Guard::enter();
    sampler::leaving();
    writer::phases();
}

/// Another program is about to take the place of this one, which keeps its trace if it held much.
fn is_replaced() {
    if local().guard.get() > 0 || ENDED.load(Ordering::Acquire) {
        return;
    }
    leaves();
    // What a rank was before, such as a shell, leaves nothing.
    let keeps = settled()
        .is_some_and(|settled| settled.options.record == Record::All || settled.is_of_command());
    if keeps && heap::all().1 >= CHILD {
        writer::flags(flags::REPLACED, 0);
    }
}

/// Has `quick_exit` end the trace, too: it calls none of the functions that `exit` does.
#[cfg(all(target_env = "gnu", not(test)))]
fn await_quick_exit() {
    use core::ffi::{c_int, c_void};

    unsafe extern "C" {
        fn __cxa_at_quick_exit(handler: extern "C" fn(*mut c_void), object: *mut c_void) -> c_int;
    }
    extern "C" fn ended(_: *mut c_void) {
        end();
    }
    // SAFETY: a function of this object, which stays loaded. Where there is no room for it the trace is one of a killed
    // process. It comes before all of the program, and so is called after them.
    unsafe { __cxa_at_quick_exit(ended, core::ptr::null_mut()) };
}

/// The process ends by itself.
#[cfg_attr(test, allow(dead_code))]
extern "C" fn end() {
    // A handler of a signal that came while this thread was at work for the tool ends the process: what
    // the tool guards may be taken, and by nobody who goes on. The trace is one of a killed process.
    if ENDED.load(Ordering::Acquire) || local().guard.get() > 0 {
        return;
    }
    // What it holds may have come at once, and nothing after it.
    deferred::run();
    if ENDED.swap(true, Ordering::AcqRel) {
        return;
    }
    let _guard = Guard::enter();
    let Some(settled) = settled() else { return };
    sampler::last();
    // With what the last sample has found.
    writer::phases();
    // A shell that started the program has the variables of a rank, but is none.
    let keep =
        writer::has_seen_mpi() || settled.options.record == Record::All || settled.is_of_command();
    writer::finish(keep);
    if keep && settled.options.flush > 0 {
        writer::flush();
    }
}
