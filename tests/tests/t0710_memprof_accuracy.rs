//! The profiler's books against those that programs keep themselves: owned to the byte, resident to
//! the page, over random programs in which everything that owns memory gets some in every way there is.
//!
//! `MEMPROF_TESTS_PROGRAMS` says how many programs (100000), `MEMPROF_TESTS_SEED` where to begin (1).

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use quo_tests::memprof::{Finished, PROGRAMS, Profiled, fake_mpi};
use quo_tests::suite::{self, Skipped, Test};
use quo_tests::{Checkout, run_compiler};
use serde_json::Value;

const TESTS: &[Test] = &[
    ("owned_is_right_to_the_byte_over_random_programs", owned),
    ("resident_is_right_to_the_page_over_random_programs", resident),
    ("children_of_a_fork_go_on_with_books_of_their_own", forks),
    ("threads_that_free_each_others_blocks_leave_the_books_right", threads),
    ("what_a_library_loaded_again_gives_back_is_seen_at_once", reloads),
    ("huge_pages_are_counted", huge),
    ("huge_pages_that_ranks_share_are_their_nodes_once", shared_huge),
    ("exact_peaks_are_exact_with_any_number_of_threads", exact_peaks),
    ("a_stack_that_a_program_has_given_to_a_thread_is_its_own_again_afterwards", given_stacks),
    ("a_program_sees_nothing_of_it_when_not_recorded", inert),
];

const LIMIT: Duration = Duration::from_secs(200);

fn main() -> ExitCode {
    suite::run(TESTS, None)
}

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

    fn profiled(&self, arguments: &[String]) -> Result<Profiled> {
        let profiled = Profiled::new(&self.program, self.folder.path())?.eager();
        Ok(arguments.iter().fold(profiled, Profiled::arg))
    }

    /// `count` programs, shared out over the processors.
    fn agree(&self, count: u64, length: u32, more: &[&str]) -> Result<()> {
        let processes = available_parallelism()?.get().min(8) as u64;
        let first = number("MEMPROF_TESTS_SEED", 1);
        let share = count.div_ceil(processes);
        let mut running = Vec::new();
        for process in 0..processes {
            let seed = first + process * share;
            let mut arguments: Vec<String> = ["--seed", "--programs", "--length"]
                .iter()
                .zip([seed, share, u64::from(length)])
                .flat_map(|(name, value)| [(*name).to_owned(), value.to_string()])
                .collect();
            arguments.extend(more.iter().map(|&word| word.to_owned()));
            running.push(self.profiled(&arguments)?.start("")?);
        }
        for process in running {
            let finished = process.finish(LIMIT)?;
            if !finished.status.success() {
                bail!("{}\n{}", finished.report(), self.smallest(&finished)?);
            }
        }
        Ok(())
    }

    fn fails(&self, script: &[&str]) -> Result<Option<String>> {
        let profiled = self.profiled(&["--replay".to_owned()])?;
        let finished = profiled.start(&script.join("\n"))?.finish(Duration::from_secs(20))?;
        Ok((!finished.status.success()).then_some(finished.stdout))
    }

    /// The least of the steps of a failed program with which it still fails.
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

fn owned() -> Result<()> {
    Interpreter::new()?.agree(number("MEMPROF_TESTS_PROGRAMS", 100_000), 20, &["--looks", "4000"])
}

fn resident() -> Result<()> {
    Interpreter::new()?.agree(300, 60, &["--looks", "1"])
}

fn forks() -> Result<()> {
    Interpreter::new()?.agree(1500, 40, &["--fork", "5"])
}

fn threads() -> Result<()> {
    let interpreter = Interpreter::new()?;
    for count in ["2", "4", "13"] {
        interpreter.agree(600, 60, &["--threads", count])?;
    }
    Ok(())
}

/// MPI's plugin is loaded again while the sampler looks at the objects, and then gives back what the
/// program has mapped. Said step by step, as the interpreter's `--print` does.
fn reloads() -> Result<()> {
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

/// Does something while the kernel has 64 MiB set aside for huge pages.
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

fn huge() -> Result<()> {
    with_huge_pages(|| Interpreter::new()?.agree(300, 60, &["--huge", "--looks", "4"]))
}

fn shared_huge() -> Result<()> {
    const SHARED: u64 = 16 << 20;
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
        let traces = tempfile::tempdir()?;
        let finished = Profiled::new(&program, traces.path())?.env("PMI_SIZE", "2").run(LIMIT)?;
        finished.expect_success()?;
        ensure!(finished.traces.len() == 2, "{}", finished.report());
        let mut report = Command::new(Checkout::find()?.program("memprof")?);
        let output = report.arg("report").arg("--json").arg(traces.path()).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout)?;
        let number = |value: &Value| value.as_u64().context("no number");
        for rank in report["nodes"][0]["ranks"].as_array().context("no ranks")? {
            let held = rank["held"].as_array().into_iter().flatten();
            let huge = held.map(|held| number(&held["huge"])).sum::<Result<u64>>()?;
            ensure!(huge == SHARED, "a rank has {huge} B in huge pages");
        }
        let balance = &report["balance"];
        let (ranks, node) = (number(&balance["ranks"])?, number(&balance["nodes"])?);
        // Pages of files are shared as well, but fewer.
        let once = (SHARED..2 * SHARED).contains(&ranks.saturating_sub(node));
        ensure!(once, "ranks have {ranks} B, the node {node}");
        Ok(())
    })
}

/// Runs a program in C that asks the profiler itself.
fn asking(source: &str, variables: &[(&str, &str)]) -> Result<Finished> {
    let root = Checkout::find()?.root().to_path_buf();
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("asking");
    let mut command = Command::new("cc");
    command.args(["-std=gnu11", "-O0", "-Wall", "-Wextra", "-Werror", "-pthread"]);
    command.arg("-I").arg(root.join("memprof/api/include")).arg(root.join(PROGRAMS).join(source));
    run_compiler(command.arg("-o").arg(&program).arg("-ldl"))?;
    let profiled = Profiled::new(program, folder.path())?.env("MEMPROF_RECORD", "all");
    let profiled = variables.iter().fold(profiled, |to, (name, value)| to.env(name, value));
    let finished = profiled.run(LIMIT)?;
    finished.expect_success()?;
    Ok(finished)
}

/// The numbers in each line that it has printed.
fn numbers(finished: &Finished) -> Vec<Vec<i64>> {
    let words = |line: &str| line.split(' ').filter_map(|word| word.parse().ok()).collect();
    finished.stdout.lines().map(words).collect()
}

/// Eight threads take turns, so that there is one order of all they do, and the program knows its peak.
fn exact_peaks() -> Result<()> {
    const KEPT: i64 = 8 * (64 << 10);
    for (exact, off) in [("1", 0), ("0", KEPT)] {
        let finished = asking("threads_peak.c", &[("MEMPROF_EXACT", exact)])?;
        let told = numbers(&finished);
        let [most, peak, left] = told.first().context("it says nothing")?[..] else {
            bail!("{}", finished.report())
        };
        let fits = (most - off..=most + off).contains(&peak) && left == 0;
        ensure!(fits, "{exact}: {}", finished.report());
    }
    Ok(())
}

fn given_stacks() -> Result<()> {
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

fn inert() -> Result<()> {
    let interpreter = Interpreter::new()?;
    let arguments = ["--blind", "--programs", "300"].map(str::to_owned);
    let mut profiled = interpreter.profiled(&arguments)?;
    profiled.command().env_remove("MEMPROF_DIR");
    let finished = profiled.run(LIMIT)?;
    finished.expect_success()?;
    anyhow::ensure!(finished.traces.is_empty(), "{}", finished.report());
    anyhow::ensure!(finished.stderr.is_empty(), "{}", finished.report());
    Ok(())
}
