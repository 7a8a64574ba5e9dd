//! The outcome of a simulation.

use serde::Serialize;

use elastic_policy::job::Class;
use elastic_policy::nodes::{Interval, NodeList};
use elastic_policy::state::Cluster;
use elastic_policy::time::{Span, Time};

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The job did all its work.
    Completed,
    /// The job was ended at its walltime.
    TimedOut,
    /// The scheduler ended the best-effort job; its work is lost.
    Stopped,
    /// The job can never run on this machine and was not submitted.
    Rejected,
}

/// The life of a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Record {
    /// The freedom that the job left to the scheduler.
    pub class: Class,
    /// The user class.
    pub priority: i32,
    /// The size that the user requested, in nodes.
    pub asked: u32,
    /// The size at the start, in nodes.
    pub started_on: u32,
    /// The largest size, in nodes.
    pub largest: u32,
    /// The number of changes of size.
    pub resizes: u32,
    /// The instant of submission.
    pub submitted: Time,
    /// The instant of the start; `None` if the job was rejected.
    pub started: Option<Time>,
    /// The instant of the end.
    pub ended: Time,
    /// The user's estimate of the run time.
    pub walltime: Span,
    /// The node time used, in node milliseconds; for a part of a node, its fraction of the cores.
    pub node_time: u64,
    /// How the job ended.
    pub ending: Ending,
}

impl Record {
    /// Returns the time from submission to start.
    #[must_use]
    pub fn wait(&self) -> Span {
        self.started.map_or(Span::ZERO, |started| started.since(self.submitted))
    }

    /// Returns the time from start to end.
    #[must_use]
    pub fn execution(&self) -> Span {
        self.started.map_or(Span::ZERO, |started| self.ended.since(started))
    }

    /// Returns the time from submission to end.
    #[must_use]
    pub fn completion(&self) -> Span {
        self.started.map_or(Span::ZERO, |_| self.ended.since(self.submitted))
    }
}

/// The use of the machine from an instant on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Load {
    /// The instant.
    pub at: Time,
    /// The number of nodes that jobs hold, exclusively or shared.
    pub busy: u32,
    /// The number of waiting jobs.
    pub waiting: u32,
}

/// Nodes that a job held for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Piece {
    /// The job's index in the workload.
    pub job: u32,
    /// The nodes.
    pub nodes: Interval,
    /// The instant of receipt.
    pub from: Time,
    /// The instant of return.
    pub to: Time,
}

/// The number of decisions by kind, and of instants with something to decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Number of instants with an event.
    pub instants: u64,
    /// Number of starts.
    pub starts: u64,
    /// Number of growths.
    pub growths: u64,
    /// Number of shrinkages.
    pub shrinkages: u64,
    /// Best-effort jobs that were ended.
    pub stops: u64,
    /// Number of reservations made or moved.
    pub reservations: u64,
}

/// The outcome of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The name of the policy.
    pub policy: String,
    /// The machine.
    pub cluster: Cluster,
    /// True if jobs shared nodes.
    pub is_shared: bool,
    /// The life of each job, in the order of the workload.
    pub records: Vec<Record>,
    /// The use of the machine over time, if it was kept.
    pub load: Vec<Load>,
    /// The nodes of each job over time, if they were kept, in order of return.
    pub pieces: Vec<Piece>,
    /// The decisions.
    pub counts: Counts,
}

impl Outcome {
    /// Returns the first submission and the last end.
    #[must_use]
    pub fn bounds(&self) -> (Time, Time) {
        let submitted = self.records.iter().map(|record| record.submitted).min();
        let ended = self.records.iter().map(|record| record.ended).max();
        (submitted.unwrap_or(Time::ZERO), ended.unwrap_or(Time::ZERO))
    }

    /// Returns the share of the machine's node time that jobs held, between the first submission and the last end.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        let (from, to) = self.bounds();
        let used: f64 = self.records.iter().map(|record| record.node_time as f64).sum();
        let available = to.since(from).0 as f64 * f64::from(self.cluster.nodes);
        if available > 0.0 { used / available } else { 0.0 }
    }
}

/// The nodes that running jobs hold now, with the instants of receipt.
#[derive(Debug, Default)]
pub(crate) struct Held {
    jobs: std::collections::BTreeMap<u32, Vec<(Interval, Time)>>,
    pub(crate) pieces: Vec<Piece>,
}

impl Held {
    pub(crate) fn gain(&mut self, job: u32, nodes: &NodeList, now: Time) {
        let parts = nodes.intervals().iter().map(|&part| (part, now));
        self.jobs.entry(job).or_default().extend(parts);
    }

    pub(crate) fn lose(&mut self, job: u32, nodes: &NodeList, now: Time) {
        let Some(held) = self.jobs.get_mut(&job) else { return };
        for lost in nodes.intervals() {
            let mut kept = Vec::new();
            for &(part, from) in held.iter() {
                let first = part.first.max(lost.first);
                let end = part.end().min(lost.end());
                if first >= end {
                    kept.push((part, from));
                    continue;
                }
                let nodes = Interval { first, count: end - first };
                self.pieces.push(Piece { job, nodes, from, to: now });
                if part.first < first {
                    kept.push((Interval { first: part.first, count: first - part.first }, from));
                }
                if end < part.end() {
                    kept.push((Interval { first: end, count: part.end() - end }, from));
                }
            }
            *held = kept;
        }
    }

    pub(crate) fn end(&mut self, job: u32, now: Time) {
        for (nodes, from) in self.jobs.remove(&job).unwrap_or_default() {
            self.pieces.push(Piece { job, nodes, from, to: now });
        }
    }
}
