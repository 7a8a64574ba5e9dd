//! A file of the format, byte for byte as the writer makes it: a change of it is a change of the
//! format.

use memprof_trace::Text;
use memprof_trace::layout::{
    ArenaRow, BIN_SHIFT, Class, ComponentRow, Geometry, Identity, NONE, NONE_SHORT, ObjectRow,
    PhaseRow, SegmentRow, SiteRow, SlackRow, SummaryHead, SummaryRow, TouchRow, VERSION, flags,
    phase, sample, segment,
};
use memprof_trace::read::Trace;
use memprof_trace::write::{Buffer, ComponentSample, SampleHead, Writer};

const GOLDEN: &[u8] = include_bytes!("golden/trace.memprof");
/// Nearly the same as written by previous versions.
const VERSION_3: &[u8] = include_bytes!("golden/version-3.memprof");
const VERSION_2: &[u8] = include_bytes!("golden/version-2.memprof");

const GEOMETRY: Geometry = Geometry {
    components: 22,
    objects: 5,
    notes: 4,
    names: 6,
    phases: 1,
    bins: 8,
    segments: 2,
    bitmap_bytes: 64,
    sites: 2,
    touches: 2,
    times: 0,
    loops: 0,
    handles: 0,
};

const ARENA: ArenaRow = ArenaRow {
    resident: [16_384, 12_288],
    in_use: [8000, 8100],
    free_pages: [5000, 4096],
    kept: [4096, 0],
    uncertain: [0, 1],
    left: [4000, 3000],
    number: [7, NONE],
    arenas: [1, 2],
    holder: [16, NONE],
    holder_site: [1, NONE],
    left_by: [17, 16],
    reserved: [0; 3],
};

fn write(memory: &mut [u8]) {
    let identity = Identity {
        rank: 1,
        size: 2,
        local_rank: 1,
        pid: 4242,
        parent_pid: 4000,
        image: 1,
        start_ticks: 123_456,
        realtime_ns: 1_780_000_000_123_456_789,
        monotonic_ns: 987_654_321,
        page_size: 4096,
        boot_id: *b"0123456789abcdef",
        host: Text::new("gold"),
        job: Text::new("77.0"),
        program: Text::new("/opt/program"),
        ..Identity::default()
    };
    let mut writer = Writer::create(memory, &identity, &GEOMETRY).expect("room for a trace");
    let row = |class: Class, object, name| ComponentRow {
        class: class as u8,
        object,
        parent: NONE_SHORT,
        name: Text::new(name),
        ..ComponentRow::default()
    };
    writer.set_component(0, &row(Class::Unattributed, NONE_SHORT, ""));
    writer.set_component(16, &row(Class::AppExecutable, 0, "program"));
    writer.set_component(17, &row(Class::AppLibrary, 1, "libmpi.so.40"));
    writer.set_component(17, &row(Class::MpiCore, 1, "libmpi.so.40"));
    for (index, path) in ["/opt/program", "/usr/lib/libmpi.so.40"].into_iter().enumerate() {
        let component = 16 + index as u32;
        let path = Text::new(path);
        let row = ObjectRow {
            base: 0x1000,
            start: 0x2000,
            size: 0x3000,
            component,
            path,
            ..ObjectRow::default()
        };
        writer.set_object(index as u32, &row);
    }
    writer.set_flags(flags::MPI_SEEN | flags::PAUSED, 0);
    writer.set_flags(flags::INITIALIZED, flags::PAUSED);
    writer.set_mpi_library("libmpi.so.40");
    let mut main = PhaseRow {
        name: Text::new("main"),
        kind: phase::AUTOMATIC,
        parent: NONE,
        entries: 1,
        first_time: 1000,
        open: 1,
        ..PhaseRow::default()
    };
    writer.set_phase(1000, 0, &main);
    writer.phase_edge(1000, 0, true);
    for number in 0..200_u64 {
        let time = 1000 + (number << BIN_SHIFT) / 3;
        let resident = (number % 50) * 4096;
        let rows = [
            ComponentSample {
                component: 16,
                owned: resident + 100,
                resident,
                ..ComponentSample::default()
            },
            ComponentSample {
                component: 17,
                owned: 9000,
                resident: 8192,
                shared: 4096,
                swapped: number,
                allocated: 10_000 * (number + 1),
                owned_peak: 20_000,
                image: 4096,
            },
        ];
        let walked = resident + 8192;
        writer.sample(
            &SampleHead { time, flags: sample::FULL, kernel_resident: walked + 1, walked },
            &rows,
        );
    }
    writer.add_note(5000, 3, "a note");
    writer.add_note(6000, 3, "a note");
    let function = writer.intern("MPI_Send");
    let mut rows = [SummaryRow::default(); 18];
    rows[16] = SummaryRow {
        owned: 1,
        resident_peak: 49 * 4096,
        resident_peak_function: function,
        ..SummaryRow::default()
    };
    let head = SummaryHead {
        time: 1_200_000_000,
        peak: 49 * 4096 + 8192,
        samples_full: 200,
        ..SummaryHead::default()
    };
    writer.publish_summary(&head, &rows);
    let head = SummaryHead { time: 1_300_000_000, ..head };
    let slack = SlackRow { arenas: [5000, 4096], allocator: NONE, ..SlackRow::default() };
    writer.publish_summary_with(&head, &rows, Some((&slack, &[ARENA])));
    writer.set_phase_peaks(0, &[0, 1, 2], &[0, 3, 4]);
    let segment = SegmentRow {
        device: 5,
        inode: 6,
        size: 65_536,
        component: 17,
        granule_shift: 12,
        present: 8192,
        path: Text::new("/dev/shm/x"),
        dropped: 4096,
        doubled: 8192,
        ..SegmentRow::default()
    };
    writer.set_segment(0, &segment, &[0b1000_0001, 0]);
    let mut site = SiteRow {
        component: 16,
        frames: 2,
        live: 10,
        peak: 20,
        total: 30,
        samples: 1,
        at_peak: 15,
        ..SiteRow::default()
    };
    (site.objects[1], site.offsets[1]) = (1, 0xABC);
    writer.set_site(1_300_000_000, 1, &site);
    let touch = TouchRow {
        owner: 16,
        toucher: 17,
        function,
        faults: 3,
        bytes: 12_288,
        ..TouchRow::default()
    };
    writer.set_touch(0, &touch);
    (main.open, main.total_ns, main.last_time) = (0, 1_400_000_000, 1_400_001_000);
    writer.set_phase(1_400_001_000, 0, &main);
    writer.phase_edge(1_400_001_000, 0, false);
    writer.quick(&SampleHead {
        time: 1_500_000_000,
        kernel_resident: 7,
        walked: 8,
        flags: sample::LAST,
    });
    writer.close(1_600_000_000);
}

#[test]
fn the_writer_makes_the_golden_file() {
    assert_eq!(VERSION, 4);
    let mut memory = Buffer::new(15 * 4096);
    write(memory.bytes_mut());
    if memory.bytes() != GOLDEN {
        let made = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("trace.memprof");
        std::fs::write(&made, memory.bytes()).unwrap();
        panic!("the format has changed: what is written now is in {}", made.display());
    }
}

#[test]
fn golden_file_reads_as_it_was_written() {
    let trace = Trace::from_bytes(GOLDEN).expect("a whole trace");
    assert_eq!((trace.version, trace.file_size), (VERSION, GOLDEN.len() as u64));
    holds_what_was_written(&trace);
    let cells = [trace.timeline[1].cell(16), trace.timeline[1].cell(17)];
    assert_eq!(cells.map(|cell| (cell.private_max, cell.shared_max)), [(49 * 4, 0), (4, 4)]);
    let segment = &trace.segments[0].row.row;
    assert_eq!((segment.flags, segment.dropped, segment.doubled), (0, 4096, 8192));
    let moments = trace.phases[0].row.moments;
    assert_eq!((moments.used, moments.values[0], moments.last), (2, 0, 1));
    assert_eq!(trace.sites[0].row.moments.used, 2);
    let summary = trace.summary.as_ref().expect("a summary");
    let slack = summary.slack.expect("free pages");
    assert_eq!(
        (slack.arenas, slack.rows, summary.arenas.as_slice()),
        ([5000, 4096], 1, &[ARENA][..])
    );
}

#[test]
fn version_3_reads_without_free_pages_of_arenas() {
    let trace = Trace::from_bytes(VERSION_3).expect("a whole trace");
    assert_eq!((trace.version, trace.file_size), (3, VERSION_3.len() as u64));
    holds_what_was_written(&trace);
    let summary = trace.summary.as_ref().expect("a summary");
    assert_eq!((summary.slack, summary.arenas.len()), (None, 0));
    assert_eq!(trace.sites[0].row.moments.used, 2);
}

#[test]
fn older_version_reads_with_unknown_shares() {
    let trace = Trace::from_bytes(VERSION_2).expect("a whole trace");
    assert_eq!((trace.version, trace.file_size), (2, VERSION_2.len() as u64));
    holds_what_was_written(&trace);
    let cell = trace.timeline[1].cell(17);
    assert_eq!((cell.private_max, cell.shared_max), (8, 8));
    let segment = &trace.segments[0].row.row;
    assert_eq!((segment.flags, segment.dropped, segment.doubled), (segment::REUSED, 0, 0));
    assert_eq!(trace.sites[0].row.moments.used, 0);
}

fn holds_what_was_written(trace: &Trace) {
    assert_eq!(trace.faults, []);
    identity_and_tables_are_read(trace);
    summary_and_phases_are_read(trace);
    course_is_read(trace);
    assert_eq!(trace.sites[0].row.at_peak, 15);
    let touch = &trace.touches[0].row;
    assert_eq!((touch.owner, touch.toucher, touch.faults, touch.bytes), (16, 17, 3, 12_288));
    assert_eq!(trace.function(touch.function).as_deref(), Some("MPI_Send"));
    // Idle except for 10,000 bytes that were allocated and freed, out of 9,000 owned and a page of
    // code and data.
    let cell = trace.timeline[1].cell(17);
    assert_eq!((cell.floor, cell.ceiling), (0, 23));
}

fn identity_and_tables_are_read(trace: &Trace) {
    let identity = &trace.identity;
    assert_eq!((identity.rank, identity.size, identity.local_rank), (1, 2, 1));
    assert_eq!((identity.pid, identity.parent_pid, identity.image), (4242, 4000, 1));
    assert_eq!((identity.start_ticks, identity.monotonic_ns), (123_456, 987_654_321));
    assert_eq!(identity.realtime_ns, 1_780_000_000_123_456_789);
    assert_eq!((identity.page_size, &identity.boot_id), (4096, b"0123456789abcdef"));
    assert_eq!(identity.host.to_string() + "/" + &identity.job.to_string(), "gold/77.0");
    assert_eq!(identity.program.to_string(), "/opt/program");

    assert_eq!(trace.state.flags, flags::MPI_SEEN | flags::INITIALIZED | flags::CLOSED);
    assert_eq!(trace.state.mpi_library.to_string(), "libmpi.so.40");
    assert_eq!((trace.state.closed_time, trace.last_time()), (1_600_000_000, 1_600_000_000));
    let names: Vec<_> =
        trace.components.iter().map(|row| (row.index, row.row.display_name())).collect();
    let name = |index, name: &str| (index, name.to_owned());
    assert_eq!(
        names,
        [name(0, "unattributed"), name(16, "app.exe:program"), name(17, "mpi.core:libmpi.so.40")]
    );
    let object = trace.object(1).expect("the second object");
    assert_eq!((object.base, object.start, object.size), (0x1000, 0x2000, 0x3000));
    assert_eq!(object.path.to_string(), "/usr/lib/libmpi.so.40");
    let note = &trace.notes[0].row;
    assert_eq!((note.time, note.code, note.count), (5000, 3, 2));
    assert_eq!(note.text.to_string(), "a note");
}

fn summary_and_phases_are_read(trace: &Trace) {
    let summary = trace.summary.as_ref().expect("a summary");
    assert_eq!((summary.head.time, summary.head.peak), (1_300_000_000, 49 * 4096 + 8192));
    assert_eq!((summary.rows.len(), summary.rows[16].resident_peak), (18, 49 * 4096));
    let function = summary.rows[16].resident_peak_function;
    assert_eq!(trace.function(function).as_deref(), Some("MPI_Send"));
    let main = trace.phase(0).expect("the first phase");
    assert_eq!((main.name.to_string().as_str(), main.parent, main.open), ("main", NONE, 0));
    assert_eq!((main.total_ns, main.last_time), (1_400_000_000, 1_400_001_000));
    assert_eq!((trace.phase_peaks[0].row[2].owned, trace.phase_peaks[0].row[2].resident), (2, 4));
    let segment = &trace.segments[0].row;
    assert_eq!((segment.row.device, segment.row.inode, segment.row.present), (5, 6, 8192));
    assert_eq!(segment.bitmap, [0b1000_0001, 0]);
    let site = &trace.sites[0];
    assert_eq!(
        (site.index, site.row.live, site.row.objects[1], site.row.offsets[1]),
        (1, 10, 1, 0xABC)
    );
}

fn course_is_read(trace: &Trace) {
    // 67 bins of the first width in eight: folded four times.
    let bins = &trace.timeline;
    assert_eq!((bins.len(), bins[0].width), (6, 1 << (BIN_SHIFT + 4)));
    assert_eq!(bins.iter().map(|bin| bin.head.samples).sum::<u32>(), 200);
    assert_eq!((bins[0].head.first_time, bins[0].head.samples), (1000, 48));
    assert_eq!((bins[1].cell(16).resident_max, bins[1].cell(16).resident_min), (49 * 4, 0));
    assert_eq!((bins[0].cell(17).resident_mean, bins[0].cell(17).owned_max), (8, 9));
    assert_eq!(bins[1].head.total_max, 49 * 4096 + 8192);

    let last: Vec<_> = trace.history.samples().rev().take(2).collect();
    assert_eq!((last[0].0.time, last[0].0.flags), (1_500_000_000, sample::QUICK | sample::LAST));
    let rows = [
        ComponentSample {
            component: 16,
            owned: 49 * 4096 + 100,
            resident: 49 * 4096,
            ..ComponentSample::default()
        },
        ComponentSample {
            component: 17,
            owned: 9000,
            resident: 8192,
            shared: 4096,
            swapped: 199,
            ..ComponentSample::default()
        },
    ];
    assert_eq!(last[1].1, rows);
    let edges = trace.history.phase_edges();
    assert_eq!(edges.last().map(|edge| (edge.time, edge.begins)), Some((1_400_001_000, false)));
}
