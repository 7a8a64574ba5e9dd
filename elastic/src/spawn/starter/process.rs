//! A process that spawns others for rank 0, if MPI allows a process no other call during a spawn.
//! It is never a rank, sleeps at a socket between spawns, and ends with the world or with rank 0.
//!
//! It hands over the units that it has spawned: rank 0 gets the same intercommunicator to a unit as
//! if it had spawned the unit itself.

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
use crate::node::process_identity::ProcessIdentity;

/// Time limit for a starter to connect and to receive its first messages.
const COME_LIMIT: Duration = Duration::from_secs(20);

/// Time that a spawn under way may take after rank 0 has ended.
const END_LIMIT: Duration = Duration::from_secs(5);

/// A third of the default share (nice 0) of a processor: next to two busy ranks on two processors,
/// spawns take 3 to 5 ms longer than with an equal share; nice 15, a thirtieth, makes it 15 ms and
/// gains the ranks nothing.
const GIVEN_WAY: &str = "5";

/// Tag for the communicators of a hand-over, which are made one at a time between the same
/// processes.
const TAG: u16 = 1;

/// Order of rank 0 to spawn processes.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    command: String,
    arguments: Vec<String>,
    processes: usize,
    info: Vec<(String, String)>,
    limit: Duration,
    /// Identity of rank 0.
    life: Option<ProcessIdentity>,
}

/// Result of an order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    /// The processes are ready for the hand-over.
    Ready(Vec<ProcessIdentity>),
    NotStarted(String),
    NotReady(String),
    /// The helper has disconnected from the processes.
    Parted,
}

/// Why an order gave no unit.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The launcher's reason.
    NotStarted(String),
    NotReady(String),
    /// The starter has ended.
    Lost(String),
}

/// Keeps a starter for rank 0, one at a time: replaced when it has ended or hangs in a spawn.
#[derive(Debug)]
pub(crate) struct SpawnHelper {
    command: String,
    arguments: Vec<String>,
    info: Vec<(String, String)>,
    current: Mutex<Option<Arc<Starter>>>,
}

impl SpawnHelper {
    /// Creates a helper that starts this command.
    pub(crate) fn new(
        command: String,
        arguments: Vec<String>,
        info: Vec<(String, String)>,
    ) -> Self {
        Self { command, arguments, info, current: Mutex::default() }
    }

    /// Returns the present starter, or a new one; `None` if none can be started.
    pub(crate) fn starter(&self) -> Option<Arc<Starter>> {
        let current = self.current().clone();
        if current.as_ref().is_some_and(|starter| !starter.is_lost()) {
            return current;
        }
        // The lock is not held: MPI may never return from the spawn, and other threads ask
        // meanwhile.
        let new = Starter::employ(&self.command, &self.arguments, &self.info).ok().map(Arc::new);
        self.current().clone_from(&new);
        new
    }

    /// Returns true if rank 0 is inside MPI with the present starter.
    pub(crate) fn is_meeting(&self) -> bool {
        let current = self.current();
        current.as_ref().is_some_and(|starter| starter.is_meeting.load(Ordering::Acquire))
    }

    /// Drops a starter that hangs. The thread waiting for it keeps the link, so that the starter
    /// ends with this process.
    pub(crate) fn abandon(&self) {
        drop(self.take());
    }

    /// Ends the starter: none is needed any more.
    pub(crate) fn dismiss(&self) {
        if let Some(starter) = self.take().and_then(Arc::into_inner) {
            starter.dismiss();
        }
    }

    fn take(&self) -> Option<Arc<Starter>> {
        self.current().take()
    }

    /// Locks the present starter; held only for moments.
    fn current(&self) -> MutexGuard<'_, Option<Arc<Starter>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rank 0's connection to the starter.
#[derive(Debug)]
pub(crate) struct Starter {
    link: Mutex<Link>,
    inter: Intercommunicator,
    /// Rank 0 and the starter.
    peer: Communicator,
    is_lost: AtomicBool,
    /// True while rank 0 is inside MPI with the starter and a unit. If one of those ends there,
    /// rank 0 does not return.
    is_meeting: AtomicBool,
}

impl Starter {
    /// Spawns a starter from rank 0. Other MPI calls of rank 0 stall until it is present.
    ///
    /// # Errors
    /// The cause.
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

    /// Has the starter spawn a unit, and takes the unit over when it is ready.
    pub(super) fn start(&self, request: SpawnRequest, limit: Duration) -> Result<Unit, Trouble> {
        let SpawnRequest { command, arguments, processes, info } = request;
        let order =
            Order { command, arguments, processes, info, limit, life: ProcessIdentity::own() };
        let lost = |error: Error| {
            self.is_lost.store(true, Ordering::Release);
            Trouble::Lost(format!("the starter process has ended: {error}"))
        };
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        link.send(&order).map_err(lost)?;
        match receive_answer(&mut link).map_err(lost)? {
            Answer::Ready(lives) => {
                self.is_meeting.store(true, Ordering::Release);
                let inter = self.take_over();
                self.is_meeting.store(false, Ordering::Release);
                let inter = inter.map_err(|error| Trouble::NotReady(error.to_string()))?;
                // Waits for the disconnect, so that a unit that ends later cannot take the starter
                // down in the middle of it.
                receive_answer(&mut link).map_err(lost)?;
                Ok(Unit { inter, lives })
            }
            Answer::NotStarted(reason) => Err(Trouble::NotStarted(reason)),
            Answer::NotReady(reason) => Err(Trouble::NotReady(reason)),
            Answer::Parted => Err(lost(ErrorKind::InvalidData.into())),
        }
    }

    /// Takes a unit over: the counterpart of the starter's [`hand_over`] and the unit's
    /// [`come_over`].
    fn take_over(&self) -> Result<Intercommunicator, GroupError> {
        let own = Communicator::alone()?;
        let inter = own.create_intercomm(0, &self.peer, 1, TAG)?;
        let all = inter.merge(false)?;
        inter.free()?;
        // The unit's ranks follow rank 0 and the starter.
        let unit = own.create_intercomm(0, &all, 2, TAG)?;
        all.free()?;
        own.free()?;
        Ok(unit)
    }

    /// Returns true if the starter cannot be used any more.
    fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Dismisses the starter, which ends when it finds the link closed.
    fn dismiss(self) {
        let Self { link, inter, peer, .. } = self;
        link.into_inner().unwrap_or_else(PoisonError::into_inner).close();
        // A disconnect would make each side wait for the other.
        let _ = peer.free();
        let _ = inter.free();
    }
}

fn receive_answer(link: &mut Link) -> Result<Answer, Error> {
    link.receive()?.ok_or_else(|| ErrorKind::ConnectionAborted.into())
}

/// Moves a unit over to rank 0, if its first process receives the order. Returns true if it moved;
/// `parent` then leads to rank 0. Collective over the unit.
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

/// Gives the ranks precedence. MPI polls until the spawned process has joined, and the kernel
/// divides processors between sessions, one per process under Hydra: the nice value of a process
/// counts only within its session.
fn give_way() {
    let own = rustix::process::getpid();
    // Only if the session is this process's own: others in it would be slowed, too. A refusal does
    // no harm.
    if rustix::process::getsid(None).is_ok_and(|session| session == own) {
        let _ = std::fs::write("/proc/self/autogroup", GIVEN_WAY);
    }
}

/// Spawns processes for rank 0 until none are needed any more, or rank 0 has ended.
///
/// # Errors
/// Rank 0 cannot be reached.
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
        // If rank 0 has ended, no further order arrives.
        let _ = answers.send(&Answer::Parted);
    }
    drop(alive);
    let _ = listener.join();
    peer.free()
}

/// Receives orders while the other thread is in a spawn, which may never return: the process then
/// ends anyway.
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
            // No other process ends this one, and the launcher waits for it.
            let _ = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            );
        }
    })
}

fn obey(order: Order) -> Result<(Intercommunicator, Vec<ProcessIdentity>), Answer> {
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

/// Declines a unit, which may still reach its ready point and then finds this message.
fn decline(unit: Intercommunicator) {
    let limits = WaitLimits::for_at_most(Duration::from_millis(200));
    let _ = unit.send(&0_u64.to_ne_bytes(), 0, HANDED, &limits);
    let _ = unit.free();
}
