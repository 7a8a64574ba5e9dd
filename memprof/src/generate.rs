//! `memprof generate`: traces of jobs that never ran, for tests and experiments.

use crate::terminal::{Progress, say};
use crate::units::count;
use anyhow::Context;
use memprof_trace::generate::{JobShape, job};
use std::path::PathBuf;
use std::process::ExitCode;

/// Generate the traces of a synthetic job.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Folder for the traces
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Ranks
    #[arg(long, value_name = "N", default_value_t = JobShape::default().ranks)]
    pub ranks: u32,
    /// Nodes, which get equal shares of the ranks
    #[arg(long, value_name = "N", default_value_t = JobShape::default().nodes)]
    pub nodes: u32,
    /// Samples of each rank
    #[arg(long, value_name = "N", default_value_t = JobShape::default().samples)]
    pub samples: u32,
    /// Components of each rank
    #[arg(long, value_name = "N", default_value_t = JobShape::default().components)]
    pub components: u32,
    /// Segments that the ranks of a node share
    #[arg(long, value_name = "N", default_value_t = JobShape::default().segments)]
    pub segments: u32,
    /// Bytes of each file
    #[arg(long, value_name = "BYTES", default_value_t = JobShape::default().file_size)]
    pub file_size: usize,
    /// Times and loops too, as of `memprof run --loops`
    #[arg(long)]
    pub mpi_time: bool,
    /// Of all that is random: equal numbers give equal jobs
    #[arg(long, value_name = "N", default_value_t = JobShape::default().seed)]
    pub seed: u64,
}

/// Runs the command.
///
/// # Errors
/// If the shape of the job is impossible, or a trace cannot be written.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let shape = JobShape {
        ranks: options.ranks,
        nodes: options.nodes,
        samples: options.samples,
        components: options.components,
        segments: options.segments,
        file_size: options.file_size,
        seed: options.seed,
        times: options.mpi_time,
        more: None,
    };
    quo_files::Folder::make(&options.output, quo_files::Access::ReadOnly)
        .with_context(|| format!("cannot make {}", options.output.display()))?;
    let mut progress = Progress::new("making");
    let files =
        job(&options.output, &shape, &mut |done, total| progress.at(done as usize, total as usize))
            .with_context(|| format!("cannot make the job in {}", options.output.display()))?;
    drop(progress);
    let traces = count(files.len(), "trace");
    say(&format!("made {traces} in {}", options.output.display()));
    Ok(ExitCode::SUCCESS)
}
