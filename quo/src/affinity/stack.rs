//! The stack of bindings and its per-thread rule.

use std::io;
use std::sync::Arc;

use super::{Backend, BindError, CALLER, ThreadId};
use crate::cpuset::CpuSet;

/// Passes over the thread list before giving up on a process that keeps making threads with the
/// old mask. Each pass only finds threads born during the one before.
const MAX_PASSES: usize = 64;

/// The bindings pushed in one context by one process.
///
/// Not synchronised: its owner wraps it in a lock, so that pushes from several threads take turns.
#[derive(Debug)]
pub struct BindingStack {
    backend: Arc<dyn Backend>,
    entries: Vec<Entry>,
    /// Room for a list of threads.
    threads: Vec<ThreadId>,
}

#[derive(Debug)]
struct Entry {
    /// The caller's mask before the push, and so that of its followers.
    before: CpuSet,
    /// What was pushed.
    pushed: CpuSet,
    /// Who pushed: that thread is moved back even when its mask was changed in between.
    owner: ThreadId,
    /// Threads that had the pushed mask of their own accord; the pop must not take them along.
    bystanders: Vec<ThreadId>,
}

impl BindingStack {
    /// An empty stack over `backend`; nothing is changed by making or dropping one.
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self { backend, entries: Vec::new(), threads: Vec::new() }
    }

    /// The number of pushes that have not been popped.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.entries.len()
    }

    /// The pushed sets, oldest first, each after the mask it replaced.
    pub fn entries(&self) -> impl Iterator<Item = (&CpuSet, &CpuSet)> {
        self.entries.iter().map(|entry| (&entry.before, &entry.pushed))
    }

    /// The calling thread's mask, read now.
    ///
    /// # Errors
    /// [`BindError::System`].
    pub fn current(&self) -> Result<CpuSet, BindError> {
        self.read("binding")
    }

    /// Moves the caller and its followers to `to`, which `before` (the caller's mask, just read)
    /// was resolved against.
    ///
    /// # Errors
    /// [`BindError::NotGranted`] and [`BindError::System`]; every thread is where it was.
    pub fn push(&mut self, before: CpuSet, to: CpuSet) -> Result<(), BindError> {
        let mut entry =
            Entry { before, pushed: to, owner: self.backend.caller(), bystanders: Vec::new() };
        self.shift("push", &mut entry, Direction::Forth)?;
        self.entries.push(entry);
        Ok(())
    }

    /// Takes back the last push: everyone who follows the pushed mask has the mask from before.
    /// Returns that mask.
    ///
    /// # Errors
    /// [`BindError::NothingPushed`] changes nothing. [`BindError::NotGranted`] and
    /// [`BindError::System`] leave the entry on the stack.
    pub fn pop(&mut self) -> Result<CpuSet, BindError> {
        let Some(mut entry) = self.entries.pop() else {
            return Err(BindError::NothingPushed);
        };
        match self.shift("pop", &mut entry, Direction::Back) {
            Ok(()) => Ok(entry.before),
            Err(error) => {
                self.entries.push(entry);
                Err(error)
            }
        }
    }

    fn shift(
        &mut self,
        call: &'static str,
        entry: &mut Entry,
        direction: Direction,
    ) -> Result<(), BindError> {
        let mut moved = Vec::new();
        let mut threads = std::mem::take(&mut self.threads);
        let result = self.move_followers(call, entry, direction, &mut threads, &mut moved);
        self.threads = threads;
        if result.is_err() {
            for (thread, mask) in moved {
                // Best effort: the thread may have ended, and the first error is the one to tell.
                let _ = self.backend.set_mask(thread, &mask);
            }
        }
        result
    }

    fn move_followers(
        &self,
        call: &'static str,
        entry: &mut Entry,
        direction: Direction,
        threads: &mut Vec<ThreadId>,
        moved: &mut Vec<(ThreadId, CpuSet)>,
    ) -> Result<(), BindError> {
        let system = |action| move |source| BindError::System { call, action, source };
        let (from, to) = match direction {
            Direction::Forth => (entry.before.clone(), entry.pushed.clone()),
            Direction::Back => (entry.pushed.clone(), entry.before.clone()),
        };
        let count = || self.backend.thread_count().map_err(system("counting threads"));
        let mut known = count()?;
        if known <= 1 {
            self.backend.set_mask(CALLER, &to).map_err(system("setting the mask"))?;
            moved.push((CALLER, from));
            return self.verify(call, &to);
        }
        let caller = self.backend.caller();
        let forth = direction == Direction::Forth;
        for pass in 0..MAX_PASSES {
            self.backend.threads(threads, known).map_err(system("listing threads"))?;
            for &thread in &*threads {
                let mask = if forth && thread == caller && pass == 0 {
                    // Just read, by whoever resolved what to push.
                    from.clone()
                } else {
                    let mask = ended_is_none(self.backend.mask(thread));
                    let Some(mask) = mask.map_err(system("reading a mask"))? else { continue };
                    mask
                };
                if !self.follows(entry, direction, thread, caller, &mask, pass == 0) {
                    continue;
                }
                let set = ended_is_none(self.backend.set_mask(thread, &to))
                    .map_err(system("setting the mask of a thread"))?;
                if set.is_some() {
                    moved.push((thread, mask));
                }
            }
            // Threads born meanwhile, with the mask of a parent not yet moved, show in the count.
            known = count()?;
            if known == threads.len() {
                break;
            }
        }
        let expects = caller == entry.owner || moved.iter().any(|(thread, _)| *thread == caller);
        if expects { self.verify(call, &to) } else { Ok(()) }
    }

    /// Whether a thread with this mask moves along; notes bystanders on the way forth.
    fn follows(
        &self,
        entry: &mut Entry,
        direction: Direction,
        thread: ThreadId,
        caller: ThreadId,
        mask: &CpuSet,
        first: bool,
    ) -> bool {
        match direction {
            Direction::Forth => {
                // A push of the mask that is there already finds all followers with it.
                let stays = entry.pushed != entry.before && *mask == entry.pushed;
                if first && thread != caller && stays {
                    entry.bystanders.push(thread);
                }
                *mask == entry.before
                    && *mask != entry.pushed
                    && (thread == caller || !self.has_own_mask(thread))
            }
            Direction::Back => {
                let owner = first && thread == entry.owner;
                (owner || *mask == entry.pushed)
                    && *mask != entry.before
                    && !entry.bystanders.contains(&thread)
            }
        }
    }

    /// Whether the thread was seen with a pushed mask that it had of its own accord.
    fn has_own_mask(&self, thread: ThreadId) -> bool {
        self.entries.iter().any(|entry| entry.bystanders.contains(&thread))
    }

    /// A kernel may say yes and grant less; only the mask read back tells.
    fn verify(&self, call: &'static str, asked: &CpuSet) -> Result<(), BindError> {
        let granted = self.read(call)?;
        if granted == *asked {
            Ok(())
        } else {
            Err(BindError::NotGranted { call, asked: asked.clone(), granted })
        }
    }

    fn read(&self, call: &'static str) -> Result<CpuSet, BindError> {
        self.backend.mask(CALLER).map_err(|source| BindError::System {
            call,
            action: "reading the mask",
            source,
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forth,
    Back,
}

fn ended_is_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    /// A process whose threads and masks a test chooses; thread 1 is the caller.
    #[derive(Debug, Default)]
    struct Fake {
        masks: Mutex<BTreeMap<ThreadId, CpuSet>>,
        /// CPUs the "kernel" grants; `None` grants all.
        granted: Mutex<Option<CpuSet>>,
        refuses: Mutex<Option<ThreadId>>,
    }

    impl Fake {
        fn number(thread: ThreadId) -> ThreadId {
            if thread == CALLER { 1 } else { thread }
        }

        fn snapshot(&self) -> BTreeMap<ThreadId, CpuSet> {
            self.masks.lock().unwrap().clone()
        }

        fn put(&self, thread: ThreadId, mask: CpuSet) {
            self.masks.lock().unwrap().insert(thread, mask);
        }
    }

    impl Backend for Fake {
        fn thread_count(&self) -> io::Result<usize> {
            Ok(self.masks.lock().unwrap().len())
        }

        fn threads(&self, threads: &mut Vec<ThreadId>, _count: usize) -> io::Result<()> {
            *threads = self.masks.lock().unwrap().keys().copied().collect();
            Ok(())
        }

        fn caller(&self) -> ThreadId {
            1
        }

        fn mask(&self, thread: ThreadId) -> io::Result<CpuSet> {
            let masks = self.masks.lock().unwrap();
            masks.get(&Self::number(thread)).cloned().ok_or(io::ErrorKind::NotFound.into())
        }

        fn set_mask(&self, thread: ThreadId, mask: &CpuSet) -> io::Result<()> {
            if *self.refuses.lock().unwrap() == Some(Self::number(thread)) {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            let granted = match &*self.granted.lock().unwrap() {
                Some(granted) => mask.intersection(granted),
                None => mask.clone(),
            };
            match self.masks.lock().unwrap().get_mut(&Self::number(thread)) {
                Some(place) => *place = granted,
                None => return Err(io::ErrorKind::NotFound.into()),
            }
            Ok(())
        }
    }

    fn set(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    fn process(masks: &[&str]) -> (Arc<Fake>, BindingStack) {
        let fake = Arc::new(Fake::default());
        for (thread, mask) in (1..).zip(masks) {
            fake.put(thread, set(mask));
        }
        let stack = BindingStack::new(Arc::clone(&fake) as Arc<dyn Backend>);
        (fake, stack)
    }

    fn push(stack: &mut BindingStack, to: &str) -> Result<(), BindError> {
        let before = stack.current()?;
        stack.push(before, set(to))
    }

    #[test]
    fn a_pop_too_many_changes_nothing() {
        let (fake, mut stack) = process(&["0", "0"]);
        let before = fake.snapshot();
        assert!(matches!(stack.pop(), Err(BindError::NothingPushed)));
        assert_eq!(fake.snapshot(), before);
        push(&mut stack, "0-3").unwrap();
        stack.pop().unwrap();
        assert!(matches!(stack.pop(), Err(BindError::NothingPushed)));
        assert_eq!(fake.snapshot(), before);
    }

    #[test]
    fn threads_with_a_mask_of_their_own_stay_also_when_it_equals_what_is_pushed() {
        let (fake, mut stack) = process(&["0", "0", "3", "0-3"]);
        push(&mut stack, "0-3").unwrap();
        let masks: Vec<_> = fake.snapshot().into_values().collect();
        assert_eq!(masks, [set("0-3"), set("0-3"), set("3"), set("0-3")]);
        stack.pop().unwrap();
        let masks: Vec<_> = fake.snapshot().into_values().collect();
        assert_eq!(masks, [set("0"), set("0"), set("3"), set("0-3")]);
    }

    #[test]
    fn a_thread_found_with_a_mask_of_its_own_stays_through_nested_pushes() {
        let (fake, mut stack) = process(&["0", "0-3"]);
        for to in ["0-3", "0-7", "4-7"] {
            push(&mut stack, to).unwrap();
            assert_eq!(fake.snapshot()[&2], set("0-3"));
        }
        for _ in 0..3 {
            stack.pop().unwrap();
            assert_eq!(fake.snapshot()[&2], set("0-3"));
        }
        assert_eq!(fake.snapshot()[&1], set("0"));
    }

    #[test]
    fn followers_still_follow_after_a_push_of_the_mask_they_have() {
        let (fake, mut stack) = process(&["0-7", "0-7"]);
        for to in ["0-7", "0-3", "0-3", "2"] {
            push(&mut stack, to).unwrap();
            assert_eq!(fake.snapshot()[&2], set(to));
        }
        for back in ["0-3", "0-3", "0-7", "0-7"] {
            stack.pop().unwrap();
            assert_eq!(fake.snapshot()[&2], set(back));
        }
    }

    #[test]
    fn threads_born_while_pushed_follow_the_pop() {
        let (fake, mut stack) = process(&["0", "0"]);
        push(&mut stack, "0-3").unwrap();
        fake.put(9, set("0-3"));
        stack.pop().unwrap();
        assert_eq!(fake.snapshot()[&9], set("0"));
    }

    #[test]
    fn a_thread_that_took_the_place_of_another_is_found() {
        let (fake, mut stack) = process(&["0", "0", "0"]);
        push(&mut stack, "0-3").unwrap();
        stack.pop().unwrap();
        // As many threads as before, but not the same ones.
        fake.masks.lock().unwrap().remove(&2);
        fake.put(9, set("0"));
        push(&mut stack, "0-3").unwrap();
        assert_eq!(fake.snapshot()[&9], set("0-3"));
    }

    #[test]
    fn a_pool_thread_that_pins_itself_while_pushed_keeps_its_mask() {
        let (fake, mut stack) = process(&["0", "0"]);
        push(&mut stack, "0-3").unwrap();
        fake.put(2, set("2"));
        stack.pop().unwrap();
        assert_eq!(fake.snapshot()[&2], set("2"));
        assert_eq!(fake.snapshot()[&1], set("0"));
    }

    #[test]
    fn a_grant_of_less_is_an_error_and_moves_everyone_back() {
        let (fake, mut stack) = process(&["0", "0", "1"]);
        let before = fake.snapshot();
        *fake.granted.lock().unwrap() = Some(set("0-1"));
        let error = push(&mut stack, "0-3").unwrap_err().to_string();
        assert!(error.contains("0-3") && error.contains("granted 0-1"), "{error}");
        assert_eq!(fake.snapshot(), before);
        assert_eq!(stack.depth(), 0);
    }

    #[test]
    fn a_refusal_half_way_moves_everyone_back() {
        let (fake, mut stack) = process(&["0", "0", "0"]);
        let before = fake.snapshot();
        *fake.refuses.lock().unwrap() = Some(3);
        assert!(matches!(push(&mut stack, "0-3"), Err(BindError::System { .. })));
        assert_eq!(fake.snapshot(), before);
    }

    proptest! {
        #[test]
        fn any_depth_of_pushes_is_undone_exactly(
            masks in proptest::collection::vec(1_u64..16, 1..6),
            pushes in proptest::collection::vec(1_u64..16, 0..12),
        ) {
            let texts: Vec<String> =
                masks.iter().map(|word| CpuSet::from_words(&[*word]).to_string()).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let (fake, mut stack) = process(&texts);
            let mut history = vec![fake.snapshot()];
            let mut followers = fake.snapshot();
            followers.retain(|_, mask| *mask == set(texts[0]));
            for word in pushes {
                let to = CpuSet::from_words(&[word]);
                let before = stack.current().unwrap();
                stack.push(before, to.clone()).unwrap();
                prop_assert_eq!(stack.current().unwrap(), to.clone());
                prop_assert!(followers.keys().all(|thread| fake.snapshot()[thread] == to));
                history.push(fake.snapshot());
            }
            while let Some(state) = history.pop() {
                prop_assert_eq!(fake.snapshot(), state);
                if !history.is_empty() {
                    stack.pop().unwrap();
                }
            }
        }
    }
}
