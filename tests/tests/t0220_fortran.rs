//! The Fortran interface: every procedure and every method under a real launcher.

use anyhow::Result;
use quo_tests::{Checkout, Job};

/// mpif.h is not of the newest standard, and nobody uses all of it.
const MPIF: [&str; 3] = ["-std=gnu", "-Wno-unused-parameter", "-Wno-unused-variable"];

#[test]
fn a_program_for_quo_1_4_compiles_unchanged() -> Result<()> {
    let checkout = Checkout::find()?;
    let folder = tempfile::tempdir()?;
    let source = "bindings-fortran/tests/quo_1_4.F90";
    let program = checkout.compile_fortran(source, folder.path(), &MPIF)?;
    for machine in ["pack:2 core:4 pu:1", "pack:2 numa:2 core:2 pu:2"] {
        Job::new(4, &program).topology(machine).run()?.expect_success()?;
    }
    Ok(())
}
