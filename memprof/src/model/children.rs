//! Processes that ranks have started or forked: they inherit the rank's variables but are not
//! ranks.

use super::missing_ranks::Who;
use serde::Serialize;
use std::collections::{HashMap, HashSet};

/// Position of a process among those that a rank started, directly or through others.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Child {
    /// The rank.
    pub rank: u32,
    /// For a rank that other ranks started: the number of the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spawned: Option<u32>,
    /// Number from 1, in the order in which the rank's children began.
    pub number: u32,
}

impl std::fmt::Display for Child {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "child {} of rank {}", self.number, self.rank)?;
        match self.spawned {
            Some(start) => write!(out, " of start {start}"),
            None => Ok(()),
        }
    }
}

/// Relation of a process to the rank whose variables it has.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The process is the rank, or no process that called MPI has this rank.
    Itself,
    /// The process has the variables of a rank that is another process, which did not start it: for
    /// example, a shell around the rank.
    Beside,
    /// The process at this index started it, directly or through others, as its child with this
    /// number.
    ChildOf(usize, u32),
    /// The process at this index started it, and neither uses MPI.
    Below(usize),
}

/// Maximum depth of nested forks.
const GENERATIONS: usize = 64;

/// Determines the relation of each process, given with its start time, to the ranks among the
/// processes.
pub fn relations(all: &[(&Who, u64)]) -> Vec<Relation> {
    let ranks: HashSet<_> =
        all.iter().filter(|(who, _)| who.mpi).filter_map(|(who, _)| who.rank.as_ref()).collect();
    let of_mpi: HashSet<_> =
        all.iter().filter(|(who, _)| who.mpi).map(|(who, _)| who.process).collect();
    let mut places: HashMap<([u8; 16], u32), Vec<usize>> = HashMap::new();
    for (place, (who, _)) in all.iter().enumerate() {
        places.entry((who.process.0, who.process.1)).or_default().push(place);
    }
    // Process numbers are reused: the parent is the latest process that had begun.
    let parent = |child: usize| {
        let (who, begun) = all[child];
        let known = places.get(&(who.process.0, who.parent))?.iter().copied();
        let earlier =
            known.filter(|place| all[*place].1 <= begun && all[*place].0.process != who.process);
        earlier.max_by_key(|place| all[*place].1)
    };
    let ancestor = |child: usize| {
        let mut line = std::iter::successors(parent(child), |place| parent(*place));
        line.by_ref().take(GENERATIONS).find(|place| of_mpi.contains(&all[*place].0.process))
    };
    let mut relations = vec![Relation::Itself; all.len()];
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|place| all[*place].1);
    let mut counts: HashMap<_, u32> = HashMap::new();
    let mut numbers: HashMap<_, u32> = HashMap::new();
    for place in order {
        let (who, _) = all[place];
        if of_mpi.contains(&who.process) {
            continue;
        }
        relations[place] = match ancestor(place) {
            Some(root) => {
                let count = counts.entry(all[root].0.process).or_default();
                // All programs of one process are one child.
                let number = *numbers.entry(who.process).or_insert_with(|| {
                    *count += 1;
                    *count
                });
                Relation::ChildOf(root, number)
            }
            None if who.rank.as_ref().is_some_and(|rank| ranks.contains(rank)) => Relation::Beside,
            None if who.rank.is_none() => parent(place).map_or(Relation::Itself, Relation::Below),
            None => Relation::Itself,
        };
    }
    relations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(pid: u32, parent: u32, rank: Option<u32>, mpi: bool) -> Who {
        let rank = rank.map(|rank| ("job".to_owned(), rank));
        Who { process: ([1; 16], pid, 7), parent, image: 0, rank, mpi, all: true }
    }

    fn of(all: &[Who]) -> Vec<Relation> {
        let timed: Vec<_> = all.iter().zip(0..).collect();
        relations(&timed)
    }

    #[test]
    fn descendants_of_a_rank_are_its_children_in_order() {
        let all = [
            who(10, 1, Some(0), true),
            who(11, 10, Some(0), false),
            who(12, 11, Some(0), false),
            who(20, 1, Some(1), true),
            who(21, 20, None, false),
        ];
        let expected = [
            Relation::Itself,
            Relation::ChildOf(0, 1),
            Relation::ChildOf(0, 2),
            Relation::Itself,
            Relation::ChildOf(3, 1),
        ];
        assert_eq!(of(&all), expected);
    }

    #[test]
    fn parent_is_the_process_that_began_before_the_child() {
        let mut later = who(10, 1, Some(1), true);
        later.process.2 += 1;
        let all = [who(10, 1, Some(0), true), who(11, 10, Some(0), false), later];
        assert_eq!(of(&all)[1], Relation::ChildOf(0, 1));
    }

    #[test]
    fn shell_around_a_rank_is_neither_rank_nor_child() {
        let all = [who(9, 1, Some(0), false), who(10, 9, Some(0), true)];
        assert_eq!(of(&all), [Relation::Beside, Relation::Itself]);
    }

    #[test]
    fn processes_without_mpi_stay_themselves() {
        let all = [who(9, 1, Some(0), false), who(10, 9, Some(0), false), who(11, 1, None, false)];
        assert_eq!(of(&all), [Relation::Itself; 3]);
    }

    #[test]
    fn processes_without_mpi_are_below_their_parents() {
        let all = [who(9, 1, None, false), who(10, 9, None, false), who(11, 10, None, false)];
        assert_eq!(of(&all), [Relation::Itself, Relation::Below(0), Relation::Below(1)]);
    }

    #[test]
    fn programs_of_one_child_share_its_number() {
        let next = Who { image: 1, ..who(11, 10, Some(0), false) };
        let all = [who(10, 1, Some(0), true), who(11, 10, Some(0), false), next];
        assert_eq!(of(&all)[1..], [Relation::ChildOf(0, 1), Relation::ChildOf(0, 1)]);
    }

    #[test]
    fn reused_process_number_names_the_latest_parent() {
        let mut old = who(10, 1, Some(0), true);
        old.process.2 = 1;
        let all = [old, who(10, 1, Some(1), true), who(11, 10, None, false)];
        assert_eq!(of(&all)[2], Relation::ChildOf(1, 1));
    }

    #[test]
    fn forged_circle_of_parents_ends() {
        let all = [who(10, 11, Some(0), false), who(11, 10, Some(0), false)];
        assert_eq!(of(&all), [Relation::Itself; 2]);
    }
}
