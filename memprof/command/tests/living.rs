//! `memprof live`: a screen on a terminal, and the end when the reader is gone.

use memprof_trace::Text;
use memprof_trace::layout::{Class, ComponentRow, Geometry, Identity, SummaryHead, SummaryRow};
use memprof_trace::write::{Buffer, Writer};
use quo_tests::suite::skip;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The profiler's own part of the 5 MiB in ranks of these tests.
const TOOL: u64 = 1 << 20;
const LIMIT: Duration = Duration::from_secs(60);

/// Generates a rank on another machine, whose end cannot be detected; with or without a sample.
fn rank(folder: &Path, number: i32, size: i32, is_sampled: bool) {
    let bytes = Geometry::SMALLEST_FILE;
    let mut memory = Buffer::new(bytes);
    let identity = Identity {
        rank: number,
        size,
        pid: 1000 + number as u32,
        boot_id: [7; 16],
        host: Text::new("elsewhere"),
        program: Text::new("/bin/solver"),
        ..Identity::default()
    };
    let geometry = Geometry::for_file(bytes).expect("a geometry");
    let mut writer = Writer::create(memory.bytes_mut(), &identity, &geometry).expect("a writer");
    let tool = ComponentRow { class: Class::Tool as u8, ..ComponentRow::default() };
    writer.set_component(1, &tool);
    writer.set_flags(memprof_trace::layout::flags::MPI_SEEN, 0);
    if is_sampled {
        let held = 5 << 20;
        let head = SummaryHead {
            time: 1,
            walked: held,
            peak: held,
            kernel_resident: held,
            ..SummaryHead::default()
        };
        let row = |held| SummaryRow {
            resident: held,
            resident_peak: held,
            resident_at_peak: held,
            ..SummaryRow::default()
        };
        writer.publish_summary(&head, &[row(held - TOOL), row(TOOL)]);
    }
    std::fs::write(folder.join(format!("rank-{number}.memprof")), memory.bytes()).expect("written");
}

/// Waits for the command to end successfully.
fn ends_well(child: &mut Child) {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(status) = child.try_wait().expect("a state") {
            assert!(status.success(), "it ended with {status}");
            return;
        }
        if Instant::now() > end {
            let _ = child.kill();
            let _ = child.wait();
            panic!("it does not end");
        }
        // Sleeps: another process works in the meantime.
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn live_ends_when_its_reader_has_gone_while_it_waits() {
    let folder = tempfile::tempdir().expect("a folder");
    let ranks = tempfile::tempdir().expect("a folder");
    rank(ranks.path(), 0, 1, true);
    for (folder, option, value) in [(&folder, "--timeout", "1000"), (&ranks, "--interval", "3600")]
    {
        let mut child = Command::new(env!("CARGO_BIN_EXE_memprof"))
            .args(["live", option, value])
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("memprof runs");
        drop(child.stdout.take());
        ends_well(&mut child);
    }
}

fn ranks_without_a_sample_are_left_out_of_figures() {
    let folder = tempfile::tempdir().expect("a folder");
    rank(folder.path(), 0, 2, true);
    rank(folder.path(), 1, 2, false);
    let shown = |command: &[&str]| {
        let mut all = Command::new(env!("CARGO_BIN_EXE_memprof"));
        let output = all.args(command).arg(folder.path()).output().expect("memprof runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let live = shown(&["live", "--once"]);
    let line = live.lines().find(|line| line.starts_with('1')).expect("the rank");
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(cells[cells.len() - 4..], ["-", "open,", "no", "sample"], "{live}");
    assert!(!line.contains("0 B"), "{live}");
    let look: Value = serde_json::from_str(&shown(&["live", "--once", "--json"])).expect("JSON");
    assert_eq!(
        (&look["resident"], &look["ranks"][0]["resident"]),
        (&json!(5 << 20), &json!(5 << 20))
    );
    for field in ["resident", "unattributed", "peak", "groups"] {
        assert!(look["ranks"][1].get(field).is_some_and(Value::is_null), "{field}: {look}");
    }
    let unseen: Value =
        serde_json::from_str(&shown(&["report", "--json", "--rank", "1"])).expect("JSON");
    for field in ["totals", "peak", "kernel_peak"] {
        assert!(unseen.get(field).is_some_and(Value::is_null), "{field}: {unseen}");
    }
    let exported: Value =
        serde_json::from_str(&shown(&["export", "--format", "json"])).expect("JSON");
    assert!(exported["ranks"][1].get("peak").is_some_and(Value::is_null), "{exported}");
    let report = shown(&["report"]);
    assert!(report.contains("rank 1: no sample is left"), "{report}");
    assert!(report.contains("tool: 1.00 MiB in each rank are the profiler's"), "{report}");
    let sum = report.lines().find(|line| line.starts_with("all")).expect("the sum");
    assert_eq!(sum.matches("5.00 MiB").count(), 3, "{report}");
}

/// Runs a display on a terminal of this many lines, until it has shown this many frames.
fn on_a_terminal(folder: &Path, lines: u32, frames: usize) -> Option<String> {
    // A user who starts tests in the background makes processes ignore the key.
    let command = format!(
        "stty rows {lines} cols 80; exec env --default-signal=INT {} live --interval 0.05 {}",
        env!("CARGO_BIN_EXE_memprof"),
        folder.display()
    );
    let mut child = Command::new("script")
        .args(["-qefc", &command, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut out = child.stdout.take().expect("piped");
    let (sender, receiver) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut some = [0; 4096];
        while let Ok(count @ 1..) = out.read(&mut some) {
            if sender.send(some[..count].to_vec()).is_err() {
                break;
            }
        }
    });
    let mut said = Vec::new();
    let is_enough = |said: &[u8]| String::from_utf8_lossy(said).matches("\x1b[H").count() >= frames;
    while !is_enough(&said) {
        said.extend(receiver.recv_timeout(LIMIT).expect("a frame"));
    }
    // As a user ends it.
    let mut keys = child.stdin.take().expect("piped");
    keys.write_all(b"\x03").expect("a key");
    while let Ok(more) = receiver.recv_timeout(LIMIT) {
        said.extend(more);
    }
    drop(keys);
    ends_well(&mut child);
    reader.join().expect("read");
    Some(String::from_utf8_lossy(&said).into_owned())
}

fn display_on_a_terminal_does_not_scroll() {
    let folder = tempfile::tempdir().expect("a folder");
    (0..40).for_each(|number| rank(folder.path(), number, 40, true));
    let Some(said) = on_a_terminal(folder.path(), 14, 3) else {
        skip("there is no script, which makes terminals");
    };
    let (_, rest) = said.split_once("\x1b[?1049h").expect("the second screen");
    let (screen, _) = rest.split_once("\x1b[?1049l").expect("the first screen comes back");
    let mut frames: Vec<&str> = screen.split("\x1b[H").skip(1).collect();
    // The last frame may have been cut off by the end.
    frames.pop();
    assert!(frames.len() >= 2, "{said:?}");
    for frame in frames {
        assert!(frame.matches('\n').count() < 14, "{frame:?}");
        assert!(frame.contains("solver") && frame.contains("34 more"), "{frame:?}");
        assert!(frame.contains("unattributed"), "the last line: {frame:?}");
    }
}

quo_tests::suite! {
    live_ends_when_its_reader_has_gone_while_it_waits
    ranks_without_a_sample_are_left_out_of_figures
    display_on_a_terminal_does_not_scroll
}
