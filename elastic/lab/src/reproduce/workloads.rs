//! The workloads of the sources.

use crate::workload::random::Random;
use crate::workload::{JobSpec, Model, Name, Program, Work, Workload};
use elastic_policy::job::{Class, Limits};
use elastic_policy::sizes::Sizes;
use elastic_policy::time::{Span, Time};

/// The exponent of Sudarsan's model of speedup.
pub(super) const ALPHA: f64 = 0.8;

/// Describes an iterating job.
#[derive(Clone, Debug)]
pub(super) struct Iterating {
    pub(super) name: &'static str,
    pub(super) at: f64,
    pub(super) sizes: Sizes,
    pub(super) start: u32,
    pub(super) max: u32,
    pub(super) iterations: u32,
    pub(super) every: u32,
    pub(super) model: Model,
    pub(super) walltime: f64,
    pub(super) is_resizable: bool,
    pub(super) priority: i32,
}

impl Iterating {
    pub(super) fn job(self) -> JobSpec {
        let (start, max) = (self.start, self.max);
        let limits = match self.is_resizable {
            true => self.sizes.limits(start, max, start).unwrap_or(Limits::exactly(start)),
            false => Limits::exactly(start),
        };
        let mut program = Program::new(self.iterations, self.model);
        program.resize_every = self.every;
        JobSpec {
            name: Name::Text(self.name.into()),
            submitted: Time(Span::from_seconds(self.at).0),
            class: if self.is_resizable { Class::Resizable } else { Class::Rigid },
            limits,
            share: None,
            priority: self.priority,
            walltime: Span::from_seconds(self.walltime),
            work: Work::Iterative(Box::new(program)),
        }
    }
}

/// A benchmark of the NAS suite: name, first size, seconds for an iteration there.
pub(super) type Nas = (&'static str, u32, f64);

/// Makes a job of 20 iterations of a NAS benchmark, with power-of-two sizes up to 64. The source
/// gives only the time of the first size; the others follow from its own model of speedup.
pub(super) fn nas(of: Nas, at: f64, every: u32, is_resizable: bool) -> JobSpec {
    let (name, start, seconds) = of;
    Iterating {
        name,
        at,
        sizes: Sizes::Doubling,
        start,
        max: 64,
        iterations: 20,
        every,
        model: Model::Growth { start: seconds, alpha: ALPHA },
        walltime: 20.0 * seconds,
        is_resizable,
        priority: 0,
    }
    .job()
}

/// Table 4.1: the benchmarks with their numbers of jobs.
pub(super) const TABLE_4_1: [(Nas, u32); 8] = [
    (("IS-A", 2, 2.748), 3),
    (("CG-A", 2, 3.549), 7),
    (("IS-B", 4, 6.607), 4),
    (("FT-A", 2, 9.231), 5),
    (("FT-B", 4, 63.348), 5),
    (("CG-B", 4, 90.293), 9),
    (("LU-A", 4, 101.436), 8),
    (("LU-B", 8, 316.302), 9),
];

/// Makes setup 1 of section 4.3.1: 50 jobs in random order, 0 to 30 s between two arrivals.
pub(super) fn setup_1(seed: u64, is_resizable: bool) -> Workload {
    let mut random = Random::new(seed);
    let mut order: Vec<Nas> =
        TABLE_4_1.iter().flat_map(|(of, count)| vec![*of; *count as usize]).collect();
    random.shuffle(&mut order);
    let mut at = 0.0;
    let jobs = order.into_iter().map(|of| {
        at += 30.0 * random.unit();
        nas(of, at, 1, is_resizable)
    });
    Workload::new(jobs.collect(), Some(100))
}

/// A variant of setup 2.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExperimentTwo {
    pub(super) seed: u64,
    /// The share of resizable jobs, in each kind.
    pub(super) resizable: f64,
    /// The share of jobs of the higher class, in each kind.
    pub(super) platinum: f64,
    pub(super) large: Large,
    /// The step by which arbitrary sizes grow; `None` for the first size.
    pub(super) increment: Option<u32>,
    /// Applies the model of speedup to each size from the first one, not from the previous one.
    pub(super) from_first: bool,
}

/// The position of the large jobs in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Large {
    Anywhere,
    First,
    Last,
}

/// The sizes of jobs in setup 2: name, first size, the same for powers of two, walltime, seconds
/// for an iteration.
const KINDS: [(&str, u32, u32, f64, f64); 3] = [
    ("small", 35, 32, 156.0, 8.0),
    ("medium", 81, 64, 240.0, 20.0),
    ("large", 136, 128, 324.0, 32.0),
];

/// The step by which arbitrary sizes grow, which the source does not give: that of its figure 4.7.
pub(super) const INCREMENT: u32 = 20;

/// Makes setup 2 of section 4.3.2: 120 synthetic jobs on 400 processors.
pub(super) fn setup_2(setup: ExperimentTwo) -> Workload {
    let mut random = Random::new(setup.seed);
    let mut jobs = Vec::new();
    for (kind, (name, first, power, walltime, seconds)) in KINDS.into_iter().enumerate() {
        let topologies = [
            (Sizes::Increment(setup.increment.unwrap_or(first)), first, 24),
            (Sizes::NearlySquare { difference: None, divides: None }, first, 12),
            (Sizes::Doubling, power, 4),
        ];
        for (sizes, start, count) in topologies {
            // The numbers of resizable and of higher-class jobs of a kind are fixed, the choice is
            // random.
            let mut resizable = chosen(count, setup.resizable);
            let mut platinum = chosen(count, setup.platinum);
            random.shuffle(&mut resizable);
            random.shuffle(&mut platinum);
            for (is_resizable, is_platinum) in resizable.into_iter().zip(platinum) {
                let growth = Model::Growth { start: seconds, alpha: ALPHA };
                let time = |to| (to, growth.seconds(&[(start, seconds)], to));
                let model = match setup.from_first {
                    true => Model::Table(sizes.list(start, 400).into_iter().map(time).collect()),
                    false => growth.clone(),
                };
                let job = Iterating {
                    name,
                    at: 0.0,
                    sizes: sizes.clone(),
                    start,
                    max: 400,
                    iterations: 7,
                    every: 1,
                    model,
                    walltime,
                    is_resizable,
                    priority: i32::from(is_platinum),
                };
                jobs.push((kind, job));
            }
        }
    }
    random.shuffle(&mut jobs);
    match setup.large {
        Large::Anywhere => {}
        Large::First => jobs.sort_by_key(|(kind, _)| *kind != 2),
        Large::Last => jobs.sort_by_key(|(kind, _)| *kind == 2),
    }
    let mut at = 0.0;
    let jobs = jobs.into_iter().map(|(_, job)| {
        at += random.exponential(32.0);
        Iterating { at, ..job }.job()
    });
    Workload::new(jobs.collect(), Some(400))
}

fn chosen(count: usize, share: f64) -> Vec<bool> {
    let of = (count as f64 * share).round() as usize;
    (0..count).map(|index| index < of).collect()
}
