//! State that a member must leave unchanged.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

/// State that must be unchanged at the end.
#[derive(Debug, PartialEq, Eq)]
pub struct Traces {
    /// Number of times that each file is open.
    descriptors: BTreeMap<String, usize>,
    masks: BTreeMap<i32, CpuSet>,
}

impl Traces {
    /// Takes the current state.
    pub fn take() -> Result<Self> {
        let mut descriptors = BTreeMap::new();
        for entry in fs::read_dir("/proc/self/fd").context("listing descriptors")? {
            let entry = entry?;
            // All but the descriptor that lists the folder.
            if let Ok(target) = fs::read_link(entry.path())
                && !(target.starts_with("/proc") && target.ends_with("fd"))
            {
                *descriptors.entry(target.to_string_lossy().into_owned()).or_default() += 1;
            }
        }
        let mut masks = BTreeMap::new();
        for task in fs::read_dir("/proc/self/task").context("listing threads")? {
            let number =
                task?.file_name().to_string_lossy().parse().context("a thread's number")?;
            let mask = sched_getaffinity(Pid::from_raw(number)).context("sched_getaffinity")?;
            masks.insert(number, mask);
        }
        Ok(Self { descriptors, masks })
    }

    fn has_once(&self, file: &str) -> bool {
        self.descriptors.get(file) == Some(&1)
    }

    /// Checks that nothing has changed, except for the files that meeting places in `directory`
    /// keep open.
    pub fn require_again(&self, directory: &Path) -> Result<()> {
        let after = Self::take()?;
        // A meeting place that is held here keeps what joining it opened.
        let is_kept = |file: &String| {
            Path::new(file).starts_with(directory) && self.descriptors.contains_key(file)
        };
        let changed: Vec<&String> = self
            .descriptors
            .keys()
            .chain(after.descriptors.keys())
            .filter(|file| self.descriptors.get(*file) != after.descriptors.get(*file))
            .filter(|file| !is_kept(file) && (!is_of_process(file) || !after.has_once(file)))
            .collect();
        ensure!(changed.is_empty(), "descriptors were opened or closed for good: {changed:?}");
        for (thread, mask) in &self.masks {
            let now = after.masks.get(thread);
            ensure!(
                now == Some(mask),
                "a thread's mask was {} and is {}",
                shown(mask),
                now.map_or("none".to_owned(), shown)
            );
        }
        Ok(())
    }
}

/// Returns true for the files by which a process detects that its control group has other CPUs: the
/// first context opens them, and they stay open.
fn is_of_process(file: &str) -> bool {
    let is_group = file.starts_with("/proc/") && file.ends_with("/cpuset");
    is_group
        || ["cpuset.effective_cpus", "cpuset.cpus", "cpuset.cpus.effective", "/cpu/online"]
            .iter()
            .any(|name| file.starts_with("/sys/") && file.ends_with(name))
}

fn shown(mask: &CpuSet) -> String {
    let cpus: Vec<usize> =
        (0..CpuSet::count()).filter(|&cpu| mask.is_set(cpu).unwrap_or(false)).collect();
    format!("{cpus:?}")
}
