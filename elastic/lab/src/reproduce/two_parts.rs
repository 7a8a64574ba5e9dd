//! Malleable jobs against moldable best-effort jobs on idle nodes: section 5.4.2 of Cera.

use super::runs::{is_below, mean, run};
use super::{Estimate, SimulateError, Table};
use crate::simulate::{Ending, Outcome};
use crate::workload::random::Random;
use crate::workload::{JobSpec, Model, Name, Program, Work, Workload};
use elastic_policy::job::{Class, Limits};
use elastic_policy::resizing::TwoParts;
use elastic_policy::time::{Span, Time};

const NODES: u32 = 16;
const HOURS: f64 = 5.0 * 3600.0;
/// The time that a job takes to leave after a notice, if it acknowledges notices.
const LEAVES_AFTER: f64 = 2.0;

/// Makes rigid jobs with 40 % load over five hours, and `elastic` elastic ones in addition.
fn workload(seed: u64, class: Class, acknowledges: bool, elastic: u32) -> Workload {
    let mut random = Random::new(seed);
    let mut jobs = Vec::new();
    let (mut at, mut number) = (0.0, 0);
    let mut add = |at: f64, class, limits: Limits, walltime: f64, work| {
        number += 1;
        jobs.push(JobSpec {
            name: Name::Number(number),
            submitted: Time(Span::from_seconds(at).0),
            class,
            limits,
            share: None,
            priority: 0,
            walltime: Span::from_seconds(walltime),
            work,
        });
    };
    for _ in 0..elastic {
        // Eleven of them fill 60 % of the nodes for five hours.
        let work = 0.6 * f64::from(NODES) * HOURS / 11.0;
        let model = Model::Amdahl { serial: 0.0, parallel: work / 1000.0 };
        let mut program = Program::new(1000, model);
        program.leave_after = Span::from_seconds(LEAVES_AFTER);
        program.acknowledges = acknowledges;
        let limits = Limits::between(1, NODES, 1);
        add(0.0, class, limits, work, Work::Iterative(Box::new(program)));
    }
    // Jobs of 1 to 4 nodes, 10 minutes on average.
    let gap = 2.5 * 600.0 / (0.4 * f64::from(NODES));
    while at < HOURS {
        let nodes = 1 + random.below(4) as u32;
        let seconds = random.exponential(600.0).max(1.0);
        at += random.exponential(gap);
        add(
            at,
            Class::Rigid,
            Limits::exactly(nodes),
            seconds,
            Work::Fixed(Span::from_seconds(seconds)),
        );
    }
    Workload::new(jobs, Some(NODES))
}

/// Returns the share of the nodes that were busy in the first five hours, in percent.
fn busy(outcome: &Outcome) -> f64 {
    let mut used = 0.0;
    for (index, load) in outcome.load.iter().enumerate() {
        let from = load.at.as_seconds().min(HOURS);
        let until =
            outcome.load.get(index + 1).map_or(HOURS, |next| next.at.as_seconds().min(HOURS));
        used += f64::from(load.busy) * (until - from);
    }
    100.0 * used / (f64::from(NODES) * HOURS)
}

fn ended_by_then(outcome: &Outcome, ending: Ending) -> f64 {
    let elastic = outcome.records.iter().filter(|record| record.class != Class::Rigid);
    let ended = elastic.filter(|record| record.ending == ending && record.started.is_some());
    ended.filter(|record| record.ended <= Time(Span::from_seconds(HOURS).0)).count() as f64
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

#[derive(Default)]
struct Measured {
    busy: Vec<f64>,
    wait: Vec<f64>,
    /// The waits of all rigid jobs that wait, over all runs.
    waits: Vec<f64>,
    completed: Vec<f64>,
    stopped: Vec<f64>,
}

fn measure(seeds: u64, class: Class, acknowledges: bool) -> Result<Measured, SimulateError> {
    let mut measured = Measured::default();
    for seed in 0..seeds {
        let mut policy = TwoParts { at_most: 1, ..TwoParts::default() };
        let outcome = run(&workload(seed, class, acknowledges, 100), NODES, None, &mut policy)?;
        let wait = |record: &crate::simulate::Record| record.wait().as_seconds();
        measured.busy.push(busy(&outcome));
        measured.wait.push(mean(&outcome, |record| record.class == Class::Rigid, wait));
        let rigid = outcome.records.iter().filter(|record| record.class == Class::Rigid);
        measured.waits.extend(rigid.map(wait).filter(|wait| *wait > 0.0));
        measured.completed.push(ended_by_then(&outcome, Ending::Completed));
        measured.stopped.push(ended_by_then(&outcome, Ending::Stopped));
    }
    Ok(measured)
}

/// Returns the mean wait of the rigid jobs alone, on the nodes that the rigid part of a malleable
/// job leaves.
fn alone(seeds: u64) -> Result<Vec<f64>, SimulateError> {
    let wait = |seed| {
        let jobs = workload(seed, Class::Rigid, false, 0);
        let outcome = run(&jobs, NODES - 1, None, &mut TwoParts::default())?;
        Ok(mean(&outcome, |_| true, |record| record.wait().as_seconds()))
    };
    (0..seeds).map(wait).collect()
}

/// Compares utilisation and waits with either kind of job.
pub(super) fn utilisation(seeds: u64) -> Result<Table, SimulateError> {
    let mut table = Table::new(
        "Malleable against moldable best-effort jobs on idle nodes",
        "Cera, section 5.4.2",
    );
    let moldable = measure(seeds, Class::Moldable, true)?;
    let malleable = measure(seeds, Class::Malleable, false)?;
    let acknowledging = measure(seeds, Class::Malleable, true)?;
    let alone = alone(seeds)?;
    table.row("moldable, utilisation in %", Some(72.0), Estimate::of(&moldable.busy));
    table.row("malleable, utilisation in %", Some(98.0), Estimate::of(&malleable.busy));
    table.row("moldable, wait of rigid jobs in s", Some(8.0), Estimate::of(&moldable.wait));
    table.row("malleable, 40 s of grace, wait in s", Some(44.0), Estimate::of(&malleable.wait));
    table.row(
        "malleable, acknowledged after 2 s, wait in s",
        None,
        Estimate::of(&acknowledging.wait),
    );
    table.row("rigid jobs alone on 15 nodes, wait in s", None, Estimate::of(&alone));
    table.row("moldable, jobs completed in 5 h", Some(3.0), Estimate::of(&moldable.completed));
    table.row("moldable, jobs ended early in 5 h", Some(7.0), Estimate::of(&moldable.stopped));
    table.row("malleable, jobs completed in 5 h", Some(11.0), Estimate::of(&malleable.completed));
    let (holds, evidence) = is_below(&moldable.busy, &malleable.busy);
    table.claim("malleable jobs use more of the machine than moldable ones", holds, evidence);
    let (holds, evidence) = is_below(&moldable.completed, &malleable.completed);
    table.claim("more malleable jobs complete than moldable ones", holds, evidence);
    let (holds, evidence) = is_below(&moldable.wait, &malleable.wait);
    table.claim("rigid jobs wait longer for malleable ones, by the grace time", holds, evidence);
    let (holds, evidence) = is_below(&acknowledging.wait, &malleable.wait);
    table.claim("acknowledgement shortens the wait", holds, evidence);
    let ours = median(&malleable.waits);
    table.exact("malleable, 40 s of grace, median wait of those that wait in s", 40.0, ours, 0.0);
    let ours = median(&acknowledging.waits);
    table.exact(
        "malleable, acknowledged, the same in s: the time to leave",
        LEAVES_AFTER,
        ours,
        0.0,
    );
    let moved =
        Estimate::of(&malleable.busy.iter().map(|value| value - 90.0).collect::<Vec<f64>>());
    table.claim(
        "malleable jobs leave less than 10 % idle",
        moved.is_positive(),
        format!("{:.1} ± {:.1} above 90", moved.mean, moved.half),
    );
    table.remark("the trace (DAS2, 2003, a slice of 5 h) is not published with the source: rigid jobs of the same load are generated");
    table.remark("the 8 s that jobs wait for moldable ones are the response of OAR itself, which is not simulated");
    Ok(table)
}
