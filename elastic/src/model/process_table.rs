//! The live processes of a job as its arbiter counts them: which were started, and how many there may be.

use quo_mpi::{Family, Identity};

use crate::model::order::ResizePlan;

/// The unit that each live process came with. Processes are named by their ranks in the communicator of all live ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProcessTable {
    sources: Vec<Source>,
    /// Number of launched processes.
    launched: u64,
    /// Processes that have ended in their sleep, until the others go on without them.
    lost: Vec<usize>,
    /// All that ever were, by their ranks at launch.
    ended: Vec<usize>,
    limits: Limits,
    /// Number of units that were started.
    started: u64,
    /// Nodes have come that the launcher did not begin with.
    took_new_nodes: bool,
    /// Why the launcher starts nothing any more.
    refusal: Option<String>,
}

/// Source of a live process.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Source {
    /// The process was launched with this rank, and can sleep but not end alone.
    Launched(usize),
    /// The process was started with this unit.
    Unit(u64),
}

/// Limits of a world's growth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Most live processes.
    pub most: usize,
    /// Most live processes with those on named hosts, beyond the launcher's slots; 0 where none can be started.
    pub named: usize,
    /// Processes that the launcher has slots for, where it fails for want of them.
    pub room: Option<usize>,
    /// Processes that the launcher has slots for on named hosts, where it fails for want of them.
    pub room_named: Option<usize>,
    /// True if nodes can be brought that the launcher did not begin with.
    pub new_nodes: NewNodes,
    /// Hosts that the program knows the slots of.
    pub slots: Vec<(String, u32)>,
    /// Most processes of one unit.
    pub unit: usize,
    /// Why there can be no more, for who asks for them.
    pub reason: String,
}

/// Nodes new to a launcher that it takes.
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

impl ProcessTable {
    pub(crate) fn launched(all: usize, limits: Limits) -> Self {
        let sources = (0..all).map(Source::Launched).collect();
        let (lost, ended) = (Vec::new(), Vec::new());
        let launched = all as u64;
        let (started, took_new_nodes, refusal) = (0, false, None);
        Self { sources, launched, lost, ended, limits, started, took_new_nodes, refusal }
    }

    /// Number of processes counted, with the lost.
    pub(crate) fn count(&self) -> usize {
        self.sources.len()
    }

    /// Returns true if it was there from the beginning.
    pub(crate) fn was_launched(&self, process: usize) -> bool {
        matches!(self.sources.get(process), Some(Source::Launched(_)))
    }

    /// The process that was launched with this rank, unless it has ended and the others have gone on without it.
    pub(crate) fn launched_as(&self, rank: usize) -> Option<usize> {
        self.sources.iter().position(|source| *source == Source::Launched(rank))
    }

    /// Number of launched processes that are there.
    pub(crate) fn count_launched(&self) -> usize {
        let launched = (0..self.count()).filter(|&process| self.was_launched(process));
        launched.filter(|process| !self.lost.contains(process)).count()
    }

    /// Goes on without launched processes that have ended in their sleep. Returns those that are new to it.
    pub(crate) fn strike_off(&mut self, processes: &[usize]) -> Vec<usize> {
        let mut new = Vec::new();
        for &process in processes {
            if let Some(&Source::Launched(rank)) = self.sources.get(process)
                && !self.lost.contains(&process)
            {
                self.lost.push(process);
                self.ended.push(rank);
                new.push(process);
            }
        }
        new
    }

    /// Processes that are counted and have ended in their sleep.
    pub(crate) fn lost(&self) -> &[usize] {
        &self.lost
    }

    /// The ranks at launch of all that have ended in their sleep.
    pub(crate) fn ended(&self) -> &[usize] {
        &self.ended
    }

    /// Number of processes that there can be.
    pub(crate) fn most(&self) -> usize {
        let ended = if self.can_start() { 0 } else { self.ended.len() };
        self.limits.most.saturating_sub(ended).max(self.count() - self.lost.len())
    }

    /// Number of processes that there can be with processes on named hosts.
    pub(crate) fn most_named(&self) -> usize {
        self.limits.named.max(self.most())
    }

    /// Records why the launcher starts nothing any more: there can be as many processes as there are.
    pub(crate) fn lose_launcher(&mut self, reason: &str) {
        (self.limits.most, self.limits.named) = (0, 0);
        self.limits.reason = format!(": the launcher has refused an earlier start: {reason}");
        self.refusal = Some(format!("the launcher has refused an earlier start: {reason}"));
    }

    /// Returns why the launcher starts nothing any more, where that is so.
    pub(crate) fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Fails where the launcher has no slots for so many more processes, on hosts that are named or on any.
    pub(crate) fn check_room(&self, started: usize, is_named: bool) -> Result<(), String> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
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

    /// Checks that so many new nodes can be had, for a job on so many.
    pub(crate) fn check_new_nodes(&self, new: u32, nodes: usize) -> Result<(), &str> {
        if let Some(refusal) = self.refusal() {
            return Err(refusal);
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

    /// Returns true if processes can be started.
    pub(crate) fn can_start(&self) -> bool {
        self.limits.named > 0
    }

    /// The slots of a host, where the program said them.
    pub(crate) fn slots_of(&self, host: &str) -> Option<u32> {
        self.limits.slots.iter().find(|(name, _)| name == host).map(|(_, slots)| *slots)
    }

    /// The hosts that the program knows the slots of.
    pub(crate) fn listed(&self) -> Vec<String> {
        self.limits.slots.iter().map(|(host, _)| host.clone()).collect()
    }

    /// Why not more.
    pub(crate) fn reason(&self) -> &str {
        &self.limits.reason
    }

    /// The number of the unit with which a process leaves, which no other unit ever has. Each launched process is a
    /// unit; those that are started are numbered after them.
    pub(crate) fn unit_of(&self, process: usize) -> u64 {
        match self.sources.get(process) {
            Some(&Source::Unit(unit)) => self.launched + unit,
            Some(&Source::Launched(rank)) => rank as u64,
            _ => process as u64,
        }
    }

    /// The sizes of the units in which so many are started.
    pub(crate) fn units_for(&self, processes: usize) -> Vec<usize> {
        let unit = self.limits.unit.max(1);
        (0..processes).step_by(unit).map(|first| unit.min(processes - first)).collect()
    }

    /// Leavers that end for good.
    pub(crate) fn gone(&self, leavers: &[usize]) -> Vec<usize> {
        leavers.iter().copied().filter(|&leaver| !self.was_launched(leaver)).collect()
    }

    /// After a resize that all have agreed on.
    pub(crate) fn go_over(&mut self, resize: &ResizePlan) {
        for &size in &resize.units {
            self.sources.extend(std::iter::repeat_n(Source::Unit(self.started), size));
            self.started += 1;
        }
        let mut process = 0;
        self.sources.retain(|_| {
            process += 1;
            !resize.gone.contains(&(process - 1))
        });
        self.lost = self.lost.iter().filter_map(|&lost| resize.renumber(lost)).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_take_new_nodes_as_far_as_they_can() {
        let of = |new_nodes| ProcessTable::launched(1, Limits { new_nodes, ..Limits::default() });
        assert!(of(NewNodes::Any).check_new_nodes(3, 2).is_ok());
        assert!(of(NewNodes::One).check_new_nodes(1, 1).is_ok());
        for (new, nodes) in [(2, 1), (1, 2)] {
            assert!(of(NewNodes::One).check_new_nodes(new, nodes).is_err());
        }
        assert!(of(NewNodes::None).check_new_nodes(1, 1).is_err());
        for (kind, again) in [(NewNodes::One, false), (NewNodes::Any, true)] {
            let mut processes = of(kind);
            processes.takes_new_nodes();
            assert_eq!(processes.check_new_nodes(1, 1).is_ok(), again);
        }
    }

    #[test]
    fn lost_process_counts_until_the_others_go_on() {
        let mut processes = ProcessTable::launched(3, Limits { most: 3, ..Limits::default() });
        assert_eq!(processes.strike_off(&[1]), [1]);
        assert_eq!(processes.strike_off(&[1]), [0_usize; 0]);
        assert_eq!((processes.count(), processes.most(), processes.count_launched()), (3, 2, 2));
        processes.go_over(&ResizePlan { gone: vec![1], lost: vec![1], ..ResizePlan::default() });
        assert_eq!((processes.count(), processes.most(), processes.count_launched()), (2, 2, 2));
        assert_eq!((processes.launched_as(2), processes.launched_as(1)), (Some(1), None));
        assert_eq!((processes.lost(), processes.ended()), (&[][..], &[1][..]));
    }

    #[test]
    fn units_have_the_allowed_size_and_differ_from_launched_processes() {
        let mut processes =
            ProcessTable::launched(2, Limits { most: 9, unit: 3, ..Limits::default() });
        assert_eq!(
            (processes.count(), processes.most(), processes.units_for(5)),
            (2, 9, vec![3, 2])
        );
        let grown = ResizePlan { units: vec![3, 2], ..ResizePlan::default() };
        processes.go_over(&grown);
        assert_eq!(processes.count(), 7);
        let units: Vec<u64> = (0..7).map(|process| processes.unit_of(process)).collect();
        assert_eq!((units[0], units[1]), (0, 1));
        assert_eq!(units[2..], [2, 2, 2, 3, 3]);
        assert_eq!(processes.gone(&[6, 5, 1]), [6, 5]);
        processes.go_over(&ResizePlan { gone: vec![2, 3, 4], ..ResizePlan::default() });
        assert_eq!((processes.count(), processes.unit_of(2)), (4, units[5]));
    }
}
