//! Hosts by the names that people, the launcher and the hosts themselves have for them, and how many joiners each gets.

use std::collections::BTreeMap;

use super::Arbiter;
use crate::order::Resize;
use crate::place::{Node, PlaceError};

/// Number of processes to start on each host, by the launcher's names.
pub(super) type Parts = Vec<(String, u32)>;

/// A host is named in requests as the launcher knows it, and has a name of its own, which is known when processes are
/// there.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// The host's own name for each name of the launcher.
    own: BTreeMap<String, String>,
}

impl Names {
    /// Returns the host's own name, as far as that is known.
    pub(super) fn own<'a>(&'a self, host: &'a str) -> &'a str {
        self.own.get(host).map_or(host, String::as_str)
    }

    pub(super) fn owns(&self, hosts: &[String]) -> Vec<String> {
        hosts.iter().map(|host| self.own(host).to_owned()).collect()
    }

    /// Returns the launcher's name for a host of this own name.
    pub(super) fn launchers<'a>(&'a self, own: &'a str) -> &'a str {
        let known = self.own.iter().find(|(_, name)| *name == own);
        known.map_or(own, |(launchers, _)| launchers)
    }

    /// After a resize of a job of so many processes: where those are that were started on hosts.
    pub(super) fn learn(
        &mut self,
        resize: &Resize,
        mut first: usize,
        hosts: &[String],
        places: &[usize],
    ) {
        for (host, processes) in resize.hosts.iter().zip(&resize.units) {
            let place = resize.renumber(first).and_then(|process| places.get(process));
            if let Some(own) = place.and_then(|&place| hosts.get(place))
                && own != host
            {
                self.own.insert(host.clone(), own.clone());
            }
            first += processes;
        }
    }
}

impl Arbiter {
    /// Number of further processes that fit on hosts, by the launcher's names; none where nothing
    /// says.
    pub(super) fn rooms(&self, hosts: &[String]) -> Vec<(String, Option<u32>)> {
        let room = |host: &String| {
            let own = self.names.own(host);
            let launchers = self.names.launchers(own);
            let there = self.nodes.by_host(own).map_or(0, Node::slots);
            let slots = self.live.slots_of(launchers).or_else(|| self.live.slots_of(host));
            (launchers.to_owned(), slots.map(|slots| slots.saturating_sub(there)))
        };
        hosts.iter().map(room).collect()
    }
}

/// Gives each host as many as the others, as far as there is room; none where the room is not known. Hosts that get
/// none are left out.
pub(super) fn deal(count: u32, rooms: &[(String, Option<u32>)]) -> Result<Parts, PlaceError> {
    let mut parts: Parts = rooms.iter().map(|(host, _)| (host.clone(), 0)).collect();
    let mut left = count;
    while left > 0 {
        let before = left;
        for (part, (_, room)) in parts.iter_mut().zip(rooms) {
            if left > 0 && room.is_none_or(|room| part.1 < room) {
                part.1 += 1;
                left -= 1;
            }
        }
        if left == before {
            return Err(PlaceError::NoRoom { asked: count, free: count - left, named: true });
        }
    }
    parts.retain(|(_, count)| *count > 0);
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_get_equal_shares_as_far_as_room_allows() {
        let rooms = [("a", Some(1)), ("b", None), ("c", Some(0))]
            .map(|(host, room)| (host.to_owned(), room));
        let parts = deal(4, &rooms).unwrap();
        assert_eq!(parts, [("a".to_owned(), 1), ("b".to_owned(), 3)]);
        let refused = deal(2, &rooms[..1]).unwrap_err();
        assert_eq!(refused, PlaceError::NoRoom { asked: 2, free: 1, named: true });
    }

    #[test]
    fn host_is_found_by_launcher_name_and_own_name() {
        let mut names = Names::default();
        let resize = Resize {
            units: vec![2, 1],
            hosts: vec!["10.0.0.2".to_owned(), "n3".to_owned()],
            gone: vec![1],
            ..Resize::default()
        };
        let hosts = ["n1", "n2", "n3"].map(str::to_owned);
        names.learn(&resize, 2, &hosts, &[0, 1, 1, 2]);
        assert_eq!((names.own("10.0.0.2"), names.own("n2"), names.own("n3")), ("n2", "n2", "n3"));
        assert_eq!((names.launchers("n2"), names.launchers("n3")), ("10.0.0.2", "n3"));
    }
}
