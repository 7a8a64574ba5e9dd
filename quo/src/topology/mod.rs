//! The machine: an immutable snapshot of its objects and their containment.
//!
//! | file | idea |
//! |---|---|
//! | `object.rs` | object types and objects |
//! | `snapshot.rs` | [`Topology`]: counts, containment, enclosing, allowed CPUs, without SMT |
//! | `origin.rs` | [`Origin`]: the machine, a file, a text |
//! | `index.rs` | the tables that reduce those queries to a memory load |
//! | `kinds.rs` | kinds of cores: [`CoreKind`], fast and slow ones of a hybrid processor |
//! | `devices.rs` | [`Device`]s, and the GPUs that a program is shown |
//! | `hardware.rs` | a topology's kinds of cores and devices |
//! | `bytes.rs` | the wire format of a snapshot for the other processes of a node |
//! | `source.rs` | live machine, XML file, synthetic string, and [`TOPOLOGY_VARIABLE`] |
//! | `xml.rs` | hwloc's XML files, read without hwloc |
//! | `synthetic.rs` | checks of a synthetic string before hwloc gets it |
//! | `sysfs.rs` | the kinds of cores and the devices, as reported by the kernel |
//! | `hwloc.rs` | the only file that uses hwloc: live machine and synthetic strings |
//! | `error.rs` | [`TopologyError`] |
//!
//! Everything here is plain data: a snapshot is read once and never changes, so it may be shared by
//! any number of threads, and a snapshot of another machine can be used like that of the local one.
//!
//! floors: kinds < origin < object < error < index < devices < sysfs < snapshot < synthetic <
//!     hardware < bytes < xml < hwloc < source

mod bytes;
mod devices;
mod error;
mod hardware;
mod hwloc;
mod index;
mod kinds;
mod object;
mod origin;
mod snapshot;
mod source;
mod synthetic;
mod sysfs;
mod xml;

#[cfg(test)]
mod machines;
#[cfg(test)]
mod tests;

pub use devices::{Device, DeviceKind, ParseDeviceKindError, shown_devices, visible_devices};
pub use error::TopologyError;
pub use hwloc::hwloc_version;
pub use kinds::CoreKind;
pub use object::{Object, ObjectType, ParseObjectTypeError};
pub use origin::Origin;
pub use snapshot::{MAX_CPU, Topology};
use snapshot::{MAX_NUMA_NODES, MAX_PUS};
pub use source::TOPOLOGY_VARIABLE;
