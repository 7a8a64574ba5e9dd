//! Large blocks that are in no table, or not in one that was looked at before: in `realloc` a block leaves before the
//! real call, which may give the old place to anybody, and comes back after it; and new ones come. A sample's pages of
//! them belong to no component by the tables, or to the allocator, and are given to the component that has them.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU64};

use crate::component::{Component, LIMIT};

/// Smaller ones are soon done, and seldom have mappings of their own.
pub const FROM: usize = 128 * 1024;

static MOTION: Motion = Motion::new();

/// Bytes of blocks whose move has begun, and whose move has ended, by owner: the latter after the former.
struct Motion {
    begun: [AtomicU64; LIMIT],
    ended: [AtomicU64; LIMIT],
    looks: Looks,
}

/// True if somebody looks at the tables, in a line of the cache that is seldom written.
#[repr(align(64))]
struct Looks(AtomicBool);

impl Motion {
    const fn new() -> Motion {
        Motion {
            begun: [const { AtomicU64::new(0) }; LIMIT],
            ended: [const { AtomicU64::new(0) }; LIMIT],
            looks: Looks(AtomicBool::new(false)),
        }
    }

    fn begin(&self, owner: Component, size: usize) {
        self.begun[usize::from(owner.0) % LIMIT].fetch_add(size as u64, Release);
    }

    fn end(&self, owner: Component, size: usize) {
        self.ended[usize::from(owner.0) % LIMIT].fetch_add(size as u64, Release);
    }

    /// A block that has come into the tables. A thread that begins to look has said so microseconds before it sees any
    /// table, and no processor keeps its own stores to itself for as long: a block that it does not see is noted.
    fn came(&self, owner: Component, size: usize) {
        if self.looks.0.load(Acquire) {
            self.begin(owner, size);
            self.end(owner, size);
        }
    }

    fn forget(&self) {
        if self.looks.0.load(Relaxed) {
            self.looks.0.store(false, Relaxed);
        }
        for (begun, ended) in self.begun.iter().zip(&self.ended) {
            let begun = begun.load(Relaxed);
            // Where nothing moved, its page stays the parent's.
            if ended.load(Relaxed) != begun {
                ended.store(begun, Relaxed);
            }
        }
    }

    fn look(&self, into: &mut [u64; LIMIT]) {
        self.looks.0.swap(true, SeqCst);
        for (into, ended) in into.iter_mut().zip(&self.ended) {
            *into = ended.load(Acquire);
        }
    }

    fn since(&self, ended: &[u64; LIMIT], each: &mut dyn FnMut(Component, u64)) {
        self.looks.0.store(false, Relaxed);
        for (index, (begun, ended)) in self.begun.iter().zip(ended).enumerate() {
            let bytes = begun.load(Relaxed).saturating_sub(*ended);
            if bytes > 0 {
                each(Component(index as u16), bytes);
            }
        }
    }
}

/// A block that is about to leave the tables; [`end`] comes when it is in them again, or stays out.
pub fn begin(owner: Component, size: usize) {
    if size >= FROM {
        MOTION.begin(owner, size);
    }
}

/// See [`begin`], with the same numbers.
pub fn end(owner: Component, size: usize) {
    if size >= FROM {
        MOTION.end(owner, size);
    }
}

/// A block is in the tables that was not.
#[inline(always)]
pub fn came(owner: Component, size: usize) {
    if size >= FROM {
        MOTION.came(owner, size);
    }
}

/// In the child of a fork: other threads' blocks move no more.
pub fn forget_other_threads() {
    MOTION.forget();
}

/// A look at the tables begins, which [`since`] ends.
pub fn look(into: &mut [u64; LIMIT]) {
    MOTION.look(into);
}

/// Calls `each` with the bytes of each component that moved at some time since [`look`], or came.
pub fn since(ended: &[u64; LIMIT], each: &mut dyn FnMut(Component, u64)) {
    MOTION.since(ended, each);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(motion: &Motion, ended: &[u64; LIMIT]) -> Vec<(u16, u64)> {
        let mut all = Vec::new();
        motion.since(ended, &mut |component, bytes| all.push((component.0, bytes)));
        all
    }

    #[test]
    fn what_comes_during_a_look_is_told() {
        let motion = Motion::new();
        let mut ended = [0; LIMIT];
        motion.came(Component(3), 100);
        motion.look(&mut ended);
        assert_eq!(moved(&motion, &ended), []);
        motion.look(&mut ended);
        motion.came(Component(3), 100);
        assert_eq!(moved(&motion, &ended), [(3, 100)]);
        motion.came(Component(3), 100);
        motion.look(&mut ended);
        assert_eq!(moved(&motion, &ended), []);
    }

    #[test]
    fn motion_during_a_look_is_told_and_nothing_else() {
        let motion = Motion::new();
        let mut ended = [0; LIMIT];
        let (one, other) = (Component(3), Component(5));
        motion.begin(one, 100);
        motion.end(one, 100);
        motion.begin(one, 7000);
        motion.look(&mut ended);
        motion.end(one, 7000);
        motion.begin(other, 500);
        assert_eq!(moved(&motion, &ended), [(3, 7000), (5, 500)]);
        motion.end(other, 500);
        motion.look(&mut ended);
        assert_eq!(moved(&motion, &ended), []);
    }
}
