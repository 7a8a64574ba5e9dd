//! The memory profiler around real programs of the MPI in use, started as users start it; then the
//! same with the MPIs that no other suite covers.
#![allow(clippy::print_stdout)] // Its output is for the user that runs the tests.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use memprof_trace::layout::{Class, flags};
use quo_tests::memprof::{PROGRAMS, traces_in};
use quo_tests::suite::{self, Skipped, Test};
use quo_tests::{
    APPLICATION, BindTo, CheckedTrace, Checkout, Frames, Launcher, MPI, Recorded, Running,
    Selection, StoppedProcesses, fortran_support, mpicc, mpifort, run_compiler,
};
use serde_json::{Value, json};

const TESTS: &[Test] = &[
    ("usual_programs_close_their_books_on_every_rank", usual),
    ("all_ranks_together_have_the_kernels_pages_of_their_node", node),
    ("fresh_receive_buffers_are_the_applications_and_mpi_stays_flat", fresh_buffers),
    ("page_faults_tell_that_mpi_touches_what_the_application_owns", faults),
    ("threads_that_use_mpi_at_once_close_their_books", threads),
    ("shared_window_has_one_owner_on_all_ranks", shared_window),
    ("phases_have_their_names_and_what_was_held_in_them", phases),
    ("sessions_without_init_end_as_programs_with_finalize_do", sessions),
    ("program_gets_a_sample_by_either_name_of_mpi_pcontrol", pcontrol),
    ("time_that_is_not_recorded_is_said_as_a_phase", silence),
    ("what_children_of_ranks_have_is_not_the_ranks", children),
    ("children_of_ranks_are_told_apart_in_reports", children_told),
    ("job_with_a_killed_rank_leaves_the_traces_of_all", killed),
    ("sweep_finds_the_owned_memory_per_rank", sweep),
    ("an_mpi_loaded_at_run_time_is_seen", dlopened),
    ("fortran_through_mpif_h_is_seen", fortran_mpif),
    ("fortran_through_the_module_mpi_is_seen", fortran_mpi),
    ("fortran_through_the_module_mpi_f08_is_seen", fortran_f08),
    ("calls_from_fortran_are_seen_through_every_binding", fortran_calls),
    ("python_through_mpi4py_is_seen", python),
];

const MEBI: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// Memory that a process may touch while it is sampled.
const MEANWHILE: u64 = 2 * PAGE;
/// An idle process touches less than this fraction of its memory after its last sample: pages of
/// the profiler's file, and code, of which the kernel maps sixteen pages where one is touched.
const SINCE: u64 = 50;

fn main() -> ExitCode {
    let here = suite::run(TESTS, None);
    let is_elsewhere = std::env::var_os("MPICC").is_some();
    if is_elsewhere || Selection::of_this_program().is_listing() {
        return here;
    }
    let elsewhere = others().and_then(|others| {
        others.into_iter().try_fold(true, |fine, other| Ok(other.run()? && fine))
    });
    match elsewhere {
        Ok(true) => here,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("test other_mpis ... FAILED\n{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// MPIs other than those that all suites cover: this suite is short enough for every one. Programs
/// load the last library. The last MPI also provides a second library with the interface that MPI 5
/// standardises.
const OTHERS: [(&str, &str, &str, &str); 3] = [
    ("mpich4", "mpich4", "mpicc", "libmpich.so."),
    ("intel", "intel", "mpicc", "libmpi.so."),
    ("the interface of MPI 5", "mpich5", "mpicc_abi", "libmpi_abi.so."),
];

/// Variable with the beginning of the name of the library that programs must load, if one is
/// prescribed.
const LIBRARY: &str = "QUO_TESTS_LIBRARY";

/// Another MPI, with the variables that select it, or the reason why it cannot be used.
struct Other {
    name: &'static str,
    variables: Result<Vec<(&'static str, PathBuf)>, String>,
}

fn others() -> Result<Vec<Other>> {
    let mut list = Command::new(Checkout::find()?.program("xtask")?);
    list.args(["mpi", "list", "--json"]).args(OTHERS.map(|(_, mpi, ..)| mpi));
    let output = list.output().context("starting xtask")?;
    ensure!(output.status.success(), "{list:?}: {}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout)?;
    let entries = told["mpis"].as_array().context("no list of MPIs")?;
    let others = OTHERS.iter().zip(entries).map(|(&(name, mpi, compiler, library), entry)| {
        let file = entry["folder"].as_str().map(|folder| Path::new(folder).join("bin"));
        let variables = match file.filter(|folder| folder.join(compiler).exists()) {
            None => Err(format!("it is not here; get it with: cargo xtask mpi install {mpi}")),
            // A variable may name a missing file: then no other MPI's compiler is taken in its
            // place.
            Some(folder) => Ok(vec![
                ("MPICC", folder.join(compiler)),
                ("MPIFC", folder.join(compiler.replace("mpicc", "mpifort"))),
                ("QUO_TESTS_MPIRUN", folder.join("mpirun")),
                ("QUO_TESTS_PYTHON", folder.join("python3")),
                (LIBRARY, PathBuf::from(library)),
            ]),
        };
        Other { name, variables }
    });
    Ok(others.collect())
}

impl Other {
    /// Runs this suite on it. Returns true if no test failed.
    fn run(&self) -> Result<bool> {
        println!("\non {}:", self.name);
        match &self.variables {
            Err(reason) => {
                println!("test all ... ignored: {reason}");
                println!("\ntest result: ok. 0 passed; 0 failed; {} ignored\n", TESTS.len());
                Ok(true)
            }
            Ok(variables) => {
                let mut again = Command::new("/proc/self/exe");
                again.args(std::env::args_os().skip(1)).envs(variables.iter().cloned());
                Ok(again.status().context("starting this suite again")?.success())
            }
        }
    }
}

/// Returns a folder for the programs of this run.
fn folder() -> Result<&'static Path> {
    static FOLDER: OnceLock<Result<tempfile::TempDir, String>> = OnceLock::new();
    let made = FOLDER.get_or_init(|| tempfile::tempdir().map_err(|error| error.to_string()));
    made.as_ref().map(tempfile::TempDir::path).map_err(|error| anyhow!("{error}"))
}

fn compile(compiler: &std::ffi::OsStr, source: &str, flags: &[&str]) -> Result<PathBuf> {
    let source = Checkout::find()?.root().join(PROGRAMS).join(source);
    let program = folder()?.join(source.file_name().context("a source without a name")?);
    let program = program.with_extension("program");
    let mut command = Command::new(compiler);
    command.current_dir(folder()?).arg(&source).arg("-o").arg(&program).args(flags);
    run_compiler(&mut command)?;
    Ok(program)
}

fn compile_c(source: &str) -> Result<PathBuf> {
    compile(&mpicc(), source, &["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"])
}

fn usual() -> Result<()> {
    let program = compile_c("usual.c")?;
    let library = library_name(&program)?;
    for ranks in [2, 4] {
        let job = Recorded::run(ranks, &program, &[])?;
        job.expect_said("done")?.expect_good_books()?;
        for file in traces_in(&job.traces())? {
            ensure!(file.metadata()?.len() == 4 * MEBI, "{} has another size", file.display());
        }
        for one in &job.traces {
            let application = one.peak(APPLICATION);
            ensure!(application >= 30 * MEBI, "{application} B\n{}", one.table());
            ensure!(one.peak(MPI) > MEBI / 2, "MPI has nothing\n{}", one.table());
            expect_components(one, &library)?;
        }
    }
    Ok(())
}

/// Checks that a plain C program has only its own component and MPI's, and that the parts of MPI
/// are separate.
fn expect_components(one: &CheckedTrace, library: &str) -> Result<()> {
    let name = format!("mpi.core:{library}");
    let of = |wanted: &dyn Fn(Class, &str) -> bool| {
        let rows = one.trace.summary.iter().flat_map(|summary| summary.rows.iter().enumerate());
        let those = rows.filter(|(index, _)| {
            let class = one.trace.component(*index).map(|row| row.class());
            class.is_some_and(|class| wanted(class, &one.trace.component_name(*index)))
        });
        those.fold((0, 0), |sum, (_, row)| (sum.0 + row.owned_peak, sum.1 + row.resident_peak))
    };
    let (core, _) = of(&|_, given| given == name);
    ensure!(core > 0, "{name} owns nothing\n{}", one.table());
    let (given, resident) = of(&|class, _| class == Class::MpiForUser);
    let is_there = given >= 3 * MEBI && resident >= 3 * MEBI;
    ensure!(is_there, "{given} B by MPI_Alloc_mem, {resident} B there\n{}", one.table());
    let (segments, resident) = of(&|class, _| class == Class::MpiShared);
    ensure!(segments > 0 && resident > 0, "MPI shares nothing\n{}", one.table());
    for class in [Class::AppLibrary, Class::AppShared] {
        let has = of(&|other, _| other == class);
        ensure!(has == (0, 0), "{has:?} B of {}\n{}", class.name(), one.table());
    }
    Ok(())
}

/// Returns the name of the library that programs of this MPI load, which must be the intended one.
fn library_name(program: &Path) -> Result<String> {
    let library = library_of(program)?;
    let name = library.rsplit('/').next().unwrap_or_default().to_owned();
    let meant = std::env::var(LIBRARY).unwrap_or_default();
    ensure!(name.starts_with(&meant), "it loads {library}, not {meant}*");
    Ok(name)
}

/// Compares the kernel's figures for processes that share much memory with the report's: page by
/// page for the node, where a page of several processes counts once, and by the kernel's sum for
/// each process.
fn node() -> Result<()> {
    const RANKS: usize = 4;
    let Some(mut frames) = Frames::new()? else {
        return Err(Skipped("the kernel tells only root the numbers of page frames".into()).into());
    };
    let folder = tempfile::tempdir()?;
    let (traces, gate) = (folder.path().join("traces"), folder.path().join("gate"));
    let rights = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &gate, rustix::fs::FileType::Fifo, rights, 0)?;
    let mut gate_end = File::options().read(true).write(true).open(&gate)?;
    let gate = gate.to_str().context("a path that is no text")?;
    let program = compile_c("at_rest.c")?;
    let mut command = memprof_run(&traces, RANKS)?;
    let description = format!("{:?}", command.arg(program).arg(gate));
    let running = Running::start(&mut command, &description, Duration::from_secs(60))?;
    running.wait_for("at rest", RANKS)?;

    let files = traces_in(&traces)?;
    let process = |file: &PathBuf| Ok(CheckedTrace::open(file)?.trace.identity.pid);
    let processes: Vec<u32> = files.iter().map(process).collect::<Result<_>>()?;
    ensure!(processes.len() == RANKS, "{} traces", processes.len());
    let still = StoppedProcesses::hold(&processes)?;
    // By the kernel, at the last look at each process.
    let mut last: HashMap<u64, u64> = HashMap::new();
    for file in &files {
        let one = CheckedTrace::open(file)?;
        let (sample, _) = one.full().last().context("no sample")?;
        last.insert(one.trace.identity.pid.into(), sample.kernel_resident);
    }
    let mut report = Command::new(Checkout::find()?.program("memprof")?);
    let output = report.arg("report").arg("--json").arg(&traces).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let number = |value: &Value| value.as_u64().with_context(|| format!("{value} is no number"));
    let ranks = report["nodes"][0]["ranks"].as_array().context("no ranks")?;
    let (mut tables, mut since) = (0, 0);
    for rank in ranks {
        let process = number(&rank["identity"]["pid"])?;
        let parts = rank["held"].as_array().into_iter().flatten();
        let sum = parts.map(|held| number(&held["resident"])).sum::<Result<u64>>()?;
        let total = number(&rank["totals"]["resident"])?;
        ensure!(sum == total, "components have {sum} B, the process {total}");
        tables += number(&rank["totals"]["page_tables"])?;
        let found = sum - number(&rank["totals"]["page_tables"])?;
        let then = *last.get(&process).context("no such process")?;
        ensure!(
            found.abs_diff(then) <= MEANWHILE,
            "{found} B, {then} by the kernel at that moment"
        );
        let text = std::fs::read_to_string(format!("/proc/{process}/statm"))?;
        let now = text.split(' ').nth(1).context("no second number")?.parse::<u64>()? * PAGE;
        println!("rank: {found} B found, {then} B by the kernel then, {now} B now");
        ensure!(now.abs_diff(then) * SINCE <= now, "{then} B then, {now} B at rest");
        since += now.abs_diff(then);
        frames.add(u32::try_from(process)?)?;
    }
    let (found, kernel) = (number(&report["balance"]["nodes"])? - tables, frames.bytes()?);
    let added = number(&report["balance"]["ranks"])? - tables;
    // The report states its uncertainty about shared memory with more pages than a trace has bits,
    // which few MPIs have.
    let unsure = number(&report["balance"]["uncertain"])?;
    println!("node: {found} B of {added} B found, {unsure} B unsure, {kernel} B by the kernel");
    // The only other difference is what was touched since.
    let most = since + RANKS as u64 * MEANWHILE;
    let fits = kernel <= found + most && found <= kernel + most + unsure;
    ensure!(fits && unsure * 50 <= kernel, "{found} B, {kernel} by the kernel, {since} since");
    ensure!(added > kernel + 20 * MEBI, "{added} B added up, {kernel} B there: nothing is shared");
    drop(still);
    gate_end.write_all(&[b'\n'; RANKS])?;
    running.finish()?.expect_success()?;
    Ok(())
}

fn fresh_buffers() -> Result<()> {
    let job = Recorded::run(2, &compile_c("fresh_buffers.c")?, &[])?;
    job.expect_fresh_buffers()?;
    Ok(())
}

/// Ten buffers of 40 MiB that MPI touches first, and one that the program fills itself.
fn faults() -> Result<()> {
    let job = Recorded::run_with(&["--faults"], 2, &compile_c("fresh_buffers.c")?, &[])?;
    job.expect_said("received")?.expect_good_books()?;
    for one in &job.traces {
        let trace = &one.trace;
        if !trace.has(flags::FAULTS) {
            return Err(Skipped("the kernel does not tell of page faults here".into()).into());
        }
        let class = |number: u16| trace.component(number.into()).map(|row| row.class());
        let touched = |by: fn(Class) -> bool| -> u64 {
            let touches = trace.touches.iter().map(|touch| &touch.row);
            touches
                .filter(|touch| class(touch.owner) == Some(Class::AppExecutable))
                .filter(|touch| class(touch.toucher).is_some_and(by))
                .map(|touch| touch.bytes)
                .sum()
        };
        let lost = trace.summary.as_ref().map_or(0, |summary| summary.head.faults_lost);
        ensure!(lost == 0, "{lost} page faults were lost");
        for (by, buffers) in
            [(MPI, 10), (|class| class == Class::AppExecutable, 1)] as [(fn(Class) -> bool, u64); 2]
        {
            let (bytes, expected) = (touched(by), buffers * 40 * MEBI);
            let off = bytes.abs_diff(expected);
            ensure!(off * 100 <= expected, "{bytes} B for {buffers} buffers\n{:?}", trace.touches);
        }
    }
    Ok(())
}

fn threads() -> Result<()> {
    let job = Recorded::run(2, &compile_c("threads_multiple.c")?, &[])?;
    job.expect_said("threads")?.expect_good_books()?;
    if job.expect_said("4 threads").is_err() {
        return Err(Skipped("this MPI has no MPI_THREAD_MULTIPLE".to_owned()).into());
    }
    Ok(())
}

/// Rank 0 has requested the whole window, and all ranks have it resident.
fn shared_window() -> Result<()> {
    let job = Recorded::run(3, &compile_c("shared_window.c")?, &[])?;
    job.expect_said("done")?.expect_good_books()?;
    for one in &job.traces {
        let (_, rows) = one.asked().next().context("no sample was asked for")?;
        let users = one.resident(rows, |class| class == Class::MpiForUser);
        let fits = (8 * MEBI..9 * MEBI).contains(&users);
        ensure!(fits, "the user's window has {users} B\n{}", one.table());
    }
    Ok(())
}

fn sessions() -> Result<()> {
    let job = Recorded::run(2, &compile_c("session.c")?, &[])?;
    if job.outcome.stdout.contains("no sessions") {
        return Err(Skipped("the MPI has no sessions".into()).into());
    }
    job.expect_said("done")?.expect_good_books()?;
    for one in &job.traces {
        let ended = flags::INITIALIZED | flags::FINALIZED | flags::CLOSED;
        ensure!(one.trace.state.flags & ended == ended, "flags {:#x}", one.trace.state.flags);
        let phase =
            |name: &str| one.trace.phases.iter().find(|row| row.row.name.to_string() == name);
        let entries = |name: &str| phase(name).map_or(0, |phase| phase.row.entries);
        ensure!((entries("init"), entries("finalize")) == (1, 1), "{}", one.table());
    }
    ensure!(!job.report()?.contains("without MPI_Finalize"), "{}", job.report()?);
    Ok(())
}

/// Memory of `phases.c` in each phase, in addition to the memory of all phases.
const IN_PHASES: &[(&str, u64)] = &[
    ("init", 3 * MEBI),
    ("main", 7 * MEBI),
    ("pcontrol 3", 35 * MEBI),
    ("solve", 35 * MEBI),
    ("pcontrol 5", 64),
    ("finalize", 4 * MEBI),
];

fn phases() -> Result<()> {
    // However expensive a look is under the load of a test machine, each block is looked at before
    // it is freed.
    let options = ["--max-overhead", "100", "--interval", "1000"];
    let job = Recorded::run_with(&options, 2, &compile_c("phases.c")?, &[])?;
    job.expect_said("done")?.expect_good_books()?;
    for one in &job.traces {
        ensure!(!one.trace.has(flags::PAUSED), "still paused");
        // Nothing is looked at between MPI_Pcontrol(0) and 1: owned memory is counted, resident
        // memory is not.
        let (owned, resident) =
            one.phase_peaks("not recorded", |class| class == Class::AppExecutable)?;
        ensure!(
            owned >= 5 * MEBI && resident < owned - 4 * MEBI,
            "{owned} B owned, {resident} B resident while nothing was recorded\n{}",
            one.table()
        );
        let has = |class| class == Class::AppExecutable;
        let (always, _) = one.phase_peaks("pcontrol 5", has)?;
        let always = always - 64;
        for &(name, bytes) in IN_PHASES {
            let (owned, resident) = one.phase_peaks(name, has)?;
            // `main` encloses all requests of the program, and what lies between the calls of MPI.
            let bytes = if name == "main" { 35 * MEBI } else { bytes };
            // What constructors of libraries requested before `main` may still be counted in
            // MPI_Init.
            let before_main = if name == "init" { 256 } else { 0 };
            ensure!(
                (always + bytes..=always + bytes + before_main).contains(&owned),
                "in {name} {owned} B are owned, not {bytes} beside {always}\n{}",
                one.table()
            );
            // Code and constants are resident too, and the part that is not looked at again is
            // small.
            let most = owned + one.image(has) + MEBI / 8;
            let least = bytes - bytes.min((bytes / 100).max(MEBI / 4));
            ensure!(
                (least..=most).contains(&resident),
                "in {name} {resident} B are resident, not {least} to {most}\n{}",
                one.table()
            );
        }
    }
    Ok(())
}

fn pcontrol() -> Result<()> {
    const COUNT: usize = 7;
    let program = compile_c("pcontrol.c")?;
    for (name, phase) in [("MPI", "usual"), ("PMPI", "other")] {
        let job = Recorded::run(2, &program, &[name, &COUNT.to_string()])?;
        job.expect_said("done")?.expect_good_books()?.expect_phases(&[phase])?;
        for one in &job.traces {
            let has = |(_, rows)| one.resident(rows, |class| class == Class::AppExecutable);
            let held: Vec<u64> = one.asked().map(has).collect();
            // Each sample shows the memory at that moment.
            let first = held.first().context("no sample was asked for")?;
            let off = |number: usize, bytes: u64| (first + number as u64 * MEBI).abs_diff(bytes);
            let expected = held.iter().take(COUNT).enumerate();
            let all = expected.filter(|&(number, &bytes)| off(number, bytes) < MEBI / 8).count();
            ensure!(all == COUNT, "{name}: {held:?}\n{}", one.table());
        }
    }
    Ok(())
}

fn silence() -> Result<()> {
    let job = Recorded::run(2, &compile_c("phases.c")?, &[])?;
    job.expect_good_books()?.expect_phases(&["not recorded"])?;
    let said = job.report()?;
    let line = said.lines().find(|line| line.trim_start().starts_with("not recorded"));
    ensure!(line.is_some() && !said.contains("recording was off"), "{said}");
    let page = folder()?.join("silence.html");
    let mut report = Command::new(Checkout::find()?.program("memprof")?);
    let output = report.arg("report").arg(job.traces()).arg("--html").arg(&page).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    ensure!(std::fs::read_to_string(&page)?.contains("not recorded"), "the page does not say it");
    Ok(())
}

fn children() -> Result<()> {
    let job = Recorded::run(2, &compile_c("children.c")?, &[])?;
    job.expect_said("done")?.expect_good_books()?;
    for one in &job.traces {
        // The child's 100 MiB do not belong to the rank.
        let application = one.peak(APPLICATION);
        ensure!(application < 30 * MEBI, "{application} B\n{}", one.table());
    }
    Ok(())
}

/// Returns `memprof run -- mpirun -n RANKS`, still without the program.
fn memprof_run(traces: &Path, ranks: usize) -> Result<Command> {
    let launch = Launcher::find()?.command(ranks, BindTo::None);
    let mut command = Command::new(Checkout::find()?.program("memprof")?);
    command.arg("run").arg("--output").arg(traces).arg("--");
    command.arg(launch.get_program()).args(launch.get_args());
    command.envs(launch.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Ok(command)
}

fn children_told() -> Result<()> {
    let program = compile_c("children.c")?;
    let folder = tempfile::tempdir()?;
    let memprof = Checkout::find()?.program("memprof")?;
    let report = |traces: &Path, options: &[&str]| -> Result<String> {
        let output = Command::new(&memprof).arg("report").args(options).arg(traces).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    };
    let limit = Duration::from_secs(100);
    let (ranks, all) = (folder.path().join("ranks"), folder.path().join("all"));
    for traces in [&ranks, &all] {
        let mut command = memprof_run(traces, 2)?;
        if traces == &all {
            command.env("MEMPROF_RECORD", "all");
        }
        let description = format!("{:?}", command.arg(&program));
        Running::start(&mut command, &description, limit)?.finish()?.expect_success()?;
    }
    let said = report(&ranks, &[])?;
    ensure!(said.contains("note: children that ranks 0, 1 forked held memory"), "{said}");
    let job: Value = serde_json::from_str(&report(&all, &["--json"])?)?;
    let processes = job["nodes"][0]["ranks"].as_array().context("no ranks")?;
    let mut numbers: Vec<u64> =
        processes.iter().filter_map(|one| one["identity"]["rank"].as_u64()).collect();
    numbers.sort_unstable();
    ensure!(numbers == [0, 1], "ranks {numbers:?}");
    for rank in [0, 1] {
        // The first child has 100 MiB and ends by _exit, as children do.
        let first = |one: &&Value| one["identity"]["child"] == json!({"rank": rank, "number": 1});
        let child = processes.iter().find(first).context("no first child")?;
        ensure!(child["state"] == "gone", "{child}");
        let peak = child["peak"]["bytes"].as_u64().context("no peak")?;
        ensure!(peak > 100 * MEBI, "the child of rank {rank} had {peak} B");
    }
    let said = report(&all, &[])?;
    ensure!(said.contains("child 1 of rank") && !said.contains("(killed, or _exit)"), "{said}");
    Ok(())
}

fn killed() -> Result<()> {
    let program = compile_c("children.c")?;
    let folder = tempfile::tempdir()?;
    let traces = folder.path().join("traces");
    let mut command = memprof_run(&traces, 2)?;
    let description = format!("{:?}", command.arg(program).arg("kill"));
    let outcome = Running::start(&mut command, &description, Duration::from_secs(100))?.finish()?;
    ensure!(outcome.expect_success().is_err(), "it went well\n{}", outcome.report());
    let files = traces_in(&traces)?;
    ensure!(files.len() == 2, "{} traces\n{}", files.len(), outcome.report());
    for file in &files {
        let one = CheckedTrace::open(file)?;
        ensure!(!one.trace.has(flags::FINALIZED), "it says that it ended well\n{}", one.table());
        ensure!(one.trace.has(flags::INITIALIZED), "no MPI_Init\n{}", one.table());
        one.expect_all_attributed()?;
    }
    let memprof = Checkout::find()?.program("memprof")?;
    let output = Command::new(&memprof).arg("report").arg(&traces).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(said.contains("rank 0") && said.contains("ended without"), "{said}");
    Ok(())
}

/// Runs `peers.c` on several numbers of ranks.
fn sweep() -> Result<()> {
    const MOST: &str = "4";
    let program = compile_c("peers.c")?;
    let launch = Launcher::find()?.command(MOST.parse()?, BindTo::None);
    let mut words = vec![launch.get_program()];
    words.extend(launch.get_args());
    let words: Vec<&str> = words.into_iter().filter_map(OsStr::to_str).collect();
    let places = words.iter().filter(|word| **word == MOST).count();
    ensure!(places == 1, "{places} numbers of ranks in {words:?}");
    let words = words.iter().map(|word| if *word == MOST { "{n}" } else { word });
    let mpirun = words.map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let folder = tempfile::tempdir()?;
    let mut command = Command::new(Checkout::find()?.program("memprof")?);
    command.args(["sweep", "-n", "1,2,3,4", "--metric", "owned", "--mpirun", &mpirun, "--json"]);
    command.arg("--output").arg(folder.path().join("study")).arg("--").arg(&program);
    command.envs(launch.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let description = format!("{command:?}");
    let running = Running::start(&mut command, &description, Duration::from_secs(100))?;
    let outcome = running.finish()?;
    outcome.expect_success()?;
    let study: Value = serde_json::from_str(&outcome.stdout)
        .with_context(|| format!("no JSON\n{}", outcome.report()))?;
    ensure!(study["counts"] == serde_json::json!([1, 2, 3, 4]), "{study}");
    let growths = study["growths"].as_array().context("no components")?;
    let name = "app.exe:peers.program";
    let found = growths.iter().find(|growth| growth["name"] == name);
    let growth = found.with_context(|| format!("no {name} in {study}"))?;
    let fit = &growth["fit"];
    ensure!(fit["law"] == "linear", "{growth}");
    for (coefficient, bytes) in [("per_rank", 65_536.0), ("fixed", 3.0 * MEBI as f64)] {
        let value = fit[coefficient]["value"].as_f64().context("no coefficient")?;
        ensure!((value / bytes - 1.0).abs() < 0.03, "{coefficient} is {value}\n{growth}");
    }
    Ok(())
}

/// Returns the file of the library that programs of this MPI load.
fn library_of(program: &Path) -> Result<String> {
    let output = Command::new("ldd").arg(program).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.trim_start().starts_with("libmpi"));
    let path = line.and_then(|line| line.split("=> ").nth(1)?.split_whitespace().next());
    Ok(path.with_context(|| format!("no libmpi in\n{text}"))?.to_owned())
}

fn dlopened() -> Result<()> {
    let library = library_of(&compile_c("usual.c")?)?;
    let program = compile("cc".as_ref(), "dlopened.c", &["-std=gnu11", "-O1", "-ldl"])?;
    let job = Recorded::run(2, &program, &[&library])?;
    job.expect_said("done")?.expect_good_books()?;
    for one in &job.traces {
        // Memory from before MPI counts, although nothing showed then that MPI would be
        // initialised.
        let peak = one.peak(APPLICATION);
        ensure!(peak >= 50 * MEBI, "{peak} B\n{}", one.table());
    }
    Ok(())
}

fn fortran(source: &str) -> Result<()> {
    fortran_support().map_err(|reason| Skipped(reason.to_string()))?;
    let job = Recorded::run(2, &compile(&mpifort(), source, &["-O1"])?, &[])?;
    job.expect_said("done")?.expect_good_books()?;
    for one in &job.traces {
        let application = one.peak(APPLICATION);
        ensure!(application >= 19 * MEBI, "{application} B\n{}", one.table());
    }
    Ok(())
}

fn fortran_mpif() -> Result<()> {
    fortran("messages_mpif.f")
}

fn fortran_mpi() -> Result<()> {
    fortran("messages_mpi.f90")
}

fn fortran_f08() -> Result<()> {
    let support = fortran_support().map_err(|reason| Skipped(reason.to_string()))?;
    if !support.mpi_f08 {
        return Err(Skipped("this MPI has no module mpi_f08 for this compiler".to_owned()).into());
    }
    fortran("messages_f08.f90")
}

/// Callbacks of a Fortran program allocate within two kinds of MPI functions, one of which takes
/// buffers: the program's peak lies there.
fn fortran_calls() -> Result<()> {
    let support = fortran_support().map_err(|reason| Skipped(reason.to_string()))?;
    let f08 = support.mpi_f08.then_some("callbacks_f08.f90");
    for source in ["callbacks_mpif.f", "callbacks_mpi.f90"].into_iter().chain(f08) {
        let program = compile(&mpifort(), source, &["-O1"])?;
        for (which, function) in [("1", "MPI_Allreduce"), ("2", "MPI_Comm_delete_attr")] {
            let options = ["--max-overhead", "100", "--interval", "1000"];
            let job = Recorded::run_with(&options, 2, &program, &[which])?;
            job.expect_said("done")?.expect_good_books()?.expect_phases(&["pcontrol 3"])?;
            for one in &job.traces {
                let seen = one.functions_at_peaks();
                let is_seen = seen.iter().any(|name| name == function);
                ensure!(is_seen, "{source}: {seen:?}, not {function}\n{}", one.table());
                // The program requests two samples; MPI's end may add one.
                let asked = one.asked().count();
                ensure!(asked >= 2, "{source}: {asked} samples were asked for\n{}", one.table());
            }
        }
    }
    Ok(())
}

fn python() -> Result<()> {
    // Distributions build mpi4py for their own Python, which need not be the first in `PATH`.
    let candidates = match std::env::var("QUO_TESTS_PYTHON") {
        Ok(python) => vec![python],
        Err(_) => ["python3", "/usr/bin/python3"].map(str::to_owned).to_vec(),
    };
    let has_it = |python: &&String| {
        let found = Command::new(python).args(["-c", "import mpi4py"]).output();
        found.is_ok_and(|output| output.status.success())
    };
    let Some(python) = candidates.iter().find(has_it) else {
        return Err(Skipped("there is no mpi4py for this MPI".to_owned()).into());
    };
    let script = Checkout::find()?.root().join(PROGRAMS).join("messages.py");
    let script = script.to_str().context("a path that is no text")?.to_owned();
    let job = Recorded::run(2, Path::new(python), &[&script])?;
    job.expect_said("done")?.expect_good_books()?;
    for one in &job.traces {
        ensure!(!one.trace.has(flags::OWN_ALLOCATOR), "it has the C library's\n{}", one.table());
    }
    // The C library has mapped a locale, which no interposed call has shown.
    let said = job.report()?;
    ensure!(!said.contains("resident and owns"), "{said}");
    Ok(())
}
