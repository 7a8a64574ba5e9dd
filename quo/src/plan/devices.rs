//! Assignment of devices to ranks.

use crate::CpuSet;

/// Assigns each rank a device. The numbers of ranks per device differ by at most one, and within
/// that rule ranks get near devices. Ranks near few devices choose first, lower ones before higher
/// ones; far devices are used if no near one is left. Returns the indices of the devices by node
/// rank; all `None` without devices. Local and pure.
///
/// ```
/// use quo::CpuSet;
/// let near = [CpuSet::from_range(0..4), CpuSet::from_range(4..8)];
/// let masks: Vec<CpuSet> = [5, 0, 6, 1].map(CpuSet::single).to_vec();
/// let device_of = quo::plan::assign_devices(&masks, &near);
/// assert_eq!(device_of, [Some(1), Some(0), Some(1), Some(0)]);
/// ```
#[must_use]
pub fn assign_devices(masks: &[CpuSet], near: &[CpuSet]) -> Vec<Option<usize>> {
    if near.is_empty() {
        return vec![None; masks.len()];
    }
    let each = masks.len() / near.len();
    let mut with_one_more = masks.len() % near.len();
    let mut loads = vec![0_usize; near.len()];
    let mut device_of = vec![None; masks.len()];
    let mut order: Vec<usize> = (0..masks.len()).collect();
    let choices = |rank: usize| near.iter().filter(|cpus| cpus.intersects(&masks[rank])).count();
    order.sort_by_key(|&rank| match choices(rank) {
        // No device is near: takes one that the others leave.
        0 => usize::MAX,
        some => some,
    });
    for rank in order {
        let is_open =
            |device: &usize| loads[*device] < each || loads[*device] == each && with_one_more > 0;
        let distance = |device: usize| usize::from(!near[device].intersects(&masks[rank]));
        let chosen = (0..near.len())
            .filter(is_open)
            .min_by_key(|&device| (distance(device), loads[device], device));
        if let Some(device) = chosen {
            if loads[device] == each {
                with_one_more -= 1;
            }
            loads[device] += 1;
        }
        device_of[rank] = chosen;
    }
    device_of
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packages() -> [CpuSet; 2] {
        [CpuSet::from_range(0..4), CpuSet::from_range(4..8)]
    }

    #[test]
    fn unbound_ranks_leave_near_devices_to_bound_ones() {
        let all = CpuSet::from_range(0..8);
        let masks = [all.clone(), all, CpuSet::single(0), CpuSet::single(1)];
        let device_of = assign_devices(&masks, &packages());
        assert_eq!(device_of, [Some(1), Some(1), Some(0), Some(0)]);
    }

    #[test]
    fn ranks_without_a_near_device_take_what_is_left() {
        let masks = [9, 0, 4].map(CpuSet::single);
        let device_of = assign_devices(&masks, &packages());
        assert_eq!(device_of, [Some(0), Some(0), Some(1)]);
        assert_eq!(assign_devices(&masks, &[]), [None; 3]);
    }

    proptest! {
        #[test]
        fn loads_differ_by_one_and_each_rank_has_devices(
            cpus in proptest::collection::vec(0_usize..16, 0..40),
            starts in proptest::collection::vec(0_usize..12, 1..9),
        ) {
            let masks: Vec<CpuSet> = cpus.iter().map(|&cpu| CpuSet::single(cpu)).collect();
            let near: Vec<CpuSet> =
                starts.iter().map(|&start| CpuSet::from_range(start..start + 4)).collect();
            let device_of = assign_devices(&masks, &near);
            let mut loads = vec![0; near.len()];
            for device in &device_of {
                loads[device.unwrap()] += 1;
            }
            prop_assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1);
            prop_assert_eq!(assign_devices(&masks, &near), device_of);
        }
    }
}
