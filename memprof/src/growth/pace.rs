//! Equal moments of a job: iterations of a loop, entries of a phase, or time.

use crate::model::{Counted, Counter, Course, Frame, Job, Object, Rank};
use memprof_trend::FEWEST;
use std::sync::Arc;

/// Iterations or entries below which time is a better measure.
const FEWEST_COUNTED: u64 = 2 * FEWEST as u64;

/// Unit of positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Iterations of the loop that begins with a call of this function.
    Iterations {
        /// Called function of MPI.
        function: Arc<str>,
        /// Place of the call, an index of [`Pace::objects`] and an offset.
        frame: Frame,
    },
    /// Entries of the phase with this name.
    Entries {
        /// Its name.
        phase: Arc<str>,
    },
    /// Seconds since the start of the job.
    Seconds,
}

/// Positions of the moments of a job.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Unit of the positions.
    pub unit: Unit,
    /// Objects that the place of a loop refers to.
    pub objects: Vec<Object>,
    /// Counter over time; empty if the unit is time.
    course: Course,
    /// Start of the counting process, and of the time that is judged, on the axis of the job.
    offset_ns: u64,
    begin_ns: u64,
    end_ns: u64,
    /// Position at the end.
    pub end: f64,
}

impl Pace {
    /// Returns the equal moments of a job: entries of the phase with this name, otherwise
    /// iterations of the loop in which most time was spent, otherwise entries of the program's own
    /// phase with most time, otherwise time; time also if these are less than half of the run.
    pub fn of(job: &Job, phase: Option<&str>) -> Pace {
        let Some(rank) = job.ranks().next() else { return Pace::empty() };
        // A trace that can no longer be read has no counters; its time is known.
        let (objects, counters) = rank.counters().unwrap_or_default();
        let Some(counter) = choose(counters, phase) else { return Pace::time(rank) };
        let (time, pace) = (Pace::time(rank), Pace::count(rank, objects, counter));
        let length = |pace: &Pace| pace.end_ns.saturating_sub(pace.begin_ns);
        // A loop of the start says nothing about the rest.
        let is_long = |pace: &Pace| phase.is_some() || length(pace) >= length(&time) / 2;
        pace.filter(is_long).unwrap_or(time)
    }

    /// Returns the begin and the end of the time that is judged, on the axis of the job.
    pub fn window(&self) -> (u64, u64) {
        (self.begin_ns, self.end_ns)
    }

    /// Returns time as the equal moments of a job.
    pub fn of_time(job: &Job) -> Pace {
        job.ranks().next().map_or_else(Pace::empty, Pace::time)
    }

    /// Returns the moments of an unknown job, for tests of other modules.
    #[cfg(test)]
    pub fn until(unit: Unit, end: f64) -> Pace {
        Pace { unit, end, ..Pace::empty() }
    }

    fn empty() -> Pace {
        Pace {
            unit: Unit::Seconds,
            objects: Vec::new(),
            course: Course::default(),
            offset_ns: 0,
            begin_ns: 0,
            end_ns: 0,
            end: 0.0,
        }
    }

    /// Returns the time between the end of `init` and the beginning of `finalize`, if there are
    /// such phases.
    fn time(rank: &Rank) -> Pace {
        let automatic =
            |name: &str| rank.phases.iter().find(|phase| &*phase.name == name && phase.depth == 0);
        let begin_ns = automatic("init").map_or(0, |phase| phase.last_ns);
        let end_ns = automatic("finalize").map_or(rank.duration_ns, |phase| phase.first_ns);
        Pace {
            offset_ns: rank.offset_ns,
            begin_ns: rank.offset_ns.saturating_add(begin_ns),
            end_ns: rank.offset_ns.saturating_add(end_ns),
            end: rank.offset_ns.saturating_add(end_ns) as f64 / 1e9,
            ..Pace::empty()
        }
    }

    /// Returns the time in which a counter of a rank advanced; `None` if it did not.
    fn count(rank: &Rank, objects: Vec<Object>, counter: Counter) -> Option<Pace> {
        let Counter { counted, course, total, .. } = counter;
        let (first, last) = (*course.values.first()?, *course.values.last()?);
        let begin = course.values.iter().rposition(|value| *value == first)?;
        let end = course.values.iter().position(|value| *value == last)?;
        if end <= begin {
            return None;
        }
        let at = |moment: usize| rank.offset_ns.saturating_add(course.time_ns(moment));
        let unit = match counted {
            Counted::Loop { function, frame } => Unit::Iterations { function, frame },
            Counted::Phase { name } => Unit::Entries { phase: name },
        };
        Some(Pace {
            unit,
            objects,
            offset_ns: rank.offset_ns,
            begin_ns: at(begin),
            end_ns: at(end),
            end: total as f64,
            course,
        })
    }

    /// Returns the number of iterations, entries or seconds in the time that is judged.
    pub fn counted(&self) -> usize {
        let first = self.course.values.first().copied().unwrap_or(0);
        match self.unit {
            Unit::Seconds => (self.end_ns.saturating_sub(self.begin_ns) / 1_000_000_000) as usize,
            _ => (self.end - f64::from(first)) as usize,
        }
    }

    /// Returns the position at a time of the job, between two moments in proportion; `None` outside
    /// of the time that is judged.
    pub fn position(&self, time_ns: u64) -> Option<f64> {
        if time_ns < self.begin_ns || time_ns > self.end_ns {
            return None;
        }
        if self.unit == Unit::Seconds {
            return Some(time_ns as f64 / 1e9);
        }
        let since = time_ns.saturating_sub(self.offset_ns);
        let step = self.course.step_ns.max(1);
        let (before, after) = (self.course.at(since), self.course.at(since.saturating_add(step)));
        let part = (since % step) as f64 / step as f64;
        Some(f64::from(before) + part * (f64::from(after) - f64::from(before)))
    }
}

/// Returns the counter of the phase with this name; without a name, the one with most time that
/// counted far enough, loops before phases.
fn choose(counters: Vec<Counter>, phase: Option<&str>) -> Option<Counter> {
    let is_loop = |counter: &Counter| matches!(counter.counted, Counted::Loop { .. });
    let fits = |counter: &Counter| match (phase, &counter.counted) {
        (Some(wanted), Counted::Phase { name }) => **name == *wanted,
        (Some(_), Counted::Loop { .. }) => false,
        (None, _) => counter.total >= FEWEST_COUNTED,
    };
    let counters = counters.into_iter().filter(|counter| fits(counter));
    counters.max_by_key(|counter| (is_loop(counter), counter.time_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(name: &str, total: u64, time_ns: u64) -> Counter {
        let counted = match name {
            "loop" => Counted::Loop {
                function: "MPI_Allreduce".into(),
                frame: Frame { object: 0, offset: 1 },
            },
            _ => Counted::Phase { name: name.into() },
        };
        Counter { counted, total, time_ns, course: Course::default() }
    }

    #[test]
    fn loop_precedes_phases_but_not_a_named_phase() {
        let all = vec![
            counter("solve", 100, 90),
            counter("loop", 50, 40),
            counter("loop", 3, 1000),
            counter("write", 2, 10),
        ];
        let chosen = |phase| choose(all.clone(), phase).map(|one| (one.total, one.time_ns));
        assert_eq!(chosen(None), Some((50, 40)));
        assert_eq!(chosen(Some("solve")), Some((100, 90)));
        assert_eq!(chosen(Some("write")), Some((2, 10)));
        assert_eq!(choose(all[3..].to_vec(), None), None);
        assert_eq!(choose(all[..1].to_vec(), None).map(|one| one.total), Some(100));
    }

    #[test]
    fn positions_lie_between_those_of_the_moments() {
        let pace = Pace {
            unit: Unit::Entries { phase: "solve".into() },
            course: Course { step_ns: 10, values: vec![0, 0, 100, 140, 140] },
            offset_ns: 1000,
            begin_ns: 1010,
            end_ns: 1030,
            end: 140.0,
            ..Pace::empty()
        };
        assert_eq!((pace.position(1009), pace.position(1031)), (None, None));
        let positions = [1010, 1015, 1020, 1025, 1030].map(|time| pace.position(time));
        assert_eq!(positions, [0.0, 50.0, 100.0, 120.0, 140.0].map(Some));
    }
}
