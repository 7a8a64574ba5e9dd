//! Segments of the same user in which this process is not a member, and the bindings pushed there.
//!
//! After all members have attached, a segment has no name, but the kernel lists the record locks of
//! its members, and a process of the same user can reopen any file that another process has open.
//! The file is read with system calls and not mapped, because another job may truncate it at any
//! time.

use std::collections::BTreeMap;
use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::{self, Mode, OFlags};

use super::layout::{HEADER_BYTES, Layout, MASK_WORDS, MaskCell, Slot};
use super::liveness::LockedFile;
use super::{Node, SegmentName, file};
use crate::CpuSet;

/// Number of attempts to read a mask that is being changed.
const LOOKS: usize = 8;

/// Process that has pushed a binding and not popped it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Push {
    pub(crate) process: i32,
    pub(crate) cpus: CpuSet,
}

/// Segment of other processes, open for reading.
#[derive(Debug)]
pub(crate) struct OtherSegment {
    file: Arc<LockedFile>,
    layout: Layout,
    /// Living members and their processes.
    members: Vec<(usize, i32)>,
}

impl Node {
    /// Publishes the number of bindings this member has pushed and not popped. Local.
    pub(crate) fn publish_pushes(&self, count: usize) {
        let slot = &self.home.segment.slots[self.home.member];
        slot.pushes.store(u32::try_from(count).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Returns true if a member has pushed a binding and not popped it. Local.
    pub(crate) fn has_pushed(&self, member: usize) -> bool {
        let slot = self.home.segment.slots.get(member);
        slot.is_some_and(|slot| slot.pushes.load(Ordering::Relaxed) > 0)
    }

    /// Returns the other segments of this user in the same file system, if the kernel shows them.
    /// Local; takes tens of microseconds or more.
    pub(crate) fn others(&self) -> Vec<OtherSegment> {
        let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
        let (number, _) = self.home.segment.file.identity();
        let device = format!("{:02x}:{:02x}", fs::major(number), fs::minor(number));
        let own = LockedFile::identities();
        locked(&locks, &device)
            .into_iter()
            .filter(|&(inode, _)| !own.contains(&(number, inode)))
            .filter_map(|(inode, members)| OtherSegment::open(inode, members))
            .collect()
    }
}

impl OtherSegment {
    fn open(inode: u64, members: Vec<(usize, i32)>) -> Option<Self> {
        let (file, name) = members.iter().find_map(|&(_, process)| opened_by(process, inode))?;
        let file = LockedFile::keep(file).ok()?;
        let size = file::verify(file.descriptor(), Path::new("/proc"), &name).ok()?;
        let mut header = [0; HEADER_BYTES];
        let is_whole = file::read_at(file.descriptor(), &mut header, 0).ok()?;
        let layout = Layout::read(&header, size).ok().filter(|_| is_whole)?;
        (file.identity().1 == inode).then_some(Self { file, layout, members })
    }

    /// Returns the payload that the segment was created with.
    pub(crate) fn payload(&self) -> Option<Vec<u8>> {
        self.read(self.layout.payload, self.layout.payload_bytes)
    }

    /// Returns the members that have pushed a binding, with its CPUs.
    pub(crate) fn pushes(&self) -> Vec<Push> {
        let members = self.members.iter();
        let pushes = members.filter_map(|&(member, process)| {
            let cpus = self.pushed_by(member)?;
            Some(Push { process, cpus })
        });
        pushes.collect()
    }

    fn pushed_by(&self, member: usize) -> Option<CpuSet> {
        if member >= self.layout.capacity {
            return None;
        }
        let slot = self.layout.slots + member * size_of::<Slot>();
        let pushes = self.read(slot + offset_of!(Slot, pushes), size_of::<u32>())?;
        if word32(&pushes, 0)? == 0 {
            return None;
        }
        let cell = self.layout.masks + member * size_of::<MaskCell>();
        for _ in 0..LOOKS {
            let seen = self.read(cell, size_of::<MaskCell>())?;
            let version = self.read(cell + offset_of!(MaskCell, version), size_of::<u32>())?;
            if word32(&version, 0) == word32(&seen, offset_of!(MaskCell, version)) {
                return mask(&seen);
            }
        }
        None
    }

    fn read(&self, start: usize, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        let whole = file::read_at(self.file.descriptor(), &mut bytes, start as u64).ok()?;
        whole.then_some(bytes)
    }
}

/// Reopens the file that a process has open under this inode number, if its name is that of a
/// segment.
fn opened_by(process: i32, inode: u64) -> Option<(OwnedFd, SegmentName)> {
    use std::os::linux::fs::MetadataExt;
    let folder = std::fs::read_dir(format!("/proc/{process}/fd")).ok()?;
    folder.filter_map(Result::ok).find_map(|entry| {
        let place = entry.path();
        let name = segment_name(std::fs::read_link(&place).ok()?.to_str()?)?;
        if std::fs::metadata(&place).ok()?.st_ino() != inode {
            return None;
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Some((fs::open(&place, flags, Mode::empty()).ok()?, name))
    })
}

/// Parses a segment's name from the path that the kernel shows, also after its removal.
pub(super) fn segment_name(path: &str) -> Option<SegmentName> {
    path.rsplit('/').next()?.trim_end_matches(" (deleted)").parse().ok()
}

/// Returns, by inode, the locked bytes of a device's files and the processes that hold them, from
/// the kernel's list of locks. Ranges and waiting processes are left out.
fn locked(locks: &str, device: &str) -> BTreeMap<u64, Vec<(usize, i32)>> {
    let mut files = BTreeMap::<u64, Vec<(usize, i32)>>::new();
    for line in locks.lines() {
        let mut words = line.split_ascii_whitespace().skip(1);
        if words.next() != Some("POSIX") {
            continue;
        }
        let mut words = words.skip(2);
        let process = words.next().and_then(|word| word.parse().ok());
        let inode = words
            .next()
            .and_then(|word| word.strip_prefix(device)?.strip_prefix(':')?.parse().ok());
        let ends = [words.next(), words.next()];
        let [first, last] = ends.map(|word| word.and_then(|word| word.parse::<usize>().ok()));
        if let (Some(process), Some(inode), Some(byte)) = (process, inode, first)
            && first == last
            && process > 0
        {
            files.entry(inode).or_default().push((byte, process));
        }
    }
    files
}

fn word32(bytes: &[u8], start: usize) -> Option<u32> {
    bytes.get(start..start + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

/// Decodes the published mask from the bytes of a cell.
fn mask(cell: &[u8]) -> Option<CpuSet> {
    let copy = (word32(cell, offset_of!(MaskCell, version))? % 2) as usize;
    let length = word32(cell, offset_of!(MaskCell, lengths) + 4 * copy)?;
    let words = (length.checked_sub(1)? as usize).min(MASK_WORDS);
    let start = offset_of!(MaskCell, words) + 8 * copy * MASK_WORDS;
    let bytes = cell.get(start..start + 8 * words)?;
    let words: Vec<u64> =
        bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_ne_bytes)).collect();
    Some(CpuSet::from_words(&words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_of_a_device_are_sorted_by_file() {
        let text = "1: POSIX  ADVISORY  WRITE 40 00:1a:77 0 0\n\
                    2: FLOCK  ADVISORY  WRITE 40 00:1a:77 0 EOF\n\
                    2: -> POSIX  ADVISORY  WRITE 43 00:1a:77 0 0\n\
                    3: POSIX  ADVISORY  WRITE 41 00:1a:77 1 1\n\
                    4: POSIX  ADVISORY  WRITE 42 08:01:77 1 1\n\
                    5: POSIX  ADVISORY  READ 0 00:1a:78 2 2\n\
                    6: POSIX  ADVISORY  READ 50 00:1a:79 2 EOF\nnonsense\n";
        let found = locked(text, "00:1a");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [(77, vec![(0, 40), (1, 41)])]);
    }

    #[test]
    fn removed_segments_are_known_by_their_names() {
        let name = SegmentName::random().unwrap();
        for path in [format!("/dev/shm/{name}"), format!("/dev/shm/{name} (deleted)")] {
            assert_eq!(segment_name(&path), Some(name.clone()));
        }
        assert_eq!(segment_name("socket:[77]"), None);
    }

    #[test]
    fn cell_bytes_are_read_as_members_read_them() {
        let directory = tempfile::tempdir().unwrap();
        let name = SegmentName::random().unwrap();
        let directory = directory.path().to_owned();
        let options = super::super::NodeOptions { directory, ..super::super::NodeOptions::new(1) };
        let segment = Node::create(&name, &options).unwrap();
        let node = Node::attach(&name, &options.directory, 0).unwrap();
        let file = Arc::clone(&node.home.segment.file);
        let layout = node.home.segment.layout;
        let other = OtherSegment { file, layout, members: vec![(0, 7), (5, 8)] };
        assert_eq!(other.pushes(), []);
        node.publish_pushes(1);
        for text in ["0-3", "8191", ""] {
            let cpus: CpuSet = text.parse().unwrap();
            node.publish_mask(&cpus).unwrap();
            assert_eq!(other.pushes(), [Push { process: 7, cpus }]);
        }
        node.publish_pushes(0);
        assert_eq!(other.pushes(), []);
        drop(segment);
    }
}
