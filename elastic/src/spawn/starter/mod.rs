//! Spawns processes while the ranks continue: one spawn per unit, each of which is ready before any
//! rank is notified.

mod destination;
mod disconnect;
mod environment;
mod hung_spawn;
mod launch_hosts;
mod process;
mod program;
mod refusal;
mod slots;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use quo::group::{GroupError, WaitLimits, allgather_bytes};
use quo_mpi::communicator::{Communicator, Intercommunicator, SpawnRequest, spawn};
use quo_mpi::{Family, Identity};
use serde::{Deserialize, Serialize};

use crate::link::endpoint::Endpoint;
use crate::model::change::{Cause, CauseKind};
use crate::model::order::ResizePlan;
use crate::node::env_marker::EnvMarker;
use crate::node::liveness::Joiner;
use crate::node::process_identity::ProcessIdentity;
use crate::spawn::host_probe::HostProbe;
pub(crate) use environment::wrapped;
pub(crate) use hung_spawn::{Ended, HungSpawn, outlive};
pub(crate) use launch_hosts::LaunchHosts;

use destination::Destination;
pub(crate) use process::SpawnHelper;
use process::Starter;
pub(crate) use program::own_command;
pub(crate) use refusal::end_launcher;
pub(crate) use slots::{Slots, Started};

/// Tags of messages between rank 0 and the first process of a unit, over the spawn's
/// intercommunicator.
const READY: u16 = 7;
const LENGTH: u16 = 8;
const WELCOME: u16 = 9;
const COMING: u16 = 10;
const DECIDED: u16 = 11;
const LIVES: u16 = 12;
const HOST: u16 = 13;
const HOST_LENGTH: u16 = 14;
/// From a [`Starter`] to the unit.
const HANDED: u16 = 15;

/// Time that a ready unit may take to answer.
const COMING_LIMIT: Duration = Duration::from_secs(10);

/// Command and options for spawning processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpawnCommand {
    pub command: String,
    pub arguments: Vec<String>,
    pub info: Vec<(String, String)>,
    pub host_key: HostKey,
    pub host_probe: HostProbe,
    /// Time from its start until a unit must be ready.
    pub limit: Duration,
    /// Handling of a spawn from which MPI does not return.
    pub hung_spawn: HungSpawn,
    /// True if there may be more processes than slots, so that a hung process takes no slot from
    /// others.
    pub oversubscribe: bool,
    /// The hosts of a launcher that dies when asked for other hosts, if they are known.
    pub hosts: Option<LaunchHosts>,
    /// True if the processes of an unfinished spawn are killed when rank 0 ends.
    pub is_bound: bool,
    /// The slots of a launcher that ends the job if a spawn finds too few.
    pub slots: Option<Slots>,
    /// Advice for launching the job, added to the errors of failed spawns.
    pub advice: Option<&'static str>,
}

impl SpawnCommand {
    /// Time without a ready unit after which the launcher counts as stuck in a spawn.
    pub(crate) fn stuck_after(&self) -> Duration {
        self.limit.saturating_add(Duration::from_secs(2))
    }

    /// Returns the launcher's name of a host.
    ///
    /// # Errors
    /// The launcher is known to lack the host.
    fn launchers_name(&self, host: &str) -> Result<String, Cause> {
        let no_capacity = |detail| Cause::new(CauseKind::NoCapacity, detail);
        let name = self.hosts.as_ref().map(|hosts| hosts.name(host).map_err(no_capacity));
        name.unwrap_or_else(|| Ok(host.to_owned()))
    }
}

/// Form in which a launcher is given the host of a spawn.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum HostKey {
    /// The name alone: any host with Hydra, one from mpirun's own list with Open MPI 4.
    #[default]
    Name,
    /// The name with the number of processes, which Open MPI 5 otherwise takes as one.
    NameAndSlots,
}

impl HostKey {
    /// Returns the form for this MPI. `add-host` is only for
    /// [new nodes](crate::model::process_table::NewNodes): Open MPI 4's daemons never learn of a
    /// daemon added later, and Open MPI 5's launcher loses it.
    pub(crate) fn of(mpi: &Identity) -> Self {
        match (mpi.family(), mpi.major()) {
            (Family::OpenMpi, Some(5..)) => Self::NameAndSlots,
            _ => Self::Name,
        }
    }

    fn value(self, host: &str, processes: usize) -> String {
        match self {
            Self::Name => host.to_owned(),
            Self::NameAndSlots => format!("{host}:{processes}"),
        }
    }
}

/// Why the processes of a resize could not be spawned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub cause: Cause,
    /// True if the launcher starts nothing any more and does not end with the job.
    pub loses_launcher: bool,
}

impl From<Cause> for Failure {
    fn from(cause: Cause) -> Self {
        Self { cause, loses_launcher: false }
    }
}

/// Processes that were spawned together and wait at their ready point.
#[derive(Debug)]
pub(crate) struct Unit {
    pub inter: Intercommunicator,
    lives: Vec<ProcessIdentity>,
}

/// Parent of a spawned process; sent to the child before it reports ready.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Host {
    /// Rank 0, with its identity.
    Rank(Option<ProcessIdentity>),
    /// A [`Starter`], which hands the child over to rank 0 when it is ready.
    Starter(Option<ProcessIdentity>),
    /// Rank 0, which makes the child a [`Starter`].
    SpawnHelper(Endpoint),
}

/// Message to a ready unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Welcome {
    /// The ranks have entered the resize: join.
    Join(Box<Invited>),
    /// The unit is not needed any more.
    Go,
}

/// What a unit needs in order to join.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Invited {
    pub resize: ResizePlan,
    /// Index of the unit in the resize.
    pub unit: usize,
    /// The rank of its first process among all live ones.
    pub first: usize,
    /// Identifies contexts over the world.
    pub tag: u64,
    /// Port at which to meet the others; `None` over a bridge.
    pub port: Option<String>,
    /// Largest possible number of ranks.
    pub most: usize,
    /// Endpoint of the registry of process sets, if the world has them.
    pub directions: Option<Endpoint>,
    /// The name of rank 0's process, if a process that dies without
    /// [`World::end`](crate::World::end) ends the job.
    #[serde(default)]
    pub guards: Option<String>,
    /// Rank 0 and all joiners.
    pub joiners: Vec<Joiner>,
}

/// The ready units of a spawn, available to the thread that abandons the spawn.
#[derive(Debug, Default)]
pub(crate) struct Ready(Mutex<Vec<Unit>>);

impl Ready {
    fn push(&self, unit: Unit) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(unit);
    }

    pub(crate) fn take(&self) -> Vec<Unit> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Spawns the units of a resize and waits until all are ready: all or none. Calls `goes_on` with
/// the unit in progress. The number of the start is in the [`EnvMarker`] of the spawned processes.
///
/// # Errors
/// The cause; processes spawned before it have ended or are ending.
pub(crate) fn start(
    spawn_command: &SpawnCommand,
    resize: &ResizePlan,
    number: u64,
    (ready, started): (&Ready, &Started),
    starter: Option<&Starter>,
    mut goes_on: impl FnMut(usize),
) -> Result<Vec<Unit>, Failure> {
    // Hosts are checked before any spawn: launchers may end the job over a host that does not
    // answer.
    for (at, host) in resize.hosts.iter().enumerate() {
        if !resize.brought && !resize.hosts[..at].contains(host) {
            goes_on(0);
            let unreachable = |detail| Cause::new(CauseKind::Unreachable, detail);
            spawn_command.host_probe.check_host(host).map_err(unreachable)?;
            spawn_command.launchers_name(host)?;
        }
    }
    // New nodes bring their own.
    if let Some(slots) = spawn_command.slots.filter(|_| !resize.brought) {
        goes_on(0);
        started.wait_for_slots(slots, resize)?;
    }
    for (unit, &processes) in resize.units.iter().enumerate() {
        goes_on(unit);
        let destination = Destination::of(resize, unit);
        let marker = EnvMarker::new(number, unit);
        match start_one(spawn_command, processes, &destination, &marker, starter) {
            Ok(unit) => {
                started.add(&unit.lives);
                ready.push(unit);
            }
            Err(failure) => {
                ready.take().into_iter().for_each(Unit::send_away);
                return Err(failure);
            }
        }
    }
    Ok(ready.take())
}

fn start_one(
    spawn_command: &SpawnCommand,
    processes: usize,
    destination: &Destination<'_>,
    marker: &EnvMarker,
    starter: Option<&Starter>,
) -> Result<Unit, Failure> {
    let mut info = spawn_command.info.clone();
    marker.put(quo_mpi::running(), &mut info);
    let host = destination.host();
    if host.is_some() {
        info.retain(|(key, _)| key != "host");
    }
    let is_open_mpi = matches!(quo_mpi::running().family(), Family::OpenMpi);
    match *destination {
        Destination::Any => {}
        Destination::Known(host) => {
            let host = spawn_command.launchers_name(host)?;
            info.push(("host".to_owned(), spawn_command.host_key.value(&host, processes)));
        }
        // Open MPI gives a node as many slots as the value says, one without a number.
        Destination::New { host, all, is_first } if is_open_mpi => {
            let key = if is_first { "add-host" } else { "host" };
            info.push((key.to_owned(), HostKey::NameAndSlots.value(host, all)));
        }
        Destination::New { host, .. } => {
            info.push(("host".to_owned(), HostKey::Name.value(host, processes)));
        }
    }
    let failed = |reason: String| Failure::from(Cause::new(CauseKind::SpawnFailed, reason));
    let refused = |error: &dyn std::fmt::Display| {
        let loses_launcher = refusal::loses_launcher(quo_mpi::running());
        let after = if loses_launcher { refusal::AFTER } else { "" };
        Failure { loses_launcher, ..failed(failure(error, host) + after) }
    };
    let is_elsewhere = |(key, _): &(String, String)| {
        matches!(&**key, "host" | "hosts" | "add-host" | "path" | "wdir" | "hostfile")
    };
    if !info.iter().any(is_elsewhere) {
        program::check_program(&spawn_command.command).map_err(failed)?;
    }
    let request = SpawnRequest {
        command: spawn_command.command.clone(),
        arguments: spawn_command.arguments.clone(),
        processes,
        info,
    };
    let begun = Instant::now();
    let not_ready = |error: String| {
        let after = begun.elapsed();
        let mut detail = if after < spawn_command.limit {
            let told = spawn_command.hung_spawn.deal_with(marker).told;
            let after = after.as_secs_f64();
            format!(
                "{processes} processes were started and are lost after {after:.1} s: {error}{told}"
            )
        } else {
            let limit = spawn_command.limit.as_secs();
            format!("{processes} processes were started and not ready within {limit} s: {error}")
        };
        if let Some(advice) = spawn_command.advice {
            detail += &format!("; {advice}");
        }
        Failure::from(Cause::new(CauseKind::JoinerLost, detail))
    };
    if let Some(starter) = starter {
        return starter.start(request, spawn_command.limit).map_err(|trouble| match trouble {
            process::Trouble::NotStarted(error) => refused(&error),
            process::Trouble::NotReady(error) => not_ready(error),
            process::Trouble::Lost(error) => failed(error),
        });
    }
    let bound = if spawn_command.is_bound { hung_spawn::Bound::to(marker) } else { None };
    let free = |bound: Option<hung_spawn::Bound>| {
        if let Some(bound) = bound {
            bound.release();
        }
    };
    let inter = match spawn(&request) {
        Ok(inter) => inter,
        Err(error) => {
            free(bound);
            return Err(refused(&error));
        }
    };
    let limits = WaitLimits::for_at_most(spawn_command.limit.saturating_sub(begun.elapsed()));
    let ready = hear_ready(&inter, &Host::Rank(ProcessIdentity::own()), &limits);
    // A ready unit knows rank 0 and notices its end.
    free(bound);
    match ready {
        Ok(lives) => Ok(Unit { inter, lives }),
        Err(error) => {
            // The unit may still reach its ready point, where it finds this message.
            Unit { inter, lives: Vec::new() }.send_away();
            Err(not_ready(error.to_string()))
        }
    }
}

fn failure(error: &dyn std::fmt::Display, host: Option<&str>) -> String {
    match host {
        Some(host) if matches!(quo_mpi::running().family(), Family::OpenMpi) => format!(
            "{error}: mpirun starts processes only on hosts of its own list with free slots, by the names there; \
             is {host} one?"
        ),
        Some(host) => format!("{error}: on {host}"),
        None => error.to_string(),
    }
}

fn hear_ready(
    inter: &Intercommunicator,
    host: &Host,
    limits: &WaitLimits<'_>,
) -> Result<Vec<ProcessIdentity>, GroupError> {
    // The unit needs this message in order to notice the end of its parent.
    say_host(inter, host, limits)?;
    let bytes = receive_bytes(inter, (READY, LIVES), limits)?;
    Ok(serde_json::from_slice(&bytes).unwrap_or_default())
}

fn say_host(
    inter: &Intercommunicator,
    host: &Host,
    limits: &WaitLimits<'_>,
) -> Result<(), GroupError> {
    let host = serde_json::to_vec(host).unwrap_or_default();
    say(inter, (HOST_LENGTH, HOST), &host, limits)
}

/// Receives bytes of any length, after a message with their length.
fn receive_bytes(
    inter: &Intercommunicator,
    (length, bytes): (u16, u16),
    limits: &WaitLimits<'_>,
) -> Result<Vec<u8>, GroupError> {
    let number = inter.receive(size_of::<u64>(), 0, length, limits)?;
    let number = number.try_into().map_or(0, u64::from_ne_bytes);
    inter.receive(usize::try_from(number).unwrap_or(0), 0, bytes, limits)
}

fn say(
    inter: &Intercommunicator,
    (length, bytes): (u16, u16),
    what: &[u8],
    limits: &WaitLimits<'_>,
) -> Result<(), GroupError> {
    inter.send(&(what.len() as u64).to_ne_bytes(), 0, length, limits)?;
    inter.send(what, 0, bytes, limits)
}

impl Unit {
    /// Fails if this host knows that a process of the unit has ended.
    pub(crate) fn check_liveness(&self) -> Result<(), GroupError> {
        all_live(&self.lives)
    }

    /// Identities of its processes in rank order, if the kernel lists them.
    pub(crate) fn lives(&self) -> &[ProcessIdentity] {
        &self.lives
    }

    /// Disconnects from the unit after it has joined.
    pub(crate) fn part(self, deadline: Option<Instant>) -> Result<(), GroupError> {
        let Self { inter, lives } = self;
        let watch = || all_live(&lives);
        inter.disconnect_within(&WaitLimits { deadline, check_peers: &watch })
    }

    /// Sends a message to the unit's first process.
    fn tell(&self, welcome: &Welcome, limits: &WaitLimits<'_>) -> Result<(), GroupError> {
        let bytes = serde_json::to_vec(welcome).unwrap_or_default();
        say(&self.inter, (LENGTH, WELCOME), &bytes, limits)
    }

    /// Asks the unit to join, and waits for its answer. The unit joins once
    /// [`decide`](Self::decide) confirms that all units are present.
    ///
    /// # Errors
    /// The unit has ended, or does not answer: then no process may wait for it to join.
    pub(crate) fn call(&self, invited: Invited) -> Result<(), GroupError> {
        // Some MPIs try for a long time to reach a process that has ended.
        self.check_liveness()?;
        let watch = || self.check_liveness();
        let limits = WaitLimits { check_peers: &watch, ..WaitLimits::for_at_most(COMING_LIMIT) };
        self.tell(&Welcome::Join(Box::new(invited)), &limits)?;
        self.inter.receive(size_of::<u64>(), 0, COMING, &limits).map(drop)
    }

    /// Confirms or withdraws the request to join.
    pub(crate) fn decide(&self, comes: bool) {
        if self.check_liveness().is_ok() {
            let watch = || self.check_liveness();
            let limits =
                WaitLimits { check_peers: &watch, ..WaitLimits::for_at_most(COMING_LIMIT) };
            let _ = self.inter.send(&u64::from(comes).to_ne_bytes(), 0, DECIDED, &limits);
        }
    }

    /// Dismisses the unit, which is not needed any more.
    pub(crate) fn send_away(self) {
        // A unit that has ended needs no message.
        if self.check_liveness().is_ok() {
            let _ = self.tell(&Welcome::Go, &WaitLimits::for_at_most(Duration::from_millis(200)));
        }
        // A disconnect would make each side wait for the other.
        let _ = self.inter.free();
    }
}

/// Reports that the unit is ready, and waits for the decision about it. Collective over the unit. A
/// unit that becomes a starter spawns others until it is not needed any more. Afterwards `parent`
/// leads to rank 0.
///
/// # Errors
/// A process of the unit, or its spawning process, has ended.
pub(crate) fn wait_for_welcome(
    unit: &Communicator,
    parent: &mut Intercommunicator,
    together: &WaitLimits<'_>,
) -> Result<Welcome, GroupError> {
    disconnect::be_seen_at_exit();
    // All processes of the unit have arrived.
    let own = serde_json::to_vec(&ProcessIdentity::own()).unwrap_or_default();
    let lives = allgather_bytes(&*unit.as_group()?, &own, together)?;
    let read =
        |life: &Vec<u8>| serde_json::from_slice::<Option<ProcessIdentity>>(life).ok().flatten();
    let mut lives: Vec<ProcessIdentity> = lives.iter().filter_map(read).collect();
    let is_first = unit.rank() == 0;
    let host =
        if is_first { receive_bytes(parent, (HOST_LENGTH, HOST), together)? } else { Vec::new() };
    let host = unit.broadcast(host, 0, together)?;
    let Ok(host) = serde_json::from_slice(&host) else { return Ok(Welcome::Go) };
    let ready = serde_json::to_vec(&lives).unwrap_or_default();
    let is_handed_over = matches!(host, Host::Starter(_));
    match host {
        Host::SpawnHelper(endpoint) => {
            return process::serve(parent, &endpoint).map(|()| Welcome::Go);
        }
        Host::Rank(life) | Host::Starter(life) => lives.extend(life),
    }
    let watch = || all_live(&lives);
    // The wait lasts until the ranks reach their next probe.
    let limits = WaitLimits { check_peers: &watch, ..WaitLimits::for_at_most(Duration::MAX) };
    let said = if is_first { say(parent, (READY, LIVES), &ready, &limits) } else { Ok(()) };
    if is_handed_over {
        let together = WaitLimits { check_peers: &watch, ..*together };
        if !process::come_over(unit, parent, said.is_ok(), &together)? {
            return Ok(Welcome::Go);
        }
    }
    let told =
        if is_first { said.and_then(|()| be_told(parent, &limits)) } else { Ok(Welcome::Go) };
    let told = serde_json::to_vec(&told.unwrap_or(Welcome::Go)).unwrap_or_default();
    let told = unit.broadcast(told, 0, &limits)?;
    Ok(serde_json::from_slice(&told).unwrap_or(Welcome::Go))
}

fn be_told(parent: &Intercommunicator, limits: &WaitLimits<'_>) -> Result<Welcome, GroupError> {
    let welcome = receive_bytes(parent, (LENGTH, WELCOME), limits)?;
    let welcome = serde_json::from_slice(&welcome).unwrap_or(Welcome::Go);
    if matches!(welcome, Welcome::Join(_)) {
        parent.send(&1_u64.to_ne_bytes(), 0, COMING, limits)?;
        let comes = parent.receive(size_of::<u64>(), 0, DECIDED, limits)?;
        if comes != 1_u64.to_ne_bytes() {
            return Ok(Welcome::Go);
        }
    }
    Ok(welcome)
}

/// Fails if this host knows that one of these processes has ended.
fn all_live(lives: &[ProcessIdentity]) -> Result<(), GroupError> {
    match lives.iter().find_map(ProcessIdentity::has_ended) {
        None => Ok(()),
        Some(process) => {
            Err(GroupError::Node { call: "join", text: format!("process {process} has ended") })
        }
    }
}
