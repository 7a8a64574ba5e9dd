//! Ranks that share CPUs from their start while other CPUs have no rank.

use crate::cpuset::CpuSet;

/// A rank's binding when it joined the context.
#[derive(Clone, Debug)]
pub(super) struct Start {
    pub rank: usize,
    pub cpus: CpuSet,
    /// True if OpenMP bound the rank, not the launcher.
    pub openmp: bool,
}

/// Warns about ranks that joined bound to fewer CPUs than there are ranks on them, while no rank is
/// bound to some of the allowed CPUs. Pure.
pub(super) fn warnings(starts: &[Start], allowed: &CpuSet) -> Vec<String> {
    let used = starts.iter().fold(CpuSet::new(), |all, start| all.union(&start.cpus));
    let idle = allowed.difference(&used);
    let mut masks: Vec<&CpuSet> = starts.iter().map(|start| &start.cpus).collect();
    masks.sort_unstable();
    masks.dedup();
    let warning = |mask: &&CpuSet| {
        let here: Vec<&Start> = starts.iter().filter(|start| start.cpus == **mask).collect();
        if idle.is_empty() || mask.is_empty() || here.len() <= mask.len() {
            return None;
        }
        let ranks = here.iter().map(|start| start.rank).collect::<CpuSet>();
        let remedy = if here.iter().any(|start| start.openmp) {
            "OpenMP bound them at its start: let the launcher bind each rank to cores of its own, or \
             unset OMP_PROC_BIND, OMP_PLACES and GOMP_CPU_AFFINITY"
        } else {
            "see the binding options of the launcher"
        };
        Some(format!("ranks {ranks} share CPUs {mask}, while CPUs {idle} have no rank; {remedy}"))
    };
    masks.iter().filter_map(warning).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    fn starts(masks: &[&str], openmp: bool) -> Vec<Start> {
        let start = |(rank, mask): (usize, &&str)| Start { rank, cpus: set(mask), openmp };
        masks.iter().enumerate().map(start).collect()
    }

    #[test]
    fn ranks_on_one_cpu_beside_idle_ones_are_named() {
        let text = warnings(&starts(&["0", "2", "0"], false), &set("0-3"));
        assert_eq!(text.len(), 1);
        assert!(text[0].starts_with("ranks 0,2 share CPUs 0, while CPUs 1,3"), "{}", text[0]);
        assert!(text[0].contains("launcher"));
        let text = warnings(&starts(&["0", "0"], true), &set("0-1"));
        assert!(text[0].contains("OMP_PROC_BIND"), "{}", text[0]);
    }

    #[test]
    fn crowded_node_without_idle_cpus_is_no_warning() {
        assert!(warnings(&starts(&["0", "0", "1", "1"], false), &set("0-1")).is_empty());
        assert!(warnings(&starts(&["0-1", "0-1"], false), &set("0-3")).is_empty());
    }
}
