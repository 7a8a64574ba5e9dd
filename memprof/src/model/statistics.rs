//! Statistics over ranks: smallest, mean and largest values, and the ranks that have them.

use super::timeline::NAMES;
use super::{Group, ProcessKey, Rank};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;

/// A number over the processes that have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// Number of processes.
    pub count: u32,
    /// Smallest, in the unit of the values.
    pub min: u64,
    /// Largest, in the unit of the values.
    pub max: u64,
    /// Of all; divided by `count` it is the mean.
    pub sum: u128,
    /// Process with the smallest; the first of several.
    pub min_at: ProcessKey,
    /// Process with the largest; the first of several.
    pub max_at: ProcessKey,
}

impl Spread {
    /// Adds a process.
    pub fn add(&mut self, value: u64, who: &ProcessKey) {
        if self.count == 0 || value < self.min {
            self.min = value;
            self.min_at = who.clone();
        }
        if self.count == 0 || value > self.max {
            self.max = value;
            self.max_at = who.clone();
        }
        self.sum += u128::from(value);
        self.count += 1;
    }

    /// Returns the mean, 0 without values.
    pub fn mean(&self) -> u64 {
        match self.count {
            0 => 0,
            count => (self.sum / u128::from(count)) as u64,
        }
    }
}

/// One component over all ranks, in bytes. A rank without it counts as 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ComponentSummary {
    /// Display name.
    pub name: Arc<str>,
    /// The group it is shown in.
    pub group: Group,
    /// Owned at the last sample.
    pub owned: Spread,
    /// Most ever owned: exact.
    pub owned_peak: Spread,
    /// Resident at the last sample.
    pub resident: Spread,
    /// Most seen resident.
    pub resident_peak: Spread,
    /// The most that can have been resident at any time, between samples too.
    pub resident_bound: Spread,
    /// Resident when each process as a whole held most.
    pub resident_at_peak: Spread,
    /// Of the slack then: in pages where the component worked last.
    pub slack_at_peak: Spread,
    /// Phase in which the largest resident peak was.
    pub phase: Option<Arc<str>>,
    /// MPI function in which the largest resident peak was.
    pub mpi_function: Option<Arc<str>>,
    /// Of the resident bytes at the last sample, in shared pages; all ranks together.
    pub shared: u64,
    /// In huge pages; all ranks together.
    pub huge: u64,
    /// Swapped out; all ranks together.
    pub swapped: u64,
    /// Blocks ever allocated, all ranks together.
    pub allocations: u64,
    /// Blocks ever freed, all ranks together.
    pub frees: u64,
    /// Bytes ever allocated, all ranks together.
    pub allocated: u64,
}

/// Returns all components over all ranks, by group, then by largest resident peak. Beyond 512
/// components, further ones are merged as `other GROUP`: ranks with forged traces may each name
/// others.
pub fn across<'a>(ranks: impl Iterator<Item = &'a Rank> + Clone) -> Vec<ComponentSummary> {
    let mut rows: Vec<ComponentSummary> = Vec::new();
    let mut known: HashMap<Arc<str>, usize> = HashMap::new();
    for held in ranks.clone().flat_map(|rank| &rank.held) {
        if known.contains_key(&held.name) {
            continue;
        }
        let name = match rows.len() < NAMES {
            true => held.name.clone(),
            false => held.group.others(),
        };
        let at = *known.entry(name.clone()).or_insert_with(|| {
            rows.push(ComponentSummary::new(name));
            rows.len() - 1
        });
        known.insert(held.name.clone(), at);
    }
    let mut found = vec![[0; 7]; rows.len()];
    // Nothing is known of a rank that has not reached its first sample.
    for rank in ranks.filter(|rank| rank.is_seen()) {
        let who = ProcessKey::of(rank);
        found.fill([0; 7]);
        for held in &rank.held {
            let at = known[&held.name];
            let row = &mut rows[at];
            // What is put together peaked in several places.
            let largest =
                row.resident_peak.count == 0 || held.resident_peak > row.resident_peak.max;
            if largest && row.name == held.name {
                row.phase = held.phase.clone();
                row.mpi_function = held.mpi_function.clone();
            }
            let values = [
                held.owned,
                held.owned_peak,
                held.resident,
                held.resident_peak,
                held.resident_bound,
                held.resident_at_peak,
                held.slack_at_peak,
            ];
            for (sum, value) in found[at].iter_mut().zip(values) {
                *sum = u64::saturating_add(*sum, value);
            }
            for (sum, value) in [
                (&mut row.shared, held.shared),
                (&mut row.huge, held.huge),
                (&mut row.swapped, held.swapped),
                (&mut row.allocations, held.allocations),
                (&mut row.frees, held.frees),
                (&mut row.allocated, held.allocated),
            ] {
                *sum = sum.saturating_add(value);
            }
        }
        for (row, values) in rows.iter_mut().zip(&found) {
            let spreads = [
                &mut row.owned,
                &mut row.owned_peak,
                &mut row.resident,
                &mut row.resident_peak,
                &mut row.resident_bound,
                &mut row.resident_at_peak,
                &mut row.slack_at_peak,
            ];
            for (spread, value) in spreads.into_iter().zip(values) {
                spread.add(*value, &who);
            }
        }
    }
    rows.sort_by(|a, b| {
        (a.group.cmp(&b.group))
            .then(b.resident_peak.max.cmp(&a.resident_peak.max))
            .then(b.owned_peak.max.cmp(&a.owned_peak.max))
            .then(a.name.cmp(&b.name))
    });
    rows
}

impl ComponentSummary {
    fn new(name: Arc<str>) -> ComponentSummary {
        ComponentSummary {
            group: Group::of(&name),
            name,
            owned: Spread::default(),
            owned_peak: Spread::default(),
            resident: Spread::default(),
            resident_peak: Spread::default(),
            resident_bound: Spread::default(),
            resident_at_peak: Spread::default(),
            slack_at_peak: Spread::default(),
            phase: None,
            mpi_function: None,
            shared: 0,
            huge: 0,
            swapped: 0,
            allocations: 0,
            frees: 0,
            allocated: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_spread_is_what_sorting_gives(values in proptest::collection::vec(any::<u64>(), 1..50)) {
            let mut spread = Spread::default();
            for (rank, value) in values.iter().enumerate() {
                spread.add(*value, &ProcessKey { rank: Some(rank as u32), ..ProcessKey::default() });
            }
            let first = |wanted: u64| values.iter().position(|value| *value == wanted);
            let mut sorted = values.clone();
            sorted.sort_unstable();
            prop_assert_eq!(spread.min, sorted[0]);
            prop_assert_eq!(spread.max, sorted[sorted.len() - 1]);
            prop_assert_eq!(spread.min_at.rank, first(spread.min).map(|at| at as u32));
            prop_assert_eq!(spread.max_at.rank, first(spread.max).map(|at| at as u32));
            let mean = values.iter().map(|v| u128::from(*v)).sum::<u128>() / values.len() as u128;
            prop_assert_eq!(u128::from(spread.mean()), mean);
        }
    }
}
