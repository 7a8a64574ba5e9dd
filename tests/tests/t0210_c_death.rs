//! A rank is killed under a C program; the others learn of it, expel it and go on.

use std::process::Command;

use anyhow::Result;
use quo_tests::{Checkout, Job};

/// Only Open MPI's launcher lets a job go on without one of its ranks.
fn can_survive() -> Result<bool> {
    let program = std::env::var_os("QUO_TESTS_MPIRUN").unwrap_or_else(|| "mpirun".into());
    let output = Command::new(program).arg("--version").output()?;
    Ok(String::from_utf8_lossy(&output.stdout).contains("Open MPI"))
}

#[test]
fn the_others_go_on_after_a_kill() -> Result<()> {
    if !can_survive()? {
        return Ok(());
    }
    let checkout = Checkout::find()?;
    let folder = tempfile::tempdir()?;
    let program = checkout.compile_c("bindings-c/tests/crash/death.c", folder.path(), &[])?;
    for ranks in [2, 3, 6] {
        for machine in ["", "pack:2 core:4 pu:1"] {
            let outcome = Job::new(ranks, &program)
                .topology(machine)
                .env("OMPI_MCA_orte_enable_recovery", "1")
                .run()?;
            outcome.expect_clean()?;
            let survivors = outcome.stdout.matches("survived").count();
            assert_eq!(survivors, ranks - 1, "{}", outcome.report());
        }
    }
    Ok(())
}
