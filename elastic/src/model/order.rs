//! Orders of agents to the processes of the job, as pure data with derived facts.

use serde::{Deserialize, Serialize};

use crate::model::member::MemberId;

/// State of a process as the other processes of its node see it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seat {
    /// The process has not published its seat yet.
    Unsaid,
    /// No process waits for it.
    Asleep,
    /// This rank of the world, now or after the resize that it has been called to.
    Rank(usize),
}

/// The current order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// The world changes.
    Resize(ResizePlan),
    /// The job is over: sleepers may end.
    End(Losses),
}

/// Processes that have ended without [`World::end`](crate::World::end), and that the job continued
/// without.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Losses {
    /// Processes that still count as live ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counted: Vec<usize>,
    /// All of them, by their ranks at launch, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub launched: Vec<usize>,
}

/// One change of the world. Processes are given by their ranks in the communicator of all live
/// processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ResizePlan {
    /// Number of the resize, counted from 1, aborted ones included.
    pub number: u64,
    /// Number of resizes committed before it.
    #[serde(default)]
    pub epoch: u64,
    /// Processes in the world now, in the order of their ranks.
    pub old: Vec<usize>,
    /// Processes in the world afterwards.
    pub new: Vec<usize>,
    /// Sizes of the units spawned for it: their ranks follow all others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<usize>,
    /// The host of each unit, by the launcher's name; empty if the launcher chooses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// True if the hosts were brought for it: the launcher does not know them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub brought: bool,
    /// Processes that are not counted any more after the resize: the leavers that end for good, and
    /// the [lost](Self::lost).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<usize>,
    /// Processes that have ended in their sleep. Only set if all other processes take part, and
    /// continue without them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<usize>,
}

/// Part of a process in a resize.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Stays,
    Leaves,
    Joins,
    /// The process continues to sleep.
    None,
}

impl ResizePlan {
    pub(crate) fn part_of(&self, process: usize) -> Part {
        match (self.old.contains(&process), self.new.contains(&process)) {
            (true, true) => Part::Stays,
            (true, false) => Part::Leaves,
            (false, true) => Part::Joins,
            (false, false) => Part::None,
        }
    }

    /// Seat after the resize of a process that takes part.
    pub(crate) fn seat(&self, process: usize) -> Seat {
        self.new.iter().position(|&new| new == process).map_or(Seat::Asleep, Seat::Rank)
    }

    /// As [`seat`](Self::seat), but a leaver keeps its rank until the resize has ended, so that the
    /// others wait for it.
    pub(crate) fn seat_until_end(&self, process: usize) -> Seat {
        match self.old.iter().position(|&old| old == process) {
            Some(rank) if self.part_of(process) == Part::Leaves => Seat::Rank(rank),
            _ => self.seat(process),
        }
    }

    /// Returns true if the set of live processes changes.
    pub(crate) fn changes_processes(&self) -> bool {
        !(self.units.is_empty() && self.gone.is_empty())
    }

    /// New rank of a live process once the [gone](Self::gone) ones are not counted; `None` for a
    /// gone one.
    pub(crate) fn renumber(&self, process: usize) -> Option<usize> {
        let before = self.gone.iter().filter(|&&gone| gone < process).count();
        (!self.gone.contains(&process)).then(|| process - before)
    }

    /// Ranks of processes in a communicator without the [lost](Self::lost) ones.
    pub(crate) fn without_lost(&self, processes: &[usize]) -> Vec<usize> {
        let before = |process: usize| self.lost.iter().filter(|&&lost| lost < process).count();
        let present = processes.iter().filter(|process| !self.lost.contains(process));
        present.map(|&process| process - before(process)).collect()
    }

    /// Inverse of [`renumber`](Self::renumber): the old rank for a new one.
    pub(crate) fn before(&self, process: usize) -> usize {
        let mut gone = self.gone.clone();
        gone.sort_unstable();
        gone.iter().fold(process, |process, &gone| process + usize::from(gone <= process))
    }

    pub(crate) fn joiners(&self) -> impl Iterator<Item = usize> {
        self.new.iter().copied().filter(|process| !self.old.contains(process))
    }

    /// Joiners with their member ids, in their order.
    pub(crate) fn joining_members(&self) -> impl Iterator<Item = (usize, MemberId)> {
        self.joiners().map(|process| (process, self.member(process)))
    }

    /// Joiners that sleep; the other joiners are spawned.
    pub(crate) fn sleepers(&self) -> Vec<usize> {
        let started: usize = self.units.iter().sum();
        let joiners: Vec<usize> = self.joiners().collect();
        joiners[..joiners.len() - started.min(joiners.len())].to_vec()
    }

    pub(crate) fn leavers(&self) -> impl Iterator<Item = usize> {
        self.old.iter().copied().filter(|process| !self.new.contains(process))
    }

    /// Old ranks, then joiners.
    pub(crate) fn all_ranks(&self) -> Vec<usize> {
        self.old.iter().copied().chain(self.joiners()).collect()
    }

    /// Member id of a process that joins with this resize.
    pub(crate) fn member(&self, process: usize) -> MemberId {
        MemberId::new(self.number as u32, process as u32)
    }

    /// Returns a tag unique among the communicators of this resize and of concurrent ones.
    pub(crate) fn tag(&self, which: u16) -> u16 {
        ((self.number % 4096) as u16) << 3 | which
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_is_the_old_ranks_and_then_the_joiners() {
        let resize = ResizePlan {
            number: 1,
            old: vec![0, 2, 5],
            new: vec![0, 5, 1],
            ..ResizePlan::default()
        };
        assert_eq!(resize.joiners().collect::<Vec<_>>(), [1]);
        assert_eq!(resize.leavers().collect::<Vec<_>>(), [2]);
        assert_eq!(resize.all_ranks(), [0, 2, 5, 1]);
        let parts = [0, 2, 1, 4].map(|process| resize.part_of(process));
        assert_eq!(parts, [Part::Stays, Part::Leaves, Part::Joins, Part::None]);
    }

    #[test]
    fn processes_behind_those_who_are_gone_move_up() {
        let resize = ResizePlan { gone: vec![1, 3], ..ResizePlan::default() };
        let ranks = [0, 1, 2, 3, 4].map(|process| resize.renumber(process));
        assert_eq!(ranks, [Some(0), None, Some(1), None, Some(2)]);
        assert_eq!([0, 1, 2, 3].map(|process| resize.before(process)), [0, 2, 4, 5]);
        assert!(resize.changes_processes() && !ResizePlan::default().changes_processes());
    }

    #[test]
    fn ranks_behind_lost_processes_move_up() {
        let resize = ResizePlan { lost: vec![1], gone: vec![1, 2], ..ResizePlan::default() };
        assert_eq!(resize.without_lost(&[0, 1, 2, 3]), [0, 1, 2]);
        assert_eq!(resize.renumber(3), Some(1));
    }

    #[test]
    fn an_order_travels_as_text() {
        let order = Order::Resize(ResizePlan {
            number: 3,
            old: vec![0],
            new: vec![0, 1],
            ..ResizePlan::default()
        });
        let text = serde_json::to_string(&order).unwrap();
        assert_eq!(text, r#"{"resize":{"number":3,"epoch":0,"old":[0],"new":[0,1]}}"#);
        assert_eq!(serde_json::from_str::<Order>(&text).unwrap(), order);
    }
}
