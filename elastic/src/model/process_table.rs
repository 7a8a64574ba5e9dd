//! The live processes of a job as its arbiter counts them: where they came from, and how many more
//! can be spawned.

use quo_mpi::{Family, Identity};

use crate::model::order::ResizePlan;

/// The origin of each live process. Processes are given by their ranks in the communicator of all
/// live ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProcessTable {
    sources: Vec<Source>,
    /// Number of launched processes.
    launched: u64,
    /// Processes that have ended in their sleep, until the others continue without them.
    lost: Vec<usize>,
    /// All processes that ever ended so, by their ranks at launch.
    ended: Vec<usize>,
    limits: Limits,
    /// Number of units spawned so far.
    started: u64,
    /// True if nodes were added that the launcher did not start with.
    took_new_nodes: bool,
    /// True if processes have been on several nodes at once.
    was_on_several_nodes: bool,
    /// Units on such nodes, which have slots for them beyond the launcher's first ones.
    on_new_nodes: Vec<u64>,
    /// The slots of such nodes, if the launcher fails without slots.
    new_slots: Vec<(String, u32)>,
    /// Why the launcher starts nothing any more.
    refusal: Option<String>,
}

/// Origin of a live process.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Source {
    /// The process was launched with this rank; it can sleep but not end alone.
    Launched(usize),
    /// The process was spawned in this unit.
    Unit(u64),
}

/// Limits of a world's growth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Largest number of live processes.
    pub most: usize,
    /// Largest number of live processes including named hosts, beyond the launcher's slots; 0 if
    /// none can be spawned.
    pub named: usize,
    /// Number of processes that the launcher has slots for, if it fails without slots.
    pub room: Option<usize>,
    /// Number of processes that the launcher has slots for on named hosts, if it fails without
    /// slots.
    pub room_named: Option<usize>,
    /// Which nodes can be added that the launcher did not start with.
    pub new_nodes: NewNodes,
    /// Hosts with known slots.
    pub slots: Vec<(String, u32)>,
    /// Largest size of a unit.
    pub unit: usize,
    /// Why there can be no more processes, for error messages.
    pub reason: String,
}

/// Which nodes a launcher takes that are new to it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum NewNodes {
    #[default]
    None,
    /// One node, once, while all processes are on one node and none has been on another.
    One,
    /// As [`One`](Self::One), if the launcher ran on that node.
    OneBesideLauncher,
    Any,
}

impl NewNodes {
    /// Returns the kind for this MPI. Open MPI 4's daemons never learn of a daemon added later, and
    /// Open MPI 5's launcher loses it.
    pub(crate) fn of(mpi: &Identity) -> Self {
        match (mpi.family(), mpi.major()) {
            (Family::OpenMpi, Some(..=4)) => Self::One,
            (Family::Mpich, _) => Self::Any,
            _ => Self::None,
        }
    }

    /// Returns the kind if the launcher is not on the node of rank 0, but a daemon of it.
    pub(crate) fn apart_from_launcher(self) -> Self {
        if self == Self::One { Self::OneBesideLauncher } else { self }
    }
}

impl ProcessTable {
    pub(crate) fn launched(all: usize, limits: Limits) -> Self {
        let sources = (0..all).map(Source::Launched).collect();
        let launched = all as u64;
        Self {
            sources,
            launched,
            lost: Vec::new(),
            ended: Vec::new(),
            limits,
            started: 0,
            took_new_nodes: false,
            was_on_several_nodes: false,
            on_new_nodes: Vec::new(),
            new_slots: Vec::new(),
            refusal: None,
        }
    }

    /// Number of processes counted, including the lost.
    pub(crate) fn count(&self) -> usize {
        self.sources.len()
    }

    /// Returns true if the process was launched with the job.
    pub(crate) fn was_launched(&self, process: usize) -> bool {
        matches!(self.sources.get(process), Some(Source::Launched(_)))
    }

    /// Returns the process that was launched with this rank, unless it has ended and the others
    /// have continued without it.
    pub(crate) fn launched_as(&self, rank: usize) -> Option<usize> {
        self.sources.iter().position(|source| *source == Source::Launched(rank))
    }

    /// Number of launched processes that are alive.
    pub(crate) fn count_launched(&self) -> usize {
        let launched = (0..self.count()).filter(|&process| self.was_launched(process));
        launched.filter(|process| !self.lost.contains(process)).count()
    }

    /// Marks launched processes that have ended in their sleep as lost. Returns the newly lost
    /// ones.
    pub(crate) fn remove_dead(&mut self, processes: &[usize]) -> Vec<usize> {
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

    /// Lost processes: still counted, but ended in their sleep.
    pub(crate) fn lost(&self) -> &[usize] {
        &self.lost
    }

    /// Ranks at launch of all processes that have ended in their sleep.
    pub(crate) fn ended(&self) -> &[usize] {
        &self.ended
    }

    /// Largest possible number of processes.
    pub(crate) fn most(&self) -> usize {
        let ended = if self.can_start() { 0 } else { self.ended.len() };
        // A launcher that fails without slots has further ones on new nodes.
        let beside = self.limits.room.map_or(0, |_| self.on_new_nodes());
        let beside = beside.min(self.limits.named.saturating_sub(self.limits.most));
        let most = (self.limits.most + beside).saturating_sub(ended);
        most.max(self.count() - self.lost.len())
    }

    /// Largest possible number of processes, including named hosts.
    pub(crate) fn most_named(&self) -> usize {
        self.limits.named.max(self.most())
    }

    /// Records why the launcher starts nothing any more: the number of processes cannot grow.
    pub(crate) fn lose_launcher(&mut self, reason: &str) {
        (self.limits.most, self.limits.named) = (0, 0);
        self.limits.reason = format!(": the launcher has refused an earlier start: {reason}");
        self.refusal = Some(format!("the launcher has refused an earlier start: {reason}"));
    }

    /// Returns why the launcher starts nothing any more, if that is so.
    pub(crate) fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Number of processes on nodes that are new to the launcher.
    fn on_new_nodes(&self) -> usize {
        let is_on_new = |source: &&Source| matches!(source, Source::Unit(unit) if self.on_new_nodes.contains(unit));
        self.sources.iter().filter(is_on_new).count()
    }

    /// Fails if the launcher has no slots for this many more processes, on named hosts or on any.
    pub(crate) fn check_room(&self, started: usize, is_named: bool) -> Result<(), String> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        let all = self.count();
        let room = if is_named { self.limits.room_named } else { self.limits.room };
        let room = room.map(|room| room + self.on_new_nodes());
        match room.filter(|&room| all + started > room) {
            None => Ok(()),
            Some(room) => Err(format!(
                "{started} processes would be started before any of the {all} ends, and there are slots for {room}{}",
                self.limits.reason
            )),
        }
    }

    /// Checks that a job on `nodes` nodes can get this many new ones.
    pub(crate) fn check_new_nodes(&self, new: u32, nodes: usize) -> Result<(), &str> {
        if let Some(refusal) = self.refusal() {
            return Err(refusal);
        }
        match self.limits.new_nodes {
            NewNodes::Any => Ok(()),
            // The launcher does not survive another new node, even if the first one is gone.
            NewNodes::One if self.took_new_nodes => Err("this launcher takes a new node only once"),
            // It does not survive one after another of its nodes was returned, either.
            NewNodes::One if new == 1 && nodes == 1 && !self.was_on_several_nodes => Ok(()),
            NewNodes::One => Err(
                "this launcher takes one new node, while all ranks are on one and have always been there",
            ),
            NewNodes::OneBesideLauncher => Err(
                "this launcher takes a new node only from its own node: start mpirun on the node of rank 0",
            ),
            NewNodes::None => Err("this launcher takes no nodes that are new to it"),
        }
    }

    /// Records that the launcher is asked for processes on nodes new to it.
    pub(crate) fn takes_new_nodes(&mut self) {
        self.took_new_nodes = true;
    }

    /// Records the number of nodes that processes are on.
    pub(crate) fn is_on(&mut self, nodes: usize) {
        self.was_on_several_nodes |= nodes > 1;
    }

    /// Returns true if processes can be spawned.
    pub(crate) fn can_start(&self) -> bool {
        self.limits.named > 0
    }

    /// Slots of a host, if the program listed them, or it was brought with them.
    pub(crate) fn slots_of(&self, host: &str) -> Option<u32> {
        let mut known = self.limits.slots.iter().chain(&self.new_slots);
        known.find(|(name, _)| name == host).map(|(_, slots)| *slots)
    }

    /// The hosts with known slots.
    pub(crate) fn listed(&self) -> Vec<String> {
        self.limits.slots.iter().map(|(host, _)| host.clone()).collect()
    }

    /// Why there can be no more processes.
    pub(crate) fn reason(&self) -> &str {
        &self.limits.reason
    }

    /// Returns the number of the unit with which a process leaves; it is never reused. Each
    /// launched process is a unit; spawned units are numbered after them.
    pub(crate) fn unit_of(&self, process: usize) -> u64 {
        match self.sources.get(process) {
            Some(&Source::Unit(unit)) => self.launched + unit,
            Some(&Source::Launched(rank)) => rank as u64,
            _ => process as u64,
        }
    }

    /// Sizes of the units for spawning this many processes.
    pub(crate) fn units_for(&self, processes: usize) -> Vec<usize> {
        let unit = self.limits.unit.max(1);
        (0..processes).step_by(unit).map(|first| unit.min(processes - first)).collect()
    }

    /// Returns the leavers that end for good.
    pub(crate) fn gone(&self, leavers: &[usize]) -> Vec<usize> {
        leavers.iter().copied().filter(|&leaver| !self.was_launched(leaver)).collect()
    }

    /// Updates the table after a committed resize.
    pub(crate) fn go_over(&mut self, resize: &ResizePlan) {
        if resize.brought && self.limits.room.is_some() {
            for (host, &size) in resize.hosts.iter().zip(&resize.units) {
                let size = u32::try_from(size).unwrap_or(u32::MAX);
                match self.new_slots.iter_mut().find(|(name, _)| name == host) {
                    Some((_, slots)) => *slots += size,
                    None => self.new_slots.push((host.clone(), size)),
                }
            }
        }
        for &size in &resize.units {
            self.sources.extend(std::iter::repeat_n(Source::Unit(self.started), size));
            if resize.brought {
                self.on_new_nodes.push(self.started);
            }
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
        for kind in [NewNodes::None, NewNodes::One.apart_from_launcher()] {
            assert!(of(kind).check_new_nodes(1, 1).is_err());
        }
        assert_eq!(NewNodes::Any.apart_from_launcher(), NewNodes::Any);
        for (kind, again) in [(NewNodes::One, false), (NewNodes::Any, true)] {
            let mut processes = of(kind);
            processes.is_on(2);
            processes.is_on(1);
            assert_eq!(processes.check_new_nodes(1, 1).is_ok(), again);
        }
        for (kind, again) in [(NewNodes::One, false), (NewNodes::Any, true)] {
            let mut processes = of(kind);
            processes.takes_new_nodes();
            assert_eq!(processes.check_new_nodes(1, 1).is_ok(), again);
        }
    }

    #[test]
    fn new_node_has_slots_for_its_own_processes_only() {
        let limits =
            Limits { most: 2, named: 9, room: Some(2), room_named: Some(2), ..Limits::default() };
        let mut processes = ProcessTable::launched(1, limits);
        processes.takes_new_nodes();
        let brought = ResizePlan {
            units: vec![2, 1],
            hosts: vec!["n2".to_owned(); 2],
            brought: true,
            ..ResizePlan::default()
        };
        processes.go_over(&brought);
        assert_eq!((processes.slots_of("n2"), processes.slots_of("n1")), (Some(3), None));
        for is_named in [false, true] {
            assert_eq!(processes.check_room(1, is_named), Ok(()), "the first node has a free slot");
            let refused = processes.check_room(2, is_named).unwrap_err();
            assert!(refused.contains("any of the 4 ends, and there are slots for 5"), "{refused}");
        }
        assert_eq!(processes.most(), 5, "also without a named host");
        processes.go_over(&ResizePlan { gone: vec![1, 2, 3], ..ResizePlan::default() });
        assert_eq!(processes.most(), 2);
        assert!(processes.check_room(1, true).is_ok() && processes.check_room(2, true).is_err());
    }

    #[test]
    fn lost_process_counts_until_the_others_go_on() {
        let mut processes = ProcessTable::launched(3, Limits { most: 3, ..Limits::default() });
        assert_eq!(processes.remove_dead(&[1]), [1]);
        assert_eq!(processes.remove_dead(&[1]), [0_usize; 0]);
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
