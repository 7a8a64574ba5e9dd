//! `quo-elastic manage --pool` over hosts: an elastic job starts on one host, grows onto the other
//! and gives it back.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use quo_hosts::Hosts;
use quo_hosts::suite::{self, Test};
use quo_tests::{Checkout, Family, Launcher, ends_within};
use rustix::process::Pid;

const TESTS: &[Test] = &[("elastic_job_grows_onto_another_host_and_gives_it_back", grows)];

const PATIENCE: Duration = Duration::from_secs(60);
/// Folder of the control sockets; each host has its own.
const SOCKETS: &str = "/run/quo-elastic-test";

fn main() -> ExitCode {
    let obstacle = match Launcher::find() {
        Ok(launcher) if launcher.family() == Family::OpenMpi4 => None,
        Ok(launcher) => Some(format!(
            "over hosts queues are launched by Open MPI 4, not {:?}",
            launcher.family()
        )),
        Err(error) => Some(format!("{error:#}")),
    };
    suite::run(TESTS, obstacle)
}

struct Pool {
    folder: tempfile::TempDir,
}

impl Pool {
    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    /// Appends a rigid job of two ranks, which ends when there is a file `NAME-ends`.
    fn rigid(&self, name: &str) -> Result<()> {
        let end = self.file(&format!("{name}-ends"));
        let script = format!("while [ ! -e {} ]; do sleep 0.05; done", end.display());
        self.append(&format!(
            "name = {name:?}\ncommand = [\"sh\", \"-c\", {script:?}]\nranks = 2\n"
        ))
    }

    fn append(&self, entry: &str) -> Result<()> {
        let text = self.read("queue");
        fs::write(self.file("new"), format!("{text}\n[[job]]\n{entry}"))?;
        Ok(fs::rename(self.file("new"), self.file("queue"))?)
    }

    fn until(&self, what: &str, is_so: impl Fn() -> bool) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while !is_so() {
            let logs = ["out", "queue.run/decisions", "queue.run/a/log", "events/events"];
            let logs: Vec<String> =
                logs.iter().map(|name| format!("--- {name}\n{}", self.read(name))).collect();
            ensure!(Instant::now() < end, "not in time: {what}\n{}", logs.join("\n"));
            // Sleeps: changes of files are not announced.
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn logged(&self, line: &str) -> Result<()> {
        self.until(line, || self.read("queue.run/a/log").lines().any(|found| found == line))
    }
}

struct Manager(Child);

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn grows() -> Result<()> {
    let hosts = Hosts::up(&suite::set("pool"), 2)?;
    let (checkout, pool) = (Checkout::find()?, Pool { folder: tempfile::tempdir()? });
    fs::create_dir(pool.file("events"))?;
    pool.rigid("first")?;
    let words = [
        "env".to_owned(),
        format!("QUO_ELASTIC_DIR={SOCKETS}"),
        "ELASTIC_USUAL_SOCKET=1".to_owned(),
        checkout.program("examples/controlled")?.display().to_string(),
        "{name}".to_owned(),
        "{start}".to_owned(),
        pool.file("events").display().to_string(),
    ];
    pool.append(&format!("name = \"a\"\ncommand = {words:?}\nmax = 4\n"))?;
    let out = fs::File::create(pool.file("out"))?;
    let mut command = hosts.front().command(checkout.program("quo-elastic")?);
    command.args(["manage", "--pool", "host0:2,host1:2", "--interval", "100ms", "--grace", "60s"]);
    command.arg("--queue").arg(pool.file("queue")).env("QUO_ELASTIC_DIR", SOCKETS);
    for (name, value) in [
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ("OMPI_MCA_plm_rsh_agent", "/run/remote-shell"),
        ("OMPI_MCA_plm_rsh_no_tree_spawn", "1"),
        ("OMPI_MCA_oob_tcp_if_include", quo_hosts::SUBNET),
        ("OMPI_MCA_btl_tcp_if_include", quo_hosts::SUBNET),
        ("OMPI_MCA_btl_vader_single_copy_mechanism", "none"),
        ("OMPI_MCA_orte_launch_agent", "env PMIX_MCA_gds=hash orted"),
    ] {
        command.env(name, value);
    }
    command.env_remove("QUO_TOPOLOGY").stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
    let mut manager = Manager(command.spawn()?);
    // The first job has the slots of the first host.
    pool.logged("ready")?;
    fs::write(pool.file("first-ends"), "")?;
    pool.logged("epoch 1 size 4")?;
    pool.rigid("second")?;
    pool.logged("epoch 2 size 2")?;
    let has_begun = || pool.read("queue.run/second/status").starts_with("begun");
    pool.until("the second one runs", has_begun)?;
    fs::write(pool.file("second-ends"), "")?;
    pool.logged("epoch 3 size 4")?;
    fs::write(pool.file("events/stop"), "")?;
    ensure!(ends_within(Pid::from_child(&manager.0), PATIENCE)?, "{}", pool.read("out"));
    let status = manager.0.wait()?;
    ensure!(status.success(), "{status}\n{}", pool.read("out"));
    let first = fs::read_to_string(pool.file("queue.run/a.hosts")).context("the host file")?;
    ensure!(first == "host1\nhost1\nhost0\nhost0\n", "{first}");
    hosts.down()
}
