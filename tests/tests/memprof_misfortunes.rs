//! A job of several ranks in which one rank ends badly, in any way: the recorded part of every rank
//! can be read, and the report names the ended rank and its memory. In the full suite
//! (`QUO_TESTS_LONG`) the recorded part is also at most a second old, not counting time in which
//! the kernel kept the profiler's thread from running.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use memprof_trace::layout::flags;
use quo_tests::memprof::{PROGRAMS, preload, traces_in};
use quo_tests::suite::{self, Skipped};
use quo_tests::{
    BindTo, CheckedTrace, Checkout, Launcher, MemoryGroup, Recorded, Running, mpicc, run_compiler,
    until,
};
use rustix::process::{Pid, Signal, kill_process};

const LIMIT: Duration = Duration::from_secs(100);
const MEBI: u64 = 1 << 20;
/// Memory of each rank of `misfortune.c`.
const HELD: u64 = 50 * MEBI;
/// File that a rank waits for before it ends.
const GO: &str = "go";

/// The program `misfortune.c`, and the folder of its ranks' logs.
struct Misfortune {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Misfortune {
    fn new() -> Result<Misfortune> {
        let folder = tempfile::tempdir()?;
        let program = folder.path().join("misfortune");
        let root = Checkout::find()?.root().to_owned();
        let mut compiler = Command::new(mpicc());
        compiler.args(["-std=gnu11", "-O1", "-fno-builtin"]);
        compiler.arg(format!("-I{}", root.join("memprof/api/include").display()));
        compiler.arg(root.join(PROGRAMS).join("misfortune.c")).arg("-o").arg(&program);
        run_compiler(compiler.arg("-ldl"))?;
        Ok(Misfortune { folder, program })
    }

    /// Runs `memprof run` with four ranks, one of which ends in this way once traces show the
    /// memory of all ranks and it has been idle for this long.
    fn run_until_seen(
        &self,
        launch: &Command,
        how: &str,
        rank: &str,
        idle: u64,
    ) -> Result<Recorded> {
        self.forget()?;
        let idle = idle.to_string();
        let arguments = [how, rank, &self.folder.path().to_string_lossy(), &idle];
        let job =
            Recorded::begun(&[], launch, &self.program, &arguments).context(how.to_owned())?;
        until(LIMIT, "all ranks are seen", || {
            let traces = traces_in(&job.traces())?;
            let checked =
                traces.iter().map(|trace| CheckedTrace::open(trace)).collect::<Result<Vec<_>>>()?;
            let seen =
                checked.iter().filter(|one| one.trace.summary.is_some() && one.seen() >= HELD);
            Ok(seen.count() == 4)
        })?;
        fs::write(self.folder.path().join(GO), "")?;
        Recorded::of_job(job).context(how.to_owned())
    }

    /// Runs `memprof run` with this launch, one rank of which ends in this way once it has been
    /// sampled.
    fn run_within(&self, launch: &Command, how: &str, rank: &str) -> Result<Recorded> {
        let arguments = [how, rank, &self.folder.path().to_string_lossy()];
        Recorded::ended(&[], launch, &self.program, &arguments).context(how.to_owned())
    }

    /// Returns the log of a rank.
    fn told(&self, rank: usize) -> Result<Vec<Told>> {
        let bytes = fs::read(self.folder.path().join(rank.to_string()))?;
        let mut words = bytes.chunks_exact(8).map(|word| word.try_into().map(u64::from_ne_bytes));
        let count = usize::try_from(words.next().context("it told nothing")??)?;
        let words = words.take(3 * count).collect::<Result<Vec<_>, _>>()?;
        let entry = |words: &[u64]| {
            let [time, waited, kept] = [0, 1, 2].map(|at| Duration::from_nanos(words[at]));
            Told { time, waited, kept }
        };
        Ok(words.chunks_exact(3).map(entry).collect())
    }

    /// Removes the output of an earlier launch.
    fn forget(&self) -> Result<()> {
        for name in ["0", "1", "2", "3", GO] {
            let file = self.folder.path().join(name);
            if file.exists() {
                fs::remove_file(file)?;
            }
        }
        Ok(())
    }

    /// Returns true if the rank has a log; without one, MPI had not begun.
    fn has_told(&self, one: &CheckedTrace) -> bool {
        let told = usize::try_from(one.trace.identity.rank).ok().map(|rank| self.told(rank));
        told.is_some_and(|told| told.is_ok_and(|told| !told.is_empty()))
    }

    /// Checks in the full suite that until the last entry of the rank's log the recorded state was
    /// never more than a second old, not counting the time that `lost` gives for this gap, in which
    /// the profiler's thread could not run.
    fn expect_fresh(&self, one: &CheckedTrace, lost: fn(&Told) -> Duration) -> Result<()> {
        if !suite::is_long() {
            return Ok(());
        }
        let rank = usize::try_from(one.trace.identity.rank)?;
        let told = self.told(rank)?;
        let end = told.last().context("it told nothing")?;
        let excused = |from: Duration, until: Duration| {
            let before = told.iter().rev().find(|entry| entry.time <= from);
            let after = told.iter().find(|entry| entry.time >= until).unwrap_or(end);
            lost(after).saturating_sub(before.map_or(Duration::ZERO, lost))
        };
        one.expect_fresh(end.time, excused).with_context(|| format!("rank {rank}"))?;
        Ok(())
    }
}

/// An entry of the log that `misfortune.c` writes: the time, and how long until then the profiler's
/// thread had waited for a processor, and the kernel had kept it from running.
struct Told {
    time: Duration,
    waited: Duration,
    kept: Duration,
}

fn launch(ranks: usize) -> Result<Command> {
    Ok(Launcher::find()?.command(ranks, BindTo::None))
}

/// Returns the launch as words for a shell, to follow other words.
fn words(launch: &Command) -> String {
    let words = [launch.get_program()].into_iter().chain(launch.get_args());
    words.map(|word| format!("'{}' ", word.to_string_lossy())).collect()
}

/// Returns a shell that runs a script with the variables of a launch.
fn shell(launch: &Command, script: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh"]);
    shell.envs(launch.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell
}

/// Checks that the figures are complete and plausible.
fn expect_good(one: &CheckedTrace) -> Result<()> {
    let summary = one.summary()?;
    let walked = summary.head.walked;
    ensure!(walked > MEBI, "{walked} B resident\n{}", one.table());
    let sum: u64 = summary.rows.iter().map(|row| row.resident).sum();
    ensure!(sum == walked, "{sum} B have owners, {walked} B were found\n{}", one.table());
    Ok(())
}

fn however_one_rank_ends_the_traces_of_all_are_there() -> Result<()> {
    let misfortune = Misfortune::new()?;
    let ways = ["abort", "MPI_Abort", "_exit", "quick_exit", "exit", "exec", "kill"];
    for (how, number) in ways.into_iter().zip(0..) {
        // At a different moment between two samples each time; where the age of the recorded state
        // is checked, longer than it may be old.
        let idle = if suite::is_long() { 1200 + number * 619 % 1300 } else { number * 103 };
        let job = misfortune.run_until_seen(&launch(4)?, how, "1", idle)?;
        let job = job.expect_ranks(4).context(how)?;
        for one in &job.traces {
            let rank = one.trace.identity.rank;
            expect_good(one).with_context(|| format!("{how}: rank {rank}"))?;
            misfortune.expect_fresh(one, |told| told.waited).context(how)?;
            ensure!(!one.trace.has(flags::FINALIZED), "{how}: {}", one.table());
            let says_goodbye = rank == 1 && (how == "exit" || how == "quick_exit");
            ensure!(!says_goodbye || one.trace.has(flags::CLOSED), "{how}: {}", one.table());
        }
        let kept = job.traces[1].seen();
        ensure!(kept >= HELD, "{how}: {kept} B\n{}", job.traces[1].table());
        let said = job.report()?;
        ensure!(said.contains("ended without") && said.contains("last seen at"), "{how}: {said}");
    }
    Ok(())
}

fn job_killed_at_any_moment_leaves_readable_traces() -> Result<()> {
    let misfortune = Misfortune::new()?;
    let memprof = Checkout::find()?.program("memprof")?;
    let mut whole = 0;
    for round in 0..if suite::is_long() { 20 } else { 12_u64 } {
        let folder = tempfile::tempdir()?;
        misfortune.forget()?;
        let launch = launch(4)?;
        let mut command = Command::new(launch.get_program());
        command.args(launch.get_args());
        command.envs(launch.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("LD_PRELOAD", preload()?).env("MEMPROF_DIR", folder.path());
        command.arg(&misfortune.program).args(["nothing", "-1"]).arg(misfortune.folder.path());
        let running = Running::start(&mut command, &format!("round {round}"), LIMIT)?;
        until(LIMIT, "traces of all", || Ok(traces_in(folder.path())?.len() == 4))?;
        // In every third round all ranks have a sample.
        until(LIMIT, "samples of all", || {
            let has_sample =
                |trace: &PathBuf| Ok(CheckedTrace::open(trace)?.trace.summary.is_some());
            let all =
                traces_in(folder.path())?.iter().map(has_sample).collect::<Result<Vec<_>>>()?;
            Ok(round % 3 < 2 || all.iter().all(|has_sample| *has_sample))
        })?;
        let stretch = if round < 15 { 67 } else { 131 };
        // Sleeps: the kill may hit any moment, from inside MPI_Init to after the second second.
        std::thread::sleep(Duration::from_millis(round * stretch));
        running.kill_all();
        running.end()?;
        let traces = traces_in(folder.path())?;
        ensure!(traces.len() == 4, "{} traces", traces.len());
        let mut good = 0;
        for trace in &traces {
            match CheckedTrace::open(trace) {
                // Before the first sample there is nothing to check.
                Ok(checked) if checked.trace.summary.is_none() => continue,
                Ok(checked) => {
                    expect_good(&checked).with_context(|| format!("round {round}"))?;
                    if misfortune.has_told(&checked) {
                        misfortune
                            .expect_fresh(&checked, |told| told.waited)
                            .with_context(|| format!("round {round}"))?;
                    }
                }
                Err(error) => return Err(error).with_context(|| format!("round {round}")),
            }
            good += 1;
        }
        let output = Command::new(&memprof).arg("report").arg(folder.path()).output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_said = said.contains("3 more: ended without");
        ensure!(output.status.success() && is_said, "{said}");
        whole += u32::from(good == 4);
    }
    ensure!(whole >= 4, "{whole} rounds with all ranks");
    Ok(())
}

fn rank_ended_for_its_memory_is_named_with_its_memory() -> Result<()> {
    let misfortune = Misfortune::new()?;
    let Some(group) = MemoryGroup::new(600 * MEBI) else {
        let why = "a memory control group needs root and its controller";
        return Err(Skipped(why.to_owned()).into());
    };
    let launch = launch(4)?;
    let script = format!("echo $$ >'{}' && exec {}\"$@\"", group.tasks.display(), words(&launch));
    // Where the age of the recorded state is checked, longer than it may be old.
    let idle = if suite::is_long() { 2500 } else { 0 };
    let job = misfortune.run_until_seen(&shell(&launch, &script), "hoard", "2", idle)?;
    let job = job.expect_ranks(4)?;
    for one in &job.traces {
        expect_good(one)?;
        // In a memory group that is full, each thread stands still in its next page fault until the
        // kernel has found memory or ended a process. The kernel does not report this as waiting
        // for a processor.
        misfortune.expect_fresh(one, |told| told.waited + told.kept)?;
        ensure!(!one.trace.has(flags::CLOSED), "{}", one.table());
    }
    let said = job.report()?;
    let ended = said.lines().find(|line| line.contains("most had rank 2, last seen at"));
    ensure!(ended.is_some(), "{said}\n{}", job.outcome.report());
    ensure!(said.contains("may hold 629145600 bytes (600 MiB)"), "{said}");
    Ok(())
}

/// Returns the process of a rank, from the ranks' own lines.
fn process_of(rank: usize, running: &Running) -> Result<Pid> {
    let said = running.said();
    let told = said.lines().find_map(|line| line.strip_prefix(&format!("rank {rank} is ")));
    let number = told.with_context(|| format!("no rank {rank} in\n{said}"))?.trim().parse()?;
    Pid::from_raw(number).context("no process")
}

fn stopped_rank_can_be_read_and_goes_on() -> Result<()> {
    let misfortune = Misfortune::new()?;
    let memprof = Checkout::find()?.program("memprof")?;
    let folder = tempfile::tempdir()?;
    let traces = folder.path().join("traces");
    let launch = launch(2)?;
    let mut command = Command::new(&memprof);
    command.arg("run").arg("--output").arg(&traces).arg("--").arg(launch.get_program());
    command.args(launch.get_args()).arg(&misfortune.program).args(["nothing", "-1"]);
    command.arg(misfortune.folder.path());
    command.envs(launch.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let running = Running::start(&mut command, "a rank that is stopped", LIMIT)?;
    running.wait_for("rank ", 2)?;
    let process = process_of(1, &running)?;
    kill_process(process, Signal::STOP)?;
    let status = format!("/proc/{}/stat", process.as_raw_nonzero());
    until(LIMIT, "the rank stops", || Ok(fs::read_to_string(&status)?.contains(") T ")))?;
    let trace = traces_in(&traces)?.into_iter().find(|file| {
        CheckedTrace::open(file).is_ok_and(|checked| checked.trace.identity.rank == 1)
    });
    let trace = trace.context("no trace of the rank")?;
    let before = CheckedTrace::open(&trace)?;
    expect_good(&before)?;
    let output = Command::new(&memprof).arg("report").arg(&traces).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(said.contains("still running"), "{said}");
    kill_process(process, Signal::CONT)?;
    let before = before.summary()?.head.time;
    until(LIMIT, "it goes on", || Ok(CheckedTrace::open(&trace)?.summary()?.head.time > before))?;
    kill_process(process, Signal::KILL)?;
    running.finish()?;
    expect_good(&CheckedTrace::open(&trace)?)
}

fn child_that_calls_mpi_though_forbidden_disturbs_nothing() -> Result<()> {
    let misfortune = Misfortune::new()?;
    let job = misfortune.run_within(&launch(2)?, "fork", "1")?.expect_ranks(2)?;
    // What becomes of the child is up to MPI; the ranks continue, and are counted without it.
    job.expect_said("the child ended with")?;
    for one in &job.traces {
        expect_good(one)?;
        ensure!(one.trace.has(flags::CLOSED | flags::FINALIZED), "{}", one.table());
        let peak = one.summary()?.head.peak;
        ensure!(peak < 120 * MEBI, "{peak} B\n{}", one.table());
    }
    Ok(())
}

/// Returns the number of traces of ranks, without that of the command.
fn ranks_of(job: &Recorded) -> usize {
    job.traces.iter().filter(|one| one.trace.identity.rank >= 0).count()
}

fn several_launches_in_one_script_are_one_recording() -> Result<()> {
    let misfortune = Misfortune::new()?;
    let launches = [launch(2)?, launch(3)?];
    let script: Vec<String> = launches.iter().map(|one| format!("{}\"$@\"", words(one))).collect();
    let job = misfortune.run_within(&shell(&launches[0], &script.join(" && ")), "fork", "-1")?;
    job.outcome.expect_success()?;
    let ranks = ranks_of(&job);
    ensure!(ranks == 5, "{ranks} ranks\n{}", job.outcome.report());
    let said = job.report()?;
    ensure!(said.contains("2 jobs in this folder"), "{said}");
    Ok(())
}

fn a_recording_within_a_recording_is_said() -> Result<()> {
    let misfortune = Misfortune::new()?;
    let inner = misfortune.folder.path().join("inner");
    let launch = launch(2)?;
    let memprof = Checkout::find()?.program("memprof")?;
    let script = format!(
        "exec '{}' run --output '{}' -- {}\"$@\"",
        memprof.display(),
        inner.display(),
        words(&launch)
    );
    let job = misfortune.run_within(&shell(&launch, &script), "fork", "-1")?;
    job.outcome.expect_success()?;
    ensure!(job.outcome.stderr.contains("within another memprof run"), "{}", job.outcome.report());
    ensure!(ranks_of(&job) == 0 && traces_in(&inner)?.len() == 2, "{}", job.outcome.report());
    Ok(())
}

/// Checks that root can create namespaces here.
fn expect_name_spaces(options: &[&str]) -> Result<()> {
    let made = Command::new("unshare").args(options).arg("true").output();
    if made.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    Err(Skipped(format!("only root can do `unshare {}`", options.join(" "))).into())
}

fn ranks_in_name_spaces_of_processes_are_told_apart() -> Result<()> {
    expect_name_spaces(&["--pid", "--fork", "--mount-proc"])?;
    let misfortune = Misfortune::new()?;
    // The namespace includes the launcher, which all MPIs support; the reporting command is
    // outside.
    let launch = launch(2)?;
    let script =
        format!("exec unshare --pid --fork --mount-proc --kill-child {}\"$@\"", words(&launch));
    let job = misfortune.run_within(&shell(&launch, &script), "fork", "-1")?.expect_ranks(2)?;
    job.outcome.expect_success()?;
    job.expect_good_books()?;
    let said = job.report()?;
    ensure!(!said.contains("still running") && !said.contains("another program"), "{said}");
    Ok(())
}

fn ranks_that_see_little_of_proc_and_dev_shm_run() -> Result<()> {
    expect_name_spaces(&["--mount"])?;
    let misfortune = Misfortune::new()?;
    for (what, said) in [
        // In a container there may be another `/proc` underneath.
        (
            "while umount --lazy /proc 2>/dev/null; do :; done",
            "the kernel does not tell which pages are resident",
        ),
        ("mount -t proc -o hidepid=2 proc /proc", ""),
        ("mount -o remount,ro,bind /dev/shm", ""),
    ] {
        let mut launch = launch(2)?;
        // For the ranks only: launchers read /proc.
        launch.args(["unshare", "--mount", "sh", "-c", &format!("{what} && exec \"$@\""), "sh"]);
        let job = misfortune.run_within(&launch, "fork", "-1").context(what)?;
        if !job.outcome.status.success() && !runs_without(&launch, &misfortune)? {
            // This MPI itself needs what is missing. It may end a rank before the rank has a trace.
            continue;
        }
        let job = job.expect_ranks(2)?;
        job.outcome.expect_success().context(what)?;
        for one in &job.traces {
            ensure!(one.trace.has(flags::CLOSED), "{what}: {}", one.table());
            let program = one.trace.identity.program.to_string();
            ensure!(program.ends_with("misfortune"), "{what}: it calls itself `{program}`");
            let notes = one.notes();
            let noted = notes.iter().any(|note| note.contains(said));
            ensure!(said.is_empty() && notes.is_empty() || noted, "{what}: {notes:?}");
        }
    }
    Ok(())
}

fn runs_without(launch: &Command, misfortune: &Misfortune) -> Result<bool> {
    let mut command = Command::new(launch.get_program());
    command.args(launch.get_args()).arg(&misfortune.program).args(["fork", "-1"]);
    command.arg(misfortune.folder.path());
    command.envs(launch.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let running = Running::start(&mut command, "without the profiler", LIMIT)?;
    Ok(running.finish()?.status.success())
}

quo_tests::suite! {
    however_one_rank_ends_the_traces_of_all_are_there
    job_killed_at_any_moment_leaves_readable_traces
    rank_ended_for_its_memory_is_named_with_its_memory
    stopped_rank_can_be_read_and_goes_on
    child_that_calls_mpi_though_forbidden_disturbs_nothing
    several_launches_in_one_script_are_one_recording
    a_recording_within_a_recording_is_said
    ranks_in_name_spaces_of_processes_are_told_apart
    ranks_that_see_little_of_proc_and_dev_shm_run
}
