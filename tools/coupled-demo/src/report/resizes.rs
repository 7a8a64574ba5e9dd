//! The picture of a run whose ranks come and go: the number of ranks and threads over time, and for each process its
//! life, its work, and its memory.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use coupled::result::{Elastic, RankRecord, Resize, RunResult, count};
use coupled::timeline::{Interval, Phase};
use quo_svg::Svg;
use serde::Deserialize;

use super::style::{axis, document, legend};

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 128.0;
const RIGHT: f64 = 96.0;
const TOP: f64 = 92.0;
const NUMBERS: f64 = 84.0;
const STRIP: f64 = 14.0;
const HELD: f64 = 26.0;
const ROW: f64 = STRIP + HELD + 8.0;
/// The room that the time of a step needs below its part of a run.
const SPEED: f64 = 88.0;

const STYLE: &str = "
.life { fill: #eef1f5; }
.window { fill: #1f2430; fill-opacity: 0.16; }
.ranks { fill: #2f6fdb; fill-opacity: 0.22; stroke: #2f6fdb; stroke-width: 1.5; }
.threads { stroke: #ee8a2f; stroke-width: 1.1; fill: none; }
.held { fill: #1c8a5a; fill-opacity: 0.3; stroke: #1c8a5a; stroke-width: 1; }
@media (prefers-color-scheme: dark) {
  .life { fill: #21262e; }
  .window { fill: #e6e9ef; }
  .ranks { fill: #5b93f5; stroke: #5b93f5; }
  .threads { stroke: #f29a4a; }
  .held { fill: #4cc38a; stroke: #4cc38a; }
}
";

const LEGEND: [(&str, &str); 6] = [
    ("flow", "L0"),
    ("diffusion", "L1"),
    ("remap", "moving data"),
    ("sleep", "asleep while L1 runs"),
    ("life", "parked, starting, ending, or waiting for a start"),
    ("window", "resize"),
];

/// Memory of the processes of a run, from `memprof export --format json`.
#[derive(Deserialize)]
pub struct Memory {
    /// Nanoseconds since 1970.
    started_ns: u64,
    ranks: Vec<Held>,
}

/// Of one process; times from the start of the first one.
#[derive(Deserialize)]
struct Held {
    pid: u32,
    offset_ns: u64,
    duration_ns: u64,
    time_ns: Vec<u64>,
    /// Resident bytes at these times.
    total: Vec<u64>,
}

impl Memory {
    /// From a file.
    ///
    /// # Errors
    /// If it cannot be read, or is something else.
    pub fn read(path: &Path) -> Result<Memory> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("reading the memory in {}", path.display()))?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} is no export of memprof", path.display()))
    }
}

/// One process: its life and its memory, in seconds since the start of the picture and bytes.
struct Process<'a> {
    pid: u32,
    life: (f64, f64),
    held: Vec<(f64, u64)>,
    records: Vec<&'a RankRecord>,
}

/// The time that is shown, from a first moment of the monotonic clock on.
struct Scale {
    first: f64,
    longest: f64,
}

impl Scale {
    fn x(&self, time: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * ((time - self.first) / self.longest).clamp(0.0, 1.0)
    }
}

/// The picture as one SVG element that needs nothing else; none of a run whose ranks stayed.
pub fn picture(run: &RunResult, memory: Option<&Memory>) -> Option<String> {
    let elastic = run.elastic.as_ref()?;
    let processes = processes(run, elastic, memory);
    let lives = || processes.iter().map(|process| process.life);
    let first = lives().map(|(born, _)| born).fold(run.start, f64::min);
    let last = lives().map(|(_, ended)| ended).fold(run.start + run.seconds, f64::max);
    let scale = Scale { first, longest: (last - first).max(1e-9) };
    let bottom = TOP + NUMBERS + 22.0 + ROW * processes.len() as f64;

    let mut body = Svg::default();
    let title = format!("Ranks that come and go: {}", sizes(elastic));
    body.label("title", (16.0, 34.0), &title);
    let memory_too = memory.is_some().then_some(("held", "memory"));
    legend(&mut body, 62.0, 22.0, LEGEND.into_iter().chain(memory_too));
    axis(&mut body, scale.longest, (TOP, bottom), |seconds| scale.x(scale.first + seconds));
    for resize in &elastic.resizes {
        window(&mut body, &scale, resize, bottom);
    }
    numbers(&mut body, &scale, run, elastic);
    for stretch in stretches(run, elastic) {
        let (from, to) = (scale.x(stretch.from), scale.x(stretch.to));
        if to - from >= SPEED {
            let at = (f64::midpoint(from, to), TOP + NUMBERS + 16.0);
            body.label("quiet middle", at, &format!("{:.2} ms a step", stretch.step()));
        }
    }
    let most = processes.iter().flat_map(|process| &process.held).map(|(_, bytes)| *bytes).max();
    let mut y = TOP + NUMBERS + 22.0;
    for process in &processes {
        row(&mut body, &scale, process, most.unwrap_or(1).max(1), y);
        y += ROW;
    }
    Some(document(body, WIDTH, bottom + 26.0, &title, STYLE))
}

/// A part of a run with one number of ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stretch {
    ranks: usize,
    from: f64,
    to: f64,
    steps: usize,
}

impl Stretch {
    /// Milliseconds of a step.
    fn step(self) -> f64 {
        1e3 * (self.to - self.from) / self.steps as f64
    }
}

/// The parts of a run between its resizes; those without a step are left out.
fn stretches(run: &RunResult, elastic: &Elastic) -> Vec<Stretch> {
    let mut all = Vec::new();
    let (mut ranks, mut from, mut step) = (elastic.start, run.start, 0);
    let mut add = |ranks, from, to, steps| {
        if steps > 0 {
            all.push(Stretch { ranks, from, to, steps });
        }
    };
    for resize in elastic.resizes.iter().filter(|resize| resize.given_up.is_none()) {
        add(ranks, from, resize.start, resize.step.saturating_sub(step));
        (ranks, from, step) = (resize.stay + resize.join, resize.end, resize.step);
    }
    add(ranks, from, run.start + run.seconds, run.deck.time.steps.saturating_sub(step));
    all
}

/// `1 rank: 7.20 ms a step, 2 ranks: 4.10 ms a step`; none of a run whose ranks stayed.
pub fn speeds(run: &RunResult) -> Option<String> {
    let stretches = stretches(run, run.elastic.as_ref()?);
    let said = stretches.iter().map(|stretch| {
        format!("{}: {:.2} ms a step", count(stretch.ranks, "rank"), stretch.step())
    });
    Some(said.collect::<Vec<String>>().join(", "))
}

/// `1, 2, 4 ranks`.
fn sizes(elastic: &Elastic) -> String {
    let mut size = elastic.start;
    let mut all = vec![size.to_string()];
    for resize in elastic.resizes.iter().filter(|resize| resize.given_up.is_none()) {
        size = resize.stay + resize.join;
        all.push(size.to_string());
    }
    format!("{} ranks", all.join(", "))
}

/// In the order of their ranks.
fn processes<'a>(
    run: &'a RunResult,
    elastic: &Elastic,
    memory: Option<&Memory>,
) -> Vec<Process<'a>> {
    let mut records: BTreeMap<u32, Vec<&RankRecord>> = BTreeMap::new();
    for record in &run.rank_records {
        records.entry(record.pid).or_default().push(record);
    }
    let intervals = |records: &[&RankRecord]| {
        let starts = records.iter().filter_map(|record| record.intervals.first());
        let ends = records.iter().filter_map(|record| record.intervals.last());
        let first = starts.map(|interval| interval.start).fold(f64::INFINITY, f64::min);
        (first, ends.map(|interval| interval.end).fold(0.0, f64::max))
    };
    let mut all: Vec<Process<'_>> = records
        .into_iter()
        .map(|(pid, records)| {
            let known = memory.and_then(|memory| {
                Some((memory, memory.ranks.iter().find(|held| held.pid == pid)?))
            });
            let Some((memory, held)) = known else {
                return Process { pid, life: intervals(&records), held: Vec::new(), records };
            };
            let seconds = |nanoseconds: u64| nanoseconds as f64 * 1e-9;
            // From the clock of the calendar to that of the run.
            let at = |time: u64| seconds(memory.started_ns) - elastic.calendar + seconds(time);
            let life = (at(held.offset_ns), at(held.offset_ns + held.duration_ns));
            let times = held.time_ns.iter().map(|&time| at(time));
            Process { pid, life, held: times.zip(held.total.iter().copied()).collect(), records }
        })
        .collect();
    let number = |process: &Process<'_>| process.records.iter().map(|record| record.rank).min();
    all.sort_by(|a, b| number(a).cmp(&number(b)).then(a.life.0.total_cmp(&b.life.0)));
    all
}

/// A resize, from when all had come to when they went on.
fn window(svg: &mut Svg, scale: &Scale, resize: &Resize, bottom: f64) {
    let (from, to) = (scale.x(resize.start), scale.x(resize.end));
    let (before, after) = (resize.stay + resize.leave, resize.stay + resize.join);
    let said = match &resize.given_up {
        None => format!("{before}→{after}"),
        Some(_) => "given up".to_owned(),
    };
    let hint = format!(
        "{said}: {:.1} ms after {}, {} bytes moved",
        1e3 * (resize.end - resize.start),
        count(resize.step, "step"),
        resize.moved
    );
    let size = ((to - from).max(1.5), bottom - TOP);
    svg.area_with_hint("window", (from, TOP), size, &hint);
    svg.label("middle", (f64::midpoint(from, to), TOP - 6.0), &said);
}

/// Number of threads that run in this stretch of a rank's time.
fn threads_of(interval: &Interval) -> i64 {
    match interval.phase {
        Phase::Wait => 0,
        Phase::Diffusion => i64::try_from(interval.threads).unwrap_or(0),
        Phase::Flow | Phase::Remap => 1,
    }
}

/// Ranks as an area and threads as a line, over time.
fn numbers(svg: &mut Svg, scale: &Scale, run: &RunResult, elastic: &Elastic) {
    let end = run.start + run.seconds;
    let mut ranks = vec![(run.start, elastic.start as i64)];
    for resize in elastic.resizes.iter().filter(|resize| resize.given_up.is_none()) {
        ranks.push((resize.end, (resize.stay + resize.join) as i64));
    }
    let mut changes: Vec<(f64, i64)> = run
        .rank_records
        .iter()
        .flat_map(|record| &record.intervals)
        .flat_map(|interval| {
            let threads = threads_of(interval);
            [(interval.start, threads), (interval.end, -threads)]
        })
        .collect();
    changes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut threads: Vec<(f64, i64)> = vec![(run.start, 0)];
    let mut now = 0;
    for at in changes.chunk_by(|a, b| a.0 == b.0) {
        now += at.iter().map(|(_, change)| change).sum::<i64>();
        threads.push((at[0].0, now));
    }
    let most = ranks.iter().chain(&threads).map(|(_, number)| *number).max().unwrap_or(1).max(1);
    let y = |number: i64| TOP + NUMBERS * (1.0 - number as f64 / most as f64);
    let path = |steps: &[(f64, i64)]| {
        let mut path = String::new();
        for (at, number) in steps {
            let verb = if path.is_empty() { "M" } else { "H" };
            let x = scale.x(*at);
            let _ = match verb {
                "M" => write!(path, "M{x:.1} {:.1}", y(*number)),
                _ => write!(path, "H{x:.1}V{:.1}", y(*number)),
            };
        }
        let _ = write!(path, "H{:.1}", scale.x(end));
        path
    };
    let (from, to) = (scale.x(run.start), scale.x(end));
    svg.path("ranks", &format!("{}V{:.1}H{from:.1}Z", path(&ranks), y(0)));
    svg.path("threads", &path(&threads));
    svg.path("line", &format!("M{from:.1} {:.1}H{to:.1}", y(0)));
    for number in [0, most] {
        svg.label("quiet end", (from - 6.0, y(number) + 4.0), &number.to_string());
    }
    let middle = TOP + NUMBERS / 2.0;
    svg.label("strong", (16.0, middle), "ranks and");
    svg.label("strong", (16.0, middle + 17.0), "threads");
    svg.label("quiet", (WIDTH - RIGHT + 10.0, middle - 4.0), "area: ranks");
    svg.label("quiet", (WIDTH - RIGHT + 10.0, middle + 12.0), "line: threads");
}

/// One process: its life, its work as a rank, and its memory.
fn row(svg: &mut Svg, scale: &Scale, process: &Process<'_>, most: u64, top: f64) {
    let (born, ended) = (scale.x(process.life.0), scale.x(process.life.1));
    let ranks = process.records.iter().map(|record| record.rank.to_string());
    let mut ranks: Vec<String> = ranks.collect();
    ranks.dedup();
    svg.label("", (16.0, top + 12.0), &format!("rank {}", ranks.join(", ")));
    svg.label("quiet", (16.0, top + 28.0), &format!("process {}", process.pid));
    svg.area("life", (born, top), ((ended - born).max(1.0), STRIP + HELD));
    for interval in process.records.iter().flat_map(|record| &record.intervals) {
        let class = match interval.phase {
            Phase::Flow => "flow",
            Phase::Remap => "remap",
            Phase::Diffusion => "diffusion",
            Phase::Wait => "sleep",
        };
        let (from, to) = (scale.x(interval.start), scale.x(interval.end));
        svg.area(class, (from, top), ((to - from).max(0.15), STRIP));
    }
    // Where it was born and where it ended.
    for x in [born, ended] {
        svg.path("stop", &format!("M{x:.1} {top:.1}v{:.1}", STRIP + HELD));
    }
    let Some((first, _)) = process.held.first() else { return };
    let base = top + STRIP + HELD;
    let y = |bytes: u64| base - (HELD - 2.0) * bytes as f64 / most as f64;
    let mut path = format!("M{:.1} {base:.1}", scale.x(*first));
    for (at, bytes) in &process.held {
        let _ = write!(path, "L{:.1} {:.1}", scale.x(*at), y(*bytes));
    }
    let peak = process.held.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
    let last = process.held.last().map_or(0, |(_, bytes)| *bytes);
    let _ = write!(path, "L{ended:.1} {:.1}V{base:.1}Z", y(last));
    svg.path("held", &path);
    let peak = format!("{:.1} MiB", peak as f64 / f64::from(1 << 20));
    svg.label("quiet", (WIDTH - RIGHT + 10.0, base - 4.0), &peak);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;
    use crate::report::tests::parse_xml;
    use coupled::result::Mode;

    fn run() -> RunResult {
        let mut run = example::run(Mode::Quo);
        // Its second process joins, leaves and joins again, and a third one is never parked.
        let join = |start: f64, stay, leave, join| Resize {
            epoch: 1,
            step: 10,
            start,
            end: start + 0.01,
            stay,
            leave,
            join,
            moved: 100,
            given_up: None,
        };
        let resizes = vec![join(1000.5, 1, 0, 1), join(1001.0, 1, 1, 0), join(1002.0, 1, 0, 1)];
        run.elastic = Some(Elastic {
            back_end: "MPI".to_owned(),
            start: 1,
            calendar: 500.0,
            resizes,
            bindings: Vec::new(),
        });
        let (early, late) = run.rank_records[1].intervals.split_at(6);
        let (early, late) = (early.to_vec(), late.to_vec());
        let mut again = run.rank_records[1].clone();
        (run.rank_records[1].intervals, again.intervals) = (early, late);
        run.rank_records.push(again);
        run
    }

    #[test]
    fn a_run_whose_ranks_stay_has_no_such_picture() {
        assert_eq!(picture(&example::run(Mode::Quo), None), None);
    }

    #[test]
    fn each_process_has_one_row_and_each_resize_a_mark() {
        let run = run();
        let svg = picture(&run, None).unwrap();
        parse_xml(&svg);
        assert_eq!(svg.matches("class=\"life\"").count(), 2 + 1, "processes, and the legend");
        assert_eq!(svg.matches("class=\"window\"").count(), 3 + 1);
        assert!(svg.contains("1, 2, 1, 2 ranks") && svg.contains("2→1"), "{svg}");
        assert!(!svg.contains("class=\"held\""));
    }

    #[test]
    fn stretches_between_resizes_have_their_time_of_a_step() {
        let mut run = run();
        (run.start, run.seconds, run.deck.time.steps) = (1000.0, 3.0, 200);
        let elastic = run.elastic.as_mut().unwrap();
        for (resize, step) in elastic.resizes.iter_mut().zip([50, 50, 150]) {
            resize.step = step;
        }
        let said = "1 rank: 10.00 ms a step, 1 rank: 9.90 ms a step, 2 ranks: 19.80 ms a step";
        assert_eq!(speeds(&run).unwrap(), said);
        assert!(picture(&run, None).unwrap().contains(">19.80 ms a step</text>"));
        assert_eq!(speeds(&example::run(Mode::Quo)), None);
    }

    #[test]
    fn memory_lies_under_its_process_for_its_lifetime() {
        let run = run();
        let held = |pid, offset_ns, duration_ns| Held {
            pid,
            offset_ns,
            duration_ns,
            time_ns: vec![offset_ns, offset_ns + duration_ns / 2],
            total: vec![1 << 20, 3 << 20],
        };
        let started_ns = 1_499_000_000_000;
        let ranks = vec![held(4000, 0, 8_000_000_000), held(4001, 1_500_000_000, 6_000_000_000)];
        let svg = picture(&run, Some(&Memory { started_ns, ranks })).unwrap();
        parse_xml(&svg);
        assert_eq!(svg.matches("class=\"held\"").count(), 2 + 1);
        assert_eq!(svg.matches("3.0 MiB").count(), 2);
        // 999 s of the run's clock to 1007 s: the first from the left to the right, the second from 1.5 of 8 s on.
        let x = LEFT + (WIDTH - LEFT - RIGHT) * 1.5 / 8.0;
        assert!(svg.contains(&format!(r#"<rect class="life" x="{x:.1}""#)), "{svg}");
    }
}
