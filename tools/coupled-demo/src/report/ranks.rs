//! A close look at two rounds of coupling: the work of each rank, from the ranks' own records.
//! Style and hatching come from the picture of cores on the same page.

use coupled::result::Mode;
use coupled::timeline::{Interval, Phase};
use quo_svg::Svg;

use super::{Measured, Report};

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 20.0;
const MOST_RANKS: usize = 16;

/// One picture per run, each over the same number of seconds.
pub fn pictures(report: &Report) -> Vec<(Mode, String)> {
    let spans: Vec<(f64, f64)> = report.runs.iter().map(rounds).collect();
    let longest = spans.iter().map(|(from, to)| to - from).fold(0.0, f64::max);
    report
        .runs
        .iter()
        .zip(spans)
        .filter(|(_, (from, to))| to > from)
        .map(|(measured, (from, to))| (measured.run.mode, picture(measured, from, to, longest)))
        .collect()
}

/// From the start of L0 to the end of the second round, in the middle of the run; clock seconds.
fn rounds(measured: &Measured) -> (f64, f64) {
    let Some(record) = measured.run.rank_records.iter().find(|record| record.worker) else {
        return (0.0, 0.0);
    };
    let starts: Vec<f64> = record
        .intervals
        .iter()
        .filter(|interval| interval.phase == Phase::Flow)
        .map(|interval| interval.start)
        .collect();
    let middle = (starts.len() / 2).min(starts.len().saturating_sub(3));
    match (starts.get(middle), starts.get(middle + 2)) {
        (Some(from), Some(to)) => (*from, *to),
        _ => (
            record.intervals.first().map_or(0.0, |interval| interval.start),
            record.intervals.last().map_or(0.0, |interval| interval.end),
        ),
    }
}

fn picture(measured: &Measured, from: f64, to: f64, longest: f64) -> String {
    let run = &measured.run;
    let x = |time: f64| LEFT + (WIDTH - LEFT - RIGHT) * (time.clamp(from, to) - from) / longest;
    let mut svg = Svg::default();
    let (mut y, height) = (6.0, 30.0);
    for record in run.rank_records.iter().take(MOST_RANKS) {
        let middle = y + height / 2.0 + 4.0;
        svg.label("quiet end", (LEFT - 8.0, middle), &format!("rank {}", record.rank));
        let visible =
            record.intervals.iter().filter(|interval| interval.end > from && interval.start < to);
        for interval in visible {
            let (x0, x1) = (x(interval.start), x(interval.end));
            let class = class(run.mode, interval.phase);
            let width = (x1 - x0).max(0.6);
            svg.area_with_hint(class, (x0, y), (width, height), &hint(interval));
            if let Some(label) = label(run.mode, interval, width) {
                svg.label(label_class(class), (f64::midpoint(x0, x1), middle), &label);
            }
        }
        y += height + 4.0;
    }
    if run.rank_records.len() > MOST_RANKS {
        let more = run.rank_records.len() - MOST_RANKS;
        svg.label("quiet", (LEFT, y + 12.0), &format!("and {more} ranks more"));
        y += 18.0;
    }
    let title = format!("ranks in mode {}", run.mode.name());
    svg.document(WIDTH, y + 2.0, &[("aria-label", &title)])
}

fn class(mode: Mode, phase: Phase) -> &'static str {
    match (phase, mode) {
        (Phase::Flow, _) => "flow",
        (Phase::Remap, _) => "remap",
        (Phase::Diffusion, _) => "diffusion",
        (Phase::Wait, Mode::Quo) => "sleep",
        (Phase::Wait, _) => "spin",
    }
}

/// Class of a text on an area of that class, which it has to stand out from.
fn label_class(area: &str) -> &'static str {
    match area {
        "sleep" => "onsleep",
        "spin" => "onspin",
        "diffusion" => "ondiffusion",
        _ => "onphase",
    }
}

fn hint(interval: &Interval) -> String {
    format!(
        "{}: {:.1} ms on CPUs {}, threads: {}",
        interval.phase.title(),
        1e3 * (interval.end - interval.start),
        interval.cpus,
        interval.threads
    )
}

/// The label that fits into a box so wide.
fn label(mode: Mode, interval: &Interval, width: f64) -> Option<String> {
    let long = match interval.phase {
        Phase::Flow => format!("L0 on CPU {}", interval.cpus),
        Phase::Diffusion => format!("L1, {} threads on CPU {}", interval.threads, interval.cpus),
        Phase::Wait if mode == Mode::Quo => "asleep".to_owned(),
        Phase::Wait => "spinning".to_owned(),
        Phase::Remap => return None,
    };
    let short = match interval.phase {
        Phase::Flow => "L0",
        Phase::Diffusion => "L1",
        _ => return (width > 6.2 * long.len() as f64 + 6.0).then_some(long),
    };
    if width > 6.2 * long.len() as f64 + 6.0 {
        Some(long)
    } else {
        (width > 18.0).then(|| short.to_owned())
    }
}
