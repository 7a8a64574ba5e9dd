//! What agents tell the processes of the job: pure data, and what follows from it.

use serde::{Deserialize, Serialize};

/// What is to be done now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// The world becomes another one.
    Resize(Resize),
    /// The job is over: sleepers may go.
    End,
}

/// One change of the world. Processes are named by their ranks in the communicator of all live processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Resize {
    /// Which one, counted from 1: also given up ones.
    pub number: u64,
    /// Who is in the world now, in the order of their ranks.
    pub old: Vec<usize>,
    /// Who will be.
    pub new: Vec<usize>,
}

/// What a resize makes of a process.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Stays,
    Leaves,
    Joins,
    /// It sleeps on.
    None,
}

impl Resize {
    /// Grows by appending sleepers, lowest first, or shrinks from the highest rank, to `size` ranks. Rank 0 stays
    /// for ever. `None` when there are not so many processes, or nothing changes.
    pub(crate) fn to_size(number: u64, old: &[usize], all: usize, size: usize) -> Option<Self> {
        if size == 0 || size > all || size == old.len() {
            return None;
        }
        let mut new = old.to_vec();
        new.truncate(size);
        let sleepers = (0..all).filter(|process| !old.contains(process));
        new.extend(sleepers.take(size.saturating_sub(old.len())));
        Some(Self { number, old: old.to_vec(), new })
    }

    pub(crate) fn part_of(&self, process: usize) -> Part {
        match (self.old.contains(&process), self.new.contains(&process)) {
            (true, true) => Part::Stays,
            (true, false) => Part::Leaves,
            (false, true) => Part::Joins,
            (false, false) => Part::None,
        }
    }

    pub(crate) fn joiners(&self) -> impl Iterator<Item = usize> {
        self.new.iter().copied().filter(|process| !self.old.contains(process))
    }

    pub(crate) fn leavers(&self) -> impl Iterator<Item = usize> {
        self.old.iter().copied().filter(|process| !self.new.contains(process))
    }

    /// Old ranks, then joiners.
    pub(crate) fn everybody(&self) -> Vec<usize> {
        self.old.iter().copied().chain(self.joiners()).collect()
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
    fn growth_appends_the_lowest_sleepers_and_shrinking_takes_the_highest_ranks() {
        let grown = Resize::to_size(1, &[0, 2], 6, 4).unwrap();
        assert_eq!(grown.new, [0, 2, 1, 3]);
        assert_eq!(grown.joiners().collect::<Vec<_>>(), [1, 3]);
        let shrunk = Resize::to_size(2, &grown.new, 6, 1).unwrap();
        assert_eq!(shrunk.new, [0]);
        assert_eq!(shrunk.leavers().collect::<Vec<_>>(), [2, 1, 3]);
        assert_eq!(shrunk.everybody(), [0, 2, 1, 3]);
        assert_eq!(
            [0, 2, 4].map(|process| shrunk.part_of(process)),
            [Part::Stays, Part::Leaves, Part::None]
        );
    }

    #[test]
    fn impossible_sizes_and_the_same_size_are_no_resize() {
        for size in [0, 2, 7] {
            assert_eq!(Resize::to_size(1, &[0, 1], 6, size), None);
        }
    }

    #[test]
    fn an_order_travels_as_text() {
        let order = Order::Resize(Resize { number: 3, old: vec![0], new: vec![0, 1] });
        let text = serde_json::to_string(&order).unwrap();
        assert_eq!(text, r#"{"resize":{"number":3,"old":[0],"new":[0,1]}}"#);
        assert_eq!(serde_json::from_str::<Order>(&text).unwrap(), order);
    }
}
