//! The jobs of a folder: a script may have started several, one after the other or at once. Their ranks
//! have the same numbers and are not those of one job.

use super::absent::Who;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};

/// One job among those of a folder: what one `mpirun` started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JobPart {
    /// From 1 on, in the order in which they began.
    pub number: u32,
    /// What the launcher or scheduler called it, empty where it did not.
    pub name: String,
    /// How many of its ranks left a trace.
    pub ranks: u32,
    /// Ranks that should be there, by the size the others were told, and are not.
    pub missing: Vec<u32>,
}

/// The number of the job each process is of; nothing for those that have no rank.
///
/// Jobs have different names. Where a scheduler's name stays the same from one to the next, or there is
/// none, a rank that comes again is the next job's.
pub fn numbers(all: &[(&Who, u64)]) -> Vec<Option<u32>> {
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|at| all[*at].1);
    // Of each name: how often each rank has come, and the programs that one process became.
    let mut times: HashMap<(&str, u32), usize> = HashMap::new();
    let mut seen: HashMap<_, usize> = HashMap::new();
    let mut keys: Vec<Option<(&str, usize)>> = vec![None; all.len()];
    let mut latest: HashMap<&str, usize> = HashMap::new();
    for &at in &order {
        let (who, _) = all[at];
        let Some((name, rank)) = &who.rank else { continue };
        let name = name.as_str();
        let time = match (who.mpi, seen.get(&who.process)) {
            (_, Some(time)) => *time,
            (true, None) => {
                let next = times.entry((name, *rank)).or_default();
                *next += 1;
                *next - 1
            }
            // It never came to MPI, as a tool that a rank has started: it is with the ranks before it.
            (false, None) => latest.get(name).copied().unwrap_or(0),
        };
        if who.mpi {
            seen.insert(who.process, time);
            let latest = latest.entry(name).or_default();
            *latest = time.max(*latest);
        }
        keys[at] = Some((name, time));
    }
    let mut known: HashMap<(&str, usize), u32> = HashMap::new();
    for key in order.iter().filter_map(|at| keys[*at]) {
        let next = known.len() as u32 + 1;
        known.entry(key).or_insert(next);
    }
    keys.into_iter().map(|key| key.and_then(|key| known.get(&key).copied())).collect()
}

/// What is known of each job: its number, name, ranks, and those that are not there.
pub fn parts<'a>(ranks: impl Iterator<Item = (Option<u32>, &'a super::Identity)>) -> Vec<JobPart> {
    /// No job is larger; a hostile size must not make a list of four thousand million ranks.
    const LARGEST: u32 = 1 << 20;
    let mut jobs: BTreeMap<u32, (JobPart, u32, HashSet<u32>)> = BTreeMap::new();
    for (number, identity) in ranks {
        let (Some(number), Some(rank)) = (number, identity.rank) else { continue };
        let (part, size, known) = jobs.entry(number).or_default();
        part.number = number;
        part.name = identity.job.to_string();
        part.ranks += 1;
        *size = identity.size.unwrap_or(0).max(*size);
        known.insert(rank);
    }
    let whole = |(mut part, size, known): (JobPart, u32, HashSet<u32>)| {
        part.missing = (0..size.min(LARGEST)).filter(|rank| !known.contains(rank)).collect();
        part
    };
    jobs.into_values().map(whole).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Identity;

    fn who(name: &str, pid: u32, rank: Option<u32>, mpi: bool) -> Who {
        let rank = rank.map(|rank| (name.to_owned(), rank));
        Who { process: ([1; 16], pid, 7), image: 0, rank, mpi, all: false }
    }

    fn of(all: &[(Who, u64)]) -> Vec<Option<u32>> {
        numbers(&all.iter().map(|(who, begin)| (who, *begin)).collect::<Vec<_>>())
    }

    #[test]
    fn jobs_of_different_names_are_numbered_as_they_began() {
        let all = [
            (who("late", 1, Some(0), true), 50),
            (who("early", 2, Some(0), true), 10),
            (who("early", 3, Some(1), true), 60),
            (who("", 4, None, false), 5),
        ];
        assert_eq!(of(&all), [Some(2), Some(1), Some(1), None]);
    }

    #[test]
    fn a_rank_that_comes_again_under_the_same_name_is_of_the_next_job() {
        let all = [
            (who("7", 1, Some(0), true), 10),
            (who("7", 2, Some(1), true), 11),
            // A tool that rank 0 started, and the same rank after it became another program.
            (who("7", 3, Some(0), false), 12),
            (Who { image: 1, ..who("7", 1, Some(0), true) }, 13),
            (who("7", 4, Some(1), true), 20),
            (who("7", 5, Some(0), true), 21),
        ];
        let expected = [1, 1, 1, 1, 2, 2].map(Some);
        assert_eq!(of(&all), expected);
    }

    #[test]
    fn missing_ranks_are_those_of_their_own_job() {
        let identity =
            |rank, size| Identity { rank: Some(rank), size: Some(size), ..Identity::default() };
        let all = [(1, identity(0, 2)), (2, identity(1, 3)), (1, identity(1, 2))];
        let parts = parts(all.iter().map(|(job, identity)| (Some(*job), identity)));
        let seen: Vec<_> = parts.iter().map(|part| (part.ranks, &part.missing[..])).collect();
        assert_eq!(seen, [(2, &[][..]), (1, &[0, 2])]);
    }
}
