//! Kernel files that are read for every sample, and buffers for their contents.

use super::list::List;
use super::maps;
use crate::base::kernel;
use crate::base::memory;
use crate::base::pagemap::{Run, Scanner};
use crate::base::reserved_fds::Kept;

/// Bytes of text read at once.
const TEXT: usize = 8192;

/// Files opened once, and buffers.
pub struct Sources {
    pub scanner: Option<Scanner>,
    statm: Option<Kept>,
    pub list: Option<List>,
    pub status: Option<Kept>,
    /// Buffer for text of the kernel; not on the stack, which may be a program's small one.
    pub text: Option<&'static mut [u8]>,
    pub runs: [Run; 512],
}

impl Sources {
    pub const fn new() -> Sources {
        Sources {
            scanner: None,
            statm: None,
            list: None,
            status: None,
            text: None,
            runs: [const { Run::EMPTY }; 512],
        }
    }

    /// Opens the files that are read repeatedly. Returns false if the kernel does not report which
    /// pages are resident.
    pub fn open(&mut self) -> bool {
        if self.text.is_none() {
            // SAFETY: all zeros is text.
            #[allow(unsafe_code)]
            let text = unsafe { memory::slice(TEXT) };
            self.text = text;
        }
        self.statm = Kept::open(c"/proc/self/statm").ok();
        self.list = List::open();
        self.status = Kept::open(c"/proc/self/status").ok();
        self.scanner = Scanner::open().ok().filter(|_| self.list.is_some());
        self.scanner.is_some()
    }

    /// Closes all files, in a forked child.
    pub fn close(&mut self) {
        let files = [self.statm.take(), self.status.take()];
        files.into_iter().flatten().for_each(Kept::close);
        if let Some(list) = self.list.take() {
            list.close();
        }
        if let Some(scanner) = self.scanner.take() {
            scanner.close();
        }
    }

    /// Returns the bytes that the kernel counts as resident.
    pub fn resident(&mut self) -> u64 {
        let mut text = [0; 128];
        let length = self.statm.as_mut().and_then(|file| file.read_at(&mut text, 0).ok());
        let pages = length.and_then(|length| maps::statm_resident(&text[..length]));
        pages.unwrap_or(0) * kernel::page() as u64
    }
}
