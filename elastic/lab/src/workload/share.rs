//! Takes a share of rigid jobs as elastic.

use std::collections::BTreeSet;

use super::random::Random;
use super::{Model, Program, Work, Workload};
use elastic_policy::job::{Class, Limits};

/// The choice of jobs.
#[derive(Clone, Debug, PartialEq)]
pub enum Chosen {
    /// A share of the jobs, from 0 to 1, chosen at random from a seed.
    Share(f64, u64),
    /// The jobs with these names.
    Names(BTreeSet<String>),
}

/// How rigid jobs become elastic.
#[derive(Clone, Debug, PartialEq)]
pub struct Elastic {
    /// The choice of jobs.
    pub chosen: Chosen,
    /// The new class of the jobs.
    pub class: Class,
    /// Their smallest size as a share of the size in the log.
    pub smallest: f64,
    /// Their largest size as a multiple of the size in the log.
    pub largest: f64,
    /// The serial fraction of their run time on the size in the log (Amdahl's law).
    pub serial: f64,
    /// The number of iterations; a resizable job may change its size between any two.
    pub iterations: u32,
}

impl Elastic {
    /// Changes a workload; returns the number of jobs that became elastic.
    ///
    /// A job on its logged size takes its logged run time. Jobs with more nodes than the machine
    /// has are left unchanged.
    pub fn apply(&self, workload: &mut Workload, nodes: u32) -> usize {
        let mut random = match self.chosen {
            Chosen::Share(_, seed) => Random::new(seed),
            Chosen::Names(_) => Random::new(0),
        };
        let mut count = 0;
        for job in &mut workload.jobs {
            let is_chosen = match &self.chosen {
                // One number for each job, so that a larger share includes all jobs of a smaller
                // one.
                Chosen::Share(share, _) => random.unit() < *share,
                Chosen::Names(names) => names.contains(&job.name.to_string()),
            };
            let Work::Fixed(runtime) = job.work else { continue };
            let start = job.limits.start;
            if !is_chosen || job.class != Class::Rigid || start > nodes {
                continue;
            }
            let iterations = self.iterations.max(1);
            let each = runtime.as_seconds() / f64::from(iterations);
            let serial = each * self.serial.clamp(0.0, 1.0);
            let model = Model::Amdahl { serial, parallel: (each - serial) * f64::from(start) };
            let smallest = (f64::from(start) * self.smallest).ceil().max(1.0) as u32;
            let largest = (f64::from(start) * self.largest).floor() as u32;
            job.class = self.class;
            job.limits = Limits::between(
                if self.class == Class::Resizable { start } else { smallest.min(start) },
                largest.clamp(start, nodes),
                start,
            );
            job.work = Work::Iterative(Box::new(Program::new(iterations, model)));
            count += 1;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::generate::{Synthetic, synthetic};

    fn elastic(chosen: Chosen, class: Class) -> Elastic {
        Elastic { chosen, class, smallest: 0.25, largest: 2.0, serial: 0.1, iterations: 10 }
    }

    #[test]
    fn larger_share_has_the_jobs_of_a_smaller_one() {
        let rigid = synthetic(Synthetic { jobs: 1000, nodes: 64, load: 0.8, seed: 1 });
        let of = |share| {
            let mut workload = rigid.clone();
            let count = elastic(Chosen::Share(share, 5), Class::Malleable).apply(&mut workload, 64);
            let classes = workload.jobs.iter().map(|job| job.class == Class::Malleable);
            (count, classes.collect::<Vec<bool>>())
        };
        let ((few, some), (many, more)) = (of(0.2), of(0.6));
        assert!((150..250).contains(&few) && (550..650).contains(&many), "{few} {many}");
        assert!(some.iter().zip(&more).all(|(some, more)| !some || *more));
        assert_eq!((of(0.0).0, of(1.0).0), (0, 1000));
    }

    #[test]
    fn named_job_keeps_its_run_time_on_its_size() {
        let mut workload = synthetic(Synthetic { jobs: 10, nodes: 64, load: 0.8, seed: 1 });
        let Work::Fixed(before) = workload.jobs[3].work else { panic!() };
        let names = BTreeSet::from(["4".to_owned()]);
        assert_eq!(elastic(Chosen::Names(names), Class::Resizable).apply(&mut workload, 64), 1);
        let job = &workload.jobs[3];
        let Work::Iterative(program) = &job.work else { panic!("{job:?}") };
        let seconds = 10.0 * program.model.seconds(&[], job.limits.start);
        assert!((seconds - before.as_seconds()).abs() < 1e-6);
        assert_eq!((job.limits.min, job.limits.max), (job.limits.start, 2 * job.limits.start));
    }
}
