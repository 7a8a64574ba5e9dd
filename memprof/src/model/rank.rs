//! One process.

use super::{Child, GpuMemory, Group, HandleCount, Moment, ProcessKey, Slack, Span, Touches};
use serde::{Serialize, Serializer};
use std::path::PathBuf;
use std::sync::Arc;

/// One process of the job: its summary. The timeline stays in the file until it is requested.
#[derive(Clone, Debug, Serialize)]
pub struct Rank {
    /// Its trace.
    #[serde(serialize_with = "crate::output::path")]
    pub file: PathBuf,
    /// Its identity.
    pub identity: Identity,
    /// Number of its job among those of the folder; `None` for a process that is not a rank.
    pub job: Option<u32>,
    /// Whether and how it ended.
    pub state: State,
    /// True if it ended while others of its node continued: the present memory does not include it.
    pub left: bool,
    /// Start time relative to the start of the job, in nanoseconds.
    pub offset_ns: u64,
    /// Time from its start to its last known moment, in nanoseconds.
    pub duration_ns: u64,
    /// Components that ever held memory, sorted by group, then by resident peak.
    pub held: Vec<Held>,
    /// Sums at the last sample; all 0, and `null` in JSON, if there is no sample.
    #[serde(serialize_with = "totals_or_null")]
    pub totals: Totals,
    /// Moment of the peak; `bytes` is resident with huge pages and page tables. `null` in JSON if
    /// there is no sample.
    #[serde(serialize_with = "Moment::or_null")]
    pub peak: Moment,
    /// Highest resident bytes as the kernel counted them (VmHWM), without huge TLB pages and page
    /// tables; 0, and `null` in JSON, where the trace does not contain it.
    #[serde(serialize_with = "bytes_or_null")]
    pub kernel_peak: u64,
    /// Part of `kernel_peak` above the peak of all samples, where it is more than a twentieth:
    /// memory that was present too briefly to be sampled, and that no component has.
    pub unseen: u64,
    /// Part of `kernel_peak` above the same memory at the peak of all samples, where it is more than
    /// a hundredth and 512 KiB, which the kernel's own count may be off, or than a twentieth.
    pub missed: u64,
    /// Bytes of private pages at the last sample beyond its share of them: a fork has left them to
    /// other processes, too.
    pub beyond_share: u64,
    /// Phases in the order of the trace.
    pub phases: Vec<RankPhase>,
    /// Periods in which phases were open, in nanoseconds since the process started, as far back as
    /// the trace has them.
    pub open: Vec<Span>,
    /// Largest total in each bin of the job's axis.
    pub heat: Vec<u64>,
    /// Statistics of the sampler.
    pub sampler: Sampler,
    /// Rows that found no room; empty except in the largest processes.
    pub lost: Vec<Lost>,
    /// MPI objects by kind; kinds of which none was made are not listed.
    pub handles: Vec<HandleCount>,
    /// Memory requested from the runtimes of GPUs, of the process and of its components.
    pub gpu: Vec<GpuMemory>,
    /// Free memory of the allocator by what would return it; `None` in older traces.
    pub slack: Option<Slack>,
    /// First touches by owner and toucher, if page faults were recorded.
    pub touches: Touches,
    /// Descriptions of the lost parts of the trace.
    pub faults: Vec<String>,
    /// True if written data are missing: figures may be too small.
    pub damaged: bool,
}

/// Identity of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Identity {
    /// Rank in MPI_COMM_WORLD, if it has one.
    pub rank: Option<u32>,
    /// Number of ranks that the launcher announced.
    pub size: Option<u32>,
    /// Rank on its node.
    pub local_rank: Option<u32>,
    /// Number of the process.
    pub pid: u32,
    /// Name of the machine.
    pub host: Arc<str>,
    /// Name of the job, if the launcher or scheduler gave one.
    pub job: Arc<str>,
    /// For ranks that other ranks started: the number of the start in the job, from 1. Such ranks
    /// count from 0 again.
    pub spawned: Option<u32>,
    /// For processes that a rank started: their position among them. They have no rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child: Option<Child>,
    /// For processes of a job without MPI: the process that started them, if it has a trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<u32>,
    /// Path of the program.
    pub program: Arc<str>,
    /// Memory of the node in bytes; 0 if not known.
    pub node_memory: u64,
    /// Memory limit of its control groups in bytes; 0 without one.
    pub memory_limit: u64,
    /// File name of the MPI library, empty where there is none.
    pub mpi_library: Arc<str>,
}

/// State of a process.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It closed its file at its end.
    Closed,
    /// It was replaced by another program, by exec.
    Replaced,
    /// It runs on this machine.
    Running,
    /// It is gone and did not close its file: it was killed, or ended by `_exit`.
    Killed,
    /// The child of a rank or of another process is gone: by `_exit`, as forked children end, or
    /// killed.
    Gone,
    /// It did not close its file and is on another machine: running or killed.
    Open,
}

impl State {
    /// Returns the displayed name.
    pub fn label(self) -> &'static str {
        match self {
            State::Closed => "closed",
            State::Replaced => "replaced",
            State::Running => "running",
            State::Killed => "killed",
            State::Gone => "gone",
            State::Open => "open",
        }
    }
}

/// Memory of one component in one process, in bytes; times are nanoseconds since the process
/// started.
#[derive(Clone, Debug, Serialize)]
pub struct Held {
    /// Display name.
    pub name: Arc<str>,
    /// The group it is shown in.
    pub group: Group,
    /// Bytes owned at the last sample.
    pub owned: u64,
    /// Most ever owned.
    pub owned_peak: u64,
    /// Time of that peak.
    pub owned_peak_ns: u64,
    /// Mapped bytes of its object: code and data, which no component allocated.
    pub image: u64,
    /// Bytes resident at the last sample.
    pub resident: u64,
    /// Most ever seen resident.
    pub resident_peak: u64,
    /// Time of that peak.
    pub resident_peak_ns: u64,
    /// Innermost phase at the resident peak.
    pub phase: Option<Arc<str>>,
    /// MPI function at the resident peak.
    pub mpi_function: Option<Arc<str>>,
    /// Part of `resident` in pages that other processes may map too.
    pub shared: u64,
    /// Part of `resident` in huge pages of either kind.
    pub huge: u64,
    /// Bytes swapped out at the last sample.
    pub swapped: u64,
    /// Number of blocks ever allocated.
    pub allocations: u64,
    /// Number of blocks ever freed.
    pub frees: u64,
    /// Bytes allocated, ever.
    pub allocated: u64,
    /// Resident bytes at the peak of the whole process.
    pub resident_at_peak: u64,
    /// Owned bytes at the peak of the whole process.
    pub owned_at_peak: u64,
    /// Part of the slack at the peak of the whole process, in pages that this component used last.
    pub slack_at_peak: u64,
    /// Upper bound of the resident bytes at any time between samples; `resident_peak` where no
    /// bound is known.
    pub resident_bound: u64,
}

/// Sums over a process at its last sample, in bytes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Sum of all components, in bytes.
    pub resident: u64,
    /// Resident bytes as the kernel counts them, without huge TLB pages and page tables.
    pub kernel_resident: u64,
    /// Bytes of `resident` without an owner.
    pub unattributed: u64,
    /// Bytes of `resident` in page tables.
    pub page_tables: u64,
    /// Part of `resident` in huge TLB pages.
    pub hugetlb: u64,
    /// Largest share of `unattributed` in the total in any bin, in millionths.
    pub worst_unattributed: u32,
}

/// Writes the sums of a process, or `null` if it has no sample: every running process has resident
/// memory.
fn totals_or_null<S: Serializer>(totals: &Totals, to: S) -> Result<S::Ok, S::Error> {
    (totals.resident > 0).then_some(totals).serialize(to)
}

/// Writes a number of bytes, or `null` where it is not known.
fn bytes_or_null<S: Serializer>(bytes: &u64, to: S) -> Result<S::Ok, S::Error> {
    (*bytes > 0).then_some(bytes).serialize(to)
}

/// Rows that found no room in a table of the profiler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// Name of the table: `objects`, `segments`, `sites`, `blocks`, `granules`, `ranges` or
    /// `threads`.
    pub table: Arc<str>,
    /// Number of times, or number at once.
    pub count: u64,
}

/// Statistics of the sampler in one process.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sampler {
    /// Number of samples that examined every range.
    pub full: u64,
    /// Number of these between `MPI_Init` and `MPI_Finalize`; all of them in a process without MPI.
    pub in_main: u64,
    /// Number of samples that found nothing changed.
    pub quick: u64,
    /// Processor time of the sampler, in nanoseconds.
    pub cpu_ns: u64,
    /// Interval at the end, in nanoseconds.
    pub interval_ns: u64,
    /// Longest time the address space was held for one chunk, in nanoseconds.
    pub longest_hold_ns: u64,
    /// Number of ranges sampled before they were released.
    pub releases: u64,
    /// Number of ranges released without a sample, to stay within the allowed overhead.
    pub releases_skipped: u64,
    /// Bytes on heap pages with several owners: an upper bound of the error in the residency of
    /// small blocks.
    pub mixed_bytes: u64,
}

impl Sampler {
    /// Returns the share of one processor that the sampler used, over at least one second: its cost
    /// at the start is not a rate.
    pub fn duty(&self, duration_ns: u64) -> f64 {
        self.cpu_ns as f64 / duration_ns.max(1_000_000_000) as f64
    }
}

/// Returns the word for these processes: `rank`, or `process` where none has a rank.
pub fn noun<'a>(mut ranks: impl Iterator<Item = &'a Rank>) -> &'static str {
    match ranks.any(|rank| rank.identity.rank.is_some()) {
        true => "rank",
        false => "process",
    }
}

/// Returns the bytes of the kernel's own peak that no sample saw; 0 if samples saw 95 % of it.
pub fn unseen(kernel_peak: u64, seen: u64) -> u64 {
    let missed = kernel_peak.saturating_sub(seen);
    if missed > kernel_peak / 20 { missed } else { 0 }
}

/// Returns the bytes of the kernel's own peak above the `seen` bytes of the same kind; 0 up to a
/// hundredth or 512 KiB, unless these are more than a twentieth.
pub fn missed(kernel_peak: u64, seen: u64) -> u64 {
    let missed = kernel_peak.saturating_sub(seen);
    let least = (kernel_peak / 100).max(512 << 10).min(kernel_peak / 20);
    if missed > least { missed } else { 0 }
}

impl Rank {
    /// Returns the components that can have had missed bytes, with the most that each can have had:
    /// a tenth of the missed bytes or more, largest first. The ledger counts owned bytes between
    /// samples, too, and no component has more resident bytes than it owns.
    pub fn owners_of_missed(&self) -> Vec<(&Arc<str>, u64)> {
        let least = (self.missed / 10).max(1);
        let more = self.held.iter().filter(|held| held.group.has_ledger()).map(|held| {
            (&held.name, held.owned_peak.saturating_sub(held.resident_at_peak).min(self.missed))
        });
        let mut more: Vec<_> = more.filter(|(_, bytes)| *bytes >= least).collect();
        more.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        more
    }

    /// Returns true if the trace has a sample of the process. Otherwise its memory is not known.
    pub fn is_seen(&self) -> bool {
        self.totals.resident > 0 || self.peak.bytes > 0
    }

    /// Returns the sort key of ranks: launched ranks first, then ranks of later starts, then other
    /// processes.
    pub fn order(&self) -> (bool, Option<u32>, Option<u32>, Option<Child>, u32) {
        let who = &self.identity;
        (who.rank.is_none(), who.spawned, who.rank, who.child, who.pid)
    }

    /// Returns `rank 3`, `rank 0 of start 2` for a rank that other ranks started, `child 1 of rank
    /// 0` for a process that a rank started, or `process 4711 (solver) on host` without a rank.
    pub fn label(&self) -> String {
        match (self.identity.rank, &self.identity.child) {
            (Some(_), _) => format!("rank {}", ProcessKey::of(self)),
            (None, Some(child)) => child.to_string(),
            (None, None) => format!("process {} on {}", self.short(), self.identity.host),
        }
    }

    /// Returns the same for a column of ranks: `3`, or `4711 (solver)` without a rank.
    pub fn short(&self) -> String {
        match (self.identity.rank, &self.identity.child) {
            (None, None) => format!("{} ({})", self.identity.pid, self.program()),
            _ => ProcessKey::of(self).to_string(),
        }
    }

    /// Returns the name of the program without its folder.
    pub fn program(&self) -> &str {
        let path = &*self.identity.program;
        path.rsplit('/').next().unwrap_or(path)
    }

    /// Returns the component with this name.
    pub fn held(&self, name: &str) -> Option<&Held> {
        self.held.iter().find(|held| &*held.name == name)
    }

    /// Returns the periods in which phases were open, on the axis of the job.
    pub fn spans(&self) -> Vec<Span> {
        let shift = |time: u64| time.saturating_add(self.offset_ns);
        self.open
            .iter()
            .map(|span| Span {
                name: span.name.clone(),
                depth: span.depth,
                is_sampled: span.is_sampled,
                begin_ns: shift(span.begin_ns),
                end_ns: shift(span.end_ns),
            })
            .collect()
    }
}

impl ProcessKey {
    /// Returns the identity of a process.
    pub fn of(rank: &Rank) -> ProcessKey {
        let from = &rank.identity;
        ProcessKey {
            rank: from.rank,
            spawned: from.spawned,
            child: from.child,
            pid: from.pid,
            host: from.host.clone(),
        }
    }
}

/// A phase in one process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RankPhase {
    /// Its name.
    pub name: Arc<str>,
    /// Nesting depth; 0 is outermost.
    pub depth: u32,
    /// Parent phase.
    pub parent: Option<Arc<str>>,
    /// Number of times it was entered.
    pub entries: u64,
    /// Total time that it was open, in nanoseconds.
    pub total_ns: u64,
    /// First entry, in nanoseconds since the process started.
    pub first_ns: u64,
    /// Last exit, or the end of the trace.
    pub last_ns: u64,
    /// Peaks of the components that held memory in it: name, owned, resident.
    pub peaks: Vec<(Arc<str>, u64, u64)>,
    /// Highest resident bytes of the whole process at a sample in it. In traces of earlier versions
    /// only an upper bound.
    pub resident_peak: u64,
}

impl RankPhase {
    /// Returns true if something is known of what was resident in it.
    pub fn is_sampled(&self) -> bool {
        self.peaks.iter().any(|(_, _, resident)| *resident > 0)
    }
}
