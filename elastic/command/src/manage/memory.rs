//! The memory of jobs and nodes, for shrinks that must fit.

use std::collections::BTreeMap;

use elastic::manager::WorldStatus;
use elastic_policy::job::Limits;
use elastic_policy::memory::{Footprint, NodeRoom, TooLittleMemory};

/// Message about a job with unknown memory.
pub const SILENT: &str =
    "--memory: it reports no bytes per rank: its memory sets no limit to shrinks";

/// The ranks and the bytes per rank of a report.
type Measured = (u32, u64);

/// The latest measurements of jobs, each on the present number of ranks and on an earlier one.
#[derive(Debug, Default)]
pub struct Footprints {
    measured: BTreeMap<String, (Option<Measured>, Measured)>,
}

impl Footprints {
    /// Records a job's report on its present ranks.
    pub fn observe(&mut self, job: &str, status: &WorldStatus) {
        let report = status.report.as_ref().filter(|report| report.size == status.size);
        let Some(bytes) = report.and_then(|report| report.bytes_per_rank) else { return };
        let now = (u32::try_from(status.size).unwrap_or(u32::MAX), bytes);
        let before = match self.measured.get(job) {
            Some((before, last)) if last.0 == now.0 => *before,
            Some((_, last)) => Some(*last),
            None => None,
        };
        self.measured.insert(job.to_owned(), (before, now));
    }

    /// Returns the latest measured memory of a job, with the part that does not depend on the
    /// number of ranks if it was measured on two sizes. `None` before the first report.
    pub fn of(&self, job: &str) -> Option<Footprint> {
        let (before, now) = *self.measured.get(job)?;
        let both = before.and_then(|before| Footprint::of_two(before, now));
        Some(both.unwrap_or_else(|| Footprint::measured(now.0, now.1)))
    }

    /// Drops the jobs that have ended.
    pub fn retain(&mut self, lives: impl Fn(&str) -> bool) {
        self.measured.retain(|job, _| lives(job));
    }
}

/// Narrows the limits of a job of this size to the sizes at which its data fit, and returns the
/// cause if any sizes were removed. `kept` returns the nodes that remain at a smaller size.
pub fn narrow(
    footprint: &Footprint,
    size: u32,
    limits: &mut Limits,
    kept: impl Fn(u32) -> Vec<NodeRoom>,
) -> Option<TooLittleMemory> {
    let (fewest, cause) = footprint.fewest_nodes(size, kept);
    let cause = cause.filter(|_| fewest > limits.min)?;
    limits.min = fewest;
    limits.max = limits.max.max(fewest);
    limits.allowed.retain(|allowed| *allowed >= fewest);
    Some(cause)
}

/// Reads the bytes available to programs from the text of a system's `/proc/meminfo`.
pub fn available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(size: u64, measured_on: u64, bytes: Option<u64>) -> WorldStatus {
        let text = serde_json::json!({"job": "a", "epoch": 0, "size": size, "capacity": 8, "waiting": 0,
            "next_event": 1, "up_us": 1, "hosts": [], "report": {"iteration": 1, "iteration_seconds": 1.0,
            "mean_seconds": 1.0, "reports": 1, "size": measured_on, "bytes_per_rank": bytes}});
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn reports_on_two_sizes_tell_the_fixed_part() {
        let mut footprints = Footprints::default();
        footprints.observe("a", &status(4, 4, None));
        assert_eq!(footprints.of("a"), None);
        footprints.observe("a", &status(4, 4, Some(500)));
        let all = footprints.of("a").unwrap();
        assert_eq!((all.ranks, all.fixed, all.divided), (4, 0, 2_000));
        footprints.observe("a", &status(8, 4, Some(500)));
        assert_eq!(footprints.of("a").unwrap().ranks, 4, "measured before the resize");
        footprints.observe("a", &status(8, 8, Some(300)));
        footprints.observe("a", &status(8, 8, Some(300)));
        let told = footprints.of("a").unwrap();
        assert_eq!((told.ranks, told.fixed, told.divided), (8, 100, 1_600));
        footprints.retain(|job| job != "a");
        assert_eq!(footprints.of("a"), None);
    }

    #[test]
    fn limits_begin_at_the_fewest_nodes_that_fit() {
        let kept = |to| vec![NodeRoom { name: "n1".into(), ranks: 1, free: 600 }; to as usize];
        let footprint = Footprint::measured(4, 500);
        let mut limits = Limits { allowed: vec![1, 2, 4, 8], ..Limits::between(1, 8, 1) };
        let cause = narrow(&footprint, 4, &mut limits, kept).unwrap();
        assert_eq!((limits.min, cause.nodes, &limits.allowed[..]), (4, 3, &[4, 8][..]));
        assert_eq!(narrow(&footprint, 4, &mut limits, kept), None, "told already by the limits");
        let mut wide = Limits::between(1, 8, 1);
        assert_eq!(narrow(&Footprint::measured(4, 100), 4, &mut wide, kept), None);
        assert_eq!(wide, Limits::between(1, 8, 1));
    }

    #[test]
    fn available_memory_is_read_from_meminfo() {
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:   12 kB\n"), Some(12_288));
        assert_eq!(available("MemTotal: 9 kB\n"), None);
    }
}
