//! The process is killed after single stores of a history, and the trace is read: after each of the
//! first few thousand stores, which include every kind, then after every fifth.

use std::cell::Cell;

use super::*;
use crate::layout::{BIN_SHIFT, flags};
use crate::read::{Trace, TraceError};

thread_local! {
    /// Number of stores until this thread counts as killed; `None` if it is never killed.
    static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Called before `stores` stores without an order among them. Returns `None` if all of them happen,
/// otherwise a function that selects those that do.
pub(super) fn survive(stores: usize) -> Option<impl Fn(usize) -> bool> {
    let left = LEFT.get()?;
    LEFT.set(Some(left.saturating_sub(stores)));
    // Any of them, but as many as are left.
    (left < stores).then_some(move |store| (store * 7 + left) % stores < left)
}

fn geometry() -> Geometry {
    Geometry {
        components: 20,
        objects: 4,
        notes: 3,
        names: 2,
        phases: 3,
        bins: 4,
        segments: 2,
        bitmap_bytes: 16,
        sites: 2,
        touches: 2,
        times: 0,
        loops: 0,
        handles: 0,
    }
}

const SIZE: usize = 13 * 4096;
const OPERATIONS: u64 = 220;

/// Performs operation `number` of a history that contains every kind of row, fills the ring twice,
/// and folds the timeline several times.
fn operate(writer: &mut Writer<'_>, number: u64) {
    let index = (number / 11 % 2) as u32;
    let time = number << (BIN_SHIFT - 3);
    match number % 11 {
        0 => {
            let text = if number < 100 { "early" } else { "late" };
            writer.set_component(
                index as u16,
                &ComponentRow { name: text.into(), ..Default::default() },
            );
        }
        1 => writer.set_object(index, &ObjectRow { base: number, ..Default::default() }),
        2 => drop(writer.add_note(time, index, "said")),
        3 => drop(writer.intern(["MPI_Send", "MPI_Recv"][index as usize])),
        4 => writer.set_phase(time, index, &PhaseRow { entries: number, ..Default::default() }),
        5 => writer.set_phase_peaks(index, &[number; 20], &[number; 20]),
        6 => {
            let head = SummaryHead { time, ..SummaryHead::default() };
            writer.publish_summary(&head, &[SummaryRow { owned: number, ..Default::default() }; 7]);
        }
        7 => writer.set_segment(index, &SegmentRow::default(), &[number as u8; 9]),
        8 => writer.set_site(time, index, &SiteRow { live: number, ..Default::default() }),
        9 => writer.set_flags(1 << (number / 11), flags::MPI_SEEN),
        _ => writer.phase_edge(time, index, number.is_multiple_of(2)),
    }
    let rows: [_; 19] = std::array::from_fn(|component| ComponentSample {
        component: component as u16,
        owned: number + 1,
        resident: (number % 7) << 12,
        shared: number % 2,
        ..ComponentSample::default()
    });
    writer.sample(
        &SampleHead { time, flags: sample::FULL, kernel_resident: time, walked: number },
        &rows,
    );
}

/// Returns the remains of `operations` if the process is killed after `stores` stores, and how many of them were
/// complete by then.
fn run(memory: &mut Buffer, stores: usize) -> (Option<u64>, usize) {
    memory.clear();
    LEFT.set(Some(stores));
    let mut writer = Writer::create(memory.bytes_mut(), &Identity::default(), &geometry()).unwrap();
    let mut complete = None;
    for number in 0..OPERATIONS {
        if LEFT.get() == Some(0) {
            break;
        }
        complete = Some(number);
        operate(&mut writer, number);
    }
    let left = LEFT.take().unwrap();
    (complete, left)
}

#[test]
fn a_kill_at_any_store_loses_nothing_that_was_complete() {
    let mut memory = Buffer::new(SIZE);
    let (_, left) = run(&mut memory, usize::MAX);
    let stores = usize::MAX - left;
    assert!(
        Trace::from_bytes(memory.bytes()).unwrap().state.blocks > 12,
        "the ring was not filled twice"
    );

    // Expected content after 0, 1, 2 ... operations.
    let mut expected = Vec::new();
    let mut whole = Buffer::new(SIZE);
    for count in 0..=OPERATIONS {
        whole.clear();
        let mut writer =
            Writer::create(whole.bytes_mut(), &Identity::default(), &geometry()).unwrap();
        (0..count).for_each(|number| operate(&mut writer, number));
        expected.push(Trace::from_bytes(whole.bytes()).unwrap());
    }
    assert!(expected.iter().all(|trace| trace.faults.is_empty()));

    let all = (0..stores).filter(|store| *store < 4000 || store % 5 == 0);
    for killed_after in all {
        let (begun, _) = run(&mut memory, killed_after);
        let trace = match Trace::from_bytes(memory.bytes()) {
            Err(TraceError::Unfinished) if begun.is_none() => continue,
            other => other.unwrap(),
        };
        let begun = begun.unwrap_or(0) as usize;
        check(&trace, &expected[begun], &expected[begun + 1], killed_after);
    }
}

/// Checks that everything is as before or as after the operation during which the process was
/// killed.
fn check(trace: &Trace, before: &Trace, after: &Trace, killed_after: usize) {
    let place = format!("killed after {killed_after} stores");
    assert_eq!(trace.faults, [], "{place}");
    macro_rules! either {
        ($($part:ident),*) => {$(
            assert!(trace.$part == before.$part || trace.$part == after.$part, "{place}: {}", stringify!($part));
        )*};
    }
    either!(components, objects, notes, names, summary, phases, phase_peaks, segments, sites);
    // Flags change before the sample of the same operation.
    assert!([before.state.flags, after.state.flags].contains(&trace.state.flags), "{place}");
    let held = |trace: &Trace| trace.history.samples().map(|(head, _)| head.time).max();
    assert!([held(before), held(after)].contains(&held(trace)), "{place}: {:?}", held(trace));
    for (head, rows) in trace.history.samples() {
        let in_full = head.flags & sample::FULL == 0 || rows.len() == 19;
        assert!(in_full, "{place}");
    }
    let edges = |trace: &Trace| trace.history.phase_edges().last().copied();
    assert!([edges(before), edges(after)].contains(&edges(trace)), "{place}");

    let sum =
        |trace: &Trace| trace.timeline.iter().map(|bin| u64::from(bin.head.samples)).sum::<u64>();
    assert!([sum(before), sum(after)].contains(&sum(trace)), "{place}: {} samples", sum(trace));
    let greatest = |trace: &Trace| trace.timeline.iter().map(|bin| bin.head.total_max).max();
    assert!([greatest(before), greatest(after)].contains(&greatest(trace)), "{place}");
    for pair in trace.timeline.windows(2) {
        assert!(pair[0].end() <= pair[1].start, "{place}");
        // Bins were full of samples, so none may be missing in between.
        assert_eq!(pair[0].end(), pair[1].start, "{place}");
    }
    let width = |bin: &crate::read::Bin| bin.width >> (BIN_SHIFT - 3);
    let closed = trace.timeline.iter().rev().skip(1);
    assert!(closed.into_iter().all(|bin| u64::from(bin.head.samples) == width(bin)), "{place}");
}
