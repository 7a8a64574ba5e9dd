//! Refusals and deaths: all ranks get the same error, and keep their state.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use nix::sys::signal::Signal;
use quo::affinity::Target;
use quo::context::AdaptOptions;
use quo::group::{Group, GroupError, LocalGroup, WaitLimits};
use quo::phase::PhaseSpec;
use quo::{Context, Error, ErrorKind, ObjectType};

use crate::common::{Places, check};
use crate::support::contexts::{TWO_PACKAGES, set};
use crate::support::{End, Ranks};

/// Two ranks with a context and one that joins them; `hinder` keeps rank 1 from adapting. All are
/// refused with the same error, and the two continue; without the hindrance all meet.
fn refused(
    options: impl Fn(usize) -> AdaptOptions,
    hinder: impl Fn(&Context, &dyn Fn()),
    reason: &str,
) {
    let places = Places::new(3);
    let ranks = Ranks::fork(3, |rank| {
        if rank == 2 {
            let error = Context::join(places.meet(1, 2, 3), places.options()).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
            check(&places.join(2, 2, 3), 2, 3);
            return;
        }
        let context = places.create(0, rank, 2);
        let attempt = || {
            let error = context.adapt_with(places.meet(1, rank, 3), &options(rank)).unwrap_err();
            match &error {
                Error::Agreed { call: "adapt", rank: 1, kind: ErrorKind::Busy, text } => {
                    assert!(text.contains(reason), "{text}");
                }
                other => panic!("{other}"),
            }
        };
        if rank == 1 {
            hinder(&context, &attempt)
        } else {
            attempt()
        }
        check(&context, rank, 2);
        context.adapt(places.meet(2, rank, 3)).unwrap();
        check(&context, rank, 3);
    });
    places.finish(ranks);
}

pub fn an_open_push_is_refused() {
    let hinder = |context: &Context, attempt: &dyn Fn()| {
        let before = context.binding().unwrap();
        let guard = context.push_guard(&Target::Object(ObjectType::Pu, 0)).unwrap();
        attempt();
        assert_eq!(context.binding().unwrap(), *guard.cpus());
        guard.pop().unwrap();
        assert_eq!(context.binding().unwrap(), before);
    };
    refused(|_| AdaptOptions::new(), hinder, "1 binding is pushed");
}

pub fn an_open_phase_is_refused() {
    let places = Places::new(3);
    let ranks = Ranks::fork(3, |rank| {
        if rank == 2 {
            let error = Context::join(places.meet(1, 2, 3), places.options()).unwrap_err();
            assert!(error.to_string().contains("1 phase is open"), "{error}");
            check(&places.join(2, 2, 3), 2, 3);
            return;
        }
        let context = places.create(0, rank, 2);
        let plan = context.plan_phase(PhaseSpec::over(ObjectType::Machine)).unwrap();
        let entered = context.enter_phase(&plan);
        // The working rank, and the one that should sleep but does not sleep yet.
        let error = context.adapt(places.meet(1, rank, 3)).unwrap_err();
        assert!(matches!(error, Error::Agreed { rank: 0, kind: ErrorKind::Busy, .. }), "{error}");
        assert_eq!(context.retire().unwrap_err().kind(), ErrorKind::Busy);
        context.leave_phase(&plan, entered).unwrap();
        check(&context, rank, 2);
        context.adapt(places.meet(2, rank, 3)).unwrap();
        check(&context, rank, 3);
    });
    places.finish(ranks);
}

/// Returns the kernel's number of the calling thread.
fn this_thread() -> i32 {
    nix::unistd::gettid().as_raw()
}

/// Waits until a thread of this process sleeps.
fn until_asleep(thread: i32) {
    let state = || {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
        stat[stat.rfind(')').unwrap() + 2..].chars().next()
    };
    while state() != Some('S') {
        std::thread::yield_now();
    }
}

pub fn a_rank_asleep_is_refused() {
    let places = Places::new(2);
    let ranks = Ranks::fork(2, |rank| {
        let context = places.create(0, rank, 2);
        let adapt = || context.adapt(places.meet(1, rank, 2)).unwrap_err();
        if rank == 1 {
            // The sleeping thread is released by rank 0, which arrives after the refusal.
            let (tell, told) = mpsc::channel();
            std::thread::scope(|scope| {
                let context = &context;
                scope.spawn(move || {
                    tell.send(this_thread()).unwrap();
                    context.barrier().unwrap();
                });
                until_asleep(told.recv().unwrap());
                let error = adapt();
                assert!(
                    matches!(error, Error::Agreed { rank: 1, kind: ErrorKind::Busy, .. }),
                    "{error}"
                );
            });
        } else {
            let error = adapt();
            assert!(error.to_string().contains("another thread"), "{error}");
            context.barrier().unwrap();
        }
        check(&context, rank, 2);
    });
    places.finish(ranks);
}

pub fn ranks_asleep_that_do_not_come() {
    let places = Places::new(3);
    let ranks = Ranks::fork(2, |rank| {
        let context = places.create(0, rank, 2);
        let group = places.meet(1, rank, 2);
        if rank == 0 {
            let error = context.adapt(group).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Busy);
            assert!(error.to_string().contains("1 of the ranks of this node wait"), "{error}");
        }
        context.barrier().unwrap();
        check(&context, rank, 2);
        context.adapt(places.meet(2, rank, 2)).unwrap();
        check(&context, rank, 2);
    });
    places.finish(ranks);
}

pub fn pushes_are_unwound() {
    let places = Places::new(3);
    let ranks = Ranks::fork(2, |rank| {
        set("QUO_TOPOLOGY", TWO_PACKAGES);
        set("QUO_BINDING", "core");
        let context = places.create(0, rank, 2);
        let before = context.binding().unwrap();
        let unwinding = AdaptOptions::new().with_unwinding(true);
        context.push(&Target::Object(ObjectType::Package, 1)).unwrap();
        context.push(&Target::Object(ObjectType::Core, 7)).unwrap();
        let pushed = context.pushed();
        // Rank 1 does not request unwinding.
        let options = if rank == 0 { &unwinding } else { &AdaptOptions::new() };
        let error = context.adapt_with(places.meet(1, rank, 2), options).unwrap_err();
        assert!(error.to_string().contains("rank 1"), "{error}");
        assert_eq!(context.pushed(), pushed);
        context.adapt_with(places.meet(2, rank, 2), &unwinding).unwrap();
        assert_eq!((context.push_depth(), context.binding().unwrap()), (0, before));
        check(&context, rank, 2);
        assert_eq!(context.pop().unwrap_err().kind(), ErrorKind::Pop);
    });
    places.finish(ranks);
}

/// A group whose rank is killed when it reaches a certain gather.
#[derive(Debug)]
struct Fatal {
    group: LocalGroup,
    gathers_left: AtomicUsize,
}

impl Group for Fatal {
    fn rank(&self) -> usize {
        self.group.rank()
    }

    fn size(&self) -> usize {
        self.group.size()
    }

    fn allgather(&self, mine: &[u8], limits: &WaitLimits<'_>) -> Result<Vec<u8>, GroupError> {
        if self.gathers_left.fetch_sub(1, Ordering::Relaxed) == 1 {
            nix::sys::signal::raise(Signal::SIGKILL).unwrap();
        }
        self.group.allgather(mine, limits)
    }

    fn barrier(&self) -> Result<(), GroupError> {
        self.group.barrier()
    }

    fn split(&self, colour: Option<u32>, key: usize) -> Result<Option<Box<dyn Group>>, GroupError> {
        self.group.split(colour, key)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

pub fn a_rank_killed_is_named() {
    for gather in 1..=3 {
        let places = Places::new(3);
        let ranks = Ranks::fork(4, |rank| {
            if rank == 3 {
                let group = places.meet(1, 3, 4);
                let error = Context::join(group, places.options()).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::DeadMember);
                return;
            }
            let context = places.create(0, rank, 3);
            context.barrier().unwrap();
            let group = places.meet(1, rank, 4);
            if rank == 1 {
                let _ = context.adapt(Fatal { group, gathers_left: gather.into() });
                unreachable!();
            }
            let error = context.adapt(group).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DeadMember);
            assert!(error.to_string().contains("rank 1"), "{error}");
            // The old state works as after any death, and can be adapted to the remaining ranks.
            assert_eq!(context.barrier().unwrap_err().kind(), ErrorKind::DeadMember);
            context.expel(1).unwrap();
            context.barrier().unwrap();
            let phase = context.phase(PhaseSpec::over(ObjectType::Machine)).unwrap();
            phase.run(|_| ()).unwrap();
            context.adapt(places.meet(2, rank / 2, 2)).unwrap();
            check(&context, rank / 2, 2);
            phase.run(|_| ()).unwrap();
        });
        let ends = ranks.wait();
        assert_eq!(ends[&1], End::Killed(Signal::SIGKILL));
        assert!([0, 2, 3].iter().all(|rank| ends[rank] == End::Exited(0)), "{ends:?}");
        places.segments.assert_empty();
    }
}

pub fn wrong_partners_are_refused() {
    let places = Places::new(5);
    let ranks = Ranks::fork(2, |rank| {
        let error = Context::join(places.meet(0, rank, 2), places.options()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("no rank of the group adapts"), "{error}");
        let both = [1, 2].map(|place| places.create(place, rank, 2));
        let error = both[rank].adapt(places.meet(3, rank, 2)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Disagreement);
        both.iter().for_each(|context| check(context, rank, 2));
        let known = Context::registered(0);
        assert_eq!(known.len(), 2);
        let [first, second] = both;
        let first = (rank == 0).then_some(first);
        // Rank 1 has released the first: both get the error, and the second still works.
        let error = known[0].adapt(places.meet(4, rank, 2), &AdaptOptions::new()).unwrap_err();
        assert!(error.to_string().contains("has been released"), "{error}");
        assert_eq!(first.is_some(), !known[0].is_gone());
        check(&second, rank, 2);
    });
    places.finish(ranks);
}
