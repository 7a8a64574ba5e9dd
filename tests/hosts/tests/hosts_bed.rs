//! The hosts themselves: their properties, and their end with nothing left behind.
#![allow(clippy::print_stdout)] // What another process is to read.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use quo_hosts::suite::{self, Skipped, Test};
use quo_hosts::{Hosts, Layout};

const TESTS: &[Test] = &[
    ("each_host_is_a_machine_of_its_own", each_host_is_a_machine_of_its_own),
    ("hosts_reach_each_other_until_one_is_cut_off", hosts_reach_each_other_until_one_is_cut_off),
    ("a_killed_host_takes_its_processes_along", a_killed_host_takes_its_processes_along),
    ("what_is_left_on_hosts_is_listed", what_is_left_on_hosts_is_listed),
    ("a_killed_harness_leaves_nothing", a_killed_harness_leaves_nothing),
    (
        "a_harness_killed_at_any_moment_leaves_nothing",
        a_harness_killed_at_any_moment_leaves_nothing,
    ),
    ("a_set_that_stays_is_found_and_taken_down", a_set_that_stays_is_found_and_taken_down),
    ("a_second_up_takes_the_first_down", a_second_up_takes_the_first_down),
    ("sets_do_not_see_each_other", sets_do_not_see_each_other),
    ("files_and_folders_can_be_one_hosts_own", files_and_folders_can_be_one_hosts_own),
    ("the_remote_shell_takes_what_launchers_give", the_remote_shell_takes_what_launchers_give),
    ("the_launcher_of_mpich_reaches_the_hosts", the_launcher_of_mpich_reaches_the_hosts),
    ("a_launcher_starts_ranks_on_chosen_hosts", a_launcher_starts_ranks_on_chosen_hosts),
    ("job_ends_in_time_when_a_host_is_cut", job_ends_in_time_when_a_host_is_cut),
    ("a_job_ends_in_time_when_a_host_is_killed", a_job_ends_in_time_when_a_host_is_killed),
];

/// Limit of a job whose launcher does not notice the loss, or notices it and then hangs in its own
/// abort, as Open MPI 4.1 does.
const ALLOWED: Duration = Duration::from_secs(10);

/// With this variable the program creates a set, prints that, and waits for its end.
const AS_HARNESS: &str = "QUO_HOSTS_TEST_HARNESS";

fn main() -> ExitCode {
    if let Ok(set) = std::env::var(AS_HARNESS) {
        return harness(&set);
    }
    suite::run(TESTS, None)
}

fn harness(set: &str) -> ExitCode {
    println!("begin");
    let Ok(hosts) = Hosts::up(set, 2) else { return ExitCode::FAILURE };
    let Ok(_sleeper) = hosts.command(1, "sleep").arg("600").spawn() else {
        return ExitCode::FAILURE;
    };
    println!("up");
    let _input_ends = std::io::stdin().lines().count();
    ExitCode::SUCCESS
}

fn each_host_is_a_machine_of_its_own() -> Result<()> {
    let hosts = Hosts::up(&suite::set("own"), 2)?;
    for index in 0..2 {
        ensure!(said(hosts.command(index, "hostname"))? == format!("host{index}\n"));
        std::fs::write(hosts.host(index).path("/dev/shm/of"), index.to_string())?;
        std::fs::write(hosts.host(index).path("/run/of"), index.to_string())?;
    }
    for (index, command) in [(0, "cat /dev/shm/of /run/of"), (1, "cat /dev/shm/of /run/of")] {
        ensure!(said(shell(&hosts, index, command))? == format!("{index}{index}"));
    }
    // PIDs start again at 1.
    ensure!(said(shell(&hosts, 1, "test $$ -lt 100; echo $?"))? == "0\n");
    let spaces = ["net", "uts", "mnt", "ipc", "pid"];
    for space in spaces {
        let of = |index| said(shell(&hosts, index, &format!("readlink /proc/self/ns/{space}")));
        let ours = std::fs::read_link(format!("/proc/self/ns/{space}"))?;
        let (first, second) = (of(0)?, of(1)?);
        ensure!(first != second, "{space}: the hosts share one");
        ensure!(first.trim() != ours.to_string_lossy(), "{space}: a host shares ours");
    }
    hosts.down()
}

fn hosts_reach_each_other_until_one_is_cut_off() -> Result<()> {
    let hosts = Hosts::up(&suite::set("cut"), 3)?;
    let reach = |from: usize, to: &str| {
        let script = format!(
            "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_STREAM); \
             s.settimeout(2); exit(s.connect_ex(('{to}', 9)))"
        );
        // Nothing listens there: a host that is reached refuses the connection.
        let output = hosts.command(from, "python3").args(["-c", &script]).output()?;
        anyhow::Ok(output.status.code() == Some(111))
    };
    ensure!(reach(0, "host1")? && reach(0, "front")? && reach(2, "host0")?);
    hosts.cut(1)?;
    ensure!(!reach(0, "host1")?, "host1 is cut off and reached");
    ensure!(!reach(1, "front")?, "host1 is cut off and reaches the front");
    ensure!(reach(0, "host2")?, "host2 was not cut off");
    hosts.restore(1)?;
    // The bridge needs a moment to notice.
    until("host1 is reached again", || Ok(reach(0, "host1")? && reach(1, "front")?))?;
    hosts.down()
}

fn a_killed_host_takes_its_processes_along() -> Result<()> {
    let hosts = Hosts::up(&suite::set("kill"), 2)?;
    let mut daemon =
        shell(&hosts, 0, "setsid sh -c 'echo; exec sleep 600'").stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(daemon.stdout.take().context("piped")?).read_line(&mut line)?;
    hosts.kill(0)?;
    ensure!(!hosts.host(0).is_alive() && hosts.host(1).is_alive());
    ensure!(!daemon.wait()?.success());
    ensure!(hosts.command(0, "true").output()?.status.code() != Some(0));
    ensure!(said(hosts.command(1, "hostname"))? == "host1\n");
    ensure!(hosts.cut(0).is_err() && hosts.restore(0).is_err());
    hosts.kill(0)?;
    ensure!(hosts.leftovers().is_empty(), "{:?}", hosts.leftovers());
    // A process that opens the set sees the same.
    let found = Hosts::open(hosts.set())?;
    ensure!(found.len() == 2 && !found.host(0).is_alive() && found.host(1).is_alive());
    hosts.down()
}

fn what_is_left_on_hosts_is_listed() -> Result<()> {
    let hosts = Hosts::up(&suite::set("left"), 2)?;
    ensure!(hosts.leftovers().is_empty(), "{:?}", hosts.leftovers());
    std::fs::write(hosts.host(1).path("/dev/shm/forgotten"), "")?;
    let daemon = "trap '' TERM; sleep 600 > /dev/null 2>&1 < /dev/null & wait";
    let mut daemon = shell(&hosts, 0, daemon).spawn()?;
    // The started process appears a moment later.
    until("it starts", || Ok(hosts.leftovers().len() == 3))?;
    let left = hosts.leftovers().join("\n");
    ensure!(left.contains("host1: /dev/shm/forgotten"), "{left}");
    ensure!(left.contains("host0: process") && left.contains("sleep 600"), "{left}");
    hosts.kill(0)?;
    daemon.wait()?;
    ensure!(hosts.leftovers() == ["host1: /dev/shm/forgotten"], "{:?}", hosts.leftovers());
    hosts.down()
}

fn a_killed_harness_leaves_nothing() -> Result<()> {
    let set = suite::set("crash");
    let mut harness = start_harness(&set)?;
    ensure!(Hosts::sets().contains(&set));
    harness.kill()?;
    harness.wait()?;
    expect_gone(&set)
}

fn a_harness_killed_at_any_moment_leaves_nothing() -> Result<()> {
    for round in 0..12 {
        let set = suite::set(&format!("moment{round}"));
        let mut harness = as_harness(&set)?.spawn()?;
        let mut output = BufReader::new(harness.stdout.take().context("piped")?);
        output.read_line(&mut String::new())?;
        // Sleeps: the kill may hit any moment of the creation of a set.
        std::thread::sleep(Duration::from_millis(15 * round));
        harness.kill()?;
        harness.wait()?;
        expect_gone(&set)?;
    }
    Ok(())
}

fn a_set_that_stays_is_found_and_taken_down() -> Result<()> {
    let set = suite::set("stay");
    drop(Hosts::with(&Layout::new(&set, 2).stay())?);
    let hosts = Hosts::open(&set)?;
    ensure!(hosts.len() == 2);
    ensure!(said(hosts.command(1, "hostname"))? == "host1\n");
    ensure!(hosts.leftovers().is_empty(), "{:?}", hosts.leftovers());
    drop(hosts);
    ensure!(Hosts::open(&set).is_ok(), "it went with one who had found it");
    ensure!(Hosts::remove(&set)?);
    ensure!(!Hosts::remove(&set)?, "it was there twice");
    expect_gone(&set)
}

fn a_second_up_takes_the_first_down() -> Result<()> {
    let set = suite::set("again");
    let mut harness = start_harness(&set)?;
    let first = Hosts::open(&set)?;
    let second = Hosts::up(&set, 3)?;
    ensure!(!first.host(0).is_alive() && second.host(0).is_alive());
    ensure!(Hosts::open(&set)?.len() == 3);
    drop(harness.stdin.take());
    harness.wait()?;
    ensure!(second.host(0).is_alive(), "the end of the first took the second along");
    second.down()?;
    expect_gone(&set)
}

fn sets_do_not_see_each_other() -> Result<()> {
    let first = Hosts::up(&suite::set("one"), 1)?;
    let second = Hosts::with(&Layout::new(&suite::set("two"), 1))?;
    ensure!(first.host(0).address() == second.host(0).address());
    first.down()?;
    ensure!(said(second.command(0, "hostname"))? == "host0\n");
    second.down()
}

fn files_and_folders_can_be_one_hosts_own() -> Result<()> {
    let hosts = Hosts::up(&suite::set("files"), 2)?;
    let host = hosts.host(0);
    host.private_copy("/etc")?;
    said(shell(&hosts, 0, "mkdir /etc/quo-hosts-test && echo private > /etc/quo-hosts-test/file"))?;
    ensure!(said(shell(&hosts, 0, "cat /etc/quo-hosts-test/file"))? == "private\n");
    host.private_folder("/etc/quo-hosts-test", "mode=0700,size=1m")?;
    ensure!(said(shell(&hosts, 0, "ls /etc/quo-hosts-test"))?.is_empty());
    host.replace_file("/etc/passwd", "nobody\n")?;
    ensure!(said(shell(&hosts, 0, "cat /etc/passwd"))? == "nobody\n");
    host.replace_file("/etc/passwd", "somebody\n")?;
    ensure!(said(shell(&hosts, 0, "cat /etc/passwd"))? == "somebody\n");
    ensure!(said(shell(&hosts, 1, "test -e /etc/quo-hosts-test; echo $?"))? == "1\n");
    ensure!(!std::path::Path::new("/etc/quo-hosts-test").exists());
    ensure!(host.private_folder("/no/such/folder", "mode=0700").is_err());
    hosts.down()
}

fn the_remote_shell_takes_what_launchers_give() -> Result<()> {
    let hosts = Hosts::up(&suite::set("shell"), 2)?;
    let remote = |arguments: &[&str]| {
        let output = hosts.front().command("/run/remote-shell").args(arguments).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        anyhow::Ok((output.status.code(), text))
    };
    let ok = |text: &str| (Some(0), text.to_owned());
    // Open MPI: the host, then one word with the command for the remote shell.
    let ours = "PATH=/usr/bin:$PATH ; export PATH ;  hostname";
    ensure!(remote(&["10.77.0.2", ours])? == ok("host1\n"));
    ensure!(remote(&["-x", "-l", "someone", "host0", ours])? == ok("host0\n"));
    // MPICH's Hydra: options, the host, words that the remote shell parses once more.
    let proxy = ["-x", "host1", "\"/bin/echo\"", "--control-port", "front:1", "\"a b\""];
    ensure!(remote(&proxy)? == ok("--control-port front:1 a b\n"));
    // Options of ssh with and without an argument, before and after the host.
    let options = ["-q", "-oBatchMode=yes", "-o", "StrictHostKeyChecking=no", "-p", "22"];
    let call = [&options[..], &["someone@host1", "-n", "hostname"]].concat();
    ensure!(remote(&call)? == ok("host1\n"));
    ensure!(remote(&["host1", "exit 7"])?.0 == Some(7));
    ensure!(remote(&["host1", "test -d \"$TMPDIR\" && echo yes"])? == ok("yes\n"));
    for nowhere in [&["host9", "true"][..], &["", "true"], &["-x"]] {
        ensure!(remote(nowhere)?.0 == Some(255), "{nowhere:?}");
    }
    hosts.cut(1)?;
    ensure!(remote(&["host1", "hostname"])?.0 == Some(255), "cut off and reached");
    hosts.restore(1)?;
    ensure!(remote(&["host1", "hostname"])? == ok("host1\n"));
    hosts.down()
}

fn the_launcher_of_mpich_reaches_the_hosts() -> Result<()> {
    const LAUNCHER: &str = "mpiexec.hydra";
    if Command::new(LAUNCHER).arg("--version").output().is_err() {
        return Err(Skipped(format!("{LAUNCHER} (package mpich) is not installed")).into());
    }
    let hosts = Hosts::up(&suite::set("hydra"), 2)?;
    let output = hosts
        .front()
        .command(LAUNCHER)
        .args(["-launcher", "ssh", "-launcher-exec", "/run/remote-shell"])
        .args(["-hosts", "host0,host1", "-n", "4", "-ppn", "2", "hostname"])
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    ensure!(lines == ["host0", "host0", "host1", "host1"], "{output:?}");
    hosts.down()
}

fn a_launcher_starts_ranks_on_chosen_hosts() -> Result<()> {
    let hosts = Hosts::up(&suite::set("launch"), 3)?;
    let job = hosts.job(&[(0, 2), (2, 1)], "/bin/sh").arg("-c").arg("echo $(hostname) $WORD");
    let outcome = job.env("WORD", "passed").run()?;
    outcome.expect_success()?;
    let mut lines: Vec<&str> = outcome.stdout.lines().collect();
    lines.sort_unstable();
    ensure!(lines == ["host0 passed", "host0 passed", "host2 passed"], "{}", outcome.report());
    ensure!(hosts.leftovers().is_empty(), "{:?}", hosts.leftovers());
    hosts.down()
}

fn job_ends_in_time_when_a_host_is_cut() -> Result<()> {
    ends_in_time("jobcut", |hosts| hosts.cut(1))
}

fn a_job_ends_in_time_when_a_host_is_killed() -> Result<()> {
    ends_in_time("jobkill", |hosts| hosts.kill(1))
}

/// Checks that a job over two hosts fails, and leaves no process, after `lose` has taken the second
/// one.
fn ends_in_time(set: &str, lose: impl FnOnce(&Hosts) -> Result<()>) -> Result<()> {
    let hosts = Hosts::up(&suite::set(set), 2)?;
    let job = hosts.job(&[(0, 1), (1, 1)], "/bin/sh").arg("-c").arg("echo ready; exec sleep 600");
    let job = job.limit(ALLOWED).start()?;
    job.wait_for("ready", 2)?;
    lose(&hosts)?;
    let outcome = job.finish()?;
    ensure!(!outcome.status.success(), "{}", outcome.report());
    let strays: Vec<String> =
        hosts.leftovers().into_iter().filter(|line| line.contains("process")).collect();
    ensure!(strays.is_empty(), "{strays:?}\n{}", outcome.report());
    hosts.down()
}

fn shell(hosts: &Hosts, index: usize, script: &str) -> Command {
    let mut command = hosts.command(index, "sh");
    command.args(["-c", script]);
    command
}

/// Returns the output of a command that succeeds.
fn said(mut command: Command) -> Result<String> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn as_harness(set: &str) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(AS_HARNESS, set).stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command)
}

fn start_harness(set: &str) -> Result<std::process::Child> {
    let mut harness = as_harness(set)?.spawn()?;
    let output = BufReader::new(harness.stdout.take().context("piped")?);
    let last = output.lines().map_while(Result::ok).find(|line| line == "up");
    last.context("the harness made no hosts")?;
    Ok(harness)
}

/// Checks that no process, and with the processes no namespace, is left of the set without help.
fn expect_gone(set: &str) -> Result<()> {
    let mark = format!("QUO_HOSTS_SET={set}");
    let is_marked = |folder: &std::path::Path| {
        let environment = std::fs::read(folder.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
    };
    until(&format!("nothing is left of {set}"), || {
        let processes = std::fs::read_dir("/proc")?.flatten().map(|entry| entry.path());
        Ok(!processes.into_iter().any(|folder| is_marked(&folder)))
    })
}

fn until(what: &str, holds: impl Fn() -> Result<bool>) -> Result<()> {
    let end = std::time::Instant::now() + Duration::from_secs(30);
    while !holds()? {
        ensure!(std::time::Instant::now() < end, "{what}: not within 30 s");
        // Sleeps: between two looks at something that the kernel or another process does.
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
