//! The waiting jobs in order of arrival, searchable by size and walltime.

#[cfg(test)]
mod tests;

use crate::job::JobId;
use crate::time::Span;

/// The smallest number of nodes and the shortest walltime of a group of waiting jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Least {
    /// The smallest number of nodes that a job of the group starts on; cores if jobs share nodes.
    pub nodes: u32,
    /// The shortest walltime of a job of the group.
    pub walltime: Span,
}

impl Least {
    const NONE: Least = Least { nodes: u32::MAX, walltime: Span(u64::MAX) };

    fn join(self, other: Least) -> Least {
        Least { nodes: self.nodes.min(other.nodes), walltime: self.walltime.min(other.walltime) }
    }

    fn is_none(self) -> bool {
        self.nodes == u32::MAX
    }
}

/// The waiting jobs in order of arrival: a segment tree of [`Least`] over their slots.
///
/// The tree finds the next job that may fit in a time logarithmic in the length of the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Jobs in ascending order. A job that was removed keeps its slot until the tree is rebuilt.
    slots: Vec<JobId>,
    /// `tree[1]` is the root, `tree[leaves + slot]` the leaf of a slot.
    tree: Vec<Least>,
    leaves: usize,
    count: usize,
}

impl Queue {
    /// Returns the number of waiting jobs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns true if no job waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Iterates over the jobs in order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = JobId> + '_ {
        let leaves = self.tree.get(self.leaves..).unwrap_or_default();
        self.slots.iter().zip(leaves).filter(|(_, least)| !least.is_none()).map(|(&job, _)| job)
    }

    /// Returns the job that has waited longest.
    #[must_use]
    pub fn head(&self) -> Option<JobId> {
        self.next(None, |_| true)
    }

    /// Returns the first job after `after` (from the head, if `None`) for which `fits` holds.
    ///
    /// `fits` is also called for groups of jobs, with their smallest number of nodes and shortest
    /// walltime: if it holds for a job, it must hold for each group that contains the job.
    pub fn next(&self, after: Option<JobId>, fits: impl Fn(Least) -> bool) -> Option<JobId> {
        let from = after.map_or(0, |job| self.slots.partition_point(|&other| other <= job));
        let slot = self.search(1, 0, self.leaves, from, &fits)?;
        self.slots.get(slot).copied()
    }

    fn search(
        &self,
        node: usize,
        first: usize,
        width: usize,
        from: usize,
        fits: &impl Fn(Least) -> bool,
    ) -> Option<usize> {
        let least = *self.tree.get(node)?;
        if first + width <= from || least.is_none() || !fits(least) {
            return None;
        }
        if width == 1 {
            return Some(first);
        }
        let half = width / 2;
        self.search(2 * node, first, half, from, fits)
            .or_else(|| self.search(2 * node + 1, first + half, half, from, fits))
    }

    /// Appends a job, with a number above all earlier ones.
    pub(crate) fn push(&mut self, job: JobId, least: Least) {
        if self.slots.len() == self.leaves {
            self.rebuild();
        }
        self.slots.push(job);
        self.count += 1;
        self.set(self.slots.len() - 1, least);
    }

    /// Removes a job. Returns false if it does not wait.
    pub(crate) fn remove(&mut self, job: JobId) -> bool {
        let Ok(slot) = self.slots.binary_search(&job) else { return false };
        if self.tree[self.leaves + slot].is_none() {
            return false;
        }
        self.count -= 1;
        self.set(slot, Least::NONE);
        true
    }

    fn set(&mut self, slot: usize, least: Least) {
        let mut node = self.leaves + slot;
        self.tree[node] = least;
        while node > 1 {
            node /= 2;
            self.tree[node] = self.tree[2 * node].join(self.tree[2 * node + 1]);
        }
    }

    /// Drops the slots of removed jobs and makes room for as many further jobs.
    fn rebuild(&mut self) {
        let kept: Vec<(JobId, Least)> = self
            .slots
            .iter()
            .copied()
            .zip(self.tree.get(self.leaves..).unwrap_or_default().iter().copied())
            .filter(|(_, least)| !least.is_none())
            .collect();
        self.leaves = (2 * kept.len()).next_power_of_two().max(64);
        self.slots = kept.iter().map(|(job, _)| *job).collect();
        self.tree = vec![Least::NONE; 2 * self.leaves];
        for (slot, (_, least)) in kept.iter().enumerate() {
            self.tree[self.leaves + slot] = *least;
        }
        for node in (1..self.leaves).rev() {
            self.tree[node] = self.tree[2 * node].join(self.tree[2 * node + 1]);
        }
    }
}
