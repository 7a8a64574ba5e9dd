//! Contexts whose ranks are on several hosts: every rank's view of its node and of the others.

mod support;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quo_hosts::suite;
use quo_hosts::{Hosts, Layout};
use quo_tests::Checkout;

use support::{expect, expect_nothing_left, over_hosts, program};

/// Functions of the C interface that depend on the location of the other ranks.
const PROGRAMS: &[&str] = &[
    "auto_distrib",
    "auto_distrib_with_policy",
    "barrier",
    "barrier_timed",
    "bind_push",
    "contexts",
    "create",
    "create_with_options",
    "dead_qids",
    "detach",
    "disagree",
    "explain",
    "f2c",
    "free",
    "get_mpi_comm_by_type",
    "named_barrier",
    "numbers",
    "phase",
    "qids_in_type",
    "stringify_cbind",
    "xpm",
];

fn two_hosts_are_two_nodes() -> Result<()> {
    let hosts = Hosts::up(&suite::set("two"), 2)?;
    let outcome = hosts.job(&[(0, 2), (1, 2)], over_hosts()?).arg("facts").run()?;
    expect(&hosts, &outcome, &[("host0", &[0, 1]), ("host1", &[2, 3])])?;
    hosts.down()
}

fn three_hosts_are_three_nodes() -> Result<()> {
    let hosts = Hosts::up(&suite::set("three"), 3)?;
    let outcome = hosts.job(&[(0, 2), (1, 2), (2, 2)], over_hosts()?).arg("facts").run()?;
    let nodes: &[(&str, &[usize])] = &[("host0", &[0, 1]), ("host1", &[2, 3]), ("host2", &[4, 5])];
    expect(&hosts, &outcome, nodes)?;
    hosts.down()
}

fn sub_communicators_span_hosts_unevenly() -> Result<()> {
    let hosts = Hosts::up(&suite::set("uneven"), 3)?;
    let job = hosts.job(&[(0, 2), (1, 3), (2, 1)], over_hosts()?).arg("facts");
    // 'a': ranks 0, 2, 3, 5. 'b': ranks 1, 4. 'c' has one rank of each host, 'd' a host alone.
    expect_both(
        &hosts,
        &job.clone().arg("abaaba").run()?,
        &[("host0", &[0]), ("host1", &[2, 3]), ("host2", &[5])],
        &[("host0", &[1]), ("host1", &[4])],
    )?;
    expect_both(
        &hosts,
        &job.clone().arg("c-cddc").run()?,
        &[("host0", &[0]), ("host1", &[2]), ("host2", &[5])],
        &[("host1", &[3, 4])],
    )?;
    // All ranks but the first host's.
    let outcome = job.arg("--xxxx").run()?;
    expect(&hosts, &outcome, &[("host1", &[2, 3, 4]), ("host2", &[5])])?;
    hosts.down()
}

/// Checks that the ranks of one job are in one of two contexts.
fn expect_both(
    hosts: &Hosts,
    outcome: &quo_tests::Outcome,
    first: &[(&str, &[usize])],
    second: &[(&str, &[usize])],
) -> Result<()> {
    outcome.expect_success()?;
    let mut expected = support::expected(first);
    expected.extend(support::expected(second));
    let found = support::facts(outcome)?;
    ensure!(found == expected, "expected {expected:#?}\n{}", outcome.report());
    expect_nothing_left(hosts)
}

fn each_way_to_wait_keeps_to_its_node() -> Result<()> {
    let hosts = Hosts::up(&suite::set("wait"), 2)?;
    for wait in ["futex", "pthread", "mpi"] {
        let job = hosts.job(&[(0, 2), (1, 1)], over_hosts()?).arg("facts").env("QUO_WAIT", wait);
        expect(&hosts, &job.run()?, &[("host0", &[0, 1]), ("host1", &[2])]).context(wait)?;
    }
    hosts.down()
}

fn two_jobs_at_once_do_not_disturb_each_other() -> Result<()> {
    let hosts = Hosts::up(&suite::set("both"), 2)?;
    let job = hosts.job(&[(0, 2), (1, 2)], over_hosts()?).arg("meet").arg("/run/tmp/go");
    let (first, second) = (job.start()?, job.start()?);
    first.wait_for("created", 4)?;
    second.wait_for("created", 4)?;
    // All eight ranks have their contexts now, four on each host.
    for index in 0..2 {
        std::fs::write(hosts.host(index).path("/run/tmp/go"), "")?;
    }
    let outcomes = [first.finish()?, second.finish()?];
    for index in 0..2 {
        std::fs::remove_file(hosts.host(index).path("/run/tmp/go"))?;
    }
    for outcome in outcomes {
        expect(&hosts, &outcome, &[("host0", &[0, 1]), ("host1", &[2, 3])])?;
    }
    hosts.down()
}

fn full_memory_on_one_host_is_one_error_everywhere() -> Result<()> {
    let hosts = Hosts::with(&Layout::new(&suite::set("full"), 2).memory("4m"))?;
    let filler = hosts.host(1).path("/dev/shm/filler");
    let filled = std::fs::write(&filler, vec![1; 8 << 20]);
    let full = filled.err().and_then(|error| error.raw_os_error());
    ensure!(full == Some(28), "8 MiB fit into 4");
    expect_same_failure(&hosts, "no room")?;
    // One page is left: enough for a file, not for a segment.
    std::fs::File::options().write(true).open(&filler)?.set_len((4 << 20) - 4096)?;
    expect_same_failure(&hosts, "no room")?;
    std::fs::remove_file(&filler)?;
    let outcome = hosts.job(&[(0, 2), (1, 2)], over_hosts()?).arg("facts");
    let outcome = outcome.option("--mca").option("btl").option("self,tcp").run()?;
    expect(&hosts, &outcome, &[("host0", &[0, 1]), ("host1", &[2, 3])])?;
    // No inode is free for another file.
    hosts.host(1).private_folder("/dev/shm", "mode=1777,nr_inodes=1")?;
    expect_same_failure(&hosts, "No space left on device")?;
    hosts.down()
}

fn missing_folder_on_one_host_is_one_error_everywhere() -> Result<()> {
    let hosts = Hosts::up(&suite::set("missing"), 2)?;
    std::fs::create_dir(hosts.host(0).path("/run/tmp/segments"))?;
    let outcome = failing_job(&hosts)?.env("QUO_TMPDIR", "/run/tmp/segments").run()?;
    same_failure(&outcome, "/run/tmp/segments")?;
    std::fs::remove_dir(hosts.host(0).path("/run/tmp/segments"))?;
    clear(&hosts)?;
    expect_nothing_left(&hosts)?;
    hosts.down()
}

fn expect_same_failure(hosts: &Hosts, reason: &str) -> Result<()> {
    same_failure(&failing_job(hosts)?.run()?, reason)?;
    clear(hosts)?;
    let mut left = hosts.leftovers();
    left.retain(|line| line != "host1: /dev/shm/filler");
    ensure!(left.is_empty(), "{left:?}");
    Ok(())
}

fn failing_job(hosts: &Hosts) -> Result<quo_hosts::HostJob<'_>> {
    for index in 0..hosts.len() {
        std::fs::write(hosts.host(index).path("/run/tmp/go"), "")?;
    }
    let job = hosts.job(&[(0, 2), (1, 2)], over_hosts()?).arg("create").arg("/run/tmp/go");
    // The library for messages between ranks of a host would not start without memory.
    Ok(job.option("--mca").option("btl").option("self,tcp").limit(Duration::from_secs(60)))
}

/// Checks that every rank reports the same failure, with this reason.
fn same_failure(outcome: &quo_tests::Outcome, reason: &str) -> Result<()> {
    outcome.expect_success()?;
    let said = outcome.stdout.lines().filter_map(|line| line.split_once(": create: "));
    let mut said: Vec<&str> = said.map(|(_, error)| error).collect();
    ensure!(said.len() == 4, "{}", outcome.report());
    said.dedup();
    ensure!(said.len() == 1 && said[0].contains(reason), "{}", outcome.report());
    ensure!(!said[0].starts_with("0:"), "{}", outcome.report());
    Ok(())
}

/// Removes the ranks' notes and the files that they waited for.
fn clear(hosts: &Hosts) -> Result<()> {
    for index in 0..hosts.len() {
        std::fs::remove_file(hosts.host(index).path("/run/tmp/go"))?;
        for rank in [2 * index, 2 * index + 1] {
            std::fs::remove_file(hosts.host(index).path(format!("/run/tmp/go.{rank}")))?;
        }
    }
    Ok(())
}

fn quo_info_tells_the_bindings_of_all_hosts() -> Result<()> {
    let hosts = Hosts::with(&Layout::new(&suite::set("info"), 2))?;
    let program = Checkout::find()?.program("quo-info")?;
    let outcome = hosts.job(&[(0, 2), (1, 1)], program).arg("bindings").run()?;
    outcome.expect_success()?;
    for node in ["node 0 of 2", "node 1 of 2"] {
        ensure!(outcome.stdout.matches(node).count() == 1, "{}", outcome.report());
    }
    ensure!(outcome.stdout.matches("as launched by").count() == 3, "{}", outcome.report());
    expect_nothing_left(&hosts)?;
    hosts.down()
}

fn c_functions_keep_their_promises_over_two_hosts() -> Result<()> {
    let hosts = Hosts::up(&suite::set("c"), 2)?;
    for name in PROGRAMS {
        let job = hosts.job(&[(0, 2), (1, 2)], program(&format!("bindings-c/tests/{name}.c"))?);
        job.run()?.expect_success().context(*name)?;
        expect_nothing_left(&hosts).context(*name)?;
    }
    hosts.down()
}

quo_tests::suite! {
    by |tests| quo_hosts::suite::run(tests, None);
    two_hosts_are_two_nodes
    three_hosts_are_three_nodes
    sub_communicators_span_hosts_unevenly
    each_way_to_wait_keeps_to_its_node
    two_jobs_at_once_do_not_disturb_each_other
    full_memory_on_one_host_is_one_error_everywhere
    missing_folder_on_one_host_is_one_error_everywhere
    quo_info_tells_the_bindings_of_all_hosts
    c_functions_keep_their_promises_over_two_hosts
}
