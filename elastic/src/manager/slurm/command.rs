//! Runs Slurm's commands, each for a bounded time.

use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::host_list::shortened;

/// Makes Slurm's commands print times in seconds since 1970, which do not depend on a time zone.
pub(super) const TIME_FORMAT: (&str, &str) = ("SLURM_TIME_FORMAT", "%s");

/// Largest part of an answer that is read, in bytes.
const LONGEST_ANSWER: u64 = 4 << 20;
/// Pause between two checks of a running command.
const PAUSE: Duration = Duration::from_millis(5);

/// Why a command gave no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommandError {
    /// The command is missing, or may not be run.
    #[error("{command}: it cannot be started: {source}")]
    NotStarted { command: String, source: std::io::Error },
    /// The command failed.
    #[error("{command}: {status}: {said}")]
    Refused { command: String, status: ExitStatus, said: String },
    /// The command took too long and was killed.
    #[error("{command}: no answer within {} s{}{said}", .limit.as_secs(), if .said.is_empty() {""} else {": "})]
    NoAnswer { command: String, limit: Duration, said: String },
}

impl CommandError {
    /// Returns true if Slurm does not know a job of that number, or has forgotten it.
    pub(super) fn is_unknown_job(&self) -> bool {
        matches!(self, Self::Refused { said, .. } if said.contains("Invalid job id"))
    }
}

/// Runs one of Slurm's commands, for at most `limit`, and returns its output. Times in the output
/// are seconds since 1970; the command's environment lacks the variables of the job that this
/// process runs in.
///
/// # Errors
/// The command with the cause, such as Slurm's reason for refusing.
pub fn query(program: &str, words: &[String], limit: Duration) -> Result<String, String> {
    run(program, words, "", limit).map_err(|error| error.to_string())
}

/// Returns the output of a command that succeeds in time.
///
/// # Errors
/// [`CommandError`], with its output.
pub(super) fn run(
    program: &str,
    words: &[String],
    input: &str,
    limit: Duration,
) -> Result<String, CommandError> {
    let command = || shortened(&format!("{program} {}", words.join(" ")));
    let not_started = |source| CommandError::NotStarted { command: command(), source };
    let end = Instant::now() + limit;
    let mut child = prepared(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(not_started)?;
    if let Some(mut to) = child.stdin.take() {
        // At most a page of text, which fits into the pipe: the write does not block.
        let _ = to.write_all(input.as_bytes());
    }
    let answer = child.stdout.take().map(read);
    let complaint = child.stderr.take().map(read);
    let status = wait(&mut child, end);
    // Its child processes may keep the pipes open; the output so far is enough.
    let text = |from: Option<Receiver<String>>| {
        let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(100));
        from.and_then(|from| from.recv_timeout(left).ok()).unwrap_or_default()
    };
    let (answer, said) = (text(answer), text(complaint));
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = shortened(&said);
    match status {
        None => Err(CommandError::NoAnswer { command: command(), limit, said }),
        Some(status) if status.success() => Ok(answer),
        Some(status) => Err(CommandError::Refused { command: command(), status, said }),
    }
}

/// Returns a command with this process's environment, without the variables that the job and its
/// launcher set there. (Jobs submitted by `sbatch` inherit it, too.)
pub(super) fn prepared(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if !name.to_str().is_some_and(is_kept) {
            command.env_remove(name);
        }
    }
    // The folder in which the job was started may be gone; a command would not start there.
    command.env(TIME_FORMAT.0, TIME_FORMAT.1).env("LC_ALL", "C").current_dir("/");
    command
}

/// Returns true if a command may inherit the variable. Without the job's number, `scontrol` leaves
/// no scripts `slurm_job_NUMBER_resize.sh` in its working folder.
fn is_kept(variable: &str) -> bool {
    const PREFIXES: [&str; 9] =
        ["SLURM_", "SLURMD_", "SRUN_", "OMPI_", "PMIX_", "PMI_", "PRTE_", "HYD", "MPI"];
    match variable {
        "SLURM_CONF" | "SLURM_CLUSTERS" | "SLURM_JWT" => true,
        "LD_PRELOAD" => false,
        _ => !PREFIXES.iter().any(|prefix| variable.starts_with(prefix)),
    }
}

fn read(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    // If the thread cannot be started, the output is not read.
    let _ = std::thread::Builder::new().name("elastic-slurm".to_owned()).spawn(move || {
        let mut bytes = Vec::new();
        let mut from = from.take(LONGEST_ANSWER);
        let _ = from.read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
        // Excess output is discarded, so that the writer is not blocked.
        let _ = std::io::copy(&mut from.into_inner(), &mut std::io::sink());
    });
    receiver
}

/// Returns the exit status; `None` if the command did not end in time and was killed.
fn wait(child: &mut Child, end: Instant) -> Option<ExitStatus> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < end => std::thread::sleep(PAUSE),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, input: &str, limit: Duration) -> Result<String, CommandError> {
        run("sh", &["-c".to_owned(), script.to_owned()], input, limit)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn command_gets_its_input_and_its_answer_is_read() {
        assert_eq!(shell("cat; echo more", "text\n", LONG).unwrap(), "text\nmore\n");
    }

    #[test]
    fn failed_command_is_named_with_status_and_output() {
        let error = shell("echo 'no such\n  partition' >&2; exit 3", "", LONG).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("sh -c echo") && text.contains("exit status: 3"), "{text}");
        assert!(text.ends_with(": no such partition"), "{text}");
        let killed = shell("kill -9 $$", "", LONG).unwrap_err().to_string();
        assert!(killed.contains("signal: 9"), "{killed}");
    }

    #[test]
    fn a_command_that_does_not_end_is_ended() {
        let error = shell("echo half >&2; exec sleep 1000", "", Duration::from_millis(300));
        let text = error.unwrap_err().to_string();
        assert!(text.contains("no answer within 0 s"), "{text}");
    }

    #[test]
    fn a_missing_command_is_an_error_with_its_name() {
        let error = run("quo-no-such-command", &["--all".to_owned()], "", LONG).unwrap_err();
        assert!(error.to_string().starts_with("quo-no-such-command --all: it cannot be started"));
    }

    #[test]
    fn an_answer_without_an_end_is_cut() {
        let error = shell("exec cat /dev/zero", "", Duration::from_millis(500)).unwrap_err();
        assert!(matches!(error, CommandError::NoAnswer { .. }), "{error}");
    }

    #[test]
    fn commands_do_not_hear_of_the_job_they_run_in() {
        for name in ["SLURM_CONF", "PATH", "HOME", "SBATCH_ACCOUNT"] {
            assert!(is_kept(name), "{name}");
        }
        for name in ["SLURM_JOB_ID", "SLURM_JOBID", "OMPI_COMM_WORLD_RANK", "LD_PRELOAD"] {
            assert!(!is_kept(name), "{name}");
        }
    }
}
