//! Bindings as the kernel has them: every thread's mask is read back after each push and pop.
//!
//! Bindings belong to the whole process, so each test runs in a separate forked process.
#![allow(clippy::unwrap_used, clippy::print_stderr, missing_docs)]

mod support;

use std::sync::mpsc;
use std::thread;

use quo::affinity::kernel::mask_of;
use quo::affinity::{Backend, CALLER, Kernel, Target};
use quo::{Context, CpuSet, ErrorKind, ObjectType};
use support::contexts::with_contexts;

fn main() -> std::process::ExitCode {
    support::run(&[
        ("one_thread_is_bound_and_set_back", one_thread_is_bound_and_set_back),
        ("followers_move_and_threads_with_their_own_mask_stay", followers_move_others_stay),
        ("threads_born_in_a_push_follow_its_pop", threads_born_in_a_push_follow_its_pop),
        ("a_mask_changed_from_outside_is_seen_at_once", a_change_from_outside_is_seen_at_once),
        ("others_are_asked_not_remembered", others_are_asked_not_remembered),
        ("cpus_that_do_not_exist_are_refused", cpus_that_do_not_exist_are_refused),
        ("a_guard_pops_when_dropped_and_free_pops_the_rest", guards_and_free_pop),
        ("pushes_of_two_contexts_nest", pushes_of_two_contexts_nest),
    ])
}

/// Skips the test that calls it, before it forks, if the process may use only one CPU.
fn two_cpus() {
    if mask_of(CALLER).unwrap().len() < 2 {
        quo_tests::suite::skip("this process may use one CPU only");
    }
}

/// Two different masks that the kernel grants here.
fn two_masks(context: &Context) -> (CpuSet, CpuSet) {
    let topology = context.topology();
    let allowed = topology.allowed();
    (CpuSet::single(allowed.first().unwrap()), CpuSet::single(allowed.last().unwrap()))
}

fn bind(mask: &CpuSet) {
    Kernel::new().unwrap().set_mask(CALLER, mask).unwrap();
}

/// A thread that waits until it is released.
struct Waiting {
    number: i32,
    release: mpsc::Sender<()>,
    thread: thread::JoinHandle<()>,
}

impl Waiting {
    fn start(mask: Option<CpuSet>) -> Self {
        let (tell, told) = mpsc::channel();
        let (release, released) = mpsc::channel();
        let thread = thread::spawn(move || {
            let kernel = Kernel::new().unwrap();
            if let Some(mask) = mask {
                kernel.set_mask(CALLER, &mask).unwrap();
            }
            tell.send(kernel.caller()).unwrap();
            let _ = released.recv();
        });
        Self { number: told.recv().unwrap(), release, thread }
    }

    fn mask(&self) -> CpuSet {
        mask_of(self.number).unwrap()
    }

    fn end(self) {
        drop(self.release);
        self.thread.join().unwrap();
    }
}

fn one_thread_is_bound_and_set_back() {
    two_cpus();
    with_contexts(1, &[], |context| {
        let (narrow, other) = two_masks(context);
        bind(&narrow);
        assert!(context.is_bound().unwrap());
        let wide = context.push(&Target::Enclosing(ObjectType::Machine)).unwrap();
        assert_eq!(mask_of(CALLER).unwrap(), wide);
        assert_eq!(wide, *context.topology().allowed());
        assert!(!context.is_bound().unwrap());
        context.push(&Target::Cpus(other.clone())).unwrap();
        assert_eq!(mask_of(CALLER).unwrap(), other);
        context.pop().unwrap();
        assert_eq!(mask_of(CALLER).unwrap(), wide);
        context.pop().unwrap();
        assert_eq!(mask_of(CALLER).unwrap(), narrow);
        assert_eq!(context.pop().unwrap_err().kind(), ErrorKind::Pop);
        assert_eq!(mask_of(CALLER).unwrap(), narrow);
    });
}

fn followers_move_others_stay() {
    two_cpus();
    with_contexts(1, &[], |context| {
        let (narrow, other) = two_masks(context);
        let wide = context.topology().allowed().clone();
        bind(&narrow);
        let follower = Waiting::start(None);
        let pinned = Waiting::start(Some(other.clone()));
        let same_as_pushed = Waiting::start(Some(wide.clone()));
        for _ in 0..3 {
            context.push(&Target::Cpus(wide.clone())).unwrap();
            assert_eq!(follower.mask(), wide);
            assert_eq!(pinned.mask(), other);
            assert_eq!(same_as_pushed.mask(), wide);
            context.pop().unwrap();
            assert_eq!(follower.mask(), narrow);
            assert_eq!(pinned.mask(), other);
            assert_eq!(same_as_pushed.mask(), wide);
        }
        for thread in [follower, pinned, same_as_pushed] {
            thread.end();
        }
    });
}

fn threads_born_in_a_push_follow_its_pop() {
    two_cpus();
    with_contexts(1, &[], |context| {
        let (narrow, other) = two_masks(context);
        let wide = context.topology().allowed().clone();
        bind(&narrow);
        context.push(&Target::Cpus(wide.clone())).unwrap();
        let pool: Vec<Waiting> = (0..4).map(|_| Waiting::start(None)).collect();
        let pinned = Waiting::start(Some(other.clone()));
        assert!(pool.iter().all(|thread| thread.mask() == wide));
        context.pop().unwrap();
        assert!(pool.iter().all(|thread| thread.mask() == narrow));
        assert_eq!(pinned.mask(), other);
        // The pool still exists and widens with the next push.
        context.push(&Target::Cpus(wide.clone())).unwrap();
        assert!(pool.iter().all(|thread| thread.mask() == wide));
        context.pop().unwrap();
        pool.into_iter().chain([pinned]).for_each(Waiting::end);
    });
}

fn a_change_from_outside_is_seen_at_once() {
    two_cpus();
    with_contexts(1, &[], |context| {
        let (narrow, other) = two_masks(context);
        bind(&narrow);
        assert_eq!(context.binding().unwrap(), narrow);
        bind(&other);
        assert_eq!(context.binding().unwrap(), other);
        assert_eq!(context.binding_of(0).unwrap(), other);
        // A push starts from the real mask, and its pop returns to it.
        context.push(&Target::Cpus(narrow.clone())).unwrap();
        context.pop().unwrap();
        assert_eq!(mask_of(CALLER).unwrap(), other);
    });
}

fn others_are_asked_not_remembered() {
    two_cpus();
    with_contexts(2, &[], |context| {
        let (narrow, other) = two_masks(context);
        let mine = if context.rank() == 0 { &narrow } else { &other };
        bind(mine);
        context.barrier().unwrap();
        assert_eq!(context.binding_of(0).unwrap(), narrow);
        assert_eq!(context.binding_of(1).unwrap(), other);
        let core = |cpu: &CpuSet| {
            context.topology().enclosing(ObjectType::Pu, cpu).map(|pu| pu.index).unwrap()
        };
        assert_eq!(context.ranks_on(ObjectType::Pu, core(&narrow)).unwrap(), [0]);
        assert_eq!(context.ranks_on(ObjectType::Pu, core(&other)).unwrap(), [1]);
        context.barrier().unwrap();
    });
}

fn cpus_that_do_not_exist_are_refused() {
    with_contexts(1, &[], |context| {
        let before = mask_of(CALLER).unwrap();
        let allowed = context.topology().allowed().to_string();
        let error = context.push(&Target::Cpus("0,5000".parse().unwrap())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Binding);
        let text = error.to_string();
        assert!(text.contains("0,5000") && text.contains(&allowed), "{text}");
        assert!(context.push(&Target::Cpus(CpuSet::new())).is_err());
        assert_eq!(mask_of(CALLER).unwrap(), before);
        assert_eq!(context.push_depth(), 0);
    });
}

fn guards_and_free_pop() {
    two_cpus();
    with_contexts(1, &[], |context| {
        let (narrow, other) = two_masks(context);
        bind(&narrow);
        {
            let _outer = context.push_guard(&Target::Cpus(other.clone())).unwrap();
            let inner = context.push_guard(&Target::Enclosing(ObjectType::Machine)).unwrap();
            inner.pop().unwrap();
            assert_eq!(mask_of(CALLER).unwrap(), other);
        }
        assert_eq!(mask_of(CALLER).unwrap(), narrow);
    });
    with_contexts(1, &[], |context| {
        if two_masks(context).0.len() == 1 {
            context.push(&Target::Object(ObjectType::Pu, 0)).unwrap();
            context.push(&Target::Object(ObjectType::Pu, 1)).unwrap();
            // Freed by the harness with two pushes on the stack: that is no error.
        }
    });
}

fn pushes_of_two_contexts_nest() {
    two_cpus();
    with_contexts(1, &[], |outer| {
        let (narrow, other) = two_masks(outer);
        bind(&narrow);
        outer.push(&Target::Cpus(other.clone())).unwrap();
        with_contexts_inside(&other);
        assert_eq!(mask_of(CALLER).unwrap(), other);
        outer.pop().unwrap();
        assert_eq!(mask_of(CALLER).unwrap(), narrow);
    });
}

/// A library's own context, created, used and freed between the caller's push and pop.
fn with_contexts_inside(caller: &CpuSet) {
    let segments = support::Segments::new();
    let space = quo::group::local::LocalSpace::new(1, segments.path()).unwrap();
    let inner = Context::create(space.join(0).unwrap()).unwrap();
    inner.push(&Target::Enclosing(ObjectType::Machine)).unwrap();
    assert_eq!(mask_of(CALLER).unwrap(), *inner.topology().allowed());
    inner.pop().unwrap();
    assert_eq!(mask_of(CALLER).unwrap(), *caller);
    inner.free().unwrap();
}
