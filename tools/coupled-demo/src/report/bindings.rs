//! On which CPUs and with how many threads each phase ran.

use std::collections::BTreeMap;

use coupled::result::RunResult;
use coupled::timeline::Phase;

/// Ranks that ran a phase alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Binding {
    pub phase: Phase,
    pub ranks: String,
    pub cpus: String,
    pub threads: usize,
}

/// The bindings of a run; moving data is done under the binding of L0 and left out.
pub fn of(run: &RunResult) -> Vec<Binding> {
    let mut groups: BTreeMap<(Phase, String, usize), Vec<usize>> = BTreeMap::new();
    for record in &run.rank_records {
        for interval in &record.intervals {
            if interval.phase == Phase::Remap {
                continue;
            }
            let key = (interval.phase, interval.cpus.clone(), interval.threads);
            let ranks = groups.entry(key).or_default();
            if ranks.last() != Some(&record.rank) {
                ranks.push(record.rank);
            }
        }
    }
    groups
        .into_iter()
        .map(|((phase, cpus, threads), ranks)| Binding {
            phase,
            ranks: ranks.into_iter().collect::<quo::CpuSet>().to_string(),
            cpus,
            threads,
        })
        .collect()
}
