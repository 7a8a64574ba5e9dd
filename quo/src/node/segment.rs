//! Creating, attaching to and removing a segment.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::exchange::Board;
use super::fork::ForkId;
use super::layout::{
    BarrierCell, BoardShape, CHANNEL_ROOM, ChannelCell, DecisionCell, HEADER_BYTES, Layout,
    MaskCell, PthreadCell, Slot, member_words,
};
use super::liveness::LockedFile;
use super::mapping::{Mapping, Shared, ShmSafe};
use super::status::Status;
use super::{Node, NodeError, NodeOptions, SegmentName, WaitKind, file, pthread};

/// Byte whose lock shows that the creator is alive. Members lock the bytes below.
const CREATOR_BYTE: u64 = 1 << 20;

/// A mapped segment.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) name: SegmentName,
    pub(super) directory: PathBuf,
    pub(super) file: Arc<LockedFile>,
    pub(super) layout: Layout,
    pub(super) barrier: Shared<BarrierCell>,
    pub(super) pthread: Shared<PthreadCell>,
    pub(super) decision: Shared<DecisionCell>,
    pub(super) slots: Shared<Slot>,
    pub(super) expelled_at: Shared<AtomicU32>,
    pub(super) masks: Shared<MaskCell>,
    pub(super) claims: Shared<MaskCell>,
    pub(super) limit: Shared<MaskCell>,
    pub(super) board: Board,
    pub(super) payload: Shared<u8>,
    mapping: Arc<Mapping>,
}

/// Parts of one named barrier.
#[derive(Debug)]
pub(super) struct ChannelParts {
    pub(super) cell: Shared<ChannelCell>,
    pub(super) members: Shared<AtomicU64>,
    pub(super) expelled_at: Shared<AtomicU32>,
    pub(super) board: Board,
}

impl Segment {
    fn map(
        file: Arc<LockedFile>,
        layout: Layout,
        directory: &Path,
        name: &SegmentName,
    ) -> Result<Self, NodeError> {
        let mapping = Mapping::new(file.descriptor(), layout.total).map_err(|error| {
            NodeError::system("mmap", directory.join(name.to_string()).display().to_string(), error)
        })?;
        let shape = BoardShape { room: layout.room, capacity: layout.capacity };
        Ok(Self {
            barrier: view(&mapping, layout.barrier, 1)?,
            pthread: view(&mapping, layout.pthread, 1)?,
            decision: view(&mapping, layout.decision, 1)?,
            slots: view(&mapping, layout.slots, layout.capacity)?,
            expelled_at: view(&mapping, layout.expelled_at, layout.capacity)?,
            masks: view(&mapping, layout.masks, layout.capacity)?,
            claims: view(&mapping, layout.claims(), layout.capacity)?,
            limit: view(&mapping, layout.limit(), 1)?,
            board: Board::new(&mapping, layout.exchange, shape)?,
            payload: view(&mapping, layout.payload, layout.payload_bytes)?,
            name: name.clone(),
            directory: directory.to_owned(),
            file,
            layout,
            mapping,
        })
    }

    /// Maps the parts of a named barrier.
    pub(super) fn channel(&self, index: usize) -> Result<ChannelParts, NodeError> {
        let places = self.layout.channel(index);
        let capacity = self.layout.capacity;
        let shape = BoardShape { room: CHANNEL_ROOM, capacity };
        Ok(ChannelParts {
            cell: view(&self.mapping, places.cell, 1)?,
            members: view(&self.mapping, places.members, member_words(capacity))?,
            expelled_at: view(&self.mapping, places.expelled_at, capacity)?,
            board: Board::new(&self.mapping, places.exchange, shape)?,
        })
    }

    fn open(directory: &Path, name: &SegmentName) -> Result<Self, NodeError> {
        let path = directory.join(name.to_string());
        let system = |call| {
            let object = path.display().to_string();
            move |error| NodeError::system(call, object, error)
        };
        // Kept before any failure: closing it again could drop locks that this process has.
        let file = LockedFile::keep(file::open(directory, name)?).map_err(system("fstat"))?;
        let size = file::verify(file.descriptor(), directory, name)?;
        let refuse = |reason: String| NodeError::Refused { path: path.clone(), reason };
        let mut header = [0; HEADER_BYTES];
        if !file::read_at(file.descriptor(), &mut header, 0).map_err(system("pread"))? {
            return Err(refuse("it is too short".to_owned()));
        }
        let layout = Layout::read(&header, size).map_err(refuse)?;
        Self::map(file, layout, directory, name)
    }

    fn create(
        name: &SegmentName,
        layout: Layout,
        directory: &Path,
        payload: &[u8],
    ) -> Result<Self, NodeError> {
        let path = directory.join(name.to_string()).display().to_string();
        let system = |call| {
            let path = path.clone();
            move |error: std::io::Error| NodeError::system(call, path, error)
        };
        let file = LockedFile::keep(file::create(directory, name)?).map_err(system("fstat"))?;
        file.lock(CREATOR_BYTE).map_err(system("fcntl"))?;
        let bytes = layout.total as u64;
        file::reserve(file.descriptor(), 0, bytes).map_err(|source| match source.kind() {
            std::io::ErrorKind::StorageFull
            | std::io::ErrorKind::QuotaExceeded
            | std::io::ErrorKind::FileTooLarge => {
                NodeError::NoRoom { directory: directory.to_owned(), bytes, source }
            }
            _ => NodeError::system("fallocate", path.clone(), source),
        })?;
        let write = |bytes: &[u8], place: usize| {
            file::write_at(file.descriptor(), bytes, place as u64).map_err(system("pwrite"))
        };
        write(payload, layout.payload)?;
        write(&layout.header_bytes(), 0)?;
        let segment = Self::map(Arc::clone(&file), layout, directory, name)?;
        for slot in segment.slots.iter().take(layout.members) {
            slot.status.store(Status::Awaited as u32, Ordering::Relaxed);
        }
        segment.barrier[0].state.open(layout.members as u64);
        if layout.wait == WaitKind::Pthread {
            pthread::prepare(&segment.pthread[0], layout.members)?;
        }
        Ok(segment)
    }

    /// Returns the name of a further file, one for each `key`; only members can derive it.
    pub(super) fn further_name(&self, key: &[u64]) -> SegmentName {
        SegmentName::from_secret(self.layout.secret).derive(key)
    }

    /// Returns true if a member may be marked dead; false saves the search.
    pub(super) fn has_deaths(&self) -> bool {
        let rounds = &self.barrier[0].rounds;
        rounds.deaths.load(Ordering::Acquire) != rounds.burials.load(Ordering::Acquire)
    }

    /// Marks a dead member as expelled, unless another process has.
    pub(super) fn mark_expelled(&self, member: usize) {
        if self.slots[member].change(Status::Dead, Status::Expelled) {
            self.barrier[0].rounds.burials.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Returns true if a present member's process is alive; `None` if the kernel cannot tell.
    fn lives(&self, member: usize) -> Option<bool> {
        self.file.is_locked(member as u64).ok()
    }

    /// Tests a present member and marks it dead if it is. Returns true if it is marked dead now.
    pub(super) fn note_if_dead(&self, member: usize) -> bool {
        let Some(slot) = self.slots.get(member) else { return false };
        // A member takes its lock before it becomes present, and stops being present before it
        // releases the lock. So present without the lock is dead.
        if slot.status() == Some(Status::Present) && self.lives(member) == Some(false) {
            // Counted before it is marked, and uncounted if another process has marked it.
            let rounds = &self.barrier[0].rounds;
            rounds.deaths.fetch_add(1, Ordering::AcqRel);
            if !slot.change(Status::Present, Status::Dead) {
                rounds.burials.fetch_add(1, Ordering::AcqRel);
            }
        }
        slot.status() == Some(Status::Dead)
    }
}

fn view<T: ShmSafe>(
    mapping: &Arc<Mapping>,
    offset: usize,
    count: usize,
) -> Result<Shared<T>, NodeError> {
    Shared::new(mapping, offset, count)
        .ok_or(NodeError::Damaged { reason: "a part lies outside the segment" })
}

/// Segment that this process has created, before and while other processes attach.
///
/// Dropping it removes the name if [`unlink`](Self::unlink) did not. Members that are attached
/// are not affected by either.
#[derive(Debug)]
pub struct CreatedSegment {
    segment: Segment,
    process: ForkId,
}

impl CreatedSegment {
    /// Returns the segment's name, to be sent to the other members.
    #[must_use]
    pub fn name(&self) -> &SegmentName {
        &self.segment.name
    }

    /// Returns the directory of the segment, to be sent to the other members.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.segment.directory
    }

    /// Returns the size of the segment in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.segment.layout.total
    }

    /// Removes the name. Call it when all members are attached; from then on no file is left
    /// behind, whatever happens. Safe to call again. Local; for the creator only: in a forked child
    /// it does nothing.
    ///
    /// # Errors
    /// [`NodeError::System`] when the name cannot be removed.
    pub fn unlink(&self) -> Result<(), NodeError> {
        if self.process != ForkId::current() {
            return Ok(());
        }
        file::unlink(&self.segment.directory, &self.segment.name)
    }
}

impl Drop for CreatedSegment {
    fn drop(&mut self) {
        let _ = self.unlink();
        let _ = self.segment.file.unlock(CREATOR_BYTE);
    }
}

impl Node {
    /// Creates a segment. Local; for one process of the node, which then sends the name to the
    /// others.
    ///
    /// The file is created with mode 0600 under a new name, and all its memory is allocated at
    /// once: a full directory is an error here and never a fatal signal later.
    ///
    /// # Errors
    /// [`NodeError::InvalidOption`] for options out of range, [`NodeError::NoRoom`] if the
    /// directory is full, [`NodeError::UnsafeDirectory`] for one in which others could replace the
    /// file, [`NodeError::System`] for anything else the kernel refuses. No file is left behind
    /// after an error.
    pub fn create(
        name: &SegmentName,
        options: &NodeOptions<'_>,
    ) -> Result<CreatedSegment, NodeError> {
        let layout = Layout::new(
            options.members,
            options.capacity,
            options.exchange_bytes,
            options.payload.len(),
            options.wait,
        )?;
        // A second secret: anyone who can list the directory can read the digits of the name.
        let layout = Layout { secret: *SegmentName::random()?.secret(), ..layout };
        match Segment::create(name, layout, &options.directory, options.payload) {
            Ok(segment) => Ok(CreatedSegment { segment, process: ForkId::current() }),
            // A file that existed before is not ours to remove.
            Err(
                error
                @ (NodeError::System { call: "open", .. } | NodeError::UnsafeDirectory { .. }),
            ) => Err(error),
            Err(error) => {
                let _ = file::unlink(&options.directory, name);
                Err(error)
            }
        }
    }

    /// Removes the name of a segment whose creator may have died. Local; for any process that knows
    /// the name, once all processes that could attach have attached or given up. Never fails: a
    /// name that does not exist is the wanted result.
    pub fn unlink(name: &SegmentName, directory: &Path) {
        let _ = file::unlink(directory, name);
    }

    /// Attaches to a segment as a member. Local; each member calls it once, with its own number.
    ///
    /// A member below the number given at creation was counted from the start. Attaching with a
    /// higher number, or again after a member left or was expelled, makes the node one larger from
    /// the current barrier on.
    ///
    /// # Errors
    /// [`NodeError::Refused`] for a file that is not an intact segment of this user and this layout
    /// version; [`NodeError::UnsafeDirectory`]; [`NodeError::NoSuchMember`] and
    /// [`NodeError::MemberTaken`] for a wrong number; [`NodeError::System`] if the kernel refuses,
    /// for example because the name does not exist.
    pub fn attach(
        name: &SegmentName,
        directory: impl AsRef<Path>,
        member: usize,
    ) -> Result<Self, NodeError> {
        Self::join(Segment::open(directory.as_ref(), name)?, member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_further_files_do_not_follow_from_the_name() {
        let name = SegmentName::random().unwrap();
        let directories = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [one, other] = directories.each_ref().map(|directory| {
            let directory = directory.path().to_owned();
            Node::create(&name, &NodeOptions { directory, ..NodeOptions::new(1) }).unwrap()
        });
        let member = Segment::open(directories[0].path(), &name).unwrap();
        let key = [0, 1, 2];
        assert_eq!(member.further_name(&key), one.segment.further_name(&key));
        assert_ne!(one.segment.further_name(&key), other.segment.further_name(&key));
        assert_ne!(one.segment.further_name(&key), name.derive(&key));
    }
}
