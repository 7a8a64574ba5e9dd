//! Scenarios: combinations of strategies and the jobs that they favour.

use serde::{Deserialize, Serialize};

use crate::allocation::{Expand, Reclaim};

/// The jobs that a scenario favours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preference {
    /// Waiting jobs start first; running jobs expand into nodes that no waiting job can use.
    Queued,
    /// Running jobs expand first, and never shrink for waiting ones.
    Running,
}

/// A combination of strategies for jobs with resize points.
///
/// ```
/// use elastic_policy::resizing::Scenario;
/// assert_eq!(Scenario::named("pba-q"), Some(Scenario::PBA_Q));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Scenario {
    /// The name by which users choose it.
    pub name: &'static str,
    /// The strategy for expansions.
    pub expand: Expand,
    /// The strategy for contractions, if waiting jobs are favoured.
    pub reclaim: Option<Reclaim>,
    /// The jobs that it favours.
    pub favours: Preference,
    /// True if the queue is ordered by user class and age; false if it is in the order of arrival.
    pub by_rank: bool,
}

const fn favouring_queued(name: &'static str, expand: Expand, reclaim: Reclaim) -> Scenario {
    Scenario { name, expand, reclaim: Some(reclaim), favours: Preference::Queued, by_rank: false }
}

const fn favouring_running(name: &'static str, expand: Expand) -> Scenario {
    Scenario { name, expand, reclaim: None, favours: Preference::Running, by_rank: false }
}

impl Scenario {
    /// Performance-based allocation: max-benefit and least-impact.
    pub const PBA_Q: Scenario = favouring_queued("pba-q", Expand::MaxBenefit, Reclaim::LeastImpact);
    /// Fair share: max-benefit and fair-contract.
    pub const FAIR_Q: Scenario =
        favouring_queued("fair-q", Expand::MaxBenefit, Reclaim::FairContract);
    /// First come, first served with least impact.
    pub const FCFS_LI_Q: Scenario =
        favouring_queued("fcfs-li-q", Expand::Fcfs, Reclaim::LeastImpact);
    /// Greedy resizing: FCFS-expand; running jobs are favoured.
    pub const GREEDY_R: Scenario = favouring_running("greedy-r", Expand::Fcfs);
    /// Fair-share resizing: uniform-expand; running jobs are favoured.
    pub const FAIR_R: Scenario = favouring_running("fair-r", Expand::Uniform);
    /// Performance-based allocation with priorities.
    pub const PBA: Scenario = Scenario {
        by_rank: true,
        ..favouring_queued("pba", Expand::MaxBenefitByRank, Reclaim::LeastImpactByRank)
    };
    /// FCFS contraction and max-benefit with priorities.
    pub const FCFS: Scenario = Scenario {
        by_rank: true,
        ..favouring_queued("fcfs-pr", Expand::MaxBenefitByRank, Reclaim::FcfsContractByRank)
    };
    /// Max-benefit with priorities; running jobs are favoured.
    pub const MAX_B: Scenario =
        Scenario { by_rank: true, ..favouring_running("max-b", Expand::MaxBenefitByRank) };

    /// All scenarios.
    pub const ALL: [Scenario; 8] = [
        Scenario::PBA_Q,
        Scenario::FAIR_Q,
        Scenario::FCFS_LI_Q,
        Scenario::GREEDY_R,
        Scenario::FAIR_R,
        Scenario::PBA,
        Scenario::FCFS,
        Scenario::MAX_B,
    ];

    /// Returns the scenario with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Scenario> {
        Scenario::ALL.into_iter().find(|scenario| scenario.name == name)
    }
}
