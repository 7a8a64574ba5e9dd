//! Strategies that take nodes back for the next waiting job.

use serde::{Deserialize, Serialize};

use super::{Answer, Candidate, Rank};
use crate::job::JobId;

/// The nodes that a waiting job needs in addition to the free ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Need {
    /// The waiting job.
    pub job: JobId,
    /// The number of missing nodes; zero if there are enough.
    pub missing: u32,
    /// Its priority.
    pub rank: Rank,
}

/// A strategy for the contraction of the job at its resize point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reclaim {
    /// Jobs give nodes in the order of the effect on them, the least first, until there are enough.
    LeastImpact,
    /// Jobs of low rank give before jobs of high rank, each in the order of the effect; no job
    /// gives to a job of lower or equal rank.
    LeastImpactByRank,
    /// Each job returns to its previous size, in the order of resize points, and not twice before
    /// all have done so once.
    FairContract,
    /// Each job returns to its previous size, in the order of resize points; a job of a higher
    /// class only for a waiting job that outranks it.
    FcfsContractByRank,
}

impl Reclaim {
    /// Returns true if a job's rank lets this strategy take nodes from it for `need`.
    #[must_use]
    pub fn may_take(self, job: &Candidate, need: &Need) -> bool {
        match self {
            Reclaim::LeastImpact | Reclaim::FairContract => true,
            Reclaim::LeastImpactByRank => need.rank.is_above(&job.rank),
            Reclaim::FcfsContractByRank => job.rank.class <= 0 || need.rank.is_above(&job.rank),
        }
    }

    /// Decides whether `job` shrinks for `need`. `others` are the other running jobs.
    #[must_use]
    pub fn decide<'a>(
        self,
        job: &'a Candidate,
        others: impl Iterator<Item = &'a Candidate>,
        need: Need,
    ) -> Answer {
        let keep = |cause: String| Answer::keep(format!("keeps {} nodes: {cause}", job.size));
        if need.missing == 0 {
            return keep(format!("{} lacks none", need.job));
        }
        let Some(previous) = job.previous() else {
            return keep("it has no smaller size to go back to".to_owned());
        };
        if !self.may_take(job, &need) {
            return keep(format!("it outranks {}", need.job));
        }
        let (to, cause) = match self {
            Reclaim::LeastImpact | Reclaim::LeastImpactByRank => {
                let mut list: Vec<&Candidate> =
                    others.filter(|other| self.may_take(other, &need)).collect();
                list.push(job);
                let by_class = self == Reclaim::LeastImpactByRank;
                let taken = least_impact_walk(&list, need.missing, by_class);
                let Some((_, to)) = taken.iter().find(|(giver, _)| *giver == job.job) else {
                    return keep(format!("others with less effect give what {} lacks", need.job));
                };
                (*to, format!("the effect is a factor of {:.2}", job.impact()))
            }
            Reclaim::FairContract => {
                // A job at its smallest size is not due any more.
                let due = others.filter(|one| one.contract && one.previous().is_some()).count();
                if !job.contract && due > 0 {
                    return keep(format!("{due} jobs give first for {}", need.job));
                }
                (previous, "and it is this job's turn".to_owned())
            }
            Reclaim::FcfsContractByRank => (previous, "and it is at its resize point".to_owned()),
        };
        let (size, lacking, missing) = (job.size, need.job, need.missing);
        Answer::to(
            to,
            format!("shrinks from {size} to {to} nodes: {lacking} lacks {missing}, {cause}"),
        )
    }
}

/// Walks over jobs in the order of the effect on them until `missing` nodes are found, and returns
/// each job with its new size: the largest that gives the remaining missing nodes, or its smallest.
/// With `by_class` jobs of a lower class are first. The result may give fewer than `missing` nodes
/// if the jobs have no more.
#[must_use]
pub fn least_impact_walk(list: &[&Candidate], missing: u32, by_class: bool) -> Vec<(JobId, u32)> {
    let mut order: Vec<&&Candidate> = list.iter().filter(|one| !one.shrinks.is_empty()).collect();
    order.sort_by(|a, b| {
        let class =
            if by_class { a.rank.class.cmp(&b.rank.class) } else { std::cmp::Ordering::Equal };
        class.then(a.impact().total_cmp(&b.impact())).then(a.job.cmp(&b.job))
    });
    let mut left = missing;
    let mut taken = Vec::new();
    for one in order {
        if left == 0 {
            break;
        }
        let enough =
            one.shrinks.iter().map(|point| point.nodes).filter(|nodes| one.size - nodes >= left);
        let Some(to) = enough.max().or(one.smallest()) else { continue };
        left -= (one.size - to).min(left);
        taken.push((one.job, to));
    }
    taken
}
