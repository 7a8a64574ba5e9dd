//! Traces of real programs: everything resident has an owner, and the sum is the kernel's.

use quo_tests::suite::skip;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use memprof_trace::layout::flags;
use memprof_trace::read::Trace;

fn preload() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    let folder = test.parent().and_then(Path::parent).expect("a build folder");
    let object = folder.join("libmemprof_preload.so");
    assert!(object.exists(), "{} is missing: build the workspace first", object.display());
    object
}

fn compiled(into: &Path, compiler: &str, source: &str) -> PathBuf {
    let program = into.join(Path::new(source).with_extension(""));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    match Command::new(compiler).args(["-O1", "-pthread", "-o"]).arg(&program).arg(source).status()
    {
        Ok(status) => {
            assert!(status.success(), "{compiler} failed");
            program
        }
        Err(_) => skip(format!("there is no {compiler}")),
    }
}

/// Returns a command whose processes are all recorded.
fn recorded(program: impl AsRef<std::ffi::OsStr>, into: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env("LD_PRELOAD", preload())
        .env("MEMPROF_DIR", into)
        .env("MEMPROF_RECORD", "all")
        .stdin(Stdio::null());
    command
}

fn traces(folder: &Path) -> Vec<Trace> {
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "memprof"))
        .collect();
    paths.sort();
    let open = |path: &PathBuf| {
        let mode = std::fs::metadata(path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "nobody else may read it");
        Trace::open(path).expect("a trace")
    };
    paths.iter().map(open).collect()
}

/// Returns the trace of a program.
fn trace_of<'t>(traces: &'t [Trace], name: &str) -> &'t Trace {
    let has = |trace: &&Trace| {
        String::from_utf8_lossy(trace.identity.program.as_bytes()).rsplit('/').next() == Some(name)
    };
    traces.iter().find(has).unwrap_or_else(|| panic!("no trace of {name}"))
}

/// Returns a component's current and peak resident bytes, by its name in reports.
fn resident(trace: &Trace, name: &str) -> (u64, u64) {
    let summary = trace.summary.as_ref().expect("a summary");
    (0..summary.rows.len())
        .filter(|&index| trace.component_name(index) == name)
        .map(|index| (summary.rows[index].resident, summary.rows[index].resident_peak))
        .next()
        .unwrap_or((0, 0))
}

fn wait(child: &mut Child) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if child.try_wait().expect("a state").is_some() {
            return;
        }
        assert!(Instant::now() < end, "the program does not end");
        // Sleeps: another process works in the meantime.
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the time for which the profiler's thread, if it exists, was ready to run and had no
/// processor.
fn waited(process: u32) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let is_it = |task: &PathBuf| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "memprof")
    };
    let Some(task) = tasks.flatten().map(|task| task.path()).find(is_it) else {
        return Duration::ZERO;
    };
    let text = std::fs::read_to_string(task.join("schedstat")).expect("the kernel tells");
    let nanoseconds = text.split_whitespace().nth(1).expect("a number").parse();
    Duration::from_nanos(nanoseconds.expect("a number"))
}

/// Checks that all memory has an owner, and that the sum of all owners is the kernel's count.
fn check_balance(trace: &Trace) {
    let head = &trace.summary.as_ref().expect("a summary").head;
    let walked = head.walked - head.page_tables - head.hugetlb;
    let page = 4096;
    // The kernel's own figure is read a moment later.
    assert!(
        walked.abs_diff(head.kernel_resident) <= 16 * page,
        "walked {walked}, the kernel says {}",
        head.kernel_resident
    );
    assert!(
        head.unattributed * 100 <= head.walked,
        "{} of {} unattributed",
        head.unattributed,
        head.walked
    );
    assert!(trace.faults.is_empty(), "{:?}", trace.faults);
}

fn mappings_have_owners_and_their_sum_is_the_kernels() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(folder.path(), "cc", "mappings.c");
    let mut child = recorded(&program, folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut said = String::new();
    let mut output = std::io::BufReader::new(child.stdout.take().expect("its output"));
    std::io::BufRead::read_line(&mut output, &mut said).expect("a line");
    assert_eq!(said.trim(), "ready", "it has touched all and taken a sample");
    let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", child.id()));
    let all = traces(folder.path());
    drop(child.stdin.take());
    wait(&mut child);
    let trace = trace_of(&all, "mappings");
    check_balance(trace);
    let head = &trace.summary.as_ref().expect("a summary").head;
    if let Ok(rollup) = rollup {
        let line = rollup.lines().find(|line| line.starts_with("Rss:")).expect("a line");
        let digits: String = line.chars().filter(char::is_ascii_digit).collect();
        let kernel: u64 = digits.parse::<u64>().expect("a number") * 1024;
        let walked = head.walked - head.page_tables - head.hugetlb;
        // Pages of its file that the sampler touches after its walk.
        assert!(walked <= kernel && kernel - walked <= 64 * 4096, "{walked} {kernel}");
    }
    let mib = 1 << 20;
    let own = resident(trace, "app.exe:mappings").0;
    // Blocks of 24 MiB, private memory of 5 MiB, and the program itself.
    assert!((29 * mib..29 * mib + 300_000).contains(&own), "{own}");
    let shared = resident(trace, "app.shm").0;
    assert_eq!(shared, 3 * mib + 2 * mib, "shared memory of both kinds");
    let stack = resident(trace, "stack:mappings").0;
    assert!((mib..mib + 65536).contains(&stack), "{stack}");
    let main = resident(trace, "stack:main").0;
    assert!((2 * mib..2 * mib + 200_000).contains(&main), "{main}");
}

fn momentary_buffer_is_seen_before_its_release() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(folder.path(), "cc", "moments.c");
    assert!(recorded(&program, folder.path()).status().expect("it runs").success());
    let all = traces(folder.path());
    let trace = trace_of(&all, "moments");
    check_balance(trace);
    let (_, peak) = resident(trace, "app.exe:moments");
    let mib = 1 << 20;
    // One block of 40 MiB at a time, alternately from malloc and from mmap.
    assert!((40 * mib..40 * mib + 500_000).contains(&peak), "{peak}");
    let head = &trace.summary.as_ref().expect("a summary").head;
    assert!(head.samples_release >= 1);
    assert!(head.releases_skipped + head.samples_release >= 100 && head.samples_release < 20);
}

fn program_linked_to_an_allocator_has_a_note() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(
        path("linked.c"),
        "#include <stdlib.h>\nint main(void) { char *volatile block = malloc(100); return !block; }\n",
    )
    .expect("written");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/allocator.c");
    let compile = |arguments: &[&std::ffi::OsStr]| {
        let status = Command::new("cc").args(["-O1", "-fno-builtin"]).args(arguments).status();
        assert!(status.expect("a C compiler").success());
    };
    let (library, program) = (path("liballocator.so"), path("linked"));
    let [o, shared, pic] = ["-o", "-shared", "-fPIC"].map(std::ffi::OsStr::new);
    compile(&[shared, pic, o, library.as_os_str(), source.as_os_str()]);
    compile(&[o, program.as_os_str(), path("linked.c").as_os_str(), library.as_os_str()]);
    assert!(recorded(&program, folder.path()).status().expect("it runs").success());
    let all = traces(folder.path());
    let notes: Vec<String> =
        trace_of(&all, "linked").notes.iter().map(|note| note.row.text.to_string()).collect();
    assert_eq!(notes, ["blocks are those of liballocator.so: what it keeps free is slack"]);
}

/// Returns the most that a component owned, by the timeline and by full samples.
fn owned_at_most(trace: &Trace, name: &str) -> (u64, u64) {
    let is_it = |index: usize| trace.component_name(index) == name;
    let Some(index) = (0..trace.columns()).find(|index| is_it(*index)) else { return (0, 0) };
    let bins = trace.timeline.iter().map(|bin| u64::from(bin.cell(index).owned_max) << 10);
    let rows = trace.history.samples().flat_map(|(_, rows)| rows);
    let samples = rows.filter(|row| usize::from(row.component) == index).map(|row| row.owned);
    (bins.max().unwrap_or(0), samples.max().unwrap_or(0))
}

fn owned_memory_is_in_the_timeline_without_a_sample() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(folder.path(), "cc", "owning.c");
    let mut child = recorded(&program, folder.path())
        .env("MEMPROF_MAX_OVERHEAD", "0.001")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut output = std::io::BufReader::new(child.stdout.take().expect("its output"));
    let mut said = String::new();
    std::io::BufRead::read_line(&mut output, &mut said).expect("a line");
    assert_eq!(said, "done\n");
    let end = Instant::now() + Duration::from_secs(60);
    let now = || owned_at_most(trace_of(&traces(folder.path()), "owning"), "app.exe:owning");
    let until = |bytes: u64| {
        while now().0 < bytes {
            assert!(Instant::now() < end, "no look between samples: {:?}", now());
            // Sleeps: another process works in the meantime.
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    // It was released right after the end of the phase.
    until(5 << 20);
    let mut input = child.stdin.take().expect("its input");
    std::io::Write::write_all(&mut input, b"\n").expect("a line");
    until(7 << 20);
    assert!(now().1 < 5 << 20, "a sample was taken: {:?}", now());
    drop(input);
    wait(&mut child);
}

fn program_that_closes_all_descriptors_is_still_sampled() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(folder.path(), "cc", "closes.c");
    let output = recorded(&program, folder.path()).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "all open\n");
    let all = traces(folder.path());
    let peaks: Vec<u64> =
        all.iter().map(|trace| resident(trace, "app.exe:closes").0 >> 20).collect();
    assert!(peaks.contains(&100), "{peaks:?}");
    all.iter().for_each(check_balance);
}

fn python_is_sampled_and_all_its_memory_has_owners() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = "import json, threading, mmap\n\
        a = [{'x': i, 'y': str(i)} for i in range(50000)]\n\
        b = bytearray(20 << 20)\n\
        t = [threading.Thread(target=lambda: [str(i) for i in range(5000)]) for _ in range(3)]\n\
        [x.start() for x in t]; [x.join() for x in t]\n";
    match recorded("python3", folder.path()).args(["-c", script]).status() {
        Ok(status) => assert!(status.success()),
        Err(_) => skip("there is no python3"),
    }
    let all = traces(folder.path());
    let peaks: Vec<u64> =
        all.iter().filter_map(|trace| Some(trace.summary.as_ref()?.head.peak)).collect();
    assert!(peaks.iter().any(|&peak| peak > 20 << 20), "peaks of {} traces: {peaks:?}", all.len());
    all.iter().for_each(check_balance);
}

fn children_get_own_files_if_all_processes_are_wanted() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(folder.path(), "cc", "children.c");
    assert!(recorded(&program, folder.path()).status().expect("it runs").success());
    let all = traces(folder.path());
    let peaks: Vec<u64> =
        all.iter().map(|trace| resident(trace, "app.exe:children").1 >> 20).collect();
    let count = |mib| peaks.iter().filter(|&&peak| peak == mib).count();
    // The parent has 4, the child its parent's 4 and 8, and the child's child 4, 8 and 16.
    assert_eq!((count(4), count(12), count(28)), (1, 1, 1), "{peaks:?}");
    all.iter().for_each(check_balance);
}

fn wrapper_that_is_no_rank_leaves_its_successor_one_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = recorded("sh", folder.path());
    command.env("MEMPROF_RECORD", "ranks").env("PMI_RANK", "0").env("PMI_SIZE", "1");
    let status = command.args(["-c", "true; exec /bin/cat /dev/null"]).status().expect("it runs");
    assert!(status.success());
    assert_eq!(traces(folder.path()).len(), 0);
}

/// Returns the time of the summary in the only trace of a folder.
fn written(folder: &Path) -> Option<u64> {
    let path = std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    let mut traces = path.filter(|path| path.extension().is_some_and(|end| end == "memprof"));
    Trace::open(&traces.next()?).expect("a trace").summary.map(|summary| summary.head.time)
}

/// Waits until the recorded rows have been rewritten several times. An interval of a minute would
/// rewrite them once.
fn wait_for_renewals(child: &mut Child, folder: &Path) {
    let end = Instant::now() + Duration::from_secs(60);
    let (mut last, mut renewals) = (None, 0);
    while renewals < 3 {
        assert!(child.try_wait().expect("a state").is_none(), "it ended");
        assert!(Instant::now() < end, "{renewals} renewals");
        let now = written(folder);
        renewals += u32::from(now > last);
        last = now;
        // Sleeps: another process works in the meantime.
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn killed_process_leaves_a_file_written_until_then() {
    // The limit of a second depends on the load: only checked in the full suite.
    let judges_times = std::env::var_os("QUO_TESTS_LONG").is_some();
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(folder.path(), "cc", "busy.c");
    let mut seed = 12345_u64;
    for round in 0..12 {
        let into = tempfile::tempdir_in(folder.path()).expect("a folder");
        // Some live longer than the recorded state may be old, without causing any writes.
        let is_long = round % 4 == 3;
        let mut command =
            recorded(if is_long { Path::new("sleep") } else { &program }, into.path());
        let child = command.arg("60").env("MEMPROF_INTERVAL_MS", "60000").spawn();
        let mut child = child.expect("it starts");
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if is_long {
            wait_for_renewals(&mut child, into.path());
        }
        // Sleeps: a kill at a random moment.
        std::thread::sleep(Duration::from_micros(seed >> 33 & 0x7ffff));
        let allowed = Duration::from_secs(1) + waited(child.id());
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        child.kill().expect("it can be killed");
        wait(&mut child);
        let now = Duration::try_from(now).expect("a time");
        for path in std::fs::read_dir(into.path()).expect("a folder").flatten() {
            let path = path.path();
            if path.extension().is_some_and(|end| end == "new") {
                continue;
            }
            let trace = Trace::open(&path).expect("what has a name is a trace");
            assert!(trace.faults.is_empty(), "{:?}", trace.faults);
            assert_eq!(trace.state.flags & flags::CLOSED, 0);
            let lived = now.saturating_sub(Duration::from_nanos(trace.identity.monotonic_ns));
            let summary = trace.summary.as_ref().map_or(0, |summary| summary.head.time);
            let last = trace.history.samples().map(|(sample, _)| sample.time).next_back();
            for seen in [summary, last.unwrap_or(0)].map(Duration::from_nanos) {
                assert!(
                    !judges_times || seen + allowed >= lived,
                    "{seen:?} of {lived:?}, of which {allowed:?} may be lost"
                );
            }
        }
    }
}

fn process_killed_right_after_naming_leaves_a_readable_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(folder.path(), "cc", "busy.c");
    for _ in 0..40 {
        let into = tempfile::tempdir_in(folder.path()).expect("a folder");
        let mut child = recorded(&program, into.path()).spawn().expect("it starts");
        let began = Instant::now();
        let is_there = || {
            let entries = std::fs::read_dir(into.path()).expect("a folder").flatten();
            entries
                .map(|entry| entry.path())
                .any(|path| path.extension() == Some("memprof".as_ref()))
        };
        while !is_there() {
            assert!(began.elapsed() < Duration::from_secs(60), "no trace");
        }
        child.kill().expect("it can be killed");
        wait(&mut child);
        assert_eq!(traces(into.path()).len(), 1);
    }
}

fn program_without_a_possible_file_runs_on_with_one_message() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing");
    let output = recorded("echo", &missing).arg("fine").output().expect("it runs");
    assert!(output.status.success());
    assert_eq!(output.stdout, b"fine\n");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.matches("memprof:").count(), 1, "{said}");
    let quiet = recorded("echo", &missing).env("MEMPROF_QUIET", "1").output().expect("it runs");
    assert!(quiet.stderr.is_empty());
}

quo_tests::suite! {
    mappings_have_owners_and_their_sum_is_the_kernels
    momentary_buffer_is_seen_before_its_release
    program_linked_to_an_allocator_has_a_note
    owned_memory_is_in_the_timeline_without_a_sample
    program_that_closes_all_descriptors_is_still_sampled
    python_is_sampled_and_all_its_memory_has_owners
    children_get_own_files_if_all_processes_are_wanted
    wrapper_that_is_no_rank_leaves_its_successor_one_file
    killed_process_leaves_a_file_written_until_then
    process_killed_right_after_naming_leaves_a_readable_trace
    program_without_a_possible_file_runs_on_with_one_message
}
