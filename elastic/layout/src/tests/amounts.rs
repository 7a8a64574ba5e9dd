//! Amounts of memory, messages and seconds.

use super::*;

#[test]
fn part_of_a_rank_has_its_memory_and_amounts() {
    let old = Distribution::block(12, Ranks::first(2)).expect("ranks");
    let new = Distribution::block(12, Ranks::first(3)).expect("ranks");
    let schedule = Schedule::between(&old, &new, 8).expect("shapes fit");
    let part = schedule.of(0);
    assert_eq!((part.old_bytes(), part.new_bytes()), (48, 32));
    let own = Statistics {
        steps: part.steps().len(),
        messages: 1,
        bytes_moved: 16,
        bytes_kept: 32,
        largest_message: 16,
    };
    assert_eq!(part.statistics(), own);
    let last = schedule.of(2);
    assert_eq!((last.old_bytes(), last.new_bytes()), (0, 32));
    assert_eq!(last.statistics().bytes_moved, 0);
    assert_eq!(schedule.of(3).statistics(), Statistics::default());
}

#[test]
fn seconds_are_those_of_the_largest_message_in_each_step() {
    let link = Link { latency: 2.0, per_byte: 0.5 };
    assert!((link.seconds(3, 10) - 21.0).abs() < 1e-12);
    let moved = Statistics { steps: 3, largest_message: 10, ..Statistics::default() };
    assert!((moved.seconds(link) - 21.0).abs() < 1e-12);
}

#[test]
fn compressed_index_is_returned_as_given() {
    let matrix = Compressed::new(&[0, 2, 2, 5]).expect("it ascends");
    assert_eq!(matrix.pointers(), [0, 2, 2, 5]);
    assert_eq!((matrix.lines(), matrix.nonzeros()), (3, 5));
}

#[test]
fn parts_of_a_message_are_as_large_as_allowed() {
    let old = Distribution::block_rows(100, 100, Ranks::range(0..1)).expect("ranks");
    let new = Distribution::block_rows(100, 100, Ranks::range(1..2)).expect("ranks");
    let schedule = Schedule::between(&old, &new, 8).expect("shapes fit");
    let part = schedule.of(0);
    let message = part.steps()[0].send().expect("all is sent");
    let sizes =
        |bytes: usize| -> Vec<usize> { message.split(bytes).map(|part| part.bytes()).collect() };
    assert_eq!(sizes(80_000), [80_000]);
    assert_eq!(sizes(8_000), [8_000; 10]);
    // Parts of a row if a whole row is too large.
    assert_eq!(sizes(400), [400; 200]);
    assert_eq!(sizes(1), [8; 10_000]);
}
