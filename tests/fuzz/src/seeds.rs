//! Good inputs: the machines and texts of the library's own tests.

use std::path::Path;

use anyhow::{Context, Result};
use quo::Topology;

/// Synthetic strings of every kind of level and attribute.
pub const SYNTHETIC: &[&str] = &[
    "pack:2 core:4 pu:1",
    "numa:2(memory=1073741824) pack:1 l3:1(size=33554432) l2:2 core:1 pu:2",
    "2 4 2",
    "pack:2 [numa(memory=4GB)] die:2 core:2 pu:2(indexes=0,4,8,12,1,5,9,13,2,6,10,14,3,7,11,15)",
    "node:2 core:2 pu:2(indexes=2*2:2*1)",
    "socket:2 core:2 pu:2(indexes=socket:pu:core)",
    "group:2 pack:1 l1d:4 core:1 pu:1",
];

/// CPU lists and initial bindings.
pub const CPUS: &[&str] =
    &["0-3,8", "", "0", "0-1;2-7", "none", "package", "numa", "1,3,5,7-1023,1048575", " 4 - 5 "];

/// Returns the golden machines as hwloc wrote them.
pub fn machines() -> Result<Vec<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../quo/tests/machines");
    let entries = folder.read_dir().with_context(|| format!("reading {}", folder.display()))?;
    let mut files: Vec<_> =
        entries.map(|entry| Ok(entry?.path())).collect::<Result<_, std::io::Error>>()?;
    files.sort();
    let text = |file: std::path::PathBuf| {
        std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))
    };
    files.into_iter().map(text).collect()
}

/// Returns snapshots as ranks send them.
pub fn snapshots() -> Result<Vec<Vec<u8>>> {
    let mut snapshots = Vec::new();
    for text in machines()? {
        snapshots.push(Topology::from_xml(&text)?.to_bytes());
    }
    for text in SYNTHETIC {
        snapshots.push(Topology::from_synthetic(text)?.to_bytes());
    }
    Ok(snapshots)
}
