//! Object types and objects.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::CpuSet;

/// Kind of hardware object.
///
/// Ordered from the outermost to the innermost as most machines nest them; a NUMA node may lie
/// above or below a package. Written and read by short lower-case names:
///
/// ```
/// use quo::topology::ObjectType;
/// assert_eq!("socket".parse::<ObjectType>()?, ObjectType::Package);
/// assert_eq!(ObjectType::NumaNode.to_string(), "numa");
/// # Ok::<(), quo::topology::ParseObjectTypeError>(())
/// ```
#[non_exhaustive]
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[doc(alias = "QUO_obj_type_t")]
pub enum ObjectType {
    /// The whole machine; there is always exactly one.
    #[doc(alias = "QUO_OBJ_MACHINE")]
    Machine,
    /// A NUMA node: memory and the CPUs that belong to it. Each CPU belongs to at most one node;
    /// nodes that are only memory (high-bandwidth memory, memory on a bus) have no CPUs.
    #[doc(alias = "QUO_OBJ_NUMANODE")]
    #[serde(rename = "numa")]
    NumaNode,
    /// A processor package, which fits into a socket.
    #[doc(alias = "QUO_OBJ_PACKAGE")]
    #[doc(alias = "QUO_OBJ_SOCKET")]
    Package,
    /// A die inside a package.
    Die,
    /// A level-3 cache and the CPUs that share it.
    #[serde(rename = "l3")]
    L3Cache,
    /// A level-2 cache and the CPUs that share it.
    #[serde(rename = "l2")]
    L2Cache,
    /// A level-1 data or unified cache and the CPUs that share it.
    #[serde(rename = "l1")]
    L1Cache,
    /// A core.
    #[doc(alias = "QUO_OBJ_CORE")]
    Core,
    /// A processing unit: one hardware thread, one CPU number of the kernel.
    #[doc(alias = "QUO_OBJ_PU")]
    Pu,
}

impl ObjectType {
    /// All types, outermost first.
    pub const ALL: [Self; 9] = [
        Self::Machine,
        Self::NumaNode,
        Self::Package,
        Self::Die,
        Self::L3Cache,
        Self::L2Cache,
        Self::L1Cache,
        Self::Core,
        Self::Pu,
    ];

    pub(super) const COUNT: usize = Self::ALL.len();

    /// Returns the short name, as [`Display`](fmt::Display) writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::NumaNode => "numa",
            Self::Package => "package",
            Self::Die => "die",
            Self::L3Cache => "l3",
            Self::L2Cache => "l2",
            Self::L1Cache => "l1",
            Self::Core => "core",
            Self::Pu => "pu",
        }
    }

    /// Returns the plural, for sentences.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Machine => "machines",
            Self::NumaNode => "NUMA nodes",
            Self::Package => "packages",
            Self::Die => "dies",
            Self::L3Cache => "L3 caches",
            Self::L2Cache => "L2 caches",
            Self::L1Cache => "L1 caches",
            Self::Core => "cores",
            Self::Pu => "PUs",
        }
    }

    pub(super) const fn slot(self) -> usize {
        self as usize
    }
}

impl fmt::Display for ObjectType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

/// Error for a text that names no object type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not an object type: machine, numa, package (socket), die, l3, l2, l1, core, pu"
)]
pub struct ParseObjectTypeError {
    text: String,
}

impl FromStr for ObjectType {
    type Err = ParseObjectTypeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let lower = text.to_ascii_lowercase();
        match lower.as_str() {
            "socket" => Ok(Self::Package),
            "node" | "numanode" => Ok(Self::NumaNode),
            name => Self::ALL
                .into_iter()
                .find(|kind| kind.name() == name)
                .ok_or_else(|| ParseObjectTypeError { text: super::origin::shortened(text) }),
        }
    }
}

/// A hardware object.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Object {
    /// Type of the object.
    pub kind: ObjectType,
    /// Logical index of the object among those of its type, from 0.
    pub index: usize,
    /// Number given by the operating system, if any.
    pub os_index: Option<usize>,
    /// Physical CPU numbers inside the object, including disallowed ones.
    pub cpuset: CpuSet,
    /// Bytes: the local memory of a NUMA node, the capacity of a cache; 0 for other types or if
    /// unknown.
    pub memory: u64,
    /// Model of a machine or package; often empty.
    pub name: String,
}

impl Object {
    /// Returns an object from which to build a topology, which assigns its index.
    #[must_use]
    pub fn new(kind: ObjectType, cpuset: CpuSet) -> Self {
        Self { kind, index: 0, os_index: None, cpuset, memory: 0, name: String::new() }
    }

    /// Returns the object with the number given by the operating system.
    #[must_use]
    pub fn with_os_index(mut self, os_index: usize) -> Self {
        self.os_index = Some(os_index);
        self
    }

    /// Returns the object with its memory or capacity in bytes.
    #[must_use]
    pub fn with_memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Returns the object with a model name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_its_slot_and_reads_its_own_name() {
        for (slot, kind) in ObjectType::ALL.into_iter().enumerate() {
            assert_eq!(kind.slot(), slot);
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
    }

    #[test]
    fn a_wrong_name_is_told_the_right_ones() {
        let error = "soccket".parse::<ObjectType>().unwrap_err().to_string();
        assert!(error.contains("soccket") && error.contains("package"), "{error}");
    }
}
