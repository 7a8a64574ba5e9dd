//! However a profiled process ends and wherever its trace cannot be written: the program runs as
//! without the profiler, the written part can be read, and the missing part is reported.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use memprof_trace::layout::flags;
use quo_tests::memprof::{Finished, PROGRAMS, Profiled, Started, fake_mpi, preload, traces_in};
use quo_tests::suite::{self, Skipped};
use quo_tests::{APPLICATION, CheckedTrace, Checkout, MemoryGroup, run_compiler, until};

const LIMIT: Duration = Duration::from_secs(60);

fn interpreter(traces: &Path) -> Result<Profiled> {
    Profiled::new(fake_mpi()?.join("interpreter"), traces)
}

/// Starts an interpreter that runs until it is ended, and waits until it reports itself ready.
fn forever(traces: &Path) -> Result<Started> {
    let profiled = interpreter(traces)?.args(&["--forever", "--programs", "20", "--blind"]);
    let mut started = profiled.start("")?;
    until(LIMIT, "it says that it runs", || {
        ensure!(started.runs()?, "it ended");
        Ok(started.said()?.contains("running"))
    })?;
    Ok(started)
}

/// Checks that the figures are complete and plausible.
fn expect_good(trace: &Path) -> Result<CheckedTrace> {
    let checked = CheckedTrace::open(trace)?;
    let summary = checked.summary()?;
    let walked = summary.head.walked;
    ensure!(walked > 1 << 20 && walked < 1 << 30, "{walked} B resident\n{}", checked.table());
    let sum: u64 = summary.rows.iter().map(|row| row.resident).sum();
    ensure!(sum == walked, "{sum} B have owners, {walked} B were found\n{}", checked.table());
    Ok(checked)
}

fn a_trace_is_readable_whenever_its_process_is_killed() -> Result<()> {
    // A few hundred milliseconds in all; the scheduler decides the exact moment.
    for round in 0..20_u64 {
        let folder = tempfile::tempdir()?;
        let mut started = forever(folder.path())?;
        // Sleeps: the kill may hit any moment.
        thread::sleep(Duration::from_micros(round * round * 997 % 60_000));
        started.kill()?;
        let finished = started.finish(LIMIT)?;
        ensure!(finished.signal() == Some(9), "{}", finished.report());
        let checked = expect_good(finished.trace()?)?;
        ensure!(!checked.trace.has(flags::CLOSED), "it says that it ended well");
    }
    Ok(())
}

/// Returns the time for which the profiler's thread was ready to run and had no processor.
fn waited(process: u32) -> Result<Duration> {
    for task in fs::read_dir(format!("/proc/{process}/task"))? {
        let task = task?.path();
        if fs::read_to_string(task.join("comm"))?.trim() == "memprof" {
            let text = fs::read_to_string(task.join("schedstat"))?;
            let waited = text.split_whitespace().nth(1).context("no schedstat")?;
            return Ok(Duration::from_nanos(waited.parse()?));
        }
    }
    bail!("the profiler has no thread")
}

/// Returns the time of the last summary of a trace, by the trace's own clock.
fn written(traces: &Path) -> Result<Option<u64>> {
    let [trace] = &traces_in(traces)?[..] else { return Ok(None) };
    Ok(CheckedTrace::open(trace)?.trace.summary.map(|summary| summary.head.time))
}

fn what_a_process_writes_is_renewed_at_any_interval() -> Result<()> {
    // Far fewer than the renewals within the limit at one per second, and more than an interval of
    // a minute gives.
    const RENEWALS: u32 = 4;
    // Idle processes, whose looks are far apart, with intervals of all kinds; and one that is never
    // idle.
    let folder = tempfile::tempdir()?;
    let program = ending(folder.path())?;
    let mut started = Vec::new();
    for interval in ["20", "50", "300", "60000", "busy"] {
        let traces = folder.path().join(interval);
        fs::create_dir(&traces)?;
        let one = match interval {
            "busy" => interpreter(&traces)?.args(&["--forever", "--programs", "20", "--blind"]),
            _ => Profiled::new(&program, &traces)?.arg("wait").env("MEMPROF_INTERVAL_MS", interval),
        };
        started.push((interval, one.start("")?));
    }
    for (interval, mut one) in started {
        let traces = folder.path().join(interval);
        let (mut last, mut renewals) = (None, 0);
        until(LIMIT, &format!("interval {interval}: it is written anew"), || {
            ensure!(one.runs()?, "interval {interval}: it ended");
            let now = written(&traces)?;
            renewals += u32::from(now > last);
            last = now;
            Ok(renewals >= RENEWALS)
        })?;
        let excused = waited(one.id())?;
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        one.kill()?;
        let now = Duration::new(now.tv_sec.try_into()?, now.tv_nsec.try_into()?);
        let finished = one.finish(LIMIT)?;
        let checked = expect_good(finished.trace()?)?;
        if suite::is_long() {
            let checked = checked.expect_fresh(now, |_, _| excused);
            checked.with_context(|| format!("interval {interval}"))?;
        }
    }
    Ok(())
}

fn a_process_that_runs_can_be_read() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut started = forever(folder.path())?;
    for _ in 0..200 {
        let [trace] = &traces_in(folder.path())?[..] else {
            bail!("not one trace");
        };
        expect_good(trace)?;
    }
    ensure!(started.runs()?, "it ended");
    Ok(())
}

/// Returns the state of a folder's process by `memprof live`, started in this way.
fn state_of(traces: &Path, wrapper: &[&str]) -> Result<String> {
    let memprof = Checkout::find()?.program("memprof")?;
    let mut command = Command::new(wrapper.first().context("no wrapper")?);
    command.args(&wrapper[1..]).arg(memprof).args(["live", "--once", "--json"]).arg(traces);
    let output = command.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let look: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    Ok(look["ranks"][0]["state"].as_str().context("no state")?.to_owned())
}

/// Neither container's namespace contains the other's when one looks at the other.
fn processes_in_other_name_spaces_are_known_alive_or_killed() -> Result<()> {
    let apart = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let made = Command::new(apart[0]).args(&apart[1..]).arg("true").output();
    if !made.is_ok_and(|output| output.status.success()) {
        return Err(Skipped("only root has name spaces of processes".to_owned()).into());
    }
    for (of_process, of_reader) in [(&apart[..], &["env"][..]), (&apart, &apart)] {
        let folder = tempfile::tempdir()?;
        let program = fake_mpi()?.join("interpreter");
        let profiled = Profiled::through(of_process, program, folder.path())?;
        let mut started = profiled.args(&["--forever", "--programs", "20", "--blind"]).start("")?;
        until(LIMIT, "it says that it runs", || {
            ensure!(started.runs()?, "it ended");
            Ok(started.said()?.contains("running"))
        })?;
        let state = state_of(folder.path(), of_reader)?;
        ensure!(state == "running", "{state}: {of_process:?} seen from {of_reader:?}");
        started.kill()?;
        // The process ends a moment after the creator of its namespace.
        until(LIMIT, "it is known to be killed", || {
            Ok(state_of(folder.path(), of_reader)? == "killed")
        })?;
    }
    Ok(())
}

/// Compiles this source with no other libraries than the system's.
fn compile(source: &str, folder: &Path, compiler_flags: &[&str]) -> Result<PathBuf> {
    let source = Checkout::find()?.root().join(PROGRAMS).join(source);
    let program = folder.join(source.file_stem().context("a source without a name")?);
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O1", "-fno-builtin"]).arg(&source).arg("-o").arg(&program);
    run_compiler(compiler.arg("-pthread").args(compiler_flags))?;
    Ok(program)
}

/// Compiles the program `ending.c` with the fake MPI.
fn ending(folder: &Path) -> Result<PathBuf> {
    let mpi = fake_mpi()?;
    let (path, run_path) =
        (format!("-L{}", mpi.display()), format!("-Wl,-rpath,{}", mpi.display()));
    let include = Checkout::find()?.root().join(PROGRAMS).join("fakempi");
    let include = format!("-I{}", include.display());
    let linked = ["-lfakempi", "-lboth", &format!("-Wl,-rpath-link,{}", mpi.display())];
    compile("ending.c", folder, &[&[&*include, &path, &run_path], &linked[..]].concat())
}

/// Returns the numbers that the program has printed after these words.
fn told(finished: &Finished, words: &str) -> Result<[u64; 2]> {
    let line = finished.stdout.lines().find_map(|line| line.strip_prefix(words));
    let numbers = line.with_context(|| finished.report())?.split(' ');
    let numbers: Vec<u64> = numbers.map(str::parse).collect::<Result<_, _>>()?;
    numbers.try_into().map_err(|numbers| anyhow!("{numbers:?}"))
}

/// Returns the most that any sample of the trace in a folder found resident, 0 without a trace. A
/// full sample may exceed the time budget of so short a run; the totals written at every look do
/// not.
fn resident_at_most(traces: &Path) -> Result<u64> {
    let [trace] = &traces_in(traces)?[..] else { return Ok(0) };
    Ok(CheckedTrace::open(trace)?.seen())
}

fn abort_exit_and_a_missing_finalize_leave_whole_traces() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = ending(folder.path())?;
    // How it ends, the signal, and whether the trace is closed.
    for (how, signal, closed) in [
        ("abort", Some(6), false),
        ("fault", Some(11), false),
        ("exit", None, true),
        ("return", None, true),
        ("quick_exit", None, true),
        ("_exit", None, false),
    ] {
        let traces = folder.path().join(how);
        fs::create_dir(&traces)?;
        let go = traces.join("go");
        // However rare the looks are otherwise.
        let profiled = Profiled::new(&program, &traces)?.env("MEMPROF_INTERVAL_MS", "60000");
        let mut started = profiled.arg(how).arg(&go).start("")?;
        until(LIMIT, "its memory is written", || {
            ensure!(started.runs()?, "{how}: it ended");
            Ok(resident_at_most(&traces)? >= 50 << 20)
        })?;
        fs::write(&go, "")?;
        let finished = started.finish(LIMIT)?;
        ensure!(finished.signal() == signal, "{how}: {}", finished.report());
        ensure!(finished.stdout.contains("holding"), "{how}: {}", finished.report());
        let checked = expect_good(finished.trace()?).context(how)?;
        ensure!(checked.trace.has(flags::CLOSED) == closed, "{how}: {}", checked.table());
        ensure!(!checked.trace.has(flags::FINALIZED), "{how}: {}", checked.table());
        let [ended, waited] = told(&finished, "ends ")?.map(Duration::from_nanos);
        if suite::is_long() && !closed {
            checked.expect_fresh(ended, |_, _| waited).context(how)?;
        }
        let kept = resident_at_most(&traces)?;
        ensure!(kept >= 50 << 20, "{how}: {kept} B\n{}", checked.table());
        // The last sample is a full one.
        let peak = checked.peak(APPLICATION);
        ensure!(!closed || peak >= 50 << 20, "{how}: {peak} B\n{}", checked.table());
    }
    Ok(())
}

fn process_ended_by_the_kernel_for_memory_leaves_a_trace() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = ending(folder.path())?;
    let Some(group) = MemoryGroup::new(400 << 20) else {
        return Err(
            Skipped("a memory control group needs root and its controller".to_owned()).into()
        );
    };
    let traces = folder.path().join("traces");
    fs::create_dir(&traces)?;
    let enter = format!("echo $$ >{} && exec \"$@\"", group.tasks.display());
    let profiled = Profiled::through(&["sh", "-c", &enter, "sh"], &program, &traces)?;
    let go = folder.path().join("go");
    let mut started = profiled.arg("hoard").arg(&go).start("")?;
    // Later memory may grow faster than samples are taken.
    until(LIMIT, "its memory is written", || {
        ensure!(started.runs()?, "it ended");
        Ok(resident_at_most(&traces)? >= 50 << 20)
    })?;
    fs::write(&go, "")?;
    let finished = started.finish(LIMIT)?;
    ensure!(finished.signal() == Some(9), "{}", finished.report());
    let checked = expect_good(finished.trace()?)?;
    ensure!(checked.seen() >= 50 << 20, "{} B\n{}", checked.seen(), checked.table());
    Ok(())
}

fn traces_are_for_their_owner_alone() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut started = forever(folder.path())?;
    let [trace] = &traces_in(folder.path())?[..] else {
        bail!("not one trace");
    };
    let mode = fs::metadata(trace)?.permissions().mode();
    ensure!(mode & 0o7777 == 0o600, "{} has the mode {mode:o}", trace.display());
    started.kill()?;
    Ok(())
}

/// Checks that the program ran as without the profiler, and that the profiler printed these
/// messages once.
fn expect_aside(finished: &Finished, words: &[&str]) -> Result<()> {
    finished.expect_success()?;
    ensure!(finished.stdout.contains("agreed"), "{}", finished.report());
    let said: Vec<&str> =
        finished.stderr.lines().filter(|line| line.starts_with("memprof: ")).collect();
    ensure!(said.len() == 1, "{} lines\n{}", said.len(), finished.report());
    for word in words {
        ensure!(said[0].contains(word), "no `{word}` in `{}`", said[0]);
    }
    Ok(())
}

fn blind(traces: &Path) -> Result<Profiled> {
    Ok(interpreter(traces)?.args(&["--blind", "--programs", "50"]))
}

fn a_full_disk_is_said_and_the_program_runs() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let disk = folder.path().join("disk");
    fs::create_dir(&disk)?;
    let mounted = Command::new("unshare").args(["--mount", "true"]).status();
    if !mounted.is_ok_and(|status| status.success()) {
        return Err(Skipped("only root can mount a small disk".to_owned()).into());
    }
    // In a separate namespace nothing needs to be unmounted. The report's output is made there,
    // too.
    let report =
        format!("{} report {}", Checkout::find()?.program("memprof")?.display(), disk.display());
    let mount = format!("mount -t tmpfs -o size=64k none {}", disk.display());
    let script = format!("{mount} && \"$@\"; ended=$?; {report} 2>&1; echo code $?; exit $ended");
    let wrapper = ["unshare", "--mount", "sh", "-c", &script, "sh"];
    let profiled = Profiled::through(&wrapper, fake_mpi()?.join("interpreter"), &disk)?;
    let profiled = profiled.args(&["--blind", "--programs", "50"]);
    let finished = profiled.run(LIMIT)?;
    expect_aside(&finished, &["no room"])?;
    for word in ["no trace could be made in rank 0: No space left", "code 1"] {
        ensure!(finished.stdout.contains(word), "no `{word}`\n{}", finished.report());
    }
    // Another rank finds room: its report names the rank without room.
    let mount = format!("mount -t tmpfs -o size=6m none {}", disk.display());
    let script =
        format!("{mount} && \"$@\" && PMI_RANK=1 \"$@\"; ended=$?; {report} 2>&1; exit $ended");
    let wrapper = ["unshare", "--mount", "sh", "-c", &script, "sh"];
    let profiled = Profiled::through(&wrapper, fake_mpi()?.join("interpreter"), &disk)?;
    let profiled = profiled.env("PMI_SIZE", "2").args(&["--blind", "--programs", "50"]);
    let finished = profiled.run(LIMIT)?;
    expect_aside(&finished, &["rank 1", "no room"])?;
    for word in ["1 rank left no trace: 1", "no trace could be made in rank 1: No space left"] {
        ensure!(finished.stdout.contains(word), "no `{word}`\n{}", finished.report());
    }
    Ok(())
}

/// Mounts a file system of a few MiB at `disk`, in a separate namespace, and runs a command there.
fn on_small_disk(mount: &str, disk: &Path, then: &str) -> Result<String> {
    fs::create_dir(disk)?;
    let mounted = Command::new("unshare").args(["--mount", "sh", "-c", mount]).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        return Err(Skipped(format!("cannot do `{mount}`")).into());
    }
    Ok(format!("{mount} && {then}"))
}

fn disk_filling_during_the_run_disturbs_neither_program_nor_trace() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = ending(folder.path())?;
    let image = folder.path().join("image");
    run_compiler(Command::new("truncate").args(["--size", "8M"]).arg(&image))?;
    let formatted = Command::new("mkfs.ext2").arg("-q").arg(&image).output();
    if !formatted.is_ok_and(|output| output.status.success()) {
        return Err(Skipped("there is no mkfs.ext2".to_owned()).into());
    }
    // The second file system reserves no room, so the profiler must allocate it.
    for (kind, options) in [("tmpfs", "-t tmpfs -o size=6m none"), ("ext2", "-o loop")] {
        let disk = folder.path().join(kind);
        let device = if kind == "ext2" { image.display().to_string() } else { String::new() };
        let mount = format!("mount {options} {device} {}", disk.display());
        let (disk_name, out) = (disk.display(), folder.path().join(format!("{kind}-out")));
        fs::create_dir(&out)?;
        let then = format!(
            "cd {disk_name} && {{ \"$@\" & }} && \
             until grep -qa MEMPROF *.memprof 2>/dev/null; do kill -0 $! || exit 3; sleep 0.01; done; \
             cat /dev/zero >filler 2>/dev/null; wait $!; ended=$?; cp *.memprof {}; exit $ended",
            out.display()
        );
        let script = on_small_disk(&mount, &disk, &then)?;
        let wrapper = ["unshare", "--mount", "sh", "-c", &script, "sh"];
        let finished = Profiled::through(&wrapper, &program, &disk)?.arg("return").run(LIMIT)?;
        finished.expect_success()?;
        ensure!(finished.stdout.contains("holding"), "{}", finished.report());
        let [trace] = &traces_in(&out)?[..] else { bail!("{kind}: no trace") };
        let checked = expect_good(trace).context(kind)?;
        ensure!(checked.trace.has(flags::CLOSED), "{kind}: {}", checked.table());
        ensure!(checked.peak(APPLICATION) >= 50 << 20, "{kind}: {}", checked.table());
    }
    Ok(())
}

fn a_folder_that_is_deleted_during_the_run_disturbs_nobody() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let traces = folder.path().join("traces");
    fs::create_dir(&traces)?;
    let profiled = Profiled::new(ending(folder.path())?, &traces)?;
    let mut started = profiled.arg("return").start("")?;
    until(LIMIT, "it says that it runs", || {
        ensure!(started.runs()?, "it ended");
        Ok(started.said()?.contains("holding"))
    })?;
    fs::remove_dir_all(&traces)?;
    let finished = started.finish(LIMIT)?;
    finished.expect_success()?;
    ensure!(!traces.exists() && finished.stderr.is_empty(), "{}", finished.report());
    Ok(())
}

fn forbidden_folder_is_reported_and_the_program_runs() -> Result<()> {
    let folder = tempfile::tempdir()?;
    for (setting, word) in
        [("relative", "MEMPROF_DIR"), (&*format!("/{}", "x".repeat(2000)), "MEMPROF_DIR")]
    {
        expect_aside(&blind(folder.path())?.env("MEMPROF_DIR", setting).run(LIMIT)?, &[word])?;
    }
    let disk = folder.path().join("disk");
    let mount = format!("mount -t tmpfs -o ro none {}", disk.display());
    let script = on_small_disk(&mount, &disk, "exec \"$@\"")?;
    let wrapper = ["unshare", "--mount", "sh", "-c", &script, "sh"];
    let profiled = Profiled::through(&wrapper, fake_mpi()?.join("interpreter"), &disk)?;
    let finished = profiled.args(&["--blind", "--programs", "50"]).run(LIMIT)?;
    expect_aside(&finished, &["read-only"])
}

fn a_name_that_somebody_else_has_taken_is_not_followed() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = fake_mpi()?.join("interpreter");
    let victim = folder.path().join("victim");
    fs::write(&victim, "kept")?;
    // A process can predict the name of its trace; in a container the name includes the namespace.
    for take in [&*format!("ln -s {}", victim.display()), "mkfifo", "mkdir"] {
        let traces = folder.path().join("traces");
        fs::create_dir(&traces)?;
        let script = format!(
            "start=$(sed 's/.*) //' /proc/$$/stat | cut -d' ' -f20); \
             space=$(readlink /proc/$$/ns/pid | tr -dc 0-9); \
             for process in $$ $$-$space; do \
             {take} \"$MEMPROF_DIR/$(cat /proc/sys/kernel/hostname).$process.$start.memprof\" || exit 1; \
             done; exec {} --blind --programs 20",
            program.display()
        );
        let finished = Profiled::new("sh", &traces)?.args(&["-c", &script]).run(LIMIT)?;
        finished.expect_success()?;
        ensure!(fs::read(&victim)? == b"kept", "{take}: the link was followed");
        let second = finished.traces.iter().find(|trace| trace.to_string_lossy().contains("-2."));
        let second = second.with_context(|| format!("{take}: {}", finished.report()))?;
        expect_good(second).context("the second name")?;
        fs::remove_dir_all(&traces)?;
    }
    Ok(())
}

/// Returns the bytes of the trace that are changed in memory and not yet on the disk.
fn changed(process: u32) -> Result<u64> {
    let maps = fs::read_to_string(format!("/proc/{process}/smaps"))?;
    let mapping = maps.split_once(".memprof\n").context("the trace is not mapped")?.1;
    let dirty = mapping.lines().take(20).filter(|line| line.contains("_Dirty:"));
    dirty.map(|line| Ok(line.split_whitespace().nth(1).context("no number")?.parse::<u64>()?)).sum()
}

fn trace_is_written_to_disk_as_often_as_asked() -> Result<()> {
    let folder = tempfile::tempdir_in(Checkout::find()?.build_folder())?;
    let kind = Command::new("stat").args(["-f", "-c", "%T"]).arg(folder.path()).output()?;
    if kind.stdout.starts_with(b"tmpfs") {
        return Err(Skipped("the build folder is on no disk".to_owned()).into());
    }
    let program = ending(folder.path())?;
    let profiled = Profiled::new(&program, folder.path())?.arg("wait");
    // Looks are rare, so that at times nothing has changed since the last write.
    let profiled = profiled.env("MEMPROF_SYNC_INTERVAL", "0.1").env("MEMPROF_INTERVAL_MS", "60000");
    let mut started = profiled.start("")?;
    until(LIMIT, "all of it is on the disk", || {
        ensure!(started.runs()?, "it ended");
        Ok(started.said()?.contains("holding") && changed(started.id())? == 0)
    })?;
    started.kill()?;
    started.finish(LIMIT)?;
    Ok(())
}

fn unwritable_folder_is_reported_and_the_program_runs() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let missing = folder.path().join("nowhere");
    expect_aside(&blind(&missing)?.run(LIMIT)?, &["folder"])?;
    let file = folder.path().join("a-file");
    fs::write(&file, "")?;
    expect_aside(&blind(&file)?.run(LIMIT)?, &["folder"])?;
    // No user can create files in /proc.
    expect_aside(&blind(Path::new("/proc"))?.run(LIMIT)?, &["folder"])
}

fn limit_on_file_sizes_is_reported_and_the_program_runs() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = ending(folder.path())?;
    let profiled = Profiled::through(&["prlimit", "--fsize=65536"], program, folder.path())?;
    let finished = profiled.arg("return").run(LIMIT)?;
    finished.expect_success()?;
    ensure!(finished.stdout.contains("holding"), "{}", finished.report());
    ensure!(finished.stderr.starts_with("memprof: "), "{}", finished.report());
    ensure!(finished.traces.is_empty(), "a trace was left");
    Ok(())
}

fn a_program_with_its_own_allocator_keeps_it() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile("own_allocator.c", folder.path(), &["-rdynamic"])?;
    let finished =
        Profiled::new(&program, folder.path())?.env("MEMPROF_RECORD", "all").run(LIMIT)?;
    finished.expect_success()?;
    ensure!(finished.stdout.contains("own allocator"), "{}", finished.report());
    let checked = CheckedTrace::open(finished.trace()?)?;
    ensure!(checked.trace.has(flags::OWN_ALLOCATOR), "{}", checked.table());
    ensure!(checked.notes().iter().any(|note| note.contains("malloc")), "{}", checked.table());
    Ok(())
}

/// Without position independence that address lies in the program, as in the Python of
/// distributions.
fn program_that_knows_mallocs_place_has_none_of_its_own() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile("takes_malloc.c", folder.path(), &["-fno-pie", "-no-pie"])?;
    let finished =
        Profiled::new(&program, folder.path())?.env("MEMPROF_RECORD", "all").run(LIMIT)?;
    ensure!(finished.expect_success()?.stderr.is_empty(), "{}", finished.report());
    let checked = CheckedTrace::open(finished.trace()?)?;
    ensure!(!checked.trace.has(flags::OWN_ALLOCATOR), "{}", checked.table());
    let owned = checked.owned_peak(APPLICATION)?;
    ensure!(owned >= 20 << 20, "{owned} B\n{}", checked.table());
    Ok(())
}

fn a_program_under_a_sanitizer_runs() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("clean.c");
    let text = "#include <stdio.h>\n#include <stdlib.h>\nint main(void)\n{\n    char *volatile block = malloc(100);\n    block[99] = 1;\n    free(block);\n    puts(\"clean\");\n    return 0;\n}\n";
    fs::write(&source, text)?;
    let program = folder.path().join("clean");
    let mut compiler = Command::new("cc");
    compiler.args(["-fsanitize=address", "-O1"]).arg(&source).arg("-o").arg(&program);
    if run_compiler(&mut compiler).is_err() {
        return Err(Skipped("the compiler has no AddressSanitizer".to_owned()).into());
    }
    let profiled = Profiled::new(&program, folder.path())?.env("MEMPROF_RECORD", "all");
    // Without this option AddressSanitizer refuses any preloaded object.
    let finished = profiled.env("ASAN_OPTIONS", "verify_asan_link_order=0").run(LIMIT)?;
    finished.expect_success()?;
    ensure!(finished.stdout == "clean\n", "{}", finished.report());
    ensure!(finished.stderr.contains("anitizer"), "{}", finished.report());
    Ok(())
}

fn another_preloaded_tool_keeps_its_calls() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let other = compile("other_preload.c", folder.path(), &["-shared", "-fPIC"])?;
    let ours = preload()?;
    for (order, before) in [([&ours, &other], false), ([&other, &ours], true)] {
        let both = format!("{} {}", order[0].display(), order[1].display());
        let finished = blind(folder.path())?.env("LD_PRELOAD", both).run(LIMIT)?;
        finished.expect_success()?;
        ensure!(finished.stdout.contains("agreed"), "{}", finished.report());
        let checked = CheckedTrace::open(finished.trace()?)?;
        // The other library, behind the profiler, sees the profiler's requests, and nothing is
        // lost.
        let named = checked.notes().iter().any(|note| note.contains("other_preload"));
        ensure!(named == before, "{}\n{}", checked.table(), finished.report());
        fs::remove_file(finished.trace()?)?;
    }
    Ok(())
}

fn bad_settings_are_said_and_the_program_runs() -> Result<()> {
    let folder = tempfile::tempdir()?;
    for (name, value) in [
        ("MEMPROF_INTERVAL_MS", "soon"),
        ("MEMPROF_MAX_OVERHEAD", "-1"),
        ("MEMPROF_FILE_SIZE", "12"),
        ("MEMPROF_RECORD", "some"),
        ("MEMPROF_STACKS", "1e99x"),
    ] {
        let finished = blind(folder.path())?.env(name, value).run(LIMIT)?;
        expect_aside(&finished, &[name])?;
        let trace = finished.trace().with_context(|| name)?.to_path_buf();
        expect_good(&trace)?;
        fs::remove_file(trace)?;
    }
    Ok(())
}

fn trace_left_to_a_successor_is_replaced() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = fake_mpi()?.join("interpreter");
    // A shell with a rank's variables, as wrappers have.
    let script = format!("true; exec {} --blind --programs 50", program.display());
    let finished = Profiled::new("sh", folder.path())?.args(&["-c", &script]).run(LIMIT)?;
    finished.expect_success()?;
    let checked = expect_good(finished.trace()?)?;
    let ran = checked.trace.identity.program.to_string();
    ensure!(ran.ends_with("interpreter"), "the trace is of {ran}");
    Ok(())
}

quo_tests::suite! {
    a_trace_is_readable_whenever_its_process_is_killed
    what_a_process_writes_is_renewed_at_any_interval
    a_process_that_runs_can_be_read
    processes_in_other_name_spaces_are_known_alive_or_killed
    abort_exit_and_a_missing_finalize_leave_whole_traces
    process_ended_by_the_kernel_for_memory_leaves_a_trace
    traces_are_for_their_owner_alone
    a_full_disk_is_said_and_the_program_runs
    disk_filling_during_the_run_disturbs_neither_program_nor_trace
    a_folder_that_is_deleted_during_the_run_disturbs_nobody
    forbidden_folder_is_reported_and_the_program_runs
    a_name_that_somebody_else_has_taken_is_not_followed
    trace_is_written_to_disk_as_often_as_asked
    unwritable_folder_is_reported_and_the_program_runs
    limit_on_file_sizes_is_reported_and_the_program_runs
    a_program_with_its_own_allocator_keeps_it
    program_that_knows_mallocs_place_has_none_of_its_own
    a_program_under_a_sanitizer_runs
    another_preloaded_tool_keeps_its_calls
    bad_settings_are_said_and_the_program_runs
    trace_left_to_a_successor_is_replaced
}
