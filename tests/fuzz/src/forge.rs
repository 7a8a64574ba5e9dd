//! Forged segments: real segments created by the library, with parts replaced.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Context, Result, ensure};
use quo::node::{Node, NodeOptions, SegmentName};

/// Bytes of a segment's header.
pub const HEADER: usize = 136;

/// Number of members for which the segments have room.
pub const CAPACITY: usize = 3;

/// Returns the file contents of a segment of two members with room for a third.
///
/// # Errors
/// The segment cannot be created.
pub fn whole() -> Result<&'static [u8]> {
    static WHOLE: LazyLock<Result<Vec<u8>, String>> =
        LazyLock::new(|| make(2).map_err(|error| format!("{error:#}")));
    WHOLE.as_ref().map(Vec::as_slice).map_err(|error| anyhow::anyhow!("{error}"))
}

fn make(members: usize) -> Result<Vec<u8>> {
    let directory = tempfile::tempdir()?;
    let options = NodeOptions {
        directory: directory.path().to_owned(),
        capacity: CAPACITY,
        exchange_bytes: 64,
        payload: b"what all members know",
        ..NodeOptions::new(members)
    };
    let name = SegmentName::random()?;
    let segment = Node::create(&name, &options)?;
    let bytes = fs::read(directory.path().join(name.to_string()))?;
    ensure!(bytes.len() == segment.bytes(), "a segment of {} bytes", bytes.len());
    Ok(bytes)
}

/// A file under a segment's name, removed when dropped.
pub struct Forged {
    directory: tempfile::TempDir,
    name: SegmentName,
}

impl Forged {
    /// Creates a private file with these bytes and this size.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn new(bytes: &[u8], size: u64) -> Result<Self> {
        let forged = Self { directory: tempfile::tempdir()?, name: SegmentName::random()? };
        let path = forged.path();
        let file = File::create_new(&path).with_context(|| format!("{}", path.display()))?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.write_all_at(bytes, 0)?;
        file.set_len(size)?;
        Ok(forged)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join(self.name.to_string())
    }

    /// Returns the directory of the segment.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the name of the segment.
    pub fn name(&self) -> &SegmentName {
        &self.name
    }

    /// Attaches as a member.
    ///
    /// # Errors
    /// As [`Node::attach`].
    pub fn attach(&self, member: usize) -> Result<Node, quo::node::NodeError> {
        Node::attach(&self.name, self.directory(), member)
    }
}

/// Returns inputs of `segment_header`: a word that says how to create the file, then its first
/// bytes.
///
/// # Errors
/// No segment can be created.
pub fn headers() -> Result<Vec<Vec<u8>>> {
    let whole = whole()?;
    let input = |how: u32, bytes: &[u8]| [&how.to_le_bytes(), bytes].concat();
    Ok(vec![
        input(0, &whole[..256]),
        input(1, &whole[..HEADER]),
        input(2 + ((whole.len() as u32) << 2), &whole[..256]),
        input(3 + (4_096 << 2), &whole[..HEADER]),
    ])
}

/// Returns inputs of `segment_state`: entries of a position (in words of eight bytes) and the value
/// to write there.
pub fn states() -> Vec<Vec<u8>> {
    let entry = |place: u16, value: u64| [&place.to_le_bytes()[..], &value.to_le_bytes()].concat();
    vec![
        entry(16, 0),
        [entry(16, u64::MAX), entry(33, 0x1_0000_0001)].concat(),
        (0..12).flat_map(|place| entry(32 + 16 * place, 2)).collect(),
    ]
}
