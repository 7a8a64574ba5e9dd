//! The figures of one outcome.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::simulate::{Counts, Ending, Outcome, Record};
use elastic_policy::time::Span;

/// Shorter times count as this long in a slowdown, as usual in the literature.
const SHORTEST: Span = Span(10_000);

/// The distribution of times, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The value that half of the jobs do not exceed.
    pub median: f64,
    /// The value that 95 % of the jobs do not exceed.
    pub p95: f64,
    /// The largest value.
    pub max: f64,
}

impl Spread {
    /// Returns the distribution of times; all zero if there are none.
    #[must_use]
    pub fn of(mut times: Vec<Span>) -> Spread {
        times.sort_unstable();
        let Some(max) = times.last() else { return Spread::default() };
        // The smallest value that this share of the values does not exceed.
        let at = |share: f64| {
            let place = (times.len() as f64 * share).ceil() as usize;
            times[place.saturating_sub(1)].as_seconds()
        };
        let sum: f64 = times.iter().map(|time| time.as_seconds()).sum();
        let mean = sum / times.len() as f64;
        Spread { mean, median: at(0.5), p95: at(0.95), max: max.as_seconds() }
    }
}

/// The figures of the jobs of one class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// The class, with the user class if there are several.
    pub name: String,
    /// The number of jobs that ran.
    pub jobs: usize,
    /// The times from submission to start.
    pub wait: Spread,
    /// The times from start to end.
    pub execution: Spread,
    /// The times from submission to end.
    pub completion: Spread,
    /// The mean of completion over execution, with at least ten seconds for the latter.
    pub slowdown: f64,
    /// The number of changes of size.
    pub resizes: u64,
}

/// The figures of one outcome.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The policy.
    pub policy: String,
    /// The nodes of the machine.
    pub nodes: u32,
    /// The cores of a node, if jobs shared nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_cores: Option<u32>,
    /// The number of jobs of the workload.
    pub jobs: usize,
    /// The number of jobs that ended at their walltime.
    pub timed_out: usize,
    /// The number of jobs that the policy ended.
    pub stopped: usize,
    /// The number of jobs that can never run on this machine.
    pub rejected: usize,
    /// The seconds from the first submission to the last end.
    pub makespan: f64,
    /// The share of the machine's node time that jobs held.
    pub utilisation: f64,
    /// The figures of all jobs that ran.
    pub all: Group,
    /// The figures by class, if there are several.
    pub classes: Vec<Group>,
    /// The decisions.
    pub counts: Counts,
}

impl Summary {
    /// Returns the figures of an outcome.
    #[must_use]
    pub fn of(outcome: &Outcome) -> Summary {
        let count =
            |ending| outcome.records.iter().filter(|record| record.ending == ending).count();
        let ran: Vec<&Record> =
            outcome.records.iter().filter(|record| record.started.is_some()).collect();
        let priorities: BTreeSet<i32> = ran.iter().map(|record| record.priority).collect();
        let mut classes: BTreeMap<_, Vec<&Record>> = BTreeMap::new();
        for record in &ran {
            classes.entry((record.class, record.priority)).or_default().push(record);
        }
        let classes: Vec<Group> = classes
            .into_iter()
            .map(|((class, priority), records)| {
                let class = format!("{class:?}").to_lowercase();
                let name = match priorities.len() {
                    1 => class,
                    _ => format!("{class}, priority {priority}"),
                };
                Group::of(name, &records)
            })
            .collect();
        let (from, to) = outcome.bounds();
        Summary {
            policy: outcome.policy.clone(),
            nodes: outcome.cluster.nodes,
            shared_cores: outcome.is_shared.then_some(outcome.cluster.cores_per_node),
            jobs: outcome.records.len(),
            timed_out: count(Ending::TimedOut),
            stopped: count(Ending::Stopped),
            rejected: count(Ending::Rejected),
            makespan: to.since(from).as_seconds(),
            utilisation: outcome.utilisation(),
            all: Group::of("all".to_owned(), &ran),
            classes: if classes.len() > 1 { classes } else { Vec::new() },
            counts: outcome.counts,
        }
    }
}

impl Summary {
    /// Returns a sentence about each kind of jobs that did not run as intended, and about changes
    /// of size.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let rejected = match self.shared_cores {
            None => ("needs more nodes than there are", "need more nodes than there are"),
            Some(_) => ("needs more than there is", "need more than there is"),
        };
        for (count, one, many) in [
            (self.rejected, rejected.0, rejected.1),
            (self.timed_out, "ended at its walltime", "ended at their walltime"),
            (self.stopped, "was stopped for others", "were stopped for others"),
        ] {
            match count {
                0 => {}
                1 => notes.push(format!("1 job {one}")),
                _ => notes.push(format!("{count} jobs {many}")),
            }
        }
        let Counts { growths, shrinkages, .. } = self.counts;
        if growths + shrinkages > 0 {
            notes.push(format!("{growths} growths, {shrinkages} shrinkages"));
        }
        notes
    }
}

impl Group {
    fn of(name: String, records: &[&Record]) -> Group {
        let spread = |time: fn(&Record) -> Span| {
            Spread::of(records.iter().map(|record| time(record)).collect())
        };
        let slowdown = |record: &&Record| {
            let longest = |span: Span| span.max(SHORTEST).as_seconds();
            longest(record.completion()) / longest(record.execution())
        };
        let sum: f64 = records.iter().map(slowdown).sum();
        Group {
            name,
            jobs: records.len(),
            wait: spread(Record::wait),
            execution: spread(Record::execution),
            completion: spread(Record::completion),
            slowdown: if records.is_empty() { 0.0 } else { sum / records.len() as f64 },
            resizes: records.iter().map(|record| u64::from(record.resizes)).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_has_the_values_that_shares_do_not_exceed() {
        let spread = Spread::of((1..=100).rev().map(Span::seconds).collect());
        let expected = Spread { mean: 50.5, median: 50.0, p95: 95.0, max: 100.0 };
        assert_eq!(spread, expected);
        assert_eq!(Spread::of(Vec::new()), Spread::default());
        assert_eq!(Spread::of(vec![Span::seconds(3)]).p95, 3.0);
    }
}
