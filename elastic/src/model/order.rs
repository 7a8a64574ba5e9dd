//! Orders of agents to the processes of the job: pure data, and the conclusions from it.

use serde::{Deserialize, Serialize};

use crate::model::member::MemberId;

/// State of a process for the others of its node.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seat {
    /// The process has not told its seat yet.
    Unsaid,
    /// No process waits for it.
    Asleep,
    /// This rank of the world, now or after the resize that it has been called to.
    Rank(usize),
}

/// The order of now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// The world becomes another one.
    Resize(ResizePlan),
    /// The job is over: sleepers may go.
    End(Losses),
}

/// Processes that have ended without a word and that the job has gone on without.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Losses {
    /// Processes that are still counted among the live ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counted: Vec<usize>,
    /// All of them, by their ranks at launch, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub launched: Vec<usize>,
}

/// One change of the world. Processes are named by their ranks in the communicator of all live processes.
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
    /// Processes of each unit that was started for it: their ranks come behind all others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<usize>,
    /// The host of each unit, by the launcher's name for it; empty where the launcher chooses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// The hosts were brought for it: the launcher does not know them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub brought: bool,
    /// Processes that are not counted any more afterwards: leavers that end for good, where others sleep, and the
    /// [lost](Self::lost).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<usize>,
    /// Processes that have ended in their sleep. Only where all others take part, who go on without them from here on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<usize>,
}

/// Part of a process in a resize.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Stays,
    Leaves,
    Joins,
    /// The process sleeps on.
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

    /// State in which the others see a process that takes part.
    pub(crate) fn seat(&self, process: usize) -> Seat {
        self.new.iter().position(|&new| new == process).map_or(Seat::Asleep, Seat::Rank)
    }

    /// As [`seat`](Self::seat), where a leaver is waited for until the resize has ended.
    pub(crate) fn seat_until_end(&self, process: usize) -> Seat {
        match self.old.iter().position(|&old| old == process) {
            Some(rank) if self.part_of(process) == Part::Leaves => Seat::Rank(rank),
            _ => self.seat(process),
        }
    }

    /// Returns true if there are other live processes afterwards.
    pub(crate) fn changes_processes(&self) -> bool {
        !(self.units.is_empty() && self.gone.is_empty())
    }

    /// The rank of a live process once those who are gone are not counted; none for one of them.
    pub(crate) fn renumber(&self, process: usize) -> Option<usize> {
        let before = self.gone.iter().filter(|&&gone| gone < process).count();
        (!self.gone.contains(&process)).then(|| process - before)
    }

    /// The ranks of processes in a communicator that lacks the [lost](Self::lost).
    pub(crate) fn without_lost(&self, processes: &[usize]) -> Vec<usize> {
        let before = |process: usize| self.lost.iter().filter(|&&lost| lost < process).count();
        let present = processes.iter().filter(|process| !self.lost.contains(process));
        present.map(|&process| process - before(process)).collect()
    }

    /// The process that [is](Self::renumber) this one afterwards.
    pub(crate) fn before(&self, process: usize) -> usize {
        let mut gone = self.gone.clone();
        gone.sort_unstable();
        gone.iter().fold(process, |process, &gone| process + usize::from(gone <= process))
    }

    pub(crate) fn joiners(&self) -> impl Iterator<Item = usize> {
        self.new.iter().copied().filter(|process| !self.old.contains(process))
    }

    /// Joiners that sleep; the others are started for it.
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

    /// The member that a process is that was started for it.
    pub(crate) fn member(&self, process: usize) -> MemberId {
        MemberId::new(self.number as u32, process as u32)
    }

    /// A tag that no other communicator of this resize or the ones beside it is made with.
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
