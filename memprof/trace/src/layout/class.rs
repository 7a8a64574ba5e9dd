//! Kind of a component that owns memory.

/// Leaves of the tree of components. A component is a class and, if there are several of a class, a
/// name: `mpi.dep:libopen-pal.so.40`.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[expect(missing_docs, reason = "`name` says it")]
pub enum Class {
    Unattributed = 0,
    Tool = 1,
    Slack = 2,
    Kernel = 3,
    AppExecutable = 4,
    AppLibrary = 5,
    AppShared = 6,
    MpiCore = 7,
    MpiDependency = 8,
    MpiShared = 9,
    MpiForUser = 10,
    Runtime = 11,
    OpenMp = 12,
    System = 13,
    Stack = 14,
}

impl Class {
    /// All classes, in the order of their numbers.
    pub const ALL: [Class; 15] = [
        Class::Unattributed,
        Class::Tool,
        Class::Slack,
        Class::Kernel,
        Class::AppExecutable,
        Class::AppLibrary,
        Class::AppShared,
        Class::MpiCore,
        Class::MpiDependency,
        Class::MpiShared,
        Class::MpiForUser,
        Class::Runtime,
        Class::OpenMp,
        Class::System,
        Class::Stack,
    ];

    /// Returns the name in reports and override files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Class::Unattributed => "unattributed",
            Class::Tool => "tool",
            Class::Slack => "slack",
            Class::Kernel => "kernel",
            Class::AppExecutable => "app.exe",
            Class::AppLibrary => "app.lib",
            Class::AppShared => "app.shm",
            Class::MpiCore => "mpi.core",
            Class::MpiDependency => "mpi.dep",
            Class::MpiShared => "mpi.shm",
            Class::MpiForUser => "mpi.for_user",
            Class::Runtime => "runtime",
            Class::OpenMp => "omp",
            Class::System => "system",
            Class::Stack => "stack",
        }
    }

    /// Returns the first level of the tree: `application` for `app.*`, `mpi` for `mpi.*`, else the
    /// class.
    #[must_use]
    pub const fn group(self) -> &'static str {
        match self {
            Class::AppExecutable | Class::AppLibrary | Class::AppShared => "application",
            Class::MpiCore | Class::MpiDependency | Class::MpiShared | Class::MpiForUser => "mpi",
            other => other.name(),
        }
    }

    /// Returns true for parts of the MPI library: memory that it allocates for itself.
    #[must_use]
    pub const fn is_mpi(self) -> bool {
        matches!(self, Class::MpiCore | Class::MpiDependency | Class::MpiShared)
    }

    /// Returns the class with this number; `Unattributed` if there is none.
    #[must_use]
    pub fn from_number(number: u8) -> Class {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Class::Unattributed)
    }

    /// Returns the class with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Class> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_lead_back_to_their_class() {
        for (number, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, number);
            assert_eq!(Class::from_number(class as u8), class);
            assert_eq!(Class::from_name(class.name()), Some(class));
        }
        assert_eq!(Class::from_number(200), Class::Unattributed);
    }
}
