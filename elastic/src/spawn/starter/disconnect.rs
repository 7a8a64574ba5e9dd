//! A process that was started ends only when its launcher has seen that its connection is closed.
//!
//! A PMIx server that hears of the end of a process before it has read the end of its connection closes that without
//! letting go of the event which watches it (`_deregister_client`, the same in 4.2.2 and 5.0.0). It never looks again
//! at a connection whose descriptor has this number, so a process that is started later and gets it waits for ever in
//! its `MPI_Init`. Which of the two comes first is a matter of who runs first in the milliseconds after `MPI_Finalize`:
//! on busy processors one start in a hundred hung.
#![allow(unsafe_code)]

use std::ffi::OsString;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A launcher that has not seen it by then is stopped, or does not care.
const LIMIT: Duration = Duration::from_secs(1);

/// Connections of this host's network in which one side has closed its end and waits for the other's: see `tcp(7)` and
/// the kernel's `include/net/tcp_states.h`.
const HALF_CLOSED: [&str; 2] = ["04", "05"];

/// Processes that wait at their end, and for which others.
struct Disconnect {
    process: u32,
    servers: Vec<SocketAddr>,
}

static DISCONNECT: OnceLock<Disconnect> = OnceLock::new();

/// From now on, this process's `exit` waits until its launcher has seen that it has parted from it.
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
    // Forked children end for themselves.
    let parting = DISCONNECT.get().filter(|parting| parting.process == std::process::id());
    let Some(parting) = parting else { return };
    let limit = Instant::now() + LIMIT;
    while is_any_half_closed(&parting.servers) && Instant::now() < limit {
        // Sleeps: nobody is told when the other side closes a connection that this one has closed.
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The PMIx servers that a launcher has told this process.
fn servers(variables: impl Iterator<Item = (OsString, OsString)>) -> Vec<SocketAddr> {
    // Others may have variables that are no text.
    let texts =
        variables.filter_map(|(name, value)| name.into_string().ok().zip(value.into_string().ok()));
    let told = texts.filter(|(name, _)| name.starts_with("PMIX_SERVER_URI"));
    let mut servers: Vec<SocketAddr> = told.filter_map(|(_, uri)| address(&uri)).collect();
    servers.sort_unstable();
    servers.dedup();
    servers
}

/// Of `NAME;tcp4://ADDRESS:PORT`.
fn address(uri: &str) -> Option<SocketAddr> {
    let place = uri.rsplit_once(';')?.1;
    place.strip_prefix("tcp4://").or_else(|| place.strip_prefix("tcp6://"))?.parse().ok()
}

/// Returns true if a process of this host's network has closed a connection to one of them that it has not closed yet.
fn is_any_half_closed(servers: &[SocketAddr]) -> bool {
    let wanted: Vec<String> = servers.iter().map(as_the_kernel_writes).collect();
    let lists = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
    let texts = lists.iter().filter_map(|list| std::fs::read_to_string(list).ok());
    texts.into_iter().any(|text| text.lines().any(|line| is_half_closed(line, &wanted)))
}

/// A line is `N: LOCAL REMOTE STATE …`.
fn is_half_closed(line: &str, wanted: &[String]) -> bool {
    let mut words = line.split_ascii_whitespace().skip(2);
    let remote = words.next();
    remote.is_some_and(|remote| wanted.iter().any(|server| server == remote))
        && words.next().is_some_and(|state| HALF_CLOSED.contains(&state))
}

/// Words of 32 bits as this machine reads them, and the port.
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
            // Not every host has the newer kind.
            let Ok(listener) = TcpListener::bind(place) else { continue };
            let server = listener.local_addr().unwrap();
            let seen = || is_any_half_closed(&[server]);
            // A child that another test forks holds the connection until it executes its program.
            let wait_until = |wanted: bool| {
                let limit = Instant::now() + Duration::from_secs(60);
                while seen() != wanted {
                    assert!(Instant::now() < limit, "{server}");
                    // Sleeps: the kernel hears of an end a moment later on a busy machine.
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
