//! `memprof live` next to running processes: which ranks run and for how long, which were killed,
//! and when the display ends; and the contents of a process that is not recorded.

use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use quo_tests::memprof::{PROGRAMS, Profiled, Started, fake_mpi, traces_in};
use quo_tests::{Checkout, ends_within, run_compiler, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(60);

/// Starts one of two ranks, which runs until it is ended, and waits until it reports itself ready.
fn forever(traces: &Path, rank: &str) -> Result<Started> {
    let profiled = Profiled::new(fake_mpi()?.join("interpreter"), traces)?;
    let profiled = profiled.env("PMI_RANK", rank).env("PMI_SIZE", "2");
    let mut started = profiled.args(&["--forever", "--programs", "20", "--blind"]).start("")?;
    until(LIMIT, "it says that it runs", || {
        ensure!(started.runs()?, "it ended");
        Ok(started.said()?.contains("running"))
    })?;
    Ok(started)
}

/// A running display, ended when dropped.
struct Display {
    child: Child,
    shown: PathBuf,
}

impl Display {
    /// Starts the display with its output in a file, which need not be read as it grows.
    fn start(traces: &Path, options: &[&str]) -> Result<Display> {
        Display::of(&[traces.to_str().context("path")?], options, traces)
    }

    /// Starts a display of a job or of a process; its output file is next to `beside`.
    fn of(what: &[&str], options: &[&str], beside: &Path) -> Result<Display> {
        let shown = beside.with_extension(format!("shown-{}", options.len()));
        // Tests started in the background pass an ignored SIGINT on to their processes.
        let mut command = Command::new("env");
        command.arg("--default-signal=INT,TERM").arg(Checkout::find()?.program("memprof")?);
        command.arg("live").args(what).args(["--interval", "0.05"]).args(options);
        command.stdin(Stdio::null()).stdout(File::create(&shown)?).stderr(Stdio::null());
        Ok(Display { child: command.spawn()?, shown })
    }

    fn runs(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    fn shown(&self) -> Result<String> {
        Ok(fs::read_to_string(&self.shown)?)
    }

    /// Returns the looks that are complete, one line of JSON each.
    fn looks(&self) -> Result<Vec<Value>> {
        let shown = self.shown()?;
        let whole = shown.rsplit_once('\n').map_or("", |(whole, _)| whole);
        Ok(whole.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
    }

    /// Waits for the display to end successfully.
    fn end(&mut self) -> Result<()> {
        ensure!(ends_within(Pid::from_child(&self.child), LIMIT)?, "it does not end");
        let status = self.child.wait()?;
        ensure!(status.success(), "it ended with {status}");
        Ok(())
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        let _already_ended = self.child.kill();
        let _already_waited = self.child.wait();
    }
}

/// Returns the states of the ranks at a look, in rank order.
fn states(look: &Value) -> Result<Vec<&str>> {
    let mut ranks: Vec<_> = look["ranks"].as_array().context("no ranks")?.iter().collect();
    ranks.sort_by_key(|rank| rank["rank"].as_u64());
    ranks.into_iter().map(|rank| rank["state"].as_str().context("no state")).collect()
}

fn traces() -> Result<(tempfile::TempDir, PathBuf)> {
    let folder = tempfile::tempdir()?;
    let traces = folder.path().join("traces");
    fs::create_dir(&traces)?;
    Ok((folder, traces))
}

#[test]
fn each_look_tells_the_running_ranks_and_finally_the_killed() -> Result<()> {
    let (_folder, traces) = traces()?;
    let (mut first, mut second) = (forever(&traces, "0")?, forever(&traces, "1")?);
    let mut display = Display::start(&traces, &["--json"])?;
    until(LIMIT, "time goes on", || {
        let looks = display.looks()?;
        let times = looks.iter().map(|look| look["duration_ns"].as_u64().context("no time"));
        let times: Vec<u64> = times.collect::<Result<_>>()?;
        ensure!(times.is_sorted(), "{times:?}");
        let all_run = looks.iter().map(states).collect::<Result<Vec<_>>>()?;
        ensure!(all_run.iter().all(|states| states == &["running"; 2]), "{all_run:?}");
        ensure!(display.runs()?, "it ended though two ranks run");
        Ok(times.len() > 3 && times.last() > times.first())
    })?;
    for look in display.looks()? {
        for rank in look["ranks"].as_array().context("no ranks")? {
            // A rank may be looked at before its first sample.
            let resident = &rank["resident"];
            let seen = resident.as_u64().is_some_and(|bytes| bytes > 1 << 20);
            ensure!(seen || resident.is_null(), "{look}");
            ensure!(rank["duration_ns"].as_u64() > Some(0), "{look}");
        }
    }

    first.kill()?;
    until(LIMIT, "one of two is known to be killed", || {
        let looks = display.looks()?;
        Ok(states(looks.last().context("no look")?)? == ["killed", "running"])
    })?;
    // The display continues with the other rank.
    let before = display.looks()?.len();
    until(LIMIT, "it looks again", || Ok(display.looks()?.len() > before + 2))?;
    ensure!(display.runs()?, "it ended though a rank runs");
    second.kill()?;
    display.end()?;
    let looks = display.looks()?;
    ensure!(states(looks.last().context("no look")?)? == ["killed"; 2], "{:?}", looks.last());
    Ok(())
}

#[test]
fn screen_counts_running_ranks_and_names_the_killed() -> Result<()> {
    let (_folder, traces) = traces()?;
    let mut display = Display::start(&traces, &["--ranks", "8"])?;
    // The display may be started before the job.
    ensure!(display.runs()?, "it does not wait for ranks");
    let mut first = forever(&traces, "0")?;
    let mut second = forever(&traces, "1")?;
    let last = |display: &Display| -> Result<String> {
        let shown = display.shown()?;
        // An empty line separates two screens.
        let screens = shown.split("\n\ninterpreter  ").collect::<Vec<_>>();
        Ok(screens.last().context("no screen")?.trim_start_matches("interpreter  ").to_owned())
    };
    until(LIMIT, "both are seen to run", || {
        ensure!(display.runs()?, "it ended");
        Ok(last(&display)?.starts_with("2 ranks on 1 node, 2 running, "))
    })?;
    first.kill()?;
    until(LIMIT, "one is seen to be killed", || {
        ensure!(display.runs()?, "it ended");
        Ok(last(&display)?.starts_with("2 ranks on 1 node, 1 running, "))
    })?;
    second.kill()?;
    display.end()?;
    let screen = last(&display)?;
    ensure!(screen.starts_with("2 ranks on 1 node, 0 running, "), "{screen}");
    for rank in ["0 ", "1 "] {
        let line = screen.lines().find(|line| line.starts_with(rank)).context("no such line")?;
        ensure!(line.ends_with("  killed"), "{line}");
    }
    ensure!(!screen.contains('\x1b'), "{screen:?}");
    Ok(())
}

#[test]
fn request_to_end_ends_the_display_not_the_job() -> Result<()> {
    let (_folder, traces) = traces()?;
    let mut rank = forever(&traces, "0")?;
    for signal in [Signal::INT, Signal::TERM] {
        let mut display = Display::start(&traces, &["--json"])?;
        until(LIMIT, "it shows something", || Ok(!display.looks()?.is_empty()))?;
        kill_process(Pid::from_child(&display.child), signal)?;
        display.end()?;
        ensure!(rank.runs()?, "the rank ended");
    }
    let [_] = &traces_in(&traces)?[..] else { bail!("not one trace") };
    rank.kill()
}

const MEBI: u64 = 1 << 20;

/// A process that is not recorded, once it holds all its memory. It is ended when dropped.
struct Held {
    child: Child,
    folder: tempfile::TempDir,
}

impl Held {
    fn start() -> Result<Held> {
        let folder = tempfile::tempdir()?;
        let program = folder.path().join("held");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu11", "-O1", "-fno-builtin", "-Wall", "-Wextra", "-Werror"]);
        compiler.arg(Checkout::find()?.root().join(PROGRAMS).join("held.c"));
        run_compiler(compiler.arg("-o").arg(&program).arg("-pthread"))?;
        let mut command = Command::new(program);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("a pipe")?).read_line(&mut line)?;
        ensure!(line == "ready\n", "it said {line:?}");
        Ok(Held { child, folder })
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _already_ended = self.child.kill();
        let _already_waited = self.child.wait();
    }
}

/// Runs `memprof live --pid` once.
fn look(pid: &str, options: &[&str]) -> Result<Output> {
    let mut command = Command::new(Checkout::find()?.program("memprof")?);
    Ok(command.args(["live", "--once", "--pid", pid]).args(options).output()?)
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn unrecorded_process_is_shown_by_component_to_the_page() -> Result<()> {
    let held = Held::start()?;
    let output = look(&held.pid(), &["--json"])?;
    ensure!(output.status.success(), "{}", complaint(&output));
    let seen: Value = serde_json::from_slice(&output.stdout)?;
    let parts = seen["components"].as_array().context("no components")?;
    let resident = |name: &str| {
        let part = parts.iter().find(|part| part["name"] == name);
        part.and_then(|part| part["resident"].as_u64()).with_context(|| format!("{name}: {seen}"))
    };
    for (name, mebi) in [("heap", 20), ("stack:threads", 3), ("app.shm", 5)] {
        let bytes = resident(name)?;
        ensure!((mebi * MEBI..(mebi + 1) * MEBI).contains(&bytes), "{name} has {bytes} B");
    }
    for name in ["app.exe:held", "system:libc.so.6", "stack:main", "kernel"] {
        ensure!(resident(name)? > 0, "{name} has nothing");
    }
    let status = fs::read_to_string(format!("/proc/{}/status", held.pid()))?;
    let kernel = ["VmRSS:", "VmPTE:"].iter().map(|name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).context("no line")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
    });
    let kernel = kernel.sum::<Result<u64>>()?;
    let all = seen["resident"].as_u64().context("no sum")?;
    // The kernel's count of resident pages is rough, off by a number of pages per processor.
    ensure!(all.abs_diff(kernel) < MEBI / 2, "{all} B, by the kernel {kernel} B");
    ensure!(seen["threads"] == 2 && seen.get("recorded_in").is_none(), "{seen}");
    Ok(())
}

#[test]
fn display_of_an_unrecorded_process_ends_with_it() -> Result<()> {
    let mut held = Held::start()?;
    let mut display =
        Display::of(&["--pid", &held.pid()], &[], &held.folder.path().join("process"))?;
    until(LIMIT, "it looks again", || {
        ensure!(display.runs()?, "it ended though the process runs");
        Ok(display.shown()?.matches("held  process ").count() > 2)
    })?;
    drop(held.child.stdin.take());
    held.child.wait()?;
    display.end()?;
    ensure!(!display.shown()?.contains('\x1b'), "{:?}", display.shown());
    Ok(())
}

#[test]
fn recorded_process_has_the_components_of_its_trace() -> Result<()> {
    let (_folder, traces) = traces()?;
    let mut rank = forever(&traces, "0")?;
    let output = look(&rank.id().to_string(), &["--json"])?;
    ensure!(output.status.success(), "{}", complaint(&output));
    let seen: Value = serde_json::from_slice(&output.stdout)?;
    ensure!(seen["recorded_in"] == traces.to_str().context("path")?, "{seen}");
    let mut report = Command::new(Checkout::find()?.program("memprof")?);
    let output = report.args(["report", "--json"]).arg(&traces).output()?;
    let job: Value = serde_json::from_slice(&output.stdout)?;
    let known = job["components"].as_array().context("no components")?;
    let (mut objects, mut of_mpi) = (0, 0);
    for part in seen["components"].as_array().context("no components")? {
        let name = part["name"].as_str().context("no name")?;
        let (class, object) = name.split_once(':').unwrap_or((name, ""));
        // Plugins are opened and closed between the look and the samples, and which object opened
        // one is known only to a profiler that was loaded then.
        let is_fixed = !object.is_empty() && !object.contains("_plugin.so");
        if !matches!(class, "stack" | "tool") && is_fixed {
            ensure!(known.iter().any(|one| one["name"] == name), "the trace has no {name}");
            objects += 1;
            of_mpi += usize::from(name.starts_with("mpi.core:"));
        }
    }
    ensure!(objects > 3 && of_mpi > 0, "{seen}");
    rank.kill()
}

#[test]
fn unreadable_processes_are_refused_with_the_reason() -> Result<()> {
    let held = Held::start()?;
    // A process of root may not be inspected by other users.
    let is_root = rustix::process::getuid().is_root();
    let target = if is_root { held.pid() } else { "1".to_owned() };
    let program = held.folder.path().join("memprof");
    Checkout::find()?.copy_program("memprof", &program)?;
    fs::set_permissions(held.folder.path(), Permissions::from_mode(0o755))?;
    let mut command = Command::new(program);
    command.args(["live", "--once", "--pid", &target]);
    if is_root {
        command.uid(65_534).gid(65_534);
    }
    let output = command.output()?;
    let said = complaint(&output);
    ensure!(output.status.code() == Some(1), "{}: {said}", output.status);
    ensure!(said.contains(&format!("memprof: cannot look at process {target} (")), "{said}");
    ensure!(said.contains("it belongs to user 0; only that user and root"), "{said}");
    let output = look("4294967295", &[])?;
    let (said, reason) = (complaint(&output), "there is none of this number");
    ensure!(output.status.code() == Some(1) && said.contains(reason), "{said}");
    let mut ended = Command::new("true").spawn()?;
    let pid = ended.id().to_string();
    let stat = format!("/proc/{pid}/stat");
    until(LIMIT, "it ends", || Ok(fs::read_to_string(&stat)?.contains(") Z ")))?;
    let said = complaint(&look(&pid, &[])?);
    ensure!(said.contains("(true): it has ended"), "{said}");
    ended.wait()?;
    Ok(())
}
