//! Contexts whose control group loses CPUs during their lifetime: real cpusets, as root.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use quo::affinity::{Backend, CALLER, Kernel, Target};
use quo::context::Split;
use quo::group::local::LocalSpace;
use quo::phase::PhaseSpec;
use quo::{Context, CpuSet, ObjectType};
use support::contexts::options;
use support::{Ranks, Segments};

fn main() -> std::process::ExitCode {
    support::run(&[
        ("shrunk_cpuset_is_used_by_contexts", shrunk_cpuset_is_used_by_contexts),
        ("changed_cpuset_is_used_by_the_next_phase", changed_cpuset_is_used_by_the_next_phase),
        ("shrunk_cpuset_leaves_fewer_workers", shrunk_cpuset_leaves_fewer_workers),
        ("scope_keeps_what_is_allowed_of_its_part", scope_keeps_what_is_allowed),
        ("rank_moved_to_another_cpuset_is_planned_for", moved_rank_is_planned_for),
        ("bound_rank_stays_bound_when_its_cpus_are_all", bound_rank_stays_bound),
        ("binding_to_a_taken_cpu_comes_back_with_it", binding_comes_back_with_its_cpu),
        ("changed_cpuset_shows_in_queries_at_once", changed_cpuset_shows_in_queries_at_once),
    ])
}

/// A control group of version 1, removed at the end.
struct Group(PathBuf);

impl Group {
    fn new(name: &str) -> Self {
        if quo::affinity::kernel::mask_of(0).unwrap() != CpuSet::from_range(0..2) {
            quo_tests::suite::skip("needs exactly CPUs 0 and 1");
        }
        let root = Path::new("/sys/fs/cgroup/cpuset");
        let Ok(memory) = fs::read_to_string(root.join("cpuset.mems")) else {
            quo_tests::suite::skip("no cpuset of control groups version 1 is mounted");
        };
        let group = root.join(format!("quo-test-{name}-{}", std::process::id()));
        if fs::create_dir(&group).is_err() {
            quo_tests::suite::skip("control groups cannot be made here: needs root");
        }
        let group = Self(group);
        group.write("cpuset.mems", memory.trim());
        group
    }

    /// Moves this process into the group.
    fn enter(&self) {
        self.write("cgroup.procs", &std::process::id().to_string());
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.0.join(file), text).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

fn shrunk_cpuset_is_used_by_contexts() {
    let (segments, group) = (Segments::new(), Group::new("contexts"));
    group.write("cpuset.cpus", "0-1");
    let spaces = [0, 1].map(|_| LocalSpace::new(1, segments.path()).unwrap());
    Ranks::fork(1, |_| {
        let both = CpuSet::from_range(0..2);
        let left = CpuSet::single(0);
        group.enter();
        let create = |space: &LocalSpace| {
            Context::create_with(space.join(0).unwrap(), options(segments.path())).unwrap()
        };
        let context = create(&spaces[0]);
        let machine = Target::Object(ObjectType::Machine, 0);
        assert_eq!(context.push(&machine).unwrap(), both);
        group.write("cpuset.cpus", "0");
        context.pop().unwrap();
        assert_eq!(context.binding().unwrap(), left);
        assert!(context.explain().unwrap().to_string().contains("only 0 are allowed"));
        assert_eq!(context.push(&machine).unwrap(), left);
        context.pop().unwrap();
        let error = context.push(&Target::Cpus(CpuSet::single(1))).unwrap_err();
        assert_eq!(error.kind(), quo::ErrorKind::Binding, "{error}");
        let later = create(&spaces[1]);
        assert_eq!(later.allowed(), left);
        assert!(!later.is_bound().unwrap());
        group.write("cpuset.cpus", "0-1");
        assert_eq!(context.push(&machine).unwrap(), both);
        context.pop().unwrap();
    })
    .succeed();
}

/// Two ranks with a context each in a group of CPUs 0 and 1.
fn with_two_ranks(name: &str, body: impl Fn(&Context, &Group)) {
    let (segments, group) = (Segments::new(), Group::new(name));
    group.write("cpuset.cpus", "0-1");
    let space = LocalSpace::new(2, segments.path()).unwrap();
    Ranks::fork(2, |rank| {
        group.enter();
        let options = options(segments.path());
        let context = Context::create_with(space.join(rank).unwrap(), options).unwrap();
        body(&context, &group);
        context.free().unwrap();
    })
    .succeed();
    drop(space);
    segments.assert_empty();
}

/// Gives the group other CPUs while no rank is in a phase.
fn change(context: &Context, group: &Group, cpus: &str) {
    context.barrier().unwrap();
    if context.rank() == 0 {
        group.write("cpuset.cpus", cpus);
    }
    context.barrier().unwrap();
    // Checks now: phases that follow each other within a millisecond share a check.
    assert_eq!(context.allowed(), cpus.parse().unwrap());
    context.barrier().unwrap();
}

fn scope_keeps_what_is_allowed() {
    with_two_ranks("scopes", |context, group| {
        let scope = context.split(&Split::equally(2).over(ObjectType::Pu), 1).unwrap();
        let both = context.split(&Split::equally(1), 0).unwrap();
        let phases = [&scope, &both]
            .map(|scope| scope.plan_phase(PhaseSpec::over(ObjectType::Machine)).unwrap());
        let cpus = |scope: &Context, plan| {
            let outcome = scope.phase_of(plan).run(|worker| worker.cpus().to_string());
            outcome.map(|outcome| outcome.value).map_err(|error| error.to_string())
        };
        let works = |cpus: &str| Ok((context.rank() == 0).then(|| cpus.to_owned()));
        assert_eq!(cpus(&both, &phases[1]), works("0-1"));
        change(context, group, "1");
        assert_eq!(cpus(&scope, &phases[0]), works("1"));
        assert_eq!(cpus(&both, &phases[1]), works("1"));
        change(context, group, "0");
        let error = cpus(&scope, &phases[0]).unwrap_err();
        assert!(error.contains("scope's CPUs 1 is allowed any more"), "{error}");
        change(context, group, "0-1");
        assert_eq!(cpus(&scope, &phases[0]), works("1"), "nothing beyond its part");
        assert_eq!(cpus(&both, &phases[1]), works("0-1"));
        both.free().unwrap();
        scope.free().unwrap();
    });
}

fn changed_cpuset_is_used_by_the_next_phase() {
    with_two_ranks("phases", |context, group| {
        let phase = context.phase(PhaseSpec::over(ObjectType::Machine)).unwrap();
        let other = context.phase(PhaseSpec::over(ObjectType::Machine)).unwrap();
        let mut field = context.remap::<u32>(1).unwrap();
        for cpus in ["0-1", "0", "0", "1", "0-1", "0-1"] {
            change(context, group, cpus);
            let allowed: CpuSet = cpus.parse().unwrap();
            // Not even the worker is bound by a phase that ran on fewer CPUs.
            assert_eq!(context.binding().unwrap(), allowed);
            for phase in [&phase, &other] {
                let outcome = phase
                    .run_on(&mut field, |worker, values| {
                        assert_eq!((worker.cpus(), worker.threads()), (&allowed, allowed.len()));
                        assert_eq!(context.binding().unwrap(), allowed);
                        values.iter_mut().for_each(|value| *value += 1);
                    })
                    .unwrap();
                assert_eq!(outcome.value.is_some(), context.rank() == 0);
                assert_eq!(outcome.metrics.threads, outcome.value.map_or(0, |()| allowed.len()));
            }
            assert_eq!(context.topology().allowed(), &allowed);
            change(context, group, "0-1");
            let machine = Target::Object(ObjectType::Machine, 0);
            assert_eq!(context.push(&machine).unwrap(), CpuSet::from_range(0..2));
            context.pop().unwrap();
            assert_eq!(phase.assignment().map(|part| part.cpus().clone()), {
                (context.rank() == 0).then_some(allowed)
            });
        }
        assert_eq!(field.local().unwrap(), [12]);
    });
}

fn shrunk_cpuset_leaves_fewer_workers() {
    with_two_ranks("workers", |context, group| {
        let phase = context.phase(PhaseSpec::over(ObjectType::Pu)).unwrap();
        let run = || phase.run(|worker| worker.cpus().to_string()).unwrap().value;
        let rank = context.rank();
        assert_eq!(run(), Some(rank.to_string()));
        change(context, group, "1");
        assert_eq!(run(), (rank == 0).then(|| "1".to_owned()));
        change(context, group, "0-1");
        assert_eq!(run().map(|cpus| cpus.len()), Some(1));
    });
}

fn bound_rank_stays_bound() {
    let (segments, group) = (Segments::new(), Group::new("bound"));
    group.write("cpuset.cpus", "0-1");
    let space = LocalSpace::new(1, segments.path()).unwrap();
    Ranks::fork(1, |_| {
        group.enter();
        let first = CpuSet::single(0);
        Kernel::new().unwrap().set_mask(CALLER, &first).unwrap();
        let group_of_one = space.join(0).unwrap();
        let context = Context::create_with(group_of_one, options(segments.path())).unwrap();
        change(&context, &group, "0");
        context.push(&Target::Object(ObjectType::Machine, 0)).unwrap();
        context.pop().unwrap();
        change(&context, &group, "0-1");
        assert_eq!(context.binding().unwrap(), first);
    })
    .succeed();
}

fn binding_comes_back_with_its_cpu() {
    for phases in [false, true] {
        with_two_ranks("back", |context, group| {
            let own = CpuSet::single(context.rank());
            Kernel::new().unwrap().set_mask(CALLER, &own).unwrap();
            let phase = context.phase(PhaseSpec::over(ObjectType::Machine)).unwrap();
            context.push(&Target::Object(ObjectType::Machine, 0)).unwrap();
            change(context, group, "1");
            context.pop().unwrap();
            assert_eq!(context.binding().unwrap(), CpuSet::single(1));
            change(context, group, "0-1");
            if phases {
                // One of the two ranks sleeps.
                phase.run(|_| ()).unwrap();
            } else {
                context.push(&Target::Object(ObjectType::Machine, 0)).unwrap();
                context.pop().unwrap();
            }
            assert_eq!(context.binding().unwrap(), own);
            assert!(!context.explain().unwrap().to_string().contains("are allowed now"));
        });
    }
}

fn moved_rank_is_planned_for() {
    let narrow = Group::new("narrow");
    narrow.write("cpuset.cpus", "1");
    with_two_ranks("moved", |context, _| {
        let phase = context.phase(PhaseSpec::over(ObjectType::Machine)).unwrap();
        let run = || phase.run(|worker| worker.cpus().to_string()).unwrap().value;
        let rank = context.rank();
        assert_eq!(run(), (rank == 0).then(|| "0-1".to_owned()));
        if rank == 0 {
            narrow.enter();
        }
        context.barrier().unwrap();
        // The other rank, whose CPUs have not changed, may have decided.
        for _ in 0..3 {
            assert_eq!(run(), (rank == 0).then(|| "1".to_owned()));
        }
        let planned = phase.assignment().map(|part| part.cpus().to_string());
        assert_eq!(planned, (rank == 0).then(|| "1".to_owned()));
        assert_eq!(context.topology().allowed(), &CpuSet::from_range(0..2));
    });
}

fn changed_cpuset_shows_in_queries_at_once() {
    with_two_ranks("queries", |context, group| {
        assert!(!context.is_bound().unwrap());
        change(context, group, "0");
        assert_eq!(context.allowed(), CpuSet::single(0));
        assert!(!context.is_bound().unwrap());
        assert!(context.explain().unwrap().to_string().contains("CPUs 0 are allowed now"));
        change(context, group, "0-1");
        let one = CpuSet::single(0);
        context.push(&Target::Cpus(one)).unwrap();
        assert!(context.is_bound().unwrap());
        change(context, group, "0");
        assert!(!context.is_bound().unwrap(), "it is bound to all there is");
        change(context, group, "0-1");
        assert!(context.is_bound().unwrap());
        context.pop().unwrap();
    });
}
