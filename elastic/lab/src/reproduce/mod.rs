//! Replays of the sources' tables: the figure of the source next to ours.
//!
//! Formulas and size sequences are compared exactly. If a source gives too little to reproduce its
//! figures, orders and ratios are compared over many seeds, with confidence, and the remarks name
//! the missing data and their substitutes.
//!
//! | source | tables |
//! |---|---|
//! | R. Sudarsan, dissertation, Virginia Tech 2009 | `exact.rs`, `small.rs`, `setups.rs` |
//! | I. A. Comprés Ureña, dissertation, TU München 2017 | `exact.rs`, `manager.rs` |
//! | M. C. Cera, dissertation, UFRGS 2012 | `exact.rs`, `two_parts.rs` |

mod exact;
mod manager;
mod runs;
mod setups;
mod small;
mod statistics;
mod two_parts;
mod workloads;

use std::fmt;

use serde::Serialize;

pub use crate::simulate::SimulateError;
pub use statistics::Estimate;

/// A figure of a source next to ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The quantity.
    pub what: String,
    /// The figure of the source; `None` if it gives none.
    pub source: Option<f64>,
    /// Our figure.
    pub ours: Estimate,
    /// The largest difference that counts as equal; `None` if the figures need not be equal.
    pub tolerance: Option<f64>,
}

impl Row {
    /// Returns the deviation from the source in percent.
    #[must_use]
    pub fn deviation(&self) -> Option<f64> {
        let source = self.source.filter(|source| *source != 0.0)?;
        Some(100.0 * (self.ours.mean - source) / source.abs())
    }

    /// Returns true if the figures are equal, or need not be.
    #[must_use]
    pub fn holds(&self) -> bool {
        match (self.tolerance, self.source) {
            (Some(tolerance), Some(source)) => (self.ours.mean - source).abs() <= tolerance,
            _ => true,
        }
    }
}

/// A statement about the shape of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// The statement of the source.
    pub claim: String,
    /// True if it holds here.
    pub holds: bool,
    /// The figures that support it.
    pub evidence: String,
    /// True if the run fails when the statement does not hold; false if the source gives too little
    /// to expect it.
    pub required: bool,
}

/// A table of a source, replayed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Table {
    /// The title.
    pub title: String,
    /// The place in the source.
    pub source: String,
    /// The figures.
    pub rows: Vec<Row>,
    /// The statements.
    pub claims: Vec<Claim>,
    /// The inputs that the source leaves out, and their substitutes.
    pub remarks: Vec<String>,
}

impl Table {
    fn new(title: &str, source: &str) -> Table {
        Table { title: title.to_owned(), source: source.to_owned(), ..Table::default() }
    }

    fn exact(&mut self, what: impl Into<String>, source: f64, ours: f64, tolerance: f64) {
        let ours = Estimate::exactly(ours);
        let (what, source, tolerance) = (what.into(), Some(source), Some(tolerance));
        self.rows.push(Row { what, source, ours, tolerance });
    }

    fn row(&mut self, what: impl Into<String>, source: Option<f64>, ours: Estimate) {
        self.rows.push(Row { what: what.into(), source, ours, tolerance: None });
    }

    fn claim(&mut self, claim: impl Into<String>, holds: bool, evidence: impl Into<String>) {
        let (claim, evidence) = (claim.into(), evidence.into());
        self.claims.push(Claim { claim, holds, evidence, required: true });
    }

    fn open(&mut self, claim: impl Into<String>, holds: bool, evidence: impl Into<String>) {
        let (claim, evidence) = (claim.into(), evidence.into());
        self.claims.push(Claim { claim, holds, evidence, required: false });
    }

    fn remark(&mut self, remark: impl Into<String>) {
        self.remarks.push(remark.into());
    }

    /// Returns the exact figures that differ and the required statements that do not hold.
    #[must_use]
    pub fn failures(&self) -> Vec<String> {
        let rows = self.rows.iter().filter(|row| !row.holds()).map(|row| {
            let source = row.source.unwrap_or_default();
            format!("{}: {}: {} instead of {source}", self.title, row.what, row.ours.mean)
        });
        let claims = self.claims.iter().filter(|claim| claim.required && !claim.holds);
        rows.chain(
            claims.map(|claim| format!("{}: {}: {}", self.title, claim.claim, claim.evidence)),
        )
        .collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} ({})", self.title, self.source)?;
        let width = self.rows.iter().map(|row| row.what.chars().count()).max().unwrap_or(0);
        if width > 0 {
            writeln!(f, "  {:width$} {:>10} {:>20} {:>9}", "", "source", "ours", "deviation")?;
        }
        for row in &self.rows {
            let source = row.source.map_or("-".to_owned(), |source| format!("{source:.2}"));
            let ours = match row.ours.half > 0.0 {
                true => format!("{:.2} ± {:.2}", row.ours.mean, row.ours.half),
                false => format!("{:.2}", row.ours.mean),
            };
            let deviation = row.deviation().map_or(String::new(), |value| format!("{value:+.1} %"));
            let mark = if row.holds() { "" } else { "  DIFFERS" };
            writeln!(f, "  {:width$} {source:>10} {ours:>20} {deviation:>9}{mark}", row.what)?;
        }
        for claim in &self.claims {
            let mark = match (claim.holds, claim.required) {
                (true, _) => "holds",
                (false, true) => "FAILS",
                (false, false) => "not reproduced",
            };
            writeln!(f, "  {mark}: {} ({})", claim.claim, claim.evidence)?;
        }
        for remark in &self.remarks {
            writeln!(f, "  note: {remark}")?;
        }
        Ok(())
    }
}

/// Replays one table over a number of seeds.
type Replay = fn(u64) -> Result<Table, SimulateError>;

/// The tables in output order: a name, and the function that replays the table.
const TABLES: [(&str, Replay); 17] = [
    ("sizes", |_| exact::sizes()),
    ("squares", |_| Ok(exact::squares())),
    ("balance", |_| Ok(exact::balance())),
    ("speedups", |_| Ok(exact::speedups())),
    ("w1", |_| small::w1()),
    ("w2", |_| small::w2()),
    ("w3", |_| small::w3()),
    ("setup-1", setups::setup_1),
    ("setup-2", setups::setup_2),
    ("large-jobs", setups::large),
    ("shares", setups::shares),
    ("priorities", setups::priorities),
    ("lammps", |_| Ok(small::lammps())),
    ("cannon-4096", |_| manager::large()),
    ("cannon-1024", |_| manager::small()),
    ("three-cannons", |_| manager::three()),
    ("two-parts", two_parts::utilisation),
];

/// Returns the names of all tables.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|(name, _)| *name)
}

/// Replays the table with this name over `seeds` seeds; `None` if there is no such table.
///
/// # Errors
///
/// A policy decided something impossible: a defect.
pub fn replay(name: &str, seeds: u64) -> Option<Result<Table, SimulateError>> {
    let (_, replay) = TABLES.iter().find(|(other, _)| *other == name)?;
    Some(replay(seeds.max(2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_the_shape_of_its_source() {
        let page = include_str!("../../../../docs/reproduction.md");
        for name in names() {
            let table = replay(name, 30).unwrap().unwrap();
            assert_eq!(table.failures(), Vec::<String>::new(), "{name}");
            assert!(!table.title.is_empty() && !table.source.is_empty());
            let says_something = !table.rows.is_empty() || !table.claims.is_empty();
            assert!(says_something || !table.remarks.is_empty(), "{name} is empty");
            assert!(page.contains(&table.title), "docs/reproduction.md lacks {name}");
        }
        assert!(replay("no-such-table", 30).is_none());
    }

    #[test]
    fn differing_figures_and_wrong_shapes_fail_and_are_marked() {
        let mut table = Table::new("A table", "a source");
        table.exact("equal", 2.0, 2.004, 0.005);
        table.exact("unequal", 2.0, 2.1, 0.005);
        table.row("near", Some(10.0), Estimate { mean: 9.0, half: 0.5 });
        table.claim("rises", false, "1, 0");
        table.open("falls", false, "0, 1");
        assert_eq!(
            table.failures(),
            ["A table: unequal: 2.1 instead of 2", "A table: rises: 1, 0"]
        );
        let text = table.to_string();
        assert!(text.contains("9.00 ± 0.50   -10.0 %") && text.contains("FAILS: rises (1, 0)"));
        assert!(text.contains("DIFFERS") && text.contains("not reproduced: falls (0, 1)"));
    }
}
