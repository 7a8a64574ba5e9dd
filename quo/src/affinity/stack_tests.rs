use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;

use crate::affinity::EVERY_CPU;

/// A process whose threads and masks a test chooses; thread 1 is the caller.
#[derive(Debug, Default)]
struct Fake {
    masks: Mutex<BTreeMap<ThreadId, CpuSet>>,
    /// CPUs the "kernel" grants; `None` grants all.
    granted: Mutex<Option<CpuSet>>,
    refuses: Mutex<Option<ThreadId>>,
    /// Accepts every mask and changes none.
    deaf: Mutex<bool>,
    /// The thread that calls; 0 for thread 1.
    caller: Mutex<ThreadId>,
    /// A thread that is created while the next mask is set.
    newborn: Mutex<Option<(ThreadId, CpuSet)>>,
    /// A thread that is listed but has ended.
    ended: Mutex<Option<ThreadId>>,
    /// Number of times that the threads were listed.
    lists: Mutex<usize>,
    ledger: Mutex<Ledger>,
}

impl Fake {
    fn number(&self, thread: ThreadId) -> ThreadId {
        if thread == CALLER { self.caller() } else { thread }
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
        Ok(self.masks.lock().unwrap().len() + usize::from(self.ended.lock().unwrap().is_some()))
    }

    fn threads(&self, threads: &mut Vec<ThreadId>, _count: usize) -> io::Result<()> {
        *self.lists.lock().unwrap() += 1;
        *threads = self.masks.lock().unwrap().keys().copied().collect();
        threads.extend(*self.ended.lock().unwrap());
        Ok(())
    }

    fn are_all_here(&self, threads: &[ThreadId]) -> bool {
        let masks = self.masks.lock().unwrap();
        threads.iter().all(|thread| masks.contains_key(thread))
    }

    fn caller(&self) -> ThreadId {
        (*self.caller.lock().unwrap()).max(1)
    }

    fn mask(&self, thread: ThreadId) -> io::Result<CpuSet> {
        let masks = self.masks.lock().unwrap();
        masks.get(&self.number(thread)).cloned().ok_or(io::ErrorKind::NotFound.into())
    }

    fn set_mask(&self, thread: ThreadId, mask: &CpuSet) -> io::Result<()> {
        if let Some((newborn, mask)) = self.newborn.lock().unwrap().take() {
            self.put(newborn, mask);
        }
        if *self.refuses.lock().unwrap() == Some(self.number(thread)) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        if *self.deaf.lock().unwrap() {
            return Ok(());
        }
        let granted = match &*self.granted.lock().unwrap() {
            Some(granted) => mask.intersection(granted),
            None => mask.clone(),
        };
        if granted.is_empty() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        match self.masks.lock().unwrap().get_mut(&self.number(thread)) {
            Some(place) => *place = granted,
            None => return Err(io::ErrorKind::NotFound.into()),
        }
        Ok(())
    }

    fn ledger(&self) -> &Mutex<Ledger> {
        &self.ledger
    }

    fn everything(&self) -> Option<CpuSet> {
        let limits = self.granted.lock().unwrap().is_some();
        limits.then(|| CpuSet::from_range(0..EVERY_CPU))
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

fn push(stack: &mut BindingStack, to: &str) -> Result<CpuSet, BindError> {
    stack.push(set(to))
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
fn threads_with_masks_equal_to_the_push_stay() {
    let (fake, mut stack) = process(&["0", "0", "3", "0-3"]);
    push(&mut stack, "0-3").unwrap();
    let masks: Vec<_> = fake.snapshot().into_values().collect();
    assert_eq!(masks, [set("0-3"), set("0-3"), set("3"), set("0-3")]);
    stack.pop().unwrap();
    let masks: Vec<_> = fake.snapshot().into_values().collect();
    assert_eq!(masks, [set("0"), set("0"), set("3"), set("0-3")]);
}

#[test]
fn thread_with_its_own_mask_stays_through_nested_pushes() {
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
fn followers_still_follow_after_a_push_of_their_mask() {
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
fn thread_born_while_pushed_follows_after_further_pushes() {
    let (fake, mut stack) = process(&["0"]);
    push(&mut stack, "0-3").unwrap();
    fake.put(9, set("0-3"));
    push(&mut stack, "2").unwrap();
    assert_eq!(stack.pop().unwrap(), set("0-3"));
    assert_eq!(fake.snapshot()[&9], set("0-3"));
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
fn unchanged_threads_are_listed_once() {
    let (fake, mut stack) = process(&["0", "0", "0"]);
    for _ in 0..3 {
        push(&mut stack, "0-3").unwrap();
        stack.pop().unwrap();
    }
    assert_eq!(*fake.lists.lock().unwrap(), 1);
    fake.put(4, set("0"));
    push(&mut stack, "0-3").unwrap();
    assert_eq!((fake.snapshot()[&4].clone(), *fake.lists.lock().unwrap()), (set("0-3"), 2));
}

#[test]
fn pool_thread_pinned_while_pushed_keeps_its_mask() {
    let (fake, mut stack) = process(&["0", "0"]);
    push(&mut stack, "0-3").unwrap();
    fake.put(2, set("2"));
    stack.pop().unwrap();
    assert_eq!(fake.snapshot()[&2], set("2"));
    assert_eq!(fake.snapshot()[&1], set("0"));
}

#[test]
fn mask_unlike_asked_and_allowed_is_an_error() {
    let (fake, mut stack) = process(&["5", "5", "1"]);
    let before = fake.snapshot();
    *fake.deaf.lock().unwrap() = true;
    let error = push(&mut stack, "0-3").unwrap_err().to_string();
    assert!(error.contains("0-3") && error.contains("granted"), "{error}");
    assert_eq!(fake.snapshot(), before);
    assert_eq!(stack.depth(), 0);
}

#[test]
fn push_after_shrink_binds_to_what_is_left() {
    for masks in [&["0"][..], &["0", "0", "1"]] {
        let (fake, mut stack) = process(masks);
        *fake.granted.lock().unwrap() = Some(set("0-1"));
        assert_eq!(push(&mut stack, "0-3").unwrap(), set("0-1"));
        assert_eq!(stack.shortfall().unwrap().granted, set("0-1"));
        assert_eq!(stack.pop().unwrap(), set("0"));
        assert_eq!(stack.shortfall(), None);
        assert_eq!(fake.snapshot()[&1], set("0"));
    }
}

#[test]
fn pop_leaves_an_unbound_caller_all_that_is_allowed_then() {
    for allowed in ["0-3", "1", "0-1"] {
        for masks in [&["0-1"][..], &["0-1", "0-1", "1"]] {
            let (fake, mut stack) = process(masks);
            *fake.granted.lock().unwrap() = Some(set("0-1"));
            let aim = Aim { cpus: set("0"), unbound: true, confines: false };
            stack.push_with(|_| Ok::<_, BindError>(aim)).unwrap();
            *fake.granted.lock().unwrap() = Some(set(allowed));
            assert_eq!(stack.pop().unwrap(), set(allowed));
            let now = fake.snapshot();
            let followers = now.iter().filter(|(thread, _)| **thread < 3);
            assert!(followers.into_iter().all(|(_, mask)| *mask == set(allowed)), "{now:?}");
            assert!(now.get(&3).is_none_or(|mask| *mask == set("1")), "{now:?}");
            assert_eq!(stack.shortfall().is_some(), allowed == "1");
        }
    }
}

#[test]
fn push_onto_cpus_that_are_gone_changes_nothing() {
    let (fake, mut stack) = process(&["0", "0"]);
    let before = fake.snapshot();
    *fake.granted.lock().unwrap() = Some(set("0-1"));
    let error = push(&mut stack, "2-3").unwrap_err();
    assert!(matches!(error, BindError::OutsideAllowed { .. }), "{error}");
    assert_eq!(fake.snapshot(), before);
    assert_eq!(stack.depth(), 0);
}

#[test]
fn pop_after_shrink_moves_all_followers() {
    for (before, left) in [("0,3", "3"), ("0", "2-3")] {
        let (fake, mut stack) = process(&[before, before, "5"]);
        push(&mut stack, "0-3").unwrap();
        // As the kernel treats masks inside a shrinking set.
        *fake.granted.lock().unwrap() = Some(set("2-3"));
        fake.put(1, set("2-3"));
        fake.put(2, set("2-3"));
        assert_eq!(stack.pop().unwrap(), set(left));
        let masks: Vec<_> = fake.snapshot().into_values().collect();
        assert_eq!(masks, [set(left), set(left), set("5")]);
        assert_eq!(stack.shortfall().unwrap().asked, set(before));
    }
}

proptest! {
    #[test]
    fn remaining_mask_is_allowed_and_never_empty(
        mask in proptest::collection::vec(0_usize..100, 1..20),
        allowed in proptest::collection::vec(0_usize..100, 1..20),
    ) {
        let (mask, allowed): (CpuSet, CpuSet) =
            (mask.into_iter().collect(), allowed.into_iter().collect());
        let left = remaining(&mask, &allowed);
        prop_assert!(!left.is_empty() && left.is_subset(&allowed));
        prop_assert_eq!(left.is_subset(&mask), mask.intersects(&allowed));
    }
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
    fn threads_born_at_any_depth_follow_all_later_bindings(
        steps in proptest::collection::vec(0_u64..40, 0..60),
    ) {
        let (fake, mut stack) = process(&["0"]);
        let mut masks = vec![set("0")];
        for step in steps {
            match step {
                0..16 => {
                    let to = CpuSet::from_words(&[step + 1]);
                    stack.push(to.clone()).unwrap();
                    masks.push(to);
                }
                16..20 => {
                    let born = ThreadId::try_from(fake.snapshot().len()).unwrap() + 1;
                    fake.put(born, masks.last().unwrap().clone());
                }
                _ if masks.len() > 1 => {
                    masks.pop();
                    stack.pop().unwrap();
                }
                _ => {}
            }
            let now = masks.last().unwrap();
            prop_assert!(fake.masks().iter().all(|mask| mask == now), "{:?}", fake.snapshot());
        }
    }

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
            stack.push(to.clone()).unwrap();
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

impl Fake {
    fn call_from(&self, thread: ThreadId) {
        *self.caller.lock().unwrap() = thread;
    }

    fn masks(&self) -> Vec<CpuSet> {
        self.snapshot().into_values().collect()
    }
}

fn second(fake: &Arc<Fake>) -> BindingStack {
    BindingStack::new(Arc::clone(fake) as Arc<dyn Backend>)
}

#[test]
fn stacks_popped_in_the_order_of_pushes_restore_masks() {
    let (fake, mut first) = process(&["0", "0", "3"]);
    let before = fake.masks();
    let mut other = second(&fake);
    push(&mut first, "0-3").unwrap();
    push(&mut other, "1").unwrap();
    assert_eq!(fake.masks(), [set("1"), set("1"), set("3")]);
    assert_eq!(first.pop().unwrap(), set("1"));
    assert_eq!(fake.masks(), [set("1"), set("1"), set("3")]);
    assert_eq!(other.pop().unwrap(), set("0"));
    assert_eq!(fake.masks(), before);
}

#[test]
fn thread_with_a_stack_of_its_own_does_not_follow() {
    let (fake, mut first) = process(&["0", "0", "0"]);
    let mut other = second(&fake);
    fake.call_from(2);
    push(&mut other, "0-1").unwrap();
    // Threads without a stack follow; the thread that pushed has its own.
    assert_eq!(fake.masks(), [set("0-1"), set("0-1"), set("0-1")]);
    fake.call_from(1);
    push(&mut first, "0-3").unwrap();
    assert_eq!(fake.masks(), [set("0-3"), set("0-1"), set("0-3")]);
    fake.call_from(2);
    other.pop().unwrap();
    assert_eq!(fake.masks(), [set("0-3"), set("0"), set("0-3")]);
    fake.call_from(1);
    first.pop().unwrap();
    assert_eq!(fake.masks(), [set("0"), set("0"), set("0")]);
}

#[test]
fn pop_leaves_children_of_another_thread_with_the_same_mask() {
    let (fake, mut first) = process(&["0", "0"]);
    let mut other = second(&fake);
    for (thread, stack) in [(1, &mut first), (2, &mut other)] {
        fake.call_from(thread);
        push(stack, "0-3").unwrap();
    }
    fake.put(9, set("0-3"));
    fake.call_from(1);
    first.pop().unwrap();
    assert_eq!(fake.masks(), [set("0"), set("0-3"), set("0-3")]);
    fake.call_from(2);
    other.pop().unwrap();
    assert_eq!(fake.masks(), [set("0"), set("0"), set("0")]);
}

#[test]
fn dropped_stack_leaves_masks_and_the_ledger_clean() {
    let (fake, mut first) = process(&["0", "0"]);
    let mut other = second(&fake);
    push(&mut other, "0-3").unwrap();
    drop(other);
    assert_eq!(fake.masks(), [set("0-3"), set("0-3")]);
    push(&mut first, "1").unwrap();
    first.pop().unwrap();
    assert_eq!(fake.masks(), [set("0-3"), set("0-3")]);
    assert!(first.entries().is_empty());
}

#[test]
fn mask_of_a_taken_cpu_comes_back_with_the_cpu() {
    for count in [1, 3] {
        let (fake, mut stack) = process(&["0", "0", "5"][..count]);
        push(&mut stack, "0-3").unwrap();
        *fake.granted.lock().unwrap() = Some(set("1-3"));
        let narrowed = (1..).take(count.min(2));
        narrowed.for_each(|thread| fake.put(thread, set("1-3")));
        assert_eq!(stack.pop().unwrap(), set("1-3"));
        push(&mut stack, "1-2").unwrap();
        stack.pop().unwrap();
        assert_eq!(fake.snapshot()[&1], set("1-3"));
        *fake.granted.lock().unwrap() = None;
        assert!(stack.restore_owed());
        assert!(!stack.restore_owed());
        let masks = ["0", "0", "5"].map(set);
        assert_eq!(fake.masks(), masks[..count]);
    }
}

#[test]
fn mask_that_a_program_set_meanwhile_is_left_alone() {
    let (fake, mut stack) = process(&["0"]);
    push(&mut stack, "0-3").unwrap();
    *fake.granted.lock().unwrap() = Some(set("1-3"));
    stack.pop().unwrap();
    fake.put(1, set("2"));
    *fake.granted.lock().unwrap() = None;
    stack.restore_owed();
    assert_eq!(fake.masks(), [set("2")]);
}

proptest! {
    /// Each thread pushes and pops in turn, some in separate stacks and some in shared ones.
    #[test]
    fn any_turns_of_threads_and_stacks_restore_every_mask(
        masks in proptest::collection::vec(1_u64..16, 4),
        turns in proptest::collection::vec((1..=4, 0_usize..3, 1_u64..16, 0..3), 0..40),
    ) {
        let texts = masks.iter().map(|word| CpuSet::from_words(&[*word]).to_string());
        let texts: Vec<String> = texts.collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let (fake, first) = process(&texts);
        let before = fake.snapshot();
        let mut stacks = [first, second(&fake), second(&fake)];
        for (thread, stack, word, turn) in turns {
            fake.call_from(thread);
            if turn == 0 {
                let _ = stacks[stack].pop();
            } else {
                let to = CpuSet::from_words(&[word]);
                prop_assert_eq!(stacks[stack].push(to.clone()).unwrap(), to.clone());
                prop_assert_eq!(stacks[stack].current().unwrap(), to);
            }
        }
        for (thread, stack) in (0..stacks.len()).rev().enumerate() {
            fake.call_from(ThreadId::try_from(thread).unwrap() + 1);
            while stacks[stack].depth() > 0 {
                stacks[stack].pop().unwrap();
            }
        }
        prop_assert_eq!(fake.snapshot(), before);
    }
}

#[test]
fn thread_that_follows_a_push_counts_as_bound() {
    let (fake, mut first) = process(&["0", "1"]);
    *fake.granted.lock().unwrap() = Some(set("0-1"));
    let mut other = second(&fake);
    fake.put(2, set("0"));
    push(&mut first, "0-1").unwrap();
    fake.call_from(2);
    let aim = Aim { cpus: set("1"), unbound: true, confines: false };
    other.push_with(|_| Ok::<_, BindError>(aim)).unwrap();
    fake.call_from(1);
    first.pop().unwrap();
    fake.call_from(2);
    other.pop().unwrap();
    assert_eq!(fake.masks(), [set("0"), set("0")]);
}

#[test]
fn threads_born_while_others_move_are_moved_too() {
    let (fake, mut stack) = process(&["0", "0"]);
    *fake.newborn.lock().unwrap() = Some((3, set("0")));
    push(&mut stack, "0-3").unwrap();
    assert_eq!(fake.masks(), [set("0-3"), set("0-3"), set("0-3")]);
    *fake.newborn.lock().unwrap() = Some((4, set("0-3")));
    stack.pop().unwrap();
    assert_eq!(fake.masks(), [set("0"), set("0"), set("0"), set("0")]);
}

#[test]
fn thread_that_ends_while_listed_is_passed_over() {
    let (fake, mut stack) = process(&["0", "0"]);
    *fake.ended.lock().unwrap() = Some(9);
    push(&mut stack, "0-3").unwrap();
    assert_eq!(fake.masks(), [set("0-3"), set("0-3")]);
    stack.pop().unwrap();
    assert_eq!(fake.masks(), [set("0"), set("0")]);
}

#[test]
fn thread_that_takes_the_pushed_mask_later_follows_on() {
    let (fake, mut stack) = process(&["0", "3"]);
    push(&mut stack, "0-3").unwrap();
    fake.put(2, set("0-3"));
    push(&mut stack, "1").unwrap();
    assert_eq!(fake.masks(), [set("1"), set("1")]);
    stack.pop().unwrap();
    assert_eq!(fake.masks(), [set("0-3"), set("0-3")]);
}

#[test]
fn followers_listed_before_the_owner_are_moved_after_a_shrink() {
    let (fake, mut stack) = process(&["0", "0", "0"]);
    fake.call_from(3);
    push(&mut stack, "0-3").unwrap();
    *fake.granted.lock().unwrap() = Some(set("0-1"));
    (1..=3).for_each(|thread| fake.put(thread, set("0-1")));
    assert_eq!(stack.pop().unwrap(), set("0"));
    assert_eq!(fake.masks(), [set("0"), set("0"), set("0")]);
}

#[test]
fn pop_moves_its_owner_back_from_any_mask() {
    let (fake, mut stack) = process(&["0", "0"]);
    push(&mut stack, "0-3").unwrap();
    fake.put(1, set("7"));
    assert_eq!(stack.pop().unwrap(), set("0"));
    assert_eq!(fake.masks(), [set("0"), set("0")]);
}

#[test]
fn pop_by_a_thread_that_stayed_returns_the_owners_mask() {
    let (fake, mut stack) = process(&["0", "5"]);
    push(&mut stack, "0-3").unwrap();
    fake.call_from(2);
    assert_eq!(stack.pop().unwrap(), set("0"));
    assert_eq!(fake.masks(), [set("0"), set("5")]);
}

#[test]
fn pop_that_changes_nothing_is_an_error_and_stays() {
    let (fake, mut stack) = process(&["0", "5"]);
    push(&mut stack, "0-3").unwrap();
    *fake.deaf.lock().unwrap() = true;
    let error = stack.pop().unwrap_err();
    assert!(matches!(error, BindError::NotGranted { call: "pop", .. }), "{error}");
    assert_eq!((stack.depth(), stack.entries()), (1, vec![(set("0"), set("0-3"))]));
}

#[test]
fn last_push_of_any_thread_is_popped_with_its_mask() {
    let (fake, mut stack) = process(&["0", "5"]);
    assert_eq!(stack.pop_last().unwrap(), None);
    push(&mut stack, "0-3").unwrap();
    fake.call_from(2);
    push(&mut stack, "6").unwrap();
    fake.call_from(1);
    assert_eq!(stack.pop_last().unwrap(), Some((set("6"), set("5"))));
    assert_eq!(stack.pop_last().unwrap(), Some((set("0-3"), set("0"))));
    assert_eq!((stack.depth(), fake.masks()), (0, vec![set("0"), set("5")]));
}

#[test]
fn shortfall_stays_until_a_debt_is_settled() {
    let (fake, mut stack) = process(&["0"]);
    *fake.granted.lock().unwrap() = Some(set("0-1"));
    assert_eq!(push(&mut stack, "0-3").unwrap(), set("0-1"));
    assert!(!stack.restore_owed());
    assert_eq!(stack.shortfall().unwrap().asked, set("0-3"));
    *fake.granted.lock().unwrap() = Some(set("1"));
    fake.put(1, set("1"));
    stack.pop().unwrap();
    assert_eq!(stack.shortfall().unwrap().asked, set("0"));
    *fake.granted.lock().unwrap() = None;
    assert!(stack.restore_owed());
    assert_eq!((stack.shortfall(), fake.masks()), (None, vec![set("0")]));
}

#[test]
fn stack_dropped_in_a_forked_process_keeps_its_pushes() {
    let (fake, mut stack) = process(&["0"]);
    push(&mut stack, "1").unwrap();
    let number = stack.number;
    stack.process = stack.process.wrapping_add(1);
    drop(stack);
    assert_eq!(lock(&*fake).of(number).count(), 1);
    let (fake, mut stack) = process(&["0"]);
    push(&mut stack, "1").unwrap();
    drop(stack);
    assert_eq!(lock(&*fake).of(number).count(), 0);
}
