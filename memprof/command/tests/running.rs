//! `memprof run`: its work around a command. The end-to-end suites test recording; here any object
//! can be loaded instead.

use memprof_trace::layout::{Geometry, Identity};
use memprof_trace::write::{Buffer, Writer};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Returns an object that every process has anyway: loading it changes nothing.
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
fn command_ended_by_a_signal_ends_us_by_it() {
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
            "--max-overhead",
            "1.5",
            "--exact",
            "--loop-interval=0.25",
            "--stacks",
            "0",
            "--sync-interval",
            "2.5",
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
        "MEMPROF_MAX_OVERHEAD=1.5".to_owned(),
        "MEMPROF_EXACT=1".to_owned(),
        "MEMPROF_MPI_TIME=1".to_owned(),
        "MEMPROF_LOOP_INTERVAL=0.25".to_owned(),
        "MEMPROF_STACKS=0".to_owned(),
        "MEMPROF_SYNC_INTERVAL=2.5".to_owned(),
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
fn empty_recording_names_the_reason_and_leaves_no_folder() {
    let place = tempfile::tempdir().expect("a folder");
    for options in [&["--", "true"][..], &["--quiet", "--", "true"]] {
        let output = run(place.path(), options);
        let said = text(&output.stderr);
        assert!(said.contains("no process recorded anything"), "{said}");
        assert!(said.contains("did not load the profiler"), "{said}");
        assert_eq!(output.status.code(), Some(0), "that of the command");
        assert!(left(place.path()).is_empty(), "{:?}", left(place.path()));
    }
    let output = run(place.path(), &["--quiet", "--", "false"]);
    assert_eq!(output.status.code(), Some(1), "that of the command");
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
    assert_eq!(output.status.code(), Some(127));
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
fn what_cannot_be_run_ends_as_in_a_shell() {
    let place = tempfile::tempdir().expect("a folder");
    fs::write(place.path().join("text"), "no program").expect("written");
    fs::write(place.path().join("damaged"), b"\x7fELF\0\0no program").expect("written");
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(place.path().join("damaged"), mode).expect("permitted");
    for (command, code) in
        [("absent-command", 127), ("", 127), ("./text", 126), ("./damaged", 126), (".", 126)]
    {
        let output = run(place.path(), &["-o", "out", "--", command]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{command}: {said}");
        assert!(said.starts_with(&format!("memprof: cannot run {command}: ")), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(!place.path().join("out").exists(), "{command}");
    }
}

#[test]
fn nonsense_is_refused_before_anything_is_done() {
    let place = tempfile::tempdir().expect("a folder");
    for (nonsense, named) in [
        (&["--"][..], "COMMAND"),
        (&["--interval", "0", "--", "true"], "--interval"),
        (&["--interval", "60001", "--", "true"], "--interval"),
        (&["--interval", "soon", "--", "true"], "--interval"),
        (&["--max-overhead", "0", "--", "true"], "--max-overhead"),
        (&["--max-overhead", "NaN", "--", "true"], "--max-overhead"),
        (&["--max-overhead", "101", "--", "true"], "--max-overhead"),
        (&["--stacks", "-5", "--", "true"], "-5"),
        (&["--sync-interval", "0", "--", "true"], "--sync-interval"),
        (&["--sync-interval", "inf", "--", "true"], "--sync-interval"),
        (&["--loop-interval=0", "--", "true"], "--loop-interval"),
        (&["--loop-interval=NaN", "--", "true"], "--loop-interval"),
        (&["--loop-interval=3601", "--", "true"], "--loop-interval"),
        (&["--no-such", "--", "true"], "--no-such"),
        (&["-o", "--", "true"], "--output"),
    ] {
        let output = run(place.path(), nonsense);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{nonsense:?}: {said}");
        assert!(said.contains(named), "{nonsense:?}: {said}");
        assert!(left(place.path()).is_empty(), "{nonsense:?}");
    }
}

#[test]
fn unusable_components_file_is_reported_before_the_start() {
    let place = tempfile::tempdir().expect("a folder");
    for (file, why) in [("absent.txt", "cannot read absent.txt"), (".", "is not a file")] {
        let output = run(place.path(), &["--components", file, "--", "sh", "-c", "echo ran"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "");
        assert!(left(place.path()).is_empty());
    }
}

#[test]
fn existing_empty_folder_stays_when_nothing_was_recorded() {
    let place = tempfile::tempdir().expect("a folder");
    fs::create_dir(place.path().join("mine")).expect("made");
    for command in ["true", "./absent"] {
        run(place.path(), &["-o", "mine", "--", command]);
        assert_eq!(left(place.path()), ["mine"]);
    }
}

#[test]
fn ranks_without_a_trace_are_named_with_the_reason() {
    let place = tempfile::tempdir().expect("a folder");
    // Files left by ranks without room for a trace.
    let script = "for rank in 0 2; do : >\"$MEMPROF_DIR/node.1$rank.99.$rank.28.missing\"; done";
    let said = text(&run(place.path(), &["-o", "out", "--", "sh", "-c", script]).stderr);
    assert!(said.contains("in rank 0, 2: No space left on device"), "{said}");
    let said = text(&run(place.path(), &["--", "sh", "-c", "rmdir \"$MEMPROF_DIR\""]).stderr);
    assert!(said.contains("is gone"), "{said}");
}

#[test]
fn folder_path_too_long_for_ranks_is_refused() {
    let place = tempfile::tempdir().expect("a folder");
    let deep = ["x"; 6].map(|name| name.repeat(200)).join("/");
    fs::create_dir_all(place.path().join(&deep)).expect("made");
    let output = run(place.path(), &["-o", &format!("{deep}/out"), "--", "true"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("longer than 1023"), "{}", text(&output.stderr));
    assert!(!place.path().join(deep).join("out").exists());
}

#[test]
fn a_display_that_nobody_looks_at_any_more_ends() {
    let place = tempfile::tempdir().expect("a folder");
    let made = memprof(place.path()).args(["generate", "-o", "job", "--ranks", "2"]).output();
    assert!(made.expect("memprof runs").status.success());
    // A file that never becomes a trace does not delay the display either.
    fs::write(place.path().join("job/empty.memprof"), "").expect("written");
    let live = ["live", "job", "--interval", "0.05"];
    let output = memprof(place.path()).args(live).output().expect("memprof runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("cannot be read yet"), "{}", text(&output.stdout));
    // One rank that still runs on another machine, as far as is known here.
    let mut open = Buffer::new(1 << 20);
    let geometry = Geometry::for_file(1 << 20).expect("it fits");
    Writer::create(open.bytes_mut(), &Identity::default(), &geometry).expect("a trace");
    fs::write(place.path().join("job/open.memprof"), open.bytes()).expect("written");
    let mut child = memprof(place.path())
        .args(live)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("memprof runs");
    drop(child.stdout.take());
    assert!(child.wait().expect("ended").success());
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
    // The command prints that it is ready, and that it was asked to end.
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

#[test]
fn file_of_components_with_mistakes_is_refused_before_the_launch() {
    let place = tempfile::tempdir().expect("a folder");
    fs::write(place.path().join("parts"), "lib*.so app.lib # fine\nlibx.so\nliby.so kernel\n")
        .expect("file");
    let output = run(place.path(), &["--components", "parts", "--", "touch", "ran"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("parts:2: a line is PATTERN CLASS[:NAME]"), "{said}");
    assert!(said.contains("parts:3: no such class for objects"), "{said}");
    assert_eq!(left(place.path()), ["parts"]);
}
