//! Kinds of cores and devices of a machine.

use crate::CpuSet;

use super::devices::in_order;
use super::{CoreKind, Device, ObjectType, Topology, TopologyError, sysfs};

impl Topology {
    /// Returns the machine with other kinds of cores, which are ordered by their speed, and in the
    /// given order if speeds are equal. CPUs in no kind form a separate kind of unknown speed.
    ///
    /// # Errors
    ///
    /// [`TopologyError::Invalid`] if two kinds share a CPU, or there are more than 64.
    pub fn with_core_kinds(
        mut self,
        kinds: impl IntoIterator<Item = CoreKind>,
    ) -> Result<Self, TopologyError> {
        let mut kinds: Vec<CoreKind> = kinds.into_iter().collect();
        kinds.sort_by_key(|kind| kind.speed);
        self.set_core_kinds(kinds)?;
        Ok(self)
    }

    /// Returns the kinds of cores, the slowest first. There is at least one, and each CPU is of one
    /// kind; most machines have only one.
    #[must_use]
    #[doc(alias = "QUO_ncore_kinds")]
    pub fn core_kinds(&self) -> &[CoreKind] {
        &self.kinds
    }

    /// Returns the kind of a CPU, as an index of [`core_kinds`](Self::core_kinds); `None` for a CPU
    /// that the machine does not have.
    #[must_use]
    pub fn core_kind_of(&self, cpu: usize) -> Option<usize> {
        self.kinds.iter().position(|kind| kind.cpuset.contains(cpu))
    }

    /// Returns the CPUs of `cpus` that are of the fastest kind among them.
    #[must_use]
    #[doc(alias = "QUO_CORES_FASTEST")]
    pub fn fastest(&self, cpus: &CpuSet) -> CpuSet {
        let of_kind = self.kinds.iter().rev().map(|kind| kind.cpuset.intersection(cpus));
        of_kind.into_iter().find(|cpus| !cpus.is_empty()).unwrap_or_default()
    }

    /// Returns the computing power of some CPUs: the sum of the speeds of their cores, where a core
    /// counts once however many of its CPUs are among them. If all speeds are alike, it is the
    /// number of cores; if some speed is unknown, it is proportional to that number, except for a
    /// difference between kinds of less than a ten-thousandth.
    #[must_use]
    pub fn weight_of(&self, cpus: &CpuSet) -> u64 {
        let mut rest = cpus.clone();
        let mut sum = 0;
        for core in self.objects(ObjectType::Core) {
            if let Some(first) = core.cpuset.intersection(&rest).first() {
                sum += self.weight_of_cpu(first);
                rest = rest.difference(&core.cpuset);
            }
        }
        sum + rest.iter().map(|cpu| self.weight_of_cpu(cpu)).sum::<u64>()
    }

    fn weight_of_cpu(&self, cpu: usize) -> u64 {
        self.core_kind_of(cpu).map_or(1, |kind| self.weights[kind])
    }

    /// Returns the devices of the machine in the order of the bus. Disallowed CPUs also count as
    /// near.
    ///
    /// Devices of this machine are read from the kernel at each call, which takes some tens of
    /// microseconds per device; those of another machine come from its file.
    #[must_use]
    pub fn devices(&self) -> Vec<Device> {
        if self.is_simulated() {
            return self.devices.clone();
        }
        sysfs::devices(std::path::Path::new(sysfs::PCI), self.machine_cpuset())
    }

    /// Returns the machine with other devices, for machines other than the one this process runs
    /// on.
    #[must_use]
    pub(super) fn with_devices(mut self, devices: Vec<Device>) -> Self {
        self.devices = in_order(devices);
        self
    }
}
