//! The state of a job for queries from outside.

use std::collections::BTreeMap;

use super::Arbiter;
use crate::coordinator::{HostStatus, UnitStatus, WorldStatus};
use crate::model::change::Step;
use crate::model::member::UnitId;

impl Arbiter {
    /// Returns the state of the job for queries from outside, without the program's report.
    pub(crate) fn status(&self) -> WorldStatus {
        let hosts = self.nodes.iter().enumerate().map(|(node, host)| HostStatus {
            host: host.host().to_owned(),
            slots: host.slots(),
            ranks: self.ranks_on(node),
        });
        let most = u32::try_from(self.processes.most_named()).unwrap_or(u32::MAX);
        WorldStatus {
            job: self.job.name.clone(),
            epoch: self.changes.epoch(),
            size: self.running.len() as u64,
            capacity: self.capacity() as u64,
            waiting: self.changes.waiting() as u64,
            under_way: self.changes.under_way(),
            step: self.changes.under_way().and_then(|id| self.changes.status(id)),
            next_event: self.journal.next(),
            up_us: u64::try_from(self.now().as_micros()).unwrap_or(u64::MAX),
            hosts: hosts.collect(),
            units: self.units(),
            limits: Some(self.job.bounds.up_to(most)),
            report: None,
            loops: None,
            slurm_job: None,
            log_trouble: self.journal.trouble().map(str::to_owned),
        }
    }

    /// Returns the number of resizes that were committed.
    pub(crate) fn epoch(&self) -> u64 {
        self.changes.epoch()
    }

    /// Returns the seconds that ranks spent in the last resize.
    pub(crate) fn redistribution_seconds(&self) -> Option<f64> {
        self.redistribution_seconds
    }

    /// Returns the seconds from the `Begun` step of the last finalised resize to its end.
    pub(super) fn last_redistribution(&self) -> Option<f64> {
        let steps = &self.changes.events().last()?.steps;
        let (begun, end) = (steps.get(&Step::Begun)?, steps.get(&Step::Finalized)?);
        Some(end.saturating_sub(*begun) as f64 / 1e6)
    }

    /// Returns the units with several ranks.
    fn units(&self) -> Vec<UnitStatus> {
        let mut units: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (rank, &process) in self.running.iter().enumerate() {
            units.entry(self.processes.unit_of(process)).or_default().push(rank as u64);
        }
        let several = units.into_iter().filter(|(_, ranks)| ranks.len() > 1);
        several.map(|(unit, ranks)| UnitStatus { unit: UnitId(unit), ranks }).collect()
    }

    fn ranks_on(&self, node: usize) -> Vec<u64> {
        let here = |(_, process): &(usize, &usize)| self.job.places[**process] == node;
        let ranks = self.running.iter().enumerate().filter(here);
        ranks.map(|(rank, _)| rank as u64).collect()
    }
}
