//! A remote shell for launchers: a program started on a node becomes a step of the job that holds
//! the node.
//!
//! So Slurm accounts for it there, and ends it when the node is released. It then reports success,
//! since launchers take the failure of their shell for a failed process.

use std::ffi::OsString;
use std::process::ExitStatus;
use std::time::Duration;

use super::JOB_VARIABLE;
use super::command::{prepared, run};
use super::decide::name_of;
use super::host_list::is_name;

/// Time that Slurm may take to name the job that holds a node.
const LIMIT: Duration = Duration::from_secs(20);

/// Number of checks whether a node has been released, and the time between them.
const LOOKS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(500);

/// Variable that gives a program on another job's node the number of the world's own job.
const MAIN_VARIABLE: &str = "QUO_ELASTIC_SLURM_JOB";

/// Runs a command on a node, and waits for it: `[OPTIONS] HOST COMMAND...`, as remote shells are
/// called. Options are ignored.
///
/// Returns the status that a shell would have, or 0 if the node has been released meanwhile.
///
/// # Errors
/// The arguments are malformed, no known job holds the node, or Slurm refused.
pub fn agent(words: &[OsString]) -> Result<u8, String> {
    let words: Option<Vec<&str>> = words.iter().map(|word| word.to_str()).collect();
    let words = words.ok_or("a word is no text")?;
    let (host, command) = split(&words).ok_or("a host and a command are expected")?;
    let number = |name| std::env::var(name).ok()?.parse().ok();
    let main = number(MAIN_VARIABLE).or_else(|| number(JOB_VARIABLE));
    let main: u32 = main.ok_or_else(|| format!("{JOB_VARIABLE} is not set: not in a job"))?;
    let owner = owner(main, host)?.ok_or_else(|| {
        format!("neither job {main} nor one that holds nodes for it has node {host:?}")
    })?;
    let mut step = prepared("srun");
    step.args(["--nodes=1", "--ntasks=1", "--overlap", "--mpi=none", "--cpu-bind=none"])
        .args(["--kill-on-bad-exit=0", "--quiet", &format!("--jobid={owner}")])
        .arg(format!("--nodelist={host}"))
        .args(["sh", "-c", &command])
        .env(MAIN_VARIABLE, main.to_string());
    let ended = step.status().map_err(|error| format!("srun cannot be started: {error}"))?;
    let is_gone = || matches!(self::owner(main, host), Ok(found) if found != Some(owner));
    let mut looks = match code(ended) {
        0 => 0,
        // Ended by a signal, possibly because the node is being released.
        128.. => LOOKS,
        _ => 1,
    };
    while looks > 0 {
        if is_gone() {
            return Ok(0);
        }
        looks -= 1;
        std::thread::sleep(if looks > 0 { PAUSE } else { Duration::ZERO });
    }
    Ok(code(ended))
}

/// Splits the words into the host and the command as one text.
fn split<'a>(words: &[&'a str]) -> Option<(&'a str, String)> {
    let at = words.iter().position(|word| !word.starts_with('-'))?;
    let host = words[at].rsplit('@').next().filter(|name| is_name(name))?;
    let command = words[at + 1..].join(" ");
    (!command.trim().is_empty()).then_some((host, command))
}

/// Returns the job of the world that holds a node.
fn owner(main: u32, host: &str) -> Result<Option<u32>, String> {
    let words = ["--noheader", "--states=RUNNING", "--format=%A|%j"].map(str::to_owned);
    // Only this user's jobs are queried: the name of a foreign job may contain line breaks that
    // imitate further jobs.
    let user = format!("--user={}", rustix::process::getuid().as_raw());
    let words = [&words[..], &[format!("--nodelist={host}"), user]].concat();
    let answer = run("squeue", &words, "", LIMIT).map_err(|error| error.to_string())?;
    Ok(one_of(&answer, main))
}

/// Prefers the world's own job to the jobs that hold nodes for it.
fn one_of(answer: &str, main: u32) -> Option<u32> {
    let start = format!("{}-", name_of(main));
    let jobs = answer.lines().filter_map(|line| line.trim().split_once('|'));
    let jobs = jobs.filter_map(|(number, name)| Some((number.parse::<u32>().ok()?, name)));
    let ours: Vec<u32> = jobs
        .filter(|(number, name)| *number == main || name.starts_with(&start))
        .map(|(number, _)| number)
        .collect();
    if ours.contains(&main) { Some(main) } else { ours.first().copied() }
}

fn code(ended: ExitStatus) -> u8 {
    ended.code().map_or(255, |code| u8::try_from(code).unwrap_or(255))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_remote_shells_read_them() {
        assert_eq!(split(&["-x", "n1", "orted", "-mca", "a"]), Some(("n1", "orted -mca a".into())));
        assert_eq!(split(&["me@n1", " orted  "]), Some(("n1", " orted  ".into())));
        for words in [&[][..], &["-x"], &["n1"], &["n1", " "], &["n[1-2]", "orted"]] {
            assert_eq!(split(words), None, "{words:?}");
        }
    }

    #[test]
    fn node_belongs_to_its_own_or_a_holding_job() {
        let answer = "12|quo-elastic-7-1\n9|wrap\n8|quo-elastic-70-1\n7|main|odd\n";
        assert_eq!(one_of(answer, 7), Some(7));
        assert_eq!(one_of(answer, 70), Some(8));
        assert_eq!(one_of("12|quo-elastic-7-1\n", 7), Some(12));
        assert_eq!((one_of(answer, 1), one_of("", 7), one_of("hello\n|\n", 7)), (None, None, None));
    }
}
