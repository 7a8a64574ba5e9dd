//! Members that are killed, execute another program or are confused with their children.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use quo::CpuSet;
use quo::node::{Node, NodeError};

use super::crew::{
    Dice, Home, LONG, count, die, is_asleep, join, ledger, read, reap, spawn, until,
};
use super::{Skipped, Test};

pub const TESTS: &[Test] = &[
    ("a_member_killed_before_it_arrives_is_named", killed_before_it_arrives),
    ("a_member_killed_while_it_waits_is_named", killed_while_it_waits),
    ("a_member_killed_between_barriers_is_named", killed_between_barriers),
    ("members_killed_at_random_are_named_and_others_go_on", killed_at_random),
    ("two_members_killed_at_once_are_both_named", two_killed_at_once),
    ("a_death_breaks_the_named_barriers_it_concerns_only", deaths_and_named_barriers),
    ("a_member_killed_while_it_allocates_leaves_nothing", killed_while_it_allocates),
    ("what_a_dead_member_told_is_not_told_again", what_a_dead_member_told),
    ("a_dead_member_can_be_replaced", a_dead_member_can_be_replaced),
    ("a_member_that_executes_something_else_is_dead", executing_something_else),
    ("a_forked_child_is_not_the_member", a_forked_child_is_not_the_member),
    ("surviving_child_does_not_hide_the_members_death", orphans_hide_nothing),
    ("a_death_in_another_pid_namespace_is_found", another_pid_namespace),
    ("the_mask_of_a_dead_member_can_be_read", the_mask_of_a_dead_member),
];

fn dead_members(error: NodeError) -> Vec<usize> {
    match error {
        NodeError::DeadMember { members } => members,
        other => panic!("{other}"),
    }
}

/// Expels the members that the error names, and continues.
fn go_on(node: &Node, error: NodeError) -> Vec<usize> {
    let dead = dead_members(error);
    dead.iter().for_each(|&member| node.expel(member).unwrap());
    for _ in 0..50 {
        node.barrier_timeout(LONG).unwrap();
    }
    dead
}

/// Three members, of which 1 ends in `doom`; the others must find that in their barrier.
fn with_doomed(directory: &Path, doom: impl Fn(&Node), before: impl Fn(&Node)) {
    let found = &ledger(1)[0];
    let home = Home::new(directory, 3);
    let crew = home.crew(3, |node| {
        node.barrier_timeout(LONG).unwrap();
        if node.member() == 1 {
            doom(&node);
        } else {
            before(&node);
            let start = Instant::now();
            let error = node.barrier_timeout(LONG).unwrap_err();
            found.fetch_max(start.elapsed().as_millis() as u64, Ordering::SeqCst);
            assert_eq!(go_on(&node, error), [1]);
            assert_eq!(node.member_list(), [0, 2]);
            node.barrier_timeout(LONG).unwrap();
        }
    });
    join(crew[0]);
    join(crew[2]);
    reap(crew[1]);
    eprintln!("     found after {} ms", read(found));
}

fn killed_before_it_arrives(directory: &Path) -> Result<(), Skipped> {
    with_doomed(directory, |_| die(), |_| {});
    Ok(())
}

fn killed_between_barriers(directory: &Path) -> Result<(), Skipped> {
    // The others arrive when it is long dead.
    let seen = &ledger(1)[0];
    with_doomed(
        directory,
        |_| die(),
        |node| {
            until(|| node.dead_members() == [1]);
            count(seen);
            until(|| read(seen) == 2);
        },
    );
    Ok(())
}

fn killed_while_it_waits(directory: &Path) -> Result<(), Skipped> {
    let waits = &ledger(1)[0];
    let home = Home::new(directory, 3);
    let crew = home.crew(3, |node| {
        node.barrier_timeout(LONG).unwrap();
        if node.member() == 1 {
            count(waits);
            let _ = node.barrier_resting();
        } else {
            until(|| read(waits) == 2);
            // It has arrived: the first barrier may complete or break, but the same way for both.
            let error =
                node.barrier_timeout(LONG).and_then(|()| node.barrier_timeout(LONG)).unwrap_err();
            assert_eq!(go_on(&node, error), [1]);
        }
    });
    until(|| read(waits) == 1);
    until(|| is_asleep(crew[1]));
    kill(crew[1], Signal::SIGKILL).unwrap();
    count(waits);
    join(crew[0]);
    join(crew[2]);
    reap(crew[1]);
    Ok(())
}

/// Records how each of a member's calls ended: 1 completed, 2 and more the dead it named.
struct Diary<'a> {
    places: std::slice::Iter<'a, AtomicU64>,
}

impl Diary<'_> {
    fn note(&mut self, result: &Result<(), NodeError>) {
        let entry = match result {
            Ok(()) => 1,
            Err(NodeError::DeadMember { members }) => {
                members.iter().fold(2, |entry, member| entry | 4 << member)
            }
            Err(error) => panic!("{error}"),
        };
        if let Some(place) = self.places.next() {
            place.store(entry, Ordering::SeqCst);
        }
    }
}

fn killed_at_random(directory: &Path) -> Result<(), Skipped> {
    const CALLS: usize = 20_000;
    for seed in 0..25 {
        let members = 2 + seed as usize % 4;
        let mut dice = Dice::new(seed + 1);
        let victim = dice.roll(members as u64) as usize;
        let diaries = ledger(members * CALLS);
        let ready = &ledger(1)[0];
        let home = Home::new(directory, members);
        let crew = home.crew(members, |node| {
            let me = node.member();
            let mut diary = Diary { places: diaries[me * CALLS..][..CALLS].iter() };
            let mut dice = Dice::new(seed * 100 + me as u64);
            count(ready);
            let broken = loop {
                dice.dawdle(500);
                let result = match dice.roll(2) {
                    0 => node.barrier_timeout(LONG),
                    _ => node.barrier_resting(),
                };
                diary.note(&result);
                if let Err(error) = result {
                    break error;
                }
            };
            for member in dead_members(broken) {
                assert_eq!(member, victim);
                node.expel(member).unwrap();
            }
            for _ in 0..20 {
                let result = node.barrier_timeout(LONG);
                diary.note(&result);
                result.unwrap();
            }
        });
        until(|| read(ready) == members as u64);
        // Sleeps: the kill must land anywhere.
        std::thread::sleep(Duration::from_micros(dice.roll(3_000)));
        kill(crew[victim], Signal::SIGKILL).unwrap();
        for (member, pid) in crew.into_iter().enumerate() {
            if member == victim { reap(pid) } else { join(pid) }
        }
        let survivors: Vec<usize> = (0..members).filter(|&member| member != victim).collect();
        for call in 0..CALLS {
            let entry = |member: usize| read(&diaries[member * CALLS + call]);
            let first = entry(survivors[0]);
            assert!(
                survivors.iter().all(|&member| entry(member) == first),
                "seed {seed}, call {call}: {:?}",
                survivors.iter().map(|&member| entry(member)).collect::<Vec<_>>()
            );
        }
    }
    Ok(())
}

fn two_killed_at_once(directory: &Path) -> Result<(), Skipped> {
    let seen = &ledger(1)[0];
    let home = Home::new(directory, 4);
    let crew = home.crew(4, |node| {
        node.barrier_timeout(LONG).unwrap();
        if node.member() % 2 == 1 {
            die();
        }
        until(|| node.dead_members() == [1, 3]);
        count(seen);
        until(|| read(seen) == 2);
        let error = node.barrier_timeout(LONG).unwrap_err();
        assert_eq!(dead_members(error), [1, 3]);
        // Until both are expelled, all members get the same error again.
        let error = node.barrier_timeout(LONG).unwrap_err();
        assert_eq!(go_on(&node, error), [1, 3]);
    });
    join(crew[0]);
    join(crew[2]);
    reap(crew[1]);
    reap(crew[3]);
    Ok(())
}

fn deaths_and_named_barriers(directory: &Path) -> Result<(), Skipped> {
    let home = Home::new(directory, 4);
    let crew = home.crew(4, |node| {
        let with_victim = node.named_barrier("with", &[0, 1, 3]);
        let without = node.named_barrier("without", &[0, 1, 2]);
        if let Ok(channel) = &with_victim {
            channel.barrier_timeout(LONG).unwrap();
        }
        if node.member() == 3 {
            die();
        }
        if let Ok(channel) = with_victim.as_ref().ok().filter(|_| node.member() != 2).ok_or(()) {
            assert_eq!(dead_members(channel.barrier_timeout(LONG).unwrap_err()), [3]);
            for _ in 0..20 {
                without.as_ref().unwrap().barrier_timeout(LONG).unwrap();
            }
            node.expel(3).unwrap();
            assert_eq!(channel.members(), [0, 1]);
            channel.barrier_timeout(LONG).unwrap();
        } else {
            for _ in 0..20 {
                without.as_ref().unwrap().barrier_timeout(LONG).unwrap();
            }
            until(|| node.expel(3).is_ok());
        }
        node.barrier_timeout(LONG).unwrap();
    });
    crew[..3].iter().copied().for_each(join);
    reap(crew[3]);
    Ok(())
}

fn killed_while_it_allocates(directory: &Path) -> Result<(), Skipped> {
    for seed in 0..30 {
        let mut dice = Dice::new(seed + 1);
        // Member 0 creates the memory's file.
        let victim = if dice.roll(2) == 0 { 0 } else { 2 };
        let ready = &ledger(1)[0];
        let home = Home::new(directory, 3);
        let crew = home.crew(3, |node| {
            count(ready);
            let error = loop {
                match node.allocate(10_000) {
                    Ok(memory) => assert_eq!(memory.all().len(), 30_000),
                    Err(error) => break error,
                }
            };
            assert_eq!(dead_members(error), [victim]);
            node.expel(victim).unwrap();
            assert_eq!(node.allocate(10).unwrap().all().len(), 20);
        });
        until(|| read(ready) == 3);
        // Sleeps: the kill must land anywhere.
        std::thread::sleep(Duration::from_micros(dice.roll(2_000)));
        kill(crew[victim], Signal::SIGKILL).unwrap();
        for (member, pid) in crew.into_iter().enumerate() {
            if member == victim { reap(pid) } else { join(pid) }
        }
        assert_eq!(std::fs::read_dir(directory).unwrap().count(), 0, "seed {seed}");
    }
    Ok(())
}

fn what_a_dead_member_told(directory: &Path) -> Result<(), Skipped> {
    let [waits, killed, seen] = ledger(3) else { unreachable!() };
    let home = Home::new(directory, 3);
    let crew = home.crew(3, |node| {
        if node.member() == 1 {
            count(waits);
            let _ = node.exchange(b"last words");
            unreachable!("it is killed while it waits");
        }
        until(|| read(killed) == 1);
        until(|| node.dead_members() == [1]);
        count(seen);
        until(|| read(seen) == 2);
        // Its entry is on the board that the next attempts use again.
        let error = node.exchange(b"first").err().unwrap();
        assert_eq!(dead_members(error), [1]);
        node.expel(1).unwrap();
        let told = node.exchange(b"second").unwrap();
        let expected = [0, 2].map(|member| (member, &b"second"[..]));
        assert_eq!(told.iter().collect::<Vec<_>>(), expected);
    });
    until(|| read(waits) == 1);
    until(|| is_asleep(crew[1]));
    kill(crew[1], Signal::SIGKILL).unwrap();
    count(killed);
    join(crew[0]);
    join(crew[2]);
    reap(crew[1]);
    Ok(())
}

fn a_dead_member_can_be_replaced(directory: &Path) -> Result<(), Skipped> {
    let home = Home::new(directory, 2);
    let victim = spawn(|| {
        let node = home.attach(1);
        node.exchange(b"old").unwrap();
        die();
    });
    let survivor = spawn(|| {
        let node = home.attach(0);
        node.exchange(b"").unwrap();
        let error = node.barrier_timeout(LONG).unwrap_err();
        assert_eq!(dead_members(error), [1]);
        // Not before it is expelled.
        let taken = Node::attach(&home.name, &home.directory, 1).unwrap_err();
        assert!(matches!(taken, NodeError::MemberTaken { member: 1 }), "{taken}");
        node.expel(1).unwrap();
        let told = node.exchange(b"").unwrap();
        assert_eq!(told.iter().count(), 1);
        drop(told);
        let successor = spawn(|| {
            let node = home.attach(1);
            let told = node.exchange(b"new").unwrap();
            assert_eq!(told.of(0), Some(&b""[..]));
        });
        until(|| node.members() == 2);
        let told = node.exchange(b"").unwrap();
        assert_eq!(told.of(1), Some(&b"new"[..]));
        drop(told);
        join(successor);
        // It has left in order.
        node.barrier_timeout(LONG).unwrap();
    });
    join(survivor);
    reap(victim);
    Ok(())
}

fn executing_something_else(directory: &Path) -> Result<(), Skipped> {
    let home = Home::new(directory, 2);
    let crew = home.crew(2, |node| {
        node.barrier_timeout(LONG).unwrap();
        if node.member() == 0 {
            assert_eq!(dead_members(node.barrier_timeout(LONG).unwrap_err()), [1]);
            node.expel(1).unwrap();
        } else {
            nix::unistd::execv(c"/bin/sleep", &[c"sleep", c"100"]).unwrap();
        }
    });
    join(crew[0]);
    kill(crew[1], Signal::SIGKILL).unwrap();
    reap(crew[1]);
    Ok(())
}

fn a_forked_child_is_not_the_member(directory: &Path) -> Result<(), Skipped> {
    let home = Home::new(directory, 2);
    let crew = home.crew(2, |node| {
        let memory = node.allocate(1).unwrap();
        let channel = node.named_barrier("both", &[0, 1]).unwrap();
        join(spawn(|| {
            let me = node.member();
            let forked = |error| matches!(error, NodeError::Forked { member } if member == me);
            assert!(forked(node.barrier().unwrap_err()));
            assert!(forked(node.exchange(b"x").unwrap_err()));
            assert!(forked(channel.barrier().unwrap_err()));
            assert!(forked(node.publish_mask(&CpuSet::new()).unwrap_err()));
            assert!(forked(node.leave().unwrap_err()));
            assert!(node.is_alive(0) && node.is_alive(1), "what it sees is true");
            // The memory is shared with children like any other.
            // SAFETY: its parent waits meanwhile.
            unsafe { memory.local().as_ptr().write(7) };
        }));
        // SAFETY: the child has ended.
        assert_eq!(unsafe { memory.local().as_slice() }, [7]);
        // A child that drops the node, closes its files and ends has changed nothing.
        let mut node = Some(node);
        join(spawn(|| drop(node.take())));
        let node = node.unwrap();
        channel.barrier_timeout(LONG).unwrap();
        node.barrier_timeout(LONG).unwrap();
        assert!(node.is_alive(1 - node.member()));
        node.barrier_timeout(LONG).unwrap();
    });
    crew.into_iter().for_each(join);
    Ok(())
}

fn orphans_hide_nothing(directory: &Path) -> Result<(), Skipped> {
    let orphan = &ledger(1)[0];
    let home = Home::new(directory, 2);
    let crew = home.crew(2, |node| {
        node.barrier_timeout(LONG).unwrap();
        if node.member() == 1 {
            let child = spawn(|| {
                // Holds the inherited mapping and descriptors until the end of the test.
                until(|| read(orphan) == u64::MAX);
                orphan.store(0, Ordering::SeqCst);
            });
            orphan.store(child.as_raw() as u64, Ordering::SeqCst);
            die();
        }
        assert_eq!(dead_members(node.barrier_timeout(LONG).unwrap_err()), [1]);
        let child = Pid::from_raw(read(orphan) as i32);
        kill(child, None).expect("the child still lives");
        orphan.store(u64::MAX, Ordering::SeqCst);
        until(|| read(orphan) == 0);
    });
    join(crew[0]);
    reap(crew[1]);
    Ok(())
}

fn another_pid_namespace(directory: &Path) -> Result<(), Skipped> {
    if !nix::unistd::geteuid().is_root() {
        return Err(Skipped("making a PID namespace needs root"));
    }
    let home = Home::new(directory, 2);
    let keeper = spawn(|| {
        unshare(CloneFlags::CLONE_NEWPID).unwrap();
        let victim = spawn(|| {
            let node = home.attach(1);
            assert_eq!(node.member_process(1).unwrap().id, 1, "the first of its namespace");
            node.barrier_timeout(LONG).unwrap();
            // The first process of a namespace can only be killed from outside.
            nix::unistd::pause();
        });
        let node = home.attach(0);
        node.barrier_timeout(LONG).unwrap();
        let [mine, its] = [0, 1].map(|member| node.member_process(member).unwrap());
        assert_ne!(mine.namespace, its.namespace);
        kill(victim, Signal::SIGKILL).unwrap();
        assert_eq!(dead_members(node.barrier_timeout(LONG).unwrap_err()), [1]);
        reap(victim);
    });
    join(keeper);
    Ok(())
}

fn the_mask_of_a_dead_member(directory: &Path) -> Result<(), Skipped> {
    for seed in 0..20 {
        let masks = [CpuSet::from_range(0..640), CpuSet::from_range(1_000..1_100)];
        let ready = &ledger(1)[0];
        let home = Home::new(directory, 2);
        let crew = home.crew(2, |node| {
            if node.member() == 1 {
                node.publish_mask(&masks[0]).unwrap();
                count(ready);
                for round in 0_usize.. {
                    node.publish_mask(&masks[round % 2]).unwrap();
                }
            }
            until(|| node.dead_members() == [1]);
            assert!(masks.contains(&node.mask_of(1).unwrap().unwrap()));
            node.expel(1).unwrap();
        });
        until(|| read(ready) == 1);
        // Sleeps: the kill must land anywhere.
        std::thread::sleep(Duration::from_micros(Dice::new(seed + 1).roll(500)));
        kill(crew[1], Signal::SIGKILL).unwrap();
        join(crew[0]);
        reap(crew[1]);
    }
    Ok(())
}
