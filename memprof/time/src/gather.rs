//! Times of a job's ranks, from their traces.

use super::loops::{self, Loops};
use super::{Efficiency, Share, efficiency};
use anyhow::bail;
use memprof::model::{files, left_open};
use memprof::terminal::clean;
use memprof_trace::layout::{TimeRow, phase};
use memprof_trace::read::{Options, Trace};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Name of the region between the end of `MPI_Init` and the beginning of `MPI_Finalize`.
pub const WHOLE: &str = "whole";

/// Times of a job.
#[derive(Debug, PartialEq, Serialize)]
pub struct Times {
    /// Program of the first rank, without its folder.
    pub program: String,
    /// Hosts, by number of the node.
    pub nodes: Vec<String>,
    /// The whole first, then regions in the order of their first begin.
    pub regions: Vec<Region>,
    /// Loops of the program, outermost first; `None` if they were not searched for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loops: Option<Loops>,
    /// Descriptions of traces without times, and of files that cannot be read.
    pub notes: Vec<String>,
}

/// A region over all ranks that were in it.
#[derive(Debug, PartialEq, Serialize)]
pub struct Region {
    /// Its name.
    pub name: String,
    /// Maker of the region: `memprof`, `pcontrol`, `program` or `quo`.
    pub origin: &'static str,
    /// Longest time of any rank, in nanoseconds.
    pub elapsed_ns: u64,
    /// Efficiencies; `None` where no time was useful.
    pub efficiency: Option<Efficiency>,
    /// Times by rank.
    pub ranks: Vec<RankTime>,
}

/// Time of one rank in a region; times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RankTime {
    /// Its number.
    pub rank: u32,
    /// Number of its node.
    pub node: usize,
    /// Process number.
    pub pid: u32,
    /// Times the region began; 1 for the whole.
    pub entries: u64,
    /// Time in the region.
    pub elapsed_ns: u64,
    /// Outside of MPI, and not lent.
    pub useful_ns: u64,
    /// Part of `useful_ns` inside OpenMP parallel regions; the rest is serial.
    pub openmp_ns: u64,
    /// Number of parallel regions.
    pub openmp_regions: u64,
    /// In quo's barrier, while others may use the processors.
    pub lent_ns: u64,
    /// Total time inside MPI.
    pub mpi_ns: u64,
    /// Inside sends, receives and probes.
    pub point_to_point_ns: u64,
    /// Inside collective operations.
    pub collective_ns: u64,
    /// Inside window operations.
    pub one_sided_ns: u64,
    /// Inside file operations.
    pub file_ns: u64,
    /// Waiting for and testing requests.
    pub wait_ns: u64,
    /// Inside other MPI functions.
    pub other_ns: u64,
    /// Number of MPI calls.
    pub mpi_calls: u64,
    /// Total time inside MPI in threads other than the one that began MPI; not part of `mpi_ns`.
    pub other_threads_ns: u64,
}

impl RankTime {
    fn of(rank: u32, node: usize, pid: u32, entries: u64, row: &TimeRow) -> RankTime {
        let [point_to_point_ns, collective_ns, one_sided_ns, file_ns, wait_ns, other_ns, ..] =
            row.mpi_ns;
        let mpi_ns = row.mpi_ns.iter().sum::<u64>();
        let share = Share { node, elapsed: row.elapsed_ns, mpi: mpi_ns, lent: row.lent_ns };
        RankTime {
            rank,
            node,
            pid,
            entries,
            elapsed_ns: row.elapsed_ns,
            useful_ns: share.useful(),
            openmp_ns: row.openmp_ns,
            openmp_regions: row.openmp_regions,
            lent_ns: row.lent_ns,
            mpi_ns,
            point_to_point_ns,
            collective_ns,
            one_sided_ns,
            file_ns,
            wait_ns,
            other_ns,
            mpi_calls: row.calls.iter().sum(),
            other_threads_ns: row.others_ns,
        }
    }

    fn share(&self) -> Share {
        Share { node: self.node, elapsed: self.elapsed_ns, mpi: self.mpi_ns, lent: self.lent_ns }
    }
}

impl Region {
    pub(super) fn new(name: String, origin: &'static str, mut ranks: Vec<RankTime>) -> Region {
        ranks.sort_by_key(|time| (time.rank, time.pid));
        let shares: Vec<Share> = ranks.iter().map(RankTime::share).collect();
        Region {
            name,
            origin,
            elapsed_ns: ranks.iter().map(|time| time.elapsed_ns).max().unwrap_or(0),
            efficiency: efficiency(&shares),
            ranks,
        }
    }
}

impl Times {
    /// Removes all regions except the one with this name.
    ///
    /// # Errors
    /// If no region has this name; the error lists the names that exist.
    pub fn keep(&mut self, name: &str) -> anyhow::Result<()> {
        if !self.regions.iter().any(|region| region.name == name) {
            let names: Vec<String> =
                self.regions.iter().take(16).map(|region| clean(&region.name)).collect();
            bail!("no region {name}; there are {}", names.join(", "));
        }
        self.regions.retain(|region| region.name == name);
        Ok(())
    }
}

/// A region of one rank: the time when it first began on the node's clock, its name, origin, and
/// time.
struct Found {
    began: u64,
    name: String,
    origin: &'static str,
    time: RankTime,
}

/// Reads the times of all ranks in a folder of traces.
pub fn load(folder: &Path) -> anyhow::Result<Times> {
    let mut notes = Vec::new();
    let mut traces = Vec::new();
    for file in files(folder)? {
        match Trace::open_with(&file, Options { history: false, detail: false }) {
            Ok(trace) => traces.push((file, trace)),
            Err(error) => notes.push(format!("{}: {error}", file.display())),
        }
    }
    let times = join(&traces, notes);
    if times.regions.is_empty() {
        bail!(
            "no times in {}: record them with memprof run --mpi-time{}",
            folder.display(),
            times.notes.first().map_or(String::new(), |note| format!(" ({note})"))
        );
    }
    Ok(times)
}

/// The profiler's code of notes on regions, `Regions` in `preload/src/base/diagnostics.rs`.
const REGIONS: u32 = 19;

fn join(traces: &[(PathBuf, Trace)], mut notes: Vec<String>) -> Times {
    let mut nodes: Vec<([u8; 16], String)> = Vec::new();
    let mut whole = Vec::new();
    let mut found: Vec<Found> = Vec::new();
    let mut program = String::new();
    let mut without = 0;
    for (_, trace) in traces {
        let identity = &trace.identity;
        let Ok(rank) = u32::try_from(identity.rank) else { continue };
        if trace.times.is_empty() {
            without += 1;
            continue;
        }
        let host = identity.host.to_string();
        let node = (identity.boot_id, host);
        let node = nodes.iter().position(|known| *known == node).unwrap_or_else(|| {
            nodes.push(node);
            nodes.len() - 1
        });
        let said = trace.notes.iter().filter(|note| note.row.code == REGIONS);
        let said = said.map(|note| note.row.text.to_string());
        let open = left_open(trace).into_iter();
        let open = open.map(|name| format!("region {name} was open when the process ended"));
        for text in said.chain(open) {
            let note = format!("{text} (rank {rank})");
            let is_known = notes.iter().any(|known| known.starts_with(&format!("{text} (")));
            if !is_known {
                notes.push(note);
            }
        }
        if program.is_empty() {
            let path = identity.program.to_string();
            program = path.rsplit('/').next().unwrap_or(&path).to_owned();
        }
        for time in &trace.times {
            let Some(index) = time.index.checked_sub(1) else {
                whole.push(RankTime::of(rank, node, identity.pid, 1, &time.row));
                continue;
            };
            let Some(row) = trace.phase(index) else { continue };
            let origin = match row.kind {
                phase::AUTOMATIC => "memprof",
                phase::CONTROL => "pcontrol",
                phase::QUO => "quo",
                _ => "program",
            };
            let time = RankTime::of(rank, node, identity.pid, row.entries, &time.row);
            found.push(Found { began: row.first_time, name: row.name.to_string(), origin, time });
        }
    }
    if without > 0 {
        notes.push(format!("{} without times", memprof::units::count(without, "trace")));
    }
    let mut regions = Vec::new();
    if !whole.is_empty() {
        regions.push(Region::new(WHOLE.to_owned(), "memprof", whole));
    }
    regions.extend(by_name(found));
    let nodes = nodes.into_iter().map(|(_, host)| host).collect();
    let loops = loops::join(traces.iter().map(|(_, trace)| trace));
    if let Some(found) = &loops
        && found.lost > 0
    {
        notes.push(format!(
            "{} of MPI from places beyond the room for them: loops may be missing",
            memprof::units::count(usize::try_from(found.lost).unwrap_or(usize::MAX), "call")
        ));
    }
    Times { program, nodes, regions, loops, notes }
}

/// Merges regions with the same name and origin, in the order of their first begin.
fn by_name(found: Vec<Found>) -> Vec<Region> {
    let mut groups: BTreeMap<(String, &'static str), (u64, Vec<RankTime>)> = BTreeMap::new();
    for Found { began, name, origin, time } in found {
        let (first, times) = groups.entry((name, origin)).or_insert((began, Vec::new()));
        *first = began.min(*first);
        times.push(time);
    }
    let mut regions: Vec<(u64, Region)> = groups
        .into_iter()
        .map(|((name, origin), (first, times))| (first, Region::new(name, origin, times)))
        .collect();
    regions.sort_by_key(|(first, _)| *first);
    regions.into_iter().map(|(_, region)| region).collect()
}
