//! Messages that ranks exchange about a move, and the check that they agree.

use std::time::Duration;

use quo::group::{Group, GroupError, WaitLimits, allgather_bytes};
use quo_mpi::MpiGroup;
use serde::{Deserialize, Serialize};

use super::block::TokenLocation;
use super::matrix_index::MatrixIndex;
use super::{DataError, Pattern};
use crate::layout::{Distribution, LayoutError, Ranks};
use crate::node::liveness::LivenessCheck;

/// Arrays have the tags below this one.
pub(super) const TAG_OF_CARRIED: u16 = 1 << 14;
/// Callbacks have the tags below this one.
pub(super) const TAG_OF_INDICES: u16 = TAG_OF_CARRIED + 1024;

/// Tag of the questions from which plans are made, over the communicator of exchanges.
pub(super) const TAG_OF_PLANS: u16 = 2;
/// Tag of the sizes of pieces, over any communicator.
pub(super) const TAG_OF_SIZES: u16 = 0x7fff;
/// Tag of items on their way to owners, over the communicator of exchanges.
pub(super) const TAG_OF_ITEMS: u16 = 3;

/// Result of a move: bytes of this process and of all processes, and the duration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    /// Number of arrays and callbacks.
    pub arrays: usize,
    /// Number of steps of all schedules.
    pub steps: usize,
    /// Bytes that this process had for other processes.
    pub sent: u64,
    /// Bytes that this process has copied from the memory of other processes.
    pub shared: u64,
    /// Bytes that stayed on this process and were copied to their new place.
    pub kept: u64,
    /// Bytes that all processes had for other processes.
    pub all_sent: u64,
    /// Part of them that went through shared memory.
    pub all_shared: u64,
    /// Bytes that stayed on their process, over all processes.
    pub all_kept: u64,
    /// Seconds from the beginning of the move to the agreement that it is done.
    pub seconds: f64,
}

/// Ranks of a group between which arrays move. The old ranks are the first ranks of the group.
#[derive(Clone, Debug)]
pub struct Participants {
    /// Number of old ranks.
    pub old: usize,
    /// Rank in the group of each new rank.
    pub new: Vec<usize>,
    /// Index of this process's node.
    pub node: usize,
    /// The longest time without progress before the move fails.
    pub patience: Duration,
    /// The processes that must stay alive: a death fails the move.
    pub liveness: LivenessCheck,
}

impl Participants {
    /// Gathers the values of all processes of the group. Collective.
    pub(super) fn exchange<T: Serialize + for<'b> Deserialize<'b>>(
        &self,
        group: &MpiGroup,
        mine: &T,
    ) -> Result<Vec<T>, GroupError> {
        self.liveness.within(self.patience, |limits| exchange("move", group, mine, limits))
    }
}

/// An array as all ranks have to describe it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Described {
    pub number: u64,
    pub name: String,
    pub element: usize,
    pub pattern: Pattern,
    /// Its pattern after the move, if it changes.
    pub next: Option<Pattern>,
    /// The matrix of an array along nonzeros.
    pub lines: Option<MatrixIndex>,
    /// Name of the matrix of a vector with ghost columns.
    pub matrix: Option<String>,
}

impl Described {
    /// Returns the layout on these ranks, from a pattern or from the lines of its matrix.
    pub fn over(&self, pattern: Pattern, ranks: Ranks) -> Result<Distribution, LayoutError> {
        match &self.lines {
            Some(lines) => lines.matrix()?.entries(ranks),
            None => pattern.over(ranks),
        }
    }
}

/// A sparse matrix as all ranks have to describe it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DescribedMatrix {
    pub name: String,
    /// Number of rows, and of columns.
    pub rows: usize,
    pub element: usize,
    /// Number of the first column, and of the first element: 0 or 1.
    pub base: usize,
}

/// Facts about a process's data before the move.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HeldArrays {
    pub node: u64,
    pub token: Option<TokenLocation>,
    /// `None` on a joiner.
    pub arrays: Option<Vec<Described>>,
    /// Sparse matrices; none on a joiner.
    pub matrices: Vec<DescribedMatrix>,
    /// The number of the next array.
    pub next: u64,
    /// Names of callbacks, ascending.
    pub callbacks: Vec<String>,
    /// Bytes of an item of each list.
    pub items: Vec<(String, usize)>,
    /// Why it cannot move any data.
    pub reason: Option<String>,
}

/// Descriptors of a part of an array, before and after the move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Descriptors {
    pub old: Option<i32>,
    pub new: Option<i32>,
}

/// Readiness of a process to move, with the facts that other processes need.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MoveReadiness {
    pub reason: Option<String>,
    /// By array.
    pub parts: Vec<Descriptors>,
    /// Processes of its node with memory that it cannot map.
    pub invisible: Vec<usize>,
}

/// Result of the move on a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TransferReport {
    pub reason: Option<String>,
    pub sent: u64,
    pub shared: u64,
    pub kept: u64,
}

/// Gathers the values of all ranks, in the order of the ranks. Collective.
pub(crate) fn exchange<T: Serialize + for<'a> Deserialize<'a>>(
    call: &'static str,
    group: &impl Group,
    mine: &T,
    limits: &WaitLimits<'_>,
) -> Result<Vec<T>, GroupError> {
    let unreadable = |error: serde_json::Error| GroupError::Unsuitable {
        call,
        reason: format!("a message of a rank cannot be read: {error}").into(),
    };
    let mine = serde_json::to_vec(mine).map_err(unreadable)?;
    let all = allgather_bytes(group, &mine, limits)?;
    all.iter().map(|bytes| serde_json::from_slice(bytes).map_err(unreadable)).collect()
}

/// Arrays and matrices to move, as all old ranks have them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Agreed {
    pub arrays: Vec<Described>,
    pub matrices: Vec<DescribedMatrix>,
    /// The number of the next array.
    pub next: u64,
}

/// Returns the arrays and matrices that a call is about.
pub(super) fn agreed(call: &'static str, all: &[HeldArrays]) -> Result<Agreed, DataError> {
    let disagree = |rank, reason| Err(DataError::Disagree { call, rank, reason });
    for (rank, holds) in all.iter().enumerate() {
        if let Some(reason) = &holds.reason {
            return disagree(rank, reason.clone());
        }
    }
    let mut ranks = all.iter().enumerate();
    let first = ranks.find_map(|(rank, holds)| Some((rank, holds, holds.arrays.as_ref()?)));
    let Some((first, right, arrays)) = first else { return Ok(Agreed::default()) };
    for (rank, holds) in all.iter().enumerate() {
        if let Some(others) = &holds.arrays
            && let Some(reason) = difference(others, arrays, first)
        {
            return disagree(rank, reason);
        }
        if holds.arrays.is_some() && holds.matrices != right.matrices {
            let reason = format!(
                "its matrices are {}, and on rank {first} {}: all ranks register the same in the same order",
                matrices(&holds.matrices),
                matrices(&right.matrices)
            );
            return disagree(rank, reason);
        }
        if let Some(name) = lacking(&right.callbacks, &holds.callbacks) {
            let who = if holds.arrays.is_some() { "it" } else { "the joiner" };
            let reason = format!("{who} has no callback or items `{name}`, which rank {first} has");
            return disagree(rank, reason);
        }
        if let Some(name) = lacking(&holds.callbacks, &right.callbacks) {
            let reason = format!("its callback or items `{name}` are missing on rank {first}");
            return disagree(rank, reason);
        }
        let size = |of: &HeldArrays, name: &str| {
            of.items.iter().find(|(other, _)| other == name).map(|(_, size)| *size)
        };
        for name in &right.callbacks {
            let reason = match (size(holds, name), size(right, name)) {
                (found, expected) if found == expected => continue,
                (Some(found), Some(expected)) => format!(
                    "its items of `{name}` have {found} bytes, and on rank {first} {expected}: register items of one size everywhere"
                ),
                (found, _) => {
                    let (its, other) = ("a list of items", "a callback");
                    let (its, other) = if found.is_some() { (its, other) } else { (other, its) };
                    format!("its `{name}` is {its}, and on rank {first} {other}")
                }
            };
            return disagree(rank, reason);
        }
    }
    Ok(Agreed { arrays: arrays.clone(), matrices: right.matrices.clone(), next: right.next })
}

/// Describes matrices in a message.
fn matrices(all: &[DescribedMatrix]) -> String {
    let describe = |matrix: &DescribedMatrix| {
        let DescribedMatrix { name, rows, element, base } = matrix;
        format!("`{name}` ({rows} rows from {base}, elements of {element} bytes)")
    };
    match all {
        [] => "none".to_owned(),
        _ => all.iter().map(describe).collect::<Vec<_>>().join(", "),
    }
}

fn lacking<'a>(of: &'a [String], names: &[String]) -> Option<&'a String> {
    of.iter().find(|name| !names.contains(name))
}

/// Returns the first difference of one rank from rank `first`.
fn difference(others: &[Described], right: &[Described], first: usize) -> Option<String> {
    let pair = others.iter().zip(right).find(|(other, right)| other != right);
    match pair {
        Some((other, right)) if other.name != right.name => Some(format!(
            "its array `{}` is `{}` on rank {first}: all ranks register the same in the same order",
            other.name, right.name
        )),
        Some((other, right)) if other.number != right.number => Some(format!(
            "its array `{}` is number {} of its arrays, and on rank {first} it is number {}: all ranks register and \
             remove the same in the same order",
            other.name, other.number, right.number
        )),
        Some((other, right)) if other.lines != right.lines => Some(format!(
            "its array `{}` lies along another matrix than on rank {first}: all ranks register the same index",
            other.name
        )),
        Some((other, right)) if other.matrix != right.matrix => Some(format!(
            "its array `{}` is not a vector of the same matrix as on rank {first}",
            other.name
        )),
        Some((other, right)) => Some(format!(
            "its array `{}` is {:?} after {:?}, in elements of {} bytes, and on rank {first} {:?} after {:?}, in elements \
             of {} bytes",
            other.name,
            other.next.unwrap_or(other.pattern),
            other.pattern,
            other.element,
            right.next.unwrap_or(right.pattern),
            right.pattern,
            right.element
        )),
        None if others.len() != right.len() => Some(format!(
            "it has {} arrays and rank {first} has {}: all ranks register the same in the same order",
            others.len(),
            right.len()
        )),
        None => None,
    }
}

/// Fails with the first reason that a rank has.
pub(super) fn first_reason<'a>(
    reasons: impl IntoIterator<Item = &'a Option<String>>,
) -> Result<(), DataError> {
    let mut reasons = reasons.into_iter().enumerate();
    match reasons.find_map(|(rank, reason)| Some((rank, reason.clone()?))) {
        Some((rank, reason)) => Err(DataError::Failed { rank, reason }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(names: Option<&[&str]>) -> HeldArrays {
        let array = |(number, name): (usize, &&str)| Described {
            number: number as u64,
            name: (*name).to_owned(),
            element: 8,
            pattern: Pattern::block(10),
            next: None,
            lines: None,
            matrix: None,
        };
        let arrays = names.map(|names| names.iter().enumerate().map(array).collect());
        HeldArrays { arrays, ..HeldArrays::default() }
    }

    fn reason(all: &[HeldArrays]) -> (usize, String) {
        match agreed("move", all) {
            Err(DataError::Disagree { rank, reason, .. }) => (rank, reason),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn equal_registrations_and_empty_joiners_agree() {
        let all = [holds(Some(&["a", "b"])), holds(Some(&["a", "b"])), holds(None)];
        assert_eq!(agreed("move", &all).unwrap().arrays.len(), 2);
        assert_eq!(agreed("move", &[holds(None)]).unwrap(), Agreed::default());
    }

    #[test]
    fn a_rank_with_other_arrays_is_named_with_the_difference() {
        let (rank, said) = reason(&[holds(Some(&["a"])), holds(None), holds(Some(&["a", "b"]))]);
        assert_eq!(rank, 2);
        assert!(said.starts_with("it has 2 arrays and rank 0 has 1"), "{said}");
        let (_, said) = reason(&[holds(Some(&["a", "b"])), holds(Some(&["b", "a"]))]);
        assert!(said.starts_with("its array `b` is `a` on rank 0"), "{said}");
        let mut other = holds(Some(&["a"]));
        other.arrays.as_mut().unwrap()[0].element = 4;
        let (_, said) = reason(&[holds(Some(&["a"])), other]);
        assert!(said.contains("elements of 4 bytes"), "{said}");
        let mut later = holds(Some(&["a"]));
        later.arrays.as_mut().unwrap()[0].number = 3;
        let (_, said) = reason(&[holds(Some(&["a"])), later]);
        assert!(
            said.starts_with("its array `a` is number 3 of its arrays, and on rank 0"),
            "{said}"
        );
    }

    #[test]
    fn matrices_that_differ_are_named_with_both_descriptions() {
        let described = |rows| DescribedMatrix { name: "A".to_owned(), rows, element: 8, base: 0 };
        let mut all = [holds(Some(&[])), holds(None), holds(Some(&[]))];
        all[0].matrices = vec![described(7)];
        let (rank, said) = reason(&all);
        assert_eq!(rank, 2);
        assert!(said.starts_with("its matrices are none, and on rank 0 `A` (7 rows"), "{said}");
        all[2].matrices = vec![described(7)];
        assert_eq!(agreed("move", &all).unwrap().matrices, [described(7)]);
    }

    #[test]
    fn items_of_another_size_or_kind_are_named() {
        let items = |bytes, holds| {
            let callbacks = vec!["ants".to_owned()];
            HeldArrays { items: vec![("ants".to_owned(), bytes)], callbacks, ..holds }
        };
        let (rank, said) = reason(&[items(8, holds(Some(&[]))), items(16, holds(None))]);
        assert_eq!(rank, 1);
        assert!(said.starts_with("its items of `ants` have 16 bytes, and on rank 0 8"), "{said}");
        let mut all = [items(8, holds(Some(&[]))), items(8, holds(None))];
        assert_eq!(agreed("move", &all), Ok(Agreed::default()));
        all[1].items.clear();
        assert_eq!(
            reason(&all),
            (1, "its `ants` is a callback, and on rank 0 a list of items".to_owned())
        );
    }

    #[test]
    fn a_callback_that_is_missing_on_a_joiner_is_found() {
        let mut first = holds(Some(&[]));
        first.callbacks = vec!["mesh".to_owned()];
        let (rank, said) = reason(&[first.clone(), holds(None)]);
        assert_eq!(
            (rank, said.as_str()),
            (1, "the joiner has no callback or items `mesh`, which rank 0 has")
        );
        let (rank, said) = reason(&[holds(Some(&[])), first]);
        assert_eq!(
            (rank, said.as_str()),
            (1, "its callback or items `mesh` are missing on rank 0")
        );
    }
}
