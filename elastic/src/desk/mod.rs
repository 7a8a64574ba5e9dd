//! The desk: where the processes of the job ask for what is kept in one place, the registry of process sets.
//!
//! A thread in the process of rank 0 listens, and each process that asks has a thread of its own there, since it may
//! wait for a value. They say lines of JSON, the first of which has a secret that only the job's processes were told
//! through MPI. Rank 0 itself asks by a call.

mod ask;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::agents::Link;
use crate::coordinator::Shared;
use crate::invitation::{Greeting, Invitation};
use crate::member::MemberId;
pub(crate) use ask::{ACCEPTED, Ask, Reply, serve};

/// How long a stranger may say nothing, and how many may do so at once.
const STRANGERS: (Duration, usize) = (Duration::from_secs(5), 64);
/// How long it may take to reach an address.
const REACH: Duration = Duration::from_secs(10);

/// The open desk. It closes when it is dropped.
#[derive(Debug)]
pub(crate) struct Desk {
    state: Arc<State>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct State {
    shared: Arc<Shared>,
    invitation: Invitation,
    visitors: Mutex<Visitors>,
}

#[derive(Debug, Default)]
struct Visitors {
    is_closed: bool,
    strangers: usize,
    streams: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Desk {
    /// Opens it, for the processes of this node only or, with their host's addresses, for those of others.
    pub(crate) fn open(
        shared: Arc<Shared>,
        addresses: Option<Vec<IpAddr>>,
    ) -> std::io::Result<(Self, Invitation)> {
        let here = addresses.is_none();
        let from = if here { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
        let listener = TcpListener::bind((from, 0))?;
        let port = listener.local_addr()?.port();
        let addresses = addresses.unwrap_or_else(|| vec![Ipv4Addr::LOCALHOST.into()]);
        let invitation = Invitation::to(addresses, port)?;
        let visitors = Mutex::default();
        let state = Arc::new(State { shared, invitation: invitation.clone(), visitors });
        let desk = Self {
            state: Arc::clone(&state),
            address: (Ipv4Addr::LOCALHOST, port).into(),
            thread: Some(
                std::thread::Builder::new()
                    .name("elastic-desk".to_owned())
                    .spawn(move || welcome(&listener, &state))?,
            ),
        };
        Ok((desk, invitation))
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let threads = {
            let mut visitors = self.state.visitors();
            visitors.is_closed = true;
            for stream in &visitors.streams {
                let _ = stream.shutdown(std::net::Shutdown::Both);
            }
            std::mem::take(&mut visitors.threads)
        };
        self.state.shared.close();
        // Somebody comes, so that the listening thread looks up.
        let _ = TcpStream::connect_timeout(&self.address, REACH);
        for thread in self.thread.take().into_iter().chain(threads) {
            let _ = thread.join();
        }
    }
}

impl State {
    fn visitors(&self) -> std::sync::MutexGuard<'_, Visitors> {
        self.visitors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn welcome(listener: &TcpListener, state: &Arc<State>) {
    loop {
        let accepted = listener.accept();
        let mut visitors = state.visitors();
        if visitors.is_closed {
            return;
        }
        visitors.threads.retain(|thread| !thread.is_finished());
        let Ok((stream, _)) = accepted else {
            // No descriptors, or a visitor that has gone again.
            drop(visitors);
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        let (Ok(copy), true) = (stream.try_clone(), visitors.strangers < STRANGERS.1) else {
            continue;
        };
        visitors.strangers += 1;
        visitors.streams.retain(|stream| stream.peer_addr().is_ok());
        visitors.streams.push(copy);
        let own = Arc::clone(state);
        let spawned = std::thread::Builder::new()
            .name("elastic-desk".to_owned())
            .spawn(move || receive(stream, &own));
        match spawned {
            Ok(thread) => visitors.threads.push(thread),
            Err(_) => visitors.strangers -= 1,
        }
    }
}

fn receive(stream: TcpStream, state: &State) {
    let known = greet(stream, state);
    state.visitors().strangers -= 1;
    let Some((mut link, birth)) = known else { return };
    while let Ok(Some(ask)) = link.receive::<Ask>() {
        if link.send(&serve(&state.shared, birth, ask)).is_err() {
            return;
        }
    }
    link.close();
}

fn greet(stream: TcpStream, state: &State) -> Option<(Link, MemberId)> {
    stream.set_read_timeout(Some(STRANGERS.0)).ok()?;
    let mut link = Link::new(stream).ok()?;
    let greeting = link.receive::<Greeting>().ok()??;
    let birth = MemberId(greeting.from);
    let known =
        state.invitation.was_for(&greeting) && state.shared.arbiter().process_of(birth).is_some();
    link.wait_for_ever().ok()?;
    known.then_some((link, birth))
}
