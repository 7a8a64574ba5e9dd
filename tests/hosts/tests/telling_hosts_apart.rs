//! Ranks share a node if they reach the same memory, whatever their hosts are called.
//!
//! All hosts here have the same kernel, so that the boot identifier is the same: the folder of the
//! segments alone decides.

mod support;

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use quo_hosts::suite;
use quo_hosts::{HostJob, Hosts, Layout};
use quo_tests::Checkout;

use support::{expect, expect_nothing_left, facts, over_hosts, program};

fn two_and_two(hosts: &Hosts) -> Result<HostJob<'_>> {
    Ok(hosts.job(&[(0, 2), (1, 2)], over_hosts()?).arg("facts"))
}

/// Checks that the hosts' folders differ in nothing but the device.
fn expect_same_inode(hosts: &Hosts) -> Result<()> {
    let [first, second] = [0, 1].map(|index| std::fs::metadata(hosts.host(index).path("/dev/shm")));
    let (first, second) = (first?, second?);
    ensure!(first.ino() == second.ino(), "these inodes would have been enough");
    ensure!(first.dev() != second.dev());
    Ok(())
}

fn hosts_of_one_name_are_told_apart() -> Result<()> {
    let hosts = Hosts::with(&Layout::new(&suite::set("name"), 2).same_name("node"))?;
    expect_same_inode(&hosts)?;
    expect(&hosts, &two_and_two(&hosts)?.run()?, &[("node", &[0, 1]), ("node", &[2, 3])])?;
    hosts.down()
}

fn hosts_that_take_themselves_for_the_loopback_are_told_apart() -> Result<()> {
    let layout = Layout::new(&suite::set("loop"), 2).own_name_at([127, 0, 1, 1]);
    let hosts = Hosts::with(&layout)?;
    let output = hosts.command(1, "getent").args(["ahostsv4", "host1"]).output()?;
    ensure!(output.stdout.starts_with(b"127.0.1.1 "), "{output:?}");
    expect(&hosts, &two_and_two(&hosts)?.run()?, &[("host0", &[0, 1]), ("host1", &[2, 3])])?;
    hosts.down()
}

fn hosts_of_one_name_at_the_loopback_are_told_apart() -> Result<()> {
    let layout = Layout::new(&suite::set("both"), 3).same_name("localhost");
    let hosts = Hosts::with(&layout.own_name_at([127, 0, 0, 1]))?;
    let job = hosts.job(&[(0, 1), (1, 2), (2, 1)], over_hosts()?).arg("facts");
    let nodes: &[(&str, &[usize])] =
        &[("localhost", &[0]), ("localhost", &[1, 2]), ("localhost", &[3])];
    expect(&hosts, &job.run()?, nodes)?;
    hosts.down()
}

/// Returns a folder that all hosts see.
fn common_folder() -> Result<tempfile::TempDir> {
    let beside = Checkout::find()?.program("quo-info")?;
    let folder = beside.parent().context("a program without a folder")?;
    Ok(tempfile::Builder::new().prefix("segments-").tempdir_in(folder)?)
}

fn expect_empty(folder: &Path) -> Result<()> {
    let left: Vec<_> = std::fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    ensure!(left.is_empty(), "{left:?}");
    Ok(())
}

/// Checks the output of ranks on these hosts, which are all on one node.
fn expect_one_node(hosts: &Hosts, job: &HostJob<'_>, of: &[&str]) -> Result<()> {
    let outcome = job.run()?;
    outcome.expect_success()?;
    let found = facts(&outcome)?;
    ensure!(found.len() == of.len(), "{}", outcome.report());
    for (rank, facts) in &found {
        let right = facts.nodes == 1
            && facts.qids == of.len()
            && facts.id == *rank
            && facts.selected == [1, 2]
            && facts.host == of[*rank];
        ensure!(right, "{}", outcome.report());
    }
    expect_nothing_left(hosts)
}

fn hosts_that_share_the_folder_of_segments_are_one_node() -> Result<()> {
    let hosts = Hosts::up(&suite::set("shared"), 2)?;
    let folder = common_folder()?;
    let job = two_and_two(&hosts)?.env("QUO_TMPDIR", folder.path());
    expect_one_node(&hosts, &job, &["host0", "host0", "host1", "host1"])?;
    expect_empty(folder.path())?;
    hosts.down()
}

fn of_three_hosts_two_that_share_memory_are_one_node() -> Result<()> {
    let hosts = Hosts::up(&suite::set("twoofthree"), 3)?;
    let folder = common_folder()?;
    let path = folder.path().to_str().context("a folder with a plain name")?;
    hosts.host(1).private_folder(path, "mode=1777")?;
    let job = hosts.job(&[(0, 2), (1, 2), (2, 1)], over_hosts()?).arg("facts");
    let outcome = job.env("QUO_TMPDIR", path).run()?;
    outcome.expect_success()?;
    let found = facts(&outcome)?;
    let seen: Vec<_> = found.values().map(|rank| (rank.nodes, rank.qids, rank.id)).collect();
    let expected = [(2, 3, 0), (2, 3, 1), (2, 2, 0), (2, 2, 1), (2, 3, 2)];
    ensure!(seen == expected, "{}", outcome.report());
    expect_empty(folder.path())?;
    hosts.down()
}

fn host_without_own_dev_shm_joins_those_sharing_it() -> Result<()> {
    let hosts = Hosts::up(&suite::set("unmounted"), 3)?;
    // In the machine's memory, which two of the hosts see once their own is unmounted.
    let folder = tempfile::Builder::new().prefix("hosts-").tempdir_in("/dev/shm")?;
    for index in [0, 2] {
        let output = hosts.command(index, "umount").arg("/dev/shm").output()?;
        ensure!(output.status.success(), "{output:?}");
    }
    std::fs::create_dir(hosts.host(1).path(folder.path()))?;
    let job = hosts.job(&[(0, 1), (1, 2), (2, 2)], over_hosts()?).arg("facts");
    let job = job.env("QUO_TMPDIR", folder.path());
    let outcome = job.option("--mca").option("btl").option("self,tcp").run()?;
    outcome.expect_success()?;
    let found = facts(&outcome)?;
    let seen: Vec<_> = found.values().map(|rank| (rank.nodes, rank.qids, rank.id)).collect();
    let expected = [(2, 3, 0), (2, 2, 0), (2, 2, 1), (2, 3, 1), (2, 3, 2)];
    ensure!(seen == expected, "{}", outcome.report());
    expect_empty(folder.path())?;
    expect_empty(&hosts.host(1).path(folder.path()))?;
    hosts.down()
}

/// Survivors and the dead rank are in different PID namespaces, so that no survivor can look up the
/// dead rank.
fn a_death_on_another_host_of_the_node_is_noticed() -> Result<()> {
    let hosts = Hosts::up(&suite::set("death"), 2)?;
    let folder = common_folder()?;
    let job = hosts.job(&[(0, 2), (1, 1)], program("tests/programs/dead_rank.c")?);
    for place in ["between", "barrier"] {
        let job = job.clone().arg(place).env("QUO_TMPDIR", folder.path());
        let job = job.survives().start()?;
        for rank in [0, 2] {
            job.wait_for(&format!("rank {rank}: "), 1)?;
        }
        // Open MPI 4.1 sometimes waits for ranks that left without MPI_Finalize.
        let outcome = job.end()?;
        for rank in [0, 2] {
            let said =
                outcome.stdout.lines().find(|line| line.starts_with(&format!("rank {rank}:")));
            let said = said.with_context(|| outcome.report())?;
            ensure!(said.contains("rank 1 ended without taking part"), "{}", outcome.report());
        }
        expect_empty(folder.path())?;
    }
    hosts.down()
}

fn hosts_that_do_not_tell_their_boot_are_told_apart() -> Result<()> {
    let hosts = Hosts::up(&suite::set("boot"), 2)?;
    for index in 0..2 {
        let file = "/proc/sys/kernel/random/boot_id";
        hosts.host(index).replace_file(file, "")?;
        ensure!(std::fs::read(hosts.host(index).path(file))?.is_empty());
    }
    expect(&hosts, &two_and_two(&hosts)?.run()?, &[("host0", &[0, 1]), ("host1", &[2, 3])])?;
    hosts.down()
}

/// In the `/proc` that such a host sees, its processes have other PIDs, and its own PIDs are those
/// of other processes.
fn a_host_whose_proc_is_anothers_works() -> Result<()> {
    let hosts = Hosts::up(&suite::set("proc"), 2)?;
    let output = hosts.command(0, "umount").arg("/proc").output()?;
    ensure!(output.status.success(), "{output:?}");
    let job = two_and_two(&hosts)?;
    expect(&hosts, &job.run()?, &[("host0", &[0, 1]), ("host1", &[2, 3])])?;
    // A rank that took these PIDs for its own threads would bind another process's threads, and
    // find no rank alive.
    for name in ["bind_push", "bind_pop", "explain"] {
        let job = hosts.job(&[(0, 2), (1, 2)], program(&format!("bindings-c/tests/{name}.c"))?);
        job.run()?.expect_success().context(name)?;
    }
    hosts.down()
}

fn unwritable_folder_on_one_host_is_one_error_everywhere() -> Result<()> {
    let hosts = Hosts::up(&suite::set("readonly"), 2)?;
    let folder = common_folder()?;
    let path = folder.path().to_str().context("a folder with a plain name")?;
    // The folder is the same, so that all ranks are on one node; two of them cannot attach.
    for arguments in [&["--bind", path, path][..], &["-o", "remount,bind,ro", path]] {
        let output = hosts.command(1, "mount").args(arguments).output()?;
        ensure!(output.status.success(), "{output:?}");
        std::fs::write(hosts.host(1).path("/run/tmp/go"), "")?;
    }
    std::fs::write(hosts.host(0).path("/run/tmp/go"), "")?;
    let job = hosts.job(&[(0, 2), (1, 2)], over_hosts()?).arg("create").arg("/run/tmp/go");
    let outcome = job.env("QUO_TMPDIR", path).run()?;
    outcome.expect_success()?;
    let said = outcome.stdout.lines().filter_map(|line| line.split_once(": create: "));
    let mut said: Vec<&str> = said.map(|(_, error)| error).collect();
    ensure!(said.len() == 4, "{}", outcome.report());
    said.dedup();
    let right = said.len() == 1 && said[0].contains("rank 2") && said[0].contains("Read-only");
    ensure!(right, "{}", outcome.report());
    expect_empty(folder.path())?;
    hosts.down()
}

quo_tests::suite! {
    by |tests| quo_hosts::suite::run(tests, None);
    hosts_of_one_name_are_told_apart
    hosts_that_take_themselves_for_the_loopback_are_told_apart
    hosts_of_one_name_at_the_loopback_are_told_apart
    hosts_that_share_the_folder_of_segments_are_one_node
    of_three_hosts_two_that_share_memory_are_one_node
    host_without_own_dev_shm_joins_those_sharing_it
    a_death_on_another_host_of_the_node_is_noticed
    hosts_that_do_not_tell_their_boot_are_told_apart
    a_host_whose_proc_is_anothers_works
    unwritable_folder_on_one_host_is_one_error_everywhere
}
