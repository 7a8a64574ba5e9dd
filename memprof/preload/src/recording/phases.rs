//! Phases of the program: they begin and end, one inside the other.
//!
//! - By itself: `init` while MPI is being initialised, `finalize` while it is shut down, `main` else.
//! - `MPI_Pcontrol(0)` is silence until `MPI_Pcontrol(1)`. At other times 1 with a name begins a region of that name, and
//!   -1 with it ends the region, as programs for IPM have it; without a name both do nothing. 2 asks for a sample now. A level from 3 on is a
//!   phase of that number: the first call begins `pcontrol N`, the next with this level ends it, whatever
//!   else it says. In C a name may follow the level, `MPI_Pcontrol(3, "assembly")`: the phase has that
//!   name. Nothing tells whether a second argument was given, so that what is there may be left over from
//!   another call. It counts as a name only if it points into readable memory that is not the C library's,
//!   at 1 to 47 printable characters and their end mark, of which at least one is a letter, and if this
//!   name has not been one of another level. A wrong guess gives a wrong name, and never another phase.
//! - Regions of the interface for programs ([`crate::lifecycle::hooks`]), which quo uses too.
//!
//! Phases are the process's, whichever thread begins them. One that ends while others inside it are open ends those as
//! well; ending a phase that is not open does nothing.

#![allow(unsafe_code)]

mod book;

use core::cell::UnsafeCell;
use core::fmt::{self, Write};

use memprof_trace::layout::flags;

use crate::base::component::{self, Class, LIMIT as COMPONENTS};
use crate::base::diagnostics::{self, Code};
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

/// Edges written in a row, and how often one more may be: every ten milliseconds. The ring leaves out
/// those that come faster; the table of phases counts all.
const BURST: u64 = 256;
const PACE: u64 = 10_000_000;

struct Shared {
    book: Book,
    /// Bytes owned at most, by phase and component.
    peaks: [[u64; COMPONENTS]; LIMIT],
    /// When the trace began that these were last written to.
    told: [u64; LIMIT],
    work: [u64; COMPONENTS],
    times: mpi_time::Regions,
    /// Edges that may be written now, and when that was counted.
    allowed: u64,
    counted: u64,
    begun: bool,
}

struct Cell(UnsafeCell<Shared>);

// SAFETY: used with LOCK held only.
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

/// What sampling is told of phases, and what it knows of them.
pub struct Sampling {
    /// There is a new phase: its index, that of the phase around it, and whether it is the profiler's own.
    pub known: fn(index: u16, parent: u16, is_automatic: bool),
    /// A phase begins or ends, with signals blocked.
    pub edge: fn(index: u16, begins: bool),
    /// Calls `work` with the most each component had resident while a phase was open, if that is more than when it was
    /// last called, or `anyway`. `is_open` until its end has been told.
    pub peaks: TellPeaks,
    /// Phases of which a sample has told what is not written yet: a bit for each.
    pub unwritten: fn() -> u64,
    /// The most the process had resident at a sample while a phase was open.
    pub total: fn(index: u16) -> u64,
    /// Takes a sample now.
    pub request: fn() -> bool,
}

static SAMPLING: Registered<Sampling> = Registered::none();

/// What sampling has registered; without it there are no samples.
pub fn sampling() -> Option<&'static Sampling> {
    SAMPLING.get()
}

fn request() {
    if let Some(sampling) = sampling() {
        (sampling.request)();
    }
}

/// Held while the phases change; `fork` takes it. Outside of the locks of heap and writer.
pub fn lock() -> &'static SpinLock {
    &LOCK
}

/// The index of the innermost phase of the process.
pub fn current() -> u16 {
    CURRENT.load(Ordering::Relaxed)
}

/// The program asked for silence: no samples, no phases, until it asks for them again.
pub fn paused() -> bool {
    PAUSED.load(Ordering::Relaxed)
}

fn with<R>(work: impl FnOnce(&mut Shared, u64) -> R) -> R {
    let _guard = Guard::enter();
    // A handler that leaves by longjmp would leave the lock taken.
    let _signals = SignalsBlocked::enter();
    let now = kernel::monotonic();
    LOCK.lock();
    // SAFETY: the lock is held, and nothing that is called comes back here.
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

/// Makes a change to the book and tells heap and writer the consequences.
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
            // With the sample that its end may have been worth.
            writer::phase_peaks(index, true, rose, &peaks[usize::from(index)]);
        }
    }
    let innermost = book.innermost();
    CURRENT.store(if innermost == NONE { 0 } else { innermost }, Ordering::Relaxed);
    result
}

/// True if one is higher than before.
fn raise(peaks: &mut [u64; COMPONENTS], owned: &[u64; COMPONENTS]) -> bool {
    let mut rose = false;
    for (peak, now) in peaks.iter_mut().zip(owned) {
        rose |= *now > *peak;
        *peak = (*peak).max(*now);
    }
    rose
}

/// Writes the peaks so far of the phases that are open, so that who is killed in one has them, and of those of which
/// a later sample has told.
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

/// The process begins: the phase `main`. Sampling is told of phases from now on, and of those there are already.
pub fn start(sampling: &'static Sampling) {
    SAMPLING.set(sampling);
    each(|index, phase| (sampling.known)(index, phase.parent, phase.kind == Kind::Automatic));
}

/// MPI begins to be initialised.
pub fn mpi_begins() {
    mpi_time::mpi_begins();
    step(|book, now, edge| book.step("init", now, edge));
}

/// MPI is ready.
pub fn mpi_is_ready() {
    step(|book, now, edge| book.step_back("init", now, edge));
    time(|regions, totals| regions.mpi_is_ready(totals));
}

/// MPI is about to be shut down: times of the whole run end.
pub fn whole_ends() {
    time(|regions, totals| regions.mpi_ends(totals));
}

/// MPI begins to be shut down.
pub fn mpi_ends() {
    step(|book, now, edge| book.step("finalize", now, edge));
}

/// MPI has been shut down.
pub fn mpi_has_ended() {
    step(|book, now, edge| book.step_back("finalize", now, edge));
}

/// Does something with the times of regions and the sums of this moment, if times are taken.
fn time<R>(work: impl FnOnce(&mut mpi_time::Regions, &mpi_time::Totals) -> R) -> Option<R> {
    mpi_time::is_on().then(|| with(|shared, _| work(&mut shared.times, &mpi_time::totals())))
}

/// Returns the times since MPI was ready; none where they are not taken or it is not.
pub fn whole_time() -> Option<mpi_time::Totals> {
    let mut whole = None;
    each_time(|row, times| {
        if row == mpi_time::WHOLE {
            whole = Some(*times);
        }
    });
    whole
}

/// Calls `each` with the number of every row of times, and the times up to now.
pub fn each_time(mut each: impl FnMut(u16, &mpi_time::Totals)) {
    time(|regions, totals| regions.each(totals, &mut each));
}

fn step(work: impl FnOnce(&mut Book, u64, &mut dyn FnMut(Edge))) {
    with(|shared, now| change(shared, now, |book, edge| work(book, now, edge)));
}

/// A region of the program begins: its number, or 0 if it is not recorded.
pub fn region_begin(name: &str, kind: Kind) -> u32 {
    if paused() || name.is_empty() {
        return 0;
    }
    with(|shared, now| change(shared, now, |book, edge| book.begin(name, kind, now, edge)))
}

/// The region of this number ends.
pub fn region_end(id: u32) {
    if id != 0 {
        with(|shared, now| {
            say_if_crossed(&shared.book, Some(id));
            change(shared, now, |book, edge| book.end(id, now, edge))
        });
    }
}

/// Notes that a region is about to end while another of the program's is open inside it.
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

/// `MPI_Pcontrol(level, ...)`; `second` is the value in the place of a second argument.
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

/// `MPI_Pcontrol(1, "name")` and `MPI_Pcontrol(-1, "name")`: begins a region if it is not open, and ends it.
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

/// The time without records is a phase of this name, so that reports tell it from time in which nothing
/// happened.
const SILENCE: &str = "not recorded";
/// Its number while it lasts.
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

/// Memory of the C library and its like.
fn is_the_systems(address: usize) -> bool {
    owners::component_at(address).is_some_and(|owner| component::class(owner) == Class::System)
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

/// The name that an address points to, if it does. The kernel reads it, so that no address is wrong.
fn name_at(address: usize, into: &mut [u8; NAME + 1]) -> Option<&str> {
    if address < 4096 {
        return None;
    }
    // Up to the end of the page first: what comes after it may not be there.
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

/// The name at the beginning of some bytes: printable, with an end mark, with a letter.
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
