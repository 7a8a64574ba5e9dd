//! Large blocks that are in no table, or not in one that was looked at before: in `realloc` a block leaves before the
//! real call, which may give the old place to anybody, and comes back after it; and new ones come. What a sample finds
//! of them is nobody's by the tables, or the allocator's, and is given to whoever has them.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::component::{Component, LIMIT};

/// Smaller ones are soon done, and seldom have mappings of their own.
pub const FROM: usize = 128 * 1024;

static MOTION: Motion = Motion::new();

/// Bytes of blocks whose move has begun, and whose move has ended, by owner: the latter after the former.
struct Motion {
    begun: [AtomicU64; LIMIT],
    ended: [AtomicU64; LIMIT],
}

impl Motion {
    const fn new() -> Motion {
        Motion {
            begun: [const { AtomicU64::new(0) }; LIMIT],
            ended: [const { AtomicU64::new(0) }; LIMIT],
        }
    }

    fn begin(&self, owner: Component, size: usize) {
        self.begun[usize::from(owner.0) % LIMIT].fetch_add(size as u64, Release);
    }

    fn end(&self, owner: Component, size: usize) {
        self.ended[usize::from(owner.0) % LIMIT].fetch_add(size as u64, Release);
    }

    fn forget(&self) {
        for (begun, ended) in self.begun.iter().zip(&self.ended) {
            let begun = begun.load(Relaxed);
            // Where nothing moved, its page stays the parent's.
            if ended.load(Relaxed) != begun {
                ended.store(begun, Relaxed);
            }
        }
    }

    fn ended(&self, into: &mut [u64; LIMIT]) {
        for (into, ended) in into.iter_mut().zip(&self.ended) {
            *into = ended.load(Acquire);
        }
    }

    fn since(&self, ended: &[u64; LIMIT], each: &mut dyn FnMut(Component, u64)) {
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

/// In the child of a fork: other threads' blocks move no more.
pub fn forget_other_threads() {
    MOTION.forget();
}

/// What a look at the tables begins with.
pub fn ended(into: &mut [u64; LIMIT]) {
    MOTION.ended(into);
}

/// Calls `each` with the bytes of each component that moved at some time since [`ended`].
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
    fn what_moves_at_any_time_during_a_look_is_told_and_nothing_else() {
        let motion = Motion::new();
        let mut ended = [0; LIMIT];
        let (one, other) = (Component(3), Component(5));
        motion.begin(one, 100);
        motion.end(one, 100);
        motion.begin(one, 7000);
        motion.ended(&mut ended);
        motion.end(one, 7000);
        motion.begin(other, 500);
        assert_eq!(moved(&motion, &ended), [(3, 7000), (5, 500)]);
        motion.end(other, 500);
        motion.ended(&mut ended);
        assert_eq!(moved(&motion, &ended), []);
    }
}
