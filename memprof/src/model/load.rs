//! Loading of a folder of traces as a job: each trace is reduced as it is read, several at a time.

use super::children::{self, Child, Relation};
use super::jobs::JobMembership;
use super::missing_ranks::{self, Who};
use super::reduce::{self, First, Part};
use super::reread::spans;
use super::running_processes::RunningProcesses;
use super::{
    Assembler, Axis, Clock, Job, JobPart, LoadError, MissingRanks, Rank, State, Unread, jobs,
};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// Returns the traces in a folder, by name. Ignores links, folders and other entries with such
/// names.
///
/// # Errors
/// If the folder cannot be read or holds no trace.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let list = || -> std::io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let path = entry.path();
            let is_trace = path.extension().is_some_and(|end| end == "memprof");
            if is_trace && entry.file_type()?.is_file() {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    };
    let files = list().map_err(|cause| LoadError::Folder { folder: folder.to_owned(), cause })?;
    match files.is_empty() {
        true => {
            let words = missing_ranks::told(&missing_ranks::refused(folder));
            Err(LoadError::Empty { folder: folder.to_owned(), words })
        }
        false => Ok(files),
    }
}

impl Job {
    /// Reads all traces of a folder, whether running, closed or killed; with a number, only those
    /// of that job. Calls `progress` with the number of traces read and their total.
    ///
    /// # Errors
    /// If the folder cannot be read or holds no trace of the requested job.
    pub fn load(
        folder: &Path,
        only: Option<u32>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Job, LoadError> {
        Job::read(folder, only, Part::Everything, progress)
    }

    /// Does what [`Job::load`] does, without timelines and call stacks, for a display that
    /// refreshes itself.
    ///
    /// # Errors
    /// If the folder cannot be read or holds no trace of the requested job.
    pub fn load_summaries(
        folder: &Path,
        only: Option<u32>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Job, LoadError> {
        Job::read(folder, only, Part::Summary, progress)
    }

    fn read(
        folder: &Path,
        only: Option<u32>,
        part: Part,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Job, LoadError> {
        let living = RunningProcesses::new();
        let files = files(folder)?;
        let count = files.len();
        let mut unread = Vec::new();
        let mut readable: Vec<Found> = Vec::new();
        for (at, some) in files.chunks(STRETCH).enumerate() {
            let firsts = in_parallel(some, |file| reduce::first(file, part, &living));
            for (file, first) in some.iter().zip(firsts) {
                let file = file.clone();
                match first {
                    Ok(first) => {
                        readable.push(Found {
                            file,
                            first,
                            job: None,
                            replaced: false,
                            is_no_rank: false,
                            child: None,
                            parent: None,
                        });
                    }
                    Err(why) => unread.push(Unread { file, why }),
                }
            }
            // For summaries, this is the work; otherwise it follows.
            if part == Part::Summary {
                progress(at * STRETCH + some.len(), count);
            }
        }
        let (mut readable, helpers) = without_helpers(readable);
        if let (true, Some(first)) = (readable.is_empty(), unread.first()) {
            return Err(LoadError::Unreadable {
                folder: folder.to_owned(),
                count,
                first: first.file.clone(),
                why: first.why.clone(),
            });
        }
        number(&mut readable);
        relate(&mut readable);
        if let Some(number) = only {
            let count =
                readable.iter().filter_map(|found| found.job).map(|of| of.job).max().unwrap_or(0);
            readable.retain(|found| found.job.map(|of| of.job) == only);
            if readable.is_empty() {
                return Err(LoadError::NoJob { folder: folder.to_owned(), number, count });
            }
        }
        let clocks: Vec<Clock> = readable.iter().map(|found| found.first.clock.clone()).collect();
        let mut assembler = Assembler::new(Axis::new(&clocks));
        let mut done = count - readable.len();
        // A few at a time: a reduced trace is small, but its timeline is not.
        for some in readable.chunks_mut(2 * workers()) {
            let reduced = in_parallel(some, |found| match found.first.reduced {
                Some(_) => None,
                None => Some(reduce::reduce(&found.file, part, &living)),
            });
            for (found, reduced) in some.iter_mut().zip(reduced) {
                let reduced = match (reduced, found.first.reduced.take()) {
                    (Some(reduced), _) => reduced,
                    (None, Some(reduced)) => Ok(*reduced),
                    (None, None) => continue,
                };
                match reduced {
                    Ok(mut reduced) => {
                        reduced.rank.job = found.job.map(|of| of.job);
                        reduced.rank.identity.spawned = found.job.and_then(|of| of.start);
                        belong(&mut reduced.rank, found);
                        if found.replaced && reduced.rank.state != State::Closed {
                            reduced.rank.state = State::Replaced;
                        }
                        assembler.add(&found.first.clock, reduced);
                    }
                    Err(why) => unread.push(Unread { file: found.file.clone(), why }),
                }
                done += 1;
                if part == Part::Everything {
                    progress(done, count);
                }
            }
        }
        let mut job = assembler.finish(folder.to_owned(), unread);
        let forked = missing_ranks::forked(folder);
        job.missing_ranks =
            MissingRanks { refused: missing_ranks::refused(folder), forked, helpers };
        if part == Part::Everything {
            shade(&mut job);
        }
        Ok(job)
    }
}

/// Number of traces between two progress reports where traces are read quickly.
const STRETCH: usize = 256;

/// A trace that can be read.
struct Found {
    file: PathBuf,
    first: First,
    /// Its job.
    job: Option<JobMembership>,
    /// True if its process became another program.
    replaced: bool,
    /// True if it has the variables of a rank that is another process.
    is_no_rank: bool,
    /// The rank that started it.
    child: Option<Child>,
    /// Without MPI, the process that started it.
    parent: Option<u32>,
}

/// Returns the traces that count, and the number of the others.
fn without_helpers(traces: Vec<Found>) -> (Vec<Found>, usize) {
    let all: Vec<Who> = traces.iter().map(|found| found.first.who.clone()).collect();
    let count = traces.len();
    let kept: Vec<Found> = traces
        .into_iter()
        .zip(missing_ranks::parts(&all))
        .filter(|(_, part)| *part != missing_ranks::Part::Helper)
        .map(|(found, part)| Found { replaced: part == missing_ranks::Part::Replaced, ..found })
        .collect();
    let helpers = count - kept.len();
    (kept, helpers)
}

/// Sets the job of each trace.
fn number(traces: &mut [Found]) {
    let begun = |found: &Found| found.first.clock.realtime_ns;
    let all: Vec<_> = traces.iter().map(|found| (&found.first.who, begun(found))).collect();
    let numbers = jobs::numbers(&all);
    for (found, number) in traces.iter_mut().zip(numbers) {
        found.job = number;
    }
}

/// Separates the ranks from other processes around them.
fn relate(traces: &mut [Found]) {
    let begun = |found: &Found| found.first.clock.realtime_ns;
    let all: Vec<_> = traces.iter().map(|found| (&found.first.who, begun(found))).collect();
    let relations = children::relations(&all);
    let roots: Vec<_> = traces
        .iter()
        .map(|found| (found.first.who.rank.as_ref().map(|(_, rank)| *rank), found.job))
        .collect();
    let pids: Vec<u32> = traces.iter().map(|found| found.first.who.process.1).collect();
    for (found, relation) in traces.iter_mut().zip(relations) {
        found.is_no_rank = relation != Relation::Itself;
        if let Relation::Below(parent) = relation {
            found.parent = Some(pids[parent]);
        }
        if let Relation::ChildOf(root, number) = relation
            && let (Some(rank), job) = roots[root]
        {
            found.child = Some(Child { rank, spawned: job.and_then(|of| of.start), number });
        }
    }
}

/// Marks the summary of a process that is not a rank, and sets whose child it is.
fn belong(rank: &mut Rank, found: &Found) {
    if !found.is_no_rank {
        return;
    }
    rank.identity.rank = None;
    rank.identity.spawned = None;
    rank.identity.child = found.child;
    rank.identity.parent = found.parent;
    if (found.child.is_some() || found.parent.is_some()) && rank.state == State::Killed {
        rank.state = State::Gone;
    }
}

/// Number of nodes whose phases are searched for in the history of one of their ranks.
const SHADED: usize = 8;

/// Copies the phases of sums from their first rank, since ranks of a job go through the same
/// phases.
fn shade(job: &mut Job) {
    // Each of several jobs has its own phases.
    let first = |part: &JobPart| job.ranks().find(|rank| rank.job == Some(part.number));
    let mut firsts: Vec<&Rank> = job.jobs.iter().take(SHADED).filter_map(first).collect();
    if firsts.is_empty() {
        firsts.extend(job.ranks().next());
    }
    job.timeline.phases = firsts.into_iter().flat_map(spans).collect();
    job.timeline.name_peak();
    for node in job.nodes.iter_mut().take(SHADED) {
        if let Some(rank) = node.ranks.first() {
            node.timeline.phases = spans(rank);
            node.timeline.name_peak();
        }
    }
    // Other ranks may have been sampled in phases in which the first rank was not.
    let seen = job.phases.iter().filter(|phase| phase.resident_peak.count > 0);
    let seen: HashSet<&str> = seen.map(|phase| &*phase.name).collect();
    let timelines = job.nodes.iter_mut().map(|node| &mut node.timeline);
    for span in timelines.chain([&mut job.timeline]).flat_map(|timeline| &mut timeline.phases) {
        span.is_sampled |= seen.contains(&*span.name);
    }
}

/// Returns the number of worker threads. Queried once, since the kernel provides it in several
/// files.
fn workers() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT
        .get_or_init(|| std::thread::available_parallelism().map_or(1, |count| count.get().min(16)))
}

/// Returns results in the order of the items, computed by as many threads as there are processors,
/// including this one.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let take = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let (Some(item), Some(result)) = (items.get(at), results.get(at)) else {
                break;
            };
            let value = work(item);
            if let Ok(mut result) = result.lock() {
                *result = Some(value);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..workers().min(items.len()) {
            scope.spawn(take);
        }
        take();
    });
    // The panic of a worker ends the scope, so every result is present here.
    (results.into_iter()).filter_map(|result| result.into_inner().ok().flatten()).collect()
}
