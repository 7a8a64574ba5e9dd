#![allow(unsafe_code)]
//! Who is at the other end of a socket.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// The user that connected, as the kernel noted it then.
pub(super) fn user(stream: &UnixStream) -> std::io::Result<u32> {
    let mut found = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the descriptor is open; the kernel writes at most `length` bytes into a value of that size.
    let done = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            std::ptr::from_mut(&mut found).cast(),
            &raw mut length,
        )
    };
    if done == 0 { Ok(found.uid) } else { Err(std::io::Error::last_os_error()) }
}
