//! Phases over time, rank by rank, from the trace that quo writes.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use quo_svg::Svg;
use serde::Deserialize;

use crate::style::{self, WIDTH};

const LEFT: f64 = 90.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 70.0;
const ROW: f64 = 46.0;

#[derive(Deserialize)]
struct Trace {
    #[serde(rename = "traceEvents")]
    events: Vec<Event>,
}

/// An event, of which the slices of a phase's parts count.
#[derive(Deserialize)]
struct Event {
    ph: String,
    name: String,
    #[serde(default)]
    cat: String,
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    dur: f64,
    pid: usize,
    #[serde(default)]
    args: Arguments,
}

#[derive(Default, Deserialize)]
struct Arguments {
    #[serde(default)]
    threads: usize,
    #[serde(default)]
    cpuset: String,
}

/// A part of a phase of one rank, in milliseconds.
struct Part<'a> {
    name: &'a str,
    begin: f64,
    end: f64,
    arguments: &'a Arguments,
}

/// Draws a trace.
///
/// # Errors
/// If the text is no trace, or has no phase.
pub fn draw(text: &str) -> Result<String> {
    let trace: Trace = serde_json::from_str(text)?;
    let mut ranks: BTreeMap<usize, Vec<Part<'_>>> = BTreeMap::new();
    let slices = trace.events.iter().filter(|event| event.ph == "X" && event.cat == "part");
    for event in slices {
        ranks.entry(event.pid).or_default().push(Part {
            name: &event.name,
            begin: event.ts / 1000.0,
            end: (event.ts + event.dur) / 1000.0,
            arguments: &event.args,
        });
    }
    let end = ranks.values().flatten().map(|part| part.end).fold(0.0, f64::max);
    ensure!(end > 0.0, "there is no phase in it");
    let x = |time: f64| LEFT + (WIDTH - LEFT - RIGHT) * time / end;
    let height = TOP + ROW * ranks.len() as f64 + 84.0;
    let mut svg = Svg::default();
    svg.label("title", (20.0, 30.0), "Phases over time, as recorded");
    svg.label("quiet", (20.0, 52.0), "each row is a rank, bound to one core outside of the phases");
    for (row, (rank, parts)) in ranks.iter().enumerate() {
        let y = TOP + ROW * row as f64;
        svg.label("strong", (20.0, y + 24.0), &format!("rank {rank}"));
        // Between phases a rank does its own work.
        svg.area("own", (LEFT, y + 4.0), (x(end) - LEFT, ROW - 12.0));
        for part in parts {
            let class = if part.name == "run" { "work" } else { "sleep" };
            let width = (x(part.end) - x(part.begin)).max(0.5);
            svg.area(class, (x(part.begin), y + 4.0), (width, ROW - 12.0));
            let Arguments { threads, cpuset } = part.arguments;
            let texts = match part.name {
                "run" => {
                    [format!("{threads} threads on CPUs {cpuset}"), format!("{threads} threads")]
                }
                _ => ["asleep".to_owned(), String::new()],
            };
            let fits = |text: &&String| quo_svg::text_width(text, 15.5) + 4.0 < width;
            if let Some(text) = texts.iter().find(fits) {
                let class = if class == "work" { "onmiddle" } else { "middle" };
                svg.label(class, (x(part.begin) + width / 2.0, y + 26.0), text);
            }
        }
    }
    let bottom = TOP + ROW * ranks.len() as f64;
    style::time_axis(&mut svg, bottom, (LEFT, x(end)), end, "ms");
    let entries = [
        ("own", "own work, one thread".to_owned()),
        ("work", "worker of a phase".to_owned()),
        ("sleep", "asleep, core given up".to_owned()),
    ];
    style::legend(&mut svg, (LEFT, bottom + 62.0), &entries);
    let label = format!(
        "{} ranks over {end:.0} ms: in each phase a worker runs threads on the CPUs \
                         of all, and the other ranks sleep",
        ranks.len()
    );
    Ok(style::document(svg, height, &label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_gives_a_row_for_each_rank() {
        let part = |name: &str, rank: usize, begin: f64, length: f64| {
            serde_json::json!({"ph": "X", "cat": "part", "name": name, "ts": begin, "dur": length,
                "pid": rank, "args": {"threads": 2, "cpuset": "0-1"}})
        };
        let trace = serde_json::json!({"traceEvents": [
            {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "rank 0"}},
            part("run", 0, 1000.0, 900_000.0),
            part("quiesced", 1, 1000.0, 900_000.0),
        ]});
        let svg = draw(&trace.to_string()).unwrap();
        for text in ["rank 0", "rank 1", "2 threads on CPUs 0-1", "asleep"] {
            assert!(svg.contains(text), "{text}");
        }
        let error = draw("{\"traceEvents\": []}").unwrap_err().to_string();
        assert_eq!(error, "there is no phase in it");
    }
}
