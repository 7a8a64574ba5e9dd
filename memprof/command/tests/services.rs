//! A service that runs for a month, in simulated time: its trace keeps its size, and the resolution
//! of the distant past coarsens.

use memprof::model::Job;
use memprof_trace::Text;
use memprof_trace::layout::{Class, ComponentRow, Geometry, Identity, PhaseRow, sample};
use memprof_trace::read::Trace;
use memprof_trace::write::{Buffer, ComponentSample, SampleHead, Writer};
use std::fs;
use std::process::Command;

const SIZE: usize = Geometry::DEFAULT_FILE;
const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3600 * SECOND;
const DAY: u64 = 24 * HOUR;
const MIB: u64 = 1 << 20;
/// Time between two samples for which something has changed.
const STEP: u64 = 60 * SECOND;
/// One request of the third day is large.
const LARGE: u64 = 3 * DAY + 7 * HOUR;

/// Returns the memory of a service that keeps 1 MiB more each day, and works on a request from time
/// to time.
fn held(time: u64) -> u64 {
    match (time, time / STEP % 10) {
        (LARGE, _) => 900 * MIB,
        (_, 0) => 50 * MIB + time / DAY * MIB,
        _ => 40 * MIB + time / DAY * MIB,
    }
}

fn step(writer: &mut Writer<'_>, time: u64) {
    // Requests are phases: far more than there is room for.
    writer.phase_edge(time, 0, true);
    let resident = held(time);
    let row = ComponentSample { component: 0, resident, owned: resident, ..Default::default() };
    let head =
        SampleHead { time, flags: sample::FULL, kernel_resident: resident, walked: resident };
    writer.sample(&head, &[row]);
    writer.phase_edge(time + STEP / 2, 0, false);
}

/// Checks what is known at this time of all time before.
fn check(bytes: &[u8], now: u64) {
    let trace = Trace::from_bytes(bytes).expect("a trace");
    assert_eq!((bytes.len(), &trace.faults[..]), (SIZE, &[][..]));
    let bins = &trace.timeline;
    // Once half of all bins are used, they fold: a day has as many as a month.
    assert!((128..=256).contains(&bins.len()), "{} bins after {} h", bins.len(), now / HOUR);
    assert!(bins.iter().all(|bin| bin.width <= now / 64), "{} ns wide", bins[0].width);
    assert_eq!(bins[0].start, 0);
    assert!(bins.windows(2).all(|pair| pair[0].end() == pair[1].start), "there are gaps");
    assert!(bins.last().is_some_and(|bin| (bin.start..bin.end()).contains(&now)));
    for bin in bins {
        let times =
            (bin.start.div_ceil(STEP)..bin.end().min(now + 1).div_ceil(STEP)).map(|n| n * STEP);
        let most = times.map(held).max();
        // A bin begins with the state before it.
        let before = held(bin.start.saturating_sub(1) / STEP * STEP);
        let most = most.map_or(before, |most| most.max(before));
        assert_eq!(
            u64::from(bin.cell(0).resident_max) * 1024,
            most,
            "from {} s",
            bin.start / SECOND
        );
    }
    // The last period has every sample.
    let recent: Vec<u64> = trace.history.samples().map(|(sample, _)| sample.time).collect();
    assert!(recent.len() > 1000 && recent.last() == Some(&now), "{} samples", recent.len());
    assert!(recent.windows(2).all(|pair| pair[1] - pair[0] == STEP));
}

/// Returns the trace of a run of this length.
fn run(length: u64) -> Buffer {
    let mut memory = Buffer::new(SIZE);
    let geometry = Geometry::for_file(SIZE).expect("it fits");
    let identity = Identity {
        pid: 4711,
        rank: -1,
        program: Text::new("/srv/service"),
        host: Text::new("node"),
        ..Identity::default()
    };
    let mut writer = Writer::create(memory.bytes_mut(), &identity, &geometry).expect("a trace");
    let class = Class::AppExecutable as u8;
    writer.set_component(
        0,
        &ComponentRow { class, name: Text::new("service"), ..Default::default() },
    );
    writer.set_phase(0, 0, &PhaseRow { name: Text::new("request"), ..Default::default() });
    for time in (0..=length).step_by(usize::try_from(STEP).expect("it fits")) {
        step(&mut writer, time);
    }
    writer.close(length + STEP / 2);
    memory
}

#[test]
fn timeline_of_a_month_is_bounded_without_gaps() {
    for days in [1, 7, 30] {
        check(run(days * DAY).bytes(), days * DAY);
    }
}

#[test]
fn peak_of_day_three_is_in_the_months_report() {
    let place = tempfile::tempdir().expect("a folder");
    fs::write(place.path().join("service.memprof"), run(30 * DAY).bytes()).expect("written");
    let job = Job::load(place.path(), None, &mut |_, _| {}).expect("a job");
    let timeline = &job.timeline;
    let high = &timeline.series[0].high;
    let width = timeline.bin_ns;
    assert!(width < 6 * HOUR, "{width} ns wide");
    // A bin of the trace may extend over two or three of the report.
    let bin = ((LARGE - timeline.start_ns) / width) as usize;
    assert_eq!((high[bin], high.iter().max()), (900 * MIB, Some(&(900 * MIB))));
    assert!(high.iter().filter(|bytes| **bytes == 900 * MIB).count() <= 3, "{high:?}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_memprof"));
    let output = command.arg("report").arg(place.path()).output().expect("memprof runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("service  1 process on 1 node, 30 d 00 h"), "{text}");
}
