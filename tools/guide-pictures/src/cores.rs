//! Which rank runs on which core over time, from samples of the kernel's own records.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
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
const EVERY: Duration = Duration::from_millis(8);
/// Time between two searches for ranks.
const SEARCH_EVERY: Duration = Duration::from_millis(50);
/// Classes of the ranks, in turns.
const CLASSES: [&str; 3] = ["work", "other", "own"];

/// Share of each rank in the time of each core since the sample before.
struct Sample {
    at: Duration,
    cores: BTreeMap<usize, BTreeMap<u64, f64>>,
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
    let (mut samples, mut sampler) =
        (Vec::new(), Sampler { launcher: child.id(), ..Sampler::default() });
    while child.try_wait()?.is_none() {
        samples.push(sampler.sample(begin.elapsed()));
        // Sleeps: the command is sampled again.
        std::thread::sleep(EVERY);
    }
    draw(&samples, title)
}

/// What the last sample found.
#[derive(Default)]
struct Sampler {
    launcher: u32,
    at: Duration,
    /// Rank processes, and the time at which they were searched for.
    ranks: Vec<(u32, u64)>,
    searched: Option<Duration>,
    /// Time for which each thread has run.
    ran: BTreeMap<PathBuf, Duration>,
}

impl Sampler {
    fn sample(&mut self, at: Duration) -> Sample {
        // The search takes long enough to disturb the ranks.
        if self.searched.is_none_or(|last| at - last > SEARCH_EVERY) {
            self.ranks = ranks_below(self.launcher);
            self.searched = Some(at);
        }
        let elapsed = at.saturating_sub(self.at).as_secs_f64();
        let mut cores: BTreeMap<usize, BTreeMap<u64, f64>> = BTreeMap::new();
        let mut ran = BTreeMap::new();
        for (process, rank) in &self.ranks {
            let threads = fs::read_dir(format!("/proc/{process}/task"));
            for thread in threads.into_iter().flatten().flatten().map(|thread| thread.path()) {
                let told = |file| fs::read_to_string(thread.join(file)).unwrap_or_default();
                let Some(total) = run_time(&told("schedstat")) else { continue };
                let before = self.ran.get(&thread).copied().unwrap_or(total);
                if let (Some(core), true) = (last_core(&told("stat")), total > before) {
                    let share = (total - before).as_secs_f64() / elapsed;
                    *cores.entry(core).or_default().entry(*rank).or_default() += share;
                }
                ran.insert(thread, total);
            }
        }
        (self.ran, self.at) = (ran, at);
        Sample { at, cores }
    }
}

/// Returns the processes that a launcher has started as ranks, with their ranks.
fn ranks_below(launcher: u32) -> Vec<(u32, u64)> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    ids.filter(|&id| is_below(id, launcher)).filter_map(|id| Some((id, rank_of(id)?))).collect()
}

fn is_below(process: u32, ancestor: u32) -> bool {
    let parent = |id: u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    std::iter::successors(parent(process), |&id| parent(id)).any(|id| id == ancestor)
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

/// Returns the time for which a thread has run, from its file `schedstat`.
fn run_time(schedstat: &str) -> Option<Duration> {
    schedstat.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// Returns the core that a thread ran on last, from its line `stat`.
fn last_core(stat: &str) -> Option<usize> {
    // The name of the thread, in parentheses, may have spaces; field 39, after field 3.
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(36)?.parse().ok()
}

fn draw(samples: &[Sample], title: &str) -> Result<String> {
    let cores: Vec<usize> = {
        let mut all: Vec<usize> = samples.iter().flat_map(|it| it.cores.keys().copied()).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    ensure!(!cores.is_empty(), "no rank was seen to run");
    let seen = samples.iter().filter(|it| !it.cores.is_empty()).map(|it| it.at);
    let (first, last) = (seen.clone().min().unwrap_or_default(), seen.max().unwrap_or_default());
    let seconds = |at: Duration| at.saturating_sub(first).as_secs_f64();
    let end = seconds(last).max(0.001);
    let x = |time: f64| LEFT + (WIDTH - LEFT - RIGHT) * time / end;
    let mut svg = Svg::default();
    svg.label("title", (20.0, 30.0), title);
    svg.label(
        "quiet",
        (20.0, 52.0),
        "each row is a core; the height of a colour is the share of the rank's threads in its time",
    );
    for (row, core) in cores.iter().enumerate() {
        let y = TOP + ROW * row as f64;
        svg.label("strong", (20.0, y + 24.0), &format!("core {core}"));
        svg.area("sleep", (LEFT, y + 4.0), (x(end) - LEFT, ROW - 12.0));
        for pair in samples.windows(2) {
            let Some(shares) = pair[1].cores.get(core) else { continue };
            let (from, to) = (x(seconds(pair[0].at)), x(seconds(pair[1].at).min(end)));
            let mut top = y + 4.0;
            for (rank, share) in fitted(shares) {
                let height = share * (ROW - 12.0);
                svg.area(class(rank), (from, top), (to - from, height));
                top += height;
            }
        }
    }
    let bottom = TOP + ROW * cores.len() as f64;
    style::time_axis(&mut svg, bottom, (LEFT, x(end)), end, "s");
    let mut ranks: Vec<u64> =
        samples.iter().flat_map(|it| it.cores.values().flat_map(BTreeMap::keys).copied()).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let entries: Vec<(&str, String)> = ranks
        .iter()
        .map(|rank| (class(*rank), format!("rank {rank}")))
        .chain([("sleep", "no rank runs".to_owned())])
        .collect();
    style::legend(&mut svg, (LEFT, bottom + 62.0), &entries);
    let label = format!("{title}: {} ranks on {} cores over {end:.1} s", ranks.len(), cores.len());
    Ok(style::document(svg, bottom + 84.0, &label))
}

/// Returns a rank's colour.
fn class(rank: u64) -> &'static str {
    CLASSES[usize::try_from(rank).unwrap_or(0) % CLASSES.len()]
}

/// Returns the shares of ranks in one core's time, one at most in all: a thread that has changed
/// its core counts for the last one.
fn fitted(shares: &BTreeMap<u64, f64>) -> Vec<(u64, f64)> {
    let all = shares.values().sum::<f64>().max(1.0);
    shares.iter().map(|(rank, share)| (*rank, share / all)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_and_time_of_a_thread_are_read() {
        let mut fields = vec!["0"; 50];
        fields[36] = "7";
        assert_eq!(last_core(&format!("12 (a) b) {}", fields.join(" "))), Some(7));
        assert_eq!(last_core(""), None);
        assert_eq!(run_time("1500 20 3\n"), Some(Duration::from_nanos(1500)));
        assert_eq!(run_time(""), None);
        let parent = std::os::unix::process::parent_id();
        assert!(is_below(std::process::id(), parent) && !is_below(parent, std::process::id()));
    }

    #[test]
    fn busy_thread_of_a_rank_has_a_core() {
        let begin = Instant::now();
        let mut sampler = Sampler {
            ranks: vec![(std::process::id(), 3)],
            searched: Some(Duration::ZERO),
            ..Sampler::default()
        };
        sampler.sample(Duration::from_nanos(1));
        while begin.elapsed() < SEARCH_EVERY / 2 {}
        let sample = sampler.sample(begin.elapsed());
        let share: f64 = sample.cores.values().filter_map(|ranks| ranks.get(&3)).sum();
        assert!(share > 0.0, "{:?}", sample.cores);
    }

    #[test]
    fn shares_of_ranks_are_drawn_below_each_other() {
        assert_eq!(fitted(&BTreeMap::from([(0, 0.25), (1, 0.5)])), [(0, 0.25), (1, 0.5)]);
        assert_eq!(fitted(&BTreeMap::from([(0, 1.5), (1, 0.5)])), [(0, 0.75), (1, 0.25)]);
        let sample = |millis, shares: &[(u64, f64)]| Sample {
            at: Duration::from_millis(millis),
            cores: BTreeMap::from([(0, shares.iter().copied().collect())]),
        };
        let samples = [sample(0, &[(0, 1.0)]), sample(8, &[(0, 0.5), (1, 0.5)])];
        let svg = draw(&samples, "Two ranks").unwrap();
        assert!(svg.contains("core 0") && svg.contains("rank 1") && svg.contains("Two ranks"));
        assert_eq!(draw(&[], "x").unwrap_err().to_string(), "no rank was seen to run");
    }
}
