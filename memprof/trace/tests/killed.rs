//! A real process writes a real file, others read it at the same time, and the writer is killed at
//! a random moment.
#![allow(unsafe_code)] // Maps a file, as ranks do.
#![allow(clippy::unwrap_used)] // The lint knows tests, not their helpers.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use memprof_trace::layout::{
    BIN_SHIFT, Geometry, Identity, SegmentRow, SummaryHead, SummaryRow, sample,
};
use memprof_trace::read::Trace;
use memprof_trace::write::{ComponentSample, SampleHead, Writer};

const FILE: &str = "MEMPROF_TRACE_TEST_FILE";
const SIZE: usize = Geometry::SMALLEST_FILE;
const KILLS: u64 = 40;

/// Writes a trace until the process is killed.
fn write_until_killed(path: &OsStr) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    // SAFETY: a new mapping of a file that is never truncated, and that only this process writes.
    let memory = unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let null = std::ptr::null_mut();
        let at = libc::mmap(null, SIZE, protection, libc::MAP_SHARED, file.as_raw_fd(), 0);
        assert_ne!(at, libc::MAP_FAILED);
        std::slice::from_raw_parts_mut(at.cast::<u8>(), SIZE)
    };
    let geometry = Geometry::for_file(SIZE).unwrap();
    let mut writer = Writer::create(memory, &Identity::default(), &geometry).unwrap();
    // Ends by itself if it is not killed.
    for number in 1..50_000_000_u64 {
        let time = number << (BIN_SHIFT - 4);
        let rows: [_; 24] = std::array::from_fn(|component| ComponentSample {
            component: component as u16,
            owned: number,
            resident: number,
            shared: number,
            ..ComponentSample::default()
        });
        let walked = number * rows.len() as u64;
        writer.sample(
            &SampleHead { time, flags: sample::FULL, kernel_resident: time, walked },
            &rows,
        );
        let row = SummaryRow { owned: number, ..SummaryRow::default() };
        writer.publish_summary(&SummaryHead { time, ..SummaryHead::default() }, &[row; 24]);
        let segment = SegmentRow { present: number, ..SegmentRow::default() };
        writer.set_segment((number % 8) as u32, &segment, &[number as u8; 512]);
    }
}

/// Invariants of a trace at any moment.
fn check(trace: &Trace) {
    for (head, rows) in trace.history.samples() {
        assert_eq!(rows.iter().map(|row| row.resident).sum::<u64>(), head.walked);
        assert_eq!(rows.len(), 24);
    }
    assert!(trace.history.samples().map(|(head, _)| head.time).is_sorted());
    if let Some(summary) = &trace.summary {
        let number = summary.head.time >> (BIN_SHIFT - 4);
        assert!(summary.rows.iter().all(|row| row.owned == number));
    }
    for segment in &trace.segments {
        let number = segment.row.row.present as u8;
        assert!(segment.row.bitmap.iter().all(|byte| *byte == number));
    }
    for bin in &trace.timeline {
        // A bin begins with what the sample before it found; the first sample has none before it.
        let first = (bin.head.first_time >> (BIN_SHIFT - 4)).saturating_sub(1).max(1);
        assert_eq!(bin.head.total_min, first * 24);
    }
}

fn follow_and_kill(path: &Path, seed: u64) -> std::io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.set_len(SIZE as u64)?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--exact", "a_killed_process_leaves_a_trace_without_faults"])
        .env(FILE, path)
        .stdout(Stdio::null())
        .spawn()?;
    let mut newest = 0;
    let mut left = seed * 7 % 23;
    while left > 0 {
        assert!(child.try_wait()?.is_none(), "the writer ended by itself");
        if let Ok(trace) = Trace::open(path) {
            check(&trace);
            assert!(trace.last_time() >= newest, "time went back");
            newest = trace.last_time();
            left -= u64::from(newest > 0);
        }
    }
    child.kill()?;
    assert_eq!(child.wait()?.signal(), Some(libc::SIGKILL));
    match Trace::open(path) {
        Ok(trace) => {
            assert_eq!(trace.faults, [], "seed {seed}");
            check(&trace);
            assert!(trace.last_time() >= newest, "what had been seen is gone");
            // The summary follows its sample at once, so at most one is not in it.
            let sampled = trace.history.samples().last().map_or(0, |(head, _)| head.time);
            let summed = trace.summary.as_ref().map_or(0, |summary| summary.head.time);
            assert!(sampled.saturating_sub(summed) <= 1 << (BIN_SHIFT - 4));
        }
        Err(error) => assert_eq!(newest, 0, "{error}"),
    }
    Ok(())
}

#[test]
fn a_killed_process_leaves_a_trace_without_faults() {
    // The process that is killed is this test, run again with the variable set.
    if let Some(path) = std::env::var_os(FILE) {
        return write_until_killed(&path);
    }
    let folder = tempfile::tempdir().unwrap();
    for seed in 0..KILLS {
        follow_and_kill(&folder.path().join(format!("{seed}.memprof")), seed).unwrap();
    }
}
