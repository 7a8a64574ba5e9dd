//! The order in which a program's elements are executed: a state machine over plain data.

use super::ProgramError;

/// Kind of an element of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Makes the data of a process; the first element, and only that one.
    Init,
    /// A phase in which the ranks do not change.
    Rigid {
        /// True if the phase is repeated while its condition holds.
        repeats: bool,
    },
    /// A phase before each round of which the ranks may change.
    Elastic,
    /// Names the next element.
    Branch,
}

/// Standing of a process in the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// A rank: it executes elements.
    Rank,
    /// Called in by a resize that has begun.
    Joining,
    /// Asleep until it is called in.
    Parked,
    /// Not needed any more.
    Ended,
}

/// Next action of a driver; elements are given by their position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Runs INIT.
    Init,
    /// Sleeps until the process is called in, or the job is over.
    Wait,
    /// Checks for a pending resize.
    Probe(usize),
    /// Takes part in a resize; a joiner has no position yet.
    Resize(Option<usize>),
    /// Runs the compute block of a phase.
    Compute(usize),
    /// Evaluates the loop condition of a phase.
    Again(usize),
    /// Asks a branch for the next position.
    Branch(usize),
    /// The program is over.
    End,
}

/// Result of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Result of [`Action::Init`] and [`Action::Wait`]: the standing of the process.
    Stands(Standing),
    /// Result of [`Action::Probe`]: true if a resize is due.
    Due(bool),
    /// Result of [`Action::Resize`]: the position of the ranks, and the standing of the process
    /// after the resize.
    Resized(usize, Standing),
    /// Result of [`Action::Compute`].
    Computed,
    /// Result of [`Action::Again`]: true if the phase is repeated.
    Again(bool),
    /// Result of [`Action::Branch`]: the next position.
    To(i64),
}

/// Position of a process in a program, and its next action.
///
/// ```
/// use elastic_program::{Action, Event, Kind, Machine, Standing};
///
/// let mut machine = Machine::new(vec![Kind::Init, Kind::Elastic, Kind::Rigid { repeats: false }])?;
/// assert_eq!(machine.action(), Action::Init);
/// // A joiner enters at the position of its parents, and computes there.
/// assert_eq!(machine.on(Event::Stands(Standing::Joining))?, Action::Resize(None));
/// assert_eq!(machine.on(Event::Resized(1, Standing::Rank))?, Action::Compute(1));
/// assert_eq!(machine.on(Event::Computed)?, Action::Again(1));
/// assert_eq!(machine.on(Event::Again(false))?, Action::Compute(2));
/// assert_eq!(machine.on(Event::Computed)?, Action::End);
/// # Ok::<(), elastic_program::ProgramError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Machine {
    kinds: Box<[Kind]>,
    action: Action,
}

impl Machine {
    /// Makes the machine of a program that has not begun.
    ///
    /// # Errors
    /// [`ProgramError::Element`] unless there is exactly one INIT, in the first place.
    pub fn new(kinds: impl Into<Box<[Kind]>>) -> Result<Self, ProgramError> {
        let kinds = kinds.into();
        let wrong = |position, reason| Err(ProgramError::Element { position, reason });
        match kinds.iter().rposition(|kind| *kind == Kind::Init) {
            _ if kinds.is_empty() => {
                wrong(0, "the program is empty: it begins with an INIT".into())
            }
            None => wrong(0, "the first element of a program is its INIT".into()),
            Some(0) => Ok(Self { kinds, action: Action::Init }),
            Some(position) => wrong(position, "INIT is the first element, and no other one".into()),
        }
    }

    /// Returns the next action.
    #[must_use]
    pub fn action(&self) -> Action {
        self.action
    }

    /// Takes the result of the action, and returns the next one.
    ///
    /// # Errors
    /// [`ProgramError::Branch`] for a position that is no element after INIT,
    /// [`ProgramError::Driver`] for an event of another action. The action is then unchanged.
    #[inline]
    pub fn on(&mut self, event: Event) -> Result<Action, ProgramError> {
        self.action = match (self.action, event) {
            (Action::Probe(at), Event::Due(false)) => Action::Compute(at),
            (Action::Compute(at), Event::Computed) => match self.kinds.get(at) {
                Some(Kind::Elastic | Kind::Rigid { repeats: true }) => Action::Again(at),
                _ => self.enter(at + 1),
            },
            (Action::Again(at), Event::Again(true)) => self.enter(at),
            (Action::Again(at), Event::Again(false)) => self.enter(at + 1),
            (Action::Probe(at), Event::Due(true)) => Action::Resize(Some(at)),
            (Action::Resize(_), Event::Resized(at, Standing::Rank)) => match self.kinds.get(at) {
                Some(Kind::Elastic) => Action::Compute(at),
                _ => return Err(self.out_of_order(event)),
            },
            (Action::Resize(_), Event::Resized(_, standing)) => self.stand(standing),
            (Action::Init | Action::Wait, Event::Stands(standing)) => self.stand(standing),
            (Action::Branch(at), Event::To(target)) => match usize::try_from(target) {
                Ok(next) if next > 0 && next < self.kinds.len() => self.enter(next),
                _ => {
                    let size = self.kinds.len();
                    return Err(ProgramError::Branch { position: at, target, size });
                }
            },
            _ => return Err(self.out_of_order(event)),
        };
        Ok(self.action)
    }

    fn out_of_order(&self, event: Event) -> ProgramError {
        ProgramError::Driver { action: self.action, event }
    }

    /// Returns the action with which an element begins.
    fn enter(&self, position: usize) -> Action {
        match self.kinds.get(position) {
            Some(Kind::Elastic) => Action::Probe(position),
            Some(Kind::Branch) => Action::Branch(position),
            Some(Kind::Rigid { .. }) => Action::Compute(position),
            Some(Kind::Init) | None => Action::End,
        }
    }

    fn stand(&self, standing: Standing) -> Action {
        match standing {
            Standing::Rank => self.enter(1),
            Standing::Joining => Action::Resize(None),
            Standing::Parked => Action::Wait,
            Standing::Ended => Action::End,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RIGID: Kind = Kind::Rigid { repeats: false };
    const LOOP: Kind = Kind::Rigid { repeats: true };

    fn started(kinds: &[Kind]) -> Machine {
        let mut machine = Machine::new(kinds).unwrap();
        machine.on(Event::Stands(Standing::Rank)).unwrap();
        machine
    }

    #[test]
    fn program_without_one_leading_init_is_a_bad_element() {
        let at = |kinds: &[Kind]| match Machine::new(kinds).unwrap_err() {
            error @ ProgramError::Element { position, .. } => {
                assert_eq!(error.code(), Some(-1));
                position
            }
            other => panic!("{other}"),
        };
        assert_eq!(at(&[]), 0);
        assert_eq!(at(&[RIGID]), 0);
        assert_eq!(at(&[Kind::Init, RIGID, Kind::Init]), 2);
    }

    #[test]
    fn rigid_phase_never_probes_and_repeats_with_a_condition() {
        let mut machine = started(&[Kind::Init, RIGID, LOOP]);
        assert_eq!(machine.action(), Action::Compute(1));
        assert_eq!(machine.on(Event::Computed).unwrap(), Action::Compute(2));
        assert_eq!(machine.on(Event::Computed).unwrap(), Action::Again(2));
        assert_eq!(machine.on(Event::Again(true)).unwrap(), Action::Compute(2));
        machine.on(Event::Computed).unwrap();
        assert_eq!(machine.on(Event::Again(false)).unwrap(), Action::End);
    }

    #[test]
    fn elastic_phase_probes_before_each_round() {
        let mut machine = started(&[Kind::Init, Kind::Elastic]);
        assert_eq!(machine.action(), Action::Probe(1));
        assert_eq!(machine.on(Event::Due(false)).unwrap(), Action::Compute(1));
        machine.on(Event::Computed).unwrap();
        assert_eq!(machine.on(Event::Again(true)).unwrap(), Action::Probe(1));
        assert_eq!(machine.on(Event::Due(true)).unwrap(), Action::Resize(Some(1)));
        let resized = Event::Resized(1, Standing::Rank);
        assert_eq!(machine.on(resized).unwrap(), Action::Compute(1));
    }

    #[test]
    fn leaver_waits_and_rejoins_at_its_parents_position() {
        let mut machine = started(&[Kind::Init, Kind::Elastic, RIGID, Kind::Elastic]);
        machine.on(Event::Due(true)).unwrap();
        let left = Event::Resized(1, Standing::Parked);
        assert_eq!(machine.on(left).unwrap(), Action::Wait);
        let called = Event::Stands(Standing::Joining);
        assert_eq!(machine.on(called).unwrap(), Action::Resize(None));
        let joined = Event::Resized(3, Standing::Rank);
        assert_eq!(machine.on(joined).unwrap(), Action::Compute(3));
    }

    #[test]
    fn joiner_refuses_a_position_without_elastic_phase() {
        for position in [0, 1, 2, 3, 9] {
            let kinds = [Kind::Init, RIGID, Kind::Branch, LOOP];
            let mut machine = Machine::new(&kinds[..]).unwrap();
            machine.on(Event::Stands(Standing::Joining)).unwrap();
            let wrong = machine.on(Event::Resized(position, Standing::Rank)).unwrap_err();
            assert!(matches!(wrong, ProgramError::Driver { .. }), "{wrong}");
        }
    }

    #[test]
    fn branch_to_init_or_outside_is_refused_with_words() {
        for target in [0, 3, 4, -1, i64::MIN, i64::MAX] {
            let mut machine = started(&[Kind::Init, RIGID, Kind::Branch]);
            machine.on(Event::Computed).unwrap();
            let wrong = machine.on(Event::To(target)).unwrap_err();
            assert_eq!(wrong.code(), Some(-2));
            let text = wrong.to_string();
            assert!(text.contains(&format!("goes to {target}, ")), "{text}");
            // The machine can be asked again.
            assert_eq!(machine.on(Event::To(1)).unwrap(), Action::Compute(1));
        }
    }

    fn kinds() -> impl Strategy<Value = Vec<Kind>> {
        let kind = prop_oneof![Just(RIGID), Just(LOOP), Just(Kind::Elastic), Just(Kind::Branch)];
        proptest::collection::vec(kind, 0..8).prop_map(|mut rest| {
            rest.insert(0, Kind::Init);
            rest
        })
    }

    proptest! {
        /// With any results of blocks, in any order, each element begins with its own action, and
        /// is followed by the next element or the named one.
        #[test]
        fn any_run_follows_the_order_of_elements(
            kinds in kinds(),
            choices in proptest::collection::vec((any::<bool>(), 1_i64..9), 0..60),
        ) {
            let mut machine = started(&kinds);
            let mut inits = 0;
            for (yes, target) in choices {
                let before = machine.action();
                let event = match before {
                    Action::Probe(_) => Event::Due(yes),
                    Action::Resize(at) => Event::Resized(at.unwrap_or(0), Standing::Rank),
                    Action::Compute(_) => Event::Computed,
                    Action::Again(_) => Event::Again(yes),
                    Action::Branch(_) => Event::To(target),
                    Action::Init => { inits += 1; Event::Stands(Standing::Rank) }
                    Action::Wait | Action::End => break,
                };
                let is_bad = matches!(event, Event::To(target) if target as usize >= kinds.len());
                let after = match machine.on(event) {
                    Err(error) => {
                        prop_assert!(is_bad && error.code() == Some(-2), "{error}");
                        break;
                    }
                    Ok(after) => after,
                };
                prop_assert!(!is_bad);
                let expected = match (before, event) {
                    (Action::Probe(at) | Action::Resize(Some(at)), _) => Some(at),
                    (Action::Compute(at), _) if matches!(kinds[at], LOOP | Kind::Elastic) => Some(at),
                    (Action::Again(at), Event::Again(true)) => Some(at),
                    (Action::Compute(at) | Action::Again(at), _) => Some(at + 1),
                    (_, Event::To(target)) => Some(target as usize),
                    _ => None,
                };
                let now = match after {
                    Action::Probe(at) | Action::Compute(at) | Action::Again(at) | Action::Branch(at) => Some(at),
                    Action::Resize(at) => at,
                    Action::End => Some(kinds.len()),
                    Action::Init | Action::Wait => None,
                };
                prop_assert_eq!(now, expected);
                match after {
                    Action::Probe(at) | Action::Resize(Some(at)) => prop_assert_eq!(kinds[at], Kind::Elastic),
                    Action::Branch(at) => prop_assert_eq!(kinds[at], Kind::Branch),
                    _ => {}
                }
            }
            prop_assert_eq!(inits, 0);
        }

        /// Processes that join and leave at random execute elements together with those that stay.
        #[test]
        fn joiners_stay_in_step_with_their_parents(
            turns in proptest::collection::vec((any::<bool>(), any::<bool>()), 1..80),
        ) {
            let kinds = [Kind::Init, Kind::Elastic, RIGID, Kind::Elastic, Kind::Branch];
            let mut parent = started(&kinds);
            let mut other = Machine::new(&kinds[..]).unwrap();
            other.on(Event::Stands(Standing::Parked)).unwrap();
            let mut is_in = false;
            for (yes, again) in turns {
                let event = match parent.action() {
                    Action::Probe(_) => Event::Due(yes),
                    Action::Resize(at) => Event::Resized(at.unwrap(), Standing::Rank),
                    Action::Compute(_) => Event::Computed,
                    Action::Again(_) => Event::Again(again),
                    Action::Branch(_) => Event::To(1),
                    action => panic!("{action:?}"),
                };
                match (is_in, event) {
                    (true, Event::Resized(at, _)) => {
                        other.on(Event::Resized(at, Standing::Parked)).unwrap();
                        is_in = false;
                    }
                    (false, Event::Resized(..)) => {
                        other.on(Event::Stands(Standing::Joining)).unwrap();
                        other.on(event).unwrap();
                        is_in = true;
                    }
                    (true, _) => { other.on(event).unwrap(); }
                    (false, _) => {}
                }
                parent.on(event).unwrap();
                prop_assert_eq!(is_in, other.action() == parent.action());
            }
        }
    }

    #[test]
    fn event_of_another_action_is_refused() {
        let events = [
            Event::Stands(Standing::Rank),
            Event::Due(true),
            Event::Resized(1, Standing::Rank),
            Event::Again(true),
            Event::To(1),
        ];
        for event in events {
            let mut machine = started(&[Kind::Init, RIGID]);
            let wrong = machine.on(event).unwrap_err();
            assert!(matches!(wrong, ProgramError::Driver { .. }), "{wrong}");
            assert_eq!(machine.action(), Action::Compute(1));
        }
    }
}
