//! `quo-elastic launch --restarts`: a host is lost, and the job continues from its last checkpoint on
//! the hosts that are left.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quo_hosts::{Hosts, SUBNET, suite};
use quo_tests::{BindTo, Checkout, Launcher, Network, Outcome, Running};

use support::program;

/// The launcher may see that a host is gone only after a minute.
const LIMIT: Duration = Duration::from_secs(240);

/// A job of two to three ranks over hosts with one slot each.
struct Launched<'a> {
    hosts: &'a Hosts,
    folder: tempfile::TempDir,
}

impl<'a> Launched<'a> {
    fn new(hosts: &'a Hosts) -> Result<Self> {
        Ok(Self { hosts, folder: tempfile::tempdir()? })
    }

    /// Writes a launcher that reaches the hosts of the set.
    fn mpirun(&self, launcher: &Launcher) -> Result<PathBuf> {
        let network = Network {
            hosts: Vec::new(),
            remote_shell: "/run/remote-shell".to_owned(),
            subnet: SUBNET.to_owned(),
            front: self.hosts.front().address().to_owned(),
        };
        let words = launcher.words_to_reach(&network);
        let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let mpirun = launcher.program().display().to_string();
        let text = format!(
            "#!/bin/sh\n[ \"$1\" = --version ] && exec {mpirun} --version\nexec {mpirun} {} \"$@\"\n",
            words.join(" ")
        );
        let file = self.folder.path().join("mpirun");
        fs::write(&file, text)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
        Ok(file)
    }

    fn start(&self, options: &[&str]) -> Result<Running> {
        let launcher = Launcher::find()?;
        let slots = (0..self.hosts.len()).map(|at| format!("{}:1", self.hosts.host(at).address()));
        let slots = slots.collect::<Vec<_>>().join(",");
        let quo_elastic = Checkout::find()?.program("quo-elastic")?;
        let mut command: Command = self.hosts.front().command(quo_elastic);
        let envs = launcher.command(2, BindTo::None);
        command.envs(envs.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.arg("launch").args(options).arg("--hosts").arg(slots);
        command.arg("--mpirun").arg(self.mpirun(&launcher)?).arg("--");
        command.arg(program("tests/programs/restarted.c")?).arg(self.folder.path().join("saved"));
        command.env_remove("QUO_TOPOLOGY").stdin(Stdio::null());
        let text = format!("{command:?}");
        Running::start(&mut command, &text, LIMIT)
    }
}

/// Returns the number of the step after which the last run began.
fn begun_after(outcome: &Outcome) -> Result<u32> {
    let line = outcome.stdout.lines().rfind(|line| line.starts_with("begins after step "));
    let word = line.and_then(|line| line.split(' ').nth(3));
    word.and_then(|word| word.parse().ok()).with_context(|| outcome.report())
}

fn job_continues_from_its_checkpoint_without_the_lost_host() -> Result<()> {
    continues_without("restart", |hosts| hosts.kill(1))
}

/// The launcher does not notice that a host is silent.
fn job_continues_from_its_checkpoint_without_a_silent_host() -> Result<()> {
    continues_without("silent", |hosts| hosts.cut(1))
}

/// Loses the second of three hosts in this way.
fn continues_without(purpose: &str, lose: impl Fn(&Hosts) -> Result<()>) -> Result<()> {
    let hosts = Hosts::up(&suite::set(purpose), 3)?;
    let job = Launched::new(&hosts)?;
    let running = job.start(&["-n", "2..3", "--parked", "--restarts", "1"])?;
    running.wait_for("step 10\n", 1)?;
    lose(&hosts)?;
    let outcome = running.finish()?;
    // No signal reaches the ranks of a silent host.
    ensure!(outcome.status.success() && !outcome.out_of_time, "{}", outcome.report());
    ensure!(begun_after(&outcome)? >= 10, "{}", outcome.report());
    ensure!(outcome.stdout.ends_with("ends with 100000 on 2 ranks\n"), "{}", outcome.report());
    let lost = format!("host {} does not answer; restart 1 of 1", hosts.host(1).address());
    ensure!(outcome.stderr.contains(&lost), "{}", outcome.report());
    hosts.down()
}

fn too_few_hosts_left_end_the_job_with_the_numbers() -> Result<()> {
    let hosts = Hosts::up(&suite::set("toofew"), 2)?;
    let job = Launched::new(&hosts)?;
    let running = job.start(&["-n", "2..2", "--restarts", "3"])?;
    running.wait_for("step 3\n", 1)?;
    hosts.kill(1)?;
    let outcome = running.finish()?;
    ensure!(!outcome.out_of_time && !outcome.status.success(), "{}", outcome.report());
    let text = "does not answer; 2 ranks are needed, slots that are left: 1";
    ensure!(outcome.stderr.contains(text), "{}", outcome.report());
    hosts.down()
}

quo_tests::suite! {
    by |tests| quo_hosts::suite::run(tests, None);
    job_continues_from_its_checkpoint_without_the_lost_host
    job_continues_from_its_checkpoint_without_a_silent_host
    too_few_hosts_left_end_the_job_with_the_numbers
}
