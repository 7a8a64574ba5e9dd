//! Times and numbers as Slurm writes them.

use crate::input::LONGEST_TIME;
use elastic_policy::time::Span;

/// Seconds in a day.
const DAY: i64 = 86_400;

/// A time in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instant {
    /// Seconds since 1970; a local time is taken as UTC.
    pub seconds: i64,
    /// True if the text includes the time zone.
    pub has_zone: bool,
}

/// Parses a text like `2026-11-25T14:00:00`, optionally with a blank for the `T`, and with or
/// without a zone (`Z`, `+0100`), or a number of seconds since 1970.
pub(super) fn instant(text: &str) -> Option<Instant> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds = text.parse().ok().filter(|&seconds: &i64| seconds as f64 <= LONGEST_TIME)?;
        return Some(Instant { seconds, has_zone: true });
    }
    let (date, rest) = text.split_once(['T', ' '])?;
    let mut date = date.split('-').map(number);
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let zone = rest.find(['Z', '+', '-', ' ']).unwrap_or(rest.len());
    let (time, zone) = rest.split_at(zone);
    let offset = offset(zone.trim_start())?;
    let mut time = time.split(':');
    let (hour, minute, second) = (time.next()?, time.next()?, time.next()?);
    let is_over = time.next().is_none() && date.next().is_none();
    // Fractions are below the resolution of a log.
    let second = second.split_once('.').map_or(second, |(whole, _)| whole);
    let (hour, minute, second) = (number(hour)?, number(minute)?, number(second)?);
    let is_time = hour < 24 && minute < 60 && second <= 60;
    let is_date = (1970..10_000).contains(&year) && (1..=12).contains(&month);
    if !is_over || !is_date || !is_time || !(1..=days(year, month)).contains(&day) {
        return None;
    }
    // Days since 1970 in the Gregorian calendar, with years that begin in March.
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = 365 * year + year / 4 - year / 100 + year / 400 + of_year - 719_468;
    let seconds = days * DAY + hour * 3600 + minute * 60 + second - offset.unwrap_or(0);
    Some(Instant { seconds, has_zone: offset.is_some() })
}

/// Digits only: no sign, no blanks.
fn number(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

fn days(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the seconds by which a zone is ahead of UTC; the inner `None` without a zone.
#[expect(clippy::option_option, reason = "no zone is right, and text that is no zone is wrong")]
fn offset(zone: &str) -> Option<Option<i64>> {
    let (sign, digits) = match zone.split_at_checked(1) {
        None => return Some(None),
        Some(("Z", "")) => return Some(Some(0)),
        Some(("+", digits)) => (1, digits.replace(':', "")),
        Some(("-", digits)) => (-1, digits.replace(':', "")),
        Some(_) => return None,
    };
    let number = number(&digits)?;
    let (hours, minutes) = match digits.len() {
        2 => (number, 0),
        4 => (number / 100, number % 100),
        _ => return None,
    };
    (hours <= 18 && minutes < 60).then_some(Some(sign * (hours * 3600 + minutes * 60)))
}

/// Parses a duration like `1-00:30:00`, `00:30:00` or `30:00`.
pub(super) fn length(text: &str) -> Option<Span> {
    let (days, rest) = text.split_once('-').unwrap_or(("0", text));
    let days: u64 = days.parse().ok()?;
    let mut seconds = 0_u64;
    let parts: Vec<&str> = rest.split(':').collect();
    if parts.len() > 3 {
        return None;
    }
    for part in parts {
        seconds = seconds.checked_mul(60)?.checked_add(part.parse().ok()?)?;
    }
    let seconds = days.checked_mul(86_400)?.checked_add(seconds)?;
    (seconds as f64 <= LONGEST_TIME).then(|| Span::seconds(seconds))
}

/// Parses a number that Slurm may have shortened, such as `2K` for 2048.
pub(super) fn count(text: &str) -> Option<u32> {
    match text.strip_suffix('K') {
        Some(thousands) => {
            let value: f64 = thousands.parse().ok()?;
            (value.is_finite() && value >= 0.0).then_some((value * 1024.0) as u32)
        }
        None => text.parse().ok(),
    }
}

/// Parses a memory field of `sacct` as the MiB on all CPUs and nodes of a job: `4G`, with the
/// suffix `c` or `n` for each CPU or node, or in a list such as `cpu=4,mem=16G,node=1`. `None` if
/// there is no memory in it.
pub(super) fn memory(text: &str, cpus: u32, nodes: u32) -> Option<u32> {
    let in_list = |list: &str| {
        list.split(',').find_map(|entry| entry.strip_prefix("mem=")).map(str::to_owned)
    };
    let text = if text.contains('=') { in_list(text)? } else { text.to_owned() };
    let (text, times) = match text.strip_suffix('c') {
        Some(text) => (text, cpus),
        None => {
            (text.strip_suffix('n').unwrap_or(&text), if text.ends_with('n') { nodes } else { 1 })
        }
    };
    let (number, unit) = match text.char_indices().last()? {
        (place, 'K') => (&text[..place], 1.0 / 1024.0),
        (place, 'M') => (&text[..place], 1.0),
        (place, 'G') => (&text[..place], 1024.0),
        (place, 'T') => (&text[..place], 1024.0 * 1024.0),
        (place, 'P') => (&text[..place], 1024.0 * 1024.0 * 1024.0),
        _ => (text, 1.0),
    };
    let value: f64 = number.parse().ok()?;
    let value = (value * unit * f64::from(times)).ceil();
    (value.is_finite() && value > 0.0).then_some(value as u32)
}

/// Returns the number of array tasks that one line stands for: five for `7_[1-5%2]`, one for `7_3`.
pub(super) fn tasks(id: &str) -> u64 {
    let Some((_, list)) = id.split_once("_[") else { return 1 };
    let list = list.split(['%', ']']).next().unwrap_or_default();
    let of_range = |range: &str| -> Option<u64> {
        let (range, step) = range.split_once(':').unwrap_or((range, "1"));
        let Some((first, last)) = range.split_once('-') else { return Some(1) };
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        Some(last.checked_sub(first)?.checked_div(step.parse().ok()?)?.saturating_add(1))
    };
    // Slurm truncates a long list: a truncated range counts as one.
    list.split(',').map(|range| of_range(range).unwrap_or(1)).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read_in_each_format_of_slurm() {
        let read = |text| instant(text).map(|read| (read.seconds, read.has_zone));
        assert_eq!(read("1970-01-02T00:00:01"), Some((86_401, false)));
        assert_eq!(read("2024-02-29T12:00:00"), Some((1_709_208_000, false)));
        assert_eq!(read("2024-02-29 12:00:00.25"), Some((1_709_208_000, false)));
        for text in [
            "2024-02-29T12:00:00Z",
            "2024-02-29T13:00:00+0100",
            "2024-02-29T06:30:00-05:30",
            "2024-02-29T13:00:00 +01",
            "1709208000",
        ] {
            assert_eq!(read(text), Some((1_709_208_000, true)), "{text}");
        }
        for text in [
            "",
            "2024-13-01T12:00:00",
            "2026-02-29T12:00:00",
            "Tomorr 10:00",
            "2 Nov 14:00",
            "2024-02-29",
            "2024-02-29T12:00",
            "2024-02-29T12:00:00+1",
            "2024-02-29T12:00:00 CET",
            "2024-02-29T+2:00:00",
            "NaN",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn memory_is_read_in_each_format_of_slurm() {
        for (text, expected) in [
            ("4G", Some(4096)),
            ("512Mc", Some(4096)),
            ("4Gn", Some(8192)),
            ("1.50G", Some(1536)),
            ("100", Some(100)),
            ("2048K", Some(2)),
            ("billing=8,cpu=8,mem=16G,node=2", Some(16_384)),
            ("billing=8,cpu=8,node=2", None),
            ("0n", None),
            ("", None),
            ("?", None),
            ("-4G", None),
        ] {
            assert_eq!(memory(text, 8, 2), expected, "{text}");
        }
    }

    #[test]
    fn lengths_counts_and_tasks_are_read() {
        assert_eq!(length("1-00:30:00"), Some(Span::seconds(88_200)));
        assert_eq!(length("30:00"), Some(Span::seconds(1_800)));
        assert_eq!(length("1:2:3:4"), None);
        assert_eq!((count("2K"), count("NaNK"), count("-1")), (Some(2048), None, None));
        for (id, expected) in [
            ("7", 1),
            ("7_3", 1),
            ("7_[1-5%2]", 5),
            ("7_[1,4-6]", 4),
            ("7_[0-9:3]", 4),
            ("7_[1-5,...]", 6),
            ("7_[5-1:0]", 1),
        ] {
            assert_eq!(tasks(id), expected, "{id}");
        }
    }
}
