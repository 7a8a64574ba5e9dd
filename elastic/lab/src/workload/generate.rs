//! Synthetic rigid jobs.

use super::random::Random;
use super::{JobSpec, Name, Work, Workload};
use elastic_policy::job::{Class, Limits};
use elastic_policy::time::{Span, Time};

/// The shape of a synthetic workload.
#[derive(Clone, Copy, Debug)]
pub struct Synthetic {
    /// The number of jobs.
    pub jobs: u32,
    /// The nodes of the machine.
    pub nodes: u32,
    /// The work that arrives, as a share of the machine's capacity.
    pub load: f64,
    /// The seed.
    pub seed: u64,
}

/// Makes rigid jobs: exponentially distributed times between arrivals; sizes and run times uniform
/// in their logarithms (1 to a quarter of the machine, half of them powers of two; a minute to
/// eight hours); estimates from exact to five times the run time. All times are whole seconds.
#[must_use]
pub fn synthetic(shape: Synthetic) -> Workload {
    let mut random = Random::new(shape.seed);
    let largest = f64::from((shape.nodes / 4).max(1));
    let mut jobs = Vec::with_capacity(shape.jobs as usize);
    let mut work = 0.0;
    for number in 0..u64::from(shape.jobs) {
        let size = largest.powf(random.unit());
        let size = if random.unit() < 0.5 { size.log2().round().exp2() } else { size.round() };
        let nodes = (size as u32).clamp(1, shape.nodes.max(1));
        let runtime = (60.0 * 480_f64.powf(random.unit())).round();
        let walltime = (runtime * (1.0 + 4.0 * random.unit().powi(2))).round();
        work += f64::from(nodes) * runtime;
        jobs.push(JobSpec {
            name: Name::Number(number + 1),
            submitted: Time::ZERO,
            class: Class::Rigid,
            limits: Limits::exactly(nodes),
            share: None,
            priority: 0,
            walltime: Span::from_seconds(walltime),
            work: Work::Fixed(Span::from_seconds(runtime)),
        });
    }
    let length = work / (f64::from(shape.nodes.max(1)) * shape.load.max(0.001));
    let gap = length / f64::from(shape.jobs.max(1));
    let mut now = 0.0;
    for job in &mut jobs {
        now += random.exponential(gap);
        job.submitted = Time(Span::from_seconds(now.round()).0);
    }
    Workload::new(jobs, Some(shape.nodes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synthetic_jobs_bring_the_load_that_was_asked_for() {
        let shape = Synthetic { jobs: 20_000, nodes: 100, load: 0.8, seed: 1 };
        let workload = synthetic(shape);
        assert_eq!(workload, synthetic(shape));
        assert_ne!(workload, synthetic(Synthetic { seed: 2, ..shape }));
        let used: f64 = workload
            .jobs
            .iter()
            .map(|job| match job.work {
                Work::Fixed(span) => f64::from(job.limits.start) * span.as_seconds(),
                Work::Iterative(_) => 0.0,
            })
            .sum();
        let load = used / (100.0 * workload.jobs[19_999].submitted.as_seconds());
        assert!((0.78..0.82).contains(&load), "{load}");
        assert!(workload.jobs.iter().all(|job| (1..=32).contains(&job.limits.start)));
    }
}
