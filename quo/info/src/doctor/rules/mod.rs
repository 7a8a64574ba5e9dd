//! Recognises situations in what was seen: pure functions of the facts.
//!
//! floors: mpi = node = openmp = libraries = variables

mod libraries;
mod mpi;
mod node;
mod openmp;
mod variables;

use std::collections::BTreeMap;

use super::facts::{Facts, Process};
use super::knowledge;

/// A situation that was recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recognised {
    /// Its name in the table.
    pub id: &'static str,
    /// The value that shows it.
    pub value: String,
    /// The ranks that it concerns; empty if it concerns the node.
    pub ranks: Vec<u64>,
}

/// Collects situations.
#[derive(Default)]
struct Collector {
    all: Vec<Recognised>,
}

impl Collector {
    /// Adds a situation of the node, or of the whole job.
    fn add(&mut self, id: &'static str, value: impl Into<String>) {
        self.all.push(Recognised { id, value: value.into(), ranks: Vec::new() });
    }

    /// Adds a situation of the software in this version, if that has it.
    fn add_for(&mut self, id: &'static str, version: Option<&str>, value: impl Into<String>) {
        if knowledge::named(id).is_none_or(|it| it.concerns(version)) {
            self.add(id, value);
        }
    }

    /// Adds a situation for each value that some processes have.
    fn each(
        &mut self,
        facts: &Facts,
        id: &'static str,
        value: impl Fn(&Process) -> Option<String>,
    ) {
        let mut ranks_of: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for process in facts.processes() {
            if let Some(value) = value(process) {
                ranks_of.entry(value).or_default().push(process.rank);
            }
        }
        let are_ranks = !facts.ranks.is_empty();
        self.all.extend(ranks_of.into_iter().map(|(value, ranks)| Recognised {
            id,
            value,
            ranks: if are_ranks { ranks } else { Vec::new() },
        }));
    }
}

/// Returns the situations of these facts, the most important first.
pub fn recognise(facts: &Facts) -> Vec<Recognised> {
    let mut collector = Collector::default();
    node::recognise(facts, &mut collector);
    variables::recognise(facts, &mut collector);
    openmp::recognise(facts, &mut collector);
    libraries::recognise(facts, &mut collector);
    mpi::recognise(facts, &mut collector);
    let mut all = collector.all;
    all.sort_by_key(|it| knowledge::named(it.id).map(|situation| situation.level));
    all
}

#[cfg(test)]
pub(crate) mod examples {
    use quo::CpuSet;

    use super::*;

    /// Returns two bound ranks on a machine on which nothing is wrong.
    pub fn healthy() -> Facts {
        let mut facts = Facts::default();
        let machine = &mut facts.machine;
        machine.online = CpuSet::from_range(0..4);
        machine.threads_per_core = 1;
        machine.core_kinds = 1;
        machine.shared.path = "/dev/shm".to_owned();
        machine.shared.exists = true;
        machine.shared.free = 8 << 30;
        facts.here = Process { ranks: 1, mask: CpuSet::from_range(0..4), ..Process::default() };
        facts.ranks = (0..2)
            .map(|rank| Process {
                rank,
                ranks: 2,
                mask: CpuSet::from_range(2 * rank as usize..2 * rank as usize + 2),
                ..Process::default()
            })
            .collect();
        facts
    }

    /// Returns the names of what is recognised in the healthy job after a change.
    pub fn recognised(change: impl FnOnce(&mut Facts)) -> Vec<&'static str> {
        let mut facts = healthy();
        change(&mut facts);
        recognise(&facts).into_iter().map(|it| it.id).collect()
    }

    /// Sets a variable of all processes.
    pub fn set(facts: &mut Facts, name: &str, value: &str) {
        for process in facts.ranks.iter_mut().chain([&mut facts.here]) {
            process.environment.insert(name.to_owned(), value.to_owned());
        }
    }

    /// Adds objects to all ranks.
    pub fn load(facts: &mut Facts, names: &[&str]) {
        for rank in &mut facts.ranks {
            rank.objects.extend(names.iter().map(|name| format!("/usr/lib/{name}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::examples::{healthy, recognised, set};
    use super::*;

    #[test]
    fn healthy_job_has_no_situation() {
        assert_eq!(recognise(&healthy()), []);
    }

    #[test]
    fn errors_come_first_and_name_their_ranks() {
        let mut facts = healthy();
        set(&mut facts, "QUO_WAIT", "mpi");
        facts.ranks[1].environment.insert("OMP_NUM_THREADS".to_owned(), "0".to_owned());
        let all = recognise(&facts);
        let first = Recognised {
            id: "openmp-zero-threads",
            value: "OMP_NUM_THREADS=0".to_owned(),
            ranks: vec![1],
        };
        assert_eq!(all.first(), Some(&first));
    }

    #[test]
    fn every_situation_of_the_rules_is_in_the_table() {
        let sources = [
            include_str!("libraries.rs"),
            include_str!("mpi.rs"),
            include_str!("node.rs"),
            include_str!("openmp.rs"),
            include_str!("variables.rs"),
        ];
        let quoted = |id: &str| sources.iter().any(|text| text.contains(&format!("\"{id}\"")));
        for situation in knowledge::all() {
            assert!(quoted(&situation.id), "no rule recognises {}", situation.id);
        }
        // The other direction: whatever an example recognises has an entry.
        for id in recognised(|facts| set(facts, "QUO_TOPOLOGY", "pack:2 core:2 pu:1")) {
            assert!(knowledge::named(id).is_some(), "{id}");
        }
    }
}
