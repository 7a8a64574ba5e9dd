//! Identity of an MPI: of the one this library was compiled against, and of the one that runs in
//! the process.

use std::fmt;

/// A family of MPIs with equal handles and constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Open MPI, and MPIs made from it under its name.
    OpenMpi,
    /// MPICH.
    Mpich,
    /// Intel MPI.
    Intel,
    /// MVAPICH.
    Mvapich,
    /// Cray MPICH.
    Cray,
    /// Any MPI with the handles and constants of MPI 5's standard binary interface.
    Standard,
    /// An unknown MPI.
    Other,
}

/// Indexed by the numbers that the C file uses.
const FAMILIES: [Family; 7] = [
    Family::Other,
    Family::OpenMpi,
    Family::Mpich,
    Family::Intel,
    Family::Mvapich,
    Family::Cray,
    Family::Standard,
];

/// Texts before the version number, most specific first.
const SIGNS: [(Family, &str); 8] = [
    (Family::Intel, "intel(r) mpi library"),
    (Family::Cray, "cray mpich version"),
    (Family::Mvapich, "mvapich2 version:"),
    (Family::Mvapich, "mvapich version:"),
    (Family::Mvapich, "mvapich-plus version:"),
    (Family::OpenMpi, "open mpi v"),
    (Family::Mpich, "mpich version:"),
    (Family::Mpich, "mpich2 version:"),
];

/// An MPI with its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    family: Family,
    /// Version as the MPI reports it; for an unknown MPI, the first line of its report.
    version: String,
    /// The MPICH from which the MPI was made, if it reports that.
    base: Option<String>,
}

impl Identity {
    /// Creates the identity from the C file's constants.
    pub(crate) fn from_header(family: i32, version: &str) -> Self {
        let number = usize::try_from(family).unwrap_or(0);
        let family = FAMILIES.get(number).copied().unwrap_or(Family::Other);
        Self { family, version: version.trim_matches('"').to_owned(), base: None }
    }

    /// Creates the identity from the text of `MPI_Get_library_version`.
    pub(crate) fn from_library_version(text: &str) -> Self {
        // Blanks vary from release to release.
        let words: Vec<&str> = text.split_whitespace().collect();
        let line = words.join(" ").replace(" :", ":");
        let lower = line.to_ascii_lowercase();
        for (family, sign) in SIGNS {
            let Some(start) = lower.find(sign) else { continue };
            let version = version_in(&line[start + sign.len()..]);
            if version.is_empty() {
                continue;
            }
            let base = lower.split_once("(anl base ").map(|(_, rest)| version_in(rest));
            return Self { family, version, base };
        }
        let first = text.lines().map(str::trim).find(|line| !line.is_empty());
        let version = first.unwrap_or("an MPI that does not say which").chars().take(80).collect();
        Self { family: Family::Other, version, base: None }
    }

    /// Returns the family of the MPI.
    #[must_use]
    pub fn family(&self) -> Family {
        self.family
    }

    /// Returns the first number of its version, if it has one.
    #[must_use]
    pub fn major(&self) -> Option<u64> {
        major(&self.version)
    }

    /// Returns true if a library that was compiled against this MPI may call `running`: only the
    /// same MPI in the same major version, if both are known.
    pub(crate) fn goes_with(&self, running: &Self) -> bool {
        match (self.family, running.family) {
            (Family::Other, _) | (_, Family::Other) => true,
            // Cray's older headers do not identify themselves as Cray's.
            (Family::Mpich, Family::Cray) => {
                running.base.as_deref().and_then(major) == self.major()
            }
            (built, running_family) => built == running_family && self.major() == running.major(),
        }
    }
}

/// Returns the version number at the start of a text, with the update that Intel's older releases
/// name.
fn version_in(text: &str) -> String {
    let text = text.trim_start();
    let end = text.find([' ', ',', ';', ')']).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    if !number.starts_with(|first: char| first.is_ascii_digit()) {
        return String::new();
    }
    match rest.trim_start().strip_prefix("Update ") {
        Some(update) => {
            let digits: String = update.chars().take_while(char::is_ascii_digit).collect();
            format!("{number} Update {digits}")
        }
        None => number.to_owned(),
    }
}

fn major(version: &str) -> Option<u64> {
    version.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

impl fmt::Display for Identity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.family {
            Family::OpenMpi => "Open MPI",
            Family::Mpich => "MPICH",
            Family::Intel => "Intel MPI",
            Family::Mvapich => "MVAPICH",
            Family::Cray => "Cray MPICH",
            Family::Standard => "the standard binary interface of MPI",
            Family::Other => return out.write_str(&self.version),
        };
        write!(out, "{name} {}", self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Version strings of libraries, and how each is parsed.
    const TOLD: [(&str, Family, &str); 12] = [
        (
            "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4, May 26, 2022",
            Family::OpenMpi,
            "Open MPI 4.1.4",
        ),
        (
            "Open MPI v5.0.11, package: Open MPI user@localhost Distribution, ident: 5.0.11",
            Family::OpenMpi,
            "Open MPI 5.0.11",
        ),
        ("Open MPI v4.1.7rc1, package: hpcx", Family::OpenMpi, "Open MPI 4.1.7rc1"),
        (
            "MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7 12:34:45 CDT 2022\nMPICH ABI:\t14:2:2",
            Family::Mpich,
            "MPICH 4.0.2",
        ),
        ("MPICH Version:      5.0.2\nMPICH Release date: Fri", Family::Mpich, "MPICH 5.0.2"),
        ("Intel(R) MPI Library 2021.18.1 for Linux* OS\n", Family::Intel, "Intel MPI 2021.18.1"),
        (
            "Intel(R) MPI Library 2018 Update 1 for Linux* OS\n",
            Family::Intel,
            "Intel MPI 2018 Update 1",
        ),
        (
            "MVAPICH2 Version      :\t2.3.7\nMVAPICH2 Release date :\tWed",
            Family::Mvapich,
            "MVAPICH 2.3.7",
        ),
        ("MVAPICH Version:\t3.0\nMVAPICH Release date:\tMon", Family::Mvapich, "MVAPICH 3.0"),
        (
            "MPI VERSION    : CRAY MPICH version 8.1.25.17 (ANL base 3.4a2)\nMPI BUILD INFO : Sun",
            Family::Cray,
            "Cray MPICH 8.1.25.17",
        ),
        ("HPE MPT 2.25  08/17/21", Family::Other, "HPE MPT 2.25  08/17/21"),
        ("", Family::Other, "an MPI that does not say which"),
    ];

    #[test]
    fn what_libraries_say_is_understood() {
        for (text, family, shown) in TOLD {
            let identity = Identity::from_library_version(text);
            assert_eq!((identity.family(), identity.to_string().as_str()), (family, shown));
        }
    }

    #[test]
    fn every_mpi_fits_itself_and_no_other_known_one() {
        let all = TOLD.map(|(text, ..)| Identity::from_library_version(text));
        for (i, built) in all.iter().enumerate() {
            for (k, running) in all.iter().enumerate() {
                let known = ![built.family, running.family].contains(&Family::Other);
                let same = built.family == running.family && built.major() == running.major();
                assert_eq!(built.goes_with(running), same || !known, "{i} and {k}");
            }
        }
    }

    #[test]
    fn releases_of_a_major_version_go_together() {
        let built = Identity::from_header(1, "4.1.4");
        assert!(built.goes_with(&Identity::from_library_version("Open MPI v4.0.0, package: x")));
        assert!(!built.goes_with(&Identity::from_library_version("Open MPI v5.0.0, package: x")));
        assert!(!built.goes_with(&Identity::from_library_version("Open MPI v40.1.4, package: x")));
    }

    #[test]
    fn cray_header_of_mpich_fits_the_cray_library() {
        let cray = Identity::from_library_version("CRAY MPICH version 8.1.25.17 (ANL base 3.4a2)");
        assert!(Identity::from_header(2, "3.4a2").goes_with(&cray));
        assert!(!Identity::from_header(2, "4.1.2").goes_with(&cray));
        assert!(Identity::from_header(5, "8.1.28").goes_with(&cray));
    }

    #[test]
    fn nothing_that_a_library_could_say_is_too_much() {
        for text in ["MPICH Version:", "Open MPI v", "\u{fffd}\0", "Open MPI vé", "(ANL base "] {
            assert_eq!(Identity::from_library_version(text).family(), Family::Other, "{text}");
        }
        let long = Identity::from_library_version(&"ü".repeat(20_000));
        assert_eq!(long.to_string().chars().count(), 80);
    }
}
