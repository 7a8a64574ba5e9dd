//! `quo-elastic manage --pool`: runs a queue of elastic and rigid jobs on slots of this machine.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quo_tests::suite::{self, Skipped};
use quo_tests::{BindTo, Checkout, Family, Launcher, ends_within, until};
use rustix::process::{Pid, Signal, getuid, kill_process_group};
use rustix::system::uname;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(100);
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with a queue, and the files that end its jobs.
struct Pool {
    folder: tempfile::TempDir,
}

impl Pool {
    fn new() -> Result<Pool> {
        Ok(Pool { folder: tempfile::tempdir()? })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Appends an elastic job, which runs until there is a file `NAME/stop`.
    fn elastic(&self, name: &str, max: u32) -> Result<()> {
        let program = Checkout::find()?.program("examples/controlled")?;
        fs::create_dir(self.file(name))?;
        let words = [program.display().to_string(), "{name}".into(), "{start}".into()];
        let mut words: Vec<String> = words.to_vec();
        words.push(self.file(name).display().to_string());
        self.append(&format!(
            "name = {name:?}\ncommand = {words:?}\nmax = {max}\ntime = \"10min\"\n"
        ))
    }

    /// Appends a rigid job, which runs a script on its first rank.
    fn rigid(&self, name: &str, ranks: u32, script: &str) -> Result<()> {
        // MPICH's launcher may end by SIGPIPE if its processes end within a few milliseconds.
        let first =
            format!("sleep 0.05; [ ${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}} != 0 ] || {{ {script}; }}");
        self.append(&format!(
            "name = {name:?}\ncommand = [\"sh\", \"-c\", {first:?}]\nranks = {ranks}\n"
        ))
    }

    /// Returns the script of a rigid job that runs until a file exists.
    fn until_file(&self, name: &str) -> String {
        format!("while [ ! -e {} ]; do sleep 0.02; done", self.file(name).display())
    }

    fn append(&self, entry: &str) -> Result<()> {
        let path = self.file("queue");
        let text = fs::read_to_string(&path).unwrap_or_default();
        // In one step, so that the manager never reads half of it.
        fs::write(self.file("new"), format!("{text}\n[[job]]\n{entry}"))?;
        Ok(fs::rename(self.file("new"), path)?)
    }

    fn manager(&self, words: &[&str]) -> Result<Manager> {
        self.manager_with(words, &[])
    }

    /// Starts a manager whose jobs have more variables.
    fn manager_with(&self, words: &[&str], variables: &[(&str, &str)]) -> Result<Manager> {
        let mut command = Command::new(Checkout::find()?.program("quo-elastic")?);
        command.envs(variables.iter().copied());
        command.args([
            "--json",
            "manage",
            "--pool",
            "localhost:4",
            "--interval",
            "50ms",
            "--grace",
            "60s",
        ]);
        command.arg("--queue").arg(self.file("queue")).args(words);
        command.env("QUO_ELASTIC_DIR", self.file("sockets")).env("ELASTIC_USUAL_SOCKET", "1");
        Launcher::find()?.for_others(&mut command)?;
        let (out, err) = (tempfile::tempfile()?, tempfile::tempfile()?);
        command.env_remove("QUO_TOPOLOGY").stdin(Stdio::null());
        let child = command.stdout(out.try_clone()?).stderr(err.try_clone()?).spawn()?;
        Ok(Manager { child, out, err })
    }

    /// Waits until the log of a job has a line.
    fn logged(&self, job: &str, line: &str) -> Result<()> {
        let log = self.file("queue.run").join(job).join("log");
        let said = || fs::read_to_string(&log).unwrap_or_default();
        let is_there = || Ok(said().lines().any(|found| found == line));
        until(PATIENCE, &format!("{job} says {line:?}"), is_there)
            .with_context(|| format!("{}\n{}", said(), self.decisions()))
    }

    fn decisions(&self) -> String {
        fs::read_to_string(self.file("queue.run/decisions")).unwrap_or_default()
    }

    fn decided(&self, count: usize) -> Result<()> {
        let is_there = || Ok(self.decisions().lines().count() >= count);
        until(PATIENCE, &format!("{count} decisions"), is_there).with_context(|| self.decisions())
    }
}

impl Drop for Pool {
    /// Ends the launchers that a failed test has left: managers do not.
    fn drop(&mut self) {
        let jobs = fs::read_dir(self.file("queue.run")).into_iter().flatten().flatten();
        let status = |job: &fs::DirEntry| fs::read_to_string(job.path().join("status"));
        // A running job has `begun`; an ended job has one more line.
        for job in jobs.filter(|job| status(job).is_ok_and(|text| text.lines().count() < 2)) {
            let text = fs::read_to_string(job.path().join("pid")).unwrap_or_default();
            if let Some(shell) = text.trim().parse().ok().and_then(Pid::from_raw) {
                let _ = kill_process_group(shell, Signal::TERM);
            }
        }
    }
}

/// A manager, which its jobs outlive.
struct Manager {
    child: Child,
    out: File,
    err: File,
}

/// Ending of a manager.
#[derive(Debug)]
struct Ended {
    status: ExitStatus,
    out: String,
    err: String,
}

impl Manager {
    fn finish(&mut self) -> Result<Ended> {
        let has_ended = ends_within(Pid::from_child(&self.child), LIMIT)?;
        if !has_ended {
            self.child.kill()?;
        }
        let status = self.child.wait()?;
        let ended = Ended { status, out: all(&self.out)?, err: all(&self.err)? };
        ensure!(has_ended, "it does not end: {ended:?}");
        Ok(ended)
    }

    fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.finish().map(drop)
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn all(mut file: &File) -> Result<String> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_string(&mut text)?;
    Ok(text)
}

impl Ended {
    /// Returns the report of a manager that ended with this status.
    fn report(&self, status: i32) -> Result<Value> {
        ensure!(self.status.code() == Some(status), "{self:?}");
        let line = self.out.lines().last().with_context(|| format!("{self:?}"))?;
        serde_json::from_str(line).with_context(|| format!("{self:?}"))
    }
}

fn elastic_job_fills_idle_slots_and_gives_them_back() -> Result<()> {
    let pool = Pool::new()?;
    pool.rigid("first", 2, &pool.until_file("first-ends"))?;
    pool.elastic("a", 4)?;
    let mut manager = pool.manager(&[])?;
    // The job starts on the remaining slots, grows when the other job has ended, and gives slots
    // back for the next job.
    pool.logged("a", "ready")?;
    fs::write(pool.file("first-ends"), "")?;
    pool.logged("a", "epoch 1 size 4")?;
    pool.rigid("second", 3, &pool.until_file("second-ends"))?;
    pool.logged("a", "epoch 2 size 1")?;
    let begun = || fs::read_to_string(pool.file("queue.run/second/status"));
    let started = || Ok(begun().is_ok_and(|text| text.starts_with("begun")));
    until(PATIENCE, "the second one runs", started)?;
    fs::write(pool.file("second-ends"), "")?;
    pool.logged("a", "epoch 3 size 4")?;
    fs::write(pool.file("a/stop"), "")?;
    let report = manager.finish()?.report(0)?;
    ensure!(
        report["failed"] == 0 && report["jobs"].as_array().map(Vec::len) == Some(3),
        "{report}"
    );
    ensure!(
        report["use_of_slots"].as_f64().is_some_and(|used| (0.5..=1.0).contains(&used)),
        "{report}"
    );
    // The job's own event log has the reasons.
    let events = fs::read_to_string(pool.file("a/events"))?;
    let reasons: Vec<String> = events
        .lines()
        .filter_map(|line| {
            serde_json::from_str::<Value>(line).ok()?["asked"]["why"].as_str().map(str::to_owned)
        })
        .collect();
    ensure!(reasons.len() == 3 && reasons[1].ends_with("second lacks 3"), "{reasons:?}");
    let actions: Vec<String> = pool
        .decisions()
        .lines()
        .filter_map(|line| {
            serde_json::from_str::<Value>(line).ok()?["action"].as_str().map(str::to_owned)
        })
        .collect();
    ensure!(actions == ["start", "start", "grow", "shrink", "start", "grow"], "{actions:?}");
    Ok(())
}

fn failed_job_is_told_by_status_and_log() -> Result<()> {
    let pool = Pool::new()?;
    pool.rigid("good", 1, "exit 0")?;
    pool.rigid("bad", 1, "echo no such input; exit 3")?;
    let report = pool.manager(&[])?.finish()?.report(1)?;
    ensure!(report["failed"] == 1 && report["jobs"][1]["status"] == 3, "{report}");
    pool.logged("bad", "no such input")?;
    // A queue that has begun is not begun again by mistake.
    let again = pool.manager(&[])?.finish()?;
    ensure!(again.status.code() == Some(1) && again.err.contains("--resume"), "{again:?}");
    Ok(())
}

fn jobs_start_without_the_folder_that_launchers_share() -> Result<()> {
    if Launcher::find()?.family() != Family::OpenMpi4 {
        return Err(Skipped("launchers of Open MPI 4 alone share a folder".to_owned()).into());
    }
    let pool = Pool::new()?;
    let scratch = pool.file("tmp");
    fs::create_dir(&scratch)?;
    let host = uname().nodename().to_string_lossy().into_owned();
    let host = host.split('.').next().unwrap_or_default().to_owned();
    // As if the folder were removed between its creation by one launcher and its use by the next.
    fs::write(scratch.join(format!("ompi.{host}.{}", getuid().as_raw())), "")?;
    let alone =
        Launcher::find()?.command(1, BindTo::None).arg("true").env("TMPDIR", &scratch).output()?;
    ensure!(!alone.status.success(), "a launcher needs no folder: {alone:?}");
    pool.rigid("good", 1, "exit 0")?;
    let place = scratch.to_str().context("a path that is no text")?;
    let mut manager = pool.manager_with(&[], &[("TMPDIR", place)])?;
    let report = manager.finish()?.report(0)?;
    ensure!(report["failed"] == 0, "{report}");
    let left: Vec<_> = fs::read_dir(&scratch)?.flatten().map(|entry| entry.file_name()).collect();
    ensure!(left.len() == 1, "files of the launcher are left: {left:?}");
    Ok(())
}

fn manager_killed_after_each_decision_loses_no_job() -> Result<()> {
    const JOBS: usize = 6;
    let pool = Pool::new()?;
    let ran = pool.file("ran");
    for index in 0..JOBS {
        let script = format!("echo {index} >>{}", ran.display());
        pool.rigid(&format!("job-{index}"), 3, &script)?;
    }
    let mut words: &[&str] = &[];
    for decisions in 1..=JOBS {
        let manager = pool.manager(words)?;
        pool.decided(decisions)?;
        manager.kill()?;
        words = &["--resume"];
    }
    let report = pool.manager(words)?.finish()?.report(0)?;
    ensure!(report["failed"] == 0, "{report}");
    let text = fs::read_to_string(&ran)?;
    let mut found: Vec<&str> = text.lines().collect();
    found.sort_unstable();
    ensure!(found == ["0", "1", "2", "3", "4", "5"], "each job once: {found:?}");
    Ok(())
}

fn elastic_job_goes_on_under_the_next_manager() -> Result<()> {
    let pool = Pool::new()?;
    pool.elastic("a", 4)?;
    pool.rigid("second", 2, &pool.until_file("second-ends"))?;
    let manager = pool.manager(&[])?;
    pool.logged("a", "ready")?;
    manager.kill()?;
    fs::write(pool.file("second-ends"), "")?;
    let second = || fs::read_to_string(pool.file("queue.run/second/status"));
    let ended = || Ok(second().is_ok_and(|text| text == "begun\n0\n"));
    until(PATIENCE, "the second one has ended", ended)?;
    let mut manager = pool.manager(&["--resume"])?;
    pool.logged("a", "epoch 1 size 4")?;
    fs::write(pool.file("a/stop"), "")?;
    manager.finish()?.report(0).map(drop)
}

/// Refuses a shrink after which each of three ranks would have a third of a PiB more.
fn shrink_that_does_not_fit_is_refused_with_the_sum() -> Result<()> {
    let pool = Pool::new()?;
    pool.elastic("a", 4)?;
    let variables = [("ELASTIC_UNITS", "1000000000"), ("ELASTIC_BYTES", "1125899906842624")];
    let record = pool.file("record");
    let words = ["--memory", "--record", record.to_str().context("a path")?];
    let mut manager = pool.manager_with(&words, &variables)?;
    pool.logged("a", "ready")?;
    pool.rigid("second", 3, "true")?;
    let refused = "a shrink to 3 slots does not fit on node ";
    until(PATIENCE, "the shrink is refused", || Ok(all(&manager.err)?.contains(refused)))?;
    let sum = "3 ranks with 256.0 TiB of old and 341.3 TiB of new data each need ";
    ensure!(all(&manager.err)?.contains(sum), "{}", all(&manager.err)?);
    fs::write(pool.file("a/stop"), "")?;
    manager.finish()?.report(0)?;
    ensure!(!pool.decisions().contains("\"shrink\""), "{}", pool.decisions());
    // The record has both jobs, in sequence.
    let mut command = Command::new(Checkout::find()?.program("quo-elastic")?);
    let output = command.arg("--json").arg("simulate").arg(&record).output()?;
    let report: Value = serde_json::from_slice(&output.stdout).context("the record")?;
    let found = &report["policies"][0][0]["all"];
    ensure!(found["jobs"] == 2 && found["resizes"] == 0, "{report}");
    Ok(())
}

quo_tests::suite! {
    by |tests| suite::run(tests, Launcher::find().err().map(|error| format!("{error:#}")));
    elastic_job_fills_idle_slots_and_gives_them_back
    failed_job_is_told_by_status_and_log
    jobs_start_without_the_folder_that_launchers_share
    manager_killed_after_each_decision_loses_no_job
    elastic_job_goes_on_under_the_next_manager
    shrink_that_does_not_fit_is_refused_with_the_sum
}
