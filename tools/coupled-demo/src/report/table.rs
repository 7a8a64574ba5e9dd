//! The numbers, as text in columns.

use super::{Measured, Report, remap_share};
use coupled::result::Mode;
use coupled::timeline::Phase;

/// Column titles.
const COLUMNS: [&str; 11] = [
    "mode", "ranks", "L1 on", "total s", "L0 s", "remap s", "L1 s", "remap", "useful", "speed-up",
    "model",
];

/// The cells of one run.
fn cells(report: &Report, measured: &Measured) -> Vec<String> {
    let run = &measured.run;
    let seconds = |phase| format!("{:.2}", run.phase_seconds(phase));
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let missing = || "-".to_owned();
    let model = match run.mode {
        Mode::Under => Some(1.0),
        Mode::Over => None,
        Mode::Quo => report.predicted,
    };
    vec![
        run.mode.name().to_owned(),
        run.ranks.to_string(),
        format!("{} x {}", run.workers, run.threads),
        format!("{:.2}", run.seconds),
        seconds(Phase::Flow),
        seconds(Phase::Remap),
        seconds(Phase::Diffusion),
        percent(remap_share(run)),
        measured.useful().map_or_else(missing, percent),
        report.speed_up(measured).map_or_else(missing, |gain| format!("{gain:.2}")),
        model.map_or_else(missing, |gain| format!("{gain:.2}")),
    ]
}

/// Further remarks on the runs, line by line.
fn remarks(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    for measured in &report.runs {
        let (water, heat) = measured.run.conservation.drift();
        lines.push(format!(
            "{}: water kept to {water:+.1e}, heat to {heat:+.1e}, checksum {}",
            measured.run.mode.name(),
            measured.run.checksum
        ));
    }
    if report.runs.len() > 1 {
        lines.push(if report.identical() {
            "All runs ended with the same bits.".to_owned()
        } else {
            "The runs did NOT end with the same bits.".to_owned()
        });
    }
    if let Some(other) = report.disturbance() {
        lines.push(format!(
            "Other programs took up to {:.0} % of the cores: these times say little.",
            100.0 * other
        ));
    }
    lines
}

/// The whole table with its remarks.
pub fn text(report: &Report) -> String {
    let mut rows = vec![COLUMNS.map(str::to_owned).to_vec()];
    rows.extend(report.runs.iter().map(|measured| cells(report, measured)));
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS.len()).map(width).collect();
    let mut out = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            if column == 0 {
                line += &format!("{cell:<width$}");
            } else {
                line += &format!("  {cell:>width$}");
            }
        }
        out += line.trim_end();
        out.push('\n');
    }
    for line in remarks(report) {
        out += &line;
        out.push('\n');
    }
    out
}
