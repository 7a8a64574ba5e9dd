//! Elastic jobs in a real Slurm: nodes are added by a second job and given back in place, and
//! neither job leaves anything behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use quo_hosts::slurm::{Options, Slurm, why_not};
use quo_hosts::suite::Test;
use quo_hosts::{Hosts, suite};
use quo_tests::{Checkout, Family, Launcher, fortran_support};
use rustix::process::{Pid, Signal, kill_process};

const TESTS: &[Test] = &[
    ("job_grows_onto_a_second_jobs_node_and_returns_it", grows_and_shrinks),
    ("c_and_fortran_programs_grow_onto_a_second_jobs_node", languages),
    ("jobs_own_node_goes_back_in_place_and_it_continues", shrinks_in_place),
    ("growth_refused_by_slurm_leaves_the_job_unchanged", refused),
    ("job_ends_with_ranks_on_a_second_jobs_node", ends_grown),
    ("a_job_that_dies_leaves_no_job_behind", dies),
    ("unchanged_program_under_launch_slurm_gains_and_returns_a_node", launched),
    ("new_node_for_ranks_apart_from_mpirun_is_refused", apart),
];

/// Tests with MPICH, whose launcher keeps running while nodes are added and given back.
const CYCLES: &[Test] = &[
    ("twenty_nodes_come_and_go_in_one_job", twenty_cycles),
    ("unchanged_program_under_launch_slurm_gains_and_returns_a_node", launched),
];

/// Limit for anything that a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

fn main() -> ExitCode {
    let (tests, obstacle) = match Launcher::find().map(|launcher| launcher.family()) {
        Ok(Family::OpenMpi4) => (TESTS, None),
        Ok(Family::Mpich) => (CYCLES, None),
        // The guide covers no other launcher.
        Ok(other) => (TESTS, Some(format!("{other:?} is not known to go on without a node"))),
        Err(error) => (TESTS, Some(format!("{error:#}"))),
    };
    suite::run_within(Duration::from_secs(600), tests, why_not().or(obstacle))
}

/// A job with one rank on the first node.
struct Elastic<'a> {
    slurm: &'a Slurm,
    folder: tempfile::TempDir,
    number: String,
    /// Its name for `quo-elastic`.
    name: String,
}

impl<'a> Elastic<'a> {
    /// Starts the example `controlled`.
    fn start(slurm: &'a Slurm, nodes: usize, minutes: u32) -> Result<Elastic<'a>> {
        let program = Checkout::find()?.program("examples/controlled")?;
        Self::start_program(slurm, &format!("{} test 1", program.display()), "", nodes, minutes)
    }

    /// Starts a program, with words before and after the folder.
    fn start_program(
        slurm: &'a Slurm,
        program: &str,
        more: &str,
        nodes: usize,
        minutes: u32,
    ) -> Result<Elastic<'a>> {
        slurm.free()?;
        let checkout = Checkout::find()?;
        let folder = tempfile::tempdir()?;
        let own = |index: usize| slurm.hosts().host(index).name().to_owned();
        // mpirun knows its own node by its host name, and the others by their Slurm names.
        let others = (1..nodes).map(|index| format!(",{}:1", slurm.node(index)));
        let hosts = format!("{}:1{}", own(0), others.collect::<String>());
        let agent = checkout.program("quo-elastic")?;
        let launcher = Launcher::find()?;
        let words = match launcher.family() {
            Family::Mpich => format!("-launcher rsh -launcher-exec {} -n 1", agent.display()),
            _ => format!(
                "--enable-recovery --mca routed direct --bind-to none --mca ras ^slurm --host {hosts} \
                 --mca plm rsh --mca plm_rsh_agent '{} slurm-agent' -np 1",
                agent.display()
            ),
        };
        let folder_name = folder.path().display();
        let script = format!(
            "export PMIX_MCA_gds=hash HYDRA_LAUNCHER_EXTRA_ARGS=slurm-agent\n\
             exec {launcher} {words} {program} {folder_name} {more}",
            launcher = launcher.program().display(),
        );
        let options = [format!("--nodes={nodes}"), format!("--time={minutes}")];
        Self::submit(slurm, folder, &script, Some("test"), &options)
    }

    /// Starts a program by `quo-elastic launch` on one node, which is also the launcher's own one.
    fn launch(slurm: &'a Slurm, program: &Path, is_own: bool) -> Result<Elastic<'a>> {
        slurm.free()?;
        let folder = tempfile::tempdir()?;
        let launcher = Launcher::find()?;
        let launch = format!(
            "{command} launch --mpirun {mpirun} -n 1..4 --slurm --log {folder}/events -- {program} {folder}/stop",
            command = Checkout::find()?.program("quo-elastic")?.display(),
            mpirun = launcher.program().display(),
            folder = folder.path().display(),
            program = program.display(),
        );
        // Nodes have other names than their hosts here, and Open MPI knows its own one by the host's.
        let script = match launcher.family() {
            Family::OpenMpi4 if is_own => format!(
                "exec unshare --uts sh -c 'hostname $SLURMD_NODENAME && exec \"$@\"' sh {launch}"
            ),
            _ => format!("exec {launch}"),
        };
        let options = ["--nodes=1", "--time=30"].map(str::to_owned);
        Self::submit(slurm, folder, &script, None, &options)
    }

    /// Submits a script, and waits until its program is ready. Without a name the job has its number
    /// in Slurm.
    fn submit(
        slurm: &'a Slurm,
        folder: tempfile::TempDir,
        script: &str,
        name: Option<&str>,
        options: &[String],
    ) -> Result<Elastic<'a>> {
        let script = format!("#!/bin/sh\ncd {}\n{script}\n", folder.path().display());
        let file = folder.path().join("script");
        fs::write(&file, script)?;
        let mut command = slurm.command("sbatch");
        for (name, value) in [
            ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
            ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
            ("OMPI_MCA_btl_vader_single_copy_mechanism", "none"),
            ("OMPI_MCA_oob_tcp_if_include", quo_hosts::SUBNET),
            ("OMPI_MCA_btl_tcp_if_include", quo_hosts::SUBNET),
            ("ELASTIC_MOST", "4"),
        ] {
            command.env(name, value);
        }
        command.env("QUO_ELASTIC_DIR", folder.path().join("sockets")).env_remove("QUO_TOPOLOGY");
        command.arg("--parsable").arg(format!("--nodelist={}", slurm.node(0))).args(options);
        command.arg("--output").arg(folder.path().join("output")).arg(&file);
        let submitted = command.output()?;
        ensure!(submitted.status.success(), "{submitted:?}");
        let number = String::from_utf8(submitted.stdout)?.trim().to_owned();
        let name = name.map_or(number.clone(), str::to_owned);
        let job = Elastic { slurm, folder, number, name };
        job.until("it is ready", || Ok(job.output().contains("ready\n")))?;
        Ok(job)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn output(&self) -> String {
        fs::read_to_string(self.file("output")).unwrap_or_default()
    }

    /// Runs the command and returns its output and its exit status.
    fn tell(&self, words: &[&str]) -> Result<(i32, String)> {
        let mut command = std::process::Command::new(Checkout::find()?.program("quo-elastic")?);
        command.arg(words[0]).arg(&self.name).args(&words[1..]);
        let output = command.env("QUO_ELASTIC_DIR", self.file("sockets")).output()?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        Ok((output.status.code().with_context(|| said.clone())?, said))
    }

    fn told(&self, words: &[&str], status: i32) -> Result<String> {
        let (found, said) = self.tell(words)?;
        ensure!(found == status, "{words:?}: {found}: {said}\n{}", self.report());
        Ok(said)
    }

    /// Waits for a condition that has no notification.
    fn until(&self, what: &str, is_so: impl Fn() -> Result<bool>) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while !is_so()? {
            ensure!(Instant::now() < end, "not within a minute: {what}\n{}", self.report());
            // Sleeps: Slurm does not announce changes of jobs and nodes.
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn report(&self) -> String {
        let events = fs::read_to_string(self.file("events")).unwrap_or_default();
        format!("jobs: {:?}\n{}\n{events}", jobs(self.slurm), self.output())
    }

    /// Lets the job end, and checks that nothing is left of it.
    fn stop(self) -> Result<()> {
        fs::write(self.file("stop"), "")?;
        self.until("it has ended", || Ok(jobs(self.slurm)?.is_empty()))?;
        self.left_clean("COMPLETED")
    }

    /// Checks that every job has ended with its line in the accounts, and that nothing is left on
    /// the hosts.
    fn left_clean(&self, state: &str) -> Result<()> {
        let left = self.slurm.leftovers()?;
        ensure!(left.is_empty(), "left on the hosts: {left:?}\n{}", self.report());
        let accounts = self.slurm.accounts();
        // A job that became smaller has a line for each of its sizes.
        let is_own = |line: &&String| is_of(line, &self.number) && !line.contains("=RESIZING ");
        let own: Vec<&String> = accounts.iter().filter(is_own).collect();
        ensure!(own.len() == 1 && own[0].contains(&format!("JobState={state} ")), "{accounts:?}");
        let holders = format!("Name=quo-elastic-{}-", self.number);
        for line in accounts.iter().filter(|line| line.contains(&holders)) {
            let is_over =
                line.contains("JobState=CANCELLED ") || line.contains("JobState=COMPLETED ");
            ensure!(is_over, "{line}");
        }
        let folder = fs::read_dir(self.folder.path())?.flatten();
        let names: Vec<_> = folder.map(|entry| entry.file_name()).collect();
        let is_script = |name: &std::ffi::OsString| name.to_string_lossy().contains("resize");
        ensure!(!names.iter().any(is_script), "Slurm's scripts are left: {names:?}");
        Ok(())
    }
}

fn is_of(line: &str, number: &str) -> bool {
    line.split_ascii_whitespace().any(|word| word.strip_prefix("JobId=") == Some(number))
}

/// Returns number, name and nodes of all current jobs.
fn jobs(slurm: &Slurm) -> Result<Vec<(String, String, String)>> {
    let output = slurm.command("squeue").args(["--noheader", "--format=%A|%j|%N"]).output()?;
    ensure!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout)?;
    text.lines()
        .map(|line| {
            let mut words = line.split('|').map(str::to_owned);
            let mut word = || words.next().context("squeue");
            Ok((word()?, word()?, word()?))
        })
        .collect()
}

fn slurm(purpose: &str) -> Result<Slurm> {
    Slurm::up(Hosts::up(&suite::set(purpose), 3)?, Options::default())
}

/// Returns the processes of jobs on a host.
fn busy(slurm: &Slurm, index: usize) -> Vec<String> {
    let start = format!("{}: process ", slurm.hosts().host(index).name());
    let is_of_a_job = |line: &String| line.contains("controlled") || line.contains("orted");
    slurm
        .hosts()
        .leftovers()
        .into_iter()
        .filter(|line| line.starts_with(&start) && is_of_a_job(line))
        .collect()
}

fn languages() -> Result<()> {
    let (checkout, folder) = (Checkout::find()?, tempfile::tempdir()?);
    let source = "bindings-c/tests/elastic/controlled.c";
    let mut programs = vec![checkout.compile_c(source, folder.path(), &[])?];
    if fortran_support().is_ok() {
        let source = "tests/programs/elastic_controlled.F90";
        programs.push(checkout.compile_fortran(source, folder.path(), &[])?);
    }
    let slurm = slurm("languages")?;
    for program in programs {
        let program = format!("{} test 1", program.display());
        let job = Elastic::start_program(&slurm, &program, "4", 1, 30)?;
        job.told(&["grow", "2", "--nodes", "1", "--wait"], 0)?;
        let all = jobs(&slurm)?;
        ensure!(all.len() == 2, "{all:?}");
        ensure!(job.told(&["status"], 0)?.contains("3 of "), "{}", job.report());
        job.told(&["shrink", "2", "--wait"], 0)?;
        job.until("the second job has ended", || Ok(jobs(&slurm)?.len() == 1))?;
        job.stop()?;
    }
    slurm.down()
}

/// Compiles a program that leaves its sizes, its name and Slurm to the launch.
fn left_open(folder: &tempfile::TempDir) -> Result<PathBuf> {
    Checkout::find()?.compile_c("tests/programs/elastic_left_open.c", folder.path(), &[])
}

fn launched() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = left_open(&folder)?;
    let slurm = slurm("launched")?;
    let job = Elastic::launch(&slurm, &program, true)?;
    job.told(&["grow", "2", "--nodes", "1", "--wait"], 0)?;
    let all = jobs(&slurm)?;
    ensure!(all.len() == 2, "{all:?}");
    let status = job.told(&["status"], 0)?;
    ensure!(status.contains(": 3 of ") && status.contains("sizes: 1 to 4"), "{status}");
    if Launcher::find()?.family() == Family::OpenMpi4 {
        // The launcher would start nothing any more if it was asked for a fourth slot.
        let (_, _, node) =
            all.iter().find(|(number, ..)| *number != job.number).context("a job")?;
        let said = job.told(&["grow", "1", "--on", node, "--wait"], 3)?;
        ensure!(said.contains("0 are free on the named hosts"), "{said}");
    }
    job.told(&["shrink", "2", "--wait"], 0)?;
    job.until("the node is back", || Ok(jobs(&slurm)?.len() == 1))?;
    ensure!(job.told(&["status"], 0)?.contains(": 1 of "), "{}", job.report());
    job.stop()?;
    slurm.down()
}

fn apart() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = left_open(&folder)?;
    let slurm = slurm("apart")?;
    let job = Elastic::launch(&slurm, &program, false)?;
    let said = job.told(&["grow", "1", "--nodes", "1", "--wait"], 3)?;
    ensure!(said.contains("start mpirun on the node of rank 0"), "{said}");
    ensure!(jobs(&slurm)?.len() == 1, "{}", job.report());
    job.stop()?;
    slurm.down()
}

fn grows_and_shrinks() -> Result<()> {
    let slurm = slurm("grow")?;
    let job = Elastic::start(&slurm, 1, 30)?;
    job.told(&["grow", "2", "--nodes", "1", "--wait"], 0)?;
    let all = jobs(&slurm)?;
    ensure!(all.len() == 2, "{all:?}");
    let (_, name, node) =
        all.iter().find(|(number, ..)| *number != job.number).context("no job")?;
    ensure!(name.starts_with(&format!("quo-elastic-{}-", job.number)), "{name}");
    ensure!(*node == slurm.node(1) || *node == slurm.node(2), "{node}");
    let host = if *node == slurm.node(1) { 1 } else { 2 };
    ensure!(busy(&slurm, host).len() >= 3, "{:?}", busy(&slurm, host));
    let status = job.told(&["status"], 0)?;
    ensure!(
        status.contains("3 of ") && status.contains(slurm.hosts().host(host).name()),
        "{status}"
    );
    job.told(&["shrink", "2", "--wait"], 0)?;
    job.until(
        "the node is free",
        || Ok(jobs(&slurm)?.len() == 1 && busy(&slurm, host).is_empty()),
    )?;
    ensure!(job.told(&["status"], 0)?.starts_with("test: 1 of "));
    job.stop()?;
    ensure!(jobs(&slurm)?.is_empty(), "jobs are left");
    ensure!(slurm.accounts().len() == 2, "{:?}", slurm.accounts());
    slurm.down()
}

/// Grows onto a new node twenty times, and gives the node back each time.
fn twenty_cycles() -> Result<()> {
    let slurm = slurm("cycles")?;
    let job = Elastic::start(&slurm, 1, 60)?;
    for cycle in 1..=20 {
        job.told(&["grow", "2", "--nodes", "1", "--wait"], 0)?;
        let all = jobs(&slurm)?;
        ensure!(all.len() == 2, "cycle {cycle}: {all:?}");
        let status = job.told(&["status"], 0)?;
        ensure!(status.starts_with("test: 3 of "), "cycle {cycle}: {status}");
        job.told(&["shrink", "2", "--wait"], 0)?;
        job.until("the node is back", || Ok(jobs(&slurm)?.len() == 1))?;
    }
    let status = job.told(&["status"], 0)?;
    ensure!(status.starts_with("test: 1 of ") && status.contains("epoch 40"), "{status}");
    job.stop()?;
    ensure!(slurm.accounts().len() == 21, "{:?}", slurm.accounts());
    slurm.down()
}

fn shrinks_in_place() -> Result<()> {
    let slurm = slurm("shrink")?;
    let job = Elastic::start(&slurm, 2, 30)?;
    job.told(&["grow", "1", "--wait"], 0)?;
    ensure!(!busy(&slurm, 1).is_empty(), "{}", job.report());
    job.told(&["shrink", "1", "--wait"], 0)?;
    let is_back = || {
        let all = jobs(&slurm)?;
        let is_smaller = all.len() == 1 && all[0].2 == slurm.node(0);
        Ok(is_smaller && busy(&slurm, 1).is_empty())
    };
    job.until("the node has gone back", is_back)?;
    // The job continues with what it has. Open MPI's launcher would end it over a new node.
    let said = job.told(&["grow", "1", "--nodes", "1", "--wait"], 3)?;
    ensure!(said.contains("have always been there"), "{said}");
    ensure!(job.told(&["status"], 0)?.starts_with("test: 1 of "));
    job.stop()?;
    slurm.down()
}

fn ends_grown() -> Result<()> {
    let slurm = slurm("ends")?;
    let job = Elastic::start(&slurm, 1, 30)?;
    job.told(&["grow", "2", "--nodes", "1", "--wait"], 0)?;
    job.stop()?;
    slurm.down()
}

fn refused() -> Result<()> {
    let slurm = slurm("refused")?;
    let job = Elastic::start(&slurm, 1, 30)?;
    // More than the launcher takes; a partition that takes no jobs; and no answer at all.
    let said = job.told(&["grow", "1", "--nodes", "2", "--wait"], 3)?;
    ensure!(said.contains("takes one new node"), "{said}");
    partition(&slurm, "INACTIVE")?;
    let said = job.told(&["grow", "1", "--nodes", "1", "--wait"], 4)?;
    partition(&slurm, "UP")?;
    ensure!(said.contains("sbatch --parsable") && said.contains("exit status: 1"), "{said}");
    let controller = slurm.hosts().leftovers();
    let controller = controller_process(&slurm, &controller)?;
    kill_process(controller, Signal::STOP)?;
    let silent = job.tell(&["grow", "1", "--nodes", "1", "--wait"]);
    kill_process(controller, Signal::CONT)?;
    let (status, said) = silent?;
    ensure!(
        status == 4 && said.contains("squeue ") && said.contains("no answer within 3 s"),
        "{said}"
    );
    job.until("no other job is there", || Ok(jobs(&slurm)?.len() == 1))?;
    ensure!(job.told(&["status"], 0)?.starts_with("test: 1 of "));
    job.stop()?;
    // A job that ends soon may not grow onto new nodes.
    let job = Elastic::start(&slurm, 1, 1)?;
    let known = || Ok(fs::read_to_string(job.file("events"))?.contains("ends in "));
    job.until("the end of the job is noted", known)?;
    let said = job.told(&["grow", "1", "--nodes", "1", "--wait"], 3)?;
    ensure!(said.contains("needs at least 120 s"), "{said}");
    ensure!(jobs(&slurm)?.len() == 1);
    job.stop()?;
    slurm.down()
}

/// Sets whether the partition of all nodes takes jobs.
fn partition(slurm: &Slurm, state: &str) -> Result<()> {
    let state = format!("State={state}");
    let done = slurm.command("scontrol").args(["update", "PartitionName=all", &state]).status()?;
    ensure!(done.success(), "scontrol: {done}");
    Ok(())
}

/// Returns the controller, which runs outside all hosts' processes.
fn controller_process(slurm: &Slurm, found: &[String]) -> Result<Pid> {
    let start = format!("{}: process ", slurm.hosts().front().name());
    let number = found.iter().find_map(|line| {
        let (number, command) = line.strip_prefix(&start)?.split_once(": ")?;
        command.starts_with("slurmctld").then(|| number.parse().ok())?
    });
    number.and_then(Pid::from_raw).with_context(|| format!("no controller: {found:?}"))
}

fn dies() -> Result<()> {
    let slurm = slurm("dies")?;
    let job = Elastic::start(&slurm, 1, 30)?;
    job.told(&["grow", "1", "--nodes", "1", "--wait"], 0)?;
    ensure!(jobs(&slurm)?.len() == 2, "{}", job.report());
    let ranks = busy(&slurm, 0);
    let rank = ranks
        .iter()
        .find(|line| line.contains("examples/controlled test") && !line.contains("mpirun"));
    let number =
        rank.and_then(|line| line.split(": ").nth(1)?.strip_prefix("process ")?.parse().ok());
    let Some(rank) = number.and_then(Pid::from_raw) else { bail!("no rank 0: {ranks:?}") };
    kill_process(rank, Signal::KILL)?;
    let is_alone = || Ok(jobs(&slurm)?.iter().all(|(number, ..)| *number == job.number));
    job.until("the second job is gone", is_alone)?;
    all_killed(&job)?;
    // The whole job is killed, including its watcher.
    let job = Elastic::start(&slurm, 1, 30)?;
    job.told(&["grow", "1", "--nodes", "1", "--wait"], 0)?;
    all_killed(&job)?;
    slurm.down()
}

/// Kills a job at once, and waits until none of its processes runs. (Killed launchers leave files
/// behind.)
fn all_killed(job: &Elastic) -> Result<()> {
    let slurm = job.slurm;
    // A busy slurmctld does not always answer at once.
    let kill = || {
        let mut scancel = slurm.command("scancel");
        Ok(scancel.args(["--full", "--signal=KILL", &job.number]).status()?.success())
    };
    job.until("scancel kills the job", kill)?;
    job.until("all jobs have ended", || Ok(jobs(slurm)?.is_empty()))?;
    job.until("no process is left", || Ok((0..3).all(|host| busy(slurm, host).is_empty())))
}
