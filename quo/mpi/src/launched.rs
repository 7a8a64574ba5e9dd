//! Processes of this host that the launcher of this one started, so that the end of a rank is noticed before the rank has
//! sent a message.
//!
//! Launchers tell each process its rank in the environment, and all ranks of a host are children of one process of the
//! launcher. What is not certain is not taken for an end: the caller waits on.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use quo::group::GroupError;
use quo_launch::job::RANKS;

use crate::group::world_size;
use crate::{is_usable, world_rank};

/// Time between two looks at the processes.
const LOOK: Duration = Duration::from_millis(100);

/// Time that a rank must be missing before it has ended: launchers start the ranks of a host one after another.
const LONGEST_START: Duration = Duration::from_millis(500);

/// Variables that two processes of one job have alike.
const JOB: [&str; 5] =
    ["PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID", "PMI_JOBID", "PALS_APID"];

/// Variables by which launchers tell the number of ranks on this host, and the number of a rank among these.
const LOCAL: [(&str, &str); 4] = [
    ("OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("MPI_LOCALNRANKS", "MPI_LOCALRANKID"),
    ("MV2_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"),
    ("PALS_LOCAL_SIZE", "PALS_LOCAL_RANKID"),
];

/// The launched processes behind the ranks of a communicator, as far as this host knows them.
#[derive(Debug)]
pub struct LaunchedPeers {
    /// The rank in the communicator of each rank of `MPI_COMM_WORLD` that is in it.
    ranks: BTreeMap<usize, usize>,
    /// The rank of this process in `MPI_COMM_WORLD`, and the number of ranks there.
    own: (usize, usize),
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    next: Instant,
    seen: Option<Seen>,
    missing_since: Option<Instant>,
}

/// A process, which no other process of this host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    number: i32,
    began: u64,
}

/// The ranks of `MPI_COMM_WORLD` on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    processes: BTreeMap<usize, Process>,
    missing: Vec<usize>,
}

impl LaunchedPeers {
    /// The launched processes behind the ranks of a communicator, by their ranks in `MPI_COMM_WORLD`, which are below zero
    /// for others. Local; none is looked for yet.
    ///
    /// # Errors
    /// [`GroupError::Mpi`].
    pub(crate) fn new(world: impl IntoIterator<Item = c_int>) -> Result<Self, GroupError> {
        let ranks = world.into_iter().enumerate();
        let ranks = ranks.filter_map(|(rank, world)| Some((usize::try_from(world).ok()?, rank)));
        let state = State { next: Instant::now() + LOOK, seen: None, missing_since: None };
        let own = usize::try_from(world_rank()?).unwrap_or(usize::MAX);
        let own = (own, world_size().unwrap_or(0));
        Ok(Self { ranks: ranks.collect(), own, state: Mutex::new(state) })
    }

    /// The launched processes of `MPI_COMM_WORLD`. Local; none is looked for yet.
    ///
    /// # Errors
    /// As [`is_usable`](crate::is_usable); [`GroupError::Mpi`].
    pub fn of_world() -> Result<Self, GroupError> {
        is_usable()?;
        Self::new(0..c_int::try_from(world_size().unwrap_or(0)).unwrap_or(0))
    }

    /// Fails when a rank has ended whose process is, or was to be, on this host. Looks at the processes a few times a
    /// second at most. Local.
    ///
    /// # Errors
    /// [`GroupError::Dead`] with the ranks in the communicator.
    pub fn look(&self, call: &'static str) -> Result<(), GroupError> {
        let now = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if now < state.next {
            return Ok(());
        }
        state.next = now + LOOK;
        let is_unsure = state.seen.as_ref().is_none_or(|seen| !seen.missing.is_empty());
        if is_unsure {
            let before = state.seen.take().unwrap_or_default();
            let mut seen = find(self.own).unwrap_or_default();
            // The first process of a rank is the one: what it leaves behind is no rank.
            seen.processes.extend(before.processes);
            seen.missing.retain(|rank| !seen.processes.contains_key(rank));
            state.seen = Some(seen);
        }
        let Some(seen) = &state.seen else { return Ok(()) };
        let mut ended: Vec<usize> = seen
            .processes
            .iter()
            .filter(|(_, it)| has_ended(**it))
            .map(|(rank, _)| *rank)
            .collect();
        let missing = seen.missing.clone();
        let since = (!missing.is_empty()).then(|| state.missing_since.unwrap_or(now));
        state.missing_since = since;
        // Where one has ended, others may have ended because of the one that is missing.
        let is_over = since.is_some_and(|since| now.duration_since(since) >= LONGEST_START);
        if is_over || !ended.is_empty() {
            ended.extend(missing);
        }
        let mut ranks: Vec<usize> =
            ended.iter().filter_map(|world| self.ranks.get(world).copied()).collect();
        ranks.sort_unstable();
        if ranks.is_empty() { Ok(()) } else { Err(GroupError::Dead { call, ranks }) }
    }
}

/// Finds the processes of the ranks; none where the launcher does not tell enough.
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
        // A process may have written over its environment, or belong to somebody else.
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
        // Those that are known can be watched all the same.
        seen.processes.retain(|rank, _| !twice.contains(rank));
        return Some(seen);
    }
    seen.missing = missing(own.number(size)?, world, &places);
    seen.missing.retain(|rank| !elsewhere.contains(rank));
    Some(seen)
}

/// The ranks of the world that are missing among those of this host: `places` has the rank at each place. Only ranks that
/// are certain: launchers number the ranks of a host in their order.
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

/// The process whose children the ranks of this host are: the first above this process that is none of the rank's own.
fn root(own: &Environment, name: &str) -> Option<i32> {
    let mut number = std::process::id().cast_signed();
    loop {
        let (_, parent, _) = stat(number)?;
        if parent <= 0 {
            // The launcher is outside of what this process can see.
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

/// The variables that a process began with.
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

/// State, parent and start of a process.
fn stat(number: i32) -> Option<(char, i32, u64)> {
    parse_stat(&fs::read_to_string(format!("/proc/{number}/stat")).ok()?)
}

/// The name, in brackets, may have anything in it.
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

/// `ESRCH`: the process ended between the opening of its file and the reading.
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
        // Dealt in turns: rank 3 is missing, and 2 and 4 could be.
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
