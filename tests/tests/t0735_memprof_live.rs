//! `memprof live` beside processes that run: who runs and for how long, who was killed, and when it ends.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use quo_tests::memprof::{Profiled, Started, fake_mpi, traces_in};
use quo_tests::{Checkout, ends_within, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(60);

/// One of two ranks, which runs until it is ended, once it has said so.
fn forever(traces: &Path, rank: &str) -> Result<Started> {
    let profiled = Profiled::new(fake_mpi()?.join("interpreter"), traces)?;
    let profiled = profiled.env("PMI_RANK", rank).env("PMI_SIZE", "2");
    let mut started = profiled.args(&["--forever", "--programs", "20", "--blind"]).start("")?;
    until(LIMIT, "it says that it runs", || {
        ensure!(started.runs()?, "it ended");
        Ok(started.said()?.contains("running"))
    })?;
    Ok(started)
}

/// A display that runs. Dropping it ends it.
struct Display {
    child: Child,
    shown: PathBuf,
}

impl Display {
    /// Starts the display; its output goes into a file, so that it need not be read along.
    fn start(traces: &Path, options: &[&str]) -> Result<Display> {
        let shown = traces.with_extension(format!("shown-{}", options.len()));
        // Who starts the tests in the background has processes ignore SIGINT, which stays so.
        let mut command = Command::new("env");
        command.arg("--default-signal=INT,TERM").arg(Checkout::find()?.program("memprof")?);
        command.arg("live").arg(traces).args(["--every", "0.05"]).args(options);
        command.stdin(Stdio::null()).stdout(File::create(&shown)?).stderr(Stdio::null());
        Ok(Display { child: command.spawn()?, shown })
    }

    fn runs(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    fn shown(&self) -> Result<String> {
        Ok(fs::read_to_string(&self.shown)?)
    }

    /// The looks that are there as a whole, each a line of JSON.
    fn looks(&self) -> Result<Vec<Value>> {
        let shown = self.shown()?;
        let whole = shown.rsplit_once('\n').map_or("", |(whole, _)| whole);
        Ok(whole.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
    }

    /// Waits for its end, which has to be a good one.
    fn end(&mut self) -> Result<()> {
        ensure!(ends_within(Pid::from_child(&self.child), LIMIT)?, "it does not end");
        let status = self.child.wait()?;
        ensure!(status.success(), "it ended with {status}");
        Ok(())
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        let _already_ended = self.child.kill();
        let _already_waited = self.child.wait();
    }
}

/// The states of the ranks at a look, in their order.
fn states(look: &Value) -> Result<Vec<&str>> {
    let mut ranks: Vec<_> = look["ranks"].as_array().context("no ranks")?.iter().collect();
    ranks.sort_by_key(|rank| rank["rank"].as_u64());
    ranks.into_iter().map(|rank| rank["state"].as_str().context("no state")).collect()
}

fn traces() -> Result<(tempfile::TempDir, PathBuf)> {
    let folder = tempfile::tempdir()?;
    let traces = folder.path().join("traces");
    fs::create_dir(&traces)?;
    Ok((folder, traces))
}

#[test]
fn each_look_tells_the_running_ranks_and_finally_the_killed() -> Result<()> {
    let (_folder, traces) = traces()?;
    let (mut first, mut second) = (forever(&traces, "0")?, forever(&traces, "1")?);
    let mut display = Display::start(&traces, &["--json"])?;
    until(LIMIT, "time goes on", || {
        let looks = display.looks()?;
        let times = looks.iter().map(|look| look["duration_ns"].as_u64().context("no time"));
        let times: Vec<u64> = times.collect::<Result<_>>()?;
        ensure!(times.is_sorted(), "{times:?}");
        let all_run = looks.iter().map(states).collect::<Result<Vec<_>>>()?;
        ensure!(all_run.iter().all(|states| states == &["running"; 2]), "{all_run:?}");
        ensure!(display.runs()?, "it ended though two ranks run");
        Ok(times.len() > 3 && times.last() > times.first())
    })?;
    for look in display.looks()? {
        for rank in look["ranks"].as_array().context("no ranks")? {
            let resident = rank["resident"].as_u64().context("no bytes")?;
            ensure!(resident > 1 << 20 && rank["duration_ns"].as_u64() > Some(0), "{look}");
        }
    }

    first.kill()?;
    until(LIMIT, "one of two is known to be killed", || {
        let looks = display.looks()?;
        Ok(states(looks.last().context("no look")?)? == ["killed", "running"])
    })?;
    // It goes on beside the other.
    let before = display.looks()?.len();
    until(LIMIT, "it looks again", || Ok(display.looks()?.len() > before + 2))?;
    ensure!(display.runs()?, "it ended though a rank runs");
    second.kill()?;
    display.end()?;
    let looks = display.looks()?;
    ensure!(states(looks.last().context("no look")?)? == ["killed"; 2], "{:?}", looks.last());
    Ok(())
}

#[test]
fn screen_counts_running_ranks_and_names_the_killed() -> Result<()> {
    let (_folder, traces) = traces()?;
    let mut display = Display::start(&traces, &["--ranks", "8"])?;
    // It may be started before the job.
    ensure!(display.runs()?, "it does not wait for ranks");
    let mut first = forever(&traces, "0")?;
    let mut second = forever(&traces, "1")?;
    let last = |display: &Display| -> Result<String> {
        let shown = display.shown()?;
        // An empty line parts a screen from the next.
        let screens = shown.split("\n\ninterpreter  ").collect::<Vec<_>>();
        Ok(screens.last().context("no screen")?.trim_start_matches("interpreter  ").to_owned())
    };
    until(LIMIT, "both are seen to run", || {
        ensure!(display.runs()?, "it ended");
        Ok(last(&display)?.starts_with("2 ranks on 1 node, 2 running, "))
    })?;
    first.kill()?;
    until(LIMIT, "one is seen to be killed", || {
        ensure!(display.runs()?, "it ended");
        Ok(last(&display)?.starts_with("2 ranks on 1 node, 1 running, "))
    })?;
    second.kill()?;
    display.end()?;
    let screen = last(&display)?;
    ensure!(screen.starts_with("2 ranks on 1 node, 0 running, "), "{screen}");
    for rank in ["0 ", "1 "] {
        let line = screen.lines().find(|line| line.starts_with(rank)).context("no such line")?;
        ensure!(line.ends_with("  killed"), "{line}");
    }
    ensure!(!screen.contains('\x1b'), "{screen:?}");
    Ok(())
}

#[test]
fn request_to_end_ends_the_display_not_the_job() -> Result<()> {
    let (_folder, traces) = traces()?;
    let mut rank = forever(&traces, "0")?;
    for signal in [Signal::INT, Signal::TERM] {
        let mut display = Display::start(&traces, &["--json"])?;
        until(LIMIT, "it shows something", || Ok(!display.looks()?.is_empty()))?;
        kill_process(Pid::from_child(&display.child), signal)?;
        display.end()?;
        ensure!(rank.runs()?, "the rank ended");
    }
    let [_] = &traces_in(&traces)?[..] else { bail!("not one trace") };
    rank.kill()
}
