//! Ranks that are killed, execute another program, fork, detach and attach.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;

use crate::support::contexts::{options, with_contexts};
use crate::support::{End, Ranks, Segments};
use nix::sys::signal::Signal;
use quo::affinity::Target;
use quo::group::local::LocalSpace;
use quo::group::{Group, GroupError, WaitLimits};
use quo::plan::Policy;
use quo::{Context, Error, ErrorKind, ObjectType};

/// Rank 1 of three is killed by `fate`; the others have to get an error in the barrier that names
/// it.
fn others_name_the_dead(fate: impl Fn(&Context)) {
    let segments = Segments::new();
    let space = LocalSpace::new(3, segments.path()).unwrap();
    let ranks = Ranks::fork(3, |rank| {
        let group = space.join(rank).unwrap();
        let context = Context::create_with(group, options(segments.path())).unwrap();
        context.barrier().unwrap();
        if rank == 1 {
            fate(&context);
        }
        // This barrier has no timeout: without the death it would wait until all ranks are ended.
        let error = context.barrier().unwrap_err();
        assert!(matches!(&error, Error::DeadMember { ranks, .. } if *ranks == [1]), "{error}");
        assert!(context.binding_of(1).is_err());
        let again = context.barrier().unwrap_err();
        assert_eq!(again.kind(), ErrorKind::DeadMember);
    });
    let ends = ranks.wait();
    assert_eq!(ends[&1], End::Killed(Signal::SIGKILL));
    assert_eq!((ends[&0], ends[&2]), (End::Exited(0), End::Exited(0)));
    drop(space);
    segments.assert_empty();
}

fn kill_this() -> ! {
    nix::sys::signal::raise(Signal::SIGKILL).unwrap();
    unreachable!()
}

pub fn a_rank_killed_before_the_barrier_is_named() {
    others_name_the_dead(|_| kill_this());
}

pub fn a_rank_killed_inside_the_barrier_is_named() {
    others_name_the_dead(|context| {
        // A second thread kills the process while its first waits among only two of three ranks.
        let alone = context.named_barrier("never complete", &[0, 1]).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| kill_this());
            let _ = alone.wait();
        });
    });
}

/// Its process id is the same, and so is the mask that the kernel reports.
pub fn another_program_has_no_binding() {
    let segments = Segments::new();
    let space = LocalSpace::new(3, segments.path()).unwrap();
    let (reader, writer) = nix::unistd::pipe().unwrap();
    let mut writer = Some(writer);
    let ranks = Ranks::fork(3, |rank| {
        let group = space.join(rank).unwrap();
        let context = Context::create_with(group, options(segments.path())).unwrap();
        if rank == 1 {
            nix::unistd::close(writer.as_ref().unwrap().as_raw_fd()).unwrap();
            nix::unistd::dup2_stdin(&reader).unwrap();
            nix::unistd::execv(c"/bin/cat", &[c"cat"]).unwrap();
        }
        assert_eq!(context.barrier().unwrap_err().kind(), ErrorKind::DeadMember);
        let is_dead = || context.binding_of(1).unwrap_err().kind() == ErrorKind::DeadMember;
        assert!(is_dead());
        context.expel(1).unwrap();
        assert!(is_dead());
        assert_eq!(context.ranks_on(ObjectType::Machine, 0).unwrap(), [0, 2]);
        context.barrier().unwrap();
        // The other program reads until no process can write.
    });
    writer.take();
    ranks.succeed();
    drop(space);
    segments.assert_empty();
}

pub fn detached_ranks_have_bindings() {
    with_contexts(2, &[], |context| {
        let pair = context.named_barrier("pair", &[0, 1]).unwrap();
        pair.wait().unwrap();
        if context.rank() == 0 {
            context.detach().unwrap();
            // This push is not published.
            let cpus = context.push(&Target::Object(ObjectType::Pu, 0)).unwrap();
            assert_eq!(context.binding_of(0).unwrap(), cpus);
            context.pop().unwrap();
            context.attach().unwrap();
        } else {
            assert!(!context.binding_of(0).unwrap().is_empty());
        }
    });
}

pub fn a_rank_killed_inside_create_is_named() {
    let segments = Segments::new();
    let space = LocalSpace::new(3, segments.path()).unwrap();
    let ranks = Ranks::fork(3, |rank| {
        let group = space.join(rank).unwrap();
        if rank == 1 {
            kill_this();
        }
        let error = Context::create_with(group, options(segments.path())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeadMember);
        assert!(error.to_string().contains("rank 1"), "{error}");
    });
    let ends = ranks.wait();
    assert_eq!((ends[&0], ends[&2]), (End::Exited(0), End::Exited(0)));
    drop(space);
    segments.assert_empty();
}

pub fn creation_ends_by_the_check_of_its_caller() {
    let segments = Segments::new();
    let space = LocalSpace::new(2, segments.path()).unwrap();
    let others = LocalSpace::new(2, segments.path()).unwrap();
    let ranks = Ranks::fork(2, |rank| {
        let group = space.join(rank).unwrap();
        // Rank 1 is alive but does not take part.
        if rank == 0 {
            let call = "the caller's own";
            let check = || Err(GroupError::Dead { call, ranks: vec![1] });
            let limits = WaitLimits { deadline: None, check_peers: &check };
            let error = Context::create_within(group, options(segments.path()), &limits);
            let error = error.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DeadMember);
            assert!(error.to_string().contains(call), "{error}");
        }
        others.join(rank).unwrap().barrier().unwrap();
    });
    ranks.succeed();
    drop((space, others));
    segments.assert_empty();
}

/// A process keeps knowledge of itself from its first context, which its children must not use as
/// their own.
pub fn a_forked_child_is_known_as_itself() {
    with_contexts(1, &[], |parent| {
        let own = |context: &Context| context.explain().unwrap().ranks[context.node_rank()].process;
        assert_eq!(own(parent), std::process::id().cast_signed());
        let segments = Segments::new();
        let space = LocalSpace::new(3, segments.path()).unwrap();
        let ranks = Ranks::fork(3, |rank| {
            let group = space.join(rank).unwrap();
            let context = Context::create_with(group, options(segments.path())).unwrap();
            assert_eq!(own(&context), std::process::id().cast_signed());
            let known = context.explain().unwrap().ranks;
            assert!(
                known
                    .iter()
                    .all(|rank| rank.process != std::os::unix::process::parent_id().cast_signed())
            );
            // A death is noticed although the parent, whose children these ranks are, is alive.
            if rank == 2 {
                kill_this();
            }
            let error = context.barrier().unwrap_err();
            assert!(matches!(&error, Error::DeadMember { ranks, .. } if *ranks == [2]), "{error}");
        });
        let ends = ranks.wait();
        assert_eq!((ends[&0], ends[&1]), (End::Exited(0), End::Exited(0)));
        drop(space);
        segments.assert_empty();
    });
}

pub fn a_forked_child_is_refused() {
    with_contexts(2, &[], |context| {
        Ranks::fork(1, |_| {
            let errors = [
                context.barrier().unwrap_err(),
                context.push(&Target::Object(ObjectType::Machine, 0)).unwrap_err(),
                context.auto_distrib(ObjectType::Machine, 1).unwrap_err(),
            ];
            assert!(errors.iter().all(|error| matches!(error, Error::Forked { .. })));
        })
        .succeed();
        context.barrier().unwrap();
    });
}

pub fn detach_and_attach() {
    // The ranks that stay report when they are done: one that rejoins earlier is waited for again.
    let (done, told) = std::io::pipe().unwrap();
    with_contexts(3, &[], |context| {
        let all = context.named_barrier("all", &[0, 1, 2]).unwrap();
        let away = context.rank() == 2;
        if away {
            assert!(context.detach().unwrap());
            assert!(!context.detach().unwrap());
        }
        all_or_pair(context, away, &all);
        if away {
            assert!(context.barrier().is_err(), "not a member now");
            (&done).read_exact(&mut [0; 2]).unwrap();
            assert!(context.attach().unwrap());
            assert!(!context.attach().unwrap());
        } else {
            let pair = context.named_barrier("pair", &[0, 1]).unwrap();
            let plan = context.distribute(ObjectType::Machine, 3, Policy::Spread).unwrap();
            assert_eq!(plan.selected(), [0, 1]);
            pair.wait().unwrap();
            (&told).write_all(&[1]).unwrap();
        }
    });
}

/// Two ranks pass barriers; the one that is away does not, and its named barriers are gone.
fn all_or_pair(context: &Context, away: bool, all: &quo::context::NamedBarrier<'_>) {
    if away {
        assert!(all.wait().is_err());
    } else {
        for _ in 0..10 {
            context.barrier().unwrap();
        }
    }
}

pub fn survivors_go_on_after_expelling_the_dead() {
    let segments = Segments::new();
    let space = LocalSpace::new(4, segments.path()).unwrap();
    let ranks = Ranks::fork(4, |rank| {
        let group = space.join(rank).unwrap();
        let context = Context::create_with(group, options(segments.path())).unwrap();
        if rank == 3 {
            kill_this();
        }
        assert_eq!(context.barrier().unwrap_err().kind(), ErrorKind::DeadMember);
        // Empty once another survivor has expelled it.
        assert!(matches!(context.dead_node_ranks()[..], [] | [3]));
        assert_eq!(context.expel(1).unwrap_err().kind(), ErrorKind::InvalidArgument);
        context.expel(3).unwrap();
        for _ in 0..10 {
            context.barrier().unwrap();
        }
        let plan = context.distribute(ObjectType::Machine, 4, Policy::Spread).unwrap();
        assert_eq!(plan.selected(), [0, 1, 2]);
    });
    let ends = ranks.wait();
    assert!((0..3).all(|rank| ends[&rank] == End::Exited(0)), "{ends:?}");
    drop(space);
    segments.assert_empty();
}
