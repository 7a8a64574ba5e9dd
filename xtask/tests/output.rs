//! Output without a reader.

use std::process::Command;

/// Returns the status of a command whose output and errors go into a pipe without a reader, and the
/// command's words.
fn unread(words: &[&str]) -> (Option<i32>, String) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(words).stdout(writer.try_clone().expect("a pipe")).stderr(writer);
    (command.status().expect("it runs").code(), words.join(" "))
}

#[test]
fn commands_without_a_reader_end_quietly() {
    for words in
        [&["test", "--list"][..], &["test", "--full", "--list"], &["fuzz", "--list"], &["--help"]]
    {
        assert_eq!(unread(words), (Some(0), words.join(" ")));
    }
}

#[test]
fn unknown_fuzz_target_is_refused_before_a_build() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    let output = command.args(["fuzz", "no_such"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stdout, b"");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.starts_with("cargo xtask: there is no fuzz target \"no_such\"; there are "),
        "{error}"
    );
    assert!(error.contains("cpu_lists") && error.lines().count() == 1, "{error}");
}
