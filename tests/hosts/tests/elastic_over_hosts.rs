//! Worlds over several hosts: a new host joins, a host leaves for good, a host cannot be reached.

mod support;

use std::fs;
use std::time::Duration;

use anyhow::{Result, ensure};
use quo_hosts::suite::{self, Skipped};
use quo_hosts::{HostJob, Hosts};
use quo_tests::{Checkout, Family, Launcher, Outcome, fortran_support};

use support::{expect_nothing_left, until};

/// The world waits while this file exists on its first host.
const HOLD: &str = "/run/tmp/hold";

/// Adds two slots on a host to the launcher's list. Hydra has no such list: it starts processes on any
/// host.
fn with_slots<'a>(job: HostJob<'a>, address: &str) -> Result<HostJob<'a>> {
    let has_list = matches!(Launcher::find()?.family(), Family::OpenMpi4 | Family::OpenMpi5);
    Ok(if has_list { job.option("--host").option(format!("{address}:2")) } else { job })
}

/// One rank on the first host; the launcher may start two on each of the others.
fn job<'a>(hosts: &'a Hosts, steps: &[String]) -> Result<HostJob<'a>> {
    let mut job = hosts.job(&[(0, 1)], Checkout::find()?.program("examples/over_hosts")?);
    for index in 1..hosts.len() {
        job = with_slots(job, hosts.host(index).address())?;
    }
    let job = job.arg("8").limit(Duration::from_secs(90));
    Ok(steps.iter().fold(job, |job, step| job.arg(step)))
}

/// Returns the line about each step, without the time.
fn steps(outcome: &Outcome) -> Vec<&str> {
    let words = ["epoch ", "failed: ", "refused: "];
    let said =
        outcome.stdout.lines().filter(|line| words.iter().any(|word| line.starts_with(word)));
    said.map(|line| line.rsplit_once("; ").map_or(line, |(step, _)| step)).collect()
}

/// Returns the processes of the program on a host, and the files in its shared memory.
fn there(hosts: &Hosts, index: usize) -> Result<Vec<String>> {
    let mine = format!("{}: ", hosts.host(index).name());
    let left = hosts.leftovers().into_iter().filter(|line| line.starts_with(&mine));
    // The launcher's daemon, with its own folder, stays for the next growth there.
    let all = left.filter(|line| line.contains("over_hosts") || line.contains("/dev/shm"));
    Ok(all.collect())
}

/// Skips the test on Open MPI 5: its launcher serves at most one growth on a new host.
fn expect_growth_again() -> Result<()> {
    if Launcher::find()?.family() != Family::OpenMpi5 {
        return Ok(());
    }
    let reason = "prterun loses its daemon on a host that was left, or the next host's processes";
    Err(Skipped(reason.to_owned()).into())
}

fn hosts_join_and_leave_for_good_while_the_job_runs() -> Result<()> {
    expect_growth_again()?;
    let hosts = Hosts::up(&suite::set("elastic"), 3)?;
    let [second, third] = [1, 2].map(|index| hosts.host(index).address());
    let asked = [
        format!("grow 2 on {second}"),
        format!("grow 2 on {third}"),
        "leave host1".to_owned(),
        format!("hold {HOLD}"),
        format!("move {third} to {second}"),
        "size 1".to_owned(),
    ];
    fs::write(hosts.host(0).path(HOLD), "")?;
    let running = job(&hosts, &asked)?.start()?;
    running.wait_for("epoch 3 ", 1)?;
    until("processes that left a host end", || Ok(there(&hosts, 1)?.is_empty()))?;
    ensure!(there(&hosts, 2)?.iter().any(|line| line.contains("over_hosts")), "nobody is left");
    fs::remove_file(hosts.host(0).path(HOLD))?;
    let outcome = running.finish()?;
    outcome.expect_success()?;
    let right = [
        "epoch 1 size 3: 1 stay, 0 leave, 2 join; host0 has [0], host1 has [1, 2]",
        "epoch 2 size 5: 3 stay, 0 leave, 2 join; host0 has [0], host1 has [1, 2], host2 has [3, 4]",
        "epoch 3 size 3: 3 stay, 2 leave, 0 join; host0 has [0], host2 has [1, 2]",
        "epoch 4 size 3: 1 stay, 2 leave, 2 join; host0 has [0], host1 has [1, 2]",
        "epoch 5 size 1: 1 stay, 2 leave, 0 join; host0 has [0]",
    ];
    ensure!(steps(&outcome) == right, "{}", outcome.report());
    expect_nothing_left(&hosts)?;
    hosts.down()
}

fn host_joins_and_leaves_twenty_times_in_one_job() -> Result<()> {
    const CYCLES: usize = 20;
    expect_growth_again()?;
    let hosts = Hosts::up(&suite::set("elasticcycles"), 2)?;
    let grow = format!("grow 2 on {}", hosts.host(1).address());
    let asked: Vec<String> =
        (0..CYCLES).flat_map(|_| [grow.clone(), "leave host1".to_owned()]).collect();
    // Each start and each end takes part of a second, and longer on a loaded machine.
    let outcome = job(&hosts, &asked)?.limit(Duration::from_secs(400)).run()?;
    outcome.expect_success()?;
    let right: Vec<String> = (0..CYCLES)
        .flat_map(|cycle| {
            let (grown, left) = (2 * cycle + 1, 2 * cycle + 2);
            [
                format!(
                    "epoch {grown} size 3: 1 stay, 0 leave, 2 join; host0 has [0], host1 has [1, 2]"
                ),
                format!("epoch {left} size 1: 1 stay, 2 leave, 0 join; host0 has [0]"),
            ]
        })
        .collect();
    ensure!(steps(&outcome) == right, "{}", outcome.report());
    expect_nothing_left(&hosts)?;
    hosts.down()
}

fn job_over_hosts_is_told_to_grow_move_and_leave() -> Result<()> {
    expect_growth_again()?;
    let hosts = Hosts::up(&suite::set("elastictold"), 3)?;
    let [second, third] = [1, 2].map(|index| hosts.host(index).address());
    let sockets = "/run/tmp/sockets";
    let asked = [&format!("listen {sockets}"), "told", "told", "told"].map(ToString::to_string);
    let running = job(&hosts, &asked)?.start()?;
    running.wait_for("with ", 1)?;
    let calls: [(&[&str], &str); 3] = [
        (&["grow", "over_hosts", "2", "--on", second], "done: 3 ranks"),
        (&["move", "over_hosts", "--from", second, "--to", third], "done: 3 ranks"),
        (&["leave", "over_hosts", third], "done: 1 ranks"),
    ];
    for (words, said) in calls {
        let mut command = hosts.command(0, Checkout::find()?.program("quo-elastic")?);
        let output = command.args(words).arg("--wait").env("QUO_ELASTIC_DIR", sockets).output()?;
        let all = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() || !all.contains(said) {
            anyhow::bail!("{words:?}: {output:?}\n{}", running.end()?.report());
        }
    }
    let outcome = running.finish()?;
    outcome.expect_success()?;
    let right = [
        "epoch 1 size 3: 1 stay, 0 leave, 2 join; host0 has [0], host1 has [1, 2]",
        "epoch 2 size 3: 1 stay, 2 leave, 2 join; host0 has [0], host2 has [1, 2]",
        "epoch 3 size 1: 1 stay, 2 leave, 0 join; host0 has [0]",
    ];
    ensure!(steps(&outcome) == right, "{}", outcome.report());
    // The folder stays, without the socket.
    fs::remove_dir(hosts.host(0).path(sockets))?;
    expect_nothing_left(&hosts)?;
    hosts.down()
}

fn c_and_fortran_programs_grow_move_and_leave_by_host() -> Result<()> {
    expect_growth_again()?;
    let checkout = Checkout::find()?;
    let folder = tempfile::tempdir()?;
    let mut programs =
        vec![checkout.compile_c("bindings-c/tests/elastic/hosts.c", folder.path(), &[])?];
    if fortran_support().is_ok() {
        let source = "tests/programs/elastic_hosts.F90";
        programs.push(checkout.compile_fortran(source, folder.path(), &[])?);
    }
    for program in programs {
        let hosts = Hosts::up(&suite::set("elasticlanguages"), 3)?;
        let [second, third] = [1, 2].map(|index| hosts.host(index).address());
        let mut job = hosts.job(&[(0, 1)], program);
        for host in [second, third] {
            job = with_slots(job, host)?;
        }
        let job = job.arg("8").arg(format!("{second}:2,{third}:2"));
        let steps = [
            format!("grow 3 {second} -"),
            format!("grow 2 {second} -"),
            format!("move 0 {third} {second}"),
            format!("leave 0 - {third}"),
        ];
        let job = steps.iter().fold(job, |job, step| job.arg(step));
        let outcome = job.limit(Duration::from_secs(90)).run()?;
        outcome.expect_success()?;
        let said: Vec<&str> = outcome.stdout.lines().map(str::trim_end).collect();
        let right = [
            "refused: QUO_world_ask: there is no room: place: 3 processes need a slot each, 2 are free on the named hosts",
            "epoch 1, nodes 0 1 1",
            "epoch 2, nodes 0 1 1",
            "epoch 3, nodes 0",
        ];
        ensure!(said == right, "{}", outcome.report());
        expect_nothing_left(&hosts)?;
        hosts.down()?;
    }
    Ok(())
}

fn unreachable_host_fails_the_growth_and_another_serves() -> Result<()> {
    let hosts = Hosts::up(&suite::set("elasticcut"), 3)?;
    let [second, third] = [1, 2].map(|index| hosts.host(index).address());
    let asked = [
        format!("hold {HOLD}"),
        format!("host {second} 2"),
        format!("grow 3 on {second}"),
        "grow 1 on no-such-host.invalid".to_owned(),
        format!("grow 2 on {third}"),
        format!("grow 2 on {second}"),
        "leave host1".to_owned(),
    ];
    fs::write(hosts.host(0).path(HOLD), "")?;
    let running = job(&hosts, &asked)?.start()?;
    running.wait_for("holds", 1)?;
    hosts.cut(2)?;
    fs::remove_file(hosts.host(0).path(HOLD))?;
    running.wait_for("epoch 2 ", 1)?;
    hosts.restore(2)?;
    let outcome = running.finish()?;
    outcome.expect_success()?;
    let [room, name, link, grown, left] = steps(&outcome)[..] else {
        anyhow::bail!("{}", outcome.report());
    };
    for (said, parts) in [
        (room, ["refused: there is no room: ", "2 are free on the named hosts"]),
        (name, ["failed: a host cannot be reached: no-such-host.invalid", "still 1 ranks"]),
        (link, ["failed: a host cannot be reached: ", "does not answer"]),
        (grown, ["epoch 1 size 3: ", "host1 has [1, 2]"]),
        (left, ["epoch 2 size 1: ", "host0 has [0]"]),
    ] {
        ensure!(parts.iter().all(|part| said.contains(part)), "{said}\n{}", outcome.report());
    }
    ensure!(link.contains(third), "{link}");
    expect_nothing_left(&hosts)?;
    hosts.down()
}

/// Skips the test unless the MPI is Open MPI 4, whose `mpirun` is on the front, which is not one of
/// the hosts.
fn expect_open_mpi_4() -> Result<()> {
    let is_it = Launcher::find()?.family() == Family::OpenMpi4;
    let reason = || Skipped("other launchers count the hosts of the job alone".to_owned());
    if is_it { Ok(()) } else { Err(reason().into()) }
}

fn slots_of_an_outside_head_node_are_not_counted() -> Result<()> {
    expect_open_mpi_4()?;
    let hosts = Hosts::up(&suite::set("elastichead"), 2)?;
    let [first, second] = [0, 1].map(|index| hosts.host(index).address());
    let run = |slots: u32, steps: &[&str]| -> Result<Outcome> {
        let mut job = hosts.job(&[(0, 1)], Checkout::find()?.program("examples/over_hosts")?);
        job = job.option("--host").option(format!("{second}:{slots}"));
        if slots > 1 {
            job = job.env("QUO_ELASTIC_HOSTS", format!("{first}:1,{second}:{slots}"));
        }
        job = job.arg("8").limit(Duration::from_secs(90));
        let outcome = steps.iter().fold(job, |job, step| job.arg(step)).run()?;
        outcome.expect_success()?;
        Ok(outcome)
    };
    let outcome = run(1, &["size 3", "grow 1 on host1", "size 1"])?;
    let [refused, grown, _] = steps(&outcome)[..] else { anyhow::bail!("{}", outcome.report()) };
    let why = "there can be 1 to 2: 2 slots are known of, since mpirun's own node is none of the job's hosts; list";
    ensure!(refused.contains(why) && grown.starts_with("epoch 1 size 2: "), "{}", outcome.report());
    let outcome = run(2, &["size 3", "size 4", "size 1"])?;
    let [grown, refused, _] = steps(&outcome)[..] else { anyhow::bail!("{}", outcome.report()) };
    let is_right =
        grown.starts_with("epoch 1 size 3: ") && refused.contains("there can be 1 to 3: ");
    ensure!(is_right, "{}", outcome.report());
    expect_nothing_left(&hosts)?;
    hosts.down()
}

fn refused_start_with_mpirun_elsewhere_lets_the_job_end() -> Result<()> {
    expect_open_mpi_4()?;
    let hosts = Hosts::up(&suite::set("elasticrefused"), 3)?;
    let [second, third] = [1, 2].map(|index| hosts.host(index).address());
    let job = hosts.job(&[(0, 1), (1, 1)], Checkout::find()?.program("examples/over_hosts")?);
    let there = format!("grow 1 on {second}");
    // One is not a host of the job, and the other has no slot left, which only the launcher knows.
    let asked = [format!("grow 1 on {third}"), there.clone(), there, "grow 1".to_owned()];
    let job = job.arg("8").limit(Duration::from_secs(60));
    let outcome = asked.iter().fold(job, |job, step| job.arg(step)).run()?;
    ensure!(!outcome.out_of_time, "it hangs: {}", outcome.report());
    ensure!(outcome.status.code() == Some(1), "{}", outcome.report());
    let [unknown, failed, named, any] = steps(&outcome)[..] else {
        anyhow::bail!("{}", outcome.report());
    };
    ensure!(unknown.contains(&format!("{third} is none of mpirun's hosts: ")), "{unknown}");
    ensure!(failed.starts_with("failed: processes could not be started: "), "{failed}");
    for refused in [named, any] {
        let words = ["refused: there is no room: ", "refused an earlier start: "];
        ensure!(words.iter().all(|word| refused.contains(word)), "{refused}");
    }
    expect_nothing_left(&hosts)?;
    hosts.down()
}

quo_tests::suite! {
    by |tests| quo_hosts::suite::run(tests, None);
    hosts_join_and_leave_for_good_while_the_job_runs
    host_joins_and_leaves_twenty_times_in_one_job
    job_over_hosts_is_told_to_grow_move_and_leave
    unreachable_host_fails_the_growth_and_another_serves
    slots_of_an_outside_head_node_are_not_counted
    refused_start_with_mpirun_elsewhere_lets_the_job_end
    c_and_fortran_programs_grow_move_and_leave_by_host
}
