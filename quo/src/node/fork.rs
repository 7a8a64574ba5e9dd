#![allow(unsafe_code)]
//! Distinguishing a process from the children it forks.
//!
//! A forked child inherits the whole membership in its memory, but none of the locks that make up
//! the membership. The child must not act as the member. A page that the kernel wipes in a forked
//! child distinguishes the two for the price of one load; where the kernel cannot do that, the
//! process id does.

use std::os::linux::fs::MetadataExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use rustix::mm;

/// Identity of a process within its line of forks; never zero.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ForkId(u32);

static WIPED_ON_FORK: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();
static FORKS: AtomicU32 = AtomicU32::new(0);

impl ForkId {
    /// Returns the identity of this process. Local.
    #[inline]
    #[must_use]
    pub fn current() -> Self {
        let Some(mark) = WIPED_ON_FORK.get_or_init(wiped_on_fork) else {
            return Self(rustix::process::getpid().as_raw_pid().unsigned_abs());
        };
        match mark.load(Ordering::Relaxed) {
            0 => Self::begin(mark),
            process => Self(process),
        }
    }

    #[cold]
    fn begin(mark: &AtomicU32) -> Self {
        // The count is inherited, the mark is not: each child continues its parent's count.
        let process = FORKS.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
        match mark.compare_exchange(0, process, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Self(process),
            Err(first) => Self(first),
        }
    }
}

fn wiped_on_fork() -> Option<&'static AtomicU32> {
    let bytes = rustix::param::page_size();
    // SAFETY: a fresh private anonymous mapping, placed by the kernel, touches no existing memory.
    let page = unsafe {
        mm::mmap_anonymous(
            std::ptr::null_mut(),
            bytes,
            mm::ProtFlags::READ | mm::ProtFlags::WRITE,
            mm::MapFlags::PRIVATE,
        )
    }
    .ok()?;
    // SAFETY: the advice covers exactly the page mapped above.
    if unsafe { mm::madvise(page, bytes, mm::Advice::LinuxWipeOnFork) }.is_err() {
        // SAFETY: the page mapped above, which nothing refers to.
        let _ = unsafe { mm::munmap(page, bytes) };
        return None;
    }
    // SAFETY: the page is zeroed, aligned, never unmapped, and only ever used through this atomic.
    Some(unsafe { &*page.cast::<AtomicU32>() })
}

/// Returns the PID namespace of this process, which it keeps; its forked child may have another.
pub(crate) fn pid_namespace() -> u64 {
    static KNOWN: Mutex<Option<(ForkId, u64)>> = Mutex::new(None);
    let look = || std::fs::metadata("/proc/self/ns/pid").map(|file| file.st_ino()).ok();
    // Never waited for: a forked child would wait for a thread that it does not have.
    let Ok(mut known) = KNOWN.try_lock() else { return look().unwrap_or(0) };
    match *known {
        Some((of, namespace)) if of == ForkId::current() => namespace,
        _ => {
            let seen = look();
            *known = seen.map(|namespace| (ForkId::current(), namespace));
            seen.unwrap_or(0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_stays_the_same_process() {
        assert_eq!(ForkId::current(), ForkId::current());
        assert_eq!(
            std::thread::spawn(ForkId::current).join().unwrap(),
            ForkId::current(),
            "threads are not other processes"
        );
    }
}
