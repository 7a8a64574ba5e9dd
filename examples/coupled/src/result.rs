//! Result of a run: `run.json`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::deck::{Deck, Variant};
use crate::timeline::{Interval, Phase, PhaseTotal};

/// The version of the result file's form.
pub const FORMAT: u32 = 2;

/// Way in which threads and ranks meet.
#[derive(
    Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// As many ranks as workers; all other cores idle while L0 runs.
    Under,
    /// A rank per core; the workers' threads share the cores with spinning ranks.
    Over,
    /// A rank per core; ranks sleep and lend their cores while the workers' threads run.
    Quo,
}

impl Mode {
    /// All, in the order in which they are shown.
    pub const ALL: [Mode; 3] = [Mode::Under, Mode::Over, Mode::Quo];

    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Under => "under",
            Mode::Over => "over",
            Mode::Quo => "quo",
        }
    }
}

/// A run's result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// [`FORMAT`] of the program that wrote it.
    pub format: u32,
    /// Meeting of threads and ranks.
    pub mode: Mode,
    /// Caller of `quo`.
    pub variant: Variant,
    /// File name of the deck.
    pub deck_name: String,
    /// The deck itself.
    pub deck: Deck,
    /// Ranks at the end.
    pub ranks: usize,
    /// Nodes.
    pub nodes: usize,
    /// Ranks that run L1, and threads of each of them.
    pub workers: usize,
    /// Threads of each worker.
    pub threads: usize,
    /// CPUs that the ranks could use together, over all nodes.
    pub cpus: usize,
    /// Of the time-step loop, on the first rank, in seconds of the monotonic clock.
    pub start: f64,
    /// Length of the loop.
    pub seconds: f64,
    /// Of the flow.
    pub simulated_seconds: f64,
    /// Of all steps of L1 together.
    pub solver_iterations: usize,
    /// Of the last step of L1.
    pub last_residual: f64,
    /// Sums over the mesh.
    pub conservation: Conservation,
    /// Of the fields at the end.
    pub checksum: String,
    /// The fields themselves, if they were asked for; relative to this file where possible.
    pub fields: Option<PathBuf>,
    /// Work of each rank.
    pub rank_records: Vec<RankRecord>,
    /// Resizes of the run, in a run that had them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elastic: Option<Elastic>,
}

/// Resizes of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Elastic {
    /// The means by which the ranks change.
    pub back_end: String,
    /// Ranks at the start.
    pub start: usize,
    /// Seconds since 1970 when the monotonic clock began.
    pub calendar: f64,
    /// In their order.
    pub resizes: Vec<Resize>,
    /// Bindings of the ranks, at the start and after each resize.
    pub bindings: Vec<Bindings>,
}

/// A change of the ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resize {
    /// Number of resizes, with this one.
    pub epoch: u64,
    /// Steps of the flow before it.
    pub step: usize,
    /// From the arrival of all to the continuation, in seconds of the monotonic clock.
    pub start: f64,
    /// End of the resize.
    pub end: f64,
    /// Number of ranks that stayed, left and joined.
    pub stay: usize,
    /// Ranks that left.
    pub leave: usize,
    /// Ranks that joined.
    pub join: usize,
    /// Bytes of the fields that went to another rank.
    pub moved: u64,
    /// Why it was given up, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_up: Option<String>,
}

/// Bindings as `quo` explains them, one of each node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bindings {
    /// Number of resizes before.
    pub epoch: u64,
    /// While L0 runs.
    pub flow: Vec<serde_json::Value>,
    /// While L1 runs.
    pub diffusion: Vec<serde_json::Value>,
}

/// Sums over the mesh, before and after.
#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conservation {
    /// Cubic metres of water.
    pub water_before: f64,
    /// At the end.
    pub water_after: f64,
    /// Cubic metres of water × temperature.
    pub heat_before: f64,
    /// At the end.
    pub heat_after: f64,
}

impl Conservation {
    /// Relative changes of water and heat.
    pub fn drift(&self) -> (f64, f64) {
        let relative = |before: f64, after: f64| {
            if before == 0.0 { after.abs() } else { (after - before) / before }
        };
        (relative(self.water_before, self.water_after), relative(self.heat_before, self.heat_after))
    }
}

/// Work of one rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankRecord {
    /// Its rank.
    pub rank: usize,
    /// Its node.
    pub node: usize,
    /// Its process.
    pub pid: u32,
    /// True if it ran L1.
    pub worker: bool,
    /// CPUs it could use at the start.
    pub cpus: String,
    /// Time per phase.
    pub totals: Vec<PhaseTotal>,
    /// Stretches of time, in order.
    pub intervals: Vec<Interval>,
}

impl RunResult {
    /// Seconds of a phase: the mean over the workers, which run their phases without gaps.
    pub fn phase_seconds(&self, phase: Phase) -> f64 {
        let workers: Vec<_> = self.rank_records.iter().filter(|record| record.worker).collect();
        let totals = workers.iter().flat_map(|record| &record.totals);
        let seconds = totals.filter(|total| total.phase == phase).map(|total| total.seconds);
        seconds.sum::<f64>() / workers.len().max(1) as f64
    }

    /// Reads a result file.
    ///
    /// # Errors
    /// If it cannot be read or is not one.
    pub fn read(path: &Path) -> Result<RunResult> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("reading the result {}", path.display()))?;
        let result: RunResult = serde_json::from_str(&text)
            .with_context(|| format!("{} is not the result of a run", path.display()))?;
        ensure!(
            result.format == FORMAT,
            "{} has form {}, this program reads form {FORMAT}",
            path.display(),
            result.format
        );
        Ok(result)
    }

    /// Writes a result file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string(self).context("forming the result")?;
        fs::write(path, text + "\n")
            .with_context(|| format!("writing the result {}", path.display()))
    }
}

/// `1 rank`, `2 ranks`.
pub fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
