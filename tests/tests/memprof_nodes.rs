//! Memory shared by processes of a node: its total is an interval that contains the true value, in
//! every form of a report.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use quo_tests::memprof::PROGRAMS;
use quo_tests::{Checkout, Recorded};
use serde_json::Value;

const MEBI: u64 = 1 << 20;

/// Returns the output of `memprof report` for these traces, with these options.
fn report(traces: &Path, options: &[&str]) -> Result<String> {
    let mut command = Command::new(Checkout::find()?.program("memprof")?);
    let output = command.arg("report").args(options).arg(traces).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn number(value: &Value) -> Result<u64> {
    value.as_u64().with_context(|| format!("{value} is no number"))
}

fn compiled(source: &str, folder: &Path) -> Result<PathBuf> {
    Checkout::find()?.compile_c(&format!("{PROGRAMS}/{source}"), folder, &["-std=gnu11"])
}

/// All ranks hold the window at once: the node has the sum of the ranks, with the window counted
/// once.
fn window_that_ranks_come_to_by_turns_counts_once() -> Result<()> {
    const RANKS: usize = 3;
    const WINDOW: u64 = 64 * MEBI;
    let folder = tempfile::tempdir()?;
    let program = compiled("late_window.c", folder.path())?;
    let job = Recorded::run(RANKS, &program, &[])?;
    job.expect_said("done")?.expect_good_books()?;
    let traces = job.traces();
    let told: Value = serde_json::from_str(&report(&traces, &["--json"])?)?;
    let node = &told["nodes"][0];
    let ranks = node["ranks"].as_array().context("no ranks")?;
    let peaks: Result<Vec<u64>> = ranks.iter().map(|rank| number(&rank["peak"]["bytes"])).collect();
    let peaks = peaks?;
    ensure!(peaks.len() == RANKS && peaks.iter().all(|peak| *peak >= WINDOW), "peaks {peaks:?}");
    let once = peaks.iter().sum::<u64>() - (RANKS as u64 - 1) * WINDOW;
    let timeline = &node["timeline"];
    let (least, most) = (number(&timeline["peak"]["bytes"])?, number(&timeline["peak_at_most"])?);
    let largest = peaks.iter().copied().max().unwrap_or(0);
    ensure!(largest <= least && least <= once, "{least} B at least; ranks {peaks:?}");
    // Pages of libraries are shared, too; a window counted twice for a rank would be more.
    ensure!(least <= most && most <= once + WINDOW / 4, "{least} to {most} B of {once}");
    agrees(&traces, folder.path(), least)
}

/// Checks that the table, and the flag and the curve of the picture, agree.
fn agrees(traces: &Path, folder: &Path, least: u64) -> Result<()> {
    let text = report(traces, &[])?;
    let row = text.lines().skip_while(|line| !line.starts_with("node ")).nth(1);
    let row = row.with_context(|| format!("no row of the node:\n{text}"))?;
    let picture = folder.join("picture.svg");
    report(traces, &["--svg", picture.to_str().context("a path")?])?;
    let svg = fs::read_to_string(picture)?;
    let words = |part: &str| part.split(['<', '>']).nth(2).map(str::to_owned);
    let peak = svg.split("class=\"peak\"").nth(1).context("no flag")?;
    let flag =
        peak.split("<text").nth(1).map(|text| format!("<text{text}")).and_then(|text| words(&text));
    let flag = flag.with_context(|| format!("no words at the flag: {peak}"))?;
    let amount = flag.split(" at ").next().unwrap_or("");
    ensure!(row.contains(amount) && !amount.is_empty(), "the flag says {flag}, the table {row}");
    let mebi = least as f64 / MEBI as f64;
    // Of three digits.
    let digits = if mebi < 100.0 { 1 } else { 0 };
    let rounded = format!("{mebi:.digits$}");
    ensure!(amount.starts_with(&rounded), "the flag says {flag}, JSON {least}");
    // The circle of the flag is at the top of the areas; no point of them is above it.
    let height = peak.split("cy=\"").nth(1).and_then(|rest| rest.split('"').next());
    let height: f64 = height.context("no circle")?.parse()?;
    let mut top = f64::MAX;
    for area in svg.split("<path").filter(|path| path.contains("class=\"series")) {
        let path = area.split(" d=\"M").nth(1).and_then(|rest| rest.split('"').next());
        for point in path.unwrap_or("").trim_end_matches('Z').split('L') {
            let y: f64 = point.split(' ').nth(1).context("a point")?.parse()?;
            top = top.min(y);
        }
    }
    ensure!((top - height).abs() < 0.6, "the curve ends at {top}, the flag is at {height}");
    Ok(())
}

/// Returns the sums of a kind of value over all components, for each bin.
fn sums(timeline: &Value, kind: &str) -> Result<Vec<u64>> {
    let series = timeline["series"].as_array().context("no series")?;
    let mut sums = Vec::new();
    for one in series {
        let values = one[kind].as_array().context("no values")?;
        sums.resize(values.len(), 0);
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum += number(value)?;
        }
    }
    Ok(sums)
}

/// Memory that a fork has left to children counts once among them, though each has it resident.
fn pages_that_forks_have_left_count_by_shares() -> Result<()> {
    const PARENT: u64 = 80 * MEBI;
    const CHILDREN: u64 = 6;
    /// A child's own memory: of the program and of the profiler.
    const CHILD: u64 = 2 * MEBI;
    const TOOL: u64 = 8 * MEBI;
    let folder = tempfile::tempdir()?;
    let program = compiled("forked.c", folder.path())?;
    for (options, words) in [(&["--all"][..], "counted by shares"), (&[][..], "counted once")] {
        let traces = folder.path().join("traces");
        let mut command = Command::new(Checkout::find()?.program("memprof")?);
        command.args(["run", "--quiet", "-o"]).arg(&traces).args(options);
        // Shares count between two samples that find them.
        command.args(["--interval", "20", "--max-overhead", "50", "--"]).arg(&program);
        let output = command.output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let told: Value = serde_json::from_str(&report(&traces, &["--json"])?)?;
        let node = &told["nodes"][0];
        let ranks = node["ranks"].as_array().context("no processes")?;
        let peaks: Result<Vec<u64>> =
            ranks.iter().map(|rank| number(&rank["peak"]["bytes"])).collect();
        let peaks = peaks?;
        ensure!(peaks.len() as u64 == CHILDREN + 1, "{} processes", peaks.len());
        ensure!(peaks.iter().all(|peak| *peak >= PARENT), "peaks {peaks:?}");
        let timeline = &node["timeline"];
        let (least, most) =
            (number(&timeline["peak"]["bytes"])?, number(&timeline["peak_at_most"])?);
        let truth = PARENT + CHILDREN * CHILD;
        ensure!(most >= truth, "{options:?}: {most} B at most of {truth}");
        let beside = truth + (CHILDREN + 1) * TOOL;
        ensure!(PARENT <= least && least <= beside, "{options:?}: {least} B at least of {truth}");
        let sum: u64 = peaks.iter().sum();
        ensure!(most <= sum, "{options:?}: {most} B at most, {sum} in sum");
        // With the children's shares, while all are there; without them each may have a copy.
        let (low, high) = (sums(timeline, "low")?, sums(timeline, "high")?);
        let all = low.iter().zip(&high).filter(|(low, _)| **low >= truth);
        let most = all.map(|(_, high)| *high).min().context("never all at once")?;
        let limit = if options.is_empty() { sum } else { sum - PARENT };
        ensure!(most <= limit, "{options:?}: {most} B at most, {sum} in sum");
        let text = report(&traces, &[])?;
        // Lines are wrapped.
        let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
        ensure!(said.contains(words), "{options:?}: no {words}: {text}");
        fs::remove_dir_all(&traces)?;
    }
    Ok(())
}

quo_tests::suite! {
    window_that_ranks_come_to_by_turns_counts_once
    pages_that_forks_have_left_count_by_shares
}
