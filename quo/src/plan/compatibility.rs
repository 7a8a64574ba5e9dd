//! Bit matrix of the objects on which each rank may work.

use smallvec::{SmallVec, smallvec};

use super::DistributeRequest;
use crate::CpuSet;

const BITS: usize = u64::BITS as usize;

/// One row of bits per rank, one bit per object: set if the rank's mask, the object and the allowed
/// set share a CPU.
///
/// A row of up to 64 objects is one word, and small matrices stay on the stack.
pub(super) struct Compatibility {
    stride: usize,
    words: SmallVec<[u64; 32]>,
}

impl Compatibility {
    pub(super) fn of(request: &DistributeRequest<'_>) -> Self {
        let stride = request.objects.len().div_ceil(BITS);
        let mut words: SmallVec<[u64; 32]> = smallvec![0; stride * request.masks.len()];
        if stride == 1 {
            for (row, mask) in words.iter_mut().zip(request.masks) {
                *row = objects_sharing(mask, request);
            }
            return Self { stride, words };
        }
        // Comparing every mask with every object would dominate the cost of a plan, and so would
        // iterating over the CPUs of ranks that may use them all.
        let by_cpu = objects_by_cpu(stride, request);
        let mut everywhere = None;
        for (rank, mask) in request.masks.iter().enumerate() {
            let row = rank * stride;
            let unbound = request.allowed.is_subset(mask);
            if let (true, Some(same)) = (unbound, everywhere) {
                words.copy_within(same..same + stride, row);
                continue;
            }
            for cpu in mask.intersection(request.allowed).iter() {
                let more = &by_cpu[cpu * stride..(cpu + 1) * stride];
                words[row..].iter_mut().zip(more).for_each(|(word, more)| *word |= more);
            }
            everywhere = everywhere.or(unbound.then_some(row));
        }
        Self { stride, words }
    }

    /// Returns the objects of a rank as words of bits.
    pub(super) fn row(&self, rank: usize) -> &[u64] {
        &self.words[rank * self.stride..(rank + 1) * self.stride]
    }

    /// Returns the objects of a rank, in ascending order.
    pub(super) fn objects_of(&self, rank: usize) -> impl Iterator<Item = usize> + '_ {
        bits(self.row(rank))
    }

    /// Returns the number of objects on which at least one rank may work.
    pub(super) fn usable(&self) -> usize {
        let word = |index| self.words.iter().skip(index).step_by(self.stride);
        (0..self.stride)
            .map(|index| word(index).fold(0, |all, row| all | row).count_ones() as usize)
            .sum()
    }

    pub(super) fn contains(&self, rank: usize, object: usize) -> bool {
        self.row(rank)[object / BITS] >> (object % BITS) & 1 == 1
    }

    /// Returns the number of objects on which a rank may work.
    pub(super) fn degree(&self, rank: usize) -> usize {
        self.row(rank).iter().map(|word| word.count_ones() as usize).sum()
    }
}

/// Returns the positions of the set bits, in ascending order.
pub(super) fn bits(words: &[u64]) -> impl Iterator<Item = usize> + '_ {
    words.iter().enumerate().flat_map(|(index, &word)| {
        let mut rest = word;
        std::iter::from_fn(move || {
            let bit = (rest != 0).then(|| index * BITS + rest.trailing_zeros() as usize);
            rest &= rest.wrapping_sub(1);
            bit
        })
    })
}

/// Returns up to 64 objects as the bits of a word.
fn objects_sharing(mask: &CpuSet, request: &DistributeRequest<'_>) -> u64 {
    let (mask, allowed) = (mask.as_words(), request.allowed.as_words());
    let shares = |object: &CpuSet| {
        mask.iter().zip(allowed).zip(object.as_words()).any(|((m, a), o)| m & a & o != 0)
    };
    let objects = request.objects.iter().enumerate();
    objects.fold(0, |word, (index, object)| word | u64::from(shares(object)) << index)
}

/// Returns a row of objects for each CPU up to the last allowed one.
fn objects_by_cpu(stride: usize, request: &DistributeRequest<'_>) -> Vec<u64> {
    let cpus = request.allowed.last().map_or(0, |last| last + 1);
    let mut rows = vec![0; cpus * stride];
    for (index, object) in request.objects.iter().enumerate() {
        for cpu in object.iter().take_while(|&cpu| cpu < cpus) {
            rows[cpu * stride + index / BITS] |= 1 << (index % BITS);
        }
    }
    rows
}
