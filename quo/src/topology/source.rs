//! Sources of topologies: the machine, an XML file, a synthetic string, or the value of
//! [`TOPOLOGY_VARIABLE`].

use std::io::Read as _;
use std::path::Path;

use super::origin::shortened;
use super::{Origin, Topology, TopologyError, hwloc, synthetic, xml};

/// Variable that replaces the machine the process runs on by another one.
///
/// Its value is read by [`Topology::from_spec`]; unset or empty means the live machine.
pub const TOPOLOGY_VARIABLE: &str = "QUO_TOPOLOGY";

/// Size of the largest XML file that is read; the largest machines need a few megabytes.
const MAX_XML_BYTES: u64 = 64 << 20;

impl Topology {
    /// Returns the machine this process runs on.
    ///
    /// Takes a few milliseconds: processes of one node should share one snapshot. CPUs that the job
    /// may not use are in the snapshot too; [`allowed`](Self::allowed) returns the CPUs that it may
    /// use. If hwloc's own variables (`HWLOC_XMLFILE` and others) name another machine, that
    /// machine is described and the snapshot is marked as simulated.
    ///
    /// # Errors
    ///
    /// [`TopologyError::Discovery`] if hwloc fails, [`TopologyError::Invalid`] if its result
    /// exceeds the limits of a snapshot.
    pub fn live() -> Result<Self, TopologyError> {
        hwloc::live()
    }

    /// Returns the machine described by an hwloc XML text, as `lstopo --of xml` writes it.
    ///
    /// # Errors
    ///
    /// [`TopologyError::Xml`] for any other text.
    pub fn from_xml(text: &str) -> Result<Self, TopologyError> {
        xml::read(text, Origin::Xml("-".to_owned()))
    }

    /// Returns the machine described by an hwloc XML file, as `lstopo machine.xml` writes it.
    ///
    /// # Errors
    ///
    /// [`TopologyError::File`] if the file cannot be read, [`TopologyError::Xml`] if it contains
    /// something else.
    pub fn from_xml_file(path: &Path) -> Result<Self, TopologyError> {
        let origin = Origin::Xml(path.display().to_string());
        let bytes =
            read(path).map_err(|source| TopologyError::File { path: path.to_owned(), source })?;
        match String::from_utf8(bytes) {
            Ok(text) => xml::read(&text, origin),
            Err(_) => {
                let cause = "it is not text in UTF-8".to_owned();
                Err(TopologyError::Xml { what: origin, cause })
            }
        }
    }

    /// Returns the machine described by an hwloc synthetic string.
    ///
    /// # Errors
    ///
    /// [`TopologyError::Synthetic`] if hwloc does not understand it or the machine would be larger
    /// than a snapshot may be.
    pub fn from_synthetic(text: &str) -> Result<Self, TopologyError> {
        synthetic::look_over(text)
            .map_err(|cause| TopologyError::Synthetic { text: shortened(text), cause })?;
        hwloc::synthetic(text)
    }

    /// Returns the machine that `spec` names: an hwloc XML file by its path, or a synthetic string.
    ///
    /// A text that contains a `/` or ends in `.xml` is a path; any other text is a synthetic
    /// string. So the choice never depends on which files happen to exist: write `./machine` for a
    /// file called `machine` in the current directory.
    ///
    /// # Errors
    ///
    /// Those of [`from_xml_file`](Self::from_xml_file) or [`from_synthetic`](Self::from_synthetic).
    pub fn from_spec(spec: &str) -> Result<Self, TopologyError> {
        if spec.contains('/') || spec.ends_with(".xml") {
            return Self::from_xml_file(Path::new(spec));
        }
        Self::from_synthetic(spec).map_err(|error| match error {
            TopologyError::Synthetic { text, cause } if Path::new(spec).is_file() => {
                let cause = format!("{cause} (for the file of that name write `./{text}`)");
                TopologyError::Synthetic { text, cause }
            }
            other => other,
        })
    }

    /// Returns the machine that [`TOPOLOGY_VARIABLE`] names, or else the live one.
    ///
    /// # Errors
    ///
    /// [`TopologyError::Environment`], with the variable, its value and the reason, if the value is
    /// not usable; otherwise those of [`live`](Self::live).
    #[doc(alias = "QUO_TOPOLOGY")]
    pub fn discover() -> Result<Self, TopologyError> {
        match std::env::var_os(TOPOLOGY_VARIABLE) {
            None => Self::live(),
            Some(value) if value.is_empty() => Self::live(),
            Some(value) => from_variable(&value),
        }
    }
}

fn from_variable(value: &std::ffi::OsStr) -> Result<Topology, TopologyError> {
    // A path need not be text; only text can be a synthetic string.
    let result = match value.to_str() {
        Some(spec) => Topology::from_spec(spec),
        None => Topology::from_xml_file(Path::new(value)),
    };
    result.map_err(|source| TopologyError::Environment {
        variable: TOPOLOGY_VARIABLE,
        value: shortened(&value.to_string_lossy()),
        source: Box::new(source),
    })
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let refuse = |cause| Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, cause));
    // Checked before it is opened: opening a pipe would wait for a writer.
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return refuse("it is not a regular file");
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(MAX_XML_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_XML_BYTES {
        return refuse("it is larger than any topology");
    }
    Ok(bytes)
}
