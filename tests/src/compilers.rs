//! The compiler wrappers and the launcher of the MPI that the build uses.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Returns the C compiler wrapper: the one that `MPICC` names, else that of `MPI_HOME`, else
/// `mpicc`.
#[must_use]
pub fn mpicc() -> OsString {
    let of_home = || Some(Path::new(&named("MPI_HOME")?).join("bin/mpicc").into_os_string());
    named("MPICC").or_else(of_home).unwrap_or_else(|| "mpicc".into())
}

/// Returns the C++ compiler wrapper of the same MPI: the one that `MPICXX` names, else the sibling
/// of [`mpicc`].
#[must_use]
pub fn mpicxx() -> OsString {
    named("MPICXX").unwrap_or_else(|| sibling(&mpicc(), "mpicxx"))
}

/// Returns the Fortran compiler wrapper of the same MPI: the one that `MPIFC` names, else the
/// sibling of [`mpicc`]. Some installations have none.
#[must_use]
pub fn mpifort() -> OsString {
    named("MPIFC").unwrap_or_else(|| sibling(&mpicc(), "mpifort"))
}

/// Returns the launcher of the same MPI: the one that `QUO_TESTS_MPIRUN` names, else the sibling of
/// [`mpicc`].
#[must_use]
pub fn mpirun() -> OsString {
    named("QUO_TESTS_MPIRUN").unwrap_or_else(|| sibling(&mpicc(), "mpirun"))
}

fn named(variable: &str) -> Option<OsString> {
    std::env::var_os(variable).filter(|value| !value.is_empty())
}

/// Returns a sibling of a compiler wrapper: `mpicc.mpich` has the siblings `mpicxx.mpich` and
/// `mpifort.mpich`. A compiler of another name has siblings with the usual names in its folder.
fn sibling(mpicc: &OsStr, name: &str) -> OsString {
    let file = Path::new(mpicc).file_name().unwrap_or_default().to_string_lossy();
    let file = match file.contains("mpicc") {
        true => file.replacen("mpicc", name, 1),
        false => name.to_owned(),
    };
    Path::new(mpicc).with_file_name(file).into_os_string()
}

/// Returns the Python interpreter of `cargo xtask setup --tests`, with mpi4py and NumPy: in the build
/// folder of the test program, or in one above it. Returns `None` if it was not fetched.
#[must_use]
pub fn python_tools() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let mut found = program.ancestors().skip(1).map(|folder| folder.join("python/bin/python"));
    found.find(|python| python.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_are_of_the_same_mpi() {
        for (mpicc, expected) in [
            ("mpicc", "mpicxx"),
            ("mpicc.mpich", "mpicxx.mpich"),
            ("/opt/mpicc-5/bin/mpicc", "/opt/mpicc-5/bin/mpicxx"),
            ("/opt/bin/mpiicx", "/opt/bin/mpicxx"),
            ("cc", "mpicxx"),
        ] {
            assert_eq!(sibling(OsStr::new(mpicc), "mpicxx"), expected);
        }
    }
}
