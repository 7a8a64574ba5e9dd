use std::time::Duration;

use super::*;
use crate::plan::{Machine, Moment, Strike};

/// Returns a plan in which three members pass two barriers and member 2 is killed.
fn plan() -> Plan {
    Plan {
        seed: 0,
        round: 0,
        members: 3,
        machine: Machine::Live,
        own_world: false,
        stray: None,
        bound: false,
        threads: 0,
        reap: true,
        parts: vec![vec![0, 1]],
        stages: vec![Stage::Create, Stage::Barrier, Stage::Barrier, Stage::Free],
        fate: Fate::Kill,
        strikes: vec![Strike { victim: 2, stage: 1, moment: Moment::Before }],
    }
}

fn good() -> Outcome {
    Outcome::Good(0)
}

/// Returns the journal of a member with these outcomes of the stages.
fn journal(outcomes: &[Outcome]) -> Vec<Entry> {
    let lines = outcomes.iter().enumerate();
    lines
        .flat_map(|(stage, outcome)| {
            [Entry::Begin(stage, 0), Entry::End(stage, 0, outcome.clone())]
        })
        .collect()
}

/// Returns the journal of a member that finishes the script.
fn survivor(barriers: [Outcome; 2]) -> Vec<Entry> {
    let [first, second] = barriers;
    let mut entries = journal(&[good(), first, second, good()]);
    entries.push(Entry::Finished);
    entries
}

/// Judges the two others with these outcomes of the barriers, and the victim's journal.
fn verdict(first: [Outcome; 2], second: [Outcome; 2], victim: Vec<Entry>) -> Vec<String> {
    let endings = vec![Ending::Exited(0), Ending::Exited(0), Ending::Killed(SIGKILL)];
    let journals = vec![survivor(first), survivor(second), victim];
    judge(&plan(), &Evidence { journals, endings })
}

fn dead() -> Outcome {
    Outcome::Dead(vec![2])
}

fn only(complaints: &[String], part: &str) {
    assert!(
        !complaints.is_empty() && complaints.iter().all(|text| text.contains(part)),
        "{complaints:?}"
    );
}

#[test]
fn death_named_once_by_everyone_is_right() {
    let never_came = journal(&[good()]);
    assert_eq!(verdict([dead(), good()], [dead(), good()], never_came), [""; 0]);
    let mut inside = journal(&[good()]);
    inside.push(Entry::Begin(1, 0));
    // The victim may have arrived or not, as long as the others agree.
    assert_eq!(verdict([dead(), good()], [dead(), good()], inside.clone()), [""; 0]);
    assert_eq!(verdict([good(), dead()], [good(), dead()], inside), [""; 0]);
}

#[test]
fn a_barrier_that_completes_without_the_dead_is_found() {
    let complaints = verdict([good(), dead()], [good(), dead()], journal(&[good()]));
    only(&complaints, "without [2], who never came");
}

#[test]
fn members_that_are_told_different_things_are_found() {
    let mut inside = journal(&[good()]);
    inside.push(Entry::Begin(1, 0));
    let complaints = verdict([dead(), good()], [good(), dead()], inside);
    assert!(complaints[0].contains("differ on stage 1"), "{complaints:?}");
}

#[test]
fn a_death_that_is_never_told_is_found() {
    let complaints = verdict([good(), good()], [good(), good()], journal(&[good(), good()]));
    only(&complaints, "stage 2 call 0 (Barrier) without [2]");
}

#[test]
fn wrong_names_are_found() {
    let wrong = || Outcome::Dead(vec![1, 2]);
    let complaints = verdict([wrong(), good()], [dead(), good()], journal(&[good()]));
    only(&complaints, "member 0 takes [1, 2] for dead");
    // Members that ended the barrier well are no reason for it to fail.
    let complaints = verdict([dead(), good()], [dead(), good()], journal(&[good(), good()]));
    assert!(complaints.iter().any(|text| text.contains("it could be []")), "{complaints:?}");
}

#[test]
fn death_named_again_after_its_expulsion_is_found() {
    let complaints = verdict([dead(), dead()], [dead(), dead()], journal(&[good()]));
    only(&complaints, "stage 2 call 0 (Barrier); it could be []");
}

#[test]
fn a_timeout_without_a_short_limit_is_found() {
    let late = || Outcome::TimedOut;
    let complaints = verdict([late(), dead()], [late(), dead()], journal(&[good()]));
    only(&complaints, "timed out at stage 1");
}

#[test]
fn hanging_and_wrongly_ended_members_are_found() {
    let mut evidence = Evidence {
        journals: vec![journal(&[good()]), survivor([dead(), good()]), journal(&[good()])],
        endings: vec![
            Ending::Hung("asleep".to_owned()),
            Ending::Exited(0),
            Ending::Killed(SIGKILL),
        ],
    };
    only(&judge(&plan(), &evidence), "member 0 hangs: asleep");
    evidence.journals[0] = survivor([dead(), good()]);
    evidence.endings[0] = Ending::Killed(11);
    only(&judge(&plan(), &evidence), "member 0 ended otherwise than it should: Killed(11)");
    evidence.endings[0] = Ending::Exited(0);
    evidence.endings[2] = Ending::Exited(0);
    only(&judge(&plan(), &evidence), "member 2 ended otherwise");
}

#[test]
fn what_members_find_themselves_is_passed_on() {
    let mut entries = journal(&[good(), dead(), good(), good()]);
    entries.push(Entry::Complaint("a mask".to_owned()));
    let evidence = Evidence {
        journals: vec![entries, survivor([dead(), good()]), journal(&[good()])],
        endings: vec![Ending::Exited(1), Ending::Exited(0), Ending::Killed(SIGKILL)],
    };
    assert_eq!(judge(&plan(), &evidence), ["member 0: a mask"]);
}

#[test]
fn nobody_waits_for_a_victim_that_had_left() {
    let who = vec![2];
    let away = Plan {
        stages: vec![Stage::Create, Stage::Away { who, barriers: 1 }, Stage::Barrier, Stage::Free],
        ..plan()
    };
    let mut gone = journal(&[good()]);
    gone.push(Entry::Begin(1, local_call(0, false)));
    let judged = |barriers: [Outcome; 2], victim: &[Entry]| {
        judge(
            &away,
            &Evidence {
                journals: vec![survivor(barriers.clone()), survivor(barriers), victim.to_vec()],
                endings: vec![Ending::Exited(0), Ending::Exited(0), Ending::Killed(SIGKILL)],
            },
        )
    };
    // Struck while it left: either outcome is allowed, if all agree.
    assert_eq!(judged([good(), good()], &gone), [""; 0]);
    assert_eq!(judged([dead(), good()], &gone), [""; 0]);
    gone.push(Entry::End(1, local_call(0, false), good()));
    assert_eq!(judged([good(), good()], &gone), [""; 0]);
    only(&judged([dead(), good()], &gone), "it could be []");
    gone.push(Entry::Begin(1, local_call(0, true)));
    gone.push(Entry::End(1, local_call(0, true), good()));
    // The victim was back.
    assert_eq!(judged([good(), dead()], &gone), [""; 0]);
    only(&judged([good(), good()], &gone), "without [2]");
}

#[test]
fn who_is_expelled_while_in_line_is_named_once_more() {
    let stages = vec![
        Stage::Create,
        Stage::Away { who: vec![0, 1], barriers: 1 },
        Stage::Part(0),
        Stage::Barrier,
        Stage::Barrier,
        Stage::Free,
    ];
    let line = Plan { parts: vec![vec![0, 1, 2]], stages, ..plan() };
    let judged = |[first, second]: [Outcome; 2]| {
        let survivor = || {
            let mut entries =
                journal(&[good(), good(), dead(), first.clone(), second.clone(), good()]);
            entries.retain(|entry| !matches!(entry, Entry::Begin(1, _) | Entry::End(1, ..)));
            entries.push(Entry::Finished);
            entries
        };
        let mut victim = journal(&[good()]);
        victim.push(Entry::Begin(1, 0));
        let endings = vec![Ending::Exited(0), Ending::Exited(0), Ending::Killed(SIGKILL)];
        judge(&line, &Evidence { journals: vec![survivor(), survivor(), victim], endings })
    };
    assert_eq!(judged([good(), good()]), [""; 0]);
    assert_eq!(judged([dead(), good()]), [""; 0]);
    only(&judged([dead(), dead()]), "stage 4 call 0 (Barrier); it could be []");
}

#[test]
fn stopped_and_slow_members_are_not_to_be_named() {
    let slow = Plan { fate: Fate::Slow(Duration::from_secs(1)), ..plan() };
    let evidence = Evidence {
        journals: vec![survivor([dead(), good()]); 3],
        endings: vec![Ending::Exited(0); 3],
    };
    only(&judge(&slow, &evidence), "takes [2] for dead");
}

#[test]
fn member_expelled_by_one_ahead_is_not_missed() {
    let plan = Plan {
        parts: vec![vec![1, 2]],
        stages: vec![Stage::Create, Stage::Part(0), Stage::Barrier, Stage::Free],
        ..plan()
    };
    let outside = |second: Outcome| {
        let mut entries = survivor([good(), second]);
        entries.retain(|entry| !matches!(entry, Entry::Begin(1, _) | Entry::End(1, ..)));
        entries
    };
    let judged = |second: fn() -> Outcome| {
        judge(
            &plan,
            &Evidence {
                journals: vec![outside(second()), survivor([good(), second()]), journal(&[good()])],
                endings: vec![Ending::Exited(0), Ending::Exited(0), Ending::Killed(SIGKILL)],
            },
        )
    };
    assert_eq!(judged(dead), [""; 0]);
    assert!(!judged(good).is_empty());
}
