//! Strategies for expansions.

use serde::{Deserialize, Serialize};

use super::{Answer, Candidate};

/// A strategy for the expansion of the job at its resize point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expand {
    /// Idle nodes go to the job with the highest potential: nodes are set aside for the jobs with
    /// higher potential that are due before the next resize point of the job.
    MaxBenefit,
    /// As max-benefit, among jobs of equal rank; for jobs of higher rank nodes are always set
    /// aside.
    MaxBenefitByRank,
    /// Each job expands in the order in which resize points are reached, if there are enough idle nodes.
    Fcfs,
    /// A job expands only if there are enough idle nodes to expand all running jobs.
    Uniform,
}

impl Expand {
    /// Decides whether `job` expands into `idle` nodes. `others` are the other running jobs.
    #[must_use]
    pub fn decide<'a>(
        self,
        job: &Candidate,
        others: impl Iterator<Item = &'a Candidate>,
        idle: u32,
    ) -> Answer {
        let (Some(next), Some(increment)) = (job.next, job.increment()) else {
            return Answer::keep(format!("keeps {} nodes: its largest size", job.size));
        };
        if job.holds {
            return Answer::keep(format!("keeps {} nodes: its sweet spot", job.size));
        }
        if self.weighs_potential() && !job.promises {
            let potential = job.potential.unwrap_or(0.0);
            let reason =
                format!("keeps {} nodes: its potential of {potential:.3} is too low", job.size);
            return Answer::keep(reason);
        }
        let set_aside = self.set_aside(job, others);
        if self == Expand::Uniform && set_aside + u64::from(increment) > u64::from(idle) {
            let all = set_aside + u64::from(increment);
            let reason = format!(
                "keeps {} nodes: to expand all takes {all} nodes, {idle} are idle",
                job.size
            );
            return Answer::keep(reason);
        }
        if set_aside + u64::from(increment) > u64::from(idle) {
            let aside = match set_aside {
                0 => String::new(),
                _ => format!(", {set_aside} of them set aside for jobs that go first"),
            };
            let reason = format!(
                "keeps {} nodes: {next} take {increment} more, {idle} are idle{aside}",
                job.size
            );
            return Answer::keep(reason);
        }
        let why = match job.potential.filter(|_| self.weighs_potential()) {
            Some(potential) => format!(", potential {potential:.3}"),
            None => String::new(),
        };
        Answer::to(next, format!("expands from {} to {next} nodes: {idle} are idle{why}", job.size))
    }

    fn weighs_potential(self) -> bool {
        matches!(self, Expand::MaxBenefit | Expand::MaxBenefitByRank)
    }

    /// Returns the number of nodes set aside for other jobs.
    fn set_aside<'a>(self, job: &Candidate, others: impl Iterator<Item = &'a Candidate>) -> u64 {
        let before = |other: &&Candidate| match self {
            Expand::Fcfs => false,
            Expand::Uniform => !other.holds,
            Expand::MaxBenefit => other.may_expand() && goes_first(other, job),
            Expand::MaxBenefitByRank => {
                let equal = other.rank.order(&job.rank).is_eq();
                other.may_expand()
                    && (other.rank.is_above(&job.rank) || (equal && goes_first(other, job)))
            }
        };
        others.filter(before).filter_map(Candidate::increment).map(u64::from).sum()
    }
}

/// Returns true if `other` has a higher potential and is due before the next resize point of `job`.
/// If `job` has no potential yet, any other potential is higher; an `other` without one never goes
/// first.
fn goes_first(other: &Candidate, job: &Candidate) -> bool {
    let higher = match (other.potential, job.potential) {
        (Some(other), Some(job)) => other > job,
        (Some(_), None) => true,
        (None, _) => false,
    };
    higher && other.next_point < job.next_point
}
