//! Errors of a plan request.

/// Reason why no plan could be made. Every rank that makes the same request gets the same error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The caller allows no worker at all.
    #[error("distribute: max_per_object is 0, so no rank could be selected; ask for at least 1")]
    NoWorkersAllowed,
    /// There is nothing to spread the workers over.
    #[error("distribute: there are no objects to distribute ranks over")]
    NoObjects,
    /// There are no ranks to select.
    #[error("distribute: there are no ranks to select from")]
    NoRanks,
    /// No CPU may be used.
    #[error("distribute: the set of allowed CPUs is empty")]
    NothingAllowed,
    /// The mask of a rank is empty. The kernel never reports an empty mask, so the mask was lost.
    #[error("distribute: the mask of node rank {node_rank} is empty")]
    EmptyMask {
        /// The rank on its node.
        node_rank: usize,
    },
    /// A CPU set was to be cut into no parts.
    #[error("split: {set} was to be split into 0 parts; ask for at least 1")]
    NoParts {
        /// The CPUs that were to be split, as a CPU list.
        set: crate::CpuSet,
    },
    /// A CPU set without CPUs was to be cut.
    #[error("split: the set to split into {parts} parts is empty")]
    NothingToSplit {
        /// Number of requested parts.
        parts: usize,
    },
    /// A part was to get nothing.
    #[error("split: part {part} was to get 0; give each part a positive number")]
    NoShare {
        /// The part, from 0.
        part: usize,
    },
    /// There are fewer whole objects than requested.
    #[error(
        "split: {set} has {units} whole objects of the type, {parts} parts need one each or more; \
         ask for less, or split by a smaller type"
    )]
    TooFewUnits {
        /// The CPUs that were to be split, as a CPU list.
        set: crate::CpuSet,
        /// Number of objects in the set.
        units: usize,
        /// Number of objects needed.
        parts: usize,
    },
    /// A device was to get objects near it, but none is available for it.
    #[error(
        "split: device {device}, one of {devices}, gets no object of the type: none that may be used \
         is left of the CPUs {cpus} near it; leave the device out, or split by a smaller type"
    )]
    NothingNear {
        /// The device, from 0.
        device: usize,
        /// The CPUs near it, as a CPU list.
        cpus: crate::CpuSet,
        /// Number of devices among which they were to be split.
        devices: usize,
    },
}

impl PlanError {
    /// Converts the error of a request for some of the devices: numbers its device among all
    /// devices.
    pub(crate) fn of_device(self, number: impl Fn(usize) -> usize) -> Self {
        match self {
            Self::NothingNear { device, cpus, devices } => {
                Self::NothingNear { device: number(device), cpus, devices }
            }
            other => other,
        }
    }
}
