#![allow(unsafe_code)]
//! Calls on Unix sockets that the standard library lacks: the user at the other end, and connecting without a wait.

use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Pause before a socket with too many unanswered connections is tried again.
const PAUSE: Duration = Duration::from_millis(20);

/// Returns the user at the other end of a connection, as the kernel recorded it: the connecting or
/// the listening user.
pub(super) fn user(stream: &UnixStream) -> Result<u32> {
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
    if done == 0 { Ok(found.uid) } else { Err(Error::last_os_error()) }
}

/// Connects to a socket if no wait is needed.
///
/// # Errors
/// [`ConnectionRefused`](std::io::ErrorKind::ConnectionRefused): no process listens.
/// [`WouldBlock`](std::io::ErrorKind::WouldBlock): the queue of connections is full.
pub(super) fn try_connect(path: &Path) -> Result<UnixStream> {
    let path = path.as_os_str().as_bytes();
    // SAFETY: for this type all zeros are a valid value.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    // The last byte stays zero.
    let room = address.sun_path.len() - 1;
    if path.len() > room || path.contains(&0) {
        return Err(Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    for (to, from) in address.sun_path.iter_mut().zip(path) {
        *to = *from as libc::c_char;
    }
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no memory is involved.
    let descriptor = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
    if descriptor < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of a value of that size.
    let done =
        unsafe { libc::connect(socket.as_raw_fd(), std::ptr::from_ref(&address).cast(), length) };
    if done == 0 { Ok(UnixStream::from(socket)) } else { Err(Error::last_os_error()) }
}

/// Connects to a socket, and waits at most `limit` for a place in its queue of connections: a
/// stopped job accepts none.
pub(super) fn connect(path: &Path, limit: Duration) -> Result<UnixStream> {
    let end = Instant::now() + limit;
    loop {
        match try_connect(path) {
            Ok(stream) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            Err(_) if Instant::now() >= end => {
                let reason = "it does not accept connections; is the job stopped?";
                return Err(Error::new(ErrorKind::TimedOut, reason));
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::super::folder::tests::Scratch;
    use super::*;

    #[test]
    fn full_backlog_is_told_from_a_dead_listener() {
        let scratch = Scratch::new("backlog");
        let path = scratch.0.join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        // SAFETY: no memory is involved.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 1) }, 0);
        let mut waiting = Vec::new();
        let full = loop {
            match try_connect(&path) {
                Ok(stream) => waiting.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
        let given_up = connect(&path, 2 * PAUSE).unwrap_err();
        assert_eq!(given_up.kind(), ErrorKind::TimedOut, "{given_up}");
        assert_eq!(user(&waiting[0]).unwrap(), rustix::process::geteuid().as_raw());
        drop(listener);
        assert_eq!(try_connect(&path).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let long = scratch.0.join("long".repeat(40));
        assert_eq!(try_connect(&long).unwrap_err().raw_os_error(), Some(libc::ENAMETOOLONG));
    }
}
