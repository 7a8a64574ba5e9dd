//! Tests that written parts can be read, and that unreadable ones are reported.

use super::*;
use crate::Text;
use crate::layout::{
    ArenaRow, BIN_SHIFT, BinHead, COMPONENTS_LIMIT, Class, ComponentRow, Geometry, Identity,
    NONE_SHORT, OLDEST_VERSION, SegmentRow, SiteRow, SlackRow, SummaryHead, SummaryRow, VERSION,
    flags, sample,
};
use crate::write::{Buffer, ComponentSample, SampleHead, Writer};

const FILE: usize = Geometry::SMALLEST_FILE;

fn buffer() -> Buffer {
    Buffer::new(FILE)
}

fn writer(buffer: &mut Buffer) -> Writer<'_> {
    let identity = Identity { rank: 3, size: 8, host: Text::new("node1"), ..Identity::default() };
    let geometry = Geometry::for_file(FILE).unwrap();
    Writer::create(buffer.bytes_mut(), &identity, &geometry).unwrap()
}

fn row(component: u16, resident: u64) -> ComponentSample {
    ComponentSample { component, owned: 2 * resident, resident, ..ComponentSample::default() }
}

#[test]
fn free_pages_follow_the_components_where_there_is_room() {
    let slack =
        SlackRow { main: [9, 7], main_top: [2, 99], holder: [4, 999], ..SlackRow::default() };
    let arenas =
        [ArenaRow { resident: [9, 8], free_pages: [3, 4], kept: [5, 4], ..ArenaRow::default() }];
    let read = |rows: usize, slack: Option<&SlackRow>| {
        let mut buffer = buffer();
        let mut writer = writer(&mut buffer);
        let rows = vec![SummaryRow { owned: 5, ..SummaryRow::default() }; rows];
        writer.publish_summary_with(
            &SummaryHead::default(),
            &rows,
            slack.map(|slack| (slack, &arenas[..])),
        );
        Trace::from_bytes(buffer.bytes()).unwrap()
    };
    for count in [0, 1, COMPONENTS_LIMIT - 1] {
        let trace = read(count, Some(&slack));
        let summary = trace.summary.as_ref().unwrap();
        assert_eq!(summary.rows.len(), count);
        // What cannot be is corrected, and reported.
        let written = if count < COMPONENTS_LIMIT - 1 { 1 } else { 0 };
        let mended = SlackRow { main_top: [2, 7], holder: [4, 0], rows: written, ..slack };
        assert_eq!((summary.slack, trace.faults.len()), (Some(mended), 1));
        let mended = vec![ArenaRow { kept: [3, 4], ..arenas[0] }; written as usize];
        assert_eq!(summary.arenas, mended, "left out where there is no room");
        assert_eq!(read(count, None).summary.and_then(|summary| summary.slack), None);
    }
    let full = read(COMPONENTS_LIMIT, Some(&slack)).summary.unwrap();
    assert_eq!((full.rows.len(), full.slack), (COMPONENTS_LIMIT, None));
}

#[test]
fn everything_written_is_read_again() {
    let mut buffer = buffer();
    let mut writer = writer(&mut buffer);
    let core = ComponentRow {
        class: Class::MpiDependency as u8,
        object: NONE_SHORT,
        parent: NONE_SHORT,
        name: Text::new("libopen-pal.so.40"),
        ..ComponentRow::default()
    };
    writer.set_component(17, &core);
    writer.set_flags(flags::MPI_SEEN, 0);
    writer.set_mpi_library("libmpi.so.40");
    writer.phase_edge(5, 0, true);
    let head = SampleHead { time: 7, flags: sample::FULL, kernel_resident: 9000, walked: 8192 };
    let shared = ComponentSample { shared: 4096, swapped: 1, ..row(17, 8192) };
    writer.sample(&head, &[row(3, 0), shared]);
    writer.quick(&SampleHead { time: 8, kernel_resident: 9500, ..head });
    assert_eq!(writer.add_note(9, 4, "no room"), Some(0));
    let function = writer.intern("MPI_Send");
    let summary = SummaryHead { time: 8, peak_function: function, ..SummaryHead::default() };
    writer.publish_summary(&summary, &[SummaryRow { owned: 5, ..SummaryRow::default() }]);
    writer.set_phase_peaks(2, &[1, 2], &[3, 4]);
    let segment = SegmentRow { inode: 77, granule_shift: 12, ..SegmentRow::default() };
    writer.set_segment(1, &segment, &[0b101, 0xFF]);
    writer.set_site(0, 0, &SiteRow { frames: 2, live: 99, ..SiteRow::default() });
    writer.close(10);

    let trace = Trace::from_bytes(buffer.bytes()).unwrap();
    assert_eq!(trace.faults, []);
    assert_eq!((trace.identity.rank, trace.identity.host.to_string()), (3, "node1".to_owned()));
    assert!(trace.has(flags::MPI_SEEN | flags::CLOSED));
    assert_eq!(trace.state.mpi_library.to_string(), "libmpi.so.40");
    assert_eq!(trace.component_name(17), "mpi.dep:libopen-pal.so.40");
    assert_eq!(trace.component_name(3), "component 3");
    let samples: Vec<_> = trace.history.samples().collect();
    assert_eq!(samples.len(), 2);
    assert_eq!((samples[0].0.time, samples[0].1), (7, &[shared][..]));
    assert_eq!(samples[1].0.flags, sample::QUICK);
    assert_eq!(trace.history.phase_edges(), [PhaseEdge { time: 5, phase: 0, begins: true }]);
    assert_eq!(trace.notes[0].row.text.to_string(), "no room");
    let summary = trace.summary.as_ref().unwrap();
    assert_eq!(trace.function(summary.head.peak_function).as_deref(), Some("MPI_Send"));
    assert_eq!(summary.rows[0].owned, 5);
    assert_eq!((trace.phase_peaks[0].index, trace.phase_peaks[0].row[1].resident), (2, 4));
    assert_eq!(trace.peaks(2), Some(&trace.phase_peaks[0].row));
    assert_eq!(trace.peaks(1), None);
    assert_eq!(trace.segments[0].row.bitmap, [0b101, 0xFF]);
    assert_eq!(trace.sites[0].row.live, 99);
    assert_eq!(trace.timeline.len(), 1);
    assert_eq!(trace.timeline[0].cell(17).resident_mean, 8);
    assert_eq!(trace.timeline[0].head.kernel_max, 9500);
    assert_eq!(trace.last_time(), 10);
    assert_eq!(trace.columns(), 18);
}

#[test]
fn long_run_keeps_extremes_in_a_bounded_timeline() {
    let mut buffer = buffer();
    let mut writer = writer(&mut buffer);
    let samples = 5000_u64;
    for number in 0..samples {
        let time = number << (BIN_SHIFT - 1);
        let head = SampleHead { time, flags: sample::FULL, kernel_resident: 0, walked: number };
        let resident = if number == 1234 { 1 << 30 } else { 4096 };
        writer.sample(&head, &[row(1, resident), row(2, number * 1024)]);
    }
    let trace = Trace::from_bytes(buffer.bytes()).unwrap();
    assert_eq!(trace.faults, []);
    assert!(trace.timeline.len() > 4 && trace.timeline.len() <= 8, "{}", trace.timeline.len());
    let count: u64 = trace.timeline.iter().map(|bin| u64::from(bin.head.samples)).sum();
    assert_eq!(count, samples);
    let mut next = 0;
    for bin in &trace.timeline {
        assert_eq!(bin.start >> (BIN_SHIFT - 1), next);
        // It begins with the state that held.
        assert_eq!(u64::from(bin.cell(2).resident_min), next.saturating_sub(1));
        next += u64::from(bin.head.samples);
        assert_eq!(u64::from(bin.cell(2).resident_max), next - 1);
        assert_eq!(
            bin.cell(1).resident_max == 1 << 20,
            (bin.start..bin.end()).contains(&(1234 << 23))
        );
        assert_eq!(bin.head.total_max, next - 1);
    }
    let held: Vec<_> = trace.history.samples().map(|(sample, _)| sample.walked).collect();
    assert!(held.len() > 1000 && held.is_sorted() && held.last() == Some(&(samples - 1)));
}

#[test]
fn what_is_no_trace_is_refused_with_the_reason() {
    let refused = |bytes: &[u8]| Trace::from_bytes(bytes).unwrap_err().to_string();
    assert_eq!(refused(b""), "the file is empty");
    assert_eq!(refused(b"#!/bin/sh\n"), "not a trace of memprof");
    assert!(refused(&[0; 5000]).contains("never begun"));
    let mut buffer = buffer();
    writer(&mut buffer).close(1);
    let bytes = buffer.bytes();
    assert!(refused(&bytes[..4000]).contains("only 4000 bytes"));
    let changed = |at: usize, value: u8| {
        let mut bytes = bytes.to_vec();
        bytes[at] = value;
        refused(&bytes)
    };
    for other in [0, OLDEST_VERSION - 1, VERSION + 1] {
        assert!(changed(8, other as u8).contains(&format!("has version {other} of the format")));
    }
    assert!(changed(600, 1).contains("damaged"));
    let mut swapped = bytes.to_vec();
    swapped[12..16].reverse();
    assert!(refused(&swapped).contains("order of bytes"));
}

#[test]
fn only_regular_files_of_a_reasonable_size_are_read() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(Trace::open(folder.path()), Err(TraceError::NotAFile(_))));
    let missing = Trace::open(folder.path().join("none")).unwrap_err().to_string();
    assert!(missing.contains("none") && missing.contains("No such file"), "{missing}");
    let large = folder.path().join("large");
    std::fs::File::create(&large).unwrap().set_len(LARGEST_FILE + 1).unwrap();
    assert!(matches!(Trace::open(&large), Err(TraceError::TooLarge { .. })));
    let file = folder.path().join("trace");
    let mut buffer = buffer();
    writer(&mut buffer).quick(&SampleHead::default());
    std::fs::write(&file, buffer.bytes()).unwrap();
    assert_eq!(Trace::open(&file).unwrap(), Trace::from_bytes(buffer.bytes()).unwrap());
    let less = Trace::open_with(&file, Options { history: false, detail: true }).unwrap();
    assert!(less.history.is_empty() && less.faults.is_empty());
}

#[test]
fn bin_is_seen_by_its_samples_or_as_a_whole() {
    let bin = |samples, others| {
        let head = BinHead { samples, others, first_time: 12, last_time: 17, ..BinHead::default() };
        Bin { start: 10, width: 10, head, cells: Vec::new() }.seen()
    };
    assert_eq!(bin(0, 0), (10, 20));
    assert_eq!([bin(1, 0), bin(0, 1), bin(u32::MAX, u32::MAX)], [(12, 17); 3]);
}

#[test]
fn owned_between_samples_holds_until_told_again() {
    let mut buffer = buffer();
    let mut writer = writer(&mut buffer);
    let width = 1 << BIN_SHIFT;
    let head = |time| SampleHead { time, flags: sample::FULL, kernel_resident: 4096, walked: 4096 };
    writer.sample(&head(0), &[row(0, 4096)]);
    writer.owned(width + 1, &[1 << 20]);
    writer.owned(3 * width + 1, &[2 << 20, 1 << 10]);
    writer.owned(3 * width + 2, &[0, 0]);
    writer.sample(&head(5 * width), &[row(0, 4096)]);
    let trace = Trace::from_bytes(buffer.bytes()).unwrap();
    let of = |component| trace.timeline.iter().map(move |bin| bin.cell(component).owned_max);
    assert_eq!(of(0).collect::<Vec<_>>(), [8, 1024, 1024, 2048, 0, 8]);
    assert_eq!(of(1).collect::<Vec<_>>(), [0, 0, 0, 1, 0, 0]);
    // Resident memory is as found by samples, and none was taken.
    assert!(trace.timeline.iter().all(|bin| bin.cell(0).resident_mean == 4));
    assert_eq!(trace.timeline.iter().map(|bin| bin.head.samples).sum::<u32>(), 2);
    assert_eq!(trace.history.len(), 2);
}
