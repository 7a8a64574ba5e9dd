//! Which rank runs on which core over time, from samples of the kernel's own records.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use quo_svg::Svg;

use crate::style::{self, WIDTH};

const LEFT: f64 = 90.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 70.0;
const ROW: f64 = 46.0;
/// Time between two samples.
const EVERY: Duration = Duration::from_millis(2);
/// Classes of the ranks, in turns.
const CLASSES: [&str; 3] = ["work", "other", "own"];

/// A sample: for each core in use, the rank with a running thread there.
struct Sample {
    at: Duration,
    ranks: BTreeMap<usize, u64>,
}

/// Runs a command to its end and draws the cores of its ranks.
///
/// # Errors
/// If the command cannot be started, or no rank of it was seen.
pub fn record(command: &[String], title: &str) -> Result<String> {
    let mut child = Command::new(&command[0])
        .args(&command[1..])
        .spawn()
        .with_context(|| format!("cannot start {}", command.join(" ")))?;
    let begin = Instant::now();
    let mut samples = Vec::new();
    while child.try_wait()?.is_none() {
        samples.push(Sample { at: begin.elapsed(), ranks: running(child.id()) });
        // Sleeps: the command is sampled again.
        std::thread::sleep(EVERY);
    }
    draw(&samples, title)
}

/// Returns the ranks below a process that run at this moment, by their core.
fn running(launcher: u32) -> BTreeMap<usize, u64> {
    let mut ranks = BTreeMap::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        if id == launcher {
            continue;
        }
        let Some(rank) = rank_of(id) else { continue };
        for thread in fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten() {
            let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            if let Some(cpu) = running_on(&stat) {
                ranks.insert(cpu, rank);
            }
        }
    }
    ranks
}

/// Returns the rank of a process by its launcher's variable.
fn rank_of(process: u32) -> Option<u64> {
    let environment = fs::read(format!("/proc/{process}/environ")).ok()?;
    let text = String::from_utf8_lossy(&environment);
    let value = text.split('\0').find_map(|entry| {
        entry.strip_prefix("OMPI_COMM_WORLD_RANK=").or_else(|| entry.strip_prefix("PMI_RANK="))
    });
    value?.parse().ok()
}

/// Returns the core of a thread that runs, from its line `stat`.
fn running_on(stat: &str) -> Option<usize> {
    // The name of the thread, in parentheses, may have spaces.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let runs = fields.next()? == "R";
    // Field 39; the state was field 3.
    let cpu = fields.nth(35)?.parse().ok()?;
    runs.then_some(cpu)
}

fn draw(samples: &[Sample], title: &str) -> Result<String> {
    let cores: Vec<usize> = {
        let mut all: Vec<usize> = samples.iter().flat_map(|it| it.ranks.keys().copied()).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    ensure!(!cores.is_empty(), "no rank was seen to run");
    let seen = samples.iter().filter(|it| !it.ranks.is_empty()).map(|it| it.at);
    let (first, last) = (seen.clone().min().unwrap_or_default(), seen.max().unwrap_or_default());
    let seconds = |at: Duration| at.saturating_sub(first).as_secs_f64();
    let end = seconds(last).max(0.001);
    let x = |time: f64| LEFT + (WIDTH - LEFT - RIGHT) * time / end;
    let mut svg = Svg::default();
    svg.label("title", (20.0, 30.0), title);
    svg.label(
        "quiet",
        (20.0, 52.0),
        "each row is a core; the colour is the rank with a running thread there",
    );
    for (row, core) in cores.iter().enumerate() {
        let y = TOP + ROW * row as f64;
        svg.label("strong", (20.0, y + 24.0), &format!("core {core}"));
        svg.area("sleep", (LEFT, y + 4.0), (x(end) - LEFT, ROW - 12.0));
        for (begin, until, rank) in spans(samples, *core) {
            let class = CLASSES[usize::try_from(rank).unwrap_or(0) % CLASSES.len()];
            let (from, to) = (x(seconds(begin)), x(seconds(until).min(end)));
            svg.area(class, (from, y + 4.0), ((to - from).max(0.3), ROW - 12.0));
        }
    }
    let bottom = TOP + ROW * cores.len() as f64;
    style::time_axis(&mut svg, bottom, (LEFT, x(end)), end, "s");
    let mut ranks: Vec<u64> = samples.iter().flat_map(|it| it.ranks.values().copied()).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let entries: Vec<(&str, String)> = ranks
        .iter()
        .map(|rank| (CLASSES[*rank as usize % CLASSES.len()], format!("rank {rank}")))
        .chain([("sleep", "no rank runs".to_owned())])
        .collect();
    style::legend(&mut svg, (LEFT, bottom + 62.0), &entries);
    let label = format!("{title}: {} ranks on {} cores over {end:.1} s", ranks.len(), cores.len());
    Ok(style::document(svg, bottom + 84.0, &label))
}

/// Returns the times in which one rank ran on a core.
fn spans(samples: &[Sample], core: usize) -> Vec<(Duration, Duration, u64)> {
    let mut spans: Vec<(Duration, Duration, u64)> = Vec::new();
    for pair in samples.windows(2) {
        let Some(rank) = pair[0].ranks.get(&core) else { continue };
        match spans.last_mut() {
            Some((_, until, last)) if *until == pair[0].at && last == rank => *until = pair[1].at,
            _ => spans.push((pair[0].at, pair[1].at, *rank)),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(millis: u64, ranks: &[(usize, u64)]) -> Sample {
        Sample { at: Duration::from_millis(millis), ranks: ranks.iter().copied().collect() }
    }

    #[test]
    fn running_thread_is_on_the_core_of_its_line() {
        let mut fields = vec!["0"; 50];
        fields[0] = "R";
        fields[36] = "7";
        assert_eq!(running_on(&format!("12 (a) b) {}", fields.join(" "))), Some(7));
        fields[0] = "S";
        assert_eq!(running_on(&format!("12 (a) b) {}", fields.join(" "))), None);
        assert_eq!(running_on(""), None);
    }

    #[test]
    fn consecutive_samples_of_a_rank_are_one_span() {
        let samples =
            [sample(0, &[(0, 1)]), sample(2, &[(0, 1)]), sample(4, &[(0, 0)]), sample(6, &[])];
        let at = Duration::from_millis;
        assert_eq!(spans(&samples, 0), [(at(0), at(4), 1), (at(4), at(6), 0)]);
        let svg = draw(&samples, "Two ranks").unwrap();
        assert!(svg.contains("core 0") && svg.contains("rank 1") && svg.contains("Two ranks"));
        assert_eq!(draw(&[], "x").unwrap_err().to_string(), "no rank was seen to run");
    }
}
