//! Notes about failures: each is reported once and stored in the file.

#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use crate::base::kernel;
use crate::base::lock::SpinLock;
use crate::base::options::Text;
use crate::base::thread::Guard;

/// Subject of a note. The numbers are part of the trace format.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Code {
    /// A setting has a value that cannot be used.
    BadSetting = 1,
    /// The directory for traces does not exist or cannot be written.
    NoDirectory = 2,
    /// The file could not be created in full size.
    NoFile = 3,
    /// The kernel does not report which memory is resident.
    NoResidency = 4,
    /// The sampling thread could not be started.
    NoSampler = 5,
    /// The program contains its own allocator.
    OwnAllocator = 6,
    /// A sanitizer is in the process; the tool is disabled.
    Sanitizer = 7,
    /// Another preloaded object watches or replaces the allocator.
    OtherPreload = 8,
    /// The program runs in an emulator or under valgrind.
    Emulated = 9,
    /// A table of the tool is full; later entries are merged or dropped.
    TableFull = 10,
    /// MPI calls are not seen.
    NoBoundary = 11,
    /// The override file has an error.
    BadOverride = 12,
    /// MPI, or everything, is linked into the program.
    Static = 13,
    /// An MPI library has replaced the first bytes of functions of the C library.
    MemoryHooks = 14,
    /// The kernel does not report page faults, or not all of them.
    NoFaults = 15,
    /// The control group of the process limits its memory.
    MemoryLimit = 16,
    /// The stack is too small.
    NoStack = 17,
    /// The program is linked to an allocator other than the C library's.
    LinkedAllocator = 18,
    /// A region of the program ended that was not open, or while another one was open inside it.
    Regions = 19,
    /// An object has looked up functions of an allocator that the program does not call by name.
    UnseenBlocks = 20,
}

/// Codes that need no immediate message: no data are lost, or the report is early enough.
const QUIET: [Code; 6] = [
    Code::Static,
    Code::MemoryHooks,
    Code::MemoryLimit,
    Code::LinkedAllocator,
    Code::Regions,
    Code::UnseenBlocks,
];

/// Maximum length of a note's text.
pub const LENGTH: usize = 120;
const NOTES: usize = 64;

#[derive(Copy, Clone)]
struct Note {
    code: u16,
    text: Text<LENGTH>,
}

struct Notes(UnsafeCell<[Note; NOTES]>);

// SAFETY: written with LOCK held; entries below COUNT never change.
unsafe impl Sync for Notes {}

static ALL: Notes =
    Notes(UnsafeCell::new([const { Note { code: 0, text: Text::empty() } }; NOTES]));
static COUNT: AtomicUsize = AtomicUsize::new(0);
static LOCK: SpinLock = SpinLock::new();
/// True if the first note may go to standard error, as in recorded processes without the quiet
/// option.
static ALOUD: AtomicBool = AtomicBool::new(false);
static SPOKEN: AtomicBool = AtomicBool::new(false);

/// Records a note for the reader of the results. A repeated code is recorded once, except settings,
/// errors of the override file, full tables and regions, of which each one is.
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

/// Rank that is named in notes on standard error; -1 where there is none.
static RANK: AtomicI32 = AtomicI32::new(-1);

/// Sets the rank that is named in notes on standard error.
pub fn of_rank(rank: i32) {
    RANK.store(rank, Ordering::Relaxed);
}

/// From now on, writes the first note that is not a quiet one to standard error as well.
pub fn aloud() {
    ALOUD.store(true, Ordering::Release);
    speak();
}

/// Writes the first note that is not a quiet one to standard error, as one line.
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

/// Calls `each` with number, code and text of the notes from number `from` on.
pub fn each(from: usize, each: &mut dyn FnMut(usize, u16, &[u8])) {
    let count = COUNT.load(Ordering::Acquire);
    for index in from..count {
        // SAFETY: entries below the count never change.
        let note = unsafe { &(*ALL.0.get())[index] };
        each(index, note.code, note.text.as_bytes());
    }
}

/// Returns the lock, for [`crate::lifecycle::fork`].
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
