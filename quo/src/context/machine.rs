//! The machine of a context: discovered once per node, and once per process.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::allowed::version;
use super::peer_identity::digest;
use super::{Context, machine_file};
use crate::affinity::{Backend, InitialBinding, Kernel, ParseInitialBindingError, Simulated};
use crate::cpuset::CpuSet;
use crate::environment;
use crate::error::Error;
use crate::node::ForkId;
use crate::topology::Topology;

/// A snapshot in its shared and its decoded form.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub bytes: Arc<[u8]>,
    pub whole: Arc<Topology>,
    pub without_smt: Arc<Topology>,
}

/// Snapshots this process has seen, by the setting that chose them and by their bytes.
static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct Known {
    setting: Option<String>,
    snapshot: Snapshot,
    /// Digest of the CPUs that the system allowed at the last check, so that a change is detected
    /// without a discovery.
    version: u64,
}

impl Snapshot {
    /// Returns the machine that `QUO_TOPOLOGY` names, described once per process, and again if the
    /// allowed CPUs have changed. `version` is the system's version that this rank read before: a
    /// change in between is found the next time. A description of this machine is read from
    /// `directory` if one is kept there; also returns true if the caller should keep this one.
    pub fn discover(directory: &Path, version: u64) -> Result<(Self, bool), Error> {
        let setting = environment::value(&environment::TOPOLOGY);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.iter().find(|known| known.setting == setting)
            && (known.snapshot.whole.is_simulated() || known.version == version)
        {
            return Ok((known.snapshot.clone(), false));
        }
        let kept = match setting {
            None => machine_file::read(directory, version),
            Some(_) => None,
        };
        let kept = kept.and_then(|kept| Some((Topology::from_bytes(&kept).ok()?, kept)));
        let is_new = kept.is_none() && setting.is_none();
        let snapshot = match kept {
            Some((topology, bytes)) => Self::of(bytes.into(), topology),
            None => {
                let topology = Topology::discover()?;
                Self::of(topology.to_bytes().into(), topology)
            }
        };
        known.retain(|known| known.setting != setting);
        known.push(Known { setting, snapshot: snapshot.clone(), version });
        Ok((snapshot, is_new))
    }

    /// Returns the machine that another rank of the node has described; `version` is the system's
    /// version that this rank read before.
    pub fn from_bytes(bytes: &[u8], version: u64) -> Result<Self, Error> {
        let setting = environment::value(&environment::TOPOLOGY);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.iter().find(|known| *known.snapshot.bytes == *bytes) {
            return Ok(known.snapshot.clone());
        }
        let snapshot = Self::of(bytes.into(), Topology::from_bytes(bytes)?);
        known.retain(|known| known.setting != setting);
        known.push(Known { setting, snapshot: snapshot.clone(), version });
        Ok(snapshot)
    }

    fn of(bytes: Arc<[u8]>, topology: Topology) -> Self {
        let without_smt = Arc::new(topology.without_smt());
        Self { bytes, whole: Arc::new(topology), without_smt }
    }
}

impl Context {
    /// Returns the file that keeps the description of this context's machine, if it is up to date.
    pub(crate) fn machine_file(&self) -> Option<PathBuf> {
        let directory = &self.shared.settings.directory;
        let is_live = !self.state().machine().whole.is_simulated();
        machine_file::read(directory, version()).filter(|_| is_live)?;
        Some(directory.join(machine_file::name()))
    }
}

/// Returns the settings that choose the machine, `QUO_TOPOLOGY` and `QUO_BINDING`; empty if not
/// set.
pub(super) fn settings() -> [String; 2] {
    [&environment::TOPOLOGY, &environment::BINDING]
        .map(|variable| environment::value(variable).unwrap_or_default())
}

/// Returns a digest of [`settings`], to check that all ranks have the same.
pub(super) fn settings_digest(settings: &[String; 2]) -> u64 {
    digest(settings.iter().flat_map(|value| value.bytes().chain([0])))
}

/// Returns the back end for masks on this machine: the kernel, or a simulation bound as
/// `QUO_BINDING` specifies.
pub(super) fn backend(topology: &Topology, node_rank: usize) -> Result<Arc<dyn Backend>, Error> {
    let setting = environment::value(&environment::BINDING);
    if !topology.is_simulated() {
        require_no_binding(setting.as_deref())?;
        return Ok(kernel()?);
    }
    let initial = initial_mask(topology, setting.as_deref(), node_rank)?;
    let machine = environment::value(&environment::TOPOLOGY).unwrap_or_default();
    Ok(Simulated::shared(&machine, initial))
}

/// Refuses a `QUO_BINDING` on a real machine, where it would bind nothing. Pure.
fn require_no_binding(setting: Option<&str>) -> Result<(), Error> {
    let Some(value) = setting.filter(|value| *value != "none") else { return Ok(()) };
    let reason = format!(
        "{binding}={value} binds the ranks of a simulated machine, and {topology} names none: set \
         {topology}, or unset {binding}",
        binding = environment::BINDING.name,
        topology = environment::TOPOLOGY.name,
    );
    Err(Error::InvalidArgument { call: "create", reason })
}

/// Returns the back end shared by all contexts of this process: they move the same threads.
fn kernel() -> Result<Arc<Kernel>, Error> {
    static SHARED: Mutex<Option<(ForkId, Weak<Kernel>)>> = Mutex::new(None);
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((process, kernel)) = &*shared
        && *process == ForkId::current()
        && let Some(kernel) = kernel.upgrade()
    {
        return Ok(kernel);
    }
    let kernel = Kernel::new().map_err(|source| crate::affinity::BindError::System {
        call: "create",
        action: "opening the list of threads",
        source,
    })?;
    let kernel = Arc::new(kernel);
    *shared = Some((ForkId::current(), Arc::downgrade(&kernel)));
    Ok(kernel)
}

/// Returns the initial mask of node rank `node_rank` on a simulated machine.
fn initial_mask(
    topology: &Topology,
    setting: Option<&str>,
    node_rank: usize,
) -> Result<CpuSet, Error> {
    let Some(text) = setting else { return Ok(topology.allowed().clone()) };
    let refuse = |reason: String| Error::InvalidArgument {
        call: "create",
        reason: format!("{}={text}: {reason}", environment::BINDING.name),
    };
    let binding: InitialBinding =
        text.parse().map_err(|error: ParseInitialBindingError| refuse(error.to_string()))?;
    binding.mask(topology, node_rank).map_err(|error| refuse(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Topology {
        Topology::from_synthetic("pack:2 core:4 pu:1").unwrap()
    }

    #[test]
    fn binding_without_a_simulated_machine_is_refused() {
        let error = require_no_binding(Some("core")).unwrap_err().to_string();
        assert!(
            error.contains("QUO_BINDING=core") && error.contains("set QUO_TOPOLOGY"),
            "{error}"
        );
        assert!(require_no_binding(Some("none")).is_ok() && require_no_binding(None).is_ok());
    }

    #[test]
    fn simulated_ranks_start_on_objects_round_robin() {
        let mask = |setting, rank| initial_mask(&machine(), setting, rank).unwrap().to_string();
        assert_eq!(mask(None, 3), "0-7");
        assert_eq!(mask(Some("core"), 9), "1");
        assert_eq!(mask(Some("package"), 1), "4-7");
        assert_eq!(mask(Some("0-1;2-7"), 1), "2-7");
    }

    #[test]
    fn an_unusable_initial_binding_is_refused_with_its_reason() {
        for (setting, reason) in [("die", "no die"), ("0-99", "0-99"), ("x", "not a CPU list")] {
            let error = initial_mask(&machine(), Some(setting), 0).unwrap_err().to_string();
            assert!(error.contains("QUO_BINDING") && error.contains(reason), "{error}");
        }
    }
}
