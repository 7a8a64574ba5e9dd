//! Slurm itself: it starts, is separate from others, and ends without remains.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use quo_hosts::Hosts;
use quo_hosts::slurm::{Claim, Options, Slurm, why_not_confined};
use quo_hosts::suite::{self, Skipped, Test};

use crate::contexts::left_clean;
use crate::slurm;

pub const TESTS: &[Test] = &[
    ("nodes_have_what_they_claim_and_run_jobs", nodes_have_what_they_claim),
    ("two_slurms_do_not_see_each_other", two_slurms),
    ("what_a_job_forgets_is_listed", what_a_job_forgets),
    ("daemons_end_with_their_hosts", daemons_end_with_their_hosts),
    ("control_groups_are_removed_also_those_of_a_killed_harness", control_groups_are_removed),
];

fn said(command: &mut std::process::Command) -> Result<String> {
    let output = command.output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}: {complaint}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn nodes_have_what_they_claim() -> Result<()> {
    let claim = Claim { sockets: 2, cores: 8 };
    let hosts = Hosts::up(&suite::set("claim"), 3)?;
    let slurm = Slurm::up(hosts, Options { claim, ..Options::default() })?;
    let nodes = said(slurm.command("sinfo").args(["--noheader", "--Node", "--format=%N %z"]))?;
    let expected: Vec<String> = (0..3).map(|node| format!("{} 2:8:1", slurm.node(node))).collect();
    ensure!(nodes.lines().map(str::trim).eq(expected.iter()), "{nodes}");
    let outcome = slurm.srun(3, 3, "/bin/hostname").option("--cpu-bind=none").run()?;
    let mut names: Vec<&str> = outcome.expect_success()?.stdout.lines().collect();
    names.sort_unstable();
    ensure!(names == ["host0", "host1", "host2"], "{names:?}");
    left_clean(&slurm)?;
    slurm.down()
}

fn two_slurms() -> Result<()> {
    let first = Slurm::up(Hosts::up(&suite::set("first"), 1)?, Options::default())?;
    // Host names, PIDs and file names are the same in both.
    let second = Slurm::up(Hosts::up(&suite::set("second"), 1)?, Options::default())?;
    for slurm in [&first, &second] {
        let nodes = said(slurm.command("sinfo").args(["--noheader", "--Node", "--format=%N"]))?;
        ensure!(nodes.trim() == slurm.node(0), "{nodes}");
        slurm.srun(1, 1, "/bin/hostname").run()?.expect_success()?;
        left_clean(slurm)?;
    }
    first.down()?;
    second.srun(1, 1, "/bin/hostname").run()?.expect_success()?;
    second.down()
}

fn what_a_job_forgets() -> Result<()> {
    let slurm = slurm("forgets", Options::default())?;
    slurm.srun(2, 2, "/bin/touch").arg("/dev/shm/forgotten").run()?.expect_success()?;
    let mut left = slurm.leftovers()?;
    left.sort();
    let files = ["host0: /dev/shm/forgotten", "host1: /dev/shm/forgotten"];
    ensure!(left == files, "{left:?}\n{}", slurm.logs());
    slurm.down()
}

fn daemons_end_with_their_hosts() -> Result<()> {
    let slurm = slurm("end", Options::default())?;
    let job = slurm.srun(2, 2, "/bin/sh").arg("-c").arg("echo here; exec sleep 600");
    let running = job.start()?;
    // Both hosts have a daemon for the step and a rank.
    running.wait_for("here\n", 2)?;
    slurm.hosts().kill(1)?;
    let left = slurm.hosts().leftovers();
    ensure!(!left.iter().any(|found| found.starts_with("host1")), "{left:?}");
    slurm.down()?;
    drop(running);
    Ok(())
}

fn control_groups_are_removed() -> Result<()> {
    if let Some(reason) = why_not_confined() {
        return Err(Skipped(reason).into());
    }
    let groups = Path::new("/sys/fs/cgroup/cpuset");
    // As left by a harness that is killed while a step runs.
    let abandoned = groups.join(format!("slurm_quo-gone-{}-node0", std::process::id()));
    fs::create_dir_all(abandoned.join("uid_0/job_1"))?;
    let hosts = Hosts::up(&suite::set("groups"), 1)?;
    let slurm = Slurm::up(hosts, Options { confined: true, ..Options::default() })?;
    ensure!(!abandoned.exists(), "{} is still there", abandoned.display());
    let output = slurm.srun(1, 1, "/bin/cat").arg("/proc/self/cpuset").run()?;
    let group = output.expect_success()?.stdout.trim().to_owned();
    ensure!(group.starts_with(&format!("/slurm_{}/", slurm.node(0))), "{group}");
    let own = groups.join(format!("slurm_{}", slurm.node(0)));
    ensure!(own.is_dir(), "{} is not there", own.display());
    slurm.down()?;
    ensure!(!own.exists(), "{} is still there", own.display());
    Ok(())
}
