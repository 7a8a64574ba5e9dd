//! Bounds of a component's resident memory at any time between two samples.
//!
//! Three numbers are known at every moment, since they are counted: the owned bytes, the total ever
//! allocated, and the highest ever owned. Between samples, resident bytes grow only when owned
//! memory is touched, and shrink only when memory is released. So with `R₀` resident and `A₀` owned
//! at the earlier sample, and `allocated` and `freed` since:
//!
//! `max(0, R₀ − freed) ≤ R(t) ≤ min(owned at most, R₀ + untouched₀ + allocated) + memory that no ledger counts`
//!
//! where `untouched₀ = A₀ − R₀`, if that is known. Code and data of objects count as touched at the
//! later sample as far as possible. Pages that the kernel reclaims by itself (swap, a program's
//! `MADV_DONTNEED`) may reduce the value further.

/// Known numbers of a component at a sample, in bytes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Bytes allocated and not freed.
    pub owned: u64,
    /// Bytes found resident.
    pub resident: u64,
    /// Total bytes ever allocated.
    pub allocated: u64,
    /// Highest bytes ever owned.
    pub owned_peak: u64,
    /// Bytes mapped without being owned.
    pub image: u64,
}

/// Lower and upper bound, in bytes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Lower bound.
    pub low: u64,
    /// Upper bound.
    pub high: u64,
}

/// Bounds the resident memory at any time from `before` to `after`, both included.
#[must_use]
pub fn between(before: &Known, after: &Known) -> Bounds {
    let allocated = after.allocated.saturating_sub(before.allocated);
    let reached = before.owned.saturating_add(allocated);
    // At both ends, owned bytes are the allocated ones minus the freed ones.
    let freed = reached.saturating_sub(after.owned);
    let owned = match after.owned_peak {
        // Not known.
        0 => reached,
        peak => reached.min(peak),
    };
    let beyond = |known: &Known| known.resident.saturating_sub(known.owned);
    let uncounted = after.image.min(after.resident).max(beyond(before)).max(beyond(after));
    let most = owned.max(before.owned).max(after.owned).saturating_add(uncounted);
    Bounds {
        low: before.resident.saturating_sub(freed).min(after.resident),
        high: most.max(before.resident).max(after.resident),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A component of a process: blocks of pages, each with its touched pages.
    #[derive(Default)]
    struct Process {
        blocks: Vec<(u64, u64)>,
        image: (u64, u64),
        allocated: u64,
        peak: u64,
    }

    impl Process {
        fn known(&self) -> Known {
            let sum = |of: fn(&(u64, u64)) -> u64| self.blocks.iter().map(of).sum::<u64>();
            let (owned, touched) = (sum(|block| block.0), sum(|block| block.1));
            Known {
                owned,
                resident: touched + self.image.1,
                allocated: self.allocated,
                owned_peak: self.peak,
                image: self.image.0,
            }
        }

        fn step(&mut self, kind: u8, which: usize, pages: u64) {
            let count = self.blocks.len().max(1);
            match (kind, self.blocks.get_mut(which % count)) {
                (0, _) => {
                    self.blocks.push((pages, 0));
                    self.allocated += pages;
                    self.peak = self.peak.max(self.known().owned);
                }
                (1 | 2, Some(block)) => block.1 = (block.1 + pages).min(block.0),
                (3, Some(_)) => drop(self.blocks.swap_remove(which % count)),
                (4, _) => self.image.1 = (self.image.1 + pages / 8).min(self.image.0),
                _ => {}
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_resident_is_within_the_bounds_at_every_moment(
            image in 0_u64..50,
            steps in prop::collection::vec((0_u8..6, 0_usize..100, 0_u64..200, 0_u8..8), 1..300),
        ) {
            let mut process = Process { image: (image, 0), ..Process::default() };
            let mut before = process.known();
            let mut seen = vec![before.resident];
            for (kind, which, pages, sampled) in steps {
                process.step(kind, which, pages);
                let after = process.known();
                seen.push(after.resident);
                if sampled == 0 {
                    let Bounds { low, high } = between(&before, &after);
                    for resident in seen.drain(..) {
                        prop_assert!((low..=high).contains(&resident), "{resident} of {low}..{high}");
                    }
                    before = after;
                    seen.push(after.resident);
                }
            }
        }

        #[test]
        fn bounds_hold_both_samples_whatever_they_say(
            words in prop::array::uniform10(prop_oneof![0_u64..1 << 40, any::<u64>()]),
        ) {
            let known = |words: &[u64]| Known {
                owned: words[0],
                resident: words[1],
                allocated: words[2],
                owned_peak: words[3],
                image: words[4],
            };
            let (before, after) = (known(&words[..5]), known(&words[5..]));
            let Bounds { low, high } = between(&before, &after);
            prop_assert!(low <= before.resident && low <= after.resident);
            prop_assert!(high >= before.resident && high >= after.resident);
        }
    }

    #[test]
    fn resting_component_has_a_band_of_its_untouched_part_only() {
        let rest = Known { owned: 100, resident: 100, allocated: 500, owned_peak: 200, image: 0 };
        assert_eq!(between(&rest, &rest), Bounds { low: 100, high: 100 });
        let half = Known { resident: 50, ..rest };
        assert_eq!(between(&half, &half), Bounds { low: 50, high: 100 });
    }

    #[test]
    fn repeated_allocation_is_bounded_by_the_exact_peak() {
        let before = Known { owned: 40, resident: 40, allocated: 40, owned_peak: 80, image: 0 };
        let after = Known { allocated: 440, ..before };
        assert_eq!(between(&before, &after), Bounds { low: 0, high: 80 });
    }
}
