//! Where the units of a resize are started.

use crate::model::order::ResizePlan;

/// Where a unit is started.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Destination<'a> {
    /// The launcher chooses.
    Any,
    /// On a host of the launcher.
    Known(&'a str),
    /// On a node that is brought for the resize.
    New {
        host: &'a str,
        /// Number of processes that the resize starts there.
        all: usize,
        /// True for the first unit there.
        is_first: bool,
    },
}

impl<'a> Destination<'a> {
    pub(super) fn of(resize: &'a ResizePlan, unit: usize) -> Self {
        let Some(host) = resize.hosts.get(unit) else { return Self::Any };
        if !resize.brought {
            return Self::Known(host);
        }
        let units = resize.hosts.iter().zip(&resize.units);
        let all = units.filter(|(other, _)| *other == host).map(|(_, processes)| processes).sum();
        Self::New { host, all, is_first: !resize.hosts[..unit].contains(host) }
    }

    pub(super) fn host(&self) -> Option<&'a str> {
        match self {
            Self::Any => None,
            Self::Known(host) | Self::New { host, .. } => Some(host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_node_counts_the_processes_of_all_its_units() {
        let resize = |brought| ResizePlan {
            units: vec![2, 1, 3],
            hosts: ["n2", "n3", "n2"].map(str::to_owned).to_vec(),
            brought,
            ..ResizePlan::default()
        };
        let brought = resize(true);
        let new = |host, all, is_first| Destination::New { host, all, is_first };
        assert_eq!(Destination::of(&brought, 0), new("n2", 5, true));
        assert_eq!(Destination::of(&brought, 1), new("n3", 1, true));
        assert_eq!(Destination::of(&brought, 2), new("n2", 5, false));
        assert_eq!(Destination::of(&resize(false), 2), Destination::Known("n2"));
        assert_eq!(Destination::of(&ResizePlan::default(), 0).host(), None);
    }
}
