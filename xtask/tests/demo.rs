//! The demo on the small deck, with cargo's build for tests: its files show the results.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quo_tests::{Checkout, Running};

const LIMIT: Duration = Duration::from_secs(150);

#[test]
fn demo_ends_with_pictures_and_a_page_of_memory() -> Result<()> {
    let checkout = Checkout::find()?;
    let built = checkout.program("coupled")?;
    let built = built.parent().context("a program without a folder")?;
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("out");
    let mut demo = Command::new(env!("CARGO_BIN_EXE_xtask"));
    demo.args(["demo", "--deck", "small", "--ranks", "2", "--built"]).arg(built);
    demo.arg("--out").arg(&out).current_dir(folder.path());
    let outcome = Running::start(&mut demo, "xtask demo", LIMIT)?.finish()?;
    outcome.expect_success()?;
    let said = "All runs ended with the same bits.";
    ensure!(outcome.stdout.contains(said), "{}", outcome.report());

    let cores = fs::read_to_string(out.join("report.svg"))?;
    ensure!(cores.starts_with("<svg") && !cores.contains("not sampled"), "{cores}");
    expect_memory(&fs::read_to_string(out.join("memory.html"))?)?;
    expect_picture(&out.join("memory.svg"))?;
    ensure!(
        outcome.stdout.contains("1 rank: ") && outcome.stdout.contains(" ms a step, 6 ranks: ")
    );
    expect_picture(&out.join("elastic.svg"))
}

/// Returns references of a page to external files.
fn links(page: &str) -> Vec<&str> {
    let values = ["href=\"", "src=\""].into_iter().flat_map(|name| page.split(name).skip(1));
    let values = values.filter_map(|rest| Some(rest.split_once('"')?.0));
    values.filter(|value| !value.starts_with('#') && !value.starts_with("data:")).collect()
}

/// Checks that the page needs no other file, and has the memory of the components over time: of the
/// job, and of each rank.
fn expect_memory(page: &str) -> Result<()> {
    ensure!(links(page).is_empty(), "memory.html refers to {:?}", links(page));
    for word in ["@import", "url(http", "fetch("] {
        ensure!(!page.contains(word), "memory.html has {word}");
    }
    ensure!(page.contains("quo push machine"), "memory.html has no phases of quo");
    let timelines: Vec<&str> = page
        .split("<svg")
        .skip(1)
        .filter(|svg| svg.contains("class=\"memprof-timeline\""))
        .collect();
    ensure!(timelines.len() == 3, "{} timelines", timelines.len());
    for timeline in timelines {
        for of in ["app.exe:coupled", "mpi.core:", "system:libc.so", "slack"] {
            ensure!(timeline.contains(&format!("<title>{of}")), "a timeline without {of}");
        }
    }
    Ok(())
}

/// Checks that the file is a whole SVG.
fn expect_picture(file: &Path) -> Result<()> {
    let text = fs::read_to_string(file)?;
    ensure!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"), "{text}");
    Ok(())
}
