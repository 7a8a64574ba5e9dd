//! Tables that reduce containment queries to a memory load.

use crate::CpuSet;

use super::{Object, ObjectType};

const NOBODY: u32 = u32::MAX;

/// Range of the objects of one type that lie inside one object.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
struct Span {
    start: u32,
    length: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Index {
    /// For each type and CPU, the object that contains it.
    owners: [Vec<u32>; ObjectType::COUNT],
    /// For each object, the objects of each type inside it.
    spans: [Vec<[Span; ObjectType::COUNT]>; ObjectType::COUNT],
    /// Starts with 0, 1, 2, …, so that a run of neighbours needs no separate list.
    members: Vec<u32>,
}

impl Index {
    /// Builds the index. Sets must not overlap within a type and, except for NUMA nodes, must not
    /// be empty.
    pub(super) fn new(levels: &[Vec<Object>; ObjectType::COUNT]) -> Self {
        let longest = levels.iter().map(Vec::len).max().unwrap_or(0);
        let mut index = Self {
            owners: std::array::from_fn(|slot| owners(&levels[slot])),
            spans: std::array::from_fn(|_| Vec::new()),
            members: (0..longest as u32).collect(),
        };
        let firsts: [Vec<Option<usize>>; ObjectType::COUNT] = std::array::from_fn(|slot| {
            levels[slot].iter().map(|object| object.cpuset.first()).collect()
        });
        for outer in ObjectType::ALL {
            for (at, object) in levels[outer.slot()].iter().enumerate() {
                let spans = std::array::from_fn(|slot| {
                    let (owners, level) = (&index.owners[slot], &levels[slot]);
                    let inside = match (outer, ObjectType::ALL[slot]) {
                        // Including the nodes that have no CPUs.
                        (ObjectType::Machine, _) => {
                            (0_u32..).zip(level).map(|(at, _)| at).collect()
                        }
                        (kind, inner) if kind == inner => vec![at as u32],
                        _ => inside(&object.cpuset, owners, &firsts[slot], level),
                    };
                    store(&mut index.members, &inside)
                });
                index.spans[outer.slot()].push(spans);
            }
        }
        index
    }

    /// Returns the object of a type that contains `cpu`.
    pub(super) fn owner(&self, kind: ObjectType, cpu: usize) -> Option<usize> {
        let owner = *self.owners[kind.slot()].get(cpu)?;
        (owner != NOBODY).then_some(owner as usize)
    }

    /// Returns logical indices in ascending order; `None` if there is no such outer object.
    pub(super) fn inside(&self, outer: ObjectType, at: usize, inner: ObjectType) -> Option<&[u32]> {
        let span = self.span(outer, at, inner)?;
        let start = span.start as usize;
        self.members.get(start..start + span.length as usize)
    }

    pub(super) fn count_inside(
        &self,
        outer: ObjectType,
        at: usize,
        inner: ObjectType,
    ) -> Option<usize> {
        Some(self.span(outer, at, inner)?.length as usize)
    }

    fn span(&self, outer: ObjectType, at: usize, inner: ObjectType) -> Option<Span> {
        Some(self.spans[outer.slot()].get(at)?[inner.slot()])
    }
}

fn owners(objects: &[Object]) -> Vec<u32> {
    let mut owners = Vec::new();
    for (at, object) in objects.iter().enumerate() {
        for cpu in object.cpuset.iter() {
            if cpu >= owners.len() {
                owners.resize(cpu + 1, NOBODY);
            }
            owners[cpu] = at as u32;
        }
    }
    owners
}

fn inside(outer: &CpuSet, owners: &[u32], firsts: &[Option<usize>], level: &[Object]) -> Vec<u32> {
    let mut inside: Vec<u32> = outer
        .iter()
        .filter_map(|cpu| {
            let owner = *owners.get(cpu).filter(|&&owner| owner != NOBODY)?;
            // An object is taken once, at its first CPU.
            let met = firsts[owner as usize] == Some(cpu);
            (met && level[owner as usize].cpuset.is_subset(outer)).then_some(owner)
        })
        .collect();
    inside.sort_unstable();
    inside
}

fn store(members: &mut Vec<u32>, inside: &[u32]) -> Span {
    let length = inside.len() as u32;
    let run = inside.windows(2).all(|pair| pair[1] == pair[0] + 1);
    match inside.first() {
        None => Span::default(),
        Some(&first) if run => Span { start: first, length },
        Some(_) => {
            let start = members.len() as u32;
            members.extend_from_slice(inside);
            Span { start, length }
        }
    }
}
