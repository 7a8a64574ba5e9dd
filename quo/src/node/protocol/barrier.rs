//! State word of the barrier and its transitions, free of system calls.
//!
//! `../barrier/README.md` describes the protocol. Every operation is a compare-and-swap on one
//! 64-bit word. The code is generic over the atomic type and over how to wait, so that the model
//! checker runs the same code as the processes.

use std::sync::atomic::Ordering;

use crate::atomic_word::AtomicWord;

/// Maximum number of members a barrier counts.
pub(crate) const MOST_MEMBERS: usize = EXPECTED.max() as usize;

/// Modulus of the count of failed generations.
pub(crate) const FAILURES: u64 = FAILED.max() + 1;

/// Number of failed generations whose kind the word remembers.
const HISTORY_LENGTH: u64 = HISTORY.width as u64;

/// A bit field of the word.
struct Field {
    shift: u32,
    width: u32,
}

impl Field {
    const fn max(&self) -> u64 {
        (1 << self.width) - 1
    }

    const fn get(&self, word: u64) -> u64 {
        word >> self.shift & self.max()
    }

    const fn set(&self, word: u64, value: u64) -> u64 {
        word & !(self.max() << self.shift) | (value & self.max()) << self.shift
    }
}

// The low half changes while a generation is open.
const EXPECTED: Field = Field { shift: 0, width: 12 };
const ARRIVED: Field = Field { shift: 12, width: 12 };
const HISTORY: Field = Field { shift: 24, width: 4 };
const EDITION: Field = Field { shift: 28, width: 3 };
const SLEEPING: Field = Field { shift: 31, width: 1 };
// The high half changes when a generation ends, and only then: it is the futex word.
const FAILED: Field = Field { shift: 32, width: 28 };
const COMPLETED: Field = Field { shift: 60, width: 2 };
const DEAD: Field = Field { shift: 62, width: 1 };
/// Distinguishes a barrier from fresh memory.
const OPEN: Field = Field { shift: 63, width: 1 };

/// Returns the half of the word on which sleepers wait.
pub(crate) const fn futex_half(word: u64) -> u32 {
    (word >> 32) as u32
}

/// Why a generation failed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// A member reached its deadline.
    TimedOut,
    /// A member died.
    Dead,
}

/// End of a generation, the same for every member of it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All expected members arrived.
    Completed,
    /// The generation failed.
    Failed(Failure),
}

/// A value of the state word.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) struct Word(pub(crate) u64);

impl Word {
    /// Returns the word of the first generation, expecting `expected` members.
    pub(crate) const fn opening(expected: u64) -> Self {
        Self(OPEN.set(EXPECTED.set(0, expected), 1))
    }

    pub(crate) const fn expected(self) -> u64 {
        EXPECTED.get(self.0)
    }

    pub(crate) const fn is_open(self) -> bool {
        OPEN.get(self.0) == 1
    }

    pub(crate) const fn arrived(self) -> u64 {
        ARRIVED.get(self.0)
    }

    pub(crate) const fn is_dead(self) -> bool {
        DEAD.get(self.0) == 1
    }

    const fn is_sleeping(self) -> bool {
        SLEEPING.get(self.0) == 1
    }

    /// Returns the number of generations that failed.
    pub(crate) const fn failed(self) -> u64 {
        FAILED.get(self.0)
    }

    const fn completed(self) -> u64 {
        COMPLETED.get(self.0)
    }

    /// Opens the next generation; the caller wakes the sleepers of this one.
    const fn reopened(self) -> Self {
        Self(SLEEPING.set(ARRIVED.set(self.0, 0), 0))
    }

    const fn complete(self) -> Self {
        let next = self.reopened();
        Self(COMPLETED.set(next.0, self.completed() + 1))
    }

    const fn fail(self, why: Failure) -> Self {
        let dead = matches!(why, Failure::Dead) as u64;
        let mut next = self.reopened().0;
        next = FAILED.set(next, self.failed() + 1);
        next = HISTORY.set(next, HISTORY.get(self.0) << 1 | dead);
        next = DEAD.set(next, DEAD.get(self.0) | dead);
        Self(next)
    }

    const fn arrive(self) -> Self {
        Self(ARRIVED.set(self.0, self.arrived() + 1))
    }

    const fn with_sleeper(self) -> Self {
        Self(SLEEPING.set(self.0, 1))
    }

    /// Returns the word with another roster and a new edition, to distinguish it from earlier
    /// words.
    const fn with_roster(self, expected: u64, dead: bool) -> Self {
        let next = EXPECTED.set(self.0, expected);
        let next = DEAD.set(next, dead as u64);
        Self(EDITION.set(next, EDITION.get(self.0) + 1))
    }

    const fn is_full(self) -> bool {
        self.arrived() > 0 && self.arrived() >= self.expected()
    }

    /// Returns why the failed generation with this number failed. Exact for the last few; older
    /// ones have the kind of the oldest remembered one.
    const fn failure(self, number: u64) -> Failure {
        let back = FAILED.max() & self.failed().wrapping_sub(number).wrapping_sub(1);
        let back = if back < HISTORY_LENGTH { back } else { HISTORY_LENGTH - 1 };
        if HISTORY.get(self.0) >> back & 1 == 1 { Failure::Dead } else { Failure::TimedOut }
    }
}

impl std::fmt::Debug for Word {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Word")
            .field("completed", &self.completed())
            .field("failed", &self.failed())
            .field("dead", &self.is_dead())
            .field("sleeping", &self.is_sleeping())
            .field("arrived", &self.arrived())
            .field("expected", &self.expected())
            .finish_non_exhaustive()
    }
}

/// State shared by the members of one barrier.
#[repr(C)]
pub(crate) struct State<A> {
    word: A,
    /// Number of completed generations: exact, or one too high while the word disagrees. Written by
    /// the member about to complete a generation; read by joiners, which have not counted along.
    completions: A,
}

impl<A: AtomicWord> State<A> {
    /// Returns the state before the first generation.
    #[cfg(loom)]
    pub(crate) fn new(word: A, completions: A) -> Self {
        Self { word, completions }
    }

    /// Returns the current word.
    #[inline]
    pub(crate) fn word(&self) -> Word {
        Word(self.word.load(Ordering::Acquire))
    }

    /// Opens the first generation unless another member has. Zeroed memory is not open.
    pub(crate) fn open(&self, expected: u64) {
        let _ = self.word.exchange(0, Word::opening(expected).0);
    }

    /// Arrives like a member that is killed after its arrival, before it wakes or waits.
    #[cfg(loom)]
    pub(super) fn arrive_without_waking(&self, word: Word) -> bool {
        let next = word.arrive();
        self.replace(word, if next.is_full() { next.complete() } else { next }).is_ok()
    }

    fn replace(&self, word: Word, next: Word) -> Result<(), Word> {
        self.word.exchange(word.0, next.0).map_err(Word)
    }

    /// Returns the full count of completed generations, given `word`, which has its low bits, and
    /// `hint`, the value of `completions`.
    fn count(hint: u64, word: Word) -> u64 {
        hint.wrapping_sub(hint.wrapping_sub(word.completed()) & COMPLETED.max())
    }
}

/// Position of one member: the number of generations whose end it has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GenerationCursor {
    pub(crate) completed: u64,
    pub(crate) failed: u64,
}

impl GenerationCursor {
    /// Returns the cursor of a member that was counted from the first generation.
    pub(crate) const fn founding() -> Self {
        Self { completed: 0, failed: 0 }
    }

    /// Returns the cursor of a member that the word counts from now on.
    pub(crate) fn joining<A: AtomicWord>(state: &State<A>) -> Self {
        // In this order: the hint is then as new as the word, and cannot be newer, since no
        // generation completes without this member any more.
        let word = state.word();
        let hint = state.completions.load(Ordering::Acquire);
        Self { completed: State::<A>::count(hint, word), failed: word.failed() }
    }

    /// Returns the end of this member's generation, if it has ended. A generation cannot complete
    /// without this member, so a completion that it has not seen yet is its own.
    #[inline]
    fn outcome(&self, word: Word) -> Option<Outcome> {
        if word.completed() != self.completed & COMPLETED.max() {
            Some(Outcome::Completed)
        } else if word.failed() != self.failed {
            Some(Outcome::Failed(word.failure(self.failed)))
        } else {
            None
        }
    }

    fn take(&mut self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Completed => self.completed = self.completed.wrapping_add(1),
            Outcome::Failed(_) => self.failed = (self.failed + 1) & FAILED.max(),
        }
        outcome
    }
}

/// The counted members, and those known to be dead.
pub(crate) trait Roster {
    /// Returns the number of members that a generation needs.
    fn expected(&self) -> u64;
    /// Returns true if a member is known to be dead and not expelled.
    fn has_dead(&self) -> bool;
    /// Tests the members not known to be dead; returns true if any member is dead now. Members that
    /// wait together may share the work unless it is `urgent`.
    fn inspect(&self, urgent: bool) -> bool;
}

/// Reason why a sleep ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum WakeReason {
    /// Woken, possibly spuriously: read the word again.
    Woken,
    /// A slice is over: check whether the other members are alive.
    CheckLiveness,
    /// The caller's deadline has passed.
    Deadline,
}

/// How to wait for a change of the word.
pub(crate) trait Wait<A> {
    /// Polls `done` while that is cheaper than a sleep; returns true if `done` was true.
    fn spin(&mut self, done: impl FnMut() -> bool) -> bool;
    /// Sleeps while the futex half of `word` equals that of `seen`.
    fn sleep(&mut self, word: &A, seen: u64) -> WakeReason;
    /// Wakes every sleeper on `word`.
    fn wake(&mut self, word: &A);
}

/// Takes part in one generation and returns its outcome.
#[inline]
pub(crate) fn pass<A: AtomicWord>(
    state: &State<A>,
    cursor: &mut GenerationCursor,
    roster: &impl Roster,
    wait: &mut impl Wait<A>,
) -> Outcome {
    let mut word = state.word();
    loop {
        // A generation that failed before this member arrived is still its own: it gets the others'
        // outcome, so that the n-th call ends in the same way on every member.
        if let Some(outcome) = cursor.outcome(word) {
            return cursor.take(outcome);
        }
        // A known death ends the generation even if the dead member had arrived in it.
        let dead = roster.has_dead();
        if word.is_dead() && !dead {
            // Expelled by a member that has not updated the word yet.
            reconcile(state, roster, false, wait);
            word = state.word();
            continue;
        }
        let next = if dead { word.fail(Failure::Dead) } else { word.arrive() };
        let last = !dead && next.is_full();
        let next = if last {
            state.completions.store(cursor.completed.wrapping_add(1), Ordering::Relaxed);
            next.complete()
        } else {
            next
        };
        match state.replace(word, next) {
            Err(current) => word = current,
            Ok(()) if last || dead => {
                if word.is_sleeping() {
                    wait.wake(&state.word);
                }
                let outcome =
                    if last { Outcome::Completed } else { Outcome::Failed(Failure::Dead) };
                return cursor.take(outcome);
            }
            Ok(()) => break,
        }
    }
    let outcome = await_outcome(state, cursor, roster, wait);
    cursor.take(outcome)
}

#[inline]
fn await_outcome<A: AtomicWord>(
    state: &State<A>,
    cursor: &GenerationCursor,
    roster: &impl Roster,
    wait: &mut impl Wait<A>,
) -> Outcome {
    wait.spin(|| cursor.outcome(state.word()).is_some());
    // Known deaths do not need a slice of sleep to be found.
    let mut suspicious = roster.has_dead();
    loop {
        let word = state.word();
        if let Some(outcome) = cursor.outcome(word) {
            return outcome;
        }
        if suspicious {
            suspicious = false;
            fail(state, cursor, Failure::Dead, wait);
            continue;
        }
        // A sleeper announces itself in the word: the member that ends the generation sees it.
        let asleep = word.with_sleeper();
        if asleep != word && state.replace(word, asleep).is_err() {
            continue;
        }
        match wait.sleep(&state.word, asleep.0) {
            WakeReason::Woken => {}
            WakeReason::CheckLiveness => {
                suspicious = roster.inspect(false);
                reconcile(state, roster, false, wait);
            }
            WakeReason::Deadline if roster.inspect(true) => suspicious = true,
            WakeReason::Deadline => fail(state, cursor, Failure::TimedOut, wait),
        }
    }
}

/// Fails the generation that `cursor` is in, unless it has ended.
fn fail<A: AtomicWord>(
    state: &State<A>,
    cursor: &GenerationCursor,
    why: Failure,
    wait: &mut impl Wait<A>,
) {
    let mut word = state.word();
    while cursor.outcome(word).is_none() {
        match state.replace(word, word.fail(why)) {
            Ok(()) => {
                if word.is_sleeping() {
                    wait.wake(&state.word);
                }
                return;
            }
            Err(current) => word = current,
        }
    }
}

/// Makes the word count the roster's members.
///
/// A member that `changed` the roster calls this next; if it dies in between, the first waiter that
/// inspects does it. A member that changed the roster replaces the word even if it is already
/// right, so that replacements based on a count from before the change fail.
pub(crate) fn reconcile<A: AtomicWord>(
    state: &State<A>,
    roster: &impl Roster,
    changed: bool,
    wait: &mut impl Wait<A>,
) {
    loop {
        let hint = state.completions.load(Ordering::Acquire);
        let word = state.word();
        let expected = roster.expected();
        let dead = word.is_dead() && roster.has_dead();
        let right = word.expected() == expected && word.is_dead() == dead;
        if !word.is_open() || right && !changed {
            return;
        }
        let next = word.with_roster(expected, dead);
        let full = next.is_full();
        let next = if full {
            // Fails if another member counted in between, and then the word has changed too.
            let completed = State::<A>::count(hint, word).wrapping_add(1);
            let _ = state.completions.exchange(hint, completed);
            next.complete()
        } else {
            next
        };
        if state.replace(word, next).is_ok() {
            if full && word.is_sleeping() {
                wait.wake(&state.word);
            }
            return;
        }
    }
}

/// Makes sure that no arrival of a dead member is counted in the open generation, by failing the
/// generation if it has any arrival. `still_dead` returns true while the member is still marked
/// dead; once it is not, another member has done this.
pub(crate) fn discard_arrivals<A: AtomicWord>(
    state: &State<A>,
    still_dead: impl Fn() -> bool,
    wait: &mut impl Wait<A>,
) {
    loop {
        let word = state.word();
        if word.arrived() == 0 || !still_dead() {
            return;
        }
        if state.replace(word, word.fail(Failure::Dead)).is_ok() {
            if word.is_sleeping() {
                wait.wake(&state.word);
            }
            return;
        }
    }
}
