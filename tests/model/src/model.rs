//! The barrier protocol under a model checker: every interleaving, up to a number of preemptions.
//!
//! `cargo test -p quo-model`
//!
//! A lost wake-up is a deadlock here, which the checker reports. No time slice rescues a sleeper of
//! the model: a sleep ends by a wake, by the sleeper's own deadline, or by a death, which the next
//! time slice would reveal.

use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::protocol::*;

const AWAY: u32 = 0;
const PRESENT: u32 = 1;
const KILLED: u32 = 2;
const DEAD: u32 = 3;
const EXPELLED: u32 = 4;
const LEFT: u32 = 5;

/// State shared by the members, and the kernel.
struct World {
    state: State<AtomicU64>,
    status: Vec<AtomicU32>,
    /// Lock of the kernel's queue of sleepers; counts the processes killed.
    queue: Mutex<u32>,
    bell: Condvar,
}

impl World {
    fn new(statuses: &[u32]) -> Arc<Self> {
        let expected = statuses.iter().filter(|&&status| status != AWAY).count() as u64;
        Arc::new(Self {
            state: State::new(AtomicU64::new(Word::opening(expected).0), AtomicU64::new(0)),
            status: statuses.iter().map(|&status| AtomicU32::new(status)).collect(),
            queue: Mutex::new(0),
            bell: Condvar::new(),
        })
    }

    fn change(&self, member: usize, from: u32, to: u32) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        self.status[member].compare_exchange(from, to, success, failure).is_ok()
    }

    fn is(&self, member: usize, status: u32) -> bool {
        self.status[member].load(Ordering::Acquire) == status
    }

    /// Ends a member's process, as the kernel does.
    fn kill(&self, member: usize) {
        self.status[member].store(KILLED, Ordering::Release);
        *self.queue.lock().unwrap() += 1;
        self.bell.notify_all();
    }

    fn leave(&self, member: usize) {
        assert!(self.change(member, PRESENT, LEFT));
        reconcile(&self.state, self, true, &mut Patient::new(self));
    }

    fn join(&self, member: usize) -> GenerationCursor {
        assert!(self.change(member, AWAY, PRESENT));
        reconcile(&self.state, self, true, &mut Patient::new(self));
        GenerationCursor::joining(&self.state)
    }

    fn expel(&self, member: usize) {
        if self.is(member, EXPELLED) {
            return reconcile(&self.state, self, false, &mut Patient::new(self));
        }
        self.inspect(true);
        discard_arrivals(&self.state, || self.is(member, DEAD), &mut Patient::new(self));
        self.change(member, DEAD, EXPELLED);
        reconcile(&self.state, self, true, &mut Patient::new(self));
    }

    fn pass(&self, cursor: &mut GenerationCursor) -> Outcome {
        pass(&self.state, cursor, self, &mut Patient::new(self))
    }

    fn pass_impatiently(&self, cursor: &mut GenerationCursor) -> Outcome {
        pass(&self.state, cursor, self, &mut Patient { world: self, impatient: true, looked: 0 })
    }
}

impl Roster for World {
    fn expected(&self) -> u64 {
        let counted =
            |status: &&AtomicU32| matches!(status.load(Ordering::Acquire), PRESENT | KILLED | DEAD);
        self.status.iter().filter(counted).count() as u64
    }

    fn has_dead(&self) -> bool {
        (0..self.status.len()).any(|member| self.is(member, DEAD))
    }

    fn inspect(&self, _: bool) -> bool {
        for member in 0..self.status.len() {
            self.change(member, KILLED, DEAD);
        }
        self.has_dead()
    }
}

/// A sleeper with the semantics of a futex.
struct Patient<'a> {
    world: &'a World,
    impatient: bool,
    /// Number of killed processes that this member has looked for.
    looked: u32,
}

impl<'a> Patient<'a> {
    fn new(world: &'a World) -> Self {
        Self { world, impatient: false, looked: 0 }
    }
}

impl Wait<AtomicU64> for Patient<'_> {
    fn spin(&mut self, _: impl FnMut() -> bool) -> bool {
        false
    }

    // Sleeps: named by the trait; the checker has no time.
    fn sleep(&mut self, word: &AtomicU64, seen: u64) -> WakeReason {
        if self.impatient {
            return WakeReason::Deadline;
        }
        let mut queue = self.world.queue.lock().unwrap();
        loop {
            if futex_half(word.load(Ordering::Acquire)) != futex_half(seen) {
                return WakeReason::Woken;
            }
            if *queue != self.looked {
                self.looked = *queue;
                return WakeReason::CheckLiveness;
            }
            queue = self.world.bell.wait(queue).unwrap();
        }
    }

    fn wake(&mut self, _: &AtomicU64) {
        // A wake reaches only queued members.
        drop(self.world.queue.lock().unwrap());
        self.world.bell.notify_all();
    }
}

const COMPLETED: Outcome = Outcome::Completed;
const DIED: Outcome = Outcome::Failed(Failure::Dead);
const TIMED_OUT: Outcome = Outcome::Failed(Failure::TimedOut);

fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Runs one thread per script; the main thread runs the first script.
fn run<T: Send + 'static>(
    world: &Arc<World>,
    scripts: impl IntoIterator<Item = fn(&World) -> T>,
) -> Vec<T> {
    let mut scripts = scripts.into_iter();
    let first = scripts.next();
    let threads: Vec<_> = scripts
        .map(|script| {
            let world = Arc::clone(world);
            thread::spawn(move || script(&world))
        })
        .collect();
    let mut results: Vec<T> = first.map(|script| script(world)).into_iter().collect();
    results.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
    results
}

fn founder(world: &World, rounds: usize) -> Vec<Outcome> {
    let mut cursor = GenerationCursor::founding();
    (0..rounds).map(|_| world.pass(&mut cursor)).collect()
}

const TWO_ROUNDS: fn(&World) -> Vec<Outcome> = |world| founder(world, 2);

#[test]
fn no_wake_up_is_lost() {
    check(3, || {
        let world = World::new(&[PRESENT; 2]);
        let outcomes = run(&world, [TWO_ROUNDS; 2]);
        assert_eq!(outcomes, [[COMPLETED; 2]; 2]);
    });
}

#[test]
fn no_wake_up_is_lost_among_three() {
    check(2, || {
        let world = World::new(&[PRESENT; 3]);
        let outcomes = run(&world, [TWO_ROUNDS; 3]);
        assert_eq!(outcomes, [[COMPLETED; 2]; 3]);
    });
}

#[test]
fn what_was_written_before_is_seen_after() {
    struct Told(loom::cell::UnsafeCell<u32>, loom::cell::UnsafeCell<u32>);
    #[allow(unsafe_code)]
    // SAFETY: the checker finds the races that this would hide, which is the purpose of the test.
    unsafe impl Sync for Told {}
    check(3, || {
        let world = World::new(&[PRESENT; 2]);
        let told = Arc::new(Told(loom::cell::UnsafeCell::new(0), loom::cell::UnsafeCell::new(0)));
        let other = {
            let (world, told) = (Arc::clone(&world), Arc::clone(&told));
            thread::spawn(move || {
                let mut cursor = GenerationCursor::founding();
                told.1.with_mut(|place| write(place, 2));
                world.pass(&mut cursor);
                assert_eq!(told.0.with(read), 1);
                world.pass(&mut cursor);
            })
        };
        let mut cursor = GenerationCursor::founding();
        told.0.with_mut(|place| write(place, 1));
        world.pass(&mut cursor);
        assert_eq!(told.1.with(read), 2);
        world.pass(&mut cursor);
        told.1.with_mut(|place| write(place, 3));
        other.join().unwrap();
    });
}

#[allow(unsafe_code)]
fn write(place: *mut u32, value: u32) {
    // SAFETY: the cell is live; the checker looks for races.
    unsafe { *place = value };
}

#[allow(unsafe_code)]
fn read(place: *const u32) -> u32 {
    // SAFETY: the cell is live; the checker looks for races.
    unsafe { *place }
}

#[test]
fn a_timeout_is_everybodys_or_nobodys() {
    check(3, || {
        let world = World::new(&[PRESENT; 2]);
        let scripts: [fn(&World) -> [Outcome; 2]; 2] = [
            |world| {
                let mut cursor = GenerationCursor::founding();
                [world.pass(&mut cursor), world.pass(&mut cursor)]
            },
            |world| {
                let mut cursor = GenerationCursor::founding();
                [world.pass_impatiently(&mut cursor), world.pass(&mut cursor)]
            },
        ];
        let outcomes = run(&world, scripts);
        assert_eq!(outcomes[0], outcomes[1]);
        assert!(matches!(outcomes[0][0], COMPLETED | TIMED_OUT));
        assert_eq!(outcomes[0][1], COMPLETED);
    });
}

#[test]
fn two_timeouts_in_three_agree() {
    check(2, || {
        let world = World::new(&[PRESENT; 3]);
        let impatient: fn(&World) -> [Outcome; 2] = |world| {
            let mut cursor = GenerationCursor::founding();
            [world.pass_impatiently(&mut cursor), world.pass(&mut cursor)]
        };
        let patient: fn(&World) -> [Outcome; 2] = |world| {
            let mut cursor = GenerationCursor::founding();
            [world.pass(&mut cursor), world.pass(&mut cursor)]
        };
        let outcomes = run(&world, [impatient, patient, impatient]);
        assert_eq!(outcomes[0], outcomes[1]);
        assert_eq!(outcomes[1], outcomes[2]);
        assert_eq!(outcomes[0][1], COMPLETED);
    });
}

/// Passes a survivor's rounds; it expels member 0 when it learns of its death.
fn survive(world: &World, rounds: usize) -> Vec<Outcome> {
    let mut cursor = GenerationCursor::founding();
    let mut pass = || {
        let outcome = world.pass(&mut cursor);
        if outcome == DIED {
            world.expel(0);
        }
        outcome
    };
    (0..rounds).map(|_| pass()).collect()
}

/// Member 0 arrives, completes the generation if it is the last, and dies before it wakes another
/// member.
fn arrive_and_die(world: &World) {
    while !world.state.arrive_without_waking(world.state.word()) {}
    world.kill(0);
}

#[test]
fn a_death_before_arriving_breaks_the_generation_for_all() {
    check(2, || {
        let world = World::new(&[PRESENT; 3]);
        let victim: fn(&World) -> Vec<Outcome> = |world| {
            world.kill(0);
            vec![DIED]
        };
        let survivor: fn(&World) -> Vec<Outcome> = |world| founder(world, 1);
        let outcomes = run(&world, [victim, survivor, survivor]);
        assert_eq!(outcomes, [[DIED]; 3]);
    });
}

#[test]
fn a_death_after_arriving_is_seen_alike_by_all() {
    check(2, || {
        let world = World::new(&[PRESENT; 3]);
        let victim: fn(&World) -> Vec<Outcome> = |world| {
            arrive_and_die(world);
            vec![]
        };
        let survivor: fn(&World) -> Vec<Outcome> = |world| founder(world, 1);
        let outcomes = run(&world, [victim, survivor, survivor]);
        assert_eq!(outcomes[1], outcomes[2]);
        assert!(matches!(outcomes[1][0], COMPLETED | DIED));
    });
}

#[test]
fn wake_up_that_died_with_its_sender_is_repeated() {
    check(3, || {
        let world = World::new(&[PRESENT; 2]);
        let victim: fn(&World) -> Vec<Outcome> = |world| {
            arrive_and_die(world);
            vec![]
        };
        let survivor: fn(&World) -> Vec<Outcome> = |world| survive(world, 3);
        let outcomes = run(&world, [victim, survivor]);
        let all = &outcomes[1];
        assert!(all[..] == [COMPLETED, DIED, COMPLETED] || all[..] == [DIED, COMPLETED, COMPLETED]);
    });
}

#[test]
fn survivors_that_expel_the_dead_go_on_together() {
    check(2, || {
        let world = World::new(&[KILLED, PRESENT, PRESENT]);
        *world.queue.lock().unwrap() += 1;
        let survivor: fn(&World) -> Vec<Outcome> = |world| survive(world, 2);
        let outcomes = run(&world, [survivor; 2]);
        assert_eq!(outcomes, [[DIED, COMPLETED]; 2]);
    });
}

#[test]
fn death_in_the_middle_of_expelling_is_repaired() {
    check(2, || {
        let world = World::new(&[KILLED, PRESENT, PRESENT]);
        *world.queue.lock().unwrap() += 1;
        let half_expels: fn(&World) -> Vec<Outcome> = |world| {
            world.inspect(true);
            discard_arrivals(&world.state, || world.is(0, DEAD), &mut Patient::new(world));
            world.change(0, DEAD, EXPELLED);
            world.kill(1);
            vec![]
        };
        let goes_on: fn(&World) -> Vec<Outcome> = |world| {
            let mut cursor = GenerationCursor::founding();
            let mut outcomes = Vec::new();
            while outcomes.last() != Some(&COMPLETED) && outcomes.len() < 4 {
                outcomes.push(world.pass(&mut cursor));
                // The error names no member that is already expelled.
                for member in 0..2 {
                    if world.is(member, DEAD) {
                        world.expel(member);
                    }
                }
            }
            outcomes
        };
        let outcomes = run(&world, [half_expels, goes_on]);
        assert_eq!(outcomes[1].last(), Some(&COMPLETED), "{outcomes:?}");
    });
}

#[test]
fn an_arrival_of_the_dead_does_not_stand_for_anothers() {
    check(2, || {
        let world = World::new(&[PRESENT, PRESENT, PRESENT]);
        // Member 0 had arrived, and no member has looked for it yet.
        arrive_and_die(&world);
        let calls = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let survivor = |me: usize| {
            let (world, calls) = (Arc::clone(&world), Arc::clone(&calls));
            move || {
                if me == 0 {
                    world.expel(0);
                }
                let mut cursor = GenerationCursor::founding();
                let mut outcomes = Vec::new();
                while outcomes.last() != Some(&COMPLETED) {
                    calls[me].fetch_add(1, Ordering::Relaxed);
                    outcomes.push(world.pass(&mut cursor));
                    world.expel(0);
                }
                assert!(calls[1 - me].load(Ordering::Relaxed) >= outcomes.len() as u32);
                outcomes
            }
        };
        let other = thread::spawn(survivor(1));
        assert_eq!(survivor(0)(), other.join().unwrap());
    });
}

#[test]
fn who_leaves_is_not_waited_for() {
    check(2, || {
        let world = World::new(&[PRESENT; 3]);
        let stays: fn(&World) -> Vec<Outcome> = |world| founder(world, 2);
        let leaves: fn(&World) -> Vec<Outcome> = |world| {
            world.leave(2);
            vec![COMPLETED; 2]
        };
        let outcomes = run(&world, [stays, leaves, stays]);
        assert_eq!(outcomes, [[COMPLETED; 2]; 3]);
    });
}

#[test]
fn who_joins_is_waited_for_from_then_on() {
    check(3, || {
        let world = World::new(&[PRESENT, AWAY]);
        let stays: fn(&World) -> (Vec<Outcome>, u64) = |world| {
            let mut cursor = GenerationCursor::founding();
            let outcomes = (0..2).map(|_| world.pass(&mut cursor)).collect();
            world.leave(0);
            (outcomes, cursor.completed)
        };
        let joins: fn(&World) -> (Vec<Outcome>, u64) = |world| {
            let mut cursor = world.join(1);
            let outcomes = vec![world.pass(&mut cursor)];
            world.leave(1);
            (outcomes, cursor.completed)
        };
        let results = run(&world, [stays, joins]);
        assert_eq!(results[0], (vec![COMPLETED; 2], 2));
        // A late member counts generations as the others do.
        assert_eq!(results[1].0, [COMPLETED]);
        assert!((1..=3).contains(&results[1].1), "{}", results[1].1);
    });
}

#[test]
fn death_in_the_middle_of_leaving_is_repaired() {
    check(2, || {
        let world = World::new(&[PRESENT; 3]);
        let stays: fn(&World) -> Vec<Outcome> = |world| founder(world, 1);
        let half_leaves: fn(&World) -> Vec<Outcome> = |world| {
            assert!(world.change(2, PRESENT, LEFT));
            // The member was killed before it could count itself out: the others do so the next
            // time they look.
            *world.queue.lock().unwrap() += 1;
            world.bell.notify_all();
            vec![COMPLETED]
        };
        let outcomes = run(&world, [stays, half_leaves, stays]);
        assert_eq!(outcomes, [[COMPLETED]; 3]);
    });
}
