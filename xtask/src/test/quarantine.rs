//! Tests that run but do not count for a while: `tests/quarantine.toml`.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::project;

/// Maximum number of days in quarantine.
const LONGEST_DAYS: i64 = 30;

/// The entries of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quarantine {
    #[serde(default)]
    test: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    date: String,
    reason: String,
}

impl Quarantine {
    /// Reads the checkout's file; fails if an entry is too old or has no reason.
    pub fn of_checkout() -> Result<Quarantine> {
        let path = project::root().join("tests/quarantine.toml");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("reading {}", path.display()))?;
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).context("reading the clock")?;
        let today = i64::try_from(seconds.as_secs() / 86_400)?;
        Quarantine::parse(&text, today).with_context(|| format!("reading {}", path.display()))
    }

    fn parse(text: &str, today: i64) -> Result<Quarantine> {
        let quarantine: Quarantine = toml::from_str(text)?;
        for Entry { name, date, reason } in &quarantine.test {
            let age = today - days(date).with_context(|| format!("{name}: date = {date:?}"))?;
            ensure!(!reason.trim().is_empty(), "{name}: it has no reason");
            if age > LONGEST_DAYS {
                bail!("{name}: here for {age} days, {LONGEST_DAYS} are allowed: mend or delete it");
            }
        }
        Ok(quarantine)
    }

    /// Returns the reason why a test of a step does not count, if there is one.
    pub fn reason(&self, step: &str, test: &str) -> Option<&str> {
        let is_it = |entry: &&Entry| entry.name.rsplit_once(": ") == Some((step, test));
        let entry = self.test.iter().find(is_it)?;
        Some(&entry.reason)
    }
}

/// Returns the days from 1970-01-01 to a date, by the calendar's eras of 400 years.
fn days(date: &str) -> Result<i64> {
    let mut parts = date.split('-').map(str::parse::<i64>);
    let mut next = || parts.next().context("expected YYYY-MM-DD")?.context("expected YYYY-MM-DD");
    let (year, month, day) = (next()?, next()?, next()?);
    ensure!((1..=12).contains(&month) && (1..=31).contains(&day), "there is no such day");
    // Years begin in March here, so that a leap day is a year's last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    Ok(era * 146_097 + year * 365 + year / 4 - year / 100 + day_of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: &str =
        "[[test]]\nname = \"mpich5: s t0: a\"\ndate = \"2026-11-01\"\nreason = \"load\"";

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(days("1970-01-01").unwrap(), 0);
        assert_eq!(days("2000-02-29").unwrap(), 11_016);
        assert_eq!(days("2026-11-25").unwrap(), 20_782);
        assert!(days("2026-13-01").is_err() && days("soon").is_err());
    }

    #[test]
    fn young_entries_give_their_reason() {
        let quarantine = Quarantine::parse(ENTRY, days("2026-12-01").unwrap()).unwrap();
        assert_eq!(quarantine.reason("mpich5: s t0", "a"), Some("load"));
        assert_eq!(quarantine.reason("s t0", "a"), None);
    }

    #[test]
    fn old_or_unexplained_entries_are_errors() {
        let error = Quarantine::parse(ENTRY, days("2026-12-02").unwrap()).unwrap_err();
        assert!(format!("{error:#}").contains("31 days"), "{error:#}");
        assert!(Quarantine::parse(&ENTRY.replace("load", " "), 20_760).is_err());
    }
}
