//! Choice of the leavers.

use std::collections::{BTreeMap, BTreeSet};

use super::{Nodes, PlaceError, Seat};
use crate::model::member::{MemberId, UnitId};

/// Ranks and hosts to be released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaim<'a> {
    /// Number of processes; `None`: all on the named hosts.
    pub count: Option<u32>,
    /// Hosts that processes leave; empty: any.
    pub hosts: &'a [String],
}

/// Chooses the leavers, highest rank first. `ranks` is the world in rank order; each of its
/// processes is on a node.
///
/// The highest ranks leave, so that the remaining ones keep their numbers; on named hosts the
/// highest there. Units leave as a whole. The coordinating member stays, as do processes started
/// with it that cannot leave alone. Comprés 2017, section 9.1; Cera 2012, section 4.2.
///
/// ```
/// use elastic::member::{MemberId, NodeId, UnitId};
/// use elastic::place::{NodeState, Nodes, Reclaim, Seat, leavers};
/// let mut nodes = Nodes::new();
/// let node = nodes.add("n1", 4, NodeState::Available).unwrap();
/// let ranks: Vec<MemberId> = (0..4).map(MemberId).collect();
/// let seat = |&member: &MemberId| Seat { member, node, unit: UnitId(member.0), rigid: false };
/// nodes.occupy(&ranks.iter().map(seat).collect::<Vec<_>>()).unwrap();
/// let two = Reclaim { count: Some(2), hosts: &[] };
/// assert_eq!(leavers(&nodes, &ranks, ranks[0], two).unwrap(), [MemberId(3), MemberId(2)]);
/// ```
///
/// # Errors
/// [`PlaceError::NothingAsked`] without a number and hosts; [`PlaceError::NoSuchHost`] for a host
/// that is not listed; [`PlaceError::Unplaced`] for a rank that is on no node. Of whole hosts,
/// [`PlaceError::CoordinatorsNode`], [`PlaceError::Rigid`] or [`PlaceError::UnitElsewhere`] if
/// processes there have to stay; of a number, [`PlaceError::TooFew`] or [`PlaceError::Indivisible`]
/// if not exactly as many can leave.
pub fn leavers(
    nodes: &Nodes,
    ranks: &[MemberId],
    coordinator: MemberId,
    reclaim: Reclaim<'_>,
) -> Result<Vec<MemberId>, PlaceError> {
    if reclaim.count.is_none() && reclaim.hosts.is_empty() {
        return Err(PlaceError::NothingAsked);
    }
    let by_member = nodes.by_member();
    let mut named = Vec::new();
    for host in reclaim.hosts {
        let missing = || PlaceError::NoSuchHost { call: "leavers", host: host.clone() };
        named.push(nodes.by_host(host).ok_or_else(missing)?.id());
    }
    let concerned = |seat: &Seat| named.is_empty() || named.contains(&seat.node);

    // Highest rank first; units in the order of their first process on an affected host.
    let mut seats = Vec::with_capacity(ranks.len());
    let mut units: BTreeMap<UnitId, Vec<Seat>> = BTreeMap::new();
    let (mut order, mut met) = (Vec::new(), BTreeSet::new());
    for &member in ranks.iter().rev() {
        let unplaced = PlaceError::Unplaced { call: "leavers", member };
        let seat = *by_member.get(&member).ok_or(unplaced)?;
        seats.push(seat);
        units.entry(seat.unit).or_default().push(seat);
        if concerned(&seat) && met.insert(seat.unit) {
            order.push(seat.unit);
        }
    }
    let stays = |seat: &Seat| seat.rigid || seat.member == coordinator;
    let mut leaving: BTreeSet<MemberId> = BTreeSet::new();
    match reclaim.count {
        None => {
            let host = |seat: &Seat| {
                nodes.get(seat.node).map_or(String::new(), |node| node.host().to_owned())
            };
            let coordinates = |seat: &&Seat| seat.member == coordinator && concerned(seat);
            if let Some(seat) = seats.iter().find(coordinates) {
                let (host, member) = (host(seat), seat.member);
                return Err(PlaceError::CoordinatorsNode { host, member });
            }
            for unit in order {
                let seats = &units[&unit];
                if let Some(seat) = seats.iter().find(|seat| stays(seat)) {
                    return Err(PlaceError::Rigid { host: host(seat), member: seat.member });
                }
                if let Some(seat) = seats.iter().find(|seat| !concerned(seat)) {
                    return Err(PlaceError::UnitElsewhere { unit, member: seat.member });
                }
                leaving.extend(seats.iter().map(|seat| seat.member));
            }
        }
        Some(asked) => {
            for unit in order {
                let fewer = leaving.len() as u32;
                if fewer == asked {
                    break;
                }
                let seats = &units[&unit];
                if seats.iter().any(|seat| stays(seat) || !concerned(seat)) {
                    continue;
                }
                let more = fewer + seats.len() as u32;
                if more > asked {
                    return Err(PlaceError::Indivisible { asked, unit, fewer, more });
                }
                leaving.extend(seats.iter().map(|seat| seat.member));
            }
            let possible = leaving.len() as u32;
            if possible < asked {
                return Err(PlaceError::TooFew { asked, possible });
            }
        }
    }
    Ok(ranks.iter().rev().filter(|member| leaving.contains(member)).copied().collect())
}
