//! The coupled example in Fortran, which is made by make.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Result, anyhow, bail};

use crate::checkout::Checkout;
use crate::compilers::{mpicc, mpicxx, mpifort};
use crate::fortran::fortran_support;
use crate::library::run_compiler;
use crate::suite::Skipped;

/// The program with driver and L0 in Fortran, and L1 in C and in C++; made once.
///
/// # Errors
///
/// [`Skipped`] where the machine cannot make it; else the errors of the compilers.
pub fn coupled_fortran() -> Result<PathBuf> {
    static MADE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    if let Err(reason) = fortran_support() {
        bail!(Skipped(format!("{reason:#}")));
    }
    if Command::new("make").arg("--version").output().is_err() {
        bail!(Skipped("there is no make".to_owned()));
    }
    let made = MADE.get_or_init(|| make().map_err(|error| format!("{error:#}")));
    made.clone().map_err(|reason| anyhow!("{reason}"))
}

fn make() -> Result<PathBuf> {
    let checkout = Checkout::find()?;
    let root = checkout.root();
    let folder = checkout.build_folder().join("coupled-fortran");
    let mut make = Command::new("make");
    make.arg("-C").arg(root.join("examples/coupled")).args(["-s", "-j2"]);
    let library = checkout.library()?.folder().to_path_buf();
    let variables = [
        ("BUILD", folder.clone()),
        ("QUO_SOURCE", root.to_path_buf()),
        ("QUO_LIBRARY", library),
        ("MPICC", mpicc().into()),
        ("MPICXX", mpicxx().into()),
        ("MPIFC", mpifort().into()),
        ("WARNINGS", "-Wall -Wextra -Werror".into()),
        // The new kind of run path yields to LD_LIBRARY_PATH.
        ("LDFLAGS", "-Wl,--disable-new-dtags".into()),
    ];
    for (name, value) in variables {
        make.arg(format!("{name}={}", value.display()));
    }
    run_compiler(&mut make)?;
    Ok(folder.join("coupled-fortran"))
}
