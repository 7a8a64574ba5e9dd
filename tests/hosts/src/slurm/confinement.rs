//! The control groups in which Slurm confines steps. They alone belong to the machine and not to a
//! host, so this crate removes them.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

use super::configuration::node_prefix;
use crate::hosts::Hosts;

/// Mount point of the kernel's control groups.
pub(super) const MOUNTED: &str = "/sys/fs/cgroup";
/// Hierarchy that confines processes to CPUs.
const CPUSETS: &str = "/sys/fs/cgroup/cpuset";
/// Slurm's prefix of a node's name.
const SLURM: &str = "slurm_";

/// Returns the reason why steps cannot be confined here; `None` if they can.
#[must_use]
pub fn why_not() -> Option<String> {
    static ANSWER: OnceLock<Option<String>> = OnceLock::new();
    ANSWER.get_or_init(try_out).clone()
}

fn try_out() -> Option<String> {
    if !Path::new(CPUSETS).join("cpuset.cpus").exists() {
        return Some(format!("{CPUSETS} is not mounted: version 1 of control groups is needed"));
    }
    let trial = Path::new(CPUSETS).join(format!("quo-trial-{}", std::process::id()));
    let made = fs::create_dir(&trial).and_then(|()| fs::remove_dir(&trial));
    made.err().map(|error| format!("no control group can be made in {CPUSETS}: {error}"))
}

/// Control groups of one set, removed when dropped.
#[derive(Debug)]
pub(super) struct Confinement {
    prefix: String,
}

impl Confinement {
    /// Removes what killed harnesses have left, including other sets, and manages this set's
    /// groups.
    pub(super) fn prepare(prefix: &str) -> Result<Confinement> {
        if let Some(reason) = why_not() {
            bail!("{reason}");
        }
        let alive: Vec<String> = Hosts::sets().iter().map(|set| node_prefix(set)).collect();
        let is_abandoned = |node: &str| {
            node.starts_with("quo-") && !alive.iter().any(|prefix| node.starts_with(prefix))
        };
        remove(|node| is_abandoned(node) || node.starts_with(prefix))?;
        Ok(Confinement { prefix: prefix.to_owned() })
    }
}

impl Drop for Confinement {
    fn drop(&mut self) {
        let _the_next_set_tries_again = remove(|node| node.starts_with(&self.prefix));
    }
}

fn remove(is_wanted: impl Fn(&str) -> bool) -> Result<()> {
    for (name, folder) in folders(Path::new(CPUSETS))? {
        if name.strip_prefix(SLURM).is_some_and(&is_wanted) {
            remove_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
        }
    }
    Ok(())
}

/// The files in a control group cannot be removed: only its folders can and must be.
fn remove_all(group: &Path) -> Result<()> {
    for (_, inner) in folders(group)? {
        remove_all(&inner)?;
    }
    match fs::remove_dir(group) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

fn folders(parent: &Path) -> Result<Vec<(String, PathBuf)>> {
    let entries = match fs::read_dir(parent) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let folders = entries.flatten().filter(|entry| entry.path().is_dir());
    Ok(folders
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        .collect())
}
