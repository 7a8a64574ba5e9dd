//! Jobs that get notices, by files and by SIGTERM: ranks leave before they are killed.
#![allow(clippy::print_stdout)] // How many have left is a result.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use quo_tests::suite::{self, Skipped};
use quo_tests::{BindTo, Checkout, Launcher, Running, ends_within, until};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

/// Rounds of the full suite, and of the gate.
const ROUNDS: (usize, usize) = (50, 3);
/// Time between a notice and the kill: much longer than anything takes on a busy machine.
const GRACE: Duration = Duration::from_secs(100);
const LIMIT: Duration = Duration::from_secs(900);

fn rounds() -> usize {
    if suite::is_long() { ROUNDS.0 } else { ROUNDS.1 }
}

/// A job of the example `controlled` that takes notices.
struct Noticed {
    folder: tempfile::TempDir,
    job: Running,
}

impl Noticed {
    fn start(processes: usize, ranks: usize, variables: &[(&str, &str)]) -> Result<Noticed> {
        let folder = tempfile::tempdir()?;
        let mut command = Launcher::find()?.command(processes, BindTo::None);
        command.arg(Checkout::find()?.program("examples/controlled")?);
        command.args(["test", &ranks.to_string()]).arg(folder.path());
        command.env("ELASTIC_NOTICES", "1").env_remove("QUO_TOPOLOGY");
        command.envs(variables.iter().copied());
        let job = Running::start(&mut command, "controlled", LIMIT)?;
        job.wait_for("ready", 1)?;
        Ok(Noticed { folder, job })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Delivers a notice as a resource manager does.
    fn put(&self, name: &str, call: &str) -> Result<()> {
        let new = self.file(&format!("notices/.{name}"));
        fs::write(&new, call)?;
        Ok(fs::rename(new, self.file(&format!("notices/{name}.notice")))?)
    }

    /// Waits for an acknowledgement, which must be of this kind.
    fn acknowledged(&self, name: &str, end: &str) -> Result<Value> {
        let mut said = None;
        until(GRACE, &format!("{name} is acknowledged"), || {
            for found in ["done", "failed", "refused"] {
                if let Ok(text) = fs::read_to_string(self.file(&format!("notices/{name}.{found}")))
                {
                    said = Some((found, text));
                }
            }
            Ok(said.is_some())
        })?;
        let (found, text) = said.context("nothing was said")?;
        ensure!(found == end, "{name} is {found}: {text}");
        Ok(serde_json::from_str(&text)?)
    }

    /// Returns the process of a rank, once it differs from the one before.
    fn process(&self, rank: usize, before: Option<Pid>) -> Result<Pid> {
        let mut process = before;
        until(GRACE, &format!("rank {rank} has a process"), || {
            let text = fs::read_to_string(self.file(&format!("pid-{rank}"))).unwrap_or_default();
            process = text.parse().ok().and_then(Pid::from_raw);
            Ok(process.is_some() && process != before)
        })?;
        process.context("no process")
    }
}

fn notice_files_are_followed_and_acknowledged_one_by_one() -> Result<()> {
    let job = Noticed::start(4, 2, &[])?;
    job.put("more", r#"{"call":"grow","ranks":2}"#)?;
    let grown = job.acknowledged("more", "done")?;
    ensure!(grown["event"]["event"] == "finalized" && grown["event"]["size"] == 4, "{grown}");
    for (name, call, reason) in [
        ("half", r#"{"call":"grow","ra"#, "EOF"),
        ("question", r#"{"call":"status"}"#, "a notice asks for grow"),
        ("huge", r#"{"call":"grow","ranks":9}"#, "9 ranks more were asked for"),
    ] {
        job.put(name, call)?;
        let said = job.acknowledged(name, "refused")?.to_string();
        ensure!(said.contains(reason), "{name}: {said}");
    }
    job.put("fewer", r#"{"call":"shrink","ranks":3,"grace_ms":60000}"#)?;
    let shrunk = job.acknowledged("fewer", "done")?;
    ensure!(shrunk["event"]["size"] == 1, "{shrunk}");
    fs::write(job.file("stop"), "")?;
    let Noticed { folder, job } = job;
    job.finish()?.expect_success()?;
    let mut left = Vec::new();
    for entry in fs::read_dir(folder.path().join("notices"))? {
        left.push(entry?.file_name().into_string().unwrap_or_default());
    }
    left.sort_unstable();
    let right = ["fewer.done", "half.refused", "huge.refused", "more.done", "question.refused"];
    ensure!(left == right, "{left:?}");
    Ok(())
}

fn leavers_have_ended_before_the_kill_in_every_round() -> Result<()> {
    let job = Noticed::start(1, 1, &[("ELASTIC_MOST", "2")])?;
    let (mut in_time, mut before) = (0, None);
    for round in 0..rounds() {
        let (grow, shrink) = (format!("grow-{round}"), format!("shrink-{round}"));
        job.put(&grow, r#"{"call":"grow","ranks":1}"#)?;
        let grown = job.acknowledged(&grow, "done");
        if grown.as_ref().is_err_and(|error| error.to_string().contains("there can be 1 to 1")) {
            bail!(Skipped("this MPI starts no processes".to_owned()));
        }
        grown?;
        let leaver = job.process(1, before)?;
        ensure!(test_kill_process(leaver).is_ok(), "the joiner of round {round} has ended");
        let grace = GRACE.as_millis();
        job.put(&shrink, &format!(r#"{{"call":"shrink","ranks":1,"grace_ms":{grace}}}"#))?;
        job.acknowledged(&shrink, "done")?;
        if ends_within(leaver, GRACE)? {
            in_time += 1;
        } else {
            // As the new user of the node would.
            let _ = kill_process(leaver, Signal::KILL);
        }
        before = Some(leaver);
    }
    println!("{in_time} of {} leavers had ended before the kill", rounds());
    ensure!(in_time == rounds(), "{in_time} of {} had ended", rounds());
    fs::write(job.file("stop"), "")?;
    job.job.finish()?.expect_success().map(drop)
}

fn job_with_sigterm_ends_before_the_kill() -> Result<()> {
    for round in 0..rounds() {
        let grace = GRACE.as_secs().to_string();
        // One process is parked.
        let job = Noticed::start(4, 3, &[("ELASTIC_TERM", &grace)])?;
        for rank in 0..3 {
            // As Slurm does before preemption: to all, in any order.
            kill_process(job.process((rank + round) % 3, None)?, Signal::TERM)?;
        }
        let Noticed { folder, job } = job;
        job.finish()?.expect_success().with_context(|| format!("round {round}"))?;
        let text = fs::read_to_string(folder.path().join("events"))?;
        let events: Vec<Value> =
            text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        let is = |event: &Value, what: &str| event["event"] == what;
        let notice = events.iter().find(|event| is(event, "notice")).context("no notice")?;
        ensure!(notice["cause"]["kind"] == "deadline", "{notice}");
        let asked = events.iter().find(|event| is(event, "requested")).context("no request")?;
        ensure!(asked["asked"]["origin"] == "term", "{asked}");
        let end = events.iter().find(|event| is(event, "finalized")).context("no end")?;
        ensure!(end["size"] == 1, "{end}");
        ensure!(!events.iter().any(|event| is(event, "overdue")), "{text}");
    }
    println!("{} of {} jobs had ended before the kill", rounds(), rounds());
    Ok(())
}

quo_tests::suite! {
    within Duration::from_secs(1_800);
    notice_files_are_followed_and_acknowledged_one_by_one
    leavers_have_ended_before_the_kill_in_every_round
    job_with_sigterm_ends_before_the_kill
}
