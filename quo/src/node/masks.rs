//! Published CPU masks: each written by one member at a time, readable by all at any time.
//!
//! Each member has two copies and a version that selects the published one. The writer fills the
//! other copy and then increments the version. A writer that dies half-way leaves the published
//! copy unchanged. A reader never waits; it only reads again if the version changed while it read.

use std::sync::atomic::{AtomicU32, Ordering, fence};

use super::layout::{MASK_WORDS, MaskCell};
use super::liveness::guard;
use super::{Node, NodeError};
use crate::CpuSet;

/// Maximum number of attempts of a reader. An attempt fails only if the writer published meanwhile.
const LOOKS: usize = 10_000;

/// Publishes a mask in the caller's own cell. One caller at a time.
pub(super) fn publish(cell: &MaskCell, mask: Option<&CpuSet>) -> Result<(), NodeError> {
    let words = mask.map_or(&[][..], CpuSet::as_words);
    if words.len() > MASK_WORDS {
        let (bytes, room) = (words.len() * 8, MASK_WORDS * 8);
        return Err(NodeError::TooLarge { what: "a CPU mask", bytes, room });
    }
    // Zero, as in fresh memory, means no mask.
    let length = mask.map_or(0, |_| words.len() as u32 + 1);
    let version = cell.version.load(Ordering::Relaxed).wrapping_add(1);
    let copy = (version % 2) as usize;
    // The version below must not be visible before these stores. A reader of this copy's previous
    // content that sees any of them must also see that the version has changed.
    fence(Ordering::Release);
    cell.lengths[copy].store(length, Ordering::Relaxed);
    for (place, word) in cell.words[copy].iter().zip(words) {
        place.store(*word, Ordering::Relaxed);
    }
    cell.version.store(version, Ordering::Release);
    Ok(())
}

/// Returns the mask in a cell; `None` if none is published.
pub(super) fn read(cell: &MaskCell, member: usize) -> Result<Option<CpuSet>, NodeError> {
    let mut buffer = [0; MASK_WORDS];
    for _ in 0..LOOKS {
        let version = cell.version.load(Ordering::Acquire);
        let copy = (version % 2) as usize;
        let length = cell.lengths[copy].load(Ordering::Relaxed);
        let words = (length.saturating_sub(1) as usize).min(MASK_WORDS);
        for (word, place) in buffer[..words].iter_mut().zip(&cell.words[copy]) {
            *word = place.load(Ordering::Relaxed);
        }
        if is_still(&cell.version, version) {
            return Ok((length != 0).then(|| CpuSet::from_words(&buffer[..words])));
        }
        std::hint::spin_loop();
    }
    Err(NodeError::UnsteadyMask { member })
}

fn is_still(version: &AtomicU32, seen: u32) -> bool {
    fence(Ordering::Acquire);
    version.load(Ordering::Relaxed) == seen
}

impl Node {
    /// Publishes the CPU mask of this member, readable by all members at any time. Local.
    ///
    /// # Errors
    /// [`NodeError::TooLarge`] for a CPU number above 8,191; [`NodeError::Left`];
    /// [`NodeError::Forked`].
    pub fn publish_mask(&self, mask: &CpuSet) -> Result<(), NodeError> {
        self.home.check()?;
        let _one_at_a_time = guard(&self.home.publishing);
        publish(&self.home.segment.masks[self.home.member], Some(mask))
    }

    /// Returns the mask that a member published last; `None` if it has published none since it
    /// attached. Local.
    ///
    /// Never waits, whatever happens to that member meanwhile.
    ///
    /// # Errors
    /// [`NodeError::NoSuchMember`]; [`NodeError::UnsteadyMask`] if the member publishes
    /// continuously.
    pub fn mask_of(&self, member: usize) -> Result<Option<CpuSet>, NodeError> {
        self.home.slot_exists(member)?;
        read(&self.home.segment.masks[member], member)
    }

    /// Publishes a set of CPUs that this member claims, readable by all members at any time. Local.
    /// The claim has no effect here; it is stored next to the mask and published like it.
    ///
    /// # Errors
    /// As [`publish_mask`](Self::publish_mask).
    pub(crate) fn publish_claim(&self, cpus: &CpuSet) -> Result<(), NodeError> {
        self.home.check()?;
        let _one_at_a_time = guard(&self.home.publishing);
        publish(&self.home.segment.claims[self.home.member], Some(cpus))
    }

    /// Returns a member's claim; `None` if it has published none since it attached. Local.
    pub(crate) fn claim_of(&self, member: usize) -> Result<Option<CpuSet>, NodeError> {
        self.home.slot_exists(member)?;
        read(&self.home.segment.claims[member], member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    fn cell() -> Box<MaskCell> {
        Box::new(MaskCell {
            version: AtomicU32::new(0),
            lengths: [const { AtomicU32::new(0) }; 2],
            words: [const { [const { AtomicU64::new(0) }; MASK_WORDS] }; 2],
        })
    }

    #[test]
    fn the_last_published_mask_is_read() {
        let cell = cell();
        assert_eq!(read(&cell, 0).unwrap(), None);
        for text in ["0-3", "", "8191", "5"] {
            let mask: CpuSet = text.parse().unwrap();
            publish(&cell, Some(&mask)).unwrap();
            assert_eq!(read(&cell, 0).unwrap(), Some(mask));
        }
        publish(&cell, None).unwrap();
        assert_eq!(read(&cell, 0).unwrap(), None);
    }

    #[test]
    fn a_mask_too_large_changes_nothing() {
        let cell = cell();
        publish(&cell, Some(&CpuSet::single(1))).unwrap();
        publish(&cell, Some(&CpuSet::single(8_192))).unwrap_err();
        assert_eq!(read(&cell, 0).unwrap(), Some(CpuSet::single(1)));
    }

    #[test]
    fn a_writer_that_died_half_way_leaves_the_last_mask() {
        let cell = cell();
        publish(&cell, Some(&CpuSet::single(1))).unwrap();
        // The first steps of the next publication.
        cell.lengths[0].store(1, Ordering::Relaxed);
        cell.words[0][0].store(!0, Ordering::Relaxed);
        assert_eq!(read(&cell, 0).unwrap(), Some(CpuSet::single(1)));
    }

    #[test]
    fn a_reader_never_sees_two_masks_mixed() {
        let cell = cell();
        let masks = [CpuSet::from_range(0..700), CpuSet::from_range(1_000..1_300)];
        publish(&cell, Some(&masks[0])).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..20_000 {
                    publish(&cell, Some(&masks[round % 2])).unwrap();
                }
            });
            for _ in 0..5_000 {
                match read(&cell, 3) {
                    Ok(mask) => assert!(masks.contains(&mask.unwrap())),
                    Err(error) => assert!(matches!(error, NodeError::UnsteadyMask { member: 3 })),
                }
            }
        });
    }
}
