//! Tag of a block: eight bytes at its end that hold the owner and the requested size.
//!
//! From the top: 32 bits of the block's address combined with a key, which no other block nearby
//! has and no data has by chance; one bit that says that the stack of the allocation was kept; one
//! bit that says that the requested size is not known; 8 bits of component; 22 bits for the bytes
//! of the block beyond the requested ones. The words of most blocks, without the address, are
//! therefore small numbers. A block without a valid tag is passed on unchanged.

use crate::base::component::Component;

/// Bytes that a tag takes from a block.
pub const SIZE: usize = 8;

const COMPONENT_SHIFT: u32 = 22;
const SLACK: u64 = (1 << COMPONENT_SHIFT) - 1;
/// Flag for more slack than fits: the usable size of the block counts as its size.
const UNKNOWN: u64 = 1 << 30;
const SAMPLED: u64 = 1 << 31;
/// Lowest bit of the part that depends on the block's address.
const MARK_SHIFT: u32 = 32;

/// Content of a tag.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    pub component: Component,
    /// Bytes that the ledger counts: the requested ones.
    pub size: usize,
    pub sampled: bool,
}

/// Returns the part of the word that depends on the address. It repeats only at distances that are
/// multiples of 64 GiB.
#[inline(always)]
fn mark(block: usize, key: u64) -> u64 {
    (block as u64) << 28 ^ key
}

/// Returns the key of all marks, made from random bits.
pub const fn key(random: u64) -> u64 {
    random << MARK_SHIFT
}

/// Returns the word of a block without a stack and with little slack.
#[inline(always)]
pub fn quick(block: usize, spare: usize, component: Component, key: u64) -> u64 {
    mark(block, key) ^ (u64::from(component.0) << COMPONENT_SHIFT | spare as u64)
}

/// Does what [`quick`] does, given the word for address zero and no slack.
#[inline(always)]
pub fn marked(block: usize, spare: usize, mark: u64) -> u64 {
    (block as u64) << 28 ^ mark ^ spare as u64
}

/// Returns the slack of a block if [`quick`] or [`marked`] wrote the word for the component of the
/// mark.
#[inline(always)]
pub fn read_marked(block: usize, word: u64, mark: u64) -> Option<usize> {
    let what = word ^ (block as u64) << 28 ^ mark;
    (what <= SLACK).then_some(what as usize)
}

/// Encodes the tag of `block`, of which `usable` bytes can be used, `usable >= size + SIZE`.
/// Returns the word and the size that [`decode`] will return.
#[inline(always)]
pub fn encode(block: usize, usable: usize, tag: Tag, key: u64) -> (u64, usize) {
    let spare = (usable - SIZE - tag.size) as u64;
    let (slack, size) = match spare <= SLACK {
        true => (spare, tag.size),
        false => (UNKNOWN, usable - SIZE),
    };
    let sampled = if tag.sampled { SAMPLED } else { 0 };
    let what = sampled | u64::from(tag.component.0 & 0xff) << COMPONENT_SHIFT | slack;
    (mark(block, key) ^ what, size)
}

/// Returns the tag in the word at the end of `block`; `None` if the tool did not write it.
#[inline(always)]
pub fn decode(block: usize, usable: usize, word: u64, key: u64) -> Option<Tag> {
    let what = word ^ mark(block, key);
    if what >> MARK_SHIFT != 0 {
        return None;
    }
    let spare = if what & UNKNOWN != 0 { 0 } else { (what & SLACK) as usize };
    Some(Tag {
        component: Component((what >> COMPONENT_SHIFT & 0xff) as u16),
        size: usable.checked_sub(SIZE + spare)?,
        sampled: what & SAMPLED != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_written_is_read(
            block in any::<usize>(), size in 0_usize..1 << 46, spare in 0_usize..1 << 23,
            component in 0_u16..256, sampled in any::<bool>(), random in any::<u64>(),
        ) {
            let (key, usable) = (key(random), size + spare + SIZE);
            let tag = Tag { component: Component(component), size, sampled };
            let (word, counted) = encode(block, usable, tag, key);
            prop_assert_eq!(decode(block, usable, word, key), Some(Tag { size: counted, ..tag }));
            let fits = spare as u64 <= SLACK;
            prop_assert_eq!(counted, if fits { size } else { usable - SIZE });
            // The quick way gives the same word, or does not apply.
            let component = Component(component);
            prop_assert!(sampled || !fits || quick(block, spare, component, key) == word);
            let mark = quick(0, 0, component, key);
            prop_assert_eq!(read_marked(block, word, mark), (fits && !sampled).then_some(spare));
            prop_assert!(!fits || marked(block, spare, mark) == quick(block, spare, component, key));
            let other = quick(0, 0, Component(component.0 ^ 5), key);
            prop_assert_eq!(read_marked(block, word, other), None);
        }

        #[test]
        fn a_tag_is_good_for_its_own_block_only(
            block in any::<u32>(), other in any::<u32>(), random in any::<u64>(),
        ) {
            prop_assume!(block != other);
            let tag = Tag { component: Component(3), size: 10, sampled: false };
            let (word, _) = encode(block as usize * 16, 32, tag, key(random));
            prop_assert_eq!(decode(other as usize * 16, 32, word, key(random)), None);
            let mark = quick(0, 0, tag.component, key(random));
            prop_assert_eq!(read_marked(other as usize * 16, word, mark), None);
        }

        #[test]
        fn data_is_no_tag(block in 1_usize..1 << 47, usable in 8_usize..1 << 30, word in any::<u64>()) {
            // The chance is one in four billion, and none for zeros.
            let key = key(0x1234_5678_9abc_def0);
            prop_assert_eq!(decode(block, usable, word, key), None);
            prop_assert_eq!(read_marked(block, word, quick(0, 0, Component(3), key)), None);
        }
    }

    #[test]
    fn zeroes_are_no_tag() {
        let key = key(0x1234_5678_9abc_def0);
        for block in (0x1_0000_usize..1 << 47).step_by(0x0123_4567_89a0) {
            assert_eq!(decode(block, 64, 0, key), None);
        }
    }
}
