//! Kernel memory policies of the calling thread and of address ranges.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_ulong, c_void};
use std::io;
use std::ops::Range;

use rustix::param::page_size;

/// Words of a set of NUMA nodes: Linux can be built for 1,024.
const WORDS: usize = 1_024 / c_ulong::BITS as usize;
/// Number of bits passed to the kernel, which reads one less.
const BITS: usize = 1_024 + 1;
/// `MPOL_MF_MOVE` and `MPOL_MF_STRICT` of the kernel: move pages, and fail if some cannot be moved.
const MOVE: usize = 2;
const STRICT: usize = 1;
/// Number of pages per query to the kernel.
const CHUNK: usize = 512;

/// NUMA nodes on which the kernel allocates pages when they are first written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryPolicy {
    /// The node of the CPU on which a page is first written: pages follow the threads.
    Follow,
    /// Only the given nodes.
    Bind,
    /// The given nodes in turn.
    Interleave,
}

impl MemoryPolicy {
    fn mode(self) -> c_int {
        match self {
            Self::Follow => libc::MPOL_LOCAL,
            Self::Bind => libc::MPOL_BIND,
            Self::Interleave => libc::MPOL_INTERLEAVE,
        }
    }
}

/// A policy with its nodes, in the kernel's form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KernelPolicy {
    mode: c_int,
    nodes: [c_ulong; WORDS],
}

impl KernelPolicy {
    /// Creates a policy over nodes by the kernel's numbers. The nodes are ignored if pages follow
    /// the threads.
    pub(crate) fn new(policy: MemoryPolicy, numbers: &[usize]) -> Self {
        let mut nodes = [0; WORDS];
        let counted = if policy == MemoryPolicy::Follow { &[] } else { numbers };
        for number in counted.iter().filter(|number| **number < BITS - 1) {
            nodes[number / c_ulong::BITS as usize] |= 1 << (number % c_ulong::BITS as usize);
        }
        Self { mode: policy.mode(), nodes }
    }

    /// Reads the policy of the calling thread.
    pub(crate) fn of_thread() -> io::Result<Self> {
        let mut found = Self { mode: 0, nodes: [0; WORDS] };
        // SAFETY: the kernel writes a number and `BITS` bits; no address is passed.
        let result = unsafe {
            libc::syscall(
                libc::SYS_get_mempolicy,
                &raw mut found.mode,
                found.nodes.as_mut_ptr(),
                BITS,
                std::ptr::null::<c_void>(),
                0_usize,
            )
        };
        done(result).map(|()| found)
    }

    /// Sets the policy of the calling thread; threads that it starts inherit it.
    pub(crate) fn set_for_thread(&self) -> io::Result<()> {
        // SAFETY: the kernel reads `BITS` bits.
        done(unsafe {
            libc::syscall(libc::SYS_set_mempolicy, self.mode, self.nodes.as_ptr(), BITS)
        })
    }

    /// Sets the policy of all pages that contain some of the addresses, and moves the existing
    /// ones.
    pub(crate) fn set_for(&self, addresses: &Range<usize>) -> io::Result<()> {
        let pages = pages(addresses);
        if pages.is_empty() {
            return Ok(());
        }
        let (start, length, nodes) = (pages.start, pages.len(), self.nodes.as_ptr());
        // SAFETY: moving pages keeps their contents; the kernel reads `BITS` bits.
        done(unsafe {
            libc::syscall(libc::SYS_mbind, start, length, self.mode, nodes, BITS, MOVE | STRICT)
        })
    }
}

/// Calls `tell` for each page with the kernel's number of its node, `None` without a node, and the
/// number of its bytes that are among the addresses.
pub(crate) fn locate(
    inside: &Range<usize>,
    mut tell: impl FnMut(Option<usize>, usize),
) -> io::Result<()> {
    let (pages, size) = (pages(inside), page_size());
    let mut at = pages.start;
    while at < pages.end {
        let count = CHUNK.min((pages.end - at) / size);
        let places: Vec<usize> = (0..count).map(|page| at + page * size).collect();
        let mut nodes = vec![0_i32; count];
        // SAFETY: the arrays have `count` entries; without a list of nodes nothing is moved.
        done(unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                0,
                count,
                places.as_ptr(),
                std::ptr::null::<c_int>(),
                nodes.as_mut_ptr(),
                0,
            )
        })?;
        for (page, node) in places.iter().zip(nodes) {
            let part = (page + size).min(inside.end) - inside.start.max(*page);
            tell(usize::try_from(node).ok(), part);
        }
        at += count * size;
    }
    Ok(())
}

/// Returns the pages that contain some of the addresses.
fn pages(inside: &Range<usize>) -> Range<usize> {
    let size = page_size();
    if inside.is_empty() {
        return 0..0;
    }
    inside.start / size * size..inside.end.next_multiple_of(size)
}

fn done(result: libc::c_long) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_of_thread_is_set_read_and_put_back() {
        let before = KernelPolicy::of_thread().unwrap();
        let interleaved = KernelPolicy::new(MemoryPolicy::Interleave, &[0]);
        interleaved.set_for_thread().unwrap();
        assert_eq!(KernelPolicy::of_thread().unwrap(), interleaved);
        before.set_for_thread().unwrap();
        assert_eq!(KernelPolicy::of_thread().unwrap(), before);
        let error = KernelPolicy::new(MemoryPolicy::Bind, &[1_000]).set_for_thread().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn policy_of_a_range_is_set_without_nodes_or_refused() {
        let memory = vec![1_u8; 3 * page_size()];
        let bytes = memory.as_ptr_range();
        let range = bytes.start as usize..bytes.end as usize;
        for policy in [MemoryPolicy::Bind, MemoryPolicy::Interleave, MemoryPolicy::Follow] {
            KernelPolicy::new(policy, &[0]).set_for(&range).unwrap();
        }
        let nowhere = KernelPolicy::new(MemoryPolicy::Bind, &[1_000]);
        assert_eq!(nowhere.set_for(&range).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        nowhere.set_for(&(range.start..range.start)).unwrap();
    }

    #[test]
    fn pages_beyond_one_call_are_all_told() {
        let memory = vec![1_u8; (2 * CHUNK + 1) * page_size()];
        let bytes = memory.as_ptr_range();
        let (mut sum, mut calls) = (0, 0);
        locate(&(bytes.start as usize..bytes.end as usize), |_, part| {
            sum += part;
            calls += 1;
        })
        .unwrap();
        let is_between = !(bytes.start as usize).is_multiple_of(page_size());
        assert_eq!((sum, calls), (memory.len(), 2 * CHUNK + 1 + usize::from(is_between)));
    }

    #[test]
    fn node_with_a_number_beyond_the_set_does_not_count() {
        let bind = |numbers: &[usize]| KernelPolicy::new(MemoryPolicy::Bind, numbers);
        assert_ne!(bind(&[1_023]), bind(&[]));
        assert_eq!(bind(&[1_024]), bind(&[]));
    }

    #[test]
    fn parts_of_pages_add_up_to_the_bytes() {
        let memory = vec![1_u8; 5 * page_size() + 77];
        for range in [0..0, 3..4, 1..memory.len(), 0..CHUNK.min(memory.len())] {
            let (mut sum, bytes) = (0, memory[range].as_ptr_range());
            let inside = bytes.start as usize..bytes.end as usize;
            locate(&inside, |node, part| {
                assert_eq!(node, Some(0));
                sum += part;
            })
            .unwrap();
            assert_eq!(sum, inside.len());
        }
    }
}
