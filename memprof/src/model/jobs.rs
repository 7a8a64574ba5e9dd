//! The jobs of a folder: a script may have started several, one after another or at once. Their
//! ranks have the same numbers but belong to different jobs.

use super::missing_ranks::Who;
use memprof_trace::SPAWNED;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};

/// One job among those of a folder: the processes of one `mpirun`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JobPart {
    /// Number from 1, in the order in which the jobs began.
    pub number: u32,
    /// Name given by the launcher or scheduler, empty if there is none.
    pub name: String,
    /// Number of its ranks with a trace.
    pub ranks: u32,
    /// Ranks that are missing, according to the size that the other ranks got.
    pub missing: Vec<u32>,
}

/// Job and start of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobMembership {
    /// Number of the job.
    pub job: u32,
    /// Number of the start in the job; `None` for launched ranks.
    pub start: Option<u32>,
}

/// Returns the name of a job, and whether another rank started the rank with this name.
pub fn name(text: &str) -> (&str, bool) {
    text.strip_suffix(SPAWNED).map_or((text, false), |name| (name, true))
}

/// Returns the common part of the names of all processes of one launcher. Open MPI 4 counts in the lower half of a
/// number, Open MPI 5 behind the name of its launcher; elsewhere starts have the name of the job.
fn launch(name: &str) -> Launch<'_> {
    if let Ok(number) = name.parse::<u32>() {
        return Launch::Number(number >> 16);
    }
    Launch::Name(name.rsplit_once('@').map_or(name, |(launcher, _)| launcher))
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Launch<'a> {
    Number(u32),
    Name(&'a str),
}

/// Returns the job of each process; `None` for processes without a rank.
///
/// Jobs have different names. If a scheduler's name is the same for several jobs, or there is no
/// name, a rank that occurs again belongs to the next job. Ranks that other ranks started belong to
/// the job of those ranks.
pub fn numbers(all: &[(&Who, u64)]) -> Vec<Option<JobMembership>> {
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|at| all[*at].1);
    // For each name: how often each rank has occurred, and the programs that one process became.
    let mut times: HashMap<(&str, u32), usize> = HashMap::new();
    let mut seen: HashMap<_, usize> = HashMap::new();
    let mut latest: HashMap<&str, usize> = HashMap::new();
    // The latest job of each launch, by the key that its ranks have.
    let mut launched: HashMap<Launch<'_>, (&str, usize)> = HashMap::new();
    let mut known: HashMap<(&str, usize), u32> = HashMap::new();
    // The starts of a job, by name, and time of their ranks.
    let mut starts: HashMap<u32, HashMap<(&str, usize), u32>> = HashMap::new();
    let mut belongs = vec![None; all.len()];
    for &at in &order {
        let (who, _) = all[at];
        let Some((text, rank)) = &who.rank else { continue };
        let text = text.as_str();
        let time = match (who.mpi, seen.get(&who.process)) {
            (_, Some(time)) => *time,
            (true, None) => {
                let next = times.entry((text, *rank)).or_default();
                *next += 1;
                *next - 1
            }
            // The process never called MPI, like a tool that a rank started: it belongs to the
            // ranks before it.
            (false, None) => latest.get(text).copied().unwrap_or(0),
        };
        if who.mpi {
            seen.insert(who.process, time);
            let latest = latest.entry(text).or_default();
            *latest = time.max(*latest);
        }
        let (name, is_spawned) = name(text);
        let key = if is_spawned {
            let same = launched.get(&Launch::Name(name)).or_else(|| launched.get(&launch(name)));
            // If the ranks that started it left no trace, it is a separate job.
            same.copied().unwrap_or((text, time))
        } else {
            launched.extend([Launch::Name(name), launch(name)].map(|of| (of, (text, time))));
            (text, time)
        };
        let next = known.len() as u32 + 1;
        let job = *known.entry(key).or_insert(next);
        let start = is_spawned.then(|| {
            let starts = starts.entry(job).or_default();
            let next = starts.len() as u32 + 1;
            *starts.entry((text, time)).or_insert(next)
        });
        belongs[at] = Some(JobMembership { job, start });
    }
    belongs
}

/// Returns the facts of each job: its number, name, ranks, and missing ranks.
pub fn parts<'a>(ranks: impl Iterator<Item = (Option<u32>, &'a super::Identity)>) -> Vec<JobPart> {
    /// Upper bound of the ranks of all jobs of a folder, so that forged sizes cannot create lists
    /// of four billion ranks.
    const LARGEST: usize = 1 << 20;
    let mut jobs: BTreeMap<u32, (JobPart, u32, HashSet<u32>)> = BTreeMap::new();
    for (number, identity) in ranks {
        let (Some(number), Some(rank)) = (number, identity.rank) else { continue };
        let (part, size, known) = jobs.entry(number).or_default();
        part.number = number;
        part.ranks += 1;
        // Ranks that were started later count from 0 again. The ranks of a failed start are not
        // missing.
        if identity.spawned.is_none() || part.name.is_empty() {
            part.name = identity.job.to_string();
        }
        if identity.spawned.is_none() {
            *size = identity.size.unwrap_or(0).max(*size);
            known.insert(rank);
        }
    }
    let mut left = LARGEST;
    let whole = |(mut part, size, known): (JobPart, u32, HashSet<u32>)| {
        part.missing = (0..size).filter(|rank| !known.contains(rank)).take(left).collect();
        left -= part.missing.len();
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
        Who { process: ([1; 16], pid, 7), parent: 1, image: 0, rank, mpi, all: false }
    }

    fn belongs(all: &[(Who, u64)]) -> Vec<Option<JobMembership>> {
        numbers(&all.iter().map(|(who, begin)| (who, *begin)).collect::<Vec<_>>())
    }

    fn of(all: &[(Who, u64)]) -> Vec<Option<u32>> {
        belongs(all).into_iter().map(|of| of.map(|of| of.job)).collect()
    }

    #[test]
    fn spawned_ranks_are_of_their_parents_job() {
        // A launcher's number counts in its lower half; its name is followed by the count; or there
        // is no name.
        for names in [
            ["65537", "65538+spawned", "65539+spawned", "131073"],
            [
                "prterun-vm-9@1",
                "prterun-vm-9@2+spawned",
                "prterun-vm-9@3+spawned",
                "prterun-vm-8@1",
            ],
            ["", "+spawned", "+spawned", ""],
        ] {
            let all = [
                (who(names[0], 1, Some(0), true), 10),
                (who(names[0], 2, Some(1), true), 11),
                (who(names[1], 3, Some(0), true), 20),
                (who(names[1], 4, Some(1), true), 21),
                (who(names[2], 5, Some(0), true), 30),
                (who(names[3], 6, Some(0), true), 40),
            ];
            let seen: Vec<(u32, Option<u32>)> =
                belongs(&all).into_iter().flatten().map(|of| (of.job, of.start)).collect();
            let starts = [None, None, Some(1), Some(1), Some(2), None];
            let expected: Vec<_> = [1, 1, 1, 1, 1, 2].into_iter().zip(starts).collect();
            assert_eq!(seen, expected, "{names:?}");
        }
    }

    #[test]
    fn jobs_of_a_scheduler_with_neighbouring_numbers_are_several() {
        let all = [(who("4711", 1, Some(0), true), 10), (who("4712", 2, Some(0), true), 20)];
        assert_eq!(of(&all), [Some(1), Some(2)]);
        // MPICH's launcher has no name for its jobs, so the scheduler's is used.
        let mut all = all.to_vec();
        all.push((who("4711+spawned", 3, Some(0), true), 30));
        assert_eq!(of(&all), [Some(1), Some(2), Some(1)]);
        // The processes that started it left no trace.
        let alone = [(who("4711+spawned", 1, Some(0), true), 10)];
        assert_eq!(belongs(&alone), [Some(JobMembership { job: 1, start: Some(1) })]);
    }

    #[test]
    fn started_process_does_not_replace_a_missing_rank() {
        let rank = |rank, size, spawned| Identity {
            rank: Some(rank),
            size: Some(size),
            spawned,
            job: "a".into(),
            ..Identity::default()
        };
        let all = [rank(0, 2, None), rank(1, 3, Some(1)), rank(2, 3, Some(1))];
        let parts = parts(all.iter().map(|identity| (Some(1), identity)));
        assert_eq!((parts.len(), parts[0].ranks, &parts[0].missing[..]), (1, 3, &[1][..]));
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
    fn rank_that_comes_again_is_of_the_next_job() {
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
    fn forged_sizes_of_many_jobs_make_no_long_lists() {
        let forged = Identity { rank: Some(0), size: Some(u32::MAX), ..Identity::default() };
        let parts = parts((1..=50).map(|job| (Some(job), &forged)));
        let missing = |part: &JobPart| part.missing.len();
        assert_eq!((parts.len(), missing(&parts[0]), missing(&parts[1])), (50, 1 << 20, 0));
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
