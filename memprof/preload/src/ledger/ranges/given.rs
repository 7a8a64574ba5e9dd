//! Memory that the program gave to threads as their stacks. The component that mapped it stays its
//! owner, and while the thread lives, the resident bytes count as its stack.

use crate::base::component::Component;

/// Capacity for known stacks; the memory of further ones counts for its owner.
const STACKS: usize = 128;

/// Addresses in use as a stack.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    pub start: usize,
    pub end: usize,
    pub owner: Component,
    /// The kernel's number of the thread.
    pub thread: i32,
}

/// Known stacks (see the module).
pub struct Stacks {
    all: [Option<Stack>; STACKS],
    /// Entries in use are below this index.
    used: usize,
}

impl Stacks {
    pub const fn new() -> Stacks {
        Stacks { all: [None; STACKS], used: 0 }
    }

    /// Records that a thread begins on a stack. A thread that used the memory before has ended.
    pub fn begins(&mut self, stack: Stack) {
        self.retain(|other| other.end <= stack.start || stack.end <= other.start);
        if let Some(place) = self.all.iter().position(Option::is_none) {
            self.all[place] = Some(stack);
            self.used = self.used.max(place + 1);
        }
    }

    /// Records that the thread with this stack ends.
    pub fn ends(&mut self, start: usize) {
        self.retain(|stack| stack.start != start);
    }

    /// Keeps the stacks for which `lives` returns true.
    pub fn retain(&mut self, lives: impl Fn(&Stack) -> bool) {
        for place in &mut self.all[..self.used] {
            *place = place.filter(&lives);
        }
        while self.used > 0 && self.all[self.used - 1].is_none() {
            self.used -= 1;
        }
    }

    /// Returns the first stack that ends above an address.
    pub fn next(&self, address: usize) -> Option<Stack> {
        let above = self.all[..self.used].iter().flatten().filter(|stack| stack.end > address);
        above.min_by_key(|stack| stack.end).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(start: usize, end: usize, thread: i32) -> Stack {
        Stack { start, end, owner: Component(30), thread }
    }

    #[test]
    fn a_stack_is_known_until_its_thread_ends() {
        let mut stacks = Stacks::new();
        stacks.begins(stack(100, 200, 1));
        stacks.begins(stack(300, 400, 2));
        assert_eq!(stacks.next(0), Some(stack(100, 200, 1)));
        assert_eq!(stacks.next(200), Some(stack(300, 400, 2)));
        stacks.begins(stack(150, 180, 3));
        assert_eq!(stacks.next(0), Some(stack(150, 180, 3)), "the same memory, for another");
        stacks.ends(150);
        stacks.retain(|stack| stack.thread != 2);
        assert_eq!((stacks.next(0), stacks.used), (None, 0));
    }

    #[test]
    fn there_is_an_end_to_the_places() {
        let mut stacks = Stacks::new();
        (0..2 * STACKS).for_each(|place| stacks.begins(stack(place * 10, place * 10 + 9, 1)));
        assert_eq!(stacks.next(STACKS * 10), None);
        stacks.ends(70);
        stacks.begins(stack(5000, 5010, 2));
        assert_eq!(stacks.next(4000), Some(stack(5000, 5010, 2)));
    }
}
