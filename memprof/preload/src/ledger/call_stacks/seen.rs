//! Cache of the stacks that a thread was unwound from. To unwind a stack takes microseconds. To
//! check that its return addresses are still at their addresses takes a few nanoseconds, and if
//! they are, the stack is the same.

#![allow(unsafe_code)]

use core::cell::UnsafeCell;

use super::DEPTH;

/// Number of stacks that a thread remembers, each in the entry selected by its caller and stack
/// address.
const STACKS: usize = 8;

/// Largest distance between two return addresses of a remembered stack: beyond it, they may belong
/// to different stacks.
const FURTHEST: usize = 64 * 1024;

/// Return addresses from the innermost outwards, each with its distance above the address of the
/// innermost one.
#[derive(Copy, Clone)]
pub struct Stack {
    pub frames: [usize; DEPTH],
    pub above: [u32; DEPTH],
    pub depth: u32,
}

impl Stack {
    pub const NONE: Stack = Stack { frames: [0; DEPTH], above: [0; DEPTH], depth: 0 };

    /// Adds the next frame, whose return address is stored at `place`. Returns false if the frame
    /// cannot be checked there again.
    pub fn push(&mut self, frame: usize, place: Option<usize>, innermost: usize) -> bool {
        let which = self.depth as usize;
        self.frames[which] = frame;
        self.depth += 1;
        let inner = which
            .checked_sub(1)
            .map_or(innermost, |inner| innermost + self.above[inner] as usize + size_of::<usize>());
        match place.and_then(|place| place.checked_sub(inner)) {
            Some(further) if which > 0 && further < FURTHEST => {
                self.above[which] = (inner + further - innermost) as u32;
                // SAFETY: the address lies between frames that the unwinder found on the stack of
                // the calling thread.
                unsafe { *((inner + further) as *const usize) == frame }
            }
            further => which == 0 && further == Some(0),
        }
    }
}

#[derive(Copy, Clone)]
struct Entry {
    /// Address at which the innermost return address is stored; 0 for no stack.
    innermost: usize,
    /// Version of the table of objects: after a change, other objects may be at these addresses.
    version: u32,
    stack: Stack,
}

/// Stacks that one thread remembers. All zeros means no stacks.
pub struct Seen(UnsafeCell<[Entry; STACKS]>);

// SAFETY: only the thread that holds the counters accesses them, and no two threads hold the same
// ones.
unsafe impl Sync for Seen {}

impl Seen {
    pub const fn new() -> Seen {
        Seen(UnsafeCell::new([Entry { innermost: 0, version: 0, stack: Stack::NONE }; STACKS]))
    }

    /// Forgets all stacks when another thread takes over the counters, since its stack is a
    /// different one.
    pub fn forget(&self) {
        self.entries(|entries| entries.iter_mut().for_each(|entry| entry.innermost = 0));
    }

    /// Returns the remembered stack of the calling thread whose innermost return address is
    /// `caller`, stored at `innermost`.
    pub fn find(&self, caller: usize, innermost: usize, version: u32) -> Option<Stack> {
        self.entries(|entries| {
            let entry = &entries[place(caller, innermost)];
            let stack = &entry.stack;
            let known = innermost != 0
                && entry.innermost == innermost
                && entry.version == version
                && stack.frames[0] == caller;
            let is_frame = |which: usize| {
                // SAFETY: the stack reached this far when it was recorded, and still does, since
                // all frames further in are unchanged.
                let now = unsafe { *((innermost + stack.above[which] as usize) as *const usize) };
                now == stack.frames[which]
            };
            (known && (1..stack.depth as usize).all(is_frame)).then_some(*stack)
        })
    }

    /// Remembers a stack whose return addresses are all stored where the stack says.
    pub fn keep(&self, stack: &Stack, innermost: usize, version: u32) {
        self.entries(|entries| {
            entries[place(stack.frames[0], innermost)] =
                Entry { innermost, version, stack: *stack };
        });
    }

    fn entries<R>(&self, work: impl FnOnce(&mut [Entry; STACKS]) -> R) -> R {
        // SAFETY: as above; `work` does not call this function again.
        work(unsafe { &mut *self.0.get() })
    }
}

fn place(caller: usize, innermost: usize) -> usize {
    let both = (caller as u64 ^ (innermost as u64) << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (both >> 40) as usize % STACKS
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicUsize;
    use core::sync::atomic::Ordering::Relaxed;

    /// Returns words that stand in for a stack. They are atomic because they change while only
    /// their address is in use.
    fn words() -> [AtomicUsize; 64] {
        core::array::from_fn(|_| AtomicUsize::new(7))
    }

    #[test]
    fn stack_is_equal_while_its_return_addresses_stand() {
        let words = words();
        let innermost = words.as_ptr() as usize;
        let mut stack = Stack::NONE;
        for (at, frame) in [(0, 100), (10, 200), (40, 300)] {
            words[at].store(frame, Relaxed);
            assert!(stack.push(frame, Some(innermost + at * size_of::<usize>()), innermost));
        }
        let seen = Seen::new();
        assert!(seen.find(100, innermost, 1).is_none());
        seen.keep(&stack, innermost, 1);
        let found = seen.find(100, innermost, 1).unwrap();
        assert_eq!(found.frames[..found.depth as usize], [100, 200, 300]);
        assert!(seen.find(101, innermost, 1).is_none(), "another caller");
        assert!(seen.find(100, innermost, 2).is_none(), "other objects");
        assert!(seen.find(100, innermost + 8, 1).is_none(), "another depth");
        words[40].store(301, Relaxed);
        assert!(seen.find(100, innermost, 1).is_none(), "called from elsewhere");
        words[40].store(300, Relaxed);
        assert!(seen.find(100, innermost, 1).is_some());
        seen.forget();
        assert!(seen.find(100, innermost, 1).is_none(), "another thread");
    }

    #[test]
    fn what_cannot_be_looked_for_again_is_not_remembered() {
        let words = words();
        let innermost = words.as_ptr() as usize;
        let second = |frame, place| {
            let mut stack = Stack::NONE;
            assert!(stack.push(7, Some(innermost), innermost));
            stack.push(frame, place, innermost)
        };
        assert!(second(7, Some(innermost + 80)));
        assert!(!second(8, Some(innermost + 80)), "the word is another");
        assert!(!second(7, None), "interrupted by a signal");
        assert!(!second(7, Some(innermost)), "not further out");
        assert!(!second(7, Some(innermost + FURTHEST + 80)), "may be of another stack");
        let mut stack = Stack::NONE;
        assert!(!stack.push(7, Some(innermost + 8), innermost), "another innermost");
    }
}
