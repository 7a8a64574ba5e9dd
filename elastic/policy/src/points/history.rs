//! History of a program's configurations, and of its speed on each.

use serde::{Deserialize, Serialize};

use super::{Configuration, PointsError, Stay, smaller_sizes};

/// A stay on one configuration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Visit {
    /// The configuration.
    pub configuration: Configuration,
    /// Number of iteration times reported.
    pub reports: u64,
    /// Their mean in seconds; 0 before the first.
    pub mean: f64,
    /// The last one in seconds; 0 before the first.
    pub last: f64,
}

/// The cost of one redistribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Redistribution {
    from: Configuration,
    to: Configuration,
    seconds: f64,
}

/// A configuration that a program can be shrunk to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShrinkPoint {
    /// The configuration, on which the program has already run.
    pub configuration: Configuration,
    /// Number of processors that it gives back.
    pub relinquished: u32,
    /// Expected increase of the iteration time in seconds; negative if it was faster there.
    pub slower_by: f64,
    /// Factor of the iteration time: 2 means twice the time.
    pub factor: f64,
}

/// All stays of a program, oldest first, and the cost of moving between them.
///
/// ```
/// use elastic_policy::points::{Configuration::Line, History};
/// let mut history = History::new(Line(4));
/// history.iteration(160.0).unwrap();
/// history.resized(Line(8), 2.5).unwrap();
/// history.iteration(90.0).unwrap();
/// assert_eq!(history.last_resize_helped(), Some(true));
/// let points = history.shrink_points();
/// assert_eq!((points[0].configuration, points[0].relinquished), (Line(4), 4));
/// assert_eq!(points[0].slower_by, 70.0);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct History {
    earlier: Vec<Visit>,
    now: Visit,
    redistributions: Vec<Redistribution>,
}

impl History {
    /// Makes the history of a program that begins with this configuration.
    pub fn new(start: Configuration) -> History {
        History { earlier: Vec::new(), now: begun(start), redistributions: Vec::new() }
    }

    /// Returns the initial configuration; the program is never shrunk below it.
    pub fn start(&self) -> Configuration {
        self.earlier.first().unwrap_or(&self.now).configuration
    }

    /// Returns the present configuration.
    pub fn current(&self) -> Configuration {
        self.now.configuration
    }

    /// Iterates over all stays, the present one last.
    pub fn visits(&self) -> impl DoubleEndedIterator<Item = &Visit> {
        self.earlier.iter().chain(std::iter::once(&self.now))
    }

    /// Number of resizes.
    pub fn resizes(&self) -> usize {
        self.earlier.len()
    }

    /// Records the duration of an iteration.
    ///
    /// # Errors
    /// [`PointsError::BadTime`] for a duration that is negative or not finite.
    pub fn iteration(&mut self, seconds: f64) -> Result<(), PointsError> {
        check("iteration", seconds)?;
        self.now.reports += 1;
        self.now.mean += (seconds - self.now.mean) / self.now.reports as f64;
        self.now.last = seconds;
        Ok(())
    }

    /// Records a change to another configuration, and the time for moving the data.
    ///
    /// # Errors
    /// [`PointsError::BadTime`] for a time that is negative or not finite.
    pub fn resized(&mut self, to: Configuration, seconds: f64) -> Result<(), PointsError> {
        check("resized", seconds)?;
        let from = self.now.configuration;
        self.redistributions.push(Redistribution { from, to, seconds });
        self.earlier.push(std::mem::replace(&mut self.now, begun(to)));
        Ok(())
    }

    /// Returns the mean iteration time of the latest stay on this configuration with reports.
    pub fn seconds(&self, on: Configuration) -> Option<f64> {
        let stays = self.visits().rev().filter(|visit| visit.reports > 0);
        stays.into_iter().find(|visit| visit.configuration == on).map(|visit| visit.mean)
    }

    /// Returns the cost of the last move between these two configurations.
    pub fn redistribution(&self, from: Configuration, to: Configuration) -> Option<f64> {
        let same = |one: &&Redistribution| one.from == from && one.to == to;
        self.redistributions.iter().rfind(same).map(|one| one.seconds)
    }

    /// Returns the total cost of all moves.
    pub fn redistribution_total(&self) -> f64 {
        self.redistributions.iter().map(|one| one.seconds).sum()
    }

    /// Returns the stays with known times, oldest first, as schedulers use them.
    pub fn stays(&self) -> Vec<Stay> {
        self.visits().filter_map(Visit::stay).collect()
    }

    /// Returns true if iterations are faster than before the last resize; `None` before the first
    /// resize, or without times for both.
    pub fn last_resize_helped(&self) -> Option<bool> {
        let before = self.earlier.last()?.stay()?;
        Some(self.now.stay()?.is_faster_than(&before, 0.0))
    }

    /// Returns the configurations that the program can be shrunk to: configurations with known
    /// times on which it has run, with fewer processors than now and no fewer than at the start.
    /// The one with the lowest cost is first; of several with equal sizes only the latest is
    /// listed. Empty until there are times for the present one.
    pub fn shrink_points(&self) -> Vec<ShrinkPoint> {
        let Some(now) = self.now.stay() else { return Vec::new() };
        let configuration = |size| {
            let of_size = |visit: &&Visit| visit.reports > 0 && visit.configuration.size() == size;
            self.visits().rfind(of_size).map(|visit| visit.configuration)
        };
        smaller_sizes(&self.stays(), now.nodes, self.start().size())
            .into_iter()
            .filter_map(|smaller| {
                let configuration = configuration(smaller.nodes)?;
                Some(ShrinkPoint {
                    configuration,
                    relinquished: now.nodes - smaller.nodes,
                    slower_by: self.seconds(configuration)? - now.seconds,
                    factor: smaller.factor,
                })
            })
            .collect()
    }
}

impl Visit {
    /// Returns the stay as schedulers see it; `None` before the first report.
    fn stay(&self) -> Option<Stay> {
        let samples = u32::try_from(self.reports).unwrap_or(u32::MAX);
        let (nodes, seconds) = (self.configuration.size(), self.mean);
        (samples > 0).then_some(Stay { nodes, seconds, samples })
    }
}

fn begun(configuration: Configuration) -> Visit {
    Visit { configuration, reports: 0, mean: 0.0, last: 0.0 }
}

pub(super) fn check(call: &'static str, seconds: f64) -> Result<(), PointsError> {
    match seconds.is_finite() && seconds >= 0.0 {
        true => Ok(()),
        false => Err(PointsError::BadTime { call, seconds }),
    }
}
