//! Strategies that take nodes back for the waiting job that is to start next.

use serde::{Deserialize, Serialize};

use super::{Answer, Candidate, Rank};
use crate::job::JobId;

/// The nodes that a waiting job lacks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Need {
    /// The waiting job.
    pub job: JobId,
    /// The nodes that it lacks; zero if it lacks none.
    pub missing: u32,
    /// Its priority.
    pub rank: Rank,
}

/// A strategy for the contraction of the job at its resize point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Harvest {
    /// Jobs give in the order of the effect on them, the least first, until it is enough.
    LeastImpact,
    /// Jobs of low rank give before those of high rank, each in the order of the effect; none gives to a job of
    /// lower or equal rank.
    LeastImpactByRank,
    /// Each job goes back to its size before, in the order of resize points, none twice before all have once.
    FairContract,
    /// Each job goes back to its size before, in the order of resize points; a job of a higher class only for a
    /// waiting one that outranks it.
    FcfsContractByRank,
}

impl Harvest {
    /// Decides whether `job` shrinks for `need`. `others` are the other running jobs.
    #[must_use]
    pub fn decide<'a>(
        self,
        job: &'a Candidate,
        others: impl Iterator<Item = &'a Candidate>,
        need: Need,
    ) -> Answer {
        if need.missing == 0 {
            return Answer::keep(format!("keeps {} nodes: {} lacks none", job.size, need.job));
        }
        let Some(previous) = job.previous() else {
            return Answer::keep(format!(
                "keeps {} nodes: it has no smaller size to go back to",
                job.size
            ));
        };
        let back = |cause: &str| {
            let (size, wanted) = (job.size, need.missing);
            let reason = format!(
                "shrinks from {size} to {previous} nodes: {} lacks {wanted}, {cause}",
                need.job
            );
            Answer::to(previous, reason)
        };
        match self {
            Harvest::LeastImpact | Harvest::LeastImpactByRank => self.walk(job, others, need),
            Harvest::FairContract => {
                // A job at its smallest size is not due any longer.
                let due = |one: &&Candidate| one.contract && one.previous().is_some();
                let others_due = others.filter(due).count();
                match job.contract || others_due == 0 {
                    true => back("and it is this job's turn"),
                    false => Answer::keep(format!(
                        "keeps {} nodes: {others_due} jobs give first for {}",
                        job.size, need.job
                    )),
                }
            }
            Harvest::FcfsContractByRank => match job.rank.class > 0
                && !need.rank.is_above(&job.rank)
            {
                true => Answer::keep(format!("keeps {} nodes: it outranks {}", job.size, need.job)),
                false => back("and it is at its resize point"),
            },
        }
    }

    fn walk<'a>(
        self,
        job: &'a Candidate,
        others: impl Iterator<Item = &'a Candidate>,
        need: Need,
    ) -> Answer {
        let outranks =
            |one: &Candidate| self == Harvest::LeastImpactByRank && !need.rank.is_above(&one.rank);
        if outranks(job) {
            return Answer::keep(format!("keeps {} nodes: it outranks {}", job.size, need.job));
        }
        let mut list: Vec<&Candidate> = others.filter(|other| !outranks(other)).collect();
        list.push(job);
        let (size, missing) = (job.size, need.missing);
        let taken = least_impact_walk(&list, missing, self == Harvest::LeastImpactByRank);
        match taken.iter().find(|(giver, _)| *giver == job.job) {
            Some((_, to)) => Answer::to(
                *to,
                format!(
                    "shrinks from {size} to {to} nodes: {} lacks {missing}, the effect is a factor of {:.2}",
                    need.job,
                    job.impact()
                ),
            ),
            None => Answer::keep(format!(
                "keeps {size} nodes: others with less effect give the {missing} nodes that {} lacks",
                need.job
            )),
        }
    }
}

/// Walks through jobs in the order of the effect on them until `missing` nodes are found, and returns each job with the
/// size it goes to: the largest that gives what is still missing, or its smallest. Jobs of a lower class come first
/// with `by_class`. The nodes may be fewer than `missing` if all together have no more.
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
