//! MPI objects: how many the program made at which place, and how many of them it freed.

use super::{Frame, Sites};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

/// Objects of one kind in one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HandleCount {
    /// Name of the kind, such as `datatype`.
    pub kind: &'static str,
    /// Number of objects ever made.
    pub made: u64,
    /// Number of these that were freed.
    pub freed: u64,
    /// Number of these that were not.
    pub alive: u64,
}

/// Objects of one kind that one call of the program made, over all ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HandleSite {
    /// Name of the kind, such as `datatype`.
    pub kind: &'static str,
    /// Function of MPI that made them; `None` where the trace had no room for its name.
    pub mpi_function: Option<Arc<str>>,
    /// Return address of the call.
    pub frame: Frame,
    /// Number of objects ever made.
    pub made: u64,
    /// Number of these that were freed.
    pub freed: u64,
    /// Number of these that were not.
    pub alive: u64,
    /// Sum over the ranks of the largest number alive at once.
    pub alive_peak: u64,
    /// Number of processes that made some.
    pub processes: u32,
    /// Memory that was allocated in these calls and not freed, by component, largest first:
    /// estimates from sampled call stacks, all ranks together.
    pub held: Vec<HandleHeld>,
}

impl HandleSite {
    /// Adds the objects of another call, made by as many processes at most.
    pub fn add(&mut self, other: &HandleSite) {
        self.made = self.made.saturating_add(other.made);
        self.freed = self.freed.saturating_add(other.freed);
        self.alive = self.alive.saturating_add(other.alive);
        self.alive_peak = self.alive_peak.saturating_add(other.alive_peak);
        self.processes = self.processes.max(other.processes);
        for held in &other.held {
            add_held(&mut self.held, &held.component, held.live);
        }
    }

    /// Returns the memory that its objects hold.
    pub fn memory(&self) -> u64 {
        self.held.iter().fold(0, |sum, held| sum.saturating_add(held.live))
    }

    /// Returns the sort key of places: most memory first, then most objects alive, then most made.
    pub fn order(&self) -> Reverse<(u64, u64, u64)> {
        Reverse((self.memory(), self.alive, self.made))
    }
}

/// Memory of one component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HandleHeld {
    /// Its name.
    pub component: Arc<str>,
    /// Estimate in bytes.
    pub live: u64,
}

/// Adds up the objects of one process by kind, in the order of the kinds.
pub fn counts(sites: &[HandleSite]) -> Vec<HandleCount> {
    let mut counts: Vec<HandleCount> = Vec::new();
    for site in sites {
        let HandleSite { kind, made, freed, alive, .. } = *site;
        match counts.iter_mut().find(|count| count.kind == kind) {
            Some(count) => {
                count.made = count.made.saturating_add(made);
                count.freed = count.freed.saturating_add(freed);
                count.alive = count.alive.saturating_add(alive);
            }
            None => counts.push(HandleCount { kind, made, freed, alive }),
        }
    }
    counts
}

/// Adds up places over processes.
#[derive(Debug, Default)]
pub struct CollectHandles {
    sites: Vec<HandleSite>,
    known: HashMap<(&'static str, Option<Arc<str>>, Frame), usize>,
}

impl CollectHandles {
    /// Adds one place of one process.
    pub fn add(&mut self, site: HandleSite) {
        let key = (site.kind, site.mpi_function.clone(), site.frame);
        let Some(at) = self.known.get(&key) else {
            self.known.insert(key, self.sites.len());
            self.sites.push(site);
            return;
        };
        let into = &mut self.sites[*at];
        let processes = into.processes + site.processes;
        into.add(&site);
        into.processes = processes;
    }

    /// Returns the places of all processes, with the memory that their calls hold: those with most
    /// memory first, then those with most objects alive.
    pub fn finish(self, stacks: &Sites) -> Vec<HandleSite> {
        let mut sites = self.sites;
        let mut places: HashMap<Frame, Vec<usize>> = HashMap::new();
        for (at, site) in sites.iter().enumerate() {
            places.entry(site.frame).or_default().push(at);
        }
        for stack in stacks.sites.iter().filter(|stack| stack.live > 0) {
            let found = stack.frames.iter().find_map(|frame| places.get(frame));
            // Calls of several functions have different return addresses, unless one call is
            // reached through a pointer.
            if let Some([at]) = found.map(Vec::as_slice) {
                add_held(&mut sites[*at].held, &stack.component, stack.live);
            }
        }
        for site in &mut sites {
            // What calls leave behind without objects is not held by these.
            if site.alive == 0 {
                site.held.clear();
            }
            site.held.sort_by_key(|held| Reverse(held.live));
        }
        sites.sort_by_key(HandleSite::order);
        sites
    }
}

fn add_held(held: &mut Vec<HandleHeld>, component: &Arc<str>, live: u64) {
    match held.iter_mut().find(|held| held.component == *component) {
        Some(held) => held.live = held.live.saturating_add(live),
        None => held.push(HandleHeld { component: component.clone(), live }),
    }
}

/// Tests, and a place for the tests of other modules.
#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::model::Site;

    /// Returns a place with these numbers made and freed in one process.
    pub fn site(kind: &'static str, offset: u64, made: u64, freed: u64) -> HandleSite {
        HandleSite {
            kind,
            mpi_function: Some("MPI_Type_vector".into()),
            frame: Frame { object: 0, offset },
            made,
            freed,
            alive: made - freed,
            alive_peak: made,
            processes: 1,
            held: Vec::new(),
        }
    }

    fn stack(component: &str, offsets: &[u64], live: u64) -> Site {
        Site {
            allocated_for: None,
            frames: offsets.iter().map(|offset| Frame { object: 0, offset: *offset }).collect(),
            component: component.into(),
            live,
            peak: live,
            peak_max: live,
            at_peak: 0,
            total: live,
            processes: 1,
            course: crate::model::Course::default(),
        }
    }

    #[test]
    fn places_of_two_processes_add_up_and_hold_their_stacks() {
        let mut collect = CollectHandles::default();
        collect.add(site("datatype", 10, 9, 1));
        collect.add(site("datatype", 20, 3, 3));
        collect.add(site("datatype", 10, 7, 2));
        collect.add(site("group", 30, 100, 0));
        let stacks = Sites {
            sites: vec![
                stack("mpi.dep:pal", &[5, 10, 99], 4096),
                stack("mpi.core:mpi", &[6, 10], 100),
                stack("mpi.dep:pal", &[7, 10, 20], 1024),
                stack("mpi.dep:pal", &[20], 7777),
                stack("mpi.dep:pal", &[40], 9999),
            ],
            ..Sites::default()
        };
        let sites = collect.finish(&stacks);
        let told: Vec<_> = sites.iter().map(|s| (s.kind, s.made, s.alive, s.processes)).collect();
        assert_eq!(told, [("datatype", 16, 13, 2), ("group", 100, 100, 1), ("datatype", 3, 0, 1)]);
        let held: Vec<_> = sites[0].held.iter().map(|h| (&*h.component, h.live)).collect();
        assert_eq!(held, [("mpi.dep:pal", 5120), ("mpi.core:mpi", 100)]);
        assert!(sites[1].held.is_empty() && sites[2].held.is_empty());
    }

    #[test]
    fn kinds_of_a_process_are_summed() {
        let sites = [site("group", 1, 4, 1), site("info", 2, 1, 1), site("group", 3, 2, 2)];
        let counts = counts(&sites);
        let told: Vec<_> = counts.iter().map(|c| (c.kind, c.made, c.freed, c.alive)).collect();
        assert_eq!(told, [("group", 6, 3, 3), ("info", 1, 1, 0)]);
    }
}
