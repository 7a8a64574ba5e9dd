//! The memory of a node, predicted from jobs of few ranks, and measured in a larger job.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use quo_tests::memprof::PROGRAMS;
use quo_tests::{Checkout, Recorded, mpicc, run_compiler};
use serde_json::Value;

/// Numbers of ranks of the jobs from which a larger one is predicted.
const FEW: [usize; 4] = [1, 2, 3, 4];
/// Ranks of the larger job.
const MANY: usize = 8;
/// Part of the measured memory by which a prediction may miss it: pages of libraries that only some
/// numbers of ranks touch.
const TOLERANCE: f64 = 0.05;
const LIMIT: Duration = Duration::from_secs(120);

fn compile(folder: &Path) -> Result<PathBuf> {
    let source = Checkout::find()?.root().join(PROGRAMS).join("peers.c");
    let program = folder.join("peers");
    run_compiler(Command::new(mpicc()).args(["-g", "-O1"]).arg(source).arg("-o").arg(&program))?;
    Ok(program)
}

/// Returns the study of jobs.
fn sweep(words: &[&str], jobs: &[&Recorded]) -> Result<Value> {
    let mut command = Command::new(Checkout::find()?.program("memprof")?);
    command.arg("sweep").args(words).arg("--json").arg("--from");
    let output = command.args(jobs.iter().map(|job| job.traces())).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn number(value: &Value, name: &str) -> Result<f64> {
    value[name].as_f64().with_context(|| format!("no {name} in {value}"))
}

fn memory_of_a_larger_node_lies_within_its_prediction() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile(folder.path())?;
    // The ranks of a node are sampled while all have their blocks, however long a sample takes.
    let often = ["--interval", "20", "--max-overhead", "100"];
    let run = |ranks: usize| Recorded::run_within(LIMIT, &often, ranks, &program, &[]);
    let few = FEW.into_iter().map(run).collect::<Result<Vec<_>>>()?;
    let few: Vec<&Recorded> = few.iter().collect();
    let many = run(MANY)?;
    // From one job, a prediction for its own size is what was measured.
    let alone = sweep(&["--at", &format!("{MANY}/1")], &[&many])?["nodes_at"][0].take();
    let (measured, highest) = (number(&alone, "low")?, number(&alone, "high")?);
    ensure!(measured == highest && alone["is_certain"] == false, "{alone}");

    let study = sweep(&["--at", &format!("{MANY}/1,{}/2", 2 * MANY)], &few)?;
    let [same, two] = study["nodes_at"].as_array().context("no nodes")?.as_slice() else {
        return Err(anyhow!("not two predictions: {study}"));
    };
    let (low, high) = (number(same, "low")?, number(same, "high")?);
    ensure!(low * (1.0 - TOLERANCE) <= measured, "{measured} B, not {same}");
    ensure!(measured <= high * (1.0 + TOLERANCE), "{measured} B, not {same}");
    // An interval without a bound would hold anything.
    ensure!(high <= 2.0 * measured, "{measured} B, not {same}");
    ensure!(same["ranks_of_node"] == MANY && same["fits"] == true, "{same}");
    ensure!(two["ranks_of_node"] == MANY && two["nodes"] == 2, "{two}");
    // Each rank keeps 64 KiB for each rank of the job.
    let of_program = |at: &Value| {
        let groups = at["groups"].as_array().context("no groups")?;
        let group = groups.iter().find(|group| group["group"] == "application");
        number(group.context("no application")?, "bytes")
    };
    let more = of_program(two)? - of_program(same)?;
    let expected = (MANY * MANY * 65_536) as f64;
    ensure!((more / expected - 1.0).abs() < 0.2, "{two}, {expected} B above {same}");

    let wrong = sweep(&["--metric", "owned", "--at", "8/2"], &few).err();
    let said = wrong.context("owned memory of a node was predicted")?.to_string();
    ensure!(said.contains("needs --metric resident"), "{said}");
    Ok(())
}

quo_tests::suite! {
    memory_of_a_larger_node_lies_within_its_prediction
}
