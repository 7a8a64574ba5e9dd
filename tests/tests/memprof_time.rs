//! Time inside and outside MPI, compared with what programs with known waits read from the clock
//! themselves, under the launcher of the MPI in use.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quo_tests::memprof::PROGRAMS;
use quo_tests::suite::Skipped;
use quo_tests::{BindTo, Checkout, Launcher, Recorded, Running, fortran_support, mpicc, until};
use serde_json::Value;

const RANKS: usize = 3;
/// Kinds as the program prints them, by their names in JSON.
const KINDS: [&str; 6] =
    ["point_to_point_ns", "collective_ns", "one_sided_ns", "file_ns", "wait_ns", "other_ns"];

/// Returns the numbers that each rank has printed, by rank and region.
fn truths(job: &Recorded) -> BTreeMap<(u64, String), Vec<u64>> {
    let lines = job.outcome.stdout.lines().filter_map(|line| {
        let mut words = line.split(' ').skip_while(|word| !word.ends_with("truth")).skip(1);
        let rank = words.next()?.parse().ok()?;
        let region = words.next()?.to_owned();
        Some(((rank, region), words.filter_map(|word| word.parse().ok()).collect()))
    });
    lines.collect()
}

/// Returns the output of `memprof time --json`, or its standard error where it fails.
fn told(job: &Recorded) -> Result<Result<Value, String>> {
    told_of(&job.traces())
}

fn told_of(traces: &Path) -> Result<Result<Value, String>> {
    let mut command = Command::new(Checkout::find()?.program("memprof")?);
    let output = command.arg("time").arg(traces).arg("--json").output()?;
    if !output.status.success() {
        return Ok(Err(String::from_utf8(output.stderr)?));
    }
    Ok(Ok(serde_json::from_slice(&output.stdout)?))
}

fn region_of<'a>(told: &'a Value, region: &str) -> Result<&'a Value> {
    let regions = told["regions"].as_array().context("no regions")?;
    let found = regions.iter().find(|one| one["name"] == region);
    found.with_context(|| format!("no region {region} in {told}"))
}

/// Returns the entry of a rank in a region.
fn rank_of<'a>(told: &'a Value, region: &str, rank: u64) -> Result<&'a Value> {
    region_of(told, region)?["ranks"]
        .as_array()
        .and_then(|ranks| ranks.iter().find(|one| one["rank"] == rank))
        .with_context(|| format!("no rank {rank} in {region}: {told}"))
}

fn number(entry: &Value, name: &str) -> Result<u64> {
    entry[name].as_u64().with_context(|| format!("no {name} in {entry}"))
}

/// Checks within a hundredth of the whole, which is much longer than the time between the program's
/// and the profiler's clock reads.
fn expect_close(what: &str, found: u64, truth: u64, whole: u64) -> Result<()> {
    ensure!(found.abs_diff(truth) * 100 <= whole, "{what}: {found} ns, not {truth} of {whole}");
    Ok(())
}

fn times_of_all_kinds_are_the_programs_own() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program =
        Checkout::find()?.compile_c(&format!("{PROGRAMS}/waits.c"), folder.path(), &[])?;
    let job = Recorded::run_with(&["--mpi-time"], RANKS, &program, &["20"])?;
    let told = told(&job)?.map_err(anyhow::Error::msg)?;
    let truths = truths(&job);
    ensure!(truths.len() == 2 * RANKS, "{truths:?} {}", job.outcome.report());
    for ((rank, region), truth) in &truths {
        let entry = rank_of(&told, region, *rank)?;
        let what = |name: &str| format!("{name} of rank {rank} in {region}");
        let [least, most, kinds @ ..] = &truth[..] else { anyhow::bail!("too few: {truth:?}") };
        let elapsed = number(entry, "elapsed_ns")?;
        // A process may be stopped anywhere between the program's and the profiler's clock reads.
        let slack = least / 100;
        ensure!((least - slack..most + slack).contains(&elapsed), "{}: {elapsed}", what("elapsed"));
        for (name, kind) in KINDS.iter().zip(kinds) {
            expect_close(&what(name), number(entry, name)?, *kind, *least)?;
        }
        let mpi = number(entry, "mpi_ns")?;
        expect_close(&what("mpi"), mpi, kinds.iter().sum(), *least)?;
        ensure!(number(entry, "useful_ns")? == elapsed - mpi, "{entry}");
    }
    let solve = region_of(&told, "solve")?;
    let ranks = solve["ranks"].as_array().context("no ranks")?;
    let useful: Vec<u64> =
        ranks.iter().map(|rank| number(rank, "useful_ns")).collect::<Result<_>>()?;
    let mean = useful.iter().sum::<u64>() as f64 / useful.len() as f64;
    let expected = mean / useful.iter().copied().max().unwrap_or(1) as f64;
    let balance = solve["efficiency"]["load_balance"].as_f64().context("no balance")?;
    ensure!((balance - expected).abs() < 1e-6, "a balance of {balance}, not {expected}");
    Ok(())
}

fn crossed_open_and_unmatched_regions_are_noted() -> Result<()> {
    const NOTES: [&str; 4] = [
        "region outer ended with inner open inside, which ends there",
        "region inner ended and was not open: that end is left out",
        "region never ended and was not open: that end is left out",
        "region open was open when the process ended",
    ];
    let folder = tempfile::tempdir()?;
    let program =
        Checkout::find()?.compile_c(&format!("{PROGRAMS}/crossed.c"), folder.path(), &[])?;
    let job = Recorded::run_with(&["--mpi-time"], RANKS, &program, &[])?;
    let report = job.report()?;
    let told = told(&job)?.map_err(anyhow::Error::msg)?;
    for note in NOTES {
        ensure!(report.contains(note), "no {note}: {report}");
        let notes = told["notes"].as_array().context("no notes")?;
        let is_told = notes.iter().filter_map(Value::as_str).any(|told| told.contains(note));
        ensure!(is_told, "no {note}: {told}");
    }
    for rank in 0..RANKS as u64 {
        let elapsed = |region| number(rank_of(&told, region, rank)?, "elapsed_ns");
        let (main, whole) = (elapsed("main")?, elapsed("whole")?);
        ensure!(main <= whole && main > 0, "main of {main} ns in {whole}");
    }
    Ok(())
}

/// Returns linker options that find libmemprof.
fn libmemprof() -> Result<[String; 3]> {
    let library = Checkout::find()?.program("libmemprof_api.so")?;
    let beside = library.parent().context("a library without a folder")?.display();
    Ok([format!("-L{beside}"), "-lmemprof_api".to_owned(), format!("-Wl,-rpath,{beside}")])
}

/// Compiles a C program that is linked with quo and with libmemprof.
fn lending(folder: &tempfile::TempDir) -> Result<PathBuf> {
    let checkout = Checkout::find()?;
    let include = format!("-I{}", checkout.root().join("memprof/api/include").display());
    let library = libmemprof()?;
    let mut flags: Vec<&str> = vec![&include];
    flags.extend(library.iter().map(String::as_str));
    checkout.compile_c(&format!("{PROGRAMS}/lent.c"), folder.path(), &flags)
}

fn time_in_quos_barrier_is_lent_and_not_mpi() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let job = Recorded::run_with(&["--mpi-time"], RANKS, &lending(&folder)?, &["20"])?;
    job.outcome.expect_success()?;
    let told = told(&job)?.map_err(anyhow::Error::msg)?;
    let truths = truths(&job);
    ensure!(truths.len() == RANKS, "{truths:?} {}", job.outcome.report());
    for ((rank, region), truth) in &truths {
        let entry = rank_of(&told, region, *rank)?;
        let [whole, waited] = truth[..] else { anyhow::bail!("not two numbers: {truth:?}") };
        expect_close("lent", number(entry, "lent_ns")?, waited, whole)?;
    }
    Ok(())
}

fn time_in_parallel_regions_of_gnu_is_the_programs_own() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let source = format!("{PROGRAMS}/parallel.c");
    let program = Checkout::find()?.compile_c(&source, folder.path(), &["-fopenmp"])?;
    expect_parallel(&program)
}

/// Compiled by the same wrapper, which every MPI lets call another compiler.
fn time_in_parallel_regions_of_llvm_is_the_programs_own() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (source, program) = (format!("{PROGRAMS}/parallel.c"), folder.path().join("parallel"));
    let mut command = Command::new(mpicc());
    for variable in ["OMPI_CC", "MPICH_CC", "I_MPI_CC"] {
        command.env(variable, "clang");
    }
    command.args(["-O2", "-fopenmp", "-o"]).arg(&program);
    let output = command.arg(Checkout::find()?.root().join(source)).output()?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Skipped(format!("no clang with its OpenMP (libomp-dev): {words}")).into());
    }
    expect_parallel(&program)
}

/// Checks the program's own time in parallel regions of its main thread.
fn expect_parallel(program: &Path) -> Result<()> {
    let job = Recorded::run_with(&["--mpi-time"], 2, program, &[])?;
    let told = told(&job)?.map_err(anyhow::Error::msg)?;
    let truths = truths(&job);
    ensure!(truths.len() == 2, "{truths:?} {}", job.outcome.report());
    for ((rank, region), truth) in &truths {
        let [whole, parallel, regions] = truth[..] else { anyhow::bail!("{truth:?}") };
        let entry = rank_of(&told, region, *rank)?;
        expect_close("parallel", number(entry, "openmp_ns")?, parallel, whole)?;
        ensure!(number(entry, "openmp_regions")? == regions, "{entry} {truth:?}");
        ensure!(number(entry, "openmp_ns")? < number(entry, "useful_ns")?, "{entry}");
        let all = rank_of(&told, "whole", *rank)?;
        ensure!(number(all, "openmp_regions")? == regions + 1, "one before the region: {all}");
    }
    Ok(())
}

fn run_without_times_names_the_option() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program =
        Checkout::find()?.compile_c(&format!("{PROGRAMS}/waits.c"), folder.path(), &[])?;
    let job = Recorded::run(1, &program, &["1"])?;
    let words = told(&job)?.err().context("times that nobody took")?;
    ensure!(words.contains("memprof run --mpi-time"), "{words}");
    let job = Recorded::run_with(&["--mpi-time"], 1, &program, &["1"])?;
    let memprof = Checkout::find()?.program("memprof")?;
    let output = Command::new(memprof).arg("time").arg(job.traces()).arg("--loops").output()?;
    let words = String::from_utf8(output.stderr)?;
    ensure!(!output.status.success() && words.contains("memprof run --loops"), "{words}");
    Ok(())
}

/// Queries the status of an elastic job from outside, after its program has made its last report.
fn report_without_a_ratio_has_the_measured_one() -> Result<()> {
    let (checkout, folder) = (Checkout::find()?, tempfile::tempdir()?);
    let program = checkout.compile_c("tests/programs/elastic_measured.c", folder.path(), &[])?;
    let launch = Launcher::find()?.command(2, BindTo::None);
    let path = folder.path().to_str().context("a folder that is no text")?;
    let recording = Recorded::begun(&["--mpi-time"], &launch, &program, &[path])?;
    let status = last_report(folder.path(), 30);
    // The job ends whatever the outcome.
    std::fs::write(folder.path().join("stop"), "")?;
    let job = Recorded::of_job(recording)?;
    job.outcome.expect_success()?;
    let status = status.with_context(|| job.outcome.report())?;
    let mut shares = Vec::new();
    for line in job.outcome.stdout.lines() {
        let words: Vec<&str> =
            line.split(' ').skip_while(|word| !word.ends_with("truth")).collect();
        if let [_, _, in_mpi, computing] = words[..] {
            shares.push((in_mpi.parse::<f64>()?, computing.parse::<f64>()?));
        }
    }
    ensure!(shares.len() == 3, "{}", job.outcome.report());
    let share = |ratio: f64| ratio / (1.0 + ratio);
    let ratio = status["mpi_ratio"].as_f64().with_context(|| format!("no ratio in {status}"))?;
    let (in_mpi, computing) = shares[2];
    let truth = in_mpi / (in_mpi + computing);
    // A process may be stopped anywhere between the program's and the profiler's clock reads.
    ensure!((share(ratio) - truth).abs() < 0.05, "a share of {}, not {truth}", share(ratio));
    let total = status["mpi_ratio_total"].as_f64().with_context(|| format!("none in {status}"))?;
    let mean = shares.iter().map(|(mpi, computing)| mpi / (mpi + computing)).sum::<f64>() / 3.0;
    ensure!((share(total) - mean).abs() < 0.05, "a share of {}, not {mean}", share(total));
    Ok(())
}

/// Returns the report of a job, once it is of this iteration.
fn last_report(folder: &Path, iteration: u64) -> Result<Value> {
    let is_last = |status: &Value| status["report"]["iteration"] == iteration;
    Ok(status_when(folder, "it has reported all iterations", is_last)?["report"].take())
}

/// Returns the status of a job, once it is as wanted.
fn status_when(folder: &Path, what: &str, is_wanted: impl Fn(&Value) -> bool) -> Result<Value> {
    const LIMIT: Duration = Duration::from_secs(60);
    let sockets = folder.join("sockets");
    until(LIMIT, "it has a socket", || Ok(sockets.join("test.sock").exists()))?;
    let mut status = Value::Null;
    until(LIMIT, what, || {
        let mut command = Command::new(Checkout::find()?.program("quo-elastic")?);
        command.args(["status", "test", "--json"]).env("QUO_ELASTIC_DIR", &sockets);
        let outcome = Running::start(&mut command, "status", LIMIT)?.finish()?;
        outcome.expect_success()?;
        status = serde_json::from_str::<Value>(&outcome.stdout)?["status"].take();
        Ok(is_wanted(&status))
    })?;
    Ok(status)
}

/// Returns the loops in the status of a job of two ranks, once they are as wanted, and the ended
/// job.
fn loops_of_job(mode: &str, is_wanted: impl Fn(&Value) -> bool) -> Result<(Value, Recorded)> {
    let (checkout, folder) = (Checkout::find()?, tempfile::tempdir()?);
    let program = checkout.compile_c("tests/programs/elastic_loops.c", folder.path(), &[])?;
    let launch = Launcher::find()?.command(2, BindTo::None);
    let path = folder.path().to_str().context("a folder that is no text")?;
    let recording = Recorded::begun(&["--loop-interval=0.05"], &launch, &program, &[path, mode])?;
    let status = status_when(folder.path(), "its ranks have loops", |it| is_wanted(&it["loops"]));
    // The job ends whatever the outcome.
    std::fs::write(folder.path().join("stop"), "")?;
    let job = Recorded::of_job(recording)?;
    job.outcome.expect_success()?;
    let mut status = status.with_context(|| job.outcome.report())?;
    Ok((status["loops"].take(), job))
}

fn status_has_the_common_loop_of_an_elastic_job() -> Result<()> {
    let has_loop = |loops: &Value| loops["common"]["iterations"].as_u64() >= Some(100);
    let (loops, job) = loops_of_job("common", has_loop)?;
    ensure!(loops["ranks"] == 2, "{loops}");
    let common = &loops["common"];
    let mut sums = [0.0; 2];
    for line in job.outcome.stdout.lines() {
        let words: Vec<&str> =
            line.split(' ').skip_while(|word| !word.ends_with("truth")).collect();
        if let [_, _, time, in_mpi] = words[..] {
            sums[0] += time.parse::<f64>()?;
            sums[1] += in_mpi.parse::<f64>()?;
        }
    }
    let [time, in_mpi] = sums;
    ensure!(in_mpi > 0.0, "{}", job.outcome.report());
    // The status covers a part of the run, and a rank may be stopped anywhere.
    let share = |name: &str| common[name].as_f64().map(|ratio| ratio / (1.0 + ratio));
    for name in ["mpi_ratio", "recent_mpi_ratio"] {
        let share = share(name).with_context(|| format!("no {name} in {loops}"))?;
        ensure!((share - in_mpi / time).abs() < 0.2, "{name}: {loops}, not {in_mpi} of {time}");
    }
    let seconds = |name: &str| common[name].as_f64().context("no time");
    let (time, in_mpi) = (seconds("seconds")?, seconds("mpi_seconds")?);
    let ratio = common["mpi_ratio"].as_f64().context("no ratio")?;
    ensure!((in_mpi / (time - in_mpi) - ratio).abs() < 1e-6 * ratio.max(1.0), "{loops}");
    Ok(())
}

fn status_of_ranks_in_different_loops_has_none_in_common() -> Result<()> {
    let (loops, _) = loops_of_job("apart", |loops| loops["ranks"] == 2)?;
    ensure!(loops["common"].is_null(), "{loops}");
    Ok(())
}

/// Returns the loop of a list that begins with a call of this function.
fn loop_of<'a>(list: &'a Value, function: &str) -> Result<&'a Value> {
    let found = list.as_array().context("no list of loops")?;
    let found = found.iter().find(|one| one["calls"][0]["function"] == function);
    found.with_context(|| format!("no loop of {function} in {list}"))
}

fn loops_of_a_program_are_found_with_lines_and_times() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let source = format!("{PROGRAMS}/loops.c");
    let program = Checkout::find()?.compile_c(&source, folder.path(), &["-g"])?;
    // With two ranks a sender has no separate loop over the receivers.
    let job = Recorded::run_with(&["--loops"], 2, &program, &[])?;
    let told = told(&job)?.map_err(anyhow::Error::msg)?;
    let all = &told["loops"]["loops"];
    let outer = loop_of(all, "MPI_Bcast")?;
    ensure!(outer["iterations"] == 10 && outer["is_everywhere"] == true, "{outer}");
    ensure!(outer["ranks"] == serde_json::json!([[0, 1]]), "{outer}");
    let inner = loop_of(&outer["inner"], "MPI_Send")?;
    ensure!(inner["iterations"] == 50 && inner["is_everywhere"] == true, "{inner}");
    let functions: Vec<&Value> = inner["calls"]
        .as_array()
        .context("no calls")?
        .iter()
        .map(|call| &call["function"])
        .collect();
    ensure!(functions == ["MPI_Send", "MPI_Recv", "MPI_Allreduce"], "{inner}");
    let alone = loop_of(all, "MPI_Get_processor_name")?;
    ensure!(alone["ranks"] == serde_json::json!([[0, 0]]), "{alone}");
    ensure!(alone["iterations"] == 4 && alone["is_everywhere"] == false, "{alone}");
    let text = std::fs::read_to_string(Checkout::find()?.root().join(&source))?;
    let line = text.lines().position(|line| line.contains("MPI_Bcast(")).context("no call")? + 1;
    let place = outer["calls"][0]["place"].as_str().context("no place")?;
    ensure!(place == format!("main  loops.c:{line}"), "{place}");

    let truths = truths(&job);
    ensure!(truths.len() == 2, "{truths:?} {}", job.outcome.report());
    let sum = |at: usize| truths.values().map(|truth| truth.get(at).copied().unwrap_or(0)).sum();
    let (time, mpi): (u64, u64) = (sum(0), sum(1));
    expect_close("time of the loop", number(outer, "time_ns")?, time, time)?;
    expect_close("MPI in the loop", number(outer, "mpi_ns")?, mpi, time)?;

    let region = region_of(&told, "steps")?;
    ensure!(region["origin"] == "pcontrol", "{region}");
    for rank in 0..2 {
        let entry = rank_of(&told, "steps", rank)?;
        let truth = truths.get(&(rank, "outer".to_owned())).context("no truth")?;
        ensure!(number(entry, "entries")? == 1, "{entry}");
        ensure!(number(entry, "elapsed_ns")? >= truth[0], "{entry} {truth:?}");
    }

    let memprof = Checkout::find()?.program("memprof")?;
    let output = Command::new(memprof).arg("time").arg(job.traces()).arg("--loops").output()?;
    let text = String::from_utf8(output.stdout)?;
    ensure!(text.contains("MPI_Bcast") && text.contains(place), "{text}");
    Ok(())
}

/// Returns the iterations of the loop in a running job's traces, once they cover three seconds and
/// are at least this many.
fn iterations_seen(option: &str, least: u64) -> Result<u64> {
    const LIMIT: Duration = Duration::from_secs(60);
    let (checkout, folder) = (Checkout::find()?, tempfile::tempdir()?);
    let program = checkout.compile_c(&format!("{PROGRAMS}/steps_until.c"), folder.path(), &[])?;
    let stop = folder.path().join("stop");
    let path = stop.to_str().context("a folder that is no text")?;
    let launch = Launcher::find()?.command(2, BindTo::None);
    let recording = Recorded::begun(&[option], &launch, &program, &[path])?;
    let traces = recording.traces();
    let mut seen = 0;
    let waited = until(LIMIT, "traces of three seconds have the loop", || {
        let Ok(Ok(told)) = told_of(&traces) else { return Ok(false) };
        seen = told["loops"]["loops"][0]["iterations"].as_u64().unwrap_or(0);
        let elapsed = told["regions"][0]["elapsed_ns"].as_u64().unwrap_or(0);
        Ok(elapsed > 3_000_000_000 && seen >= least)
    });
    // The job ends whatever the outcome.
    std::fs::write(&stop, "")?;
    let job = Recorded::of_job(recording)?;
    job.outcome.expect_success()?;
    waited.with_context(|| job.outcome.report())?;
    let told = told(&job)?.map_err(anyhow::Error::msg)?;
    let all = loop_of(&told["loops"]["loops"], "MPI_Bcast")?["iterations"].as_u64();
    ensure!(all > Some(100), "at the end all have been written, in any period: {told}");
    Ok(seen)
}

fn loops_of_running_jobs_are_as_old_as_their_period() -> Result<()> {
    ensure!(iterations_seen("--loop-interval=0.01", 500)? >= 500, "until said so");
    // The copy made when the loop was found is the only one before the end.
    let seen = iterations_seen("--loop-interval=3600", 1)?;
    ensure!(seen == 2, "{seen} iterations");
    Ok(())
}

fn fortran_program_reads_its_own_time() -> Result<()> {
    fortran_support().map_err(|reason| Skipped(reason.to_string()))?;
    let (checkout, folder) = (Checkout::find()?, tempfile::tempdir()?);
    let module = "memprof/api/include/memprof.F90";
    let object = checkout.compile_fortran_module(module, folder.path())?;
    let library = libmemprof()?;
    let mut flags = vec![object.to_str().context("a folder that is no text")?];
    flags.extend(library.iter().map(String::as_str));
    let source = format!("{PROGRAMS}/own_time.F90");
    let program = checkout.compile_fortran(&source, folder.path(), &flags)?;
    let job = Recorded::run_with(&["--mpi-time"], 2, &program, &[])?;
    let told = told(&job)?.map_err(anyhow::Error::msg)?;
    let truths = truths(&job);
    ensure!(truths.len() == 2, "{truths:?} {}", job.outcome.report());
    for ((rank, region), numbers) in &truths {
        let [elapsed, useful, mpi, lent, collective] = numbers[..] else {
            anyhow::bail!("not five numbers: {numbers:?}");
        };
        ensure!(elapsed == useful + mpi + lent && collective <= mpi, "{numbers:?}");
        let whole = rank_of(&told, "whole", *rank)?;
        ensure!(elapsed <= number(whole, "elapsed_ns")?, "{numbers:?} {whole}");
        // The barrier is the only collective call, and lies in the region.
        let inside = rank_of(&told, region, *rank)?;
        expect_close("collective", number(inside, "collective_ns")?, collective, elapsed)?;
    }
    Ok(())
}

quo_tests::suite! {
    times_of_all_kinds_are_the_programs_own
    time_in_quos_barrier_is_lent_and_not_mpi
    crossed_open_and_unmatched_regions_are_noted
    run_without_times_names_the_option
    report_without_a_ratio_has_the_measured_one
    time_in_parallel_regions_of_gnu_is_the_programs_own
    time_in_parallel_regions_of_llvm_is_the_programs_own
    loops_of_a_program_are_found_with_lines_and_times
    loops_of_running_jobs_are_as_old_as_their_period
    status_has_the_common_loop_of_an_elastic_job
    status_of_ranks_in_different_loops_has_none_in_common
    fortran_program_reads_its_own_time
}
