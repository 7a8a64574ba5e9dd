//! Disjoint shares of a CPU set.

use super::PlanError;
use super::shares::{share_out, units_of};
use crate::CpuSet;

/// Cuts a set of CPUs into disjoint parts that together cover the set. Local and pure.
///
/// `units` are sets that should stay whole, such as the cpusets of the cores, in the order of
/// nearness (hwloc's logical order); CPUs of the set that are in no unit follow as separate units.
/// While there are at least as many units as parts, every part is a run of neighbouring whole units
/// and sizes differ by at most one unit, larger parts first. With more parts than units no part
/// spans two units: the larger units are cut into more parts. No part is empty while there are at
/// least as many CPUs as parts; beyond that the last parts are empty.
///
/// # Errors
///
/// [`PlanError::NoParts`] if `parts` is 0, [`PlanError::NothingToSplit`] if the set is empty.
///
/// ```
/// use quo::CpuSet;
/// let cores: Vec<CpuSet> = (0..4).map(|core| CpuSet::from_range(2 * core..2 * core + 2)).collect();
/// let shares = quo::plan::split(&CpuSet::from_range(0..8), &cores, 3)?;
/// assert_eq!(shares[0].to_string(), "0-3");
/// assert_eq!(shares[1].to_string(), "4-5");
/// assert_eq!(shares[2].to_string(), "6-7");
/// # Ok::<(), quo::plan::PlanError>(())
/// ```
pub fn split(set: &CpuSet, units: &[CpuSet], parts: usize) -> Result<Vec<CpuSet>, PlanError> {
    split_by_weight(set, units, |_| 1, parts)
}

/// Like [`split`], for units with different weights, such as the cores of a hybrid processor: while
/// there are at least as many units as parts, the parts are equal [`shares`](super::shares).
///
/// # Errors
///
/// As [`split`].
pub fn split_by_weight(
    set: &CpuSet,
    units: &[CpuSet],
    weight: impl Fn(&CpuSet) -> u64,
    parts: usize,
) -> Result<Vec<CpuSet>, PlanError> {
    if parts == 0 {
        return Err(PlanError::NoParts { set: set.clone() });
    }
    if set.is_empty() {
        return Err(PlanError::NothingToSplit { parts });
    }
    let units = units_of(set, units);
    if parts <= units.len() {
        return Ok(share_out(units, weight, &vec![1; parts]));
    }
    let mut shares = Vec::with_capacity(parts);
    for (unit, pieces) in units.iter().zip(pieces_per_unit(&units, parts)) {
        let cpus: Vec<usize> = unit.iter().collect();
        shares.extend(runs(cpus.len(), pieces).map(|run| cpus[run].iter().copied().collect()));
    }
    shares.resize(parts, CpuSet::new());
    Ok(shares)
}

/// Returns the number of parts that each unit is cut into: one each, and each further part goes
/// where a part would otherwise contain the most CPUs. Never more parts than CPUs.
fn pieces_per_unit(units: &[CpuSet], parts: usize) -> Vec<usize> {
    let cpus: Vec<usize> = units.iter().map(CpuSet::len).collect();
    let mut pieces = vec![1; units.len()];
    for _ in units.len()..parts {
        let divisible = (0..units.len()).filter(|&unit| pieces[unit] < cpus[unit]);
        // Compares cpus / pieces as fractions; the reversed index makes the first unit win a tie.
        let widest = divisible
            .max_by(|&a, &b| (cpus[a] * pieces[b]).cmp(&(cpus[b] * pieces[a])).then(b.cmp(&a)));
        match widest {
            Some(unit) => pieces[unit] += 1,
            None => break,
        }
    }
    pieces
}

/// Returns `0..items` as `parts` consecutive ranges whose lengths differ by at most one, longer
/// ones first.
pub(super) fn runs(
    items: usize,
    parts: usize,
) -> impl ExactSizeIterator<Item = std::ops::Range<usize>> {
    let short = items.checked_div(parts).unwrap_or(0);
    let longer = items.checked_rem(parts).unwrap_or(0);
    (0..parts).map(move |part| {
        let start = part * short + part.min(longer);
        start..start + short + usize::from(part < longer)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    fn texts(set: &str, units: &[&str], parts: usize) -> Vec<String> {
        let units: Vec<CpuSet> = units.iter().map(|unit| list(unit)).collect();
        split(&list(set), &units, parts).unwrap().iter().map(CpuSet::to_string).collect()
    }

    #[test]
    fn cores_stay_whole_while_there_are_enough_of_them() {
        // The second hardware thread of core i is CPU i + 4, a common numbering.
        let cores = ["0,4", "1,5", "2,6", "3,7"];
        assert_eq!(texts("0-7", &cores, 1), ["0-7"]);
        assert_eq!(texts("0-7", &cores, 2), ["0-1,4-5", "2-3,6-7"]);
        assert_eq!(texts("0-7", &cores, 3), ["0-1,4-5", "2,6", "3,7"]);
        assert_eq!(texts("0-7", &cores, 4), ["0,4", "1,5", "2,6", "3,7"]);
    }

    #[test]
    fn more_parts_than_cores_cut_cores_and_never_share_one() {
        assert_eq!(texts("0-7", &["0,4", "1,5", "2,6", "3,7"], 5), ["0", "4", "1,5", "2,6", "3,7"]);
        assert_eq!(texts("0-7", &["0-3", "4-7"], 3), ["0-1", "2-3", "4-7"]);
        assert_eq!(texts("0-5", &["0-3", "4-5"], 4), ["0-1", "2", "3", "4-5"]);
    }

    #[test]
    fn parts_beyond_the_cpus_are_empty() {
        assert_eq!(texts("0-1", &["0-1"], 4), ["0", "1", "", ""]);
    }

    #[test]
    fn units_outside_the_set_are_ignored_and_loose_cpus_count() {
        assert_eq!(texts("0-1,9", &["0-1", "2-3", ""], 2), ["0-1", "9"]);
    }

    #[test]
    fn no_parts_and_no_cpus_are_refused() {
        assert_eq!(split(&list("0-3"), &[], 0), Err(PlanError::NoParts { set: list("0-3") }));
        assert_eq!(split(&CpuSet::new(), &[], 2), Err(PlanError::NothingToSplit { parts: 2 }));
    }

    fn cpus() -> impl Strategy<Value = CpuSet> {
        proptest::collection::btree_set(0_usize..40, 1..24)
            .prop_map(|set| set.into_iter().collect())
    }

    proptest! {
        #[test]
        fn shares_partition_whole_units_nearly_equally(
            set in cpus(),
            units in proptest::collection::vec(cpus(), 0..10),
            parts in 1_usize..40,
        ) {
            let shares = split(&set, &units, parts).unwrap();
            prop_assert_eq!(shares.len(), parts);
            let mut seen = CpuSet::new();
            for share in &shares {
                prop_assert!(!share.intersects(&seen));
                seen = seen.union(share);
            }
            prop_assert_eq!(&seen, &set);
            prop_assert_eq!(
                shares.iter().filter(|share| share.is_empty()).count(),
                parts.saturating_sub(set.len())
            );
            let own = units_of(&set, &units);
            let touched = |share: &CpuSet| own.iter().filter(|unit| unit.intersects(share)).count();
            if parts <= own.len() {
                for unit in &own {
                    let holders = shares.iter().filter(|share| unit.intersects(share)).count();
                    prop_assert_eq!(holders, 1);
                }
                let sizes: Vec<usize> = shares.iter().map(touched).collect();
                prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
            } else {
                prop_assert!(shares.iter().all(|share| touched(share) <= 1));
            }
        }
    }
}
