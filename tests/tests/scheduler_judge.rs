//! The rigid schedulers start every job of a log at the same instant as those of AccaSim, an
//! independent simulator.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use elastic_lab::input::{LogSettings, swf};
use elastic_lab::simulate::{Observer, Settings, Simulation};
use elastic_lab::workload::generate::{Synthetic, synthetic};
use elastic_lab::workload::{JobSpec, Work, Workload};
use elastic_policy::action::{Action, Decision};
use elastic_policy::state::Cluster;
use elastic_policy::time::{Span, Time};
use quo_tests::Checkout;
use quo_tests::suite::Skipped;

/// Returns the folder with the other schedulers, which set-up fetched.
fn judges() -> Result<PathBuf> {
    let program = Checkout::find()?.program("xtask")?;
    let mut folders = program.ancestors().skip(1).map(|folder| folder.join("judges"));
    folders.find(|folder| folder.join("bin/python").exists()).ok_or_else(|| {
        Skipped("no AccaSim; cargo xtask setup --tests fetches it".to_owned()).into()
    })
}

/// Returns AccaSim's starts in seconds, by job.
fn by_accasim(scheduler: &str, log: &Path, nodes: u32) -> Result<BTreeMap<String, u64>> {
    let script = Checkout::find()?.root().join("tests/judges/accasim_starts.py");
    let output = Command::new(judges()?.join("bin/python"))
        .arg(script)
        .arg(scheduler)
        .arg(log)
        .arg(nodes.to_string())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let start = |line: &str| {
        let (job, start) = line.split_once(' ').context("a line without a start")?;
        Ok((job.to_owned(), start.parse()?))
    };
    text.lines().map(start).collect()
}

/// Jobs in the order in which they started, with the reasons.
#[derive(Default)]
struct Started(Vec<(usize, Time, String)>);

impl Observer for Started {
    fn decided(&mut self, now: Time, decision: &Decision) {
        if let Action::Start { job, .. } = decision.action {
            self.0.push((job.0 as usize, now, decision.reason.to_string()));
        }
    }
}

fn by_ours(scheduler: &str, workload: &Workload, nodes: u32) -> Result<Started> {
    let mut policy = elastic_policy::named::policy(scheduler).context("no such scheduler")?;
    let settings = Settings::new(Cluster { nodes, cores_per_node: 1 });
    let mut started = Started::default();
    Simulation::new(workload, settings, policy.as_mut(), &mut started).run()?;
    Ok(started)
}

/// Returns differences in the order of the project's starts: job, its start, AccaSim's start, the
/// scheduler's reason.
fn differences(
    ours: &Started,
    workload: &Workload,
    theirs: &BTreeMap<String, u64>,
) -> Result<Vec<String>> {
    ensure!(ours.0.len() == theirs.len(), "{} and {} jobs started", ours.0.len(), theirs.len());
    let mut found = Vec::new();
    for (place, now, reason) in &ours.0 {
        let name = workload.jobs[*place].name.to_string();
        let other = *theirs.get(&name).with_context(|| format!("AccaSim has no job {name}"))?;
        if *now != Time::seconds(other) {
            found.push(format!("job {name}: {now}, AccaSim {other} s: {reason}"));
        }
    }
    Ok(found)
}

fn hold_against(scheduler: &str, theirs: &str, workload: &Workload, nodes: u32) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let log = write(workload, folder.path())?;
    let theirs = by_accasim(theirs, &log, nodes)?;
    let found = differences(&by_ours(scheduler, workload, nodes)?, workload, &theirs)?;
    let first: Vec<&String> = found.iter().take(5).collect();
    ensure!(found.is_empty(), "{} of {} jobs differ: {first:#?}", found.len(), theirs.len());
    Ok(())
}

fn write(workload: &Workload, folder: &Path) -> Result<PathBuf> {
    let path = folder.join("log.swf");
    let mut file = fs::File::create(&path)?;
    swf::write(workload, &mut file)?;
    file.flush()?;
    Ok(path)
}

fn generated() -> impl Iterator<Item = (Workload, u32)> {
    [(64, 0.8), (64, 1.1), (300, 1.0)].into_iter().enumerate().map(|(seed, (nodes, load))| {
        (synthetic(Synthetic { jobs: 2000, nodes, load, seed: seed as u64 }), nodes)
    })
}

fn fcfs_starts_jobs_as_accasim_on_generated_logs() -> Result<()> {
    generated().try_for_each(|(log, nodes)| hold_against("fcfs", "fifo", &log, nodes))
}

fn easy_starts_jobs_as_accasim_on_generated_logs() -> Result<()> {
    generated().try_for_each(|(log, nodes)| hold_against("easy-short", "easy", &log, nodes))
}

/// AccaSim has no such scheduler: its engine runs one that the script defines.
fn conservative_starts_jobs_as_in_accasims_engine_after_early_ends() -> Result<()> {
    for (seed, (nodes, load)) in [(64, 0.8), (64, 1.0), (300, 0.9)].into_iter().enumerate() {
        let log = synthetic(Synthetic { jobs: 1000, nodes, load, seed: seed as u64 });
        let ends_early =
            |job: &JobSpec| matches!(job.work, Work::Fixed(runtime) if runtime < job.walltime);
        ensure!(log.jobs.iter().filter(|job| ends_early(job)).count() > 500);
        hold_against("conservative", "conservative", &log, nodes)?;
    }
    Ok(())
}

fn spare_nodes_explain_the_first_difference_of_easy() -> Result<()> {
    for (workload, nodes) in generated() {
        let folder = tempfile::tempdir()?;
        let theirs = by_accasim("easy", &write(&workload, folder.path())?, nodes)?;
        let found = differences(&by_ours("easy", &workload, nodes)?, &workload, &theirs)?;
        // AccaSim does not use these nodes, and the schedules differ from there on.
        let explained = found.first().is_none_or(|first| first.contains("uses nodes that"));
        ensure!(explained, "the first of {} differences: {:?}", found.len(), found.first());
    }
    Ok(())
}

fn both_start_jobs_as_accasim_on_a_public_log() -> Result<()> {
    let log = fs::File::open(judges()?.join("UniLu-Gaia-2014-2.swf"))?;
    let mut workload = swf::read(std::io::BufReader::new(log), LogSettings::default())?.workload;
    let nodes = workload.nodes.context("the log does not tell the size of the machine")?;
    // A job without run time ends at once. AccaSim reassigns its nodes only at the next event.
    workload.jobs.retain(|job| job.work != Work::Fixed(Span::ZERO));
    ensure!(workload.jobs.len() > 50_000, "{} jobs", workload.jobs.len());
    hold_against("fcfs", "fifo", &workload, nodes)?;
    hold_against("easy-short", "easy", &workload, nodes)
}

/// Shows why the judge is not AccaSim's scheduler as shipped: see the script.
fn easy_of_accasim_as_shipped_breaks_its_reservation() -> Result<()> {
    // The second job has all nodes reserved from 11 on; the third would keep one until 103.
    let lines = ["1 1 -1 10 3 -1 -1 3 10", "2 2 -1 10 4 -1 -1 4 10", "3 3 -1 100 1 -1 -1 1 100"];
    let text: String = lines.map(|line| format!("{line} -1 1 -1 -1 -1 -1 -1 -1 -1\n")).concat();
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("log.swf");
    fs::write(&log, &text)?;
    ensure!(by_accasim("easy", &log, 4)?["2"] == 11);
    ensure!(by_accasim("easy-as-shipped", &log, 4)?["2"] == 103);
    let workload = swf::read(text.as_bytes(), LogSettings::default())?.workload;
    let ours = by_ours("easy", &workload, 4)?;
    ensure!(ours.0.iter().any(|(place, now, _)| *place == 1 && *now == Time::seconds(11)));
    Ok(())
}

quo_tests::suite! {
    fcfs_starts_jobs_as_accasim_on_generated_logs
    easy_starts_jobs_as_accasim_on_generated_logs
    conservative_starts_jobs_as_in_accasims_engine_after_early_ends
    spare_nodes_explain_the_first_difference_of_easy
    both_start_jobs_as_accasim_on_a_public_log
    easy_of_accasim_as_shipped_breaks_its_reservation
}
