//! quo-info under the launcher: every rank looks, rank 0 prints.

use anyhow::Result;
use quo_tests::{BindTo, Checkout, Job};

fn bindings(ranks: usize) -> Result<Job> {
    Ok(Job::new(ranks, Checkout::find()?.program("quo-info")?).arg("bindings"))
}

#[test]
fn ranks_of_a_job_are_told_once_with_bindings() -> Result<()> {
    let outcome = bindings(2)?.bind_to(BindTo::Core).run()?;
    outcome.expect_success()?;
    let told = &outcome.stdout;
    assert_eq!(told.matches("node 0 of 1").count(), 1, "{told}");
    assert_eq!(told.matches("as launched by").count(), 2, "{told}");
    assert!(told.contains("core 0") && told.contains("core 1"), "{told}");
    Ok(())
}

#[test]
fn a_simulated_machine_is_told_with_its_simulated_bindings() -> Result<()> {
    let job = bindings(4)?.arg("--json").topology("pack:2 core:2 pu:2").env("QUO_BINDING", "core");
    let outcome = job.run()?;
    outcome.expect_success()?;
    let told: String = outcome.stdout.split_whitespace().collect();
    assert!(told.contains("\"simulated\":true"), "{told}");
    for cpus in ["0-1", "2-3", "4-5", "6-7"] {
        assert!(told.contains(&format!("\"cpus\":\"{cpus}\"")), "{told}");
    }
    Ok(())
}

#[test]
fn a_failure_is_told_by_one_rank() -> Result<()> {
    let outcome = bindings(3)?.topology("/nonexistent/machine.xml").run()?;
    outcome.expect_clean()?;
    assert!(!outcome.status.success());
    let lines = outcome.stderr.lines().filter(|line| line.starts_with("quo-info: "));
    let lines: Vec<_> = lines.collect();
    assert_eq!(lines.len(), 1, "{}", outcome.stderr);
    assert!(lines[0].contains("QUO_TOPOLOGY=`/nonexistent/machine.xml`"), "{}", lines[0]);
    Ok(())
}
