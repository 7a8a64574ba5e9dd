//! A lock that is held briefly and never across a call out of the tool.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering};

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and at least one thread sleeps until it is released.
const AWAITED: u32 = 2;

/// Number of attempts before a thread sleeps: longer than a running thread ever holds the lock.
const LOOKS: u32 = 200;

/// A spin lock. A thread that has waited longer than a running holder needs sleeps in the kernel.
pub struct SpinLock(AtomicU32);

impl SpinLock {
    pub const fn new() -> SpinLock {
        SpinLock(AtomicU32::new(FREE))
    }

    /// Takes the lock. The caller must hold a [`crate::base::thread::Guard`].
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

    /// Takes the lock if it is free. Returns true if the caller now holds it.
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
        // SAFETY: the kernel only uses the address of the word as a name.
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
