//! Barriers, exchanges and memory among living processes.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use quo::CpuSet;
use quo::node::{Node, NodeError, NodeOptions, WaitKind};

use super::crew::{Dice, Home, LONG, count, join, ledger, on_each, read, spawn, until};
use super::{Skipped, Test};

pub const TESTS: &[Test] = &[
    ("nobody_passes_early", nobody_passes_early),
    ("nobody_passes_early_with_pthreads", nobody_passes_early_with_pthreads),
    ("all_kinds_of_barriers_pair", all_kinds_of_barriers_pair),
    ("fast_member_does_not_overwrite_a_slow_readers_data", slow_readers),
    ("every_call_ends_alike_whoever_times_out", every_call_ends_alike_whoever_times_out),
    ("a_stopped_member_is_not_dead", a_stopped_member_is_not_dead),
    ("named_barriers_run_at_the_same_time", named_barriers_run_at_the_same_time),
    ("members_come_and_go", members_come_and_go),
    ("masks_are_whole_while_they_change", masks_are_whole_while_they_change),
    ("memory_is_one_piece", memory_is_one_piece),
];

fn nobody_passes_early(directory: &Path) -> Result<(), Skipped> {
    for (members, rounds) in [(1, 2_000), (2, 20_000), (3, 2_000), (4, 1_000), (8, 400), (16, 200)]
    {
        early(directory, members, rounds, WaitKind::Futex);
    }
    Ok(())
}

fn nobody_passes_early_with_pthreads(directory: &Path) -> Result<(), Skipped> {
    for (members, rounds) in [(2, 1_000), (5, 200)] {
        early(directory, members, rounds, WaitKind::Pthread);
    }
    Ok(())
}

fn early(directory: &Path, members: u64, rounds: u64, wait: WaitKind) {
    let arrivals = &ledger(1)[0];
    let home = Home::with(NodeOptions {
        directory: directory.to_owned(),
        wait,
        ..NodeOptions::new(members as usize)
    });
    let crew = home.crew(members as usize, |node| {
        let mut dice = Dice::new(node.member() as u64 + 1);
        for round in 1..=rounds {
            dice.dawdle(300);
            count(arrivals);
            node.barrier().unwrap();
            let seen = read(arrivals);
            // Others may be one round ahead by now, and no further.
            assert!((members * round..members * (round + 1)).contains(&seen), "{round}: {seen}");
        }
    });
    crew.into_iter().for_each(join);
    assert_eq!(read(arrivals), members * rounds);
}

fn all_kinds_of_barriers_pair(directory: &Path) -> Result<(), Skipped> {
    on_each(directory, 3, |node| {
        let mut dice = Dice::new(node.member() as u64 + 7);
        for round in 0..2_000_u64 {
            match dice.roll(3) {
                0 => node.barrier().unwrap(),
                1 => node.barrier_resting().unwrap(),
                _ => node.barrier_timeout(LONG).unwrap(),
            }
            node.set_spin_allowed(dice.roll(2) == 0);
            let told = node.exchange(&round.to_le_bytes()).unwrap();
            assert!(told.iter().all(|(_, bytes)| bytes == round.to_le_bytes()));
        }
    });
    Ok(())
}

fn slow_readers(directory: &Path) -> Result<(), Skipped> {
    on_each(directory, 4, |node| {
        let mut dice = Dice::new(node.member() as u64 + 3);
        for round in 0..1_500_usize {
            let length = (round + node.member()) % 257;
            let told = node.exchange(&vec![round as u8; length]).unwrap();
            // One reader at a time is slow.
            let slow = round % 4 == node.member();
            for (member, bytes) in told.iter() {
                assert_eq!(bytes.len(), (round + member) % 257);
                if slow {
                    dice.dawdle(2_000);
                }
                assert!(bytes.iter().all(|&byte| byte == round as u8));
            }
            assert_eq!(told.iter().count(), 4);
        }
    });
    Ok(())
}

/// Returns the outcome of a call as a number to record.
fn verdict(result: Result<(), NodeError>) -> u64 {
    match result {
        Ok(()) => 1,
        Err(NodeError::TimedOut) => 2,
        Err(error) => panic!("{error}"),
    }
}

fn every_call_ends_alike_whoever_times_out(directory: &Path) -> Result<(), Skipped> {
    for members in [2, 3, 6] {
        let rounds = 3_000 / members;
        let verdicts = ledger(members * rounds);
        on_each(directory, members, |node| {
            let mine = &verdicts[node.member() * rounds..][..rounds];
            let mut dice = Dice::new(node.member() as u64 + 11);
            for place in mine {
                dice.dawdle(3_000);
                let timeout = match dice.roll(4) {
                    0 => Duration::from_micros(dice.roll(60)),
                    _ => LONG,
                };
                place.store(verdict(node.barrier_timeout(timeout)), Ordering::SeqCst);
            }
        });
        for round in 0..rounds {
            let all: Vec<u64> =
                (0..members).map(|member| read(&verdicts[member * rounds + round])).collect();
            assert!(all.iter().all(|&one| one == all[0] && one != 0), "round {round}: {all:?}");
        }
        let completed = verdicts.iter().filter(|place| read(place) == 1).count();
        assert!((1..members * rounds).contains(&completed), "both endings were seen");
    }
    Ok(())
}

fn a_stopped_member_is_not_dead(directory: &Path) -> Result<(), Skipped> {
    let ready = &ledger(1)[0];
    let home = Home::new(directory, 2);
    let crew = home.crew(2, |node| {
        node.barrier().unwrap();
        if node.member() == 0 {
            count(ready);
            until(|| read(ready) == 2);
            // Longer than it takes to find a dead member.
            let error = node.barrier_timeout(Duration::from_millis(1_200)).unwrap_err();
            assert!(matches!(error, NodeError::TimedOut), "{error}");
            assert!(node.is_alive(1) && node.dead_members().is_empty());
            assert!(matches!(node.expel(1), Err(NodeError::NotDead { member: 1 })));
            count(ready);
        } else {
            // The member is stopped on the way to the barrier.
            until(|| read(ready) == 3);
            assert!(matches!(node.barrier(), Err(NodeError::TimedOut)));
        }
        node.barrier_timeout(LONG).unwrap();
    });
    until(|| read(ready) == 1);
    kill(crew[1], Signal::SIGSTOP).unwrap();
    count(ready);
    until(|| read(ready) == 3);
    kill(crew[1], Signal::SIGCONT).unwrap();
    crew.into_iter().for_each(join);
    Ok(())
}

fn named_barriers_run_at_the_same_time(directory: &Path) -> Result<(), Skipped> {
    on_each(directory, 6, |node| {
        let me = node.member();
        let (row, column) = (me / 3, me % 3);
        let rows: Vec<usize> = (0..3).map(|column| row * 3 + column).collect();
        let row_barrier = node.named_barrier("row", &rows).unwrap();
        let column_barrier = node.named_barrier("column", &[column, column + 3]).unwrap();
        for round in 0..300_usize {
            let told = row_barrier.exchange(&[round as u8, me as u8]).unwrap();
            let seen: Vec<(usize, u8)> =
                told.iter().map(|(member, bytes)| (member, bytes[1])).collect();
            assert_eq!(seen, rows.iter().map(|&m| (m, m as u8)).collect::<Vec<_>>());
            assert!(told.iter().all(|(_, bytes)| bytes[0] == round as u8));
            drop(told);
            if round % 3 == column {
                column_barrier.barrier_timeout(LONG).unwrap();
            }
            if round % 50 == 0 {
                node.barrier_timeout(LONG).unwrap();
            }
        }
    });
    Ok(())
}

fn members_come_and_go(directory: &Path) -> Result<(), Skipped> {
    let home = Home::new(directory, 2);
    let rounds = &ledger(1)[0];
    let crew: Vec<_> = (0..2)
        .map(|member| {
            spawn(|| {
                let node = home.attach(member);
                let mut all = 0;
                // Until the visitor has joined, stayed and left thirty times.
                while read(rounds) < 30 {
                    let told = node.exchange(&read(rounds).to_le_bytes()).unwrap();
                    all += told.iter().count();
                    let done = told.iter().any(|(_, count)| count == 30_u64.to_le_bytes());
                    drop(told);
                    if done {
                        break;
                    }
                }
                assert!(all > 0);
                node.leave().unwrap();
            })
        })
        .collect();
    for _ in 0..30 {
        join(spawn(|| {
            let node = home.attach(2);
            assert_eq!(node.exchange(&[0; 8]).unwrap().of(2), Some(&[0; 8][..]));
            count(rounds);
            node.leave().unwrap();
        }));
    }
    crew.into_iter().for_each(join);
    Ok(())
}

fn masks_are_whole_while_they_change(directory: &Path) -> Result<(), Skipped> {
    on_each(directory, 2, |node| {
        let masks = [CpuSet::from_range(0..640), CpuSet::from_range(1_000..1_100)];
        node.publish_mask(&masks[0]).unwrap();
        node.barrier().unwrap();
        for round in 0..20_000 {
            if node.member() == 0 {
                node.publish_mask(&masks[round % 2]).unwrap();
            } else {
                match node.mask_of(0) {
                    Ok(mask) => assert!(masks.contains(&mask.unwrap())),
                    Err(error) => assert!(matches!(error, NodeError::UnsteadyMask { .. })),
                }
            }
        }
        node.barrier_timeout(LONG).unwrap();
    });
    Ok(())
}

fn memory_is_one_piece(directory: &Path) -> Result<(), Skipped> {
    let bytes = |member: usize| [0, 1, 4_095, 70_001][member % 4];
    on_each(directory, 5, |node| {
        check_memory(&node, &[0, 1, 2, 3, 4], node.allocate(bytes(node.member())).unwrap(), bytes);
        let odd = [1, 3];
        if odd.contains(&node.member()) {
            let memory = node.allocate_among(&odd, bytes(node.member())).unwrap();
            assert_eq!(memory.range(1..=3).unwrap().len(), bytes(1) + bytes(3));
            assert_eq!(memory.members().collect::<Vec<_>>(), odd);
        }
        // None of the memory's files has a name by now.
        node.barrier_timeout(LONG).unwrap();
        assert_eq!(std::fs::read_dir(node.directory()).unwrap().count(), 0);
        node.barrier_timeout(LONG).unwrap();
    });
    Ok(())
}

fn check_memory(
    node: &Node,
    members: &[usize],
    memory: quo::node::SharedMemory,
    bytes: impl Fn(usize) -> usize,
) {
    let start = memory.all().as_ptr() as usize;
    let mut expected = start;
    for &member in members {
        let view = memory.of(member).unwrap();
        assert_eq!((view.as_ptr() as usize, view.len()), (expected, bytes(member)));
        expected += bytes(member);
    }
    assert_eq!(memory.all().len(), expected - start);
    let mine = memory.local();
    // SAFETY: each member writes its own part before the barrier and none after.
    unsafe { mine.as_mut_slice().fill(node.member() as u8 + 1) };
    node.barrier_timeout(LONG).unwrap();
    for &member in members {
        // SAFETY: nothing writes after the barrier.
        let seen = unsafe { memory.of(member).unwrap().as_slice() };
        assert!(seen.iter().all(|&byte| byte == member as u8 + 1));
    }
}
