//! Formulas and sequences, compared exactly.

use super::workloads::Iterating;
use super::{SimulateError, Table};
use crate::simulate::{Observer, Settings, Simulation};
use crate::workload::{Model, Workload};
use elastic_policy::action::{Action, Decision};
use elastic_policy::balance::{Share, balance as balanced, common_end};
use elastic_policy::malleable::{speedup_at, speedup_until};
use elastic_policy::resizing::{Reshape, Scenario};
use elastic_policy::sizes::Sizes;
use elastic_policy::state::Cluster;
use elastic_policy::time::Time;

/// A program of table 2.4: its name, the rule for its sizes, its first size, the last useful one,
/// the largest, and the sizes in the source.
type Program = (&'static str, Sizes, u32, u32, u32, &'static [u32]);

/// The sizes of the only job of a simulation at its iterations.
#[derive(Default)]
struct Sizes10(Vec<u32>);

impl Observer for Sizes10 {
    fn decided(&mut self, _now: Time, decision: &Decision) {
        let before = self.0.last().copied().unwrap_or(0);
        match &decision.action {
            Action::Start { nodes, .. } => self.0.push(nodes.count()),
            Action::Grow { nodes, .. } => self.0.push(before + nodes.count()),
            Action::Shrink { nodes, .. } => self.0.push(before - nodes.count()),
            Action::Keep { .. } => self.0.push(before),
            _ => {}
        }
    }
}

/// Table 2.4: the sizes of five programs at each of ten iterations.
pub(super) fn sizes() -> Result<Table, SimulateError> {
    let mut table = Table::new("Sizes at each of 10 iterations", "Sudarsan, table 2.4");
    let grid = |divides| Sizes::NearlySquare { difference: None, divides: Some(divides) };
    let accepted = (1..=50).filter(|size| size % 2 == 0 && 8000 % size == 0);
    let jacobi = Sizes::List(accepted.collect());
    let programs: [Program; 5] = [
        ("LU(12000)", grid(12000), 4, 16, 102, &[4, 6, 9, 12, 16, 20, 16, 16, 16, 16]),
        ("MM(14000)", grid(14000), 4, 49, 49, &[4, 8, 16, 20, 25, 35, 49, 49, 49, 49]),
        ("MstWrk(20000)", Sizes::Increment(2), 4, 22, 22, &[4, 6, 8, 10, 12, 14, 16, 18, 20, 22]),
        ("FFT(8192)", Sizes::Doubling, 2, 32, 32, &[2, 4, 8, 16, 32, 32, 32, 32, 32, 32]),
        ("Jacobi(8000)", jacobi, 4, 50, 50, &[4, 8, 10, 16, 20, 32, 40, 50]),
    ];
    for (name, rule, start, useful, max, source) in programs {
        let seconds = |size: u32| if size <= useful { 400.0 / f64::from(size) } else { 400.0 };
        let model = rule.list(start, max).into_iter().map(|size| (size, seconds(size))).collect();
        let job = Iterating {
            name,
            at: 0.0,
            sizes: rule,
            start,
            max,
            iterations: 10,
            every: 1,
            model: Model::Table(model),
            walltime: 4000.0,
            is_resizable: true,
            priority: 0,
        };
        let workload = Workload::new(vec![job.job()], None);
        let settings = Settings::new(Cluster { nodes: 102, cores_per_node: 1 });
        let mut policy = Reshape::new(Scenario::GREEDY_R);
        let mut ours = Sizes10::default();
        Simulation::new(&workload, settings, &mut policy, &mut ours).run()?;
        let holds = ours.0.len() == 10 && ours.0.starts_with(source);
        table.claim(format!("{name} runs on {source:?}"), holds, format!("{:?}", ours.0));
    }
    table.remark("times are made up: they fall up to the size that the source calls the sweet spot, or to the last one it shows");
    table.remark("the source shows eight sizes of Jacobi");
    Ok(table)
}

/// The sequence of Cannon's sizes: squares of processes on nodes of 16 cores.
pub(super) fn squares() -> Table {
    let mut table = Table::new("Nodes that hold a square of processes", "Comprés, section 14.3.1");
    for (nodes, source) in [(24, 23), (28, 28), (30, 28), (31, 31)] {
        let ours = Sizes::Squares { cores: 16 }.fit(1, nodes).unwrap_or(0);
        table.exact(format!("of {nodes} nodes"), f64::from(source), f64::from(ours), 0.0);
    }
    table.remark(
        "the source prints 16, 28 and 31; what lies between follows from 16 cores on a node",
    );
    table
}

/// Time balancing in closed form.
pub(super) fn balance() -> Table {
    let mut table =
        Table::new("Time balancing of n = (4, 4), t = (10, 30)", "Comprés, section 10.3.3");
    let jobs = [Share::free(4, 10.0), Share::free(4, 30.0)];
    let ours = balanced(&jobs, 0);
    table.exact("nodes of the first", 2.0, f64::from(ours[0]), 0.0);
    table.exact("nodes of the second", 6.0, f64::from(ours[1]), 0.0);
    table.exact("common end", 20.0, common_end(&jobs, 0), 0.0);
    table
}

/// The ideal columns of table 5.4 of Cera: cores before and after, alpha, at, until.
const TABLE_5_4: [(f64, f64, f64, f64, f64); 18] = [
    (16.0, 64.0, 0.25, 2.29, 2.84),
    (16.0, 64.0, 0.50, 1.60, 2.21),
    (16.0, 64.0, 0.75, 1.23, 1.80),
    (32.0, 64.0, 0.25, 1.60, 1.75),
    (32.0, 64.0, 0.50, 1.33, 1.56),
    (32.0, 64.0, 0.75, 1.14, 1.41),
    (48.0, 64.0, 0.25, 1.23, 1.27),
    (48.0, 64.0, 0.50, 1.14, 1.21),
    (48.0, 64.0, 0.75, 1.07, 1.15),
    (64.0, 16.0, 0.25, 0.31, 0.27),
    (64.0, 16.0, 0.50, 0.40, 0.30),
    (64.0, 16.0, 0.75, 0.57, 0.34),
    (64.0, 32.0, 0.25, 0.57, 0.53),
    (64.0, 32.0, 0.50, 0.67, 0.56),
    (64.0, 32.0, 0.75, 0.80, 0.60),
    (64.0, 48.0, 0.25, 0.80, 0.77),
    (64.0, 48.0, 0.50, 0.86, 0.79),
    (64.0, 48.0, 0.75, 0.92, 0.81),
];

/// Half a unit of the second decimal, the printed precision of the source.
const PRINTED: f64 = 0.005 + 1e-9;

/// The ideal speedups of equations 5.1 and 5.7.
pub(super) fn speedups() -> Table {
    let mut table =
        Table::new("Ideal speedup of a change at, and until, a time", "Cera, table 5.4");
    for (from, to, alpha, at, until) in TABLE_5_4 {
        let of = format!("{from} to {to} cores, alpha {alpha:.2}");
        table.exact(format!("{of}, at"), at, speedup_at(from, to, alpha), PRINTED);
        table.exact(format!("{of}, until"), until, speedup_until(from, to, alpha, 4.0), PRINTED);
    }
    for (alpha, signed) in [(0.25, 0.278), (0.50, 0.314), (0.75, 0.360)] {
        let what = format!("64 to 16 cores, alpha {alpha:.2}, until, step -4");
        table.exact(what, signed, speedup_until(64.0, 16.0, alpha, -4.0), 0.0005);
    }
    table.remark("the source takes a step of +4 cores where cores leave, too; with its sign the last rows are right");
    table
}
