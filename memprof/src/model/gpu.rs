//! Memory that programs request from the runtimes of GPUs.

use super::Frame;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of one kind of memory.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GpuBytes {
    /// Bytes ever allocated.
    pub allocated: u64,
    /// Bytes of these that were freed.
    pub freed: u64,
    /// Bytes of these that were not.
    pub alive: u64,
    /// Most bytes alive at once; over several processes, the sum of their peaks.
    pub alive_peak: u64,
    /// Number of blocks ever allocated.
    pub blocks: u64,
}

impl GpuBytes {
    fn add(&mut self, other: &GpuBytes) {
        self.allocated = self.allocated.saturating_add(other.allocated);
        self.freed = self.freed.saturating_add(other.freed);
        self.alive = self.alive.saturating_add(other.alive);
        self.alive_peak = self.alive_peak.saturating_add(other.alive_peak);
        self.blocks = self.blocks.saturating_add(other.blocks);
    }
}

/// Memory of one kind that a process, or a component in it, has requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GpuMemory {
    /// Kind of the memory: `device`, `managed` or `pinned`.
    pub kind: &'static str,
    /// Name of the component; `None` for the sum of the process.
    pub component: Option<Arc<str>>,
    /// How much.
    #[serde(flatten)]
    pub bytes: GpuBytes,
}

/// Memory of one kind that one call has requested, over all ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GpuSite {
    /// Kind of the memory.
    pub kind: &'static str,
    /// Name of the component that called.
    pub component: Arc<str>,
    /// Function of the runtime; `None` where the trace had no room for its name.
    pub function: Option<Arc<str>>,
    /// Return address of the call.
    pub frame: Frame,
    /// How much.
    #[serde(flatten)]
    pub bytes: GpuBytes,
    /// Number of processes that called.
    pub processes: u32,
}

impl GpuSite {
    /// Adds the memory of another call, of as many processes at most.
    pub fn add(&mut self, other: &GpuSite) {
        self.bytes.add(&other.bytes);
        self.processes = self.processes.max(other.processes);
    }

    /// Returns the sort key of places: highest peak first, then most allocated.
    pub fn order(&self) -> Reverse<(u64, u64)> {
        Reverse((self.bytes.alive_peak, self.bytes.allocated))
    }
}

/// Call site: kind of the memory, component, function, and return address.
type Key = (&'static str, Arc<str>, Option<Arc<str>>, Frame);

/// Adds up call sites over processes.
#[derive(Debug, Default)]
pub struct CollectGpu {
    sites: Vec<GpuSite>,
    known: HashMap<Key, usize>,
}

impl CollectGpu {
    /// Adds one call site of one process.
    pub fn add(&mut self, site: GpuSite) {
        let key = (site.kind, site.component.clone(), site.function.clone(), site.frame);
        let Some(at) = self.known.get(&key) else {
            self.known.insert(key, self.sites.len());
            self.sites.push(site);
            return;
        };
        let into = &mut self.sites[*at];
        let processes = into.processes + site.processes;
        into.add(&site);
        into.processes = processes;
    }

    /// Returns the call sites of all processes, the highest peak first.
    pub fn finish(self) -> Vec<GpuSite> {
        let mut sites = self.sites;
        sites.sort_by_key(GpuSite::order);
        sites
    }
}

/// Tests, and a place for the tests of other modules.
#[cfg(test)]
pub mod tests {
    use super::*;

    /// Returns bytes of which half are freed.
    pub fn bytes(allocated: u64) -> GpuBytes {
        let freed = allocated / 2;
        let alive = allocated - freed;
        GpuBytes { allocated, freed, alive, alive_peak: allocated, blocks: 2 }
    }

    /// Returns a call site of one process.
    pub fn site(offset: u64, allocated: u64) -> GpuSite {
        GpuSite {
            kind: "device",
            component: "app.exe:solver".into(),
            function: Some("cudaMalloc".into()),
            frame: Frame { object: 0, offset },
            bytes: bytes(allocated),
            processes: 1,
        }
    }

    #[test]
    fn call_sites_of_two_processes_add_up_largest_first() {
        let mut collect = CollectGpu::default();
        for (offset, allocated) in [(1, 10), (2, 30), (1, 40)] {
            collect.add(site(offset, allocated));
        }
        let sites = collect.finish();
        let found: Vec<_> = sites.iter().map(|s| (s.bytes.alive_peak, s.processes)).collect();
        assert_eq!(found, [(50, 2), (30, 1)]);
    }
}
