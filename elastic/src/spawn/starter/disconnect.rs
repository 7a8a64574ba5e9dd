//! Delays the exit of a spawned process until its launcher has seen its connection closed.
//!
//! A PMIx server that learns of a process's end before it has read the end of its connection closes
//! the connection without removing its event (`_deregister_client`, the same in 4.2.2 and 5.0.0).
//! It then never looks at a later connection that gets the same descriptor number, so a process
//! spawned later waits forever in `MPI_Init`. Scheduling in the milliseconds after `MPI_Finalize`
//! decides the order: on busy processors one spawn in a hundred hung.
#![allow(unsafe_code)]

use std::ffi::OsString;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Limit of the wait, for a launcher that is stopped or does not close its side.
const LIMIT: Duration = Duration::from_secs(1);

/// States of connections that one side has closed and the other has not, in this host's network:
/// see `tcp(7)` and the kernel's `include/net/tcp_states.h`.
const HALF_CLOSED: [&str; 2] = ["04", "05"];

/// The process that waits at exit, and the servers it waits for.
struct Disconnect {
    process: u32,
    servers: Vec<SocketAddr>,
}

static DISCONNECT: OnceLock<Disconnect> = OnceLock::new();

/// Makes this process's `exit` wait until its launcher has seen the disconnect.
pub(super) fn be_seen_at_exit() {
    let servers = servers(std::env::vars_os());
    if servers.is_empty() {
        return;
    }
    let mut is_new = false;
    DISCONNECT.get_or_init(|| {
        is_new = true;
        Disconnect { process: std::process::id(), servers }
    });
    if is_new {
        // SAFETY: the function never unwinds and needs nothing that `exit` has taken down before.
        // Where it cannot be registered, the process ends as it would have without.
        unsafe { libc::atexit(wait_at_exit) };
    }
}

extern "C" fn wait_at_exit() {
    // A forked child has a different process number and exits at once.
    let parting = DISCONNECT.get().filter(|parting| parting.process == std::process::id());
    let Some(parting) = parting else { return };
    let limit = Instant::now() + LIMIT;
    while is_any_half_closed(&parting.servers) && Instant::now() < limit {
        // Sleeps: no event reports that the peer closes a connection that this side has closed.
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the PMIx servers named in this process's environment.
fn servers(variables: impl Iterator<Item = (OsString, OsString)>) -> Vec<SocketAddr> {
    // The environment may contain variables that are not UTF-8.
    let texts =
        variables.filter_map(|(name, value)| name.into_string().ok().zip(value.into_string().ok()));
    let told = texts.filter(|(name, _)| name.starts_with("PMIX_SERVER_URI"));
    let mut servers: Vec<SocketAddr> = told.filter_map(|(_, uri)| address(&uri)).collect();
    servers.sort_unstable();
    servers.dedup();
    servers
}

/// Parses the address in `NAME;tcp4://ADDRESS:PORT`.
fn address(uri: &str) -> Option<SocketAddr> {
    let place = uri.rsplit_once(';')?.1;
    place.strip_prefix("tcp4://").or_else(|| place.strip_prefix("tcp6://"))?.parse().ok()
}

/// Returns true if a process in this host's network has closed a connection to one of the servers
/// and the server has not.
fn is_any_half_closed(servers: &[SocketAddr]) -> bool {
    let wanted: Vec<String> = servers.iter().map(as_the_kernel_writes).collect();
    let lists = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
    let texts = lists.iter().filter_map(|list| std::fs::read_to_string(list).ok());
    texts.into_iter().any(|text| text.lines().any(|line| is_half_closed(line, &wanted)))
}

/// Parses a line `N: LOCAL REMOTE STATE …`.
fn is_half_closed(line: &str, wanted: &[String]) -> bool {
    let mut words = line.split_ascii_whitespace().skip(2);
    let remote = words.next();
    remote.is_some_and(|remote| wanted.iter().any(|server| server == remote))
        && words.next().is_some_and(|state| HALF_CLOSED.contains(&state))
}

/// Formats an address as the kernel does: 32-bit words in native byte order, and the port.
fn as_the_kernel_writes(server: &SocketAddr) -> String {
    let word = |bytes: &[u8]| {
        format!("{:08X}", bytes.try_into().map_or(0, |four: [u8; 4]| u32::from_ne_bytes(four)))
    };
    let host: String = match server {
        SocketAddr::V4(server) => word(&server.ip().octets()),
        SocketAddr::V6(server) => server.ip().octets().chunks(4).map(word).collect(),
    };
    format!("{host}:{:04X}", server.port())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn servers_are_read_from_what_launchers_say() {
        let variable = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
        let no_text = || OsString::from_vec(vec![0xe9]);
        let told = [
            variable("PMIX_SERVER_URI41", "1711407104.0;tcp4://127.0.0.1:38839"),
            variable("PMIX_SERVER_URI2", "1711407104.0;tcp4://127.0.0.1:38839"),
            variable("PMIX_SERVER_URI4", "prterun-vm-2823@0.0;tcp6://[::1]:45787"),
            variable("PMIX_SERVER_URI21", "somewhere.0;usock:/tmp/pmix"),
            variable("PMIX_SERVER_URI3", "tcp4://127.0.0.1:1"),
            variable("OTHER", "1.0;tcp4://127.0.0.1:2"),
            (no_text(), OsString::from("1.0;tcp4://127.0.0.1:3")),
            (OsString::from("PMIX_SERVER_URI5"), no_text()),
        ];
        let right: Vec<SocketAddr> =
            ["127.0.0.1:38839", "[::1]:45787"].map(|place| place.parse().unwrap()).into();
        assert_eq!(servers(told.into_iter()), right);
    }

    #[test]
    fn connection_is_half_closed_until_both_sides_close() {
        for place in ["127.0.0.1:0", "[::1]:0"] {
            // Not every host has IPv6.
            let Ok(listener) = TcpListener::bind(place) else { continue };
            let server = listener.local_addr().unwrap();
            let seen = || is_any_half_closed(&[server]);
            // A child forked by another test holds the connection until its exec.
            let wait_until = |wanted: bool| {
                let limit = Instant::now() + Duration::from_secs(60);
                while seen() != wanted {
                    assert!(Instant::now() < limit, "{server}");
                    // Sleeps: on a busy machine the kernel processes the close a moment later.
                    std::thread::sleep(Duration::from_millis(1));
                }
            };
            let client = TcpStream::connect(server).unwrap();
            let (mut other, _) = listener.accept().unwrap();
            assert!(!seen(), "{server}");
            drop(client);
            wait_until(true);
            let mut rest = Vec::new();
            other.read_to_end(&mut rest).unwrap();
            drop(other);
            wait_until(false);
        }
    }
}
