//! A rank is killed under a C program; the others learn of it, expel it and continue.

use anyhow::Result;
use quo_tests::{Checkout, Job};

#[test]
fn the_others_go_on_after_a_kill() -> Result<()> {
    let checkout = Checkout::find()?;
    let folder = tempfile::tempdir()?;
    let program = checkout.compile_c("bindings-c/tests/crash/death.c", folder.path(), &[])?;
    for ranks in [2, 3, 6] {
        for machine in ["", "pack:2 core:4 pu:1"] {
            let outcome = Job::new(ranks, &program).topology(machine).survives().run()?;
            outcome.expect_clean()?;
            let survivors = outcome.stdout.matches("survived").count();
            assert_eq!(survivors, ranks - 1, "{}", outcome.report());
        }
    }
    Ok(())
}
