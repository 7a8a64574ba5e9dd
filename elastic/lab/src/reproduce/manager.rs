//! The scenarios of the elastic resource manager: section 14.3 of Comprés.

use super::{Estimate, SimulateError, Table};
use crate::simulate::{Observer, Outcome, Settings, Simulation};
use crate::workload::{JobSpec, Model, Name, Program, Work, Workload};
use elastic_policy::action::{Action, Decision};
use elastic_policy::job::{Class, JobId, Limits};
use elastic_policy::resizing::ElasticBackfill;
use elastic_policy::sizes::Sizes;
use elastic_policy::state::Cluster;
use elastic_policy::time::{Span, Time};

const NODES: u32 = 32;
const PERIOD: Span = Span(60_000);

/// The successive sizes of each job, with the step of the manager.
#[derive(Default)]
struct Sequence {
    sizes: Vec<Vec<(u64, u32)>>,
}

impl Sequence {
    fn of(&self, job: usize) -> Vec<u32> {
        self.sizes[job].iter().map(|(_, size)| *size).collect()
    }

    /// Returns the last step at which the size changed.
    fn last_step(&self, job: usize) -> u64 {
        self.sizes[job].last().map_or(0, |(step, _)| *step)
    }

    fn change(&mut self, job: JobId, now: Time, change: impl Fn(u32) -> u32) {
        let index = job.0 as usize;
        if self.sizes.len() <= index {
            self.sizes.resize(index + 1, Vec::new());
        }
        let before = self.sizes[index].last().map_or(0, |(_, size)| *size);
        self.sizes[index].push((now.0 / PERIOD.0, change(before)));
    }
}

impl Observer for Sequence {
    fn decided(&mut self, now: Time, decision: &Decision) {
        match &decision.action {
            Action::Start { job, nodes } => self.change(*job, now, |_| nodes.count()),
            Action::Grow { job, nodes } => self.change(*job, now, |size| size + nodes.count()),
            Action::Shrink { job, nodes, .. } => {
                self.change(*job, now, |size| size - nodes.count());
            }
            _ => {}
        }
    }
}

/// Makes a job that starts on 16 nodes, takes `minutes` there, and has a ratio of MPI time by size.
fn job(name: &str, sizes: &Sizes, minutes: u32, ratio: &[(u32, f64)]) -> JobSpec {
    let allowed = sizes.limits(1, NODES, 16).unwrap_or(Limits::exactly(16));
    let mut program = Program::new(60 * minutes, Model::Amdahl { serial: 0.0, parallel: 16.0 });
    program.mpi_ratio = ratio.to_vec();
    JobSpec {
        name: Name::Text(name.into()),
        submitted: Time::ZERO,
        class: Class::Malleable,
        limits: Limits { start: 16, ..allowed },
        share: None,
        priority: 0,
        walltime: Span::seconds(u64::from(60 * minutes)),
        work: Work::Iterative(Box::new(program)),
    }
}

fn run(
    jobs: Vec<JobSpec>,
    policy: &mut ElasticBackfill,
) -> Result<(Outcome, Sequence), SimulateError> {
    let workload = Workload::new(jobs, Some(NODES));
    let cluster = Cluster { nodes: NODES, cores_per_node: 16 };
    let settings = Settings { tick: Some(PERIOD), keep_course: true, ..Settings::new(cluster) };
    let mut sequence = Sequence::default();
    let outcome = Simulation::new(&workload, settings, policy, &mut sequence).run()?;
    Ok((outcome, sequence))
}

fn sequence_claim(table: &mut Table, name: &str, ours: &[u32], source: &[u32]) {
    table.claim(format!("{name} has the sizes {source:?}"), ours == source, format!("{ours:?}"));
}

const ASSUMED: &str = "ratios are not printed: values are taken that lie where the source says, below, between or above the thresholds";

/// Cannon on large matrices together with Gaussian elimination.
pub(super) fn large() -> Result<Table, SimulateError> {
    let mut table =
        Table::new("Cannon 4096 and GE 4096 on 16 nodes each", "Comprés, section 14.3.1, phase 1");
    let squares = Sizes::Squares { cores: 16 };
    let jobs = vec![
        job("Cannon", &squares, 60, &[(1, 0.005)]),
        job("GE", &Sizes::Increment(1), 60, &[(1, 0.4)]),
    ];
    let (outcome, sequence) = run(jobs, &mut ElasticBackfill::default())?;
    // When GE ends, Cannon takes its node as well, if that makes a larger square.
    let cannon: Vec<u32> = sequence.of(0).into_iter().take(4).collect();
    sequence_claim(&mut table, "Cannon", &cannon, &[16, 23, 28, 31]);
    sequence_claim(&mut table, "GE", &sequence.of(1), &[16, 8, 4, 2, 1]);
    let step = sequence.sizes[0].get(3).map_or(0, |(step, _)| *step);
    table.exact("step at which Cannon reaches 31 nodes", 5.0, step as f64, 0.0);
    table.exact("steps in which GE reaches 1 node", 4.0, sequence.last_step(1) as f64, 0.0);
    let least = outcome.load.iter().map(|load| NODES - load.busy).min().unwrap_or(NODES);
    table.exact("idle nodes after step 5", 0.0, f64::from(least), 0.0);
    table.remark(ASSUMED);
    table.remark("steps are counted from the first decision; nodes that leave in one step are used in the next");
    Ok(table)
}

/// Cannon on small matrices together with Gaussian elimination.
pub(super) fn small() -> Result<Table, SimulateError> {
    let mut table =
        Table::new("Cannon 1024 and GE 4096 on 16 nodes each", "Comprés, section 14.3.2, phase 1");
    let squares = Sizes::Squares { cores: 16 };
    // Above the upper threshold from 4 nodes on, between the thresholds on 2.
    let jobs = vec![
        job("Cannon", &squares, 60, &[(2, 0.05), (4, 0.2)]),
        job("GE", &Sizes::Increment(1), 60, &[(1, 0.4)]),
    ];
    let (_, sequence) = run(jobs, &mut ElasticBackfill::default())?;
    sequence_claim(&mut table, "Cannon", &sequence.of(0), &[16, 8, 4, 2]);
    sequence_claim(&mut table, "GE", &sequence.of(1), &[16, 8, 4, 2, 1]);
    table.exact("steps in which Cannon reaches 2 nodes", 3.0, sequence.last_step(0) as f64, 0.0);
    table.remark(ASSUMED);
    Ok(table)
}

/// Three instances of Cannon with time balancing on and off.
pub(super) fn three() -> Result<Table, SimulateError> {
    let mut table = Table::new(
        "Three Cannon 4096 of 5, 10 and 15 minutes",
        "Comprés, sections 14.3.3 and 14.3.4",
    );
    let cases = [
        ("phase 1, upper 0.1", 0.005, (0.1, 0.01), true),
        ("phase 1, upper 0.5", 0.005, (0.5, 0.01), true),
        ("phase 2, upper 0.1", 0.05, (0.1, 0.01), false),
        ("phase 2, upper 0.5", 0.05, (0.5, 0.1), true),
    ];
    for (name, ratio, thresholds, helps) in cases {
        let on = three_with(true, true, ratio, thresholds)?;
        let filling = three_with(false, true, ratio, thresholds)?;
        let off = three_with(false, false, ratio, thresholds)?;
        for (index, what) in
            ["idle nodes", "wait of the third in s", "makespan in s"].iter().enumerate()
        {
            let variants =
                [("balancing and filling", on), ("filling only", filling), ("neither", off)];
            for (variant, values) in variants {
                let ours = Estimate::exactly(values[index]);
                table.row(format!("{name}, {variant}, {what}"), None, ours);
            }
            let against = |other: f64| format!("{:.1} against {other:.1}", on[index]);
            match helps {
                true => {
                    let claim = format!("{name}: balancing lowers {what}");
                    table.claim(&claim, on[index] < off[index], against(off[index]));
                    let claim = format!("{claim}, filling left on");
                    table.open(claim, on[index] < filling[index], against(filling[index]));
                }
                false => {
                    let claim = format!("{name}: balancing does not change {what}");
                    table.claim(claim, on[index] == off[index], against(off[index]));
                }
            }
        }
    }
    table.remark("no value is printed in the source, only that each falls or stays; whether filling was left on without balancing is not said");
    table.remark(ASSUMED);
    table.remark(
        "a ratio between the thresholds is never expanded by the printed rule, whatever the upper one is: \
         for phase 2 with 0.5 the lower one is taken as 0.1",
    );
    Ok(table)
}

/// Returns the mean number of idle nodes, the wait of the third job and the makespan.
fn three_with(
    balancing: bool,
    filling: bool,
    ratio: f64,
    (upper, lower): (f64, f64),
) -> Result<[f64; 3], SimulateError> {
    let squares = Sizes::Squares { cores: 16 };
    let of = |minutes| job("Cannon", &squares, minutes, &[(1, ratio)]);
    let mut policy = ElasticBackfill::default();
    (policy.balancing, policy.filling) = (balancing, filling);
    (policy.thresholds.upper, policy.thresholds.lower) = (upper, lower);
    let (outcome, _) = run(vec![of(5), of(10), of(15)], &mut policy)?;
    let wait = outcome.records[2].wait().as_seconds();
    let makespan = outcome.bounds().1.as_seconds();
    Ok([f64::from(NODES) * (1.0 - outcome.utilisation()), wait, makespan])
}
