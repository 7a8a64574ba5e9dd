//! `coupled-demo report`: the results of the runs, as a table and a picture.

pub mod chart;
pub mod resizes;
pub mod style;
pub mod table;

#[cfg(test)]
pub mod example;
#[cfg(test)]
mod tests;

use std::path::Path;

use anyhow::{Context, Result};

use crate::model;
use crate::sample::{self, usage::Usage};
use coupled::result::{Mode, RunResult};
use coupled::timeline::Phase;

/// A run and its measurements from outside.
pub struct Measured {
    pub run: RunResult,
    pub usage: Usage,
}

impl Measured {
    /// A result file and the samples beside it, if there are any.
    ///
    /// # Errors
    /// If one of them cannot be read.
    pub fn read(path: &Path) -> Result<Measured> {
        let run = RunResult::read(path)?;
        let samples = sample::read(&sample::path_for(path))?;
        let usage = Usage::of(&run, &samples);
        Ok(Measured { run, usage })
    }

    /// Part of the cores' time that went to L0 and L1; `None` if it was not sampled.
    pub fn useful(&self) -> Option<f64> {
        (!self.usage.windows.is_empty()).then(|| {
            let (shares, _) = self.usage.mean();
            shares[0] + shares[1]
        })
    }
}

/// More of the cores' time than this in other programs makes times say little.
pub const DISTURBED: f64 = 0.05;

/// Runs of one deck, in the order of modes.
pub struct Report {
    pub runs: Vec<Measured>,
    /// Prediction of the model for a run that keeps all cores busy.
    pub predicted: Option<f64>,
}

impl Report {
    /// From runs in any order.
    pub fn new(mut runs: Vec<Measured>) -> Report {
        runs.sort_by_key(|measured| measured.run.mode);
        let under = runs.iter().find(|measured| measured.run.mode == Mode::Under);
        let predicted = under.map(|measured| model::predicted_gain(&model::shares(&measured.run)));
        Report { runs, predicted }
    }

    /// The run in `mode`, if there is one.
    pub fn in_mode(&self, mode: Mode) -> Option<&Measured> {
        self.runs.iter().find(|measured| measured.run.mode == mode)
    }

    /// Speed of a run relative to the under-subscribed one.
    pub fn speed_up(&self, measured: &Measured) -> Option<f64> {
        let under = self.in_mode(Mode::Under)?;
        (measured.run.seconds > 0.0).then(|| under.run.seconds / measured.run.seconds)
    }

    /// Returns true if all runs ended with the same bits.
    pub fn identical(&self) -> bool {
        self.runs.windows(2).all(|pair| pair[0].run.checksum == pair[1].run.checksum)
    }

    /// The most that other programs took of the cores' time in any of the runs, if that is much.
    pub fn disturbance(&self) -> Option<f64> {
        let other = |measured: &Measured| measured.usage.mean().0[4];
        let most = self.runs.iter().map(other).fold(0.0, f64::max);
        (most > DISTURBED).then_some(most)
    }

    /// Seconds of the longest run.
    pub fn longest(&self) -> f64 {
        self.runs.iter().map(|measured| measured.run.seconds).fold(0.0, f64::max)
    }
}

/// Share of a run that went to moving data.
pub fn remap_share(run: &RunResult) -> f64 {
    if run.seconds > 0.0 { run.phase_seconds(Phase::Remap) / run.seconds } else { 0.0 }
}

/// Title of the picture.
pub const TITLE: &str = "One coupled program, three ways to share a node";

/// Writes the picture of the cores.
///
/// # Errors
/// If the file cannot be written.
pub fn write_picture(report: &Report, path: &Path) -> Result<()> {
    std::fs::write(path, chart::picture(report, TITLE))
        .with_context(|| format!("writing the picture {}", path.display()))
}
