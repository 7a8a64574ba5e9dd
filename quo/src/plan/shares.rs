//! Disjoint shares of a CPU set in given proportions.

use super::PlanError;
use crate::CpuSet;

/// Cuts a set of CPUs into disjoint parts whose weights are as near to given proportions as whole
/// units allow. Together the parts cover the set. Local and pure.
///
/// `units` are as for [`split`](super::split). `weight` returns how much a unit counts, such as the
/// speed of a core; units of equal weight are of one kind. Each kind is dealt out separately, so
/// that with equal proportions no part has only slow cores while another has only fast ones. The
/// units of a kind that a part gets are neighbours. If the proportions leave a choice, earlier
/// parts get more.
///
/// # Errors
///
/// [`PlanError::NoParts`] without proportions, [`PlanError::NothingToSplit`] if the set is empty,
/// [`PlanError::NoShare`] if a proportion is 0, [`PlanError::TooFewUnits`] if there are fewer units
/// than parts: no part may be empty.
///
/// ```
/// use quo::CpuSet;
/// // Two fast cores and four slow ones of half the speed.
/// let cores: Vec<CpuSet> = (0..6).map(CpuSet::single).collect();
/// let weight = |core: &CpuSet| if core.first() < Some(2) { 2 } else { 1 };
/// let parts = quo::plan::shares(&CpuSet::from_range(0..6), &cores, weight, &[3, 1])?;
/// assert_eq!(parts[0].to_string(), "0-3");
/// assert_eq!(parts[1].to_string(), "4-5");
/// # Ok::<(), quo::plan::PlanError>(())
/// ```
pub fn shares(
    set: &CpuSet,
    units: &[CpuSet],
    weight: impl Fn(&CpuSet) -> u64,
    proportions: &[u32],
) -> Result<Vec<CpuSet>, PlanError> {
    let parts = proportions.len();
    if parts == 0 {
        return Err(PlanError::NoParts { set: set.clone() });
    }
    if set.is_empty() {
        return Err(PlanError::NothingToSplit { parts });
    }
    if let Some(part) = proportions.iter().position(|&share| share == 0) {
        return Err(PlanError::NoShare { part });
    }
    let units = units_of(set, units);
    if units.len() < parts {
        return Err(PlanError::TooFewUnits { set: set.clone(), units: units.len(), parts });
    }
    Ok(share_out(units, weight, proportions))
}

/// Deals out units, of which there are at least as many as parts.
pub(super) fn share_out(
    units: Vec<CpuSet>,
    weight: impl Fn(&CpuSet) -> u64,
    proportions: &[u32],
) -> Vec<CpuSet> {
    let mut weighted: Vec<(u64, CpuSet)> =
        units.into_iter().map(|unit| (weight(&unit), unit)).collect();
    // Stable: the units of a kind stay in the order of nearness.
    weighted.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    let mut parts = vec![CpuSet::new(); proportions.len()];
    let mut loads = vec![0; proportions.len()];
    let mut left = weighted.len();
    for kind in weighted.chunk_by(|one, other| one.0 == other.0) {
        let mut counts = vec![0_usize; proportions.len()];
        for (weight, _) in kind {
            let next = neediest(&loads, proportions, *weight, left);
            loads[next] += (*weight).max(1);
            counts[next] += 1;
            left -= 1;
        }
        let mut units = kind.iter();
        for (part, count) in parts.iter_mut().zip(counts) {
            for (_, unit) in units.by_ref().take(count) {
                *part = part.union(unit);
            }
        }
    }
    parts
}

/// Returns the part that a unit brings nearest to its proportion (D'Hondt's rule), the first of
/// equals. Once there are no more units left than empty parts, it is an empty one.
fn neediest(loads: &[u64], proportions: &[u32], weight: u64, left: usize) -> usize {
    let empty = loads.iter().filter(|&&load| load == 0).count();
    let candidates = (0..loads.len()).filter(|&part| left > empty || loads[part] == 0);
    let after = |part: usize| u128::from(loads[part] + weight.max(1));
    let share = |part: usize| u128::from(proportions[part]);
    candidates
        .min_by(|&a, &b| (after(a) * share(b)).cmp(&(after(b) * share(a))).then(a.cmp(&b)))
        .unwrap_or(0)
}

/// Gives each part the requested number of whole units, neighbours in the order given; remaining
/// units belong to no part. Local and pure.
///
/// # Errors
///
/// As [`shares`], with [`PlanError::TooFewUnits`] if the parts request more units than there are.
///
/// ```
/// use quo::CpuSet;
/// let packages = [CpuSet::from_range(0..4), CpuSet::from_range(4..8)];
/// let parts = quo::plan::counted(&CpuSet::from_range(0..8), &packages, &[1, 1])?;
/// assert_eq!(parts[1].to_string(), "4-7");
/// # Ok::<(), quo::plan::PlanError>(())
/// ```
pub fn counted(set: &CpuSet, units: &[CpuSet], counts: &[u32]) -> Result<Vec<CpuSet>, PlanError> {
    if counts.is_empty() {
        return Err(PlanError::NoParts { set: set.clone() });
    }
    if set.is_empty() {
        return Err(PlanError::NothingToSplit { parts: counts.len() });
    }
    if let Some(part) = counts.iter().position(|&count| count == 0) {
        return Err(PlanError::NoShare { part });
    }
    let units = units_of(set, units);
    let wanted = counts.iter().fold(0_usize, |sum, &count| sum.saturating_add(count as usize));
    if units.len() < wanted {
        return Err(PlanError::TooFewUnits { set: set.clone(), units: units.len(), parts: wanted });
    }
    let mut units = units.iter();
    let part = |&count: &u32| {
        let own = units.by_ref().take(count as usize);
        own.fold(CpuSet::new(), |all, unit| all.union(unit))
    };
    Ok(counts.iter().map(part).collect())
}

/// Returns the set as disjoint, nonempty units.
pub(super) fn units_of(set: &CpuSet, units: &[CpuSet]) -> Vec<CpuSet> {
    let mut rest = set.clone();
    let mut all = Vec::with_capacity(units.len());
    for unit in units {
        let own = unit.intersection(&rest);
        if !own.is_empty() {
            rest = rest.difference(&own);
            all.push(own);
        }
    }
    all.extend(rest.iter().map(CpuSet::single));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cores(count: usize, pus: usize) -> Vec<CpuSet> {
        (0..count).map(|core| CpuSet::from_range(core * pus..(core + 1) * pus)).collect()
    }

    fn texts(parts: &[CpuSet]) -> Vec<String> {
        parts.iter().map(CpuSet::to_string).collect()
    }

    /// Six fast cores of two PUs and eight slow ones of one, as a laptop of 2021 has them.
    fn hybrid() -> (CpuSet, Vec<CpuSet>, fn(&CpuSet) -> u64) {
        let fast = cores(6, 2).into_iter();
        let cores: Vec<CpuSet> = fast.chain((12..20).map(CpuSet::single)).collect();
        (
            CpuSet::from_range(0..20),
            cores,
            |core| if core.first() < Some(12) { 4_700 } else { 3_500 },
        )
    }

    #[test]
    fn hybrid_workers_get_equal_shares_of_each_kind() {
        let (set, cores, weight) = hybrid();
        let parts = |proportions| texts(&shares(&set, &cores, weight, proportions).unwrap());
        assert_eq!(parts(&[1, 1]), ["0-5,12-15", "6-11,16-19"]);
        // A worker with one fast core fewer has one slow core more.
        assert_eq!(parts(&[1; 4]), ["0-3,12", "4-7,13", "8-9,14-16", "10-11,17-19"]);
    }

    #[test]
    fn proportions_that_fit_are_kept_exactly() {
        let set = CpuSet::from_range(0..16);
        let parts = |proportions: &[u32]| {
            let parts = shares(&set, &cores(16, 1), |_| 1, proportions).unwrap();
            parts.iter().map(CpuSet::len).collect::<Vec<_>>()
        };
        assert_eq!(parts(&[3, 1]), [12, 4]);
        assert_eq!(parts(&[1, 3]), [4, 12]);
        assert_eq!(parts(&[5, 2, 1]), [10, 4, 2]);
        assert_eq!(parts(&[1_000, 1]), [15, 1]);
        assert_eq!(parts(&[1; 5]), [4, 3, 3, 3, 3]);
    }

    #[test]
    fn impossible_shares_are_refused_with_their_figures() {
        let set = CpuSet::from_range(0..2);
        let error = |proportions: &[u32]| {
            shares(&set, &cores(2, 1), |_| 1, proportions).unwrap_err().to_string()
        };
        assert!(error(&[1, 1, 1]).contains("3 parts"), "{}", error(&[1, 1, 1]));
        assert!(error(&[1, 0]).contains("part 1"), "{}", error(&[1, 0]));
        let error = counted(&set, &cores(2, 1), &[2, 1]).unwrap_err().to_string();
        assert!(error.contains("2 whole objects"), "{error}");
    }

    #[test]
    fn counted_units_are_neighbours_and_the_rest_is_nobody_s() {
        let parts = counted(&CpuSet::from_range(0..12), &cores(6, 2), &[2, 3]).unwrap();
        assert_eq!(texts(&parts), ["0-3", "4-9"]);
    }

    proptest! {
        /// Holds for any units, weights and proportions.
        #[test]
        fn shares_are_disjoint_complete_aligned_and_never_empty(
            kinds in proptest::collection::vec((1_usize..4, 1_u64..5), 1..24),
            proportions in proptest::collection::vec(1_u32..9, 1..8),
            holes in proptest::collection::btree_set(0_usize..96, 0..12),
        ) {
            let mut units = Vec::new();
            let mut weights = Vec::new();
            let mut next = 0;
            for (cpus, weight) in kinds {
                units.push(CpuSet::from_range(next..next + cpus));
                weights.push(weight);
                next += cpus;
            }
            let set = CpuSet::from_range(0..next).difference(&holes.into_iter().collect());
            let weight = |cpus: &CpuSet| {
                units.iter().position(|unit| unit.intersects(cpus)).map_or(1, |unit| weights[unit])
            };
            let usable = units.iter().filter(|unit| unit.intersects(&set)).count();
            match shares(&set, &units, weight, &proportions) {
                Err(_) => prop_assert!(usable < proportions.len()),
                Ok(parts) => {
                    let all = parts.iter().fold(CpuSet::new(), |all, part| {
                        assert!(!all.intersects(part));
                        all.union(part)
                    });
                    prop_assert_eq!(&all, &set);
                    prop_assert!(parts.iter().all(|part| !part.is_empty()));
                    for unit in &units {
                        let unit = unit.intersection(&set);
                        prop_assert!(parts.iter().filter(|part| part.intersects(&unit)).count() <= 1);
                    }
                    prop_assert_eq!(shares(&set, &units, weight, &proportions).unwrap(), parts);
                }
            }
        }

        /// With equal proportions no two parts differ by more than the heaviest unit.
        #[test]
        fn equal_shares_differ_by_one_unit_at_most(
            weights in proptest::collection::vec(1_u64..9, 1..24),
            parts in 1_usize..9,
        ) {
            prop_assume!(weights.len() >= parts);
            let units = cores(weights.len(), 1);
            let weight = |cpus: &CpuSet| cpus.iter().map(|cpu| weights[cpu]).sum::<u64>();
            let set = CpuSet::from_range(0..weights.len());
            let shares = shares(&set, &units, weight, &vec![1; parts]).unwrap();
            let loads: Vec<u64> = shares.iter().map(weight).collect();
            let spread = loads.iter().max().unwrap() - loads.iter().min().unwrap();
            prop_assert!(spread <= *weights.iter().max().unwrap(), "{loads:?}");
        }
    }
}
