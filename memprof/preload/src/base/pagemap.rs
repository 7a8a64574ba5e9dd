//! Finds present pages, with the kernel's `PAGEMAP_SCAN`, or with the table of pages on kernels
//! older than 6.7.

#![allow(unsafe_code)]

use crate::base::kernel::{self, Errno, File};
use crate::base::memory;
use crate::base::reserved_fds::Kept;

/// A range of pages with the same properties.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Run {
    pub start: u64,
    pub end: u64,
    categories: u64,
}

const FILE: u64 = 1 << 2;
const PRESENT: u64 = 1 << 3;
const SWAPPED: u64 = 1 << 4;
const ZERO: u64 = 1 << 5;
const HUGE: u64 = 1 << 6;

impl Run {
    pub const EMPTY: Run = Run { start: 0, end: 0, categories: 0 };

    /// Marks the pages as shared by all processes.
    pub fn set_shared(&mut self) {
        self.categories |= FILE;
    }

    /// Returns the part before an address.
    pub fn until(&self, end: u64) -> Run {
        Run { end: self.end.min(end), ..*self }
    }

    /// Returns true for pages in memory; others are swapped out.
    pub fn is_present(&self) -> bool {
        self.categories & PRESENT != 0
    }

    /// Returns true for pages of a file or of shared memory, which other processes can have too.
    pub fn is_shared(&self) -> bool {
        self.categories & FILE != 0
    }

    /// Returns true for pages in a huge page.
    pub fn is_huge(&self) -> bool {
        self.categories & HUGE != 0
    }

    #[cfg(test)]
    pub fn new(start: usize, end: usize, present: bool, shared: bool, huge: bool) -> Run {
        let bit = |set, bit| if set { bit } else { 0 };
        let categories =
            bit(shared, FILE) | bit(huge, HUGE) | bit(present, PRESENT) | bit(!present, SWAPPED);
        Run { start: start as u64, end: end as u64, categories }
    }
}

/// Argument of `PAGEMAP_SCAN`.
#[repr(C)]
#[derive(Default)]
struct Request {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

const SCAN: usize = 0xC060_6610;

/// Number of pages examined while the kernel's lock on the mappings is held: 64 MiB of small ones.
const CHUNK: u64 = 16384;
/// Number of entries read at once from the table of pages, where that is used.
const TABLE: usize = 2048;

/// Access to the pages of this process.
pub struct Scanner {
    file: Kept,
    /// Buffer for a part of the table, where the kernel does not support the call; not on the
    /// stack, which may be a program's small one.
    table: Option<&'static mut [u64]>,
}

impl Scanner {
    /// Opens the scanner. Fails where the kernel does not report pages.
    pub fn open() -> Result<Scanner, Errno> {
        let file = Kept::open(c"/proc/self/pagemap")?;
        let mut scanner = Scanner { file, table: None };
        let here = (&raw const scanner as usize) & !(kernel::page() - 1);
        let mut runs = [Run::default(); 4];
        let mut works = |scanner: &mut Scanner| {
            let found = scanner.next(here, here + kernel::page(), true, &mut runs);
            matches!(found, Ok((1, _))) && runs[0].is_present()
        };
        if works(&mut scanner) {
            return Ok(scanner);
        }
        // SAFETY: zeroes are numbers.
        scanner.table = unsafe { memory::slice(TABLE) };
        if works(&mut scanner) {
            return Ok(scanner);
        }
        scanner.close();
        Err(Errno(libc::ENOTTY))
    }

    pub fn close(self) {
        self.file.close();
    }

    /// Returns true if a scanned range may have holes; otherwise it should be one mapping.
    pub fn crosses_holes(&self) -> bool {
        self.table.is_none()
    }

    /// Finds the runs of present and of swapped pages from `start` on, as many as there is room for
    /// or as one chunk has. Returns their number, and the end of the scanned range. Zero pages are
    /// not included. Without `files`, it may not be known whether a page is a file's; with it, each
    /// page costs many times as much.
    pub fn next(
        &mut self,
        start: usize,
        end: usize,
        files: bool,
        into: &mut [Run],
    ) -> Result<(usize, usize), Errno> {
        match &mut self.table {
            None => scan(self.file.file()?, start, end, files, into),
            Some(table) => read(&mut self.file, table, start, end, into),
        }
    }

    /// Returns the open file for several scans in quick succession.
    pub fn file(&mut self) -> Option<File> {
        self.file.file().ok()
    }

    /// Does what [`Self::next`] does, with that file. If the program has meanwhile put another file
    /// in its place, the kernel reports that it does not support the call, and the scan is repeated
    /// with a new file.
    pub fn next_of(
        &mut self,
        file: Option<File>,
        start: usize,
        end: usize,
        files: bool,
        into: &mut [Run],
    ) -> Result<(usize, usize), Errno> {
        match file {
            Some(file) if self.table.is_none() => {
                scan(file, start, end, files, into).or_else(|_| self.next(start, end, files, into))
            }
            _ => self.next(start, end, files, into),
        }
    }
}

/// Does what [`Scanner::next`] does, by the table of pages.
fn read(
    file: &mut Kept,
    table: &mut [u64],
    start: usize,
    end: usize,
    into: &mut [Run],
) -> Result<(usize, usize), Errno> {
    let page = kernel::page();
    let pages = ((end - start) / page).min(table.len());
    // SAFETY: any bytes are valid numbers.
    let bytes =
        unsafe { core::slice::from_raw_parts_mut(table.as_mut_ptr().cast::<u8>(), pages * 8) };
    let pages = file.read_at(bytes, (start / page * 8) as u64)? / 8;
    if pages == 0 {
        return Ok((0, end));
    }
    Ok(runs_of(&table[..pages], start, page, into))
}

fn scan(
    file: File,
    start: usize,
    end: usize,
    files: bool,
    into: &mut [Run],
) -> Result<(usize, usize), Errno> {
    let shared = if files { FILE } else { 0 };
    let mut request = Request {
        size: size_of::<Request>() as u64,
        start: start as u64,
        end: end as u64,
        vec: into.as_mut_ptr() as u64,
        vec_len: into.len() as u64,
        max_pages: CHUNK,
        category_inverted: ZERO,
        category_mask: ZERO,
        category_anyof_mask: PRESENT | SWAPPED,
        return_mask: PRESENT | SWAPPED | HUGE | shared,
        ..Request::default()
    };
    let words = [file.0 as usize, SCAN, (&raw mut request) as usize, 0, 0, 0];
    // SAFETY: the request and the buffer for runs are valid; Run has the kernel's layout.
    let count = unsafe { kernel::call(libc::SYS_ioctl, words)? };
    let walked = (request.walk_end as usize).clamp(start, end);
    // The kernel always makes progress; if it did not, the caller would have to.
    let walked = if walked == start { end } else { walked };
    Ok((count.min(into.len()), walked))
}

/// Makes runs from entries of the table of pages. Returns their number, and the end of the range.
fn runs_of(table: &[u64], start: usize, page: usize, into: &mut [Run]) -> (usize, usize) {
    let mut count = 0;
    for (index, &entry) in table.iter().enumerate() {
        let here = (start + index * page) as u64;
        let categories = match (entry >> 63 & 1, entry >> 62 & 1) {
            (1, _) => PRESENT,
            (_, 1) => SWAPPED,
            _ => continue,
        } | if entry >> 61 & 1 == 1 { FILE } else { 0 };
        let end = here + page as u64;
        if count > 0 && into[count - 1].end == here && into[count - 1].categories == categories {
            into[count - 1].end = end;
        } else if count == into.len() {
            return (count, here as usize);
        } else {
            into[count] = Run { start: here, end, categories };
            count += 1;
        }
    }
    (count, start + table.len() * page)
}

#[cfg(test)]
mod tests {
    use core::ffi::c_void;
    use core::ptr;

    use super::*;

    fn all(scanner: &mut Scanner, start: usize, end: usize) -> Vec<Run> {
        let mut found = Vec::new();
        let mut at = start;
        let mut runs = [Run::default(); 3];
        while at < end {
            let (count, to) = scanner.next(at, end, true, &mut runs).unwrap();
            assert!(to > at);
            for run in &runs[..count] {
                match found.last_mut() {
                    Some(Run { end, .. }) if *end == run.start => *end = run.end,
                    _ => found.push(*run),
                }
            }
            at = to;
        }
        found
    }

    /// Makes the scanner use the table, as on a kernel that supports nothing else.
    fn read_the_table(scanner: &mut Scanner) {
        // SAFETY: zeros are valid numbers.
        scanner.table = unsafe { memory::slice(TABLE) };
        assert!(scanner.table.is_some());
    }

    /// Returns the bytes of its stack that a thread uses for `work`.
    fn stack_of(work: extern "C" fn(*mut c_void) -> *mut c_void, with: *mut c_void) -> usize {
        let size = 256 * 1024;
        let start = kernel::map_anonymous(size).unwrap();
        // SAFETY: the first call creates the attributes and the last destroys them; the stack lives
        // until the thread has ended.
        unsafe {
            let mut attributes = core::mem::zeroed::<libc::pthread_attr_t>();
            libc::pthread_attr_init(&raw mut attributes);
            libc::pthread_attr_setstack(&raw mut attributes, start as *mut c_void, size);
            let mut thread = core::mem::zeroed();
            let failed = libc::pthread_create(&raw mut thread, &raw const attributes, work, with);
            assert_eq!(failed, 0);
            libc::pthread_join(thread, ptr::null_mut());
            libc::pthread_attr_destroy(&raw mut attributes);
            let stack = core::slice::from_raw_parts(start as *const u8, size);
            let untouched = stack.iter().take_while(|byte| **byte == 0).count();
            libc::munmap(start as *mut _, size);
            size - untouched
        }
    }

    #[test]
    fn page_table_needs_no_room_on_the_callers_stack() {
        extern "C" fn ask(scanner: *mut c_void) -> *mut c_void {
            if !scanner.is_null() {
                // SAFETY: the test's scanner, which is not used elsewhere meanwhile.
                let scanner = unsafe { &mut *scanner.cast::<Scanner>() };
                let here = (&raw const *scanner as usize) & !(kernel::page() - 1);
                let mut runs = [Run::default(); 3];
                assert_eq!(
                    scanner.next(here, here + kernel::page(), true, &mut runs).unwrap().0,
                    1
                );
            }
            ptr::null_mut()
        }
        let Ok(mut scanner) = Scanner::open() else { return };
        read_the_table(&mut scanner);
        let nothing = stack_of(ask, ptr::null_mut());
        let asked = stack_of(ask, (&raw mut scanner).cast());
        assert!(asked < nothing + 4096, "{asked} of {nothing}");
        scanner.close();
    }

    #[test]
    fn touched_pages_are_found_both_ways() {
        let page = kernel::page();
        let pages = 3000;
        let start = kernel::map_anonymous(pages * page).unwrap();
        let touched = [0, 1, 2, 7, 9, 2047, 2048, 2049, 2999];
        for index in touched {
            // SAFETY: within the range just mapped.
            unsafe { core::ptr::write_volatile((start + index * page) as *mut u8, 1) };
        }
        let Ok(mut scanner) = Scanner::open() else { return };
        for older in [false, true] {
            if older {
                read_the_table(&mut scanner);
            }
            let found: Vec<_> = all(&mut scanner, start, start + pages * page)
                .iter()
                .flat_map(|run| (run.start as usize..run.end as usize).step_by(page))
                .map(|address| (address - start) / page)
                .collect();
            assert_eq!(found, touched);
        }
        scanner.close();
        // SAFETY: mapped above, and no longer used.
        unsafe { libc::munmap(start as *mut _, pages * page) };
    }

    #[test]
    fn replaced_kernel_file_is_not_asked_twice() {
        let there = core::hint::black_box(1_u8);
        let here = (&raw const there as usize) & !(kernel::page() - 1);
        let Ok(mut scanner) = Scanner::open() else { return };
        let mut runs = [Run::default(); 3];
        let mut ask = |scanner: &mut Scanner, file| {
            scanner.next_of(file, here, here + kernel::page(), true, &mut runs).map(|found| found.0)
        };
        let file = scanner.file();
        assert_eq!(ask(&mut scanner, file), Ok(1));
        let theirs = kernel::open(c"/proc/self/exe").unwrap();
        let number = file.unwrap().0;
        // SAFETY: a number of the scanner, which no other code uses.
        assert_eq!(unsafe { libc::dup3(theirs.0, number, libc::O_CLOEXEC) }, number);
        assert_eq!(ask(&mut scanner, file), Ok(1), "asked anew");
        kernel::close(File(number));
        assert_eq!(ask(&mut scanner, file), Ok(1), "of a number that is no file's");
        kernel::close(theirs);
        scanner.close();
    }

    #[test]
    fn entries_of_the_table_become_runs() {
        let (present, swapped, file) = (1 << 63, 1 << 62, 1 << 61);
        let table = [present, present, 0, swapped, present | file, present];
        let mut runs = [Run::default(); 8];
        let (count, to) = runs_of(&table, 4096, 4096, &mut runs);
        assert_eq!((count, to), (4, 7 * 4096));
        assert_eq!(runs[0], Run::new(4096, 3 * 4096, true, false, false));
        assert_eq!(runs[1], Run::new(4 * 4096, 5 * 4096, false, false, false));
        assert_eq!(runs[2], Run::new(5 * 4096, 6 * 4096, true, true, false));
        let (count, to) = runs_of(&table, 4096, 4096, &mut runs[..2]);
        assert_eq!((count, to), (2, 5 * 4096));
    }
}
