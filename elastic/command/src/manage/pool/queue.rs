//! The queue file of a pool, and the hosts with their slots. Pure.

use std::collections::BTreeSet;

use anyhow::{Context, Result, anyhow, bail, ensure};
use elastic::manager::control::is_job_name;
use elastic::manager::slurm::expand_hosts;
use elastic_policy::job::{Class, Limits};
use elastic_policy::sizes::{Sizes, in_file};
use elastic_policy::time::Span;
use serde::Deserialize;

use super::super::span;

/// The expected time of a job without one in the file.
const USUAL_TIME: Span = Span(3_600_000);

/// Largest number of slots in a pool.
const MOST_SLOTS: usize = 1 << 20;

/// A queue of jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// The words that launch a job; empty for `mpirun` with the options of its MPI.
    pub launcher: Vec<String>,
    /// The jobs, in their order.
    pub jobs: Vec<QueuedJob>,
}

/// A job of a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct QueuedJob {
    /// The name of the job and of its world.
    pub name: String,
    /// The words of the command.
    pub command: Vec<String>,
    /// Rigid or malleable.
    pub class: Class,
    /// The sizes in ranks.
    pub limits: Limits,
    /// The expected run time.
    pub time: Span,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    launcher: Vec<String>,
    #[serde(default)]
    job: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    command: Vec<String>,
    ranks: Option<u32>,
    min: Option<u32>,
    max: Option<u32>,
    #[serde(default, deserialize_with = "in_file")]
    sizes: Option<Sizes>,
    time: Option<String>,
}

/// Reads a queue file for a pool of `slots` slots.
pub fn read(text: &str, slots: u32) -> Result<Queue> {
    let File { launcher, job } = toml::from_str(text).map_err(|error| {
        let start = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        anyhow!("line {}: {}", start.matches('\n').count() + 1, error.message())
    })?;
    let mut names = BTreeSet::new();
    let mut jobs = Vec::new();
    for entry in job {
        let name = entry.name.clone();
        ensure!(
            is_job_name(&name),
            "job {name:?}: not a name: it is empty, begins with a dot, or has a / or white space"
        );
        ensure!(names.insert(name.clone()), "job {name:?}: there are two of this name");
        let job = queued(entry).with_context(|| format!("job {name:?}"))?;
        let least = job.limits.min;
        ensure!(least <= slots, "job {name:?}: it needs {least} slots, and the pool has {slots}");
        jobs.push(job);
    }
    ensure!(!jobs.is_empty(), "there is no job: [[job]] begins one");
    Ok(Queue { launcher, jobs })
}

fn queued(entry: Entry) -> Result<QueuedJob> {
    let Entry { name, command, ranks, min, max, sizes, time } = entry;
    ensure!(!command.is_empty(), "command: the list is empty");
    let (class, mut limits) = match (ranks, min, max) {
        (Some(ranks), None, None) if sizes.is_none() => (Class::Rigid, Limits::exactly(ranks)),
        (None, min, Some(max)) => {
            let min = min.unwrap_or(1);
            (Class::Malleable, Limits::between(min, max, min))
        }
        _ => bail!("name either ranks, or max with min and sizes"),
    };
    if let Some(sizes) = sizes {
        let (min, max) = (limits.min, limits.max);
        limits = sizes.limits(min, max, max).with_context(|| {
            format!("no size is left: from {min} to {max}, a million at most, by {sizes:?}")
        })?;
        limits.start = limits.min;
    }
    ensure!(
        limits.min >= 1 && limits.min <= limits.max,
        "no size is left: from {} to {}",
        limits.min,
        limits.max
    );
    let time = match time {
        None => USUAL_TIME,
        Some(text) => {
            let time = elastic::plan::duration(&text);
            span(time.with_context(|| format!("time: {text:?}: a time like 10min is expected"))?)
        }
    };
    Ok(QueuedJob { name, command, class, limits, time })
}

/// The hosts of a pool. Slots are numbered over all hosts, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// The names, each with its number of slots.
    pub hosts: Vec<(String, u32)>,
}

impl Hosts {
    /// Reads a list such as `n1:8,n[2-4]:8`; a host without a number has one slot.
    pub fn read(list: &str) -> Result<Hosts> {
        let mut hosts: Vec<(String, u32)> = Vec::new();
        let mut depth = 0;
        let outside = |letter: char| {
            depth += i32::from(letter == '[') - i32::from(letter == ']');
            letter == ',' && depth == 0
        };
        for item in list.split(outside) {
            let (names, slots) = match item.rsplit_once(':') {
                None => (item, 1),
                Some((names, slots)) => {
                    let slots = slots.parse().ok().filter(|slots| *slots > 0);
                    (
                        names,
                        slots
                            .with_context(|| format!("{item:?}: a number of slots is expected"))?,
                    )
                }
            };
            for name in expand_hosts(names).map_err(anyhow::Error::msg)? {
                ensure!(
                    !hosts.iter().any(|(other, _)| *other == name),
                    "host {name:?} is named twice"
                );
                hosts.push((name, slots));
            }
        }
        let all: usize = hosts.iter().map(|(_, slots)| *slots as usize).sum();
        ensure!(all <= MOST_SLOTS, "{all} slots: at most {MOST_SLOTS} are possible");
        Ok(Hosts { hosts })
    }

    /// Returns the number of slots.
    pub fn slots(&self) -> u32 {
        self.hosts.iter().map(|(_, slots)| slots).sum()
    }

    /// Returns the index of the host of a slot.
    pub fn host_of(&self, slot: u32) -> usize {
        let mut end = 0;
        let is_before = |(_, slots): &&(String, u32)| {
            end += slots;
            end <= slot
        };
        self.hosts.iter().take_while(is_before).count().min(self.hosts.len() - 1)
    }

    /// Returns the numbers of a host's slots.
    pub fn slots_of(&self, host: usize) -> std::ops::Range<u32> {
        let first = self.hosts[..host].iter().map(|(_, slots)| slots).sum();
        first..first + self.hosts[host].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rigid_and_elastic_jobs_are_read_with_their_limits() {
        let text = r#"
            [[job]]
            name = "a"
            command = ["./a", "{start}"]
            min = 2
            max = 9
            sizes = [8, 4, 1, 16]
            time = "2min"
            [[job]]
            name = "b"
            command = ["./b"]
            ranks = 3
        "#;
        let queue = read(text, 8).unwrap();
        let [a, b] = &queue.jobs[..] else { panic!("{queue:?}") };
        let allowed = vec![4, 8];
        assert_eq!(a.limits, Limits { min: 4, max: 8, start: 4, allowed });
        assert_eq!(
            (a.class, a.time, b.class),
            (Class::Malleable, Span::seconds(120), Class::Rigid)
        );
        assert_eq!((&b.limits, b.time), (&Limits::exactly(3), USUAL_TIME));
        let doubling = read(&text.replace("[8, 4, 1, 16]", "\"doubling\""), 8).unwrap();
        assert_eq!(doubling.jobs[0].limits.allowed, [2, 4, 8]);
    }

    #[test]
    fn wrong_queues_are_refused_with_the_job() {
        let job = |more: &str| format!("[[job]]\nname = \"a\"\ncommand = [\"x\"]\n{more}\n");
        for (text, cause) in [
            (String::new(), "there is no job"),
            (job(""), "job \"a\": name either ranks, or max"),
            (job("ranks = 1\nmax = 2"), "job \"a\": name either ranks, or max"),
            (job("ranks = 9"), "job \"a\": it needs 9 slots, and the pool has 8"),
            (job("ranks = 0"), "job \"a\": no size is left"),
            (job("min = 3\nmax = 2"), "job \"a\": no size is left: from 3 to 2"),
            (job("max = 4\nsizes = [7]"), "job \"a\": no size is left"),
            (job("ranks = 1\ntime = \"soon\""), "job \"a\": time: \"soon\""),
            (job("ranks = 1") + &job("ranks = 1"), "job \"a\": there are two of this name"),
            (job("ranks = 1").replace("\"a\"", "\"a/b\""), "job \"a/b\": not a name"),
            (job("ranks = 1\nhosts = 2"), "line 5: unknown field `hosts`"),
            ("launcher = []\nnonsense".to_owned(), "line 2: "),
        ] {
            let error = format!("{:#}", read(&text, 8).unwrap_err());
            assert!(error.contains(cause) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn slots_are_numbered_over_the_hosts() {
        let hosts = Hosts::read("a:2,n[1-2]:3,b").unwrap();
        let names: Vec<&str> = hosts.hosts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((names, hosts.slots()), (vec!["a", "n1", "n2", "b"], 9));
        let of: Vec<usize> = (0..9).map(|slot| hosts.host_of(slot)).collect();
        assert_eq!(of, [0, 0, 1, 1, 1, 2, 2, 2, 3]);
        assert_eq!((hosts.slots_of(0), hosts.slots_of(2), hosts.slots_of(3)), (0..2, 5..8, 8..9));
        for wrong in ["", "a:0", "a:x", "a,a", "n[1", "a,,b"] {
            assert!(Hosts::read(wrong).is_err(), "{wrong}");
        }
    }
}
