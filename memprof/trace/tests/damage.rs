//! Traces that are truncated, damaged or forged: an error, or faults and the rest.

use memprof_trace::generate::reseal;
use memprof_trace::layout::{
    COMPONENTS_LIMIT, Geometry, HEADER_SIZE, Identity, SECTION_TABLE, SECTIONS_LIMIT, SectionEntry,
    SectionKind,
};
use memprof_trace::read::{Fault, Row, Trace, TraceError};
use memprof_trace::write::{Buffer, Writer};
use proptest::prelude::*;

const GOLDEN: &[u8] = include_bytes!("golden/trace.memprof");

fn whole() -> Trace {
    Trace::from_bytes(GOLDEN).expect("a whole trace")
}

/// Uses a trace as reports do.
fn use_all(trace: &Trace) {
    let columns = trace.columns();
    assert!(columns <= COMPONENTS_LIMIT);
    (0..columns).for_each(|component| assert!(!trace.component_name(component).is_empty()));
    for pair in trace.timeline.windows(2) {
        assert!(pair[0].end() <= pair[1].start);
    }
    for (_, rows) in trace.history.samples() {
        assert!(rows.iter().all(|row| usize::from(row.component) < COMPONENTS_LIMIT));
    }
    for segment in &trace.segments {
        assert_eq!(segment.row.row.bitmap_length as usize, segment.row.bitmap.len());
        assert!(1_u64.checked_shl(segment.row.row.granule_shift).is_some());
    }
    // Amounts can be added up, over components and samples.
    if let Some(summary) = &trace.summary {
        let _ = summary.rows.iter().map(|row| row.owned_peak + row.resident_peak).sum::<u64>();
    }
    for (head, rows) in trace.history.samples() {
        let _ = rows.iter().map(|row| row.owned + row.resident).sum::<u64>();
        let _ = trace.identity.realtime_ns + trace.identity.monotonic_ns + head.time;
    }
    assert!(trace.sites.iter().all(|site| site.row.frames as usize <= site.row.offsets.len()));
    assert!(trace.faults.iter().all(|fault| !fault.to_string().is_empty()));
}

fn subset<T: PartialEq>(some: &[Row<T>], all: &[Row<T>]) -> bool {
    some.iter().all(|row| all.iter().any(|other| other.index == row.index))
}

#[test]
fn trace_cut_at_any_byte_gives_the_rest() {
    let whole = whole();
    let history: Vec<_> = whole.history.samples().map(|(head, _)| head.time).collect();
    for length in 0..GOLDEN.len() {
        let Ok(trace) = Trace::from_bytes(&GOLDEN[..length]) else {
            assert!(length < HEADER_SIZE, "refused at {length}");
            continue;
        };
        let expected = GOLDEN.len() as u64;
        assert!(trace.faults.contains(&Fault::Truncated { length: length as u64, expected }));
        assert_eq!(trace.identity, whole.identity);
        assert!(subset(&trace.components, &whole.components));
        assert!(trace.history.samples().all(|(head, _)| history.contains(&head.time)));
        use_all(&trace);
    }
}

#[test]
fn a_flipped_bit_anywhere_is_noticed_or_makes_no_difference() {
    let whole = whole();
    let mut bytes = GOLDEN.to_vec();
    for place in 0..bytes.len() {
        // Every bit position occurs in some slot.
        let bit = (place + place / 8) % 8;
        bytes[place] ^= 1 << bit;
        if let Ok(trace) = Trace::from_bytes(&bytes) {
            assert!(trace == whole || !trace.faults.is_empty(), "bit {bit} of byte {place}");
        }
        bytes[place] ^= 1 << bit;
    }
}

#[test]
fn pages_that_never_reached_the_disk_are_noticed() {
    for page in 0..GOLDEN.len() / 4096 {
        let mut bytes = GOLDEN.to_vec();
        let lost = &mut bytes[page * 4096..][..4096];
        if lost.iter().all(|byte| *byte == 0) {
            continue;
        }
        lost.fill(0);
        match Trace::from_bytes(&bytes) {
            Ok(trace) => {
                assert!(trace == whole() || !trace.faults.is_empty(), "page {page}")
            }
            Err(error) => assert_eq!(page, 0, "{error}"),
        }
    }
}

/// Returns an empty trace in which one section has this many of the smallest slots.
fn with_slots(kind: SectionKind, slots: u32) -> Vec<u8> {
    const SLOT: u32 = 32;
    let size = Geometry::DEFAULT_FILE;
    let mut buffer = Buffer::new(size);
    let geometry = Geometry::for_file(size).expect("large enough");
    assert!(Writer::create(buffer.bytes_mut(), &Identity::default(), &geometry).is_ok());
    let mut bytes = buffer.bytes().to_vec();
    for number in 0..SECTIONS_LIMIT {
        let place = &mut bytes[SECTION_TABLE + number * SectionEntry::SIZE..][..SectionEntry::SIZE];
        let found = SectionEntry::from_bytes(place).expect("a section");
        if found.kind == kind as u32 {
            let length = u64::from(SLOT * slots);
            assert!(length <= found.length, "there is room");
            let forged = SectionEntry { slot_size: SLOT, slots, capacity: 1, length, ..found };
            place.copy_from_slice(&forged.to_bytes());
        }
    }
    reseal(&mut bytes);
    bytes
}

#[test]
fn oversized_tables_are_refused_and_long_timelines_are_not() {
    let read = |kind, slots| Trace::from_bytes(&with_slots(kind, slots));
    assert!(read(SectionKind::Segments, 1024).is_ok());
    let refused = read(SectionKind::Segments, 1025);
    assert!(matches!(refused, Err(TraceError::Nonsense { .. })), "{refused:?}");
    assert!(read(SectionKind::Timeline, 1025).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn forged_traces_whose_checksums_are_right_are_survived(
        patches in prop::collection::vec((any::<usize>(), any::<u64>(), 0..4_u8), 1..40),
        length in prop::option::weighted(0.1, 0..GOLDEN.len()),
    ) {
        let mut bytes = GOLDEN.to_vec();
        for (word, value, how) in patches {
            // Numbers near the limits find more than random ones; the header gets its share.
            let word = word % if how == 3 { 160 } else { GOLDEN.len() / 8 };
            let value = match how {
                0 => value % 300,
                1 => u64::MAX - value % 3,
                _ => value,
            };
            bytes[word * 8..][..8].copy_from_slice(&value.to_le_bytes());
        }
        reseal(&mut bytes);
        if let Ok(trace) = Trace::from_bytes(&bytes[..length.unwrap_or(bytes.len())]) {
            use_all(&trace);
            // Names cannot contain terminal control characters either.
            let shown = format!("{trace:?}");
            assert!(!shown.contains(char::from(0x1B)));
        }
    }

    #[test]
    fn any_bytes_after_a_good_beginning_are_survived(
        garbage in prop::collection::vec(any::<u8>(), 0..8192),
        at in 0..GOLDEN.len(),
    ) {
        let mut bytes = GOLDEN.to_vec();
        let end = (at + garbage.len()).min(bytes.len());
        bytes[at..end].copy_from_slice(&garbage[..end - at]);
        if let Ok(trace) = Trace::from_bytes(&bytes) {
            use_all(&trace);
        }
    }
}
