//! `memprof export`: the recorded data in formats for other programs.
//!
//! One rank is in memory at a time, whatever the size of the job.

mod csv;
mod history;
mod json;
mod massif;
mod perfetto;
mod pprof;
mod protobuf;

use crate::model::{Job, Rank};
use crate::output;
use crate::report;
use crate::terminal::{Progress, say};
use crate::units;
use anyhow::{Context, bail};
pub use history::{History, Kind, Point, Row};
use std::io::{BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Write the recorded data in a format that other programs read.
#[derive(Debug, clap::Args)]
#[command(after_help = "csv: one line for each rank, time and component\n\
                  json: ranks with columns of times and bytes\n\
                  perfetto: open the file at https://ui.perfetto.dev\n\
                  massif: ms_print FILE; one rank\n\
                  pprof: go tool pprof -http=: FILE; sampled call stacks")]
pub struct Options {
    /// The folder `memprof run` made
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Form: csv, json, perfetto, massif or pprof
    #[arg(short, long, value_name = "FORM", default_value = "csv", hide_possible_values = true)]
    pub format: Format,
    /// File to write to [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Export only one job, where a script started several; 1 is the first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub job: Option<u32>,
    /// Export only these ranks, as 0,3,8 [default: all; of massif, that with the largest peak]
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub rank: Vec<u32>,
    /// Export only one process, by its number
    #[arg(long, value_name = "PID", conflicts_with = "rank")]
    pub pid: Option<u32>,
}

/// Form of the output.
#[derive(Copy, Clone, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// One line for each rank, time and component
    Csv,
    /// Ranks with columns of times and bytes
    Json,
    /// Counter tracks and phases for ui.perfetto.dev
    Perfetto,
    /// One rank for ms_print and massif-visualizer
    Massif,
    /// Sampled call stacks for pprof and flame graphs
    Pprof,
}

impl Format {
    fn is_binary(self) -> bool {
        matches!(self, Format::Perfetto | Format::Pprof)
    }
}

/// Runs the command.
///
/// # Errors
/// If an argument does not fit the folder, no job can be read there, or the output cannot be written.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    if options.output.is_none() && options.format.is_binary() && std::io::stdout().is_terminal() {
        bail!("this form is not for a terminal; name a file with -o");
    }
    let mut progress = Progress::new("reading");
    let told = &mut |done, total| progress.at(done, total);
    let job = Job::load_summaries(&options.folder, options.job, told)?;
    progress.part("exporting");
    let ranks = chosen(&job, options)?;
    match &options.output {
        None => {
            let out = std::io::stdout();
            match write_as_part(options.format, &job, &ranks, BufWriter::new(out), progress) {
                Err(error) if is_broken_pipe(&error) => {}
                result => result.context("cannot write to standard output")?,
            }
        }
        Some(file) => {
            let bytes = output::fill(file, |out| {
                write_as_part(options.format, &job, &ranks, out, progress)
            })?;
            say(&format!("wrote {} ({})", file.display(), units::bytes(bytes)));
        }
    }
    if let Some(several) = job.several() {
        say(&several);
    }
    if let Some(damage) = job.damage() {
        say(&damage);
    }
    for unread in &job.unread {
        say(&format!("left out {}: {}", unread.file.display(), unread.why));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the requested ranks.
fn chosen<'a>(job: &'a Job, options: &Options) -> anyhow::Result<Vec<&'a Rank>> {
    if let Some(pid) = options.pid {
        return Ok(vec![report::process(job, pid)?]);
    }
    let mut ranks: Vec<&Rank> = match options.rank.as_slice() {
        [] => job.ranks().collect(),
        numbers => {
            job.one_job()?;
            let named = numbers.iter().map(|number| {
                let rank = job.rank(*number);
                rank.with_context(|| {
                    format!("no trace of rank {number} in {}", job.folder.display())
                })
            });
            named.collect::<anyhow::Result<_>>()?
        }
    };
    ranks.sort_by_key(|rank| rank.order());
    ranks.dedup_by_key(|rank| &rank.file);
    if options.format == Format::Massif {
        match (ranks.as_slice(), options.rank.as_slice()) {
            ([_], _) => {}
            (_, []) => {
                let Some(largest) = job.largest() else {
                    bail!("the job has no process to export as massif")
                };
                say(&format!(
                    "massif is of one process: {}, which has the largest peak",
                    largest.label()
                ));
                ranks = vec![largest];
            }
            _ => bail!(
                "massif is of one process; name one rank with --rank, or a process with --pid"
            ),
        }
    }
    Ok(ranks)
}

/// Writes the ranks in a format.
///
/// # Errors
///
/// A trace cannot be read, or `out` cannot be written to.
pub fn write(format: Format, job: &Job, ranks: &[&Rank], out: impl Write) -> anyhow::Result<()> {
    write_as_part(format, job, ranks, out, Progress::new("exporting"))
}

/// Writes the export as the last part of longer work.
fn write_as_part(
    format: Format,
    job: &Job,
    ranks: &[&Rank],
    mut out: impl Write,
    mut progress: Progress,
) -> anyhow::Result<()> {
    let mut each =
        |visit: &mut dyn FnMut(&Rank, &History) -> anyhow::Result<()>| -> anyhow::Result<()> {
            for (done, rank) in ranks.iter().enumerate() {
                progress.at(done, ranks.len());
                let history = History::read(rank)?;
                visit(rank, &history)?;
            }
            Ok(())
        };
    match format {
        Format::Csv => {
            csv::head(&mut out)?;
            each(&mut |rank, history| Ok(csv::rank(&mut out, rank, history)?))?;
        }
        Format::Json => {
            let mut document = json::Document::begin(&mut out, job)?;
            each(&mut |rank, history| document.rank(rank, history))?;
            document.end()?;
        }
        Format::Perfetto => {
            let mut tracks = perfetto::Tracks::default();
            each(&mut |rank, history| Ok(tracks.rank(&mut out, rank, history)?))?;
        }
        Format::Pprof => {
            let mut profile = pprof::Profile::new(ranks.len(), job.started_ns);
            for (done, rank) in ranks.iter().enumerate() {
                progress.at(done, ranks.len());
                profile.rank(rank)?;
            }
            profile.write(&mut out)?;
        }
        Format::Massif => each(&mut |rank, history| Ok(massif::rank(&mut out, rank, history)?))?,
    }
    out.flush()?;
    Ok(())
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let of_json = |cause: &serde_json::Error| cause.io_error_kind();
        let kind = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        let kind = kind.or_else(|| cause.downcast_ref().and_then(of_json));
        kind == Some(std::io::ErrorKind::BrokenPipe)
    })
}
