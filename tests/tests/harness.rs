//! The harness judges jobs correctly: jobs that fail, hang or leave something behind do not pass.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use quo_tests::{BindTo, Job};

fn shell(ranks: usize, script: &str) -> Job {
    Job::new(ranks, PathBuf::from("sh")).arg("-c").arg(script)
}

#[test]
fn every_rank_runs_and_gets_its_environment() -> Result<()> {
    let outcome = shell(3, "echo \"$GREETING\"").env("GREETING", "hello there").run()?;
    outcome.expect_success()?;
    assert_eq!(outcome.stdout, "hello there\n".repeat(3));
    Ok(())
}

#[test]
fn ranks_can_be_bound_even_when_there_are_too_many() -> Result<()> {
    let outcome =
        shell(3, "grep Cpus_allowed_list /proc/self/status").bind_to(BindTo::Core).run()?;
    outcome.expect_success()?;
    assert_eq!(outcome.stdout.lines().count(), 3);
    Ok(())
}

#[test]
fn a_failure_is_reported_with_all_that_was_said() -> Result<()> {
    let outcome = shell(2, "echo out; echo err >&2; exit 7").run()?;
    let error = outcome.expect_success().unwrap_err().to_string();
    for word in ["out", "err", "7", "2 ranks of sh"] {
        assert!(error.contains(word), "{word} is not in:\n{error}");
    }
    Ok(())
}

#[test]
fn a_job_that_hangs_is_ended_and_says_so() -> Result<()> {
    let outcome = shell(2, "exec cat /dev/zero > /dev/null").limit(Duration::from_secs(2)).run()?;
    let error = outcome.expect_success().unwrap_err().to_string();
    assert!(error.contains("ended by us after 2 s"), "{error}");
    outcome.expect_clean()?;
    Ok(())
}

#[test]
fn a_forgotten_process_is_found_and_ended() -> Result<()> {
    // Hydra leaves its own descriptors open in its ranks, and waits as long as any process has them
    // open.
    let close = "for n in {3..99}; do eval \"exec $n>&-\"; done";
    let forget = "setsid cat /dev/zero > /dev/null 2>&1 < /dev/null & exit 0";
    let script = format!("{close}; {forget}");
    let outcome = Job::new(1, PathBuf::from("bash")).arg("-c").arg(script).run()?;
    assert!(outcome.status.success());
    let error = outcome.expect_clean().unwrap_err().to_string();
    assert!(error.contains("cat"), "{error}");
    Ok(())
}
