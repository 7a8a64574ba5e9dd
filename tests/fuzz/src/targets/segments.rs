//! Segments. A wrong header is refused. State that another program has overwritten may cause wrong
//! answers and errors, but no crash, no endless wait and no access outside the segment.

use std::time::Duration;

use quo::CpuSet;
use quo::node::{Node, NodeError};

use crate::forge::{self, Forged};

/// Maximum size of the files; a header may claim any size.
const MOST_BYTES: u64 = 1 << 20;
const PATIENCE: Duration = Duration::from_micros(1);

pub fn header(input: &[u8]) {
    let Some((how, start)) = input.split_first_chunk::<4>() else { return };
    let how = u32::from_le_bytes(*how);
    let mut bytes = if how & 1 == 0 { whole().to_vec() } else { Vec::new() };
    bytes.resize(bytes.len().max(start.len()), 0);
    bytes[..start.len()].copy_from_slice(start);
    let size = if how & 2 == 0 { bytes.len() as u64 } else { u64::from(how >> 2) % MOST_BYTES };
    let forged = Forged::new(&bytes, size).expect("no room for the file");
    for member in [0, 2, usize::MAX] {
        match forged.attach(member) {
            Ok(node) => {
                assert!(node.segment_bytes() as u64 == size && node.payload().len() as u64 <= size);
                assert!(node.member() < node.capacity());
                use_all(&node);
            }
            Err(error) => refused(&error),
        }
    }
}

pub fn state(input: &[u8]) {
    let mut bytes = whole().to_vec();
    let places = (bytes.len() - HEADER) / 8;
    for entry in input.chunks_exact(10) {
        let place = usize::from(u16::from_le_bytes([entry[0], entry[1]])) % places;
        bytes[HEADER + 8 * place..][..8].copy_from_slice(&entry[2..]);
    }
    let forged = Forged::new(&bytes, bytes.len() as u64).expect("no room for the file");
    for member in 0..forge::CAPACITY {
        match forged.attach(member) {
            Ok(node) => use_all(&node),
            Err(error) => refused(&error),
        }
    }
}

/// The header, padded to whole lines.
const HEADER: usize = 256;

fn whole() -> &'static [u8] {
    forge::whole().expect("no segment can be made")
}

fn refused(error: &NodeError) {
    let expected = matches!(
        error,
        NodeError::Refused { .. }
            | NodeError::NoSuchMember { .. }
            | NodeError::MemberTaken { .. }
            | NodeError::Damaged { .. }
            | NodeError::NotSupported { .. }
    );
    assert!(expected, "{error:?}");
}

/// Uses everything that does not wait for missing members.
fn use_all(node: &Node) {
    let _ = node.payload().iter().fold(0_u8, |sum, byte| sum ^ byte);
    let _ = (node.members(), node.member_list(), node.dead_members());
    for member in 0..node.capacity().min(8) {
        let _ = (node.member_process(member), node.is_alive(member), node.is_counted(member));
        if let Ok(Some(mask)) = node.mask_of(member) {
            assert!(mask.last().is_none_or(|cpu| cpu < 8_192));
        }
        let _ = node.expel(member);
    }
    let mask = CpuSet::from_words(&[5, 0, 7]);
    node.publish_mask(&mask).expect("a mask of its own");
    assert_eq!(node.mask_of(node.member()).ok().flatten(), Some(mask));
    let _ = node.barrier_timeout(PATIENCE);
    if let Ok(channel) = node.named_barrier("fuzzed", &[node.member()]) {
        let _ = channel.barrier_timeout(PATIENCE);
        let _ = channel.members();
    }
    let _ = node.leave();
}
