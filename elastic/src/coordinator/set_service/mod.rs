//! The service for the registry of process sets, through which the processes of the job query it in
//! one place.
//!
//! A thread in the process of rank 0 accepts connections; each connected process has its own thread
//! there, since it may wait for a value. Messages are lines of JSON, the first of which contains a
//! secret that the job's processes received through MPI. Rank 0 itself asks by a direct call.

mod ask;

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::coordinator::Shared;
use crate::link::acceptor::Acceptor;
use crate::link::agents::Link;
use crate::link::endpoint::Endpoint;
use crate::model::member::MemberId;
pub(crate) use ask::{ACCEPTED, Ask, Reply, serve};

/// The open service. It closes when it is dropped.
#[derive(Debug)]
pub(crate) struct SetService {
    state: Arc<State>,
    /// Ends the accepting thread.
    end: UnixStream,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct State {
    shared: Arc<Shared>,
    connections: Mutex<Connections>,
}

/// The processes that are connected.
#[derive(Debug, Default)]
struct Connections {
    /// Second ends of the links, for shutting them down, by the number of the connection.
    links: BTreeMap<u64, Link>,
    threads: Vec<JoinHandle<()>>,
}

impl SetService {
    /// Opens the service, for the processes of this node only or, with the host's addresses, for
    /// processes of other nodes.
    pub(crate) fn open(
        shared: Arc<Shared>,
        addresses: Option<Vec<IpAddr>>,
    ) -> std::io::Result<(Self, Endpoint)> {
        let here = addresses.is_none();
        let from = if here { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
        let listener = TcpListener::bind((from, 0))?;
        let port = listener.local_addr()?.port();
        let addresses = addresses.unwrap_or_else(|| vec![Ipv4Addr::LOCALHOST.into()]);
        let endpoint = Endpoint::new(addresses, port)?;
        let acceptor = Acceptor::new(listener, endpoint.clone())?;
        let (end, is_over) = UnixStream::pair()?;
        let state = Arc::new(State { shared, connections: Mutex::default() });
        let own = Arc::clone(&state);
        let thread = std::thread::Builder::new()
            .name("elastic-sets".to_owned())
            .spawn(move || accept(acceptor, &is_over, &own))?;
        Ok((Self { state, end, thread: Some(thread) }, endpoint))
    }
}

impl Drop for SetService {
    fn drop(&mut self) {
        // A byte, not just the descriptor's end: a forked process may have a copy of the
        // descriptor.
        let _ = self.end.write_all(&[0]);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // No thread is added after this point.
        let threads = {
            let mut connections = self.state.connections();
            connections.links.values().for_each(Link::close);
            std::mem::take(&mut connections.threads)
        };
        self.state.shared.close();
        for thread in threads {
            let _ = thread.join();
        }
    }
}

impl State {
    fn connections(&self) -> std::sync::MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn accept(mut acceptor: Acceptor, is_over: &UnixStream, state: &Arc<State>) {
    let mut number = 0;
    while let Ok(Some((link, from))) = acceptor.next(None, Some(is_over)) {
        number += 1;
        let mut connections = state.connections();
        connections.threads.retain(|thread| !thread.is_finished());
        connections.links.insert(number, link.second());
        let own = Arc::clone(state);
        let spawned =
            std::thread::Builder::new().name("elastic-sets".to_owned()).spawn(move || {
                answer(link, MemberId(from), &own.shared);
                own.connections().links.remove(&number);
            });
        match spawned {
            Ok(thread) => connections.threads.push(thread),
            Err(_) => drop(connections.links.remove(&number)),
        }
    }
}

/// Answers a process until the connection or the service closes.
fn answer(mut link: Link, birth: MemberId, shared: &Shared) {
    if shared.arbiter().process_of(birth).is_none() {
        return;
    }
    while let Ok(Some(ask)) = link.receive::<Ask>() {
        if link.send(&serve(shared, birth, ask)).is_err() {
            return;
        }
    }
    link.close();
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::TcpStream;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::coordinator::{Arbiter, Job, Journal};
    use crate::link::acceptor::tests::assert_closed;
    use crate::model::place::{Allowed, Bounds};
    use crate::model::process_table::Limits;

    fn open() -> (SetService, Endpoint) {
        let job = Job {
            name: "test".to_owned(),
            hosts: vec!["a".to_owned()],
            places: vec![0, 0],
            initial_ranks: 2,
            bounds: Bounds::new(1, 2, Allowed::Any).unwrap(),
            limits: Limits::default(),
            placement: None,
        };
        let arbiter = Arbiter::new(job, Journal::default()).unwrap();
        SetService::open(Arc::new(Shared::alone(arbiter)), None).unwrap()
    }

    fn assert_answered(link: &mut Link, birth: MemberId) {
        link.send(&Ask::Member).unwrap();
        let reply = link.receive::<Reply>().unwrap().unwrap();
        assert!(matches!(reply, Reply::Member(Some(member)) if member == birth), "{reply:?}");
    }

    /// Counts this process's descriptors for sockets bound to a port.
    fn descriptors(port: u16) -> usize {
        let port = format!(":{port:04X}");
        let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        let sockets: BTreeSet<String> = table
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .filter(|fields| fields.len() > 9 && fields[1].ends_with(&port))
            .map(|fields| format!("socket:[{}]", fields[9]))
            .collect();
        std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
            .filter(|target| target.to_str().is_some_and(|target| sockets.contains(target)))
            .count()
    }

    #[test]
    fn strangers_leave_members_and_descriptors_alone() {
        let (set_service, endpoint) = open();
        let address = endpoint.first_address().unwrap();
        let births = [MemberId::new(0, 0), MemberId::new(0, 1)];
        let mut early = endpoint.connect(births[0].0).unwrap();
        assert_answered(&mut early, births[0]);
        let before = descriptors(address.port());

        for _ in 0..300 {
            let mut stranger = TcpStream::connect(address).unwrap();
            stranger.write_all(b"hello\n").unwrap();
            assert_closed(&mut stranger);
        }
        assert_eq!(descriptors(address.port()), before);

        // More than the acceptor keeps, with one byte each.
        let slow: Vec<TcpStream> = (0..100)
            .map(|_| {
                let mut stranger = TcpStream::connect(address).unwrap();
                stranger.write_all(b"[").unwrap();
                stranger
            })
            .collect();
        let mut late = endpoint.connect(births[1].0).unwrap();
        assert_answered(&mut late, births[1]);
        assert_answered(&mut early, births[0]);

        let (sender, ended) = channel();
        let dropping = std::thread::spawn(move || {
            drop(set_service);
            let _ = sender.send(());
        });
        ended.recv_timeout(Duration::from_secs(60)).unwrap();
        dropping.join().unwrap();
        assert_eq!(descriptors(address.port()), 0);
        drop(slow);
    }
}
