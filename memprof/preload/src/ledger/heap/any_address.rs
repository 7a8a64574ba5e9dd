//! Reads of tags at addresses that may not be those of a block, or may not be mapped.

#![allow(unsafe_code)]

use super::{large, next_allocator, tag};

/// Returns true if a small block of the ledger begins at an address that may be anything, even
/// unmapped. The read goes through the kernel, so that a missing page causes no fault.
pub fn seems_a_block(address: usize) -> bool {
    let Some(header) = read_anywhere(address.wrapping_sub(8)) else { return false };
    let usable = (header as usize & !7).wrapping_sub(8);
    // Small blocks never have a separate mapping.
    if header & 2 != 0 || !(tag::SIZE..=4 * large::FROM).contains(&usable) {
        return false;
    }
    let Some(word) = read_anywhere(address + usable - tag::SIZE) else { return false };
    tag::decode(address, usable, word, next_allocator::key()).is_some()
}

/// Returns the usable bytes of a block without the tag. The block may be of the program's own
/// allocator, so `usable` may be any number.
pub fn without_tag(block: *const u8, usable: usize) -> usize {
    let tagged = usable >= tag::SIZE
        && read_anywhere((block as usize).wrapping_add(usable - tag::SIZE)).is_some_and(|word| {
            tag::decode(block as usize, usable, word, next_allocator::key()).is_some()
        });
    if tagged { usable - tag::SIZE } else { usable }
}

fn read_anywhere(address: usize) -> Option<u64> {
    let mut word = 0_u64;
    let ours = libc::iovec { iov_base: (&raw mut word).cast(), iov_len: 8 };
    let theirs = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: 8 };
    // SAFETY: the kernel writes at most eight bytes into the word; errors are caused by the tool,
    // so the program's error number is restored.
    let got = unsafe {
        let error = *libc::__errno_location();
        let got =
            libc::process_vm_readv(libc::getpid(), &raw const ours, 1, &raw const theirs, 1, 0);
        *libc::__errno_location() = error;
        got
    };
    (got == 8).then_some(word)
}
