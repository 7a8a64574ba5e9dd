//! A folder of traces becomes a job: each trace is reduced as it is read, several at once.

use super::absent::{self, Who};
use super::reduce::{self, Part};
use super::{Absent, Assembler, Axis, Clock, Job, Rank, Reduced, Span, State, Timeline};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A folder that cannot be used as a job.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The folder could not be listed.
    #[error("cannot read the folder {folder}: {cause}")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// There is no trace in it.
    #[error("no traces (*.memprof) in {0}")]
    Empty(PathBuf),
    /// None of its traces could be read.
    #[error("no trace in {folder} can be read, of {count}; the first, {first}: {why}")]
    Unreadable {
        /// The folder.
        folder: PathBuf,
        /// How many there are.
        count: usize,
        /// One of them.
        first: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// One trace could not be read.
    #[error("cannot read {file}: {why}")]
    Trace {
        /// The trace.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// A file that looks like a trace and cannot be read as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unread {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

/// The traces in a folder, by name. Links, folders and other things of that name are left alone.
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
        true => Err(LoadError::Empty(folder.to_owned())),
        false => Ok(files),
    }
}

impl Job {
    /// Reads all traces of a folder, running, closed or killed alike. `progress` is told how many of
    /// how many are done.
    pub fn load(folder: &Path, progress: &mut dyn FnMut(usize, usize)) -> Result<Job, LoadError> {
        Job::read(folder, Part::Everything, progress)
    }

    /// The same without timelines and call stacks: what a display that refreshes itself needs.
    pub fn load_summaries(folder: &Path) -> Result<Job, LoadError> {
        Job::read(folder, Part::Summary, &mut |_, _| {})
    }

    fn read(
        folder: &Path,
        part: Part,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Job, LoadError> {
        let files = files(folder)?;
        let count = files.len();
        let mut unread = Vec::new();
        let mut readable: Vec<(PathBuf, Clock, Who)> = Vec::new();
        for (file, clock) in files.iter().zip(in_parallel(&files, |file| reduce::clock(file))) {
            match clock {
                Ok((clock, who)) => readable.push((file.clone(), clock, who)),
                Err(why) => unread.push(Unread { file: file.clone(), why }),
            }
        }
        let (readable, helpers) = without_helpers(readable);
        if let (true, Some(first)) = (readable.is_empty(), unread.first()) {
            return Err(LoadError::Unreadable {
                folder: folder.to_owned(),
                count,
                first: first.file.clone(),
                why: first.why.clone(),
            });
        }
        let clocks: Vec<Clock> = readable.iter().map(|(_, clock, _)| clock.clone()).collect();
        let mut assembler = Assembler::new(Axis::new(&clocks));
        let mut done = unread.len();
        // A few at a time: what a trace is reduced to is small, its timeline is not.
        for some in readable.chunks(2 * workers()) {
            let reduced = in_parallel(some, |(file, _, _)| reduce::reduce(file, part));
            for ((file, clock, replaced), reduced) in some.iter().zip(reduced) {
                match reduced {
                    Ok(mut reduced) => {
                        if *replaced && reduced.rank.state != State::Closed {
                            reduced.rank.state = State::Replaced;
                        }
                        assembler.add(clock, reduced);
                    }
                    Err(why) => unread.push(Unread { file: file.clone(), why }),
                }
                done += 1;
                progress(done, count);
            }
        }
        let mut job = assembler.finish(folder.to_owned(), unread);
        job.absent = Absent { refused: absent::refused(folder), helpers };
        if part == Part::Everything {
            shade(&mut job);
        }
        Ok(job)
    }
}

/// The traces that count, with whether the process became another program, and how many others there are.
fn without_helpers(traces: Vec<(PathBuf, Clock, Who)>) -> (Vec<(PathBuf, Clock, bool)>, usize) {
    let all: Vec<Who> = traces.iter().map(|(_, _, who)| who.clone()).collect();
    let count = traces.len();
    let kept: Vec<_> = traces
        .into_iter()
        .zip(absent::parts(&all))
        .filter(|(_, part)| *part != absent::Part::Helper)
        .map(|((file, clock, _), part)| (file, clock, part == absent::Part::Replaced))
        .collect();
    let helpers = count - kept.len();
    (kept, helpers)
}

/// Nodes whose phases are looked for in the history of one of their ranks.
const SHADED: usize = 8;

/// Takes the phases of sums from their first rank: ranks of a job go through the same phases.
fn shade(job: &mut Job) {
    let first = job.nodes.first().and_then(|node| node.ranks.first());
    if let Some(rank) = first {
        job.timeline.phases = spans(rank);
        job.timeline.name_peak();
    }
    for node in job.nodes.iter_mut().take(SHADED) {
        if let Some(rank) = node.ranks.first() {
            node.timeline.phases = spans(rank);
            node.timeline.name_peak();
        }
    }
}

/// When phases were open, on the axis of the job, as far back as the history goes.
pub fn spans(rank: &Rank) -> Vec<Span> {
    let Ok(mut spans) = reduce::spans(&rank.file) else {
        return rank.spans();
    };
    for span in &mut spans {
        span.begin_ns = span.begin_ns.saturating_add(rank.offset_ns);
        span.end_ns = span.end_ns.saturating_add(rank.offset_ns);
    }
    spans
}

/// The timeline of a rank, on the axis of its job.
pub fn timeline(rank: &Rank) -> Result<Timeline, LoadError> {
    let Reduced { mut timeline, .. } = reduce::reduce(&rank.file, Part::Everything)
        .map_err(|why| LoadError::Trace { file: rank.file.clone(), why })?;
    timeline.start_ns = timeline.start_ns.saturating_add(rank.offset_ns);
    timeline.phases = spans(rank);
    let mut peak = rank.peak.clone();
    peak.time_ns = peak.time_ns.saturating_add(rank.offset_ns);
    timeline.peak_at_most = peak.bytes;
    timeline.peak = Some(peak);
    Ok(timeline)
}

fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get().min(16))
}

/// Results in the order of the items, made by as many threads as there are processors.
fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..workers().min(items.len()) {
            scope.spawn(|| {
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
            });
        }
    });
    // A worker that panicked has ended the scope with its panic: every result is there.
    (results.into_iter()).filter_map(|result| result.into_inner().ok().flatten()).collect()
}
