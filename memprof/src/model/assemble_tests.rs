use super::*;
use crate::model::{Group, Held, Identity, Moment, Sampler, Series, State, Totals};
use std::collections::BTreeSet;

const PAGE: u64 = 4096;

pub fn clock(boot: u8, realtime_ns: u64, monotonic_ns: u64, duration_ns: u64) -> Clock {
    Clock {
        boot_id: [boot; 16],
        host: format!("node{boot}").into(),
        realtime_ns,
        monotonic_ns,
        duration_ns,
    }
}

/// Returns a rank that held `bytes` of `mpi.shm` all the time, as the given pages of one segment.
pub fn sharing(number: u32, pages: BTreeSet<u64>, bins: usize) -> Reduced {
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
        slack_at_peak: 0,
    };
    Reduced {
        rank: Rank {
            file: format!("{number}.memprof").into(),
            identity: Identity { rank: Some(number), size: Some(3), ..Identity::default() },
            job: Some(1),
            state: State::Closed,
            left: false,
            offset_ns: 0,
            duration_ns: bins as u64 * 10,
            held: vec![held],
            totals: Totals { resident: bytes, ..Totals::default() },
            peak: Moment::default(),
            kernel_peak: 0,
            unseen: 0,
            missed: 0,
            beyond_share: 0,
            phases: Vec::new(),
            open: Vec::new(),
            heat: Vec::new(),
            sampler: Sampler::default(),
            lost: Vec::new(),
            handles: Vec::new(),
            gpu: Vec::new(),
            slack: None,
            touches: Touches::default(),
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
                private_high: vec![0; bins],
                shared_high: vec![bytes; bins],
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
            counted: bytes,
            present: bytes,
            dropped: 0,
            doubled: 0,
            is_moved: false,
            is_whole: true,
        }],
        objects: Vec::new(),
        sites: Vec::new(),
        handles: Vec::new(),
        gpu: Vec::new(),
        notes: vec![(7, "said".into())],
    }
}

#[test]
fn ranks_start_by_monotonic_clock_and_nodes_by_realtime() {
    let clocks = [
        clock(1, 1_000, 500, 100),
        // The realtime clock was set back in between, so the monotonic clock counts.
        clock(1, 900, 520, 100),
        clock(2, 1_050, 7, 10),
    ];
    let axis = Axis::new(&clocks);
    let offsets: Vec<u64> = clocks.iter().map(|clock| axis.offset_ns(clock)).collect();
    assert_eq!(offsets, [0, 20, 50]);
    assert_eq!(axis.end_ns, 120);
}

#[test]
fn shared_pages_count_once_in_the_node_and_per_node() {
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
fn early_unmapped_segments_correct_the_past_not_the_present() {
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
fn memory_of_ranks_that_left_early_is_not_there_now() {
    const SECOND: u64 = 1_000_000_000;
    // One process is replaced, one leaves early, two end with the job, and for one no end is known.
    let lives = [(0, 1), (2, 8), (0, 3), (0, 8), (0, 7), (0, 3)]
        .map(|(begin, end)| (begin * SECOND, end * SECOND));
    let clocks = lives.map(|(begin, end)| clock(1, begin, begin, end - begin));
    let mut assembler = Assembler::new(Axis::new(&clocks));
    for (number, clock) in clocks.iter().enumerate() {
        let mut rank = sharing(number as u32, BTreeSet::from([0, 1]), 4);
        rank.rank.duration_ns = clock.duration_ns;
        rank.rank.state = if number == 5 { State::Open } else { State::Closed };
        assembler.add(clock, rank);
    }
    let job = assembler.finish("job".into(), Vec::new());
    let left: Vec<_> =
        job.ranks().filter(|rank| rank.left).map(|rank| rank.identity.rank).collect();
    assert_eq!(left, [Some(0), Some(2)]);
    let node = &job.nodes[0];
    assert_eq!(node.present(), (4, 8 * PAGE));
    assert_eq!(node.ranks_told(), "6, 4 now");
    assert_eq!((job.balance.ranks, job.balance.nodes), (8 * PAGE, 2 * PAGE));
    assert_eq!(job.balance.resident, 12 * PAGE, "of all, for what has no owner");
}

#[test]
fn lost_node_has_not_left_though_its_boot_lives_elsewhere() {
    const SECOND: u64 = 1_000_000_000;
    let on = |host: &str, end: u64| Clock { host: host.into(), ..clock(1, 0, 0, end * SECOND) };
    let clocks = [on("one", 9), on("one", 2), on("two", 2), on("two", 2)];
    let mut assembler = Assembler::new(Axis::new(&clocks));
    for (number, clock) in clocks.iter().enumerate() {
        let mut rank = sharing(number as u32, BTreeSet::from([0, 1]), 4);
        rank.rank.duration_ns = clock.duration_ns;
        rank.rank.state = State::Killed;
        assembler.add(clock, rank);
    }
    let job = assembler.finish("job".into(), Vec::new());
    let told: Vec<_> = job.nodes.iter().map(|node| (&*node.host, node.ranks_told())).collect();
    assert_eq!(told, [("one", "2, 1 now".to_owned()), ("two", "2".to_owned())]);
    // Segments with the same number are different on two nodes.
    assert_eq!(job.nodes[1].mapped.repeated, 2 * PAGE);
    assert_eq!((job.balance.ranks, job.balance.nodes), (6 * PAGE, 4 * PAGE));
}

#[test]
fn what_one_process_alone_maps_is_not_shared() {
    let clocks = [clock(1, 0, 0, 40)];
    let mut assembler = Assembler::new(Axis::new(&clocks));
    assembler.add(&clocks[0], sharing(0, BTreeSet::from([0, 1, 2]), 4));
    let job = assembler.finish("job".into(), Vec::new());
    assert_eq!(job.nodes[0].mapped.shared(), 0);
}

/// Returns a rank that held `mean` of private memory in each bin, `high` at most, and `low` at
/// least.
fn private(number: u32, bins: &[(u64, u64, u64)]) -> Reduced {
    let mut reduced = sharing(number, BTreeSet::new(), bins.len());
    reduced.shared.clear();
    let series = &mut reduced.timeline.series[0];
    series.name = "app.exe".into();
    series.low = bins.iter().map(|bin| bin.0).collect();
    series.mean = bins.iter().map(|bin| bin.1).collect();
    series.high = bins.iter().map(|bin| bin.2).collect();
    reduced.totals = series.high.clone();
    let (at, most) = (bins.iter().enumerate()).max_by_key(|(_, bin)| bin.2).expect("a bin");
    let function = Some("MPI_Send".into());
    reduced.rank.peak = Moment {
        time_ns: at as u64 * 10 + 5,
        bytes: most.2,
        phase: Some("solve".into()),
        mpi_function: function,
    };
    reduced
}

fn together(ranks: Vec<Reduced>) -> Job {
    let length = ranks[0].rank.duration_ns;
    let clocks: Vec<Clock> = ranks.iter().map(|_| clock(1, 0, 0, length)).collect();
    let mut assembler = Assembler::new(Axis::new(&clocks));
    for (clock, rank) in clocks.iter().zip(ranks) {
        assembler.add(clock, rank);
    }
    assembler.finish("job".into(), Vec::new())
}

#[test]
fn job_of_a_damaged_or_missing_trace_is_no_whole() {
    let one = |number| sharing(number, BTreeSet::new(), 4);
    assert!(together(vec![one(0), one(1), one(2)]).is_whole());
    let mut damaged = one(2);
    damaged.rank.damaged = true;
    let job = together(vec![one(0), one(1), damaged.clone()]);
    assert!(!job.is_whole());
    assert!(job.damage().is_some_and(|text| text.starts_with("1 trace damaged; ")));
    let mut other = damaged.clone();
    other.rank.identity.rank = Some(1);
    let text = together(vec![one(0), other, damaged]).damage().unwrap_or_default();
    assert!(text.starts_with("2 traces damaged; "), "{text}");
    assert!(!together(vec![one(0), one(2)]).is_whole(), "rank 1 of three is missing");
}

#[test]
fn program_of_most_ranks_or_the_first_names_the_job() {
    let of = |programs: &[&str]| {
        let ranks = programs.iter().enumerate().map(|(number, program)| {
            let mut reduced = sharing(number as u32, BTreeSet::new(), 4);
            reduced.rank.identity.program = format!("/bin/{program}").into();
            reduced.rank.identity.mpi_library = "libmpi.so.40".into();
            reduced
        });
        together(ranks.collect()).program().to_owned()
    };
    assert_eq!(of(&["air", "sea", "sea"]), "sea");
    assert_eq!(of(&["sea", "air"]), "air");
}

#[test]
fn more_resident_than_owned_is_in_the_balance() {
    let with = |more: u64| {
        let mut reduced = private(0, &[(PAGE, PAGE, PAGE); 4]);
        let held = &mut reduced.rank.held[0];
        // Partial pages at both ends.
        held.resident = held.owned + 8192 + more;
        together(vec![reduced]).balance.excesses.len()
    };
    assert_eq!((with(0), with(1), with(PAGE)), (0, 1, 1));
}

#[test]
fn rank_that_ends_as_the_last_begins_has_not_left() {
    let clocks = [clock(1, 0, 0, 20), clock(1, 20, 20, 20), clock(1, 0, 0, 19)];
    let axis = Axis::new(&clocks);
    let left: Vec<bool> = clocks.iter().map(|clock| axis.has_left(clock, State::Closed)).collect();
    assert_eq!(left, [false, false, true]);
}

#[test]
fn peak_of_a_single_rank_node_is_the_ranks() {
    // One sample of ten in a bin.
    let job = together(vec![private(0, &[(100, 100, 100), (100, 190, 1000), (100, 100, 100)])]);
    for timeline in [&job.nodes[0].timeline, &job.timeline] {
        let peak = timeline.peak.as_ref().expect("a peak");
        assert_eq!((peak.bytes, peak.time_ns), (1000, 15));
        assert_eq!(peak.phase.as_deref(), Some("solve"));
        assert_eq!(peak.mpi_function.as_deref(), Some("MPI_Send"));
        assert_eq!(timeline.peak_at_most, 1000);
    }
}

#[test]
fn peak_of_several_ranks_has_the_others_least_memory() {
    let spike = private(0, &[(100, 100, 100), (100, 190, 1000)]);
    let even = private(1, &[(50, 60, 70), (40, 60, 80)]);
    let job = together(vec![spike, even]);
    let timeline = &job.nodes[0].timeline;
    assert_eq!(timeline.peak.as_ref().map(|peak| peak.bytes), Some(1040));
    assert_eq!(timeline.peak_at_most, 1080);
    assert_eq!(timeline.peak_of.as_ref().and_then(|who| who.rank), Some(0));
}

/// Returns the same rank, with a kernel peak that is higher than any sample.
fn with_kernel_peak(mut reduced: Reduced, kernel_peak: u64) -> Reduced {
    reduced.rank.kernel_peak = kernel_peak;
    reduced.rank.unseen = crate::model::rank::unseen(kernel_peak, reduced.rank.peak.bytes);
    reduced
}

#[test]
fn unseen_memory_counts_above_a_twentieth_of_the_peak() {
    use crate::model::rank::unseen;
    assert_eq!(unseen(0, 10), 0);
    assert_eq!(unseen(1000, 950), 0);
    assert_eq!(unseen(1000, 949), 51);
    assert_eq!(unseen(u64::MAX, 0), u64::MAX);
}

#[test]
fn missed_memory_counts_above_a_hundredth_and_half_a_mebibyte() {
    use crate::model::rank::missed;
    assert_eq!(missed(11 << 20, (11 << 20) - (512 << 10)), 0);
    assert_eq!([missed(11 << 20, 10 << 20), missed(1000, 949)], [1 << 20, 51]);
    assert_eq!([missed(100 << 20, 99 << 20), missed(100 << 20, 98 << 20)], [0, 2 << 20]);
    assert_eq!(missed(0, 10), 0);
}

#[test]
fn node_interval_contains_kernel_peaks_no_sample_saw() {
    let brief = with_kernel_peak(private(0, &[(100, 100, 100), (100, 100, 100)]), 700);
    let even = with_kernel_peak(private(1, &[(50, 60, 70), (40, 60, 80)]), 82);
    let job = together(vec![brief, even]);
    let timeline = &job.nodes[0].timeline;
    assert_eq!(timeline.peak.as_ref().map(|peak| peak.bytes), Some(180));
    assert_eq!(timeline.peak_at_most, 700 + 82);

    let alone = together(vec![with_kernel_peak(private(0, &[(100, 100, 100)]), 700)]);
    assert_eq!(alone.nodes[0].timeline.peak_at_most, 700);
    assert_eq!(alone.timeline.peak_at_most, 700);
}

proptest::proptest! {
    #[test]
    fn node_peak_lies_between_its_ranks_peaks_and_their_sum(
        ranks in proptest::collection::vec(
            proptest::collection::vec((0u64..1 << 30, 0u64..1 << 30, 0u64..1 << 30), 6),
            1..6,
        ),
    ) {
        let sorted = |(a, b, c): (u64, u64, u64)| {
            let mut three = [a, b, c];
            three.sort_unstable();
            (three[0], three[1], three[2])
        };
        let ranks: Vec<Reduced> = ranks
            .into_iter()
            .enumerate()
            .map(|(number, bins)| {
                let bins: Vec<_> = bins.into_iter().map(sorted).collect();
                private(number as u32, &bins)
            })
            .collect();
        let most: u64 = ranks.iter().map(|rank| rank.rank.peak.bytes).sum();
        let job = together(ranks);
        for timeline in [&job.nodes[0].timeline, &job.timeline] {
            let peak = timeline.peak.as_ref().expect("a peak").bytes;
            proptest::prop_assert!(job.ranks().all(|rank| rank.peak.bytes <= peak));
            let mean = timeline.totals().into_iter().max().unwrap_or(0);
            proptest::prop_assert!(mean <= peak);
            proptest::prop_assert!(peak <= timeline.peak_at_most);
            proptest::prop_assert!(timeline.peak_at_most <= most);
        }
    }
}

#[test]
fn shared_memory_is_subtracted_whole_beside_private_memory() {
    let rank = |number| {
        let mut rank = sharing(number, BTreeSet::from([0, 1, 2, 3]), 3);
        let shared = 4 * PAGE;
        let values = vec![shared + 100 * PAGE, shared, shared / 2];
        let series = &mut rank.timeline.series[0];
        (series.mean, series.low, series.high) = (values.clone(), values.clone(), values);
        rank
    };
    let job = together(vec![rank(0), rank(1)]);
    // The memory counts once instead of twice; half of it while half was present.
    let totals = job.nodes[0].timeline.totals();
    assert_eq!([totals[0], totals[10], totals[20]], [204 * PAGE, 4 * PAGE, 2 * PAGE]);
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

#[test]
fn later_components_of_many_ranks_are_put_together() {
    let ranks: Vec<Rank> = (0..8)
        .map(|number| {
            let mut rank = sharing(number, BTreeSet::from([0]), 4).rank;
            let own = |at: u64| {
                let name: Arc<str> = format!("app.lib:{number}-{at}").into();
                let phase = Some("solve".into());
                Held {
                    name,
                    group: Group::Application,
                    phase,
                    resident_peak: 1,
                    ..rank.held[0].clone()
                }
            };
            let more: Vec<Held> = (0..255).map(own).collect();
            rank.held.extend(more);
            rank
        })
        .collect();
    let rows = statistics::across(ranks.iter());
    // One component of the third rank finds room.
    assert_eq!(rows.len(), 513);
    let others = rows.iter().find(|row| row.name == Group::Application.others()).expect("a sum");
    assert_eq!(others.group, Group::Application);
    let peak = &others.resident_peak;
    assert_eq!((peak.count, peak.min, peak.max), (8, 0, 255));
    assert_eq!((peak.sum, peak.min_at.rank, peak.max_at.rank), (254 + 5 * 255, Some(0), Some(3)));
    assert_eq!(others.phase, None);
    assert!(rows.iter().any(|row| row.phase.as_deref() == Some("solve")));
}

#[test]
fn components_at_a_peak_of_ranks_add_up() {
    // One rank has a spike of two components that is shorter than the bin; another holds much
    // memory all the time.
    let named = |mut reduced: Reduced, name: &str, at_peak: u64| {
        reduced.timeline.series[0].name = name.into();
        reduced.rank.held[0].name = name.into();
        reduced.rank.held[0].resident_at_peak = at_peak;
        reduced
    };
    let spike = named(private(0, &[(100, 100, 100), (100, 190, 1000)]), "app.exe:spike", 1000);
    let even = named(private(1, &[(300, 300, 300), (300, 300, 300)]), "app.exe:even", 300);
    let job = together(vec![spike, even]);
    for timeline in [&job.nodes[0].timeline, &job.timeline] {
        let held: Vec<_> = timeline.peak_held.iter().map(|one| (&*one.name, one.bytes)).collect();
        assert_eq!(held, [("app.exe:spike", 1000), ("app.exe:even", 300)]);
        assert_eq!(timeline.peak.as_ref().map(|peak| peak.bytes), Some(1300));
    }
}
