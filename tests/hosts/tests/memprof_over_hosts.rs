//! The memory profiler around ranks on several hosts, under `mpirun` and under Slurm: all ranks are
//! recorded in one folder, each host is a node, and lost parts of a job are reported.

mod support;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use quo_hosts::slurm::{self, Options, Slurm};
use quo_hosts::suite::{self, Skipped};
use quo_hosts::{HostJob, Hosts, Layout};
use quo_tests::memprof::{PROGRAMS, traces_in};
use quo_tests::{APPLICATION, CheckedTrace, Checkout, Recorded, Running, mpicc, run_compiler};
use serde_json::Value;

use support::{expect_nothing_left, until};

/// Jobs end within seconds; a job that a lost host keeps from ending is ended.
const LIMIT: Duration = Duration::from_secs(40);
const MEBI: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// The hosts' ranks outnumber the processors: waiting ranks yield to others.
const YIELD: (&str, &str) = ("OMPI_MCA_mpi_yield_when_idle", "1");
/// Memory of each rank of `misfortune.c`.
const HELD: u64 = 50 * MEBI;

/// A folder shared by all hosts, with a program and its results.
struct Bed {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Bed {
    fn new(name: &str) -> Result<Bed> {
        let folder = tempfile::tempdir()?;
        let program = folder.path().join(name);
        let root = Checkout::find()?.root().to_owned();
        let mut compiler = Command::new(mpicc());
        compiler.args(["-std=gnu11", "-O1", "-fno-builtin"]);
        compiler.arg(format!("-I{}", root.join("memprof/api/include").display()));
        compiler.arg(root.join(PROGRAMS).join(name).with_extension("c")).arg("-o").arg(&program);
        run_compiler(compiler.arg("-ldl"))?;
        Ok(Bed { folder, program })
    }

    fn traces(&self) -> PathBuf {
        self.folder.path().join("traces")
    }

    /// Returns a job of the program on these hosts.
    fn job<'a>(&self, hosts: &'a Hosts, ranks: &[(usize, usize)]) -> Result<HostJob<'a>> {
        let job = hosts.job(ranks, &self.program);
        Ok(job.under(memprof_run(&self.traces())?).env(YIELD.0, YIELD.1).limit(LIMIT))
    }

    /// Returns the existing traces of ranks, in rank order.
    fn checked_traces(&self) -> Result<Vec<CheckedTrace>> {
        let files = traces_in(&self.traces())?;
        let mut traces: Vec<CheckedTrace> =
            files.iter().map(|file| CheckedTrace::open(file)).collect::<Result<_>>()?;
        traces.sort_by_key(|one| one.trace.identity.rank);
        Ok(traces)
    }

    /// Waits until the traces show that this many ranks hold their memory.
    fn wait_until_seen(&self, running: &Running, ranks: usize) -> Result<()> {
        running.wait_for("rank ", ranks)?;
        let holds = |one: &CheckedTrace| {
            one.trace.summary.as_ref().is_some_and(|summary| summary.head.peak >= HELD)
        };
        until("all ranks are seen", || {
            Ok(self.checked_traces()?.iter().filter(|one| holds(one)).count() == ranks)
        })
    }
}

fn memprof_run(traces: &Path) -> Result<Vec<OsString>> {
    let memprof = Checkout::find()?.program("memprof")?;
    let words =
        [memprof.as_os_str(), "run".as_ref(), "-o".as_ref(), traces.as_os_str(), "--".as_ref()];
    Ok(words.map(OsString::from).to_vec())
}

/// Returns the JSON output of `memprof report` on a folder.
fn report(traces: &Path) -> Result<Value> {
    Ok(serde_json::from_str(&told(traces, &["--json"])?)?)
}

/// Returns the plain output of `memprof report` on a folder.
fn told(traces: &Path, options: &[&str]) -> Result<String> {
    let mut command = Command::new(Checkout::find()?.program("memprof")?);
    let output = command.arg("report").args(options).arg(traces).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// A node in a report: its host, and its ranks, each with how it ended.
type Seen<'a> = (&'a str, Vec<(u64, &'a str)>);

fn seen(report: &Value) -> Vec<Seen<'_>> {
    let rank = |rank: &'_ Value| rank["identity"]["rank"].as_u64().unwrap_or(u64::MAX);
    let ranks = |node| list(node).iter().map(|one| (rank(one), text(&one["state"]))).collect();
    list(&report["nodes"]).iter().map(|node| (text(&node["host"]), ranks(&node["ranks"]))).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn bytes(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

/// Checks the memory of each rank of `usual.c`, all bytes attributed, and the host in each trace.
fn expect_usual(recorded: &Recorded, hosts: &[&str]) -> Result<()> {
    recorded.expect_said("done")?.expect_good_books()?;
    for (one, host) in recorded.traces.iter().zip(hosts) {
        let (owned, resident) = (one.owned_peak(APPLICATION)?, one.peak(APPLICATION));
        let right =
            (38 * MEBI..39 * MEBI).contains(&owned) && (30 * MEBI..39 * MEBI).contains(&resident);
        ensure!(right, "{owned} B owned, {resident} B resident\n{}", one.table());
        let said = one.trace.identity.host.to_string();
        ensure!(said == *host, "rank {} says {said}, not {host}", one.trace.identity.rank);
    }
    Ok(())
}

/// Checks the sum of a node: that of its ranks, less the memory that several of them have mapped;
/// nothing is shared between nodes, though all hosts of a bed have the same files with the same
/// inode numbers.
fn expect_sums(report: &Value) -> Result<()> {
    let (mut ranks, mut nodes) = (0, 0);
    for node in list(&report["nodes"]) {
        let those = list(&node["ranks"]);
        let sum: u64 = those.iter().map(|rank| bytes(&rank["totals"]["resident"])).sum();
        let repeated = bytes(&node["mapped"]["repeated"]);
        (ranks, nodes) = (ranks + sum, nodes + sum - repeated);
        let files = list(&node["mapped"]["files"]);
        // One process may map the page between two segments of a library twice.
        let twice_by_one = PAGE * files.len() as u64;
        let is_shared = repeated > twice_by_one;
        ensure!(is_shared == (those.len() > 1), "{repeated} B of {} ranks", those.len());
        let twice: u64 = files.iter().map(|file| bytes(&file["sum"]) - bytes(&file["once"])).sum();
        ensure!(twice == repeated, "{twice} B of files are repeated, and {repeated} B of the node");
        let most = files.iter().map(|file| bytes(&file["processes"])).max();
        ensure!(most == Some(those.len() as u64), "{most:?} of {} ranks map a file", those.len());
        let peak = bytes(&node["timeline"]["peak"]["bytes"]);
        let peaks: Vec<u64> = those.iter().map(|rank| bytes(&rank["peak"]["bytes"])).collect();
        let (largest, all) = (peaks.iter().max().copied().unwrap_or(0), peaks.iter().sum());
        // The node counts such a page once, its rank as often as the kernel does.
        let least = largest - twice_by_one;
        ensure!((least..=all).contains(&peak), "{peak} B, of ranks {peaks:?}");
    }
    let balance = &report["balance"];
    let found = (bytes(&balance["ranks"]), bytes(&balance["nodes"]));
    ensure!(found == (ranks, nodes), "{found:?}, of nodes {:?}", (ranks, nodes));
    Ok(())
}

fn each_host_is_a_node_with_its_shared_pages_once() -> Result<()> {
    let bed = Bed::new("usual")?;
    let hosts = Hosts::up(&suite::set("profiled"), 3)?;
    let outcome = bed.job(&hosts, &[(0, 2), (1, 2), (2, 1)])?.run()?;
    outcome.expect_success()?;
    let report = report(&bed.traces())?;
    let closed = |ranks: &[u64]| ranks.iter().map(|rank| (*rank, "closed")).collect::<Vec<_>>();
    let right = [("host0", closed(&[0, 1])), ("host1", closed(&[2, 3])), ("host2", closed(&[4]))];
    ensure!(seen(&report) == right, "{:?}", seen(&report));
    expect_sums(&report)?;
    let names = ["host0", "host0", "host1", "host1", "host2"];
    expect_usual(&Recorded::of(outcome, bed.folder)?.expect_ranks(5)?, &names)?;
    expect_nothing_left(&hosts)?;
    hosts.down()
}

fn status_is_that_of_a_job_ended_on_another_host() -> Result<()> {
    let bed = Bed::new("misfortune")?;
    let hosts = Hosts::up(&suite::set("status"), 2)?;
    let job = bed.job(&hosts, &[(0, 1), (1, 1)])?.arg("MPI_Abort").arg("1").arg(bed.folder.path());
    let outcome = job.run()?;
    ensure!(outcome.status.code() == Some(3), "{}", outcome.report());
    let right = [("host0", vec![(0, "killed")]), ("host1", vec![(1, "killed")])];
    let report = report(&bed.traces())?;
    ensure!(seen(&report) == right, "{:?}", seen(&report));
    let one = bed.checked_traces()?.pop().context("no trace")?;
    let peak = one.peak(APPLICATION);
    ensure!((HELD..HELD + MEBI).contains(&peak), "{peak} B\n{}", one.table());
    hosts.down()
}

/// Two ranks on each of two hosts that run until they are killed, whatever the launcher has
/// decided.
fn stubborn<'a>(bed: &Bed, hosts: &'a Hosts) -> Result<HostJob<'a>> {
    let job = hosts
        .job(&[(0, 2), (1, 2)], "/bin/sh")
        .under(memprof_run(&bed.traces())?)
        .env(YIELD.0, YIELD.1);
    let job = job.arg("-c").arg("trap '' TERM; exec \"$@\"").arg("sh").arg(&bed.program);
    let job = job.arg("nothing").arg("-1").arg(bed.folder.path()).limit(LIMIT);
    Ok(job.option("--mca").option("odls_base_sigkill_timeout").option("60"))
}

/// Returns the time for which each rank has been recorded, and checks the memory that it holds.
fn times(bed: &Bed) -> Result<Vec<u64>> {
    let time = |one: &CheckedTrace| {
        let head = &one.summary()?.head;
        ensure!(head.peak >= HELD, "{} B\n{}", head.peak, one.table());
        Ok(head.time)
    };
    bed.checked_traces()?.iter().map(time).collect()
}

/// Waits until each of these ranks has been recorded for longer than before.
fn until_recorded(bed: &Bed, ranks: &[usize]) -> Result<()> {
    let before = times(bed)?;
    until("ranks are recorded", || {
        let now = times(bed)?;
        Ok(ranks.iter().all(|rank| now.get(*rank) > before.get(*rank)))
    })
}

fn killed_hosts_traces_stay_and_its_ranks_are_named() -> Result<()> {
    let bed = Bed::new("misfortune")?;
    let hosts = Hosts::up(&suite::set("killed"), 2)?;
    let running = stubborn(&bed, &hosts)?.start()?;
    bed.wait_until_seen(&running, 4)?;
    hosts.kill(1)?;
    until_recorded(&bed, &[0, 1])?;
    let report = report(&bed.traces())?;
    let right = [
        ("host0", vec![(0, "running"), (1, "running")]),
        ("host1", vec![(2, "killed"), (3, "killed")]),
    ];
    ensure!(seen(&report) == right, "{:?}", seen(&report));
    let said = told(&bed.traces(), &[])?;
    for line in ["rank 2 and 1 more: ended without closing", "rank 0 and 1 more: still running"] {
        ensure!(said.contains(line), "{said}");
    }
    running.kill_all();
    running.finish()?;
    ensure!(times(&bed)?.len() == 4, "{} traces", times(&bed)?.len());
    hosts.down()
}

fn traces_of_a_host_that_is_cut_go_on() -> Result<()> {
    let bed = Bed::new("misfortune")?;
    let hosts = Hosts::up(&suite::set("cutoff"), 2)?;
    let running = stubborn(&bed, &hosts)?.start()?;
    bed.wait_until_seen(&running, 4)?;
    hosts.cut(1)?;
    until_recorded(&bed, &[0, 1, 2, 3])?;
    let state = |state| {
        let ranks = |first| vec![(first, state), (first + 1, state)];
        [("host0", ranks(0)), ("host1", ranks(2))]
    };
    let now = report(&bed.traces())?;
    ensure!(seen(&now) == state("running"), "{:?}", seen(&now));
    running.kill_all();
    running.finish()?;
    let later = report(&bed.traces())?;
    ensure!(seen(&later) == state("killed"), "{:?}", seen(&later));
    hosts.down()
}

fn ranks_without_the_folder_run_and_are_named_with_cause() -> Result<()> {
    const PERHAPS: &str = "perhaps the folder is not there where they ran";
    let bed = Bed::new("usual")?;
    let hosts = Hosts::up(&suite::set("private"), 2)?;
    let place = bed.folder.path().join("place");
    fs::create_dir(&place)?;
    hosts.host(1).private_folder(&place.to_string_lossy(), "size=64m")?;
    let words = memprof_run(&place.join("traces"))?;
    let job =
        hosts.job(&[(0, 1), (1, 2)], &bed.program).under(&words).env(YIELD.0, YIELD.1).limit(LIMIT);
    let outcome = job.run()?;
    outcome.expect_success()?;
    for rank in [1, 2] {
        let why =
            format!("memprof: rank {rank}: no trace in the folder MEMPROF_DIR, it is not there");
        ensure!(outcome.stderr.contains(&why), "{}", outcome.report());
    }
    let missing = format!("2 ranks left no trace: 1, 2; {PERHAPS}");
    ensure!(outcome.stderr.contains(&missing), "{}", outcome.report());
    let report = report(&place.join("traces"))?;
    ensure!(seen(&report) == [("host0", vec![(0, "closed")])], "{:?}", seen(&report));
    ensure!(list(&report["missing"]).len() == 2, "{}", report["missing"]);
    fs::remove_dir_all(place.join("traces"))?;
    // No other host sees it.
    let job = hosts.job(&[(1, 1)], &bed.program).under(&words).env(YIELD.0, YIELD.1).limit(LIMIT);
    let outcome = job.run()?;
    outcome.expect_success()?;
    for said in ["no rank recorded anything", "or where ", "/traces is not there"] {
        ensure!(outcome.stderr.contains(said), "{}", outcome.report());
    }
    expect_nothing_left(&hosts)?;
    hosts.down()
}

fn ranks_on_hosts_of_one_name_have_a_trace_each() -> Result<()> {
    let bed = Bed::new("usual")?;
    let hosts = Hosts::with(&Layout::new(&suite::set("samename"), 2).same_name("node"))?;
    let outcome = bed.job(&hosts, &[(0, 2), (1, 2)])?.run()?;
    outcome.expect_success()?;
    let report = report(&bed.traces())?;
    // Ranks with the same kernel and host name are one node, like containers of a machine.
    let closed: Vec<_> = (0..4).map(|rank| (rank, "closed")).collect();
    ensure!(seen(&report) == [("node", closed)], "{:?}\n{}", seen(&report), outcome.report());
    expect_sums(&report)?;
    let names: Vec<_> = traces_in(&bed.traces())?;
    // The part between the host and the start is the PID, with its namespace.
    let processes = names.iter().filter_map(|name| name.file_name()?.to_str()?.split('.').nth(1));
    let several: BTreeSet<&str> = processes.collect();
    ensure!(several.len() == 4, "{names:?}");
    expect_usual(&Recorded::of(outcome, bed.folder)?.expect_ranks(4)?, &["node"; 4])?;
    hosts.down()
}

fn slurm_of_two(purpose: &str) -> Result<Slurm> {
    match slurm::why_not() {
        Some(reason) => bail!(Skipped(reason)),
        None => Slurm::up(Hosts::up(&suite::set(purpose), 2)?, Options::default()),
    }
}

const NAMES: [&str; 4] = ["host0", "host0", "host1", "host1"];

fn slurm_ranks_are_recorded_from_outside_and_inside_a_job() -> Result<()> {
    let bed = Bed::new("usual")?;
    let slurm = slurm_of_two("profiledslurm")?;
    let job = slurm
        .srun(2, 4, &bed.program)
        .under(memprof_run(&bed.traces())?)
        .env(YIELD.0, YIELD.1)
        .limit(LIMIT);
    let outcome = job.option("--cpu-bind=none").option("--ntasks-per-node=2").run()?;
    outcome.expect_success()?;
    let closed = |first| vec![(first, "closed"), (first + 1, "closed")];
    let right = [("host0", closed(0)), ("host1", closed(2))];
    let outside = report(&bed.traces())?;
    ensure!(seen(&outside) == right, "{:?}", seen(&outside));
    expect_sums(&outside)?;

    let inner = bed.folder.path().join("inner");
    let file = |name: &str| bed.folder.path().join(name);
    let words: Vec<String> =
        memprof_run(&inner)?.iter().map(|word| format!("'{}'", word.to_string_lossy())).collect();
    let program = bed.program.display();
    let script = format!("#!/bin/sh\n{} srun --cpu-bind=none {program}\n", words.join(" "));
    fs::write(file("script"), script)?;
    let mut command = slurm.command("sbatch");
    command
        .args(["--parsable", "--nodes=2", "--ntasks-per-node=2"])
        .arg("--output")
        .arg(file("output"));
    command.env("OMPI_MCA_btl_tcp_if_include", quo_hosts::SUBNET);
    command
        .env(YIELD.0, YIELD.1)
        .env("OMPI_MCA_btl_vader_single_copy_mechanism", "none")
        .env_remove("QUO_TOPOLOGY");
    let submitted = command.arg(file("script")).output()?;
    ensure!(submitted.status.success(), "{submitted:?}");
    let number = format!("JobId={} ", String::from_utf8(submitted.stdout)?.trim());
    let account = || slurm.accounts().into_iter().find(|line| line.contains(&number));
    until("the job ends", || Ok(account().is_some()))?;
    let said = fs::read_to_string(file("output"))?;
    let is_done = account().is_some_and(|line| line.contains("JobState=COMPLETED "));
    ensure!(is_done && said.contains("4 ranks on 2 nodes"), "{:?}\n{said}", account());
    let inside = report(&inner)?;
    ensure!(seen(&inside) == right, "{:?}", seen(&inside));
    expect_sums(&inside)?;
    expect_usual(&Recorded::of(outcome, bed.folder)?.expect_ranks(4)?, &NAMES)?;
    ensure!(slurm.leftovers()?.is_empty(), "left on the hosts: {:?}", slurm.leftovers()?);
    slurm.down()
}

fn of_a_job_that_slurm_cancels_the_traces_stay() -> Result<()> {
    let bed = Bed::new("misfortune")?;
    let slurm = slurm_of_two("cancelled")?;
    let job = slurm
        .srun(2, 4, &bed.program)
        .under(memprof_run(&bed.traces())?)
        .env(YIELD.0, YIELD.1)
        .limit(LIMIT);
    let job = job
        .option("--cpu-bind=none")
        .option("--ntasks-per-node=2")
        .arg("nothing")
        .arg("-1")
        .arg(bed.folder.path());
    let running = job.start()?;
    bed.wait_until_seen(&running, 4)?;
    let all = slurm.command("scancel").args(["--name", "misfortune"]).status()?;
    ensure!(all.success(), "scancel: {all}");
    let outcome = running.finish()?;
    ensure!(!outcome.out_of_time && !outcome.status.success(), "{}", outcome.report());
    ensure!(outcome.stderr.contains("rank 0 and 3 more: ended without"), "{}", outcome.report());
    let report = report(&bed.traces())?;
    let killed = |first| vec![(first, "killed"), (first + 1, "killed")];
    ensure!(seen(&report) == [("host0", killed(0)), ("host1", killed(2))], "{:?}", seen(&report));
    ensure!(times(&bed)?.len() == 4, "{} traces", times(&bed)?.len());
    ensure!(slurm.leftovers()?.is_empty(), "left on the hosts: {:?}", slurm.leftovers()?);
    slurm.down()
}

quo_tests::suite! {
    by |tests| quo_hosts::suite::run(tests, None);
    each_host_is_a_node_with_its_shared_pages_once
    status_is_that_of_a_job_ended_on_another_host
    killed_hosts_traces_stay_and_its_ranks_are_named
    traces_of_a_host_that_is_cut_go_on
    ranks_without_the_folder_run_and_are_named_with_cause
    ranks_on_hosts_of_one_name_have_a_trace_each
    slurm_ranks_are_recorded_from_outside_and_inside_a_job
    of_a_job_that_slurm_cancels_the_traces_stay
}
