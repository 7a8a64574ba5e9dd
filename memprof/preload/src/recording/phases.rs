//! Phases of the program, which begin and end nested in each other:
//!
//! - Automatic: `init` while MPI is initialized, `finalize` while it is shut down, otherwise
//!   `main`.
//! - `MPI_Pcontrol(0)` pauses recording until `MPI_Pcontrol(1)`. At other times, level 1 with a
//!   name begins a region of that name, and -1 with the name ends it, as in programs for IPM;
//!   without a name both do nothing. Level 2 requests a sample now. A level from 3 on is a phase of
//!   that number: the first call begins `pcontrol N`, and the next with this level ends it,
//!   whatever its other arguments are. In C a name may follow the level, `MPI_Pcontrol(3,
//!   "assembly")`: the phase has that name. Nothing shows whether a second argument was passed, so
//!   the value in its place may be left over from another call. It counts as a name only if it
//!   points into readable memory that is not the C library's, at 1 to 47 printable characters and
//!   their terminator, at least one of them a letter, and if no other level has had this name. A
//!   wrong guess yields a wrong name, but never another phase.
//! - Regions of the interface for programs ([`crate::lifecycle::hooks`]), which quo also uses.
//!
//! Phases belong to the process, whichever thread begins them. The end of a phase also ends the
//! phases that are open inside it; ending a phase that is not open does nothing.

#![allow(unsafe_code)]

mod book;

use core::cell::UnsafeCell;
use core::fmt::{self, Write};

use memprof_trace::layout::flags;

use crate::base::component::LIMIT as COMPONENTS;
use crate::base::diagnostics::{self, Code};
use crate::base::dictionary::{self, Class};
use crate::base::kernel;
use crate::base::kernel::SignalsBlocked;
use crate::base::lock::SpinLock;
use crate::base::registered::Registered;
use crate::base::thread::Guard;
use crate::ledger::heap;
use crate::owners;
use crate::recording::{mpi_time, writer};
use book::{Book, Edge};
pub use book::{DEPTH, Kind, LIMIT, NAME, NONE, Phase};
use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};

/// Number of edges written in a row, and interval after which one more may be: ten milliseconds.
/// Edges that are more frequent are left out of the ring; the table of phases counts all.
const BURST: u64 = 256;
const PACE: u64 = 10_000_000;

struct Shared {
    book: Book,
    /// Highest owned bytes, by phase and component.
    peaks: [[u64; COMPONENTS]; LIMIT],
    /// Start time of the trace to which the peaks were last written.
    told: [u64; LIMIT],
    work: [u64; COMPONENTS],
    times: mpi_time::Regions,
    /// Number of edges that may be written now, and when it was updated.
    allowed: u64,
    counted: u64,
    begun: bool,
}

struct Cell(UnsafeCell<Shared>);

// SAFETY: accessed only while LOCK is held.
unsafe impl Sync for Cell {}

static SHARED: Cell = Cell(UnsafeCell::new(Shared {
    book: Book::new(),
    peaks: [[0; COMPONENTS]; LIMIT],
    told: [0; LIMIT],
    work: [0; COMPONENTS],
    times: mpi_time::Regions::new(),
    allowed: 0,
    counted: 0,
    begun: false,
}));
static LOCK: SpinLock = SpinLock::new();
static CURRENT: AtomicU16 = AtomicU16::new(0);
static PAUSED: AtomicBool = AtomicBool::new(false);

/// Calls `work` with the peaks of a phase.
pub type TellPeaks =
    fn(index: u16, is_open: bool, anyway: bool, work: &mut dyn FnMut(&[u64; COMPONENTS]));

/// Interface to sampling.
pub struct Sampling {
    /// Reports a new phase: its index, that of its parent, and whether the profiler defines it.
    pub known: fn(index: u16, parent: u16, is_automatic: bool),
    /// Reports the begin or end of a phase, with signals blocked.
    pub edge: fn(index: u16, begins: bool),
    /// Calls `work` with the highest resident bytes of each component in a phase, if they have
    /// increased since the last call, or with `anyway`. `is_open` is true until the end of the
    /// phase has been reported.
    pub peaks: TellPeaks,
    /// Returns the phases with sampled peaks that are not written yet: one bit for each.
    pub unwritten: fn() -> u64,
    /// Returns the highest resident bytes of the process at a sample in a phase.
    pub total: fn(index: u16) -> u64,
    /// Takes a sample now.
    pub request: fn() -> bool,
}

static SAMPLING: Registered<Sampling> = Registered::none();

/// Returns the registered interface to sampling; without it there are no samples.
pub fn sampling() -> Option<&'static Sampling> {
    SAMPLING.get()
}

fn request() {
    if let Some(sampling) = sampling() {
        (sampling.request)();
    }
}

/// Returns the lock that is held while phases change; `fork` takes it. It is taken outside of the
/// locks of heap and writer.
pub fn lock() -> &'static SpinLock {
    &LOCK
}

/// Returns the index of the innermost phase of the process.
pub fn current() -> u16 {
    CURRENT.load(Ordering::Relaxed)
}

/// Returns true if the program has paused recording: no samples and no phases until it resumes.
pub fn paused() -> bool {
    PAUSED.load(Ordering::Relaxed)
}

fn with<R>(work: impl FnOnce(&mut Shared, u64) -> R) -> R {
    let _guard = Guard::enter();
    // A handler that leaves by longjmp would leave the lock taken.
    let _signals = SignalsBlocked::enter();
    let now = kernel::monotonic();
    LOCK.lock();
    // SAFETY: the lock is held, and no function called here calls this one.
    let shared = unsafe { &mut *SHARED.0.get() };
    if !shared.begun {
        shared.begun = true;
        shared.allowed = BURST;
        shared.counted = now;
        change(shared, now, |book, edge| book.begin("main", Kind::Automatic, now, edge));
    }
    let result = work(shared, now);
    LOCK.unlock();
    result
}

/// Changes the book of phases, and reports the consequences to heap and writer.
fn change<R>(
    shared: &mut Shared,
    now: u64,
    work: impl FnOnce(&mut Book, &mut dyn FnMut(Edge)) -> R,
) -> R {
    let Shared { book, peaks, told, work: owned, times, allowed, counted, .. } = shared;
    let earned = now.saturating_sub(*counted) / PACE;
    *allowed = (*allowed + earned).min(BURST);
    *counted += earned * PACE;
    let known = book.count;
    let mut edges = [Edge::Begins(0); DEPTH + 2];
    let mut count = 0;
    let result = work(book, &mut |edge| {
        if let Some(place) = edges.get_mut(count) {
            *place = edge;
            count += 1;
        }
    });
    for index in known..book.count {
        let phase = &book.phases[index];
        writer::phase(index as u16, phase.kind, phase.parent);
    }
    let totals = (count > 0 && mpi_time::is_on()).then(mpi_time::totals);
    for &edge in &edges[..count] {
        if let Some(totals) = &totals {
            match edge {
                Edge::Begins(index) => times.edge(index, true, totals),
                Edge::Ends(index) => times.edge(index, false, totals),
            }
        }
        let (index, begins, rose) = match edge {
            Edge::Begins(index) => {
                heap::peaks_begin();
                (index, true, false)
            }
            Edge::Ends(index) => {
                owned.fill(0);
                heap::peaks_end(owned);
                let began = core::mem::replace(&mut told[usize::from(index)], writer::began());
                let is_new = began != told[usize::from(index)];
                (index, false, raise(&mut peaks[usize::from(index)], owned) || is_new)
            }
        };
        if *allowed > 0 {
            *allowed -= 1;
            writer::phase_edge(index, begins);
        }
        if !begins {
            // Includes the sample that the end of the phase may have caused.
            writer::phase_peaks(index, true, rose, &peaks[usize::from(index)]);
        }
    }
    let innermost = book.innermost();
    CURRENT.store(if innermost == NONE { 0 } else { innermost }, Ordering::Relaxed);
    result
}

/// Raises the peaks. Returns true if one has increased.
fn raise(peaks: &mut [u64; COMPONENTS], owned: &[u64; COMPONENTS]) -> bool {
    let mut rose = false;
    for (peak, now) in peaks.iter_mut().zip(owned) {
        rose |= *now > *peak;
        *peak = (*peak).max(*now);
    }
    rose
}

/// Writes the present peaks of open phases, so that a process killed in one has them, and those of
/// phases for which a later sample found peaks.
pub fn write_peaks() {
    with(|shared, _| {
        let Shared { book, peaks, work: owned, .. } = shared;
        owned.fill(0);
        for depth in (0..book.depth).rev() {
            let index = book.stack[depth].index;
            heap::peaks_open(depth, owned);
            let peaks = &mut peaks[usize::from(index)];
            raise(peaks, owned);
            writer::phase_peaks(index, true, true, peaks);
        }
        let unwritten = sampling().map_or(0, |sampling| (sampling.unwritten)());
        for (index, peaks) in (0..64).zip(&peaks[..book.count]) {
            if unwritten >> index & 1 == 1 {
                writer::phase_peaks(index, false, false, peaks);
            }
        }
    });
}

/// Calls `each` with the index and state of every phase so far.
pub fn each(mut each: impl FnMut(u16, &Phase)) {
    with(|shared, _| {
        for (index, phase) in shared.book.phases[..shared.book.count].iter().enumerate() {
            each(index as u16, phase);
        }
    });
}

/// Starts recording phases, with the phase `main`. Sampling receives all phases from now on, and
/// those that already exist.
pub fn start(sampling: &'static Sampling) {
    SAMPLING.set(sampling);
    each(|index, phase| (sampling.known)(index, phase.parent, phase.kind == Kind::Automatic));
}

/// Handles the begin of MPI's initialization.
pub fn mpi_begins() {
    mpi_time::mpi_begins();
    step(|book, now, edge| book.step("init", now, edge));
}

/// Handles MPI being ready.
pub fn mpi_is_ready() {
    step(|book, now, edge| book.step_back("init", now, edge));
    time(|regions, totals| regions.mpi_is_ready(totals));
}

/// Handles the imminent shutdown of MPI, at which the times of the whole run end.
pub fn whole_ends() {
    time(|regions, totals| regions.mpi_ends(totals));
}

/// Handles the begin of MPI's shutdown.
pub fn mpi_ends() {
    step(|book, now, edge| book.step("finalize", now, edge));
}

/// Handles the end of MPI's shutdown.
pub fn mpi_has_ended() {
    step(|book, now, edge| book.step_back("finalize", now, edge));
}

/// Runs `work` with the times of regions and the present sums, if times are measured.
fn time<R>(work: impl FnOnce(&mut mpi_time::Regions, &mpi_time::Totals) -> R) -> Option<R> {
    mpi_time::is_on().then(|| with(|shared, _| work(&mut shared.times, &mpi_time::totals())))
}

/// Returns the times since MPI was ready; `None` where they are not measured or MPI is not ready.
pub fn whole_time() -> Option<mpi_time::Totals> {
    let mut whole = None;
    each_time(|row, times| {
        if row == mpi_time::WHOLE {
            whole = Some(*times);
        }
    });
    whole
}

/// Calls `each` with the number of every time row, and its times until now.
pub fn each_time(mut each: impl FnMut(u16, &mpi_time::Totals)) {
    time(|regions, totals| regions.each(totals, &mut each));
}

fn step(work: impl FnOnce(&mut Book, u64, &mut dyn FnMut(Edge))) {
    with(|shared, now| change(shared, now, |book, edge| work(book, now, edge)));
}

/// Begins a region of the program. Returns its number, or 0 if it is not recorded.
pub fn region_begin(name: &str, kind: Kind) -> u32 {
    if paused() || name.is_empty() {
        return 0;
    }
    with(|shared, now| change(shared, now, |book, edge| book.begin(name, kind, now, edge)))
}

/// Ends the region with this number.
pub fn region_end(id: u32) {
    if id != 0 {
        with(|shared, now| {
            say_if_crossed(&shared.book, Some(id));
            change(shared, now, |book, edge| book.end(id, now, edge))
        });
    }
}

/// Reports a region that is about to end while another one of the program is open inside it.
fn say_if_crossed(book: &Book, id: Option<u32>) {
    let Some((outer, inner)) = id.and_then(|id| book.crossed(id)) else { return };
    let name = |index: u16| book.phases[usize::from(index)].name();
    diagnostics::say(
        Code::Regions,
        format_args!(
            "region {} ended with {} open inside, which ends there",
            name(outer),
            name(inner)
        ),
    );
}

/// Implements `MPI_Pcontrol(level, ...)`; `second` is the value in the place of a second argument.
pub fn pcontrol(level: i32, second: usize) {
    match level {
        0 => pause(true),
        1 if paused() => pause(false),
        1 | -1 => named_region(level == 1, second),
        2 => {
            request();
        }
        3.. if !paused() => {
            let mut text = [0; NAME + 1];
            let mut number = Number { text: [0; 24], length: 0 };
            let _ = write!(number, "pcontrol {level}");
            let number = core::str::from_utf8(&number.text[..number.length]).unwrap_or("pcontrol");
            let name = if is_the_systems(second) { None } else { name_at(second, &mut text) };
            with(|shared, now| {
                let open = shared.book.open_level(level);
                say_if_crossed(&shared.book, open);
                change(shared, now, |book, edge| book.toggle(level, name, number, now, edge));
            });
        }
        _ => {}
    }
}

/// Implements `MPI_Pcontrol(1, "name")` and `MPI_Pcontrol(-1, "name")`: begins a region unless it
/// is open, and ends it.
fn named_region(begins: bool, second: usize) {
    let mut text = [0; NAME + 1];
    if paused() || is_the_systems(second) {
        return;
    }
    let Some(name) = name_at(second, &mut text) else { return };
    with(|shared, now| match (begins, shared.book.open_named(name)) {
        (true, None) => {
            change(shared, now, |book, edge| book.begin(name, Kind::Control, now, edge));
        }
        (false, Some(id)) => {
            say_if_crossed(&shared.book, Some(id));
            change(shared, now, |book, edge| book.end(id, now, edge));
        }
        (false, None) => diagnostics::say(
            Code::Regions,
            format_args!("region {name} ended and was not open: that end is left out"),
        ),
        _ => {}
    });
}

/// Name of the phase for the time without records, so that reports distinguish it from time in
/// which nothing happened.
const SILENCE: &str = "not recorded";
/// Number of that phase while it is open.
static SILENT: AtomicU32 = AtomicU32::new(0);

fn pause(paused: bool) {
    if paused && !self::paused() {
        SILENT.store(region_begin(SILENCE, Kind::Automatic), Ordering::Relaxed);
    }
    let before = PAUSED.swap(paused, Ordering::Relaxed);
    let bit = |set: bool| if set { flags::PAUSED } else { 0 };
    writer::flags(bit(paused), bit(!paused));
    if before && !paused {
        region_end(SILENT.swap(0, Ordering::Relaxed));
        request();
    }
}

/// Returns true for memory of the C library and similar ones.
fn is_the_systems(address: usize) -> bool {
    owners::component_at(address).is_some_and(|owner| dictionary::class(owner) == Class::System)
}

struct Number {
    text: [u8; 24],
    length: usize,
}

impl Write for Number {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let end = self.length + more.len();
        self.text.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(more.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// Returns the name at an address, if there is one. The kernel reads it, so any address is allowed.
fn name_at(address: usize, into: &mut [u8; NAME + 1]) -> Option<&str> {
    if address < 4096 {
        return None;
    }
    // Up to the end of the page first, since the following page may not be mapped.
    let page = kernel::page();
    let first = (page - address % page).min(into.len());
    let mut length = 0;
    for (from, to) in [(0, first), (first, into.len())] {
        if from == to || into[..length].contains(&0) {
            continue;
        }
        if !kernel::peek(address.wrapping_add(from), &mut into[from..to]) {
            break;
        }
        length = to;
    }
    name_in(&into[..length])
}

/// Returns the name at the start of some bytes: printable, terminated, with a letter.
fn name_in(bytes: &[u8]) -> Option<&str> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    let text = core::str::from_utf8(&bytes[..end]).ok()?;
    let fits =
        text.chars().all(|letter| !letter.is_control()) && text.chars().any(char::is_alphabetic);
    fits.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_is_a_name() {
        let mut room = [0; NAME + 1];
        let text = c"assembly of the matrix";
        assert_eq!(name_at(text.as_ptr() as usize, &mut room), Some("assembly of the matrix"));
        for (bytes, expected) in [
            (&b"solve\0xxxx"[..], Some("solve")),
            (b"\0", None),
            (b"123\0", None),
            (b"so\x01lve\0", None),
            (b"no end", None),
            (b"\xff\xfe\0", None),
        ] {
            assert_eq!(name_in(bytes), expected, "{bytes:?}");
        }
        for wild in [0, 1, 4095, 0xdead_0000_0000, usize::MAX - 3] {
            assert_eq!(name_at(wild, &mut room), None);
        }
        let long = [b'a'; 100];
        assert_eq!(name_at(long.as_ptr() as usize, &mut room), None);
    }
}
