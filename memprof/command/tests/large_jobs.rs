//! A thousand ranks: each command takes hardly more memory than with fifty.
#![allow(unsafe_code)] // Asks the kernel for the peak of one process.

use memprof_trace::generate::{self, JobShape};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

const FEW: u32 = 50;
const MANY: u32 = 1000;
const SAMPLES: u32 = 48;
const MIB: u64 = 1 << 20;

/// Generates a job in which each rank has far more data than the memory allowed here: no trace may
/// be kept in memory.
fn job(place: &Path, ranks: u32) -> PathBuf {
    let folder = place.join(format!("ranks-{ranks}"));
    let shape = JobShape {
        ranks,
        nodes: ranks / 25,
        samples: SAMPLES,
        components: 12,
        file_size: 512 << 10,
        times: true,
        ..JobShape::default()
    };
    generate::job(&folder, &shape, &mut |_, _| {}).expect("a job");
    folder
}

/// Runs the command with limited processor time, and returns its peak of resident bytes.
#[allow(clippy::zombie_processes)] // Reaped by hand, for its usage.
fn peak(place: &Path, arguments: &[&str]) -> u64 {
    let said = place.join("said");
    let error = std::fs::File::create(&said).expect("a file");
    let child = Command::new("sh")
        .args(["-c", "ulimit -t 60; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_memprof")])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(error)
        .spawn()
        .expect("memprof runs");
    let id = libc::pid_t::try_from(child.id()).expect("a process");
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both are written, and the child is reaped only here; zeros are a valid usage.
    let (reaped, usage) = unsafe {
        let reaped = libc::wait4(id, &raw mut status, 0, usage.as_mut_ptr());
        (reaped, usage.assume_init())
    };
    let said = std::fs::read_to_string(&said).unwrap_or_default();
    assert_eq!((reaped, status), (id, 0), "{arguments:?}: {said}");
    u64::try_from(usage.ru_maxrss).expect("a size") << 10
}

/// A command on a folder, its output if any, and the bytes by which the larger job may take more.
struct Case {
    words: &'static str,
    output: Option<&'static str>,
    more: u64,
}

const fn case(words: &'static str, output: Option<&'static str>, more: u64) -> Case {
    Case { words, output, more: more * MIB }
}

/// `JOB` stands for the folder. A JSON report contains all data of each rank, and a comparison two
/// jobs.
const CASES: &[Case] = &[
    case("diff JOB JOB --json", None, 48),
    case("export JOB --format json -o", Some("json"), 32),
    case("export JOB --format perfetto -o", Some("perfetto"), 32),
    case("export JOB --format csv -o", Some("csv"), 32),
    case("export JOB --format pprof -o", Some("pprof"), 32),
    case("export JOB --format massif -o", Some("massif"), 32),
    case("report JOB --json", None, 48),
    case("report JOB", None, 32),
    case("report JOB --sites", None, 32),
    case("report JOB --html", Some("html"), 32),
    case("report JOB --svg", Some("svg"), 32),
    case("time JOB", None, 32),
    case("time JOB --ranks", None, 32),
    case("time JOB --loops", None, 32),
    case("time JOB --json", None, 32),
    case("time JOB --html", Some("html"), 32),
    case("sweep --from FEW JOB", None, 32),
    case("live --once JOB", None, 32),
    case("live --once --json JOB", None, 32),
];

#[test]
fn no_command_takes_a_whole_traces_memory_per_rank() {
    let place = tempfile::tempdir().expect("a folder");
    let (few, many) = (job(place.path(), FEW), job(place.path(), MANY));
    let next = AtomicUsize::new(0);
    let work = |at: usize| {
        let case = &CASES[at];
        let own = place.path().join(format!("own-{at}"));
        std::fs::create_dir(&own).expect("a folder");
        let output = case.output.map(|name| own.join(name));
        let [little, much] = [&few, &many].map(|folder| {
            let word = |word| match word {
                "JOB" => folder.to_str().expect("UTF-8"),
                "FEW" => few.to_str().expect("UTF-8"),
                word => word,
            };
            let mut arguments: Vec<&str> = case.words.split(' ').map(word).collect();
            arguments.extend(output.as_deref().and_then(Path::to_str));
            peak(&own, &arguments)
        });
        let more = much.saturating_sub(little);
        assert!(
            more <= case.more,
            "{}: {} KiB at {FEW} ranks, {} KiB at {MANY}",
            case.words,
            little >> 10,
            much >> 10
        );
        match case.output {
            Some("csv") => {
                let csv = std::fs::read_to_string(own.join("csv")).expect("the values");
                assert!(csv.lines().any(|line| line.starts_with("999,")));
                assert!(csv.lines().count() > (MANY * SAMPLES * 10) as usize);
            }
            Some("html") => {
                let page = std::fs::read_to_string(own.join("html")).expect("the page");
                assert!(page.len() < 3 << 20, "{}: {} bytes", case.words, page.len());
                let elements = page.matches("</").count() + page.matches("/>").count();
                assert!(elements < 12_000, "{}: {elements} elements", case.words);
            }
            _ => {}
        }
        std::fs::remove_dir_all(&own).expect("removed");
    };
    // Two at a time, the longest first.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= CASES.len() {
                        break;
                    }
                    work(at);
                }
            });
        }
    });
}
