use super::*;
use crate::input::{Problem, Skipped, WrongLines};
use crate::workload::Work;

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

/// Name, seconds from the first submission, nodes, and seconds of run time and walltime of each
/// job.
fn jobs(log: &Log) -> Vec<(String, u64, u32, u64, u64)> {
    let seconds = |work: &Work| match work {
        Work::Fixed(span) => span.0 / 1000,
        Work::Iterative(_) => 0,
    };
    let jobs = log.workload.jobs.iter().map(|job| {
        let name = job.name.to_string();
        (name, job.submitted.0 / 1000, job.limits.start, seconds(&job.work), job.walltime.0 / 1000)
    });
    jobs.collect()
}

fn of(lines: &str, settings: LogSettings) -> Log {
    let text = format!("JobID|Submit|Start|End|TimelimitRaw|NNodes|State|AllocCPUS\n{lines}");
    read(text.as_bytes(), settings).unwrap()
}

#[test]
fn jobs_are_read_and_steps_left_out() {
    let log = read(OUTPUT.as_bytes(), LogSettings::default()).unwrap();
    let expected = [("101", 0, 4, 600, 1_200), ("102_7", 60, 1024, 600, 600)];
    assert_eq!(jobs(&log), expected.map(|job| (job.0.to_owned(), job.1, job.2, job.3, job.4)));
    assert_eq!((log.skipped.never_ran, log.skipped.steps), (2, 1));
    let problem = |line, cause: String| Problem { line, cause };
    let yesterday = format!("Submit: \"yesterday\" is not a time; {TIMES}");
    let expected = [problem(7, yesterday), problem(8, "3 fields, expected 8".to_owned())];
    assert_eq!(log.skipped.problems, expected);
}

#[test]
fn missing_field_is_named_with_the_format_to_ask_for() {
    let error = read(&b"JobID|Submit|Start\n"[..], LogSettings::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("line 1: there is no field End; run sacct --parsable2 --format={FORMAT}")
    );
    assert!(matches!(read(&b""[..], LogSettings::default()), Err(InputError::Empty)));
}

#[test]
fn parts_of_a_heterogeneous_job_start_together_as_one() {
    let log = of(
        "5+0|2026-03-01T00:03:00|2026-03-01T00:10:00|2026-03-01T00:20:00|60|1|TIMEOUT|4\n\
         5+1|2026-03-01T00:03:00|2026-03-01T00:10:00|2026-03-01T00:40:00|90|3|TIMEOUT|6\n\
         5+1.0|2026-03-01T00:03:00|2026-03-01T00:10:00|2026-03-01T00:20:00||3|TIMEOUT|6\n",
        LogSettings::default(),
    );
    assert_eq!(jobs(&log), [("5".to_owned(), 0, 4, 1_800, 5_400)]);
    assert_eq!((log.skipped.heterogeneous, log.skipped.requeued, log.skipped.wrong), (1, 0, 0));
    assert!((log.hours.log - (4.0 / 6.0 + 3.0)).abs() < 1e-9, "{:?}", log.hours);
    assert_eq!((log.hours.unit, log.hours.jobs.len()), ("CPU", 1));
}

#[test]
fn requeued_job_is_its_last_run_or_each_as_asked() {
    let lines = "6|2026-03-01T00:04:00|2026-03-01T00:30:00|2026-03-01T00:50:00|UNLIMITED|1|COMPLETED|2\n\
         6|2026-03-01T00:04:00|2026-03-01T00:10:00|2026-03-01T00:20:00|UNLIMITED|1|NODE_FAIL|2\n";
    let log = of(lines, LogSettings::default());
    assert_eq!(jobs(&log), [("6".to_owned(), 0, 1, 1_200, 1_200)]);
    assert_eq!(log.skipped.requeued, 1);
    let (all, of_job) = (log.hours.log, log.hours.jobs[0]);
    assert!((all - 1.0).abs() < 1e-9 && (of_job - 2.0 / 3.0).abs() < 1e-9, "{:?}", log.hours);
    let each = of(lines, LogSettings { each_run: true, ..LogSettings::default() });
    let expected = [("6", 600), ("6#2", 1_200)];
    assert_eq!(jobs(&each), expected.map(|(name, run)| (name.to_owned(), 0, 1, run, run)));
    // Its last run has not ended: it ends with the log.
    let running = format!(
        "{lines}6|2026-03-01T00:04:00|2026-03-01T01:00:00|Unknown|1|1|RUNNING|2\n7|2026-03-01T00:04:00|2026-03-01T01:00:00|2026-03-01T01:00:01|1|1|COMPLETED|2\n"
    );
    let log = of(&running, LogSettings::default());
    let expected = [("6", 1, 60), ("7", 1, 60)];
    assert_eq!(jobs(&log), expected.map(|(name, run, limit)| (name.to_owned(), 0, 1, run, limit)));
    assert_eq!((log.skipped.not_ended, log.hours.unknown), (1, 0));
}

#[test]
fn lines_without_a_job_are_counted_or_named() {
    let log = of(
        "1|2026-03-01T00:00:00|2026-03-01T00:00:00|2026-03-01T01:00:00|60|1|COMPLETED|1\n\
         3_[1-5%2]|2026-03-01T00:02:00|Unknown|Unknown|Partition_Limit|1|PENDING|0\n\
         4_1|2026-03-01T00:03:00|2026-03-01T00:10:00|Unknown|60|1|RUNNING|1\n\
         8.batch|2026-03-01T00:04:00|2026-03-01T00:30:00|2026-03-01T00:50:00|10|1|COMPLETED|1\n\
         9|2026-10-25T02:30:00|2026-10-25T02:30:00|2026-10-25T02:10:00|10|1|COMPLETED|1\n\
         10|2026-10-25T02:30:00|2026-10-25T02:30:00|2026-10-25T02:40:00|NaN|1|COMPLETED|1\n",
        LogSettings::default(),
    );
    let Skipped { never_ran, not_ended, steps, wrong, .. } = log.skipped;
    assert_eq!((jobs(&log).len(), never_ran, not_ended, steps, wrong), (2, 5, 1, 1, 3));
    let causes: Vec<_> = log.skipped.problems.iter().map(|it| (it.line, &*it.cause)).collect();
    assert!(causes[0].0 == 6 && causes[0].1.contains("is before Start"), "{causes:?}");
    assert_eq!(causes[1], (7, "TimelimitRaw: \"NaN\" is not a number"));
    assert_eq!(causes[2], (5, "a step of job 8, which has no line of its own"));
    assert_eq!(log.hours.unknown, 3);
}

#[test]
fn job_without_an_end_ends_with_log_or_walltime() {
    let log = of(
        "1|2026-03-01T00:00:00|2026-03-01T00:00:00|2026-03-01T00:30:00|60|2|COMPLETED|2\n\
         2|2026-03-01T00:00:00|2026-03-01T00:10:00|Unknown|60|1|RUNNING|3\n\
         3|2026-03-01T00:00:00|2026-03-01T00:10:00|Unknown|5|1|RUNNING|1\n\
         4|2026-03-01T00:00:00|None|2026-03-01T00:20:00|5|1|CANCELLED|0\n",
        LogSettings::default(),
    );
    let runs: Vec<_> = jobs(&log).into_iter().map(|job| (job.0, job.3)).collect();
    assert_eq!(runs, [("1", 1800), ("2", 1200), ("3", 300)].map(|it| (it.0.to_owned(), it.1)));
    assert_eq!((log.skipped.not_ended, log.skipped.never_ran), (2, 1));
    assert_eq!(log.peak, crate::input::Peak { nodes: 4, processors: 6 });
    assert!((log.hours.log - (1.0 + 1.0 + 1.0 / 12.0)).abs() < 1e-9, "{:?}", log.hours);
}

#[test]
fn cores_and_memory_are_read_where_told() {
    let text = "\
JobID|Submit|Start|End|TimelimitRaw|NNodes|AllocCPUS|AllocTRES|ReqMem
1|2026-03-01T00:00:00|2026-03-01T00:00:00|2026-03-01T00:30:00|60|2|8|billing=8,cpu=8,mem=16G,node=2|4Gn
2|2026-03-01T00:00:00|2026-03-01T00:00:00|2026-03-01T00:30:00|60|2|8||4Gn
3|2026-03-01T00:00:00|2026-03-01T00:00:00|2026-03-01T00:30:00|60|1|1|cpu=1|
4+0|2026-03-01T00:00:00|2026-03-01T00:00:00|2026-03-01T00:30:00|60|1|2|mem=1G|
4+1|2026-03-01T00:00:00|2026-03-01T00:00:00|2026-03-01T00:30:00|60|1|4|mem=2G|
5|2026-03-01T00:00:00|2026-03-01T00:00:00|2026-03-01T00:30:00|60|1|?|mem=2G|
";
    let shares = |text: &str| -> Vec<Option<(u32, u32)>> {
        let log = read(text.as_bytes(), LogSettings::default()).unwrap();
        let jobs = log.workload.jobs.iter();
        jobs.map(|job| job.share.map(|share| (share.cores.get(), share.memory))).collect()
    };
    let expected = [Some((8, 16_384)), Some((8, 8_192)), Some((1, 0)), Some((6, 3_072)), None];
    assert_eq!(shares(text), expected);
    // Requested CPUs, if the log lacks allocated ones.
    assert_eq!(shares(&text.replace("AllocCPUS", "ReqCPUS")), expected);
    assert_eq!(shares(&text.replace("AllocCPUS", "Other")), [None; 5]);
}

#[test]
fn names_with_separators_and_line_breaks_lose_no_job() {
    let text = "\
JobID|JobName|Submit|Start|End|TimelimitRaw|NNodes|State|Comment
1|a|b|2026-03-01T00:00:00|2026-03-01T00:00:00|2026-03-01T01:00:00|60|1|COMPLETED|
2|x

y|z|2026-03-01T00:00:00|2026-03-01T00:00:00|2026-03-01T01:00:00|60|2|COMPLETED|
3|c|2026-03-01T00:00:00
4|d|2026-03-01T00:00:00|2026-03-01T00:00:00|2026-03-01T01:00:00|60|4|COMPLETED|first
second line
5|e|2026-03-01T00:00:00|2026-03-01T00:00:00|2026-03-01T01:00:00|60|5|COMPLETED|
";
    // The fields between two texts are uncertain if one of the texts has a separator.
    let between = read(text.as_bytes(), LogSettings::default()).unwrap();
    let found: Vec<u64> = between.skipped.problems.iter().map(|problem| problem.line).collect();
    assert_eq!(found, [2, 3, 6]);
    let last = text
        .replace("|Comment\n", "\n")
        .replace("COMPLETED|\n", "COMPLETED\n")
        .replace("|first\nsecond line", "");
    let log = read(last.as_bytes(), LogSettings::default()).unwrap();
    let names: Vec<_> = jobs(&log).into_iter().map(|job| (job.0, job.2)).collect();
    assert_eq!(names, [("1", 1), ("2", 2), ("4", 4), ("5", 5)].map(|it| (it.0.to_owned(), it.1)));
    assert_eq!(
        log.skipped.problems,
        [Problem { line: 6, cause: "3 fields, expected 8".to_owned() }]
    );
}

#[test]
fn zones_are_obeyed_and_a_mixture_is_told() {
    let zoned = "1|2026-03-01T00:00:00+0100|2026-03-01T00:00:00+0100|2026-02-28T23:30:00Z|60|1|COMPLETED|1\n";
    let log = of(zoned, LogSettings::default());
    assert_eq!((jobs(&log)[0].3, log.skipped.mixed_zones), (1_800, false));
    let local = "2|2026-03-01T00:00:00|2026-03-01T00:00:00|2026-03-01T01:00:00|60|1|COMPLETED|1\n";
    let log = of(&format!("{zoned}{local}"), LogSettings::default());
    assert!(log.skipped.mixed_zones);
    let first_wrong = LogSettings { wrong_lines: WrongLines::Fail, ..LogSettings::default() };
    let text = format!("JobID|Submit|Start|End|TimelimitRaw|NNodes|State\n{local}");
    assert!(read(text.as_bytes(), first_wrong).is_err());
}

#[test]
fn same_number_on_two_clusters_is_two_jobs() {
    let text = "\
Cluster|JobID|Submit|Start|End|TimelimitRaw|NNodes
a|1|2026-03-01T00:00:00|2026-03-01T00:00:00|2026-03-01T01:00:00|60|1
b|1|2026-03-01T00:00:00|2026-03-01T00:00:00|2026-03-01T01:00:00|60|1
";
    let log = read(text.as_bytes(), LogSettings::default()).unwrap();
    let names: Vec<_> = jobs(&log).into_iter().map(|job| job.0).collect();
    assert_eq!(
        (names.as_slice(), log.skipped.requeued),
        (&["a:1".to_owned(), "b:1".to_owned()][..], 0)
    );
    assert_eq!(log.hours.unit, "node");
}
