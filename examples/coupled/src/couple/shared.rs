//! The rows of all ranks of a node, in memory they share, lent to the workers between two barriers.
#![allow(unsafe_code)]

use std::ops::Range;

use quo::SharedMemory;
use quo::{Context, Error};

/// Values of every rank of the node, one rank's after the other's in the order of node ranks.
pub struct SharedRows {
    memory: SharedMemory,
    node_rank: usize,
    node_size: usize,
    /// True if a worker may still be writing, since a barrier has failed.
    lost: bool,
}

impl SharedRows {
    /// `values` of this rank's own. Collective over the node.
    ///
    /// # Errors
    /// If there is not enough shared memory; the same on all ranks of the node.
    pub fn new(context: &Context, values: usize) -> Result<SharedRows, Error> {
        let memory = context.allocate(values.saturating_mul(size_of::<f64>()))?;
        Ok(SharedRows {
            memory,
            node_rank: context.node_rank(),
            node_size: context.node_size(),
            lost: false,
        })
    }

    /// This rank's own values; none after a failure.
    pub fn own(&mut self) -> &mut [f64] {
        if self.lost {
            return &mut [];
        }
        let own = self.node_rank..self.node_rank + 1;
        self.slice(own)
    }

    /// Lends the values of the node ranks `served`, given by workers, to `work`; all other ranks
    /// sleep until the workers are done. Collective over the node. `parts` gives the ranks that
    /// each worker works for, the same on every rank and without overlap; `part` is the caller's,
    /// if it is a worker.
    ///
    /// # Errors
    /// Of the barriers, on all ranks of the node.
    pub fn lend<R>(
        &mut self,
        context: &Context,
        parts: &[Range<usize>],
        part: Option<usize>,
        work: impl FnOnce(&mut [f64]) -> R,
    ) -> Result<Option<R>, Error> {
        // Two workers with a rank in common would write to the same memory.
        let apart = parts.windows(2).all(|pair| pair[0].end <= pair[1].start);
        let served = part.and_then(|part| parts.get(part)).filter(|_| apart).cloned();
        self.lost = true;
        // Every rank has written its own.
        context.barrier()?;
        let result = served.map(|ranks| work(self.slice(ranks)));
        // No rank reads its own part before the workers are done.
        context.barrier()?;
        self.lost = false;
        Ok(result)
    }

    /// Private: `own` and `lend` ensure that each slice has one holder at a time.
    fn slice(&mut self, ranks: Range<usize>) -> &mut [f64] {
        if ranks.is_empty() || ranks.end > self.node_size {
            return &mut [];
        }
        let Some(view) = self.memory.range(ranks.start..=ranks.end - 1) else { return &mut [] };
        let first = view.as_ptr().cast::<f64>();
        // SAFETY: the view is mapped for as long as `self` lives. It is aligned, since the whole
        // begins at a page and every part is a whole number of values; any bits are a value. `self`
        // is borrowed exclusively, and other processes hold no reference to these bytes: between
        // the barriers of `lend` only the one worker whose range they are in, outside only the rank
        // whose own they are.
        unsafe { std::slice::from_raw_parts_mut(first, view.len() / size_of::<f64>()) }
    }
}
