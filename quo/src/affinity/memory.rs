//! The kernel's policies for pages, of the calling thread and of ranges of memory.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_ulong, c_void};
use std::io;
use std::ops::Range;

use rustix::param::page_size;

/// Words of a set of NUMA nodes: Linux can be built for 1,024.
const WORDS: usize = 1_024 / c_ulong::BITS as usize;
/// Bits that the kernel reads of a set; it takes one off.
const BITS: usize = 1_024 + 1;
/// `MPOL_MF_MOVE` and `MPOL_MF_STRICT` of the kernel: move pages, and fail where some cannot be moved.
const MOVE: usize = 1 << 1;
const STRICT: usize = 1 << 0;
/// Pages that the kernel is asked for at once.
const CHUNK: usize = 512;

/// The NUMA nodes from which the kernel takes pages when they are first written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryPolicy {
    /// The node of the CPU on which a page is first written: pages follow the threads.
    Follow,
    /// Only the nodes given.
    Bind,
    /// The nodes given, in turns.
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

/// A policy with its nodes, as the kernel has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KernelPolicy {
    mode: c_int,
    nodes: [c_ulong; WORDS],
}

impl KernelPolicy {
    /// Makes one over nodes by the kernel's numbers. Where pages follow the threads, nodes do not count.
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
        // SAFETY: the kernel writes a number and so many bits; no address is asked about.
        let result = unsafe {
            libc::syscall(
                libc::SYS_get_mempolicy,
                &raw mut found.mode,
                found.nodes.as_mut_ptr(),
                BITS - 1,
                std::ptr::null::<c_void>(),
                0_usize,
            )
        };
        done(result).map(|()| found)
    }

    /// Gives the policy to the calling thread; threads that it starts have it, too.
    pub(crate) fn set_for_thread(&self) -> io::Result<()> {
        let (nodes, bits) = self.set();
        // SAFETY: the kernel reads so many bits, or none.
        done(unsafe { libc::syscall(libc::SYS_set_mempolicy, self.mode, nodes, bits) })
    }

    /// Gives the policy to all pages that hold some of the addresses, and moves those that there are.
    pub(crate) fn set_for(&self, addresses: &Range<usize>) -> io::Result<()> {
        let pages = pages(addresses);
        if pages.is_empty() {
            return Ok(());
        }
        let (nodes, bits) = self.set();
        let flags = MOVE | STRICT;
        let length = pages.len();
        // SAFETY: contents stay as they are, wherever the pages are; the kernel reads so many bits, or none.
        done(unsafe {
            libc::syscall(libc::SYS_mbind, pages.start, length, self.mode, nodes, bits, flags)
        })
    }

    /// The kernel's words; it wants none where there is no node.
    fn set(&self) -> (*const c_ulong, usize) {
        if self.nodes.iter().all(|word| *word == 0) {
            return (std::ptr::null(), 0);
        }
        (self.nodes.as_ptr(), BITS)
    }
}

/// Calls `tell` with the kernel's number of the node of each page, none for one that is nowhere, and the number of its
/// bytes that are among the addresses.
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
        // SAFETY: as many addresses and numbers as told; without a list of nodes nothing is moved.
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

/// All pages that hold some of the addresses.
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
