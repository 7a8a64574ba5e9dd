//! One process set: members and attributes.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Members, SetName, SetsError};

/// Prefix of the names of scheduling hints; the rest is free.
pub const HINT_PREFIX: &str = "mpi_ps_sched_";

/// The hint with the ideal number of members of a set, which [`Registry::growth_target`] uses.
///
/// [`Registry::growth_target`]: super::Registry::growth_target
pub const IDEAL_SIZE_HINT: &str = "mpi_ps_sched_opt";

/// Largest length of a key or hint in bytes.
pub const LONGEST_KEY: usize = 255;

/// Largest length of a value in bytes, of a hint or in a set's store.
pub const LONGEST_VALUE: usize = 65_536;

/// Operation that makes a set from two sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[doc(alias = "MPI_pset_op")]
pub enum SetOp {
    /// Members of either set.
    #[doc(alias = "MPI_PSETOP_UNION")]
    Union,
    /// Members of the first set that are not in the second.
    #[doc(alias = "MPI_PSETOP_DIFFERENCE")]
    Difference,
    /// Members of both sets.
    #[doc(alias = "MPI_PSETOP_INTERSECTION")]
    Intersection,
}

impl SetOp {
    /// Returns the members of the result, which may be empty.
    pub fn of(self, first: &Members, second: &Members) -> Members {
        match self {
            SetOp::Union => first.union(second),
            SetOp::Difference => first.difference(second),
            SetOp::Intersection => first.intersection(second),
        }
    }
}

impl fmt::Display for SetOp {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            SetOp::Union => "union",
            SetOp::Difference => "difference",
            SetOp::Intersection => "intersection",
        })
    }
}

/// Whether a resize adds the members of its delta or removes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeltaKind {
    /// The members join.
    #[doc(alias = "MPI_RC_ADD")]
    Add,
    /// The members leave.
    #[doc(alias = "MPI_RC_SUB")]
    Sub,
}

/// The application's attributes of a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// True if only the application changes the members. Otherwise the registry keeps the set
    /// consistent with resizes by itself.
    #[doc(alias = "mpi_ps_active")]
    pub active: bool,
    /// Hints for resource managers; keys begin with [`HINT_PREFIX`].
    #[doc(alias = "mpi_ps_sched_xxx")]
    pub hints: BTreeMap<String, String>,
}

impl Default for Attributes {
    fn default() -> Attributes {
        Attributes { active: true, hints: BTreeMap::new() }
    }
}

/// Changes to the attributes that a set has or inherits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttributeChange {
    /// True if only the application changes the members; `None` keeps the present value.
    pub active: Option<bool>,
    /// Hints to set, or with `None` to remove; others are kept.
    pub hints: BTreeMap<String, Option<String>>,
}

impl AttributeChange {
    /// Makes an empty change: everything is inherited.
    pub fn none() -> AttributeChange {
        AttributeChange::default()
    }

    /// Sets the value of `mpi_ps_active`.
    #[must_use]
    pub fn active(mut self, active: bool) -> AttributeChange {
        self.active = Some(active);
        self
    }

    /// Sets a hint.
    #[must_use]
    pub fn hint(mut self, key: impl Into<String>, value: impl Into<String>) -> AttributeChange {
        self.hints.insert(key.into(), Some(value.into()));
        self
    }

    pub(super) fn check(&self, call: &'static str, name: &SetName) -> Result<(), SetsError> {
        for (key, value) in &self.hints {
            check_entry(call, "hint", name, key, value.as_ref().map_or(0, String::len))?;
            if !key.starts_with(HINT_PREFIX) {
                let cause = "hints begin with mpi_ps_sched_";
                return Err(bad_entry(call, "hint", name, key, cause));
            }
        }
        Ok(())
    }

    pub(super) fn apply(&self, to: &mut Attributes) {
        if let Some(active) = self.active {
            to.active = active;
        }
        for (key, value) in &self.hints {
            match value {
                Some(value) => to.hints.insert(key.clone(), value.clone()),
                None => to.hints.remove(key),
            };
        }
    }
}

/// Checks that key and value have a length and form that every rank and every language can
/// represent.
pub(super) fn check_entry(
    call: &'static str,
    what: &'static str,
    name: &SetName,
    key: &str,
    value_bytes: usize,
) -> Result<(), SetsError> {
    let cause = if key.is_empty() {
        "it is empty"
    } else if key.len() > LONGEST_KEY {
        "it is longer than 255 bytes"
    } else if key.chars().any(char::is_control) {
        "control characters are not allowed"
    } else if value_bytes > LONGEST_VALUE {
        "its value is longer than 65536 bytes"
    } else {
        return Ok(());
    };
    Err(bad_entry(call, what, name, key, cause))
}

fn bad_entry(
    call: &'static str,
    what: &'static str,
    name: &SetName,
    key: &str,
    cause: &'static str,
) -> SetsError {
    SetsError::BadEntry {
        call,
        what,
        name: name.clone(),
        key: key.chars().take(80).collect(),
        cause,
    }
}

/// A process set as the registry holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessSet {
    pub(super) members: Members,
    pub(super) version: u64,
    pub(super) epoch: u64,
    pub(super) attributes: Attributes,
    /// Order of creation, in which names are listed.
    pub(super) serial: u64,
}

impl ProcessSet {
    /// Members of the set; empty once it is deleted.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// Number of changes of the set's members; 0 at its creation.
    #[doc(alias = "mpi_ps_version")]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the number of the resize that last changed the set; 0 if none did.
    #[doc(alias = "mpi_ps_epoch")]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the attributes that the application has set.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Returns true if the last member has left. The name remains listed as invalid until it is
    /// pruned.
    pub fn is_deleted(&self) -> bool {
        self.members.is_empty()
    }

    /// Replaces the members: the version increases, and the epoch becomes this one if it is later.
    /// The same members change nothing. Returns true if the members changed.
    pub(super) fn become_members(&mut self, members: Members, epoch: u64) -> bool {
        if self.members == members {
            return false;
        }
        self.members = members;
        self.version += 1;
        self.epoch = self.epoch.max(epoch);
        true
    }
}

/// Description of a set for one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[doc(alias = "MPI_Session_get_pset_info")]
pub struct SetInfo {
    /// Number of members.
    pub size: u64,
    /// See [`ProcessSet::version`].
    pub version: u64,
    /// See [`ProcessSet::epoch`]. A process that has seen only earlier epochs has to refresh its
    /// knowledge of its peers before it makes a communicator of this set.
    pub epoch: u64,
    /// See [`Attributes::active`].
    pub active: bool,
    /// True if the calling process joined while the job was running.
    #[doc(alias = "mpi_dyn")]
    pub dynamic: bool,
    /// True if the calling process is in the set.
    #[doc(alias = "mpi_included")]
    pub included: bool,
    /// See [`Attributes::hints`].
    pub hints: BTreeMap<String, String>,
}

impl SetInfo {
    /// Returns true if a resize has changed the set since `local_epoch`, the epoch known to a
    /// process: the process has to refresh its knowledge of its peers before it makes a
    /// communicator.
    pub fn needs_refresh(&self, local_epoch: u64) -> bool {
        local_epoch < self.epoch
    }

    /// Returns the pairs of an `MPI_Info`: `mpi_size`, `mpi_ps_version`, `mpi_ps_epoch`,
    /// `mpi_ps_active`, `mpi_dyn`, `mpi_included`, and the hints under their own names.
    pub fn entries(&self) -> Vec<(String, String)> {
        let mut entries = vec![
            ("mpi_size".to_owned(), self.size.to_string()),
            ("mpi_ps_version".to_owned(), self.version.to_string()),
            ("mpi_ps_epoch".to_owned(), self.epoch.to_string()),
            ("mpi_ps_active".to_owned(), self.active.to_string()),
            ("mpi_dyn".to_owned(), self.dynamic.to_string()),
            ("mpi_included".to_owned(), self.included.to_string()),
        ];
        entries.extend(self.hints.iter().map(|(key, value)| (key.clone(), value.clone())));
        entries
    }
}
