//! Errors of a topology.

use std::path::PathBuf;

use super::{ObjectType, Origin};

/// Reason why a topology is not available, or why a query on it failed.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// hwloc could not describe the machine.
    #[error("hwloc could not describe {what}: {call} failed: {source}")]
    Discovery {
        /// Origin of the description.
        what: Origin,
        /// The hwloc call that failed.
        call: &'static str,
        /// The error of hwloc or the kernel.
        source: std::io::Error,
    },
    /// The XML file cannot be read.
    #[error("the topology file `{}` cannot be read: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the kernel.
        source: std::io::Error,
    },
    /// The text is not a topology in hwloc's XML form.
    #[error("{what} does not hold a topology in hwloc's XML form: {cause}")]
    Xml {
        /// The file, or the text.
        what: Origin,
        /// The cause.
        cause: String,
    },
    /// The text is not a synthetic topology.
    #[error("`{text}` is not a synthetic topology such as `package:2 numa:1 core:8 pu:2`: {cause}")]
    Synthetic {
        /// The text, shortened if very long.
        text: String,
        /// The cause.
        cause: String,
    },
    /// The objects contradict each other or exceed a limit.
    #[error("{what} is not a usable machine: {cause}")]
    Invalid {
        /// Source of the objects.
        what: Origin,
        /// The contradiction.
        cause: String,
    },
    /// The bytes are not those of a snapshot.
    #[error("these {length} bytes are not a topology snapshot: {cause}")]
    Bytes {
        /// Number of bytes.
        length: usize,
        /// The cause.
        cause: String,
    },
    /// The variable names a topology that is not available.
    #[error("{variable}=`{value}`: {source}")]
    Environment {
        /// The variable.
        variable: &'static str,
        /// Its value, shortened if very long.
        value: String,
        /// Why the value cannot be used.
        source: Box<TopologyError>,
    },
    /// The machine has fewer objects of the type.
    #[error("there is no {kind} {index}: this machine has {}", counted(*count, *kind))]
    NoSuchObject {
        /// The requested type.
        kind: ObjectType,
        /// The requested logical index.
        index: usize,
        /// Number of objects of the type on the machine.
        count: usize,
    },
    /// The allowed set names CPUs that the machine does not have, or is empty.
    #[error("CPUs `{cpus}` cannot be the allowed set of a machine with CPUs `{machine}`: {cause}")]
    Allowed {
        /// The requested set.
        cpus: String,
        /// The CPUs of the machine.
        machine: String,
        /// The cause.
        cause: &'static str,
    },
}

fn counted(count: usize, kind: ObjectType) -> String {
    match count {
        0 => format!("no {}", kind.plural()),
        1 => format!("one {kind}"),
        _ => format!("{count} {}", kind.plural()),
    }
}
