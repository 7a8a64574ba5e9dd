//! What happens when the object is loaded, when MPI begins and ends, and when the process ends.

#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, Ordering};

use memprof_trace::layout::flags;

use crate::identity::{self, Place};
use crate::lock::SpinLock;
use crate::note::{self, Code};
use crate::options::{self, Options, Record, Text};
use crate::thread::Guard;
use crate::{
    boundary, conflicts, fork, heap, kernel, memory, objects, phases, ranges, sampler, sites,
    writer,
};

/// What is known of the process once it is loaded.
struct Settled {
    options: Options,
    place: Place,
    job: Text<64>,
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
/// A fork made this process, and it has no file of its own yet.
static FORKED: AtomicBool = AtomicBool::new(false);
static OPENING: SpinLock = SpinLock::new();

#[cfg(not(test))]
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

/// The object has been loaded.
#[cfg_attr(test, allow(dead_code))]
extern "C" fn load() {
    let _guard = Guard::enter();
    let options = options::parse(&variable, &mut |name| {
        note::say(
            Code::BadSetting,
            format_args!("{name} has a value that cannot be used; its default is used"),
        );
    });
    // SAFETY: before the flag is set nobody reads it.
    let settled = unsafe { &mut *SETTLED.0.get() };
    *settled =
        Settled { options, place: identity::place(&variable), job: identity::job(&variable) };
    LOADED.store(true, Ordering::Release);
    if options.exact {
        heap::be_exact();
    }
    let is_recorded = !options.directory.as_bytes().is_empty();
    sites::configure(if is_recorded { options.stacks } else { 0 });
    fork::register();
    if !is_recorded {
        // Nothing is to be recorded here; blocks keep their owners, since children inherit them.
        return;
    }
    objects::refresh();
    let standing_aside = conflicts::look();
    if standing_aside {
        heap::stand_aside();
    } else {
        boundary::start();
    }
    phases::start();
    found();
    if settled.place.rank >= 0 || options.record == Record::All {
        record();
        if options.record == Record::All || objects::mpi().is_some() {
            sampler::start();
        }
    }
}

/// What is mapped already without a name is the loader's and the C library's, but for the tool's own,
/// which may lie in the same mapping.
fn found() {
    let Some(system) = objects::component_at(libc::getpid as *const () as usize) else { return };
    let Ok(file) = kernel::open(c"/proc/self/maps") else { return };
    sampler::each_mapping(file, &mut |line| {
        if !line.path.is_empty() || line.inode != 0 || line.shared {
            return;
        }
        let mut at = line.start;
        while at < line.end {
            let tool = memory::next(at).filter(|piece| piece.0 < line.end);
            let (stop, next) = tool.unwrap_or((line.end, line.end));
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
    if heap::knows(start) {
        heap::share(start, end, &mut |_, bytes| blocks += bytes);
    }
    blocks == 0
        && objects::component_at(start).is_none()
        && ranges::next(start).is_none_or(|piece| piece.start >= end)
}

/// Makes the file, if this process is to have one and has none yet.
fn record() {
    let Some(settled) = settled() else { return };
    if settled.options.directory.as_bytes().is_empty() || ENDED.load(Ordering::Acquire) {
        return;
    }
    let _guard = Guard::enter();
    OPENING.lock();
    if !writer::is_recording() {
        if !settled.options.quiet {
            note::aloud();
        }
        let process = identity::process();
        let opened =
            writer::open(&settled.options, &settled.place, settled.job.as_bytes(), &process);
        OPENING.unlock();
        if opened {
            let bit = |set: bool, flag: u64| if set { flag } else { 0 };
            writer::flags(
                bit(settled.options.exact, flags::EXACT_PEAKS)
                    | bit(settled.options.stacks > 0, flags::STACKS)
                    | conflicts::flags(),
                0,
            );
            sampler::settle(&settled.options, conflicts::allocator());
            writer::phases();
        }
        return;
    }
    OPENING.unlock();
}

/// A child of a fork goes on without a file, or has one of its own as soon as it does something.
pub fn forked() {
    let all = settled().is_some_and(|settled| settled.options.record == Record::All);
    FORKED.store(all, Ordering::Release);
}

/// To be called where work is done that is not on a hot path: a child of a fork opens its file there,
/// since in the handler of the fork it may do little.
pub fn late() {
    if FORKED.load(Ordering::Relaxed) && FORKED.swap(false, Ordering::AcqRel) {
        record();
        sampler::start();
    }
}

/// The first call of `MPI_Init` or one like it begins.
pub fn mpi_begins() {
    record();
    writer::flags(flags::MPI_SEEN, 0);
    sampler::start();
}

/// It has returned.
pub fn mpi_ready() {
    writer::flags(flags::INITIALIZED, 0);
}

/// `MPI_Finalize` begins.
pub fn mpi_ends() {
    sampler::request();
}

/// It has returned.
pub fn mpi_ended() {
    writer::flags(flags::FINALIZED, 0);
}

/// The process ends by itself.
#[cfg_attr(test, allow(dead_code))]
extern "C" fn end() {
    if ENDED.swap(true, Ordering::AcqRel) {
        return;
    }
    let _guard = Guard::enter();
    let Some(settled) = settled() else { return };
    writer::phases();
    sampler::last();
    // A shell that started the program has the variables of a rank, but is none.
    let keep = writer::has_seen_mpi() || settled.options.record == Record::All;
    writer::finish(keep);
}
