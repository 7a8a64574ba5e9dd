//! The source of workloads: a log, a record, a description, or a generator.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use elastic_lab::input::{Log, LogSettings, Skipped, WrongLines, described, sacct, swf};
use elastic_lab::record;
use elastic_lab::simulate::{Outcome, Sharing};
use elastic_lab::workload::Workload;
use elastic_lab::workload::generate::{Synthetic, synthetic};
use elastic_policy::state::Cluster;

use super::sharing::{self, Named};
use super::{Format, Simulate, write};
use crate::complain;

/// The source of workloads: read once, varied by each seed.
pub enum Source {
    Synthetic {
        jobs: u32,
        nodes: u32,
        load: f64,
    },
    Log(Box<Log>, Format),
    Description(PathBuf, String),
    /// The record of a real system.
    Record(Box<(Workload, Outcome)>),
}

impl Source {
    pub fn open(arguments: &Simulate) -> Result<Source> {
        let Some(path) = &arguments.file else {
            let (jobs, nodes) = (arguments.synthetic, arguments.nodes);
            return Ok(Source::Synthetic {
                jobs: jobs.unwrap_or_default(),
                nodes: nodes.unwrap_or_default(),
                load: arguments.load,
            });
        };
        let doing = || format!("reading {}", path.display());
        let file = File::open(path).with_context(doing)?;
        let mut file = BufReader::with_capacity(1 << 16, file);
        let format = match arguments.format {
            Some(format) => format,
            None => found_format(path, file.fill_buf().with_context(doing)?),
        };
        let wrong_lines = if arguments.strict { WrongLines::Fail } else { WrongLines::Skip };
        let (cores_per_node, each_run) =
            (arguments.cores_per_node.unwrap_or(1), arguments.each_run);
        let settings = LogSettings { cores_per_node, wrong_lines, each_run };
        let log = match format {
            Format::Toml => {
                let text = std::io::read_to_string(file).with_context(doing)?;
                return Ok(Source::Description(path.clone(), text));
            }
            Format::Record => {
                let text = std::io::read_to_string(file).with_context(doing)?;
                return Ok(Source::Record(Box::new(record::read(&text).with_context(doing)?)));
            }
            Format::Swf => swf::read(file, settings).with_context(doing)?,
            Format::Sacct => sacct::read(file, settings).with_context(doing)?,
        };
        warn(path, &log.skipped, each_run);
        if log.workload.jobs.is_empty() {
            bail!("{}: no line of it is a job that ran", path.display());
        }
        Ok(Source::Log(Box::new(log), format))
    }

    pub fn workload(&self, arguments: &Simulate, seed: u64) -> Result<Cow<'_, Workload>> {
        let workload = match self {
            Source::Synthetic { jobs, nodes, load } => {
                Cow::Owned(synthetic(Synthetic { jobs: *jobs, nodes: *nodes, load: *load, seed }))
            }
            Source::Log(log, _) => Cow::Borrowed(&log.workload),
            Source::Record(found) => Cow::Borrowed(&found.0),
            Source::Description(path, text) => Cow::Owned(
                described::read(text, seed)
                    .with_context(|| format!("reading {}", path.display()))?,
            ),
        };
        if seed == arguments.seed
            && let Some(path) = &arguments.write_swf
        {
            write(path, |into| swf::write(&workload, into))?;
        }
        Ok(workload)
    }

    /// Returns the sharing of nodes among jobs, and prints notes about it once.
    pub fn sharing(
        &self,
        arguments: &Simulate,
        cluster: Cluster,
        seed: u64,
    ) -> Result<Option<Sharing>> {
        let named = Named { cores: arguments.cores_per_node, memory: arguments.memory_per_node };
        let Source::Log(log, format) = self else {
            if named.memory.is_some() {
                bail!("--memory-per-node: only the jobs of a log share nodes");
            }
            return Ok(None);
        };
        let is_sacct = *format == Format::Sacct;
        if seed == arguments.seed {
            let path = arguments.file.as_deref().unwrap_or(Path::new(""));
            sharing::notes(log, named, is_sacct, cluster).into_iter().for_each(|note| {
                complain(&format!("{}: {note}", path.display()));
            });
        }
        Ok(sharing::of(log, named, is_sacct))
    }

    pub fn log(&self) -> Option<&Log> {
        match self {
            Source::Log(log, _) => Some(log),
            Source::Synthetic { .. } | Source::Description(..) | Source::Record(_) => None,
        }
    }
}

fn found_format(path: &Path, begin: &[u8]) -> Format {
    let begin = String::from_utf8_lossy(&begin[..begin.len().min(4096)]);
    let first = begin.lines().next().unwrap_or_default();
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => Format::Toml,
        Some("swf") => Format::Swf,
        _ if first.starts_with(record::BEGIN) => Format::Record,
        _ if first.split('|').any(|name| name.eq_ignore_ascii_case("JobID")) => Format::Sacct,
        _ => Format::Swf,
    }
}

fn warn(path: &Path, skipped: &Skipped, is_each_run: bool) {
    let path = path.display();
    for problem in &skipped.problems {
        complain(&format!("{path}:{}: {}: skipped", problem.line, problem.cause));
    }
    let others = skipped.wrong - skipped.problems.len() as u64;
    if others > 0 {
        complain(&format!("{path}: {others} more wrong lines: skipped"));
    }
    let Skipped { never_ran, not_ended, requeued, heterogeneous, repeated, longer, .. } = *skipped;
    let runs = if is_each_run { "each run is a job" } else { "the last run counts" };
    for (count, of_one, of_many, rest) in [
        (never_ran, "job", "jobs", "never ran: left out"),
        (
            not_ended,
            "job has",
            "jobs have",
            "not ended: taken as ending with the log, or at its walltime",
        ),
        (requeued, "job", "jobs", &format!("ran more than once: {runs}")),
        (heterogeneous, "job has", "jobs have", "several parts, which start together"),
        (repeated, "job", "jobs", "with the number of another one before: NUMBER#2 and on"),
        (longer, "line has", "lines have", "more than 18 fields: the further ones are not read"),
    ] {
        if count > 0 {
            let words = if count == 1 { of_one } else { of_many };
            complain(&format!("{path}: {count} {words} {rest}"));
        }
    }
    if skipped.mixed_zones {
        complain(&format!(
            "{path}: some times have a zone and some have none: these are taken as UTC"
        ));
    }
}
