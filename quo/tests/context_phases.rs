//! Phases over forked processes, without MPI: workers, data and reports.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use quo::affinity::Target;
use quo::explain::Reason;
use quo::group::Group;
use quo::group::local::LocalSpace;
use quo::phase::PhaseSpec;
use quo::{Context, CpuSet, ErrorKind, ObjectType};
use support::contexts::{TWO_PACKAGES, options, set, with_contexts};
use support::{End, Ranks, Segments};

fn main() -> std::process::ExitCode {
    support::run(&[
        ("phases_run_on_workers_only", phases_run_on_workers_only),
        ("a_panic_in_a_phase_wakes_everyone", a_panic_in_a_phase_wakes_everyone),
        ("a_failed_phase_is_an_error_on_all_ranks", a_failed_phase_is_an_error_on_all_ranks),
        ("data_reaches_the_workers_and_comes_back", data_reaches_the_workers_and_comes_back),
        ("workers_serve_those_who_are_left", workers_serve_those_who_are_left),
        ("packages_that_are_missing_are_the_machine", packages_that_are_missing_are_the_machine),
        ("an_array_of_another_context_is_refused_by_all", foreign_arrays_are_refused_by_all),
        ("a_rank_in_another_call_is_a_disagreement", another_call_is_a_disagreement),
        ("the_trace_has_every_phase_of_every_rank", the_trace_has_every_phase_of_every_rank),
        ("explanations_read_back_what_was_pushed", explanations_read_back_what_was_pushed),
        ("push_in_another_context_is_named_with_its_overlap", push_beside_is_named),
        ("push_of_another_job_is_named_with_its_overlap", push_of_another_job_is_named),
    ])
}

fn phases_run_on_workers_only() {
    let environment = [("QUO_TOPOLOGY", TWO_PACKAGES), ("QUO_BINDING", "core")];
    with_contexts(8, &environment, |context| {
        let before = context.binding().unwrap();
        let spec = PhaseSpec::over(ObjectType::Package).max_per_object(2).name("solve");
        let phase = context.phase(spec).unwrap();
        let works = [0, 1, 4, 5].contains(&context.node_rank());
        for step in 0..50 {
            let outcome = phase
                .run(|worker| {
                    assert_eq!(worker.threads(), 4);
                    assert_eq!(context.binding().unwrap(), *worker.cpus());
                    step
                })
                .unwrap();
            assert_eq!(outcome.value, works.then_some(step));
            assert_eq!(outcome.metrics.selected, works);
            assert_eq!(context.binding().unwrap(), before);
        }
    });
}

fn packages_that_are_missing_are_the_machine() {
    let environment = [("QUO_TOPOLOGY", "numa:2 core:4 pu:1"), ("QUO_BINDING", "core")];
    with_contexts(4, &environment, |context| {
        assert_eq!(context.topology().count(ObjectType::Package), 0);
        let phase = context.phase(PhaseSpec::over(ObjectType::Package)).unwrap();
        let outcome = phase.run(|worker| (worker.threads(), worker.cpus().to_string())).unwrap();
        let first = context.node_rank() == 0;
        assert_eq!(outcome.value, first.then(|| (8, "0-7".to_owned())));
        // A type that this machine does not have is still refused.
        let error = context.phase(PhaseSpec::over(ObjectType::Die)).unwrap_err();
        assert!(error.to_string().contains("die"), "{error}");
    });
}

fn a_panic_in_a_phase_wakes_everyone() {
    with_contexts(3, &[], |context| {
        let before = context.binding().unwrap();
        let phase = context.phase(PhaseSpec::over(ObjectType::Machine)).unwrap();
        std::panic::set_hook(Box::new(|_| {}));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            phase.run(|_| panic!("on purpose"))
        }));
        let _ = std::panic::take_hook();
        match result {
            Err(_) => assert_eq!(context.rank(), 0),
            Ok(outcome) => {
                let text = outcome.unwrap_err().to_string();
                assert!(text.contains("rank 0") && text.contains("panicked"), "{text}");
            }
        }
        assert_eq!(context.binding().unwrap(), before);
        assert_eq!(context.push_depth(), 0);
        assert_eq!(phase.run(|_| 1).unwrap().value, (context.rank() == 0).then_some(1));
    });
}

fn a_failed_phase_is_an_error_on_all_ranks() {
    with_contexts(3, &[], |context| {
        let plan = context.plan_phase(PhaseSpec::over(ObjectType::Machine)).unwrap();
        for who in 0..3 {
            let entered = context.enter_phase(&plan);
            let left = if context.rank() == who {
                context.leave_failed_phase(&plan, entered, "the solver diverged")
            } else {
                context.leave_phase(&plan, entered)
            };
            let error = left.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Work);
            let text = error.to_string();
            assert!(text.contains(&format!("rank {who}")) && text.contains("diverged"), "{text}");
            assert!(context.phase_of(&plan).run(|_| ()).is_ok());
        }
    });
}

fn data_reaches_the_workers_and_comes_back() {
    let environment = [("QUO_TOPOLOGY", TWO_PACKAGES), ("QUO_BINDING", "core")];
    with_contexts(8, &environment, |context| {
        let rank = context.node_rank();
        let phase = context.phase(PhaseSpec::over(ObjectType::Package)).unwrap();
        // Every rank has a different number of elements; one has none.
        let mut mine: Vec<f64> = (0..rank * 3).map(|i| (rank * 100 + i) as f64).collect();
        let mut field = context.remap::<f64>(mine.len()).unwrap();
        for _ in 0..20 {
            let old = mine.clone();
            field.load(&mine).unwrap();
            phase
                .run_on(&mut field, |worker, values| {
                    assert_eq!(values.len(), worker.ranks().map(|rank| rank * 3).sum::<usize>());
                    for value in values {
                        *value += 1.0;
                    }
                })
                .unwrap();
            field.store(&mut mine).unwrap();
            assert!(old.iter().zip(&mine).all(|(old, new)| old + 1.0 == *new));
        }
        assert!(field.load(&[1.0; 999]).is_err());
    });
}

fn workers_serve_those_who_are_left() {
    for victim in [0, 2] {
        let segments = Segments::new();
        let space = LocalSpace::new(3, segments.path()).unwrap();
        let ends = Ranks::fork(3, |rank| {
            let group = space.join(rank).unwrap();
            let context = Context::create_with(group, options(segments.path())).unwrap();
            if rank == victim {
                nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).unwrap();
            }
            assert_eq!(context.barrier().unwrap_err().kind(), ErrorKind::DeadMember);
            context.expel(victim).unwrap();
            let phase = context.phase(PhaseSpec::over(ObjectType::Machine)).unwrap();
            let mut field = context.remap::<u64>(2).unwrap();
            field.load(&[7; 2]).unwrap();
            phase.run_on(&mut field, |_, all| all.iter_mut().for_each(|one| *one += 1)).unwrap();
            assert_eq!(field.local().unwrap(), [8; 2]);
            context.free().unwrap();
        })
        .wait();
        let survivors = (0..3).filter(|&rank| rank != victim);
        assert!(survivors.into_iter().all(|rank| ends[&rank] == End::Exited(0)), "{ends:?}");
        drop(space);
        segments.assert_empty();
    }
}

fn foreign_arrays_are_refused_by_all() {
    let segments = Segments::new();
    let spaces = [0, 1].map(|_| LocalSpace::new(2, segments.path()).unwrap());
    Ranks::fork(2, |rank| {
        let [one, other] = [0, 1].map(|index: usize| {
            let group = spaces[index].join(rank).unwrap();
            Context::create_with(group, options(segments.path())).unwrap()
        });
        let phase = one.phase(PhaseSpec::over(ObjectType::Machine)).unwrap();
        let mut own = one.remap::<u32>(4).unwrap();
        let mut foreign = other.remap::<u32>(4).unwrap();
        // Only rank 1 mixes them up; both get the error.
        let field = if rank == 1 { &mut foreign } else { &mut own };
        let error = phase.run_on(field, |_, _| ()).unwrap_err().to_string();
        assert!(error.contains("rank 1") && error.contains("another context"), "{error}");
        own.load(&[1; 4]).unwrap();
        phase.run_on(&mut own, |_, values| values.fill(2)).unwrap();
        assert_eq!(own.local().unwrap(), [2; 4]);
    })
    .succeed();
    drop(spaces);
    segments.assert_empty();
}

fn another_call_is_a_disagreement() {
    with_contexts(3, &[], |context| {
        if context.rank() == 2 {
            context.barrier().unwrap();
        } else {
            let error = context.auto_distrib(ObjectType::Machine, 1).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Disagreement);
            assert!(error.to_string().contains("rank 2"), "{error}");
        }
        let phase = context.phase(PhaseSpec::over(ObjectType::Machine)).unwrap();
        let errors = if context.rank() == 1 {
            context.auto_distrib(ObjectType::Machine, 1).map(drop).unwrap_err()
        } else {
            phase.run(|_| ()).map(drop).unwrap_err()
        };
        assert!(errors.to_string().contains("auto_distrib on rank 1"), "{errors}");
    });
}

fn the_trace_has_every_phase_of_every_rank() {
    let segments = Segments::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.json");
    let space = LocalSpace::new(3, segments.path()).unwrap();
    Ranks::fork(3, |rank| {
        let options = options(segments.path()).with_trace(&file);
        let context = Context::create_with(space.join(rank).unwrap(), options).unwrap();
        let phase = context.phase(PhaseSpec::over(ObjectType::Machine).name("alpha")).unwrap();
        phase.run(|_| ()).unwrap();
        phase.run(|_| ()).unwrap();
        context.free().unwrap();
    })
    .succeed();
    let text = std::fs::read_to_string(&file).unwrap();
    let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let named = |name: &str| events.iter().filter(|event| event["name"] == name).count();
    assert!(named("alpha") >= 2, "{text}");
    drop(space);
    segments.assert_empty();
}

fn explanations_read_back_what_was_pushed() {
    let environment = [("QUO_TOPOLOGY", TWO_PACKAGES), ("QUO_BINDING", "core")];
    with_contexts(2, &environment, |context| {
        context.barrier().unwrap();
        if context.rank() == 1 {
            context.push(&Target::Object(ObjectType::Package, 1)).unwrap();
        }
        context.barrier().unwrap();
        let text = context.explain().unwrap().to_string();
        assert!(text.contains("simulated machine"), "{text}");
        assert!(text.contains("core 0") && text.contains("package 1"), "{text}");
        assert!(text.contains("pushed by quo"), "{text}");
        let json = serde_json::to_value(context.explain().unwrap()).unwrap();
        assert_eq!(json["ranks"][1]["cpus"], "8-15");
        context.barrier().unwrap();
    });
}

/// Returns the warnings that name a push of this node's first rank; other jobs on the machine have
/// their own.
fn overlaps(context: &Context) -> String {
    let seen = context.explain().unwrap();
    // Other tests push on this machine, too.
    let names = |text: &str| seen.ranks.iter().all(|rank| text.contains(&rank.process.to_string()));
    let ours = |text: &&String| text.contains("both pushed") && names(text);
    seen.warnings.iter().filter(ours).cloned().collect::<Vec<_>>().join("\n")
}

fn push_beside_is_named() {
    let allowed = quo::affinity::kernel::mask_of(0).unwrap();
    let Some(last) = allowed.last().filter(|_| allowed.len() > 1) else {
        quo_tests::suite::skip("needs two CPUs");
    };
    let target = Target::Cpus(CpuSet::single(last));
    let segments = Segments::new();
    let spaces = [0, 1].map(|_| LocalSpace::new(2, segments.path()).unwrap());
    Ranks::fork(2, |rank| {
        let [one, other] = [0, 1].map(|index: usize| {
            let group = spaces[index].join(rank).unwrap();
            Context::create_with(group, options(segments.path())).unwrap()
        });
        let phase = one.phase(PhaseSpec::over(ObjectType::Machine)).unwrap();
        other.barrier().unwrap();
        if rank == 1 {
            other.push(&target).unwrap();
        }
        other.barrier().unwrap();
        let seen = one.explain().unwrap();
        assert_eq!(seen.ranks[1].reason, Reason::PushedElsewhere, "{seen}");
        assert_eq!(other.explain().unwrap().ranks[1].reason, Reason::Pushed);
        // Other tests may push on this machine meanwhile, in separate jobs.
        let told = format!("have both pushed CPUs {last}, in different contexts");
        assert!(!overlaps(&one).contains(&told), "{}", overlaps(&one));
        // A worker pushes at once, before the other rank has reached the phase.
        other.barrier().unwrap();
        let metrics = phase.run(|_| ()).unwrap().metrics;
        assert!(metrics.overlap.contains(last) || rank == 1, "{}", metrics.overlap);
        if rank == 0 {
            one.push(&target).unwrap();
        }
        other.barrier().unwrap();
        for context in [&one, &other] {
            assert!(overlaps(context).contains(&told), "{}", overlaps(context));
        }
        other.barrier().unwrap();
        if rank == 1 {
            other.pop().unwrap();
        }
        other.barrier().unwrap();
        assert!(!overlaps(&one).contains(&told), "{}", overlaps(&one));
        other.barrier().unwrap();
    })
    .succeed();
    drop(spaces);
    segments.assert_empty();
}

fn push_of_another_job_is_named() {
    let segments = Segments::new();
    let spaces = [0, 1].map(|_| LocalSpace::new(1, segments.path()).unwrap());
    let both = LocalSpace::new(2, segments.path()).unwrap();
    Ranks::fork(2, |rank| {
        let both = both.join(rank).unwrap();
        // No other test simulates this machine.
        set("QUO_TOPOLOGY", "pack:2 core:5 pu:2");
        let group = spaces[rank].join(0).unwrap();
        let context = Context::create_with(group, options(segments.path())).unwrap();
        context.push(&Target::Object(ObjectType::Package, rank)).unwrap();
        both.barrier().unwrap();
        assert_eq!(overlaps(&context), "");
        both.barrier().unwrap();
        context.push(&Target::Object(ObjectType::Machine, 0)).unwrap();
        both.barrier().unwrap();
        // The first phase searches; those that follow soon share its result.
        let phase = context.phase(PhaseSpec::over(ObjectType::Machine)).unwrap();
        let metrics = phase.run(|_| ()).unwrap().metrics;
        assert_eq!(metrics.overlap.to_string(), "0-19");
        let told = overlaps(&context);
        assert!(told.contains("have both pushed CPUs 0-19"), "{told}");
        assert!(told.contains(&std::process::id().to_string()), "{told}");
        both.barrier().unwrap();
        if rank == 0 {
            context.free().unwrap();
            both.barrier().unwrap();
        } else {
            both.barrier().unwrap();
            assert_eq!(overlaps(&context), "");
            // Reading the other segment has not dropped this process's own lock.
            assert!(context.dead_node_ranks().is_empty());
        }
    })
    .succeed();
    drop((spaces, both));
    segments.assert_empty();
}
