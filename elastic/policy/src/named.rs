//! The schedulers that users choose by name.

use crate::malleable::Sharing;
use crate::policy::Policy;
use crate::predict::Prediction;
use crate::resizing::{ElasticBackfill, Reshape, Scenario, TwoParts};
use crate::rigid::{Conservative, Easy, Fcfs};

/// The names of all schedulers, each with its description.
pub const ALL: [(&str, &str); 15] = [
    ("fcfs", "first come, first served"),
    ("easy", "EASY backfilling"),
    ("easy-short", "EASY backfilling by jobs that end before the reservation only"),
    ("conservative", "conservative backfilling"),
    ("pba-q", "resizable jobs: max-benefit and least-impact, waiting jobs first"),
    ("fair-q", "resizable jobs: max-benefit and fair-contract, waiting jobs first"),
    ("fcfs-li-q", "resizable jobs: FCFS-expand and least-impact, waiting jobs first"),
    ("greedy-r", "resizable jobs: FCFS-expand, running jobs first"),
    ("fair-r", "resizable jobs: uniform-expand, running jobs first"),
    ("pba", "as pba-q, with user classes and ageing"),
    ("fcfs-pr", "max-benefit and FCFS contraction, with user classes and ageing"),
    ("max-b", "max-benefit, running jobs first, with user classes and ageing"),
    ("elastic-backfill", "malleable jobs by their ratio of MPI time to computing time"),
    ("two-parts-egs", "malleable jobs fill idle nodes, all alike, and give back what others lack"),
    ("two-parts-fpsma", "malleable jobs fill idle nodes, the first one first"),
];

/// Makes the scheduler with this name, with its usual settings.
#[must_use]
pub fn policy(name: &str) -> Option<Box<dyn Policy>> {
    policy_predicting(name, Prediction::default())
}

/// Makes the scheduler with this name. Schedulers of resizable jobs predict benefits with
/// `prediction`.
#[must_use]
pub fn policy_predicting(name: &str, prediction: Prediction) -> Option<Box<dyn Policy>> {
    Some(match name {
        "fcfs" => Box::new(Fcfs),
        "easy" => Box::new(Easy::default()),
        "easy-short" => Box::new(Easy { only_short: true }),
        "conservative" => Box::new(Conservative::default()),
        "elastic-backfill" => Box::new(ElasticBackfill::default()),
        "two-parts-egs" => Box::new(TwoParts::default()),
        "two-parts-fpsma" => Box::new(TwoParts { sharing: Sharing::Fpsma, ..TwoParts::default() }),
        _ => Box::new(Reshape::new(Scenario::named(name)?).prediction(prediction)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_gives_the_scheduler_of_that_name() {
        for (name, _) in ALL {
            assert_eq!(policy(name).map(|policy| policy.name().to_owned()).as_deref(), Some(name));
        }
        assert!(policy("easi").is_none());
    }
}
