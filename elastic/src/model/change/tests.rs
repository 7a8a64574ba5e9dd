//! Tests of the states of requests.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::model::member::MemberId;
use crate::model::sets::SetName;

fn now(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn app() -> SetName {
    SetName::application("app1").unwrap()
}

fn delta(number: u32) -> SetName {
    SetName::new(format!("mpi://rte/app1/delta/{number}")).unwrap()
}

fn members(generation: u32, indices: std::ops::Range<u32>) -> Vec<MemberId> {
    indices.map(|index| MemberId::new(generation, index)).collect()
}

fn growth(number: u32, count: u32) -> SetChange {
    let joining = Some((delta(number), members(number, 0..count)));
    SetChange { joining, leaving: None, bound: vec![app()] }
}

fn shrinking(number: u32, ranks: std::ops::Range<u32>) -> SetChange {
    SetChange {
        joining: None,
        leaving: Some((delta(number), members(0, ranks))),
        bound: vec![app()],
    }
}

fn admitted(changes: &mut Changes, wish: RequestKind) -> RequestId {
    let id = changes.request(Request::new(wish, "test"), now(1));
    changes.admit(id, now(2)).unwrap();
    id
}

fn cause(kind: CauseKind) -> Cause {
    Cause::new(kind, "")
}

fn steps(changes: &Changes, id: RequestId) -> Vec<Happening> {
    let of = |event: &&Event| event.request == Some(id);
    changes.events().iter().filter(of).map(|event| event.what).collect()
}

#[test]
fn growth_goes_through_all_steps_seen_by_its_members() {
    let mut changes = Changes::new(4, now(0));
    let (old, new, me) = (MemberId(0), MemberId::new(1, 1), SetName::caller());
    assert_eq!(changes.query("app1", old, &app()), View::NOTHING);
    let id = admitted(&mut changes, RequestKind::Grow(2));
    assert_eq!(changes.query("app1", old, &app()), View::NOTHING, "accepted is not announced");
    assert_eq!(changes.next_in_turn(), Some(id));
    changes.announce(id, growth(1, 2), now(3)).unwrap();
    let seen = changes.query("app1", old, &SetName::world());
    assert_eq!(
        (seen.kind, seen.included, seen.status),
        (ChangeKind::Add, false, Some(Step::Announced))
    );
    assert_eq!(seen.delta, Some(delta(1)));
    assert_eq!(changes.query("app1", old, &me), View::NOTHING, "it is in no delta");
    assert!(
        changes.query("app1", new, &app()).included && changes.query("app1", new, &me).included
    );
    let other = SetName::new("mpi://app/app1/other").unwrap();
    assert_eq!(changes.query("app1", old, &other), View::NOTHING);

    changes.step(id, Step::Launched, now(4)).unwrap();
    changes.step(id, Step::Ready, now(5)).unwrap();
    assert_eq!(changes.accept(id, &app(), now(6)), Ok(Acceptance::Pending));
    assert_eq!(changes.query("app1", old, &app()).status, Some(Step::Pending));
    assert_eq!(changes.accept(id, &app(), now(7)), Ok(Acceptance::Pending), "asking again");
    changes.confirm(id, now(8)).unwrap();
    changes.agreed(id, 41, now(9)).unwrap();
    changes.agreed(id, 43, now(9)).unwrap();
    changes.step(id, Step::Begun, now(10)).unwrap();
    changes.moved(id, 1 << 20, now(11)).unwrap();
    assert_eq!(changes.accept(id, &app(), now(12)), Ok(Acceptance::Complete));
    assert_eq!((changes.size(), changes.epoch()), (4, 0), "not before it is final");
    assert_eq!(changes.finalize(id, now(13)), Ok(1));
    assert_eq!((changes.size(), changes.epoch(), changes.under_way()), (6, 1, None));
    assert_eq!(changes.query("app1", old, &app()), View::NOTHING);
    let end = changes.events().last().unwrap();
    assert_eq!(end.steps.len(), 11);
    assert_eq!((end.steps[&Step::Requested], end.steps[&Step::Finalized]), (1000, 13_000));
    assert_eq!((end.size, end.epoch, end.target), (6, 1, None));
}

#[test]
fn a_shrink_is_done_when_every_bound_set_has_accepted() {
    let mut changes = Changes::new(8, now(0));
    let id = admitted(&mut changes, RequestKind::Shrink(2));
    let other = SetName::new("mpi://app/app1/other").unwrap();
    let mut resize = shrinking(1, 6..8);
    resize.bound.push(other.clone());
    changes.announce(id, resize, now(3)).unwrap();
    let leaver = changes.query("app1", MemberId(7), &app());
    assert_eq!((leaver.kind, leaver.included), (ChangeKind::Sub, true));
    assert!(!changes.query("app1", MemberId(1), &other).included);
    assert_eq!(changes.accept(id, &app(), now(4)), Ok(Acceptance::Pending));
    assert!(matches!(changes.finalize(id, now(4)), Err(ChangeError::Illegal { .. })));
    let stranger = SetName::new("mpi://app/app1/third").unwrap();
    assert!(matches!(changes.accept(id, &stranger, now(4)), Err(ChangeError::NotBound { .. })));
    assert_eq!(changes.status(id), Some(Step::Announced), "a shrink is never pending");
    assert_eq!(changes.accept(id, &other, now(5)), Ok(Acceptance::Complete));
    changes.finalize(id, now(6)).unwrap();
    assert_eq!(changes.size(), 6);
}

#[test]
fn shrink_log_has_ordered_steps_and_none_for_joiners() {
    let mut changes = Changes::new(4, now(0));
    let id = admitted(&mut changes, RequestKind::Shrink(1));
    changes.announce(id, shrinking(1, 3..4), now(3)).unwrap();
    changes.agreed(id, 7, now(4)).unwrap();
    changes.step(id, Step::Begun, now(5)).unwrap();
    changes.moved(id, 64, now(6)).unwrap();
    changes.accept(id, &app(), now(7)).unwrap();
    changes.finalize(id, now(8)).unwrap();
    let order = [
        Step::Requested,
        Step::Accepted,
        Step::Announced,
        Step::Agreed,
        Step::Begun,
        Step::Moved,
        Step::Finalized,
    ];
    assert_eq!(steps(&changes, id), order.map(Happening::Step));
    let lines: Vec<String> = changes.events().iter().map(Event::to_line).collect();
    assert_eq!(
        lines[3],
        r#"{"sequence":3,"time_us":3000,"event":"announced","request":1,"epoch":0,"size":4,"target":3,"joining":0,"leaving":1}"#
    );
    assert_eq!((changes.events()[6].bytes, changes.events()[7].size), (Some(64), 3));
}

#[test]
fn some_may_join_while_others_leave() {
    let mut changes = Changes::new(4, now(0));
    let id = admitted(&mut changes, RequestKind::Move);
    let mut resize = growth(1, 2);
    resize.leaving = Some((delta(2), members(0, 2..4)));
    changes.announce(id, resize, now(3)).unwrap();
    let seen = |member| changes.query("app1", member, &app());
    assert_eq!(seen(MemberId(0)).kind, ChangeKind::Replace);
    assert_eq!(seen(MemberId(3)).delta, Some(delta(2)));
    assert_eq!(seen(MemberId::new(1, 0)).delta, Some(delta(1)));
    assert_eq!(changes.events().last().unwrap().target, Some(4));
}

#[test]
fn a_late_acceptance_and_an_abort_have_one_winner() {
    let ready = || {
        let mut changes = Changes::new(4, now(0));
        let id = admitted(&mut changes, RequestKind::Grow(1));
        changes.announce(id, growth(1, 1), now(3)).unwrap();
        changes.step(id, Step::Launched, now(4)).unwrap();
        changes.step(id, Step::Ready, now(4)).unwrap();
        (changes, id)
    };
    let (mut changes, id) = ready();
    changes.abort(id, Cause::new(CauseKind::JoinerLost, "1.0 died"), now(5)).unwrap();
    let late = changes.accept(id, &app(), now(6)).unwrap_err();
    assert_eq!(
        late.to_string(),
        "accept: request 1 was aborted (a joining process is lost: 1.0 died)"
    );
    assert_eq!((changes.size(), changes.epoch()), (4, 0));

    let (mut changes, id) = ready();
    changes.accept(id, &app(), now(5)).unwrap();
    changes.confirm(id, now(6)).unwrap();
    changes.finalize(id, now(7)).unwrap();
    let late = changes.abort(id, cause(CauseKind::Deadline), now(8)).unwrap_err();
    assert!(matches!(late, ChangeError::Ended { end: Step::Finalized, cause: None, .. }));
    assert_eq!((changes.size(), changes.epoch()), (5, 1));
}

#[test]
fn launch_follows_announcement_and_entry_follows_ready_joiners() {
    let mut changes = Changes::new(4, now(0));
    let id = admitted(&mut changes, RequestKind::Grow(1));
    let wrong = |changes: &mut Changes, step| {
        let error = changes.step(id, step, now(5)).unwrap_err();
        assert!(matches!(error, ChangeError::Illegal { .. }), "{error}");
    };
    wrong(&mut changes, Step::Launched);
    changes.announce(id, growth(1, 1), now(5)).unwrap();
    wrong(&mut changes, Step::Ready);
    wrong(&mut changes, Step::Confirmed);
    wrong(&mut changes, Step::Agreed);
    changes.step(id, Step::Launched, now(5)).unwrap();
    wrong(&mut changes, Step::Agreed);
    wrong(&mut changes, Step::Begun);
    wrong(&mut changes, Step::Launched);
    wrong(&mut changes, Step::Finalized);
    wrong(&mut changes, Step::Aborted);
    changes.step(id, Step::Ready, now(5)).unwrap();
    changes.step(id, Step::Agreed, now(5)).unwrap();
    wrong(&mut changes, Step::Moved);
    changes.step(id, Step::Begun, now(5)).unwrap();
    wrong(&mut changes, Step::Agreed);
}

#[test]
fn requests_wait_their_turn_and_resizes_do_not_nest() {
    let mut changes = Changes::new(4, now(0));
    let first = admitted(&mut changes, RequestKind::Shrink(1));
    changes.announce(first, shrinking(1, 3..4), now(3)).unwrap();
    let second = changes.request(Request::new(RequestKind::Grow(2), "test"), now(4));
    assert_eq!(changes.admit(second, now(4)), Ok(Turn::After(first)));
    let third = changes.request(Request::new(RequestKind::Grow(1), "test"), now(4));
    assert_eq!(changes.admit(third, now(4)), Ok(Turn::After(second)));
    assert_eq!((changes.next_in_turn(), changes.waiting()), (None, 2));
    assert_eq!(changes.request_of(third).map(|request| &request.kind), Some(&RequestKind::Grow(1)));
    let nested = changes.announce(second, growth(2, 2), now(5));
    assert_eq!(nested, Err(ChangeError::Busy { id: second, running: first }));
    changes.abort(first, cause(CauseKind::Cancelled), now(6)).unwrap();
    assert!(changes.announce(third, growth(2, 1), now(7)).is_err(), "the second comes first");
    assert_eq!(changes.next_in_turn(), Some(second));
    changes.announce(second, growth(2, 2), now(7)).unwrap();
}

#[test]
fn later_shrink_cancels_waiting_growth_and_size_cancels_all() {
    let mut changes = Changes::new(4, now(0));
    let running = admitted(&mut changes, RequestKind::Grow(1));
    changes.announce(running, growth(1, 1), now(3)).unwrap();
    let (grow, other) =
        (admitted(&mut changes, RequestKind::Grow(4)), admitted(&mut changes, RequestKind::Move));
    let shrink = admitted(&mut changes, RequestKind::Shrink(1));
    assert_eq!(changes.status(grow), Some(Step::Aborted));
    assert_eq!(changes.status(other), Some(Step::Accepted));
    assert_eq!(changes.status(running), Some(Step::Announced), "what is announced goes on");
    let size = admitted(&mut changes, RequestKind::Size(2));
    assert_eq!(changes.status(shrink), Some(Step::Aborted));
    assert_eq!(changes.status(other), Some(Step::Aborted));
    let end = changes.events().iter().rfind(|event| event.request == Some(shrink)).unwrap();
    assert_eq!(end.cause, Some(Cause::new(CauseKind::Superseded, format!("by {size}"))));
}

#[test]
fn a_request_is_refused_or_accepted_once() {
    let mut changes = Changes::new(4, now(0));
    let id = changes.request(Request::new(RequestKind::Grow(99), "test"), now(1));
    assert!(changes.abort(id, cause(CauseKind::Other), now(1)).is_err());
    changes.refuse(id, cause(CauseKind::NoCapacity), now(1)).unwrap();
    assert!(matches!(changes.admit(id, now(2)), Err(ChangeError::Ended { .. })));
    assert_eq!(steps(&changes, id).len(), 2);
    let id = admitted(&mut changes, RequestKind::Grow(1));
    assert!(changes.admit(id, now(2)).is_err());
    assert!(changes.refuse(id, cause(CauseKind::Other), now(2)).is_err());
    let unknown = changes.admit(RequestId(77), now(2));
    assert_eq!(unknown, Err(ChangeError::Unknown { call: "admit", id: RequestId(77) }));
}

#[test]
fn resizes_that_make_no_sense_are_not_announced() {
    let mut changes = Changes::new(4, now(0));
    let id = admitted(&mut changes, RequestKind::Shrink(4));
    for resize in [
        SetChange::default(),
        shrinking(1, 0..4),
        shrinking(1, 0..9),
        SetChange { bound: Vec::new(), ..growth(1, 1) },
    ] {
        assert!(changes.announce(id, resize, now(3)).is_err());
    }
    assert_eq!(changes.status(id), Some(Step::Accepted));
}

#[test]
fn a_missed_deadline_is_noted_once_and_ends_nothing() {
    let mut changes = Changes::new(4, now(0));
    let mut request = Request::new(RequestKind::Shrink(1), "test");
    request.grace = Some(now(30));
    let id = changes.request(request, now(1));
    changes.admit(id, now(2)).unwrap();
    assert_eq!(changes.deadline(id), None, "time runs from the announcement on");
    changes.announce(id, shrinking(1, 3..4), now(10)).unwrap();
    assert_eq!((changes.under_way(), changes.deadline(id)), (Some(id), Some(now(40))));
    assert_eq!(changes.next_deadline(), Some(now(40)));
    assert!(!changes.is_overdue(now(39)) && changes.is_overdue(now(40)));
    assert_eq!(changes.overdue(&[], now(39)), None);
    assert_eq!(changes.overdue(&[2], now(40)), Some(id));
    assert_eq!(changes.overdue(&[], now(41)), None);
    assert_eq!((changes.next_deadline(), changes.is_overdue(now(41))), (None, false));
    let event = changes.events().last().unwrap();
    assert_eq!((event.what, &event.late[..]), (Happening::Overdue, &[2][..]));
    let copy: Changes = serde_json::from_str(&serde_json::to_string(&changes).unwrap()).unwrap();
    assert_eq!((copy.events(), copy.deadline(id)), (changes.events(), changes.deadline(id)));
    assert_eq!(changes.status(id), Some(Step::Announced));
}

#[test]
fn request_keeps_its_nodes_and_writes_no_zero() {
    for (nodes, is_written) in [(0, false), (3, true)] {
        let request = Request { nodes, ..Request::new(RequestKind::Grow(2), "test") };
        let text = serde_json::to_string(&request).unwrap();
        assert_eq!(text.contains("\"nodes\""), is_written, "{text}");
        assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), request);
    }
}

#[test]
fn events_are_lines_and_come_back() {
    let mut changes = Changes::new(4, now(0));
    let mut request = Request::new(RequestKind::Size(6), "so\"cket\n");
    (request.on, request.grace) = (vec!["n1".to_owned()], Some(now(1)));
    let id = changes.request(request, now(1));
    changes.refuse(id, Cause::new(CauseKind::Unreachable, "n1"), now(2)).unwrap();
    let text: String = changes.events().iter().map(|event| event.to_line() + "\n").collect();
    let golden = r#"{"sequence":0,"time_us":0,"event":"started","epoch":0,"size":4}
{"sequence":1,"time_us":1000,"event":"requested","request":1,"epoch":0,"size":4,"asked":{"wish":{"size":6},"on":["n1"],"grace_us":1000,"origin":"so\"cket\n"}}
{"sequence":2,"time_us":2000,"event":"refused","request":1,"epoch":0,"size":4,"cause":{"kind":"unreachable","detail":"n1"},"steps":{"requested":1000,"refused":2000}}
"#;
    assert_eq!(text, golden);
    assert_eq!(Event::from_lines(&text).unwrap(), changes.take_events());
    assert!(changes.events().is_empty());
    let wrong = Event::from_lines("\n{}").unwrap_err().to_string();
    assert!(wrong.starts_with("event log, line 2: "), "{wrong}");
}

#[test]
fn notice_is_in_the_log_without_a_request() {
    let mut changes = Changes::new(2, now(0));
    changes.note(Cause::new(CauseKind::Unreachable, "n1"), now(5));
    let event = changes.events().last().unwrap();
    assert_eq!((event.what, event.request, event.time()), (Happening::Notice, None, now(5)));
    assert_eq!(event.cause, Some(Cause::new(CauseKind::Unreachable, "n1")));
}

#[test]
fn the_clock_of_the_log_never_goes_back() {
    let mut changes = Changes::new(1, now(9));
    changes.request(Request::new(RequestKind::Grow(1), "test"), now(3));
    assert_eq!(changes.events().last().unwrap().time(), now(9));
}

#[test]
fn requests_of_long_ago_are_forgotten() {
    let mut changes = Changes::new(1, now(0));
    for _ in 0..3000 {
        let id = changes.request(Request::new(RequestKind::Grow(1), "test"), now(1));
        changes.refuse(id, cause(CauseKind::NoCapacity), now(1)).unwrap();
    }
    assert_eq!(changes.status(RequestId(1)), None);
    assert_eq!(changes.status(RequestId(3000)), Some(Step::Refused));
    assert!(changes.changes.len() <= 1025);
}

/// Actions that may occur at any time.
#[derive(Clone, Debug)]
enum Deed {
    Request(RequestKind),
    Refuse(u64),
    Admit(u64),
    Announce(u64, u32, u32),
    Step(u64, usize),
    Accept(u64),
    Finalize(u64),
    Abort(u64),
}

fn deed() -> impl Strategy<Value = Deed> {
    let wish = prop_oneof![
        (1..4u32).prop_map(RequestKind::Grow),
        (1..4u32).prop_map(RequestKind::Shrink),
        (1..9u32).prop_map(RequestKind::Size),
        Just(RequestKind::Leave),
        Just(RequestKind::Move)
    ];
    let id = 0..3u64;
    // The steps without their own call; the last ones more often.
    let middle = proptest::sample::select(vec![4, 5, 6, 7, 8, 8, 9, 9, 10]);
    prop_oneof![
        6 => wish.prop_map(Deed::Request),
        1 => id.clone().prop_map(Deed::Refuse),
        8 => Just(Deed::Admit(0)),
        2 => id.clone().prop_map(Deed::Admit),
        8 => (id.clone(), 0..3u32, 0..3u32).prop_map(|(id, join, leave)| Deed::Announce(id, join, leave)),
        50 => (id.clone(), middle).prop_map(|(id, step)| Deed::Step(id, step)),
        6 => (id.clone(), 0..13usize).prop_map(|(id, step)| Deed::Step(id, step)),
        6 => id.clone().prop_map(Deed::Accept),
        2 => id.clone().prop_map(Deed::Finalize),
        1 => id.prop_map(Deed::Abort),
    ]
}

proptest! {
    #[test]
    fn any_request_has_one_end_and_ordered_steps(
        deeds in proptest::collection::vec(deed(), 0..400),
    ) {
        let mut changes = Changes::new(8, now(0));
        let mut last = 0;
        for (time, deed) in deeds.iter().enumerate() {
            let now = now(time as u64);
            let id = |back: u64| RequestId(u64::saturating_sub(last, back));
            let before = changes.events().len();
            let failed = match deed {
                Deed::Request(wish) => {
                    last = changes.request(Request::new(*wish, "test"), now).0;
                    false
                }
                Deed::Refuse(back) => changes.refuse(id(*back), cause(CauseKind::Other), now).is_err(),
                Deed::Admit(back) => changes.admit(id(*back), now).is_err(),
                Deed::Announce(back, join, leave) => {
                    let id = changes.next_in_turn().unwrap_or(id(*back));
                    let mut resize = growth(1, *join);
                    resize.joining = resize.joining.filter(|_| *join > 0);
                    resize.leaving = (*leave > 0).then(|| (delta(2), members(0, 0..*leave)));
                    changes.announce(id, resize, now).is_err()
                }
                Deed::Step(back, step) => changes.step(
                    changes.under_way().unwrap_or(id(*back)), Step::ALL[*step], now).is_err(),
                Deed::Accept(back) => changes.accept(
                    changes.under_way().unwrap_or(id(*back)), &app(), now).is_err(),
                Deed::Finalize(back) => changes.finalize(
                    changes.under_way().unwrap_or(id(*back)), now).is_err(),
                Deed::Abort(back) => changes.abort(id(*back), cause(CauseKind::Other), now).is_err(),
            };
            if failed {
                prop_assert_eq!(changes.events().len(), before, "{:?}", deed);
            }
        }
        let mut steps: BTreeMap<RequestId, Vec<Step>> = BTreeMap::new();
        let (mut epoch, mut size, mut open) = (0, 8, None);
        for (number, event) in changes.events().iter().enumerate() {
            prop_assert_eq!(event.sequence, number as u64);
            prop_assert_eq!(&Event::from_line(&event.to_line()).unwrap(), event);
            let (Happening::Step(step), Some(id)) = (event.what, event.request) else { continue };
            let seen = steps.entry(id).or_default();
            prop_assert!(!seen.iter().any(|step| step.is_end()), "after the end: {:?}", event);
            prop_assert!(step == Step::Agreed || !seen.contains(&step));
            prop_assert_eq!(step == Step::Requested, seen.is_empty());
            let after = |earlier| seen.contains(&earlier);
            match step {
                Step::Announced => {
                    prop_assert!(after(Step::Accepted) && open.is_none());
                    open = Some((id, event.joining.unwrap(), event.leaving.unwrap()));
                }
                Step::Refused => prop_assert!(!after(Step::Accepted)),
                Step::Aborted => prop_assert!(after(Step::Accepted)),
                Step::Requested | Step::Accepted => {}
                _ => prop_assert_eq!(open.map(|open| open.0), Some(id)),
            }
            let joins = open.is_some_and(|(_, joining, _)| joining > 0);
            match step {
                Step::Launched | Step::Pending => prop_assert!(joins),
                Step::Ready => prop_assert!(after(Step::Launched)),
                Step::Confirmed => prop_assert!(after(Step::Pending) && after(Step::Launched)),
                Step::Agreed => prop_assert!(!after(Step::Begun) && (!joins || after(Step::Ready))),
                Step::Begun => prop_assert!(after(Step::Agreed)),
                Step::Moved => prop_assert!(after(Step::Begun)),
                Step::Finalized => {
                    let (_, joining, leaving) = open.unwrap();
                    prop_assert!(!joins || after(Step::Confirmed));
                    size = size + joining - leaving;
                    epoch += 1;
                }
                _ => {}
            }
            if step.is_end() {
                prop_assert_eq!(event.steps.len(), {
                    let mut all = seen.clone();
                    all.push(step);
                    all.sort_unstable();
                    all.dedup();
                    all.len()
                });
                prop_assert_eq!(event.cause.is_some(), step != Step::Finalized);
                if open.is_some_and(|open| open.0 == id) {
                    open = None;
                }
            }
            prop_assert_eq!((event.epoch, event.size), (epoch, size));
            seen.push(step);
        }
        prop_assert_eq!((changes.epoch(), changes.size()), (epoch, size));
    }
}
