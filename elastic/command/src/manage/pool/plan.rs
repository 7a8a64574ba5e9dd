//! Converts the jobs of a pool to a snapshot for the scheduler, and its decisions to requests.
//! Pure.

use std::collections::{BTreeMap, BTreeSet};

use elastic::change::RequestKind;
use elastic::manager::control::wire::{Call, Many};
use elastic::manager::{HostStatus, WorldStatus};
use elastic_lab::record::{self, Sighting};
use elastic_policy::action::{Action, Choice};
use elastic_policy::job::{Class, Limits};
use elastic_policy::live::{Decided, Seen, Snapshot, Stage};
use elastic_policy::memory::{NodeRoom, TooLittleMemory};
use elastic_policy::nodes::NodeList;
use elastic_policy::time::Time;

use super::super::measured;
use super::super::memory::{self, Footprints};
use super::super::orders::{Change, Open, Orders, is_busy};
use super::folder::{Fate, Start};
use super::queue::{Hosts, QueuedJob};

/// The change of a job that is under way: the number of slots gained or lost, by host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flight {
    /// The direction.
    pub change: Change,
    /// Hosts as indices, with numbers of slots.
    pub parts: BTreeMap<usize, u32>,
}

/// The state of a pool at one instant.
#[derive(Debug)]
pub struct View<'a> {
    /// The jobs of the queue.
    pub jobs: &'a [QueuedJob],
    /// Their states.
    pub fates: &'a [Fate],
    /// The statuses of the jobs that answer.
    pub statuses: &'a BTreeMap<String, WorldStatus>,
    /// The changes that are under way.
    pub flights: &'a BTreeMap<String, Flight>,
    /// The hosts.
    pub hosts: &'a Hosts,
    /// The name of this machine.
    pub own: &'a str,
    /// The memory of jobs and hosts, if shrinks must fit.
    pub memory: Option<&'a Memory>,
}

/// The memory of jobs and hosts.
#[derive(Debug, Default)]
pub struct Memory {
    /// The reports of the jobs.
    pub footprints: Footprints,
    /// The bytes available on hosts, by host index.
    pub available: BTreeMap<usize, u64>,
}

/// A snapshot with the meaning of its numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Pictured {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// The index in the queue of each job of the snapshot.
    pub jobs: Vec<usize>,
    /// The jobs, by index, that are not shrunk further, with the cause.
    pub too_large: Vec<(usize, TooLittleMemory)>,
}

/// Makes a snapshot. Times are since `origin`.
pub fn picture(view: &View<'_>, orders: &Orders, (origin, now): (Time, Time)) -> Pictured {
    let mut taken = Taken { hosts: view.hosts, taken: BTreeSet::new(), beyond: view.hosts.slots() };
    let (mut jobs, mut indices, mut too_large) = (Vec::new(), Vec::new(), Vec::new());
    // Jobs with slots known by number first.
    let mut fixed = BTreeMap::new();
    for (index, (job, fate)) in view.jobs.iter().zip(view.fates).enumerate() {
        if let Fate::Running(start) = fate
            && !view.statuses.contains_key(&job.name)
        {
            taken.taken.extend(&start.slots);
            fixed.insert(index, NodeList::of(&start.slots));
        }
    }
    for (index, (job, fate)) in view.jobs.iter().zip(view.fates).enumerate() {
        let mut limits = job.limits.clone();
        let (mut class, mut mpi_ratio) = (job.class, None);
        let stage = match fate {
            Fate::Ended(..) => continue,
            Fate::Waiting => Stage::Waiting { planned: None },
            Fate::Running(start) => {
                let status = view.statuses.get(&job.name);
                let flight = view.flights.get(&job.name);
                let (mut nodes, mut end) = (fixed.remove(&index).unwrap_or_default(), None);
                let mut leaving = NodeList::default();
                match status {
                    None => class = Class::Rigid,
                    Some(status) => {
                        nodes = taken.ranks(status, view);
                        narrow(&mut limits, status);
                        orders.narrow(&job.name, nodes.count(), &mut limits, now);
                        let cause = fitting(&job.name, status, view, &mut limits);
                        too_large.extend(cause.map(|cause| (index, cause)));
                        (mpi_ratio, end) = measured(status, origin, now);
                        match flight {
                            Some(Flight { change: Change::Grow, parts }) => {
                                class = Class::Rigid;
                                nodes.append(&taken.coming(parts));
                            }
                            Some(Flight { change: Change::Shrink, parts }) => {
                                leaving = going(&nodes, parts, view.hosts);
                                mpi_ratio = None;
                            }
                            // The request is not this manager's.
                            None if is_busy(status) => class = Class::Rigid,
                            None => {}
                        }
                    }
                }
                let since = relative(start, origin);
                Stage::Running { since, nodes, leaving, end }
            }
        };
        let (name, walltime) = (job.name.clone(), job.time);
        jobs.push(Seen { name, class, limits, walltime, stage, mpi_ratio });
        indices.push(index);
    }
    let snapshot = Snapshot { now: Time(now.since(origin).0), nodes: taken.beyond, jobs };
    Pictured { snapshot, jobs: indices, too_large }
}

/// Returns the names of all slots: host and number.
pub fn slot_names(hosts: &Hosts) -> Vec<String> {
    let of_host = |(host, slots): &(String, u32)| {
        let host = host.clone();
        (0..*slots).map(move |slot| format!("{host}:{slot}"))
    };
    hosts.hosts.iter().flat_map(of_host).collect()
}

/// Lists the waiting and running jobs, with the slots of the present ranks.
pub fn sightings(view: &View<'_>, now: Time) -> Vec<Sighting> {
    let names = slot_names(view.hosts);
    // Requested changes have not happened yet. Times are since 1970.
    let view = View { flights: &BTreeMap::new(), ..*view };
    let Pictured { snapshot, .. } = picture(&view, &Orders::default(), (Time::ZERO, now));
    let seen = |job: Seen| {
        let (stage, held) = match job.stage {
            Stage::Waiting { .. } => (record::Stage::Waits, NodeList::default()),
            Stage::Running { since, nodes, .. } => (record::Stage::Runs(since), nodes),
        };
        let beyond = |slot: u32| format!("slot {slot}");
        let name = |slot: u32| names.get(slot as usize).cloned().unwrap_or_else(|| beyond(slot));
        let of_queue = view.jobs.iter().find(|queued| queued.name == job.name);
        Sighting {
            job: job.name.clone(),
            class: of_queue.map_or(job.class, |queued| queued.class),
            asked: of_queue.map_or(job.limits.start, |queued| queued.limits.start),
            name: job.name,
            walltime: job.walltime,
            stage,
            nodes: held.iter().map(name).collect(),
        }
    };
    snapshot.jobs.into_iter().map(seen).collect()
}

/// Narrows the limits of a job to the sizes at which its data fit on the hosts of its lowest ranks.
/// Returns the cause if any sizes were removed.
fn fitting(
    job: &str,
    status: &WorldStatus,
    view: &View<'_>,
    limits: &mut Limits,
) -> Option<TooLittleMemory> {
    let memory = view.memory?;
    let kept = |size: u32| {
        let stay = |host: &&HostStatus| host.ranks.iter().any(|rank| *rank < u64::from(size));
        let room = |host: &HostStatus| {
            let ranks = host.ranks.iter().filter(|rank| **rank < u64::from(size)).count() as u32;
            let place = index_of(&host.host, view.hosts, view.own);
            let free = place.and_then(|place| memory.available.get(&place).copied());
            // Unknown memory counts as sufficient.
            NodeRoom { name: host.host.clone(), ranks, free: free.unwrap_or(u64::MAX) }
        };
        status.hosts.iter().filter(stay).map(room).collect()
    };
    let size = u32::try_from(status.size).unwrap_or(u32::MAX);
    memory::narrow(&memory.footprints.of(job)?, size, limits, kept)
}

/// Returns the change requested by an earlier manager. `None` if it cannot be determined.
pub fn adopted(open: &[Open], status: &WorldStatus, hosts: &Hosts, own: &str) -> Option<Flight> {
    let mut flight: Option<Flight> = None;
    for (_, asked) in open {
        let index = |name: &String| index_of(name, hosts, own);
        let (change, parts) = match (asked.kind, &asked.on[..]) {
            (RequestKind::Grow(ranks), [host]) => (Change::Grow, vec![(index(host)?, ranks)]),
            (RequestKind::Shrink(ranks), []) => {
                let named: Vec<usize> = asked.from.iter().filter_map(index).collect();
                let mut places: Vec<(u64, usize)> = Vec::new();
                for host in &status.hosts {
                    let place = index(&host.host)?;
                    if named.is_empty() || named.contains(&place) {
                        places.extend(host.ranks.iter().map(|rank| (*rank, place)));
                    }
                }
                places.sort_unstable();
                let last = places.iter().rev().take(ranks as usize);
                (Change::Shrink, last.map(|(_, place)| (*place, 1)).collect())
            }
            _ => return None,
        };
        let flight = flight.get_or_insert(Flight { change, parts: BTreeMap::new() });
        if flight.change != change {
            return None;
        }
        for (host, ranks) in parts {
            *flight.parts.entry(host).or_default() += ranks;
        }
    }
    flight
}

fn relative(start: &Start, origin: Time) -> Time {
    Time(start.at.since(origin).0)
}

/// The slots in use.
struct Taken<'a> {
    hosts: &'a Hosts,
    taken: BTreeSet<u32>,
    /// The number of the next slot for ranks on hosts without a free slot.
    beyond: u32,
}

impl Taken<'_> {
    fn take(&mut self, host: Option<usize>) -> u32 {
        let mut slots = host.map_or(0..0, |host| self.hosts.slots_of(host));
        match slots.find(|slot| !self.taken.contains(slot)) {
            Some(slot) => {
                self.taken.insert(slot);
                slot
            }
            None => {
                self.beyond += 1;
                self.beyond - 1
            }
        }
    }

    /// Takes a slot for each rank of a job, in the order of the ranks.
    fn ranks(&mut self, status: &WorldStatus, view: &View<'_>) -> NodeList {
        let mut places: Vec<(u64, Option<usize>)> = Vec::new();
        for host in &status.hosts {
            let index = index_of(&host.host, view.hosts, view.own);
            places.extend(host.ranks.iter().map(|rank| (*rank, index)));
        }
        places.sort_unstable();
        let slots: Vec<u32> = places.into_iter().map(|(_, host)| self.take(host)).collect();
        NodeList::of(&slots)
    }

    fn coming(&mut self, parts: &BTreeMap<usize, u32>) -> NodeList {
        let mut slots = Vec::new();
        for (host, count) in parts {
            slots.extend((0..*count).map(|_| self.take(Some(*host))));
        }
        NodeList::of(&slots)
    }
}

/// Returns the last slots of a job on these hosts; never its first slot.
fn going(nodes: &NodeList, parts: &BTreeMap<usize, u32>, hosts: &Hosts) -> NodeList {
    let mut parts = parts.clone();
    let slots: Vec<u32> = nodes.iter().skip(1).collect();
    let mut going = Vec::new();
    for slot in slots.into_iter().rev().filter(|slot| *slot < hosts.slots()) {
        if let Some(left) = parts.get_mut(&hosts.host_of(slot)).filter(|left| **left > 0) {
            *left -= 1;
            going.push(slot);
        }
    }
    going.reverse();
    NodeList::of(&going)
}

/// Returns the host of the pool to which a job's name for it refers.
fn index_of(name: &str, hosts: &Hosts, own: &str) -> Option<usize> {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let here = |name: &str| if name == "localhost" { short(own) } else { short(name) };
    hosts.hosts.iter().position(|(host, _)| here(host) == here(name))
}

/// Narrows the limits from the queue by the job's own.
fn narrow(limits: &mut Limits, status: &WorldStatus) {
    let most = u32::try_from(status.capacity).unwrap_or(u32::MAX);
    limits.max = limits.max.min(most);
    let Some(own) = &status.limits else { return };
    let Ok(bounds) = own.bounds() else { return };
    let sizes: Vec<u32> = (limits.min..=limits.max)
        .filter(|size| limits.allows(*size) && bounds.allows(*size))
        .collect();
    let is_whole = sizes.len() as u64 == u64::from(limits.max.saturating_sub(limits.min)) + 1;
    (limits.min, limits.max) = match (sizes.first(), sizes.last()) {
        (Some(first), Some(last)) => (*first, *last),
        _ => (limits.min, limits.min),
    };
    limits.allowed = if is_whole { Vec::new() } else { sizes };
}

/// The requests that carry out a decision, and the resulting change.
pub type Requests = (Flight, Vec<Call>);

/// Makes the requests for a decision about a running job. `None` if its allowed sizes do not fit
/// the hosts.
pub fn requests(
    decided: &Decided,
    job: &QueuedJob,
    status: &WorldStatus,
    hosts: &Hosts,
    own: &str,
) -> Option<Requests> {
    let (change, nodes, grace) = match &decided.action {
        Action::Grow { nodes: Choice::Nodes(nodes), .. } => (Change::Grow, nodes, None),
        Action::Shrink { nodes: Choice::Nodes(nodes), grace, .. } => {
            (Change::Shrink, nodes, *grace)
        }
        _ => return None,
    };
    let mut parts: BTreeMap<usize, u32> = BTreeMap::new();
    for slot in nodes.iter().filter(|slot| *slot < hosts.slots()) {
        *parts.entry(hosts.host_of(slot)).or_default() += 1;
    }
    let name = |host: usize| {
        let known =
            status.hosts.iter().find(|known| index_of(&known.host, hosts, own) == Some(host));
        known.map_or_else(|| hosts.hosts[host].0.clone(), |known| known.host.clone())
    };
    let names = |hosts: &mut dyn Iterator<Item = usize>| hosts.map(name).collect::<Vec<String>>();
    let (grace_ms, why) = (grace.map(|grace| grace.0), Some(decided.reason.clone()));
    let many = Many { grace_ms, why, ..Many::default() };
    let calls = match change {
        Change::Shrink => {
            let from = names(&mut parts.keys().copied());
            vec![Call::Shrink(Many { ranks: parts.values().sum(), from, ..many })]
        }
        // Sizes between two allowed ones are refused.
        Change::Grow if parts.len() > 1 && !job.limits.allowed.is_empty() => return None,
        Change::Grow => parts
            .iter()
            .map(|(host, ranks)| {
                let on = names(&mut std::iter::once(*host));
                Call::Grow(Many { ranks: *ranks, on, ..many.clone() })
            })
            .collect(),
    };
    Some((Flight { change, parts }, calls))
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
