//! The eight bytes at the end of each block that say whose it is and how much was asked for.
//!
//! From the top: 32 bits of a keyed hash of the block's address, 10 bits of component, one bit that
//! says that the stack of the allocation was kept, 21 bits of how much larger the block is than
//! what was asked for. A block without a tag of ours passes through untouched.

use crate::component::Component;

/// Room that a tag takes from a block.
pub const SIZE: usize = 8;

const COMPONENT_SHIFT: u32 = 22;
const COMPONENT_MASK: u64 = 0x3ff;
const SAMPLED: u64 = 1 << 21;
/// More than what fits: the block counts as large as it is.
const UNKNOWN_SLACK: u64 = (1 << 21) - 1;

/// What a tag says.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    pub component: Component,
    /// Bytes that the ledger counts: those asked for.
    pub size: usize,
    pub sampled: bool,
}

#[inline(always)]
fn hash(block: usize, secret: u64) -> u64 {
    (block as u64 ^ secret).wrapping_mul(0x9e37_79b9_7f4a_7c15) & 0xffff_ffff_0000_0000
}

/// The tag of `block`, of which `usable` bytes can be used, `usable >= size + SIZE`. Gives the
/// tag and the size that it will tell.
#[inline(always)]
pub fn encode(block: usize, usable: usize, tag: Tag, secret: u64) -> (u64, usize) {
    let spare = (usable - SIZE - tag.size) as u64;
    let (slack, size) = match spare < UNKNOWN_SLACK {
        true => (spare, tag.size),
        false => (UNKNOWN_SLACK, usable - SIZE),
    };
    let sampled = if tag.sampled { SAMPLED } else { 0 };
    let component = u64::from(tag.component.0) & COMPONENT_MASK;
    (hash(block, secret) | component << COMPONENT_SHIFT | sampled | slack, size)
}

/// What the word at the end of `block` says; none if we did not write it there.
#[inline(always)]
pub fn decode(block: usize, usable: usize, word: u64, secret: u64) -> Option<Tag> {
    if (word ^ hash(block, secret)) >> 32 != 0 {
        return None;
    }
    let slack = word & UNKNOWN_SLACK;
    let spare = if slack == UNKNOWN_SLACK { 0 } else { slack as usize };
    Some(Tag {
        component: Component((word >> COMPONENT_SHIFT & COMPONENT_MASK) as u16),
        size: usable.checked_sub(SIZE + spare)?,
        sampled: word & SAMPLED != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_written_is_read(
            block in any::<usize>(), size in 0_usize..1 << 46, spare in 0_usize..1 << 22,
            component in 0_u16..256, sampled in any::<bool>(), secret in any::<u64>(),
        ) {
            let usable = size + spare + SIZE;
            let tag = Tag { component: Component(component), size, sampled };
            let (word, counted) = encode(block, usable, tag, secret);
            let read = decode(block, usable, word, secret).unwrap();
            prop_assert_eq!(read, Tag { size: counted, ..tag });
            if (spare as u64) < UNKNOWN_SLACK {
                prop_assert_eq!(counted, size);
            } else {
                prop_assert_eq!(counted, usable - SIZE);
            }
        }

        #[test]
        fn a_tag_is_good_for_its_own_block_only(
            block in any::<u32>(), other in any::<u32>(), secret in any::<u64>(),
        ) {
            prop_assume!(block != other);
            let tag = Tag { component: Component(3), size: 10, sampled: false };
            let (word, _) = encode(block as usize * 16, 32, tag, secret);
            prop_assert_eq!(decode(other as usize * 16, 32, word, secret), None);
        }

        #[test]
        fn data_is_no_tag(block in 1_usize..1 << 47, usable in 8_usize..1 << 30, word in any::<u64>()) {
            // A chance of one in four thousand million, and never for zeroes.
            prop_assert_eq!(decode(block, usable, word, 0x1234_5678_9abc_def0), None);
            prop_assert_eq!(decode(block, usable, 0, 0x1234_5678_9abc_def0), None);
        }
    }
}
