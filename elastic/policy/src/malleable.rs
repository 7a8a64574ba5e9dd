//! Jobs with a rigid part and a flexible part: offers to the flexible part, reclaims from it, and
//! the ideal speedup.
//!
//! The rigid part is the smallest number of nodes that the job needs, which it holds throughout.
//! The flexible part fills nodes that no other job needs, and gives back after a notice, tail
//! first, as many as are missing.
//!
//! Source: M. C. Cera, dissertation, UFRGS 2012, sections 3.1.3.3, 5.1 and 5.4.

use serde::{Deserialize, Serialize};

use crate::job::{JobId, Limits};
use crate::sizes::{largest_within, next_larger};
use crate::time::{Span, Time};

/// The order in which several malleable jobs get nodes and give them back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sharing {
    /// Equi-grow and shrink (EGS): all jobs get and give equally many.
    Egs,
    /// Favour previously started malleable applications (FPSMA): the earliest grows first, the latest shrinks first.
    Fpsma,
}

/// A running malleable job.
#[derive(Clone, Debug, PartialEq)]
pub struct Flexible<'a> {
    /// The job.
    pub job: JobId,
    /// The instant of its start.
    pub started: Time,
    /// The size in nodes.
    pub size: u32,
    /// The limits; the minimum is the rigid part.
    pub limits: &'a Limits,
}

/// Returns the number of idle nodes that are not promised to any job within the look-ahead.
#[must_use]
pub fn unpromised(
    idle: u32,
    promises: impl Iterator<Item = (Time, u32)>,
    now: Time,
    look_ahead: Span,
) -> u32 {
    let soon = promises.filter(|(at, _)| *at <= now + look_ahead);
    soon.fold(idle, |left, (_, nodes)| left.saturating_sub(nodes))
}

/// Chooses the sizes to which jobs shrink in order to free `missing` nodes: no more than that,
/// unless the allowed sizes are further apart, and never below the rigid part. Jobs that keep their
/// size are left out.
#[must_use]
pub fn reclaim(jobs: &[Flexible<'_>], missing: u32, sharing: Sharing) -> Vec<(JobId, u32)> {
    let mut sizes: Vec<u32> = jobs.iter().map(|one| one.size).collect();
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse((jobs[*index].started, jobs[*index].job)));
    let mut left = missing;
    match sharing {
        Sharing::Fpsma => {
            for index in order {
                let limits = jobs[index].limits;
                let most = sizes[index].saturating_sub(limits.min);
                if left == 0 || most == 0 {
                    continue;
                }
                let wanted = sizes[index] - left.min(most);
                let to = largest_within(limits, wanted).unwrap_or(limits.min);
                left = left.saturating_sub(sizes[index] - to);
                sizes[index] = to;
            }
        }
        Sharing::Egs => {
            // One step from each in turn.
            let mut gave = true;
            while gave {
                gave = false;
                for &index in &order {
                    let below = sizes[index].checked_sub(1);
                    let to = below.and_then(|below| largest_within(jobs[index].limits, below));
                    let (Some(to), true) = (to, left > 0) else { continue };
                    left = left.saturating_sub(sizes[index] - to);
                    sizes[index] = to;
                    gave = true;
                }
            }
        }
    }
    changes(jobs, &sizes)
}

/// Chooses the sizes to which jobs grow into `free` nodes, up to their maximum. Jobs that keep
/// their size are left out.
#[must_use]
pub fn offer(jobs: &[Flexible<'_>], free: u32, sharing: Sharing) -> Vec<(JobId, u32)> {
    let mut sizes: Vec<u32> = jobs.iter().map(|one| one.size).collect();
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|index| (jobs[*index].started, jobs[*index].job));
    let mut left = free;
    match sharing {
        Sharing::Fpsma => {
            for index in order {
                let most = sizes[index].saturating_add(left);
                let to = largest_within(jobs[index].limits, most).filter(|to| *to > sizes[index]);
                if let Some(to) = to {
                    left -= to - sizes[index];
                    sizes[index] = to;
                }
            }
        }
        Sharing::Egs => {
            let mut got = true;
            while got {
                got = false;
                for &index in &order {
                    let next = next_larger(jobs[index].limits, sizes[index]);
                    let Some(to) = next.filter(|to| to - sizes[index] <= left) else { continue };
                    left -= to - sizes[index];
                    sizes[index] = to;
                    got = true;
                }
            }
        }
    }
    changes(jobs, &sizes)
}

fn changes(jobs: &[Flexible<'_>], sizes: &[u32]) -> Vec<(JobId, u32)> {
    let changed = jobs.iter().zip(sizes).filter(|(one, size)| one.size != **size);
    changed.map(|(one, size)| (one.job, *size)).collect()
}

/// Returns the ideal speedup of a job that runs on `from` cores for the part `alpha` of the time that it would
/// take there, and then on `to` cores (equation 5.1).
#[must_use]
pub fn speedup_at(from: f64, to: f64, alpha: f64) -> f64 {
    1.0 / (from / to * (1.0 - alpha) + alpha)
}

/// Returns the ideal speedup of a job that changes from `from` to `to` cores in equal steps of
/// `step` cores during the part `alpha` of the time that it would take on `from` cores (equation
/// 5.7). The step has the sign of the change. The source uses +4 for leaving cores, too.
#[must_use]
pub fn speedup_until(from: f64, to: f64, alpha: f64, step: f64) -> f64 {
    2.0 * to / (2.0 * from + alpha * (to - from + step))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_signed_step_is_the_sum_of_the_work_done() {
        let thousandths = |alpha| (speedup_until(64.0, 16.0, alpha, -4.0) * 1000.0).round();
        assert_eq!([0.25, 0.5, 0.75].map(thousandths), [278.0, 314.0, 360.0]);
        let changes = [(16.0, 64.0), (32.0, 64.0), (48.0, 64.0), (64.0, 16.0), (64.0, 48.0)];
        let alphas = [0.25, 0.5, 0.75];
        for (from, to, alpha) in
            changes.iter().flat_map(|&(from, to)| alphas.map(|alpha| (from, to, alpha)))
        {
            let step = if to > from { 4.0 } else { -4.0 };
            // The same result by summation: work is `from` core-times, all steps last equally long.
            let steps = ((to - from) / step) as u32;
            let length = alpha / f64::from(steps);
            let done: f64 = (0..steps).map(|index| length * (from + step * f64::from(index))).sum();
            let time = alpha + (from - done) / to;
            assert!((speedup_until(from, to, alpha, step) - 1.0 / time).abs() < 1e-12);
        }
    }

    #[test]
    fn promised_nodes_within_the_look_ahead_are_not_taken() {
        let promises = [(Time::seconds(800), 3), (Time::seconds(1000), 4), (Time::seconds(50), 1)];
        let free = |look_ahead| {
            unpromised(10, promises.into_iter(), Time::seconds(100), Span::seconds(look_ahead))
        };
        assert_eq!((free(900), free(700), free(0)), (2, 6, 9));
        assert_eq!(unpromised(2, promises.into_iter(), Time::ZERO, Span::seconds(900)), 0);
    }

    fn flexible(job: u32, started: u64, size: u32, limits: &Limits) -> Flexible<'_> {
        Flexible { job: JobId(job), started: Time::seconds(started), size, limits }
    }

    #[test]
    fn only_missing_nodes_are_taken_by_either_order() {
        let limits = Limits::between(1, 20, 1);
        let jobs =
            [flexible(0, 0, 8, &limits), flexible(1, 5, 8, &limits), flexible(2, 9, 4, &limits)];
        let job = |job, size| (JobId(job), size);
        assert_eq!(reclaim(&jobs, 5, Sharing::Fpsma), [job(1, 6), job(2, 1)]);
        assert_eq!(reclaim(&jobs, 5, Sharing::Egs), [job(0, 7), job(1, 6), job(2, 2)]);
        assert_eq!(reclaim(&jobs, 99, Sharing::Egs), [job(0, 1), job(1, 1), job(2, 1)]);
        assert_eq!(reclaim(&jobs, 0, Sharing::Fpsma), []);
        assert_eq!(offer(&jobs, 14, Sharing::Fpsma), [job(0, 20), job(1, 10)]);
        assert_eq!(offer(&jobs, 14, Sharing::Egs), [job(0, 13), job(1, 13), job(2, 8)]);
        assert_eq!(offer(&jobs, 0, Sharing::Egs), []);
    }

    #[test]
    fn allowed_sizes_are_respected_when_nodes_go_and_come() {
        let limits = Limits { min: 2, max: 16, start: 2, allowed: vec![2, 4, 8, 16] };
        let jobs = [flexible(0, 0, 8, &limits)];
        for sharing in [Sharing::Egs, Sharing::Fpsma] {
            assert_eq!(reclaim(&jobs, 1, sharing), [(JobId(0), 4)]);
            assert_eq!(reclaim(&jobs, 5, sharing), [(JobId(0), 2)]);
            assert_eq!(offer(&jobs, 7, sharing), []);
            assert_eq!(offer(&jobs, 9, sharing), [(JobId(0), 16)]);
        }
    }

    #[test]
    fn size_not_allowed_stays_where_nothing_is_missing() {
        let limits = Limits { min: 2, max: 16, start: 2, allowed: vec![2, 4, 8, 16] };
        let jobs = [flexible(0, 0, 7, &limits)];
        for sharing in [Sharing::Egs, Sharing::Fpsma] {
            assert_eq!(reclaim(&jobs, 0, sharing), []);
            assert_eq!(reclaim(&jobs, 1, sharing), [(JobId(0), 4)]);
        }
    }

    proptest! {
        #[test]
        fn jobs_stay_in_their_limits_and_give_what_is_missing(
            jobs in proptest::collection::vec((1..20u32, 0..20u32, 0..20u32, 0..100u64), 1..6),
            missing in 0..80u32, fpsma in any::<bool>(),
        ) {
            let sharing = if fpsma { Sharing::Fpsma } else { Sharing::Egs };
            let limits: Vec<Limits> = jobs.iter()
                .map(|(min, more, above, _)| Limits::between(*min, min + more + above, *min)).collect();
            let jobs: Vec<Flexible<'_>> = jobs.iter().zip(&limits).enumerate()
                .map(|(index, ((min, more, _, started), limits))| flexible(index as u32, *started, min + more, limits))
                .collect();
            let rigid: u32 = limits.iter().map(|limits| limits.min).sum();
            let held: u32 = jobs.iter().map(|one| one.size).sum();
            let room: u32 = limits.iter().map(|limits| limits.max).sum::<u32>() - held;
            let size = |job: JobId| jobs[job.0 as usize].size;
            let taken = reclaim(&jobs, missing, sharing);
            prop_assert!(taken.iter().all(|(job, to)| limits[job.0 as usize].allows(*to) && *to < size(*job)));
            let freed: u32 = taken.iter().map(|(job, to)| size(*job) - to).sum();
            prop_assert_eq!(freed, missing.min(held - rigid));
            let given = offer(&jobs, missing, sharing);
            prop_assert!(given.iter().all(|(job, to)| limits[job.0 as usize].allows(*to) && *to > size(*job)));
            let used: u32 = given.iter().map(|(job, to)| to - size(*job)).sum();
            prop_assert_eq!(used, missing.min(room));
        }
    }
}
