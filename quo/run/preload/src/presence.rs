//! Presence of ranks: a rank that will take part announces itself before its program starts, so
//! that the others do not wait for a rank whose program does not load the object.
//!
//! The mark is a socket without a file (an abstract address), which disappears with its process,
//! however that ends.

use std::fs;
use std::hash::Hasher;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;

use crate::job::Place;

/// Folder in which ranks meet.
pub const DIRECTORY: &str = "/dev/shm";

/// Open while the process runs: others may check late.
static MARK: OnceLock<UnixDatagram> = OnceLock::new();

/// Announces that this rank will take part.
pub fn announce(place: &Place) {
    if std::env::var_os("QUO_TOPOLOGY").is_some() {
        return; // The rank simulates a machine and lends nothing.
    }
    // All ranks, including this one, treat a rank without a mark as absent.
    if let Ok(mark) = mark(place, place.rank) {
        let _ = MARK.set(mark);
    }
}

fn mark(place: &Place, rank: usize) -> io::Result<UnixDatagram> {
    UnixDatagram::bind_addr(&address(place, rank)?)
}

/// Returns the ranks of the node that have not announced themselves, including this one if its mark
/// could not be made or is closed. Reliable once MPI is initialised, which waits until all ranks
/// run.
pub fn absent(place: &Place) -> io::Result<Vec<usize>> {
    let asking = UnixDatagram::unbound()?;
    let mut absent = Vec::new();
    for rank in 0..place.size {
        match asking.connect_addr(&address(place, rank)?) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => absent.push(rank),
            Err(error) => return Err(error),
        }
    }
    Ok(absent)
}

/// Returns a text that names the absent ranks and possible causes. Pure.
pub fn reason(absent: &[usize]) -> String {
    const SHOWN: usize = 8;
    let numbers: Vec<String> = absent.iter().take(SHOWN).map(usize::to_string).collect();
    let more = if absent.len() > SHOWN { ", ..." } else { "" };
    format!(
        "rank {}{more} of the node does not take part: its program does not load the object of quo-run (static \
         programs), has MPI linked into it, loads MPI later (Python), or closes files that are not its own; or the rank \
         has another {DIRECTORY}, or QUO_TOPOLOGY set",
        numbers.join(", ")
    )
}

/// Returns the address of a rank's mark, which differs between ranks with different folders of
/// shared memory. Other users can list addresses: the secret is not in them.
fn address(place: &Place, rank: usize) -> io::Result<SocketAddr> {
    address_by(place, rank, &fs::metadata(DIRECTORY)?)
}

fn address_by(place: &Place, rank: usize, directory: &fs::Metadata) -> io::Result<SocketAddr> {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(place.secret.as_bytes());
    hasher.write_u64(directory.dev());
    hasher.write_u64(directory.ino());
    SocketAddr::from_abstract_name(format!("quo-run-{:016x}-{rank}", hasher.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_without_a_mark_is_absent() {
        let secret = format!("{:032x}", std::process::id());
        let place = Place { secret, rank: 0, size: 3 };
        let one = mark(&place, 1).unwrap();
        assert_eq!(absent(&place).unwrap(), [0, 2]);
        let _others = [mark(&place, 0).unwrap(), mark(&place, 2).unwrap()];
        assert_eq!(absent(&place).unwrap(), [0usize; 0]);
        drop(one);
        assert_eq!(absent(&place).unwrap(), [1]);
    }

    #[test]
    fn rank_with_another_shared_folder_is_absent() {
        // Not that of the test before, which may run at the same time.
        let secret = format!("{:032x}", !std::process::id());
        let place = Place { secret, rank: 0, size: 1 };
        let other = fs::metadata("/proc/self").unwrap();
        let other = address_by(&place, 0, &other).unwrap();
        let _mark = UnixDatagram::bind_addr(&other).unwrap();
        assert_eq!(absent(&place).unwrap(), [0]);
    }

    #[test]
    fn many_absent_ranks_are_told_of_in_short() {
        assert!(reason(&[3]).starts_with("rank 3 of the node"));
        assert!(reason(&[0, 2]).starts_with("rank 0, 2 of the node"));
        let all: Vec<usize> = (0..100).collect();
        assert!(reason(&all).starts_with("rank 0, 1, 2, 3, 4, 5, 6, 7, ... of the node"));
    }
}
