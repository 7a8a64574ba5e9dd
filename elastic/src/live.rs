//! The live processes of a job as its arbiter counts them: which were started, and how many there may be.

use quo_mpi::{Family, Identity};

use crate::order::Resize;

/// Which unit each live process came with. Processes are named by their ranks in the communicator of all live ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Live {
    /// None for one that was launched, which can sleep but not end alone.
    units: Vec<Option<u64>>,
    /// How many were launched.
    launched: u64,
    limits: Limits,
    /// How many units were started.
    started: u64,
    /// Nodes have come that the launcher did not begin with.
    took_new_nodes: bool,
    /// Why the launcher starts nothing any more.
    lost: Option<String>,
}

/// How far a world may grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// So many live processes.
    pub most: usize,
    /// So many with those on hosts that are named, beyond the launcher's slots; 0 where none can be started.
    pub named: usize,
    /// Processes that the launcher has slots for, where it fails for want of them.
    pub room: Option<usize>,
    /// The same for processes on hosts that are named.
    pub room_named: Option<usize>,
    /// Whether nodes can be brought that the launcher did not begin with.
    pub new_nodes: NewNodes,
    /// Hosts that the program knows the slots of.
    pub slots: Vec<(String, u32)>,
    /// So many in one unit.
    pub unit: usize,
    /// Why there can be no more, for who asks for them.
    pub reason: String,
}

/// Which nodes a launcher takes that are new to it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum NewNodes {
    #[default]
    None,
    /// One, once, while all processes are on one node.
    One,
    Any,
}

impl NewNodes {
    /// Open MPI 4's daemons do not get to know one that comes later, and 5's launcher loses it.
    pub(crate) fn of(mpi: &Identity) -> Self {
        match (mpi.family(), mpi.major()) {
            (Family::OpenMpi, Some(..=4)) => Self::One,
            (Family::Mpich, _) => Self::Any,
            _ => Self::None,
        }
    }
}

impl Live {
    pub(crate) fn launched(all: usize, limits: Limits) -> Self {
        let (units, launched) = (vec![None; all], all as u64);
        Self { units, launched, limits, started: 0, took_new_nodes: false, lost: None }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.units.len()
    }

    /// Whether it was there from the beginning.
    pub(crate) fn was_launched(&self, process: usize) -> bool {
        self.units.get(process) == Some(&None)
    }

    /// How many there can be.
    pub(crate) fn most(&self) -> usize {
        self.limits.most.max(self.count())
    }

    /// How many there can be with processes on named hosts.
    pub(crate) fn most_named(&self) -> usize {
        self.limits.named.max(self.most())
    }

    /// Records why the launcher starts nothing any more: there can be as many processes as there are.
    pub(crate) fn lose_launcher(&mut self, reason: &str) {
        (self.limits.most, self.limits.named) = (0, 0);
        self.limits.reason = format!(": the launcher has refused an earlier start: {reason}");
        self.lost = Some(format!("the launcher has refused an earlier start: {reason}"));
    }

    /// Returns why the launcher starts nothing any more, where that is so.
    pub(crate) fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    /// Fails where the launcher has no slots for so many more processes, on hosts that are named or on any.
    pub(crate) fn check_room(&self, started: usize, is_named: bool) -> Result<(), String> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone());
        }
        let all = self.count();
        let room = if is_named { self.limits.room_named } else { self.limits.room };
        match room.filter(|&room| all + started > room && !self.took_new_nodes) {
            None => Ok(()),
            Some(room) => Err(format!(
                "{started} processes would be started before any of the {all} ends, and there are slots for {room}{}",
                self.limits.reason
            )),
        }
    }

    /// Whether so many new nodes can be had, for a job on so many.
    pub(crate) fn check_new_nodes(&self, new: u32, nodes: usize) -> Result<(), &str> {
        if let Some(lost) = self.lost() {
            return Err(lost);
        }
        match self.limits.new_nodes {
            NewNodes::Any => Ok(()),
            // It does not survive another one, also when the first has gone.
            NewNodes::One if self.took_new_nodes => Err("this launcher takes a new node only once"),
            NewNodes::One if new == 1 && nodes == 1 => Ok(()),
            NewNodes::One => Err("this launcher takes one new node, while all ranks are on one"),
            NewNodes::None => Err("this launcher takes no nodes that are new to it"),
        }
    }

    /// The launcher is asked for processes on nodes that are new to it.
    pub(crate) fn takes_new_nodes(&mut self) {
        self.took_new_nodes = true;
    }

    /// Whether processes can be started.
    pub(crate) fn can_start(&self) -> bool {
        self.limits.named > 0
    }

    /// The slots of a host, where the program said them.
    pub(crate) fn slots_of(&self, host: &str) -> Option<u32> {
        self.limits.slots.iter().find(|(name, _)| name == host).map(|(_, slots)| *slots)
    }

    /// Why not more.
    pub(crate) fn reason(&self) -> &str {
        &self.limits.reason
    }

    /// The number of the unit with which a process leaves, which no other unit ever has. Each launched process is a
    /// unit; those that are started are numbered after them.
    pub(crate) fn unit_of(&self, process: usize) -> u64 {
        match self.units.get(process) {
            Some(Some(unit)) => self.launched + unit,
            _ => process as u64,
        }
    }

    /// The sizes of the units in which so many are started.
    pub(crate) fn units_for(&self, processes: usize) -> Vec<usize> {
        let unit = self.limits.unit.max(1);
        (0..processes).step_by(unit).map(|first| unit.min(processes - first)).collect()
    }

    /// Those of the leavers that end for good.
    pub(crate) fn gone(&self, leavers: &[usize]) -> Vec<usize> {
        leavers.iter().copied().filter(|&leaver| self.units[leaver].is_some()).collect()
    }

    /// After a resize that all have agreed on.
    pub(crate) fn go_over(&mut self, resize: &Resize) {
        for &size in &resize.units {
            self.units.extend(std::iter::repeat_n(Some(self.started), size));
            self.started += 1;
        }
        let mut process = 0;
        self.units.retain(|_| {
            process += 1;
            !resize.gone.contains(&(process - 1))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_take_new_nodes_as_far_as_they_can() {
        let of = |new_nodes| Live::launched(1, Limits { new_nodes, ..Limits::default() });
        assert!(of(NewNodes::Any).check_new_nodes(3, 2).is_ok());
        assert!(of(NewNodes::One).check_new_nodes(1, 1).is_ok());
        for (new, nodes) in [(2, 1), (1, 2)] {
            assert!(of(NewNodes::One).check_new_nodes(new, nodes).is_err());
        }
        assert!(of(NewNodes::None).check_new_nodes(1, 1).is_err());
        for (kind, again) in [(NewNodes::One, false), (NewNodes::Any, true)] {
            let mut live = of(kind);
            live.takes_new_nodes();
            assert_eq!(live.check_new_nodes(1, 1).is_ok(), again);
        }
    }

    #[test]
    fn units_are_as_large_as_allowed_and_known_apart_from_launched_processes() {
        let mut live = Live::launched(2, Limits { most: 9, unit: 3, ..Limits::default() });
        assert_eq!((live.count(), live.most(), live.units_for(5)), (2, 9, vec![3, 2]));
        let grown = Resize { units: vec![3, 2], ..Resize::default() };
        live.go_over(&grown);
        assert_eq!(live.count(), 7);
        let units: Vec<u64> = (0..7).map(|process| live.unit_of(process)).collect();
        assert_eq!((units[0], units[1]), (0, 1));
        assert_eq!(units[2..], [2, 2, 2, 3, 3]);
        assert_eq!(live.gone(&[6, 5, 1]), [6, 5]);
        live.go_over(&Resize { gone: vec![2, 3, 4], ..Resize::default() });
        assert_eq!((live.count(), live.unit_of(2)), (4, units[5]));
    }
}
