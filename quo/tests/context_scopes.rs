//! Scopes over forked processes, without MPI: parts of the hardware for components that run at the
//! same time.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use quo::affinity::Target;
use quo::context::Split;
use quo::phase::PhaseSpec;
use quo::topology::DeviceKind;
use quo::{Context, CpuSet, ErrorKind, ObjectType};
use support::contexts::with_contexts;

fn main() -> std::process::ExitCode {
    support::run(&[
        ("parts_are_disjoint_and_ranks_bound_inside", parts_are_disjoint_and_ranks_bound_inside),
        ("phases_of_two_scopes_run_at_the_same_time", phases_of_two_scopes_run_at_once),
        ("scope_counts_and_names_its_own_objects", scope_counts_its_own_objects),
        ("freed_scope_gives_the_binding_back", freed_scope_gives_the_binding_back),
        ("scope_freed_after_its_parents_pop_gives_back", scope_outlives_a_push_of_its_parent),
        ("dropped_scope_gives_the_binding_back", dropped_scope_gives_the_binding_back),
        ("pop_too_many_leaves_the_rank_in_its_scope", pop_too_many_leaves_the_rank_inside),
        ("pushes_outside_a_scope_are_refused", pushes_outside_a_scope_are_refused),
        ("scope_is_split_again", scope_is_split_again),
        ("impossible_split_fails_on_every_rank", impossible_split_fails_on_every_rank),
        ("different_splits_are_a_disagreement", different_splits_are_a_disagreement),
        ("scope_is_not_adapted", scope_is_not_adapted),
        ("scopes_of_hidden_threads_leave_them_hidden", scopes_leave_hidden_threads_hidden),
        ("devices_are_shared_out_near_ranks", devices_are_shared_out_near_ranks),
        ("scopes_near_devices_have_the_cores_near_them", scopes_near_devices_have_their_cores),
        ("device_that_is_not_there_fails_on_every_rank", missing_device_fails_on_every_rank),
        ("kernel_holds_each_rank_in_its_part", kernel_holds_each_rank_in_its_part),
    ])
}

const EIGHT_CORES: (&str, &str) = ("QUO_TOPOLOGY", "pack:2 core:4 pu:1");
const BOUND: [(&str, &str); 2] = [EIGHT_CORES, ("QUO_BINDING", "core")];
const UNBOUND: [(&str, &str); 1] = [EIGHT_CORES];

fn set(list: &str) -> CpuSet {
    list.parse().unwrap()
}

fn whole() -> PhaseSpec {
    PhaseSpec::over(ObjectType::Machine)
}

/// Ranks 0 to 2 of four are one component, rank 3 the other.
fn component(context: &Context) -> usize {
    usize::from(context.rank() == 3)
}

fn parts_are_disjoint_and_ranks_bound_inside() {
    with_contexts(4, &UNBOUND, |context| {
        let part = component(context);
        let split = Split::weights(&[3, 1]);
        let scope = context.split(&split, part).unwrap();
        assert_eq!(scope.part(), part);
        assert_eq!(scope.cpus(), set(["0-5", "6-7"][part]));
        assert_eq!(scope.confinement(), Some(scope.cpus()));
        assert_eq!((scope.size(), scope.node_size()), ([3, 1][part], [3, 1][part]));
        assert_eq!(scope.binding().unwrap(), scope.cpus(), "came unbound");
        assert!(!scope.is_bound().unwrap(), "has all of its scope");
        assert!(context.is_bound().unwrap());
        scope.free().unwrap();
        assert_eq!(context.confinement(), None);
    });
}

fn phases_of_two_scopes_run_at_once() {
    with_contexts(4, &UNBOUND, |context| {
        let part = component(context);
        let scope = context.split(&Split::weights(&[3, 1]), part).unwrap();
        let phase = scope.phase(whole()).unwrap();
        // Different numbers of runs: a scope that waited for the other one would never end.
        for _ in 0..[3, 20][part] {
            let outcome = phase.run(|worker| (worker.threads(), worker.cpus().clone())).unwrap();
            let works = scope.node_rank() == 0;
            let expected = ([6, 2][part], set(["0-5", "6-7"][part]));
            assert_eq!(outcome.value, works.then_some(expected));
            assert!(outcome.metrics.overlap.is_empty());
        }
        // The context itself still works, over all ranks, while the scopes exist.
        context.barrier().unwrap();
        scope.free().unwrap();
        let outcome = context.phase(whole()).unwrap().run(|worker| worker.threads()).unwrap();
        assert_eq!(outcome.value, (context.rank() == 0).then_some(8));
    });
}

fn scope_counts_its_own_objects() {
    with_contexts(4, &UNBOUND, |context| {
        let part = component(context);
        let scope = context.split(&Split::weights(&[3, 1]), part).unwrap();
        assert_eq!(scope.count(ObjectType::Core), [6, 2][part]);
        assert_eq!(scope.count(ObjectType::Package), [2, 1][part]);
        let last = scope.object(ObjectType::Package, [1, 0][part]).unwrap();
        assert_eq!(last.cpuset, set(["4-5", "6-7"][part]));
        assert_eq!(scope.explain().unwrap().allowed, scope.cpus());
    });
}

fn freed_scope_gives_the_binding_back() {
    with_contexts(4, &BOUND, |context| {
        let before = context.binding().unwrap();
        // Each rank names the part that it is not on.
        let part = usize::from(context.rank() < 2);
        let scope = context.split(&Split::counts(&[2, 2]), part).unwrap();
        assert_eq!(scope.binding().unwrap(), scope.cpus(), "its core is outside");
        scope.push(&Target::Object(ObjectType::Core, 0)).unwrap();
        assert_eq!(scope.push_depth(), 1);
        scope.free().unwrap();
        assert_eq!(context.binding().unwrap(), before);
        let scope = context.split(&Split::counts(&[2, 2]), 1 - part).unwrap();
        assert_eq!(scope.binding().unwrap(), before, "its core is inside");
    });
}

fn scope_outlives_a_push_of_its_parent() {
    with_contexts(2, &BOUND, |context| {
        let before = context.binding().unwrap();
        context.push(&Target::Object(ObjectType::Machine, 0)).unwrap();
        let scope = context.split(&Split::equally(2), context.rank()).unwrap();
        let inside = scope.binding().unwrap();
        context.pop().unwrap();
        assert_eq!(scope.binding().unwrap(), inside, "the scope still has its part");
        scope.free().unwrap();
        assert_eq!(context.binding().unwrap(), before);
    });
}

fn dropped_scope_gives_the_binding_back() {
    with_contexts(2, &UNBOUND, |context| {
        let before = context.binding().unwrap();
        let scope = context.split(&Split::equally(2), context.rank()).unwrap();
        assert_ne!(context.binding().unwrap(), before);
        drop(scope.into_context());
        assert_eq!(context.binding().unwrap(), before);
    });
}

fn pop_too_many_leaves_the_rank_inside() {
    with_contexts(2, &UNBOUND, |context| {
        let scope = context.split(&Split::equally(2), context.rank()).unwrap();
        assert_eq!(scope.pop().unwrap_err().kind(), ErrorKind::Pop);
        assert_eq!((scope.push_depth(), scope.pushed().len()), (0, 0));
        let guard = scope.push_guard(&Target::Object(ObjectType::Core, 1)).unwrap();
        assert_eq!(guard.cpus().len(), 1);
        assert_eq!((scope.push_depth(), scope.pushed().len()), (1, 1));
        guard.pop().unwrap();
        assert_eq!(scope.binding().unwrap(), scope.cpus());
    });
}

fn pushes_outside_a_scope_are_refused() {
    with_contexts(2, &UNBOUND, |context| {
        let scope = context.split(&Split::equally(2), context.rank()).unwrap();
        let elsewhere = Target::Cpus(set(["4", "3"][context.rank()]));
        assert_eq!(scope.push(&elsewhere).unwrap_err().kind(), ErrorKind::Binding);
        assert_eq!(scope.push(&Target::Enclosing(ObjectType::Machine)).unwrap(), scope.cpus());
        scope.pop().unwrap();
    });
}

fn scope_is_split_again() {
    with_contexts(4, &UNBOUND, |context| {
        let rank = context.rank();
        let half = context.split(&Split::equally(2).over(ObjectType::Package), rank / 2).unwrap();
        let quarter = half.split(&Split::weights(&[1, 3]), rank % 2).unwrap();
        assert_eq!(quarter.cpus(), set(["0", "1-3", "4", "5-7"][rank]));
        quarter.barrier().unwrap();
        quarter.free().unwrap();
        assert_eq!(half.binding().unwrap(), half.cpus());
    });
}

fn impossible_split_fails_on_every_rank() {
    with_contexts(3, &UNBOUND, |context| {
        let before = context.binding().unwrap();
        let packages = Split::equally(3).over(ObjectType::Package);
        let error = context.split(&packages, context.rank()).unwrap_err().to_string();
        assert!(error.contains("2 whole objects"), "{error}");
        // A part that does not exist, on one rank.
        let part = if context.rank() == 2 { 7 } else { 0 };
        let error = context.split(&Split::equally(2), part).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let text = error.to_string();
        assert!(text.contains("rank 2") && text.contains("no part 7"), "{text}");
        assert_eq!(context.binding().unwrap(), before);
        assert!(context.split(&Split::equally(1), 0).is_ok());
    });
}

fn different_splits_are_a_disagreement() {
    with_contexts(2, &UNBOUND, |context| {
        let split = Split::weights(&[1, 1 + u32::try_from(context.rank()).unwrap()]);
        let error = context.split(&split, 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Disagreement);
        let text = error.to_string();
        assert!(text.contains("weights 1,1 over core on rank 0"), "{text}");
        assert!(text.contains("weights 1,2 over core on rank 1"), "{text}");
    });
}

fn scope_is_not_adapted() {
    with_contexts(2, &UNBOUND, |context| {
        let scope = context.split(&Split::equally(1), 0).unwrap();
        let error = scope.retire().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported);
        assert!(error.to_string().contains("split the context anew"), "{error}");
        scope.barrier().unwrap();
    });
}

fn scopes_leave_hidden_threads_hidden() {
    let threads = [("QUO_TOPOLOGY", "pack:1 core:4 pu:2")];
    with_contexts(2, &threads, |context| {
        let split = Split::equally(2);
        let scope = context.split(&split, context.rank()).unwrap();
        assert_eq!(scope.cpus(), set(["0-3", "4-7"][context.rank()]));
        assert_eq!(scope.count(ObjectType::Core), 2);
    });
}

fn devices_are_shared_out_near_ranks() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/machines/gpus.xml");
    for (binding, buses) in [
        ("0;4;1;5", ["3b", "c1", "3b", "c1"]),
        ("0;1;2;3", ["3b", "3b", "c1", "c1"]),
        ("0-7;0-7;4;5", ["3b", "3b", "c1", "c1"]),
    ] {
        with_contexts(4, &[("QUO_TOPOLOGY", file), ("QUO_BINDING", binding)], |context| {
            let gpu = context.assign_device(DeviceKind::Gpu).unwrap().unwrap();
            assert_eq!(gpu.bus, format!("0000:{}:00.0", buses[context.rank()]), "{binding}");
            let part = context.rank() / 2;
            let scope = context.split(&Split::equally(2).over(ObjectType::Package), part).unwrap();
            let gpus = scope.topology().devices();
            let near = gpus.iter().filter(|device| device.is_near(&scope.cpus()));
            assert_eq!(near.count(), 2, "of each package");
        });
    }
    let none = [EIGHT_CORES];
    with_contexts(2, &none, |context| {
        assert_eq!(context.assign_device(DeviceKind::Gpu).unwrap(), None);
        let kind = [DeviceKind::Gpu, DeviceKind::Network][context.rank()];
        let error = context.assign_device(kind).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Disagreement);
    });
}

const GPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/machines/gpus.xml");

fn scopes_near_devices_have_their_cores() {
    let machine = [("QUO_TOPOLOGY", GPUS), ("QUO_BINDING", "0;4;1;5")];
    with_contexts(4, &machine, |context| {
        let before = context.binding().unwrap();
        let gpu = context.assign_device(DeviceKind::Gpu).unwrap().unwrap();
        let part = Split::part_near(&context.topology(), &gpu).unwrap();
        assert_eq!(part, context.rank() % 2);
        let scope = context.split(&Split::near(DeviceKind::Gpu), part).unwrap();
        assert_eq!(scope.cpus(), set(["0-3", "4-7"][part]));
        assert_eq!((scope.size(), scope.part()), (2, part));
        // A scope is split by devices in turn; a device that no rank names takes nothing.
        let half = scope.split(&Split::near(DeviceKind::Gpu), part).unwrap();
        assert_eq!(half.cpus(), scope.cpus());
        half.free().unwrap();
        scope.free().unwrap();
        assert_eq!(context.binding().unwrap(), before);
    });
}

fn missing_device_fails_on_every_rank() {
    with_contexts(3, &[("QUO_TOPOLOGY", GPUS)], |context| {
        let gpus = Split::near(DeviceKind::Gpu);
        let part = if context.rank() == 1 { 2 } else { 0 };
        let error = context.split(&gpus, part).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let text = error.to_string();
        assert!(text.contains("rank 1") && text.contains("no gpu device 2"), "{text}");
        // The second GPU is near the other package only.
        let package = context.split(&Split::equally(2).over(ObjectType::Package), 0).unwrap();
        let error = package.split(&gpus, 1).unwrap_err().to_string();
        assert!(error.contains("device 1, one of 1, gets no object"), "{error}");
        package.barrier().unwrap();
        let kinds = [DeviceKind::Gpu, DeviceKind::Gpu, DeviceKind::Network];
        let split = Split::near(kinds[context.rank()]);
        let error = context.split(&split, 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Disagreement);
        assert!(error.to_string().contains("near each network over core on rank 2"), "{error}");
    });
}

fn kernel_holds_each_rank_in_its_part() {
    let usable = quo::affinity::kernel::mask_of(0).unwrap();
    if usable != CpuSet::from_range(0..2) {
        quo_tests::suite::skip("needs exactly CPUs 0 and 1");
    }
    with_contexts(2, &[], |context| {
        let before = context.binding().unwrap();
        let split = Split::equally(2).over(ObjectType::Pu);
        let scope = context.split(&split, context.rank()).unwrap();
        let own = CpuSet::single(context.rank());
        assert_eq!(quo::affinity::kernel::mask_of(0).unwrap(), own);
        let outcome = scope.phase(whole()).unwrap().run(|worker| worker.cpus().clone()).unwrap();
        assert_eq!(outcome.value, Some(own));
        scope.free().unwrap();
        assert_eq!(quo::affinity::kernel::mask_of(0).unwrap(), before);
    });
}
