//! All export formats contain the same as the traces: memory by process and time, owned and
//! resident.

mod protobuf;

use memprof_trace::generate::{self, JobShape};
use memprof_trace::layout::sample;
use memprof_trace::read::Trace;
use protobuf::{fields, inner, number};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Memory of a component, owned and resident.
type Held = BTreeMap<String, (u64, u64)>;
/// Data of ranks by nanoseconds since the job began; only components that hold memory.
type Job = BTreeMap<(u64, u64), Held>;

fn said(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memprof"));
    let output = command.env("NO_COLOR", "1").args(arguments).output().expect("memprof runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Generates ranks that began at different times; of long ones, only bins remain of the beginning.
fn made(place: &Path, samples: u32) -> PathBuf {
    let folder = place.join(format!("job-{samples}"));
    let shape =
        JobShape { ranks: 3, nodes: 2, samples, file_size: 512 << 10, ..JobShape::default() };
    generate::job(&folder, &shape, &mut |_, _| {}).expect("a job");
    folder
}

fn exported(folder: &Path, form: &str) -> PathBuf {
    let file = folder.with_extension(form);
    let (from, to) = (folder.to_str().expect("UTF-8"), file.to_str().expect("UTF-8"));
    said(&["export", from, "--format", form, "-o", to]);
    file
}

fn hold(job: &mut Job, rank: u64, time: u64, component: &str, owned: u64, resident: u64) {
    let held = job.entry((rank, time)).or_default();
    if owned > 0 || resident > 0 {
        let before = held.insert(component.to_owned(), (owned, resident));
        assert_eq!(before, None, "{component} twice at {time} of rank {rank}");
    }
}

/// Returns the nanoseconds of `12.345678901`.
fn nanoseconds(seconds: &str) -> u64 {
    let (whole, part) = seconds.split_once('.').expect("a fraction");
    assert_eq!(part.len(), 9, "{seconds}");
    whole.parse::<u64>().expect("seconds") * 1_000_000_000 + part.parse::<u64>().expect("digits")
}

fn of_csv(folder: &Path) -> Job {
    let csv = fs::read_to_string(exported(folder, "csv")).expect("values");
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().expect("a head");
    let at = |name: &str| head.iter().position(|known| *known == name).expect("the column");
    let (rank, time, component) = (at("rank"), at("time_s"), at("component"));
    let (owned, resident) = (at("owned"), at("resident"));
    let mut job = Job::new();
    for line in lines {
        let number = |column: usize| line[column].parse().expect("a number");
        let time = nanoseconds(line[time]);
        hold(&mut job, number(rank), time, line[component], number(owned), number(resident));
    }
    job
}

fn of_json(folder: &Path) -> Job {
    let json = fs::read(exported(folder, "json")).expect("values");
    let document: Value = serde_json::from_slice(&json).expect("JSON");
    let mut job = Job::new();
    for rank in document["ranks"].as_array().expect("ranks") {
        let number = rank["rank"].as_u64().expect("a number");
        for (at, time) in rank["time_ns"].as_array().expect("times").iter().enumerate() {
            for series in rank["series"].as_array().expect("series") {
                let name = series["name"].as_str().expect("a name");
                let bytes = |column: &str| series[column][at].as_u64().expect("bytes");
                let time = time.as_u64().expect("a time");
                hold(&mut job, number, time, name, bytes("owned"), bytes("resident"));
            }
        }
    }
    job
}

/// A counter keeps its value until the next; the times of a rank are those of its total.
fn of_perfetto(folder: &Path) -> Job {
    let bytes = fs::read(exported(folder, "perfetto")).expect("values");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    let mut ranks: BTreeMap<u64, u64> = BTreeMap::new();
    let mut tracks: BTreeMap<u64, (u64, String)> = BTreeMap::new();
    let mut values: BTreeMap<u64, BTreeMap<u64, u64>> = BTreeMap::new();
    for (_, _, packet) in fields(&bytes) {
        if let Some(track) = inner(packet, 60) {
            let id = number(track, 1).expect("an identity");
            if let Some(process) = inner(track, 3) {
                let name = text(inner(process, 6).expect("a name"));
                let rank = name.strip_prefix("rank ").and_then(|rest| rest.split(' ').next());
                ranks.insert(id, rank.expect("a rank").parse().expect("a number"));
            } else if inner(track, 8).is_some() {
                let rank = ranks[&number(track, 5).expect("a process")];
                tracks.insert(id, (rank, text(inner(track, 2).expect("a name"))));
            }
            continue;
        }
        let event = inner(packet, 11).expect("an event");
        if number(event, 9) == Some(4) {
            let track = values.entry(number(event, 11).expect("a track")).or_default();
            track.insert(number(packet, 8).expect("a time"), number(event, 30).expect("a value"));
        }
    }
    let mut job = Job::new();
    for (sum, (rank, _)) in tracks.iter().filter(|(_, of)| of.1 == "resident, all components") {
        for &time in values[sum].keys() {
            let mut held = Held::new();
            for (track, (_, name)) in tracks.iter().filter(|(_, of)| of.0 == *rank) {
                let value = values[track].range(..=time).next_back().map_or(0, |last| *last.1);
                if let Some(component) = name.strip_prefix("owned ") {
                    held.entry(component.to_owned()).or_default().0 = value;
                } else if let Some(component) = name.strip_prefix("resident ") {
                    held.entry(component.to_owned()).or_default().1 = value;
                }
            }
            for (component, (owned, resident)) in held {
                hold(&mut job, *rank, time, &component, owned, resident);
            }
        }
    }
    job
}

fn traces(folder: &Path) -> Vec<Trace> {
    let files = fs::read_dir(folder).expect("a job").map(|entry| entry.expect("a file").path());
    files.map(|file| Trace::open(file).expect("a trace")).collect()
}

/// Returns the figures of the traces themselves. Bins have the times that the export gives them,
/// which must be within the bins.
fn of_traces(folder: &Path, times: &Job) -> Job {
    let traces = traces(folder);
    let begun = traces.iter().map(|trace| trace.identity.realtime_ns).min().expect("a trace");
    let mut job = Job::new();
    for trace in &traces {
        let rank = u64::try_from(trace.identity.rank).expect("a rank");
        let offset = trace.identity.realtime_ns - begun;
        let full: Vec<_> =
            trace.history.samples().filter(|(head, _)| head.flags & sample::FULL != 0).collect();
        let first = full[0].0.time + offset;
        for (head, rows) in full {
            for row in rows {
                let name = trace.component_name(row.component.into());
                hold(&mut job, rank, head.time + offset, &name, row.owned, row.resident);
            }
        }
        let before = times.range((rank, 0)..(rank, first)).map(|((_, time), _)| *time);
        for (time, bin) in before.zip(trace.timeline.iter().filter(|bin| bin.is_known())) {
            let (from, to) = bin.seen();
            assert!((from + offset..=to + offset).contains(&time), "{time}: {from} to {to}");
            for component in 0..trace.columns() {
                let (cell, name) = (bin.cell(component), trace.component_name(component));
                let (owned, resident) = (cell.owned_max, cell.resident_mean);
                hold(
                    &mut job,
                    rank,
                    time,
                    &name,
                    u64::from(owned) << 10,
                    u64::from(resident) << 10,
                );
            }
        }
    }
    job
}

fn compare(one: &Job, other: &Job, which: &str) {
    let times = |job: &Job| job.keys().copied().collect::<Vec<_>>();
    assert_eq!(times(one), times(other), "times of {which}");
    for ((place, held), (_, found)) in one.iter().zip(other) {
        assert_eq!(held, found, "{which}, rank and time {place:?}");
    }
}

#[test]
fn every_form_agrees_with_the_traces_by_rank_time_component() {
    let place = tempfile::tempdir().expect("a folder");
    for (samples, lost) in [(60, false), (900, true)] {
        let folder = made(place.path(), samples);
        let csv = of_csv(&folder);
        // The contents distinguish both: different values of different components, of all ranks.
        assert!(csv.len() > 3 * 50 && csv.values().all(|held| held.len() > 4));
        assert!(csv.values().flat_map(BTreeMap::values).any(|(owned, resident)| owned != resident));
        let written = fs::read_to_string(folder.with_extension("csv")).expect("values");
        assert_eq!(written.contains(",bin,"), lost, "{samples} samples");
        compare(&csv, &of_traces(&folder, &csv), "traces");
        compare(&csv, &of_json(&folder), "json");
        compare(&csv, &of_perfetto(&folder), "perfetto");
    }
}

/// Holds even if the samples of that time are gone.
#[test]
fn massif_peak_is_the_reports_peak() {
    let place = tempfile::tempdir().expect("a folder");
    for samples in [60, 900] {
        let folder = made(place.path(), samples);
        let path = folder.to_str().expect("UTF-8");
        for rank in ["0", "1", "2"] {
            let report = said(&["report", path, "--rank", rank, "--json"]);
            let report: Value = serde_json::from_str(&report).expect("JSON");
            let massif = said(&["export", path, "--format", "massif", "--rank", rank]);
            let snapshots: Vec<&str> = massif.split("snapshot=").skip(1).collect();
            assert!(snapshots.len() <= 100);
            let value = |snapshot: &str, name: &str| -> u64 {
                let line = snapshot.lines().find_map(|line| line.strip_prefix(name));
                line.and_then(|line| line.strip_prefix('='))
                    .expect("a line")
                    .parse()
                    .expect("a number")
            };
            let total =
                |snapshot: &&str| value(snapshot, "mem_heap_B") + value(snapshot, "mem_stacks_B");
            let times = snapshots.iter().map(|snapshot| value(snapshot, "time"));
            assert!(times.is_sorted());
            let peak = snapshots.iter().find(|snapshot| snapshot.contains("heap_tree=peak"));
            let peak = peak.expect("a peak");
            assert_eq!(Some(total(peak)), snapshots.iter().map(total).max(), "rank {rank}");
            assert_eq!(Some(total(peak)), report["peak"]["bytes"].as_u64(), "rank {rank}");
            let at = report["peak"]["time_ns"].as_u64().expect("a time")
                + report["offset_ns"].as_u64().expect("a time");
            assert_eq!(value(peak, "time"), at / 1_000_000, "rank {rank}");
            let held = report["held"].as_array().expect("components");
            for held in held.iter().filter(|held| held["group"] != "stack") {
                let bytes = held["resident_at_peak"].as_u64().expect("bytes");
                let name = held["name"].as_str().expect("a name");
                let line = format!("  n0: {bytes} 0x0: {name} (component)\n");
                assert_eq!(peak.contains(&line), bytes > 0, "{line} in {peak}");
            }
        }
    }
}
