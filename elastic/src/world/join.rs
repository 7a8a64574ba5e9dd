//! Joins spawned processes to the running ones: merges two MPI worlds into one communicator.

use quo::group::{GroupError, WaitLimits};
use quo_mpi::communicator::{Communicator, Intercommunicator, Port};

use super::World;
use crate::error::Error;
use crate::model::order::ResizePlan;
use crate::node::liveness::{Joiner, wait_limits};
use crate::node::process_identity::ProcessIdentity;
use crate::spawn::back_end::Join;
use crate::spawn::starter::{Invited, Unit};

const CALL: &str = "begin";

/// Result of joining the spawned processes of a resize.
pub(super) enum Joined {
    /// No process was spawned for this resize.
    Nobody,
    /// The communicator of all live processes, the newest last, and the identities of the joiners.
    All(Communicator, Vec<Joiner>),
    /// A spawned process has ended, and none has joined.
    Missing(String),
}

/// Joins the units of a resize one after another. Collective over all live processes and the units.
pub(super) fn all(world: &mut World, resize: &ResizePlan) -> Result<Joined, Error> {
    if resize.units.is_empty() {
        return Ok(Joined::Nobody);
    }
    let failed = Error::group(CALL);
    let join = match (world.lifecycle.invited(), &world.back_end.spawned) {
        (Some(invited), _) if invited.port.is_some() => Join::Port,
        (Some(_), _) => Join::Bridge,
        (None, Ok(join)) => *join,
        (None, Err(_)) => Join::Bridge,
    };
    let watch = world.liveness();
    let check = || watch.check();
    let limits = wait_limits(world.patience, &check);
    // The present processes enter without the lost ones.
    let mut wide: Option<Communicator> = None;
    if world.lifecycle.invited().is_none() && !resize.lost.is_empty() {
        let all: Vec<usize> = (0..world.base.size()).collect();
        let living: Vec<usize> =
            all.into_iter().filter(|process| !resize.lost.contains(process)).collect();
        wide = Some(world.base.subset_within(&living, resize.tag(6), &limits).map_err(&failed)?);
    }
    let mut called = Called::default();
    if world.coordinator.is_some() {
        called = call(world, resize, join)?;
    }
    let mut joiners = world.lifecycle.invited().map(|invited| invited.joiners.clone());
    if joiners.is_none() {
        // The others learn from rank 0 whether the units join.
        let told = match called.missing.take() {
            Some(reason) => Err(reason),
            None => Ok(called.joiners),
        };
        match tell(wide.as_ref().unwrap_or(&world.base), &told, &limits)? {
            Ok(all) => joiners = Some(all),
            Err(reason) => {
                if let Some(wide) = wide {
                    wide.free().map_err(&failed)?;
                }
                return Ok(Joined::Missing(reason));
            }
        }
    }
    let joiners = joiners.unwrap_or_default();
    // No node's shared state has the joiners yet, so their processes are checked directly.
    let watch = watch.and(joiners.clone());
    let check = || watch.check();
    let limits = wait_limits(world.patience, &check);
    let invited = world.lifecycle.take_invited();
    let own = invited.as_ref().map(|(_, invited)| invited.unit);
    let mut visitor = invited.map(|(parent, invited)| (parent, invited.port));
    let mut units = called.units.into_iter();
    let mut ports = called.ports.into_iter();
    for unit in 0..resize.units.len() {
        if own.is_some_and(|own| own > unit) {
            continue;
        }
        let tag = resize.tag(5);
        let merged = if own == Some(unit) {
            let Some((parent, port)) = visitor.take() else { break };
            come(&world.base, parent, port.as_deref(), tag, &limits)
        } else {
            let inside = wide.as_ref().unwrap_or(&world.base);
            receive(inside, (units.next(), ports.next()), join, tag, &limits)
        };
        let merged = merged.map_err(&failed)?;
        if let Some(before) = wide.replace(merged) {
            before.free().map_err(&failed)?;
        }
    }
    let wide = wide.ok_or(Error::InvalidState { call: CALL, reason: "no joiner has arrived" })?;
    Ok(Joined::All(wide, joiners))
}

/// Broadcasts rank 0's result: the joiners, or the reason why there are none. Collective over the
/// present processes.
fn tell(
    inside: &Communicator,
    told: &Result<Vec<Joiner>, String>,
    limits: &WaitLimits<'_>,
) -> Result<Result<Vec<Joiner>, String>, Error> {
    let unreadable = |error: serde_json::Error| Error::Node {
        call: CALL,
        reason: format!("the list of joiners: {error}"),
    };
    let bytes = serde_json::to_vec(told).map_err(unreadable)?;
    let bytes = inside.broadcast(bytes, 0, limits).map_err(Error::group(CALL))?;
    serde_json::from_slice(&bytes).map_err(unreadable)
}

/// Rank 0's record of the units.
#[derive(Default)]
struct Called {
    units: Vec<Unit>,
    /// One for each unit, at which a unit that arrives early waits for its turn.
    ports: Vec<Port>,
    missing: Option<String>,
    /// Rank 0 and all joiners.
    joiners: Vec<Joiner>,
}

/// Returns rank 0 and all processes of the units; `first` is the process number of the first one.
fn joiners(resize: &ResizePlan, units: &[Unit], first: usize) -> Vec<Joiner> {
    let own = ProcessIdentity::own().map(|life| Joiner { rank: 0, life });
    let mut joiners: Vec<Joiner> = own.into_iter().collect();
    let mut begin = first;
    for (unit, &size) in units.iter().zip(&resize.units) {
        for (process, life) in (begin..).zip(unit.lives()) {
            let rank = resize.new.iter().position(|&new| new == process).unwrap_or(process);
            joiners.push(Joiner { rank, life: life.clone() });
        }
        begin += size;
    }
    joiners
}

/// Invites the units to join. On rank 0.
fn call(world: &World, resize: &ResizePlan, join: Join) -> Result<Called, Error> {
    let failed = Error::group(CALL);
    let units = world.coordinator.as_ref().map(|coordinator| coordinator.take_units());
    let mut called = Called { units: units.unwrap_or_default(), ..Called::default() };
    if join == Join::Port {
        let ports = called.units.iter().map(|_| Port::open());
        called.ports = ports.collect::<Result<_, _>>().map_err(&failed)?;
    }
    let mut first = world.base.size();
    called.joiners = joiners(resize, &called.units, first);
    for (unit, started) in called.units.iter().enumerate() {
        let invited = Invited {
            resize: resize.clone(),
            unit,
            first,
            tag: world.tag,
            port: called.ports.get(unit).map(Port::name),
            most: world.most,
            directions: world.directions.clone(),
            guards: world.guards.clone(),
            joiners: called.joiners.clone(),
        };
        if let Err(error) = started.call(invited) {
            called.missing = Some(format!("the processes of start {unit} have ended: {error}"));
            break;
        }
        first += resize.units[unit];
    }
    let comes = called.missing.is_none();
    called.units.iter().for_each(|unit| unit.decide(comes));
    Ok(called)
}

/// Joins a unit to the others. On the unit's side.
fn come(
    unit: &Communicator,
    parent: Intercommunicator,
    port: Option<&str>,
    tag: u16,
    limits: &WaitLimits<'_>,
) -> Result<Communicator, GroupError> {
    let merged = if let Some(port) = port {
        merge(unit.connect_within(port, limits)?, true, limits)?
    } else {
        let bridge = parent.merge_within(true, limits)?;
        let merged =
            merge(unit.create_intercomm_within(0, &bridge, 0, tag, limits)?, true, limits)?;
        bridge.free()?;
        merged
    };
    parent.disconnect_within(limits)?;
    Ok(merged)
}

/// Merges a unit into the present processes; only rank 0 has the unit and its port.
fn receive(
    inside: &Communicator,
    (unit, port): (Option<Unit>, Option<Port>),
    join: Join,
    tag: u16,
    limits: &WaitLimits<'_>,
) -> Result<Communicator, GroupError> {
    let deadline = limits.deadline;
    // Rank 0 can check the processes of the unit.
    let check =
        || (limits.check_peers)().and_then(|()| unit.as_ref().map_or(Ok(()), Unit::check_liveness));
    let limits = &WaitLimits { check_peers: &check, ..*limits };
    let merged = if join == Join::Port {
        let name = port.as_ref().map_or_else(String::new, Port::name);
        merge(inside.accept_within(&name, limits)?, false, limits)?
    } else {
        let bridge = unit.as_ref().map(|unit| unit.inter.merge_within(false, limits));
        let bridge = bridge.transpose()?;
        let peer = bridge.as_ref().unwrap_or(inside);
        let merged =
            merge(inside.create_intercomm_within(0, peer, 1, tag, limits)?, false, limits)?;
        if let Some(bridge) = bridge {
            bridge.free()?;
        }
        merged
    };
    if let Some(unit) = unit {
        unit.part(deadline)?;
    }
    Ok(merged)
}

fn merge(
    inter: Intercommunicator,
    high: bool,
    limits: &WaitLimits<'_>,
) -> Result<Communicator, GroupError> {
    let merged = inter.merge_within(high, limits)?;
    // Only the handle is freed; a disconnect would wait while the merged communicator exists.
    inter.free()?;
    Ok(merged)
}
