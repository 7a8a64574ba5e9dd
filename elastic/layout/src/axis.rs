//! One dimension of an array, divided among the parts of one dimension of a process grid.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Division of the indices `0..extent` of one dimension among parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Axis {
    /// Blocks distributed in turns. With one block for each part this is the block distribution.
    Cyclic { extent: usize, block: usize, parts: usize },
    /// One run of indices for each part, by its boundaries, one more than parts.
    Cuts(Arc<[usize]>),
}

/// The indices of one part: blocks of equal size and distance, clipped at the end of the axis. No
/// block crosses a multiple of the stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progression {
    pub first: usize,
    pub block: usize,
    pub stride: usize,
    pub end: usize,
}

impl Progression {
    pub fn is_empty(&self) -> bool {
        self.block == 0 || self.first >= self.end
    }

    /// Number of blocks that begin below a limit.
    pub fn blocks_below(&self, limit: usize) -> usize {
        if self.is_empty() {
            return 0;
        }
        limit.min(self.end).saturating_sub(self.first).div_ceil(self.stride)
    }

    /// The half-open range of block `number` below the end.
    pub fn block_at(&self, number: usize) -> (usize, usize) {
        let start = self.first + number * self.stride;
        (start, (start + self.block).min(self.end))
    }

    /// Returns the number of the first block that ends after an index.
    pub fn block_after(&self, index: usize) -> usize {
        if index < self.first + self.block {
            0
        } else {
            (index - self.first - self.block) / self.stride + 1
        }
    }
}

impl Axis {
    /// Blocks of ⌈extent / parts⌉, in order: the last ones may be clipped or empty.
    pub fn blocks(extent: usize, parts: usize) -> Self {
        Self::Cyclic { extent, block: extent.div_ceil(parts).max(1), parts }
    }

    pub fn whole(extent: usize) -> Self {
        Self::blocks(extent, 1)
    }

    pub fn extent(&self) -> usize {
        match self {
            Self::Cyclic { extent, .. } => *extent,
            Self::Cuts(at) => at.last().copied().unwrap_or(0),
        }
    }

    pub fn parts(&self) -> usize {
        match self {
            Self::Cyclic { parts, .. } => *parts,
            Self::Cuts(at) => at.len().saturating_sub(1),
        }
    }

    /// Size of a whole block, in which tiles are cut.
    pub fn block(&self) -> usize {
        match self {
            Self::Cyclic { block, .. } => *block,
            Self::Cuts(at) => at.last().copied().unwrap_or(0).max(1),
        }
    }

    /// Returns true if each part is one run of indices.
    pub fn is_single_run(&self) -> bool {
        match self {
            Self::Cyclic { extent, block, parts } => {
                block.checked_mul(*parts).is_none_or(|cycle| cycle >= *extent)
            }
            Self::Cuts(_) => true,
        }
    }

    /// Number of parts, from the first, that can hold indices; exact for blocks distributed in
    /// turns.
    pub fn used_parts(&self) -> usize {
        match self {
            Self::Cyclic { extent, block, parts } => extent.div_ceil(*block).min(*parts),
            Self::Cuts(_) => self.parts(),
        }
    }

    pub fn comb(&self, part: usize) -> Progression {
        match self {
            Self::Cyclic { extent, block, parts } => Progression {
                first: part * block,
                block: *block,
                stride: block * parts,
                end: *extent,
            },
            Self::Cuts(at) => Progression {
                first: at[part],
                block: at[part + 1] - at[part],
                stride: self.extent().max(1),
                end: self.extent(),
            },
        }
    }

    /// Number of indices that a part holds.
    pub fn held(&self, part: usize) -> usize {
        let comb = self.comb(part);
        match comb.blocks_below(comb.end) {
            0 => 0,
            blocks => {
                let (start, end) = comb.block_at(blocks - 1);
                (blocks - 1) * comb.block + (end - start)
            }
        }
    }

    /// Returns the part that holds an index of the axis, and the index within that part.
    pub fn place(&self, index: usize) -> (usize, usize) {
        match self {
            Self::Cyclic { block, parts, .. } => {
                let number = index / block;
                (number % parts, number / parts * block + index % block)
            }
            Self::Cuts(at) => {
                let part = at.partition_point(|&cut| cut <= index) - 1;
                (part, index - at[part])
            }
        }
    }

    /// Returns the index on the axis of an index that a part holds.
    pub fn index(&self, part: usize, local: usize) -> usize {
        let comb = self.comb(part);
        comb.first + local / comb.block * comb.stride + local % comb.block
    }

    /// Finds the parts that hold an index in `start..end`, ascending unless the range wraps around.
    fn parts_within(&self, start: usize, end: usize, mut found: impl FnMut(usize)) {
        match self {
            Self::Cyclic { block, parts, .. } => {
                let (low, high) = (start / block, (end - 1) / block);
                for number in low..=high.min(low.saturating_add(parts - 1)) {
                    found(number % parts);
                }
            }
            Self::Cuts(at) => {
                let mut part = at.partition_point(|&cut| cut <= start) - 1;
                while part + 1 < at.len() && at[part] < end {
                    if at[part + 1] > at[part] {
                        found(part);
                    }
                    part += 1;
                }
            }
        }
    }

    /// Returns the parts of this axis that share an index with a part of another axis, ascending.
    pub fn parts_meeting(&self, comb: &Progression) -> Vec<usize> {
        if comb.is_empty() {
            return Vec::new();
        }
        if self.is_single_run() && comb.blocks_below(comb.end) > self.parts() {
            return (0..self.parts()).filter(|&part| meets(comb, &self.comb(part))).collect();
        }
        let used = self.used_parts();
        let mut seen = vec![false; self.parts()];
        let mut missing = used;
        let period = match self {
            Self::Cyclic { block, parts, .. } => least_multiple(comb.stride, block * parts),
            Self::Cuts(_) => None,
        };
        let limit = period.unwrap_or(usize::MAX).min(comb.end);
        for number in 0..comb.blocks_below(limit) {
            let (start, end) = comb.block_at(number);
            self.parts_within(start, end, |part| {
                missing -= usize::from(!std::mem::replace(&mut seen[part], true));
            });
            if missing == 0 {
                break;
            }
        }
        (0..seen.len()).filter(|&part| seen[part]).collect()
    }
}

/// Returns true if the run of indices `run` shares an index with a comb.
fn meets(comb: &Progression, run: &Progression) -> bool {
    if run.is_empty() {
        return false;
    }
    let (start, end) = run.block_at(0);
    comb.block_at(comb.block_after(start)).0 < end
}

pub(super) fn common_divisor(mut a: usize, mut b: usize) -> usize {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Returns the least common multiple, if it can be represented.
pub(super) fn least_multiple(a: usize, b: usize) -> Option<usize> {
    (a / common_divisor(a, b)).checked_mul(b)
}
