//! The output of Slurm's `sacct --parsable2`: a line of field names, then one line for each job or
//! step.

mod fields;
mod jobs;
mod times;

use std::collections::HashSet;
use std::io::BufRead;

pub use fields::FORMAT;

use super::peak::Times;
use super::{InputError, LONGEST_TIME, Lines, Log, LogSettings};
use elastic_policy::time::{Span, Time};
use fields::Fields;
use jobs::{Jobs, Line};
use times::{Instant, count, instant, length, memory, tasks};

/// Parses a memory size as Slurm writes it, such as `192G`, in MiB; `None` for other text.
#[must_use]
pub fn mebibytes(text: &str) -> Option<u32> {
    memory(text, 1, 1)
}

/// Remedy for a time that cannot be read.
const TIMES: &str =
    "run sacct with SLURM_TIME_FORMAT=standard, or %s for logs in which clocks were changed";

/// Reads the output of `sacct --parsable2 --format` [`FORMAT`], in any order and with any other fields.
///
/// Steps are left out. The parts of a heterogeneous job are one job, and so are the runs of a
/// requeued one, of which the last counts unless [`LogSettings::each_run`] is set. Jobs that never
/// started are counted, and so are jobs that have not ended, which are taken as ending with the
/// log, or earlier at their walltime. Times without a zone are taken as UTC: if clocks were changed
/// meanwhile, an hour is missing or doubled.
///
/// # Errors
///
/// The file cannot be read, its first line lacks a field, a line is wrong and wrong lines are to
/// fail, or there is no job.
pub fn read(from: impl BufRead, settings: LogSettings) -> Result<Log, InputError> {
    let mut lines = Lines::new(from, settings.wrong_lines);
    let first = lines.line()?.ok_or(InputError::Empty)?;
    let cause = |cause| InputError::Line(super::Problem { line: 1, cause });
    let fields = Fields::find(&first.map_err(cause)?).map_err(cause)?;
    let mut reader = Reader::default();
    // The beginning of a line with a line break in one of its texts.
    let mut begun: Option<(u64, String)> = None;
    while let Some(line) = lines.line()? {
        let number = lines.number;
        let line = match line {
            Ok(line) => line,
            Err(cause) => {
                lines.wrong(number, cause)?;
                continue;
            }
        };
        if let Some((first, text)) = begun.take() {
            let joined = format!("{text}\n{line}");
            if !fields.begins(&line) && joined.len() < super::LONGEST_LINE {
                if fields.is_whole(&joined) {
                    reader.take(&mut lines, &fields, first, &joined)?;
                } else {
                    begun = Some((first, joined));
                }
                continue;
            }
            reader.take(&mut lines, &fields, first, &text)?;
        }
        if line.is_empty() || (fields.ends_in_text() && reader.is_behind && !fields.begins(&line)) {
            continue;
        }
        if fields.may_go_on() && !fields.is_whole(&line) && fields.begins(&line) {
            begun = Some((number, line));
        } else {
            reader.take(&mut lines, &fields, number, &line)?;
        }
    }
    if let Some((first, text)) = begun {
        reader.take(&mut lines, &fields, first, &text)?;
    }
    reader.finish(lines, &fields, settings)
}

#[derive(Default)]
struct Reader {
    jobs: Jobs,
    /// True after a complete line with a last text that may continue.
    is_behind: bool,
    /// The jobs with a line, and the steps before it.
    known: HashSet<String>,
    steps: Vec<(u64, String)>,
    /// The latest time of a job that ran, or of a submission.
    latest: i64,
    /// Number of times with a zone, and without.
    zoned: u64,
    local: u64,
}

impl Reader {
    fn take(
        &mut self,
        lines: &mut Lines<impl BufRead>,
        fields: &Fields,
        number: u64,
        text: &str,
    ) -> Result<(), InputError> {
        self.is_behind = fields.is_whole(text);
        match self.job(lines, fields, number, text) {
            Ok(()) => Ok(()),
            Err(cause) => lines.wrong(number, cause),
        }
    }

    fn job(
        &mut self,
        lines: &mut Lines<impl BufRead>,
        fields: &Fields,
        number: u64,
        text: &str,
    ) -> Result<(), String> {
        let values = fields.split(text)?;
        let id = values[fields.id];
        let cluster = fields.cluster.map_or("", |place| values[place]);
        if let Some((job, _)) = id.split_once('.') {
            lines.skipped.steps += 1;
            let job = named(cluster, job);
            if !self.known.contains(&job) {
                self.steps.push((number, job));
            }
            return Ok(());
        }
        if id.is_empty() {
            return Err("JobID is empty".to_owned());
        }
        self.known.insert(named(cluster, id));
        let mut when = |place: usize, name: &str| -> Result<Instant, String> {
            let text = values[place];
            let read =
                instant(text).ok_or_else(|| format!("{name}: {text:?} is not a time; {TIMES}"))?;
            *(if read.has_zone { &mut self.zoned } else { &mut self.local }) += 1;
            Ok(read)
        };
        let is_none = |place: usize| ["Unknown", "None", ""].contains(&values[place]);
        let is_pending = fields.state.is_some_and(|state| values[state].starts_with("PENDING"));
        let submitted = when(fields.submit, "Submit")?.seconds;
        self.latest = self.latest.max(submitted);
        let text = values[fields.nodes];
        if is_pending || is_none(fields.start) {
            lines.skipped.never_ran = lines.skipped.never_ran.saturating_add(tasks(id));
            return Ok(());
        }
        let nodes = count(text).ok_or_else(|| format!("NNodes: {text:?} is not a number"))?;
        let started = when(fields.start, "Start")?.seconds;
        let ended = match is_none(fields.end) {
            true => None,
            false => Some(when(fields.end, "End")?.seconds),
        };
        if ended.is_some_and(|ended| ended < started) {
            let (start, end) = (values[fields.start], values[fields.end]);
            return Err(format!("End {end} is before Start {start}; {TIMES}"));
        }
        if nodes == 0 {
            lines.skipped.never_ran = lines.skipped.never_ran.saturating_add(1);
            return Ok(());
        }
        self.latest = self.latest.max(started).max(ended.unwrap_or(started));
        let walltime = limit(values[fields.limit], fields.is_limit_in_minutes)?;
        let cpus = fields.cpus.and_then(|place| count(values[place]));
        let mut told = fields.memory.iter();
        let memory = told.find_map(|&place| self::memory(values[place], cpus.unwrap_or(1), nodes));
        let memory = memory.unwrap_or(0);
        let line = Line { number, submitted, started, ended, nodes, walltime, cpus, memory };
        self.jobs.add(cluster, id, line);
        Ok(())
    }

    fn finish(
        self,
        mut lines: Lines<impl BufRead>,
        fields: &Fields,
        settings: LogSettings,
    ) -> Result<Log, InputError> {
        for (number, job) in self.steps {
            if !self.known.contains(&job) {
                lines
                    .wrong(number, format!("a step of job {job}, which has no line of its own"))?;
            }
        }
        lines.skipped.mixed_zones = self.zoned > 0 && self.local > 0;
        let has_cpus = fields.cpus.is_some();
        let mut log = self.jobs.finish(has_cpus, self.latest, lines.skipped, settings.each_run);
        if log.workload.jobs.is_empty() && log.skipped.wrong == 0 {
            return Err(InputError::Empty);
        }
        let first = log.workload.jobs.first().map_or(Time::ZERO, |job| job.submitted);
        for job in &mut log.workload.jobs {
            job.submitted = Time(job.submitted.since(first).0);
        }
        Ok(log)
    }
}

/// Returns the name of a job, unique among all clusters.
fn named(cluster: &str, id: &str) -> String {
    if cluster.is_empty() { id.to_owned() } else { format!("{cluster}:{id}") }
}

/// Parses a time limit; `None` if there is no limit.
fn limit(text: &str, is_in_minutes: bool) -> Result<Option<Span>, String> {
    match text {
        "UNLIMITED" | "Partition_Limit" | "INVALID" | "" => Ok(None),
        raw if is_in_minutes => {
            let minutes: u64 =
                raw.parse().map_err(|_| format!("TimelimitRaw: {raw:?} is not a number"))?;
            let seconds = minutes.checked_mul(60).filter(|&seconds| seconds as f64 <= LONGEST_TIME);
            let seconds = seconds.ok_or_else(|| format!("TimelimitRaw: {raw} is too large"))?;
            Ok(Some(Span::seconds(seconds)))
        }
        text => {
            let read = length(text).ok_or_else(|| format!("Timelimit: {text:?} is not a time"))?;
            Ok(Some(read))
        }
    }
}

#[cfg(test)]
mod tests;
