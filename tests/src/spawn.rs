//! Whether the MPI in use can start processes while a job runs.

use std::time::Duration;

use anyhow::Result;

use crate::checkout::Checkout;
use crate::job::Job;
use crate::suite::Skipped;

/// Checks that an elastic program can start processes, by one that does.
///
/// # Errors
/// [`Skipped`] with the program's reason if this MPI cannot; or the program fails.
pub fn needs_spawn() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let source = "bindings-c/tests/elastic/sizes.c";
    let program = Checkout::find()?.compile_c(source, folder.path(), &[])?;
    let job = ["3", "1", "3", "1"].into_iter().fold(Job::new(1, &program), Job::arg);
    let job = job.env("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1");
    let job = job.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    let outcome = job.limit(Duration::from_secs(120)).run()?;
    outcome.expect_success()?;
    match outcome.stdout.split_once("parked ranks only: ") {
        Some((_, reason)) => Err(Skipped(reason.lines().next().unwrap_or("").to_owned()).into()),
        None => Ok(()),
    }
}
