//! A lock that is held for a moment and never across a call out of the tool.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering};

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and somebody sleeps for it.
const AWAITED: u32 = 2;

/// Number of looks of a thread before it sleeps: longer than the lock is ever held by a running thread.
const LOOKS: u32 = 200;

/// Taken by spinning; who has waited for longer than a holder can run sleeps in the kernel.
pub struct SpinLock(AtomicU32);

impl SpinLock {
    pub const fn new() -> SpinLock {
        SpinLock(AtomicU32::new(FREE))
    }

    /// The caller must hold a [`crate::base::thread::Guard`].
    pub fn lock(&self) {
        for _ in 0..LOOKS {
            if self.try_lock() {
                return;
            }
            core::hint::spin_loop();
        }
        while self.0.swap(AWAITED, Ordering::Acquire) != FREE {
            self.wait();
        }
    }

    /// True if the lock was free and is now the caller's.
    pub fn try_lock(&self) -> bool {
        self.0.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    pub fn unlock(&self) {
        if self.0.swap(FREE, Ordering::Release) == AWAITED {
            self.wake();
        }
    }

    fn wait(&self) {
        let errno = crate::base::arch::Errno::save();
        // SAFETY: the word outlives the call, and the kernel only compares it.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.0.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                AWAITED,
                core::ptr::null::<libc::timespec>(),
            );
        }
        errno.restore();
    }

    fn wake(&self) {
        let errno = crate::base::arch::Errno::save();
        // SAFETY: the kernel uses the address of the word as a name only.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.0.as_ptr(),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                1,
            );
        }
        errno.restore();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::UnsafeCell;

    struct Counter {
        lock: SpinLock,
        value: UnsafeCell<u64>,
    }

    // SAFETY: the value is only touched under the lock.
    unsafe impl Sync for Counter {}

    #[test]
    fn only_one_thread_is_inside() {
        let counter = Counter { lock: SpinLock::new(), value: UnsafeCell::new(0) };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let counter = &counter;
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        counter.lock.lock();
                        // SAFETY: the lock is held.
                        unsafe { *counter.value.get() += 1 };
                        counter.lock.unlock();
                    }
                });
            }
        });
        assert!(counter.lock.try_lock());
        assert_eq!(counter.value.into_inner(), 80_000);
    }
}
