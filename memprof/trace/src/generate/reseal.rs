//! Corrects checksums, so that tests of readers get past them.

use crate::layout::{
    BLOCK_RECORDS, BLOCK_SIZE, BlockHead, COMMITTED, HEADER_CHECKSUM, HEADER_SIZE, HeaderStart,
    Record, SECTION_TABLE, SECTIONS_LIMIT, SectionEntry, SectionKind, SlotHead,
};

/// Makes the checksums of header, slots and blocks match their content, as a forger would. Bytes
/// that are not a trace stay unchanged.
pub fn reseal(bytes: &mut [u8]) {
    let Some(start) = HeaderStart::from_bytes(bytes) else { return };
    if bytes.len() < HEADER_SIZE {
        return;
    }
    let checksum = crc32fast::hash(&bytes[..HEADER_CHECKSUM]);
    bytes[HEADER_CHECKSUM..HEADER_SIZE].copy_from_slice(&checksum.to_le_bytes());
    for number in 0..(start.sections as usize).min(SECTIONS_LIMIT) {
        let at = SECTION_TABLE + number * SectionEntry::SIZE;
        let Some(entry) = SectionEntry::from_bytes(&bytes[at..]) else { continue };
        let begin = usize::try_from(entry.offset).unwrap_or(usize::MAX);
        let size = entry.slot_size as usize;
        if begin < HEADER_SIZE || size < SlotHead::SIZE {
            continue;
        }
        let Some(section) = bytes.get_mut(begin..) else { continue };
        let slots = section.chunks_exact_mut(size).take(entry.slots as usize);
        if entry.kind == SectionKind::Ring as u32 {
            slots.for_each(block);
        } else {
            slots.for_each(slot);
        }
    }
}

fn slot(bytes: &mut [u8]) {
    let Some(head) = SlotHead::from_bytes(bytes) else { return };
    let Some(payload) = bytes[SlotHead::SIZE..].get(..head.length as usize) else { return };
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..16]);
    hasher.update(&bytes[20..SlotHead::SIZE]);
    hasher.update(payload);
    let checksum = hasher.finalize();
    bytes[16..20].copy_from_slice(&checksum.to_le_bytes());
}

fn block(bytes: &mut [u8]) {
    let Some(head) = BlockHead::from_bytes(bytes) else { return };
    let used = (head.used ^ COMMITTED) as usize;
    if bytes.len() != BLOCK_SIZE || used > BLOCK_RECORDS {
        return;
    }
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..16]);
    hasher.update(&bytes[BlockHead::SIZE..][..used * Record::SIZE]);
    let checksum = hasher.finalize();
    bytes[20..24].copy_from_slice(&checksum.to_le_bytes());
}
