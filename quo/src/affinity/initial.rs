//! Initial bindings of a node's ranks on a simulated machine, before anything is pushed.

use std::fmt;
use std::str::FromStr;

use super::{BindError, Target};
use crate::cpuset::CpuSet;
use crate::topology::{ObjectType, Topology};

/// First binding of every rank of a node, as given to `QUO_BINDING` and `quo-info plan --binding`.
///
/// Parsed from `none`, an object type, or CPU lists by node rank separated by semicolons.
///
/// ```
/// use quo::affinity::InitialBinding;
/// use quo::topology::Topology;
/// let machine = Topology::from_synthetic("package:2 core:4 pu:1")?;
/// let binding: InitialBinding = "package".parse()?;
/// assert_eq!(binding.mask(&machine, 1)?.to_string(), "4-7");
/// let binding: InitialBinding = "0-1;2-7".parse()?;
/// assert_eq!(binding.mask(&machine, 2)?.to_string(), "0-1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum InitialBinding {
    /// Every rank may run on all allowed CPUs.
    #[default]
    None,
    /// Node rank `i` is bound to object `i` of those with allowed CPUs, round robin.
    Each(ObjectType),
    /// Node rank `i` is bound to list `i`, round robin.
    Lists(Vec<CpuSet>),
}

impl InitialBinding {
    /// Returns the mask of a node rank. Pure.
    ///
    /// # Errors
    /// [`BindError::Topology`] if the machine has no object of the type, and the errors of
    /// [`Target::resolve`] for CPUs that are not allowed.
    pub fn mask(&self, topology: &Topology, node_rank: usize) -> Result<CpuSet, BindError> {
        let target = match self {
            Self::None => return Ok(topology.allowed().clone()),
            Self::Each(kind) => {
                // Like launchers, skips objects that may not be used.
                let objects = topology.objects(*kind).iter();
                let usable = objects.filter(|object| object.cpuset.intersects(topology.allowed()));
                let count = usable.clone().count();
                let place = node_rank.checked_rem(count).unwrap_or(0);
                let index = usable.map(|object| object.index).nth(place);
                Target::Object(*kind, index.unwrap_or(0))
            }
            Self::Lists(lists) => match node_rank.checked_rem(lists.len()) {
                Some(place) => Target::Cpus(lists[place].clone()),
                None => return Ok(topology.allowed().clone()),
            },
        };
        target.resolve(topology, topology.allowed())
    }
}

impl FromStr for InitialBinding {
    type Err = ParseInitialBindingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.trim() == "none" {
            return Ok(Self::None);
        }
        if let Ok(kind) = text.trim().parse() {
            return Ok(Self::Each(kind));
        }
        let lists = text.split(';').map(|list| match list.parse::<CpuSet>() {
            Ok(cpus) if cpus.is_empty() => Err("a list is empty".to_owned()),
            Ok(cpus) => Ok(cpus),
            Err(error) => Err(error.to_string()),
        });
        let lists = lists.collect::<Result<_, _>>();
        lists.map(Self::Lists).map_err(|reason| ParseInitialBindingError { reason })
    }
}

/// Error for a text that is not a valid binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseInitialBindingError {
    reason: String,
}

impl fmt::Display for ParseInitialBindingError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "neither none, nor an object type, nor CPU lists: {}", self.reason)
    }
}

impl std::error::Error for ParseInitialBindingError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn masks(text: &str) -> Vec<String> {
        let machine = Topology::from_synthetic("package:2 core:2 pu:2").unwrap();
        let binding: InitialBinding = text.parse().unwrap();
        (0..5).map(|rank| binding.mask(&machine, rank).unwrap().to_string()).collect()
    }

    #[test]
    fn ranks_are_bound_round_robin() {
        assert_eq!(masks("none"), ["0-7"; 5]);
        assert_eq!(masks("core"), ["0-1", "2-3", "4-5", "6-7", "0-1"]);
        assert_eq!(masks("socket"), ["0-3", "4-7", "0-3", "4-7", "0-3"]);
        assert_eq!(masks("0,4;1-2"), ["0,4", "1-2", "0,4", "1-2", "0,4"]);
    }

    #[test]
    fn objects_that_may_not_be_used_are_passed_over() {
        let machine = Topology::from_synthetic("package:2 core:2 pu:2").unwrap();
        let machine = machine.with_allowed(&"3-7".parse().unwrap()).unwrap();
        let binding = InitialBinding::Each(ObjectType::Core);
        let masks = (0..4).map(|rank| binding.mask(&machine, rank).unwrap().to_string());
        assert_eq!(masks.collect::<Vec<_>>(), ["3", "4-5", "6-7", "3"]);
    }

    #[test]
    fn what_cannot_be_bound_to_is_refused() {
        let machine = Topology::from_synthetic("package:2 core:2 pu:2").unwrap();
        for text in ["die", "0-99"] {
            let binding: InitialBinding = text.parse().unwrap();
            assert!(binding.mask(&machine, 0).is_err(), "{text}");
        }
        for text in ["", "corps", "0-1;", "3-1"] {
            let error = text.parse::<InitialBinding>().unwrap_err().to_string();
            assert!(error.contains("CPU lists"), "{error}");
        }
    }
}
