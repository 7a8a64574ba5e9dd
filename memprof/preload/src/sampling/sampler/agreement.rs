//! Distance of a walk's findings from the kernel's counts.

/// Tolerance for the kernel's per-processor counts, which vary from one moment to the next, in
/// addition to a part of the total.
const SLACK: i64 = 1 << 20;
const PART: i64 = 1024;

/// Distance of walks from the kernel's total where nothing moves. The kernel may count memory that
/// walks do not see, and on machines with many processors its total is a sum that lags behind.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    usual: i64,
}

/// Findings of one walk, and the kernel's total before and after it, in bytes.
#[derive(Copy, Clone, Debug)]
pub struct Found {
    pub walked: u64,
    pub before: u64,
    pub after: u64,
}

impl Found {
    /// Returns the least and the greatest distance from the kernel's total, for any value of the
    /// total during the walk.
    fn off(&self) -> (i64, i64) {
        let [walked, before, after] = [self.walked, self.before, self.after]
            .map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX / 2));
        (walked - before.max(after), walked - before.min(after))
    }

    fn slack(&self) -> i64 {
        SLACK + i64::try_from(self.walked).unwrap_or(i64::MAX / 2) / PART
    }
}

impl Agreement {
    pub const fn new() -> Agreement {
        Agreement { usual: 0 }
    }

    /// Returns true if the distance of a walk is the usual one, or the same as that of the walk
    /// before it for the same sample, which then becomes the usual one.
    pub fn accepts(&mut self, found: &Found, before: Option<&Found>) -> bool {
        let ((least, most), slack) = (found.off(), found.slack());
        if (least - slack..=most + slack).contains(&self.usual) {
            return true;
        }
        let Some((low, high)) = before.map(Found::off) else { return false };
        let agrees = least - slack <= high && low <= most + slack;
        if agrees {
            self.usual = if self.usual < least { least } else { most };
        }
        agrees
    }
}

impl Agreement {
    /// Returns true if memory that a walk has found is no longer there at its end.
    pub fn is_outdated(&self, found: &Found) -> bool {
        let after = i64::try_from(found.after).unwrap_or(i64::MAX / 2);
        let walked = i64::try_from(found.walked).unwrap_or(i64::MAX / 2);
        walked - after > self.usual + found.slack()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MEBI: u64 = 1 << 20;

    fn still(walked: u64, kernel: u64) -> Found {
        Found { walked, before: kernel, after: kernel }
    }

    #[test]
    fn walk_that_misses_or_doubles_a_block_is_not_accepted() {
        let mut agreement = Agreement::new();
        for walked in [20 * MEBI, 36 * MEBI] {
            assert!(!agreement.accepts(&still(walked, 28 * MEBI), None));
            assert!(
                agreement.accepts(&still(28 * MEBI, 28 * MEBI), Some(&still(walked, 28 * MEBI)))
            );
        }
    }

    #[test]
    fn what_two_walks_say_alike_is_usual_from_then_on() {
        let mut agreement = Agreement::new();
        let found = still(20 * MEBI, 28 * MEBI);
        assert!(!agreement.accepts(&found, None));
        assert!(agreement.accepts(&found, Some(&found)));
        assert!(agreement.accepts(&still(50 * MEBI, 58 * MEBI), None));
        assert!(!agreement.accepts(&still(50 * MEBI, 50 * MEBI), None));
        assert!(
            agreement.accepts(&still(50 * MEBI, 50 * MEBI), Some(&still(50 * MEBI, 50 * MEBI)))
        );
        assert_eq!(agreement, Agreement::new());
    }

    #[test]
    fn what_grows_during_a_walk_may_be_found_or_not() {
        let mut agreement = Agreement::new();
        for walked in [100, 150, 200] {
            let found = Found { walked: walked * MEBI, before: 100 * MEBI, after: 200 * MEBI };
            assert!(agreement.accepts(&found, None));
        }
        let found = Found { walked: 90 * MEBI, before: 100 * MEBI, after: 200 * MEBI };
        assert!(!agreement.accepts(&found, None));
    }

    #[test]
    fn walk_is_outdated_by_what_is_freed_behind_it() {
        let agreement = Agreement { usual: 8 << 20 };
        let found = |after| Found { walked: 50 * MEBI, before: 42 * MEBI, after };
        assert!(!agreement.is_outdated(&found(42 * MEBI)));
        assert!(!agreement.is_outdated(&found(90 * MEBI)), "what has come since");
        assert!(agreement.is_outdated(&found(2 * MEBI)));
    }

    proptest! {
        /// Whatever the constant error of the kernel's count is, no more than one walk is repeated.
        #[test]
        fn constant_difference_of_the_count_costs_one_walk(
            off in 0_u64..1 << 40,
            walks in proptest::collection::vec(0_u64..1 << 40, 1..50),
            is_more: bool,
        ) {
            let mut agreement = Agreement::new();
            let mut again = 0;
            for walked in walks {
                let found = if is_more { still(walked + off, walked) } else { still(walked, walked + off) };
                if !agreement.accepts(&found, None) {
                    again += 1;
                    prop_assert!(agreement.accepts(&found, Some(&found)));
                }
            }
            prop_assert!(again <= 1);
        }
    }
}
