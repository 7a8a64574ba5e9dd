//! When a wait in MPI lends, and how long it sleeps before MPI polls again. Pure.

/// Nanoseconds after which a wait lends, unless `QUO_RUN_AFTER` is set.
pub const DEFAULT_AFTER: u64 = 100_000;

/// Shortest and longest sleep: with shorter ones polling takes too much of the lent CPU, with
/// longer ones the rank is late.
const SHORTEST: u64 = 50_000;
const LONGEST: u64 = 500_000;
/// Fraction of the time waited that one sleep may take: the wait ends late by at most that.
const SHARE: u64 = 16;

/// Parses the limit, in microseconds, as passed by `quo-run`.
pub fn after(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse::<u32>().ok()).map_or(DEFAULT_AFTER, |us| u64::from(us) * 1_000)
}

/// Returns the nanoseconds to sleep after `waited` in the call; `None` if MPI polls again at once
/// and nothing is lent.
pub fn sleep(waited: u64, after: u64) -> Option<u64> {
    (waited >= after).then(|| (waited / SHARE).clamp(SHORTEST, LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_waits_spin_and_long_ones_sleep() {
        assert_eq!(sleep(0, DEFAULT_AFTER), None);
        assert_eq!(sleep(DEFAULT_AFTER - 1, DEFAULT_AFTER), None);
        assert_eq!(sleep(DEFAULT_AFTER, DEFAULT_AFTER), Some(SHORTEST));
        assert_eq!(sleep(1_600_000, DEFAULT_AFTER), Some(100_000));
        assert_eq!(sleep(u64::MAX, DEFAULT_AFTER), Some(LONGEST));
    }

    #[test]
    fn limit_is_read_in_microseconds() {
        assert_eq!(after(None), DEFAULT_AFTER);
        assert_eq!(after(Some("250")), 250_000);
        assert_eq!(after(Some("soon")), DEFAULT_AFTER);
    }
}
