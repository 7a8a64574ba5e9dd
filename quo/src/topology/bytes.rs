//! Wire format in which a snapshot is sent to the other processes of a node.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::CpuSet;

use super::devices::MAX_DEVICES;
use super::kinds::MAX_CORE_KINDS;
use super::origin::shortened;
use super::{
    CoreKind, Device, MAX_NUMA_NODES, MAX_PUS, Object, ObjectType, Origin, Topology, TopologyError,
};

/// Must be incremented whenever [`Wire`] changes.
const VERSION: u32 = 3;

const MOST_OBJECTS: usize = MAX_NUMA_NODES + (ObjectType::COUNT - 1) * MAX_PUS;

/// CPU sets are sent as lists (`0-3,8`), which are short on large machines, unlike bit masks.
#[derive(Serialize, Deserialize)]
struct Wire {
    version: u32,
    origin: Origin,
    allowed: String,
    objects: Vec<WireObject>,
    /// From slow to fast.
    core_kinds: Vec<CoreKind>,
    devices: Vec<Device>,
}

#[derive(Serialize, Deserialize)]
struct WireObject {
    kind: ObjectType,
    os_index: Option<usize>,
    cpus: String,
    memory: u64,
    name: String,
}

impl From<&Topology> for Wire {
    fn from(topology: &Topology) -> Self {
        let objects = ObjectType::ALL.iter().flat_map(|&kind| topology.objects(kind));
        let objects = objects.map(|object| WireObject {
            kind: object.kind,
            os_index: object.os_index,
            cpus: object.cpuset.to_string(),
            memory: object.memory,
            name: object.name.clone(),
        });
        Self {
            version: VERSION,
            origin: topology.origin().clone(),
            allowed: topology.allowed().to_string(),
            objects: objects.collect(),
            core_kinds: topology.core_kinds().to_vec(),
            devices: topology.devices.clone(),
        }
    }
}

impl Wire {
    fn unpack(self) -> Result<Topology, String> {
        if self.version != VERSION {
            return Err(format!("they have layout {}, this library reads {VERSION}", self.version));
        }
        if self.objects.len() > MOST_OBJECTS {
            return Err(format!("they list {} objects", self.objects.len()));
        }
        if self.core_kinds.len() > MAX_CORE_KINDS {
            return Err(format!("they list {} kinds of cores", self.core_kinds.len()));
        }
        let set =
            |text: &str| text.parse::<CpuSet>().map_err(|error| shortened(&error.to_string()));
        if self.devices.len() > MAX_DEVICES {
            return Err(format!("they list {} devices", self.devices.len()));
        }
        let allowed = set(&self.allowed)?;
        let mut wrong = None;
        // Sets are parsed one at a time, while the objects are checked: the first bad one stops the
        // parsing.
        let objects = self.objects.into_iter().map_while(|wire| match set(&wire.cpus) {
            Ok(cpuset) => Some(Object {
                kind: wire.kind,
                index: 0,
                os_index: wire.os_index,
                cpuset,
                memory: wire.memory,
                name: wire.name,
            }),
            Err(cause) => {
                wrong = Some(cause);
                None
            }
        });
        let topology = Topology::from_objects(objects, &allowed, self.origin);
        if let Some(cause) = wrong {
            return Err(cause);
        }
        let mut topology = topology.map_err(|error| error.to_string())?;
        topology.set_core_kinds(self.core_kinds).map_err(|error| error.to_string())?;
        Ok(topology.with_devices(self.devices))
    }
}

impl Serialize for Topology {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Wire::from(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Topology {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Wire::deserialize(deserializer)?.unpack().map_err(D::Error::custom)
    }
}

impl Topology {
    /// Returns the snapshot as bytes that [`from_bytes`](Self::from_bytes) reads back.
    ///
    /// About 10 bytes per object, more for names. Both sides must use the same version of the
    /// library.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        // Serialising plain values into a growing vector cannot fail.
        postcard::to_stdvec(&Wire::from(self)).unwrap_or_default()
    }

    /// Returns the snapshot that [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    ///
    /// [`TopologyError::Bytes`] for any other bytes; time and memory stay within the needs of the
    /// largest machine.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TopologyError> {
        let refuse = |cause: String| TopologyError::Bytes { length: bytes.len(), cause };
        let (wire, rest) =
            postcard::take_from_bytes::<Wire>(bytes).map_err(|error| refuse(error.to_string()))?;
        if !rest.is_empty() {
            return Err(refuse(format!("{} bytes are left over", rest.len())));
        }
        wire.unpack().map_err(refuse)
    }
}
