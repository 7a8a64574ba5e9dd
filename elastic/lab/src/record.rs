//! Records of real systems: their jobs and nodes over time, one line of JSON for each change.
//!
//! A manager makes the lines with a [`Recorder`]. [`read`] turns them into an outcome like that of
//! a simulation, so that the same tables and charts show both.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::simulate::{Counts, Ending, Held, Load, Outcome, Piece, Record};
use crate::workload::{JobSpec, Name, Work, Workload};
use elastic_policy::job::{Class, Limits};
use elastic_policy::nodes::NodeList;
use elastic_policy::state::Cluster;
use elastic_policy::time::{Span, Time};

/// Beginning of the first line of each record.
pub const BEGIN: &str = "{\"record\":1,";

/// A line of a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Line {
    /// The machine, when a manager begins and when its nodes change.
    Machine {
        /// The version of the format: 1.
        record: u32,
        /// The instant, since 1970.
        at: Time,
        /// The policy.
        policy: String,
        /// The names of all nodes.
        nodes: Vec<String>,
    },
    /// A job that has changed.
    Job {
        /// The instant of the observation, since 1970.
        at: Time,
        /// The job.
        #[serde(flatten)]
        job: Sighting,
    },
}

/// A job as observed at an instant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sighting {
    /// A key that is unique in the record.
    pub job: String,
    /// The name shown to people.
    pub name: String,
    /// The freedom that it leaves to the scheduler.
    pub class: Class,
    /// The number of nodes that it requested.
    pub asked: u32,
    /// The expected run time.
    pub walltime: Span,
    /// The state of the job.
    pub stage: Stage,
    /// The names of its nodes, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// It waits for nodes.
    Waits,
    /// It has run since this instant.
    Runs(Time),
    /// It has ended.
    Ended,
}

/// The whole run of a job that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The key of the job.
    pub job: String,
    /// The instant of the start, since 1970.
    pub begun: Time,
    /// The instant of the end, since 1970.
    pub ended: Time,
    /// The names of the nodes that it ran on.
    pub nodes: Vec<String>,
}

/// Makes the lines of a record.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    policy: String,
    nodes: Vec<String>,
    known: BTreeMap<String, Sighting>,
    /// The instant of the last line.
    last: Time,
}

impl Recorder {
    /// Continues a record, which may be empty.
    ///
    /// # Errors
    /// The text is no record.
    pub fn resume(text: &str) -> Result<Recorder, RecordError> {
        let mut recorder = Recorder::default();
        for line in lines(text)? {
            match line {
                Line::Machine { policy, nodes, at, .. } => {
                    (recorder.policy, recorder.nodes, recorder.last) = (policy, nodes, at);
                }
                Line::Job { job, at } if job.stage == Stage::Ended => {
                    recorder.known.remove(&job.job);
                    recorder.last = at;
                }
                Line::Job { job, at } => {
                    recorder.known.insert(job.job.clone(), job);
                    recorder.last = at;
                }
            }
        }
        Ok(recorder)
    }

    /// Records all waiting and running jobs, and returns the lines about changes, each without its
    /// line break.
    pub fn observe(
        &mut self,
        at: Time,
        policy: &str,
        nodes: &[String],
        jobs: Vec<Sighting>,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        if self.nodes != nodes || self.policy != policy {
            (self.nodes, self.policy) = (nodes.to_vec(), policy.to_owned());
            let (policy, nodes) = (policy.to_owned(), nodes.to_vec());
            lines.push(Line::Machine { record: 1, at, policy, nodes });
        }
        let mut before = std::mem::take(&mut self.known);
        for job in jobs {
            if before.remove(&job.job).as_ref() != Some(&job) {
                lines.push(Line::Job { at, job: job.clone() });
            }
            self.known.insert(job.job.clone(), job);
        }
        for gone in before.into_values() {
            lines.push(ended(gone, at));
        }
        self.last = at;
        written(&lines)
    }

    /// Records jobs that have ended, and returns the lines of their ends, in order of time. If a
    /// job ran between two observations, its start is a line, too. Jobs that were never observed,
    /// or that the record already has as ended, give no line.
    pub fn end(&mut self, runs: Vec<Run>) -> Vec<String> {
        let mut moments = Vec::new();
        for run in runs {
            let Some(known) = self.known.remove(&run.job) else { continue };
            let begun = run.begun.max(self.last);
            let at = run.ended.max(begun);
            let is_new = known.stage == Stage::Waits;
            if is_new {
                let stage = Stage::Runs(begun);
                let job = Sighting { stage, nodes: run.nodes, ..known.clone() };
                moments.push((begun, 1, Line::Job { at: begun, job }));
            }
            // At one instant, nodes are left before other jobs take them.
            let order = if is_new && begun == at { 2 } else { 0 };
            moments.push((at, order, ended(known, at)));
        }
        moments.sort_by_key(|(at, order, _)| (*at, *order));
        self.last = moments.last().map_or(self.last, |(at, ..)| *at);
        written(&moments.into_iter().map(|(_, _, line)| line).collect::<Vec<Line>>())
    }
}

fn ended(job: Sighting, at: Time) -> Line {
    Line::Job { at, job: Sighting { stage: Stage::Ended, nodes: Vec::new(), ..job } }
}

fn written(lines: &[Line]) -> Vec<String> {
    // Strings and numbers can always be serialised.
    lines.iter().filter_map(|line| serde_json::to_string(line).ok()).collect()
}

/// Why a text is no record.
#[derive(Debug, Error)]
pub enum RecordError {
    /// A line is not a line of a record.
    #[error("line {line}: {source}")]
    Line {
        /// Its number.
        line: usize,
        /// The cause.
        source: serde_json::Error,
    },
    /// There is no machine before the first job, or no job at all.
    #[error("it names no nodes, or no job")]
    Empty,
}

/// Reads the lines. The last one may be incomplete: it is left out.
fn lines(text: &str) -> Result<Vec<Line>, RecordError> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let read = |(index, line)| {
        serde_json::from_str(line).map_err(|source| RecordError::Line { line: index + 1, source })
    };
    whole.lines().enumerate().filter(|(_, line)| !line.is_empty()).map(read).collect()
}

/// Reads a record. Times are relative to its beginning; a job that has not ended ends with the
/// record.
///
/// # Errors
/// The text is no record.
pub fn read(text: &str) -> Result<(Workload, Outcome), RecordError> {
    let mut history = History::default();
    let lines = lines(text)?;
    let Some(Line::Machine { at: origin, .. }) = lines.first() else {
        return Err(RecordError::Empty);
    };
    let since = |at: Time| Time(at.since(*origin).0);
    for line in &lines {
        match line {
            Line::Machine { policy, nodes, .. } => {
                history.policy.clone_from(policy);
                for node in nodes {
                    history.node(node);
                }
            }
            Line::Job { at, job } => {
                let begun = match job.stage {
                    Stage::Runs(begun) => Some(since(begun).min(since(*at))),
                    _ => None,
                };
                history.see(since(*at), begun, job);
            }
        }
    }
    history.finish().ok_or(RecordError::Empty)
}

/// All jobs as read so far.
#[derive(Default)]
struct History {
    policy: String,
    nodes: BTreeMap<String, u32>,
    places: BTreeMap<String, usize>,
    jobs: Vec<(JobSpec, Record, NodeList)>,
    held: Held,
    load: Vec<Load>,
    counts: Counts,
    last: Time,
}

impl History {
    /// Returns the number of a node, in the order of appearance.
    fn node(&mut self, name: &str) -> u32 {
        let next = self.nodes.len() as u32;
        *self.nodes.entry(name.to_owned()).or_insert(next)
    }

    fn see(&mut self, now: Time, begun: Option<Time>, seen: &Sighting) {
        self.last = self.last.max(now);
        let next = self.jobs.len();
        let place = *self.places.entry(seen.job.clone()).or_insert(next);
        if place == next {
            self.jobs.push(new_job(seen, begun.unwrap_or(now)));
        }
        let nodes: Vec<u32> = seen.nodes.iter().map(|name| self.node(name)).collect();
        let (spec, record, held) = &mut self.jobs[place];
        // A job that had not answered yet looked like a rigid one.
        if seen.class != Class::Rigid {
            (spec.class, record.class) = (seen.class, seen.class);
            spec.name = Name::Text(seen.name.clone().into());
        }
        match (seen.stage, record.started) {
            (Stage::Waits, _) => {}
            (Stage::Runs(_), None) => {
                let begun = begun.unwrap_or(now);
                *held = NodeList::of(&nodes);
                (record.started, record.started_on) = (Some(begun), held.count());
                record.largest = held.count();
                self.counts.starts += 1;
                // The previous holders were observed to have left the nodes now, and had left them
                // before.
                let is_taken = |piece: &&mut Piece| {
                    let mut all = piece.nodes.first..piece.nodes.end();
                    piece.to == now && all.all(|node| nodes.contains(&node))
                };
                for piece in self.held.pieces.iter_mut().filter(is_taken) {
                    piece.to = begun.max(piece.from);
                }
                self.held.gain(place as u32, held, begun);
            }
            (Stage::Runs(_), Some(_)) => {
                let without = |all: &[u32], some: &[u32]| {
                    let others = all.iter().copied().filter(|node| !some.contains(node));
                    NodeList::of(&others.collect::<Vec<u32>>())
                };
                let before: Vec<u32> = held.iter().collect();
                let (lost, gained) = (without(&before, &nodes), without(&nodes, &before));
                self.held.lose(place as u32, &lost, now);
                self.held.gain(place as u32, &gained, now);
                self.counts.shrinkages += u64::from(!lost.is_empty());
                self.counts.growths += u64::from(!gained.is_empty());
                record.resizes += u32::from(!lost.is_empty()) + u32::from(!gained.is_empty());
                *held = NodeList::of(&nodes);
                record.largest = record.largest.max(held.count());
            }
            (Stage::Ended, _) => {
                record.ended = now;
                *held = NodeList::default();
                self.held.end(place as u32, now);
            }
        }
        self.count(now);
    }

    /// Records the use of the machine from this instant on.
    fn count(&mut self, at: Time) {
        let busy = self.jobs.iter().map(|(_, _, held)| held.count()).sum();
        let is_waiting = |(_, record, _): &&(JobSpec, Record, NodeList)| {
            record.started.is_none() && record.ended == Time::NEVER
        };
        let waiting = self.jobs.iter().filter(is_waiting).count() as u32;
        self.load.retain(|load| load.at != at);
        self.load.push(Load { at, busy, waiting });
    }

    fn finish(mut self) -> Option<(Workload, Outcome)> {
        if self.jobs.is_empty() || self.nodes.is_empty() {
            return None;
        }
        let last = self.last;
        for (place, (spec, record, _)) in self.jobs.iter_mut().enumerate() {
            record.ended = record.ended.min(last);
            self.held.end(place as u32, last);
            if record.started.is_none() {
                record.ending = Ending::Rejected;
            }
            spec.work = Work::Fixed(record.execution());
        }
        self.load.retain(|load| load.at != last);
        self.load.push(Load { at: last, busy: 0, waiting: 0 });
        for piece in &self.held.pieces {
            let time = piece.to.since(piece.from).0 * u64::from(piece.nodes.count);
            self.jobs[piece.job as usize].1.node_time += time;
        }
        let nodes = self.nodes.len() as u32;
        let (jobs, records) = self.jobs.into_iter().map(|(spec, record, _)| (spec, record)).unzip();
        let outcome = Outcome {
            policy: self.policy,
            cluster: Cluster { nodes, cores_per_node: 1 },
            is_shared: false,
            records,
            load: self.load,
            pieces: self.held.pieces,
            counts: self.counts,
        };
        Some((Workload { jobs, nodes: Some(nodes) }, outcome))
    }
}

fn new_job(seen: &Sighting, submitted: Time) -> (JobSpec, Record, NodeList) {
    let spec = JobSpec {
        name: Name::Text(seen.name.clone().into()),
        submitted,
        class: seen.class,
        limits: Limits::exactly(seen.asked),
        share: None,
        priority: 0,
        walltime: seen.walltime,
        work: Work::Fixed(Span::ZERO),
    };
    let record = Record {
        class: seen.class,
        priority: 0,
        asked: seen.asked,
        started_on: 0,
        largest: 0,
        resizes: 0,
        submitted,
        started: None,
        ended: Time::NEVER,
        walltime: seen.walltime,
        node_time: 0,
        ending: Ending::Completed,
    };
    (spec, record, NodeList::default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seen(job: &str, class: Class, stage: Stage, nodes: &[&str]) -> Sighting {
        let nodes = nodes.iter().map(|&node| node.to_owned()).collect();
        let walltime = Span::seconds(60);
        Sighting { job: job.into(), name: job.into(), class, asked: 1, walltime, stage, nodes }
    }

    fn machine() -> Vec<String> {
        ["q0", "q1"].map(str::to_owned).to_vec()
    }

    /// A job grows onto the second node, and exchanges it for another one. Seconds count from 1000
    /// on.
    fn record() -> String {
        let mut recorder = Recorder::default();
        let mut text = String::new();
        let mut look = |second: u64, jobs: Vec<Sighting>| {
            // A new manager for each observation.
            recorder = Recorder::resume(&text).unwrap();
            let at = Time::seconds(1000 + second);
            for line in recorder.observe(at, "egs", &machine(), jobs) {
                text.push_str(&line);
                text.push('\n');
            }
        };
        let since = |second: u64| Stage::Runs(Time::seconds(1000 + second));
        let a = |nodes: &[&str]| seen("a", Class::Malleable, since(0), nodes);
        look(0, vec![seen("a", Class::Rigid, since(0), &["q0"])]);
        look(1, vec![a(&["q0"])]);
        look(10, vec![a(&["q0", "q1"])]);
        look(11, vec![a(&["q0", "q1"])]);
        look(20, vec![a(&["q0", "q1"]), seen("b", Class::Rigid, Stage::Waits, &[])]);
        look(30, vec![a(&["q0"]), seen("b", Class::Rigid, since(29), &["q1"])]);
        look(40, vec![a(&["q0"])]);
        look(50, vec![]);
        text
    }

    fn run(job: &str, begun: u64, ended: u64, node: &str) -> Run {
        let at = |second: u64| Time::seconds(1000 + second);
        Run { job: job.into(), begun: at(begun), ended: at(ended), nodes: vec![node.to_owned()] }
    }

    #[test]
    fn job_between_two_looks_has_run() {
        let mut recorder = Recorder::default();
        let at = |second: u64| Time::seconds(1000 + second);
        let waits = |job| seen(job, Class::Rigid, Stage::Waits, &[]);
        let runs = seen("a", Class::Rigid, Stage::Runs(at(0)), &["q0"]);
        let mut lines = recorder.observe(at(0), "easy", &machine(), vec![runs, waits("b")]);
        lines.extend(recorder.end(vec![run("a", 0, 4, "q0")]));
        lines.extend(recorder.end(vec![run("b", 5, 7, "q1"), run("never", 5, 7, "q1")]));
        lines.extend(recorder.end(vec![run("b", 5, 7, "q1")]));
        lines.extend(recorder.observe(at(9), "easy", &machine(), Vec::new()));
        let (_, outcome) = read(&(lines.join("\n") + "\n")).unwrap();
        let [a, b] = outcome.records[..] else { panic!("{:?}", outcome.records) };
        assert_eq!((a.execution(), a.node_time), (Span::seconds(4), 4_000));
        assert_eq!(
            (b.wait(), b.execution(), b.node_time),
            (Span::seconds(5), Span::seconds(2), 2_000)
        );
    }

    #[test]
    fn jobs_that_ran_at_once_between_looks_overlap() {
        let mut recorder = Recorder::default();
        let at = |second: u64| Time::seconds(1000 + second);
        let waits = |job| seen(job, Class::Rigid, Stage::Waits, &[]);
        let jobs = ["a", "b", "c", "d"].map(waits).to_vec();
        let mut lines = recorder.observe(at(0), "easy", &machine(), jobs);
        // The last one takes the node of the first, and ends at once.
        let runs = [("a", 1, 6, "q0"), ("b", 2, 8, "q1"), ("c", 0, 1, "q0"), ("d", 6, 6, "q0")];
        let runs = runs.map(|(job, begun, ended, node)| run(job, begun, ended, node)).to_vec();
        lines.extend(recorder.end(runs));
        lines.extend(recorder.observe(at(9), "easy", &machine(), Vec::new()));
        let (_, outcome) = read(&(lines.join("\n") + "\n")).unwrap();
        let told: Vec<(Span, u64)> =
            outcome.records.iter().map(|job| (job.execution(), job.node_time)).collect();
        let seconds = Span::seconds;
        assert_eq!(
            told,
            [(seconds(5), 5_000), (seconds(6), 6_000), (seconds(1), 1_000), (seconds(0), 0)]
        );
        assert_eq!(outcome.load.iter().map(|load| load.busy).max(), Some(2));
    }

    #[test]
    fn growth_shrinkage_and_waits_are_read_back() {
        let text = record();
        assert!(text.starts_with(BEGIN), "{text}");
        assert_eq!(text.lines().count(), 9, "a look without a change writes nothing: {text}");
        let (workload, outcome) = read(&text).unwrap();
        assert_eq!((outcome.policy.as_str(), outcome.cluster.nodes), ("egs", 2));
        let (a, b) = (outcome.records[0], outcome.records[1]);
        assert_eq!((a.class, a.started_on, a.largest, a.resizes), (Class::Malleable, 1, 2, 2));
        assert_eq!((a.execution(), a.node_time), (Span::seconds(50), 69_000));
        assert_eq!((b.wait(), b.execution()), (Span::seconds(9), Span::seconds(11)));
        assert_eq!(workload.jobs[1].name, Name::Text("b".into()));
        let steps: Vec<(u64, u32, u32)> =
            outcome.load.iter().map(|load| (load.at.0 / 1000, load.busy, load.waiting)).collect();
        let right =
            [(0, 1, 0), (1, 1, 0), (10, 2, 0), (20, 2, 1), (30, 2, 0), (40, 1, 0), (50, 0, 0)];
        assert_eq!(steps, right);
        assert!((outcome.utilisation() - 0.80).abs() < 1e-9, "{}", outcome.utilisation());
    }

    #[test]
    fn jobs_that_run_on_end_with_the_record() {
        let text = record();
        let (_, outcome) = read(&text[..text.len() - 5]).unwrap();
        assert_eq!(outcome.records[0].ended, Time::seconds(40), "the half line is left out");
    }

    #[test]
    fn text_that_is_no_record_is_refused_with_its_line() {
        assert!(matches!(read(""), Err(RecordError::Empty)));
        let machine = record().lines().next().unwrap().to_owned();
        assert!(matches!(read(&format!("{machine}\n")), Err(RecordError::Empty)));
        let error = read(&format!("{machine}\n{{}}\n")).unwrap_err();
        assert!(error.to_string().starts_with("line 2: "), "{error}");
    }

    proptest! {
        #[test]
        fn damaged_records_are_read_or_refused(at in any::<prop::sample::Index>(), with in any::<u8>()) {
            let mut bytes = record().into_bytes();
            let place = at.index(bytes.len());
            bytes[place] = with;
            if let Ok(text) = String::from_utf8(bytes) {
                let _ = read(&text);
                let _ = Recorder::resume(&text);
            }
        }
    }
}
