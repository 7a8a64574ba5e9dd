//! Bytes, times and shares as people read them.

/// Formats bytes as `812 B`, `40.0 KiB`, `1.25 GiB`: three or four digits.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // What would be rounded to 1024 of a unit is 1.00 of the next.
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// Formats a time as `850 ns`, `3.20 ms`, `12.5 s`, `3 min 20 s`, `2 h 05 min`, `3 d 07 h`.
pub fn time(ns: u64) -> String {
    let three = |value: f64, unit: &str| {
        let digits = match value {
            v if v < 9.995 => 2,
            v if v < 99.95 => 1,
            _ => 0,
        };
        format!("{value:.digits$} {unit}")
    };
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..999_500 => three(ns as f64 / 1e3, "µs"),
        999_500..999_500_000 => three(ns as f64 / 1e6, "ms"),
        999_500_000..99_950_000_000 => three(ns as f64 / 1e9, "s"),
        _ => {
            let seconds = ns.saturating_add(500_000_000) / 1_000_000_000;
            match seconds {
                0..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
                3600..172_800 => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
                _ => format!("{} d {:02} h", seconds / 86_400, seconds / 3600 % 24),
            }
        }
    }
}

/// Millionths as a percentage: `0.03 %`.
pub fn millionths(value: u32) -> String {
    format!("{:.2} %", f64::from(value) / 1e4)
}

/// Returns `part` of `whole` in millionths; 0 if `whole` is 0.
pub fn share(part: u64, whole: u64) -> u32 {
    match whole {
        0 => 0,
        _ => (u128::from(part) * 1_000_000 / u128::from(whole)).min(u128::from(u32::MAX)) as u32,
    }
}

/// Formats a number with commas between thousands: `60,000`.
pub fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a number with a noun: `1 rank`, `4 ranks`.
pub fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ if what.ends_with('s') => format!("{number} {what}es"),
        _ => format!("{number} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_three_or_four_digits_and_the_right_unit() {
        for (value, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (1_048_575, "1.00 MiB"),
            (40 << 20, "40.0 MiB"),
            (123 << 30, "123 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(value), text);
        }
    }

    #[test]
    fn times_change_their_unit_where_rounding_would() {
        for (value, text) in [
            (850, "850 ns"),
            (3_200_000, "3.20 ms"),
            (999_600_000, "1.00 s"),
            (12_500_000_000, "12.5 s"),
            (200_000_000_000, "3 min 20 s"),
            (7_500_000_000_000, "2 h 05 min"),
            (284_400_000_000_000, "3 d 07 h"),
        ] {
            assert_eq!(time(value), text);
        }
        assert!(time(u64::MAX).ends_with(" h"));
    }

    #[test]
    fn shares_of_nothing_are_nothing() {
        assert_eq!(share(5, 0), 0);
        assert_eq!(share(1, 200), 5_000);
        assert_eq!(millionths(5_000), "0.50 %");
        assert_eq!(share(u64::MAX, 1), u32::MAX);
    }
}
