//! Tests of the registry.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::model::member::MemberId;

const ROOT: MemberId = MemberId(0);

fn name(text: &str) -> SetName {
    SetName::new(text).unwrap()
}

fn below(word: &str) -> SetName {
    name(&format!("mpi://app/app1/{word}"))
}

fn ids(ids: impl IntoIterator<Item = u64>) -> Members {
    ids.into_iter().map(MemberId).collect()
}

fn registry(size: u64) -> Registry {
    Registry::new("app1", ids(0..size)).unwrap()
}

fn plain() -> AttributeChange {
    AttributeChange::none()
}

/// Makes a set with exactly these members, from single ones.
fn create(registry: &mut Registry, word: &str, members: Members) -> SetName {
    let root = registry.application();
    let target = below(word);
    let mut made = false;
    for member in members.iter() {
        let first = if made { target.clone() } else { SetName::caller() };
        let second = if made { SetName::caller() } else { root.clone() };
        let op = if made { SetOp::Union } else { SetOp::Intersection };
        registry.operate(member, op, &first, &second, Some(&target), &plain()).unwrap();
        made = true;
    }
    target
}

#[test]
fn the_application_is_there_from_the_start() {
    let registry = registry(5);
    let info = registry.info("test", &name("mpi://app/app1"), MemberId(4)).unwrap();
    assert_eq!((info.size, info.version, info.epoch, info.active), (5, 0, 0, true));
    assert!(info.included && !info.dynamic);
    assert!(Registry::new("app1", Members::new()).is_err());
}

#[test]
fn world_and_self_are_other_names() {
    let registry = registry(5);
    let world = registry.resolve("test", &SetName::world(), ROOT).unwrap();
    assert_eq!(world.members(), &ids(0..5));
    let alone = registry.resolve("test", &name("mpi://self"), MemberId(3)).unwrap();
    assert_eq!(alone.members(), &ids([3]));
    assert!(registry.resolve("test", &SetName::caller(), MemberId(99)).is_err());
    let shown = registry.names(ROOT);
    assert_eq!(shown, [SetName::world(), SetName::caller(), registry.application()]);
    assert_eq!((registry.count(ROOT), registry.count(MemberId(99))), (3, 2));
}

#[test]
fn applications_make_sets_only_below_their_own_name() {
    let mut registry = registry(4);
    let before = registry.clone();
    let (root, me) = (registry.application(), SetName::caller());
    for target in
        ["mpi://rte/app1/delta/1", "mpi://rte/x", "mpi://app/app2/x", "mpi://x", "mpi://SELF"]
    {
        let refused =
            registry.operate(ROOT, SetOp::Difference, &root, &me, Some(&name(target)), &plain());
        assert!(matches!(refused, Err(SetsError::NotTheApplications { .. })), "{target}");
    }
    assert_eq!(registry, before);
}

#[test]
fn unknown_empty_and_taken_are_told_apart_and_change_nothing() {
    let mut registry = registry(4);
    let root = registry.application();
    let one = create(&mut registry, "one", ids([1]));
    let two = create(&mut registry, "two", ids([2]));
    let before = registry.clone();
    let mut ask = |op, first: &SetName, second: &SetName, target: Option<&SetName>| {
        registry.operate(ROOT, op, first, second, target, &plain()).unwrap_err()
    };
    let nothing = below("nothing");
    assert!(matches!(ask(SetOp::Union, &nothing, &one, None), SetsError::Unknown { .. }));
    assert!(matches!(ask(SetOp::Union, &one, &nothing, None), SetsError::Unknown { .. }));
    let empty = ask(SetOp::Intersection, &one, &two, None);
    assert_eq!(
        empty.to_string(),
        "operate: intersection of mpi://app/app1/one and mpi://app/app1/two is empty"
    );
    assert!(matches!(ask(SetOp::Difference, &one, &root, None), SetsError::EmptyResult { .. }));
    assert!(matches!(ask(SetOp::Union, &one, &two, Some(&two)), SetsError::NameTaken { .. }));
    let bad = plain().hint("colour", "red");
    let refused = registry.operate(ROOT, SetOp::Union, &one, &two, None, &bad);
    assert!(matches!(refused, Err(SetsError::BadEntry { what: "hint", .. })));
    assert_eq!(registry, before);
}

#[test]
fn wanted_name_is_taken_and_a_repeat_is_a_version() {
    let mut registry = registry(4);
    let one = create(&mut registry, "one", ids([1]));
    let two = create(&mut registry, "two", ids([2]));
    let both = below("both");
    let made = registry.operate(ROOT, SetOp::Union, &one, &two, Some(&both), &plain()).unwrap();
    assert_eq!((&made, registry.get(&both).unwrap().version()), (&both, 0));
    let made = registry.operate(ROOT, SetOp::Union, &one, &two, Some(&one), &plain()).unwrap();
    assert_eq!((&made, registry.get(&one).unwrap().version()), (&one, 1));
    registry.operate(ROOT, SetOp::Union, &one, &two, Some(&one), &plain()).unwrap();
    assert_eq!(registry.get(&one).unwrap().version(), 1, "the members are the same");
    let chosen = registry.operate(ROOT, SetOp::Union, &one, &two, None, &plain()).unwrap();
    assert_eq!(chosen.domain("app1"), Domain::Created);
}

#[test]
fn attributes_are_inherited_from_the_first_set_unless_given() {
    let mut registry = registry(4);
    let root = registry.application();
    let said = plain().active(false).hint("mpi_ps_sched_opt", "8").hint("mpi_ps_sched_poll", "2");
    registry.update(&root, &said).unwrap();
    assert_eq!(registry.get(&root).unwrap().version(), 0);
    let (me, target) = (SetName::caller(), below("rest"));
    let change = plain().active(true).hint("mpi_ps_sched_poll", "5");
    registry.operate(ROOT, SetOp::Difference, &root, &me, Some(&target), &change).unwrap();
    let info = registry.info("test", &target, ROOT).unwrap();
    assert!(info.active && !info.included);
    let entries: BTreeMap<String, String> = info.entries().into_iter().collect();
    assert_eq!(entries["mpi_ps_sched_opt"], "8");
    assert_eq!(entries["mpi_ps_sched_poll"], "5");
    assert_eq!(entries["mpi_size"], "3");
    assert_eq!((&*entries["mpi_dyn"], &*entries["mpi_included"]), ("false", "false"));
    let mut away = plain();
    away.hints.insert("mpi_ps_sched_opt".to_owned(), None);
    registry.update(&target, &away).unwrap();
    assert!(!registry.get(&target).unwrap().attributes().hints.contains_key("mpi_ps_sched_opt"));
    let unknown = registry.update(&below("x"), &plain());
    assert!(matches!(unknown, Err(SetsError::Unknown { .. })));
}

/// Figure 6.1: an inactive application, active sets `mul`, `add` and `roots`, a delta in `mul`.
#[test]
fn the_example_of_figure_6_1() {
    let mut registry = registry(9);
    let root = registry.application();
    let mul = create(&mut registry, "mul", ids(0..3));
    let add = create(&mut registry, "add", ids(3..6));
    let roots = create(&mut registry, "roots", ids(6..9));
    assert_eq!(
        registry.malleable(),
        std::slice::from_ref(&root),
        "an active application contains the others"
    );
    registry.update(&root, &plain().active(false)).unwrap();
    let delta = registry.define_delta(DeltaKind::Sub, ids([2])).unwrap();
    assert_eq!(registry.malleable(), [add.clone(), mul.clone(), roots]);
    assert_eq!(registry.reference_counted(&delta).unwrap(), std::slice::from_ref(&mul));
    let members = |name: &SetName| registry.get(name).unwrap().members().clone();
    assert_eq!(registry.affected(&members(&mul), &members(&delta)), std::slice::from_ref(&root));

    registry.operate(ROOT, SetOp::Difference, &mul, &delta, Some(&mul), &plain()).unwrap();
    let seen = |name: &SetName| {
        let set = registry.get(name).unwrap();
        (set.members().clone(), set.version(), set.epoch())
    };
    assert_eq!(seen(&mul), (ids([0, 1]), 3, 1), "two unions made it, so it was version 2");
    assert_eq!(seen(&root), (ids([0, 1, 3, 4, 5, 6, 7, 8]), 1, 1));
    assert_eq!(seen(&add), (ids(3..6), 2, 0));
}

#[test]
fn active_application_is_the_only_malleable_set() {
    let mut registry = registry(4);
    let root = registry.application();
    let delta = registry.define_delta(DeltaKind::Add, ids([100])).unwrap();
    assert_eq!(registry.malleable(), std::slice::from_ref(&root));
    assert!(registry.reference_counted(&delta).unwrap().is_empty(), "joiners are in no set yet");
    assert!(registry.affected(&ids(0..4), &ids([100])).is_empty());
    let leaving = registry.define_delta(DeltaKind::Sub, ids([3])).unwrap();
    assert_eq!(registry.reference_counted(&leaving).unwrap(), [root]);
    let unknown = registry.reference_counted(&below("x"));
    assert!(matches!(unknown, Err(SetsError::NoOpenDelta { .. })));
}

#[test]
fn inactive_supersets_grow_along_and_active_ones_do_not() {
    let mut registry = registry(6);
    let root = registry.application();
    let active = create(&mut registry, "active", ids(0..4));
    let inactive = create(&mut registry, "inactive", ids(0..5));
    registry.update(&inactive, &plain().active(false)).unwrap();
    let small = create(&mut registry, "small", ids(0..2));
    let delta = registry.define_delta(DeltaKind::Add, ids([50, 51])).unwrap();
    let larger = below("larger");
    registry.operate(ROOT, SetOp::Union, &small, &delta, Some(&larger), &plain()).unwrap();
    let members = |name: &SetName| registry.get(name).unwrap().members().clone();
    assert_eq!(members(&inactive), ids([0, 1, 2, 3, 4, 50, 51]));
    assert_eq!((members(&active), members(&root)), (ids(0..4), ids(0..6)));
    assert_eq!(members(&small), ids(0..2), "the result has a name of its own");
    assert_eq!(
        (members(&larger), registry.get(&larger).unwrap().epoch()),
        (ids([0, 1, 50, 51]), 1)
    );
}

#[test]
fn asking_who_leaves_makes_nobody_leave() {
    let mut registry = registry(4);
    let root = registry.application();
    let some = create(&mut registry, "some", ids(2..4));
    registry.update(&some, &plain().active(false)).unwrap();
    let delta = registry.define_delta(DeltaKind::Sub, ids([3])).unwrap();
    let leavers = below("leavers");
    registry.operate(ROOT, SetOp::Intersection, &root, &delta, Some(&leavers), &plain()).unwrap();
    assert_eq!(registry.get(&some).unwrap().members(), &ids(2..4));
}

#[test]
fn epochs_never_fall_when_deltas_are_pruned() {
    let mut registry = registry(4);
    let mut last = 0;
    for round in 0..5 {
        let delta = registry.define_delta(DeltaKind::Add, ids([100 + round])).unwrap();
        let epoch = registry.get(&delta).unwrap().epoch();
        assert_eq!(epoch, last + 1);
        last = epoch;
        assert!(matches!(registry.prune(&delta), Err(SetsError::InUse { .. })));
        registry.conclude_delta(&delta, DeltaEnd::Finalized).unwrap();
        registry.prune(&delta).unwrap();
        assert!(registry.get(&delta).is_none());
    }
}

#[test]
fn ids_are_never_used_again() {
    let mut registry = registry(4);
    let delta = registry.define_delta(DeltaKind::Add, ids([70])).unwrap();
    registry.conclude_delta(&delta, DeltaEnd::Aborted).unwrap();
    registry.prune(&delta).unwrap();
    for used in [2, 70] {
        let again = registry.define_delta(DeltaKind::Add, ids([used, 900]));
        assert_eq!(again, Err(SetsError::IdReused { member: MemberId(used) }));
    }
    let gone = registry.define_delta(DeltaKind::Sub, ids([70]));
    assert_eq!(gone, Err(SetsError::NotThere { member: MemberId(70) }));
    registry.define_delta(DeltaKind::Sub, ids([3])).unwrap();
    let twice = registry.define_delta(DeltaKind::Sub, ids([2, 3]));
    assert_eq!(twice, Err(SetsError::NotThere { member: MemberId(3) }));
}

#[test]
fn aborted_growth_leaves_no_trace_in_any_set() {
    let mut registry = registry(4);
    let root = registry.application();
    let delta = registry.define_delta(DeltaKind::Add, ids([9])).unwrap();
    registry.operate(ROOT, SetOp::Union, &root, &delta, Some(&root), &plain()).unwrap();
    let only = below("only-joiners");
    registry.operate(ROOT, SetOp::Intersection, &root, &delta, Some(&only), &plain()).unwrap();
    registry.conclude_delta(&delta, DeltaEnd::Aborted).unwrap();
    let set = registry.get(&root).unwrap();
    assert_eq!((set.members(), set.version()), (&ids(0..4), 2));
    assert!(registry.get(&only).unwrap().is_deleted());
    assert!(registry.names(ROOT).contains(&only), "listed until it is pruned");
    let refused = registry.info("test", &only, ROOT);
    assert!(matches!(refused, Err(SetsError::Deleted { .. })));
    registry.prune(&only).unwrap();
    assert!(!registry.names(ROOT).contains(&only));
    let twice = registry.conclude_delta(&delta, DeltaEnd::Finalized);
    assert!(matches!(twice, Err(SetsError::NoOpenDelta { .. })));
}

#[test]
fn a_shrink_that_is_aborted_puts_everybody_back() {
    let mut registry = registry(4);
    let root = registry.application();
    let last = create(&mut registry, "last", ids([3]));
    registry.update(&last, &plain().active(false)).unwrap();
    let delta = registry.define_delta(DeltaKind::Sub, ids([2, 3])).unwrap();
    registry.operate(ROOT, SetOp::Difference, &root, &delta, Some(&root), &plain()).unwrap();
    assert_eq!(registry.get(&root).unwrap().members(), &ids(0..2));
    assert!(registry.get(&last).unwrap().is_deleted());
    registry.conclude_delta(&delta, DeltaEnd::Aborted).unwrap();
    assert_eq!(registry.get(&root).unwrap().members(), &ids(0..4));
    assert_eq!(registry.get(&last).unwrap().members(), &ids([3]));
    assert_eq!(registry.alive(), ids(0..4));
}

#[test]
fn sets_that_keep_the_gone_are_named() {
    let mut registry = registry(4);
    let root = registry.application();
    let pair = create(&mut registry, "pair", ids([1, 3]));
    let delta = registry.define_delta(DeltaKind::Sub, ids([3])).unwrap();
    registry.operate(ROOT, SetOp::Difference, &root, &delta, Some(&root), &plain()).unwrap();
    assert!(registry.stale().is_empty(), "they are still there");
    registry.conclude_delta(&delta, DeltaEnd::Finalized).unwrap();
    assert_eq!((registry.stale(), registry.alive()), (vec![pair], ids(0..3)));
}

#[test]
fn a_process_of_an_earlier_epoch_has_to_refresh() {
    let mut registry = registry(4);
    let root = registry.application();
    let pair = create(&mut registry, "pair", ids([0, 1]));
    let delta = registry.define_delta(DeltaKind::Sub, ids([3])).unwrap();
    registry.operate(ROOT, SetOp::Difference, &root, &delta, Some(&root), &plain()).unwrap();
    let info = |set: &SetName| registry.info("test", set, ROOT).unwrap();
    assert!(info(&root).needs_refresh(0) && !info(&root).needs_refresh(1));
    assert!(!info(&pair).needs_refresh(0), "nothing has happened to it");
}

#[test]
fn who_is_gone_comes_into_no_set_again() {
    let mut registry = registry(4);
    let root = registry.application();
    let leaving = registry.define_delta(DeltaKind::Sub, ids([3])).unwrap();
    let joining = registry.define_delta(DeltaKind::Add, ids([9])).unwrap();
    registry.operate(ROOT, SetOp::Difference, &root, &leaving, Some(&root), &plain()).unwrap();
    registry.conclude_delta(&leaving, DeltaEnd::Finalized).unwrap();
    registry.conclude_delta(&joining, DeltaEnd::Aborted).unwrap();
    let back = registry.operate(ROOT, SetOp::Union, &root, &leaving, None, &plain());
    assert!(matches!(back, Err(SetsError::Gone { .. })), "{back:?}");
    let back = registry.operate(ROOT, SetOp::Union, &root, &joining, None, &plain());
    assert!(matches!(back, Err(SetsError::Deleted { .. })), "{back:?}");
}

#[test]
fn a_split_has_every_member_once() {
    let mut registry = registry(7);
    let root = registry.application();
    let wrong = registry.split(ROOT, &root, &[3, 3], &root);
    assert!(matches!(wrong, Err(SetsError::BadParts { size: 7, sum: 6, .. })));
    assert!(registry.split(ROOT, &root, &[7, 0], &root).is_err());
    let parts = registry.split(ROOT, &SetName::world(), &[4, 1, 2], &root).unwrap();
    let members: Vec<Members> =
        parts.iter().map(|part| registry.get(part).unwrap().members().clone()).collect();
    assert_eq!(members, [ids(0..4), ids([4]), ids([5, 6])]);
    assert!(matches!(registry.split(ROOT, &root, &[7], &root), Err(SetsError::NameTaken { .. })));
}

#[test]
fn growth_goes_to_the_set_that_lacks_most() {
    let mut registry = registry(8);
    let root = registry.application();
    let parts = registry.split(ROOT, &root, &[6, 2], &root).unwrap();
    registry.update(&root, &plain().active(false)).unwrap();
    assert_eq!(registry.growth_target().as_ref(), Some(&parts[0]), "the first without hints");
    registry.update(&parts[1], &plain().hint(IDEAL_SIZE_HINT, "4")).unwrap();
    assert_eq!(registry.growth_target().as_ref(), Some(&parts[1]));
    registry.update(&parts[0], &plain().hint(IDEAL_SIZE_HINT, "96")).unwrap();
    assert_eq!(registry.growth_target().as_ref(), Some(&parts[0]));
}

#[test]
fn values_have_versions_and_wake_who_waits() {
    let mut registry = registry(4);
    let root = registry.application();
    let delta = registry.define_delta(DeltaKind::Add, ids([9])).unwrap();
    let mut waiters = Waiters::new();
    waiters.wait(&delta, "accept", 1, 11);
    waiters.wait(&delta, "accept", 2, 12);
    waiters.wait(&delta, "confirm", 1, 13);
    assert_eq!(registry.lookup(&delta, "accept"), Ok(None));
    let version = registry.publish(ROOT, &delta, "accept", root.as_str().as_bytes()).unwrap();
    assert_eq!(waiters.wake(&delta, "accept", version), [11]);
    assert!(waiters.cancel(13) && !waiters.cancel(13) && !waiters.cancel(11));
    assert_eq!(registry.publish(ROOT, &delta, "accept", b"").unwrap(), 2);
    let found = registry.lookup(&delta, "accept").unwrap().unwrap();
    assert_eq!((&*found.value, found.version, found.publisher), (&b""[..], 2, ROOT));
    assert_eq!(waiters.wake_all_at(&delta), [12]);
    assert_eq!(registry.withdraw(&delta, "accept"), Ok(true));
    assert_eq!(registry.withdraw(&delta, "accept"), Ok(false));
    assert_eq!(registry.publish(ROOT, &delta, "accept", b"again").unwrap(), 3);
    assert_eq!(registry.publish(ROOT, &SetName::world(), "key", b"1"), Ok(1));
    assert!(registry.lookup(&root, "key").unwrap().is_some(), "WORLD is the application");
    assert!(registry.publish(ROOT, &SetName::caller(), "key", b"1").is_err());
    assert!(registry.publish(ROOT, &root, "", b"1").is_err());
    assert!(registry.publish(ROOT, &root, "big", &vec![0; LONGEST_VALUE + 1]).is_err());
}

#[test]
fn a_batch_happens_whole_or_not_at_all() {
    let mut registry = registry(4);
    let before = registry.clone();
    let define = Operation::Define { kind: DeltaKind::Sub, members: ids([3]) };
    let wrong = Operation::Prune { set: below("x") };
    assert!(registry.apply(&Operation::Batch(vec![define.clone(), wrong])).is_err());
    assert_eq!(registry, before);
    let outcome = registry.apply(&Operation::Batch(vec![define])).unwrap();
    assert_eq!(outcome, Outcome::Batch(vec![Outcome::Set(name("mpi://rte/app1/delta/1"))]));
}

#[test]
fn an_operation_counts_once_and_none_may_be_missing() {
    let mut replica = Replica::new(registry(4));
    let define = Operation::Define { kind: DeltaKind::Sub, members: ids([3]) };
    assert!(matches!(replica.apply(1, &define), Err(SetsError::OutOfOrder { .. })));
    assert!(replica.apply(0, &define).unwrap().is_some());
    assert_eq!(replica.apply(0, &define), Ok(None));
    assert!(replica.apply(1, &define).is_err(), "it leaves already");
    assert_eq!(replica.applied(), 2, "what fails, fails everywhere, and counts");
}

/// Operations over few names, so that they interact; many of them fail.
fn operation() -> impl Strategy<Value = Operation> {
    let own = proptest::sample::select(vec!["", "", "/a", "/b", "/c"])
        .prop_map(|word| name(&format!("mpi://app/app1{word}")));
    let delta = (1..5u32).prop_map(|epoch| name(&format!("mpi://rte/app1/delta/{epoch}")));
    let word = prop_oneof![4 => own.clone(), 3 => delta.clone(), 2 => Just(SetName::caller())];
    let op = prop_oneof![Just(SetOp::Union), Just(SetOp::Difference), Just(SetOp::Intersection)];
    let end = prop_oneof![Just(DeltaEnd::Finalized), Just(DeltaEnd::Aborted)];
    let some = |from, to| proptest::collection::btree_set(from..to, 1..3).prop_map(ids);
    let define = prop_oneof![
        some(11, 60u64).prop_map(|members| Operation::Define { kind: DeltaKind::Add, members }),
        some(0, 13u64).prop_map(|members| Operation::Define { kind: DeltaKind::Sub, members }),
    ];
    let change = proptest::option::of(any::<bool>())
        .prop_map(|active| AttributeChange { active, ..AttributeChange::none() });
    prop_oneof![
        12 => (0..12u64, op, word.clone(), word.clone(), proptest::option::of(own.clone()), change.clone())
            .prop_map(|(caller, op, first, second, target, attributes)| Operation::Operate {
                caller: MemberId(caller), op, first, second, target, attributes
            }),
        4 => (own.clone(), delta.clone(), any::<bool>()).prop_map(|(first, second, joins)| Operation::Operate {
            caller: ROOT, op: if joins { SetOp::Union } else { SetOp::Difference }, first: first.clone(), second,
            target: Some(first), attributes: plain()
        }),
        3 => (own.clone(), change).prop_map(|(target, attributes)| Operation::Update { target, attributes }),
        3 => define,
        3 => (delta, end).prop_map(|(delta, end)| Operation::Conclude { delta, end }),
        1 => word.clone().prop_map(|set| Operation::Prune { set }),
        1 => word.prop_map(|set| Operation::Publish {
            publisher: ROOT, set, key: "key".to_owned(), value: vec![1]
        }),
    ]
}

/// Model of definitions 2 to 4, over sets of numbers.
fn model(registry: &Registry) -> BTreeMap<SetName, (BTreeSet<u64>, bool)> {
    let own = |name: &SetName| matches!(name.domain("app1"), Domain::Application | Domain::Created);
    let sets = registry.sets().filter(|(name, set)| own(name) && !set.is_deleted());
    sets.map(|(name, set)| {
        let members = set.members().iter().map(|member| member.0).collect();
        (name.clone(), (members, set.attributes().active))
    })
    .collect()
}

proptest! {
    #[test]
    fn all_copies_are_equal_and_sets_keep_their_promises(
        operations in proptest::collection::vec(operation(), 0..80),
    ) {
        let mut one = Replica::new(registry(12));
        let mut two = one.clone();
        for (number, operation) in operations.iter().enumerate() {
            let before = one.registry().clone();
            let outcome = one.apply(number as u64, operation);
            let travelled: Operation =
                serde_json::from_str(&serde_json::to_string(operation).unwrap()).unwrap();
            prop_assert_eq!(&outcome, &two.apply(number as u64, &travelled));
            let after = one.registry();
            if outcome.is_err() {
                prop_assert_eq!(&before, after);
            }
            prop_assert!(after.last_epoch() >= before.last_epoch());
            for (name, set) in after.sets() {
                if let Some(old) = before.get(name) {
                    let changed = set.members() != old.members();
                    prop_assert_eq!(set.version(), old.version() + u64::from(changed));
                    prop_assert!(set.epoch() >= old.epoch());
                    prop_assert!(changed || set.epoch() == old.epoch());
                }
            }
        }
        prop_assert_eq!(&one, &two);
        let text = serde_json::to_string(&one).unwrap();
        let back: Replica = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&one, &back);
    }

    #[test]
    fn results_and_what_follows_them_are_as_defined(
        sets in proptest::collection::vec((proptest::collection::btree_set(0..8u64, 1..8), any::<bool>()), 1..6),
        leaving in proptest::collection::btree_set(0..8u64, 1..4),
        first in any::<proptest::sample::Index>(),
        op in prop_oneof![Just(SetOp::Union), Just(SetOp::Difference)],
        root_active in any::<bool>(),
    ) {
        let mut registry = registry(8);
        let mut names = vec![registry.application()];
        for (number, (members, _)) in sets.iter().enumerate() {
            names.push(create(&mut registry, &format!("s{number}"), ids(members.iter().copied())));
        }
        let active = std::iter::once(root_active).chain(sets.iter().map(|set| set.1));
        for (name, active) in names.iter().zip(active) {
            registry.update(name, &plain().active(active)).unwrap();
        }
        let delta = registry.define_delta(DeltaKind::Sub, ids(leaving.iter().copied())).unwrap();
        let before = model(&registry);
        let maximal = |of: &BTreeSet<u64>| {
            !before.values().any(|(other, active)| *active && of.is_subset(other) && of != other)
        };
        let malleable: Vec<SetName> = before.iter()
            .filter(|(_, (members, active))| *active && maximal(members))
            .map(|(name, _)| name.clone()).collect();
        prop_assert_eq!(&registry.malleable(), &malleable);
        let counted: Vec<SetName> = malleable.iter()
            .filter(|name| !before[*name].0.is_disjoint(&leaving)).cloned().collect();
        prop_assert_eq!(registry.reference_counted(&delta).unwrap(), counted);

        let first = first.get(&names);
        let result: BTreeSet<u64> = match op {
            SetOp::Union => &before[first].0 | &leaving,
            _ => &before[first].0 - &leaving,
        };
        let made = registry.operate(ROOT, op, first, &delta, Some(first), &plain());
        if result.is_empty() {
            prop_assert!(matches!(made, Err(SetsError::EmptyResult { .. })), "{:?}", made);
            prop_assert_eq!(model(&registry), before);
            return Ok(());
        }
        prop_assert!(made.is_ok());
        for (name, (members, active)) in &before {
            let contains = before[first].0.is_subset(members) && before[first].0 != *members;
            let affected = !active && (!members.is_disjoint(&leaving) || contains);
            let expected: BTreeSet<u64> = match op {
                _ if name == first => result.clone(),
                SetOp::Union if affected => members | &leaving,
                SetOp::Difference if affected => members - &leaving,
                _ => members.clone(),
            };
            let now: BTreeSet<u64> =
                registry.get(name).unwrap().members().iter().map(|member| member.0).collect();
            prop_assert_eq!(now, expected, "{}", name);
        }
    }
}
