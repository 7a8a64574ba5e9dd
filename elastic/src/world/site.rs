//! Where the processes of a world meet: the shared memory of each node, and the agents that link
//! the nodes.

use std::io::Error as IoError;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use quo::Context;
use quo::context::CreateOptions;
use quo::group::WaitLimits;
use quo_mpi::communicator::Communicator;

use super::PATIENCE;
pub(super) use crate::coordinator::Head;
use crate::error::Error;
use crate::link::acceptor::Acceptor;
use crate::link::agents::{Agents, Call, Link, serve};
use crate::link::endpoint::{Endpoint, addresses};
use crate::model::order::{Losses, Order};
use crate::node::mailbox::NodeMailbox;

const CALL: &str = "meet";

/// This process's part of the meeting.
#[derive(Debug)]
pub(super) struct Site {
    pub mailbox: Arc<NodeMailbox>,
    /// Only in rank 0.
    pub head: Option<Head>,
    /// The thread that answers rank 0, in the first process of another node.
    pub agent: Option<AgentThread>,
}

/// Answers the coordinator until the link closes, then ends the sleep of parked processes.
#[derive(Debug)]
pub(super) struct AgentThread {
    thread: Option<JoinHandle<()>>,
}

impl Drop for AgentThread {
    fn drop(&mut self) {
        // The coordinator has closed the link, or is about to.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Site {
    /// Opens the site over all live processes. Collective.
    pub(super) fn open(base: &Communicator, limits: &WaitLimits<'_>) -> Result<Self, Error> {
        let group = Error::group(CALL);
        let all = base.group_within(limits).map_err(&group)?;
        let all = Context::create_within(all, CreateOptions::new(), limits);
        let all = all.map_err(Error::context(CALL))?;
        let mut place =
            [all.node_index() as u64, all.node_rank() as u64].map(u64::to_ne_bytes).concat();
        place.extend(host_name());
        let gathered = all.group().allgather(&place, limits).map_err(&group)?;
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes) as usize;
        let gathered = gathered.chunks_exact(16 + HOST_BYTES);
        let places: Vec<(usize, usize)> =
            gathered.clone().map(|place| (number(&place[..8]), number(&place[8..16]))).collect();
        let named = places.iter().zip(gathered).map(|(place, bytes)| (*place, &bytes[16..]));
        let hosts = hosts(named, all.node_count());
        let mailbox = Arc::new(NodeMailbox::open(all).map_err(Error::node(CALL))?);
        let (links, agent) = meet(base, &mailbox, limits)?;
        let head = (base.rank() == 0).then(|| Head {
            hosts,
            places: places.iter().map(|(node, _)| *node).collect(),
            agents: Agents::new(Arc::clone(&mailbox), links, places),
        });
        Ok(Self { mailbox, head, agent })
    }
}

/// Connects the agents of other nodes to the coordinator.
fn meet(
    base: &Communicator,
    mailbox: &Arc<NodeMailbox>,
    limits: &WaitLimits<'_>,
) -> Result<(Vec<Link>, Option<AgentThread>), Error> {
    let nodes = mailbox.context().node_count();
    if nodes == 1 {
        return Ok((Vec::new(), None));
    }
    let failed = |node: usize| {
        move |error: IoError| Error::Agent { call: CALL, node, reason: error.to_string() }
    };
    let mut listener = None;
    let mut endpoint = None;
    if base.rank() == 0 {
        let listens = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(failed(0))?;
        let port = listens.local_addr().map_err(failed(0))?.port();
        let addresses = addresses().map_err(failed(0))?;
        endpoint = Some(Endpoint::new(addresses, port).map_err(failed(0))?);
        listener = Some(listens);
    }
    let bytes = serde_json::to_vec(&endpoint).map_err(|error| failed(0)(error.into()))?;
    let bytes = base.broadcast(bytes, 0, limits).map_err(Error::group(CALL))?;
    let endpoint: Endpoint =
        serde_json::from_slice(&bytes).map_err(|error| failed(0)(error.into()))?;
    let node = mailbox.context().node_index();
    if let Some(listener) = listener {
        let acceptor = Acceptor::new(listener, endpoint).map_err(failed(0))?;
        let links = acceptor.links(nodes - 1, PATIENCE).map_err(failed(0))?;
        return Ok((links, None));
    }
    if mailbox.context().node_rank() != 0 {
        return Ok((Vec::new(), None));
    }
    let link = endpoint.connect(node as u64).map_err(failed(node))?;
    let mailbox = Arc::clone(mailbox);
    let thread = std::thread::Builder::new()
        .name("elastic".to_owned())
        .spawn(move || answer(link, &mailbox))
        .map_err(failed(node))?;
    Ok((Vec::new(), Some(AgentThread { thread: Some(thread) })))
}

fn answer(mut link: Link, mailbox: &NodeMailbox) {
    let mut is_over = false;
    while let Ok(Some(call)) = link.receive::<Call>() {
        if call == Call::Bye {
            is_over = true;
            break;
        }
        if link.send(&serve(mailbox, &call)).is_err() {
            break;
        }
    }
    // No further call or round will arrive, so the sleepers have to be woken.
    if !is_over {
        // Rank 0 has ended without a message.
        mailbox.note_loss(0, false);
        let losses = Losses { counted: vec![0], launched: vec![0] };
        let _ = serve(mailbox, &Call::Post(Order::End(losses)));
    }
    let members = (0..mailbox.context().node_size()).collect();
    let _ = serve(mailbox, &Call::Ring(members));
    let _ = serve(mailbox, &Call::Lower);
}

/// Numbers nodes the same way on all processes, from each process's node before and after a resize:
/// by the number after it, and then nodes on which no process stays.
pub(super) fn number_nodes(known: &[(Option<usize>, Option<usize>)]) -> Vec<usize> {
    let end = known.iter().filter_map(|(_, after)| *after).max().map_or(0, |last| last + 1);
    let number = |&(before, after): &(Option<usize>, Option<usize>)| {
        let of_others = || {
            let mut same = known.iter().filter(|(other, _)| before.is_some() && *other == before);
            same.find_map(|(_, after)| *after)
        };
        after.or_else(of_others).unwrap_or(end + before.unwrap_or(0))
    };
    known.iter().map(number).collect()
}

/// Bytes of a host's name in a message to rank 0.
const HOST_BYTES: usize = 64;

fn host_name() -> [u8; HOST_BYTES] {
    let mut bytes = [0; HOST_BYTES];
    let system = rustix::system::uname();
    let name = system.nodename().to_bytes();
    let length = name.len().min(HOST_BYTES);
    bytes[..length].copy_from_slice(&name[..length]);
    bytes
}

/// Returns a name for every node, from the first process of each. Of nodes with the same name, all
/// but the first get a number appended.
fn hosts<'a>(named: impl Iterator<Item = ((usize, usize), &'a [u8])>, nodes: usize) -> Vec<String> {
    let mut hosts = vec![String::new(); nodes];
    for ((node, node_rank), bytes) in named {
        if node_rank == 0 && node < nodes {
            let name = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
            hosts[node] = String::from_utf8_lossy(name).into_owned();
        }
    }
    for node in 0..nodes {
        let name = hosts[node].clone();
        let taken = |hosts: &[String], name: &str| hosts[..node].iter().any(|host| host == name);
        let mut number = 0;
        while hosts[node].is_empty() || taken(&hosts, &hosts[node]) {
            number += 1;
            hosts[node] = format!("{name}_{number}");
        }
    }
    hosts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_leavers_and_joiners_have_numbers_of_their_own() {
        // Rank 0 stays on node 0; node 1 is left, and the new node 1 is a different node.
        let moved = [(Some(0), Some(0)), (Some(1), None), (Some(1), None), (None, Some(1))];
        assert_eq!(number_nodes(&moved), [0, 3, 3, 1]);
        // One process of node 1 stays there: the leaver on that node gets the same number.
        let halved = [(Some(0), None), (Some(1), Some(0)), (Some(1), None), (None, Some(1))];
        assert_eq!(number_nodes(&halved), [2, 0, 0, 1]);
        assert_eq!(number_nodes(&[]), [0; 0]);
    }

    #[test]
    fn nodes_of_the_same_name_are_told_apart_by_numbers() {
        let places = [(0, 0), (0, 1), (1, 0), (2, 0), (3, 0)];
        let names = [&b"n\0\0"[..], b"x\0\0", b"n\0\0", b"n_1", b"\0\0\0"];
        let hosts = hosts(places.into_iter().zip(names), 4);
        assert_eq!(hosts, ["n", "n_1", "n_1_1", "_1"]);
    }
}
