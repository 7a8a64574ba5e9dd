//! The output of Slurm's `sacct --parsable2`: a line of field names, then one job or step a line.

use std::collections::HashMap;
use std::io::BufRead;

use super::{InputError, LONGEST_TIME, Lines, LogSettings, Skipped};
use crate::job::{Class, Limits};
use crate::time::{Span, Time};
use crate::workload::{JobSpec, Name, Work, Workload};

/// The `--format` that has all fields that are read.
pub const FORMAT: &str = "JobID,Submit,Start,End,TimelimitRaw,NNodes,State";

/// Reads the output of `sacct --parsable2 --format` [`FORMAT`], in any order and with any other fields.
///
/// Steps are left out. Jobs that never started or have not ended are counted. Times are local times: where clocks were
/// changed meanwhile, an hour is missing or doubled.
///
/// # Errors
///
/// The file cannot be read, its first line lacks a field, a line is wrong and that is to fail, or there is no job.
pub fn read(from: impl BufRead, settings: LogSettings) -> Result<(Workload, Skipped), InputError> {
    let mut lines = Lines::new(from, settings.wrong_lines);
    let mut fields: Option<Result<Fields, String>> = None;
    let mut jobs = Vec::new();
    while lines.next(|line, skipped| {
        match &fields {
            None => fields = Some(Fields::find(line)),
            Some(Ok(fields)) if !line.is_empty() => match job(line, fields)? {
                Found::Job(job) => jobs.push(*job),
                Found::NeverRan => skipped.never_ran += 1,
                Found::Step => {}
            },
            Some(_) => {}
        }
        Ok(())
    })? {
        if let Some(Err(cause)) = fields {
            return Err(InputError::Line(super::Problem { line: 1, cause }));
        }
    }
    if jobs.is_empty() && lines.skipped.wrong == 0 {
        return Err(InputError::Empty);
    }
    let first = jobs.iter().map(|job| job.submitted).min().unwrap_or(Time::ZERO);
    for job in &mut jobs {
        job.submitted = Time(job.submitted.since(first).0);
    }
    Ok((Workload::new(jobs, None), lines.skipped))
}

/// The places of the fields in a line.
struct Fields {
    count: usize,
    id: usize,
    submit: usize,
    start: usize,
    end: usize,
    limit: usize,
    is_limit_in_minutes: bool,
    nodes: usize,
    state: Option<usize>,
}

impl Fields {
    fn find(line: &str) -> Result<Fields, String> {
        let names: Vec<&str> = line.split('|').collect();
        let places: HashMap<String, usize> = names
            .iter()
            .enumerate()
            .map(|(place, name)| (name.to_ascii_lowercase(), place))
            .collect();
        let find = |name: &str| {
            places.get(&name.to_ascii_lowercase()).copied().ok_or_else(|| {
                format!("there is no field {name}; run sacct --parsable2 --format={FORMAT}")
            })
        };
        let raw = find("TimelimitRaw").ok();
        Ok(Fields {
            count: names.len(),
            id: find("JobID")?,
            submit: find("Submit")?,
            start: find("Start")?,
            end: find("End")?,
            limit: raw.map_or_else(|| find("Timelimit").map_err(|_| limit_missing()), Ok)?,
            is_limit_in_minutes: raw.is_some(),
            nodes: find("NNodes").or_else(|missing| find("AllocNodes").map_err(|_| missing))?,
            state: find("State").ok(),
        })
    }
}

fn limit_missing() -> String {
    format!("there is no field TimelimitRaw; run sacct --parsable2 --format={FORMAT}")
}

enum Found {
    Job(Box<JobSpec>),
    Step,
    NeverRan,
}

fn job(line: &str, fields: &Fields) -> Result<Found, String> {
    let values: Vec<&str> = line.split('|').collect();
    if values.len() != fields.count {
        return Err(format!("{} fields, expected {}", values.len(), fields.count));
    }
    let id = values[fields.id];
    if id.contains('.') {
        return Ok(Found::Step);
    }
    let submitted = instant(values[fields.submit])
        .ok_or_else(|| format!("Submit: {:?} is not a time", values[fields.submit]))?;
    let is_pending = fields.state.is_some_and(|state| values[state].starts_with("PENDING"));
    let (start, end) = (values[fields.start], values[fields.end]);
    if is_pending || ["Unknown", "None", ""].iter().any(|none| [start, end].contains(none)) {
        return Ok(Found::NeverRan);
    }
    let started = instant(start).ok_or_else(|| format!("Start: {start:?} is not a time"))?;
    let ended = instant(end).ok_or_else(|| format!("End: {end:?} is not a time"))?;
    if ended < started {
        return Err(format!("End {end} is before Start {start}"));
    }
    let nodes = values[fields.nodes];
    let nodes = count(nodes).ok_or_else(|| format!("NNodes: {nodes:?} is not a number"))?;
    if nodes == 0 {
        return Ok(Found::NeverRan);
    }
    let runtime = Span(1000 * ended.abs_diff(started));
    let limit = values[fields.limit];
    let walltime = match limit {
        "UNLIMITED" | "Partition_Limit" | "INVALID" | "" => None,
        raw if fields.is_limit_in_minutes => {
            let minutes: u64 =
                raw.parse().map_err(|_| format!("TimelimitRaw: {raw:?} is not a number"))?;
            let seconds = minutes.checked_mul(60).filter(|&seconds| seconds as f64 <= LONGEST_TIME);
            Some(Span::seconds(seconds.ok_or_else(|| format!("TimelimitRaw: {raw} is too large"))?))
        }
        text => Some(length(text).ok_or_else(|| format!("Timelimit: {text:?} is not a time"))?),
    };
    Ok(Found::Job(Box::new(JobSpec {
        name: id.parse().map_or_else(|_| Name::Text(id.into()), Name::Number),
        submitted: Time::seconds(u64::try_from(submitted).unwrap_or_default()),
        class: Class::Rigid,
        limits: Limits::exactly(nodes),
        priority: 0,
        walltime: walltime.unwrap_or(runtime),
        work: Work::Fixed(runtime),
    })))
}

/// Returns the seconds since 1970 of a time like `2026-11-25T14:00:00`, as if it were in UTC.
fn instant(text: &str) -> Option<i64> {
    let (date, time) = text.split_once('T')?;
    let mut date = date.split('-').map(|word| word.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let mut time = time.split(':').map(|word| word.parse::<i64>().ok());
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    let is_date = (1970..10_000).contains(&year) && (1..=12).contains(&month);
    let is_time =
        (0..24).contains(&hour) && (0..60).contains(&minute) && (0..=60).contains(&second);
    if !is_date || !is_time || !(1..=31).contains(&day) {
        return None;
    }
    // Days since 1970 in the Gregorian calendar, with years that begin in March.
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = 365 * year + year / 4 - year / 100 + year / 400 + of_year - 719_468;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Returns the length of a time like `1-00:30:00`, `00:30:00` or `30:00`.
fn length(text: &str) -> Option<Span> {
    let (days, rest) = text.split_once('-').unwrap_or(("0", text));
    let days: u64 = days.parse().ok()?;
    let mut seconds = 0_u64;
    let parts: Vec<&str> = rest.split(':').collect();
    if parts.len() > 3 {
        return None;
    }
    for part in parts {
        seconds = seconds.checked_mul(60)?.checked_add(part.parse().ok()?)?;
    }
    let seconds = days.checked_mul(86_400)?.checked_add(seconds)?;
    (seconds as f64 <= LONGEST_TIME).then(|| Span::seconds(seconds))
}

/// Returns a number that Slurm may have shortened, such as `2K` for 2048.
fn count(text: &str) -> Option<u32> {
    match text.strip_suffix('K') {
        Some(thousands) => {
            let value: f64 = thousands.parse().ok()?;
            (value.is_finite() && value >= 0.0).then_some((value * 1024.0) as u32)
        }
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Problem;

    const OUTPUT: &str = "\
JobID|JobName|Submit|Start|End|TimelimitRaw|NNodes|State
101|a|2026-02-28T23:59:00|2026-02-28T23:59:30|2026-03-01T00:09:30|20|4|COMPLETED
101.batch|batch|2026-02-28T23:59:30|2026-02-28T23:59:30|2026-03-01T00:09:30||1|COMPLETED
102_7|b|2026-03-01T00:00:00|2026-03-01T00:10:00|2026-03-01T00:20:00|UNLIMITED|1K|TIMEOUT
103|c|2026-03-01T00:00:00|Unknown|Unknown|20|4|PENDING
104|d|2026-03-01T00:00:00|None|2026-03-01T00:00:05|20|4|CANCELLED by 1000
105|e|yesterday|2026-03-01T00:10:00|2026-03-01T00:20:00|20|4|FAILED
106|f|2026-03-01T00:00:00
";

    #[test]
    fn jobs_are_read_and_steps_left_out() {
        let (workload, skipped) = read(OUTPUT.as_bytes(), LogSettings::default()).unwrap();
        let jobs: Vec<_> = workload
            .jobs
            .iter()
            .map(|job| (job.name.to_string(), job.submitted.0, job.limits.start, job.walltime.0))
            .collect();
        let expected = [("101", 0, 4, 1_200_000), ("102_7", 60_000, 1024, 600_000)];
        assert_eq!(jobs, expected.map(|job| (job.0.to_owned(), job.1, job.2, job.3)));
        assert_eq!(workload.jobs[0].work, Work::Fixed(Span::seconds(600)));
        assert_eq!(skipped.never_ran, 2);
        let problem = |line, cause: &str| Problem { line, cause: cause.to_owned() };
        let expected =
            [problem(7, "Submit: \"yesterday\" is not a time"), problem(8, "3 fields, expected 8")];
        assert_eq!(skipped.problems, expected);
    }

    #[test]
    fn missing_field_is_named_with_the_format_to_ask_for() {
        let error = read(&b"JobID|Submit|Start\n"[..], LogSettings::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("line 1: there is no field End; run sacct --parsable2 --format={FORMAT}")
        );
    }

    #[test]
    fn times_of_slurm_are_understood() {
        assert_eq!(length("1-00:30:00"), Some(Span::seconds(88_200)));
        assert_eq!(length("30:00"), Some(Span::seconds(1_800)));
        assert_eq!(length("1:2:3:4"), None);
        assert_eq!(instant("1970-01-02T00:00:01"), Some(86_401));
        assert_eq!(instant("2024-02-29T12:00:00"), Some(1_709_208_000));
        assert_eq!(instant("2024-13-01T12:00:00"), None);
    }
}
