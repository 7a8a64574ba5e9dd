//! The profiler's figures against figures that the programs keep themselves: owned memory to the
//! byte, resident memory to the page, over random programs in which every owner of memory allocates
//! in every possible way.
//!
//! `MEMPROF_TESTS_PROGRAMS` sets the number of programs (10000, or 100000 with `QUO_TESTS_LONG`),
//! `MEMPROF_TESTS_SEED` the first seed (1): a seed determines a program, and a failure prints it.
#![allow(clippy::print_stdout)] // Its output is for the user that runs the tests.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use memprof_trace::layout::Class;
use memprof_trace::write::ComponentSample;
use quo_tests::memprof::{Finished, PROGRAMS, Profiled, Started, fake_mpi, preload};
use quo_tests::suite::{self, Skipped};
use quo_tests::{CheckedTrace, Checkout, run_compiler, until};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(400);

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

struct Interpreter {
    program: PathBuf,
    folder: tempfile::TempDir,
}

impl Interpreter {
    fn new() -> Result<Interpreter> {
        Ok(Interpreter { program: fake_mpi()?.join("interpreter"), folder: tempfile::tempdir()? })
    }

    fn profiled(&self, arguments: &[String], variables: &[(&str, &str)]) -> Result<Profiled> {
        let profiled = Profiled::new(&self.program, self.folder.path())?.eager();
        let profiled = variables.iter().fold(profiled, |to, (name, value)| to.env(name, value));
        Ok(arguments.iter().fold(profiled, Profiled::arg))
    }

    /// Runs `count` programs spread over the processors, a few per process, since addresses differ
    /// from start to start.
    fn agree(&self, count: u64, length: u32, more: &[&str]) -> Result<()> {
        self.agree_with(count, length, more, &[])
    }

    fn agree_with(
        &self,
        count: u64,
        length: u32,
        more: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<()> {
        self.agree_from(number("MEMPROF_TESTS_SEED", 1), count, length, more, variables)
    }

    fn agree_from(
        &self,
        first: u64,
        count: u64,
        length: u32,
        more: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<()> {
        const MOST: u64 = 1500;
        let processors = available_parallelism()?.get().min(8);
        let processes = count.div_ceil(MOST).max(processors as u64);
        let share = count.div_ceil(processes);
        let mut running = VecDeque::new();
        for process in 0..processes {
            if running.len() == processors
                && let Some(oldest) = running.pop_front()
            {
                self.expect_agreement(oldest)?;
            }
            let seed = first + process * share;
            let mut arguments: Vec<String> = ["--seed", "--programs", "--length"]
                .iter()
                .zip([seed, share, u64::from(length)])
                .flat_map(|(name, value)| [(*name).to_owned(), value.to_string()])
                .collect();
            arguments.extend(more.iter().map(|&word| word.to_owned()));
            running.push_back(self.profiled(&arguments, variables)?.start("")?);
        }
        running.into_iter().try_for_each(|process| self.expect_agreement(process))
    }

    /// Runs `count` programs in one process: the kernel reclaims no memory that several processes
    /// have mapped.
    fn agree_one(&self, count: u64, more: &[&str]) -> Result<()> {
        let count = count.to_string();
        let arguments = [&["--programs", &*count, "--length", "20"], more].concat();
        let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
        self.expect_agreement(self.profiled(&arguments, &[])?.start("")?)
    }

    fn expect_agreement(&self, process: Started) -> Result<()> {
        let finished = process.finish(LIMIT)?;
        if !finished.status.success() {
            bail!("{}\n{}", finished.report(), self.smallest(&finished)?);
        }
        Ok(())
    }

    fn fails(&self, script: &[&str]) -> Result<Option<String>> {
        let profiled = self.profiled(&["--replay".to_owned()], &[])?;
        let finished = profiled.start(&script.join("\n"))?.finish(Duration::from_secs(60))?;
        Ok((!finished.status.success()).then_some(finished.stdout))
    }

    /// Returns the fewest steps of a failed program with which it still fails.
    fn smallest(&self, failed: &Finished) -> Result<String> {
        let steps = failed.stdout.lines().skip_while(|line| !line.starts_with("seed "));
        let mut steps: Vec<&str> = steps.filter(|line| line.starts_with("op ")).collect();
        let Some(mut said) = self.fails(&steps)? else {
            return Ok("alone, the program does not fail".to_owned());
        };
        let (mut chunk, mut runs) = (steps.len().div_ceil(2), 0);
        while chunk > 0 && runs < 200 {
            let mut from = 0;
            while from < steps.len() && runs < 200 {
                runs += 1;
                let end = (from + chunk).min(steps.len());
                let fewer = [&steps[..from], &steps[end..]].concat();
                match self.fails(&fewer)? {
                    Some(what) => (steps, said) = (fewer, what),
                    None => from = end,
                }
            }
            chunk /= 2;
        }
        Ok(format!("the smallest program that fails (interpreter --replay):\n{said}"))
    }
}

/// Runs half of the random programs; all of them would come close to the limit of one test.
fn random_programs_are_exact_to_byte_and_page() -> Result<()> {
    half(0)
}

fn both_are_right_over_as_many_programs_of_other_seeds() -> Result<()> {
    half(1)
}

/// Each program is sampled once or twice.
fn half(which: u64) -> Result<()> {
    let is_long = suite::is_long();
    let all = number("MEMPROF_TESTS_PROGRAMS", if is_long { 100_000 } else { 10_000 });
    let count = all.div_ceil(2);
    let first = number("MEMPROF_TESTS_SEED", 1) + which * count;
    Interpreter::new()?.agree_from(first, count, 20, &["--looks", "1"], &[])
}

fn both_are_right_over_longer_programs() -> Result<()> {
    Interpreter::new()?.agree(300, 60, &["--looks", "1"])
}

fn resident_is_right_while_the_kernel_takes_pages_of_files() -> Result<()> {
    Interpreter::new()?.agree_one(1000, &["--looks", "1", "--reclaim"])
}

/// A program's own figures of its memory during a rest, by owner, in the order of `owner_names`.
struct Rest {
    from: u64,
    /// `None` if the program was killed during the rest.
    until: Option<u64>,
    /// Owned bytes, and the range of resident bytes.
    amounts: Vec<(u64, RangeInclusive<i64>)>,
}

const OWNERS: [&str; 10] = [
    "app.exe:interpreter",
    "app.lib:libpart.so",
    "app.lib:libboth.so",
    "app.lib:libapp_plugin.so",
    "mpi.core:libfakempi.so",
    "mpi.dep:libfakempi_dep.so",
    "mpi.dep:libfakempi_plugin.so",
    "app.shm",
    "mpi.shm",
    "mpi.for_user",
];

/// Reads the output of `rests.cpp`: the number of rests, then the latest rests.
fn rests(file: &Path) -> Result<Vec<Rest>> {
    let bytes = std::fs::read(file)?;
    let words =
        bytes.chunks_exact(8).filter_map(|word| Some(i64::from_le_bytes(word.try_into().ok()?)));
    let words: Vec<i64> = words.collect();
    let (count, written) = words.split_first().context("nothing is written")?;
    let chunks = written.chunks_exact(2 + 3 * OWNERS.len());
    ensure!((1..chunks.len() as i64).contains(count), "{count} rests");
    let each = chunks.take(usize::try_from(*count)?);
    Ok(each
        .map(|words| {
            let [owned, low, high] = [0, 1, 2].map(|part| &words[2 + part * OWNERS.len()..]);
            let amounts = (0..OWNERS.len()).map(|at| (owned[at] as u64, low[at]..=high[at]));
            let until = Some(words[1] as u64).filter(|until| *until > 0);
            Rest { from: words[0] as u64, until, amounts: amounts.collect() }
        })
        .collect())
}

/// Compares each sample that was taken within a rest with it. Returns the number of such samples.
fn agree_with_rests(checked: &CheckedTrace, rests: &[Rest]) -> Result<usize> {
    let began = checked.trace.identity.monotonic_ns;
    let longest = checked.summary()?.head.longest_sample_ns;
    let mut compared = 0;
    for (sample, rows) in checked.full() {
        // The sample begins before its time, and one more block is read after it.
        let time = began + sample.time;
        let within = |rest: &&Rest| {
            rest.from + longest <= time && rest.until.is_none_or(|until| time + longest <= until)
        };
        let Some(rest) = rests.iter().find(within) else { continue };
        compared += 1;
        for (owner, (owned, resident)) in OWNERS.iter().zip(&rest.amounts) {
            let of_owner = |row: &&ComponentSample| {
                checked.trace.component_name(row.component.into()) == *owner
            };
            let row = rows.iter().find(of_owner).copied().unwrap_or_default();
            ensure!(
                row.owned == *owned && resident.contains(&(row.resident as i64)),
                "{owner}: {} B owned, {} B resident; it had {owned} B, and {resident:?} B, {} us before\n{}",
                row.owned,
                row.resident,
                (time - rest.from) / 1000,
                checked.table()
            );
        }
    }
    Ok(compared)
}

fn killed_process_has_written_bytes_and_pages_exactly() -> Result<()> {
    let interpreter = Interpreter::new()?;
    let mut compared = 0;
    // On a busy machine samples take longer than rests.
    let mut rounds = 0..240_u64;
    while let Some(round) = rounds.next().filter(|round| *round < 24 || compared < 24) {
        let file = interpreter.folder.path().join("rests");
        let traces = tempfile::tempdir()?;
        let profiled = Profiled::new(&interpreter.program, traces.path())?.eager();
        let seed = (number("MEMPROF_TESTS_SEED", 1) + round * 1000).to_string();
        let arguments = ["--forever", "--looks", "1", "--programs", "5", "--seed", &seed];
        let mut started = profiled.args(&arguments).arg("--rests").arg(&file).start("")?;
        until(LIMIT, "it says that it runs", || {
            ensure!(started.runs()?, "it ended: {}", started.said()?);
            Ok(started.said()?.contains("running"))
        })?;
        // Sleeps: the kill may hit any moment.
        std::thread::sleep(Duration::from_micros(round * round * 997 % 160_000));
        started.kill()?;
        let finished = started.finish(LIMIT)?;
        ensure!(finished.signal() == Some(9), "{}", finished.report());
        let said = rests(&file)?;
        compared += agree_with_rests(&CheckedTrace::open(finished.trace()?)?, &said)
            .with_context(|| format!("round {round}"))?;
        std::fs::remove_file(&file)?;
    }
    println!("{compared} samples of killed processes were compared");
    ensure!(compared >= 24, "only {compared} samples could be compared");
    Ok(())
}

fn forked_children_keep_books_of_their_own() -> Result<()> {
    let interpreter = Interpreter::new()?;
    interpreter.agree(1500, 40, &["--fork", "5"])?;
    // With one trace per process, resident memory is compared as well.
    interpreter.agree_with(
        1500,
        20,
        &["--fork", "5", "--fork-looks", "1"],
        &[("MEMPROF_RECORD", "all")],
    )
}

fn threads_that_free_each_others_blocks_leave_the_books_right() -> Result<()> {
    let interpreter = Interpreter::new()?;
    for count in ["2", "4", "13"] {
        interpreter.agree(600, 60, &["--threads", count])?;
    }
    Ok(())
}

/// MPI's plugin is loaded again while the sampler looks at the objects, and then releases the
/// program's mappings. The steps are spelled out as by the interpreter's `--print`.
fn releases_of_a_reloaded_library_are_seen_at_once() -> Result<()> {
    let round = ["op 9 0 0 0 0 0 0 0", "op 0 0 17 1 0 0 90000 2", "op 1 6 0 1 0 0 0 0"];
    let script = round.repeat(170);
    let interpreter = Interpreter::new()?;
    for _ in 0..4 {
        if let Some(said) = interpreter.fails(&script)? {
            bail!("{said}");
        }
    }
    Ok(())
}

/// Runs `work` while the kernel has 64 MiB reserved for huge pages.
fn with_huge_pages(work: impl FnOnce() -> Result<()>) -> Result<()> {
    const POOL: &str = "/proc/sys/vm/nr_hugepages";
    let before = std::fs::read_to_string(POOL).context("reading the number of huge pages")?;
    let skip = |why: &str| Err(anyhow::Error::new(Skipped(why.to_owned())));
    if std::fs::write(POOL, "64").is_err() {
        return skip("only root can set huge pages aside");
    }
    let got = std::fs::read_to_string(POOL)?.trim().parse::<u32>()?;
    let verdict = match got {
        0..32 => skip("the kernel has no 64 MiB for huge pages"),
        _ => work(),
    };
    std::fs::write(POOL, before)?;
    verdict
}

fn huge_pages_are_counted() -> Result<()> {
    with_huge_pages(|| Interpreter::new()?.agree(300, 60, &["--huge", "--looks", "4"]))
}

fn huge_pages_that_ranks_share_are_their_nodes_once() -> Result<()> {
    let (root, fake) = (Checkout::find()?.root().join(PROGRAMS), fake_mpi()?);
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("shared_huge");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]);
    compiler.arg("-I").arg(root.join("fakempi")).arg(root.join("shared_huge.c"));
    compiler.arg("-o").arg(&program).arg("-L").arg(&fake).args(["-lfakempi", "-lboth"]);
    for option in ["-rpath", "-rpath-link"] {
        compiler.arg(format!("-Wl,{option},{}", fake.display()));
    }
    run_compiler(&mut compiler)?;
    with_huge_pages(|| {
        let disk = HugeDisk::mount()?;
        let file = disk.folder.path().join("shared").display().to_string();
        for kind in ["memfd", "sysv", &file] {
            let traces = tempfile::tempdir()?;
            let profiled = Profiled::new(&program, traces.path())?.env("PMI_SIZE", "2");
            let finished = profiled.arg(kind).run(LIMIT)?;
            finished.expect_success()?;
            ensure!(finished.traces.len() == 2, "{kind}: {}", finished.report());
            are_shared_once(traces.path(), 16 << 20).with_context(|| kind.to_owned())?;
        }
        Ok(())
    })
}

/// A file system of huge pages, unmounted when dropped.
struct HugeDisk {
    folder: tempfile::TempDir,
}

impl HugeDisk {
    fn mount() -> Result<HugeDisk> {
        let folder = tempfile::tempdir()?;
        let mut mount = Command::new("mount");
        let mounted = mount.args(["-t", "hugetlbfs", "none"]).arg(folder.path()).status()?;
        ensure!(mounted.success(), "no disk of huge pages");
        Ok(HugeDisk { folder })
    }
}

impl Drop for HugeDisk {
    fn drop(&mut self) {
        // No result is needed: a remaining folder would show the failure.
        let _result = Command::new("umount").arg(self.folder.path()).status();
    }
}

/// Checks that two ranks have this much in huge pages each, and that their node counts it once.
fn are_shared_once(traces: &Path, shared: u64) -> Result<()> {
    let mut report = Command::new(Checkout::find()?.program("memprof")?);
    let output = report.arg("report").arg("--json").arg(traces).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let number = |value: &Value| value.as_u64().context("no number");
    for rank in report["nodes"][0]["ranks"].as_array().context("no ranks")? {
        let held = rank["held"].as_array().into_iter().flatten();
        let huge = held.map(|held| number(&held["huge"])).sum::<Result<u64>>()?;
        ensure!(huge == shared, "a rank has {huge} B in huge pages");
    }
    let balance = &report["balance"];
    let (ranks, node) = (number(&balance["ranks"])?, number(&balance["nodes"])?);
    // Pages of files are shared as well, but they are fewer.
    let once = (shared..2 * shared).contains(&ranks.saturating_sub(node));
    ensure!(once, "ranks have {ranks} B, the node {node}");
    Ok(())
}

/// Runs a C program that queries the profiler itself.
fn asking(source: &str, variables: &[(&str, &str)]) -> Result<Finished> {
    run_c(source, tempfile::tempdir()?.path(), variables)
}

/// Does the same, with the trace in `folder`.
fn run_c(source: &str, folder: &Path, variables: &[(&str, &str)]) -> Result<Finished> {
    let program = compiled_c(source, folder)?;
    let profiled = Profiled::new(program, folder)?.env("MEMPROF_RECORD", "all");
    let profiled = variables.iter().fold(profiled, |to, (name, value)| to.env(name, value));
    let finished = profiled.run(LIMIT)?;
    finished.expect_success()?;
    Ok(finished)
}

fn compiled_c(source: &str, folder: &Path) -> Result<PathBuf> {
    let root = Checkout::find()?.root().to_path_buf();
    let program = folder.join("asking");
    let mut command = Command::new("cc");
    command.args(["-std=gnu11", "-O0", "-Wall", "-Wextra", "-Werror", "-pthread"]);
    command.arg("-I").arg(root.join("memprof/api/include")).arg(root.join(PROGRAMS).join(source));
    run_compiler(command.arg("-o").arg(&program).arg("-ldl"))?;
    Ok(program)
}

/// Returns the numbers in each line that the program printed.
fn numbers(finished: &Finished) -> Vec<Vec<i64>> {
    let words = |line: &str| line.split(' ').filter_map(|word| word.parse().ok()).collect();
    finished.stdout.lines().map(words).collect()
}

/// Eight threads take turns, so that all their operations have one order, and the program knows its
/// peak.
fn exact_peaks_are_exact_with_any_number_of_threads() -> Result<()> {
    // The threads hold more than eight times as much.
    const KEPT: i64 = 8 * (256 << 10);
    for (exact, off) in [("1", 0), ("0", KEPT)] {
        let finished = asking("threads_peak.c", &[("MEMPROF_EXACT", exact)])?;
        let told = numbers(&finished);
        let [most, peak, left] = told.first().context("it says nothing")?[..] else {
            bail!("{}", finished.report())
        };
        ensure!(most > 8 * KEPT, "{}", finished.report());
        let fits = (most - off..=most + off).contains(&peak) && left == 0;
        ensure!(fits, "{exact}: {}", finished.report());
    }
    Ok(())
}

/// Three threads take turns at everything. Peaks may be off by what the threads keep uncounted; in
/// exact mode, and with one thread, they are exact.
fn peaks_of_all_threads_are_right_in_every_region() -> Result<()> {
    const KEPT: i64 = 3 * (256 << 10);
    let folder = tempfile::tempdir()?;
    let program = compiled_c("first_thread.c", folder.path())?;
    let kinds =
        [("together", "0", KEPT), ("together", "1", 0), ("alone", "0", 0), ("fork", "0", 0)];
    for seed in 1..=number("QUO_TESTS_TURNS", 10) {
        for (kind, exact, off) in kinds {
            let traces = tempfile::tempdir()?;
            let profiled = Profiled::new(&program, traces.path())?.env("MEMPROF_RECORD", "all");
            let profiled = profiled.env("MEMPROF_EXACT", exact).env("MEMPROF_INTERVAL_MS", "2");
            let finished = profiled.arg(seed.to_string()).arg(kind).run(LIMIT)?;
            finished.expect_success()?;
            let report = || format!("seed {seed}, {kind}, exact {exact}: {}", finished.report());
            let told = numbers(&finished);
            let (first, regions) = told.split_first().with_context(report)?;
            let [low, high, wrong] = first[..] else { bail!("{}", report()) };
            ensure!(low >= -off && high <= off && wrong == 0, "{}", report());
            if kind == "fork" {
                continue;
            }
            ensure!(regions.len() == 40, "{}", report());
            let checked = CheckedTrace::open(finished.trace()?)?;
            for (region, most) in regions.iter().enumerate() {
                let of_program = |class| class == Class::AppExecutable;
                let (owned, _) = checked.phase_peaks(&format!("r{region}"), of_program)?;
                let difference = owned as i64 - most[0];
                ensure!(difference.abs() <= off, "{difference} B in region {region}, {}", report());
            }
        }
    }
    Ok(())
}

fn stack_given_to_a_thread_returns_to_the_program() -> Result<()> {
    let finished = asking("given_stacks.c", &[])?;
    let told = numbers(&finished);
    let [before, rounds @ ..] = &told[..] else { bail!("{}", finished.report()) };
    ensure!(rounds.len() == 4, "{}", finished.report());
    let (own, owned) = (before[1], before[2]);
    for (round, told) in rounds.iter().enumerate() {
        let (stack, more) = (told[0], told[1] - own);
        // In the first round the thread returns, in the second it ends by pthread_exit.
        let fits = match round {
            0 | 2 => stack >= 4096 && more < 512,
            _ => stack < 64 && more >= 4096,
        };
        ensure!(fits && told[2] >= owned, "{round}: {}", finished.report());
    }
    Ok(())
}

/// However many blocks a program holds, the profiler itself stays within its 8 MiB, and reports the
/// bytes of its tags at the blocks.
fn millions_of_blocks_cost_eight_bytes_each() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let finished = run_c("many_blocks.c", folder.path(), &[])?;
    let told = numbers(&finished);
    let [bytes, blocks] = told.first().context("it says nothing")?[..] else {
        bail!("{}", finished.report())
    };
    let (bytes, tags) = (bytes as u64, 8 * blocks as u64);
    // The program grows as fast as it can, so the kernel's count and the sample are of different
    // moments.
    let checked = CheckedTrace::open(finished.trace()?)?;
    let summary = checked.summary()?;
    ensure!(summary.head.unattributed * 100 < summary.head.walked, "{}", checked.table());
    let row = |name: &str| {
        let at = (0..summary.rows.len()).find(|at| checked.trace.component_name(*at) == name);
        at.map(|at| &summary.rows[at]).with_context(|| format!("no {name}\n{}", checked.table()))
    };
    let (program, tool) = (row("app.exe:asking")?, row("tool")?);
    // The C library has its buffers.
    let fits = (bytes..bytes + (64 << 10)).contains(&program.owned)
        && (tags..tags + (64 << 10)).contains(&tool.owned)
        && (bytes - bytes / 100..bytes + bytes / 50).contains(&program.resident)
        && (tags..tags + (8 << 20)).contains(&tool.resident_peak);
    ensure!(fits, "{}\n{}", finished.report(), checked.table());
    Ok(())
}

/// Returns the program's own memory in a sample.
fn of_program(checked: &CheckedTrace, rows: &[ComponentSample]) -> ComponentSample {
    let is_it = |row: &&ComponentSample| {
        checked.trace.component_name(row.component.into()) == "app.exe:asking"
    };
    rows.iter().find(is_it).copied().unwrap_or_default()
}

/// Nearly every sample finds the block between two places.
fn blocks_in_realloc_have_an_owner_meanwhile() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let slow = folder.path().join("slow_realloc.so");
    let source = Checkout::find()?.root().join(PROGRAMS).join("slow_realloc.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]);
    run_compiler(compiler.arg(source).arg("-o").arg(&slow).arg("-ldl"))?;
    let both = format!("{} {}", preload()?.display(), slow.display());
    let often =
        [("MEMPROF_INTERVAL_MS", "1"), ("MEMPROF_MAX_OVERHEAD", "100"), ("LD_PRELOAD", &both)];
    let finished = run_c("moving.c", folder.path(), &often)?;
    let checked = CheckedTrace::open(finished.trace()?)?;
    checked.expect_all_attributed()?;
    let mut seen = 0;
    for (sample, rows) in checked.full() {
        let row = of_program(&checked, rows);
        // Only samples after the growth count; the part added last may be untouched.
        if row.owned > (8 << 20) + (32 << 10) {
            seen += 1;
            ensure!(
                row.resident + (128 << 10) >= row.owned,
                "{} B are owned, {} B resident at {} ns\n{}",
                row.owned,
                row.resident,
                sample.time,
                checked.table()
            );
        }
    }
    ensure!(seen >= 5, "only {seen} samples\n{}", checked.table());
    Ok(())
}

/// A block moves from where a walk has not been to where it has been, and the other way round.
fn block_moved_during_a_walk_is_counted_once() -> Result<()> {
    const BLOCK: u64 = 8 << 20;
    let folder = tempfile::tempdir()?;
    let program = compiled_c("crossing.c", folder.path())?;
    for direction in ["down", "up"] {
        let traces = folder.path().join(direction);
        std::fs::create_dir(&traces)?;
        let profiled = Profiled::new(&program, &traces)?.env("MEMPROF_RECORD", "all").eager();
        let finished = profiled.arg(direction).arg("20").run(LIMIT)?;
        finished.expect_success()?;
        let checked = CheckedTrace::open(finished.trace()?)?;
        checked.expect_all_attributed()?;
        let mut seen = 0;
        for (sample, rows) in checked.full() {
            let row = of_program(&checked, rows);
            // The block has no pages before it is written to.
            seen += usize::from(seen > 0 || row.resident >= BLOCK);
            ensure!(
                seen == 0 || (BLOCK..BLOCK + (1 << 20)).contains(&row.resident),
                "{direction}: {} B are owned, {} B resident at {} ns\n{}",
                row.owned,
                row.resident,
                sample.time,
                checked.table()
            );
        }
        // On a busy machine some samples were taken while the program waited for a processor.
        ensure!(seen >= 5, "{direction}: only {seen} samples\n{}", checked.table());
    }
    Ok(())
}

fn a_program_sees_nothing_of_it_when_not_recorded() -> Result<()> {
    let interpreter = Interpreter::new()?;
    let arguments = ["--blind", "--programs", "300"].map(str::to_owned);
    let mut profiled = interpreter.profiled(&arguments, &[])?;
    profiled.command().env_remove("MEMPROF_DIR");
    let finished = profiled.run(LIMIT)?;
    finished.expect_success()?;
    anyhow::ensure!(finished.traces.is_empty(), "{}", finished.report());
    anyhow::ensure!(finished.stderr.is_empty(), "{}", finished.report());
    Ok(())
}

quo_tests::suite! {
    random_programs_are_exact_to_byte_and_page
    both_are_right_over_as_many_programs_of_other_seeds
    both_are_right_over_longer_programs
    resident_is_right_while_the_kernel_takes_pages_of_files
    killed_process_has_written_bytes_and_pages_exactly
    forked_children_keep_books_of_their_own
    threads_that_free_each_others_blocks_leave_the_books_right
    releases_of_a_reloaded_library_are_seen_at_once
    huge_pages_are_counted
    huge_pages_that_ranks_share_are_their_nodes_once
    exact_peaks_are_exact_with_any_number_of_threads
    peaks_of_all_threads_are_right_in_every_region
    stack_given_to_a_thread_returns_to_the_program
    millions_of_blocks_cost_eight_bytes_each
    blocks_in_realloc_have_an_owner_meanwhile
    block_moved_during_a_walk_is_counted_once
    a_program_sees_nothing_of_it_when_not_recorded
}
