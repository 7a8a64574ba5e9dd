//! `quo-elastic manage --slurm` on a real Slurm: elastic jobs fill idle nodes and give them back for a rigid one.
#![allow(clippy::print_stdout)] // The figures are what it is for.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, ExitCode, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use quo_hosts::slurm::{Options, Slurm, why_not};
use quo_hosts::suite::Test;
use quo_hosts::{Hosts, suite};
use quo_tests::{Checkout, Family, Launcher};
use rustix::process::{Pid, Signal, kill_process};

const TESTS: &[Test] = &[
    ("elastic_jobs_fill_nodes_and_give_them_back", given_back),
    ("elastic_jobs_use_more_of_the_nodes_than_static_ones", compared),
    ("job_between_two_looks_is_recorded_with_its_run", between_looks),
    ("manager_goes_on_after_the_controller_was_away", controller_away),
    ("draining_and_reserved_nodes_are_left", left_alone),
    ("shrink_that_does_not_fit_is_refused_with_the_sum", too_large),
];

/// Limit for anything that a test waits for.
const PATIENCE: Duration = Duration::from_secs(200);
const PAUSE: Duration = Duration::from_millis(50);
const NODES: usize = 4;
/// Folder of the control sockets; each host has its own.
const SOCKETS: &str = "/run/quo-elastic-test";

/// A test takes two minutes on an idle machine.
const LIMIT: Duration = Duration::from_secs(600);

fn main() -> ExitCode {
    suite::run_within(LIMIT, TESTS, why_not().or_else(other_launcher))
}

/// Returns the reason to skip: only Open MPI 4's launcher can add and give back nodes.
fn other_launcher() -> Option<String> {
    match Launcher::find() {
        Ok(launcher) if matches!(launcher.family(), Family::OpenMpi4) => None,
        Ok(launcher) => {
            Some(format!("{:?} is not known to go on without a node", launcher.family()))
        }
        Err(error) => Some(format!("{error:#}")),
    }
}

/// A Slurm, and a folder that all hosts share.
struct Bed {
    slurm: Slurm,
    folder: tempfile::TempDir,
}

impl Bed {
    fn up(purpose: &str) -> Result<Bed> {
        let slurm = Slurm::up(Hosts::up(&suite::set(purpose), NODES)?, Options::default())?;
        Ok(Bed { slurm, folder: tempfile::tempdir()? })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Submits a world of two ranks on each of these hosts, with at most four ranks and so many
    /// units of work.
    fn elastic(&self, name: &str, hosts: &[usize], units: u64) -> Result<()> {
        self.elastic_with(name, hosts, units, &[])
    }

    /// Does the same with more variables.
    fn elastic_with(
        &self,
        name: &str,
        hosts: &[usize],
        units: u64,
        variables: &[(&str, &str)],
    ) -> Result<()> {
        let (checkout, launcher) = (Checkout::find()?, Launcher::find()?);
        let folder = self.file(name);
        fs::create_dir(&folder)?;
        let script = format!(
            "#!/bin/sh\ncd {folder}\nexec {launcher} --enable-recovery --mca routed direct --bind-to none \
             --mca ras ^slurm --host {hosts} --mca plm rsh --mca plm_rsh_agent '{command} slurm-agent' \
             -np {ranks} {program} {name} {ranks} {folder}\n",
            folder = folder.display(),
            launcher = launcher.program().display(),
            ranks = 2 * hosts.len(),
            // mpirun knows its own node by its host name, and the others by their Slurm names.
            hosts = std::iter::once(self.slurm.hosts().host(hosts[0]).name().to_owned())
                .chain(hosts[1..].iter().map(|host| self.slurm.node(*host)))
                .map(|name| format!("{name}:2"))
                .collect::<Vec<String>>()
                .join(","),
            command = checkout.program("quo-elastic")?.display(),
            program = checkout.program("examples/controlled")?.display(),
        );
        fs::write(folder.join("script"), script)?;
        let mut command = self.slurm.command("sbatch");
        for (name, value) in [
            ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
            ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
            ("OMPI_MCA_btl_vader_single_copy_mechanism", "none"),
            ("PMIX_MCA_gds", "hash"),
            ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
            ("OMPI_MCA_oob_tcp_if_include", quo_hosts::SUBNET),
            ("OMPI_MCA_btl_tcp_if_include", quo_hosts::SUBNET),
            ("ELASTIC_MOST", "4"),
            ("ELASTIC_USUAL_SOCKET", "1"),
            ("ELASTIC_ITERATION_MS", "20"),
            ("QUO_ELASTIC_DIR", SOCKETS),
        ] {
            command.env(name, value);
        }
        command.env("ELASTIC_UNITS", units.to_string()).envs(variables.iter().copied());
        command.env_remove("QUO_TOPOLOGY");
        let nodes: Vec<String> = hosts.iter().map(|host| self.slurm.node(*host)).collect();
        let nodes = format!("--nodelist={}", nodes.join(","));
        command.args(["--parsable", "--exclusive", "--time=30", "--comment=quo-elastic"]);
        command
            .arg(format!("--nodes={}", hosts.len()))
            .arg(nodes)
            .arg(format!("--job-name={name}"));
        command.arg("--output").arg(folder.join("output")).arg(folder.join("script"));
        let submitted = command.output()?;
        ensure!(submitted.status.success(), "{submitted:?}");
        self.until(&format!("{name} is ready"), || {
            Ok(self.read(&format!("{name}/output")).contains("ready\n"))
        })
    }

    /// Submits a job of this many whole nodes for ten seconds.
    fn rigid(&self, nodes: usize) -> Result<()> {
        let mut command = self.slurm.command("sbatch");
        command.args(["--exclusive", "--time=10", "--job-name=rigid"]);
        command.arg(format!("--nodes={nodes}"));
        let submitted = command.args(["--output=/dev/null", "--wrap=sleep 10"]).output()?;
        ensure!(submitted.status.success(), "{submitted:?}");
        Ok(())
    }

    fn manager(&self, words: &[&str]) -> Result<Manager> {
        let log = File::options().create(true).append(true).open(self.file("manager"))?;
        let mut command = self.slurm.command(Checkout::find()?.program("quo-elastic")?);
        command.args(["manage", "--slurm", "--interval", "500ms", "--grace", "20s"]).args(words);
        command.arg("--record").arg(self.file("record"));
        command.env("QUO_ELASTIC_DIR", SOCKETS).stdin(Stdio::null());
        Ok(Manager(command.stdout(log.try_clone()?).stderr(log).spawn()?))
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    /// Waits for a condition that has no notification.
    fn until(&self, what: &str, is_so: impl Fn() -> Result<bool>) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while !is_so()? {
            ensure!(Instant::now() < end, "not in time: {what}\n{}", self.report());
            // Sleeps: Slurm does not announce changes of jobs and nodes.
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn report(&self) -> String {
        let parts = ["manager", "a/output", "b/output", "a/events", "b/events"];
        let parts: Vec<String> =
            parts.iter().map(|name| format!("--- {name}\n{}", self.read(name))).collect();
        format!("jobs: {:?}\n{}", self.jobs(), parts.concat())
    }

    /// Returns one line for each current job.
    fn squeue(&self, format: &str) -> Result<String> {
        let format = format!("--format={format}");
        let output = self.slurm.command("squeue").args(["--noheader", &format]).output()?;
        ensure!(output.status.success(), "{output:?}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Returns state and name of all current jobs.
    fn jobs(&self) -> Result<Vec<(String, String)>> {
        let text = self.squeue("%T|%j")?;
        let pair = |line: &str| {
            let (state, name) = line.split_once('|').context("squeue")?;
            Ok((state.to_owned(), name.to_owned()))
        };
        text.lines().map(pair).collect()
    }

    fn runs(&self, name: &str) -> Result<bool> {
        Ok(self.jobs()?.iter().any(|(state, job)| state == "RUNNING" && job == name))
    }

    fn size(&self, name: &str, size: usize) -> Result<bool> {
        Ok(self
            .read(&format!("{name}/output"))
            .lines()
            .any(|line| line.ends_with(&format!(" size {size}"))))
    }

    /// Waits until all jobs have ended.
    fn finish(self) -> Result<Figures> {
        self.until("all jobs have ended", || Ok(self.jobs()?.is_empty()))?;
        let figures = figures(&self.slurm)?;
        self.slurm.down()?;
        Ok(figures)
    }
}

struct Manager(Child);

impl Manager {
    fn kill(mut self) -> Result<()> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Figures of all jobs, from the accounts.
#[derive(Debug)]
struct Figures {
    /// Node-seconds of the jobs divided by those of the machine.
    used: f64,
    makespan: u64,
    wait_of_rigid: u64,
}

impl Figures {
    fn print(&self, name: &str) {
        let Figures { used, makespan, wait_of_rigid } = self;
        let used = used * 100.0;
        println!(
            "{name}: nodes used {used:.0} %, makespan {makespan} s, the rigid job waited {wait_of_rigid} s"
        );
    }
}

/// Reads the accounts: lines of `Key=value`, with times such as `2026-11-25T17:36:30`.
fn figures(slurm: &Slurm) -> Result<Figures> {
    let (mut first, mut last, mut nodes, mut wait) = (u64::MAX, 0, 0, None);
    for line in slurm.accounts() {
        let field = |key: &str| {
            let mut words = line.split_ascii_whitespace();
            words.find_map(|word| word.strip_prefix(key)).with_context(|| format!("{key} {line}"))
        };
        let seconds = |key: &str| -> Result<u64> {
            let (day, time) = field(key)?.split_once('T').with_context(|| line.clone())?;
            let day: u64 = day.rsplit('-').next().unwrap_or_default().parse()?;
            let mut parts = time.split(':').map(str::parse::<u64>);
            let mut part = || parts.next().context("a time")?.context("a time");
            Ok(day * 86_400 + part()? * 3600 + part()? * 60 + part()?)
        };
        let (submitted, start, end) =
            (seconds("SubmitTime=")?, seconds("StartTime=")?, seconds("EndTime=")?);
        let count: u64 = field("NodeCnt=")?.parse()?;
        (first, last) = (first.min(submitted), last.max(end));
        nodes += end.saturating_sub(start) * count;
        if field("Name=")? == "rigid" {
            wait = Some(start.saturating_sub(submitted));
        }
    }
    let makespan = last.saturating_sub(first).max(1);
    let used = nodes as f64 / (makespan * NODES as u64) as f64;
    Ok(Figures { used, makespan, wait_of_rigid: wait.context("no rigid job")? })
}

/// The units of work of an elastic job: 50 s on one node, 25 s on two, and more on a busy machine.
const UNITS: u64 = 5000;

/// Returns the units of work, which `MANAGE_UNITS` sets for measurements.
fn units() -> Result<u64> {
    std::env::var("MANAGE_UNITS").map_or(Ok(UNITS), |text| text.parse().context("MANAGE_UNITS"))
}

/// Figures of the managed jobs, for the comparison.
static MANAGED: OnceLock<(Figures, Duration)> = OnceLock::new();

fn given_back() -> Result<()> {
    let (figures, arrival) = managed()?;
    figures.print("managed, 1 to 2 nodes each");
    let _ = MANAGED.set((figures, arrival));
    Ok(())
}

/// Least gain in use of the machine by a manager: three times the variation between runs.
const LEAST_GAIN: f64 = 0.03;
/// Seconds by which looks and graces may be late on a busy machine.
const SLACK: u64 = 5;

fn compared() -> Result<()> {
    // Run alone, this test makes its own figures.
    if MANAGED.get().is_none() {
        given_back()?;
    }
    let (managed, arrival) = MANAGED.get().context("no figures")?;
    let narrow = unchanged("narrow", &[[0], [1]], *arrival)?;
    narrow.print("static, 1 node each");
    let wide = unchanged("wide", &[[0, 2], [1, 3]], *arrival)?;
    wide.print("static, 2 nodes each");
    ensure!(managed.used > narrow.used + LEAST_GAIN, "{managed:?} {narrow:?}");
    ensure!(managed.makespan < narrow.makespan + SLACK, "{managed:?} {narrow:?}");
    ensure!(managed.wait_of_rigid < wide.wait_of_rigid, "{managed:?} {wide:?}");
    Ok(())
}

/// Lets two jobs grow and give nodes back for a rigid job. Also returns the time from their start
/// to the rigid job's arrival.
fn managed() -> Result<(Figures, Duration)> {
    let bed = Bed::up("managed")?;
    bed.elastic("a", &[0], units()?)?;
    bed.elastic("b", &[1], units()?)?;
    let ready = Instant::now();
    let manager = bed.manager(&[])?;
    let asked = |times| {
        move |bed: &Bed| bed.read("manager").matches("grows from 1 to 2 nodes").count() >= times
    };
    bed.until("both are asked to grow", || Ok(asked(2)(&bed)))?;
    // The next manager takes over the resizes under way.
    manager.kill()?;
    let manager = bed.manager(&[])?;
    bed.until("both have grown", || Ok(bed.size("a", 4)? && bed.size("b", 4)?))?;
    ensure!(!asked(3)(&bed), "{}", bed.report());
    let arrival = ready.elapsed();
    bed.rigid(2)?;
    bed.until("the rigid job runs", || bed.runs("rigid"))?;
    let left = bed.jobs()?;
    ensure!(left.len() == 3, "nodes are still held for worlds: {left:?}\n{}", bed.report());
    bed.until("all jobs have ended", || Ok(bed.jobs()?.is_empty()))?;
    let lines = || bed.read("record").lines().filter(|line| line.contains("\"ended\"")).count();
    bed.until("the ends are recorded", || Ok(lines() == 3))?;
    manager.kill()?;
    drawn(&bed)?;
    for job in ["a", "b"] {
        let events = bed.read(&format!("{job}/events"));
        ensure!(events.contains("\"why\":\"shrinks from 2 to 1 nodes"), "{}", bed.report());
        ensure!(events.contains("lacks 2"), "{}", bed.report());
    }
    Ok((bed.finish()?, arrival))
}

/// Jobs have grown onto two nodes; one node drains, and the other has a maintenance ahead: both are
/// given back.
fn left_alone() -> Result<()> {
    let bed = Bed::up("drains")?;
    bed.elastic("a", &[0], 2 * units()?)?;
    bed.elastic("b", &[1], 2 * units()?)?;
    let manager = bed.manager(&[])?;
    // Returns the nodes that the holder jobs hold.
    let held = || -> Result<Vec<String>> {
        let jobs = bed.squeue("%T|%j|%N")?;
        let holders = jobs.lines().filter_map(|line| line.strip_prefix("RUNNING|quo-elastic-"));
        Ok(holders.filter_map(|line| Some(line.split_once('|')?.1.to_owned())).collect())
    };
    let control = |words: &[&str]| -> Result<()> {
        let output = bed.slurm.command("scontrol").args(words).output()?;
        ensure!(output.status.success(), "{words:?}: {output:?}");
        Ok(())
    };
    bed.until("both have grown", || {
        Ok(bed.size("a", 4)? && bed.size("b", 4)? && held()?.len() == 2)
    })?;
    let nodes = held()?;
    let [first, second] = nodes.as_slice() else { anyhow::bail!("{nodes:?}") };
    let (name, reserved) = (format!("nodename={first}"), format!("nodes={second}"));
    control(&["update", &name, "state=drain", "reason=test"])?;
    control(&[
        "create",
        "reservation",
        "reservationname=disks",
        "starttime=now+10minutes",
        "duration=60",
        "users=root",
        "flags=maint,ignore_jobs",
        &reserved,
    ])?;
    for words in [
        format!("leaves {first}, which drains"),
        format!("leaves {second}, which is in the maintenance disks"),
    ] {
        bed.until(&words, || Ok(bed.read("manager").contains(&words)))?;
    }
    bed.until("Slurm has both nodes back", || Ok(held()?.is_empty()))?;
    manager.kill()?;
    control(&["delete", "reservationname=disks"])?;
    control(&["update", &name, "state=resume"])?;
    bed.until("all jobs have ended", || Ok(bed.jobs()?.is_empty()))?;
    bed.slurm.down()
}

/// A job that waits at one look and has ended by the next is recorded as having run.
fn between_looks() -> Result<()> {
    let bed = Bed::up("looks")?;
    let submit = |name: &str, nodes: usize, program: &str| {
        let mut command = bed.slurm.command("sbatch");
        command.args(["--exclusive", "--time=10", "--output=/dev/null"]);
        command.arg(format!("--job-name={name}")).arg(format!("--nodes={nodes}"));
        let submitted = command.arg(format!("--wrap={program}")).output()?;
        ensure!(submitted.status.success(), "{submitted:?}");
        anyhow::Ok(())
    };
    let look = || {
        let mut command = bed.slurm.command(Checkout::find()?.program("quo-elastic")?);
        command.args(["manage", "--slurm", "--once", "--record"]).arg(bed.file("record"));
        let output = command.env("QUO_ELASTIC_DIR", SOCKETS).output()?;
        ensure!(output.status.success(), "{output:?}");
        anyhow::Ok(())
    };
    submit("first", NODES, "sleep 600")?;
    bed.until("the first job runs", || bed.runs("first"))?;
    submit("second", 1, "true")?;
    submit("never", 1, "true")?;
    // Slurm gives the reason of the wait after it has considered the job.
    let waits = |reason: &str| matches!(reason, "Resources" | "Priority");
    bed.until("both wait for nodes", || {
        Ok(bed.squeue("%r")?.lines().filter(|it| waits(it)).count() == 2)
    })?;
    look()?;
    for name in ["never", "first"] {
        let output = bed.slurm.command("scancel").arg(format!("--name={name}")).output()?;
        ensure!(output.status.success(), "{output:?}");
    }
    bed.until("all jobs have ended", || Ok(bed.jobs()?.is_empty()))?;
    look()?;
    let record = bed.read("record");
    let summary = &simulated(&bed, &[])?["policies"][0][0];
    let told = (&summary["jobs"], &summary["all"]["jobs"], &summary["rejected"]);
    ensure!(told == (&3.into(), &2.into(), &1.into()), "{summary}\n{record}");
    // The record has each job once: a third look adds nothing.
    look()?;
    ensure!(bed.read("record") == record, "{record}\n{}", bed.read("record"));
    bed.slurm.down()
}

/// Runs `simulate` on the record.
fn simulated(bed: &Bed, words: &[&OsStr]) -> Result<serde_json::Value> {
    let mut command = std::process::Command::new(Checkout::find()?.program("quo-elastic")?);
    command.arg("--json").arg("simulate").arg(bed.file("record")).args(words);
    let output = command.output()?;
    ensure!(output.status.success(), "{output:?}");
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Draws the record of both managers, and keeps the picture.
fn drawn(bed: &Bed) -> Result<()> {
    let checkout = Checkout::find()?;
    let folder = checkout.build_folder().join("tmp");
    fs::create_dir_all(&folder)?;
    let picture = folder.join("managed.svg");
    let report = simulated(bed, &["--svg".as_ref(), picture.as_os_str()])?;
    let all = &report["policies"][0][0]["all"];
    // Two growths and two shrinkages.
    ensure!(all["jobs"] == 3 && all["resizes"] == 4, "{report}\n{}", bed.read("record"));
    println!("{report}");
    let picture = fs::read_to_string(&picture)?;
    ensure!(picture.contains("class=\"n\"><title>a: Malleable"), "{picture}");
    Ok(())
}

/// Runs the same jobs without resizes.
fn unchanged<const COUNT: usize>(
    purpose: &str,
    hosts: &[[usize; COUNT]; 2],
    arrival: Duration,
) -> Result<Figures> {
    let bed = Bed::up(purpose)?;
    bed.elastic("a", &hosts[0], units()?)?;
    bed.elastic("b", &hosts[1], units()?)?;
    // Sleeps: the rigid job arrives when it did before.
    std::thread::sleep(arrival);
    bed.rigid(2)?;
    bed.finish()
}

/// Refuses a shrink from two nodes to one, on which each rank would have half a PiB.
fn too_large() -> Result<()> {
    let bed = Bed::up("large")?;
    bed.elastic_with("a", &[0], 1_000_000, &[("ELASTIC_BYTES", "1125899906842624")])?;
    let manager = bed.manager(&["--memory"])?;
    bed.until("the job has grown", || bed.size("a", 4))?;
    bed.rigid(3)?;
    let refused =
        "does not fit on node host0: 2 ranks with 256.0 TiB of old and 512.0 TiB of new data each";
    bed.until("the shrink is refused", || Ok(bed.read("manager").contains(refused)))?;
    bed.until("the rigid job waits", || {
        Ok(bed.jobs()?.iter().any(|(state, job)| state == "PENDING" && job == "rigid"))
    })?;
    let says = bed.read("manager");
    ensure!(!says.contains("shrinks from"), "{}", bed.report());
    fs::write(bed.file("a/stop"), "")?;
    bed.until("the rigid job has its nodes", || bed.runs("rigid"))?;
    manager.kill()?;
    bed.until("all jobs have ended", || Ok(bed.jobs()?.is_empty()))?;
    bed.slurm.down()
}

fn controller_away() -> Result<()> {
    let bed = Bed::up("away")?;
    bed.elastic("a", &[0], 1_000_000)?;
    let found = bed.slurm.hosts().leftovers();
    let start = format!("{}: process ", bed.slurm.hosts().front().name());
    let number = found.iter().find_map(|line| {
        let (number, command) = line.strip_prefix(&start)?.split_once(": ")?;
        command.starts_with("slurmctld").then(|| number.parse().ok())?
    });
    let controller =
        number.and_then(Pid::from_raw).with_context(|| format!("no controller: {found:?}"))?;
    kill_process(controller, Signal::STOP)?;
    let manager = bed.manager(&[]);
    let told =
        bed.until("the manager misses it", || Ok(bed.read("manager").contains(": tries again")));
    kill_process(controller, Signal::CONT)?;
    told?;
    bed.until("the job has grown", || bed.size("a", 4))?;
    ensure!(bed.read("manager").contains("all is well again"), "{}", bed.report());
    manager?.kill()?;
    fs::write(bed.file("a/stop"), "")?;
    bed.until("the job has ended", || Ok(bed.jobs()?.is_empty()))?;
    bed.slurm.down()
}
