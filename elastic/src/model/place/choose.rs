//! Nodes for joiners.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Loads, Node, NodeState, Nodes, PlaceError};
use crate::model::member::NodeId;

/// Order in which joiners are placed on hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Hosts fill up one after the other, and as few as possible are in use. Huber 2021, section
    /// 7.2.
    #[default]
    Stack,
    /// One to each host in turn, continuing where the last growth stopped. Cera 2012, section 4.1.
    RoundRobin,
    /// Each to the host with the lowest load. Cera 2012, section 4.2.
    LeastLoaded,
}

impl fmt::Display for Placement {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Placement::Stack => "stack",
            Placement::RoundRobin => "round-robin",
            Placement::LeastLoaded => "least-loaded",
        })
    }
}

impl FromStr for Placement {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Placement, PlaceError> {
        let all = [Placement::Stack, Placement::RoundRobin, Placement::LeastLoaded];
        let found = all.into_iter().find(|placement| placement.to_string() == text);
        found.ok_or_else(|| PlaceError::NoPlacement { text: text.to_owned() })
    }
}

/// Position of round robin. Kept from one growth to the next, so that many small growths spread as
/// well as a large one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The host that was chosen last.
    last: Option<String>,
}

impl Cursor {
    /// Renames the last host.
    pub(crate) fn rename(&mut self, name: impl FnOnce(&str) -> String) {
        self.last = self.last.take().map(|last| name(&last));
    }
}

/// A host for joiners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site<'a> {
    /// Name of the host.
    pub host: &'a str,
    /// Number of processes on the host.
    pub processes: u32,
    /// Number of processes that the host takes, one for each core; `None` if the number is not
    /// known, or cores may be shared.
    pub slots: Option<u32>,
}

/// Rule for choosing hosts.
#[derive(Debug)]
pub struct Choice<'a> {
    /// The order.
    pub placement: Placement,
    /// Position of round robin. Changes only if there is room for all joiners.
    pub cursor: &'a mut Cursor,
    /// Loads for [`Placement::LeastLoaded`]; hosts without samples count by processes per slot.
    pub loads: &'a Loads,
}

/// Chooses a host for each of `count` joiners, as positions in `sites`. No host gets more processes
/// than it has slots.
///
/// ```
/// use elastic::place::{Choice, Cursor, Placement, Loads, Site, spread};
/// let sites = ["a", "b", "c"].map(|host| Site { host, processes: 0, slots: Some(2) });
/// let (mut cursor, loads) = (Cursor::default(), Loads::default());
/// let mut choose = |count, placement| {
///     spread(&sites, count, Choice { placement, cursor: &mut cursor, loads: &loads }).unwrap()
/// };
/// assert_eq!(choose(3, Placement::Stack), [0, 0, 1]);
/// assert_eq!(choose(2, Placement::RoundRobin), [0, 1]);
/// assert_eq!(choose(2, Placement::RoundRobin), [2, 0]);
/// ```
///
/// # Errors
/// [`PlaceError::NoRoom`].
pub fn spread(sites: &[Site<'_>], count: u32, how: Choice<'_>) -> Result<Vec<usize>, PlaceError> {
    let Choice { placement, cursor, loads } = how;
    // Names may occur twice: each host is chosen by its first occurrence.
    let is_first = |at: usize| sites[..at].iter().all(|other| other.host != sites[at].host);
    let mut joined = vec![0; sites.len()];
    let is_open = |at: usize, joined: &[u32]| {
        let taken = u64::from(sites[at].processes) + u64::from(joined[at]);
        is_first(at) && sites[at].slots.is_none_or(|slots| taken < u64::from(slots))
    };
    let mut last =
        cursor.last.as_ref().and_then(|host| sites.iter().position(|site| site.host == host));
    let mut chosen = Vec::new();
    for placed in 0..count {
        let mut open = (0..sites.len()).filter(|&at| is_open(at, &joined));
        let next = match placement {
            Placement::Stack => open.next(),
            Placement::RoundRobin => {
                let after = last.map_or(0, |last| last + 1);
                open.min_by_key(|&at| (at < after, at))
            }
            Placement::LeastLoaded => {
                let load = |at: usize| {
                    let site = &sites[at];
                    let cores = f64::from(site.slots.unwrap_or(1).max(1));
                    let before = f64::from(site.processes) / cores;
                    loads.mean(site.host).unwrap_or(before) + f64::from(joined[at]) / cores
                };
                open.min_by(|&a, &b| load(a).total_cmp(&load(b)).then(a.cmp(&b)))
            }
        };
        let Some(next) = next else {
            return Err(PlaceError::NoRoom { asked: count, free: placed, named: false });
        };
        joined[next] += 1;
        last = Some(next);
        chosen.push(next);
    }
    if let (Placement::RoundRobin, Some(last)) = (placement, last) {
        cursor.last = Some(sites[last].host.to_owned());
    }
    Ok(chosen)
}

/// Chooses the node of each of `count` joiners, in the order in which they are appended.
///
/// `hosts` names the allowed hosts; empty means all available nodes.
///
/// # Errors
/// [`PlaceError::NoRoom`]; [`PlaceError::NoSuchHost`] and [`PlaceError::NotAvailable`] for a named
/// host.
pub fn place<'a>(
    nodes: &'a Nodes,
    count: u32,
    hosts: &[String],
    how: Choice<'_>,
) -> Result<Vec<NodeId>, PlaceError> {
    let eligible = eligible(nodes, hosts)?;
    let site = |node: &&'a Node| Site {
        host: node.host(),
        processes: node.slots() - node.free(),
        slots: Some(node.slots()),
    };
    let sites: Vec<Site<'_>> = eligible.iter().map(site).collect();
    let chosen = spread(&sites, count, how).map_err(|error| match error {
        PlaceError::NoRoom { asked, free, .. } => {
            PlaceError::NoRoom { asked, free, named: !hosts.is_empty() }
        }
        error => error,
    })?;
    Ok(chosen.into_iter().map(|at| eligible[at].id()).collect())
}

/// Available nodes, or the nodes of the named hosts, in ascending order.
fn eligible<'a>(nodes: &'a Nodes, hosts: &[String]) -> Result<Vec<&'a Node>, PlaceError> {
    if hosts.is_empty() {
        return Ok(nodes.iter().filter(|node| node.state() == NodeState::Available).collect());
    }
    let mut found = Vec::new();
    for host in hosts {
        let missing = || PlaceError::NoSuchHost { call: "place", host: host.clone() };
        let node = nodes.by_host(host).ok_or_else(missing)?;
        if node.state() != NodeState::Available {
            return Err(PlaceError::NotAvailable { host: host.clone(), state: node.state() });
        }
        found.push(node);
    }
    found.sort_unstable_by_key(|node| node.id());
    found.dedup_by_key(|node| node.id());
    Ok(found)
}
