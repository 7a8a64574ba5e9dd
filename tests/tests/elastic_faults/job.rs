//! A job of the program `faults`: its launch, its requests, and checks of its end.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use quo_tests::suite::Skipped;
use quo_tests::{BindTo, Checkout, Family, Launcher, Outcome, Running, ends_within};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Limit for a job that hangs: much longer than a loaded machine takes. The errors identify a world
/// that has waited for its dead.
pub const LIMIT: Duration = Duration::from_secs(150);

/// A job of the example `faults`, controlled by files in its folder and through its control socket.
pub struct Faulted {
    pub folder: tempfile::TempDir,
    pub job: Running,
    pub family: Family,
}

/// Options of a launch.
#[derive(Clone, Copy)]
pub struct Launch {
    pub processes: usize,
    pub ranks: usize,
    /// Limit for a started process to be ready.
    pub seconds: u64,
    /// The launcher keeps the others running when a rank is killed.
    pub survives: bool,
    pub files: &'static [&'static str],
}

pub const ALONE: Launch =
    Launch { processes: 1, ranks: 1, seconds: 20, survives: true, files: &[] };

/// A launch without a kill: Hydra, told to survive deaths, does not end in order when processes
/// were started.
pub const WHOLE: Launch = Launch { survives: false, ..ALONE };

impl Faulted {
    pub fn start(launch: Launch) -> Result<Faulted> {
        Self::start_with(launch, |_| {})
    }

    /// As [`start`](Self::start), with a change to the launcher's command.
    pub fn start_with(launch: Launch, prepare: impl FnOnce(&mut Command)) -> Result<Faulted> {
        let folder = tempfile::tempdir()?;
        let path = folder.path();
        launch.files.iter().try_for_each(|name| fs::write(path.join(name), ""))?;
        let launcher = Launcher::find()?;
        let mut command = launcher.command(launch.processes, BindTo::None);
        let program = Checkout::find()?.program("examples/faults")?;
        let guard = if launch.survives { launcher.survive(&mut command) } else { &[] };
        command.args(guard).arg(&program);
        command.args([launch.ranks.to_string(), "4".to_owned(), launch.seconds.to_string()]);
        command.arg(path).env_remove("QUO_TOPOLOGY");
        // A growing world has more ranks than processors, but the launcher sees only the first
        // ranks.
        command.env("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1");
        if !launch.files.contains(&"slots") {
            command.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
        }
        prepare(&mut command);
        let job = Running::start(&mut command, "faults", LIMIT)?;
        job.wait_for("is there: rank", launch.ranks)?;
        let this = Faulted { folder, job, family: launcher.family() };
        this.joins_by(guard)?;
        Ok(this)
    }

    /// As [`start`](Self::start), where processes can be started.
    pub fn growing(launch: Launch) -> Result<Faulted> {
        let this = Self::start(launch)?;
        if let Some((_, reason)) = this.job.said().split_once("parked ranks only: ") {
            let reason = reason.lines().next().unwrap_or_default().to_owned();
            // These files hold the ranks.
            launch.files.iter().try_for_each(|name| this.take(name))?;
            this.stop()?;
            return Err(Skipped(reason).into());
        }
        Ok(this)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn put(&self, name: &str) -> Result<()> {
        Ok(fs::write(self.file(name), "")?)
    }

    pub fn take(&self, name: &str) -> Result<()> {
        Ok(fs::remove_file(self.file(name))?)
    }

    /// Checks that the started program is the example itself, behind the same guard as launched
    /// ranks.
    pub fn joins_by(&self, guard: &[&str]) -> Result<()> {
        let program = Checkout::find()?.program("examples/faults")?;
        let words: Vec<String> =
            guard.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
        // Set by the script: MPI cannot pass variables to the processes it starts.
        let exec = if guard.is_empty() { "exec" } else { "" };
        let script = format!(
            "export FAULTS_JOINER=1\n{exec} {} '{}' \"$@\"",
            words.join(" "),
            program.display()
        );
        self.joins(&script, 0o755)
    }

    pub fn joins(&self, script: &str, mode: u32) -> Result<()> {
        let (new, file) = (self.file("joiner.new"), self.file("joiner"));
        fs::write(&new, format!("#!/bin/sh\n{script}\n"))?;
        fs::set_permissions(&new, fs::Permissions::from_mode(mode))?;
        Ok(fs::rename(new, file)?)
    }

    pub fn ask(&self, words: &[&str]) -> Result<Command> {
        let mut command = Command::new(Checkout::find()?.program("quo-elastic")?);
        command.args(words).env("QUO_ELASTIC_DIR", self.file("sockets")).stdin(Stdio::null());
        Ok(command)
    }

    /// Runs a command and returns its output, whatever its status.
    pub fn tell(&self, words: &[&str]) -> Result<String> {
        let limit = LIMIT.as_secs().to_string();
        let ask = self.ask(words)?;
        let mut bounded = Command::new("timeout");
        bounded.arg(limit).arg(ask.get_program()).args(ask.get_args());
        let output = bounded.env("QUO_ELASTIC_DIR", self.file("sockets")).output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(text(&output.stdout) + &text(&output.stderr))
    }

    /// Sends a request, without waiting for its end.
    pub fn asks(&self, words: &[&str]) -> Result<Asking> {
        let child = self.ask(words)?.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(Asking(child))
    }

    /// Waits until the job has printed `process NUMBER WORDS`, and kills that process.
    pub fn kill(&self, words: &str) -> Result<()> {
        kill_and_wait(self.process(words)?)
    }

    /// Waits until the job has printed `process NUMBER WORDS`, and until that process has ended.
    pub fn wait_for_end(&self, words: &str) -> Result<()> {
        let process = self.process(words)?;
        ensure!(ends_within(process, LIMIT)?, "{process} does not end");
        Ok(())
    }

    fn process(&self, words: &str) -> Result<Pid> {
        self.job.wait_for(words, 1)?;
        let said = self.job.said();
        let line = said.lines().find(|line| line.contains(words)).context("nobody said it")?;
        // Launchers may have inserted text before it.
        let number = line.split("process ").nth(1).and_then(|rest| rest.split(' ').next());
        let process = number.and_then(|number| number.parse().ok()).and_then(Pid::from_raw);
        process.context(words.to_owned())
    }

    pub fn events(&self) -> Result<Vec<Value>> {
        let text = fs::read_to_string(self.file("events")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).context(line.to_owned())).collect()
    }

    pub fn wait_for_event(&self, name: &str) -> Result<()> {
        let limit = Instant::now() + LIMIT;
        while !self.events()?.iter().any(|event| event["event"] == name) {
            ensure!(Instant::now() < limit, "no event {name}: {}", self.job.said());
            // Sleeps: the job writes the file without notification.
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Grows the world by one rank, at the latest at the fifth attempt: a start on a loaded machine
    /// may exceed its limit.
    pub fn grows_again(&self, size: usize) -> Result<()> {
        for _ in 0..5 {
            let said = self.tell(&["grow", "test", "1", "--wait"])?;
            if said.contains(&format!("is done: {size} ranks")) {
                return Ok(());
            }
            ensure!(said.contains("not ready within"), "{said}\n{}", self.job.said());
        }
        bail!("it does not grow any more:\n{}", self.job.said());
    }

    /// Lets the job end, or waits until it has ended; returns its events and its outcome.
    pub fn stop(self) -> Result<(Vec<Value>, Outcome)> {
        self.put("stop")?;
        let events = self.file("events");
        let Faulted { folder, job, .. } = self;
        let outcome = job.finish()?;
        ensure!(!outcome.out_of_time, "it hangs: {}", outcome.report());
        outcome.expect_clean()?;
        let text = fs::read_to_string(events).unwrap_or_default();
        drop(folder);
        let lines = text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
        Ok((lines, outcome))
    }
}

/// A client that waits for the end of its request.
pub struct Asking(Child);

impl Drop for Asking {
    fn drop(&mut self) {
        // It ends with its answer or with the job, otherwise here.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Asking {
    pub fn wait(mut self) -> Result<()> {
        self.0.wait()?;
        Ok(())
    }
}

/// Returns the one end of each request, as its name and its cause; fails if a request has none or
/// several, or if a request that was not done changed anything.
pub fn ends(events: &[Value]) -> Result<Vec<(String, String)>> {
    let is_end = |event: &&Value| {
        matches!(event["event"].as_str(), Some("refused" | "finalized" | "aborted"))
    };
    let mut ends = Vec::new();
    let (mut epoch, mut size) = (events[0]["epoch"].clone(), events[0]["size"].clone());
    for asked in events.iter().filter(|event| event["event"] == "requested") {
        let of_it = |event: &&Value| event["request"] == asked["request"];
        let all: Vec<&Value> = events.iter().filter(is_end).filter(of_it).collect();
        ensure!(all.len() == 1, "{asked} has {} ends: {all:?}", all.len());
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        ends.push((word(&all[0]["event"]), word(&all[0]["cause"]["kind"])));
        if all[0]["event"] == "finalized" {
            ensure!(all[0]["epoch"].as_u64() == epoch.as_u64().map(|epoch| epoch + 1), "{all:?}");
        } else {
            ensure!(all[0]["epoch"] == epoch && all[0]["size"] == size, "{all:?} {epoch} {size}");
        }
        (epoch, size) = (all[0]["epoch"].clone(), all[0]["size"].clone());
    }
    Ok(ends)
}

pub fn end(event: &str, cause: &str) -> (String, String) {
    (event.to_owned(), cause.to_owned())
}

/// Checks that the job ended by itself, with one quo error on each surviving rank, if the MPI let
/// the ranks report it; the request, if it has an end, was aborted for this cause.
pub fn ended_with_one_error(job: Faulted, cause: &str, survivors: usize) -> Result<()> {
    let (events, outcome) = job.stop()?;
    let said = outcome.stdout.matches(" ends with: ").count();
    // Not the launcher's report on the process that the test has killed.
    let by_mpi = ["MPI_ERRORS_ARE_FATAL", "BAD TERMINATION"];
    let is_said = by_mpi.iter().any(|word| outcome.report().contains(word));
    ensure!((1..=survivors).contains(&said) || is_said, "nobody says why: {}", outcome.report());
    if said > 0 {
        let named = outcome.stdout.lines().filter(|line| line.contains(" ends with: "));
        ensure!(
            named.into_iter().all(|line| line.contains("ended without taking part")),
            "{}",
            outcome.report()
        );
    }
    let aborted = events.iter().find(|event| event["event"] == "aborted");
    if let Some(aborted) = aborted {
        ensure!(aborted["cause"]["kind"] == cause, "{aborted}");
        // If MPI ended the job, the last line of the log may be incomplete.
        if said > 0 {
            ends(&events)?;
        }
    } else {
        ensure!(is_said, "its request has no end: {}", outcome.report());
    }
    Ok(())
}

/// Kills a process and waits for its end. `/proc` calls it a zombie while threads of it still end,
/// and until then it does not count as dead.
pub fn kill_and_wait(process: Pid) -> Result<()> {
    kill_process(process, Signal::KILL)?;
    ensure!(ends_within(process, LIMIT)?, "{process} does not end");
    Ok(())
}
