//! The memory of arrays: files without a name, which other processes of the same node and user can
//! map to copy from.
//!
//! A process opens another's file by process and descriptor. A token first proves that it is the
//! right process: a file with a random word. In another PID namespace or on a foreign host there is
//! no such file, and MPI is used.
#![allow(unsafe_code)]

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{
    FallocateFlags, MemfdFlags, Mode, OFlags, fallocate, fstat, ftruncate, memfd_create, open,
    readlink,
};
use rustix::io::{Errno, pread, pwrite};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

/// Size of a large page on most machines: blocks of at least this size may use large pages. New
/// memory is made ready in portions of this size, which stay in the caches until they are written.
const LARGE: usize = 2 << 20;
const LARGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
/// Names of the files, as the kernel shows them.
const BLOCK: &str = "elastic";
const TOKEN: &str = "elastic-token";
/// `MADV_COLLAPSE`, which the libraries do not have for all platforms.
const COLLAPSE: libc::c_int = 25;

/// Memory of this process, initially zeroed.
#[derive(Debug)]
pub(super) struct Block {
    start: NonNull<u8>,
    bytes: usize,
    /// `None` for an empty block, and if the kernel provides no such file or none of that size.
    file: Option<OwnedFd>,
    /// Portions with pages in place.
    ready: Vec<bool>,
    /// True if large pages are to be requested, which have all been granted so far.
    is_large: bool,
}

// SAFETY: memory of the process, not of a thread; access follows the rules of references.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

/// Maps at an address that is aligned for large pages.
fn mapped(
    file: Option<&OwnedFd>,
    bytes: usize,
    protection: ProtFlags,
) -> Result<NonNull<u8>, Errno> {
    let nowhere = std::ptr::null_mut();
    if bytes < LARGE {
        return mapped_at(nowhere, file, bytes, protection, MapFlags::empty());
    }
    let length = bytes.checked_next_multiple_of(page_size()).ok_or(Errno::NOMEM)?;
    let room = length.checked_add(LARGE).ok_or(Errno::NOMEM)?;
    // SAFETY: a new mapping placed by the kernel touches no existing memory.
    let whole = unsafe { mmap_anonymous(nowhere, room, ProtFlags::empty(), MapFlags::PRIVATE) }?;
    let before = whole.addr().next_multiple_of(LARGE) - whole.addr();
    let start = whole.wrapping_byte_add(before);
    let result = mapped_at(start, file, bytes, protection, MapFlags::FIXED);
    // Done after a failure, too, except for the middle: older kernels may have unmapped it, and
    // another mapping may be there by now.
    let spare = [(whole, before), (start.wrapping_byte_add(length), LARGE - before)];
    for (start, length) in spare.into_iter().filter(|&(_, length)| length > 0) {
        // SAFETY: the unused parts of the mapping made above.
        let _ = unsafe { munmap(start, length) };
    }
    result
}

/// Maps anywhere, or in place of a reserved range.
fn mapped_at(
    place: *mut std::ffi::c_void,
    file: Option<&OwnedFd>,
    bytes: usize,
    protection: ProtFlags,
    flags: MapFlags,
) -> Result<NonNull<u8>, Errno> {
    let start = match file {
        // SAFETY: a new mapping, placed by the kernel or where the caller has reserved room for it.
        Some(file) => unsafe { mmap(place, bytes, protection, flags | MapFlags::SHARED, file, 0) },
        // SAFETY: as above.
        None => unsafe { mmap_anonymous(place, bytes, protection, flags | MapFlags::PRIVATE) },
    }?;
    NonNull::new(start.cast()).ok_or(Errno::NOMEM)
}

/// Returns true if the kernel gives large pages to files like these, by the kernel's own file: the
/// word in brackets is the setting.
fn gives_large_pages(setting: &str) -> bool {
    ["[always]", "[within_size]", "[advise]", "[force]"].iter().any(|word| setting.contains(word))
}

fn has_large_pages() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        std::fs::read_to_string(LARGE_PAGES).is_ok_and(|setting| gives_large_pages(&setting))
    })
}

/// Has the kernel place a portion of a file in one large page, which it does on request even if it
/// does not by itself. That takes a fifth of the time of as many small pages, and makes copying to
/// and from it faster.
fn is_made_large(block: NonNull<u8>, begin: usize) -> bool {
    static IS_UNKNOWN: AtomicBool = AtomicBool::new(false);
    if IS_UNKNOWN.load(Ordering::Relaxed) {
        return false;
    }
    let start = block.as_ptr().wrapping_add(begin).cast();
    // A page has to be present.
    // SAFETY: the caller guarantees that it is mapped; the contents stay the same.
    if unsafe { madvise(start, 1, Advice::LinuxPopulateRead) }.is_err() {
        return false;
    }
    // SAFETY: as above.
    if unsafe { libc::madvise(start, LARGE, COLLAPSE) } == 0 {
        return true;
    }
    if io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) {
        IS_UNKNOWN.store(true, Ordering::Relaxed);
    }
    false
}

impl Block {
    pub fn nothing() -> Self {
        let start = NonNull::dangling();
        Self { start, bytes: 0, file: None, ready: Vec::new(), is_large: false }
    }

    pub fn new(bytes: usize) -> Result<Self, Errno> {
        if bytes == 0 {
            return Ok(Self::nothing());
        }
        if isize::try_from(bytes).is_err() {
            return Err(Errno::NOMEM);
        }
        // The kernel ends a process by a signal if it may not have files of that size
        // (`ulimit -f`).
        let limit = getrlimit(Resource::Fsize).current;
        let may_be_a_file = limit.is_none_or(|limit| bytes as u64 <= limit);
        let file = may_be_a_file.then(|| memfd_create(BLOCK, MemfdFlags::CLOEXEC).ok()).flatten();
        if let Some(file) = &file {
            ftruncate(file, bytes as u64)?;
        }
        let start = mapped(file.as_ref(), bytes, ProtFlags::READ | ProtFlags::WRITE)?;
        if bytes >= LARGE {
            // SAFETY: this block's own memory; the kind of pages does not affect the contents. A
            // refusal does no harm.
            let _ = unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        }
        Ok(Self { start, bytes, file, ready: vec![false; bytes.div_ceil(LARGE)], is_large: true })
    }

    /// Has the kernel provide the pages of a range that is written next, many in one call: one page
    /// at a time, on first touch, takes half as long again. A refusal does no harm.
    pub fn make_ready(&mut self, range: Range<usize>) {
        let end = range.end.min(self.bytes).div_ceil(LARGE);
        for portion in range.start / LARGE..end {
            if std::mem::replace(&mut self.ready[portion], true) {
                continue;
            }
            let begin = portion * LARGE;
            let length = LARGE.min(self.bytes - begin);
            if let Some(file) = self.file.as_ref().filter(|_| !has_large_pages()) {
                if length == LARGE && self.is_large {
                    self.is_large = is_made_large(self.start, begin);
                    if self.is_large {
                        continue;
                    }
                }
                // Small pages are cheaper to get through the file than through the mapping; large
                // pages come from the mapping only.
                let _ = fallocate(file, FallocateFlags::empty(), begin as u64, length as u64);
            }
            // SAFETY: within the mapping; the contents stay the same.
            let _ = unsafe {
                let start = self.start.as_ptr().add(begin);
                madvise(start.cast(), length, Advice::LinuxPopulateWrite)
            };
        }
    }

    /// Uses small pages for this block from now on, if the program computes during the move: one
    /// large page has taken the kernel 12 ms with busy processors.
    pub fn keep_small(&mut self) {
        if std::mem::replace(&mut self.is_large, false) && self.bytes >= LARGE {
            // Also if the kernel gives large pages by itself.
            // SAFETY: this block's own memory; the kind of pages does not affect the contents. A
            // refusal does no harm.
            let _ =
                unsafe { madvise(self.start.as_ptr().cast(), self.bytes, Advice::LinuxNoHugepage) };
        }
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: mapped as long as this lives; other processes only read it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above. Other processes read it during a move, while this process does not
        // write to the parts they read.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }

    /// Returns the descriptor by which other processes open it, if they can.
    pub fn descriptor(&self) -> Option<i32> {
        self.file.as_ref().map(AsRawFd::as_raw_fd)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.bytes != 0 {
            // SAFETY: the mapping made by `new`.
            let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        }
    }
}

/// Identifies a process to other processes that can see its files.
#[derive(Debug)]
pub(super) struct ProcessToken {
    file: OwnedFd,
    word: [u8; 16],
}

/// Process and descriptor of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TokenLocation {
    process: u32,
    descriptor: i32,
    word: [u8; 16],
}

impl ProcessToken {
    /// Makes a token; `None` if the kernel provides no such files.
    pub fn make() -> Option<Self> {
        let file = memfd_create(TOKEN, MemfdFlags::CLOEXEC).ok()?;
        let mut word = [0; 16];
        rustix::rand::getrandom(&mut word[..], rustix::rand::GetRandomFlags::empty()).ok()?;
        (pwrite(&file, &word, 0).ok()? == word.len()).then_some(Self { file, word })
    }

    pub fn place(&self) -> TokenLocation {
        let descriptor = self.file.as_raw_fd();
        TokenLocation { process: std::process::id(), descriptor, word: self.word }
    }
}

impl TokenLocation {
    /// Opens a memory file with this name that the process has under the descriptor, and no other
    /// file.
    ///
    /// In another PID namespace, or on another host, the descriptor may be that of any file, even
    /// one on which this process holds a record lock: opening and closing it would drop the lock. A
    /// path descriptor drops none.
    fn open(&self, descriptor: i32, name: &str) -> Result<OwnedFd, Errno> {
        let path = format!("/proc/{}/fd/{descriptor}", self.process);
        let handle = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let found = format!("/proc/self/fd/{}", handle.as_raw_fd());
        if readlink(found.as_str(), Vec::new())?.to_bytes()
            != format!("/memfd:{name} (deleted)").as_bytes()
        {
            return Err(Errno::NOENT);
        }
        open(found, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())
    }

    /// Returns true if this process can see the files of the other one.
    pub fn is_visible(&self) -> bool {
        let mut word = [0; 16];
        self.open(self.descriptor, TOKEN)
            .is_ok_and(|file| pread(&file, &mut word[..], 0) == Ok(16) && word == self.word)
    }
}

/// Memory of another process, for copying from it.
#[derive(Debug)]
pub(super) struct RemoteView {
    start: NonNull<u8>,
    bytes: usize,
}

impl RemoteView {
    /// Maps a block of `bytes` bytes of a process that is in sight.
    pub fn of(process: &TokenLocation, descriptor: i32, bytes: usize) -> io::Result<Self> {
        let file = process.open(descriptor, BLOCK)?;
        if bytes == 0 || fstat(&file)?.st_size != bytes as i64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Self { start: mapped(Some(&file), bytes, ProtFlags::READ)?, bytes })
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: mapped as long as this lives; in a move its process neither writes to the parts
        // that are read, nor truncates the file.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for RemoteView {
    fn drop(&mut self) {
        // SAFETY: the mapping made by `of`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{FlockOperation, fcntl_lock};

    use super::*;

    #[test]
    fn a_block_is_seen_through_its_descriptor() {
        let mut block = Block::new(10_000).unwrap();
        block.bytes_mut()[9_999] = 7;
        let token = ProcessToken::make().unwrap();
        assert!(token.place().is_visible());
        let sight = RemoteView::of(&token.place(), block.descriptor().unwrap(), 10_000).unwrap();
        block.bytes_mut()[0] = 3;
        assert_eq!((sight.bytes()[0], sight.bytes()[9_999], sight.bytes().len()), (3, 7, 10_000));
    }

    #[test]
    fn block_beyond_the_limit_of_files_is_no_file() {
        use rustix::process::setrlimit;

        // More than any other test of this process writes.
        const LIMIT: usize = 1 << 30;
        let before = getrlimit(Resource::Fsize);
        let limit = rustix::process::Rlimit { current: Some(LIMIT as u64), ..before };
        setrlimit(Resource::Fsize, limit).unwrap();
        let mut block = Block::new(LIMIT + 1).unwrap();
        let small = Block::new(LIMIT >> 10).unwrap();
        setrlimit(Resource::Fsize, before).unwrap();
        block.bytes_mut()[LIMIT] = 7;
        assert!(block.descriptor().is_none() && small.descriptor().is_some());
    }

    #[test]
    fn prepared_memory_is_unchanged_and_stays_within_its_end() {
        let mut block = Block::new(2 * LARGE + 10).unwrap();
        block.bytes_mut()[2 * LARGE + 9] = 7;
        block.make_ready(LARGE - 1..LARGE + 1);
        assert_eq!(block.ready, [true, true, false]);
        block.make_ready(2 * LARGE..usize::MAX);
        assert_eq!(block.ready, [true; 3]);
        let bytes = block.bytes();
        assert!(bytes[..2 * LARGE + 9].iter().all(|&byte| byte == 0) && bytes.ends_with(&[7]));
        Block::nothing().make_ready(0..10);
    }

    #[test]
    fn large_pages_fit_in_and_keep_what_was_there() {
        let mut block = Block::new(2 * LARGE + 10).unwrap();
        assert_eq!(block.start.addr().get() % LARGE, 0);
        block.bytes_mut()[LARGE - 1] = 7;
        block.bytes_mut()[LARGE + 5] = 8;
        let token = ProcessToken::make().unwrap();
        let sight = RemoteView::of(&token.place(), block.descriptor().unwrap(), 2 * LARGE + 10);
        let sight = sight.unwrap();
        assert_eq!((sight.bytes()[LARGE - 1], sight.start.addr().get() % LARGE), (7, 0));
        block.make_ready(0..usize::MAX);
        block.bytes_mut()[2 * LARGE + 9] = 9;
        let seen = [LARGE - 1, LARGE, LARGE + 5, 2 * LARGE + 9].map(|at| sight.bytes()[at]);
        assert_eq!(seen, [7, 0, 8, 9]);
    }

    #[test]
    fn large_pages_are_given_where_the_kernel_says_so() {
        assert!(gives_large_pages("always within_size [advise] never deny force\n"));
        assert!(!gives_large_pages("always within_size advise [never] deny force\n"));
        assert!(!gives_large_pages(""));
    }

    #[test]
    fn other_word_length_and_process_are_not_seen() {
        let token = ProcessToken::make().unwrap();
        let place = token.place();
        assert!(!TokenLocation { word: [0; 16], ..place }.is_visible());
        assert!(!TokenLocation { descriptor: i32::MAX, ..place }.is_visible());
        assert!(!TokenLocation { process: 1 << 30, ..place }.is_visible());
        let block = Block::new(100).unwrap();
        assert!(RemoteView::of(&place, block.descriptor().unwrap(), 99).is_err());
    }

    #[test]
    fn descriptor_of_a_locked_file_stays_locked() {
        let file = memfd_create("segment", MemfdFlags::CLOEXEC).unwrap();
        let token = ProcessToken::make().unwrap();
        pwrite(&file, &token.word, 0).unwrap();
        fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        let inode = format!(":{} ", fstat(&file).unwrap().st_ino);
        let is_locked = || std::fs::read_to_string("/proc/locks").unwrap().contains(&inode);
        assert!(is_locked());
        let place = TokenLocation { descriptor: file.as_raw_fd(), ..token.place() };
        assert!(!place.is_visible());
        assert!(RemoteView::of(&place, file.as_raw_fd(), 16).is_err());
        assert!(is_locked());
    }

    #[test]
    fn memory_of_nothing_is_possible_and_of_everything_is_not() {
        assert!(Block::new(0).unwrap().bytes().is_empty());
        assert_eq!(Block::new(usize::MAX).unwrap_err(), Errno::NOMEM);
    }
}
