//! Tables for terminals.

use std::fmt::Write as _;

use super::compare::Comparison;
use super::summary::{Group, Summary};

/// Lays out rows in columns: the first aligned left, the others right.
#[must_use]
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let gap = " ".repeat(widths[column] - cell.chars().count());
            match column {
                0 => line.extend([cell.as_str(), &gap]),
                _ => line.extend(["  ", &gap, cell.as_str()]),
            }
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Formats a number with as many digits as are significant.
#[must_use]
pub fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 1000.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Returns the table of one outcome.
#[must_use]
pub fn summary(summary: &Summary) -> String {
    let Summary { policy, jobs, nodes, .. } = summary;
    let cores = summary.shared_cores.map(|cores| format!(" of {cores} shared cores"));
    let cores = cores.unwrap_or_default();
    let mut text = format!(
        "{policy}: {jobs} jobs on {nodes} nodes{cores}, makespan {} s, utilisation {:.1} %\n",
        number(summary.makespan),
        100.0 * summary.utilisation
    );
    for note in summary.notes() {
        let _ = writeln!(text, "{note}");
    }
    text.push('\n');
    let head = ["seconds", "jobs", "wait", "median", "95 %", "max", "execution", "completion"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows[0].push("slowdown".to_owned());
    rows.push(row(&summary.all));
    rows.extend(summary.classes.iter().map(row));
    text + &table(&rows)
}

fn row(group: &Group) -> Vec<String> {
    let Group { wait, execution, completion, .. } = group;
    let figures = [wait.mean, wait.median, wait.p95, wait.max, execution.mean, completion.mean];
    let mut row = vec![group.name.clone(), group.jobs.to_string()];
    row.extend(figures.map(number));
    row.push(format!("{:.2}", group.slowdown));
    row
}

/// Returns the table of two policies.
#[must_use]
pub fn comparison(comparison: &Comparison) -> String {
    let Comparison { first, second, figures, .. } = comparison;
    let head = ["", first, second, "difference", "95 % confidence"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for figure in figures {
        rows.push(vec![
            figure.figure.to_owned(),
            number(figure.first),
            number(figure.second),
            figure.signed(),
            figure.verdict(),
        ]);
    }
    format!("{}\n\n{}", comparison.heading(), table(&rows))
}
