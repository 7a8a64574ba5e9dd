//! Tests of the arbiter.

use super::*;
use crate::coordinator::UnitStatus;
use crate::model::change::{Event, Happening, RequestKind};
use crate::model::place::{Allowed, Placement};

/// Six processes on three nodes, two of them ranks.
fn arbiter() -> Arbiter {
    let job = Job {
        name: "test".to_owned(),
        hosts: ["n0", "n1", "n2"].map(str::to_owned).to_vec(),
        places: vec![0, 0, 1, 1, 2, 2],
        initial_ranks: 2,
        bounds: Bounds::new(1, 6, Allowed::Any).unwrap(),
        limits: Limits::default(),
        placement: None,
    };
    Arbiter::new(job, Journal::default()).unwrap()
}

fn ask(
    arbiter: &mut Arbiter,
    wish: RequestKind,
    on: &[&str],
    from: &[&str],
) -> Result<Turn, Cause> {
    let mut request = Request::new(wish, "test");
    request.on = on.iter().map(|&host| host.to_owned()).collect();
    request.from = from.iter().map(|&host| host.to_owned()).collect();
    arbiter.request(request).1
}

/// Announces the next request and carries it out.
fn go_through(arbiter: &mut Arbiter) -> Vec<usize> {
    let resize = arbiter.announce_next().unwrap();
    for step in [Step::Launched, Step::Ready] {
        arbiter.step(step);
    }
    arbiter.agreed(7);
    arbiter.step(Step::Begun);
    arbiter.moved(64);
    arbiter.ended(Ok(()));
    assert_eq!(arbiter.running(), resize.new);
    resize.new.clone()
}

fn ends(arbiter: &Arbiter) -> Vec<Event> {
    arbiter.journal.since(0).filter(|event| event.is_end()).cloned().collect()
}

#[test]
fn growth_appends_and_shrinking_takes_the_highest_ranks() {
    let mut arbiter = arbiter();
    ask(&mut arbiter, RequestKind::Size(5), &[], &[]).unwrap();
    assert_eq!(go_through(&mut arbiter), [0, 1, 2, 3, 4]);
    ask(&mut arbiter, RequestKind::Shrink(3), &[], &[]).unwrap();
    assert_eq!(go_through(&mut arbiter), [0, 1]);
    ask(&mut arbiter, RequestKind::Grow(1), &["n2"], &[]).unwrap();
    assert_eq!(go_through(&mut arbiter), [0, 1, 4]);
    ask(&mut arbiter, RequestKind::Move, &["n1"], &["n2"]).unwrap();
    assert_eq!(go_through(&mut arbiter), [0, 1, 2]);
    ask(&mut arbiter, RequestKind::Leave, &[], &["n1"]).unwrap();
    assert_eq!(go_through(&mut arbiter), [0, 1]);
    let ends = ends(&arbiter);
    assert_eq!(ends.iter().map(|end| end.size).collect::<Vec<_>>(), [5, 2, 3, 3, 2]);
    assert!(ends.iter().all(|end| end.what == Happening::Step(Step::Finalized)));
    assert_eq!(arbiter.status().hosts[0].ranks, [0, 1]);
}

#[test]
fn status_has_limits_and_time_of_the_last_resize() {
    let mut arbiter = arbiter();
    assert_eq!(arbiter.status().limits, Some(arbiter.job.bounds.up_to(6)));
    assert_eq!(arbiter.redistribution_seconds(), None);
    ask(&mut arbiter, RequestKind::Grow(1), &[], &[]).unwrap();
    go_through(&mut arbiter);
    let took = arbiter.redistribution_seconds().unwrap();
    let end = ends(&arbiter).pop().unwrap();
    assert_eq!(took, (end.steps[&Step::Finalized] - end.steps[&Step::Begun]) as f64 / 1e6);
    ask(&mut arbiter, RequestKind::Grow(1), &[], &[]).unwrap();
    arbiter.announce_next().unwrap();
    arbiter.ended(Err(Cause::new(CauseKind::Rejected, "")));
    assert_eq!(arbiter.redistribution_seconds(), Some(took), "of one that was done");
}

#[test]
fn returning_process_is_another_member_and_the_world_set_follows() {
    let mut arbiter = arbiter();
    let world = arbiter.registry.application();
    for wish in [RequestKind::Grow(1), RequestKind::Shrink(1), RequestKind::Grow(1)] {
        ask(&mut arbiter, wish, &[], &[]).unwrap();
        go_through(&mut arbiter);
    }
    assert_eq!(arbiter.member_of(2), Some(MemberId::new(3, 2)));
    let set = arbiter.registry.get(&world).unwrap();
    let members: Vec<String> = set.members().iter().map(|member| member.to_string()).collect();
    assert_eq!(members, ["0.0", "0.1", "3.2"]);
    assert_eq!((set.version(), set.epoch()), (3, 3));
    assert_eq!(arbiter.registry.sets().count(), 1, "deltas that have ended are gone");
}

#[test]
fn impossible_request_is_refused_at_once_and_changes_nothing() {
    let mut arbiter = arbiter();
    for (wish, on, from, kind) in [
        (RequestKind::Size(7), &[][..], &[][..], CauseKind::NoCapacity),
        (RequestKind::Grow(u32::MAX), &[], &[], CauseKind::NoCapacity),
        (RequestKind::Shrink(2), &[], &[], CauseKind::NotAllowed),
        (RequestKind::Size(0), &[], &[], CauseKind::NotAllowed),
        (RequestKind::Size(2), &[], &[], CauseKind::NotAllowed),
        (RequestKind::Size(1), &["n1"], &[], CauseKind::NotAllowed),
        (RequestKind::Grow(3), &["n1"], &[], CauseKind::NoCapacity),
        (RequestKind::Grow(1), &["n9"], &[], CauseKind::Unreachable),
        (RequestKind::Leave, &[], &["n0"], CauseKind::NotAllowed),
        (RequestKind::Leave, &[], &["n1"], CauseKind::NotAllowed),
        (RequestKind::Leave, &[], &[], CauseKind::NotAllowed),
        (RequestKind::Move, &["n1"], &["n0"], CauseKind::NotAllowed),
        (RequestKind::Shrink(1), &[], &["n1"], CauseKind::NoCapacity),
    ] {
        let cause = ask(&mut arbiter, wish, on, from).unwrap_err();
        assert_eq!(cause.kind, kind, "{wish:?} {on:?} {from:?}: {cause}");
    }
    assert_eq!(ends(&arbiter).len(), 13);
    assert!(arbiter.announce_next().is_none());
    assert_eq!(arbiter.running(), [0, 1]);
}

#[test]
fn refusals_of_sizes_name_the_number_asked_for() {
    let mut arbiter = arbiter();
    for (wish, detail) in [
        (RequestKind::Shrink(99), "99 ranks fewer were asked for"),
        (RequestKind::Grow(99), "99 ranks more were asked for"),
        (RequestKind::Size(99), "99 ranks were asked for"),
    ] {
        let cause = ask(&mut arbiter, wish, &[], &[]).unwrap_err();
        assert_eq!(cause.detail, format!("{detail}; there are 2, and there can be 1 to 6"));
    }
}

#[test]
fn started_units_have_small_numbers_in_status_and_errors() {
    let mut arbiter = arbiter();
    arbiter.running = (0..6).collect();
    arbiter.job.bounds = Bounds::new(1, 8, Allowed::Any).unwrap();
    let started = ResizePlan {
        number: 1,
        units: vec![2],
        new: (0..8).collect(),
        old: (0..6).collect(),
        ..ResizePlan::default()
    };
    let hosts = ["n0", "n1", "n2"].map(str::to_owned).to_vec();
    arbiter.take_places(&started, Some((hosts, vec![0, 0, 1, 1, 2, 2, 0, 0])));
    assert_eq!(arbiter.status().units, [UnitStatus { unit: UnitId(6), ranks: vec![6, 7] }]);
    let cause = ask(&mut arbiter, RequestKind::Shrink(1), &[], &[]).unwrap_err();
    assert!(cause.detail.contains("1 would cut unit 6,"), "{cause}");
}

#[test]
fn sizes_a_program_cannot_have_are_refused_with_the_nearest() {
    let mut arbiter = arbiter();
    arbiter.job.bounds = Bounds::new(1, 6, Allowed::PowerOfTwo).unwrap();
    let cause = ask(&mut arbiter, RequestKind::Size(3), &[], &[]).unwrap_err();
    assert_eq!(cause.kind, CauseKind::NotAllowed);
    assert!(cause.detail.contains("2 and 4"), "{cause}");
}

#[test]
fn requests_wait_and_those_become_impossible_are_aborted() {
    let mut arbiter = arbiter();
    ask(&mut arbiter, RequestKind::Grow(2), &[], &[]).unwrap();
    assert!(matches!(ask(&mut arbiter, RequestKind::Grow(3), &[], &[]), Ok(Turn::After(_))));
    assert!(matches!(ask(&mut arbiter, RequestKind::Grow(1), &[], &[]), Ok(Turn::After(_))));
    assert_eq!(go_through(&mut arbiter), [0, 1, 2, 3]);
    assert_eq!(go_through(&mut arbiter), [0, 1, 2, 3, 4], "three more did not fit, one does");
    let ends = ends(&arbiter);
    assert_eq!(ends[1].cause.as_ref().unwrap().kind, CauseKind::NoCapacity);
    assert_eq!(ends.len(), 3);
}

#[test]
fn aborted_resize_leaves_places_and_sets_unchanged() {
    let mut arbiter = arbiter();
    let before = arbiter.status().hosts;
    ask(&mut arbiter, RequestKind::Move, &["n1"], &["n0"]).unwrap_err();
    ask(&mut arbiter, RequestKind::Grow(2), &[], &[]).unwrap();
    arbiter.announce_next().unwrap();
    assert_eq!(arbiter.member_of(2), Some(MemberId::new(2, 2)));
    arbiter.ended(Err(Cause::new(CauseKind::JoinerLost, "2.2")));
    assert_eq!(arbiter.running(), [0, 1]);
    assert_eq!(arbiter.status().hosts, before);
    assert_eq!(arbiter.member_of(2), None);
    let world = arbiter.registry.get(&arbiter.registry.application()).unwrap();
    assert_eq!((world.members().len(), world.version()), (2, 0));
    assert_eq!(ends(&arbiter).last().unwrap().what, Happening::Step(Step::Aborted));
}

#[test]
fn only_what_waits_can_be_taken_back() {
    let mut arbiter = arbiter();
    ask(&mut arbiter, RequestKind::Grow(1), &[], &[]).unwrap();
    ask(&mut arbiter, RequestKind::Grow(1), &[], &[]).unwrap();
    arbiter.announce_next().unwrap();
    assert!(arbiter.cancel(RequestId(1)).is_err());
    arbiter.cancel(RequestId(2)).unwrap();
    assert!(arbiter.cancel(RequestId(2)).is_err());
    assert!(arbiter.cancel(RequestId(9)).is_err());
}

/// One launched process on a node; up to six processes can be spawned, at most two of them on `b`.
fn growing() -> Arbiter {
    let limits = Limits {
        most: 3,
        named: 6,
        slots: vec![("b".to_owned(), 2)],
        unit: 2,
        ..Limits::default()
    };
    let job = Job {
        name: "test".to_owned(),
        hosts: vec!["a".to_owned()],
        places: vec![0],
        initial_ranks: 1,
        bounds: Bounds::new(1, 6, Allowed::Any).unwrap(),
        limits,
        placement: None,
    };
    Arbiter::new(job, Journal::default()).unwrap()
}

/// Announces the next request and carries it out, with these hosts and places afterwards.
fn go_to(arbiter: &mut Arbiter, hosts: &[&str], places: &[usize]) -> Arc<ResizePlan> {
    let resize = arbiter.announce_next().unwrap();
    go_on_to(arbiter, hosts, places);
    resize
}

/// Carries out the announced resize.
fn go_on_to(arbiter: &mut Arbiter, hosts: &[&str], places: &[usize]) {
    arbiter.step(Step::Launched);
    arbiter.step(Step::Ready);
    arbiter.agreed(7);
    arbiter.step(Step::Begun);
    let hosts = hosts.iter().map(|&host| host.to_owned()).collect();
    arbiter.ended_at(Ok(()), Some((hosts, places.to_vec())));
}

#[test]
fn processes_start_on_named_hosts_as_one_unit_each() {
    let mut arbiter = growing();
    ask(&mut arbiter, RequestKind::Grow(5), &["b", "10.0.0.3"], &[]).unwrap();
    let resize = go_to(&mut arbiter, &["a", "b", "c"], &[0, 1, 1, 2, 2, 2]);
    assert_eq!(resize.units, [2, 2, 1]);
    assert_eq!(resize.hosts, ["b", "10.0.0.3", "10.0.0.3"]);
    assert_eq!(ends(&arbiter).last().unwrap().size, 6);
    // By the launcher's name, or by its own.
    ask(&mut arbiter, RequestKind::Leave, &[], &["10.0.0.3"]).unwrap();
    assert_eq!(go_to(&mut arbiter, &["a", "b"], &[0, 1, 1]).gone, [5, 4, 3]);
    ask(&mut arbiter, RequestKind::Move, &["c"], &["b"]).unwrap();
    let moved = go_to(&mut arbiter, &["a", "c"], &[0, 1, 1]);
    assert_eq!((&moved.hosts[..], &moved.gone[..]), (&["10.0.0.3".to_owned()][..], &[2, 1][..]));
    assert_eq!(arbiter.status().hosts[1].ranks, [1, 2]);
}

/// Returns the number of processes on each of five hosts after 20 growths by one.
fn after_growths_by_one(
    mut arbiter: Arbiter,
    on: &[&str],
    mut grow: impl FnMut(&mut Arbiter),
) -> Vec<u32> {
    for _ in 0..20 {
        ask(&mut arbiter, RequestKind::Grow(1), on, &[]).unwrap();
        grow(&mut arbiter);
    }
    arbiter.status().hosts.iter().map(|host| host.ranks.len() as u32).collect()
}

#[test]
fn twenty_growths_by_one_over_five_hosts_give_each_four() {
    let hosts = ["a", "b", "c", "d", "e"].map(str::to_owned);
    let job = |placement| Job {
        name: "test".to_owned(),
        hosts: hosts.to_vec(),
        places: (0..30).map(|process| process / 6).collect(),
        initial_ranks: 1,
        bounds: Bounds::new(1, 30, Allowed::Any).unwrap(),
        limits: Limits::default(),
        placement,
    };
    let parked = |placement| {
        let arbiter = Arbiter::new(job(placement), Journal::default()).unwrap();
        after_growths_by_one(arbiter, &[], |arbiter| drop(go_through(arbiter)))
    };
    // Includes the launched process on the first host.
    assert_eq!(parked(Some(Placement::RoundRobin)), [5, 4, 4, 4, 4]);
    assert_eq!(parked(Some(Placement::LeastLoaded)), [5, 4, 4, 4, 4]);
    assert_eq!(parked(None), [6, 6, 6, 3, 0], "one host after the other");
    // On hosts named by an address, each growth continues where the last one stopped.
    let started = |placement: Option<Placement>, on: &[&str]| {
        let listed = hosts.iter().filter(|_| on.is_empty());
        let slots = listed.map(|host| (host.clone(), 6)).collect();
        let limits = Limits { most: 30, named: 30, slots, unit: 1, ..Limits::default() };
        let (mut known, mut places) = (vec!["a".to_owned()], vec![0]);
        let job = Job { limits, hosts: known.clone(), places: places.clone(), ..job(placement) };
        let arbiter = Arbiter::new(job, Journal::default()).unwrap();
        after_growths_by_one(arbiter, on, |arbiter| {
            let resize = arbiter.announce_next().unwrap();
            let own = resize.hosts[0].trim_start_matches("10.0.0.").to_owned();
            let at = known.iter().position(|host| *host == own).unwrap_or_else(|| {
                known.push(own);
                known.len() - 1
            });
            places.push(at);
            go_on_to(arbiter, &known.iter().map(String::as_str).collect::<Vec<_>>(), &places);
        })
    };
    let named = ["10.0.0.b", "10.0.0.c", "10.0.0.d", "10.0.0.e", "10.0.0.f"];
    assert_eq!(started(None, &named), [1, 4, 4, 4, 4, 4]);
    assert_eq!(started(Some(Placement::RoundRobin), &[]), [5, 4, 4, 4, 4]);
    assert_eq!(started(Some(Placement::Stack), &[]), [6, 6, 6, 3]);
}

#[test]
fn loads_of_nodes_decide_for_the_least_loaded_only() {
    let mut arbiter = arbiter();
    assert!(!arbiter.goes_by_load());
    arbiter.job.placement = Some(Placement::LeastLoaded);
    assert!(arbiter.goes_by_load());
    for (node, load) in [(0, 0.5), (1, 1.5), (2, 0.1), (7, 0.0)] {
        arbiter.has_load(node, load);
    }
    ask(&mut arbiter, RequestKind::Grow(1), &[], &[]).unwrap();
    assert_eq!(go_through(&mut arbiter), [0, 1, 4]);
}

#[test]
fn started_process_keeps_its_first_id_when_others_end() {
    let mut arbiter = growing();
    ask(&mut arbiter, RequestKind::Grow(2), &["b"], &[]).unwrap();
    let first = arbiter.announce_next().unwrap();
    let born = [1, 2].map(|process| first.member(process));
    assert_eq!(born.map(|id| arbiter.process_of(id)), [Some(1), Some(2)], "as it is about to join");
    assert_eq!(arbiter.member_of(1), Some(born[0]));
    go_on_to(&mut arbiter, &["a", "b"], &[0, 1, 1]);
    ask(&mut arbiter, RequestKind::Grow(1), &["c"], &[]).unwrap();
    let last = go_to(&mut arbiter, &["a", "b", "c"], &[0, 1, 1, 2]).member(3);
    ask(&mut arbiter, RequestKind::Leave, &[], &["b"]).unwrap();
    go_to(&mut arbiter, &["a", "c"], &[0, 1]);
    assert_eq!(born.map(|id| arbiter.process_of(id)), [None, None], "they have ended");
    assert_eq!(arbiter.process_of(last), Some(1), "it has moved up");
    assert_eq!(arbiter.member_of(1), Some(last));
    let launched = [0, 1].map(|process| arbiter.process_of(MemberId::new(0, process)));
    assert_eq!(launched, [Some(0), None]);
}

#[test]
fn request_beyond_the_named_hosts_room_is_refused_at_once() {
    let mut arbiter = growing();
    for (wish, on, kind) in [
        (RequestKind::Grow(3), &["b"][..], CauseKind::NoCapacity),
        (RequestKind::Grow(6), &["b", "c"], CauseKind::NoCapacity),
        // As many as there are slots, where no host is named.
        (RequestKind::Size(4), &[], CauseKind::NoCapacity),
    ] {
        let cause = ask(&mut arbiter, wish, on, &[]).unwrap_err();
        assert_eq!(cause.kind, kind, "{wish:?} {on:?}: {cause}");
    }
    ask(&mut arbiter, RequestKind::Size(4), &["c"], &[]).unwrap();
}

#[test]
fn launcher_that_was_lost_leaves_sleepers_to_come_back() {
    let mut arbiter = growing();
    ask(&mut arbiter, RequestKind::Grow(1), &[], &[]).unwrap();
    arbiter.announce_next().unwrap();
    assert!(arbiter.lose_launcher("no slots"), "all are on one node");
    arbiter.ended(Err(Cause::new(CauseKind::SpawnFailed, "no slots")));
    for (wish, on) in [
        (RequestKind::Grow(1), &[][..]),
        (RequestKind::Size(3), &[]),
        (RequestKind::Grow(1), &["b"]),
    ] {
        let cause = ask(&mut arbiter, wish, on, &[]).unwrap_err();
        assert_eq!(cause.kind, CauseKind::NoCapacity, "{wish:?} {on:?}: {cause}");
        assert!(cause.detail.contains("refused an earlier start: no slots"), "{cause}");
    }
    assert_eq!(arbiter.status().capacity, 1);
    let mut arbiter = self::arbiter();
    assert!(!arbiter.lose_launcher("no slots"), "they are on three nodes");
    ask(&mut arbiter, RequestKind::Size(6), &[], &[]).unwrap();
    assert_eq!(go_through(&mut arbiter), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn move_beyond_the_slots_is_refused_at_once() {
    let mut arbiter = growing();
    ask(&mut arbiter, RequestKind::Grow(2), &["b"], &[]).unwrap();
    go_to(&mut arbiter, &["a", "b"], &[0, 1, 1]);
    // Two processes are spawned before two end: there are five for a moment.
    for (room, room_named, on, is_refused) in [
        (4, None, &[][..], true),
        (4, None, &["c"], false),
        (4, Some(4), &["c"], true),
        (5, Some(5), &[], false),
        (5, Some(5), &["c"], false),
    ] {
        let limits = Limits { room: Some(room), room_named, ..growing().job.limits };
        arbiter.processes = ProcessTable::launched(1, limits);
        arbiter.processes.go_over(&ResizePlan { units: vec![2], ..ResizePlan::default() });
        let mut request = Request::new(RequestKind::Move, "test");
        (request.on, request.from) =
            (on.iter().map(|&host| host.to_owned()).collect(), vec!["b".to_owned()]);
        let decided = arbiter.decide(&request);
        assert_eq!(decided.is_err(), is_refused, "{room} {on:?}: {decided:?}");
        if let Err(cause) = decided {
            assert_eq!(cause.kind, CauseKind::NoCapacity, "{cause}");
        }
    }
}

#[test]
fn a_sleeper_that_has_ended_is_never_called_in() {
    let mut arbiter = arbiter();
    assert_eq!(arbiter.remove_dead_sleepers(&[1, 2]), [2], "rank 1 runs");
    assert_eq!(arbiter.remove_dead_sleepers(&[1, 2]), [0_usize; 0]);
    let refused = ask(&mut arbiter, RequestKind::Size(6), &[], &[]).unwrap_err();
    assert!(refused.detail.contains("there can be 1 to 5"), "{refused:?}");
    ask(&mut arbiter, RequestKind::Size(4), &[], &[]).unwrap();
    assert_eq!(go_through(&mut arbiter), [0, 1, 3, 4]);
    let noted = arbiter.journal.since(0).any(|event| {
        serde_json::to_string(event).unwrap().contains("process 2 has ended while it was parked")
    });
    assert!(noted);
}

#[test]
fn the_lost_are_counted_until_all_others_take_part() {
    let mut arbiter = arbiter();
    arbiter.remove_dead_sleepers(&[2]);
    ask(&mut arbiter, RequestKind::Size(4), &[], &[]).unwrap();
    let resize = arbiter.announce_next().unwrap();
    assert_eq!((&resize.lost[..], &resize.gone[..]), (&[][..], &[][..]), "process 5 sleeps");
    arbiter.ended(Err(other("not now")));
    ask(&mut arbiter, RequestKind::Size(5), &[], &[]).unwrap();
    let resize = arbiter.announce_next().unwrap();
    assert_eq!((&resize.lost[..], &resize.gone[..]), (&[2][..], &[2][..]));
    for step in [Step::Launched, Step::Ready] {
        arbiter.step(step);
    }
    arbiter.agreed(3);
    arbiter.step(Step::Begun);
    let places = (["n0", "n1", "n2"].map(str::to_owned).to_vec(), vec![0, 0, 1, 2, 2]);
    arbiter.ended_at(Ok(()), Some(places));
    assert_eq!((arbiter.running(), arbiter.processes()), (&[0, 1, 2, 3, 4][..], 5));
    assert_eq!(arbiter.process_of(MemberId::new(0, 5)), Some(4));
    assert_eq!(arbiter.process_of(MemberId::new(0, 2)), None);
    assert_eq!(arbiter.losses().launched, [2]);
}
