//! Facts that ranks exchange before data move, and the check that they agree.

use quo::group::{Group, GroupError, WaitLimits, allgather_bytes};
use serde::{Deserialize, Serialize};

use super::block::Place;
use super::compressed::Lines;
use super::{DataError, Pattern};
use crate::layout::{Distribution, LayoutError, Ranks};

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
    pub lines: Option<Lines>,
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

/// Facts about a process's data before the move.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Holds {
    pub node: u64,
    pub beacon: Option<Place>,
    /// `None` on a joiner.
    pub arrays: Option<Vec<Described>>,
    /// The number of the next array.
    pub next: u64,
    /// Names of callbacks, ascending.
    pub callbacks: Vec<String>,
    /// Why it cannot move any data.
    pub reason: Option<String>,
}

/// Descriptors of a part of an array, before and after the move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Parts {
    pub old: Option<i32>,
    pub new: Option<i32>,
}

/// Readiness of a process to move, with the facts that other processes need.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ready {
    pub reason: Option<String>,
    /// By array.
    pub parts: Vec<Parts>,
    /// Processes of its node with memory that it cannot map.
    pub out_of_sight: Vec<usize>,
    /// By callback: new ranks, and the number of bytes for each.
    pub given: Vec<Vec<(usize, usize)>>,
}

/// Result of the move on a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Went {
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

/// Returns the arrays to move, as all old ranks have them, and the number of the next array.
pub(super) fn agreed(all: &[Holds]) -> Result<(Vec<Described>, u64), DataError> {
    let disagree = |rank, reason| Err(DataError::Disagree { rank, reason });
    for (rank, holds) in all.iter().enumerate() {
        if let Some(reason) = &holds.reason {
            return disagree(rank, reason.clone());
        }
    }
    let mut ranks = all.iter().enumerate();
    let first = ranks.find_map(|(rank, holds)| Some((rank, holds, holds.arrays.as_ref()?)));
    let Some((first, right, arrays)) = first else { return Ok((Vec::new(), 0)) };
    for (rank, holds) in all.iter().enumerate() {
        if let Some(others) = &holds.arrays
            && let Some(reason) = difference(others, arrays, first)
        {
            return disagree(rank, reason);
        }
        if let Some(name) = lacking(&right.callbacks, &holds.callbacks) {
            let who = if holds.arrays.is_some() { "it" } else { "the joiner" };
            let reason = format!("{who} has no callback `{name}`, which rank {first} has");
            return disagree(rank, reason);
        }
        if let Some(name) = lacking(&holds.callbacks, &right.callbacks) {
            let reason = format!("its callback `{name}` is one that rank {first} has not");
            return disagree(rank, reason);
        }
    }
    Ok((arrays.clone(), right.next))
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
        Some((other, right)) if other.lines != right.lines => Some(format!(
            "its array `{}` lies along another matrix than on rank {first}: all ranks register the same index",
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

    fn holds(names: Option<&[&str]>) -> Holds {
        let array = |(number, name): (usize, &&str)| Described {
            number: number as u64,
            name: (*name).to_owned(),
            element: 8,
            pattern: Pattern::block(10),
            next: None,
            lines: None,
        };
        let arrays = names.map(|names| names.iter().enumerate().map(array).collect());
        Holds { arrays, ..Holds::default() }
    }

    fn reason(all: &[Holds]) -> (usize, String) {
        match agreed(all) {
            Err(DataError::Disagree { rank, reason }) => (rank, reason),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn equal_registrations_and_empty_joiners_agree() {
        let all = [holds(Some(&["a", "b"])), holds(Some(&["a", "b"])), holds(None)];
        assert_eq!(agreed(&all).unwrap().0.len(), 2);
        assert_eq!(agreed(&[holds(None)]).unwrap(), (Vec::new(), 0));
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
    }

    #[test]
    fn a_callback_that_is_missing_on_a_joiner_is_found() {
        let mut first = holds(Some(&[]));
        first.callbacks = vec!["mesh".to_owned()];
        let (rank, said) = reason(&[first.clone(), holds(None)]);
        assert_eq!(
            (rank, said.as_str()),
            (1, "the joiner has no callback `mesh`, which rank 0 has")
        );
        let (rank, said) = reason(&[holds(Some(&[])), first]);
        assert_eq!((rank, said.as_str()), (1, "its callback `mesh` is one that rank 0 has not"));
    }
}
