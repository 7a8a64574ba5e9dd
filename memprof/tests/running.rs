//! `memprof run`: what it does around a command. What is recorded inside is tested with the profiler
//! itself; here any object can be loaded in its place.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// An object every process has anyhow: loading it changes nothing.
fn harmless() -> PathBuf {
    let maps = fs::read_to_string("/proc/self/maps").expect("maps");
    let line = maps.lines().find(|line| line.contains("/libc.so")).expect("a C library");
    line.split_ascii_whitespace().last().expect("its path").into()
}

fn memprof(place: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memprof"));
    command.current_dir(place).env("MEMPROF_PRELOAD", harmless()).env_remove("LD_PRELOAD");
    command
}

fn run(place: &Path, arguments: &[&str]) -> Output {
    memprof(place).arg("run").args(arguments).output().expect("memprof runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn left(place: &Path) -> Vec<String> {
    let names = fs::read_dir(place).expect("list");
    names.map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn the_exit_status_of_the_command_is_ours() {
    let place = tempfile::tempdir().expect("a folder");
    for code in [0, 1, 7, 255] {
        let output = run(place.path(), &["--", "sh", "-c", &format!("exit {code}")]);
        assert_eq!(output.status.code(), Some(code));
    }
}

#[test]
fn a_command_that_ends_by_a_signal_ends_us_by_it() {
    let place = tempfile::tempdir().expect("a folder");
    for (name, signal) in [("KILL", 9), ("TERM", 15), ("SEGV", 11)] {
        let output = run(place.path(), &["--", "sh", "-c", &format!("kill -{name} $$")]);
        assert_eq!(output.status.signal(), Some(signal), "{}", text(&output.stderr));
    }
}

#[test]
fn standard_input_and_output_are_those_of_the_command() {
    let place = tempfile::tempdir().expect("a folder");
    let mut child = memprof(place.path())
        .args(["run", "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("memprof runs");
    use std::io::Write;
    child.stdin.take().expect("piped").write_all(b"through").expect("written");
    assert_eq!(text(&child.wait_with_output().expect("ended").stdout), "through");
}

#[test]
fn ranks_are_told_where_to_write_and_how() {
    let place = tempfile::tempdir().expect("a folder");
    let script = "env | grep -E '^(MEMPROF_|LD_PRELOAD)' | sort; stat -c %a \"$MEMPROF_DIR\"";
    let output = run(
        place.path(),
        &[
            "-o",
            "out",
            "--all",
            "--interval",
            "50",
            "--duty",
            "1.5",
            "--exact",
            "--stacks",
            "0",
            "--",
            "sh",
            "-c",
            script,
        ],
    );
    let said = text(&output.stdout);
    let folder = place.path().canonicalize().expect("real").join("out");
    for line in [
        format!("MEMPROF_DIR={}", folder.display()),
        format!("LD_PRELOAD={}", harmless().canonicalize().expect("real").display()),
        "MEMPROF_RECORD=all".to_owned(),
        "MEMPROF_INTERVAL_MS=50".to_owned(),
        "MEMPROF_DUTY=1.5".to_owned(),
        "MEMPROF_EXACT=1".to_owned(),
        "MEMPROF_STACKS=0".to_owned(),
        "700".to_owned(),
    ] {
        assert!(said.lines().any(|said| said == line), "{line} in {said}");
    }
}

#[test]
fn what_was_preloaded_before_still_is() {
    let place = tempfile::tempdir().expect("a folder");
    let output = memprof(place.path())
        .env("LD_PRELOAD", "libm.so.6")
        .args(["run", "--", "sh", "-c", "echo $LD_PRELOAD"])
        .output()
        .expect("memprof runs");
    assert!(text(&output.stdout).trim().ends_with(":libm.so.6"), "{}", text(&output.stdout));
}

#[test]
fn when_nothing_is_recorded_the_reason_is_said_and_no_empty_folder_stays() {
    let place = tempfile::tempdir().expect("a folder");
    let output = run(place.path(), &["--", "true"]);
    let said = text(&output.stderr);
    assert!(said.contains("no rank recorded anything"), "{said}");
    assert!(said.contains("MPI_Init"), "{said}");
    assert!(left(place.path()).is_empty(), "{:?}", left(place.path()));
}

#[test]
fn folders_are_numbered_and_never_used_twice() {
    let place = tempfile::tempdir().expect("a folder");
    for _ in 0..2 {
        run(place.path(), &["--", "sh", "-c", "touch \"$MEMPROF_DIR/kept\""]);
    }
    let mut names = left(place.path());
    names.sort();
    assert_eq!(names, ["memprof-sh-1", "memprof-sh-2"]);
    let output = run(place.path(), &["-o", "memprof-sh-1", "--", "true"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("not empty"), "{}", text(&output.stderr));
}

#[test]
fn what_cannot_be_run_is_named_and_leaves_nothing() {
    let place = tempfile::tempdir().expect("a folder");
    let output = run(place.path(), &["--", "./absent", "x"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot run ./absent"), "{}", text(&output.stderr));
    let output = run(place.path(), &["--components", "absent.txt", "--", "true"]);
    assert!(text(&output.stderr).contains("cannot read absent.txt"));
    let output = run(place.path(), &["-o", "no/such/place", "--", "true"]);
    assert!(text(&output.stderr).contains("cannot use no/such/place"));
    let output = memprof(place.path())
        .env("MEMPROF_PRELOAD", "/nowhere/libmemprof_preload.so")
        .args(["run", "--", "true"])
        .output()
        .expect("memprof runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("looked for /nowhere/libmemprof_preload.so"));
    assert!(left(place.path()).is_empty(), "{:?}", left(place.path()));
}

#[test]
fn an_unwritable_folder_is_an_error_before_the_command_runs() {
    let place = tempfile::tempdir().expect("a folder");
    let output = run(place.path(), &["-o", "/proc/memprof", "--", "sh", "-c", "echo ran"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "");
}

#[test]
fn a_request_to_end_reaches_the_command() {
    let place = tempfile::tempdir().expect("a folder");
    // The command says that it is ready, and what it was asked.
    let script = "trap 'echo asked; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    let mut child = memprof(place.path())
        .args(["run", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("memprof runs");
    use std::io::{BufRead, BufReader};
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    assert_eq!(lines.next().expect("a line").expect("text"), "ready");
    let asked = Command::new("kill").arg(child.id().to_string()).status().expect("kill");
    assert!(asked.success());
    assert_eq!(lines.next().expect("a line").expect("text"), "asked");
    assert_eq!(child.wait().expect("ended").code(), Some(3));
}

#[test]
fn the_folder_is_private() {
    let place = tempfile::tempdir().expect("a folder");
    run(place.path(), &["-o", "mine", "--", "sh", "-c", "umask 0; touch \"$MEMPROF_DIR/x\""]);
    let mode = place.path().join("mine").metadata().expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn the_link_line_of_static_programs_needs_the_archive() {
    let place = tempfile::tempdir().expect("a folder");
    let archive = place.path().join("libmemprof_static.a");
    let ask = || {
        memprof(place.path())
            .arg("flags")
            .env("MEMPROF_ARCHIVE", &archive)
            .output()
            .expect("memprof runs")
    };
    let output = ask();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("MEMPROF_ARCHIVE"), "{}", text(&output.stderr));
    fs::write(&archive, "").expect("written");
    let line = text(&ask().stdout);
    assert!(line.contains(&format!("-L{} ", place.path().display())), "{line}");
    assert!(line.contains("-lmemprof_static"), "{line}");
}
