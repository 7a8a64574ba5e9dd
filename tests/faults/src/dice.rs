//! Repeatable pseudo-random numbers.

use std::time::Duration;

/// A small generator (splitmix64): the same numbers from the same seed on every machine.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Creates a generator for one purpose: different words of the key give unrelated numbers.
    #[must_use]
    pub fn new(key: &[u64]) -> Self {
        let mut dice = Self(0);
        for word in key {
            dice.0 = dice.next() ^ word.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a number below `sides`, which is not zero.
    pub fn below(&mut self, sides: usize) -> usize {
        (self.next() % sides.max(1) as u64) as usize
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// Returns true with a probability of `per_cent` per cent.
    pub fn chance(&mut self, per_cent: usize) -> bool {
        self.below(100) < per_cent
    }

    /// Returns one of several choices.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Returns one of several choices, each with a weight.
    pub fn weighted<T: Copy>(&mut self, choices: &[(usize, T)]) -> T {
        let mut left = self.below(choices.iter().map(|(weight, _)| weight).sum());
        for &(weight, choice) in choices {
            if left < weight {
                return choice;
            }
            left -= weight;
        }
        choices[0].1
    }

    /// Returns a time of any order of magnitude up to `longest`: one to two microseconds are as
    /// likely as one to two milliseconds.
    pub fn moment(&mut self, longest: Duration) -> Duration {
        let nanoseconds = longest.as_nanos().max(2) as u64;
        let order = self.below(nanoseconds.ilog2() as usize + 1) as u32;
        Duration::from_nanos((1 << order | self.next() & ((1 << order) - 1)).min(nanoseconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_give_equal_numbers_and_other_keys_others() {
        let draw = |key: &[u64]| {
            let mut dice = Dice::new(key);
            [(); 8].map(|()| dice.below(1 << 30))
        };
        assert_eq!(draw(&[1, 2]), draw(&[1, 2]));
        assert_ne!(draw(&[1, 2]), draw(&[2, 1]));
        assert_ne!(draw(&[1, 2]), draw(&[1, 3]));
    }

    #[test]
    fn numbers_stay_within_their_bounds_and_reach_them() {
        let mut dice = Dice::new(&[7]);
        let drawn: Vec<usize> = (0..1_000).map(|_| dice.between(3, 6)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&3), Some(&6)));
        let longest = Duration::from_micros(100);
        assert!((0..1_000).all(|_| dice.moment(longest) <= longest));
        assert!((0..1_000).all(|_| dice.weighted(&[(0, 'a'), (3, 'b')]) == 'b'));
    }
}
