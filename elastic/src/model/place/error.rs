//! Errors of a request for places.

use super::NodeState;
use crate::model::member::{MemberId, NodeId, UnitId};

/// Why no place was found, or no process may leave. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// The job knows no such host.
    #[error("{call}: host {host:?} is not in the list of nodes")]
    NoSuchHost {
        /// The call that was refused.
        call: &'static str,
        /// The name.
        host: String,
    },
    /// The host is listed already.
    #[error("add: host {host:?} is in the list already, as {node}")]
    HostListed {
        /// The name.
        host: String,
        /// Its node.
        node: NodeId,
    },
    /// A node without slots.
    #[error("add: host {host:?} has no slots")]
    NoSlots {
        /// The name.
        host: String,
    },
    /// The host cannot take processes now.
    #[error("place: host {host:?} is {state}")]
    NotAvailable {
        /// The name.
        host: String,
        /// Its state instead of available.
        state: NodeState,
    },
    /// Too few slots are free.
    #[error("place: {asked} processes need a slot each, {free} are free{}", if *.named {" on the named hosts"} else {""})]
    NoRoom {
        /// Processes to be placed.
        asked: u32,
        /// Free slots.
        free: u32,
        /// True if hosts were named.
        named: bool,
    },
    /// A change of state that nodes do not make.
    #[error("set_state: {node} ({host}) is {from} and cannot become {to}{}", if *.occupied {" while processes are on it"} else {""})]
    State {
        /// The node.
        node: NodeId,
        /// Its host.
        host: String,
        /// Its state.
        from: NodeState,
        /// The requested state.
        to: NodeState,
        /// True if processes on it are the reason.
        occupied: bool,
    },
    /// The node does not exist.
    #[error("{call}: there is no {node}")]
    NoSuchNode {
        /// The call that was refused.
        call: &'static str,
        /// The node.
        node: NodeId,
    },
    /// A process on no node.
    #[error("{call}: member {member} is on no node")]
    Unplaced {
        /// The call that was refused.
        call: &'static str,
        /// The process.
        member: MemberId,
    },
    /// A process that is already on a node.
    #[error("occupy: member {member} is on {node} already")]
    Placed {
        /// The process.
        member: MemberId,
        /// Its place.
        node: NodeId,
    },
    /// Neither a number nor hosts were given.
    #[error("leavers: give a number of processes, hosts, or both")]
    NothingAsked,
    /// The launcher's or coordinator's node was named as a whole.
    #[error(
        "leavers: {host:?} is the node of the coordinating member {member}, which never leaves"
    )]
    CoordinatorsNode {
        /// The host.
        host: String,
        /// The process that coordinates.
        member: MemberId,
    },
    /// A process that was started with the job and cannot end before it.
    #[error("leavers: member {member} on {host:?} belongs to the rigid part of the job")]
    Rigid {
        /// The host.
        host: String,
        /// The process.
        member: MemberId,
    },
    /// Fewer processes may leave than were requested.
    #[error("leavers: {asked} processes were asked for, {possible} may leave")]
    TooFew {
        /// Requested number.
        asked: u32,
        /// Number that may leave.
        possible: u32,
    },
    /// Units leave as a whole.
    #[error(
        "leavers: {asked} would cut {unit}, whose processes were started together and leave together; \
         {fewer} or {more} can leave, with processes_per_spawn 1 any number"
    )]
    Indivisible {
        /// Requested number.
        asked: u32,
        /// The unit that would be split.
        unit: UnitId,
        /// The largest number below that can leave; 0 if none can.
        fewer: u32,
        /// The smallest number above that can leave.
        more: u32,
    },
    /// A unit has processes on a node that stays.
    #[error(
        "leavers: {unit} leaves as a whole, and member {member} of it is not on the named hosts"
    )]
    UnitElsewhere {
        /// The unit.
        unit: UnitId,
        /// Its process on another node.
        member: MemberId,
    },
    /// Bounds that no size meets.
    #[error("bounds: no size from {min} to {max} is allowed")]
    NoSize {
        /// Smallest size.
        min: u32,
        /// Largest size.
        max: u32,
    },
    /// A size outside the bounds, or not among the allowed ones.
    #[error("bounds: {size} processes are not allowed{}", nearest(*.below, *.above))]
    Size {
        /// The requested size.
        size: u32,
        /// The next smaller allowed one.
        below: Option<u32>,
        /// The next larger allowed one.
        above: Option<u32>,
    },
    /// A text that names no order of choosing hosts.
    #[error("placement is {text:?}, and it can be stack, round-robin or least-loaded")]
    NoPlacement {
        /// The text.
        text: String,
    },
}

fn nearest(below: Option<u32>, above: Option<u32>) -> String {
    match (below, above) {
        (Some(below), Some(above)) => format!("; {below} and {above} are the nearest that are"),
        (Some(one), None) | (None, Some(one)) => format!("; {one} is the nearest that is"),
        (None, None) => String::new(),
    }
}
