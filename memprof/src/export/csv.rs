//! Comma-separated values, one line for each rank, point and component: ready for data frames.

use super::{History, Kind};
use crate::model::{Group, Rank};
use std::borrow::Cow;
use std::io::{self, Write};

/// Columns, in order.
pub(super) const COLUMNS: [&str; 14] = [
    "rank",
    "host",
    "pid",
    "time_s",
    "kind",
    "phase",
    "component",
    "group",
    "owned",
    "resident",
    "resident_low",
    "resident_high",
    "shared",
    "swapped",
];

pub(super) fn head(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", COLUMNS.join(","))
}

pub(super) fn rank(out: &mut impl Write, rank: &Rank, history: &History) -> io::Result<()> {
    let number = rank.identity.rank.map_or(String::new(), |rank| rank.to_string());
    let who = format!("{number},{},{}", field(&rank.identity.host), rank.identity.pid);
    let names: Vec<String> = history
        .names
        .iter()
        .map(|name| format!("{},{}", field(name), Group::of(name).label()))
        .collect();
    // A point without memory has no line, and needs no phase.
    for point in history.points.iter().filter(|point| !point.rows.is_empty()) {
        let when = format!(
            "{}.{:09},{},{}",
            point.time_ns / 1_000_000_000,
            point.time_ns % 1_000_000_000,
            point.kind.label(),
            field(history.phase_at(point.time_ns))
        );
        for row in &point.rows {
            let name = &names[row.component];
            write!(
                out,
                "{who},{when},{name},{},{},{},{}",
                row.owned, row.resident, row.low, row.high
            )?;
            match point.kind {
                Kind::Sample => writeln!(out, ",{},{}", row.shared, row.swapped)?,
                Kind::Bin => writeln!(out, ",,")?,
            }
        }
    }
    Ok(())
}

/// Formats a field as required by RFC 4180.
pub(super) fn field(text: &str) -> Cow<'_, str> {
    // A spreadsheet would execute these.
    let text: Cow<'_, str> = match text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        true => format!("'{text}").into(),
        false => text.into(),
    };
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")).into(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_cannot_become_several_or_be_run() {
        for (text, wanted) in [
            ("libx.so", "libx.so"),
            ("a,b", "\"a,b\""),
            ("say \"x\"\n", "\"say \"\"x\"\"\n\""),
            ("=1+2", "'=1+2"),
            ("=1,2", "\"'=1,2\""),
            ("-2+3+cmd|x", "'-2+3+cmd|x"),
            ("\r=1", "\"'\r=1\""),
        ] {
            assert_eq!(field(text), wanted);
        }
    }
}
