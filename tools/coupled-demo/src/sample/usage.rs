//! Work of each CPU over time: samples from outside joined with the ranks' own records.
//!
//! A thread's CPU time between two samples is counted on the CPU it was last seen on (half each if
//! it moved). Its use follows from its rank's records: the main thread was in the phases that
//! overlap the time between the samples; if it used less than that time, it is taken to have slept
//! while waiting. Other threads are the solver's pool: their time is L1's while their rank is in L1
//! and waiting outside it. Time that a CPU was busy beyond that is someone else's.

use std::collections::HashMap;

use quo::CpuSet;

use super::Sample;
use coupled::result::{RankRecord, RunResult};
use coupled::timeline::{Interval, Phase};

/// Use of a CPU's time.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Use {
    Flow,
    Diffusion,
    Remap,
    /// Busy, but only looking for messages or waiting for its turn.
    Spin,
    /// Used by processes that are not ranks of the run.
    Other,
}

impl Use {
    /// All, from the bottom of a picture to its top.
    pub const ALL: [Use; 5] = [Use::Flow, Use::Diffusion, Use::Remap, Use::Spin, Use::Other];

    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Use::Flow => "L0: flow, one thread per rank",
            Use::Diffusion => "L1: implicit diffusion, threaded",
            Use::Remap => "moving data",
            Use::Spin => "spinning while waiting",
            Use::Other => "other programs",
        }
    }

    /// A short word, for style classes.
    pub fn class(self) -> &'static str {
        match self {
            Use::Flow => "flow",
            Use::Diffusion => "diffusion",
            Use::Remap => "remap",
            Use::Spin => "spin",
            Use::Other => "other",
        }
    }
}

/// Seconds per [`Use`], in the order of [`Use::ALL`].
pub type Split = [f64; 5];

/// All CPUs between two samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Seconds since the run's time-step loop began.
    pub start: f64,
    pub end: f64,
    /// By CPU, as in [`Usage::cpus`].
    pub by_cpu: Vec<Split>,
}

/// Work of the CPUs of one machine over a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Usage {
    /// The CPUs that the ranks could use.
    pub cpus: Vec<usize>,
    pub windows: Vec<Window>,
}

impl Window {
    /// Seconds from start to end.
    pub fn length(&self) -> f64 {
        self.end - self.start
    }

    /// Part of the CPUs' time that went to L0 and L1, 0 to 1.
    pub fn useful(&self) -> f64 {
        let seconds: f64 = self.by_cpu.iter().map(|split| split[0] + split[1]).sum();
        seconds / (self.length() * self.by_cpu.len() as f64)
    }
}

impl Usage {
    /// Joins the records of a run with the samples of the first node.
    pub fn of(run: &RunResult, samples: &[Sample]) -> Usage {
        let ranks: HashMap<u32, &RankRecord> = run
            .rank_records
            .iter()
            .filter(|record| record.node == 0)
            .map(|record| (record.pid, record))
            .collect();
        let usable = ranks
            .values()
            .fold(CpuSet::new(), |all, record| all.union(&record.cpus.parse().unwrap_or_default()));
        // Where ranks are fewer than CPUs, L1 may be wider than what they started on.
        let wider =
            ranks.values().flat_map(|record| &record.intervals).fold(usable, |all, interval| {
                match interval.cpus.parse::<CpuSet>() {
                    Ok(cpus) if !cpus.is_subset(&all) => all.union(&cpus),
                    _ => all,
                }
            });
        let cpus: Vec<usize> = wider.iter().collect();
        let mut other = OtherTime::default();
        let mut windows = Vec::new();
        for pair in samples.windows(2) {
            let (from, to) = (&pair[0], &pair[1]);
            let (start, end) = (from.time - run.start, to.time - run.start);
            let by_cpu = window(from, to, &cpus, &ranks, &mut other);
            if start >= 0.0 && end <= run.seconds && end > start {
                windows.push(Window { start, end, by_cpu });
            }
        }
        Usage { cpus, windows }
    }

    /// Share of all CPUs' time per use over the whole run, and the rest: idle.
    pub fn mean(&self) -> (Split, f64) {
        let mut sums = [0.0; 5];
        let mut all = 0.0;
        for window in &self.windows {
            all += window.length() * self.cpus.len() as f64;
            for split in &window.by_cpu {
                for (sum, seconds) in sums.iter_mut().zip(split) {
                    *sum += seconds;
                }
            }
        }
        let shares = sums.map(|sum| if all > 0.0 { sum / all } else { 0.0 });
        (shares, (1.0 - shares.iter().sum::<f64>()).max(0.0))
    }
}

/// Busy time of each CPU that ranks do not explain, so far: its ticks are coarser than a window, so
/// only time beyond everything seen before counts as new.
#[derive(Default)]
struct OtherTime {
    unexplained: HashMap<usize, f64>,
    highest: HashMap<usize, f64>,
}

impl OtherTime {
    fn add(&mut self, cpu: usize, busy: f64, explained: f64) -> f64 {
        let sum = self.unexplained.entry(cpu).or_default();
        *sum += busy - explained;
        let highest = self.highest.entry(cpu).or_default();
        let new = (*sum - *highest).max(0.0);
        *highest += new;
        new
    }
}

fn window(
    from: &Sample,
    to: &Sample,
    cpus: &[usize],
    ranks: &HashMap<u32, &RankRecord>,
    other: &mut OtherTime,
) -> Vec<Split> {
    let length = to.time - from.time;
    let mut by_cpu = vec![[0.0; 5]; cpus.len()];
    let before: HashMap<u32, &super::Task> =
        from.tasks.iter().map(|task| (task.thread, task)).collect();
    for task in &to.tasks {
        let Some(record) = ranks.get(&task.process) else { continue };
        let (used, cpu) = before.get(&task.thread).map_or((0.0, task.cpu), |t| (t.used, t.cpu));
        let spent = (task.used - used).clamp(0.0, length);
        let split = if task.thread == task.process {
            split_main(&record.intervals, from.time, to.time, spent)
        } else {
            split_helper(&record.intervals, from.time, to.time, spent)
        };
        for seen in [cpu, task.cpu] {
            // A CPU outside those of the run cannot be shown; the nearest stands in for it.
            let at = cpus.partition_point(|known| *known < seen).min(cpus.len().max(1) - 1);
            if let Some(sums) = by_cpu.get_mut(at) {
                for (sum, seconds) in sums.iter_mut().zip(split) {
                    *sum += 0.5 * seconds;
                }
            }
        }
    }
    spill(&mut by_cpu, length);
    for (at, cpu) in cpus.iter().enumerate() {
        let busy_at = |sample: &Sample| {
            sample.cpus.iter().find(|known| known.cpu == *cpu).map(|known| known.busy)
        };
        if let (Some(old), Some(new)) = (busy_at(from), busy_at(to)) {
            let explained: f64 = by_cpu[at].iter().sum();
            let unexplained = other.add(*cpu, new - old, explained);
            by_cpu[at][4] = unexplained.min((length - explained).max(0.0));
        }
    }
    by_cpu
}

/// Moves work beyond a CPU's capacity in `length` seconds to CPUs with time left: a thread is seen
/// on one CPU per sample and may have been on others between.
fn spill(by_cpu: &mut [Split], length: f64) {
    let mut excess = [0.0; 5];
    for split in by_cpu.iter_mut() {
        let sum: f64 = split.iter().sum();
        if sum > length {
            for (seconds, out) in split.iter_mut().zip(&mut excess) {
                let kept = *seconds * length / sum;
                *out += *seconds - kept;
                *seconds = kept;
            }
        }
    }
    let over: f64 = excess.iter().sum();
    let room = |split: &Split| (length - split.iter().sum::<f64>()).max(0.0);
    let free: f64 = by_cpu.iter().map(room).sum();
    if over <= 0.0 || free <= 0.0 {
        return;
    }
    let part = (over.min(free) / over) / free;
    for split in by_cpu.iter_mut() {
        let share = room(split) * part;
        for (seconds, out) in split.iter_mut().zip(excess) {
            *seconds += out * share;
        }
    }
}

/// Time of [`Phase`]s (and of messages within them) between two times.
fn overlap(intervals: &[Interval], from: f64, to: f64) -> ([f64; 4], f64) {
    let first = intervals.partition_point(|interval| interval.end <= from);
    let (mut phases, mut messages) = ([0.0; 4], 0.0);
    for interval in intervals[first..].iter().take_while(|interval| interval.start < to) {
        let seconds = interval.end.min(to) - interval.start.max(from);
        let at = Phase::ALL.iter().position(|phase| *phase == interval.phase).unwrap_or(0);
        let length = interval.end - interval.start;
        let waiting = if length > 0.0 { seconds * interval.messages / length } else { 0.0 };
        phases[at] += seconds - waiting;
        messages += waiting;
    }
    (phases, messages)
}

fn split_main(intervals: &[Interval], from: f64, to: f64, spent: f64) -> Split {
    let ([flow, remap, diffusion, _], messages) = overlap(intervals, from, to);
    let active = flow + remap + diffusion;
    if active + messages > spent {
        // Ran for only part of its time: messages are polled for in turn with others.
        let part = spent / (active + messages);
        return [flow * part, diffusion * part, remap * part, messages * part, 0.0];
    }
    [flow, diffusion, remap, spent - active, 0.0]
}

fn split_helper(intervals: &[Interval], from: f64, to: f64, spent: f64) -> Split {
    let ([_, _, diffusion, _], _) = overlap(intervals, from, to);
    let solving = spent.min(diffusion);
    [0.0, solving, 0.0, spent - solving, 0.0]
}

#[cfg(test)]
mod tests {
    use super::super::{Cpu, Task};
    use super::*;

    fn interval(phase: Phase, start: f64, end: f64, messages: f64) -> Interval {
        Interval { phase, start, end, messages, threads: 1, cpus: "0".to_owned() }
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn a_sleeping_wait_uses_nothing_and_a_spinning_one_all() {
        let intervals =
            [interval(Phase::Flow, 0.0, 1.0, 0.0), interval(Phase::Wait, 1.0, 2.0, 0.0)];
        assert_eq!(split_main(&intervals, 0.0, 2.0, 1.0), [1.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(split_main(&intervals, 0.0, 2.0, 2.0), [1.0, 0.0, 0.0, 1.0, 0.0]);
    }

    #[test]
    fn messages_within_a_phase_are_not_useful() {
        let intervals = [interval(Phase::Flow, 0.0, 1.0, 0.25)];
        assert_eq!(split_main(&intervals, 0.0, 1.0, 1.0), [0.75, 0.0, 0.0, 0.25, 0.0]);
    }

    #[test]
    fn thread_on_a_shared_cpu_counts_its_own_time() {
        let intervals = [interval(Phase::Diffusion, 0.0, 1.0, 0.0)];
        assert_eq!(split_main(&intervals, 0.0, 1.0, 0.5), [0.0, 0.5, 0.0, 0.0, 0.0]);
        assert_eq!(split_helper(&intervals, 0.5, 1.5, 0.8), [0.0, 0.5, 0.0, 0.8 - 0.5, 0.0]);
    }

    #[test]
    fn no_cpu_exceeds_its_time_and_nothing_is_lost() {
        let mut by_cpu = vec![[1.5, 0.0, 0.0, 0.5, 0.0], [0.0, 0.25, 0.0, 0.0, 0.0]];
        spill(&mut by_cpu, 1.25);
        let sums: Vec<f64> = by_cpu.iter().map(|split| split.iter().sum()).collect();
        assert!(near(sums[0], 1.25) && near(sums[1], 1.0), "{sums:?}");
        assert!(near(by_cpu[0][0] + by_cpu[1][0], 1.5));
    }

    #[test]
    fn coarse_machine_ticks_do_not_look_like_other_programs() {
        let mut other = OtherTime::default();
        // 20 ms busy seen as ticks of 10: 30, 10, 20 with 20 explained each.
        let seen: f64 = [0.03, 0.01, 0.02].into_iter().map(|busy| other.add(0, busy, 0.02)).sum();
        assert!(near(seen, 0.01));
        assert!(near(other.add(0, 0.05, 0.0), 0.04));
    }

    #[test]
    fn samples_and_records_join_into_windows_of_the_run() {
        let mut run = crate::report::example::run(coupled::result::Mode::Quo);
        run.start = 100.0;
        run.seconds = 1.0;
        run.rank_records.truncate(1);
        let record = &mut run.rank_records[0];
        (record.pid, record.node, record.cpus) = (7, 0, "0-1".to_owned());
        record.intervals = vec![
            interval(Phase::Flow, 100.0, 100.5, 0.0),
            interval(Phase::Diffusion, 100.5, 101.0, 0.0),
        ];
        let sample = |time: f64, main: f64, helper: f64| Sample {
            time,
            tasks: vec![
                Task { process: 7, thread: 7, used: main, cpu: 0 },
                Task { process: 7, thread: 8, used: helper, cpu: 1 },
            ],
            cpus: vec![Cpu { cpu: 0, busy: main }, Cpu { cpu: 1, busy: helper }],
        };
        let samples = [
            sample(99.0, 0.0, 0.0),
            sample(100.0, 1.0, 0.0),
            sample(100.5, 1.5, 0.0),
            sample(101.0, 2.0, 0.5),
            sample(102.0, 3.0, 0.5),
        ];
        let usage = Usage::of(&run, &samples);
        assert_eq!(usage.cpus, [0, 1]);
        assert_eq!(usage.windows.len(), 2);
        assert!(near(usage.windows[0].useful(), 0.5) && near(usage.windows[1].useful(), 1.0));
        let (shares, idle) = usage.mean();
        assert!(near(shares[0], 0.25) && near(shares[1], 0.5) && near(idle, 0.25), "{shares:?}");
    }
}
