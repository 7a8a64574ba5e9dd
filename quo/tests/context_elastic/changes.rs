//! Contexts whose ranks join, leave and rejoin.

use std::time::Duration;

use quo::affinity::Target;
use quo::context::{AdaptOptions, CreateOptions};
use quo::group::local::LocalSpace;
use quo::group::{LocalGroup, WaitLimits};
use quo::phase::{PhasePlan, PhaseSpec};
use quo::{Context, CpuSet, ErrorKind, ObjectType};

use crate::common::{Places, check};
use crate::support::Ranks;
use crate::support::contexts::{TWO_PACKAGES, set};

/// Runs through epochs whose numbers of ranks are `sizes`.
fn through(places: &Places, sizes: &[usize], rank: usize, each: impl Fn(&Context, usize)) {
    let mut held: Option<Context> = None;
    for (epoch, &size) in sizes.iter().enumerate() {
        if rank < size {
            let group = places.meet(epoch, rank, size);
            match &held {
                Some(context) => context.adapt(group).unwrap(),
                None if epoch == 0 => {
                    held = Some(Context::create_with(group, places.options()).unwrap());
                }
                None => held = Some(Context::join(group, places.options()).unwrap()),
            }
            let context = held.as_ref().unwrap();
            check(context, rank, size);
            each(context, size);
        } else if let Some(context) = &held {
            context.retire().unwrap();
            assert!(context.is_retired());
        }
    }
    if let Some(context) = held {
        context.free().unwrap();
    }
}

pub fn grows_and_shrinks() {
    let sizes = [1, 2, 4, 8, 2];
    let places = Places::new(sizes.len());
    let ranks = Ranks::fork(8, |rank| {
        set("QUO_TOPOLOGY", TWO_PACKAGES);
        set("QUO_BINDING", "core");
        through(&places, &sizes, rank, |context, size| {
            let before = context.binding().unwrap();
            let phase = context.phase(PhaseSpec::over(ObjectType::Machine)).unwrap();
            for _ in 0..5 {
                let threads = phase.run(|worker| worker.threads()).unwrap().value;
                assert_eq!(threads, (rank == 0).then_some(16));
            }
            let mut field = context.remap::<u64>(4).unwrap();
            field.local_mut().unwrap().fill(rank as u64);
            let sum = phase.run_on(&mut field, |_, all| all.iter().sum::<u64>()).unwrap().value;
            let expected = 4 * (0..size as u64).sum::<u64>();
            assert_eq!(sum, (rank == 0).then_some(expected));
            assert_eq!(context.binding().unwrap(), before, "the base binding stays");
        });
    });
    places.finish(ranks);
}

/// Eight ranks on the cores of two packages; those of the second leave and rejoin.
pub fn siblings_get_the_cores() {
    let sizes = [8, 4, 8, 1];
    let places = Places::new(sizes.len());
    let ranks = Ranks::fork(8, |rank| {
        set("QUO_TOPOLOGY", TWO_PACKAGES);
        set("QUO_BINDING", "core");
        through(&places, &sizes, rank, |context, size| {
            for (spec, workers, threads) in [
                // All work, each with its share of everything.
                (PhaseSpec::over(ObjectType::Package).max_per_object(4), size, 16 / size),
                (PhaseSpec::over(ObjectType::Machine).max_per_object(8), size, 16 / size),
                // One per package, also if all ranks of that package have left.
                (PhaseSpec::over(ObjectType::Package), size.min(2), 16 / size.min(2)),
            ] {
                let phase = context.phase(spec).unwrap();
                let parts = phase.plan().assignments();
                let parts: Vec<_> = parts.iter().flatten().collect();
                assert_eq!(parts.len(), workers, "{parts:?}");
                assert!(parts.iter().all(|part| part.threads() == threads), "{parts:?}");
                let all = parts.iter().fold(CpuSet::new(), |all, part| all.union(part.cpus()));
                assert_eq!(all.len(), 16, "every core has a worker");
                let outcome = phase.run(|worker| {
                    assert_eq!(context.binding().unwrap(), *worker.cpus());
                });
                outcome.unwrap();
            }
        });
    });
    places.finish(ranks);
}

pub fn renumbered_ranks_and_other_nodes() {
    let places = Places::new(1);
    let space = LocalSpace::new(4, places.segments.path()).unwrap().with_nodes(&[0, 1, 0, 1]);
    let ranks = Ranks::fork(4, |rank| {
        let context = places.create(0, rank, 4);
        context.barrier().unwrap();
        let reversed = 3 - rank;
        context.adapt(space.join(reversed).unwrap()).unwrap();
        assert_eq!((context.rank(), context.size()), (reversed, 4));
        assert_eq!((context.node_count(), context.node_size()), (2, 2));
        assert_eq!((context.node_index(), context.node_rank()), (reversed % 2, reversed / 2));
        assert_eq!(context.rank_of(1), Some(reversed % 2 + 2));
        context.barrier().unwrap();
        let part = context.group_over(ObjectType::Machine).unwrap();
        assert_eq!((part.rank(), part.size()), (reversed / 2, 2));
        context.barrier().unwrap();
    });
    ranks.succeed();
    drop(space);
    places.segments.assert_empty();
}

pub fn who_joins_takes_over_what_there_is() {
    let places = Places::new(4);
    let trace = places.segments.path().join("trace.json");
    let ranks = Ranks::fork(3, |rank| {
        let made = places.options().with_no_smt(true).with_trace(&trace);
        let context = match rank {
            0 => {
                let context = Context::create_with(places.meet(0, 0, 1), made).unwrap();
                context.adapt(places.meet(1, 0, 2)).unwrap();
                context
            }
            1 => places.join(1, 1, 2),
            _ => {
                // A rank that creates specifies its options, which have to be the same.
                let wrong = Context::create_with(places.meet(2, 2, 3), places.options());
                assert_eq!(wrong.unwrap_err().kind(), ErrorKind::Disagreement);
                Context::create_with(places.meet(3, 2, 3), made.clone()).unwrap()
            }
        };
        if rank < 2 {
            assert!(context.hides_smt());
            let refused = context.adapt(places.meet(2, rank, 3)).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Disagreement);
            assert!(refused.to_string().contains("adapt"), "{refused}");
            check(&context, rank, 2);
            context.adapt(places.meet(3, rank, 3)).unwrap();
        }
        check(&context, rank, 3);
        let identity = context.group().allgather(
            &context.identity().to_ne_bytes(),
            &WaitLimits::for_at_most(Duration::from_secs(30)),
        );
        let identity = identity.unwrap();
        assert!(identity.chunks(8).all(|one| one == &identity[..8]), "one context on all");
        context.phase(PhaseSpec::over(ObjectType::Machine)).unwrap().run(|_| ()).unwrap();
        context.free().unwrap();
    });
    ranks.succeed();
    let text = std::fs::read_to_string(&trace).unwrap();
    assert!(text.contains("rank 2"), "the phases of those who joined are in it: {text}");
    std::fs::remove_file(&trace).unwrap();
    places.segments.assert_empty();
}

/// A library that keeps its context and its plan, and meets ranks that have made theirs later.
struct Library {
    context: Context,
    plan: PhasePlan,
}

impl Library {
    fn new(group: LocalGroup, options: CreateOptions) -> Self {
        let context = Context::create_with(group, options).unwrap();
        let plan = context.plan_phase(PhaseSpec::over(ObjectType::Machine).max_per_object(8));
        Self { plan: plan.unwrap(), context }
    }

    fn step(&self) -> usize {
        let outcome = self.context.phase_of(&self.plan).run(|worker| worker.threads());
        self.context.barrier().unwrap();
        outcome.unwrap().value.unwrap()
    }
}

pub fn libraries_go_on() {
    let places = Places::new(3);
    let ranks = Ranks::fork(4, |rank| {
        set("QUO_TOPOLOGY", TWO_PACKAGES);
        let world = |group: LocalGroup| {
            let found = Context::registered(0);
            assert_eq!(found.len(), 1);
            found[0].adapt(group, &AdaptOptions::new()).unwrap();
        };
        let library = if rank < 2 {
            let library = Library::new(places.meet(0, rank, 2), places.options());
            assert_eq!(library.step(), 8);
            world(places.meet(1, rank, 4));
            library
        } else {
            Library::new(places.meet(1, rank, 4), places.options())
        };
        assert_eq!(library.step(), 4);
        assert_eq!(library.step(), 4);
        if rank == 0 {
            world(places.meet(2, 0, 1));
            assert_eq!(library.step(), 16);
        } else {
            Context::registered(0)[0].retire().unwrap();
        }
        let found = Context::registered(0);
        assert_eq!(found[0].identity(), library.context.identity());
        assert_eq!(found[0].is_retired(), rank != 0);
        drop(library);
        assert!(found[0].is_gone() && Context::registered(0).is_empty());
    });
    places.finish(ranks);
}

pub fn old_things_keep_their_meaning() {
    let places = Places::new(2);
    let ranks = Ranks::fork(3, |rank| {
        let context = places.create(0, rank, 3);
        let old = context.named_barrier("old", &[0, 1, 2]).unwrap();
        let memory = context.allocate(8).unwrap();
        let mut field = context.remap::<u8>(1).unwrap();
        let reversed = 2 - rank;
        context.adapt(places.meet(1, reversed, 3)).unwrap();
        old.wait().unwrap();
        // SAFETY: each rank writes its own part, before a barrier.
        unsafe { memory.local().as_mut_slice().fill(rank as u8) };
        old.wait().unwrap();
        for other in 0..3_usize {
            let part = memory.of(other).unwrap();
            // SAFETY: nothing writes any more.
            assert_eq!(unsafe { part.as_slice() }, [other as u8; 8]);
        }
        let phase = context.phase(PhaseSpec::over(ObjectType::Machine)).unwrap();
        let error = phase.run_on(&mut field, |_, _| ()).unwrap_err();
        assert!(error.to_string().contains("before its ranks changed"), "{error}");
        context.barrier().unwrap();
        if rank == 2 {
            drop(old);
        } else {
            // A rank that does not hold the barrier any more is not waited for.
            old.wait().unwrap();
        }
        check(&context, reversed, 3);
    });
    places.finish(ranks);
}

pub fn a_retired_rank_comes_back() {
    let places = Places::new(3);
    let ranks = Ranks::fork(2, |rank| {
        let context = places.create(0, rank, 2);
        let phase = context.phase(PhaseSpec::over(ObjectType::Machine)).unwrap();
        if rank == 1 {
            context.retire().unwrap();
            context.retire().unwrap();
            let kind = ErrorKind::Retired;
            assert_eq!(context.barrier().unwrap_err().kind(), kind);
            assert_eq!(context.auto_distrib(ObjectType::Machine, 1).unwrap_err().kind(), kind);
            assert_eq!(context.group_over(ObjectType::Machine).unwrap_err().kind(), kind);
            assert_eq!(context.allocate(1).unwrap_err().kind(), kind);
            assert_eq!(context.named_barrier("n", &[1]).unwrap_err().kind(), kind);
            assert_eq!(context.attach().unwrap_err().kind(), kind);
            assert_eq!(phase.run(|_| ()).unwrap_err().kind(), kind);
            let text = context.barrier().unwrap_err().to_string();
            assert!(text.contains("this rank has left the world"), "{text}");
            // Calls that need no other rank still work.
            assert_eq!((context.rank(), context.size()), (1, 2));
            let before = context.binding().unwrap();
            context.push(&Target::Object(ObjectType::Pu, 0)).unwrap();
            context.pop().unwrap();
            assert_eq!(context.binding().unwrap(), before);
            assert!(context.count(ObjectType::Core) > 0 && context.is_bound().is_ok());
        } else {
            // Even before any rank has adapted, no rank waits for rank 1.
            context.adapt(places.meet(1, 0, 1)).unwrap();
            check(&context, 0, 1);
        }
        context.adapt(places.meet(2, rank, 2)).unwrap();
        assert!(!context.is_retired());
        check(&context, rank, 2);
        phase.run(|_| ()).unwrap();
    });
    places.finish(ranks);
}

pub fn every_way_to_wait() {
    for wait in ["futex", "pthread", "mpi"] {
        let places = Places::new(3);
        let ranks = Ranks::fork(3, |rank| {
            set("QUO_WAIT", wait);
            let context = places.create(0, rank, 3);
            check(&context, rank, 3);
            if rank == 2 {
                context.retire().unwrap();
                assert_eq!(context.barrier().unwrap_err().kind(), ErrorKind::Retired);
            } else {
                context.adapt(places.meet(1, rank, 2)).unwrap();
                check(&context, rank, 2);
            }
            context.adapt(places.meet(2, rank, 3)).unwrap();
            check(&context, rank, 3);
        });
        places.finish(ranks);
    }
}

/// Open files and mappings of segments.
fn holdings() -> (usize, usize) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mapped = maps.lines().filter(|line| line.contains("/quo-")).count();
    (std::fs::read_dir("/proc/self/fd").unwrap().count(), mapped)
}

pub fn hundreds_of_changes() {
    const CYCLES: usize = 200;
    let places = Places::new(2 * CYCLES + 1);
    let ranks = Ranks::fork(4, |rank| {
        let context = places.create(0, rank, 4);
        let mut held = None;
        for cycle in 0..CYCLES {
            if rank < 2 {
                context.adapt(places.meet(2 * cycle + 1, 1 - rank, 2)).unwrap();
                assert_eq!((context.rank(), context.size()), (1 - rank, 2));
                context.barrier().unwrap();
            } else {
                context.retire().unwrap();
            }
            context.adapt(places.meet(2 * cycle + 2, rank, 4)).unwrap();
            context.barrier().unwrap();
            let now = holdings();
            assert_eq!(now.1, 2, "a segment of the group and one of the context");
            assert_eq!(*held.get_or_insert(now), now, "cycle {cycle}");
        }
        check(&context, rank, 4);
    });
    places.finish(ranks);
}
