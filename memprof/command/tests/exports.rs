//! Export, comparison and sweep of generated jobs, read back by independent means.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod protobuf;

use memprof_trace::generate::{self, JobShape};
use memprof_trace::layout::sample;
use memprof_trace::read::Trace;
use protobuf::{fields, inner, number};
use quo_tests::suite::skip;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memprof"));
    command.env("NO_COLOR", "1").args(arguments).output().expect("memprof runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Returns the output of a command that succeeds.
fn said(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Returns the error of a command that fails with that status.
fn refused(arguments: &[&str], status: i32) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stderr)
}

fn made(place: &Path, name: &str, shape: &JobShape) -> PathBuf {
    let folder = place.join(name);
    let shape = JobShape { samples: 120, file_size: 1 << 20, ..shape.clone() };
    generate::job(&folder, &shape, &mut |_, _| {}).expect("a job");
    folder
}

fn job(place: &Path, name: &str, ranks: u32) -> PathBuf {
    made(place, name, &JobShape { ranks, nodes: 2, ..JobShape::default() })
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn csv_holds_every_whole_sample_and_earlier_bins() {
    let place = tempfile::tempdir().unwrap();
    let folder = job(place.path(), "job", 3);
    let csv = said(&["export", path(&folder), "--format", "csv"]);
    assert_eq!(said(&["export", path(&folder)]), csv, "another form without --format");
    let mut lines = csv.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = |name: &str| head.iter().position(|known| *known == name).unwrap();
    let (rank, time, kind) = (column("rank"), column("time_s"), column("kind"));
    let (component, resident) = (column("component"), column("resident"));
    let mut sums: BTreeMap<(String, String, String), u64> = BTreeMap::new();
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), head.len(), "{line}");
        assert!(!fields[component].is_empty());
        let key = (fields[rank].into(), fields[kind].into(), fields[time].into());
        *sums.entry(key).or_default() += fields[resident].parse::<u64>().unwrap();
    }
    for file in fs::read_dir(&folder).unwrap() {
        let trace = Trace::open(file.unwrap().path()).unwrap();
        let rank = trace.identity.rank.to_string();
        let whole: Vec<u64> = trace
            .history
            .samples()
            .filter(|(head, _)| head.flags & sample::FULL != 0)
            .map(|(_, rows)| rows.iter().map(|row| row.resident).sum())
            .collect();
        let found: Vec<u64> = sums
            .iter()
            .filter(|((of, kind, _), _)| *of == rank && kind == "sample")
            .map(|(_, sum)| *sum)
            .collect();
        assert!(!whole.is_empty());
        for sum in &whole {
            assert!(found.contains(sum), "rank {rank}: {sum}");
        }
    }
}

fn json_columns_have_as_many_values_as_times() {
    let place = tempfile::tempdir().unwrap();
    let folder = job(place.path(), "job", 2);
    let json = said(&["export", path(&folder), "--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(document["memprof_export"], 1);
    let ranks = document["ranks"].as_array().unwrap();
    assert_eq!(ranks.len(), 2);
    for (number, rank) in ranks.iter().enumerate() {
        assert_eq!(rank["rank"], number);
        let times = rank["time_ns"].as_array().unwrap();
        assert!(times.windows(2).all(|pair| pair[0].as_u64() <= pair[1].as_u64()));
        for column in ["kind", "total", "kernel"] {
            assert_eq!(rank[column].as_array().unwrap().len(), times.len(), "{column}");
        }
        let series = rank["series"].as_array().unwrap();
        assert!(series.len() > 5);
        for one in series {
            for column in
                ["owned", "resident", "resident_low", "resident_high", "shared", "swapped"]
            {
                assert_eq!(one[column].as_array().unwrap().len(), times.len(), "{column}");
            }
        }
    }
}

fn perfetto_events_are_ordered_on_existing_tracks_with_balanced_slices() {
    let place = tempfile::tempdir().unwrap();
    let folder = job(place.path(), "job", 2);
    let file = place.path().join("trace.pftrace");
    said(&["export", path(&folder), "--format", "perfetto", "-o", path(&file)]);
    let bytes = fs::read(&file).unwrap();
    let (mut names, mut last, mut open): (
        BTreeMap<u64, String>,
        BTreeMap<u64, u64>,
        BTreeMap<u64, i32>,
    ) = Default::default();
    let mut counted = 0;
    for (field, _, packet) in fields(&bytes) {
        assert_eq!(field, 1);
        if let Some(track) = inner(packet, 60) {
            let name = inner(track, 2).or(inner(track, 3).and_then(|process| inner(process, 6)));
            if let Some(parent) = number(track, 5) {
                assert!(names.contains_key(&parent));
            }
            names.insert(number(track, 1).unwrap(), text(name.unwrap()));
            continue;
        }
        let event = inner(packet, 11).expect("a track or an event");
        let (track, time) = (number(event, 11).unwrap(), number(packet, 8).unwrap());
        assert!(names.contains_key(&track));
        assert!(last.insert(track, time).is_none_or(|before| before <= time));
        match number(event, 9).unwrap() {
            1 => *open.entry(track).or_default() += 1,
            2 => *open.entry(track).or_default() -= 1,
            4 => {
                assert!(number(event, 30).is_some());
                counted += 1;
            }
            other => panic!("event of type {other}"),
        }
    }
    assert!(counted > 100);
    assert!(open.values().all(|open| *open == 0));
    for wanted in [
        "rank 0 ",
        "rank 1 ",
        "phases",
        "resident mpi.shm",
        "owned app.exe",
        "resident, all components",
    ] {
        assert!(names.values().any(|name| name.starts_with(wanted)), "{wanted}");
    }
}

/// References by numbers in a profile, as `go tool pprof` reads it.
fn pprof_profile_has_every_stack_with_allocated_and_live_bytes() {
    let place = tempfile::tempdir().unwrap();
    let folder = job(place.path(), "job", 2);
    let file = place.path().join("stacks.pb.gz");
    said(&["export", path(&folder), "--format", "pprof", "-o", path(&file)]);
    let mut bytes = Vec::new();
    let packed = fs::File::open(&file).unwrap();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(packed), &mut bytes).unwrap();
    let all = fields(&bytes);
    let of = |field: u64| all.iter().filter(move |found| found.0 == field).map(|found| found.2);
    let strings: Vec<String> = of(6).map(text).collect();
    assert_eq!(strings[0], "");
    let string = |number: u64| strings[number as usize].as_str();
    let kinds: Vec<(&str, &str)> = of(1)
        .map(|kind| (string(number(kind, 1).unwrap()), string(number(kind, 2).unwrap())))
        .collect();
    let bytes_of = |name| (name, "bytes");
    assert_eq!(kinds, ["alloc_space", "inuse_space", "peak_space"].map(bytes_of));
    assert_eq!(string(number(&bytes, 14).unwrap()), "peak_space");
    let mappings: Vec<u64> = of(3).map(|mapping| number(mapping, 1).unwrap()).collect();
    let locations: BTreeMap<u64, u64> = of(4)
        .map(|location| (number(location, 1).unwrap(), number(location, 2).unwrap()))
        .collect();
    assert!(locations.values().all(|mapping| mappings.contains(mapping)));
    let mut sums = [0; 3];
    let mut labels = std::collections::BTreeSet::new();
    for sample in of(2) {
        let parts = fields(sample);
        let stack: Vec<u64> = parts.iter().filter(|part| part.0 == 1).map(|part| part.1).collect();
        assert_eq!(stack.len(), 3);
        assert!(stack.iter().all(|location| locations.contains_key(location)));
        let values = parts.iter().filter(|part| part.0 == 2).map(|part| part.1);
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        for label in parts.iter().filter(|part| part.0 == 3).map(|part| part.2) {
            let key = string(number(label, 1).unwrap());
            // Readers take a label of the number 0 for no label.
            labels.insert((key, string(number(label, 2).unwrap())));
        }
    }
    let report = said(&["report", path(&folder), "--json"]);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let sites = report["sites"]["sites"].as_array().unwrap();
    let sum = |field: &str| sites.iter().map(|site| site[field].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sums, [sum("total"), sum("live"), sum("at_peak")]);
    assert!(sums[2] > 0 && labels.contains(&("rank", "0")) && labels.contains(&("rank", "1")));
    assert!(labels.iter().any(|(key, value)| *key == "component" && value.starts_with("mpi.")));
}

fn ms_print_draws_the_massif_file() {
    let place = tempfile::tempdir().unwrap();
    let folder = job(place.path(), "job", 2);
    let file = place.path().join("massif.out");
    said(&["export", path(&folder), "--format", "massif", "--rank", "1", "-o", path(&file)]);
    let content = fs::read_to_string(&file).unwrap();
    assert_eq!(content.matches("heap_tree=peak").count(), 1);
    assert!(content.matches("snapshot=").count() <= 100);
    let Ok(output) = Command::new("ms_print").arg(&file).output() else {
        skip("there is no ms_print");
    };
    let drawn = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for wanted in ["(peak)", "rank 1", "application (group)", "mpi.shm (component)"] {
        assert!(drawn.contains(wanted), "{wanted} in {drawn}");
    }
}

fn a_rank_named_twice_is_exported_once() {
    let place = tempfile::tempdir().unwrap();
    let folder = job(place.path(), "job", 2);
    let once = said(&["export", path(&folder), "--format", "csv", "--rank", "1"]);
    assert_eq!(said(&["export", path(&folder), "--format", "csv", "--rank", "1,1"]), once);
}

fn wrong_exports_are_refused_and_leave_nothing_behind() {
    let place = tempfile::tempdir().unwrap();
    let folder = job(place.path(), "job", 2);
    let nowhere = place.path().join("no/such/file");
    for (arguments, status, wanted) in [
        (vec!["export"], 2, "<DIR>"),
        (vec!["export", path(&folder), "--format", "excel"], 2, "excel"),
        (vec!["export", path(&folder), "--format", "csv", "--rank", "7"], 1, "no trace of rank 7"),
        (vec!["export", path(&folder), "--format", "massif", "--rank", "0,1"], 1, "one process"),
        (vec!["export", path(place.path()), "--format", "csv"], 1, "no traces"),
        (vec!["export", "/nonexistent", "--format", "csv"], 1, "/nonexistent"),
        (vec!["export", path(&folder), "--format", "csv", "-o", path(&nowhere)], 1, "cannot write"),
        (
            vec!["export", path(&folder), "--format", "csv", "-o", path(place.path())],
            1,
            "is a folder",
        ),
    ] {
        let error = refused(&arguments, status);
        assert!(error.contains(wanted), "{arguments:?}: {error}");
    }
    let left: Vec<_> =
        fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["job"]);
}

fn a_job_does_not_differ_from_itself() {
    let place = tempfile::tempdir().unwrap();
    let folder = job(place.path(), "job", 4);
    let table = said(&["diff", path(&folder), path(&folder), "--fail-above", "0"]);
    assert!(table.contains("largest rank") && table.contains('='), "{table}");
    let json = said(&[
        "diff",
        path(&folder),
        path(&folder),
        "--json",
        "--fail-above",
        "0",
        "--least",
        "0",
    ]);
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(document["verdict"]["grown"].as_array().unwrap().len(), 0);
    for component in document["components"].as_array().unwrap() {
        assert_eq!(component["resident_max"]["before"], component["resident_max"]["after"]);
    }
}

fn growth_above_the_limit_fails_and_names_what_grew() {
    let place = tempfile::tempdir().unwrap();
    // The problem is divided: fewer ranks hold more each.
    let (small, large) = (job(place.path(), "small", 8), job(place.path(), "large", 2));
    let error = refused(&["diff", path(&small), path(&large), "--fail-above", "5"], 1);
    assert!(error.contains("mpi.shm") && error.contains("grew by"), "{error}");
    let table = said(&["diff", path(&small), path(&large)]);
    assert!(table.contains("The numbers of ranks differ"), "{table}");
    said(&["diff", path(&large), path(&small), "--fail-above", "5", "--least", "2G"]);
    for wrong in [vec!["--fail-above", "much"], vec!["--fail-above", "-3"], vec!["--least", "x"]] {
        let mut arguments = vec!["diff", path(&small), path(&large)];
        arguments.extend(wrong);
        refused(&arguments, 2);
    }
    assert!(refused(&["diff", path(&small), "/nonexistent"], 1).contains("/nonexistent"));
}

fn job_with_missing_traces_does_not_pass_for_unchanged() {
    let place = tempfile::tempdir().unwrap();
    let (before, after) = (job(place.path(), "before", 4), job(place.path(), "after", 4));
    let files: Vec<PathBuf> =
        fs::read_dir(&after).unwrap().map(|entry| entry.unwrap().path()).collect();
    fs::remove_file(&files[0]).unwrap();
    let error = refused(&["diff", path(&before), path(&after), "--fail-above", "5"], 1);
    assert!(error.contains("1 rank left no trace") && error.contains("the job after"), "{error}");
    said(&["diff", path(&before), path(&after)]);

    let other = job(place.path(), "other", 4);
    for file in fs::read_dir(&other).unwrap() {
        let file = file.unwrap().path();
        let content = fs::read(&file).unwrap();
        fs::write(&file, &content[..content.len() / 4]).unwrap();
    }
    let arguments = ["diff", path(&other), path(&before), "--fail-above", "500", "--json"];
    let output = run(&arguments);
    assert_eq!(output.status.code(), Some(1));
    let document: serde_json::Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!(document["verdict"]["incomplete"], serde_json::json!(["before"]));
}

fn sweep_over_jobs_finds_shared_and_constant_parts() {
    let place = tempfile::tempdir().unwrap();
    let folders: Vec<PathBuf> =
        [2, 4, 8, 16].map(|ranks| job(place.path(), &format!("n{ranks}"), ranks)).to_vec();
    let study = place.path().join("study");
    let mut arguments = vec!["sweep", "-o", path(&study), "--at", "64", "--json", "--from"];
    arguments.extend(folders.iter().map(|folder| path(folder)));
    let document: serde_json::Value = serde_json::from_str(&said(&arguments)).unwrap();
    assert_eq!(document["counts"], serde_json::json!([2, 4, 8, 16]));
    let law = |name: &str| {
        let growths = document["growths"].as_array().unwrap();
        let found =
            growths.iter().find(|growth| growth["name"].as_str().unwrap().starts_with(name));
        found.unwrap()["fit"]["law"].clone()
    };
    assert_eq!(law("app.exe"), "divided");
    assert_eq!(law("tool"), "constant");
    assert!(
        document["predictions"].as_array().unwrap().iter().all(|one| one["extrapolated"] == true)
    );
    let table = fs::read_to_string(study.join("sweep.txt")).unwrap();
    assert!(table.contains("outside of what was measured (2 to 16 ranks)"), "{table}");
    let saved = fs::read_to_string(study.join("sweep.json")).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&saved).unwrap(), document);
    assert!(fs::read_to_string(study.join("sweep.svg")).unwrap().starts_with("<svg"));
}

fn wrong_sweeps_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let folder = job(place.path(), "job", 2);
    let out = place.path().join("out");
    for (arguments, status, wanted) in [
        (vec!["sweep"], 2, "required"),
        (vec!["sweep", "-n", "0", "-o", path(&out), "--", "x"], 2, "0"),
        (vec!["sweep", "-n", "1,two", "-o", path(&out), "--", "x"], 2, "two"),
        (vec!["sweep", "-n", "1", "--", "x"], 2, "--output"),
        (vec!["sweep", "-n", "1", "--from", path(&folder)], 2, "--from"),
        (vec!["sweep", "--from", "/nonexistent"], 1, "/nonexistent"),
    ] {
        let error = refused(&arguments, status);
        assert!(error.contains(wanted), "{arguments:?}: {error}");
    }
}

/// Truncates traces to the header and a few rows.
fn cut(folder: &Path, which: impl Fn(usize) -> bool) {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).expect("a job").flatten().map(|entry| entry.path()).collect();
    files.sort();
    for (_, file) in files.iter().enumerate().filter(|(at, _)| which(*at)) {
        let file = fs::File::options().write(true).open(file).expect("a trace");
        file.set_len(9000).expect("a shorter trace");
    }
}

fn what_is_left_of_damaged_traces_is_no_measurement() {
    let place = tempfile::tempdir().unwrap();
    let folders: Vec<PathBuf> =
        [2, 4, 8].map(|ranks| job(place.path(), &format!("n{ranks}"), ranks)).to_vec();
    let sweep = || {
        let mut arguments = vec!["sweep", "--json", "--from"];
        arguments.extend(folders.iter().map(|folder| path(folder)));
        arguments
    };
    let points = |said: &str| {
        let document: serde_json::Value = serde_json::from_str(said).unwrap();
        assert_eq!(document["counts"], serde_json::json!([2, 4, 8]));
        let points = document["rank"]["points"].as_array().unwrap().clone();
        let bytes: Vec<f64> = points.iter().map(|at| at["bytes"].as_f64().unwrap()).collect();
        (bytes, document["notes"].to_string())
    };
    let (whole, notes) = points(&said(&sweep()));
    assert_eq!(notes, "[]");
    cut(&folders[1], |at| at == 0);
    let (left, notes) = points(&said(&sweep()));
    // Ranks of a generated job differ by a few per cent.
    assert!((left[1] / whole[1] - 1.0).abs() < 0.1, "{left:?} {whole:?}");
    assert!(notes.contains("1 trace damaged") && notes.contains("9000 of"), "{notes}");
    cut(&folders[1], |_| true);
    let error = refused(&sweep(), 1);
    assert!(error.contains(path(&folders[1])) && error.contains("9000 of"), "{error}");
    assert_eq!(error.matches(path(&folders[1])).count(), 1, "{error}");

    let of = path(&folders[1]);
    for arguments in
        [vec!["live", "--once", of], vec!["report", of], vec!["export", of, "--format", "csv"]]
    {
        let output = run(&arguments);
        assert!(output.status.success(), "{arguments:?}");
        let told = text(&output.stdout) + &text(&output.stderr);
        assert!(told.contains("4 traces damaged; rank 0: 9000 of"), "{arguments:?}: {told}");
        assert!(!told.contains("to the page"), "{told}");
    }
}

fn a_sweep_does_not_mix_jobs_of_different_commands() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    fs::create_dir(&out).unwrap();
    let journal = r#"{"memprof_sweep_runs":1,"mpirun":"mpirun","command":["./other"],"done":[]}"#;
    fs::write(out.join("runs.json"), journal).unwrap();
    let error = refused(&["sweep", "-n", "1", "-o", path(&out), "--", "./app"], 1);
    assert!(error.contains("another command") && error.contains("./other"), "{error}");
    fs::write(out.join("runs.json"), journal.replace("./other", "./app")).unwrap();
    let made = job(&out, "ranks-1", 1);
    let error = refused(&["sweep", "-n", "1", "-o", path(&out), "--", "./app"], 1);
    assert!(error.contains("is not of this sweep"), "{error}");
    assert_eq!(fs::read_dir(&made).unwrap().count(), 1);
    fs::write(out.join("runs.json"), "no journal").unwrap();
    let error = refused(&["sweep", "-n", "1", "-o", path(&out), "--", "./app"], 1);
    assert!(error.contains("runs.json"), "{error}");
}

quo_tests::suite! {
    csv_holds_every_whole_sample_and_earlier_bins
    json_columns_have_as_many_values_as_times
    perfetto_events_are_ordered_on_existing_tracks_with_balanced_slices
    pprof_profile_has_every_stack_with_allocated_and_live_bytes
    ms_print_draws_the_massif_file
    a_rank_named_twice_is_exported_once
    wrong_exports_are_refused_and_leave_nothing_behind
    a_job_does_not_differ_from_itself
    growth_above_the_limit_fails_and_names_what_grew
    job_with_missing_traces_does_not_pass_for_unchanged
    sweep_over_jobs_finds_shared_and_constant_parts
    wrong_sweeps_are_refused
    what_is_left_of_damaged_traces_is_no_measurement
    a_sweep_does_not_mix_jobs_of_different_commands
}
