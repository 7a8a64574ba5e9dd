#![allow(unsafe_code)]
//! Cross-rank memory: one mapping, a part per member, without gaps.
//!
//! There are three exchanges: the bytes that each member wants; whether the first member has
//! created the file; whether each member has mapped it and allocated the memory of its own part (on
//! its own NUMA node). The name of the file is derived from the segment's secret, so that each
//! member can remove it whatever happens to the others.

use std::io;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use super::mapping::Mapping;
use super::{Channel, Exchange, Node, NodeError, SegmentName, file};

/// Memory shared by several members of a node: one part per member, in the order of the members,
/// without padding.
///
/// The memory exists as long as any member holds it, even after the node is gone. It starts at a
/// page boundary; the alignment of a part follows from the sizes of the parts before it. It is
/// zeroed at first.
///
/// Views give addresses: the members coordinate, with barriers, which member may touch which part
/// at a time.
#[derive(Debug)]
pub struct SharedMemory {
    mapping: Arc<Mapping>,
    /// The members and the start offsets of their parts.
    parts: Vec<(usize, usize)>,
    bytes: usize,
    mine: usize,
}

/// A range of a [`SharedMemory`].
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
    /// Returns the address of the first byte.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Returns true if the view has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Returns the bytes for reading.
    ///
    /// # Safety
    /// No process may write to them while the result lives.
    #[must_use]
    pub unsafe fn as_slice(&self) -> &'a [u8] {
        // SAFETY: mapped as long as the memory that this borrows from; the rest is the caller's.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// Returns the bytes for writing.
    ///
    /// # Safety
    /// Nothing else, in any process, may read or write them while the result lives.
    #[must_use]
    pub unsafe fn as_mut_slice(&self) -> &'a mut [u8] {
        // SAFETY: as in `as_slice`.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl SharedMemory {
    /// Returns a view of all parts.
    #[must_use]
    pub fn all(&self) -> MemoryView<'_> {
        self.view(0, self.bytes)
    }

    /// Returns this member's part.
    #[must_use]
    pub fn local(&self) -> MemoryView<'_> {
        self.view(self.start(self.mine), self.start(self.mine + 1))
    }

    /// Returns a member's part; `None` if it has none here.
    #[must_use]
    pub fn of(&self, member: usize) -> Option<MemoryView<'_>> {
        self.range(member..=member)
    }

    /// Returns the parts of consecutive members as one view; `None` if the first or the last has
    /// none here.
    #[must_use]
    pub fn range(&self, members: RangeInclusive<usize>) -> Option<MemoryView<'_>> {
        let (first, last) = (self.index(*members.start())?, self.index(*members.end())?);
        (first <= last).then(|| self.view(self.start(first), self.start(last + 1)))
    }

    /// Returns the members that have a part, in ascending order.
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

/// Operations of a node or named barrier that an allocation needs.
trait Meeting {
    fn member(&self) -> usize;
    fn exchange(&self, mine: &[u8]) -> Result<Exchange<'_>, NodeError>;
    /// Returns a file name that all members can derive and that changes with each exchange.
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
    /// Allocates memory shared by all members, `bytes` bytes from each. Collective over the node.
    ///
    /// # Errors
    /// [`NodeError::Allocation`] on all members if the allocation fails on any member; otherwise as
    /// [`barrier`](Node::barrier). No file is left behind after an error.
    pub fn allocate(&self, bytes: usize) -> Result<SharedMemory, NodeError> {
        allocate(self, bytes)
    }

    /// Allocates memory shared by some members, `bytes` bytes from each. Collective over `members`;
    /// all of them pass the same ascending list.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate) and [`named_barrier`](Self::named_barrier): it uses one of
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
    /// Allocates memory shared by this barrier's members, `bytes` bytes from each. Collective over
    /// them.
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
    // By every member, so that the file is gone even if some of them die right here.
    let _ = file::unlink(meeting.directory(), &name);
    result
}

/// Layout of the memory, before it is mapped.
struct Plan {
    parts: Vec<(usize, usize)>,
    bytes: usize,
    mine: usize,
}

/// Computes the exclusive prefix sums of the sizes; the same result, or error, on all members.
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
    // A mapping of no bytes is impossible; memory of no bytes is allowed.
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

/// Exchanges the result of this member; the first member's failure is the error of all members.
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
