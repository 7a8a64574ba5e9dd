//! Contexts over forked processes, without MPI: agreement of the ranks, and deaths that they
//! survive.
#![allow(unsafe_code, clippy::unwrap_used, clippy::print_stderr, missing_docs)]

#[path = "context_processes/deaths.rs"]
mod deaths;
mod support;

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use quo::affinity::Target;
use quo::context::{CreateOptions, Request};
use quo::group::local::LocalSpace;
use quo::plan::Policy;
use quo::{Context, CpuSet, ErrorKind, ObjectType};
use support::contexts::{TWO_PACKAGES, options, set, with_contexts};
use support::{Ranks, Segments};

fn main() -> std::process::ExitCode {
    support::run(&[
        ("ranks_of_one_node_know_each_other", ranks_of_one_node_know_each_other),
        ("nodes_are_told_apart_and_numbered_alike", nodes_are_told_apart_and_numbered_alike),
        ("contexts_coexist_and_come_and_go", contexts_coexist_and_come_and_go),
        ("flags_that_differ_are_one_error_on_all", flags_that_differ_are_one_error_on_all),
        (
            "machines_that_differ_are_one_error_with_values",
            machines_that_differ_are_one_error_with_values,
        ),
        ("unavailable_topology_is_one_error_on_all_ranks", bad_topology_is_one_error_on_all),
        ("a_directory_that_is_missing_is_one_error_on_all", a_missing_directory_is_one_error),
        ("a_directory_without_room_is_one_error_on_all", no_room_is_one_error_on_all),
        ("a_directory_that_is_unsafe_is_one_error_on_all", an_unsafe_directory_is_one_error_on_all),
        ("push_and_pop_on_a_simulated_machine", push_and_pop_on_a_simulated_machine),
        ("pushes_outside_the_allowed_set_name_both_sets", pushes_outside_name_both_sets),
        ("distribution_follows_simulated_bindings", distribution_follows_simulated_bindings),
        ("different_arguments_are_one_error_and_life_goes_on", different_arguments_are_one_error),
        ("groups_over_objects_hold_the_ranks_on_them", groups_over_objects_hold_the_ranks_on_them),
        ("barrier_times_out_for_all_and_the_next_works", barrier_times_out_for_all),
        (
            "a_rank_killed_before_the_barrier_is_named",
            deaths::a_rank_killed_before_the_barrier_is_named,
        ),
        (
            "a_rank_killed_inside_the_barrier_is_named",
            deaths::a_rank_killed_inside_the_barrier_is_named,
        ),
        (
            "a_rank_that_became_another_program_has_no_binding",
            deaths::another_program_has_no_binding,
        ),
        ("a_detached_rank_has_the_binding_that_it_pushed", deaths::detached_ranks_have_bindings),
        ("a_rank_killed_inside_create_is_named", deaths::a_rank_killed_inside_create_is_named),
        (
            "creation_ends_by_the_check_of_its_caller",
            deaths::creation_ends_by_the_check_of_its_caller,
        ),
        ("a_forked_child_is_refused", deaths::a_forked_child_is_refused),
        ("a_forked_child_is_known_as_itself", deaths::a_forked_child_is_known_as_itself),
        ("a_detached_rank_is_not_waited_for_until_it_attaches", deaths::detach_and_attach),
        (
            "survivors_go_on_after_expelling_the_dead",
            deaths::survivors_go_on_after_expelling_the_dead,
        ),
    ])
}

fn ranks_of_one_node_know_each_other() {
    for size in [1, 2, 3, 4, 8] {
        with_contexts(size, &[], |context| {
            assert_eq!(
                (context.size(), context.node_size(), context.node_count()),
                (size, size, 1)
            );
            assert_eq!(context.rank(), context.node_rank());
            assert_eq!(context.count(ObjectType::Machine), 1);
            for node_rank in 0..size {
                assert_eq!(context.binding_of(node_rank).unwrap(), context.binding().unwrap());
            }
            let all: Vec<usize> = (0..size).collect();
            assert_eq!(context.ranks_on(ObjectType::Machine, 0).unwrap(), all);
            for _ in 0..100 {
                context.barrier().unwrap();
            }
        });
    }
}

fn nodes_are_told_apart_and_numbered_alike() {
    let segments = Segments::new();
    let space = LocalSpace::new(5, segments.path()).unwrap().with_nodes(&[7, 3, 7, 3, 7]);
    Ranks::fork(5, |rank| {
        let group = space.join(rank).unwrap();
        let context = Context::create_with(group, options(segments.path())).unwrap();
        assert_eq!(context.node_count(), 2);
        assert_eq!(context.node_index(), rank % 2);
        assert_eq!(context.node_rank(), rank / 2);
        assert_eq!(context.node_size(), if rank % 2 == 0 { 3 } else { 2 });
        assert_eq!(context.rank_of(1), Some(rank % 2 + 2));
        assert!(context.rank_of(3).is_none());
        // One worker per machine is one per node.
        let selected = context.auto_distrib(ObjectType::Machine, 1).unwrap();
        assert_eq!(selected, rank < 2);
        let part = context.group_over(ObjectType::Machine).unwrap();
        assert_eq!((part.rank(), part.size()), (context.node_rank(), context.node_size()));
        context.barrier().unwrap();
        context.free().unwrap();
    })
    .succeed();
    drop(space);
    segments.assert_empty();
}

fn contexts_coexist_and_come_and_go() {
    let segments = Segments::new();
    let space = LocalSpace::new(3, segments.path()).unwrap();
    let again = LocalSpace::new(3, segments.path()).unwrap();
    let pair = LocalSpace::new(2, segments.path()).unwrap();
    Ranks::fork(3, |rank| {
        let make = |space: &LocalSpace, rank| {
            let group = space.join(rank).unwrap();
            Context::create_with(group, options(segments.path())).unwrap()
        };
        let first = make(&space, rank);
        let second = make(&again, 2 - rank);
        let third = (rank < 2).then(|| make(&pair, rank));
        first.barrier().unwrap();
        second.barrier().unwrap();
        if let Some(third) = &third {
            assert_eq!(third.size(), 2);
            third.barrier().unwrap();
        }
        assert_eq!(second.rank(), 2 - rank);
        first.barrier().unwrap();
        first.free().unwrap();
        second.barrier().unwrap();
        drop(second);
    })
    .succeed();
    drop((space, again, pair));
    segments.assert_empty();
}

fn flags_that_differ_are_one_error_on_all() {
    let segments = Segments::new();
    let first = LocalSpace::new(3, segments.path()).unwrap();
    let second = LocalSpace::new(3, segments.path()).unwrap();
    Ranks::fork(3, |rank| {
        let wrong = options(segments.path()).with_no_smt(rank == 1);
        let error = Context::create_with(first.join(rank).unwrap(), wrong).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Disagreement);
        assert!(error.to_string().contains("set on rank 1"), "{error}");
        let right = options(segments.path()).with_no_smt(true);
        let context = Context::create_with(second.join(rank).unwrap(), right).unwrap();
        context.barrier().unwrap();
    })
    .succeed();
    drop((first, second));
    segments.assert_empty();
}

fn machines_that_differ_are_one_error_with_values() {
    let segments = Segments::new();
    let first = LocalSpace::new(3, segments.path()).unwrap();
    let second = LocalSpace::new(3, segments.path()).unwrap();
    let third = LocalSpace::new(3, segments.path()).unwrap();
    Ranks::fork(3, |rank| {
        set("QUO_TOPOLOGY", if rank == 1 { "pack:1 core:8 pu:2" } else { TWO_PACKAGES });
        let refused = |space: &LocalSpace| {
            let options = options(segments.path());
            let error = Context::create_with(space.join(rank).unwrap(), options).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Disagreement);
            error.to_string()
        };
        let text = refused(&first);
        let values = "QUO_TOPOLOGY: \"pack:2 core:4 pu:2\" on rank 0, 2; \
                      \"pack:1 core:8 pu:2\" on rank 1";
        assert!(text.ends_with(values), "{text}");
        set("QUO_TOPOLOGY", TWO_PACKAGES);
        if rank == 2 {
            set("QUO_BINDING", "core");
        }
        let text = refused(&second);
        let values = "QUO_BINDING: not set on rank 0, 1; \"core\" on rank 2";
        assert!(text.ends_with(values), "{text}");
        set("QUO_BINDING", "core");
        let options = options(segments.path());
        let context = Context::create_with(third.join(rank).unwrap(), options).unwrap();
        context.barrier().unwrap();
    })
    .succeed();
    drop((first, second, third));
    segments.assert_empty();
}

fn bad_topology_is_one_error_on_all() {
    for (variable, value) in [
        ("QUO_TOPOLOGY", "/nowhere/at/all.xml"),
        ("QUO_TOPOLOGY", "pack:two"),
        ("QUO_BINDING", "die"),
        ("QUO_WAIT", "patiently"),
        ("QUO_CREATE_TIMEOUT", "-1"),
    ] {
        let segments = Segments::new();
        let space = LocalSpace::new(3, segments.path()).unwrap();
        Ranks::fork(3, |rank| {
            if variable == "QUO_BINDING" {
                set("QUO_TOPOLOGY", TWO_PACKAGES);
            }
            set(variable, value);
            let mut options = options(segments.path());
            if variable == "QUO_CREATE_TIMEOUT" {
                options = CreateOptions::new().with_directory(segments.path());
            }
            let error = Context::create_with(space.join(rank).unwrap(), options).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(variable) && text.contains("rank 0"), "{text}");
        })
        .succeed();
        drop(space);
        segments.assert_empty();
    }
}

fn a_missing_directory_is_one_error() {
    let segments = Segments::new();
    let space = LocalSpace::new(2, segments.path()).unwrap();
    Ranks::fork(2, |rank| {
        let missing = segments.path().join("missing");
        let error = Context::create_with(space.join(rank).unwrap(), options(&missing)).unwrap_err();
        assert!(error.to_string().contains("missing"), "{error}");
    })
    .succeed();
    drop(space);
    segments.assert_empty();
}

fn no_room_is_one_error_on_all() {
    if !nix::unistd::geteuid().is_root() {
        quo_tests::suite::skip("mounting a small file system needs root");
    }
    let segments = Segments::new();
    let full = segments.path().join("full");
    std::fs::create_dir(&full).unwrap();
    // The mount is visible only to this process and its ranks, and ends with them.
    Ranks::fork(1, |_| {
        support::mount_small_directory(&full, "size=8k");
        let spaces = [0, 1].map(|_| LocalSpace::new(3, segments.path()).unwrap());
        Ranks::fork(3, |rank| {
            let group = spaces[0].join(rank).unwrap();
            let error = Context::create_with(group, options(&full)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutOfResources);
            let text = error.to_string();
            assert!(text.contains("rank 0") && text.contains("no room"), "{text}");
            assert_eq!(std::fs::read_dir(&full).unwrap().count(), 0);
            // The program can continue elsewhere.
            let group = spaces[1].join(rank).unwrap();
            let context = Context::create_with(group, options(segments.path())).unwrap();
            context.barrier().unwrap();
        })
        .succeed();
    })
    .succeed();
    std::fs::remove_dir(&full).unwrap();
    segments.assert_empty();
}

fn an_unsafe_directory_is_one_error_on_all() {
    let segments = Segments::new();
    let shared = segments.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    // Any user may remove files in it and create others in their place.
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o777)).unwrap();
    let spaces = [0, 1].map(|_| LocalSpace::new(3, segments.path()).unwrap());
    Ranks::fork(3, |rank| {
        let group = spaces[0].join(rank).unwrap();
        let error = Context::create_with(group, options(&shared)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("rank 0") && text.contains("shared"), "{text}");
        let group = spaces[1].join(rank).unwrap();
        Context::create_with(group, options(segments.path())).unwrap().barrier().unwrap();
    })
    .succeed();
    drop(spaces);
    std::fs::remove_dir(&shared).unwrap();
    segments.assert_empty();
}

fn push_and_pop_on_a_simulated_machine() {
    let environment = [("QUO_TOPOLOGY", TWO_PACKAGES), ("QUO_BINDING", "core")];
    with_contexts(8, &environment, |context| {
        let rank = context.node_rank();
        let core = CpuSet::from_range(2 * rank..2 * rank + 2);
        assert_eq!(context.binding().unwrap(), core);
        assert!(context.is_bound().unwrap());
        let package = rank / 4;
        assert!(context.is_inside(ObjectType::Package, package).unwrap());
        assert!(!context.is_on(ObjectType::Package, 1 - package).unwrap());
        {
            let guard = context.push_guard(&Target::Enclosing(ObjectType::Package)).unwrap();
            assert_eq!(guard.cpus().len(), 8);
            assert!(guard.cpus().contains(8 * package));
            context.push(&Target::Object(ObjectType::Core, 7)).unwrap();
            assert_eq!(context.binding().unwrap(), CpuSet::from_range(14..16));
            assert_eq!(context.push_depth(), 2);
            context.pop().unwrap();
        }
        assert_eq!(context.binding().unwrap(), core);
        assert_eq!(context.pop().unwrap_err().kind(), ErrorKind::Pop);
        context.barrier().unwrap();
        let here: Vec<usize> = (4 * package..4 * package + 4).collect();
        assert_eq!(context.ranks_on(ObjectType::Package, package).unwrap(), here);
        context.barrier().unwrap();
    });
}

fn pushes_outside_name_both_sets() {
    with_contexts(1, &[("QUO_TOPOLOGY", TWO_PACKAGES)], |context| {
        let before = context.binding().unwrap();
        let outside = Target::Cpus("14-17".parse().unwrap());
        let error = context.push(&outside).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Binding);
        assert!(error.to_string().contains("14-17") && error.to_string().contains("0-15"));
        let nowhere = context.push(&Target::Object(ObjectType::Package, 9)).unwrap_err();
        assert_eq!(nowhere.kind(), ErrorKind::NotFound);
        let wide = context.push(&Target::Enclosing(ObjectType::Core)).unwrap_err();
        assert_eq!(wide.kind(), ErrorKind::NotFound);
        assert_eq!(context.binding().unwrap(), before);
        assert_eq!(context.push_depth(), 0);
    });
}

fn distribution_follows_simulated_bindings() {
    let cases: [(&str, &[usize]); 3] = [("core", &[0, 4]), ("none", &[0, 1]), ("8-15", &[0])];
    for (binding, selected) in cases {
        let environment = [("QUO_TOPOLOGY", TWO_PACKAGES), ("QUO_BINDING", binding)];
        with_contexts(8, &environment, |context| {
            // Repeated, so that a fast rank's next publication meets a slow rank's reading.
            for _ in 0..200 {
                let plan = context.distribute(ObjectType::Package, 1, Policy::Spread).unwrap();
                assert_eq!(plan.selected(), selected);
                let mine = context.auto_distrib(ObjectType::Package, 1).unwrap();
                assert_eq!(mine, selected.contains(&context.node_rank()));
            }
        });
    }
}

fn different_arguments_are_one_error() {
    with_contexts(3, &[("QUO_TOPOLOGY", TWO_PACKAGES)], |context| {
        let odd = context.rank() == 1;
        let request = |kind, max_per_object| {
            context.distribute_request(&Request { kind, max_per_object, policy: Policy::Spread })
        };
        let error = request(Some(ObjectType::Core), if odd { 2 } else { 1 }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Disagreement);
        assert!(error.to_string().contains("1 on rank 0, 2; 2 on rank 1"), "{error}");
        let error = request((!odd).then_some(ObjectType::Core), 1).unwrap_err();
        assert!(error.to_string().contains("no object type on rank 1"), "{error}");
        for (kind, max, wanted) in [
            (None, 1, ErrorKind::InvalidArgument),
            (Some(ObjectType::Core), 0, ErrorKind::InvalidArgument),
            (Some(ObjectType::Core), -3, ErrorKind::InvalidArgument),
            (Some(ObjectType::Die), 1, ErrorKind::NotFound),
        ] {
            assert_eq!(request(kind, max).unwrap_err().kind(), wanted);
        }
        assert!(request(Some(ObjectType::Core), 1).is_ok());
        assert!(context.group_over_request((!odd).then_some(ObjectType::Core)).is_err());
        assert!(context.group_over(ObjectType::Core).is_ok());
    });
}

fn groups_over_objects_hold_the_ranks_on_them() {
    let environment = [("QUO_TOPOLOGY", TWO_PACKAGES), ("QUO_BINDING", "core")];
    with_contexts(8, &environment, |context| {
        let rank = context.rank();
        let package = context.group_over(ObjectType::Package).unwrap();
        assert_eq!((package.rank(), package.size()), (rank % 4, 4));
        let core = context.group_over(ObjectType::Core).unwrap();
        assert_eq!((core.rank(), core.size()), (0, 1));
        let machine = context.group_over(ObjectType::Machine).unwrap();
        assert_eq!((machine.rank(), machine.size()), (rank, 8));
        package.barrier().unwrap();
    });
}

fn barrier_times_out_for_all() {
    with_contexts(3, &[], |context| {
        // Rank 2 arrives only after the others have given up, and gets the same error.
        if context.rank() == 2 {
            let others = context.named_barrier("late", &[0, 1, 2]).unwrap();
            others.wait().unwrap();
            let error = context.barrier_timeout(Duration::from_secs(30)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Timeout);
        } else {
            let others = context.named_barrier("late", &[0, 1, 2]).unwrap();
            let error = context.barrier_timeout(Duration::from_millis(20)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Timeout);
            others.wait().unwrap();
        }
        context.barrier().unwrap();
    });
}
