//! Table of the stacks seen, and of the live sampled blocks. Accessed only under the lock of the
//! parent module.

use super::{DEPTH, Site};
use crate::base::component::Component;

/// Number of different stacks that are kept; the last entry collects all stacks that found no room.
pub const STACKS: usize = 512;
/// Capacity for live sampled blocks; at most three quarters of it are used.
const BLOCKS: usize = 8192;

#[derive(Copy, Clone)]
struct Block {
    address: usize,
    weight: u64,
    stack: u16,
}

const NOTHING: Block = Block { address: 0, weight: 0, stack: 0 };
const NEVER: Site = Site {
    frames: [0; DEPTH],
    depth: 0,
    component: Component::UNATTRIBUTED,
    samples: 0,
    live: 0,
    peak: 0,
    at_peak: 0,
    total: 0,
};

/// Table of stacks and blocks. All zeros is an empty table.
pub struct Table {
    sites: [Site; STACKS],
    blocks: [Block; BLOCKS],
    living: usize,
}

fn spread(hash: u64, places: usize) -> usize {
    (hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % places
}

impl Table {
    pub const fn new() -> Table {
        Table { sites: [NEVER; STACKS], blocks: [NOTHING; BLOCKS], living: 0 }
    }

    /// Adds a sampled block. Returns false if there is no room; the block then counts for nothing.
    pub fn insert(
        &mut self,
        address: usize,
        weight: u64,
        frames: &[usize],
        owner: Component,
    ) -> bool {
        if self.living >= BLOCKS / 4 * 3 {
            return false;
        }
        let stack = self.stack(frames, owner);
        let mut place = spread(address as u64 >> 4, BLOCKS);
        while self.blocks[place].address != 0 && self.blocks[place].address != address {
            place = (place + 1) % BLOCKS;
        }
        if self.blocks[place].address == address {
            // A block was freed without the tool seeing it.
            self.remove(address);
            return self.insert(address, weight, frames, owner);
        }
        self.blocks[place] = Block { address, weight, stack: stack as u16 };
        self.living += 1;
        let site = &mut self.sites[stack];
        site.samples += 1;
        site.total = site.total.saturating_add(weight);
        site.live = site.live.saturating_add(weight);
        site.peak = site.peak.max(site.live);
        true
    }

    /// Removes a sampled block.
    pub fn remove(&mut self, address: usize) {
        let mut place = spread(address as u64 >> 4, BLOCKS);
        while self.blocks[place].address != address {
            if self.blocks[place].address == 0 {
                return;
            }
            place = (place + 1) % BLOCKS;
        }
        let block = self.blocks[place];
        let site = &mut self.sites[usize::from(block.stack)];
        site.live = site.live.saturating_sub(block.weight);
        self.living -= 1;
        // Entries behind the gap move up where their hash allows it, so that no search ends too
        // early.
        let mut next = (place + 1) % BLOCKS;
        while self.blocks[next].address != 0 {
            let wanted = spread(self.blocks[next].address as u64 >> 4, BLOCKS);
            if (next + BLOCKS - wanted) % BLOCKS >= (next + BLOCKS - place) % BLOCKS {
                self.blocks[place] = self.blocks[next];
                place = next;
            }
            next = (next + 1) % BLOCKS;
        }
        self.blocks[place] = NOTHING;
    }

    fn stack(&mut self, frames: &[usize], owner: Component) -> usize {
        let depth = frames.len().min(DEPTH);
        let frames = &frames[..depth];
        let hash = frames.iter().fold(u64::from(owner.0) + 1, |hash, frame| {
            (hash ^ *frame as u64).wrapping_mul(0x0100_0000_01b3).rotate_left(29)
        });
        let start = spread(hash, STACKS - 1);
        for step in 0..STACKS - 1 {
            let place = (start + step) % (STACKS - 1);
            let site = &mut self.sites[place];
            if site.samples == 0 {
                site.frames[..depth].copy_from_slice(frames);
                site.depth = depth;
                site.component = owner;
                return place;
            }
            if site.component == owner && site.frames[..site.depth] == *frames {
                return place;
            }
        }
        STACKS - 1
    }

    /// Returns the stack of the last block that begins between two addresses.
    pub fn last_between(&self, start: usize, end: usize) -> Option<u16> {
        let blocks = self.blocks.iter().filter(|block| (start..end).contains(&block.address));
        blocks.max_by_key(|block| block.address).map(|block| block.stack)
    }

    pub fn at_peak(&mut self) {
        for site in self.sites.iter_mut().filter(|site| site.samples > 0) {
            site.at_peak = site.live;
        }
    }

    pub fn each(&self, each: &mut dyn FnMut(usize, &Site)) {
        for (index, site) in self.sites.iter().enumerate().filter(|(_, site)| site.samples > 0) {
            each(index, site);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn what_lives_of_each_stack_is_known(
            steps in prop::collection::vec((0_usize..900, 1_u64..9999, 0_usize..40), 1..4000)
        ) {
            let mut table = Box::new(Table::new());
            let mut blocks = HashMap::new();
            let mut live = HashMap::<usize, u64>::new();
            for (block, weight, stack) in steps {
                let address = 0x5000 + block * 16;
                match blocks.remove(&block) {
                    None => {
                        let frames = [0x1000 + stack, 0x2000];
                        prop_assert!(table.insert(address, weight, &frames, Component(20)));
                        blocks.insert(block, (stack, weight));
                        *live.entry(stack).or_default() += weight;
                    }
                    Some((stack, weight)) => {
                        table.remove(address);
                        *live.get_mut(&stack).unwrap() -= weight;
                    }
                }
                prop_assert_eq!(table.living, blocks.len());
            }
            let mut seen = HashMap::new();
            table.each(&mut |_, site| { seen.insert(site.frames[0] - 0x1000, site.live); });
            prop_assert_eq!(&seen, &live);
            table.at_peak();
            let mut then = HashMap::new();
            table.each(&mut |_, site| { then.insert(site.frames[0] - 0x1000, site.at_peak); });
            prop_assert_eq!(then, live);
        }
    }

    #[test]
    fn stack_of_the_last_block_in_a_range_is_found() {
        let mut table = Box::new(Table::new());
        for (block, frame) in [(0x3000, 7), (0x1000, 5), (0x2000, 6)] {
            assert!(table.insert(block, 10, &[frame], Component(20)));
        }
        let mut stacks = HashMap::new();
        table.each(&mut |index, site| {
            stacks.insert(index as u16, site.frames[0]);
        });
        let frame = |start, end| table.last_between(start, end).map(|stack| stacks[&stack]);
        assert_eq!([frame(0, 0x3000), frame(0x1000, 0x3001)], [Some(6), Some(7)]);
        assert_eq!(frame(0x3001, 0x9000), None);
    }

    #[test]
    fn excess_stacks_share_the_last_place_and_blocks_are_refused() {
        let mut table = Box::new(Table::new());
        let kept = (1..=BLOCKS)
            .filter(|block| table.insert(block * 16, 10, &[*block], Component(1)))
            .count();
        assert_eq!(kept, BLOCKS / 4 * 3);
        let mut sites = Vec::new();
        table.each(&mut |index, site| sites.push((index, site.samples, site.depth)));
        assert_eq!(sites.len(), STACKS);
        assert_eq!(sites.last(), Some(&(STACKS - 1, (kept - (STACKS - 1)) as u64, 0)));
        (1..=BLOCKS).for_each(|block| table.remove(block * 16));
        table.each(&mut |_, site| assert_eq!(site.live, 0));
    }
}
