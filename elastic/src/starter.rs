//! Starts processes while the ranks go on: one start per unit, each of which is ready to join before anybody is told.

use std::time::Duration;

use quo::group::{GroupError, Patience};
use quo_mpi::members::{Intercommunicator, SpawnRequest, spawn};
use quo_mpi::{Family, Identity};
use serde::{Deserialize, Serialize};

use crate::change::{Cause, CauseKind};
use crate::order::Resize;
use crate::reach::Reach;

/// What is sent between rank 0 and the first process of a unit, over the intercommunicator of their start.
const READY: u16 = 7;
const LENGTH: u16 = 8;
const WELCOME: u16 = 9;
const COMING: u16 = 10;
const DECIDED: u16 = 11;

/// How long a unit that is ready may take to answer.
const COMING_LIMIT: Duration = Duration::from_secs(10);

/// What processes are started with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recipe {
    pub command: String,
    pub arguments: Vec<String>,
    pub info: Vec<(String, String)>,
    pub host_key: HostKey,
    pub reach: Reach,
    /// How long a unit may take to be ready, from its start.
    pub limit: Duration,
}

/// How a launcher is told on which host to start processes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum HostKey {
    /// Its name: any host with Hydra, one of mpirun's own list with Open MPI 4.
    #[default]
    Name,
    /// The name with the number of processes: what Open MPI 5 takes as one otherwise.
    NameAndSlots,
}

impl HostKey {
    /// `add-host` only for [new nodes](crate::live::NewNodes): Open MPI 4's daemons do not get to know one that comes later, and 5's launcher loses it.
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

/// Processes that were started together and wait at their ready point.
#[derive(Debug)]
pub(crate) struct Unit {
    pub inter: Intercommunicator,
}

/// What a unit that is ready is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Welcome {
    /// The ranks have come to the resize.
    Join(Box<Invited>),
    /// It is not needed any more.
    Go,
}

/// What a unit has to know to join.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Invited {
    pub resize: Resize,
    /// Which of the resize's units it is.
    pub unit: usize,
    /// The rank of its first process among all live ones.
    pub first: usize,
    /// By which contexts over the world are known.
    pub tag: u64,
    pub epoch: u64,
    /// Where to meet the others; none over a bridge.
    pub port: Option<String>,
    /// How many ranks there can be.
    pub most: usize,
}

/// Starts the units of a resize and waits until all are ready. All or nothing.
///
/// # Errors
/// Why it could not be; what had been started is gone or going.
pub(crate) fn start(recipe: &Recipe, resize: &Resize) -> Result<Vec<Unit>, Cause> {
    // Before anything is started: launchers may end the job over a host that does not answer.
    for (at, host) in resize.hosts.iter().enumerate() {
        if !resize.brought && !resize.hosts[..at].contains(host) {
            let unreachable = |detail| Cause::new(CauseKind::Unreachable, detail);
            recipe.reach.look(host).map_err(unreachable)?;
        }
    }
    let mut units = Vec::new();
    for (unit, &processes) in resize.units.iter().enumerate() {
        let host = resize.hosts.get(unit).map(String::as_str);
        match start_one(recipe, processes, host, resize.brought) {
            Ok(unit) => units.push(unit),
            Err(cause) => {
                units.into_iter().for_each(Unit::send_away);
                return Err(cause);
            }
        }
    }
    Ok(units)
}

fn start_one(
    recipe: &Recipe,
    processes: usize,
    host: Option<&str>,
    is_new: bool,
) -> Result<Unit, Cause> {
    let mut info = recipe.info.clone();
    if let Some(host) = host {
        info.retain(|(key, _)| key != "host");
        let is_open_mpi = matches!(quo_mpi::running().family(), Family::OpenMpi);
        let key = if is_new && is_open_mpi { "add-host" } else { "host" };
        info.push((key.to_owned(), recipe.host_key.value(host, processes)));
    }
    let request = SpawnRequest {
        command: recipe.command.clone(),
        arguments: recipe.arguments.clone(),
        processes,
        info,
    };
    let inter = spawn(&request)
        .map_err(|error| Cause::new(CauseKind::SpawnFailed, failure(error, host)))?;
    let patience = Patience::for_at_most(recipe.limit);
    match inter.receive(size_of::<u64>(), 0, READY, &patience) {
        Ok(_) => Ok(Unit { inter }),
        Err(error) => {
            let seconds = recipe.limit.as_secs();
            // It may yet come to its ready point, where it finds this.
            Unit { inter }.send_away();
            let detail = format!(
                "{processes} processes were started and not ready within {seconds} s: {error}"
            );
            Err(Cause::new(CauseKind::JoinerLost, detail))
        }
    }
}

fn failure(error: GroupError, host: Option<&str>) -> String {
    match host {
        Some(host) if matches!(quo_mpi::running().family(), Family::OpenMpi) => format!(
            "{error}: mpirun starts processes only on hosts of its own list with free slots, by the names there; \
             is {host} one?"
        ),
        Some(host) => format!("{error}: on {host}"),
        None => error.to_string(),
    }
}

impl Unit {
    /// Tells its first process.
    pub(crate) fn tell(
        &self,
        welcome: &Welcome,
        patience: &Patience<'_>,
    ) -> Result<(), GroupError> {
        let bytes = serde_json::to_vec(welcome).unwrap_or_default();
        self.inter.send(&(bytes.len() as u64).to_ne_bytes(), 0, LENGTH, patience)?;
        self.inter.send(&bytes, 0, WELCOME, patience)
    }

    /// Tells it to join, and hears that it is there: it comes when it [hears](Self::decide) that all are.
    ///
    /// # Errors
    /// It does not answer: then nobody may wait for it to join.
    pub(crate) fn call(&self, invited: Invited) -> Result<(), GroupError> {
        let patience = Patience::for_at_most(COMING_LIMIT);
        self.tell(&Welcome::Join(Box::new(invited)), &patience)?;
        self.inter.receive(size_of::<u64>(), 0, COMING, &patience).map(drop)
    }

    /// Whether it comes.
    pub(crate) fn decide(&self, comes: bool) {
        let patience = Patience::for_at_most(COMING_LIMIT);
        let _ = self.inter.send(&u64::from(comes).to_ne_bytes(), 0, DECIDED, &patience);
    }

    /// It is not needed any more.
    pub(crate) fn send_away(self) {
        // A unit that is gone already needs no word.
        let _ = self.tell(&Welcome::Go, &Patience::for_at_most(Duration::from_millis(200)));
        // Not by a disconnect, in which each side waits for the other.
        let _ = self.inter.free();
    }
}

/// The first process of a unit says that it is ready, and waits for what becomes of it.
pub(crate) fn wait_for_welcome(parent: &Intercommunicator) -> Result<Welcome, GroupError> {
    // As long as it takes the ranks to come to their next probe. Who started it ends it when it ends.
    let patience = Patience::for_at_most(Duration::MAX);
    parent.send(&1_u64.to_ne_bytes(), 0, READY, &patience)?;
    let length = parent.receive(size_of::<u64>(), 0, LENGTH, &patience)?;
    let length = length.try_into().map_or(0, u64::from_ne_bytes);
    let welcome = parent.receive(usize::try_from(length).unwrap_or(0), 0, WELCOME, &patience)?;
    let welcome = serde_json::from_slice(&welcome).unwrap_or(Welcome::Go);
    if matches!(welcome, Welcome::Join(_)) {
        parent.send(&1_u64.to_ne_bytes(), 0, COMING, &patience)?;
        let comes = parent.receive(size_of::<u64>(), 0, DECIDED, &patience)?;
        if comes != 1_u64.to_ne_bytes() {
            return Ok(Welcome::Go);
        }
    }
    Ok(welcome)
}
