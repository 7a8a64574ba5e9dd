//! Sweeps over numbers of ranks: their findings in generated jobs, and how they resume after an
//! interruption.

use memprof_trace::generate::{self, JobShape};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn memprof() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memprof"));
    command.env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// Returns a coefficient of a component's law.
fn per_rank(document: &Value, component: &str) -> f64 {
    let growths = document["growths"].as_array().expect("components");
    let found = growths.iter().find(|growth| growth["name"] == component);
    let fit = &found.expect("the component")["fit"];
    assert_eq!(fit["law"], "linear", "{component}: {fit}");
    fit["per_rank"]["value"].as_f64().expect("bytes")
}

#[test]
fn what_ranks_keep_for_each_of_their_peers_is_found() {
    let place = tempfile::tempdir().expect("a folder");
    let folders = [4, 16, 32, 64].map(|ranks| {
        let folder = place.path().join(format!("n{ranks}"));
        let shape = JobShape {
            ranks,
            samples: 50,
            components: 12,
            file_size: 512 << 10,
            ..JobShape::default()
        };
        generate::job(&folder, &shape, &mut |_, _| {}).expect("a job");
        folder
    });
    for metric in ["resident", "owned"] {
        let output = memprof()
            .args(["sweep", "--json", "--metric", metric, "--from"])
            .args(&folders)
            .output()
            .expect("memprof runs");
        let document: Value = serde_json::from_str(&succeeded(&output)).expect("JSON");
        // Ranks of a generated job differ by some hundred KiB, which is little compared to 60 more
        // peers.
        for (component, bytes) in
            [("mpi.core:libmpi.so.40", 16384.0), ("mpi.dep:libopen-pal.so.40", 4096.0)]
        {
            let found = per_rank(&document, component);
            assert!((found / bytes - 1.0).abs() < 0.1, "{metric}, {component}: {found}");
        }
    }
}

/// Returns an object that every process has anyway: loading it changes nothing.
fn harmless() -> PathBuf {
    let maps = fs::read_to_string("/proc/self/maps").expect("maps");
    let line = maps.lines().find(|line| line.contains("/libc.so")).expect("a C library");
    line.split_ascii_whitespace().last().expect("its path").into()
}

/// A launcher that generates the traces of the ranks. Each start adds a line to `starts`; the first
/// start with four ranks waits for the end of its input once the traces exist.
const LAUNCHER: &str = r#"
echo "$1" >>starts
"$MEMPROF" generate -o "$MEMPROF_DIR" --ranks "$1" --samples 20 --file-size 524288 2>generated
if [ "$1" = 4 ] && [ ! -e waited ]; then
    : >waited
    echo waiting
    cat
    exit 1
fi
"#;

fn sweep(place: &Path) -> Command {
    fs::write(place.join("launcher"), LAUNCHER).expect("written");
    let mut command = memprof();
    command
        .current_dir(place)
        .env("MEMPROF", env!("CARGO_BIN_EXE_memprof"))
        .env("MEMPROF_PRELOAD", harmless())
        .env_remove("LD_PRELOAD")
        .args(["sweep", "-n", "2,4,8", "--mpirun", "sh launcher {n}", "-o", "out", "--json"])
        .args(["--", "./app"]);
    command
}

#[test]
fn launcher_help_shows_place_of_the_rank_count() {
    let help = succeeded(&memprof().args(["sweep", "--help"]).output().expect("memprof runs"));
    assert!(help.contains("mpirun -n {n}"), "{help}");
    assert!(!help.lines().any(|line| line.trim_start().starts_with("becomes")), "{help}");
}

/// Returns the study without its folders.
fn study(output: &Output) -> Value {
    let mut document: Value = serde_json::from_str(&succeeded(output)).expect("JSON");
    document.as_object_mut().expect("a study").remove("folders");
    document
}

#[test]
fn interrupted_sweep_goes_on_and_finds_the_same() {
    use std::io::{BufRead, BufReader};
    let undisturbed = tempfile::tempdir().expect("a folder");
    fs::write(undisturbed.path().join("waited"), "").expect("written");
    let expected = study(&sweep(undisturbed.path()).output().expect("memprof runs"));
    assert_eq!(expected["counts"], serde_json::json!([2, 4, 8]));
    for signal in ["TERM", "INT", "KILL"] {
        let place = tempfile::tempdir().expect("a folder");
        let mut child = sweep(place.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("memprof runs");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        assert_eq!(lines.next().expect("a line").expect("text"), "waiting");
        let id = child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{signal}"), &id]).status();
        assert!(sent.expect("kill").success());
        drop(child.stdin.take());
        assert!(!child.wait().expect("ended").success(), "{signal}");
        // The launcher has ended when its pipe is closed.
        assert!(lines.next().is_none(), "{signal}");
        assert!(!place.path().join("out/sweep.json").exists(), "{signal}");

        let again = sweep(place.path()).output().expect("memprof runs");
        assert_eq!(study(&again), expected, "{signal}");
        assert!(text(&again.stderr).contains("ranks-2 is there"), "{}", text(&again.stderr));
        let starts = fs::read_to_string(place.path().join("starts")).expect("starts");
        assert_eq!(starts.split_whitespace().collect::<Vec<_>>(), ["2", "4", "4", "8"], "{signal}");
    }
}
