//! Sets of nodes as intervals.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Consecutive nodes: `first` and the `count - 1` after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Interval {
    /// Number of the first node.
    pub first: u32,
    /// Number of nodes; never zero.
    pub count: u32,
}

impl Interval {
    /// Returns the number after the last node.
    #[must_use]
    pub fn end(self) -> u32 {
        self.first + self.count
    }
}

/// Nodes in the order in which a job received them. The tail leaves first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeList {
    intervals: Vec<Interval>,
}

impl NodeList {
    /// Makes a list of single nodes, in this order.
    #[must_use]
    pub fn of(nodes: &[u32]) -> NodeList {
        let mut list = NodeList::default();
        for &node in nodes {
            list.push(Interval { first: node, count: 1 });
        }
        list
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.intervals.iter().map(|interval| interval.count).sum()
    }

    /// Returns true if the list has no node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// Returns the intervals in order.
    #[must_use]
    pub fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// Iterates over the node numbers in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.intervals.iter().flat_map(|interval| interval.first..interval.end())
    }

    /// Returns true if the list has this node.
    #[must_use]
    pub fn contains(&self, node: u32) -> bool {
        self.intervals.iter().any(|interval| interval.first <= node && node < interval.end())
    }

    /// Appends an interval.
    pub fn push(&mut self, interval: Interval) {
        if interval.count == 0 {
            return;
        }
        match self.intervals.last_mut() {
            Some(last) if last.end() == interval.first => last.count += interval.count,
            _ => self.intervals.push(interval),
        }
    }

    /// Appends all nodes of another list.
    pub fn append(&mut self, other: &NodeList) {
        for &interval in &other.intervals {
            self.push(interval);
        }
    }

    /// Removes up to `count` nodes from the tail and returns them, still in order.
    pub fn take_tail(&mut self, mut count: u32) -> NodeList {
        let mut taken = Vec::new();
        while count > 0 {
            let Some(last) = self.intervals.last_mut() else { break };
            if last.count <= count {
                count -= last.count;
                taken.extend(self.intervals.pop());
            } else {
                last.count -= count;
                taken.push(Interval { first: last.end(), count });
                count = 0;
            }
        }
        taken.reverse();
        NodeList { intervals: taken }
    }

    /// Removes the nodes of another list, wherever they are.
    pub fn remove(&mut self, others: &NodeList) {
        let mut kept = NodeList::default();
        for node in self.iter().filter(|node| !others.contains(*node)) {
            kept.push(Interval { first: node, count: 1 });
        }
        *self = kept;
    }
}

impl fmt::Display for NodeList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, interval) in self.intervals.iter().enumerate() {
            if index > 0 {
                write!(f, ",")?;
            }
            match interval.count {
                1 => write!(f, "{}", interval.first)?,
                _ => write!(f, "{}-{}", interval.first, interval.end() - 1)?,
            }
        }
        Ok(())
    }
}

/// A set of nodes, sorted, with neighbours joined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSet {
    intervals: BTreeMap<u32, u32>,
    count: u32,
}

impl NodeSet {
    /// Makes the set of the nodes `0..count`.
    #[must_use]
    pub fn first(count: u32) -> NodeSet {
        let intervals = if count > 0 { BTreeMap::from([(0, count)]) } else { BTreeMap::new() };
        NodeSet { intervals, count }
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Iterates over the intervals in ascending order.
    pub fn intervals(&self) -> impl Iterator<Item = Interval> + '_ {
        self.intervals.iter().map(|(&first, &count)| Interval { first, count })
    }

    /// Returns true if the set has every node of the interval.
    #[must_use]
    pub fn contains(&self, interval: Interval) -> bool {
        self.around(interval.first).is_some_and(|found| interval.end() <= found.end())
    }

    /// Removes the `count` lowest nodes and returns them. Returns `None`, and changes nothing, if
    /// there are fewer.
    pub fn take_lowest(&mut self, mut count: u32) -> Option<NodeList> {
        if count > self.count {
            return None;
        }
        self.count -= count;
        let mut taken = NodeList::default();
        while count > 0 {
            let (first, length) = self.intervals.pop_first()?;
            let part = length.min(count);
            taken.push(Interval { first, count: part });
            if part < length {
                self.intervals.insert(first + part, length - part);
            }
            count -= part;
        }
        Some(taken)
    }

    /// Adds an interval. Returns false, and changes nothing, if one of its nodes is already in the
    /// set.
    pub fn insert(&mut self, interval: Interval) -> bool {
        let Interval { mut first, mut count } = interval;
        let before = self.intervals.range(..interval.end()).next_back();
        let before = before.map(|(&first, &count)| Interval { first, count });
        if before.is_some_and(|before| before.end() > first) {
            return false;
        }
        self.count += count;
        if let Some(before) = before.filter(|before| before.end() == first) {
            first = before.first;
            count += before.count;
        }
        if let Some(after) = self.intervals.remove(&interval.end()) {
            count += after;
        }
        self.intervals.insert(first, count);
        true
    }

    /// Removes an interval. Returns false, and changes nothing, if one of its nodes is not in the
    /// set.
    pub fn remove(&mut self, interval: Interval) -> bool {
        let Some(found) = self.around(interval.first) else { return false };
        if interval.end() > found.end() {
            return false;
        }
        self.count -= interval.count;
        self.intervals.remove(&found.first);
        if found.first < interval.first {
            self.intervals.insert(found.first, interval.first - found.first);
        }
        if interval.end() < found.end() {
            self.intervals.insert(interval.end(), found.end() - interval.end());
        }
        true
    }

    fn around(&self, node: u32) -> Option<Interval> {
        let (&first, &count) = self.intervals.range(..=node).next_back()?;
        Some(Interval { first, count }).filter(|interval| node < interval.end())
    }
}
