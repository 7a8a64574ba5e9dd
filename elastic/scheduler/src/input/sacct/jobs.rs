//! Jobs of the lines of a log: heterogeneous jobs have a line for each part, requeued ones for each run.

use std::collections::HashMap;

use super::named;
use crate::input::{Hours, InputError, Log, Skipped};
use crate::job::{Class, Limits};
use crate::time::{Span, Time};
use crate::workload::{JobSpec, Name, Work, Workload};

/// One line of a job that has started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub number: u64,
    pub submitted: i64,
    pub started: i64,
    /// None while it runs.
    pub run: Option<Run>,
}

/// The run of a job, or of one part of it, to its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub ended: i64,
    pub nodes: u32,
    pub walltime: Option<Span>,
    /// None where the log does not tell.
    pub hours: Option<f64>,
}

/// The lines of each job, in the order of the first ones.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    places: HashMap<Name, usize>,
    jobs: Vec<(Name, Vec<(u32, Line)>)>,
}

impl Jobs {
    /// Adds a line of the job with this id: `7`, or `7+1` for a part of a heterogeneous one.
    pub(super) fn add(&mut self, cluster: &str, id: &str, line: Line) {
        let part = id.split_once('+').and_then(|(job, part)| Some((job, part.parse().ok()?)));
        let (job, part) = part.unwrap_or((id, 0));
        let job = named(cluster, job);
        let name = job.parse().map_or_else(|_| Name::Text(job.into()), Name::Number);
        let place = *self.places.entry(name.clone()).or_insert(self.jobs.len());
        if place == self.jobs.len() {
            self.jobs.push((name, Vec::new()));
        }
        self.jobs[place].1.push((part, line));
    }

    pub(super) fn finish(
        self,
        unit: &'static str,
        mut skipped: Skipped,
        each_run: bool,
    ) -> Result<Log, InputError> {
        let mut jobs: Vec<(JobSpec, f64)> = Vec::new();
        let (mut total, mut unknown) = (0.0, skipped.wrong);
        for (name, lines) in self.jobs {
            for (_, line) in &lines {
                match line.run.map(|run| run.hours) {
                    Some(Some(hours)) => total += hours,
                    Some(None) | None => unknown += 1,
                }
            }
            let runs = runs(lines);
            skipped.heterogeneous += u64::from(runs.iter().any(|run| run.len() > 1));
            skipped.requeued += u64::from(runs.len() > 1);
            let begin = if each_run { 0 } else { runs.len() - 1 };
            for (number, parts) in runs.iter().enumerate().skip(begin) {
                let name = match number {
                    0 => name.clone(),
                    _ if !each_run => name.clone(),
                    _ => Name::Text(format!("{name}#{}", number + 1).into()),
                };
                match job(name, parts) {
                    Some(job) => jobs.push(job),
                    None => skipped.not_ended += 1,
                }
            }
        }
        jobs.sort_by_key(|(job, _)| job.submitted);
        let (jobs, hours) = jobs.into_iter().unzip();
        let hours = Hours { unit, log: total, jobs: hours, unknown };
        Ok(Log { workload: Workload::new(jobs, None), skipped, hours })
    }
}

/// The runs of a job, each with its parts.
fn runs(lines: Vec<(u32, Line)>) -> Vec<Vec<Line>> {
    let mut parts: HashMap<u32, Vec<Line>> = HashMap::new();
    for (part, line) in lines {
        parts.entry(part).or_default().push(line);
    }
    let mut runs: Vec<Vec<Line>> = Vec::new();
    for lines in parts.values_mut() {
        lines.sort_by_key(|line| (line.started, line.number));
        // A part of which the log lacks earlier runs has its last run with the others.
        runs.resize_with(runs.len().max(lines.len()), Vec::new);
    }
    let last = runs.len();
    for lines in parts.into_values() {
        for (run, line) in runs[last - lines.len()..].iter_mut().zip(lines) {
            run.push(line);
        }
    }
    runs
}

/// One job of parts that start together; none while one of them runs.
fn job(name: Name, parts: &[Line]) -> Option<(JobSpec, f64)> {
    let runs: Vec<Run> = parts.iter().map(|part| part.run).collect::<Option<_>>()?;
    let started = parts.iter().map(|part| part.started).min()?;
    let ended = runs.iter().map(|run| run.ended).max()?;
    let submitted = parts.iter().map(|part| part.submitted).min()?;
    let nodes = runs.iter().map(|run| run.nodes).fold(0, u32::saturating_add);
    let runtime = Span(ended.abs_diff(started).saturating_mul(1000));
    let walltimes: Option<Vec<Span>> = runs.iter().map(|run| run.walltime).collect();
    let walltime = walltimes.and_then(|all| all.into_iter().max());
    let hours = runs.iter().filter_map(|run| run.hours).fold(0.0, |sum, it| sum + it);
    let job = JobSpec {
        name,
        submitted: Time::seconds(u64::try_from(submitted).unwrap_or_default()),
        class: Class::Rigid,
        limits: Limits::exactly(nodes),
        priority: 0,
        walltime: walltime.unwrap_or(runtime),
        work: Work::Fixed(runtime),
    };
    Some((job, hours))
}
