//! Large blocks that are in no table, or not in one that was looked at before: in `realloc` a block leaves before the
//! real call, which may give the old place to anybody, and comes back after it; and new ones come. What a sample finds
//! of them is nobody's by the tables, or the allocator's, and is given to whoever has them. A very large block that is
//! being freed is in no table any more while its pages are there still.

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
    /// Bytes of blocks whose release has begun, and has ended.
    leaving: [AtomicU64; LIMIT],
    left: [AtomicU64; LIMIT],
    looks: Looks,
}

/// Whether somebody looks at the tables, in a line of the cache that is seldom written.
#[repr(align(64))]
struct Looks(AtomicBool);

impl Motion {
    const fn new() -> Motion {
        Motion {
            begun: [const { AtomicU64::new(0) }; LIMIT],
            ended: [const { AtomicU64::new(0) }; LIMIT],
            leaving: [const { AtomicU64::new(0) }; LIMIT],
            left: [const { AtomicU64::new(0) }; LIMIT],
            looks: Looks(AtomicBool::new(false)),
        }
    }

    fn begin(&self, owner: Component, size: usize) {
        self.begun[usize::from(owner.0) % LIMIT].fetch_add(size as u64, Release);
    }

    fn end(&self, owner: Component, size: usize) {
        self.ended[usize::from(owner.0) % LIMIT].fetch_add(size as u64, Release);
    }

    /// A block that has come into the tables. Whoever begins to look has said so microseconds before it sees any
    /// table, and no processor keeps what it wrote to itself for as long: a block that it does not see is noted.
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
        let moves = self.begun.iter().zip(&self.ended);
        for (begun, ended) in moves.chain(self.leaving.iter().zip(&self.left)) {
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

    fn leaves(&self, owner: Component, size: usize) {
        self.leaving[usize::from(owner.0) % LIMIT].fetch_add(size as u64, Release);
    }

    fn left(&self, owner: Component, size: usize) {
        self.left[usize::from(owner.0) % LIMIT].fetch_add(size as u64, Release);
    }

    fn all_left(&self, into: &mut [u64; LIMIT]) {
        for (into, left) in into.iter_mut().zip(&self.left) {
            *into = left.load(Acquire);
        }
    }

    fn leaving_since(&self, left: &mut [u64; LIMIT]) {
        for (left, leaving) in left.iter_mut().zip(&self.leaving) {
            *left = leaving.load(Acquire).saturating_sub(*left);
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

/// A block is about to leave the tables and to be given to the real `free`; [`left`] comes when that has returned.
pub fn leaves(owner: Component, size: usize) {
    MOTION.leaves(owner, size);
}

/// See [`leaves`], with the same numbers.
pub fn left(owner: Component, size: usize) {
    MOTION.left(owner, size);
}

/// Fills in the bytes of each component that have left so far, before the tables are looked at.
pub fn all_left(into: &mut [u64; LIMIT]) {
    MOTION.all_left(into);
}

/// Turns what [`all_left`] said into the bytes of blocks that were on their way out while the tables were looked at.
pub fn leaving_since(left: &mut [u64; LIMIT]) {
    MOTION.leaving_since(left);
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
    fn block_on_its_way_out_is_told_until_it_has_left() {
        let motion = Motion::new();
        let mut left = [0; LIMIT];
        motion.leaves(Component(3), 100);
        motion.all_left(&mut left);
        motion.left(Component(3), 100);
        motion.leaves(Component(3), 7);
        motion.leaving_since(&mut left);
        assert_eq!(left[3], 107);
        motion.forget();
        motion.all_left(&mut left);
        motion.leaving_since(&mut left);
        assert_eq!(left, [0; LIMIT]);
    }

    #[test]
    fn what_moves_at_any_time_during_a_look_is_told_and_nothing_else() {
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
