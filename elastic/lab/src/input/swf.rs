//! The Standard Workload Format, version 2.2: one job per line, eighteen numbers.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufRead, Write};
use std::num::NonZeroU32;

use super::peak::Times;
use super::{Hours, InputError, LONGEST_TIME, Lines, Log, LogSettings, Skipped};
use crate::workload::{JobSpec, Name, Work, Workload};
use elastic_policy::job::{Class, Limits};
use elastic_policy::rooms::Share;
use elastic_policy::time::{Span, Time};

/// The positions and names of the fields that are used.
const USED: [(usize, &str); 5] = [
    (0, "job number"),
    (1, "submit time"),
    (3, "run time"),
    (4, "allocated processors"),
    (7, "requested processors"),
];

/// Reads a log.
///
/// The header describes the machine (`MaxNodes`, `MaxProcs`). A job takes its requested processors,
/// or the allocated ones without a request, and likewise the memory per processor; its walltime is
/// the requested time, or its run time. Jobs without processors or run time never ran and are
/// counted, and so are the bursts of swapped jobs, which also have a line for the whole job. Fields
/// after the eighteenth are ignored. A repeated job number is a separate job.
///
/// # Errors
///
/// The file cannot be read, a line is wrong and wrong lines are to fail, or there is no job.
pub fn read(from: impl BufRead, settings: LogSettings) -> Result<Log, InputError> {
    let mut lines = Lines::new(from, settings.wrong_lines);
    let mut header = Header::default();
    let (mut jobs, mut hours) = (Vec::new(), Vec::new());
    let mut times = Times::default();
    let mut numbers: HashMap<u64, u64> = HashMap::new();
    // Bursts of jobs without a line for the whole job so far.
    let mut bursts: BTreeMap<u64, u64> = BTreeMap::new();
    while let Some(line) = lines.line()? {
        let number = lines.number;
        let found = line.and_then(|line| match line.strip_prefix(';') {
            Some(comment) => {
                header.take(comment);
                Ok(Found::Nothing)
            }
            None if line.trim().is_empty() => Ok(Found::Nothing),
            None => job(&line, settings.cores_per_node, &mut lines.skipped, &mut times),
        });
        match found {
            Ok(Found::Nothing) => {}
            Ok(Found::NeverRan) => lines.skipped.never_ran += 1,
            Ok(Found::Burst(id)) => {
                lines.skipped.steps += 1;
                if !numbers.contains_key(&id) {
                    bursts.insert(id, number);
                }
            }
            Ok(Found::Job(mut job, id, used)) => {
                let times = numbers.entry(id).and_modify(|times| *times += 1).or_insert(1);
                if *times > 1 {
                    lines.skipped.repeated += 1;
                    job.name = Name::Text(format!("{id}#{times}").into());
                }
                jobs.push(*job);
                hours.push(used);
            }
            Err(cause) => lines.wrong(number, cause)?,
        }
    }
    for (id, number) in bursts.into_iter().filter(|(id, _)| !numbers.contains_key(id)) {
        lines.wrong(number, format!("a part of job {id}, which has no line of its own"))?;
    }
    if jobs.is_empty() && lines.skipped.wrong == 0 {
        return Err(InputError::Empty);
    }
    // Most logs are in this order, and pairs would double the memory of long ones.
    if !jobs.is_sorted_by_key(|job| job.submitted) {
        let mut pairs: Vec<(JobSpec, f64)> = jobs.into_iter().zip(hours).collect();
        pairs.sort_by_key(|(job, _)| job.submitted);
        (jobs, hours) = pairs.into_iter().unzip();
    }
    let log = hours.iter().fold(0.0, |sum, it| sum + it);
    let skipped = lines.skipped;
    let hours = Hours { unit: "processor", log, jobs: hours, unknown: skipped.wrong };
    let nodes = header.nodes(settings.cores_per_node);
    let peak = times.peak();
    Ok(Log { workload: Workload::new(jobs, nodes), skipped, hours, peak })
}

#[derive(Default)]
struct Header {
    nodes: Option<u32>,
    processors: Option<u32>,
}

impl Header {
    fn take(&mut self, comment: &str) {
        let Some((key, value)) = comment.split_once(':') else { return };
        let number = value.split_whitespace().next().and_then(|word| word.parse().ok());
        match key.trim() {
            "MaxNodes" => self.nodes = number.filter(|&number| number > 0),
            "MaxProcs" => self.processors = number.filter(|&number| number > 0),
            _ => {}
        }
    }

    fn nodes(&self, cores_per_node: u32) -> Option<u32> {
        match (self.processors, self.nodes) {
            (Some(processors), _) => Some(processors.div_ceil(cores_per_node.max(1))),
            (None, nodes) => nodes,
        }
    }
}

enum Found {
    Nothing,
    NeverRan,
    /// A part of the job with this number.
    Burst(u64),
    /// The job, its number, and its processor hours.
    Job(Box<JobSpec>, u64, f64),
}

fn job(
    line: &str,
    cores_per_node: u32,
    skipped: &mut Skipped,
    times: &mut Times,
) -> Result<Found, String> {
    let mut fields = [""; 18];
    let mut count = 0;
    for word in line.split_ascii_whitespace() {
        if count < fields.len() {
            fields[count] = word;
        }
        count += 1;
    }
    if count < fields.len() {
        return Err(format!("{count} fields, expected {}", fields.len()));
    }
    let mut values = [0.0; 9];
    for (place, name) in USED {
        values[place] = number(fields[place], name)?;
    }
    let requested_time = number(fields[8], "requested time")?;
    let status = number(fields[10], "status")?;
    let [id, submitted, _, runtime, allocated, _, _, requested, _] = values;
    if id < 0.0 || submitted < 0.0 {
        return Err("the job number or the submit time is negative".to_owned());
    }
    skipped.longer += u64::from(count > fields.len());
    // Status of bursts in the format: to be continued, completed and failed.
    if [2.0, 3.0, 4.0].contains(&status) {
        return Ok(Found::Burst(id as u64));
    }
    let processors = if requested > 0.0 { requested } else { allocated };
    if processors < 1.0 || runtime < 0.0 {
        return Ok(Found::NeverRan);
    }
    if processors > f64::from(u32::MAX) {
        return Err(format!("{processors} processors are too many"));
    }
    let nodes = (processors as u32).div_ceil(cores_per_node.max(1));
    let runtime = Span::from_seconds(runtime);
    let walltime = if requested_time > 0.0 { Span::from_seconds(requested_time) } else { runtime };
    let held = if allocated > 0.0 { allocated } else { processors };
    let hours = held * runtime.as_seconds() / 3600.0;
    let started = submitted + optional(fields[2]).unwrap_or(f64::NAN);
    if started.is_finite() {
        let (from, to) = (started as i64, (started + runtime.as_seconds()) as i64);
        times.add(from, to, nodes, held as u32);
    }
    let kibibytes = optional(fields[9]).or_else(|| optional(fields[6])).unwrap_or(0.0);
    let memory = (kibibytes * processors / 1024.0).ceil() as u32;
    let share = NonZeroU32::new(processors as u32).map(|cores| Share { cores, memory });
    let id = id as u64;
    let job = JobSpec {
        name: Name::Number(id),
        submitted: Time(Span::from_seconds(submitted).0),
        class: Class::Rigid,
        limits: Limits::exactly(nodes),
        share,
        priority: 0,
        walltime,
        work: Work::Fixed(runtime),
    };
    Ok(Found::Job(Box::new(job), id, hours))
}

/// Parses a number that many logs lack: `None` if it is negative, or no number.
fn optional(word: &str) -> Option<f64> {
    word.parse().ok().filter(|value| (0.0..=LONGEST_TIME).contains(value))
}

fn number(word: &str, name: &str) -> Result<f64, String> {
    let value: f64 = word.parse().unwrap_or(f64::NAN);
    if value.is_nan() {
        return Err(format!("{name}: {word:?} is not a number"));
    }
    if value.abs() <= LONGEST_TIME {
        Ok(value)
    } else {
        Err(format!("{name}: {word} is too large"))
    }
}

/// Writes the rigid jobs of a workload as a log. Times are rounded to whole seconds.
///
/// # Errors
///
/// Writing fails.
pub fn write(workload: &Workload, into: &mut dyn Write) -> io::Result<()> {
    writeln!(into, "; Version: 2.2")?;
    if let Some(nodes) = workload.nodes {
        writeln!(into, "; MaxNodes: {nodes}\n; MaxProcs: {nodes}")?;
    }
    for (place, job) in workload.jobs.iter().enumerate() {
        let Work::Fixed(runtime) = job.work else { continue };
        let number = match job.name {
            Name::Number(number) => number,
            Name::Text(_) => place as u64 + 1,
        };
        let round = |milliseconds: u64| (milliseconds + 500) / 1000;
        let (submitted, nodes) = (round(job.submitted.0), job.limits.start);
        let (runtime, walltime) = (round(runtime.0), round(job.walltime.0));
        writeln!(
            into,
            "{number} {submitted} -1 {runtime} {nodes} -1 -1 {nodes} {walltime} -1 1 -1 -1 -1 -1 -1 -1 -1"
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::{Problem, WrongLines};

    const LOG: &str = "\
; Version: 2.2
; MaxProcs: 64
;
  7 10 -1 100 8 -1 -1 9 200 -1 1 1 1 -1 1 -1 -1 -1
8 5 3 50.5 4 -1 -1 -1 -1 -1 1 1 1 -1 1 -1 -1 -1

9 20 -1 -1 4 -1 -1 4 60 -1 5 1 1 -1 1 -1 -1 -1
10 20 -1 30 four -1 -1 4 60 -1 1 1 1 -1 1 -1 -1 -1
11 20 -1 30 4
12 -5 -1 30 4 -1 -1 4 60 -1 1 1 1 -1 1 -1 -1 -1
";

    #[test]
    fn log_gives_jobs_in_order_of_submission() {
        let settings = LogSettings { cores_per_node: 4, ..LogSettings::default() };
        let Log { workload, skipped, hours, peak } = read(LOG.as_bytes(), settings).unwrap();
        assert_eq!(workload.nodes, Some(16));
        let jobs: Vec<_> = workload
            .jobs
            .iter()
            .map(|job| (job.name.to_string(), job.submitted.0, job.limits.start, job.walltime.0))
            .collect();
        let expected = [("8", 5_000, 1, 50_500), ("7", 10_000, 3, 200_000)];
        assert_eq!(jobs, expected.map(|job| (job.0.to_owned(), job.1, job.2, job.3)));
        assert_eq!(workload.jobs[0].work, Work::Fixed(Span(50_500)));
        assert_eq!((skipped.never_ran, skipped.wrong), (1, 3));
        let expected = [4.0 * 50.5 / 3600.0, 8.0 * 100.0 / 3600.0];
        assert_eq!((hours.jobs.as_slice(), hours.unknown), (&expected[..], 3));
        assert_eq!((hours.unit, hours.log), ("processor", expected[0] + expected[1]));
        assert_eq!(peak, super::super::Peak { nodes: 1, processors: 4 }, "of 7 no start is known");
    }

    #[test]
    fn memory_per_processor_is_that_of_the_job() {
        let log = "1 0 0 9 2 -1 1000 3 -1 2048 1 1 1 -1 1 -1 -1 -1\n\
            2 0 0 9 2 -1 1536 -1 -1 -1 1 1 1 -1 1 -1 -1 -1\n\
            3 0 0 9 2 -1 -1 -1 -1 -1 1 1 1 -1 1 -1 -1 -1\n";
        let log = read(log.as_bytes(), LogSettings::default()).unwrap();
        let share = |job: &JobSpec| job.share.map(|share| (share.cores.get(), share.memory));
        let shares: Vec<_> = log.workload.jobs.iter().map(share).collect();
        assert_eq!(shares, [Some((3, 6)), Some((2, 3)), Some((2, 0))]);
    }

    #[test]
    fn wrong_lines_are_named_with_number_and_cause() {
        let Log { skipped, .. } = read(LOG.as_bytes(), LogSettings::default()).unwrap();
        let problem = |line, cause: &str| Problem { line, cause: cause.to_owned() };
        let expected = [
            problem(8, "allocated processors: \"four\" is not a number"),
            problem(9, "5 fields, expected 18"),
            problem(10, "the job number or the submit time is negative"),
        ];
        assert_eq!(skipped.problems, expected);
        let fail = LogSettings { wrong_lines: WrongLines::Fail, ..LogSettings::default() };
        let error = read(LOG.as_bytes(), fail).unwrap_err();
        assert_eq!(error.to_string(), "line 8: allocated processors: \"four\" is not a number");
    }

    #[test]
    fn numbers_without_sense_are_wrong() {
        for (number, cause) in [
            ("1e300", "run time: 1e300 is too large"),
            ("nan", "run time: \"nan\" is not a number"),
            ("99999999999999999999", "run time: 99999999999999999999 is too large"),
        ] {
            let line = format!("1 1 -1 {number} 4 -1 -1 4 60 -1 1 -1 -1 -1 -1 -1 -1 -1\n");
            let Log { skipped, .. } = read(line.as_bytes(), LogSettings::default()).unwrap();
            assert_eq!(skipped.problems[0].cause, cause);
        }
    }

    #[test]
    fn bursts_repeated_numbers_and_further_fields_are_counted() {
        let line = |id, status, more| {
            format!("{id} 1 -1 60 4 -1 -1 4 60 -1 {status} -1 -1 -1 -1 -1 -1 -1{more}\n")
        };
        let text = [
            line(1, 1, ""),
            line(1, 2, ""),
            line(1, 3, ""),
            line(2, 4, ""),
            line(3, 0, " 7.5 x"),
            line(3, 1, ""),
        ];
        let log = read(text.concat().as_bytes(), LogSettings::default()).unwrap();
        let names: Vec<_> = log.workload.jobs.iter().map(|job| job.name.to_string()).collect();
        assert_eq!(names, ["1", "3", "3#2"]);
        let Skipped { steps, longer, repeated, wrong, .. } = log.skipped;
        assert_eq!((steps, longer, repeated, wrong), (3, 1, 1, 1));
        let cause = "a part of job 2, which has no line of its own".to_owned();
        assert_eq!(log.skipped.problems, [Problem { line: 4, cause }]);
        assert_eq!(log.hours.jobs, [4.0 / 60.0; 3]);
    }

    #[test]
    fn bytes_that_are_no_log_are_wrong_lines() {
        let bytes = [&[0xff_u8, 0xfe, b'\n'][..], &[b'1'; 200_000], b"\n1 2 3\n"].concat();
        let Log { workload, skipped, .. } = read(&bytes[..], LogSettings::default()).unwrap();
        assert!(workload.jobs.is_empty());
        let causes: Vec<_> = skipped.problems.iter().map(|problem| problem.line).collect();
        assert_eq!(causes, [1, 2, 3]);
        assert!(matches!(read(&b""[..], LogSettings::default()), Err(InputError::Empty)));
    }

    #[test]
    fn written_log_reads_as_before() {
        let settings = LogSettings::default();
        let Log { workload, .. } = read(&LOG.as_bytes()[..100], settings).unwrap();
        let mut text = Vec::new();
        write(&workload, &mut text).unwrap();
        assert_eq!(read(&text[..], settings).unwrap().workload, workload);
    }
}
