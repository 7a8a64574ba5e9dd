//! Kinds of cores: fast and slow CPUs of a hybrid processor.

use serde::{Deserialize, Serialize};

use crate::CpuSet;

/// Maximum number of kinds of cores of a topology.
pub(super) const MAX_CORE_KINDS: usize = 64;

/// Speeds that differ by less than this fraction of the slower one count as one speed in plans:
/// server cores that boost slightly higher than their neighbours are no reason to break up a cache.
const ALIKE: u64 = 10;

/// CPUs of one kind of core.
///
/// ```
/// use quo::topology::{CoreKind, ObjectType, Topology};
/// let machine = Topology::from_synthetic("core:6 pu:1")?
///     .with_core_kinds([
///         CoreKind::new("0-1".parse().unwrap()).with_name("IntelCore").with_speed(4_700),
///         CoreKind::new("2-5".parse().unwrap()).with_name("IntelAtom").with_speed(3_500),
///     ])?;
/// assert_eq!(machine.core_kinds()[1].name, "IntelCore"); // the slowest kind comes first
/// assert_eq!(machine.fastest(machine.allowed()).to_string(), "0-1");
/// # Ok::<(), quo::topology::TopologyError>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreKind {
    /// Physical CPU numbers of the kind, including disallowed ones.
    pub cpuset: CpuSet,
    /// Speed of a core relative to the other kinds, 0 if unknown: the kernel's capacity of a CPU if
    /// all kinds have one, otherwise the highest frequency in MHz.
    pub speed: u32,
    /// Vendor's name for the kind, such as `IntelCore`; often empty.
    pub name: String,
}

impl CoreKind {
    /// Returns a kind of unknown speed.
    #[must_use]
    pub fn new(cpuset: CpuSet) -> Self {
        Self { cpuset, speed: 0, name: String::new() }
    }

    /// Returns the kind with a speed.
    #[must_use]
    pub fn with_speed(mut self, speed: u32) -> Self {
        self.speed = speed;
        self
    }

    /// Returns the kind with a name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }
}

/// A kind as described by the kernel and hwloc's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RawKind {
    pub cpuset: CpuSet,
    /// Larger for faster kinds, if known.
    pub efficiency: Option<u64>,
    pub name: String,
    pub capacity: Option<u32>,
    pub highest_mhz: Option<u32>,
    pub base_mhz: Option<u32>,
}

impl RawKind {
    /// Applies one of hwloc's name-value pairs.
    pub(super) fn describe(&mut self, name: &str, value: &str) {
        let number = || value.trim().parse().ok();
        match name {
            "CoreType" => value.trim().clone_into(&mut self.name),
            "LinuxCapacity" => self.capacity = number(),
            "FrequencyMaxMHz" => self.highest_mhz = number(),
            "FrequencyBaseMHz" => self.base_mhz = number(),
            _ => {}
        }
    }

    /// Returns the rank among Intel's types of cores.
    fn core_type(&self) -> u8 {
        u8::from(self.name == "IntelCore")
    }
}

/// Orders kinds from slow to fast and sets the speed of each. Pure.
pub(super) fn arrange(raw: Vec<RawKind>) -> Vec<CoreKind> {
    let known = |of: fn(&RawKind) -> Option<u32>| raw.iter().all(|kind| of(kind).is_some());
    let speed: fn(&RawKind) -> Option<u32> = if known(|kind| kind.capacity) {
        |kind| kind.capacity
    } else if known(|kind| kind.highest_mhz) {
        |kind| kind.highest_mhz
    } else if known(|kind| kind.base_mhz) {
        |kind| kind.base_mhz
    } else {
        |_| None
    };
    let ranked = raw.iter().all(|kind| kind.efficiency.is_some());
    let mut raw = raw;
    raw.sort_by_key(|kind| match kind.efficiency.filter(|_| ranked) {
        Some(efficiency) => (efficiency, 0, 0),
        None => (0, kind.core_type(), speed(kind).unwrap_or(0)),
    });
    raw.into_iter()
        .map(|kind| {
            let speed = speed(&kind).unwrap_or(0);
            CoreKind { cpuset: kind.cpuset, speed, name: kind.name }
        })
        .collect()
}

/// Checks kinds against the CPUs of a machine and completes them: every CPU belongs to one kind
/// afterwards. Pure.
///
/// # Errors
/// The reason why they contradict each other.
pub(super) fn complete(
    kinds: impl IntoIterator<Item = CoreKind>,
    machine: &CpuSet,
) -> Result<Vec<CoreKind>, String> {
    let mut rest = machine.clone();
    let mut all: Vec<CoreKind> = Vec::new();
    for mut kind in kinds {
        kind.cpuset = kind.cpuset.intersection(machine);
        if kind.cpuset.is_empty() {
            continue;
        }
        if !kind.cpuset.is_subset(&rest) {
            let twice = kind.cpuset.difference(&rest);
            return Err(format!("CPUs `{twice}` are of two kinds of cores"));
        }
        if all.len() == MAX_CORE_KINDS {
            return Err(format!("it has more than {MAX_CORE_KINDS} kinds of cores"));
        }
        rest = rest.difference(&kind.cpuset);
        all.push(kind);
    }
    if !rest.is_empty() {
        all.insert(0, CoreKind::new(rest));
    }
    Ok(all)
}

/// Returns the kinds of a machine of which only some CPUs are kept. Pure.
pub(super) fn restricted(kinds: &[CoreKind], kept: &CpuSet) -> Vec<CoreKind> {
    let kinds = kinds
        .iter()
        .map(|kind| CoreKind { cpuset: kind.cpuset.intersection(kept), ..kind.clone() });
    kinds.filter(|kind| !kind.cpuset.is_empty()).collect()
}

/// Weight of a core if speeds are unknown. Kinds differ from each other by ones, so that plans,
/// which treat units of equal weight as one kind, deal out each kind separately.
const UNKNOWN: u64 = 1 << 20;

/// Returns the weight of each kind in plans: its speed, or that of the slowest kind that is nearly
/// as fast; 1 for all if they are alike, and nearly the same for all if a speed is unknown. Pure.
pub(super) fn weights(kinds: &[CoreKind]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..kinds.len()).collect();
    order.sort_by_key(|&kind| kinds[kind].speed);
    let mut weights = vec![1; kinds.len()];
    let mut level = 0;
    for &kind in &order {
        let speed = u64::from(kinds[kind].speed);
        if speed == 0 && kinds.len() > 1 {
            return (UNKNOWN..).take(kinds.len()).collect();
        }
        if level == 0 || speed * ALIKE > level * (ALIKE + 1) {
            level = speed;
        }
        weights[kind] = level;
    }
    if weights.iter().all(|&weight| weight == level) { vec![1; kinds.len()] } else { weights }
}

#[cfg(test)]
mod tests {
    use super::super::Topology;
    use super::*;

    fn set(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    fn raw(cpus: &str, infos: &[(&str, &str)]) -> RawKind {
        let mut kind = RawKind { cpuset: set(cpus), ..RawKind::default() };
        infos.iter().for_each(|(name, value)| kind.describe(name, value));
        kind
    }

    fn shown(kinds: &[CoreKind]) -> Vec<(String, u32)> {
        kinds.iter().map(|kind| (kind.cpuset.to_string(), kind.speed)).collect()
    }

    #[test]
    fn kinds_without_efficiencies_are_ordered_by_type_and_frequency() {
        let atom = raw("4-7", &[("CoreType", "IntelAtom"), ("FrequencyMaxMHz", "5000")]);
        let core = raw("0-3", &[("CoreType", "IntelCore"), ("FrequencyMaxMHz", "4800")]);
        let kinds = arrange(vec![core, atom]);
        assert_eq!(shown(&kinds), [("4-7".to_owned(), 5000), ("0-3".to_owned(), 4800)]);
        let slow = raw("4-7", &[("FrequencyBaseMHz", "2000")]);
        let fast = raw("0-3", &[("FrequencyBaseMHz", "3000"), ("FrequencyMaxMHz", "4000")]);
        let kinds = arrange(vec![fast, slow]);
        assert_eq!(shown(&kinds), [("4-7".to_owned(), 2000), ("0-3".to_owned(), 3000)]);
    }

    #[test]
    fn capacities_of_the_kernel_go_before_frequencies() {
        let little = raw("0-3", &[("LinuxCapacity", "400"), ("FrequencyMaxMHz", "2000")]);
        let big = raw("4-5", &[("LinuxCapacity", "1024"), ("FrequencyMaxMHz", "2400")]);
        let kinds = arrange(vec![big, little]);
        assert_eq!(shown(&kinds), [("0-3".to_owned(), 400), ("4-5".to_owned(), 1024)]);
    }

    #[test]
    fn every_cpu_is_of_one_kind_afterwards() {
        let kinds = [CoreKind::new(set("2-3")).with_speed(2), CoreKind::new(set("90"))];
        let kinds = complete(kinds, &set("0-5")).unwrap();
        assert_eq!(shown(&kinds), [("0-1,4-5".to_owned(), 0), ("2-3".to_owned(), 2)]);
        let twice = [CoreKind::new(set("0-1")), CoreKind::new(set("1-2"))];
        let error = complete(twice, &set("0-5")).unwrap_err();
        assert!(error.contains("CPUs `1`"), "{error}");
    }

    #[test]
    fn nearly_equal_speeds_count_as_one() {
        let of = |speeds: &[u32]| {
            let kinds = speeds.iter().map(|&speed| CoreKind::new(set("0")).with_speed(speed));
            weights(&kinds.collect::<Vec<_>>())
        };
        assert_eq!(of(&[4_700]), [1]);
        assert_eq!(of(&[4_700, 5_000]), [1, 1]);
        assert_eq!(of(&[3_500, 4_700, 5_000]), [3_500, 4_700, 4_700]);
        assert_eq!(of(&[0]), [1]);
        assert_eq!(of(&[0, 4_700]), [UNKNOWN, UNKNOWN + 1]);
    }

    #[test]
    fn kinds_of_unknown_speed_are_dealt_out_one_by_one() {
        let types = [("0-3", "IntelCore"), ("4-7", "IntelAtom")];
        let kinds = arrange(types.map(|(cpus, name)| raw(cpus, &[("CoreType", name)])).into());
        let machine = Topology::from_synthetic("core:8 pu:1").unwrap();
        let machine = machine.with_core_kinds(kinds).unwrap();
        let cores: Vec<CpuSet> = (0..8).map(CpuSet::single).collect();
        let weight = |core: &CpuSet| machine.weight_of(core);
        let parts = |proportions| {
            let all = machine.allowed();
            let parts = crate::plan::shares(all, &cores, weight, proportions).unwrap();
            parts.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(parts(&[1, 1]), ["0-1,4-5", "2-3,6-7"]);
        assert_eq!(parts(&[3, 1]), ["0-2,4-6", "3,7"]);
    }

    #[test]
    fn cores_count_once_with_any_of_their_cpus() {
        let machine = Topology::from_synthetic("core:4 pu:2").unwrap();
        assert_eq!(machine.weight_of(&set("0-2")), 2);
        let kinds =
            [CoreKind::new(set("0-3")).with_speed(200), CoreKind::new(set("4-7")).with_speed(100)];
        let hybrid = machine.with_core_kinds(kinds).unwrap();
        assert_eq!(hybrid.weight_of(&set("0-7")), 600);
        assert_eq!(hybrid.weight_of(&set("1,4-5")), 300);
        assert_eq!(hybrid.core_kind_of(1), Some(1));
        assert_eq!(hybrid.core_kind_of(8), None);
        assert_eq!(hybrid.fastest(&set("2-5")), set("2-3"));
        assert_eq!(hybrid.fastest(&set("4-5")), set("4-5"));
    }

    #[test]
    fn kinds_without_cpus_left_are_gone_without_smt() {
        let machine = Topology::from_synthetic("core:2 pu:2").unwrap();
        let kinds =
            [CoreKind::new(set("0,2")).with_speed(2), CoreKind::new(set("1,3")).with_speed(1)];
        let machine = machine.with_core_kinds(kinds).unwrap().without_smt();
        assert_eq!(shown(machine.core_kinds()), [("0,2".to_owned(), 2)]);
    }
}
