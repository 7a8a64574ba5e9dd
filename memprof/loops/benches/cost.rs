//! Costs of a call in the graph and of a reduction: `cargo bench -p memprof-loops`.
#![allow(clippy::print_stdout)]

use memprof_loops::graph::{Call, Graph};
use memprof_loops::reduce::{CallSite, Figures, Joins, merge, of_process};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Number of sites of the graph in which calls are recorded.
const SITES: usize = 128;
/// Number of sites of the process whose loops are reduced.
const REDUCED: usize = 1024;
const REPEATS: usize = 200;

/// Prints the least and the median of some times, each of `count` operations.
fn print(name: &str, count: usize, mut times: Vec<Duration>) {
    times.sort_unstable();
    let each = |time: Duration| time.as_secs_f64() * 1e9 / count as f64;
    println!(
        "{name}: {:.1} ns at least, {:.1} median",
        each(times[0]),
        each(times[times.len() / 2])
    );
}

fn repeated(mut work: impl FnMut() -> Duration) -> Vec<Duration> {
    (0..REPEATS).map(|_| work()).collect()
}

fn call(name: usize, time: u64) -> Call {
    Call { address: 0x40_0000 + 24 * name, function: 1, began: time, ended: time + 1 }
}

/// Records calls of the names in turn and returns the time taken.
fn enter(
    graph: &mut Graph<SITES, 512>,
    time: &mut u64,
    names: impl Iterator<Item = usize>,
) -> Duration {
    let begin = Instant::now();
    for name in names {
        *time += 2;
        black_box(graph.call(black_box(call(name, *time))));
    }
    begin.elapsed()
}

fn main() {
    let mut time = 0;
    let times = repeated(|| enter(&mut Graph::new(), &mut time, 0..SITES));
    print("first call of each of 128 sites", SITES, times);
    let mut graph = Graph::new();
    enter(&mut graph, &mut time, (0..SITES).chain(0..SITES));
    let times = repeated(|| enter(&mut graph, &mut time, 0..SITES));
    print("call along a known edge, 128 sites in one loop", SITES, times);
    // Pairs that never follow each other twice in a row: found by address, and by edge.
    let mut step = 0;
    let times = repeated(|| {
        step += 2;
        enter(&mut graph, &mut time, (0..SITES).map(|at| at * (step | 1) % SITES))
    });
    print("call out of order, 128 sites", SITES, times);
    let times = repeated(|| {
        let mut graph = Graph::new();
        enter(&mut graph, &mut time, 0..SITES);
        enter(&mut graph, &mut time, std::iter::once(0))
    });
    print("detection of a loop of 128 sites", 1, times);

    let figures = Figures { iterations: 9, turns: 8, ..Figures::default() };
    // Loops of eight sites, every second one inside the previous one.
    let site = |key: usize| CallSite {
        key,
        joins: if key % 4 == 1 { Joins::PointToPoint } else { Joins::Nothing },
        around: match key % 16 {
            0 => None,
            8 => Some(key - 8),
            _ => Some(key / 8 * 8),
        },
        figures: key.is_multiple_of(8).then_some(figures),
    };
    let sites: Vec<CallSite<usize>> = (0..REDUCED).map(site).collect();
    let times = repeated(|| {
        let begin = Instant::now();
        black_box(of_process(black_box(&sites)));
        begin.elapsed()
    });
    print("reduction of a process of 1,024 sites", 1, times);
    let times = repeated(|| {
        let processes: Vec<_> = (0..8).map(|rank| (rank, of_process(&sites))).collect();
        let begin = Instant::now();
        black_box(merge(black_box(processes)));
        begin.elapsed()
    });
    print("merge of one of eight such processes", 8, times);
}
