//! The bookkeeping of a main loop with resize points, on each rank.

use serde::{Deserialize, Serialize};

use super::history::check;
use super::{Configuration, PointsError};

/// Decision for a program at a resize point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[doc(alias = "SchedDecision")]
pub enum Decision {
    /// Continue unchanged.
    #[default]
    Continue,
    /// Grow to this configuration.
    #[doc(alias = "REMAP_EXPAND")]
    Expand(Configuration),
    /// Shrink to this configuration.
    #[doc(alias = "REMAP_SHRINK")]
    Shrink(Configuration),
}

impl Decision {
    fn name(self) -> &'static str {
        match self {
            Decision::Continue => "continue",
            Decision::Expand(_) => "expand",
            Decision::Shrink(_) => "shrink",
        }
    }
}

/// A program's report at a resize point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[doc(alias = "reshape_ContactScheduler")]
pub struct Report {
    /// The present configuration.
    pub configuration: Configuration,
    /// Mean time of the last iterations, in seconds.
    pub iteration_seconds: f64,
    /// Duration of the last redistribution, in seconds; `None` if none followed the last report.
    pub redistribution_seconds: Option<f64>,
    /// The completed iteration.
    pub iteration: u64,
}

/// Position of the main loop, and its next action on data. Every rank has one, and all receive the
/// same decision, so that all act in the same way.
///
/// ```
/// use elastic_policy::points::{Configuration::Line, Decision, ResizePoints};
/// let mut points = ResizePoints::new(Line(2), 2).unwrap();
/// let mut asked = Vec::new();
/// while points.iteration() < 4 {
///     if let Decision::Expand(_) = points.decision() { /* redistribute, then: */ points.redistributed(0.1).unwrap(); }
///     /* one iteration */
///     if points.is_point() {
///         let report = points.report(1.5).unwrap();
///         asked.push(report.iteration);
///         points.decided(if asked.len() == 1 { Decision::Expand(Line(4)) } else { Decision::Continue });
///         points.resized().unwrap(); // joiners are there now
///     }
///     points.advance();
/// }
/// assert_eq!(asked, [1, 3]);
/// assert_eq!((points.old(), points.current()), (Line(2), Line(4)));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResizePoints {
    iteration: u64,
    every: u64,
    old: Configuration,
    current: Configuration,
    decided: Decision,
    /// True if joiners are present and have no data yet.
    unmoved: bool,
    redistribution: Option<f64>,
}

impl ResizePoints {
    /// Makes the state of a program at its first iteration, with a resize point after each `every`
    /// iterations.
    ///
    /// # Errors
    /// [`PointsError::Zero`] if `every` is 0.
    pub fn new(start: Configuration, every: u64) -> Result<ResizePoints, PointsError> {
        if every == 0 {
            return Err(PointsError::Zero { call: "new", what: "the interval of resize points" });
        }
        Ok(ResizePoints {
            iteration: 0,
            every,
            old: start,
            current: start,
            decided: Decision::Continue,
            unmoved: false,
            redistribution: None,
        })
    }

    /// Returns the state that an old rank sends to a joiner after the resize, once the old rank has
    /// [`advance`](ResizePoints::advance)d: the joiner begins with the iteration that all ranks run
    /// next, and its decision is to receive data as that of the others is to send.
    pub fn for_joiners(&self) -> ResizePoints {
        let mut points = self.clone();
        points.redistribution = None;
        points
    }

    /// Returns the iteration that runs, or runs next; 0 at first.
    #[doc(alias = "reshape_getIterCount")]
    pub fn iteration(&self) -> u64 {
        self.iteration
    }

    /// Completes the iteration.
    pub fn advance(&mut self) {
        self.iteration += 1;
    }

    /// Returns true if a resize point follows the present iteration: after every `every`
    /// iterations.
    pub fn is_point(&self) -> bool {
        (self.iteration + 1).is_multiple_of(self.every)
    }

    /// Sets the iteration that the program itself reports.
    pub fn contacted(&mut self, iteration: u64) {
        self.iteration = iteration;
    }

    /// Returns the configuration that the program is about to shrink to.
    pub fn shrinks(&self) -> Option<Configuration> {
        match self.decided {
            Decision::Shrink(to) => Some(to),
            _ => None,
        }
    }

    /// Undoes a shrink that failed after its data had moved to the staying ranks: the data are
    /// redistributed as to joiners, with the [`decision`](ResizePoints::decision)
    /// [`Decision::Expand`].
    pub fn taken_back(&mut self) {
        if let Decision::Shrink(to) = std::mem::take(&mut self.decided) {
            self.old = to;
            self.unmoved = true;
        }
    }

    /// Returns the configuration before the last resize.
    #[doc(alias = "reshape_getOldProcessorDimensions")]
    pub fn old(&self) -> Configuration {
        self.old
    }

    /// Returns the present configuration.
    #[doc(alias = "reshape_getNewProcessorDimensions")]
    pub fn current(&self) -> Configuration {
        self.current
    }

    /// Makes the report at a resize point, with the mean time of the iterations since the last one.
    /// One rank reports and distributes the decision.
    ///
    /// # Errors
    /// [`PointsError::BadTime`] for a time that is negative or not finite.
    pub fn report(&mut self, iteration_seconds: f64) -> Result<Report, PointsError> {
        check("report", iteration_seconds)?;
        Ok(Report {
            configuration: self.current,
            iteration_seconds,
            redistribution_seconds: self.redistribution.take(),
            iteration: self.iteration,
        })
    }

    /// Sets the decision. A decision for the present size counts as continue.
    pub fn decided(&mut self, decision: Decision) {
        self.decided = match decision {
            Decision::Expand(to) | Decision::Shrink(to) if to == self.current => Decision::Continue,
            decision => decision,
        };
    }

    /// Returns the next action on data. [`Decision::Shrink`] from the decision until
    /// [`resized`](ResizePoints::resized): data leave before the leavers do. [`Decision::Expand`]
    /// once after it: the joiners have to be present. A program that checks at the head of its loop
    /// gets that exactly once, and so do the joiners.
    #[doc(alias = "reshape_getSchedulerDecision")]
    pub fn decision(&mut self) -> Decision {
        if std::mem::take(&mut self.unmoved) {
            return Decision::Expand(self.current);
        }
        match self.decided {
            Decision::Shrink(to) => Decision::Shrink(to),
            _ => Decision::Continue,
        }
    }

    /// Records that the decision is carried out: joiners are present, or leavers have left. Changes
    /// nothing without a decision.
    ///
    /// # Errors
    /// [`PointsError::NotDecided`] if the new size does not fit the decision: an expansion that
    /// does not grow, or a shrink that does. The decision is dropped.
    #[doc(alias = "reshape_Resize")]
    pub fn resized(&mut self) -> Result<(), PointsError> {
        let to = match self.decided {
            Decision::Continue => return Ok(()),
            Decision::Expand(to) | Decision::Shrink(to) => to,
        };
        let grows = matches!(self.decided, Decision::Expand(_));
        if grows != (to.size() > self.current.size()) {
            let (from, decided) = (self.current, self.decided.name());
            self.decided = Decision::Continue;
            return Err(PointsError::NotDecided { call: "resized", from, to, decided });
        }
        self.decided = Decision::Continue;
        self.old = self.current;
        self.current = to;
        self.unmoved = grows;
        Ok(())
    }

    /// Drops a decision that could not be carried out: everything is as before.
    pub fn abandoned(&mut self) {
        self.decided = Decision::Continue;
    }

    /// Records the duration of moving the data for the next report.
    ///
    /// # Errors
    /// [`PointsError::BadTime`] for a duration that is negative or not finite.
    pub fn redistributed(&mut self, seconds: f64) -> Result<(), PointsError> {
        check("redistributed", seconds)?;
        self.redistribution = Some(seconds);
        Ok(())
    }

    /// Records a new arrangement of the present processors by the program.
    ///
    /// # Errors
    /// [`PointsError::NotDecided`] if the number of processors differs.
    #[doc(alias = "reshape_setCommunicator")]
    pub fn rearranged(&mut self, configuration: Configuration) -> Result<(), PointsError> {
        if configuration.size() != self.current.size() {
            let (from, to, decided) = (self.current, configuration, self.decided.name());
            return Err(PointsError::NotDecided { call: "rearranged", from, to, decided });
        }
        self.current = configuration;
        Ok(())
    }
}
