//! Commands with a time limit. A timeout ends every process below the test process, so these tests
//! have a separate binary and take turns.

#[path = "../src/run.rs"]
#[allow(dead_code)]
mod run;

use std::fs;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn both_streams_and_the_status_are_kept() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("deep/er/log");
    let mut shell = Command::new("sh");
    shell.args(["-c", "echo out; echo err >&2; exit 3"]);
    let finished = run::logged(&mut shell, &log, Duration::from_secs(20)).unwrap();
    assert_eq!(finished.output, "out\nerr\n");
    assert!(matches!(finished.ending, run::Ending::Exited(status) if status.code() == Some(3)));
    assert!(!finished.ending.is_success());
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let _turn = turn();
    let error =
        run::shown(&mut Command::new("no-such-program"), Duration::from_secs(1)).unwrap_err();
    assert!(format!("{error:#}").contains("no-such-program"));
}

#[test]
fn nothing_a_command_started_outlives_its_time() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    // One process in the foreground and one that left the process group and lost its parent.
    let script = "setsid sh -c 'echo $$; exec sleep 1000' & (setsid sleep 1000 & echo $!); \
                  echo $$; exec sleep 1000";
    let finished =
        run::logged(Command::new("sh").args(["-c", script]), &log, Duration::from_secs(1)).unwrap();
    assert!(matches!(finished.ending, run::Ending::OutOfTime(_)), "{}", finished.ending);
    let started: Vec<&str> = finished.output.split_whitespace().collect();
    assert_eq!(started.len(), 3, "{started:?}");
    for pid in started {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let ended = stat.is_empty() || stat.contains(") Z ") || stat.contains(") X ");
        assert!(ended, "process {pid} is still there: {stat}");
    }
}

#[test]
fn orphans_are_collected_while_the_command_runs() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    // The orphan ends at once; the command waits until it is out of the process table.
    let script = "orphan=$(sh -c 'true & echo $!'); \
                  while [ -e /proc/$orphan ]; do sleep 0.05; done; echo gone";
    let log = folder.path().join("log");
    let mut shell = Command::new("sh");
    let finished = run::logged(shell.args(["-c", script]), &log, Duration::from_secs(60)).unwrap();
    assert_eq!(finished.output, "gone\n", "{}", finished.ending);
}
