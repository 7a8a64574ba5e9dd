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
    /// The configuration, on which the program has run before.
    pub configuration: Configuration,
    /// Number of processors that it gives back.
    pub relinquished: u32,
    /// By how many seconds an iteration is expected to be slower; negative if it was faster there.
    pub slower_by: f64,
    /// Its factor: 2 means twice the time.
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
    /// A program that begins here.
    pub fn new(start: Configuration) -> History {
        History { earlier: Vec::new(), now: begun(start), redistributions: Vec::new() }
    }

    /// The configuration that it began with; it is never shrunk below.
    pub fn start(&self) -> Configuration {
        self.earlier.first().unwrap_or(&self.now).configuration
    }

    /// The configuration that it runs on.
    pub fn current(&self) -> Configuration {
        self.now.configuration
    }

    /// All stays, the present one last.
    pub fn visits(&self) -> impl DoubleEndedIterator<Item = &Visit> {
        self.earlier.iter().chain(std::iter::once(&self.now))
    }

    /// Number of resizes.
    pub fn resizes(&self) -> usize {
        self.earlier.len()
    }

    /// An iteration took so long.
    pub fn iteration(&mut self, seconds: f64) -> Result<(), PointsError> {
        check("iteration", seconds)?;
        self.now.reports += 1;
        self.now.mean += (seconds - self.now.mean) / self.now.reports as f64;
        self.now.last = seconds;
        Ok(())
    }

    /// It runs on another configuration now, and moving its data took so long.
    pub fn resized(&mut self, to: Configuration, seconds: f64) -> Result<(), PointsError> {
        check("resized", seconds)?;
        let from = self.now.configuration;
        self.redistributions.push(Redistribution { from, to, seconds });
        self.earlier.push(std::mem::replace(&mut self.now, begun(to)));
        Ok(())
    }

    /// The mean iteration time of the latest stay on this configuration that reported any.
    pub fn seconds(&self, on: Configuration) -> Option<f64> {
        let stays = self.visits().rev().filter(|visit| visit.reports > 0);
        stays.into_iter().find(|visit| visit.configuration == on).map(|visit| visit.mean)
    }

    /// Cost of moving between these two the last time.
    pub fn redistribution(&self, from: Configuration, to: Configuration) -> Option<f64> {
        let same = |one: &&Redistribution| one.from == from && one.to == to;
        self.redistributions.iter().rfind(same).map(|one| one.seconds)
    }

    /// Cost of all moves.
    pub fn redistribution_total(&self) -> f64 {
        self.redistributions.iter().map(|one| one.seconds).sum()
    }

    /// The stays with known times, oldest first: what a scheduler asks about a job.
    pub fn stays(&self) -> Vec<Stay> {
        self.visits().filter_map(Visit::stay).collect()
    }

    /// Returns true if iterations are faster than before the last resize; `None` before the first,
    /// or without times for both.
    pub fn last_resize_helped(&self) -> Option<bool> {
        let before = self.earlier.last()?.stay()?;
        Some(self.now.stay()?.is_faster_than(&before, 0.0))
    }

    /// Configurations that it can be shrunk to: those it has run on with known times, with fewer
    /// processors than now and no fewer than at the start. The one that costs least comes first; of those with equal
    /// sizes there is the latest. Empty until there are times for the present one.
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
    /// Returns the stay as schedulers see it; none before the first report.
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
