//! The coupled example computes the same bits however it is run, and fails well.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quo_tests::example::{TINY, expect_refusal, small_deck};
use quo_tests::{BindTo, Checkout, Job, ends_within, mpirun, suite};
use rustix::process::Pid;

const LIMIT: Duration = Duration::from_secs(180);

struct Coupled {
    program: PathBuf,
    demo: PathBuf,
    deck: PathBuf,
    folder: tempfile::TempDir,
}

impl Coupled {
    fn new() -> Result<Coupled> {
        let checkout = Checkout::find()?;
        Ok(Coupled {
            program: checkout.program("coupled")?,
            demo: checkout.program("coupled-demo")?,
            deck: checkout.root().join("examples/coupled/decks/small.toml"),
            folder: tempfile::tempdir()?,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The small deck with some text replaced.
    fn changed_deck(&self, changes: &[(&str, &str)]) -> Result<PathBuf> {
        let path = self.path("changed.toml");
        small_deck(changes, &path)?;
        Ok(path)
    }

    /// The same, and tiny but in the full suite.
    fn short_deck(&self, changes: &[(&str, &str)]) -> Result<PathBuf> {
        let tiny: &[_] = if suite::is_long() { &[] } else { &TINY };
        self.changed_deck(&[tiny, changes].concat())
    }

    fn job(&self, deck: &Path, mode: &str, ranks: usize, output: &str) -> Job {
        let job = Job::new(ranks, &self.program).arg("run").arg("--deck").arg(deck);
        let job = job.arg("--mode").arg(mode).arg("--output").arg(self.path(output));
        // Threads that share cores with spinning ranks are slow enough without spinning themselves.
        let job = job.env("OMP_WAIT_POLICY", "passive").limit(LIMIT);
        job.bind_to(if mode == "quo" { BindTo::Core } else { BindTo::None })
    }

    fn checksum(&self, job: &Job) -> Result<String> {
        let outcome = job.run()?;
        outcome.expect_success()?;
        let said = outcome.stdout.split("checksum ").nth(1).context("no checksum was printed")?;
        Ok(said.trim().to_owned())
    }

    fn compare(&self, a: &str, b: &str) -> Result<std::process::Output> {
        let mut command = Command::new(&self.demo);
        command.arg("compare").arg(self.path(a)).arg(self.path(b));
        command.output().context("starting the comparison")
    }
}

#[test]
fn every_mode_variant_and_rank_count_ends_with_equal_bits() -> Result<()> {
    let coupled = Coupled::new()?;
    let deck = coupled.short_deck(&[])?;
    let expected = coupled.checksum(&coupled.job(&deck, "under", 1, "r.json"))?;
    for ranks in 1..=4 {
        for (mode, variant) in
            [("under", "caller"), ("over", "caller"), ("quo", "caller"), ("quo", "callee")]
        {
            let job = coupled.job(&deck, mode, ranks, "r.json");
            let checksum = coupled.checksum(&job.arg("--variant").arg(variant))?;
            assert_eq!(checksum, expected, "{mode} ({variant}) on {ranks} ranks");
        }
    }
    Ok(())
}

#[test]
fn several_workers_on_a_node_end_with_equal_bits() -> Result<()> {
    let coupled = Coupled::new()?;
    let deck = coupled.short_deck(&[])?;
    let expected = coupled.checksum(&coupled.job(&deck, "under", 1, "r.json"))?;
    for (over, max) in [("core", "max = 1"), ("package", "max = 2"), ("machine", "max = 3")] {
        let deck = coupled.short_deck(&[
            ("over = \"machine\"", &format!("over = \"{over}\"")),
            ("max = 1", max),
        ])?;
        for (mode, variant) in [("over", "caller"), ("quo", "caller"), ("quo", "callee")] {
            let job = coupled.job(&deck, mode, 3, "r.json").arg("--variant").arg(variant);
            assert_eq!(coupled.checksum(&job)?, expected, "{mode} ({variant}), {max} per {over}");
        }
    }
    Ok(())
}

#[test]
fn bad_deck_is_refused_by_all_ranks_with_its_line() -> Result<()> {
    let coupled = Coupled::new()?;
    let deck = coupled.changed_deck(&[("cfl = 0.45", "cfl = 4.5")])?;
    for mode in ["under", "over", "quo"] {
        let outcome = coupled.job(&deck, mode, 3, "r.json").run()?;
        expect_refusal(&outcome, 2, &["changed.toml", "line 11", "time.cfl", "4.5"])?;
    }
    let deck = coupled.changed_deck(&[("ny = 96", "ny = 2")])?;
    let outcome = coupled.job(&deck, "quo", 3, "r.json").run()?;
    expect_refusal(&outcome, 2, &["line 5", "mesh.ny", "3 ranks"])
}

#[test]
fn missing_or_binary_deck_is_refused() -> Result<()> {
    let coupled = Coupled::new()?;
    let outcome = coupled.job(&coupled.path("nowhere.toml"), "quo", 2, "r.json").run()?;
    expect_refusal(&outcome, 2, &["nowhere.toml", "No such file"])?;
    let empty = coupled.path("empty.toml");
    fs::write(&empty, "")?;
    let outcome = coupled.job(&empty, "over", 2, "r.json").run()?;
    expect_refusal(&outcome, 2, &["empty.toml", "mesh"])?;
    fs::write(&empty, [0xff, 0xfe, 0x00])?;
    let outcome = coupled.job(&empty, "over", 2, "r.json").run()?;
    expect_refusal(&outcome, 2, &["empty.toml"])
}

#[test]
fn a_solver_that_gives_up_ends_all_ranks() -> Result<()> {
    let coupled = Coupled::new()?;
    let deck = coupled.changed_deck(&[("max_iterations = 2000", "max_iterations = 1")])?;
    for mode in ["under", "over", "quo"] {
        let outcome = coupled.job(&deck, mode, 3, "r.json").run()?;
        expect_refusal(&outcome, 1, &["after 10 steps", "max_iterations"])?;
    }
    Ok(())
}

#[test]
fn unwritable_result_is_noticed_before_the_run() -> Result<()> {
    let coupled = Coupled::new()?;
    let outcome = coupled.job(&coupled.deck, "quo", 2, "no/such/folder.json").run()?;
    expect_refusal(&outcome, 1, &["folder.json", "cannot be written"])
}

#[test]
fn runs_are_compared_by_their_fields() -> Result<()> {
    let coupled = Coupled::new()?;
    let other = coupled.changed_deck(&[("kappa = 20.0", "kappa = 20.001")])?;
    for (deck, name) in [(&coupled.deck, "a"), (&coupled.deck, "b"), (&other, "c")] {
        let job = coupled.job(deck, "under", 2, &format!("{name}.json"));
        let fields = coupled.path(&format!("{name}.bin"));
        job.arg("--fields").arg(fields).run()?.expect_success()?;
    }
    let same = coupled.compare("a.json", "b.bin")?;
    ensure!(same.status.success());
    assert_eq!(String::from_utf8_lossy(&same.stdout).matches("identical").count(), 4);
    let different = coupled.compare("a.json", "c.json")?;
    assert_eq!(different.status.code(), Some(1));
    ensure!(String::from_utf8_lossy(&different.stderr).contains("more than 1e-12"));
    // Fields that are not those of the run they are said to be of.
    fs::copy(coupled.path("c.bin"), coupled.path("a.bin"))?;
    assert_eq!(coupled.compare("a.json", "b.json")?.status.code(), Some(1));
    Ok(())
}

#[test]
fn the_demo_runs_all_modes_and_leaves_a_report() -> Result<()> {
    let coupled = Coupled::new()?;
    let out = coupled.path("demo");
    let said = fs::File::create(coupled.path("said"))?;
    let mut command = Command::new(&coupled.demo);
    command
        .arg("run")
        .arg("--program")
        .arg(&coupled.program)
        .arg("--deck")
        .arg(&coupled.deck)
        .arg("--out")
        .arg(&out);
    command.arg("--mpirun").arg(mpirun());
    command.args(["--ranks", "2"]).env("OMP_WAIT_POLICY", "passive");
    command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said);
    let mut child = command.spawn()?;
    if !ends_within(Pid::from_child(&child), LIMIT)? {
        child.kill()?;
    }
    let status = child.wait()?;
    let said = fs::read_to_string(coupled.path("said"))?;
    ensure!(status.success(), "{status}\n{said}");
    for words in ["under", "over", "quo", "All runs ended with the same bits"] {
        ensure!(said.contains(words), "`{words}` is not in\n{said}");
    }
    for name in ["under.json", "over.json", "quo.json", "report.svg"] {
        let length = fs::metadata(out.join(name)).with_context(|| format!("{name}: {said}"))?.len();
        ensure!(length > 1000, "{name} is too short");
    }
    let picture = fs::read_to_string(out.join("report.svg"))?;
    ensure!(!picture.contains("not sampled"), "the cores were not sampled");

    let mut report = Command::new(&coupled.demo);
    report.arg("report").args(["quo.json", "under.json"].map(|name| out.join(name)));
    let output = report.arg("--svg").arg(coupled.path("again.svg")).output()?;
    ensure!(output.status.success());
    ensure!(
        String::from_utf8_lossy(&output.stdout).lines().nth(1).unwrap_or("").starts_with("under")
    );
    ensure!(fs::read_to_string(coupled.path("again.svg"))?.starts_with("<svg"));
    Ok(())
}
