//! Name of a component, and the group in which it is shown.

use serde::Serialize;
use std::sync::Arc;

/// Groups of components, the first level of every table and picture, in the order in which they are
/// shown.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// The program and its libraries.
    Application,
    /// The MPI library, the libraries it depends on, and its segments.
    Mpi,
    /// Memory that MPI allocated for the program: `MPI_Alloc_mem`, `MPI_Win_allocate`.
    MpiForUser,
    /// The runtime that coordinates phases.
    Runtime,
    /// OpenMP.
    Omp,
    /// The C library, the loader, languages.
    System,
    /// Stacks of threads.
    Stack,
    /// Free chunks and rounding of the allocator.
    Slack,
    /// Page tables and other memory the kernel keeps for the process.
    Kernel,
    /// The profiler itself.
    Tool,
    /// Memory without a known owner: the quality of the measurement.
    Unattributed,
}

/// Prefix of the name of the combined components of a group.
const OTHER: &str = "other ";

impl Group {
    /// All groups, in the order in which they are shown.
    pub const ALL: [Group; 11] = [
        Group::Application,
        Group::Mpi,
        Group::MpiForUser,
        Group::Runtime,
        Group::Omp,
        Group::System,
        Group::Stack,
        Group::Slack,
        Group::Kernel,
        Group::Tool,
        Group::Unattributed,
    ];

    /// Returns the group of a component by its display name, `mpi.dep:libucp.so.0` for example.
    ///
    /// An unknown class, as from an override file or a later version, belongs to the application,
    /// since its users name classes.
    pub fn of(name: &str) -> Group {
        let class = name.split(':').next().unwrap_or(name);
        if let Some(group) = class.strip_prefix(OTHER).and_then(Group::labelled) {
            return group;
        }
        match class.split('.').next().unwrap_or(class) {
            _ if class == Group::MpiForUser.label() => Group::MpiForUser,
            "mpi" => Group::Mpi,
            "runtime" => Group::Runtime,
            "omp" => Group::Omp,
            "system" => Group::System,
            "stack" => Group::Stack,
            "slack" => Group::Slack,
            "kernel" => Group::Kernel,
            "tool" => Group::Tool,
            "unattributed" => Group::Unattributed,
            // Component whose name is missing in a damaged trace.
            class if class.starts_with("component ") => Group::Unattributed,
            _ => Group::Application,
        }
    }

    /// Returns the displayed name.
    pub fn label(self) -> &'static str {
        match self {
            Group::Application => "application",
            Group::Mpi => "mpi",
            Group::MpiForUser => "mpi.for_user",
            Group::Runtime => "runtime",
            Group::Omp => "omp",
            Group::System => "system",
            Group::Stack => "stack",
            Group::Slack => "slack",
            Group::Kernel => "kernel",
            Group::Tool => "tool",
            Group::Unattributed => "unattributed",
        }
    }

    fn labelled(label: &str) -> Option<Group> {
        Group::ALL.into_iter().find(|group| group.label() == label)
    }

    /// Returns the name of its combined components, `other mpi` for example.
    pub fn others(self) -> Arc<str> {
        format!("{OTHER}{}", self.label()).into()
    }

    /// Returns true if its memory has an owner, so that resident bytes can be checked against owned
    /// ones.
    pub fn has_ledger(self) -> bool {
        !matches!(
            self,
            Group::Stack | Group::Slack | Group::Kernel | Group::Tool | Group::Unattributed
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_follows_from_the_class() {
        for (name, group) in [
            ("app.exe", Group::Application),
            ("app.lib:libhdf5.so.103", Group::Application),
            ("app.shm", Group::Application),
            ("mpi.dep:libopen-pal.so.40", Group::Mpi),
            ("mpi.for_user", Group::MpiForUser),
            ("stack.main", Group::Stack),
            ("stack:libc.so.6", Group::Stack),
            ("omp:libgomp.so.1", Group::Omp),
            ("unattributed", Group::Unattributed),
            ("physics:libmesh.so", Group::Application),
            ("component 77", Group::Unattributed),
            ("", Group::Application),
        ] {
            assert_eq!(Group::of(name), group, "{name}");
        }
        for group in Group::ALL {
            assert_eq!(Group::of(&group.others()), group);
        }
    }
}
