//! A process that starts others for rank 0, where MPI lets no other call of a process through while it starts some. It is
//! never a rank, sleeps at a socket between two starts, and ends with the world, or with rank 0.
//!
//! It hands over the units that it has started: rank 0 has the same intercommunicator to a unit as if it had started it
//! itself.

use std::io::{Error, ErrorKind};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use quo::group::{GroupError, WaitLimits};
use quo_mpi::communicator::{Communicator, Intercommunicator, SpawnRequest, spawn};
use serde::{Deserialize, Serialize};

use super::{HANDED, Host, Unit, hear_ready, say_host};
use crate::link::acceptor::Acceptor;
use crate::link::agents::Link;
use crate::link::endpoint::{Endpoint, addresses};
use crate::node::process_identity::Life;

/// Time that it may take to come, and to be told.
const COME_LIMIT: Duration = Duration::from_secs(20);

/// Time that a start that is under way may take when nobody is there any more whom it is for.
const END_LIMIT: Duration = Duration::from_secs(5);

/// A third of the usual share of a processor that all want: beside two busy ranks on two, starts take 3 to 5 ms longer
/// than with an equal share, and 15, a thirtieth, makes it 15 ms without leaving the ranks more.
const GIVEN_WAY: &str = "5";

/// For the communicators of a hand-over, none of which is made at the same time as others between the same processes.
const TAG: u16 = 1;

/// Order of rank 0.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    command: String,
    arguments: Vec<String>,
    processes: usize,
    info: Vec<(String, String)>,
    limit: Duration,
    /// Of rank 0.
    life: Option<Life>,
}

/// Result of the order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    /// The processes are ready, and come over.
    Ready(Vec<Life>),
    NotStarted(String),
    NotReady(String),
    /// The helper has disconnected from the processes.
    Parted,
}

/// Why there is no unit.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The launcher's reason.
    NotStarted(String),
    NotReady(String),
    /// The starter is gone.
    Lost(String),
}

/// Has starters for rank 0, one at a time: another one when the last has ended or hangs in a start.
#[derive(Debug)]
pub(crate) struct SpawnHelper {
    command: String,
    arguments: Vec<String>,
    info: Vec<(String, String)>,
    current: Mutex<Option<Arc<Starter>>>,
}

impl SpawnHelper {
    /// Starters are the processes of this command.
    pub(crate) fn new(
        command: String,
        arguments: Vec<String>,
        info: Vec<(String, String)>,
    ) -> Self {
        Self { command, arguments, info, current: Mutex::default() }
    }

    /// The current one, or a new one; none where that cannot be.
    pub(crate) fn starter(&self) -> Option<Arc<Starter>> {
        let current = self.current().clone();
        if current.as_ref().is_some_and(|starter| !starter.is_lost()) {
            return current;
        }
        // MPI may never come back from it, and others ask meanwhile.
        let new = Starter::employ(&self.command, &self.arguments, &self.info).ok().map(Arc::new);
        self.current().clone_from(&new);
        new
    }

    /// Returns true if rank 0 is in MPI with the current one.
    pub(crate) fn is_meeting(&self) -> bool {
        let current = self.current();
        current.as_ref().is_some_and(|starter| starter.is_meeting.load(Ordering::Acquire))
    }

    /// The current one hangs. The thread that waits for it holds the way to it, so that it ends with this process.
    pub(crate) fn give_up(&self) {
        drop(self.take());
    }

    /// None is needed any more.
    pub(crate) fn dismiss(&self) {
        if let Some(starter) = self.take().and_then(Arc::into_inner) {
            starter.dismiss();
        }
    }

    fn take(&self) -> Option<Arc<Starter>> {
        self.current().take()
    }

    /// Held for moments only.
    fn current(&self) -> MutexGuard<'_, Option<Arc<Starter>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rank 0's way to it.
#[derive(Debug)]
pub(crate) struct Starter {
    link: Mutex<Link>,
    inter: Intercommunicator,
    /// Rank 0 and it.
    peer: Communicator,
    is_lost: AtomicBool,
    /// Rank 0 is in MPI with it and a unit. If one of them ends there, it does not come back.
    is_meeting: AtomicBool,
}

impl Starter {
    /// Starts it, from rank 0, whose other calls of MPI stand still until it is there.
    ///
    /// # Errors
    /// Why there is none.
    fn employ(
        command: &str,
        arguments: &[String],
        info: &[(String, String)],
    ) -> Result<Self, Error> {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        let mut known = addresses()?;
        known.push(Ipv4Addr::LOCALHOST.into());
        let endpoint = Endpoint::new(known, listener.local_addr()?.port())?;
        let (command, arguments) = (command.to_owned(), arguments.to_vec());
        let request = SpawnRequest { command, arguments, processes: 1, info: info.to_vec() };
        let inter = spawn(&request).map_err(Error::other)?;
        let limits = WaitLimits::for_at_most(COME_LIMIT);
        say_host(&inter, &Host::SpawnHelper(endpoint.clone()), &limits).map_err(Error::other)?;
        let mut links = Acceptor::new(listener, endpoint)?.links(1, COME_LIMIT)?;
        let link = links.pop().ok_or(ErrorKind::NotConnected)?;
        let peer = inter.merge(false).map_err(Error::other)?;
        Ok(Self {
            link: Mutex::new(link),
            inter,
            peer,
            is_lost: AtomicBool::new(false),
            is_meeting: AtomicBool::new(false),
        })
    }

    /// Has a unit started, and takes it over when it is ready.
    pub(super) fn start(&self, request: SpawnRequest, limit: Duration) -> Result<Unit, Trouble> {
        let SpawnRequest { command, arguments, processes, info } = request;
        let order = Order { command, arguments, processes, info, limit, life: Life::own() };
        let lost = |error: Error| {
            self.is_lost.store(true, Ordering::Release);
            Trouble::Lost(format!("the starter process has ended: {error}"))
        };
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        link.send(&order).map_err(lost)?;
        match hear(&mut link).map_err(lost)? {
            Answer::Ready(lives) => {
                self.is_meeting.store(true, Ordering::Release);
                let inter = self.take_over();
                self.is_meeting.store(false, Ordering::Release);
                let inter = inter.map_err(|error| Trouble::NotReady(error.to_string()))?;
                // One that ends later does not end the starter, too, in the middle of their parting.
                hear(&mut link).map_err(lost)?;
                Ok(Unit { inter, lives })
            }
            Answer::NotStarted(reason) => Err(Trouble::NotStarted(reason)),
            Answer::NotReady(reason) => Err(Trouble::NotReady(reason)),
            Answer::Parted => Err(lost(ErrorKind::InvalidData.into())),
        }
    }

    /// As the starter's [`hand_over`] and the unit's [`come_over`].
    fn take_over(&self) -> Result<Intercommunicator, GroupError> {
        let own = Communicator::alone()?;
        let inter = own.create_intercomm(0, &self.peer, 1, TAG)?;
        let all = inter.merge(false)?;
        inter.free()?;
        // Behind rank 0 and the starter.
        let unit = own.create_intercomm(0, &all, 2, TAG)?;
        all.free()?;
        own.free()?;
        Ok(unit)
    }

    /// Returns true if it cannot be asked any more.
    fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Dismisses the unit: it finds that nobody is there.
    fn dismiss(self) {
        let Self { link, inter, peer, .. } = self;
        link.into_inner().unwrap_or_else(PoisonError::into_inner).close();
        // Not by a disconnect, in which each side waits for the other.
        let _ = peer.free();
        let _ = inter.free();
    }
}

fn hear(link: &mut Link) -> Result<Answer, Error> {
    link.receive()?.ok_or_else(|| ErrorKind::ConnectionAborted.into())
}

/// A unit comes over to rank 0, if its first process has been told so: whether it did, and then by which way. Collective
/// over the unit.
pub(super) fn come_over(
    unit: &Communicator,
    parent: &mut Intercommunicator,
    is_ready: bool,
    limits: &WaitLimits<'_>,
) -> Result<bool, GroupError> {
    let mut comes = false;
    if unit.rank() == 0 && is_ready {
        let told = parent.receive(size_of::<u64>(), 0, HANDED, limits);
        comes = told.is_ok_and(|told| told == 1_u64.to_ne_bytes());
    }
    if unit.broadcast(vec![u8::from(comes)], 0, limits)? != [1] {
        return Ok(false);
    }
    let both = parent.merge(true)?;
    let inter = both.create_intercomm(0, &both, 0, TAG)?;
    let all = inter.merge(true)?;
    inter.free()?;
    both.free()?;
    let rank_0 = unit.create_intercomm(0, &all, 0, TAG)?;
    all.free()?;
    std::mem::replace(parent, rank_0).disconnect()?;
    Ok(true)
}

fn hand_over(unit: Intercommunicator, peer: &Communicator) -> Result<(), GroupError> {
    let both = unit.merge(false)?;
    let inter = both.create_intercomm(0, peer, 0, TAG)?;
    let all = inter.merge(true)?;
    inter.free()?;
    both.free()?;
    all.free()?;
    unit.disconnect()
}

/// Has the ranks run first. MPI polls until the started process has come, and the kernel shares processors out between
/// the sessions of which Hydra makes one for each process: the nice value of a process counts only within its own.
fn give_way() {
    let own = rustix::process::getpid();
    // Others in the session would be held back, too. Refused is as good.
    if rustix::process::getsid(None).is_ok_and(|session| session == own) {
        let _ = std::fs::write("/proc/self/autogroup", GIVEN_WAY);
    }
}

/// Starts processes for rank 0 until it does not need any more, or has ended.
///
/// # Errors
/// Rank 0 is not to be reached.
pub(super) fn serve(
    spawn_helper: &Intercommunicator,
    endpoint: &Endpoint,
) -> Result<(), GroupError> {
    let failed = |error: Error| GroupError::Node { call: "serve", text: error.to_string() };
    give_way();
    let link = endpoint.connect(1).map_err(failed)?;
    let mut answers = link.second();
    let peer = spawn_helper.merge(true)?;
    let (sender, orders) = channel();
    let (alive, ended) = channel();
    let listener = listen(link, sender, ended).map_err(failed)?;
    while let Ok(order) = orders.recv() {
        let ready = match obey(order) {
            Ok(ready) => ready,
            Err(answer) => {
                let _ = answers.send(&answer);
                continue;
            }
        };
        let (unit, lives) = ready;
        if answers.send(&Answer::Ready(lives)).is_err() {
            decline(unit);
            continue;
        }
        let limits = WaitLimits::for_at_most(COME_LIMIT);
        unit.send(&1_u64.to_ne_bytes(), 0, HANDED, &limits)?;
        hand_over(unit, &peer)?;
        // Without rank 0 there is no other order.
        let _ = answers.send(&Answer::Parted);
    }
    drop(alive);
    let _ = listener.join();
    peer.free()
}

/// Hears the orders while the other thread is in a start, which may never come back: then this process ends all the same.
fn listen(
    mut link: Link,
    orders: Sender<Order>,
    ended: Receiver<()>,
) -> Result<JoinHandle<()>, Error> {
    std::thread::Builder::new().name("elastic-starter".to_owned()).spawn(move || {
        while let Ok(Some(order)) = link.receive() {
            if orders.send(order).is_err() {
                return;
            }
        }
        drop(orders);
        if ended.recv_timeout(END_LIMIT) == Err(RecvTimeoutError::Timeout) {
            // Nobody else ends it, and the launcher waits for it.
            let _ = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            );
        }
    })
}

fn obey(order: Order) -> Result<(Intercommunicator, Vec<Life>), Answer> {
    let Order { command, arguments, processes, info, limit, life } = order;
    let begun = Instant::now();
    let request = SpawnRequest { command, arguments, processes, info };
    let unit = spawn(&request).map_err(|error| Answer::NotStarted(error.to_string()))?;
    let limits = WaitLimits::for_at_most(limit.saturating_sub(begun.elapsed()));
    match hear_ready(&unit, &Host::Starter(life), &limits) {
        Ok(lives) => Ok((unit, lives)),
        Err(error) => {
            decline(unit);
            Err(Answer::NotReady(error.to_string()))
        }
    }
}

/// Declines a unit, which may yet come to its ready point and then finds this message.
fn decline(unit: Intercommunicator) {
    let limits = WaitLimits::for_at_most(Duration::from_millis(200));
    let _ = unit.send(&0_u64.to_ne_bytes(), 0, HANDED, &limits);
    let _ = unit.free();
}
