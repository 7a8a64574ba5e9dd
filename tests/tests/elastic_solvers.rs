//! Solvers in the style of the field, each in its plain form and in the elastic one: few lines
//! differ, and while ranks join and leave at random the elastic one computes the same bits.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quo_tests::{Checkout, Job, suite};

const LIMIT: Duration = Duration::from_secs(200);

/// Most lines that an elastic program may have written or changed.
const MOST_LINES: usize = 45;

/// Largest number of ranks.
const RANKS: usize = 4;

/// Steps between two resizes of a plan: enough for most of them to be done before the next one.
const STEPS_APART: usize = 25;

/// Resizes that a run has at least, and the number that are asked for, some of which are overtaken.
fn resizes() -> (usize, usize) {
    if suite::is_long() { (100, 400) } else { (4, 24) }
}

/// Returns a plan of random sizes, always the same for a seed.
fn random_plan(mut seed: u64, sizes: usize) -> String {
    let mut size = 1;
    let line = |number| {
        // Xorshift. Never the same size again.
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        size = (size + (seed % (RANKS as u64 - 1)) as usize) % RANKS + 1;
        format!("at iteration {}: size {size}\n", STEPS_APART * (number + 1))
    };
    (0..sizes).map(line).collect()
}

/// Returns the numbers of lines that only the first and only the second program has.
fn lines_that_differ(plain: &Path, elastic: &Path) -> Result<(usize, usize)> {
    let output = Command::new("diff").args([plain, elastic]).output().context("starting diff")?;
    let text = String::from_utf8(output.stdout)?;
    let count = |mark: &str| text.lines().filter(|line| line.starts_with(mark)).count();
    Ok((count("<"), count(">")))
}

fn heat_in_cxx_changes_few_lines() -> Result<()> {
    let checkout = Checkout::find()?;
    let folder = checkout.root().join("examples/heat");
    let (removed, written) =
        lines_that_differ(&folder.join("plain.cpp"), &folder.join("elastic.cpp"))?;
    ensure!(written > 0 && written <= MOST_LINES, "{written} lines are written or changed");
    ensure!(written < removed, "{written} lines written, {removed} removed: it is longer");
    let guide = std::fs::read_to_string(checkout.root().join("docs/elastic.md"))?;
    let guide = guide.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = format!("{written} lines that the plain one has not, and lacks {removed}");
    ensure!(guide.contains(&said), "docs/elastic.md does not say: {said}");
    Ok(())
}

fn heat_in_cxx_computes_the_same_bits_under_random_resizes() -> Result<()> {
    let (checkout, folder) = (Checkout::find()?, tempfile::tempdir()?);
    let (least, sizes) = resizes();
    let steps = (STEPS_APART * (sizes + 2)).to_string();
    let place = |name: &str| folder.path().join(name);
    let made = |name: &str| {
        let source = format!("examples/heat/{name}.cpp");
        checkout.compile_cxx(&source, folder.path(), "g++", &["-O2"])
    };
    let (plain, elastic) = (made("plain")?, made("elastic")?);
    let run = |program: &Path, ranks: usize, file: &Path, plan: Option<&str>| -> Result<()> {
        // There may be more ranks than cores.
        let mut job = Job::new(ranks, program).limit(LIMIT);
        job = job.env("OMPI_MCA_mpi_yield_when_idle", "1");
        job = job.env("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1");
        // Uneven parts, and fewer rows than some grids would like.
        for word in ["37", "53", &steps] {
            job = job.arg(word);
        }
        job = job.arg(file);
        if let Some(plan) = plan {
            job = job.env("QUO_ELASTIC_RANKS", format!("1..{RANKS}"));
            job = job.env("QUO_ELASTIC_LOG", place("events"));
            job = job.env("QUO_ELASTIC_PLAN", plan);
        }
        job.run()?.expect_success().map(drop)
    };
    run(&plain, 2, &place("right"), None)?;
    let right = std::fs::read(place("right"))?;
    ensure!(right.len() == 37 * 53 * 8, "the plain program has written {} bytes", right.len());
    run(&plain, 1, &place("alone"), None)?;
    ensure!(std::fs::read(place("alone"))? == right, "the plain program depends on its ranks");
    run(&elastic, RANKS, &place("found"), Some(&random_plan(20, sizes)))?;
    let events = std::fs::read_to_string(place("events"))?;
    let done = events.matches("\"event\":\"finalized\"").count();
    ensure!(done >= least, "only {done} of {sizes} resizes were done:\n{events}");
    // A later request may have been faster, with this size or with another one.
    let needless = ["\"kind\":\"superseded\"", "nothing would change"];
    let failed = events.lines().find(|line| {
        line.contains("\"event\":\"aborted\"") && !needless.iter().any(|why| line.contains(why))
    });
    ensure!(failed.is_none(), "{failed:?}");
    ensure!(std::fs::read(place("found"))? == right, "other bits after {done} resizes");
    Ok(())
}

suite! {
    heat_in_cxx_changes_few_lines
    heat_in_cxx_computes_the_same_bits_under_random_resizes
}
