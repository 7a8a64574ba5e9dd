//! Tests of placement.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::model::member::{MemberId, NodeId, UnitId};

fn nodes(slots: &[u32]) -> Nodes {
    let mut nodes = Nodes::new();
    for (index, slots) in slots.iter().enumerate() {
        nodes.add(format!("n{index}"), *slots, NodeState::Available).unwrap();
    }
    nodes
}

fn hosts(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Joiners on the nodes that `place` chose, with ids from `first`; each joiner or each node is a
/// unit.
fn seats(first: u64, chosen: &[NodeId], node_units: bool) -> Vec<Seat> {
    let unit = |index: u64, node: NodeId| {
        UnitId(if node_units { first * 1000 + u64::from(node.0) } else { first + index })
    };
    let seat = |(index, &node): (usize, &NodeId)| Seat {
        member: MemberId(first + index as u64),
        node,
        unit: unit(index as u64, node),
        rigid: false,
    };
    chosen.iter().enumerate().map(seat).collect()
}

fn grow(nodes: &mut Nodes, ranks: &mut Vec<MemberId>, count: u32, node_units: bool) {
    let chosen = choose(nodes, count, &[], Placement::Stack, &mut Cursor::default()).unwrap();
    let seats = seats(ranks.last().map_or(0, |last| last.0 + 1), &chosen, node_units);
    nodes.occupy(&seats).unwrap();
    ranks.extend(seats.iter().map(|seat| seat.member));
}

fn choose(
    nodes: &Nodes,
    count: u32,
    hosts: &[String],
    placement: Placement,
    cursor: &mut Cursor,
) -> Result<Vec<NodeId>, PlaceError> {
    place(nodes, count, hosts, Choice { placement, cursor, loads: &Loads::default() })
}

fn count(count: u32) -> Reclaim<'static> {
    Reclaim { count: Some(count), hosts: &[] }
}

#[test]
fn limits_that_are_sent_have_the_sizes_of_their_bounds() {
    let rules = [
        Allowed::Any,
        Allowed::MultipleOf(6),
        Allowed::PowerOfTwo,
        Allowed::Square,
        Allowed::OneOf(vec![99, 7, 7, 16]),
        Allowed::If(Arc::new(|size| size % 5 == 1)),
    ];
    for allowed in rules {
        let bounds = Bounds::new(4, 64, allowed).unwrap();
        let text = serde_json::to_string(&bounds.up_to(40)).unwrap();
        let sent: SizeLimits = serde_json::from_str(&text).unwrap();
        let back = sent.bounds().unwrap();
        assert_eq!((sent.min, back.at_most(99)), (4, bounds.at_most(40)), "{text}");
        assert!((0..=40).all(|size| back.allows(size) == bounds.allows(size)), "{text}");
    }
    let wild = Bounds::new(1, u32::MAX, Allowed::If(Arc::new(|_| true))).unwrap().up_to(u32::MAX);
    assert_eq!(wild.max, 4096, "the list of a program's own check has an end");
}

#[test]
fn the_stack_of_figure_7_1() {
    let mut nodes = nodes(&[4, 4, 4, 4]);
    let mut ranks = Vec::new();
    grow(&mut nodes, &mut ranks, 6, false);
    let slots = |nodes: &Nodes, ranks: &[MemberId]| -> Vec<u64> {
        ranks.iter().map(|member| nodes.slot(*member).unwrap()).collect()
    };
    assert_eq!(slots(&nodes, &ranks), (0..6).collect::<Vec<_>>());
    grow(&mut nodes, &mut ranks, 8, false);
    assert_eq!(slots(&nodes, &ranks[6..]), (6..14).collect::<Vec<_>>());
    let leaving = leavers(&nodes, &ranks, ranks[0], count(4)).unwrap();
    assert_eq!(slots(&nodes, &leaving), [13, 12, 11, 10]);
    assert_eq!(nodes.vacate(&leaving), Ok(vec![NodeId(3)]), "the fourth node is free");
    ranks.truncate(10);
    grow(&mut nodes, &mut ranks, 1, false);
    assert_eq!(nodes.slot(ranks[10]), Some(10), "the next free slot, by a new rank");
}

#[test]
fn round_robin_goes_on_where_it_stopped() {
    let mut nodes = nodes(&[4; 5]);
    let mut cursor = Cursor::default();
    for round in 0..20 {
        let chosen = choose(&nodes, 1, &[], Placement::RoundRobin, &mut cursor).unwrap();
        assert_eq!(chosen, [NodeId(round % 5)]);
        nodes.occupy(&seats(u64::from(round), &chosen, false)).unwrap();
    }
    assert!(nodes.iter().all(|node| node.processes() == 4));
    let before = cursor.clone();
    let full = choose(&nodes, 1, &[], Placement::RoundRobin, &mut cursor);
    assert_eq!(full, Err(PlaceError::NoRoom { asked: 1, free: 0, named: false }));
    assert_eq!(cursor, before);
}

#[test]
fn round_robin_passes_over_full_nodes_and_wraps() {
    let nodes = nodes(&[1, 3, 2]);
    let mut cursor = Cursor::default();
    let chosen = choose(&nodes, 6, &[], Placement::RoundRobin, &mut cursor).unwrap();
    assert_eq!(chosen, [0, 1, 2, 1, 2, 1].map(NodeId));
}

#[test]
fn least_loaded_goes_by_mean_or_processes_without_samples() {
    let mut nodes = nodes(&[4, 4, 2]);
    nodes.occupy(&seats(0, &[NodeId(0), NodeId(1), NodeId(1)], false)).unwrap();
    let mut loads = Loads::default();
    let least = |loads: &Loads, count| {
        let how =
            Choice { placement: Placement::LeastLoaded, cursor: &mut Cursor::default(), loads };
        place(&nodes, count, &[], how).unwrap()
    };
    assert_eq!(least(&loads, 4), [2, 0, 0, 1].map(NodeId), "1/4, 2/4 and 0/2 in use");
    // One peak is not the mean, and invalid loads are ignored.
    for load in [9.0, 0.0, 0.0, f64::NAN, -1.0] {
        loads.add("n2", load);
    }
    assert_eq!(loads.mean("n2"), Some(3.0));
    assert_eq!(least(&loads, 1), [NodeId(0)]);
    for _ in 0..12 {
        loads.add("n2", 0.1);
    }
    assert!((loads.mean("n2").unwrap() - 0.1).abs() < 1e-9, "the peak is forgotten");
    assert_eq!(least(&loads, 1), [NodeId(2)]);
    loads.keep(&hosts(&["n0"]));
    assert_eq!(loads.mean("n2"), None);
}

#[test]
fn no_core_is_shared_unless_forced() {
    let nodes = nodes(&[2, 4]);
    let stack = |count, names: &[&str]| {
        choose(&nodes, count, &hosts(names), Placement::Stack, &mut Cursor::default())
    };
    assert!(stack(7, &[]).is_err());
    assert_eq!(stack(3, &["n0"]), Err(PlaceError::NoRoom { asked: 3, free: 2, named: true }));
    // If cores may be shared, slots are not counted.
    let sites = ["a", "b"].map(|host| Site { host, processes: 2, slots: None });
    let (mut cursor, loads) = (Cursor::default(), Loads::default());
    let how = Choice { placement: Placement::LeastLoaded, cursor: &mut cursor, loads: &loads };
    assert_eq!(spread(&sites, 4, how), Ok(vec![0, 1, 0, 1]));
}

#[test]
fn orders_are_read_by_their_names() {
    for placement in [Placement::Stack, Placement::RoundRobin, Placement::LeastLoaded] {
        assert_eq!(placement.to_string().parse(), Ok(placement));
    }
    let error = "random".parse::<Placement>().unwrap_err().to_string();
    assert_eq!(error, "placement is \"random\", and it can be stack, round-robin or least-loaded");
}

#[test]
fn joiners_go_to_available_nodes_only() {
    let mut nodes = nodes(&[1, 1, 1]);
    nodes.set_state(NodeId(0), NodeState::Leaving).unwrap();
    nodes.add("n9", 8, NodeState::Candidate).unwrap();
    let stack = |count, names: &[&str]| {
        choose(&nodes, count, &hosts(names), Placement::Stack, &mut Cursor::default())
    };
    assert_eq!(stack(2, &[]).unwrap(), [NodeId(1), NodeId(2)]);
    let ask = |host: &str| stack(1, &[host]).unwrap_err().to_string();
    assert_eq!(ask("n0"), "place: host \"n0\" is leaving");
    assert_eq!(ask("n9"), "place: host \"n9\" is a candidate");
    assert_eq!(ask("x"), "place: host \"x\" is not in the list of nodes");
    assert_eq!(stack(2, &["n2", "n1", "n2"]).unwrap(), [NodeId(1), NodeId(2)]);
}

#[test]
fn gone_node_stays_gone_and_its_host_returns_as_another() {
    let mut nodes = nodes(&[1, 1]);
    nodes.occupy(&seats(0, &[NodeId(1)], false)).unwrap();
    let gone = nodes.set_state(NodeId(1), NodeState::Gone);
    assert!(matches!(gone, Err(PlaceError::State { occupied: true, .. })));
    nodes.set_state(NodeId(1), NodeState::Leaving).unwrap();
    nodes.set_state(NodeId(1), NodeState::Available).unwrap();
    nodes.set_state(NodeId(1), NodeState::Leaving).unwrap();
    assert!(nodes.add("n1", 1, NodeState::Available).is_err());
    assert_eq!(nodes.vacate(&[MemberId(0)]), Ok(vec![NodeId(1)]));
    nodes.set_state(NodeId(1), NodeState::Gone).unwrap();
    for state in [NodeState::Candidate, NodeState::Available, NodeState::Leaving] {
        assert!(nodes.set_state(NodeId(1), state).is_err());
    }
    assert_eq!(nodes.add("n1", 1, NodeState::Candidate), Ok(NodeId(2)));
}

#[test]
fn nobody_sits_twice_or_leaves_who_is_not_there() {
    let mut nodes = nodes(&[2]);
    let two = seats(0, &[NodeId(0), NodeId(0)], false);
    assert!(nodes.occupy(&[two[0], two[0]]).is_err());
    nodes.occupy(&two).unwrap();
    let before = nodes.clone();
    assert!(matches!(nodes.occupy(&two[1..]), Err(PlaceError::Placed { .. })));
    assert!(matches!(nodes.vacate(&[MemberId(0), MemberId(7)]), Err(PlaceError::Unplaced { .. })));
    assert_eq!(nodes, before);
}

#[test]
fn units_leave_as_a_whole() {
    let mut nodes = nodes(&[2, 4, 4]);
    let mut ranks = Vec::new();
    grow(&mut nodes, &mut ranks, 10, true);
    let ask = |reclaim| leavers(&nodes, &ranks, ranks[0], reclaim);
    assert_eq!(
        ask(count(6)).unwrap_err().to_string(),
        "leavers: 6 would cut unit 1, whose processes were started together and leave together; 4 \
         or 8 can leave, with processes_per_spawn 1 any number"
    );
    assert_eq!(ask(count(8)).unwrap(), (2..10).rev().map(MemberId).collect::<Vec<_>>());
    assert_eq!(ask(count(9)), Err(PlaceError::TooFew { asked: 9, possible: 8 }));
    assert_eq!(ask(count(0)), Ok(vec![]));
}

#[test]
fn named_hosts_leave_and_the_coordinators_never() {
    let mut nodes = nodes(&[2, 2, 2]);
    let mut ranks = Vec::new();
    grow(&mut nodes, &mut ranks, 6, false);
    let ask = |count, names: &[&str]| {
        let hosts = hosts(names);
        leavers(&nodes, &ranks, ranks[0], Reclaim { count, hosts: &hosts })
    };
    assert_eq!(ask(None, &["n1"]).unwrap(), [MemberId(3), MemberId(2)]);
    assert_eq!(ask(Some(1), &["n1"]).unwrap(), [MemberId(3)]);
    assert!(matches!(ask(None, &["n2", "n0"]), Err(PlaceError::CoordinatorsNode { .. })));
    assert_eq!(ask(Some(1), &["n0"]).unwrap(), [MemberId(1)], "the node stays");
    assert_eq!(ask(Some(2), &["n0"]), Err(PlaceError::TooFew { asked: 2, possible: 1 }));
    assert_eq!(ask(None, &[]), Err(PlaceError::NothingAsked));
    assert_eq!(ask(Some(6), &[]), Err(PlaceError::TooFew { asked: 6, possible: 5 }));
}

#[test]
fn rigid_units_stay_and_spanning_units_leave_both_nodes() {
    let mut nodes = nodes(&[1, 1, 1, 1]);
    let mut all = seats(0, &[0, 1, 2, 3].map(NodeId), false);
    all[1].rigid = true;
    all[3].unit = all[2].unit;
    nodes.occupy(&all).unwrap();
    let ranks: Vec<MemberId> = all.iter().map(|seat| seat.member).collect();
    let ask = |count, names: &[&str]| {
        let hosts = hosts(names);
        leavers(&nodes, &ranks, ranks[0], Reclaim { count, hosts: &hosts })
    };
    assert!(matches!(ask(None, &["n1"]), Err(PlaceError::Rigid { member: MemberId(1), .. })));
    assert!(matches!(
        ask(None, &["n3"]),
        Err(PlaceError::UnitElsewhere { member: MemberId(2), .. })
    ));
    assert_eq!(ask(None, &["n2", "n3"]).unwrap(), [MemberId(3), MemberId(2)]);
    assert_eq!(ask(Some(2), &["n3"]), Err(PlaceError::TooFew { asked: 2, possible: 0 }));
    assert_eq!(ask(Some(3), &[]), Err(PlaceError::TooFew { asked: 3, possible: 2 }));
}

#[test]
fn sizes_are_bounded_and_the_nearest_named() {
    let bounds = |allowed| Bounds::new(4, 64, allowed).unwrap();
    assert!(bounds(Allowed::Any).check(4).is_ok() && bounds(Allowed::Any).check(65).is_err());
    assert!(bounds(Allowed::MultipleOf(6)).allows(12) && !bounds(Allowed::MultipleOf(6)).allows(8));
    assert_eq!(bounds(Allowed::PowerOfTwo).at_least(33), Some(64));
    assert_eq!(
        bounds(Allowed::OneOf(vec![7, 99])).check(99),
        Err(PlaceError::Size { size: 99, below: Some(7), above: None })
    );
    let odd = bounds(Allowed::If(Arc::new(|size| size % 2 == 1)));
    assert_eq!((odd.at_most(4), odd.at_least(0)), (None, Some(5)));
    assert!(Bounds::new(5, 4, Allowed::Any).is_err());
    assert!(Bounds::new(10, 15, Allowed::Square).is_err());
    assert!(Bounds::new(0, 9, Allowed::MultipleOf(0)).is_err());
    assert_eq!(Bounds::new(0, 9, Allowed::Any).unwrap().min(), 1);
}

proptest! {
    #[test]
    fn growths_over_hosts_differ_by_one_process_at_most(
        hosts in 1..8usize, growths in proptest::collection::vec(0..5u32, 0..40),
    ) {
        let names: Vec<String> = (0..hosts).map(|host| format!("n{host}")).collect();
        let (mut cursor, loads) = (Cursor::default(), Loads::default());
        let mut processes = vec![0; hosts];
        for count in growths {
            let sites: Vec<Site<'_>> = names.iter().zip(&processes)
                .map(|(host, &processes)| Site { host, processes, slots: None }).collect();
            let how = Choice { placement: Placement::RoundRobin, cursor: &mut cursor, loads: &loads };
            let chosen = spread(&sites, count, how).unwrap();
            chosen.into_iter().for_each(|at| processes[at] += 1);
            let (least, most) = (processes.iter().min(), processes.iter().max());
            prop_assert!(most.unwrap() - least.unwrap() <= 1, "{:?}", processes);
        }
    }

    #[test]
    fn every_order_places_all_within_the_slots_or_none(
        taken in proptest::collection::vec((0..4u32, proptest::option::of(0..5u32)), 0..6),
        count in 0..20u32,
        placement in prop_oneof![Just(Placement::Stack), Just(Placement::RoundRobin), Just(Placement::LeastLoaded)],
        measured in proptest::collection::vec(0.0..2.0f64, 0..6),
        last in proptest::option::of(0..6usize),
    ) {
        let names: Vec<String> = (0..6).map(|host| format!("n{host}")).collect();
        let sites: Vec<Site<'_>> = names.iter().zip(&taken)
            .map(|(host, &(processes, slots))| Site { host, processes, slots }).collect();
        let mut loads = Loads::default();
        names.iter().zip(&measured).for_each(|(host, load)| loads.add(host, *load));
        let text = serde_json::to_string(&serde_json::json!({ "last": last.map(|at| &names[at]) }));
        let mut cursor: Cursor = serde_json::from_str(&text.unwrap()).unwrap();
        let before = cursor.clone();
        let room = |site: &Site<'_>| site.slots.map(|slots| slots.saturating_sub(site.processes));
        let free = sites.iter().map(room).try_fold(0, |sum, room| Some(sum + room?));
        let how = Choice { placement, cursor: &mut cursor, loads: &loads };
        match spread(&sites, count, how) {
            Ok(chosen) => {
                prop_assert_eq!(chosen.len() as u32, count);
                for (at, site) in sites.iter().enumerate() {
                    let here = chosen.iter().filter(|&&other| other == at).count() as u32;
                    prop_assert!(room(site).is_none_or(|room| here <= room));
                }
                if placement == Placement::Stack {
                    prop_assert!(chosen.is_sorted());
                }
            }
            Err(error) => {
                let free = free.unwrap();
                prop_assert!(free < count);
                prop_assert_eq!(error, PlaceError::NoRoom { asked: count, free, named: false });
                prop_assert_eq!(cursor, before);
            }
        }
    }

    #[test]
    fn growing_and_shrinking_keeps_ranks_slots_and_the_coordinator(
        slots in proptest::collection::vec(1..6u32, 1..6),
        deeds in proptest::collection::vec((any::<bool>(), 1..9u32, any::<bool>()), 0..30),
        node_units in any::<bool>(),
    ) {
        let mut nodes = nodes(&slots);
        let mut cursor = Cursor::default();
        let (mut ranks, mut next) = (Vec::new(), 0u64);
        for (grows, count, stack) in deeds {
            let free = nodes.free();
            let before = ranks.clone();
            if grows || ranks.is_empty() {
                let placement = if stack { Placement::Stack } else { Placement::RoundRobin };
                match choose(&nodes, count, &[], placement, &mut cursor) {
                    Ok(chosen) => {
                        prop_assert_eq!(chosen.len() as u32, count);
                        let new = seats(next, &chosen, node_units);
                        next += u64::from(count);
                        nodes.occupy(&new).unwrap();
                        ranks.extend(new.iter().map(|seat| seat.member));
                        prop_assert_eq!(&ranks[..before.len()], &before[..]);
                    }
                    Err(error) => prop_assert_eq!(error, PlaceError::NoRoom { asked: count, free, named: false }),
                }
            } else {
                let reclaim = Reclaim { count: Some(count), hosts: &[] };
                match leavers(&nodes, &ranks, ranks[0], reclaim) {
                    Ok(leaving) => {
                        prop_assert_eq!(leaving.len() as u32, count);
                        prop_assert!(!leaving.contains(&ranks[0]));
                        let cut: Vec<UnitId> = ranks.iter().filter(|member| !leaving.contains(member))
                            .map(|member| nodes.seat(*member).unwrap().unit).collect();
                        prop_assert!(leaving.iter()
                            .all(|member| !cut.contains(&nodes.seat(*member).unwrap().unit)));
                        if !node_units {
                            prop_assert!(leaving.iter().rev().eq(ranks[ranks.len() - leaving.len()..].iter()));
                        }
                        for emptied in nodes.vacate(&leaving).unwrap() {
                            prop_assert_eq!(nodes.get(emptied).unwrap().processes(), 0);
                        }
                        ranks.retain(|member| !leaving.contains(member));
                    }
                    Err(PlaceError::TooFew { asked, possible }) => {
                        prop_assert!(asked == count && possible < count);
                    }
                    Err(PlaceError::Indivisible { fewer, more, .. }) => {
                        prop_assert!(node_units && fewer < count && count < more);
                        let reclaim = |count| Reclaim { count: Some(count), hosts: &[] };
                        prop_assert!(leavers(&nodes, &ranks, ranks[0], reclaim(fewer)).is_ok());
                        prop_assert!(leavers(&nodes, &ranks, ranks[0], reclaim(more)).is_ok());
                    }
                    Err(error) => prop_assert!(false, "{}", error),
                }
            }
            prop_assert!(nodes.iter().all(|node| node.processes() <= node.slots()));
            let total: u32 = nodes.iter().map(|node| node.processes()).sum();
            prop_assert_eq!(total as usize, ranks.len());
        }
    }
}
