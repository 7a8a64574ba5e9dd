//! Slots of an object's global offset table, even if the table has been made read-only.

#![allow(unsafe_code)]

use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::elf::Image;

/// Returns the word at an address.
///
/// # Safety
///
/// `address` is that of an aligned word that stays valid and is only read and written as a whole.
#[must_use]
pub unsafe fn word(address: usize) -> &'static AtomicUsize {
    // SAFETY: guaranteed by the caller.
    unsafe { &*(address as *const AtomicUsize) }
}

/// Writer of the slots of one object. The page of the last slot stays writable until a slot in
/// another page is written or the writer is dropped, since most slots are in one page.
#[derive(Debug)]
pub struct SlotWriter<'i> {
    image: &'i Image,
    /// Size of a page.
    page_size: usize,
    /// Page that is writable at present.
    page: Option<usize>,
}

fn protect(page: usize, length: usize, rights: c_int) -> bool {
    // SAFETY: a page of an object's own data that only the loader has made read-only.
    unsafe { libc::mprotect(page as *mut libc::c_void, length, rights) == 0 }
}

impl<'i> SlotWriter<'i> {
    /// Creates a writer for an object that stays loaded while the writer lives.
    #[must_use]
    pub fn new(image: &'i Image, page_size: usize) -> SlotWriter<'i> {
        SlotWriter { image, page_size, page: None }
    }

    /// Writes a value to a slot. Returns false if the page is read-only and its rights cannot be changed.
    ///
    /// # Safety
    ///
    /// The slot is an aligned word of a segment of the object, which is writable or was until it was relocated.
    pub unsafe fn write(&mut self, slot: usize, value: usize) -> bool {
        let (from, to) = self.image.read_only;
        let page = slot & !(self.page_size - 1);
        if slot >= from && slot < to && self.page != Some(page) {
            self.close();
            if !protect(page, self.page_size, libc::PROT_READ | libc::PROT_WRITE) {
                return false;
            }
            self.page = Some(page);
        }
        // SAFETY: a word of a writable segment, or of one that is writable now.
        unsafe { word(slot) }.store(value, Ordering::Release);
        true
    }

    fn close(&mut self) {
        // The last page may contain writable data behind the read-only range.
        if let Some(page) = self.page.take()
            && page + self.page_size <= self.image.read_only.1
        {
            protect(page, self.page_size, libc::PROT_READ);
        }
    }
}

impl Drop for SlotWriter<'_> {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_only_slot_is_written_and_protected_again() {
        let size = 4096;
        // SAFETY: a separate mapping, used by this test only.
        let start = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(core::ptr::null_mut(), 2 * size, libc::PROT_READ, flags, -1, 0)
        } as usize;
        let mut image = Image::new(start);
        image.read_only = (start, start + 2 * size);
        let mut writer = SlotWriter::new(&image, size);
        // SAFETY: aligned words of the mapping.
        unsafe {
            assert!(writer.write(start + 8, 41));
            assert!(writer.write(start + size, 42));
        }
        drop(writer);
        // SAFETY: as above; both pages may be read.
        let found = unsafe {
            (word(start + 8).load(Ordering::Relaxed), word(start + size).load(Ordering::Relaxed))
        };
        assert_eq!(found, (41, 42));
        let maps = std::fs::read_to_string("/proc/self/maps").expect("mappings");
        let line = maps.lines().find(|line| line.starts_with(&format!("{start:x}-")));
        assert!(line.is_some_and(|line| line.contains(" r--p ")), "{line:?}");
        // SAFETY: mapped above.
        unsafe { libc::munmap(start as *mut _, 2 * size) };
    }
}
