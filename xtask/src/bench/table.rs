//! Converts measurements to rows: the comparisons, and the targets.

use serde_json::Value;

/// Paths of a row's numbers in the measurements, and its target.
struct Entry {
    operation: &'static str,
    /// JSON pointer into the output of `operations`.
    measured: &'static str,
    /// Pointers into the output of `kernel`; their sum is a lower bound for any library.
    floor: &'static [&'static str],
    target: Target,
    unit: Unit,
}

#[derive(Copy, Clone)]
enum Target {
    /// This many times the floor of the same run.
    TimesFloor(f64),
    /// This number, in the row's unit.
    Absolute(f64),
}

#[derive(Copy, Clone)]
enum Unit {
    Microseconds,
    Kilobytes,
}

const ENTRIES: &[Entry] = &[
    Entry {
        // A rank of Open MPI has three threads, and a push moves them all.
        operation: "push and pop, 3 threads",
        measured: "/push_pop_provided",
        floor: &["/widen_restore_of_threads/3"],
        target: Target::TimesFloor(1.5),
        unit: Unit::Microseconds,
    },
    Entry {
        operation: "am I bound?",
        measured: "/bound_query",
        floor: &["/sched_getaffinity"],
        target: Target::TimesFloor(1.8),
        unit: Unit::Microseconds,
    },
    Entry {
        operation: "am I inside this object?",
        measured: "/cpuset_in_type",
        floor: &["/sched_getaffinity"],
        target: Target::TimesFloor(1.8),
        unit: Unit::Microseconds,
    },
    Entry {
        operation: "who is on this object? per rank",
        measured: "/qids_in_type_per_rank",
        floor: &["/sched_getaffinity"],
        target: Target::TimesFloor(1.5),
        unit: Unit::Microseconds,
    },
    Entry {
        operation: "distribute over objects, 2 ranks",
        measured: "/auto_distrib",
        floor: &["/sched_getaffinity", "/spin_barrier/median"],
        target: Target::Absolute(2.0),
        unit: Unit::Microseconds,
    },
    Entry {
        operation: "lend and take back",
        measured: "/lend_reclaim",
        floor: &[],
        target: Target::Absolute(0.15),
        unit: Unit::Microseconds,
    },
    Entry {
        operation: "barrier, both awake",
        measured: "/barrier_awake/awake_median",
        floor: &["/spin_barrier/awake_median"],
        target: Target::Absolute(0.4),
        unit: Unit::Microseconds,
    },
    Entry {
        operation: "barrier, median over all",
        measured: "/barrier_awake/median",
        floor: &["/spin_barrier/median"],
        target: Target::Absolute(0.4),
        unit: Unit::Microseconds,
    },
    Entry {
        operation: "barrier, wake after 0.05 ms",
        measured: "/barrier_wake/0.05_ms",
        floor: &["/futex_wake/0.05_ms"],
        target: Target::TimesFloor(1.2),
        unit: Unit::Microseconds,
    },
    Entry {
        operation: "barrier, wake after 0.5 ms",
        measured: "/barrier_wake/0.5_ms",
        floor: &["/futex_wake/0.5_ms"],
        target: Target::TimesFloor(1.2),
        unit: Unit::Microseconds,
    },
    Entry {
        operation: "barrier, wake after 5 ms",
        measured: "/barrier_wake/5_ms",
        floor: &["/futex_wake/5_ms"],
        target: Target::TimesFloor(1.2),
        unit: Unit::Microseconds,
    },
    Entry {
        operation: "barrier, wake after 50 ms",
        measured: "/barrier_wake/50_ms",
        floor: &["/futex_wake/50_ms"],
        target: Target::TimesFloor(1.2),
        unit: Unit::Microseconds,
    },
    Entry {
        operation: "create, first in the process",
        measured: "/create_first",
        floor: &["/hwloc_discovery_first"],
        target: Target::TimesFloor(1.25),
        unit: Unit::Microseconds,
    },
    Entry {
        operation: "create, later ones",
        measured: "/create_later",
        floor: &[],
        target: Target::Absolute(150.0),
        unit: Unit::Microseconds,
    },
    Entry {
        operation: "free",
        measured: "/free",
        floor: &[],
        target: Target::Absolute(45.0),
        unit: Unit::Microseconds,
    },
    Entry {
        operation: "memory of a context, per rank",
        measured: "/memory_per_context_bytes/rss",
        floor: &[],
        target: Target::Absolute(256.0),
        unit: Unit::Kilobytes,
    },
];

/// One line of the table; numbers in the row's unit.
#[derive(Debug, PartialEq)]
pub struct Row {
    pub operation: String,
    pub unit: &'static str,
    pub ours: Option<f64>,
    pub reference: Option<f64>,
    pub floor: Option<f64>,
    pub target: Option<f64>,
}

impl Row {
    /// Returns the speed relative to the reference, as a factor.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.reference? / self.ours.filter(|ours| *ours > 0.0)?)
    }

    /// Returns true if the target is reached.
    pub fn is_met(&self) -> Option<bool> {
        Some(self.ours? <= self.target?)
    }
}

/// One object per round and program; each number of the table is the median over its rounds.
#[derive(Default)]
pub struct Measurements {
    pub ours: Vec<Value>,
    pub reference: Vec<Value>,
    pub kernel: Vec<Value>,
}

/// Returns the rows of all operations.
pub fn rows(measurements: &Measurements) -> Vec<Row> {
    ENTRIES.iter().map(|entry| row(entry, measurements)).collect()
}

fn row(entry: &Entry, measurements: &Measurements) -> Row {
    let (unit, scale) = match entry.unit {
        Unit::Microseconds => ("µs", 1.0),
        Unit::Kilobytes => ("kB", 1e-3),
    };
    let of = |rounds: &[Value]| Some(median(rounds, entry.measured)? * scale);
    let floors: Option<Vec<f64>> =
        entry.floor.iter().map(|path| median(&measurements.kernel, path)).collect();
    let floor = floors.filter(|parts| !parts.is_empty()).map(|parts| parts.iter().sum());
    let target = match entry.target {
        Target::TimesFloor(times) => floor.map(|floor: f64| floor * times),
        Target::Absolute(value) => Some(value),
    };
    Row {
        operation: entry.operation.to_owned(),
        unit,
        ours: of(&measurements.ours),
        reference: of(&measurements.reference),
        floor,
        target,
    }
}

/// Returns the median over the rounds of the number at a JSON pointer.
pub fn median(rounds: &[Value], pointer: &str) -> Option<f64> {
    let mut numbers: Vec<f64> =
        rounds.iter().filter_map(|round| round.pointer(pointer)?.as_f64()).collect();
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied()
}

const HEADINGS: [&str; 7] =
    ["operation", "ours", "reference", "reference ÷ ours", "kernel allows", "target", ""];

fn cells(row: &Row) -> [String; 7] {
    let number =
        |value: Option<f64>| value.map_or(String::new(), |value| readable(value, row.unit));
    [
        row.operation.clone(),
        number(row.ours),
        number(row.reference),
        row.ratio().map_or(String::new(), |ratio| format!("{} x", significant(ratio))),
        number(row.floor),
        row.target.map_or(String::new(), |target| format!("≤ {}", readable(target, row.unit))),
        row.is_met().map_or("", |met| if met { "met" } else { "missed" }).to_owned(),
    ]
}

fn readable(value: f64, unit: &str) -> String {
    format!("{} {unit}", significant(value)).trim_end().to_owned()
}

/// Formats with at most three significant digits, and at most two after the point.
pub fn significant(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Returns the table for a terminal.
pub fn plain(rows: &[Row]) -> String {
    lines(&HEADINGS, &rows.iter().map(cells).collect::<Vec<_>>(), false)
}

/// Returns the table for a README.
pub fn markdown(rows: &[Row]) -> String {
    lines(&HEADINGS, &rows.iter().map(cells).collect::<Vec<_>>(), true)
}

/// Returns lines of aligned cells; all but the first column are right-aligned.
pub fn lines<const N: usize>(
    headings: &[&str; N],
    cells: &[[String; N]],
    markdown: bool,
) -> String {
    let headings = headings.map(str::to_owned);
    if markdown {
        let line = |cells: &[String; N]| format!("| {} |\n", cells.join(" | "));
        let mut text = line(&headings) + "|---|" + &"--:|".repeat(N - 2) + "---|\n";
        text.extend(cells.iter().map(line));
        return text;
    }
    let lines = || std::iter::once(&headings).chain(cells);
    let mut widths = [0; N];
    for line in lines() {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for line in lines() {
        text += &format!("{:<1$}", line[0], widths[0]);
        for (cell, width) in line.iter().zip(&widths).skip(1) {
            text += &format!("  {cell:>width$}");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn measurements() -> Measurements {
        Measurements {
            ours: vec![
                json!({"push_pop_provided": 2.0, "barrier_wake": {"0.05_ms": 30.0}}),
                json!({"push_pop_provided": 9.0, "barrier_wake": {"0.05_ms": 31.0}}),
                json!({"push_pop_provided": 2.2, "barrier_wake": {"0.05_ms": 32.0}}),
            ],
            reference: vec![json!({"push_pop_provided": 22.0})],
            kernel: vec![
                json!({"widen_restore_of_threads": {"3": 2.0}, "futex_wake": {"0.05_ms": 20.0}}),
            ],
        }
    }

    #[test]
    fn a_row_holds_medians_and_the_ratio_of_one_run() {
        let rows = rows(&measurements());
        let push = &rows[0];
        assert_eq!((push.ours, push.reference, push.floor), (Some(2.2), Some(22.0), Some(2.0)));
        assert_eq!((push.target, push.is_met()), (Some(3.0), Some(true)));
        assert!((push.ratio().unwrap() - 10.0).abs() < 1e-9);
    }

    #[test]
    fn waits_of_different_lengths_are_kept_apart() {
        let rows = rows(&measurements());
        let wake = rows.iter().find(|row| row.operation.ends_with("0.05 ms")).unwrap();
        assert_eq!((wake.ours, wake.floor, wake.is_met()), (Some(31.0), Some(20.0), Some(false)));
    }

    #[test]
    fn what_was_not_measured_stays_empty() {
        let rows = rows(&Measurements::default());
        assert!(rows.iter().all(|row| row.ours.is_none() && row.ratio().is_none()));
        assert!(plain(&rows).lines().count() == rows.len() + 1);
        assert!(markdown(&rows).lines().count() == rows.len() + 2);
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in
            [(0.1234, "0.12"), (9.999, "10.0"), (35.27, "35.3"), (99.99, "100"), (5264.8, "5265")]
        {
            assert_eq!(significant(value), text);
        }
    }
}
