//! Simulations over seeds, and their measures.

use super::Estimate;
use crate::simulate::{Outcome, Record, Settings, SimulateError, Simulation};
use crate::workload::Workload;
use elastic_policy::policy::Policy;
use elastic_policy::state::Cluster;
use elastic_policy::time::Span;

/// Simulates a workload on `nodes` nodes.
pub(super) fn run(
    workload: &Workload,
    nodes: u32,
    tick: Option<Span>,
    policy: &mut dyn Policy,
) -> Result<Outcome, SimulateError> {
    let cluster = Cluster { nodes, cores_per_node: 1 };
    let settings = Settings { tick, keep_course: true, ..Settings::new(cluster) };
    Simulation::new(workload, settings, policy, &mut ()).run()
}

/// The outcomes of one policy over seeds.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs(Vec<Outcome>);

impl Runs {
    /// Simulates the workload of each seed under a new policy.
    pub(super) fn new<P: Policy>(
        seeds: u64,
        nodes: u32,
        workload: impl Fn(u64) -> Workload,
        policy: impl Fn() -> P,
    ) -> Result<Runs, SimulateError> {
        let outcomes = (0..seeds).map(|seed| run(&workload(seed), nodes, None, &mut policy()));
        outcomes.collect::<Result<Vec<Outcome>, _>>().map(Runs)
    }

    /// Returns a value of each run.
    pub(super) fn each(&self, value: impl Fn(&Outcome) -> f64) -> Vec<f64> {
        self.0.iter().map(value).collect()
    }

    /// Returns the utilisation of each run in percent.
    pub(super) fn utilisation(&self) -> Vec<f64> {
        self.each(|outcome| 100.0 * outcome.utilisation())
    }

    /// Returns the mean of a value over the chosen jobs of each run.
    pub(super) fn mean(
        &self,
        chosen: impl Fn(&Record) -> bool,
        value: impl Fn(&Record) -> f64,
    ) -> Vec<f64> {
        self.each(|outcome| mean(outcome, &chosen, &value))
    }

    pub(super) fn completion(&self) -> Vec<f64> {
        self.mean(|_| true, completion)
    }

    pub(super) fn execution(&self) -> Vec<f64> {
        self.mean(|_| true, |record| record.execution().as_seconds())
    }

    pub(super) fn wait(&self) -> Vec<f64> {
        self.mean(|_| true, |record| record.wait().as_seconds())
    }
}

/// Returns the time from submission to end in seconds.
pub(super) fn completion(record: &Record) -> f64 {
    record.ended.since(record.submitted).as_seconds()
}

/// Returns the mean of a value over the chosen jobs of a run.
pub(super) fn mean(
    outcome: &Outcome,
    chosen: impl Fn(&Record) -> bool,
    value: impl Fn(&Record) -> f64,
) -> f64 {
    let values: Vec<f64> = outcome.records.iter().filter(|one| chosen(one)).map(value).collect();
    values.iter().sum::<f64>() / (values.len().max(1)) as f64
}

/// Returns the gain of `now` over `before` in percent, run by run.
pub(super) fn gain(before: &[f64], now: &[f64]) -> Estimate {
    let gains: Vec<f64> =
        before.iter().zip(now).map(|(before, now)| 100.0 * (before - now) / before).collect();
    Estimate::of(&gains)
}

/// Returns true if `low` is below `high` run by run, with confidence; and the difference as text.
pub(super) fn is_below(low: &[f64], high: &[f64]) -> (bool, String) {
    let difference = Estimate::of_differences(high, low);
    (difference.is_positive(), format!("{:.2} ± {:.2}", difference.mean, difference.half))
}
