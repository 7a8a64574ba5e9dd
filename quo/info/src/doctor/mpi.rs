//! An MPI, by what it says about itself.

use std::fmt;

/// MPIs that the rules distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    OpenMpi,
    Mpich,
    Intel,
    /// A build for the standard binary interface, which fits all MPIs that offer it.
    Standard,
}

/// Names before the version: in the texts of the MPIs, and in ours.
const SIGNS: [(&str, Family); 6] = [
    ("Intel(R) MPI Library ", Family::Intel),
    ("Intel MPI ", Family::Intel),
    ("Open MPI v", Family::OpenMpi),
    ("Open MPI ", Family::OpenMpi),
    ("MPICH Version:", Family::Mpich),
    ("MPICH ", Family::Mpich),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mpi {
    pub family: Family,
    pub version: String,
}

impl Mpi {
    /// Recognises the text of `MPI_Get_library_version`; `None` for another MPI.
    pub fn of(text: &str) -> Option<Self> {
        let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
        SIGNS.iter().find_map(|(sign, family)| {
            let rest = line.strip_prefix(sign)?.trim_start();
            let end = rest.find([' ', ',', ';']).unwrap_or(rest.len());
            let starts = rest.starts_with(|first: char| first.is_ascii_digit());
            starts.then(|| Self { family: *family, version: rest[..end].to_owned() })
        })
    }

    /// Recognises the name that quo gives to an MPI.
    pub fn named(text: &str) -> Option<Self> {
        match text.strip_prefix("the standard binary interface of MPI") {
            Some(version) => {
                Some(Self { family: Family::Standard, version: version.trim().to_owned() })
            }
            None => Self::of(text),
        }
    }

    /// Returns the first number of the version.
    pub fn major(&self) -> &str {
        self.version.split('.').next().unwrap_or_default()
    }
}

impl fmt::Display for Mpi {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.family {
            Family::OpenMpi => "Open MPI",
            Family::Mpich => "MPICH",
            Family::Intel => "Intel MPI",
            Family::Standard => "the standard binary interface of MPI",
        };
        write!(out, "{name} {}", self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mpi_is_recognised_by_its_own_text_and_by_ours() {
        for (text, shown) in [
            ("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4", "Open MPI 4.1.4"),
            ("MPICH Version:      5.0.2\nMPICH Release date: Fri", "MPICH 5.0.2"),
            ("Intel(R) MPI Library 2021.18.1 for Linux* OS\n", "Intel MPI 2021.18.1"),
        ] {
            let mpi = Mpi::of(text).unwrap();
            assert_eq!(mpi.to_string(), shown);
            assert_eq!(Mpi::named(shown), Some(mpi));
        }
        assert_eq!(Mpi::of("HPE MPT 2.25"), None);
        assert_eq!(Mpi::of(""), None);
        let standard = Mpi::named("the standard binary interface of MPI 5.0.2").unwrap();
        assert_eq!((standard.family, standard.major()), (Family::Standard, "5"));
    }
}
