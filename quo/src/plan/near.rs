//! Parts of the hardware near devices.

use super::PlanError;
use super::shares::units_of;
use crate::CpuSet;

/// Deals out the units of a CPU set near some devices: each unit goes to one device that it is
/// near, and the numbers of units are as even as nearness allows. Returns one part per device;
/// units near no device belong to no part. Local and pure.
///
/// `near` has the CPUs near each device; a unit with at least one of them counts as near. `units`
/// are as for [`split`](super::split). Units that are alike, that is near the same devices and of
/// the same `weight` (such as the speed of a core), go to each device as neighbours, and heavy ones
/// are dealt out first, so that no device has only slow cores while another has only fast ones. Of
/// devices with the same claim, earlier ones get more.
///
/// # Errors
///
/// [`PlanError::NoParts`] without devices, [`PlanError::NothingToSplit`] if the set is empty,
/// [`PlanError::NothingNear`] if a device would get nothing.
///
/// ```
/// use quo::CpuSet;
/// let cores: Vec<CpuSet> = (0..8).map(CpuSet::single).collect();
/// // Two devices at the first package of four cores, one at the second.
/// let near = [0..4, 0..4, 4..8].map(CpuSet::from_range);
/// let parts = quo::plan::near(&CpuSet::from_range(0..8), &cores, |_| 1, &near)?;
/// let parts: Vec<String> = parts.iter().map(CpuSet::to_string).collect();
/// assert_eq!(parts, ["0-1", "2-3", "4-7"]);
/// # Ok::<(), quo::plan::PlanError>(())
/// ```
pub fn near(
    set: &CpuSet,
    units: &[CpuSet],
    weight: impl Fn(&CpuSet) -> u64,
    near: &[CpuSet],
) -> Result<Vec<CpuSet>, PlanError> {
    if near.is_empty() {
        return Err(PlanError::NoParts { set: set.clone() });
    }
    if set.is_empty() {
        return Err(PlanError::NothingToSplit { parts: near.len() });
    }
    let mut units: Vec<Unit> = units_of(set, units)
        .into_iter()
        .map(|cpus| Unit {
            weight: weight(&cpus),
            devices: (0..near.len()).filter(|&device| near[device].intersects(&cpus)).collect(),
            cpus,
        })
        .filter(|unit| !unit.devices.is_empty())
        .collect();
    // Stable: like units stay in the order of nearness.
    units.sort_by(|one, other| (other.weight, &one.devices).cmp(&(one.weight, &other.devices)));
    let device_of = evenly(&units, near.len());
    let mut parts = vec![CpuSet::new(); near.len()];
    let mut start = 0;
    for alike in units.chunk_by(|one, other| one.is_like(other)) {
        // The number of units per device is decided; neighbours go together.
        let mut own = device_of[start..start + alike.len()].to_vec();
        own.sort_unstable();
        for (unit, device) in alike.iter().zip(own) {
            parts[device] = parts[device].union(&unit.cpus);
        }
        start += alike.len();
    }
    match parts.iter().position(CpuSet::is_empty) {
        Some(device) => {
            let cpus = near[device].clone();
            Err(PlanError::NothingNear { device, cpus, devices: near.len() })
        }
        None => Ok(parts),
    }
}

/// Object that is not cut, with the devices that it is near.
#[derive(Debug)]
struct Unit {
    weight: u64,
    devices: Vec<usize>,
    cpus: CpuSet,
}

impl Unit {
    fn is_like(&self, other: &Self) -> bool {
        self.weight == other.weight && self.devices == other.devices
    }
}

/// Returns the device of each unit, such that no other choice makes the numbers more even: each
/// unit in turn goes to the reachable device with the fewest units, possibly by moving earlier
/// units to other devices near them.
fn evenly(units: &[Unit], devices: usize) -> Vec<usize> {
    let mut device_of: Vec<usize> = Vec::with_capacity(units.len());
    let mut loads = vec![0_usize; devices];
    for unit in units {
        // The unit that moves to a device, and the device that it leaves; none for the new unit.
        let mut ways: Vec<Option<Option<(usize, usize)>>> = vec![None; devices];
        let mut reached = unit.devices.clone();
        unit.devices.iter().for_each(|&device| ways[device] = Some(None));
        let mut next = 0;
        while let Some(&device) = reached.get(next) {
            for (mover, _) in device_of.iter().enumerate().filter(|(_, of)| **of == device) {
                for &other in &units[mover].devices {
                    if ways[other].is_none() {
                        ways[other] = Some(Some((mover, device)));
                        reached.push(other);
                    }
                }
            }
            next += 1;
        }
        // The nearest of those with the fewest units: the list is in the order of moves.
        let Some(&target) = reached.iter().min_by_key(|&&device| loads[device]) else { continue };
        loads[target] += 1;
        let mut to = target;
        while let Some(Some((mover, from))) = ways[to] {
            device_of[mover] = to;
            to = from;
        }
        device_of.push(to);
    }
    device_of
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cores(count: usize, pus: usize) -> Vec<CpuSet> {
        (0..count).map(|core| CpuSet::from_range(core * pus..(core + 1) * pus)).collect()
    }

    fn set(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    fn texts(all: &str, units: &[CpuSet], devices: &[&str]) -> Vec<String> {
        let devices: Vec<CpuSet> = devices.iter().map(|cpus| set(cpus)).collect();
        let parts = near(&set(all), units, |_| 1, &devices).unwrap();
        parts.iter().map(CpuSet::to_string).collect()
    }

    #[test]
    fn device_with_cores_of_its_own_gets_them_whole() {
        assert_eq!(texts("0-15", &cores(8, 2), &["0-7", "8-15"]), ["0-7", "8-15"]);
        // Near one thread of a core is near the core.
        assert_eq!(texts("0-15", &cores(8, 2), &["0-4", "10"]), ["0-5", "10-11"]);
    }

    #[test]
    fn cores_near_no_device_belong_to_nobody() {
        assert_eq!(texts("0-7", &cores(8, 1), &["4-7"]), ["4-7"]);
        assert_eq!(texts("0-2,5", &cores(8, 1), &["4-7"]), ["5"]);
    }

    #[test]
    fn device_near_everything_leaves_narrow_ones_their_share() {
        assert_eq!(texts("0-8", &cores(9, 1), &["0-8", "0-2", "3-5"]), ["6-8", "0-2", "3-5"]);
        assert_eq!(texts("0-1", &cores(2, 1), &["0-1", "0"]), ["1", "0"]);
    }

    #[test]
    fn fast_and_slow_cores_are_dealt_out_alike() {
        let weight = |core: &CpuSet| if core.first() < Some(2) { 2 } else { 1 };
        let devices = [set("0-5"), set("0-5")];
        let parts = near(&set("0-5"), &cores(6, 1), weight, &devices).unwrap();
        assert_eq!(parts, [set("0,2-3"), set("1,4-5")]);
    }

    #[test]
    fn device_without_a_core_is_refused_by_name() {
        let error = |devices: &[CpuSet]| {
            near(&set("0-3"), &cores(4, 1), |_| 1, devices).unwrap_err().to_string()
        };
        let far = error(&[set("0-3"), set("4-7")]);
        assert!(far.contains("device 1") && far.contains("4-7"), "{far}");
        let crowd = error(&[set("0"), set("0")]);
        assert!(crowd.contains("device 1, one of 2"), "{crowd}");
        assert!(error(&[]).contains("0 parts"));
        let nothing = near(&CpuSet::new(), &[], |_| 1, &[set("0")]).unwrap_err();
        assert_eq!(nothing, PlanError::NothingToSplit { parts: 1 });
    }

    /// Returns the most even sorted numbers of units that any choice gives, by trying all of them.
    fn best(units: &[Vec<usize>], loads: &mut Vec<usize>) -> Vec<usize> {
        let Some((first, rest)) = units.split_first() else {
            let mut sorted = loads.clone();
            sorted.sort_unstable();
            return sorted;
        };
        let mut found = Vec::new();
        for &device in first {
            loads[device] += 1;
            found = best(rest, loads).max(found);
            loads[device] -= 1;
        }
        found
    }

    proptest! {
        /// Holds for any devices and any nearness.
        #[test]
        fn parts_are_disjoint_near_whole_and_as_even_as_possible(
            ranges in proptest::collection::vec((0_usize..14, 1_usize..9), 1..4),
            holes in proptest::collection::btree_set(0_usize..14, 0..6),
        ) {
            let units = cores(7, 2);
            let all = CpuSet::from_range(0..14).difference(&holes.into_iter().collect());
            let devices: Vec<CpuSet> = ranges
                .iter()
                .map(|&(start, length)| CpuSet::from_range(start..start + length))
                .collect();
            let usable: Vec<CpuSet> = units
                .iter()
                .map(|unit| unit.intersection(&all))
                .filter(|unit| devices.iter().any(|cpus| cpus.intersects(unit)))
                .collect();
            let choices: Vec<Vec<usize>> = usable
                .iter()
                .map(|unit| {
                    (0..devices.len()).filter(|&it| devices[it].intersects(unit)).collect()
                })
                .collect();
            let best = best(&choices, &mut vec![0; devices.len()]);
            match near(&all, &units, |_| 1, &devices) {
                Err(PlanError::NothingToSplit { .. }) => prop_assert!(all.is_empty()),
                Err(_) => prop_assert_eq!(best[0], 0),
                Ok(parts) => {
                    let together = parts.iter().fold(CpuSet::new(), |sum, part| {
                        assert!(!sum.intersects(part));
                        sum.union(part)
                    });
                    let wanted = usable.iter().fold(CpuSet::new(), |sum, unit| sum.union(unit));
                    prop_assert_eq!(together, wanted);
                    let mut counts = Vec::new();
                    for (part, cpus) in parts.iter().zip(&devices) {
                        let own: Vec<&CpuSet> =
                            usable.iter().filter(|unit| unit.intersects(part)).collect();
                        prop_assert!(own.iter().all(|unit| unit.is_subset(part)));
                        prop_assert!(own.iter().all(|unit| unit.intersects(cpus)));
                        counts.push(own.len());
                    }
                    counts.sort_unstable();
                    prop_assert_eq!(counts, best);
                }
            }
        }
    }
}
