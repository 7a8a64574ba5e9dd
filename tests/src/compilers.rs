//! The compiler wrappers of the MPI that the build uses.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The C compiler wrapper: what `MPICC` names, else that of `MPI_HOME`, else `mpicc`.
#[must_use]
pub fn mpicc() -> OsString {
    let of_home = || Some(Path::new(&named("MPI_HOME")?).join("bin/mpicc").into_os_string());
    named("MPICC").or_else(of_home).unwrap_or_else(|| "mpicc".into())
}

/// The C++ compiler wrapper of the same MPI: what `MPICXX` names, else the sibling of [`mpicc`].
#[must_use]
pub fn mpicxx() -> OsString {
    named("MPICXX").unwrap_or_else(|| sibling(&mpicc(), "mpicxx"))
}

/// The Fortran compiler wrapper of the same MPI: what `MPIFC` names, else the sibling of [`mpicc`].
/// Some installations have none.
#[must_use]
pub fn mpifort() -> OsString {
    named("MPIFC").unwrap_or_else(|| sibling(&mpicc(), "mpifort"))
}

fn named(variable: &str) -> Option<OsString> {
    std::env::var_os(variable).filter(|value| !value.is_empty())
}

/// `mpicc.mpich` has the siblings `mpicxx.mpich` and `mpifort.mpich`.
fn sibling(mpicc: &OsStr, name: &str) -> OsString {
    let file = Path::new(mpicc).file_name().unwrap_or_default().to_string_lossy();
    Path::new(mpicc).with_file_name(file.replacen("mpicc", name, 1)).into_os_string()
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
        ] {
            assert_eq!(sibling(OsStr::new(mpicc), "mpicxx"), expected);
        }
    }
}
