//! The memory that arrays lie in: files without a name, which other processes of the node and the same user can
//! map to copy from.
//!
//! A process finds another's file by process and descriptor. That it is the right one is known by a beacon first, a file
//! with a random word in it: another PID namespace or a foreign host has no such file, and then MPI is used.
#![allow(unsafe_code)]

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::OnceLock;

use rustix::fs::{
    FallocateFlags, MemfdFlags, Mode, OFlags, fallocate, fstat, ftruncate, memfd_create, open,
};
use rustix::io::{Errno, pread, pwrite};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use serde::{Deserialize, Serialize};

/// Blocks of this size may consist of larger pages. New memory is made ready in portions of it, which the caches hold
/// until they are written.
const LARGE: usize = 2 << 20;
const LARGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

/// Memory of this process, zeroed at first.
#[derive(Debug)]
pub(super) struct Block {
    start: NonNull<u8>,
    bytes: usize,
    /// None where there is nothing to map, and where the kernel gives no such files.
    file: Option<OwnedFd>,
    /// Portions whose pages are there.
    ready: Vec<bool>,
}

// SAFETY: memory of the process, not of a thread; access goes by the rules of references.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

fn mapped(
    file: Option<&OwnedFd>,
    bytes: usize,
    protection: ProtFlags,
) -> Result<NonNull<u8>, Errno> {
    let nowhere = std::ptr::null_mut();
    let start = match file {
        // SAFETY: a new mapping placed by the kernel touches no existing memory.
        Some(file) => unsafe { mmap(nowhere, bytes, protection, MapFlags::SHARED, file, 0) },
        // SAFETY: as above.
        None => unsafe { mmap_anonymous(nowhere, bytes, protection, MapFlags::PRIVATE) },
    }?;
    NonNull::new(start.cast()).ok_or(Errno::NOMEM)
}

/// Whether the kernel gives large pages to files such as ours, as the file that says it has it: the word in brackets
/// is what is set.
fn gives_large_pages(setting: &str) -> bool {
    ["[always]", "[within_size]", "[advise]", "[force]"].iter().any(|word| setting.contains(word))
}

fn has_large_pages() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        std::fs::read_to_string(LARGE_PAGES).is_ok_and(|setting| gives_large_pages(&setting))
    })
}

impl Block {
    pub fn nothing() -> Self {
        Self { start: NonNull::dangling(), bytes: 0, file: None, ready: Vec::new() }
    }

    pub fn new(bytes: usize) -> Result<Self, Errno> {
        if bytes == 0 {
            return Ok(Self::nothing());
        }
        if isize::try_from(bytes).is_err() {
            return Err(Errno::NOMEM);
        }
        let file = memfd_create("elastic", MemfdFlags::CLOEXEC).ok();
        if let Some(file) = &file {
            ftruncate(file, bytes as u64)?;
        }
        let start = mapped(file.as_ref(), bytes, ProtFlags::READ | ProtFlags::WRITE)?;
        if bytes >= LARGE {
            // SAFETY: ours; what its pages are like changes nothing in them. Refused is as good.
            let _ = unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        }
        Ok(Self { start, bytes, file, ready: vec![false; bytes.div_ceil(LARGE)] })
    }

    /// Has the kernel provide the pages of a range that is written next, many in one call: one by one, when each is
    /// touched, costs half as much again. Refused is as good.
    pub fn make_ready(&mut self, range: Range<usize>) {
        let end = range.end.min(self.bytes).div_ceil(LARGE);
        for portion in range.start / LARGE..end {
            if std::mem::replace(&mut self.ready[portion], true) {
                continue;
            }
            let begin = portion * LARGE;
            let length = LARGE.min(self.bytes - begin);
            // Small pages are had cheaper from the file than from the mapping; large ones come from the mapping only.
            if let Some(file) = self.file.as_ref().filter(|_| !has_large_pages()) {
                let _ = fallocate(file, FallocateFlags::empty(), begin as u64, length as u64);
            }
            // SAFETY: within what is mapped; the contents stay as they are.
            let _ = unsafe {
                let start = self.start.as_ptr().add(begin);
                madvise(start.cast(), length, Advice::LinuxPopulateWrite)
            };
        }
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: mapped as long as this lives; others only read it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above. Others look at it in a move, while this process does not write to what they read.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }

    /// By which others find it, if they can.
    pub fn descriptor(&self) -> Option<i32> {
        self.file.as_ref().map(AsRawFd::as_raw_fd)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.bytes != 0 {
            // SAFETY: what `new` mapped.
            let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        }
    }
}

/// By which a process is known to those who can see its files.
#[derive(Debug)]
pub(super) struct Beacon {
    file: OwnedFd,
    word: [u8; 16],
}

/// Where a beacon is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    process: u32,
    descriptor: i32,
    word: [u8; 16],
}

impl Beacon {
    /// None where the kernel gives no such files.
    pub fn light() -> Option<Self> {
        let file = memfd_create("elastic-beacon", MemfdFlags::CLOEXEC).ok()?;
        let mut word = [0; 16];
        rustix::rand::getrandom(&mut word[..], rustix::rand::GetRandomFlags::empty()).ok()?;
        (pwrite(&file, &word, 0).ok()? == word.len()).then_some(Self { file, word })
    }

    pub fn place(&self) -> Place {
        let descriptor = self.file.as_raw_fd();
        Place { process: std::process::id(), descriptor, word: self.word }
    }
}

impl Place {
    fn open(&self, descriptor: i32) -> Result<OwnedFd, Errno> {
        let path = format!("/proc/{}/fd/{descriptor}", self.process);
        open(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())
    }

    /// Whether this process can see the files of that one.
    pub fn is_in_sight(&self) -> bool {
        let mut word = [0; 16];
        self.open(self.descriptor).is_ok_and(|file| {
            // Whatever it is, it is only read if it is a file as ours.
            let is_file = fstat(&file).is_ok_and(|found| found.st_size == 16);
            is_file && pread(&file, &mut word[..], 0) == Ok(16) && word == self.word
        })
    }
}

/// Memory of another process, to copy from.
#[derive(Debug)]
pub(super) struct Sight {
    start: NonNull<u8>,
    bytes: usize,
}

impl Sight {
    /// A block of `bytes` bytes, of a process that is in sight.
    pub fn of(process: &Place, descriptor: i32, bytes: usize) -> io::Result<Self> {
        let file = process.open(descriptor)?;
        if bytes == 0 || fstat(&file)?.st_size != bytes as i64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Self { start: mapped(Some(&file), bytes, ProtFlags::READ)?, bytes })
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: mapped as long as this lives; its process does not write to what is read of it in a move, nor make
        // the file shorter.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Sight {
    fn drop(&mut self) {
        // SAFETY: what `of` mapped.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_seen_through_its_descriptor() {
        let mut block = Block::new(10_000).unwrap();
        block.bytes_mut()[9_999] = 7;
        let beacon = Beacon::light().unwrap();
        assert!(beacon.place().is_in_sight());
        let sight = Sight::of(&beacon.place(), block.descriptor().unwrap(), 10_000).unwrap();
        block.bytes_mut()[0] = 3;
        assert_eq!((sight.bytes()[0], sight.bytes()[9_999], sight.bytes().len()), (3, 7, 10_000));
    }

    #[test]
    fn memory_made_ready_is_as_it_was_and_stays_within_its_end() {
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
    fn large_pages_are_given_where_the_kernel_says_so() {
        assert!(gives_large_pages("always within_size [advise] never deny force\n"));
        assert!(!gives_large_pages("always within_size advise [never] deny force\n"));
        assert!(!gives_large_pages(""));
    }

    #[test]
    fn another_word_another_length_and_another_process_are_not_in_sight() {
        let beacon = Beacon::light().unwrap();
        let place = beacon.place();
        assert!(!Place { word: [0; 16], ..place }.is_in_sight());
        assert!(!Place { descriptor: i32::MAX, ..place }.is_in_sight());
        assert!(!Place { process: 1 << 30, ..place }.is_in_sight());
        let block = Block::new(100).unwrap();
        assert!(Sight::of(&place, block.descriptor().unwrap(), 99).is_err());
    }

    #[test]
    fn memory_of_nothing_is_possible_and_of_everything_is_not() {
        assert!(Block::new(0).unwrap().bytes().is_empty());
        assert_eq!(Block::new(usize::MAX).unwrap_err(), Errno::NOMEM);
    }
}
