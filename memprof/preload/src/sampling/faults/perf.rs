//! Kernel interface: an event for each page fault of a thread, and the ring that the events are
//! written into.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};

use super::ring::{self, Fault, STACK_BYTES, Seen};
use crate::base::kernel::{self, Errno, File};
use crate::base::memory;

/// `struct perf_event_attr` as of Linux 4.1, which later kernels accept as well.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample: u64,
    read: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    config1: u64,
    config2: u64,
    branches: u64,
    registers: u64,
    stack: u32,
    clock: i32,
    interrupt_registers: u64,
    auxiliary: u32,
    depth: u16,
    reserved: u16,
}

const SOFTWARE: u32 = 1;
const PAGE_FAULTS: u64 = 2;
/// Instruction, process and thread, address, stack.
const SAMPLE: u64 = 1 | 1 << 1 | 1 << 3 | 1 << 13;
const WITHOUT_KERNEL: u64 = 1 << 5;
const WITHOUT_HYPERVISOR: u64 = 1 << 6;
const CLOSE_ON_EXEC: usize = 8;

/// Offsets in the first page: the kernel's position, the tool's, and that of the ring.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
const DATA: usize = 1040;

/// Ring with the events of one thread.
#[derive(Copy, Clone)]
pub struct Ring {
    start: usize,
    /// Size of the whole mapping.
    size: usize,
}

/// Watches the calling thread, with room for about `bytes` bytes of events, or as many as the
/// kernel allows. Includes touches by the kernel in the thread's system calls where that is
/// permitted.
pub fn watch(bytes: usize) -> Result<Ring, Errno> {
    let file = open(0).or_else(|_| open(WITHOUT_KERNEL))?;
    let page = kernel::page();
    let mut pages = (bytes / page).next_power_of_two();
    loop {
        let size = (pages + 1) * page;
        match kernel::map_at(0, size, libc::MAP_SHARED, file.0) {
            Ok(start) => {
                memory::adopt(start, size);
                // The mapping keeps the event alive; the file number, which the program may close,
                // is not needed.
                kernel::close(file);
                return Ok(Ring { start, size });
            }
            // The size exceeds what an unprivileged user may have.
            Err(_) if pages > 4 => pages /= 2,
            Err(error) => {
                kernel::close(file);
                return Err(error);
            }
        }
    }
}

fn open(more: u64) -> Result<File, Errno> {
    let attributes = Attributes {
        kind: SOFTWARE,
        size: size_of::<Attributes>() as u32,
        config: PAGE_FAULTS,
        period: 1,
        sample: SAMPLE,
        flags: WITHOUT_HYPERVISOR | more,
        stack: STACK_BYTES as u32,
        ..Attributes::default()
    };
    // This thread, on any processor, in no group.
    let words = [(&raw const attributes) as usize, 0, usize::MAX, usize::MAX, CLOSE_ON_EXEC, 0];
    // SAFETY: the attributes have the size that they state.
    let file = unsafe { kernel::call(libc::SYS_perf_event_open, words) }?;
    Ok(File(file as i32))
}

impl Ring {
    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: in the first page of the mapping, aligned, and mapped permanently.
        unsafe { &*((self.start + at) as *const AtomicU64) }
    }

    /// Takes the events out of the ring.
    pub fn take(&self, each: &mut dyn FnMut(&Fault)) -> Seen {
        // The kernel writes the position after the records.
        let head = self.word(HEAD).load(Ordering::Acquire);
        let tail = self.word(TAIL).load(Ordering::Relaxed);
        if head == tail {
            return Seen::default();
        }
        let (offset, length) = (self.word(DATA).load(Ordering::Relaxed) as usize, self.data());
        if offset == 0 || offset + length > self.size {
            return Seen::default();
        }
        // SAFETY: inside the mapping; the kernel does not write between the two positions.
        let data =
            unsafe { core::slice::from_raw_parts((self.start + offset) as *const u8, length) };
        let seen = ring::faults(data, tail, head, each);
        self.word(TAIL).store(head, Ordering::Release);
        seen
    }

    fn data(&self) -> usize {
        self.size - kernel::page()
    }
}

const _: () = assert!(size_of::<Attributes>() == 112);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_that_this_thread_touches_first_is_told() {
        let Ok(ring) = watch(1 << 20) else {
            eprintln!("skipped: the kernel does not tell of page faults here");
            return;
        };
        let pages = 300;
        let start = kernel::map_anonymous(pages * kernel::page()).expect("memory");
        for page in 0..pages {
            // SAFETY: just mapped.
            unsafe { ((start + page * kernel::page()) as *mut u8).write_volatile(1) };
        }
        let mut touched = 0;
        let here = every_page_that_this_thread_touches_first_is_told as *const () as usize;
        let seen = ring.take(&mut |fault| {
            if (start..start + pages * kernel::page()).contains(&fault.address) {
                assert!(fault.instruction.abs_diff(here) < 1 << 24 && !fault.in_kernel);
                touched += 1;
            }
        });
        assert_eq!((touched, seen.lost), (pages, 0));
        assert_eq!(ring.take(&mut |_| ()).lost, 0);
    }
}
