#![allow(unsafe_code)]
//! Cross-rank memory: one mapping, a part per member, without gaps.
//!
//! Three exchanges: how much everybody wants; the first member has made the file or why not;
//! everybody has mapped it and taken the memory of its own part (on its own NUMA node) or why not.
//! The name of the file follows from the segment's secret, so that each member can remove it
//! whatever happens to the others.

use std::io;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use super::mapping::Mapping;
use super::{Channel, Exchange, Node, NodeError, SegmentName, file};

/// Memory that several members of a node share, a part from each, lying one after another in the
/// order of the members, without padding.
///
/// It stays as long as any member holds it, also after the node is gone. The whole begins at a page
/// boundary; how a part is aligned follows from the sizes of the parts before it. It begins zeroed.
///
/// Views give addresses: the members arrange, with barriers, which of them may touch which part at
/// a time.
#[derive(Debug)]
pub struct SharedMemory {
    mapping: Arc<Mapping>,
    /// The members and where their parts begin, then the end of the whole.
    parts: Vec<(usize, usize)>,
    bytes: usize,
    mine: usize,
}

/// Some of a [`SharedMemory`].
#[derive(Copy, Clone, Debug)]
pub struct MemoryView<'a> {
    start: NonNull<u8>,
    bytes: usize,
    memory: PhantomData<&'a SharedMemory>,
}

// SAFETY: a view is an address and a length; dereferencing it is unsafe.
unsafe impl Send for MemoryView<'_> {}
// SAFETY: as above.
unsafe impl Sync for MemoryView<'_> {}

impl<'a> MemoryView<'a> {
    /// The first byte.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Returns true if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The bytes, to read.
    ///
    /// # Safety
    /// No process writes to them while the result lives.
    #[must_use]
    pub unsafe fn as_slice(&self) -> &'a [u8] {
        // SAFETY: mapped as long as the memory that this borrows from; the rest is the caller's.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// The bytes, to write.
    ///
    /// # Safety
    /// Nothing else, in any process, reads or writes them while the result lives.
    #[must_use]
    pub unsafe fn as_mut_slice(&self) -> &'a mut [u8] {
        // SAFETY: as in `as_slice`.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl SharedMemory {
    /// The whole.
    #[must_use]
    pub fn all(&self) -> MemoryView<'_> {
        self.view(0, self.bytes)
    }

    /// This member's part.
    #[must_use]
    pub fn local(&self) -> MemoryView<'_> {
        self.view(self.start(self.mine), self.start(self.mine + 1))
    }

    /// A member's part; `None` when it has none here.
    #[must_use]
    pub fn of(&self, member: usize) -> Option<MemoryView<'_>> {
        self.range(member..=member)
    }

    /// The parts of consecutive members as one; `None` when the first or the last has none here.
    #[must_use]
    pub fn range(&self, members: RangeInclusive<usize>) -> Option<MemoryView<'_>> {
        let (first, last) = (self.index(*members.start())?, self.index(*members.end())?);
        (first <= last).then(|| self.view(self.start(first), self.start(last + 1)))
    }

    /// The members that have a part, ascending.
    pub fn members(&self) -> impl Iterator<Item = usize> {
        self.parts.iter().map(|&(member, _)| member)
    }

    fn index(&self, member: usize) -> Option<usize> {
        self.parts.binary_search_by_key(&member, |&(member, _)| member).ok()
    }

    fn start(&self, index: usize) -> usize {
        self.parts.get(index).map_or(self.bytes, |&(_, start)| start)
    }

    fn view(&self, start: usize, end: usize) -> MemoryView<'_> {
        // SAFETY: parts lie inside the mapping, which is `bytes` long or longer.
        let start_at = unsafe { self.mapping.base().add(start) };
        MemoryView { start: start_at, bytes: end - start, memory: PhantomData }
    }
}

/// The node or named barrier of an allocation, as the allocation needs it.
trait Meeting {
    fn member(&self) -> usize;
    fn exchange(&self, mine: &[u8]) -> Result<Exchange<'_>, NodeError>;
    /// A file's name that all members know and that is new with each exchange.
    fn file_name(&self) -> SegmentName;
    fn directory(&self) -> &std::path::Path;
}

impl Meeting for Node {
    fn member(&self) -> usize {
        self.member()
    }

    fn exchange(&self, mine: &[u8]) -> Result<Exchange<'_>, NodeError> {
        self.exchange(mine)
    }

    fn file_name(&self) -> SegmentName {
        let cursor = self.home.position();
        self.home.segment.further_name(&[0, cursor.completed, cursor.failed])
    }

    fn directory(&self) -> &std::path::Path {
        self.directory()
    }
}

impl Meeting for Channel {
    fn member(&self) -> usize {
        self.home.member
    }

    fn exchange(&self, mine: &[u8]) -> Result<Exchange<'_>, NodeError> {
        self.exchange(mine)
    }

    fn file_name(&self) -> SegmentName {
        let cursor = self.position();
        self.home.segment.further_name(&[self.key(), cursor.completed, cursor.failed])
    }

    fn directory(&self) -> &std::path::Path {
        &self.home.segment.directory
    }
}

impl Node {
    /// Memory shared by all members, `bytes` bytes from each. Collective over the node.
    ///
    /// # Errors
    /// [`NodeError::Allocation`] on all members when any of them cannot have it; otherwise as
    /// [`barrier`](Node::barrier). Nothing is left behind then.
    pub fn allocate(&self, bytes: usize) -> Result<SharedMemory, NodeError> {
        allocate(self, bytes)
    }

    /// Memory shared by some members, `bytes` bytes from each. Collective over `members`, which all
    /// give the same ascending list.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate) and [`named_barrier`](Self::named_barrier): it takes one of
    /// the node's named barriers for each list of members.
    pub fn allocate_among(
        &self,
        members: &[usize],
        bytes: usize,
    ) -> Result<SharedMemory, NodeError> {
        allocate(&self.named_barrier("shared memory", members)?, bytes)
    }
}

impl Channel {
    /// Memory shared by this barrier's members, `bytes` bytes from each. Collective over them.
    ///
    /// # Errors
    /// As [`Node::allocate`].
    pub fn allocate(&self, bytes: usize) -> Result<SharedMemory, NodeError> {
        allocate(self, bytes)
    }
}

fn allocate(meeting: &impl Meeting, bytes: usize) -> Result<SharedMemory, NodeError> {
    let wanted = meeting.exchange(&(bytes as u64).to_le_bytes())?;
    let wishes: Vec<(usize, u64)> =
        wanted.iter().map(|(member, wish)| (member, number(wish))).collect();
    drop(wanted);
    let memory = place(&wishes, meeting.member())?;
    let name = meeting.file_name();
    let result = share(meeting, memory, &name);
    // By everyone, so that it is gone even if some of them die right here.
    let _ = file::unlink(meeting.directory(), &name);
    result
}

/// A plan of the memory: no mapping yet.
struct Plan {
    parts: Vec<(usize, usize)>,
    bytes: usize,
    mine: usize,
}

/// Exact sums of the sizes before each member; the same result, or error, on all members.
fn place(wishes: &[(usize, u64)], member: usize) -> Result<Plan, NodeError> {
    let mut parts = Vec::with_capacity(wishes.len());
    let mut end = 0_u64;
    for &(member, bytes) in wishes {
        parts.push((member, end as usize));
        end = match end.checked_add(bytes) {
            Some(end) if end <= isize::MAX as u64 => end,
            _ => {
                let source = io::ErrorKind::OutOfMemory.into();
                return Err(NodeError::Allocation { member, bytes, source });
            }
        };
    }
    let mine = parts.iter().position(|&(owner, _)| owner == member);
    let mine = mine.ok_or(NodeError::Damaged { reason: "this member's wish is missing" })?;
    Ok(Plan { parts, bytes: end as usize, mine })
}

fn share(
    meeting: &impl Meeting,
    plan: Plan,
    name: &SegmentName,
) -> Result<SharedMemory, NodeError> {
    let directory = meeting.directory();
    // A mapping of nothing is not possible, memory of nothing is.
    let size = plan.bytes.max(1) as u64;
    let made = if plan.mine == 0 { make(directory, name, size) } else { Ok(()) };
    agree(meeting, size, &made)?;
    let attached = attach(directory, name, size, &plan);
    agree(meeting, size, &attached)?;
    let mapping = attached.map_err(|source| NodeError::Allocation {
        member: meeting.member(),
        bytes: size,
        source,
    })?;
    let Plan { parts, bytes, mine } = plan;
    Ok(SharedMemory { mapping, parts, bytes, mine })
}

fn make(directory: &std::path::Path, name: &SegmentName, size: u64) -> io::Result<()> {
    let file = file::create(directory, name).map_err(cause)?;
    file::resize(&file, size)
}

fn attach(
    directory: &std::path::Path,
    name: &SegmentName,
    size: u64,
    plan: &Plan,
) -> io::Result<Arc<Mapping>> {
    let file: OwnedFd = file::open(directory, name).map_err(cause)?;
    if file::verify(&file, directory, name).map_err(cause)? != size {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let start = plan.parts[plan.mine].1;
    let end = plan.parts.get(plan.mine + 1).map_or(plan.bytes, |&(_, start)| start);
    file::reserve(&file, start as u64, (end - start) as u64)?;
    let size = usize::try_from(size).map_err(|_| io::ErrorKind::OutOfMemory)?;
    Mapping::new(&file, size)
}

/// Tells the others how it went here; the first member's failure is everybody's error.
fn agree<T>(meeting: &impl Meeting, bytes: u64, result: &io::Result<T>) -> Result<(), NodeError> {
    let code = match result {
        Ok(_) => 0,
        Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
    };
    let told = meeting.exchange(&(code as u64).to_le_bytes())?;
    match told.iter().map(|(member, code)| (member, number(code))).find(|&(_, code)| code != 0) {
        None => Ok(()),
        Some((member, code)) => {
            let source = io::Error::from_raw_os_error(code as i32);
            Err(NodeError::Allocation { member, bytes, source })
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

fn cause(error: NodeError) -> io::Error {
    match error {
        NodeError::System { source, .. } => source,
        _ => io::Error::from_raw_os_error(libc::EACCES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_without_gaps() {
        let plan = place(&[(0, 3), (2, 0), (5, 4)], 5).unwrap();
        assert_eq!(plan.parts, [(0, 0), (2, 3), (5, 3)]);
        assert_eq!((plan.bytes, plan.mine), (7, 2));
    }

    #[test]
    fn sizes_that_overflow_are_refused_alike_for_all() {
        for member in [0, 1] {
            let error = place(&[(0, u64::MAX / 2), (1, 1)], member).err().unwrap();
            assert!(matches!(error, NodeError::Allocation { member: 1, .. }), "{error}");
        }
    }
}
