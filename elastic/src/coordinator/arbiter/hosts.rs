//! Host names as people, the launcher and the hosts themselves use them, and the number of joiners
//! for each host.

use std::collections::BTreeMap;

use super::{Arbiter, of_place};
use crate::model::change::Cause;
use crate::model::order::ResizePlan;
use crate::model::place::{Choice, Cursor, Node, PlaceError, Placement, Site, spread};

/// Number of processes to start on each host, by the launcher's names.
pub(super) type Parts = Vec<(String, u32)>;

/// The names of hosts. Requests name a host as the launcher does; its own name is known once
/// processes are on it.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// The host's own name for each name of the launcher.
    own: BTreeMap<String, String>,
}

impl Names {
    /// Returns the host's own name, if it is known.
    pub(super) fn own<'a>(&'a self, host: &'a str) -> &'a str {
        self.own.get(host).map_or(host, String::as_str)
    }

    pub(super) fn owns(&self, hosts: &[String]) -> Vec<String> {
        hosts.iter().map(|host| self.own(host).to_owned()).collect()
    }

    /// Returns the launcher's name for a host with this own name.
    pub(super) fn launchers<'a>(&'a self, own: &'a str) -> &'a str {
        let known = self.own.iter().find(|(_, name)| *name == own);
        known.map_or(own, |(launchers, _)| launchers)
    }

    /// Learns the own names of hosts after a resize, from where its spawned processes are. `first`
    /// is the number of the first of them.
    pub(super) fn learn(
        &mut self,
        resize: &ResizePlan,
        mut first: usize,
        hosts: &[String],
        places: &[usize],
    ) {
        for (host, processes) in resize.hosts.iter().zip(&resize.units) {
            let place = resize.renumber(first).and_then(|process| places.get(process));
            if let Some(own) = place.and_then(|&place| hosts.get(place))
                && own != host
            {
                self.own.insert(host.clone(), own.clone());
            }
            first += processes;
        }
    }
}

impl Arbiter {
    /// Distributes `count` spawned processes over hosts, given by any of their names: in turn
    /// unless the program chose another order.
    pub(super) fn deal(
        &self,
        count: u32,
        hosts: &[String],
        cursor: &mut Cursor,
    ) -> Result<Parts, Cause> {
        let site = |host: &String| {
            let own = self.names.own(host);
            let slots = self.processes.slots_of(self.names.launchers(own));
            let processes = self.nodes.by_host(own).map_or(0, Node::slots);
            (own.to_owned(), processes, slots.or_else(|| self.processes.slots_of(host)))
        };
        let known: Vec<(String, u32, Option<u32>)> = hosts.iter().map(site).collect();
        let sites: Vec<Site<'_>> = known
            .iter()
            .map(|(host, processes, slots)| Site { host, processes: *processes, slots: *slots })
            .collect();
        let placement = self.job.placement.unwrap_or(Placement::RoundRobin);
        let chosen = spread(&sites, count, Choice { placement, cursor, loads: &self.loads });
        let chosen = chosen.map_err(|error| match error {
            PlaceError::NoRoom { asked, free, .. } => {
                of_place(PlaceError::NoRoom { asked, free, named: true })
            }
            error => of_place(error),
        })?;
        let here = |at: usize| chosen.iter().filter(|&&other| other == at).count() as u32;
        let part = |at: usize| (self.names.launchers(sites[at].host).to_owned(), here(at));
        let parts = (0..sites.len()).map(part).filter(|(_, count)| *count > 0);
        Ok(parts.collect())
    }

    /// Takes a sample of a node's load: busy processors by processors.
    pub(crate) fn has_load(&mut self, node: usize, load: f64) {
        if let Some(host) = self.job.hosts.get(node) {
            self.loads.add(host, load);
        }
    }

    /// Returns true if joiners are placed by the loads of nodes.
    pub(crate) fn goes_by_load(&self) -> bool {
        self.job.placement == Some(Placement::LeastLoaded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_is_found_by_launcher_name_and_own_name() {
        let mut names = Names::default();
        let resize = ResizePlan {
            units: vec![2, 1],
            hosts: vec!["10.0.0.2".to_owned(), "n3".to_owned()],
            gone: vec![1],
            ..ResizePlan::default()
        };
        let hosts = ["n1", "n2", "n3"].map(str::to_owned);
        names.learn(&resize, 2, &hosts, &[0, 1, 1, 2]);
        assert_eq!((names.own("10.0.0.2"), names.own("n2"), names.own("n3")), ("n2", "n2", "n3"));
        assert_eq!((names.launchers("n2"), names.launchers("n3")), ("10.0.0.2", "n3"));
    }
}
