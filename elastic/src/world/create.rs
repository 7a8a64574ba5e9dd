//! Creation of a world, for launched processes and for spawned ones.

use std::sync::Arc;

use quo::group::{Group as _, WaitLimits};
use quo_mpi::LaunchedPeers;
use quo_mpi::communicator::{Communicator, Intercommunicator, thread_level, universe};

use super::lifecycle::Lifecycle;
use super::site::{Head, Site};
use super::{PATIENCE, World, WorldOptions};
use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::link::endpoint::{Endpoint, addresses};
use crate::manager::SigtermGuard;
use crate::model::member::MemberId;
use crate::model::order::Seat;
use crate::model::process_table::Limits;
use crate::node::guard::Guard;
use crate::node::liveness::wait_limits;
use crate::node::process_identity::ProcessIdentity;
use crate::observe::measured::{self, LoopMeter, RatioMeter};
use crate::spawn::back_end::BackEnd;
use crate::spawn::slot_capacity::{LaunchEnvironment, SlotCapacity};
use crate::spawn::starter::{Invited, Welcome, wait_for_welcome};

const CALL: &str = "create";
pub(super) fn create(options: WorldOptions) -> Result<World, Error> {
    measured::forget_loops();
    let group = Error::group(CALL);
    let term = options.takes_term.then(SigtermGuard::hold);
    let peers = LaunchedPeers::of_world().map_err(&group)?;
    let check = || peers.check_liveness(CALL);
    let limits = wait_limits(PATIENCE, &check);
    let world = match Intercommunicator::parent().map_err(&group)? {
        Some(parent) => {
            Communicator::world_within(&limits).map_err(&group).and_then(|own| attach(own, parent))
        }
        None => launched(options, &limits),
    };
    let world = world?;
    world.mpi_ratio.restart();
    Ok(World { _term: term, ..world })
}

fn back_end(room: Option<SlotCapacity>) -> Result<BackEnd, Error> {
    let threads = thread_level().map_err(Error::group(CALL))?;
    Ok(BackEnd::choose(quo_mpi::running(), quo_mpi::launcher(), threads, room))
}

fn launched(options: WorldOptions, limits: &WaitLimits<'_>) -> Result<World, Error> {
    let group = Error::group(CALL);
    let options = options
        .completed_by_launch(|name| std::env::var(name).ok())
        .map_err(|reason| Error::Misconfigured { call: CALL, reason })?;
    let base = Communicator::world_within(limits).map_err(&group)?;
    let site = Site::open(&base, limits)?;
    let hosts = options.hosts();
    let listed = hosts.iter().flatten().map(|(_, slots)| *slots as usize).sum();
    let said = base.as_group().map_err(&group)?;
    let said =
        said.allgather(&LaunchEnvironment::own(listed).to_bytes(), limits).map_err(&group)?;
    let said: Vec<LaunchEnvironment> =
        said.chunks_exact(32).map(LaunchEnvironment::from_bytes).collect();
    let nodes = site.mailbox.context().node_count();
    let universe = universe().map_err(&group)?;
    let back_end = back_end(SlotCapacity::of(quo_mpi::running(), universe, &said, nodes))?;
    let initial_ranks = options.initial_ranks.unwrap_or(base.size()).clamp(1, base.size());
    let ranks: Vec<usize> = (0..initial_ranks).collect();
    let me = base.rank();
    let (hosts, mut trouble) =
        hosts.map_or_else(|error| (Vec::new(), error), |hosts| (hosts, String::new()));
    let mut growth = options.limits(&back_end, base.size(), hosts);
    if said.first().is_some_and(LaunchEnvironment::is_apart) {
        growth.new_nodes = growth.new_nodes.apart_from_launcher();
    }
    let most = growth.most;
    let mut coordinator = None;
    let mut directions = None;
    let own = ProcessIdentity::own().map(|life| life.name());
    let mut guards = options.abort_on_death.then(|| own.unwrap_or_default());
    if let Some(head) = site.head.filter(|_| trouble.is_empty()) {
        match begin(head, options, growth, initial_ranks, &back_end) {
            Ok((started, opened)) => (coordinator, directions) = (Some(started), opened),
            Err(reason) => trouble = reason,
        }
    }
    let misconfigured = |reason| Error::Misconfigured { call: CALL, reason };
    let begun = if trouble.is_empty() { Ok((directions, guards)) } else { Err(trouble) };
    let begun = serde_json::to_vec(&begun).map_err(|error| misconfigured(error.to_string()))?;
    let begun = base.broadcast(begun, 0, limits).map_err(&group)?;
    let begun: Result<(Option<Endpoint>, Option<String>), String> =
        serde_json::from_slice(&begun).map_err(|error| misconfigured(error.to_string()))?;
    let directions;
    (directions, guards) = begun.map_err(misconfigured)?;
    let tag = new_tag(&base, limits)?;
    let current = if me < initial_ranks {
        Some(base.subset_within(&ranks, 0, limits).map_err(&group)?)
    } else {
        None
    };
    if let Some(current) = &current {
        current.set_tag(tag).map_err(&group)?;
    }
    let seat = current.as_ref().map(|current| (current.rank(), current.size()));
    let rings = site.mailbox.rings();
    site.mailbox.sit(if me < initial_ranks { Seat::Rank(me) } else { Seat::Asleep });
    // No process rings before all have read their ring counts.
    base.barrier(limits).map_err(&group)?;
    let guard = guards.as_ref().map(|root| Guard::over([Arc::clone(&site.mailbox)], root));
    let failed = |error| misconfigured(format!("a thread that watches: {error}"));
    let guard = guard.transpose().map_err(failed)?;
    let mailbox = site.mailbox;
    let lifecycle = match current {
        Some(current) => Lifecycle::Rank { current, mailbox, pending: None, is_new: true },
        None => Lifecycle::Parked { mailbox },
    };
    Ok(World {
        _term: None,
        guard,
        guards,
        process: base.rank(),
        birth: MemberId::new(0, base.rank() as u32),
        base,
        unit: None,
        most,
        coordinator,
        directions,
        agent: site.agent,
        back_end,
        lifecycle,
        epoch: 0,
        ranks,
        round: 0,
        rings,
        tag,
        contexts: Vec::new(),
        data: crate::data::Registry::new(seat),
        patience: PATIENCE,
        mpi_ratio: RatioMeter::default(),
        loops: LoopMeter::default(),
    })
}

/// Starts the coordinator and, where the world has process sets, opens the service for them.
fn begin(
    head: Head,
    options: WorldOptions,
    limits: Limits,
    initial_ranks: usize,
    back_end: &BackEnd,
) -> Result<(Coordinator, Option<Endpoint>), String> {
    let Head { agents, hosts, places } = head;
    let nodes = hosts.len();
    let can_start = limits.named > 0;
    let launched = places.len();
    let job = options.job(hosts, places, initial_ranks, limits)?;
    let spawn_command = options.make_spawn_command(back_end, launched)?;
    let spawn_helper =
        if can_start { options.make_spawn_helper(back_end, &spawn_command) } else { None };
    if let Some(spawn_helper) = &spawn_helper {
        // The helper is started now, before any rank computes.
        spawn_helper.starter();
    }
    let has_guards = options.abort_on_death;
    let (log, managers) = (options.log.as_deref(), options.managers);
    let mut started =
        Coordinator::start(agents, job, spawn_command, spawn_helper, log, managers, has_guards)?;
    let mut opened = None;
    if options.process_sets {
        let is_far = nodes > 1 || can_start;
        let far = is_far.then(addresses).transpose().map_err(|error| error.to_string())?;
        // Processes of other nodes cannot connect to a host without an address.
        let far = far.filter(|addresses| nodes > 1 || !addresses.is_empty());
        opened = Some(started.open_sets(far)?);
    }
    Ok((started, opened))
}

/// Creates the world in a process spawned for a growth: it is ready now, and waits for the ranks to
/// enter the resize, or for the message that it is not needed. Collective over its unit.
fn attach(unit: Communicator, mut parent: Intercommunicator) -> Result<World, Error> {
    let group = Error::group(CALL);
    let universe = universe().map_err(&group)?;
    let back_end = back_end(universe.map(SlotCapacity::Exactly))?;
    // If its spawner has ended, it is not needed.
    let together = WaitLimits::for_at_most(PATIENCE);
    let welcome = wait_for_welcome(&unit, &mut parent, &together).unwrap_or(Welcome::Go);
    let mut world = World {
        _term: None,
        guard: None,
        guards: None,
        process: usize::MAX,
        birth: MemberId::new(0, u32::MAX),
        base: unit,
        unit: None,
        most: 0,
        coordinator: None,
        directions: None,
        agent: None,
        back_end,
        lifecycle: Lifecycle::ended(None),
        epoch: 0,
        ranks: Vec::new(),
        round: 0,
        rings: 0,
        tag: 0,
        contexts: Vec::new(),
        data: crate::data::Registry::new(None),
        patience: PATIENCE,
        mpi_ratio: RatioMeter::default(),
        loops: LoopMeter::default(),
    };
    match welcome {
        Welcome::Go => parent.free().map_err(&group)?,
        Welcome::Join(invited) => {
            let Invited { resize, first, tag, most, directions, guards, .. } = &*invited;
            world.guards.clone_from(guards);
            world.process = first + world.base.rank();
            world.birth = resize.member(world.process);
            world.directions.clone_from(directions);
            world.tag = *tag;
            world.epoch = resize.epoch;
            world.most = *most;
            world.ranks.clone_from(&resize.old);
            let pending = Some(resize.clone());
            world.lifecycle = Lifecycle::Started { invited: Some((parent, invited)), pending };
        }
    }
    Ok(world)
}

/// Makes the tag that identifies contexts over the world: the same on all processes, never zero.
fn new_tag(base: &Communicator, limits: &WaitLimits<'_>) -> Result<u64, Error> {
    let mut tag = [0; 8];
    if base.rank() == 0 {
        rustix::rand::getrandom(&mut tag[..], rustix::rand::GetRandomFlags::empty())
            .map_err(|error| Error::Node { call: CALL, reason: error.to_string() })?;
    }
    let tag = base.broadcast(tag.to_vec(), 0, limits).map_err(Error::group(CALL))?;
    Ok(tag.try_into().map_or(1, u64::from_ne_bytes) | 1)
}
