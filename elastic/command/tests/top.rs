//! `quo-elastic top` as a program.
#![allow(clippy::unwrap_used)] // A test that cannot go on has failed.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn top(folder: &std::path::Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quo-elastic"));
    command.args(words).env("QUO_ELASTIC_DIR", folder);
    command
}

fn folder() -> (tempfile::TempDir, std::path::PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    let sockets = scratch.path().join("sockets");
    std::fs::DirBuilder::new().mode(0o700).create(&sockets).unwrap();
    (scratch, sockets)
}

#[test]
fn one_look_is_a_table_or_a_json_object() {
    let (_scratch, sockets) = folder();
    let output = top(&sockets, &["top", "--once"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.starts_with("JOB  RANKS  SIZES"), "{text}");
    assert_eq!(text.lines().count(), 2, "{text}");
    let output = top(&sockets, &["--json", "top", "--once"]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "{\"jobs\":[]}\n");
}

#[test]
fn table_ends_with_its_pipe() {
    let (_scratch, sockets) = folder();
    let mut command = top(&sockets, &["top", "--interval", "20ms"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    for _ in 0..4 {
        reader.read_line(&mut line).unwrap();
    }
    assert_eq!(line.matches("LAST REQUEST").count(), 2, "it is shown again: {line}");
    drop(reader);
    let end = Instant::now() + Duration::from_secs(60);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            child.kill().unwrap();
            panic!("it does not end");
        }
        // Sleeps: the standard library waits for a child without a limit only.
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(child.wait().unwrap().success());
}
