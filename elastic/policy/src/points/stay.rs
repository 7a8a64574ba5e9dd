//! Measured stays on sizes, and conclusions from them: for jobs of a cluster and for the history of
//! a program.

/// A stay on one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stay {
    /// The size, in nodes or processors.
    pub nodes: u32,
    /// The mean time of an iteration in seconds.
    pub seconds: f64,
    /// The number of samples.
    pub samples: u32,
}

impl Stay {
    /// Returns true if an iteration takes less time than in the earlier stay, by at least this
    /// fraction.
    #[must_use]
    pub fn is_faster_than(&self, before: &Stay, least_gain: f64) -> bool {
        self.seconds < before.seconds * (1.0 - least_gain)
    }
}

/// A smaller size on which a job has run, and the effect of going back to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SmallerSize {
    /// The size.
    pub nodes: u32,
    /// The factor by which an iteration takes longer there: 2 means twice as long.
    pub factor: f64,
}

/// Returns the sizes of its stays, from `smallest` on, that a job of this size can be shrunk to,
/// the one with the least effect first. The effect is relative to the time on the present size, or
/// in the last stay if there is none for it yet.
#[must_use]
pub fn smaller_sizes(stays: &[Stay], size: u32, smallest: u32) -> Vec<SmallerSize> {
    let here = stays.iter().rfind(|stay| stay.nodes == size);
    let Some(now) = here.or(stays.last()).filter(|stay| stay.seconds > 0.0) else {
        return Vec::new();
    };
    let mut sizes: Vec<SmallerSize> = Vec::new();
    for stay in stays.iter().rev().filter(|stay| (smallest..size).contains(&stay.nodes)) {
        if !sizes.iter().any(|known| known.nodes == stay.nodes) {
            sizes.push(SmallerSize { nodes: stay.nodes, factor: stay.seconds / now.seconds });
        }
    }
    sizes.sort_by(|a, b| a.factor.total_cmp(&b.factor).then(b.nodes.cmp(&a.nodes)));
    sizes
}
