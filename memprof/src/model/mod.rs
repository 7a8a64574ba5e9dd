//! A job as it is reported: nodes, their ranks, the memory of each component, when, and why.
//!
//! [`Job::load`] reduces each trace as it is read, so that a thousand ranks need no more memory
//! than their summaries. The types here are plain data with pure functions.
//!
//! floors: missing_ranks < children < process_key < touch < course < site < counter < gpu < handle < join < running_processes <
//!     component < timeline < slack < rank < balance < jobs < sharing < statistics < phase < error <
//!     assemble < reduce < reread < load

mod assemble;
mod balance;
mod children;
mod component;
mod counter;
mod course;
mod error;
mod gpu;
mod handle;
mod jobs;
mod join;
mod load;
mod missing_ranks;
mod phase;
mod process_key;
mod rank;
mod reduce;
mod reread;
mod running_processes;
mod sharing;
mod site;
mod slack;
pub mod statistics;
mod timeline;
mod touch;

pub use assemble::{Assembler, Axis, Clock, Reduced};
pub use balance::{Balance, ResidentExcess};
pub use children::Child;
pub use component::Group;
pub use counter::{Counted, Counter};
pub use course::Course;
pub use error::{LoadError, Unread};
#[cfg(test)]
pub use gpu::tests as gpu_tests;
pub use gpu::{GpuBytes, GpuMemory, GpuSite};
#[cfg(test)]
pub use handle::tests as handle_tests;
pub use handle::{HandleCount, HandleHeld, HandleSite};
pub use jobs::JobPart;
pub use join::{Join, Joined, JoinedFile, Shared};
pub use load::{files, in_parallel};
pub use missing_ranks::{MissingRanks, Refused, forked_told, refused, told};
pub use phase::{PhaseAcross, PhaseComponent};
pub use process_key::ProcessKey;
pub use rank::{Held, Identity, Lost, Rank, RankPhase, Sampler, State, Totals, noun};
pub use reduce::left_open;
pub use site::{Frame, Object, Site, Sites};
pub use slack::{Arena, FreePages, Holder, Slack};
pub use statistics::{ComponentSummary, Spread};
pub use timeline::{BINS, HeldThen, Moment, OwnPeak, Series, Span, Timeline};
pub use touch::{Touch, Touches};

use crate::terminal::clean;
use crate::units::{bytes, count};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;

/// All traces of one folder.
#[derive(Debug, Serialize)]
pub struct Job {
    /// Folder of the traces.
    #[serde(serialize_with = "crate::output::path")]
    pub folder: PathBuf,
    /// Sorted by their lowest rank.
    pub nodes: Vec<Node>,
    /// Memory of all ranks together, with shared pages counted once per node.
    pub timeline: Timeline,
    /// Components over all ranks, sorted by group, then by the largest resident peak.
    pub components: Vec<ComponentSummary>,
    /// Phases over all ranks, in the order of their first begin.
    pub phases: Vec<PhaseAcross>,
    /// Sampled allocation sites of all ranks, largest peak first.
    pub sites: Sites,
    /// Places that make MPI objects, over all ranks: most memory first, then most alive.
    #[serde(skip)]
    pub handles: Vec<HandleSite>,
    /// Calls that requested memory from the runtimes of GPUs, over all ranks: highest peak first.
    #[serde(skip)]
    pub gpu: Vec<GpuSite>,
    /// First touches by owner and toucher, over all ranks; empty if page faults were not recorded.
    pub touches: Touches,
    /// Balance of the numbers.
    pub balance: Balance,
    /// Notes of the profiler, each once.
    pub notes: Vec<Note>,
    /// Files that could not be read.
    pub unread: Vec<Unread>,
    /// Ranks that are missing, according to the size that the other ranks got.
    pub missing: Vec<u32>,
    /// Jobs of these ranks; several if a script started more than one.
    pub jobs: Vec<JobPart>,
    /// Facts about missing processes.
    #[serde(rename = "absent")]
    pub missing_ranks: MissingRanks,
    /// Realtime clock at the start of the job's first rank, in nanoseconds since 1970.
    pub started_ns: u64,
}

/// One machine of the job.
#[derive(Debug, Serialize)]
pub struct Node {
    /// Its name.
    pub host: Arc<str>,
    /// Distinguishes machines with the same name, and boots of the same machine.
    pub boot_id: String,
    /// Ranks in ascending order; processes without a rank are last.
    pub ranks: Vec<Rank>,
    /// Memory of its ranks together, shared pages counted once.
    pub timeline: Timeline,
    /// Pages that several ranks share, as last seen, including segments that have been unmapped
    /// since.
    pub joined: Joined,
    /// Only memory still mapped at the last sample of each rank that has not left.
    pub mapped: Joined,
}

impl Node {
    /// Returns the number of ranks that have not left, and the sum of their memory at their last
    /// samples: shared pages count in each rank, pages that forks have left count by shares.
    pub fn present(&self) -> (usize, u64) {
        let present = self.ranks.iter().filter(|rank| !rank.left);
        present.fold((0, 0), |(count, sum), rank| {
            let own = rank.totals.resident.saturating_sub(rank.beyond_share);
            (count + 1, u64::saturating_add(sum, own))
        })
    }

    /// Returns the number of ranks as text, followed by the number of those left, if some have
    /// gone.
    pub fn ranks_told(&self) -> String {
        match (self.ranks.len(), self.present().0) {
            (all, present) if all == present => all.to_string(),
            (all, present) => format!("{all}, {present} now"),
        }
    }
}

/// A note of the profiler in some ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// Stable name.
    pub code: u32,
    /// Text for users.
    pub text: Arc<str>,
    /// Number of processes with this note.
    pub processes: u32,
    /// One of them.
    pub example: String,
}

impl Job {
    /// Returns all ranks of all nodes.
    pub fn ranks(&self) -> impl Iterator<Item = &Rank> + Clone {
        self.nodes.iter().flat_map(|node| &node.ranks)
    }

    /// Returns the first process with this rank, preferably one that was launched rather than
    /// started by other ranks.
    pub fn rank(&self, number: u32) -> Option<&Rank> {
        let all = self.ranks().filter(|rank| rank.identity.rank == Some(number));
        all.min_by_key(|rank| rank.identity.spawned)
    }

    /// Returns the last program of the process with this number, on any node.
    pub fn process(&self, pid: u32) -> Option<&Rank> {
        self.ranks().filter(|rank| rank.identity.pid == pid).max_by_key(|rank| rank.offset_ns)
    }

    /// Returns the word for its processes: `rank`, or `process` where there is no MPI.
    pub fn noun(&self) -> &'static str {
        noun(self.ranks())
    }

    /// Returns a sentence that there are several jobs; `None` if there is one.
    pub fn several(&self) -> Option<String> {
        let count = self.jobs.len();
        (count > 1).then(|| {
            format!(
                "{count} jobs in this folder, together in every figure; --job 1 to --job {count} for one"
            )
        })
    }

    /// Returns a sentence that pages of forks count by shares; `None` if none do.
    pub fn by_shares(&self) -> Option<String> {
        let least = |node: &Node| node.timeline.forked[0].iter().max().copied().unwrap_or(0);
        let is_forked = |node: &Node| node.timeline.forked[1].iter().any(|bytes| *bytes > 0);
        let least: u64 = self.nodes.iter().map(least).sum();
        self.nodes.iter().any(is_forked).then(|| match least {
            0 => "pages of forks counted once at least, in each process at most".to_owned(),
            _ => format!(
                "pages of forks counted by shares, {} less than in each process",
                bytes(least)
            ),
        })
    }

    /// Refuses a rank number that several jobs have.
    ///
    /// # Errors
    /// If the folder holds more than one job.
    pub fn one_job(&self) -> Result<(), LoadError> {
        match self.jobs.len() {
            0 | 1 => Ok(()),
            count => Err(LoadError::SeveralJobs { folder: self.folder.clone(), count }),
        }
    }

    /// Returns the node of a rank.
    pub fn node_of(&self, rank: &Rank) -> Option<&Node> {
        self.nodes.iter().find(|node| node.ranks.iter().any(|other| other.file == rank.file))
    }

    /// Returns true if the traces of all ranks are present and undamaged. Otherwise the figures are
    /// incomplete.
    pub fn is_whole(&self) -> bool {
        self.missing.is_empty() && self.unread.is_empty() && !self.ranks().any(|rank| rank.damaged)
    }

    /// Returns a sentence that traces are damaged; `None` if none are.
    pub fn damage(&self) -> Option<String> {
        let mut damaged = self.ranks().filter(|rank| rank.damaged);
        let first = damaged.next()?;
        let traces = count(1 + damaged.count(), "trace");
        let fault = first.faults.first().map_or("", String::as_str);
        Some(format!("{traces} damaged; {}: {}", first.label(), clean(fault)))
    }

    /// Returns the rank with the largest resident peak.
    pub fn largest(&self) -> Option<&Rank> {
        self.ranks().max_by_key(|rank| rank.peak.bytes)
    }

    /// Returns the name of the program that most ranks ran, without its folder; without MPI, that
    /// of the first process.
    pub fn program(&self) -> &str {
        if self.noun() == "process" {
            let first = self.ranks().min_by_key(|rank| rank.offset_ns);
            return first.map_or("", Rank::program);
        }
        let mut names: Vec<&str> = self.ranks().map(Rank::program).collect();
        names.sort_unstable();
        let mut best = ("", 0);
        for group in names.chunk_by(|a, b| a == b) {
            if group.len() > best.1 {
                best = (group[0], group.len());
            }
        }
        best.0
    }

    /// Returns the time that the job's processes were recorded, first to last, in nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        self.ranks().map(|rank| rank.offset_ns.saturating_add(rank.duration_ns)).max().unwrap_or(0)
    }
}
