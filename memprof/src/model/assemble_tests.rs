use super::*;
use crate::model::{Group, Held, Identity, Moment, Sampler, Series, State, Totals};
use std::collections::BTreeSet;

const PAGE: u64 = 4096;

fn clock(boot: u8, realtime_ns: u64, monotonic_ns: u64, duration_ns: u64) -> Clock {
    Clock {
        boot_id: [boot; 16],
        host: format!("node{boot}").into(),
        realtime_ns,
        monotonic_ns,
        duration_ns,
    }
}

/// A rank that held `bytes` of `mpi.shm` all the time, as the given pages of one segment.
fn sharing(number: u32, pages: BTreeSet<u64>, bins: usize) -> Reduced {
    let bytes = pages.len() as u64 * PAGE;
    let mut bitmap = vec![0u64; 4];
    for page in &pages {
        bitmap[(page / 64) as usize] |= 1 << (page % 64);
    }
    let held = Held {
        name: "mpi.shm".into(),
        group: Group::Mpi,
        owned: bytes,
        owned_peak: bytes,
        owned_peak_ns: 0,
        image: 0,
        resident: bytes,
        resident_peak: bytes,
        resident_peak_ns: 0,
        phase: None,
        mpi_function: None,
        shared: bytes,
        huge: 0,
        swapped: 0,
        allocations: 0,
        frees: 0,
        allocated: 0,
        resident_at_peak: bytes,
        resident_bound: bytes,
        owned_at_peak: bytes,
    };
    Reduced {
        rank: Rank {
            file: format!("{number}.memprof").into(),
            identity: Identity { rank: Some(number), size: Some(3), ..Identity::default() },
            state: State::Closed,
            offset_ns: 0,
            duration_ns: bins as u64 * 10,
            held: vec![held],
            totals: Totals { resident: bytes, ..Totals::default() },
            peak: Moment::default(),
            phases: Vec::new(),
            open: Vec::new(),
            heat: Vec::new(),
            sampler: Sampler::default(),
            faults: Vec::new(),
            damaged: false,
        },
        timeline: Timeline {
            start_ns: 0,
            bin_ns: 10,
            bins,
            series: vec![Series {
                name: "mpi.shm".into(),
                group: Group::Mpi,
                mean: vec![bytes; bins],
                low: vec![bytes; bins],
                high: vec![bytes; bins],
                owned: vec![bytes; bins],
                floor: vec![bytes; bins],
                ceiling: vec![bytes; bins],
            }],
            ..Timeline::default()
        },
        totals: Vec::new(),
        shared: vec![Shared {
            dev: 1,
            ino: 2,
            path: "/dev/shm/x".into(),
            component: "mpi.shm".into(),
            size: 256 * PAGE,
            hugetlb: false,
            gone: false,
            granule_shift: 12,
            exact: true,
            bitmap,
            present: bytes,
        }],
        objects: Vec::new(),
        sites: Vec::new(),
        notes: vec![(7, "said".into())],
    }
}

#[test]
fn ranks_of_a_node_start_by_the_monotonic_clock_and_nodes_by_the_realtime_one() {
    let clocks = [
        clock(1, 1_000, 500, 100),
        // The realtime clock was set back in between: the monotonic one counts.
        clock(1, 900, 520, 100),
        clock(2, 1_050, 7, 10),
    ];
    let axis = Axis::new(&clocks);
    let offsets: Vec<u64> = clocks.iter().map(|clock| axis.offset_ns(clock)).collect();
    assert_eq!(offsets, [0, 20, 50]);
    assert_eq!(axis.end_ns, 120);
}

#[test]
fn what_two_ranks_share_is_in_the_node_once_and_in_the_sum_of_nodes_per_node() {
    let clocks = [clock(1, 0, 0, 40), clock(1, 0, 0, 40), clock(2, 0, 0, 40)];
    let mut assembler = Assembler::new(Axis::new(&clocks));
    for (number, clock) in clocks.iter().enumerate() {
        assembler.add(clock, sharing(number as u32, BTreeSet::from([0, 1, 2, 3]), 4));
    }
    let job = assembler.finish("job".into(), Vec::new());
    let once: Vec<u64> = job.nodes.iter().map(|node| node.timeline.totals()[0]).collect();
    assert_eq!(once, [4 * PAGE, 4 * PAGE]);
    assert_eq!(job.timeline.totals()[0], 8 * PAGE);
    assert_eq!((job.balance.ranks, job.balance.nodes), (12 * PAGE, 8 * PAGE));
    assert_eq!(job.ranks().count(), 3);
    assert_eq!(job.notes.len(), 1);
    assert_eq!(job.notes[0].processes, 3);
    assert!(job.missing.is_empty());
    assert!(job.ranks().all(|rank| rank.heat.iter().all(|value| *value == 4 * PAGE)));
}

#[test]
fn segments_unmapped_before_the_end_correct_the_past_and_not_the_present() {
    let clocks = [clock(1, 0, 0, 40), clock(1, 0, 0, 40)];
    let mut assembler = Assembler::new(Axis::new(&clocks));
    for (number, clock) in clocks.iter().enumerate() {
        let mut rank = sharing(number as u32, BTreeSet::from([0, 1]), 4);
        rank.rank.totals.resident = 0;
        rank.shared[0].gone = true;
        assembler.add(clock, rank);
    }
    let job = assembler.finish("job".into(), Vec::new());
    assert_eq!(job.nodes[0].timeline.totals()[0], 2 * PAGE);
    assert_eq!((job.balance.ranks, job.balance.nodes), (0, 0));
    let node = &job.nodes[0];
    assert_eq!((node.mapped.shared(), node.joined.shared()), (0, 2 * PAGE));
    assert_eq!((node.joined.files[0].processes, node.joined.files[0].mapped), (2, 0));
}

#[test]
fn what_one_process_alone_maps_is_not_shared() {
    let clocks = [clock(1, 0, 0, 40)];
    let mut assembler = Assembler::new(Axis::new(&clocks));
    assembler.add(&clocks[0], sharing(0, BTreeSet::from([0, 1, 2]), 4));
    let job = assembler.finish("job".into(), Vec::new());
    assert_eq!(job.nodes[0].mapped.shared(), 0);
}

#[test]
fn ranks_that_left_no_trace_are_named() {
    let clocks = [clock(1, 0, 0, 40)];
    let mut assembler = Assembler::new(Axis::new(&clocks));
    assembler.add(&clocks[0], sharing(1, BTreeSet::from([0]), 4));
    let job = assembler.finish("job".into(), Vec::new());
    assert_eq!(job.missing, [0, 2]);
}

#[test]
fn a_folder_of_nothing_is_a_job_of_nothing() {
    let job = Assembler::new(Axis::new(&[])).finish("job".into(), Vec::new());
    assert_eq!((job.ranks().count(), job.duration_ns(), job.program()), (0, 0, ""));
}
