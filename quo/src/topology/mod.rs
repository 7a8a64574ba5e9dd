//! The machine: an immutable snapshot of its objects, and of which lie inside which.
//!
//! | file | idea |
//! |---|---|
//! | `object.rs` | object types and objects |
//! | `snapshot.rs` | [`Topology`]: counts, containment, enclosing, allowed CPUs, without SMT |
//! | `index.rs` | the tables that make those queries a memory load |
//! | `kinds.rs` | kinds of cores: [`CoreKind`], fast and slow ones of a hybrid processor |
//! | `devices.rs` | [`Device`]s and the CPUs near them |
//! | `bytes.rs` | the form in which a snapshot travels to the other processes of a node |
//! | `source.rs` | live machine, XML file, synthetic string, and [`TOPOLOGY_VARIABLE`] |
//! | `xml.rs` | hwloc's XML files, read without hwloc |
//! | `synthetic.rs` | what of a synthetic string is checked before hwloc sees it |
//! | `sysfs.rs` | the kinds of cores and the devices, as the kernel tells them |
//! | `hwloc.rs` | the only file that meets hwloc: live machine and synthetic strings |
//! | `error.rs` | [`TopologyError`] |
//!
//! Everything here is plain data: a snapshot is read once and never changes, so it may be shared by
//! any number of threads, and a snapshot of a machine you do not have is as good as that of the one
//! you are on.

mod bytes;
mod devices;
mod error;
mod hwloc;
mod index;
mod kinds;
mod object;
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
pub use snapshot::{MAX_CPU, Origin, Topology};
use snapshot::{MAX_NUMA_NODES, MAX_PUS};
pub use source::TOPOLOGY_VARIABLE;
