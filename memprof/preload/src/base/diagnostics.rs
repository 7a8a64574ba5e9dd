//! Notes of failures: said once, kept in the file.

#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use crate::base::kernel;
use crate::base::lock::SpinLock;
use crate::base::options::Text;
use crate::base::thread::Guard;

/// Subject of a note. The numbers are part of the format of traces.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Code {
    /// A setting has a value that cannot be used.
    BadSetting = 1,
    /// The folder for traces is not there or cannot be written.
    NoDirectory = 2,
    /// The file could not be made in full size.
    NoFile = 3,
    /// The kernel does not tell which memory is resident.
    NoResidency = 4,
    /// The sampling thread could not be started.
    NoSampler = 5,
    /// The program brings its own allocator.
    OwnAllocator = 6,
    /// A sanitizer is in the process; the tool stands aside.
    Sanitizer = 7,
    /// Another preloaded object watches or replaces the allocator.
    OtherPreload = 8,
    /// The program runs in an emulator or under valgrind.
    Emulated = 9,
    /// A table of the tool is full; later entries are summed up or left out.
    TableFull = 10,
    /// Calls of MPI are not seen.
    NoBoundary = 11,
    /// The override file has an error.
    BadOverride = 12,
    /// MPI, or everything, is linked into the program.
    Static = 13,
    /// A library of MPI has replaced the first bytes of functions of the C library.
    MemoryHooks = 14,
    /// The kernel does not tell of page faults, or not of all.
    NoFaults = 15,
    /// The control group of the process limits its memory.
    MemoryLimit = 16,
    /// There is too little stack to work on.
    NoStack = 17,
    /// The program is linked to an allocator other than the C library's.
    LinkedAllocator = 18,
    /// A region of the program ended that was not open, or while another was open inside it.
    Regions = 19,
}

/// By these nothing is lost that somebody has to be told at once.
const QUIET: [Code; 5] =
    [Code::Static, Code::MemoryHooks, Code::MemoryLimit, Code::LinkedAllocator, Code::Regions];

/// The longest text of a note.
pub const LENGTH: usize = 120;
const NOTES: usize = 64;

#[derive(Copy, Clone)]
struct Note {
    code: u16,
    text: Text<LENGTH>,
}

struct Notes(UnsafeCell<[Note; NOTES]>);

// SAFETY: written with LOCK held, below COUNT never again.
unsafe impl Sync for Notes {}

static ALL: Notes =
    Notes(UnsafeCell::new([const { Note { code: 0, text: Text::empty() } }; NOTES]));
static COUNT: AtomicUsize = AtomicUsize::new(0);
static LOCK: SpinLock = SpinLock::new();
/// True if the first note may go to standard error: in recorded processes that are not quiet.
static ALOUD: AtomicBool = AtomicBool::new(false);
static SPOKEN: AtomicBool = AtomicBool::new(false);

/// Says something that the reader of the results has to know. The same code twice counts once, except
/// settings, errors of the override file, full tables and regions, of which each is said.
pub fn say(code: Code, text: fmt::Arguments<'_>) {
    let mut line = Text::<LENGTH>::empty();
    let _ = line.write_fmt(text);
    let _guard = Guard::enter();
    LOCK.lock();
    let count = COUNT.load(Ordering::Relaxed);
    // SAFETY: the lock is held.
    let notes = unsafe { &mut *ALL.0.get() };
    let several =
        matches!(code, Code::BadSetting | Code::BadOverride | Code::TableFull | Code::Regions);
    let known = notes[..count].iter().any(|note| {
        note.code == code as u16 && (!several || note.text.as_bytes() == line.as_bytes())
    });
    if !known && count < NOTES {
        notes[count] = Note { code: code as u16, text: line };
        COUNT.store(count + 1, Ordering::Release);
    }
    LOCK.unlock();
    if ALOUD.load(Ordering::Acquire) {
        speak();
    }
}

/// The rank that notes on standard error are of; -1 where there is none.
static RANK: AtomicI32 = AtomicI32::new(-1);

/// Which rank this is, for whoever reads standard error.
pub fn of_rank(rank: i32) {
    RANK.store(rank, Ordering::Relaxed);
}

/// From now on the first note that is not a quiet one goes to standard error as well.
pub fn aloud() {
    ALOUD.store(true, Ordering::Release);
    speak();
}

/// The first note that is not a quiet one, as one line on standard error.
fn speak() {
    let quiet = QUIET.map(|code| code as u16);
    each(0, &mut |_, code, text| {
        if !quiet.contains(&code) && !SPOKEN.swap(true, Ordering::AcqRel) {
            let mut line = Text::<160>::empty();
            line.push(b"memprof: ");
            let rank = RANK.load(Ordering::Relaxed);
            if rank >= 0 {
                let _ = write!(line, "rank {rank}: ");
            }
            line.push(text);
            line.push(b"\n");
            kernel::write(kernel::File(2), line.as_bytes());
        }
    });
}

/// Calls `each` with number, code and text of the notes from a number on.
pub fn each(from: usize, each: &mut dyn FnMut(usize, u16, &[u8])) {
    let count = COUNT.load(Ordering::Acquire);
    for index in from..count {
        // SAFETY: below the count nothing changes any more.
        let note = unsafe { &(*ALL.0.get())[index] };
        each(index, note.code, note.text.as_bytes());
    }
}

/// For [`crate::lifecycle::fork`].
pub fn lock() -> &'static SpinLock {
    &LOCK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_kept_once_and_cut_at_its_limit() {
        let long = "x".repeat(500);
        say(Code::Emulated, format_args!("under {long}"));
        say(Code::Emulated, format_args!("again"));
        let mut found = Vec::new();
        each(0, &mut |_, code, text| {
            if code == Code::Emulated as u16 {
                found.push(text.to_vec());
            }
        });
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].len(), LENGTH);
        assert!(found[0].starts_with(b"under xxx"));
    }
}
