//! Collective calls of the ranks of a node, on the shape with two packages of four cores: eight
//! ranks started by mpirun and bound in four ways. Each rank reads its masks from the kernel.

use std::collections::BTreeSet;

use mpi::traits::CommunicatorCollectives;
use quo::affinity::Target;
use quo::phase::PhaseSpec;
use quo::plan::{DistributeRequest, Policy, distribute};
use quo::{Context, ObjectType};
use quo_mpi::MpiGroup;

use crate::oracle::{Cpus, as_set, bind, mask_of, masks, objects, online, touch_and_find_on};

const RANKS: usize = 8;

/// Types over which work is spread.
const KINDS: [ObjectType; 3] = [ObjectType::Package, ObjectType::NumaNode, ObjectType::Core];

/// Bindings of the ranks, with mpirun's option for each.
pub const PATTERNS: &[(&str, &str)] =
    &[("core", "core"), ("package", "socket"), ("none", "none"), ("half", "none")];

/// Runs one rank of a check.
pub fn run(pattern: &str) {
    let universe = mpi::initialize().expect("MPI starts");
    let world = universe.world();
    let node = Node { world: &world, rank: mpi::traits::Communicator::rank(&world) as usize };
    assert_eq!(mpi::traits::Communicator::size(&world) as usize, RANKS);
    match pattern {
        "core" => assert!(objects(ObjectType::Core).contains(&mask_of(0)), "{:?}", mask_of(0)),
        "package" => assert!(objects(ObjectType::Package).contains(&mask_of(0))),
        "none" => assert_eq!(mask_of(0), online()),
        // The first four on the cores of the first package, the others anywhere.
        "half" if node.rank < 4 => bind(&objects(ObjectType::Core)[node.rank]),
        _ => {}
    }
    let context = Context::create(MpiGroup::new(&world).unwrap()).unwrap();
    for kind in KINDS {
        for most in 1..=3 {
            distribution(&node, &context, pattern, kind, most);
        }
        queries(&node, &context, kind);
        phases(&node, &context, kind);
    }
    groups(&node, &context);
    context.free().unwrap();
}

struct Node<'a> {
    world: &'a mpi::topology::SimpleCommunicator,
    rank: usize,
}

impl Node<'_> {
    fn gather(&self, value: u64) -> Vec<u64> {
        let mut all = vec![0; RANKS];
        self.world.all_gather_into(&value, &mut all);
        all
    }

    /// Returns the kernel's masks of all ranks.
    fn masks(&self) -> Vec<Cpus> {
        let mine = mask_of(0).into_iter().fold(0, |bits, cpu| bits | 1 << cpu);
        let cpus = |bits: u64| (0..64).filter(|cpu| bits >> cpu & 1 == 1).collect();
        self.gather(mine).into_iter().map(cpus).collect()
    }
}

fn distribution(node: &Node<'_>, context: &Context, pattern: &str, kind: ObjectType, most: usize) {
    let what = format!("{pattern}: at most {most} per {kind}");
    let (kernel, before) = (objects(kind), node.masks());
    let selected = context.auto_distrib(kind, most).unwrap();
    let selected: Vec<usize> = node
        .gather(u64::from(selected))
        .iter()
        .enumerate()
        .filter_map(|(rank, &flag)| (flag == 1).then_some(rank))
        .collect();
    let plan = context.distribute(kind, most, Policy::Spread).unwrap();
    assert_eq!(plan.selected(), selected, "{what}");

    // The pure plan, from the kernel's answers.
    let sets = |cpus: &[Cpus]| cpus.iter().map(as_set).collect::<Vec<_>>();
    let pure = distribute(&DistributeRequest {
        objects: &sets(&kernel),
        allowed: &as_set(&online()),
        masks: &sets(&before),
        max_per_object: most,
        policy: Policy::Spread,
    });
    assert_eq!(plan, pure.unwrap(), "{what}");

    // The promised properties.
    let object_of: Vec<Option<usize>> = plan.object_of.clone();
    let load = |object| object_of.iter().filter(|place| **place == Some(object)).count();
    for (rank, place) in object_of.iter().enumerate() {
        let Some(object) = *place else { continue };
        assert!(load(object) <= most, "{what}: {object_of:?}");
        assert!(!before[rank].is_disjoint(&kernel[object]), "{what}: {object_of:?}");
        for (other, cpus) in kernel.iter().enumerate() {
            let could = !before[rank].is_disjoint(cpus);
            let level = load(object) <= load(other) + 1;
            assert!(level || !could, "{what}: rank {rank} is not spread: {object_of:?}");
        }
    }
    assert_eq!(selected, expected(pattern, kind, most, &before, &kernel), "{what}");

    // The selected rank is bound there, and by the kernel no other thread has moved.
    let mine = object_of[node.rank];
    if let Some(object) = mine {
        let threads = masks();
        context.push(&Target::Object(kind, object)).unwrap();
        for (thread, mask) in masks() {
            let followed = threads.get(&thread).is_none_or(|old| *old == before[node.rank]);
            let should = if followed { &kernel[object] } else { &threads[&thread] };
            assert_eq!(mask, *should, "{what}: thread {thread}");
        }
    }
    let pushed = node.masks();
    for rank in 0..RANKS {
        let should = object_of[rank].map_or(&before[rank], |object| &kernel[object]);
        assert_eq!(pushed[rank], *should, "{what}: rank {rank}");
    }
    if mine.is_some() {
        context.pop().unwrap();
    }
    assert_eq!(node.masks(), before, "{what}: after the pops");
}

/// Returns the expected selection, spelled out for each kind of binding.
fn expected(
    pattern: &str,
    kind: ObjectType,
    most: usize,
    masks: &[Cpus],
    kernel: &[Cpus],
) -> Vec<usize> {
    let inside = |cpus: &Cpus| {
        let ranks = (0..RANKS).filter(|&rank| masks[rank].is_subset(cpus));
        ranks.take(most).collect::<Vec<_>>()
    };
    let mut ranks: Vec<usize> = match (pattern, kind) {
        // As many as there are places, lower ranks first.
        ("none", _) => (0..RANKS.min(most * kernel.len())).collect(),
        // Bound ranks have the first package; unbound ones fill the second.
        ("half", ObjectType::Package | ObjectType::NumaNode) => {
            (0..most).chain(4..4 + most).collect()
        }
        // Four cores have their own rank, the other four are filled.
        ("half", _) => (0..RANKS).collect(),
        // A rank that may run on four cores takes one of them.
        ("package", ObjectType::Core) => (0..RANKS).collect(),
        // Every rank is inside one object: the lowest ranks of each object.
        _ => kernel.iter().flat_map(inside).collect(),
    };
    ranks.sort_unstable();
    ranks
}

fn queries(node: &Node<'_>, context: &Context, kind: ObjectType) {
    let all = node.masks();
    for (index, cpus) in objects(kind).iter().enumerate() {
        let there = (0..RANKS).filter(|&rank| !all[rank].is_disjoint(cpus)).collect::<Vec<_>>();
        assert_eq!(context.ranks_on(kind, index).unwrap(), there, "ranks on {kind} {index}");
    }
    for (rank, mask) in all.iter().enumerate() {
        assert_eq!(context.binding_of(rank).unwrap(), as_set(mask), "binding of rank {rank}");
    }
    context.barrier().unwrap();
}

fn phases(node: &Node<'_>, context: &Context, kind: ObjectType) {
    let (kernel, before) = (objects(kind), node.masks());
    for most in 1..=2 {
        let phase = context.phase(PhaseSpec::over(kind).max_per_object(most)).unwrap();
        let plan = context.distribute(kind, most, Policy::Spread).unwrap();
        let outcome = phase.run(|worker| {
            let mask = mask_of(0);
            assert_eq!(as_set(&mask), *worker.cpus());
            assert_eq!(mask.len(), worker.threads());
            let object = plan.object_of[node.rank].expect("a worker was selected");
            assert!(mask.is_subset(&kernel[object]));
            // On this shape the kernel numbers NUMA nodes as quo does.
            if kind == ObjectType::NumaNode {
                touch_and_find_on(object);
            }
            mask.into_iter().fold(0_u64, |bits, cpu| bits | 1 << cpu)
        });
        let mine = outcome.unwrap().value.unwrap_or(0);
        let workers: Vec<u64> = node.gather(mine).into_iter().filter(|bits| *bits != 0).collect();
        assert_eq!(workers.len(), plan.selected().len());
        // No CPU has two workers, and together the workers have every CPU of every object.
        let together = workers.iter().fold(0, |sum, bits| {
            assert_eq!(sum & bits, 0, "two workers share a CPU: {workers:x?}");
            sum | bits
        });
        let worked: BTreeSet<usize> = plan.object_of.iter().copied().flatten().collect();
        let wanted: Cpus = worked.into_iter().flat_map(|object| kernel[object].clone()).collect();
        if kind != ObjectType::Core {
            assert_eq!(together, wanted.into_iter().fold(0, |bits, cpu| bits | 1 << cpu));
        }
        assert_eq!(node.masks(), before, "after a phase");
    }
}

fn groups(node: &Node<'_>, context: &Context) {
    let all = node.masks();
    for kind in KINDS {
        let kernel = objects(kind);
        let first = |mask: &Cpus| kernel.iter().position(|cpus| !cpus.is_disjoint(mask));
        let mine = first(&all[node.rank]);
        let group = context.group_over(kind).unwrap();
        let expected = all.iter().filter(|mask| first(mask) == mine).count();
        assert_eq!(group.size(), expected, "ranks with the same {kind}");
    }
}
