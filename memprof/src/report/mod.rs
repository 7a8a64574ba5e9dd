//! `memprof report`: tables, a page, pictures.

pub mod causes;
pub mod gpu;
pub mod grid;
pub mod growth;
pub mod handles;
pub mod html;
pub mod json;
pub mod pictures;
pub mod rank;
pub mod sites;
pub mod symbols;
pub mod table;
mod touches;

use crate::model::{Job, Node, PhaseAcross, Rank};
use crate::output;
use crate::terminal::{self, Look, Progress, say};
use crate::units;
use anyhow::bail;
use clap::builder::{PathBufValueParser, TypedValueParser};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Show the memory of a job.
#[derive(Debug, clap::Args)]
#[command(after_help = "Without options: one table of the whole job.")]
pub struct Options {
    /// The folder `memprof run` made
    #[arg(value_name = "DIR", required_unless_present = "json")]
    pub folder: Option<PathBuf>,
    /// Show only one job, where a script started several; 1 is the first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub job: Option<u32>,
    /// Show only this rank
    #[arg(long, value_name = "N", conflicts_with_all = ["node", "phase"])]
    pub rank: Option<u32>,
    /// Show only this process
    #[arg(long, value_name = "PID", conflicts_with_all = ["rank", "node", "phase"])]
    pub pid: Option<u32>,
    /// Show only this node
    #[arg(long, value_name = "HOST", conflicts_with = "phase")]
    pub node: Option<String>,
    /// Show only this phase
    #[arg(long, value_name = "NAME")]
    pub phase: Option<String>,
    /// Show the sampled call stacks that allocate most
    #[arg(
        long, value_name = "COUNT", num_args = 0..=1, default_missing_value = "10",
        value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with_all = ["pid", "node", "phase"]
    )]
    pub sites: Option<u32>,
    /// Show the calls that make MPI objects
    #[arg(
        long, value_name = "COUNT", num_args = 0..=1, default_missing_value = "10",
        value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with_all = ["rank", "pid", "node", "phase", "sites"]
    )]
    pub handles: Option<u32>,
    /// Show what grows from one iteration to the next
    ///
    /// Iterations need `memprof run --loops`; otherwise by entries of a phase (--phase NAME chooses it), or by time.
    #[arg(long, conflicts_with_all = ["rank", "pid", "node", "sites", "handles", "all", "html", "svg"])]
    pub growth: bool,
    /// Show all rows of the table
    #[arg(short, long, conflicts_with_all = ["sites", "handles", "phase", "html", "svg"])]
    pub all: bool,
    /// Print everything as JSON, into FILE if it is given
    #[arg(
        long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-",
        conflicts_with_all = ["sites", "handles", "all"]
    )]
    pub json: Option<PathBuf>,
    /// Write a self-contained page of the whole job
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rank", "pid", "node", "phase"])]
    pub html: Option<PathBuf>,
    /// Draw the timeline into a picture for browsers
    #[arg(
        long, value_name = "FILE", conflicts_with = "phase",
        value_parser = PathBufValueParser::new().try_map(svg_file)
    )]
    pub svg: Option<PathBuf>,
}

impl Options {
    /// Returns options for the whole of a folder.
    pub fn of(folder: &Path) -> Options {
        Options {
            folder: Some(folder.to_owned()),
            job: None,
            rank: None,
            pid: None,
            node: None,
            phase: None,
            sites: None,
            handles: None,
            growth: false,
            all: false,
            json: None,
            html: None,
            svg: None,
        }
    }

    /// Returns the folder of the job, and the file for JSON; `-` is standard output. A folder after
    /// `--json` is that of the job, if no other is named.
    fn folder_and_json(&self) -> anyhow::Result<(&Path, Option<&Path>)> {
        match (&self.folder, &self.json) {
            (Some(folder), json) => Ok((folder, json.as_deref())),
            (None, Some(folder)) if folder.is_dir() => Ok((folder, Some(Path::new("-")))),
            _ => bail!("no folder of a job is named"),
        }
    }
}

/// Refuses a file that programs would take for a picture of pixels.
fn svg_file(file: PathBuf) -> Result<PathBuf, String> {
    match file.extension() {
        Some(end) if end.eq_ignore_ascii_case("png") => {
            let svg = file.with_extension("svg");
            Err(format!("pictures are SVG: name the file {}", svg.display()))
        }
        _ => Ok(file),
    }
}

/// The requested view of the job.
enum View<'a> {
    Job,
    Rank(&'a Rank),
    Node(&'a Node),
    Phase(&'a PhaseAcross),
}

/// Runs the command.
///
/// # Errors
/// If an argument does not fit the folder, no job can be read there, or the output cannot be written.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let (folder, json) = options.folder_and_json()?;
    let job = load(folder, options.job)?;
    let view = select(&job, options)?;
    if let Some(file) = &options.html {
        let bytes = html::write(&job, file)?;
        wrote(file, bytes);
    }
    if let Some(file) = &options.svg {
        let drawn = match view {
            View::Job | View::Phase(_) => pictures::job(&job),
            View::Rank(rank) => pictures::rank(rank)?,
            View::Node(node) => pictures::node(node),
        };
        wrote(file, pictures::svg(&drawn, file)?);
    }
    if let Some(file) = json {
        let text = match options.growth {
            true => json::growth(&grown(&job, options)?)?,
            false => json::text(&job, options)?,
        };
        match file.as_os_str() == "-" {
            true => drop(terminal::print(&text)?),
            false => wrote(file, output::write(file, text.as_bytes())?),
        }
    } else if options.html.is_none() && options.svg.is_none()
        || options.sites.is_some()
        || options.handles.is_some()
    {
        terminal::print(&text(&job, &view, options)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Loads a job, and shows progress on a terminal.
///
/// # Errors
/// If the folder cannot be read or holds no trace of the requested job.
pub fn load(folder: &Path, only: Option<u32>) -> anyhow::Result<Job> {
    load_as_part(folder, only, &mut Progress::new("reading"))
}

/// Loads a job as a part of longer work.
///
/// # Errors
/// If the folder cannot be read or holds no trace of the requested job.
pub fn load_as_part(
    folder: &Path,
    only: Option<u32>,
    progress: &mut Progress,
) -> anyhow::Result<Job> {
    Ok(Job::load(folder, only, &mut |done, total| {
        progress.at(done, total);
    })?)
}

fn wrote(file: &Path, bytes: u64) {
    say(&format!("wrote {} ({})", file.display(), units::bytes(bytes)));
}

fn select<'a>(job: &'a Job, options: &Options) -> anyhow::Result<View<'a>> {
    if let Some(number) = options.rank {
        job.one_job()?;
        let Some(rank) = job.rank(number) else {
            bail!("no trace of rank {number}; there are {}", ranks(job));
        };
        return Ok(View::Rank(rank));
    }
    if let Some(pid) = options.pid {
        return Ok(View::Rank(process(job, pid)?));
    }
    if let Some(host) = &options.node {
        let Some(node) = job.nodes.iter().find(|node| *node.host == **host) else {
            let hosts: Vec<String> =
                job.nodes.iter().take(16).map(|node| terminal::clean(&node.host)).collect();
            bail!("no node {host}; there are {}", hosts.join(", "));
        };
        return Ok(View::Node(node));
    }
    if let Some(name) = &options.phase {
        let Some(phase) = job.phases.iter().find(|phase| *phase.name == **name) else {
            let names: Vec<String> =
                job.phases.iter().take(16).map(|phase| terminal::clean(&phase.name)).collect();
            match names.is_empty() {
                true => bail!("no phase {name}; none was recorded"),
                false => bail!("no phase {name}; there are {}", names.join(", ")),
            }
        };
        return Ok(View::Phase(phase));
    }
    Ok(View::Job)
}

/// Returns the process with a number, for a command that requests it.
///
/// # Errors
/// If the job has no such process; the error lists some that it has.
pub fn process(job: &Job, pid: u32) -> anyhow::Result<&Rank> {
    let Some(rank) = job.process(pid) else {
        let pids: Vec<String> =
            job.ranks().take(16).map(|rank| rank.identity.pid.to_string()).collect();
        bail!("no trace of process {pid}; there are {}", pids.join(", "));
    };
    Ok(rank)
}

/// Returns text such as `ranks 0 to 3`, with as many as fit.
fn ranks(job: &Job) -> String {
    let mut numbers: Vec<u32> = job.ranks().filter_map(|rank| rank.identity.rank).collect();
    numbers.sort_unstable();
    numbers.dedup();
    match numbers.as_slice() {
        [] => "no ranks".to_owned(),
        [one] => format!("rank {one}"),
        [first, .., last] if (last - first) as usize + 1 == numbers.len() => {
            format!("ranks {first} to {last}")
        }
        some => {
            let list: Vec<String> = some.iter().take(16).map(u32::to_string).collect();
            format!("ranks {}", list.join(", "))
        }
    }
}

fn grown(job: &Job, options: &Options) -> anyhow::Result<growth::Named> {
    job.one_job()?;
    match &options.phase {
        Some(phase) => growth::of_phase(job, phase),
        None => Ok(growth::of(job)),
    }
}

fn text(job: &Job, view: &View, options: &Options) -> anyhow::Result<String> {
    let look = Look::stdout();
    if options.growth {
        return Ok(growth::text(&grown(job, options)?, look));
    }
    if let Some(count) = options.sites {
        let limit = count as usize;
        return Ok(match view {
            View::Rank(rank) => sites::text(&rank.largest_sites()?, job.started_ns, limit, look),
            _ => sites::text(&job.sites, job.started_ns, limit, look),
        });
    }
    if let Some(count) = options.handles {
        return Ok(handles::table(job, count as usize, look));
    }
    Ok(match view {
        View::Job => table::full(job, options.all, look),
        View::Rank(rank) => rank::rank(rank, options.all, look),
        View::Node(node) => table::node(job, node, options.all, look),
        View::Phase(phase) => rank::phase(job, phase, look),
    })
}
