//! The coupled example in Rust, Fortran and C has one expected output: the flow solver and the driver
//! are in Rust or Fortran, the diffusion solver is in C.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use quo_tests::example::{self, TINY, expect_refusal, expect_same_fields, small_deck};
use quo_tests::suite::Skipped;
use quo_tests::{BindTo, Checkout, Job, Outcome, coupled_fortran};

const LIMIT: Duration = Duration::from_secs(120);

/// The programs, and a folder for their files.
struct Coupled {
    checkout: Checkout,
    rust: PathBuf,
    folder: tempfile::TempDir,
}

impl Coupled {
    fn new() -> Result<Coupled> {
        let checkout = Checkout::find()?;
        let rust = checkout.program("coupled")?;
        Ok(Coupled { checkout, rust, folder: tempfile::tempdir()? })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The small deck with some text replaced.
    fn deck(&self, changes: &[(&str, &str)]) -> Result<PathBuf> {
        let path = self.path("deck.toml");
        small_deck(changes, &path)?;
        Ok(path)
    }

    /// The same for the Fortran program.
    fn namelist(&self, deck: &Path) -> Result<PathBuf> {
        let path = self.path("deck.nml");
        example::namelist(deck, &path)?;
        Ok(path)
    }

    /// A run of the Rust program, which writes `fields`.
    fn rust_job(&self, deck: &Path, ranks: usize, [mode, variant]: [&str; 2], fields: &str) -> Job {
        let job = Job::new(ranks, &self.rust).arg("run").arg("--deck").arg(deck);
        let job = job.arg("--mode").arg(mode).arg("--variant").arg(variant);
        let job = job.arg("--output").arg(self.path("r.json"));
        calm(job.arg("--fields").arg(self.path(fields)))
    }

    /// A run of the Fortran program, which writes `fields`.
    fn fortran_job(&self, namelist: &Path, ranks: usize, fields: &str) -> Result<Job> {
        let job = Job::new(ranks, coupled_fortran()?).arg(namelist);
        Ok(calm(job.arg("--fields").arg(self.path(fields))))
    }

    /// The fields are those of `expected`, to the last bit.
    fn same(&self, expected: &str, fields: &str) -> Result<()> {
        expect_same_fields(&self.path(expected), &self.path(fields))?;
        // A later run that writes nothing must not be taken for this one.
        fs::remove_file(self.path(fields)).context("removing what was compared")
    }
}

/// Threads that share cores with each other are slow enough without spinning.
fn calm(job: Job) -> Job {
    job.env("OMP_WAIT_POLICY", "passive").bind_to(BindTo::Core).limit(LIMIT)
}

fn checksum(outcome: &Outcome) -> Result<&str> {
    let said = outcome.stdout.split("checksum ").nth(1).context("no checksum was printed")?;
    Ok(said.lines().next().unwrap_or_default())
}

fn fortran_ends_with_equal_bits_on_any_rank_count() -> Result<()> {
    let coupled = Coupled::new()?;
    let deck = coupled.deck(&TINY)?;
    let namelist = coupled.namelist(&deck)?;
    let reference = coupled.rust_job(&deck, 1, ["under", "caller"], "expected.bin");
    reference.run()?.expect_success()?;
    for ranks in [1, 2, 4] {
        let what = || format!("on {ranks} ranks");
        let outcome = coupled.fortran_job(&namelist, ranks, "f.bin")?.run()?;
        outcome.expect_success().with_context(what)?;
        coupled.same("expected.bin", "f.bin").with_context(what)?;
        ensure!(tellings(&outcome).len() == ranks, "{}", outcome.report());
    }
    Ok(())
}

/// Returns the ranks' lines about their work, by rank.
fn tellings(outcome: &Outcome) -> Vec<String> {
    let lines = outcome.stdout.lines().filter(|line| line.starts_with("rank "));
    lines.map(|line| line.split(" for ").next().unwrap_or_default().to_owned()).collect()
}

fn fortran_ends_with_the_same_bits_on_other_machines() -> Result<()> {
    let coupled = Coupled::new()?;
    let machines: [(&str, &str, usize, &[&str]); 4] = [
        (
            "pack:2 core:4 pu:1",
            "over = \"machine\"",
            4,
            &["L1 with 8 threads on CPUs 0-7", "asleep", "asleep", "asleep"],
        ),
        (
            "pack:2 core:4 pu:1",
            "over = \"package\"",
            4,
            &["L1 with 4 threads on CPUs 0-3", "L1 with 4 threads on CPUs 4-7", "asleep", "asleep"],
        ),
        (
            "pack:2 numa:2 core:2 pu:2",
            "over = \"numa\"",
            3,
            &[
                "L1 with 4 threads on CPUs 0-3",
                "L1 with 4 threads on CPUs 4-7",
                "L1 with 4 threads on CPUs 8-11",
            ],
        ),
        ("pack:1 core:2 pu:1", "over = \"core\"", 3, &["L1 with 1", "L1 with 1", "asleep"]),
    ];
    // Who works how is not to be seen in the fields.
    let deck = coupled.deck(&TINY)?;
    let reference = coupled.rust_job(&deck, 1, ["under", "caller"], "expected.bin");
    reference.run()?.expect_success()?;
    for (machine, over, ranks, expected) in machines {
        let deck = coupled.deck(&[&TINY[..], &[("over = \"machine\"", over)]].concat())?;
        let namelist = coupled.namelist(&deck)?;
        let what = || format!("on {machine}, {over}");
        let outcome = coupled.fortran_job(&namelist, ranks, "f.bin")?.topology(machine).run()?;
        outcome.expect_success().with_context(what)?;
        coupled.same("expected.bin", "f.bin").with_context(what)?;
        let told = tellings(&outcome);
        let fits = told.len() == expected.len()
            && told.iter().zip(expected).all(|(told, expected)| told.contains(expected));
        ensure!(fits, "{}: {told:?}, expected {expected:?}", what());
    }
    Ok(())
}

/// A rank's line: whether it worked, its threads and CPUs, seconds in L1 and CPU seconds there.
struct Telling {
    works: Option<(usize, String)>,
    seconds: f64,
    cpu_seconds: f64,
}

impl Telling {
    fn parse(line: &str) -> Option<Telling> {
        let (did, took) = line.split_once(" for ")?;
        let (seconds, cpu) = took.split_once(" s, CPU time ")?;
        let works = did.split_once("L1 with ").map(|(_, rest)| rest);
        let works = works.and_then(|rest| rest.split_once(" threads on CPUs "));
        Some(Telling {
            works: works.and_then(|(n, cpus)| Some((n.parse().ok()?, cpus.to_owned()))),
            seconds: seconds.parse().ok()?,
            cpu_seconds: cpu.strip_suffix(" s")?.parse().ok()?,
        })
    }
}

/// On the real machine, by the kernel's counts: a rank that spins uses as much CPU time as time.
fn workers_are_widened_and_the_others_sleep() -> Result<()> {
    let cpus = std::thread::available_parallelism()?.get();
    if cpus < 2 {
        bail!(Skipped("one CPU cannot be lent".to_owned()));
    }
    let coupled = Coupled::new()?;
    let namelist = coupled.namelist(&coupled.deck(&[("kappa = 20.0", "kappa = 2000.0")])?)?;
    let outcome = coupled.fortran_job(&namelist, 2, "f.bin")?.run()?;
    outcome.expect_success()?;
    let lines = outcome.stdout.lines().filter(|line| line.starts_with("rank "));
    let told: Option<Vec<Telling>> = lines.map(Telling::parse).collect();
    let told = told.with_context(|| outcome.report())?;
    let [worker, sleeper] = &told[..] else { bail!("{}", outcome.report()) };
    let (threads, places) = worker.works.as_ref().with_context(|| outcome.report())?;
    ensure!(*threads == cpus && places.contains(['-', ',']), "{}", outcome.report());
    ensure!(sleeper.works.is_none(), "{}", outcome.report());
    ensure!(sleeper.cpu_seconds < 0.5 * sleeper.seconds, "{}", outcome.report());
    ensure!(sleeper.cpu_seconds < 0.5 * worker.cpu_seconds, "{}", outcome.report());
    Ok(())
}

fn one_output_is_expected_of_all() -> Result<()> {
    let coupled = Coupled::new()?;
    let deck = coupled.deck(&[])?;
    let expected = coupled.checkout.root().join("examples/coupled/decks/small.checksum");
    let expected = fs::read_to_string(&expected).context("reading the expected checksum")?;
    for words in [["quo", "caller"], ["quo", "callee"]] {
        let outcome = coupled.rust_job(&deck, 2, words, "f.bin").run()?;
        outcome.expect_success()?;
        assert_eq!(checksum(&outcome)?, expected.trim(), "{words:?}");
    }
    let namelist = coupled.namelist(&deck)?;
    let outcome = coupled.fortran_job(&namelist, 2, "f.bin")?.run()?;
    outcome.expect_success()?;
    assert_eq!(checksum(&outcome)?, expected.trim());
    Ok(())
}

fn fortran_refuses_what_it_cannot_do() -> Result<()> {
    let coupled = Coupled::new()?;
    let program = coupled_fortran()?;
    let namelist = coupled.namelist(&coupled.deck(&TINY)?)?;
    let job = |deck: &Path| calm(Job::new(3, &program).arg(deck));
    expect_refusal(&Job::new(2, &program).run()?, 2, &["no deck"])?;
    expect_refusal(&job(&coupled.path("nowhere.nml")).run()?, 2, &["nowhere.nml"])?;
    expect_refusal(&job(&namelist).arg("--l1").run()?, 2, &["unexpected argument --l1"])?;
    let unwritable = coupled.path("no/such/folder.bin");
    expect_refusal(&job(&namelist).arg("--fields").arg(unwritable).run()?, 1, &["folder.bin"])?;
    let text = fs::read_to_string(&namelist)?;
    for (from, to, word) in [
        ("ny = 48", "ny = 2", "more ranks than rows"),
        ("nx = 48", "nx = many", "deck"),
        ("&diffusion_part", "&something_else", "deck"),
        ("max_iterations = 2000", "", "max_iterations must be at least 1"),
        ("cfl = 0.45", "cfl = 0.0", "cfl"),
    ] {
        ensure!(text.contains(from), "the namelist has no `{from}`");
        let bad = coupled.path("bad.nml");
        fs::write(&bad, text.replace(from, to))?;
        expect_refusal(&job(&bad).run()?, 2, &["bad.nml", word])?;
    }
    Ok(())
}

fn a_solver_that_gives_up_ends_all_ranks() -> Result<()> {
    let coupled = Coupled::new()?;
    let deck = coupled.deck(&[("max_iterations = 2000", "max_iterations = 1")])?;
    let words = ["after 10 steps", "max_iterations"];
    let outcome = coupled.rust_job(&deck, 3, ["quo", "callee"], "f.bin").run()?;
    expect_refusal(&outcome, 1, &words)?;
    let namelist = coupled.namelist(&deck)?;
    let outcome = coupled.fortran_job(&namelist, 3, "f.bin")?.run()?;
    expect_refusal(&outcome, 1, &words)
}

fn a_bad_deck_is_not_made_a_namelist() -> Result<()> {
    let coupled = Coupled::new()?;
    let deck = coupled.deck(&[("cfl = 0.45", "cfl = 4.5")])?;
    let error = coupled.namelist(&deck).err().context("the deck was accepted")?;
    ensure!(error.to_string().contains("line 11: time.cfl"), "{error}");
    Ok(())
}

quo_tests::suite! {
    fortran_ends_with_equal_bits_on_any_rank_count
    fortran_ends_with_the_same_bits_on_other_machines
    workers_are_widened_and_the_others_sleep
    one_output_is_expected_of_all
    fortran_refuses_what_it_cannot_do
    a_solver_that_gives_up_ends_all_ranks
    a_bad_deck_is_not_made_a_namelist
}
