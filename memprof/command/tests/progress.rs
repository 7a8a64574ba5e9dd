//! Long work shows its progress on a terminal, removes it at the end, and is silent elsewhere.

use memprof_trace::generate::{self, JobShape};
use quo_tests::suite::skip;
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn job(place: &Path, ranks: u32) -> String {
    let folder = place.join(format!("ranks-{ranks}"));
    let shape = JobShape {
        ranks,
        nodes: 8,
        samples: 10,
        components: 12,
        file_size: 512 << 10,
        ..JobShape::default()
    };
    generate::job(&folder, &shape, &mut |_, _| {}).expect("a job");
    folder.to_str().expect("UTF-8").to_owned()
}

/// Stops the process most of the time, for this many turns or until `done`: this makes short work
/// long on any machine.
fn hold_back(process: Pid, turns: usize, done: &AtomicBool) {
    for _ in 0..turns {
        if done.load(Ordering::Relaxed) || kill_process(process, Signal::STOP).is_err() {
            break;
        }
        // Sleeps: the process must be stopped for some time.
        std::thread::sleep(Duration::from_millis(50));
        let _ = kill_process(process, Signal::CONT);
        // Sleeps: gives the process some time.
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the standard error of a command of memprof, on a terminal or not, while it is held back
/// for this many turns or until it has printed a word.
fn said(words: &str, terminal: bool, turns: usize, until: &str) -> String {
    let memprof = env!("CARGO_BIN_EXE_memprof");
    // The shell stays between them, because `script` stops when its child is stopped.
    let script = format!(
        "ulimit -t 60; {memprof} {words} >/dev/null & echo process $!. >&2; wait $!; echo status $? >&2"
    );
    let mut command = Command::new(if terminal { "script" } else { "sh" });
    match terminal {
        true => command.args(["-qec", &script, "/dev/null"]),
        false => command.args(["-c", &format!("exec 2>&1; {script}")]),
    };
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the command starts");
    let mut out = child.stdout.take().expect("piped");
    let done = AtomicBool::new(false);
    let mut bytes = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    std::thread::scope(|scope| {
        let mut found = false;
        let mut some = [0; 4096];
        while let Ok(count @ 1..) = out.read(&mut some) {
            bytes.extend_from_slice(&some[..count]);
            let all = text(&bytes);
            let process = all.split_once("process ").and_then(|(_, rest)| rest.split_once('.'));
            if let (false, Some((process, _))) = (found, process) {
                found = true;
                let process = Pid::from_raw(process.parse().expect("a number")).expect("a process");
                scope.spawn({
                    let done = &done;
                    move || hold_back(process, turns, done)
                });
            }
            if all.contains(until) {
                done.store(true, Ordering::Relaxed);
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    child.wait().expect("ended");
    let all = text(&bytes);
    let (_, rest) = all.split_once("process ").expect("a process");
    let (_, rest) = rest.split_once('\n').expect("a line");
    let (said, _) = rest.split_once("status 0").unwrap_or_else(|| panic!("it failed: {rest}"));
    said.to_owned()
}

/// Returns the content of a screen after this output.
fn screen(text: &str) -> String {
    let mut lines = vec![Vec::new()];
    let mut column = 0;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        let line: &mut Vec<char> = lines.last_mut().expect("a line");
        match letter {
            '\r' => column = 0,
            '\n' => lines.push(Vec::new()),
            '\x1b' => {
                assert_eq!(letters.by_ref().take(2).collect::<String>(), "[K", "{text:?}");
                line.truncate(column);
            }
            letter => {
                line.resize(line.len().max(column + 1), ' ');
                line[column] = letter;
                column += 1;
            }
        }
    }
    let lines = lines.iter().map(|line| line.iter().collect::<String>());
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// Returns the completed numbers out of `total`, in order.
fn done_of(said: &str, total: usize) -> Vec<usize> {
    let end = format!("/{total}");
    let parts = said.split('\r').filter_map(|part| part.split_once(&*end));
    let numbers = parts.map(|(before, _)| before.rsplit(' ').next().expect("a word").parse());
    numbers.collect::<Result<_, _>>().expect("numbers")
}

fn long_work_shows_and_clears_its_progress_on_a_terminal() {
    if Command::new("script").arg("--version").output().is_err() {
        skip("there is no script, which makes terminals");
    }
    let place = tempfile::tempdir().expect("a folder");
    let folder = job(place.path(), 1000);
    let small = job(place.path(), 60);
    let file = place.path().join("file").to_str().expect("UTF-8").to_owned();
    for (words, parts, left) in [
        (format!("report {folder}"), vec![("reading", 1000)], ""),
        (
            format!("export {folder} --format csv -o {file}"),
            vec![("reading", 1000), ("exporting", 1000)],
            "memprof: wrote",
        ),
        (
            format!("diff {folder} {folder}"),
            vec![("reading the job before", 1000), ("reading the job after", 1000)],
            "",
        ),
        (
            format!("sweep --from {folder} {small} {folder}"),
            vec![
                ("reading job 1 of 3", 1000),
                ("reading job 2 of 3", 60),
                ("reading job 3 of 3", 1000),
            ],
            "memprof: fewer than three numbers of ranks: no law can be tested",
        ),
        (
            format!("generate -o {file}.made --ranks 1000 --samples 10 --file-size 524288"),
            vec![("making", 1000)],
            "memprof: made",
        ),
    ] {
        let said = said(&words, true, 100, parts[0].0);
        let mut rest = &*said;
        for (at, (name, total)) in parts.iter().enumerate() {
            let begin =
                rest.find(&format!("\r{name} ")).unwrap_or_else(|| panic!("{words}: {said:?}"));
            rest = &rest[begin..];
            let end = parts.get(at + 1).and_then(|(next, _)| rest.find(&format!("\r{next} ")));
            let numbers = done_of(&rest[..end.unwrap_or(rest.len())], *total);
            assert!(numbers.is_sorted() && numbers.iter().all(|done| done <= total), "{numbers:?}");
            // Each per cent at most once.
            assert!(!numbers.is_empty() && numbers.len() <= 101, "{words}: {numbers:?}");
        }
        let screen = screen(&said);
        assert!(screen.starts_with(left) && !screen.contains('█'), "{words}: {screen}");
        assert_eq!(screen.lines().count(), usize::from(!left.is_empty()), "{words}: {screen}");
    }
}

fn long_work_shows_no_progress_without_a_terminal() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = job(place.path(), 1000);
    let file = place.path().join("file").to_str().expect("UTF-8").to_owned();
    for (words, left) in [
        (format!("report {folder}"), ""),
        (format!("export {folder} --format csv -o {file}"), "memprof: wrote"),
    ] {
        let said = said(&words, false, 20, "no such word");
        assert!(said.starts_with(left), "{words}: {said}");
        assert_eq!(said.lines().count(), usize::from(!left.is_empty()), "{words}: {said}");
        assert!(!said.contains(['\r', '\x1b', '█']), "{words}: {said:?}");
    }
}

quo_tests::suite! {
    long_work_shows_and_clears_its_progress_on_a_terminal
    long_work_shows_no_progress_without_a_terminal
}
