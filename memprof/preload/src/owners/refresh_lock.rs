//! Lock for data that are walked again when they may have changed.
//!
//! A thread that walks may wait for the loader, and a thread that waits for the walk may block the
//! loader, so every wait here is bounded.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};

const FREE: u8 = 0;
/// A reader uses the data, and will not check whether they are still valid.
const READ: u8 = 1;
/// A thread walks, and checks before it releases the lock whether to walk again.
const WALKED: u8 = 2;

/// Number of attempts of a waiting thread; after the first ones, other threads run in between.
const ROUNDS: u32 = 20_000;

/// The lock (see the module).
pub struct Turn {
    state: AtomicU8,
    again: AtomicBool,
}

impl Turn {
    pub const fn new() -> Turn {
        Turn { state: AtomicU8::new(FREE), again: AtomicBool::new(false) }
    }

    fn take(&self, to: u8) -> Result<u8, u8> {
        self.state.compare_exchange(FREE, to, Ordering::SeqCst, Ordering::SeqCst)
    }

    /// Takes the lock to read. Returns false if other threads hold it for too long.
    pub fn read(&self) -> bool {
        (0..ROUNDS).any(|round| {
            let taken = self.take(READ).is_ok();
            if !taken {
                pause(round);
            }
            taken
        })
    }

    /// Releases the lock.
    pub fn give(&self) {
        self.state.swap(FREE, Ordering::SeqCst);
    }

    /// Has `walk` run by this thread, or by the thread that is walking already, which then walks
    /// once more. With `surely`, the objects loaded at the time of the call have been walked on
    /// return, unless that takes too long.
    pub fn walk(&self, surely: bool, mut walk: impl FnMut()) {
        self.again.store(true, Ordering::SeqCst);
        for round in 0..ROUNDS {
            if !self.again.load(Ordering::SeqCst) {
                break;
            }
            match self.take(WALKED) {
                Ok(_) => {
                    self.again.store(false, Ordering::SeqCst);
                    walk();
                    self.give();
                }
                Err(WALKED) if !surely => return,
                Err(_) => pause(round),
            }
        }
        let walked = || self.state.load(Ordering::SeqCst) == WALKED;
        for round in (0..ROUNDS).take_while(|_| surely && walked()) {
            pause(round);
        }
    }
}

fn pause(round: u32) {
    if round < 100 {
        core::hint::spin_loop();
    } else {
        // SAFETY: no arguments, no memory.
        unsafe { libc::sched_yield() };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::thread;

    use super::*;

    fn until(what: impl Fn() -> bool) {
        while !what() {
            thread::yield_now();
        }
    }

    #[test]
    fn who_finds_it_read_walks_when_the_reader_has_gone() {
        for surely in [false, true] {
            let (turn, walks) = (Turn::new(), AtomicU32::new(0));
            assert!(turn.read());
            thread::scope(|scope| {
                scope.spawn(|| {
                    turn.walk(surely, || {
                        walks.fetch_add(1, Ordering::SeqCst);
                    });
                });
                until(|| turn.again.load(Ordering::SeqCst));
                assert_eq!(walks.load(Ordering::SeqCst), 0);
                turn.give();
            });
            assert_eq!(walks.load(Ordering::SeqCst), 1);
        }
    }

    #[test]
    fn who_walks_does_it_again_for_those_who_came_meanwhile() {
        let (turn, walks) = (Turn::new(), AtomicU32::new(0));
        turn.walk(true, || {
            if walks.fetch_add(1, Ordering::SeqCst) == 0 {
                // Returns at once, since the first walk has not ended.
                turn.walk(false, || panic!("two at once"));
            }
        });
        assert_eq!(walks.load(Ordering::SeqCst), 2);
        assert_eq!(turn.state.load(Ordering::SeqCst), FREE);
    }

    #[test]
    fn sure_caller_waits_for_the_walk_of_another() {
        let (turn, begun, done) = (Turn::new(), AtomicU32::new(0), AtomicU32::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                turn.walk(false, || {
                    if begun.fetch_add(1, Ordering::SeqCst) == 0 {
                        until(|| turn.again.load(Ordering::SeqCst));
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                });
            });
            until(|| begun.load(Ordering::SeqCst) > 0);
            turn.walk(true, || {
                done.fetch_add(1, Ordering::SeqCst);
            });
            assert_eq!(done.load(Ordering::SeqCst), 2, "the second began after the call");
        });
    }
}
