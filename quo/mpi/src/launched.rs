//! Processes of this host that were started by the same launcher, so that the death of a rank is
//! noticed before the rank has sent a message.
//!
//! Launchers give each process its rank in the environment, and all ranks of a host are children of
//! one process of the launcher. An uncertain finding does not count as a death: the caller keeps
//! waiting.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use quo::group::GroupError;
use quo_launch::job::RANKS;

use crate::group::world_size;
use crate::{is_usable, world_rank};

/// Shortest interval between two checks of the processes.
const LOOK: Duration = Duration::from_millis(100);

/// The interval is at least this many times as long as the last check took: where many ranks share
/// a core, their checks must not take it from the ranks that are waited for.
const CHECKS_IN_INTERVAL: u32 = 20;

/// Longest interval between two checks.
const LONGEST_INTERVAL: Duration = Duration::from_secs(3);

/// Time for which a rank must be missing before it counts as ended: launchers start the ranks of a
/// host one after another.
const LONGEST_START: Duration = Duration::from_millis(500);

/// Variables that are equal for two processes of one job.
const JOB: [&str; 5] =
    ["PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID", "PMI_JOBID", "PALS_APID"];

/// Variables in which launchers pass the number of ranks on this host, and the number of a rank
/// among them.
const LOCAL: [(&str, &str); 4] = [
    ("OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("MPI_LOCALNRANKS", "MPI_LOCALRANKID"),
    ("MV2_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"),
    ("PALS_LOCAL_SIZE", "PALS_LOCAL_RANKID"),
];

/// Launched processes behind the ranks of a communicator, on this host.
#[derive(Debug)]
pub struct LaunchedPeers {
    /// Rank in the communicator of each member rank of `MPI_COMM_WORLD`.
    ranks: BTreeMap<usize, usize>,
    /// Rank of this process in `MPI_COMM_WORLD`, and the number of ranks there.
    own: (usize, usize),
    /// Time before which no process is checked: most calls end before.
    first: Instant,
}

/// Findings about the ranks of `MPI_COMM_WORLD`, which all communicators of this process share.
static STATE: Mutex<State> =
    Mutex::new(State { next: None, seen: None, missing_since: None, ended: Vec::new() });

#[derive(Debug)]
struct State {
    next: Option<Instant>,
    seen: Option<Seen>,
    missing_since: Option<Instant>,
    /// Ranks that had ended at the last check.
    ended: Vec<usize>,
}

/// A process, uniquely identified on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    number: i32,
    began: u64,
}

/// Ranks of `MPI_COMM_WORLD` on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    processes: BTreeMap<usize, Process>,
    missing: Vec<usize>,
}

impl LaunchedPeers {
    /// Creates the peers from their ranks in `MPI_COMM_WORLD`, which are negative for processes
    /// outside it. Local; no process is searched for yet.
    ///
    /// # Errors
    /// [`GroupError::Mpi`].
    pub(crate) fn new(world: impl IntoIterator<Item = c_int>) -> Result<Self, GroupError> {
        let ranks = world.into_iter().enumerate();
        let ranks = ranks.filter_map(|(rank, world)| Some((usize::try_from(world).ok()?, rank)));
        let own = usize::try_from(world_rank()?).unwrap_or(usize::MAX);
        let own = (own, world_size().unwrap_or(0));
        Ok(Self { ranks: ranks.collect(), own, first: Instant::now() + LONGEST_START })
    }

    /// Creates the peers of `MPI_COMM_WORLD`. Local; no process is searched for yet.
    ///
    /// # Errors
    /// As [`is_usable`](crate::is_usable); [`GroupError::Mpi`].
    pub fn of_world() -> Result<Self, GroupError> {
        is_usable()?;
        Self::new(0..c_int::try_from(world_size().unwrap_or(0)).unwrap_or(0))
    }

    /// Fails if a rank has ended whose process is, or was to be, on this host. Checks the processes
    /// at most a few times a second. Local.
    ///
    /// # Errors
    /// [`GroupError::Dead`] with the ranks in the communicator.
    pub fn check_liveness(&self, call: &'static str) -> Result<(), GroupError> {
        let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if self.first <= now && state.next.is_none_or(|next| next <= now) {
            state.look(self.own, now);
            let ended = Instant::now();
            let interval = ended.duration_since(now).saturating_mul(CHECKS_IN_INTERVAL);
            state.next = Some(ended + interval.clamp(LOOK, LONGEST_INTERVAL));
        }
        let mut ranks: Vec<usize> =
            state.ended.iter().filter_map(|world| self.ranks.get(world).copied()).collect();
        ranks.sort_unstable();
        if ranks.is_empty() { Ok(()) } else { Err(GroupError::Dead { call, ranks }) }
    }
}

impl State {
    /// Checks the processes of the ranks. `own` is as in [`LaunchedPeers`].
    fn look(&mut self, own: (usize, usize), now: Instant) {
        let is_unsure = self.seen.as_ref().is_none_or(|seen| !seen.missing.is_empty());
        if is_unsure {
            let before = self.seen.take().unwrap_or_default();
            let mut seen = find(own).unwrap_or_default();
            // The first process found for a rank is the rank: processes that it leaves behind are
            // not.
            seen.processes.extend(before.processes);
            seen.missing.retain(|rank| !seen.processes.contains_key(rank));
            self.seen = Some(seen);
        }
        let Some(seen) = &self.seen else { return };
        let ended = seen.processes.iter().filter(|(_, it)| has_ended(**it)).map(|(rank, _)| *rank);
        self.ended = ended.collect();
        let is_missing = !seen.missing.is_empty();
        self.missing_since = is_missing.then(|| self.missing_since.unwrap_or(now));
        // If one rank has ended, others may have ended because of the one that is missing.
        let is_over =
            self.missing_since.is_some_and(|since| now.duration_since(since) >= LONGEST_START);
        if is_over || !self.ended.is_empty() {
            self.ended.extend(&seen.missing);
        }
    }
}

/// Finds the processes of the ranks; `None` if the launcher does not provide enough information.
fn find((rank, world): (usize, usize)) -> Option<Seen> {
    let own = Environment::of("self")?;
    let told = rank.to_string();
    let name = *RANKS.iter().find(|name| own.get(name) == Some(&*told))?;
    let root = root(&own, name)?;
    let mut seen = Seen::default();
    let mut places: BTreeMap<usize, usize> = BTreeMap::new();
    let mut elsewhere = Vec::new();
    let (mut twice, mut is_unsure) = (Vec::new(), false);
    let (size, place) = LOCAL.iter().find(|(size, _)| own.get(size).is_some())?;
    for number in numbers() {
        let Some((state, parent, began)) = stat(number) else { continue };
        if matches!(state, 'Z' | 'X' | 'x') {
            continue;
        }
        let environment = Environment::of(&number.to_string());
        let of_job = environment.as_ref().filter(|it| it.is_of_job(&own));
        let rank = of_job.and_then(|it| it.number(name));
        if parent != root {
            elsewhere.extend(rank);
            continue;
        }
        // A process may have overwritten its environment, or belong to another user.
        is_unsure |= environment.as_ref().is_none_or(|it| !it.shares_an_entry(&own));
        let (Some(rank), Some(place)) = (rank, of_job.and_then(|it| it.number(place))) else {
            continue;
        };
        if seen.processes.insert(rank, Process { number, began }).is_some() {
            twice.push(rank);
        }
        places.insert(place, rank);
    }
    if is_unsure || !twice.is_empty() || !seen.processes.contains_key(&rank) {
        // The known ones can still be watched.
        seen.processes.retain(|rank, _| !twice.contains(rank));
        return Some(seen);
    }
    seen.missing = missing(own.number(size)?, world, &places);
    seen.missing.retain(|rank| !elsewhere.contains(rank));
    Some(seen)
}

/// Returns the ranks of the world that are missing among those of this host, given the rank at each
/// local place. Only certain ranks: launchers number the ranks of a host in order.
fn missing(size: usize, world: usize, places: &BTreeMap<usize, usize>) -> Vec<usize> {
    let bounds = [(size, world)];
    let mut missing = Vec::new();
    // The first place and rank that may be missing next.
    let (mut place, mut rank) = (0, 0);
    for (&next_place, &next_rank) in places.iter().chain(bounds.iter().map(|(a, b)| (a, b))) {
        if next_place.checked_sub(place) == next_rank.checked_sub(rank) {
            missing.extend(rank..next_rank);
        }
        (place, rank) = (next_place + 1, next_rank + 1);
    }
    missing
}

/// Returns the process whose children are the ranks of this host: the first ancestor of this
/// process that does not belong to the rank itself.
fn root(own: &Environment, name: &str) -> Option<i32> {
    let mut number = std::process::id().cast_signed();
    loop {
        let (_, parent, _) = stat(number)?;
        if parent <= 0 {
            // The launcher is outside the namespace that this process can see.
            return None;
        }
        let above = Environment::of(&parent.to_string());
        let is_own = |it: &Environment| it.is_of_job(own) && it.get(name) == own.get(name);
        if !above.as_ref().is_some_and(is_own) {
            return Some(parent);
        }
        number = parent;
    }
}

/// Variables with which a process was started.
struct Environment(Vec<u8>);

impl Environment {
    fn of(process: &str) -> Option<Self> {
        let bytes = fs::read(format!("/proc/{process}/environ")).ok()?;
        (!bytes.is_empty()).then_some(Self(bytes))
    }

    fn entries(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|&byte| byte == 0).filter(|entry| !entry.is_empty())
    }

    fn get(&self, name: &str) -> Option<&str> {
        let mut entries = self.entries();
        let value =
            entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        std::str::from_utf8(value?).ok()
    }

    fn number(&self, name: &str) -> Option<usize> {
        self.get(name)?.trim().parse().ok()
    }

    fn is_of_job(&self, own: &Self) -> bool {
        JOB.iter().all(|name| self.get(name) == own.get(name))
    }

    fn shares_an_entry(&self, own: &Self) -> bool {
        let all: std::collections::HashSet<&[u8]> = own.entries().collect();
        self.entries().any(|entry| entry.contains(&b'=') && all.contains(entry))
    }
}

fn numbers() -> impl Iterator<Item = i32> {
    let folders = fs::read_dir("/proc").into_iter().flatten().flatten();
    folders.filter_map(|folder| folder.file_name().to_str()?.parse().ok())
}

/// Returns state, parent and start time of a process.
fn stat(number: i32) -> Option<(char, i32, u64)> {
    parse_stat(&fs::read_to_string(format!("/proc/{number}/stat")).ok()?)
}

/// The name, in parentheses, may contain anything.
fn parse_stat(text: &str) -> Option<(char, i32, u64)> {
    let mut words = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = words.next()?.chars().next()?;
    let parent = words.next()?.parse().ok()?;
    Some((state, parent, words.nth(17)?.parse().ok()?))
}

/// Returns true if a process that was seen has ended.
fn has_ended(process: Process) -> bool {
    match fs::read_to_string(format!("/proc/{}/stat", process.number)) {
        Ok(text) => parse_stat(&text).is_some_and(|(state, _, began)| {
            began != process.began || matches!(state, 'Z' | 'X' | 'x')
        }),
        Err(error) => {
            error.kind() == std::io::ErrorKind::NotFound
                || error.raw_os_error() == Some(NO_SUCH_PROCESS)
        }
    }
}

/// `ESRCH`: the process ended between the opening and the reading of its file.
const NO_SUCH_PROCESS: i32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_ranks_are_named_where_their_number_is_certain() {
        let places = |places: &[(usize, usize)]| places.iter().copied().collect();
        // One host.
        assert_eq!(missing(4, 4, &places(&[(0, 0), (1, 1), (3, 3)])), [2]);
        assert_eq!(missing(4, 4, &places(&[(1, 1)])), [0, 2, 3]);
        assert_eq!(missing(2, 2, &places(&[(0, 0), (1, 1)])), [0; 0]);
        // The second of two hosts, filled one after the other.
        assert_eq!(missing(4, 8, &places(&[(0, 4), (2, 6), (3, 7)])), [5]);
        assert_eq!(missing(4, 8, &places(&[(0, 4), (1, 5), (2, 6)])), [7]);
        // Distributed round robin: rank 3 is missing, and 2 and 4 could be.
        assert_eq!(missing(4, 8, &places(&[(0, 1), (2, 5), (3, 7)])), [0; 0]);
    }

    #[test]
    fn variable_is_found_by_its_whole_name() {
        let environment = Environment(b"PMI_RANKS=9\0PMI_RANK=3\0PATH=/bin\0".to_vec());
        assert_eq!(environment.number("PMI_RANK"), Some(3));
        assert_eq!(environment.get("PMI"), None);
        assert!(environment.shares_an_entry(&Environment(b"PATH=/bin\0A=b\0".to_vec())));
        assert!(!environment.shares_an_entry(&Environment(b"PATH=/sbin\0title\0".to_vec())));
    }

    #[test]
    fn process_lives_and_one_of_another_start_does_not() {
        let number = std::process::id().cast_signed();
        let (state, parent, began) = stat(number).unwrap();
        assert!(state != 'Z' && parent >= 0);
        assert!(!has_ended(Process { number, began }));
        assert!(has_ended(Process { number, began: began + 1 }));
    }
}
