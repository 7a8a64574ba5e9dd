//! Pushes of one process that have not been popped, across all its contexts.
//!
//! Masks belong to threads, and the threads to the process: a push in one context may move a thread
//! that another context has moved before. Each push records the previous mask of every thread that
//! it moved. The pushes that moved a thread are the thread's *chain*, in their order. A pop of the
//! newest push restores the thread's mask from before it. A pop of an older one leaves the thread's
//! mask alone: the next push of the chain takes over the mask to restore.
//!
//! The module is plain data; system calls are in `stack`.

use super::ThreadId;
use crate::cpuset::CpuSet;

/// Pushes of a process, and the threads they concern. Locked by every push and pop.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Oldest first.
    pushes: Vec<Push>,
    stacks: u64,
    pushed: u64,
    /// Stack in which each thread pushed last.
    homes: Vec<(ThreadId, u64)>,
    owed: Vec<Owed>,
    /// Reusable buffer for a list of threads.
    pub(super) threads: Vec<ThreadId>,
}

/// A push that has not been popped.
#[derive(Debug)]
pub(super) struct Push {
    /// Unique among all pushes of the process.
    pub(super) number: u64,
    /// Stack that the push belongs to.
    pub(super) stack: u64,
    /// Thread that pushed: it is moved back even if its mask was changed in between.
    pub(super) owner: ThreadId,
    /// The owner's mask before the push.
    pub(super) before: CpuSet,
    /// CPUs that were requested.
    pub(super) asked: CpuSet,
    /// CPUs that the system granted.
    pub(super) granted: CpuSet,
    /// True if the owner was not bound: the pop leaves it so, even if the allowed CPUs change
    /// meanwhile.
    pub(super) unbound: bool,
    /// True if the push confines the rank to some CPUs, beneath the pushes of its program.
    pub(super) confines: bool,
    /// Other threads that were moved, each with its mask before.
    pub(super) followers: Vec<(ThreadId, CpuSet)>,
    /// Threads that already had the pushed mask; the pop must not move them.
    pub(super) bystanders: Vec<ThreadId>,
    /// Further threads that the push did not move, with another mask than the pushed one.
    pub(super) others: Vec<ThreadId>,
}

impl Push {
    /// Returns the mask that `thread` had before the push; `None` if the push did not move it.
    pub(super) fn before(&self, thread: ThreadId) -> Option<&CpuSet> {
        if thread == self.owner {
            return Some(&self.before);
        }
        self.followers.iter().find(|(follower, _)| *follower == thread).map(|(_, mask)| mask)
    }

    /// Adds a thread, unless it has been added.
    pub(super) fn follow(&mut self, thread: ThreadId, before: CpuSet) {
        if self.before(thread).is_none() {
            self.followers.push((thread, before));
        }
    }

    fn before_mut(&mut self, thread: ThreadId) -> Option<&mut CpuSet> {
        if thread == self.owner {
            return Some(&mut self.before);
        }
        self.followers.iter_mut().find(|(follower, _)| *follower == thread).map(|(_, mask)| mask)
    }
}

/// Mask that a pop could not restore, because some or all of its CPUs were not allowed.
#[derive(Debug)]
struct Owed {
    thread: ThreadId,
    wanted: CpuSet,
    /// Mask that the thread was given instead.
    given: CpuSet,
}

impl Ledger {
    /// Returns a new number for a stack.
    pub(super) fn add_stack(&mut self) -> u64 {
        self.stacks += 1;
        self.stacks
    }

    /// Returns a new number for a push.
    pub(super) fn number(&mut self) -> u64 {
        self.pushed += 1;
        self.pushed
    }

    /// Removes a stack. The masks stay as they are.
    pub(super) fn drop_stack(&mut self, stack: u64) {
        self.pushes.retain(|push| push.stack != stack);
        self.homes.retain(|(_, home)| *home != stack);
    }

    /// Returns the pushes of a stack, oldest first.
    pub(super) fn of(&self, stack: u64) -> impl DoubleEndedIterator<Item = &Push> {
        self.pushes.iter().filter(move |push| push.stack == stack)
    }

    /// Adds a push, with which its owner joins the stack's threads.
    pub(super) fn add(&mut self, push: Push) {
        if !push.confines {
            match self.homes.iter_mut().find(|(thread, _)| *thread == push.owner) {
                Some((_, home)) => *home = push.stack,
                None => self.homes.push((push.owner, push.stack)),
            }
        }
        self.pushes.push(push);
    }

    /// Forgets the homes of threads that have ended, given the existing threads.
    pub(super) fn forget_ended(&mut self, threads: &[ThreadId]) {
        if self.homes.len() > threads.len() {
            self.homes.retain(|(thread, _)| threads.contains(thread));
        }
    }

    /// Returns true if a thread last pushed in another stack: pushes of this stack leave it alone.
    pub(super) fn lives_elsewhere(&self, thread: ThreadId, stack: u64) -> bool {
        self.homes.iter().any(|(other, home)| *other == thread && *home != stack)
    }

    /// Returns true if some push has moved the thread.
    pub(super) fn is_moved(&self, thread: ThreadId) -> bool {
        self.pushes.iter().any(|push| push.before(thread).is_some())
    }

    /// Returns true if some push found the thread with the pushed mask, and none has moved it.
    pub(super) fn has_own_mask(&self, thread: ThreadId) -> bool {
        self.pushes.iter().any(|push| push.bystanders.contains(&thread)) && !self.is_moved(thread)
    }

    /// Returns the index of the push that a pop by `caller` takes back: the caller's last one in
    /// the stack, otherwise the last one of any thread. Confinements come after all pushes.
    pub(super) fn to_pop(&self, stack: u64, caller: ThreadId) -> Option<usize> {
        let last = |wanted: &dyn Fn(&Push) -> bool| {
            self.pushes.iter().rposition(|push| push.stack == stack && wanted(push))
        };
        last(&|push| !push.confines && push.owner == caller)
            .or_else(|| last(&|push| !push.confines))
            .or_else(|| last(&|_| true))
    }

    /// Returns the index of the last push of a stack.
    pub(super) fn last(&self, stack: u64) -> Option<usize> {
        self.pushes.iter().rposition(|push| push.stack == stack)
    }

    /// Returns the push at an index.
    pub(super) fn at(&self, place: usize) -> &Push {
        &self.pushes[place]
    }

    /// Returns true if a push after the one at `place` has moved the thread: the pop of the one at
    /// `place` does not change the thread's mask.
    pub(super) fn is_covered(&self, place: usize, thread: ThreadId) -> bool {
        self.pushes[place + 1..].iter().any(|later| later.before(thread).is_some())
    }

    /// Returns true if a thread that the push at `place` did not move may follow another push: it
    /// is in the chain of another push, or another thread has pushed the same mask.
    pub(super) fn follows_another(&self, place: usize, thread: ThreadId) -> bool {
        let this = &self.pushes[place];
        let others = self.pushes.iter().filter(|push| push.number != this.number);
        others.into_iter().any(|other| {
            other.before(thread).is_some()
                || other.owner != this.owner && other.granted == this.granted
        })
    }

    /// Removes a push. Threads that later pushes moved get its masks at the pops of those pushes.
    pub(super) fn remove(&mut self, place: usize) {
        let gone = self.pushes.remove(place);
        if self.pushes.is_empty() {
            return;
        }
        let threads = gone.followers.iter().map(|(thread, mask)| (*thread, mask));
        for (thread, mask) in threads.chain([(gone.owner, &gone.before)]) {
            let later = &mut self.pushes[place..];
            if let Some(next) = later.iter_mut().find(|push| push.before(thread).is_some()) {
                next.unbound |= gone.unbound && thread == gone.owner && thread == next.owner;
                if let Some(before) = next.before_mut(thread) {
                    *before = mask.clone();
                }
            } else if !self.is_moved(thread) {
                // The restored mask is the thread's own, even if a push is for the same CPUs, unless
                // the thread was started under that push.
                let same = self.pushes.iter_mut().filter(|push| push.granted == *mask);
                let same = same.filter(|push| push.others.contains(&thread));
                same.for_each(|push| push.bystanders.push(thread));
            }
        }
    }

    /// Records a mask that was not restored to a thread.
    pub(super) fn owe(&mut self, thread: ThreadId, wanted: CpuSet, given: CpuSet) {
        self.owed.retain(|owed| owed.thread != thread);
        self.owed.push(Owed { thread, wanted, given });
    }

    /// Returns true if no thread is owed a mask.
    pub(super) fn owes_nothing(&self) -> bool {
        self.owed.is_empty()
    }

    /// Returns the mask to restore to a thread that has the mask `now`, and ends any debt to that
    /// thread.
    pub(super) fn take_wanted(&mut self, thread: ThreadId, now: &CpuSet) -> CpuSet {
        match self.owed.iter().position(|owed| owed.thread == thread) {
            Some(place) => {
                let owed = self.owed.swap_remove(place);
                if owed.given == *now { owed.wanted } else { now.clone() }
            }
            None => now.clone(),
        }
    }

    /// Tries to restore owed masks. `give` gets a thread, the mask it was given, and the mask it is
    /// owed, and returns the mask of the thread afterwards; `None` ends the debt.
    pub(super) fn restore_owed(
        &mut self,
        mut give: impl FnMut(ThreadId, &CpuSet, &CpuSet) -> Option<CpuSet>,
    ) {
        self.owed.retain_mut(|owed| match give(owed.thread, &owed.given, &owed.wanted) {
            Some(now) if now != owed.wanted => {
                owed.given = now;
                true
            }
            _ => false,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    fn push(ledger: &mut Ledger, stack: u64, owner: ThreadId, before: &str, to: &str) -> usize {
        let number = ledger.number();
        ledger.add(Push {
            number,
            stack,
            owner,
            before: set(before),
            asked: set(to),
            granted: set(to),
            unbound: false,
            confines: false,
            followers: Vec::new(),
            bystanders: Vec::new(),
            others: Vec::new(),
        });
        ledger.pushes.len() - 1
    }

    #[test]
    fn removal_of_an_older_push_hands_its_mask_on() {
        let mut ledger = Ledger::default();
        let first = push(&mut ledger, 1, 7, "0", "0-3");
        ledger.pushes[first].followers.push((8, set("1")));
        ledger.pushes[first].unbound = true;
        push(&mut ledger, 2, 8, "0-3", "2");
        push(&mut ledger, 2, 7, "0-3", "3");
        assert!(ledger.is_covered(first, 7) && ledger.is_covered(first, 8));
        assert!(!ledger.is_covered(first, 9));
        ledger.remove(first);
        assert_eq!(ledger.at(0).before, set("1"));
        assert_eq!(ledger.at(1).before, set("0"));
        assert!(!ledger.at(0).unbound && ledger.at(1).unbound);
    }

    #[test]
    fn pop_takes_the_callers_last_push_first() {
        let mut ledger = Ledger::default();
        let confinement = push(&mut ledger, 1, 7, "0-7", "0-3");
        ledger.pushes[confinement].confines = true;
        assert_eq!(ledger.to_pop(1, 7), Some(confinement));
        let own = push(&mut ledger, 1, 7, "0-3", "0");
        let other = push(&mut ledger, 1, 8, "0-3", "1");
        push(&mut ledger, 2, 7, "0", "2");
        assert_eq!(ledger.to_pop(1, 7), Some(own));
        assert_eq!(ledger.to_pop(1, 8), Some(other));
        assert_eq!(ledger.to_pop(1, 9), Some(other));
        assert_eq!(ledger.last(1), Some(other));
        assert_eq!(ledger.to_pop(3, 7), None);
    }

    #[test]
    fn thread_belongs_to_the_stack_it_pushed_in_last() {
        let mut ledger = Ledger::default();
        push(&mut ledger, 1, 7, "0", "1");
        assert!(ledger.lives_elsewhere(7, 2) && !ledger.lives_elsewhere(7, 1));
        push(&mut ledger, 2, 7, "1", "2");
        assert!(ledger.lives_elsewhere(7, 1) && !ledger.lives_elsewhere(8, 1));
        ledger.forget_ended(&[]);
        assert!(!ledger.lives_elsewhere(7, 1));
        push(&mut ledger, 2, 7, "2", "1");
        ledger.drop_stack(2);
        assert!(!ledger.lives_elsewhere(7, 1));
    }

    #[test]
    fn dropped_stack_leaves_pushes_and_threads_of_others() {
        let mut ledger = Ledger::default();
        push(&mut ledger, 1, 7, "0", "1");
        push(&mut ledger, 2, 8, "0", "2");
        assert!(ledger.lives_elsewhere(7, 2) && !ledger.lives_elsewhere(7, 1));
        assert!(ledger.lives_elsewhere(8, 1) && !ledger.lives_elsewhere(8, 2));
        ledger.drop_stack(2);
        assert_eq!((ledger.of(1).count(), ledger.of(2).count()), (1, 0));
        assert!(ledger.lives_elsewhere(7, 2) && !ledger.lives_elsewhere(8, 1));
        ledger.forget_ended(&[7, 8]);
        assert!(ledger.lives_elsewhere(7, 2));
    }

    #[test]
    fn thread_may_follow_another_owner_of_the_same_mask() {
        let mut ledger = Ledger::default();
        let first = push(&mut ledger, 1, 7, "0", "1");
        push(&mut ledger, 1, 7, "1", "1");
        push(&mut ledger, 2, 8, "0", "2");
        assert!(!ledger.follows_another(first, 9) && ledger.follows_another(first, 8));
        push(&mut ledger, 2, 8, "2", "1");
        assert!(ledger.follows_another(first, 9));
    }

    #[test]
    fn debt_ends_with_the_wanted_mask_or_the_thread() {
        let mut ledger = Ledger::default();
        ledger.owe(7, set("0-1"), set("3"));
        ledger.owe(8, set("0"), set("3"));
        ledger.owe(9, set("5"), set("3"));
        ledger.restore_owed(|thread, _, _| match thread {
            7 => Some(set("1")),
            8 => Some(set("0")),
            _ => None,
        });
        assert!(!ledger.owes_nothing());
        assert_eq!(ledger.take_wanted(7, &set("1")), set("0-1"));
        assert!(ledger.owes_nothing());
        ledger.owe(7, set("0-1"), set("3"));
        assert_eq!(ledger.take_wanted(7, &set("4")), set("4"));
        assert!(ledger.owes_nothing());
    }
}
