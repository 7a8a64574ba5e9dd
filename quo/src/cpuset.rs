//! Sets of CPU numbers: a value type that grows past 1,024 CPUs.
//!
//! Every mask in the crate is a [`CpuSet`] of *physical* CPU numbers, the numbers the kernel uses.
//! Sets of up to 256 CPUs live on the stack; larger ones spill to the heap. Two sets are equal when
//! they hold the same CPUs, however they were built.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

const BITS: usize = u64::BITS as usize;

/// Highest CPU number that a textual list may name; keeps hostile input from allocating memory.
pub const MAX_LISTED_CPU: usize = (1 << 20) - 1;

/// A set of physical CPU numbers.
///
/// Parsed and printed in the kernel's CPU list format: `0-3,8`. The empty set is an empty string.
///
/// ```
/// use quo::CpuSet;
/// let set: CpuSet = "0-3,8".parse()?;
/// assert_eq!(set.len(), 5);
/// assert!(set.contains(8) && !set.contains(4));
/// assert_eq!(set.to_string(), "0-3,8");
/// # Ok::<(), quo::cpuset::ParseCpuSetError>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct CpuSet {
    // Invariant: the last word is not zero, so equality of words is equality of sets.
    words: SmallVec<[u64; 4]>,
}

impl CpuSet {
    /// Returns the empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the set that contains only `cpu`.
    #[must_use]
    pub fn single(cpu: usize) -> Self {
        let mut set = Self::new();
        set.insert(cpu);
        set
    }

    /// Returns the set of the CPUs `range.start .. range.end`.
    #[must_use]
    pub fn from_range(range: std::ops::Range<usize>) -> Self {
        range.collect()
    }

    /// Returns the set that contains CPU `64 * i + b` if bit `b` of `words[i]` is set.
    #[must_use]
    pub fn from_words(words: &[u64]) -> Self {
        let mut set = Self { words: SmallVec::from_slice(words) };
        set.trim();
        set
    }

    /// Returns the words of the set, lowest CPUs first, without trailing zero words.
    #[must_use]
    pub fn as_words(&self) -> &[u64] {
        &self.words
    }

    /// Adds a CPU.
    pub fn insert(&mut self, cpu: usize) {
        let word = cpu / BITS;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (cpu % BITS);
    }

    /// Removes a CPU; does nothing if it is not in the set.
    pub fn remove(&mut self, cpu: usize) {
        if let Some(word) = self.words.get_mut(cpu / BITS) {
            *word &= !(1 << (cpu % BITS));
            self.trim();
        }
    }

    /// Returns true if `cpu` is in the set.
    #[must_use]
    pub fn contains(&self, cpu: usize) -> bool {
        self.words.get(cpu / BITS).is_some_and(|word| word >> (cpu % BITS) & 1 == 1)
    }

    /// Returns the number of CPUs in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns true if the set contains no CPU.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the lowest CPU.
    #[must_use]
    pub fn first(&self) -> Option<usize> {
        self.iter().next()
    }

    /// Returns the highest CPU.
    #[must_use]
    pub fn last(&self) -> Option<usize> {
        let word = *self.words.last()?;
        Some(self.words.len() * BITS - 1 - word.leading_zeros() as usize)
    }

    /// Returns the CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            std::iter::successors((word != 0).then_some(word), |rest| {
                let rest = rest & (rest - 1);
                (rest != 0).then_some(rest)
            })
            .map(move |rest| index * BITS + rest.trailing_zeros() as usize)
        })
    }

    /// Returns the CPUs that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut set =
            Self { words: self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect() };
        set.trim();
        set
    }

    /// Returns the CPUs that are in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let (long, short) =
            if self.words.len() >= other.words.len() { (self, other) } else { (other, self) };
        let mut set = long.clone();
        for (word, more) in set.words.iter_mut().zip(&short.words) {
            *word |= more;
        }
        set
    }

    /// Returns the CPUs of this set that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut set = self.clone();
        for (word, gone) in set.words.iter_mut().zip(&other.words) {
            *word &= !gone;
        }
        set.trim();
        set
    }

    /// Returns true if the sets share a CPU.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// Returns true if every CPU of this set is in `other`.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.words.len() <= other.words.len()
            && self.words.iter().zip(&other.words).all(|(a, b)| a & !b == 0)
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        let mut set = Self::new();
        set.extend(cpus);
        set
    }
}

impl Extend<usize> for CpuSet {
    fn extend<I: IntoIterator<Item = usize>>(&mut self, cpus: I) {
        for cpu in cpus {
            self.insert(cpu);
        }
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if_eq(&(last + 1)) {
                last = next;
            }
            if first == last {
                write!(out, "{separator}{first}")?;
            } else {
                write!(out, "{separator}{first}-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{{{self}}}")
    }
}

/// A text that is not a CPU list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a CPU list such as 0-3,8: {reason}")]
pub struct ParseCpuSetError {
    text: String,
    reason: &'static str,
}

impl From<CpuSet> for String {
    fn from(set: CpuSet) -> Self {
        set.to_string()
    }
}

impl TryFrom<String> for CpuSet {
    type Error = ParseCpuSetError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl FromStr for CpuSet {
    type Err = ParseCpuSetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fail = |reason| ParseCpuSetError { text: text.to_owned(), reason };
        let number = |digits: &str| match digits.trim().parse::<usize>() {
            Ok(cpu) if cpu <= MAX_LISTED_CPU => Ok(cpu),
            Ok(_) => Err(fail("a CPU number is too large")),
            Err(_) => Err(fail("a part is not a number")),
        };
        let mut set = Self::new();
        if text.trim().is_empty() {
            return Ok(set);
        }
        for part in text.split(',') {
            match part.split_once('-') {
                None => set.insert(number(part)?),
                Some((first, last)) => {
                    let (first, last) = (number(first)?, number(last)?);
                    if first > last {
                        return Err(fail("a range ends before it starts"));
                    }
                    set.extend(first..=last);
                }
            }
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn model() -> impl Strategy<Value = BTreeSet<usize>> {
        proptest::collection::btree_set(0_usize..2_100, 0..40)
    }

    proptest! {
        #[test]
        fn behaves_like_an_ordered_set(a in model(), b in model()) {
            let (x, y): (CpuSet, CpuSet) = (a.iter().copied().collect(), b.iter().copied().collect());
            prop_assert_eq!(x.len(), a.len());
            prop_assert_eq!(x.iter().collect::<Vec<_>>(), a.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(x.first(), a.first().copied());
            prop_assert_eq!(x.last(), a.last().copied());
            prop_assert_eq!(x.intersection(&y), a.intersection(&b).copied().collect());
            prop_assert_eq!(x.union(&y), a.union(&b).copied().collect());
            prop_assert_eq!(x.difference(&y), a.difference(&b).copied().collect());
            prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
            prop_assert_eq!(x.intersects(&y), !a.is_disjoint(&b));
            prop_assert!((0..2_200).all(|cpu| x.contains(cpu) == a.contains(&cpu)));
            let (mut without, mut rest) = (x.clone(), a.clone());
            b.iter().for_each(|&cpu| without.remove(cpu));
            rest.retain(|cpu| !b.contains(cpu));
            prop_assert_eq!(without, rest.into_iter().collect());
        }

        #[test]
        fn text_and_words_round_trip(a in model()) {
            let set: CpuSet = a.into_iter().collect();
            prop_assert_eq!(&set.to_string().parse::<CpuSet>().unwrap(), &set);
            prop_assert_eq!(&CpuSet::try_from(String::from(set.clone())).unwrap(), &set);
            prop_assert_eq!(&CpuSet::from_words(set.as_words()), &set);
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "[0-9,\\- a]{0,24}") {
            let _ = text.parse::<CpuSet>();
        }
    }

    #[test]
    fn removal_keeps_equality_meaningful() {
        let mut set = CpuSet::single(2_000);
        set.insert(1);
        set.remove(2_000);
        assert_eq!(set, CpuSet::single(1));
    }

    #[test]
    fn set_at_word_borders_has_what_was_put_in() {
        for cpu in [0, 1, 63, 64, 65, 127, 128, 2_000] {
            let set = CpuSet::single(cpu);
            let others = [cpu + 1, cpu + 64, cpu.wrapping_sub(1)];
            assert!(set.contains(cpu) && !others.iter().any(|&cpu| set.contains(cpu)), "{cpu}");
            assert_eq!((set.first(), set.last(), set.len()), (Some(cpu), Some(cpu), 1));
            assert!(!set.is_empty() && set.as_words().len() == cpu / 64 + 1);
        }
        let mut set = CpuSet::from_range(62..66);
        assert_eq!(format!("{set} {set:?}"), "62-65 {62-65}");
        set.remove(64);
        set.remove(500);
        assert_eq!(set.to_string(), "62-63,65");
        assert!(CpuSet::from_range(3..3).is_empty());
    }

    #[test]
    fn highest_number_of_a_list_is_the_last_taken() {
        let highest: CpuSet = "1048575".parse().unwrap();
        assert_eq!(highest.last(), Some(MAX_LISTED_CPU));
        let error = "1048576".parse::<CpuSet>().unwrap_err().to_string();
        assert!(error.ends_with("a CPU number is too large"), "{error}");
    }

    #[test]
    fn nonsense_is_refused_with_its_reason() {
        for text in ["a", "3-1", "1,,2", "99999999999", "-", "1-"] {
            let error = text.parse::<CpuSet>().unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }
}
