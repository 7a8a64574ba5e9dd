//! Combines the lines of a log into jobs: heterogeneous jobs have a line for each part, requeued
//! ones for each run.

use std::collections::HashMap;
use std::num::NonZeroU32;

use super::{Times, named};
use crate::input::{Hours, Log, Skipped};
use crate::workload::{JobSpec, Name, Work, Workload};
use elastic_policy::job::{Class, Limits};
use elastic_policy::rooms::Share;
use elastic_policy::time::{Span, Time};

/// One line of a job that has started: a run of the job, or of one of its parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub number: u64,
    pub submitted: i64,
    pub started: i64,
    /// `None` while the run lasts.
    pub ended: Option<i64>,
    pub nodes: u32,
    pub walltime: Option<Span>,
    /// `None` if the log does not have it.
    pub cpus: Option<u32>,
    /// In MiB; zero if the log does not have it.
    pub memory: u32,
}

impl Line {
    /// Returns the end. A run without one ends with the log, or earlier at its walltime.
    fn end(&self, latest: i64) -> i64 {
        let limit = self.walltime.and_then(|walltime| i64::try_from(walltime.0 / 1000).ok());
        let limit = limit.map_or(latest, |limit| latest.min(self.started.saturating_add(limit)));
        self.ended.unwrap_or(limit)
    }

    /// Returns the CPU hours, or the node hours for a log without CPUs; `None` if they are not
    /// known.
    fn hours(&self, has_cpus: bool, latest: i64) -> Option<f64> {
        let held = if has_cpus { self.cpus? } else { self.nodes };
        Some(f64::from(held) * self.end(latest).abs_diff(self.started) as f64 / 3600.0)
    }
}

/// The lines of each job, in the order of their first lines.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    places: HashMap<Name, usize>,
    jobs: Vec<(Name, Vec<(u32, Line)>)>,
}

impl Jobs {
    /// Adds a line of the job with this id: `7`, or `7+1` for a part of a heterogeneous job.
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
        has_cpus: bool,
        latest: i64,
        mut skipped: Skipped,
        each_run: bool,
    ) -> Log {
        let mut times = Times::default();
        let mut jobs: Vec<(JobSpec, f64)> = Vec::new();
        let (mut total, mut unknown) = (0.0, skipped.wrong);
        for (name, lines) in self.jobs {
            for (_, line) in &lines {
                match line.hours(has_cpus, latest) {
                    Some(hours) => total += hours,
                    None => unknown += 1,
                }
                let (from, to) = (line.started, line.end(latest));
                times.add(from, to, line.nodes, line.cpus.unwrap_or(line.nodes));
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
                skipped.not_ended += u64::from(parts.iter().any(|part| part.ended.is_none()));
                let hours = parts.iter().filter_map(|part| part.hours(has_cpus, latest));
                let hours = hours.fold(0.0, |sum, it| sum + it);
                jobs.extend(job(name, parts, latest).map(|job| (job, hours)));
            }
        }
        jobs.sort_by_key(|(job, _)| job.submitted);
        let (jobs, hours) = jobs.into_iter().unzip();
        let unit = if has_cpus { "CPU" } else { "node" };
        let hours = Hours { unit, log: total, jobs: hours, unknown };
        Log { workload: Workload::new(jobs, None), skipped, hours, peak: times.peak() }
    }
}

/// Returns the runs of a job, each with its parts.
fn runs(lines: Vec<(u32, Line)>) -> Vec<Vec<Line>> {
    let mut parts: HashMap<u32, Vec<Line>> = HashMap::new();
    for (part, line) in lines {
        parts.entry(part).or_default().push(line);
    }
    let mut runs: Vec<Vec<Line>> = Vec::new();
    for lines in parts.values_mut() {
        lines.sort_by_key(|line| (line.started, line.number));
        // If the log lacks earlier runs of a part, its last run still belongs to the last run of
        // the job.
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

/// Makes one job from parts that start together; `None` without parts.
fn job(name: Name, parts: &[Line], latest: i64) -> Option<JobSpec> {
    let started = parts.iter().map(|part| part.started).min()?;
    let ended = parts.iter().map(|part| part.end(latest)).max()?;
    let submitted = parts.iter().map(|part| part.submitted).min()?;
    let sum = |of: fn(&Line) -> u32| parts.iter().map(of).fold(0, u32::saturating_add);
    let (nodes, memory) = (sum(|part| part.nodes), sum(|part| part.memory));
    let cpus = sum(|part| part.cpus.unwrap_or(0));
    let has_cpus = parts.iter().all(|part| part.cpus.is_some());
    let cores = NonZeroU32::new(cpus).filter(|_| has_cpus);
    let runtime = Span(ended.abs_diff(started).saturating_mul(1000));
    let walltimes: Option<Vec<Span>> = parts.iter().map(|part| part.walltime).collect();
    let walltime = walltimes.and_then(|all| all.into_iter().max());
    Some(JobSpec {
        name,
        submitted: Time::seconds(u64::try_from(submitted).unwrap_or_default()),
        class: Class::Rigid,
        limits: Limits::exactly(nodes),
        share: cores.map(|cores| Share { cores, memory }),
        priority: 0,
        walltime: walltime.unwrap_or(runtime),
        work: Work::Fixed(runtime),
    })
}
