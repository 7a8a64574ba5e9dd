//! Folders, sockets and jobs that the command believes, and the text of them that reaches the
//! terminal.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // A test that cannot go on has failed; a child says that it listens.

use quo_tests::suite::skip;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const NOBODY: u32 = 65534;
/// The path at which the child of a test listens.
const LISTEN: &str = "QUO_ELASTIC_TEST_LISTEN";
const HOST: &str = "\u{1b}[31mEVIL\u{9b}2J\u{7f}\u{202e}\n";

/// The answer of an impostor's job.
fn answer() -> Vec<u8> {
    let status = serde_json::json!({"status": {
        "job": HOST, "epoch": 7, "size": 1000, "capacity": 2000, "waiting": 0, "next_event": 1, "up_us": 1,
        "hosts": [{"host": HOST, "slots": 4, "ranks": [0]}], "log_trouble": HOST,
    }});
    (status.to_string() + "\n").into_bytes()
}

/// Answers each line until it gets an empty one.
fn serve(listener: UnixListener, answer: Vec<u8>) -> std::thread::JoinHandle<usize> {
    std::thread::spawn(move || {
        let mut heard = 0;
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if line == "\n" {
                break;
            }
            if !line.is_empty() {
                heard += 1;
                // The command may have exited.
                let _ = reader.get_mut().write_all(&answer);
            }
        }
        heard
    })
}

fn end(socket: &Path, server: std::thread::JoinHandle<usize>) -> usize {
    UnixStream::connect(socket).unwrap().write_all(b"\n").unwrap();
    server.join().unwrap()
}

fn private(folder: PathBuf) -> PathBuf {
    DirBuilder::new().mode(0o700).create(&folder).unwrap();
    folder
}

fn quo_elastic(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quo-elastic"));
    command.args(words).env_remove("QUO_ELASTIC_DIR").env_remove("XDG_RUNTIME_DIR");
    command
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    text(&output.stdout) + &text(&output.stderr)
}

fn needs_root() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        skip("only root can be another user");
    }
}

fn control_characters_of_jobs_never_reach_the_terminal() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = private(scratch.path().join("sockets"));
    let socket = folder.join("weather.sock");
    let refusal =
        serde_json::json!({"refused": {"request": 1, "cause": {"kind": "other", "detail": HOST}}});
    for answer in [answer(), (refusal.to_string() + "\n").into_bytes()] {
        let server = serve(UnixListener::bind(&socket).unwrap(), answer.clone());
        for words in [
            &["status", "weather"][..],
            &["--json", "status", "weather"],
            &["list"],
            &["--json", "list"],
        ] {
            let output = quo_elastic(words).env("QUO_ELASTIC_DIR", &folder).output().unwrap();
            let said = said(&output);
            let steers = |c: char| c != '\n' && c.is_control() || c == '\u{202e}';
            assert!(!said.contains(steers), "{words:?}: {said:?}");
            if words[0] == "--json" && !output.stdout.is_empty() {
                let own: Value = serde_json::from_slice(&output.stdout).unwrap();
                assert_eq!(own, serde_json::from_slice::<Value>(&answer).unwrap());
            }
        }
        end(&socket, server);
        fs::remove_file(&socket).unwrap();
    }
}

fn folder_of_another_user_is_not_believed() {
    needs_root();
    let scratch = tempfile::tempdir().unwrap();
    let folder = private(scratch.path().join("sockets"));
    let socket = folder.join("weather.sock");
    let server = serve(UnixListener::bind(&socket).unwrap(), answer());
    chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
    for words in [&["status", "weather"][..], &["grow", "weather", "1"], &["list"]] {
        let output = quo_elastic(words).env("QUO_ELASTIC_DIR", &folder).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(said(&output).contains("belongs to another user"), "{output:?}");
    }
    assert_eq!(end(&socket, server), 0);
}

fn listener_of_another_user_is_not_believed() {
    if let Some(path) = std::env::var_os(LISTEN) {
        let _listener = UnixListener::bind(path).unwrap();
        println!("listens");
        let _ = std::io::stdin().read(&mut [0]);
        return;
    }
    needs_root();
    let scratch = tempfile::tempdir().unwrap();
    fs::set_permissions(scratch.path(), Permissions::from_mode(0o755)).unwrap();
    // At a path that the other user can reach.
    let program = scratch.path().join("test");
    // Copied by another process: a child forked by another test meanwhile would keep a file of this
    // process open for writing, and it could not be executed.
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program).status();
    assert!(copied.unwrap().success());
    let folder = private(scratch.path().join("sockets"));
    let socket = folder.join("weather.sock");
    chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut child = Command::new(&program)
        .args(["--exact", "listener_of_another_user_is_not_believed", "--nocapture"])
        .env(LISTEN, &socket)
        .uid(NOBODY)
        .gid(NOBODY)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("listens")));
    chown(&folder, Some(0), Some(0)).unwrap();
    chown(&socket, Some(0), Some(0)).unwrap();
    let by_name = quo_elastic(&["status", "weather"]).env("QUO_ELASTIC_DIR", &folder).output();
    let by_path = quo_elastic(&["status", socket.to_str().unwrap()]).output();
    for output in [by_name.unwrap(), by_path.unwrap()] {
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let expected = "is not trusted: it belongs to another user (number 65534)";
        assert!(said(&output).contains(expected), "{output:?}");
    }
    drop(child.stdin.take());
    lines.for_each(drop);
    assert!(child.wait().unwrap().success());
}

fn paths_and_strange_words_are_not_job_names() {
    for job in ["../../etc", "/etc", "/", ".hidden", "", "a b", "\u{1b}[31m"] {
        let output = quo_elastic(&["status", job]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let expected = format!("{job:?} is not a job name, nor the path of a control socket");
        assert!(said(&output).contains(&expected), "{output:?}");
    }
}

fn runtime_folder_jobs_are_found_and_dead_ones_swept() {
    let scratch = tempfile::tempdir().unwrap();
    let runtime = private(scratch.path().join("runtime"));
    let folder = private(runtime.join("quo-elastic"));
    let (socket, dead) = (folder.join("weather.sock"), folder.join("dead.sock"));
    let server = serve(UnixListener::bind(&socket).unwrap(), answer());
    let tell = |words: &[&str], status| {
        let output = quo_elastic(words).env("XDG_RUNTIME_DIR", &runtime).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        said(&output)
    };
    drop(UnixListener::bind(&dead).unwrap());
    // Other jobs of this user may be listed, too.
    let listed = tell(&["list"], 0);
    assert!(
        listed.contains("weather: 1000 of 2000 ranks\n") && !listed.contains("dead"),
        "{listed}"
    );
    assert!(!dead.exists());
    drop(UnixListener::bind(&dead).unwrap());
    assert!(tell(&["status", "dead"], 1).contains("job \"dead\" was killed"));
    assert!(tell(&["status", "dead"], 1).contains("there is no job \"dead\""));
    tell(&["status", "weather"], 0);
    // In a folder that is open to others any user may have made the socket.
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    assert!(tell(&["status", "weather"], 1).contains("there is no job \"weather\""));
    end(&socket, server);
}

quo_tests::suite! {
    control_characters_of_jobs_never_reach_the_terminal
    folder_of_another_user_is_not_believed
    listener_of_another_user_is_not_believed
    paths_and_strange_words_are_not_job_names
    runtime_folder_jobs_are_found_and_dead_ones_swept
}
