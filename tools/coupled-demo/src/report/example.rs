//! A made-up measurement, for tests.

use super::Measured;
use crate::sample::usage::{Usage, Window};
use coupled::deck::{Deck, Variant};
use coupled::result::{Conservation, FORMAT, Mode, RankRecord, RunResult};
use coupled::timeline::{Interval, Phase, PhaseTotal};

fn rank(mode: Mode, rank: usize, rounds: usize) -> RankRecord {
    let worker = rank == 0;
    let mut intervals = Vec::new();
    let mut time = 1000.0;
    for _ in 0..rounds {
        let solve = if worker { Phase::Diffusion } else { Phase::Wait };
        let flow = if mode == Mode::Under { 0.4 } else { 0.2 };
        let wide = if worker || mode != Mode::Quo { "0-1".to_owned() } else { rank.to_string() };
        let narrow = if mode == Mode::Quo { rank.to_string() } else { "0-1".to_owned() };
        let parts = [
            (Phase::Flow, flow, 1, narrow.clone()),
            (Phase::Remap, 0.01, 1, narrow),
            (solve, 0.3, if worker { 2 } else { 1 }, wide),
        ];
        for (phase, seconds, threads, cpus) in parts {
            let messages = if phase == Phase::Flow { 0.02 } else { 0.0 };
            intervals.push(Interval {
                phase,
                start: time,
                end: time + seconds,
                messages,
                threads,
                cpus,
            });
            time += seconds;
        }
    }
    let total = |phase: Phase| PhaseTotal {
        phase,
        seconds: intervals.iter().filter(|i| i.phase == phase).map(|i| i.end - i.start).sum(),
        messages: 0.0,
    };
    RankRecord {
        rank,
        node: 0,
        pid: 4000 + rank as u32,
        worker,
        cpus: if mode == Mode::Quo { rank.to_string() } else { "0-1".to_owned() },
        totals: Phase::ALL.map(total).to_vec(),
        intervals,
    }
}

/// A run of six rounds on two cores.
pub fn run(mode: Mode) -> RunResult {
    let ranks = if mode == Mode::Under { 1 } else { 2 };
    let rank_records: Vec<RankRecord> = (0..ranks).map(|k| rank(mode, k, 6)).collect();
    let totals = &rank_records[0].totals;
    RunResult {
        format: FORMAT,
        mode,
        variant: Variant::Caller,
        deck_name: "a <b> & \"c\".toml".to_owned(),
        deck: Deck::parse(include_str!("../../../../examples/coupled/decks/small.toml")).unwrap(),
        ranks,
        nodes: 1,
        workers: 1,
        threads: 2,
        cpus: 2,
        start: 1000.0,
        seconds: totals.iter().map(|total| total.seconds).sum(),
        simulated_seconds: 10.0,
        solver_iterations: 100,
        last_residual: 1e-11,
        conservation: Conservation {
            water_before: 1.0,
            water_after: 1.0,
            heat_before: 2.0,
            heat_after: 2.0,
        },
        checksum: "0123456789abcdef".to_owned(),
        fields: None,
        rank_records,
        elastic: None,
    }
}

/// With usage as it would be if all went well, on `cpus` CPUs.
pub fn measured(mode: Mode, cpus: usize) -> Measured {
    let run = run(mode);
    let window = |k: usize| {
        let start = k as f64 * 0.05;
        let solving = start % 0.71 > 0.41;
        let of = |cpu: usize| match (mode, solving) {
            (_, true) => [0.0, 0.045, 0.0, 0.004, 0.0],
            (Mode::Under, false) if cpu > 0 => [0.0; 5],
            (_, false) => [0.046, 0.0, 0.001, 0.002, 0.001],
        };
        Window { start, end: start + 0.05, by_cpu: (0..cpus).map(of).collect() }
    };
    let windows = (0..(run.seconds / 0.05) as usize).map(window).collect();
    Measured { usage: Usage { cpus: (0..cpus).collect(), windows }, run }
}
