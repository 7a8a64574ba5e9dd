//! What the program was doing: phases that begin and end, one inside the other.
//!
//! - By itself: `init` while MPI is being initialised, `finalize` while it is shut down, `main` else.
//! - `MPI_Pcontrol(0)` is silence until `MPI_Pcontrol(1)`; 2 asks for a sample now. A level from 3 on is a
//!   phase of that number: the first call begins `pcontrol N`, the next with this level ends it, whatever
//!   else it says. In C a name may follow the level, `MPI_Pcontrol(3, "assembly")`: the phase has that
//!   name. Nothing tells whether a second argument was given, so that what is there may be left over from
//!   another call. It counts as a name only if it points into readable memory that is not the C library's,
//!   at 1 to 47 printable characters and their end mark, of which at least one is a letter, and if this
//!   name has not been one of another level. A wrong guess gives a wrong name, and never another phase.
//! - Regions of the interface for programs ([`crate::hooks`]), which quo uses too.
//!
//! Phases are the process's, whichever thread begins them. One that ends while others inside it are
//! open ends those as well; ending what is not open does nothing.

#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::fmt::{self, Write};

use memprof_trace::layout::flags;

use crate::component::{self, Class, LIMIT as COMPONENTS};
use crate::kernel::SignalsBlocked;
use crate::lock::SpinLock;
use crate::thread::Guard;
use crate::{heap, kernel, objects, sampler, writer};
use core::sync::atomic::{AtomicBool, AtomicU16, Ordering};

/// Different phases; further ones share the last.
pub const LIMIT: usize = 64;

/// Phases inside each other; deeper ones are not recorded.
pub const DEPTH: usize = 16;

/// Longer names are cut.
pub const NAME: usize = 47;

/// No phase: the parent of an outermost one.
pub const NONE: u16 = u16::MAX;

/// Edges written in a row, and how often one more may be: every ten milliseconds. The ring leaves out
/// those that come faster; the table of phases counts all.
const BURST: u64 = 256;
const PACE: u64 = 10_000_000;

/// Where a phase comes from; the numbers are those of trace files.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Automatic = 0,
    /// `MPI_Pcontrol`.
    Control = 1,
    /// The interface for programs.
    User = 2,
    Quo = 3,
}

/// A phase, over all its times.
#[derive(Copy, Clone)]
pub struct Phase {
    name: [u8; NAME],
    length: u8,
    pub kind: Kind,
    /// The phase around it when it first began.
    pub parent: u16,
    pub entries: u64,
    /// Nanoseconds of the monotonic clock, over all its ended times.
    pub total: u64,
    /// When it first began.
    pub first: u64,
    /// When it last ended.
    pub last: u64,
    /// How many times it is open.
    pub open: u32,
    /// The level that first had this name.
    level: i32,
}

impl Phase {
    const EMPTY: Phase = Phase {
        name: [0; NAME],
        length: 0,
        kind: Kind::Automatic,
        parent: NONE,
        entries: 0,
        total: 0,
        first: 0,
        last: 0,
        open: 0,
        level: 0,
    };

    pub fn name(&self) -> &str {
        core::str::from_utf8(&self.name[..usize::from(self.length)]).unwrap_or("?")
    }
}

/// One that is open.
#[derive(Copy, Clone)]
struct Open {
    index: u16,
    /// Its own number, never used again.
    id: u32,
    since: u64,
    /// Of `MPI_Pcontrol`, else 0.
    level: i32,
}

/// What follows from a change, in order.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Edge {
    Begins(u16),
    Ends(u16),
}

/// The pure part.
struct Book {
    phases: [Phase; LIMIT],
    count: usize,
    stack: [Open; DEPTH],
    depth: usize,
    next_id: u32,
}

/// The name of what no longer fits.
const OTHER: &str = "(other phases)";

impl Book {
    const fn new() -> Book {
        Book {
            phases: [Phase::EMPTY; LIMIT],
            count: 0,
            stack: [Open { index: 0, id: 0, since: 0, level: 0 }; DEPTH],
            depth: 0,
            next_id: 1,
        }
    }

    fn find(&mut self, name: &str, kind: Kind) -> usize {
        let mut name = cut(name);
        let known = |book: &Book, name: &str| {
            (0..book.count).find(|&index| {
                book.phases[index].name() == name
                    && (book.phases[index].kind == kind || name == OTHER)
            })
        };
        if let Some(index) = known(self, name) {
            return index;
        }
        if self.count >= LIMIT - 1 {
            name = OTHER;
            if let Some(index) = known(self, name) {
                return index;
            }
        }
        let index = self.count;
        let parent = self.innermost();
        let phase = &mut self.phases[index];
        phase.name[..name.len()].copy_from_slice(name.as_bytes());
        phase.length = name.len() as u8;
        phase.kind = kind;
        phase.parent = parent;
        self.count += 1;
        index
    }

    fn innermost(&self) -> u16 {
        self.depth.checked_sub(1).map_or(NONE, |top| self.stack[top].index)
    }

    /// The number of what has begun; 0 if it is too deep.
    fn begin(&mut self, name: &str, kind: Kind, now: u64, edge: &mut dyn FnMut(Edge)) -> u32 {
        if self.depth == DEPTH {
            return 0;
        }
        let index = self.find(name, kind);
        let phase = &mut self.phases[index];
        if phase.entries == 0 {
            phase.first = now;
        }
        phase.entries += 1;
        phase.open += 1;
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1).max(1);
        self.stack[self.depth] = Open { index: index as u16, id, since: now, level: 0 };
        self.depth += 1;
        edge(Edge::Begins(index as u16));
        id
    }

    /// Ends an open one and all inside it.
    fn end(&mut self, id: u32, now: u64, edge: &mut dyn FnMut(Edge)) -> bool {
        let Some(at) = self.stack[..self.depth].iter().position(|open| open.id == id) else {
            return false;
        };
        while self.depth > at {
            self.depth -= 1;
            let open = self.stack[self.depth];
            let phase = &mut self.phases[usize::from(open.index)];
            // One that is open inside itself counts its time once.
            phase.open -= 1;
            if phase.open == 0 {
                phase.total += now.saturating_sub(open.since);
            }
            phase.last = now;
            edge(Edge::Ends(open.index));
        }
        true
    }

    /// The open phase of this name, the innermost if it is there more than once.
    fn open(&self, name: &str, kind: Kind) -> Option<u32> {
        self.stack[..self.depth]
            .iter()
            .rev()
            .find(|open| {
                let phase = &self.phases[usize::from(open.index)];
                phase.kind == kind && phase.name() == cut(name)
            })
            .map(|open| open.id)
    }

    /// Ends the phase of this level if it is open; begins it else, by its name if it has one.
    fn toggle(
        &mut self,
        level: i32,
        name: Option<&str>,
        number: &str,
        now: u64,
        edge: &mut dyn FnMut(Edge),
    ) {
        if let Some(open) = self.stack[..self.depth].iter().rev().find(|open| open.level == level) {
            self.end(open.id, now, edge);
            return;
        }
        let of_another = |name: &&str| {
            self.phases[..self.count].iter().any(|phase| {
                phase.kind == Kind::Control && phase.name() == *name && phase.level != level
            })
        };
        let name = name.filter(|name| !of_another(name)).unwrap_or(number);
        if self.begin(name, Kind::Control, now, edge) != 0 {
            let open = &mut self.stack[self.depth - 1];
            open.level = level;
            self.phases[usize::from(open.index)].level = level;
        }
    }

    /// From the outermost automatic phase to another; inside it if the program has phases open.
    fn step(&mut self, name: &str, now: u64, edge: &mut dyn FnMut(Edge)) {
        if self.depth == 1 && self.phases[usize::from(self.stack[0].index)].kind == Kind::Automatic
        {
            let outermost = self.stack[0].id;
            self.end(outermost, now, edge);
        }
        self.begin(name, Kind::Automatic, now, edge);
    }

    /// Back to `main` from an automatic phase.
    fn step_back(&mut self, name: &str, now: u64, edge: &mut dyn FnMut(Edge)) {
        if let Some(id) = self.open(name, Kind::Automatic) {
            self.end(id, now, edge);
        }
        if self.depth == 0 {
            self.begin("main", Kind::Automatic, now, edge);
        }
    }
}

fn cut(name: &str) -> &str {
    let mut length = name.len().min(NAME);
    while !name.is_char_boundary(length) {
        length -= 1;
    }
    &name[..length]
}

struct Shared {
    book: Book,
    /// Bytes owned at most, by phase and component.
    peaks: [[u64; COMPONENTS]; LIMIT],
    work: [u64; COMPONENTS],
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
    work: [0; COMPONENTS],
    allowed: 0,
    counted: 0,
    begun: false,
}));
static LOCK: SpinLock = SpinLock::new();
static CURRENT: AtomicU16 = AtomicU16::new(0);
static PAUSED: AtomicBool = AtomicBool::new(false);
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

/// Makes a change to the book and tells heap and writer what follows.
fn change<R>(
    shared: &mut Shared,
    now: u64,
    work: impl FnOnce(&mut Book, &mut dyn FnMut(Edge)) -> R,
) -> R {
    let Shared { book, peaks, work: owned, allowed, counted, .. } = shared;
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
        writer::phase(index as u16, phase.name(), phase.kind as u8, phase.parent);
    }
    for &edge in &edges[..count] {
        let (index, begins) = match edge {
            Edge::Begins(index) => {
                heap::peaks_begin();
                (index, true)
            }
            Edge::Ends(index) => {
                owned.fill(0);
                heap::peaks_end(owned);
                let peaks = &mut peaks[usize::from(index)];
                for (peak, now) in peaks.iter_mut().zip(&*owned) {
                    *peak = (*peak).max(*now);
                }
                writer::phase_peaks(index, peaks);
                (index, false)
            }
        };
        if *allowed > 0 {
            *allowed -= 1;
            writer::phase_edge(index, begins);
        }
    }
    let innermost = book.innermost();
    CURRENT.store(if innermost == NONE { 0 } else { innermost }, Ordering::Relaxed);
    result
}

/// Writes the peaks so far of the phases that are open: who is killed in one has them.
pub fn write_open() {
    with(|shared, _| {
        let Shared { book, peaks, work: owned, .. } = shared;
        owned.fill(0);
        for depth in (0..book.depth).rev() {
            let index = book.stack[depth].index;
            heap::peaks_open(depth, owned);
            let peaks = &mut peaks[usize::from(index)];
            for (peak, now) in peaks.iter_mut().zip(&*owned) {
                *peak = (*peak).max(*now);
            }
            writer::phase_peaks(index, peaks);
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

/// The process begins: the phase `main`.
pub fn start() {
    with(|_, _| ());
}

/// MPI begins to be initialised.
pub fn mpi_begins() {
    step(|book, now, edge| book.step("init", now, edge));
}

/// MPI is ready.
pub fn mpi_is_ready() {
    step(|book, now, edge| book.step_back("init", now, edge));
}

/// MPI begins to be shut down.
pub fn mpi_ends() {
    step(|book, now, edge| book.step("finalize", now, edge));
}

/// MPI has been shut down.
pub fn mpi_has_ended() {
    step(|book, now, edge| book.step_back("finalize", now, edge));
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
        with(|shared, now| change(shared, now, |book, edge| book.end(id, now, edge)));
    }
}

/// `MPI_Pcontrol(level, ...)`; `second` is what stands where a second argument would.
pub fn pcontrol(level: i32, second: usize) {
    match level {
        0 => pause(true),
        1 => pause(false),
        2 => {
            sampler::request();
        }
        3.. if !paused() => {
            let mut text = [0; NAME + 1];
            let mut number = Number { text: [0; 24], length: 0 };
            let _ = write!(number, "pcontrol {level}");
            let number = core::str::from_utf8(&number.text[..number.length]).unwrap_or("pcontrol");
            let name = if is_the_systems(second) { None } else { name_at(second, &mut text) };
            with(|shared, now| {
                change(shared, now, |book, edge| book.toggle(level, name, number, now, edge));
            });
        }
        _ => {}
    }
}

fn pause(paused: bool) {
    let before = PAUSED.swap(paused, Ordering::Relaxed);
    let bit = |set: bool| if set { flags::PAUSED } else { 0 };
    writer::flags(bit(paused), bit(!paused));
    if before && !paused {
        sampler::request();
    }
}

/// Memory of the C library and its like.
fn is_the_systems(address: usize) -> bool {
    objects::component_at(address).is_some_and(|owner| component::class(owner) == Class::System)
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
    use proptest::prelude::*;

    fn name(book: &Book, edge: Edge) -> String {
        match edge {
            Edge::Begins(index) => format!("+{}", book.phases[usize::from(index)].name()),
            Edge::Ends(index) => format!("-{}", book.phases[usize::from(index)].name()),
        }
    }

    #[test]
    fn automatic_phases_follow_each_other() {
        let mut book = Book::new();
        let mut edges = Vec::new();
        let mut edge = |edge| edges.push(edge);
        book.begin("main", Kind::Automatic, 0, &mut edge);
        book.step("init", 10, &mut edge);
        book.step_back("init", 30, &mut edge);
        let id = book.begin("solve", Kind::User, 40, &mut edge);
        assert!(book.end(id, 50, &mut edge));
        assert!(!book.end(id, 51, &mut edge));
        book.step("finalize", 60, &mut edge);
        book.step_back("finalize", 70, &mut edge);
        let names: Vec<String> = edges.iter().map(|&edge| name(&book, edge)).collect();
        assert_eq!(
            names.join(" "),
            "+main -main +init -init +main +solve -solve -main +finalize -finalize +main"
        );
        let total = |wanted: &str| {
            book.phases.iter().find(|phase| phase.name() == wanted).map(|phase| phase.total)
        };
        assert_eq!(total("init"), Some(20));
        assert_eq!(total("main"), Some(10 + 30));
        assert_eq!(total("solve"), Some(10));
        assert_eq!(book.phases[2].parent, 0);
    }

    #[test]
    fn finalize_inside_a_forgotten_region_is_inside_it() {
        let mut book = Book::new();
        let mut none = |_| ();
        book.begin("main", Kind::Automatic, 0, &mut none);
        book.begin("all", Kind::User, 1, &mut none);
        book.step("finalize", 2, &mut none);
        assert_eq!(book.depth, 3);
        book.step_back("finalize", 3, &mut none);
        assert_eq!(book.depth, 2);
    }

    #[test]
    fn a_level_ends_what_it_began_and_what_is_inside() {
        let mut book = Book::new();
        let mut none = |_| ();
        book.begin("main", Kind::Automatic, 0, &mut none);
        book.toggle(3, None, "pcontrol 3", 1, &mut none);
        book.toggle(4, None, "pcontrol 4", 2, &mut none);
        assert_eq!(book.depth, 3);
        book.toggle(3, None, "pcontrol 3", 5, &mut none);
        assert_eq!(book.depth, 1);
        assert_eq!(book.phases[2].total, 3);
        assert_eq!(book.phases[1].total, 4);
    }

    #[test]
    fn what_is_left_over_in_an_argument_changes_names_only() {
        let mut book = Book::new();
        let mut none = |_| ();
        book.begin("main", Kind::Automatic, 0, &mut none);
        book.toggle(3, Some("solve"), "pcontrol 3", 1, &mut none);
        // No second argument: the name of the call before is still there.
        book.toggle(4, Some("solve"), "pcontrol 4", 2, &mut none);
        assert_eq!(book.depth, 3);
        book.toggle(4, Some("anything"), "pcontrol 4", 3, &mut none);
        book.toggle(3, Some("solve"), "pcontrol 3", 4, &mut none);
        assert_eq!(book.depth, 1);
        assert_eq!(book.phases[1].name(), "solve");
        assert_eq!(book.phases[2].name(), "pcontrol 4");
        assert_eq!(book.count, 3);
    }

    #[test]
    fn more_phases_than_there_is_room_for_share_the_last() {
        let mut book = Book::new();
        let mut none = |_| ();
        for number in 0..100 {
            let id = book.begin(&format!("phase {number}"), Kind::User, number, &mut none);
            assert!(book.end(id, number + 1, &mut none));
        }
        assert_eq!(book.count, LIMIT);
        assert_eq!(book.phases[LIMIT - 1].name(), OTHER);
        assert_eq!(book.phases[LIMIT - 1].entries, 100 - (LIMIT as u64 - 1));
    }

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

    proptest! {
        #[test]
        fn every_beginning_has_one_end(operations in proptest::collection::vec((0u8..4, 0u32..40), 0..200)) {
            let mut book = Book::new();
            let mut open = 0i64;
            let mut edge = |edge| open += if matches!(edge, Edge::Begins(_)) { 1 } else { -1 };
            for (time, (what, number)) in operations.into_iter().enumerate() {
                let now = time as u64;
                match what {
                    0 => { book.begin(&format!("r{}", number % 7), Kind::User, now, &mut edge); }
                    1 => { book.end(number, now, &mut edge); }
                    2 => {
                        let level = 3 + number as i32 % 3;
                        book.toggle(level, None, &format!("p{level}"), now, &mut edge);
                    }
                    _ => book.step("init", now, &mut edge),
                }
                prop_assert!(book.depth <= DEPTH);
            }
            let depth = book.depth as i64;
            let times: u32 = book.phases.iter().map(|phase| phase.open).sum();
            prop_assert_eq!(i64::from(times), depth);
            prop_assert_eq!(open, depth);
        }
    }
}
