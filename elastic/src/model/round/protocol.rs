//! The words of the protocol and their transitions, without system calls and generic over the
//! atomic, so that the model checker runs the same code as the processes.

use std::sync::atomic::Ordering;

use quo::atomic_word::AtomicWord;

/// No resize is pending.
pub const QUIET: u64 = 0;
/// A resize is pending, and the round in which all ranks enter is not known yet.
pub const RAISED: u64 = u64::MAX;

const HELD: u64 = 1;

/// The word that the ranks of a node read in every probe: [`QUIET`], [`RAISED`], or the agreed
/// round.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Signal<A>(A);

/// Word of one rank for the agent of its node: the round it is in, and whether it is held there.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Slot<A>(A);

/// Result of a probe.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Continue with the program.
    Go,
    /// Every rank enters the resize at this round.
    Enter,
}

/// Why a held rank stopped waiting: its [`Hold`] gave up.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Interrupted;

/// How a held rank waits.
pub trait Hold<A> {
    /// Sleeps while the word is [`RAISED`], or returns earlier.
    ///
    /// # Errors
    /// [`Interrupted`] when waiting is of no use any more: the agents have ended.
    fn hold(&mut self, word: &A) -> Result<(), Interrupted>;
}

impl<A: AtomicWord> Signal<A> {
    /// Makes a word with the value [`QUIET`].
    #[cfg(any(test, loom))]
    pub fn new(word: A) -> Self {
        Self(word)
    }

    /// Returns the present value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Returns the word itself, to sleep on.
    pub fn word(&self) -> &A {
        &self.0
    }

    /// Raises the signal. The agent then reads the [`floor`].
    pub fn raise(&self) {
        self.0.store(RAISED, Ordering::Release);
        A::fence();
    }

    /// Stores the agreed round; sleepers have to be woken afterwards.
    pub fn tell(&self, round: u64) {
        self.0.store(round, Ordering::Release);
    }

    /// Lowers the signal: nothing is pending any more; sleepers have to be woken afterwards.
    pub fn lower(&self) {
        self.0.store(QUIET, Ordering::Release);
    }
}

impl<A: AtomicWord> Slot<A> {
    /// Makes the slot of a rank before its first probe.
    #[cfg(any(test, loom))]
    pub fn new(word: A) -> Self {
        Self(word)
    }

    /// Resets the slot before the first probe of a new epoch.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Returns the round that the rank has reached.
    pub fn round(&self) -> u64 {
        self.0.load(Ordering::Acquire) >> 1
    }

    /// Returns the first round that the rank cannot have passed.
    fn floor(&self) -> u64 {
        let state = self.0.load(Ordering::Acquire);
        (state >> 1) + u64::from(state & HELD == 0)
    }

    fn enter(&self, round: u64) {
        self.0.store(round << 1, Ordering::Release);
    }

    fn mark_held(&self, round: u64) {
        self.0.store(round << 1 | HELD, Ordering::Release);
    }
}

/// Returns the first round that none of these ranks can have passed, once the word is raised.
pub fn floor<'a, A: AtomicWord + 'a>(slots: impl IntoIterator<Item = &'a Slot<A>>) -> u64 {
    slots.into_iter().map(Slot::floor).max().unwrap_or(0)
}

/// Returns the round in which all ranks enter, from the floors of all nodes.
pub fn agree(floors: impl IntoIterator<Item = u64>) -> u64 {
    floors.into_iter().max().unwrap_or(0).max(1)
}

/// Makes one probe, the `round`-th of this rank; rounds begin at 1.
///
/// # Errors
/// [`Interrupted`] when `hold` gives up.
#[inline]
pub fn probe<A: AtomicWord>(
    signal: &Signal<A>,
    slot: &Slot<A>,
    round: u64,
    hold: &mut impl Hold<A>,
) -> Result<Probe, Interrupted> {
    slot.enter(round);
    A::fence();
    match signal.get() {
        QUIET => Ok(Probe::Go),
        seen => pending(signal, slot, round, seen, hold),
    }
}

#[cold]
fn pending<A: AtomicWord>(
    signal: &Signal<A>,
    slot: &Slot<A>,
    round: u64,
    mut seen: u64,
    hold: &mut impl Hold<A>,
) -> Result<Probe, Interrupted> {
    loop {
        match seen {
            RAISED => {
                slot.mark_held(round);
                hold.hold(&signal.0)?;
            }
            QUIET => {
                slot.enter(round);
                A::fence();
                if signal.get() == QUIET {
                    return Ok(Probe::Go);
                }
            }
            agreed if round < agreed => {
                // The word is read only after all ranks have entered, by when it was written again.
                slot.enter(round);
                return Ok(Probe::Go);
            }
            _ => return Ok(Probe::Enter),
        }
        seen = signal.get();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    struct Never;

    impl Hold<AtomicU64> for Never {
        fn hold(&mut self, _: &AtomicU64) -> Result<(), Interrupted> {
            Err(Interrupted)
        }
    }

    /// Actions of the agents while a rank is held.
    struct Meanwhile<F>(F);

    impl<F: FnMut(&AtomicU64)> Hold<AtomicU64> for Meanwhile<F> {
        fn hold(&mut self, word: &AtomicU64) -> Result<(), Interrupted> {
            self.0(word);
            Ok(())
        }
    }

    fn words(ranks: usize) -> (Signal<AtomicU64>, Vec<Slot<AtomicU64>>) {
        (Signal::default(), (0..ranks).map(|_| Slot::default()).collect())
    }

    #[test]
    fn a_quiet_word_lets_every_round_pass() {
        let (signal, slots) = words(1);
        for round in 1..100 {
            assert_eq!(probe(&signal, &slots[0], round, &mut Never), Ok(Probe::Go));
        }
        assert_eq!(floor(&slots), 100);
    }

    #[test]
    fn nobody_enters_a_round_that_another_has_passed() {
        let (signal, slots) = words(3);
        assert_eq!(probe(&signal, &slots[0], 1, &mut Never), Ok(Probe::Go));
        assert_eq!(probe(&signal, &slots[0], 2, &mut Never), Ok(Probe::Go));
        assert_eq!(probe(&signal, &slots[1], 1, &mut Never), Ok(Probe::Go));
        signal.raise();
        let agreed = agree([floor(&slots)]);
        assert_eq!(agreed, 3);
        signal.tell(agreed);
        for (rank, round) in [(1, 2), (2, 1), (2, 2)] {
            assert_eq!(probe(&signal, &slots[rank], round, &mut Never), Ok(Probe::Go));
        }
        for slot in &slots {
            assert_eq!(probe(&signal, slot, 3, &mut Never), Ok(Probe::Enter));
        }
    }

    #[test]
    fn held_rank_enters_in_its_round_when_none_is_ahead() {
        let (signal, slots) = words(2);
        assert_eq!(probe(&signal, &slots[0], 1, &mut Never), Ok(Probe::Go));
        signal.raise();
        let told = |word: &AtomicU64| {
            let agreed = agree([floor(&slots)]);
            assert_eq!(agreed, 2);
            word.store(agreed, Ordering::Release);
        };
        assert_eq!(probe(&signal, &slots[0], 2, &mut Meanwhile(told)), Ok(Probe::Enter));
    }

    #[test]
    fn withdrawn_request_releases_held_ranks_and_shows_them_gone() {
        let (signal, slots) = words(1);
        signal.raise();
        let lowered = |word: &AtomicU64| word.store(QUIET, Ordering::Release);
        assert_eq!(probe(&signal, &slots[0], 1, &mut Meanwhile(lowered)), Ok(Probe::Go));
        signal.raise();
        assert_eq!(floor(&slots), 2);
    }

    #[test]
    fn a_rank_whose_agents_are_gone_says_so() {
        let (signal, slots) = words(1);
        signal.raise();
        assert_eq!(probe(&signal, &slots[0], 1, &mut Never), Err(Interrupted));
    }

    #[test]
    fn a_world_without_ranks_agrees_on_its_first_round() {
        assert_eq!(agree([]), 1);
        assert_eq!(floor::<AtomicU64>([]), 0);
    }
}
