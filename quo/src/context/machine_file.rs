//! Description of this machine in a file of this user, for later processes.
//!
//! hwloc takes milliseconds, most of them for plugins that only its environment can disable. The
//! first process that describes the machine keeps the description in the directory of segments.
//! Later processes read it in microseconds, as long as its [`key`] is theirs.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::allowed;
use super::peer_identity::{boot, digest, read_unsized};
use crate::node::kept_file;
use crate::topology::hwloc_version;

/// First bytes of the file; the last one is the version of its layout.
const MAGIC: [u8; 8] = *b"quo-mac1";
/// Magic, key, digest of the description.
const HEADER_BYTES: usize = 24;
/// More than any description has.
const MAX_BYTES: u64 = 16 << 20;

/// Returns the name of this user's file.
pub(super) fn name() -> String {
    format!("quo-machine-{}", rustix::process::geteuid().as_raw())
}

/// Returns a digest of all that a description depends on: this library and hwloc, the boot of the
/// kernel, the CPUs and NUMA nodes that are online, the memory, and the list of allowed CPUs. `None`
/// if variables of hwloc may change the description, or if the kernel hides which boot this is.
fn key(allowed: &[u8]) -> Option<u64> {
    if std::env::vars_os().any(|(name, _)| name.as_bytes().starts_with(b"HWLOC_")) {
        return None;
    }
    let online = |what: &str| read_unsized(&format!("/sys/devices/system/{what}/online"));
    let parts = [
        env!("CARGO_PKG_VERSION").as_bytes().to_vec(),
        hwloc_version().into_bytes(),
        boot()?.to_vec(),
        online("cpu").ok()?,
        // Kernels without NUMA have none.
        online("node").unwrap_or_default(),
        rustix::system::sysinfo().totalram.to_ne_bytes().to_vec(),
        allowed.to_vec(),
    ];
    Some(digest(parts.into_iter().flat_map(|part| part.into_iter().chain([0]))))
}

/// Returns the description that is kept in a directory; `None` if there is none of this machine as
/// it is at a version of the allowed CPUs.
pub(super) fn read(directory: &Path, version: u64) -> Option<Vec<u8>> {
    read_of(directory, &allowed::list_at(version)?)
}

/// Keeps a description in a directory. Without it later processes only take longer, so errors are
/// ignored.
pub(super) fn write(directory: &Path, version: u64, description: &[u8]) {
    if let Some(list) = allowed::list_at(version) {
        write_of(directory, &list, description);
    }
}

fn read_of(directory: &Path, allowed: &[u8]) -> Option<Vec<u8>> {
    let key = key(allowed)?;
    let mut text = kept_file::read(directory, &name(), MAX_BYTES)?;
    if text.len() < HEADER_BYTES {
        return None;
    }
    let description = text.split_off(HEADER_BYTES);
    (text == header(key, &description)).then_some(description)
}

fn write_of(directory: &Path, allowed: &[u8], description: &[u8]) {
    if let Some(key) = key(allowed) {
        let text = [&header(key, description), description].concat();
        let _ = kept_file::replace(directory, &name(), &text);
    }
}

fn header(key: u64, description: &[u8]) -> Vec<u8> {
    let check = digest(description.iter().copied());
    [MAGIC, key.to_ne_bytes(), check.to_ne_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn description_is_read_only_as_it_was_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name());
        assert_eq!(read_of(folder.path(), b"0-1"), None);
        write_of(folder.path(), b"0-1", b"description");
        assert_eq!(read_of(folder.path(), b"0-1").as_deref(), Some(&b"description"[..]));
        assert_eq!(read_of(folder.path(), b"0"), None, "the allowed CPUs have changed");
        let mut text = std::fs::read(&path).unwrap();
        for place in [0, 8, 16, HEADER_BYTES] {
            text[place] ^= 1;
            std::fs::write(&path, &text).unwrap();
            assert_eq!(read_of(folder.path(), b"0-1"), None, "byte {place} has changed");
            text[place] ^= 1;
        }
        std::fs::write(&path, &text[..HEADER_BYTES - 1]).unwrap();
        assert_eq!(read_of(folder.path(), b"0-1"), None);
    }
}
