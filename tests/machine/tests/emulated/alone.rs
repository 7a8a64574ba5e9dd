//! Checks that one process can make of its bindings, on any shape. Each check has its own process.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread::{JoinHandle, spawn};

use nix::unistd::gettid;
use quo::affinity::{BindError, MemoryPolicy, Target};
use quo::group::local::LocalSpace;
use quo::phase::PhaseSpec;
use quo::{Context, Error, ErrorKind, ObjectType};
use quo_machine::Shape;

use crate::oracle::{
    Cpus, as_set, bind, distances_from, mask_of, masks, memory_of, objects, online,
    touch_and_find_on,
};

/// A check with its name; its argument is the shape of the machine.
pub type Check = (&'static str, fn(&Shape));

pub const CHECKS: &[Check] = &[
    ("kernel_quo_and_shape_agree_on_the_machine", agree_on_the_machine),
    ("push_of_each_object_binds_to_the_kernels_cpus", pushes_of_objects),
    ("a_push_of_the_enclosing_object_finds_the_kernels", pushes_of_enclosing_objects),
    ("nested_pushes_and_pops_move_all_followers_in_turn", nested_pushes),
    ("threads_with_a_mask_of_their_own_are_never_moved", own_masks),
    ("memory_touched_after_a_push_lies_on_the_node", memory_after_a_push),
    ("pages_lie_where_policies_and_moves_put_them", pages_of_policies),
    ("cpus_offline_and_online_again_are_planned_for", offline_cpus),
    ("cpus_of_a_version_2_control_group_are_used", group_of_version_2),
];

/// Runs `body` with the context of a single rank.
fn with_context(body: impl FnOnce(&Context)) {
    let space = LocalSpace::new(1, "/dev/shm".as_ref()).unwrap();
    let context = Context::create(space.join(0).unwrap()).unwrap();
    body(&context);
    context.free().unwrap();
}

fn all_kinds() -> impl Iterator<Item = (ObjectType, Vec<Cpus>)> {
    ObjectType::ALL.into_iter().map(|kind| (kind, objects(kind)))
}

/// A thread that executes instructions until it is released.
struct Thread {
    id: i32,
    orders: mpsc::Sender<Box<dyn FnOnce() + Send>>,
    done: mpsc::Receiver<()>,
    handle: JoinHandle<()>,
}

impl Thread {
    fn start() -> Thread {
        let (orders, received) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
        let (tell, done) = mpsc::channel();
        let (tell_id, id) = mpsc::channel();
        let handle = spawn(move || {
            tell_id.send(gettid().as_raw()).unwrap();
            for order in received {
                order();
                tell.send(()).unwrap();
            }
        });
        Thread { id: id.recv().unwrap(), orders, done, handle }
    }

    fn bound_to(cpus: &Cpus) -> Thread {
        let thread = Thread::start();
        let cpus = cpus.clone();
        thread.run(move || bind(&cpus));
        thread
    }

    fn run(&self, order: impl FnOnce() + Send + 'static) {
        self.orders.send(Box::new(order)).unwrap();
        self.done.recv().expect("the thread did what it was told");
    }

    fn end(self) {
        drop(self.orders);
        self.handle.join().unwrap();
        // A thread is joined before it disappears from the kernel's list, whose masks are all read.
        while Path::new(&format!("/proc/self/task/{}", self.id)).exists() {
            std::thread::yield_now();
        }
    }
}

/// Checks that every thread of this process has this mask.
#[track_caller]
fn assert_all(expected: &Cpus, after: &str) {
    for (thread, mask) in masks() {
        assert_eq!(mask, *expected, "thread {thread} after {after}");
    }
}

fn agree_on_the_machine(shape: &Shape) {
    let Shape { packages, cores, .. } = *shape;
    for (kind, count) in [
        (ObjectType::Package, packages),
        (ObjectType::L3Cache, packages),
        (ObjectType::Core, packages * cores),
        (ObjectType::Pu, shape.cpus()),
        (ObjectType::NumaNode, shape.numa.len()),
    ] {
        assert_eq!(objects(kind).len(), count, "{kind} objects of the kernel");
    }
    for (node, numa) in shape.numa.iter().enumerate() {
        let memory = memory_of(node);
        assert!(memory <= numa.memory && memory * 5 > numa.memory * 4, "node {node}: {memory} MiB");
        if !numa.distances.is_empty() {
            assert_eq!(distances_from(node), numa.distances);
        }
    }
    with_context(|context| {
        for (kind, kernel) in all_kinds() {
            assert_eq!(context.count(kind), kernel.len(), "{kind} objects");
            for (index, cpus) in kernel.iter().enumerate() {
                let object = context.object(kind, index).unwrap();
                assert_eq!(object.cpuset, as_set(cpus), "{kind} {index}");
            }
        }
        assert_eq!(*context.topology().allowed(), as_set(&online()));
    });
    // The command's view of the machine, through its JSON.
    let output = Command::new("quo-info").args(["topology", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let machine: quo::Topology = serde_json::from_slice(&output.stdout).unwrap();
    for (kind, kernel) in all_kinds() {
        assert_eq!(machine.count(kind), kernel.len(), "{kind} objects of quo-info");
    }
}

/// Returns initial masks: all CPUs, one CPU, a package.
fn starts() -> Vec<Cpus> {
    let last = online().into_iter().next_back().unwrap();
    vec![online(), Cpus::from([last]), objects(ObjectType::Package).pop().unwrap()]
}

fn pushes_of_objects(_: &Shape) {
    with_context(|context| {
        for start in starts() {
            bind(&start);
            let followers = [Thread::start(), Thread::start()];
            for (kind, kernel) in all_kinds() {
                for (index, cpus) in kernel.iter().enumerate() {
                    let what = format!("push of {kind} {index} from {start:?}");
                    let pushed = context.push(&Target::Object(kind, index));
                    if cpus.is_empty() {
                        assert_eq!(pushed.unwrap_err().kind(), ErrorKind::Binding, "{what}");
                        assert_all(&start, &what);
                        continue;
                    }
                    assert_eq!(pushed.unwrap(), as_set(cpus), "{what}");
                    assert_all(cpus, &what);
                    assert_eq!(context.binding().unwrap(), as_set(cpus), "{what}");
                    context.pop().unwrap();
                    assert_all(&start, &format!("pop after {what}"));
                }
                context.push(&Target::Object(kind, kernel.len())).unwrap_err();
                assert_all(&start, &format!("push of a {kind} that does not exist"));
            }
            followers.into_iter().for_each(Thread::end);
        }
    });
}

fn pushes_of_enclosing_objects(_: &Shape) {
    with_context(|context| {
        let starts = all_kinds().flat_map(|(_, kernel)| kernel).filter(|cpus| !cpus.is_empty());
        let starts: BTreeSet<Cpus> = starts.collect();
        for start in &starts {
            bind(start);
            let follower = Thread::start();
            for (kind, kernel) in all_kinds() {
                let what = format!("push of the {kind} around {start:?}");
                let pushed = context.push(&Target::Enclosing(kind));
                match kernel.iter().find(|cpus| start.is_subset(cpus)) {
                    Some(cpus) => {
                        assert_eq!(pushed.unwrap(), as_set(cpus), "{what}");
                        assert_all(cpus, &what);
                        context.pop().unwrap();
                    }
                    None => {
                        let error = pushed.unwrap_err();
                        let known = matches!(error, Error::Bind(BindError::NotEnclosed { .. }));
                        assert!(known, "{what}: {error}");
                    }
                }
                assert_all(start, &format!("pop after {what}"));
            }
            follower.end();
        }
    });
}

fn nested_pushes(_: &Shape) {
    let targets: Vec<(ObjectType, usize, Cpus)> = all_kinds()
        .flat_map(|(kind, kernel)| {
            kernel.into_iter().enumerate().map(move |(index, cpus)| (kind, index, cpus))
        })
        .filter(|(_, _, cpus)| !cpus.is_empty())
        .collect();
    with_context(|context| {
        let mut threads = vec![Thread::start()];
        let mut stack = vec![online()];
        // Any fixed sequence: the multiplier of a well-known generator.
        let mut state: u64 = 3;
        for step in 0..300 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let choice = (state >> 33) as usize;
            if choice.is_multiple_of(2) && stack.len() > 1 {
                stack.pop();
                context.pop().unwrap();
            } else {
                let (kind, index, cpus) = &targets[choice / 2 % targets.len()];
                context.push(&Target::Object(*kind, *index)).unwrap();
                stack.push(cpus.clone());
            }
            // A thread started at any depth follows all later bindings.
            if step % 100 == 50 {
                threads.push(Thread::start());
            }
            assert_all(stack.last().unwrap(), &format!("step {step}, depth {}", stack.len()));
        }
        while stack.pop().is_some() && !stack.is_empty() {
            context.pop().unwrap();
            assert_all(stack.last().unwrap(), "the last pops");
        }
        assert_eq!(context.pop().unwrap_err().kind(), ErrorKind::Pop);
        threads.into_iter().for_each(Thread::end);
    });
}

fn own_masks(_: &Shape) {
    let all = online();
    if all.len() < 2 {
        return; // There is only one mask.
    }
    let first = Cpus::from([*all.first().unwrap()]);
    let last = Cpus::from([*all.last().unwrap()]);
    with_context(|context| {
        let pinned: Vec<(Thread, Cpus)> = all
            .iter()
            .map(|&cpu| Cpus::from([cpu]))
            .map(|mask| (Thread::bound_to(&mask), mask))
            .collect();
        let follower = Thread::start();
        let check = |mine: &Cpus, after: &str| {
            let now: BTreeMap<i32, Cpus> = masks();
            for (thread, mask) in &pinned {
                assert_eq!(now[&thread.id], *mask, "a pinned thread after {after}");
            }
            assert_eq!(now[&follower.id], *mine, "the follower after {after}");
            assert_eq!(now[&gettid().as_raw()], *mine, "the caller after {after}");
        };
        for (kind, kernel) in all_kinds() {
            for (index, cpus) in kernel.iter().enumerate().filter(|(_, cpus)| !cpus.is_empty()) {
                context.push(&Target::Object(kind, index)).unwrap();
                check(cpus, &format!("push of {kind} {index}"));
                context.pop().unwrap();
                check(&all, &format!("pop of {kind} {index}"));
            }
        }
        // A thread that sets its own mask during a push keeps it, even if it equals the earlier
        // mask.
        let rebel = Thread::start();
        for own in [last.clone(), all.clone()] {
            context.push(&Target::Cpus(as_set(&first))).unwrap();
            assert_eq!(masks()[&rebel.id], first);
            let chosen = own.clone();
            rebel.run(move || bind(&chosen));
            context.push(&Target::Object(ObjectType::Machine, 0)).unwrap();
            assert_eq!(masks()[&rebel.id], own);
            context.pop().unwrap();
            context.pop().unwrap();
            assert_eq!(masks()[&rebel.id], own);
            let back = all.clone();
            rebel.run(move || bind(&back));
        }
        for thread in pinned.into_iter().map(|(thread, _)| thread).chain([follower, rebel]) {
            thread.end();
        }
    });
}

fn memory_after_a_push(shape: &Shape) {
    with_context(|context| {
        let follower = Thread::start();
        for (index, cpus) in objects(ObjectType::NumaNode).iter().enumerate() {
            if cpus.is_empty() {
                continue;
            }
            // The kernel's number of the node, from the file that defines the machine.
            let node = shape
                .numa
                .iter()
                .position(|numa| numa.cpus.split([',', '-']).next() == Some(&first_of(cpus)))
                .expect("the shape has the node");
            context.push(&Target::Object(ObjectType::NumaNode, index)).unwrap();
            touch_and_find_on(node);
            follower.run(move || touch_and_find_on(node));
            context.pop().unwrap();
        }
        follower.end();
    });
}

/// Returns a block large enough to be a separate mapping, fresh from the kernel.
fn touched() -> Vec<u8> {
    vec![1; 40 << 20]
}

fn pages_of_policies(_: &Shape) {
    const PAGE: u64 = 4096;
    let of_nodes = objects(ObjectType::NumaNode);
    let with_cpus = |index: &usize| !of_nodes[*index].is_empty();
    let nodes: Vec<usize> = (0..of_nodes.len()).filter(with_cpus).collect();
    with_context(|context| {
        // With huge pages the amounts are not exactly even.
        let near = |bytes: u64, right: u64| bytes.abs_diff(right) <= right / 4 + 2 * PAGE;
        let whole = Target::Object(ObjectType::Machine, 0);
        context.set_memory_policy(Some(MemoryPolicy::Interleave)).unwrap();
        context.push(&whole).unwrap();
        let mut memory = touched();
        let (all, found) = (memory.len() as u64, context.places(&memory).unwrap());
        for &node in &nodes {
            assert!(near(found.nodes[node], all / nodes.len() as u64), "{node}: {found:?}");
        }
        context.pop().unwrap();
        for &node in &nodes {
            let target = Target::Object(ObjectType::NumaNode, node);
            context.place(&mut memory, &target, MemoryPolicy::Bind).unwrap();
            let found = context.places(&memory).unwrap();
            assert!(near(found.nodes[node], all) && found.absent == 0, "{node}: {found:?}");
            for policy in [MemoryPolicy::Bind, MemoryPolicy::Follow] {
                context.set_memory_policy(Some(policy)).unwrap();
                context.push(&target).unwrap();
                let found = context.places(&touched()).unwrap();
                assert!(near(found.nodes[node], all), "{policy:?}, {node}: {found:?}");
                context.pop().unwrap();
            }
        }
        context.set_memory_policy(None).unwrap();
    });
}

fn first_of(cpus: &Cpus) -> String {
    cpus.first().map(ToString::to_string).unwrap_or_default()
}

/// Returns true if this process may change the machine: commands run as the user that started the
/// machine.
fn is_administrator() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Runs a phase over the machine before and after each change, which names the CPUs allowed then.
fn planned_after(changes: &[(&dyn Fn(), Cpus)]) {
    with_context(|context| {
        let phase = context.phase(PhaseSpec::over(ObjectType::Machine)).unwrap();
        for (change, allowed) in changes {
            change();
            // Forces a look: phases within a millisecond share one.
            assert_eq!(context.allowed(), as_set(allowed));
            let worked = phase.run(|worker| (worker.cpus().clone(), mask_of(0))).unwrap().value;
            assert_eq!(worked, Some((as_set(allowed), allowed.clone())));
        }
    });
}

fn offline_cpus(shape: &Shape) {
    let all = online();
    let last = all.last().copied().filter(|&last| last > 0);
    let (Some(last), true) = (last, is_administrator()) else { return };
    let switch = format!("/sys/devices/system/cpu/cpu{last}/online");
    let set = |value: &str| fs::write(&switch, value).unwrap();
    let fewer: Cpus = (0..shape.cpus()).filter(|&cpu| cpu != last).collect();
    let (nothing, off, on) = (|| (), || set("0"), || set("1"));
    planned_after(&[(&nothing, all.clone()), (&off, fewer), (&on, all)]);
}

fn group_of_version_2(_: &Shape) {
    let all = online();
    if !is_administrator() || all.len() < 2 {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mount = |arguments: &[&str]| {
        let status = Command::new("mount").args(arguments).arg(folder.path()).status().unwrap();
        assert!(status.success(), "mount: {status}");
    };
    mount(&["-t", "cgroup2", "none"]);
    let group = folder.path().join("quo-test");
    fs::write(folder.path().join("cgroup.subtree_control"), "+cpuset").unwrap();
    fs::create_dir(&group).unwrap();
    let list = |cpus: &Cpus| as_set(cpus).to_string();
    let give = |cpus: &Cpus| fs::write(group.join("cpuset.cpus"), list(cpus)).unwrap();
    let enter = |folder: &Path| fs::write(folder.join("cgroup.procs"), "0").unwrap();
    let middle = all.len() / 2;
    let one: Cpus = all.iter().copied().take(middle).collect();
    let other: Cpus = all.iter().copied().skip(middle).collect();
    let entered = || {
        give(&one);
        enter(&group);
    };
    let (changed, widened) = (|| give(&other), || give(&all));
    let left = || enter(folder.path());
    planned_after(&[
        (&entered, one.clone()),
        (&changed, other.clone()),
        (&widened, all.clone()),
        (&left, all.clone()),
    ]);
    fs::remove_dir(&group).unwrap();
    let status = Command::new("umount").arg(folder.path()).status().unwrap();
    assert!(status.success(), "umount: {status}");
}
