//! A limit on the CPUs that the members of a segment use, set by another process of the same user.
//!
//! The limit is a mask next to those of the members. The process that sets it is not a member: it
//! reopens the file through a member's list of descriptors, writes the unpublished copy of the
//! mask, then the version, and finally counts a request, which makes the members read the limit at
//! their next phase. Members read the requests before the limit, so that a later limit is never
//! missed.

use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{self, FlockOperation, Mode, OFlags};

use super::layout::{DecisionCell, HEADER_BYTES, Layout, MASK_WORDS, MaskCell};
use super::liveness::LockedFile;
use super::others::segment_name;
use super::{Node, NodeError, file, masks};
use crate::CpuSet;

impl Node {
    /// Returns the CPUs that the members are limited to from outside, if they are. Local.
    pub(crate) fn limit(&self) -> Option<CpuSet> {
        // The process that sets it may have died half-way or be setting another limit; then it
        // counts a request.
        masks::read(&self.home.segment.limit[0], self.home.member).ok().flatten()
    }
}

/// Segment of other processes, open for reading and for setting its limit.
#[derive(Debug)]
pub(crate) struct LimitedSegment {
    file: OwnedFd,
    layout: Layout,
    path: PathBuf,
}

impl LimitedSegment {
    /// Returns the segments that a process of this user has open, except those of the calling
    /// process.
    ///
    /// # Errors
    /// [`NodeError::System`] when its descriptors cannot be listed.
    pub(crate) fn of_process(process: i32) -> Result<Vec<Self>, NodeError> {
        let folder = format!("/proc/{process}/fd");
        let entries = std::fs::read_dir(&folder)
            .map_err(|error| NodeError::system("opendir", folder.clone(), error))?;
        let own = LockedFile::identities();
        let mut seen = Vec::new();
        let mut segments = Vec::new();
        for entry in entries.flatten() {
            let path = entry.path();
            let Ok(status) = std::fs::metadata(&path) else { continue };
            let identity = (status.st_dev(), status.st_ino());
            if own.contains(&identity) || seen.contains(&identity) {
                continue;
            }
            if let Some(segment) = Self::open(&path) {
                seen.push(identity);
                segments.push(segment);
            }
        }
        Ok(segments)
    }

    fn open(path: &Path) -> Option<Self> {
        let name = segment_name(std::fs::read_link(path).ok()?.to_str()?)?;
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = fs::open(path, flags, Mode::empty()).ok()?;
        let size = file::verify(&file, Path::new("/proc"), &name).ok()?;
        let mut header = [0; HEADER_BYTES];
        let is_whole = file::read_at(&file, &mut header, 0).ok()?;
        let layout = Layout::read(&header, size).ok().filter(|_| is_whole)?;
        Some(Self { file, layout, path: path.to_owned() })
    }

    /// Returns the payload that the segment was created with.
    pub(crate) fn payload(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; self.layout.payload_bytes];
        let whole = file::read_at(&self.file, &mut bytes, self.layout.payload as u64).ok()?;
        whole.then_some(bytes)
    }

    /// Sets or lifts the limit. Concurrent callers wait for each other.
    ///
    /// # Errors
    /// [`NodeError::TooLarge`] for a CPU number above 8,191, [`NodeError::System`].
    pub(crate) fn set(&self, cpus: Option<&CpuSet>) -> Result<(), NodeError> {
        let words = cpus.map_or(&[][..], CpuSet::as_words);
        if words.len() > MASK_WORDS {
            let (bytes, room) = (words.len() * 8, MASK_WORDS * 8);
            return Err(NodeError::TooLarge { what: "a CPU mask", bytes, room });
        }
        self.write(cpus.is_some(), words).map_err(|(call, source)| {
            NodeError::system(call, self.path.display().to_string(), source)
        })
    }

    fn write(&self, is_set: bool, words: &[u64]) -> Result<(), (&'static str, std::io::Error)> {
        // Locks the file as a whole, which no member does; released with the descriptor.
        fs::flock(&self.file, FlockOperation::LockExclusive)
            .map_err(|error| ("flock", error.into()))?;
        let cell = self.layout.limit();
        let version_at = cell + offset_of!(MaskCell, version);
        let version = u32::from_ne_bytes(self.read(version_at)?).wrapping_add(1);
        let copy = (version % 2) as usize;
        let length = if is_set { words.len() as u32 + 1 } else { 0 };
        let words_at = cell + offset_of!(MaskCell, words) + 8 * copy * MASK_WORDS;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.put(words_at, &bytes)?;
        self.put(cell + offset_of!(MaskCell, lengths) + 4 * copy, &length.to_ne_bytes())?;
        self.put(version_at, &version.to_ne_bytes())?;
        // A member that counts a request at the same time has not read the limit since it was
        // written: the resulting number is new to all members.
        let requests_at = self.layout.decision + offset_of!(DecisionCell, requests);
        let requests = u64::from_ne_bytes(self.read(requests_at)?).wrapping_add(1);
        self.put(requests_at, &requests.to_ne_bytes())
    }

    fn read<const N: usize>(
        &self,
        place: usize,
    ) -> Result<[u8; N], (&'static str, std::io::Error)> {
        let mut bytes = [0; N];
        match file::read_at(&self.file, &mut bytes, place as u64) {
            Ok(true) => Ok(bytes),
            Ok(false) => Err(("pread", std::io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(("pread", error)),
        }
    }

    fn put(&self, place: usize, bytes: &[u8]) -> Result<(), (&'static str, std::io::Error)> {
        file::write_at(&self.file, bytes, place as u64).map_err(|error| ("pwrite", error))
    }
}

#[cfg(test)]
mod tests {
    use super::super::NodeOptions;
    use super::super::SegmentName;
    use super::*;

    #[test]
    fn limit_from_outside_is_read_and_requested() {
        let directory = tempfile::tempdir().unwrap();
        let name = SegmentName::random().unwrap();
        let directory = directory.path().to_owned();
        let options = NodeOptions { directory, payload: b"machine", ..NodeOptions::new(1) };
        let segment = Node::create(&name, &options).unwrap();
        let node = Node::attach(&name, &options.directory, 0).unwrap();
        // Never closed here: closing would drop the locks of this process.
        let path = options.directory.join(name.to_string());
        let outside = std::mem::ManuallyDrop::new(LimitedSegment::open_named(&path, &name));
        assert_eq!(outside.payload().unwrap(), b"machine");
        assert_eq!((node.limit(), node.requests()), (None, 0));
        for (count, text) in [(1, "0-3"), (2, "8191"), (3, "1")] {
            let cpus: CpuSet = text.parse().unwrap();
            outside.set(Some(&cpus)).unwrap();
            assert_eq!((node.limit(), node.requests()), (Some(cpus), count));
        }
        outside.set(Some(&CpuSet::single(8_192))).unwrap_err();
        assert_eq!(node.limit(), Some(CpuSet::single(1)));
        outside.set(None).unwrap();
        assert_eq!((node.limit(), node.requests()), (None, 4));
        drop(segment);
    }

    impl LimitedSegment {
        fn open_named(path: &Path, name: &SegmentName) -> Self {
            let file = fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap();
            let size = file::verify(&file, Path::new("/"), name).unwrap();
            let mut header = [0; HEADER_BYTES];
            assert!(file::read_at(&file, &mut header, 0).unwrap());
            let layout = Layout::read(&header, size).unwrap();
            Self { file, layout, path: path.to_owned() }
        }
    }
}
