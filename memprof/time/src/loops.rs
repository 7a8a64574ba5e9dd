//! Loops of all ranks, as one tree, with the source lines that call MPI.

use memprof::model::{Frame, Object};
use memprof::report::grid::{Align, Grid, Weight};
use memprof::report::symbols::Symbols;
use memprof::terminal::{Look, clean};
use memprof::units;
use memprof_loops::graph::Span;
use memprof_loops::reduce::{self, Block, CallSite, Figures, Joins, Merged};
use memprof_trace::layout::NONE;
use memprof_trace::read::Trace;
use serde::Serialize;
use std::collections::HashMap;

/// Loops of a job.
#[derive(Debug, PartialEq, Serialize)]
pub struct Loops {
    /// Number of ranks in which loops were searched for.
    pub ranks: usize,
    /// MPI calls, in all ranks, from call sites that found no room.
    pub lost: u64,
    /// The outermost loops.
    pub loops: Vec<Loop>,
}

/// A loop of one rank or more.
#[derive(Debug, PartialEq, Serialize)]
pub struct Loop {
    /// Call sites of MPI in its body, without those of inner loops; the first begins an iteration.
    pub calls: Vec<CallPlace>,
    /// First and last of each range of ranks that run it.
    pub ranks: Vec<(u32, u32)>,
    /// True if all ranks run it.
    pub is_everywhere: bool,
    /// Number of iterations of most of these ranks.
    pub iterations: u64,
    /// Time of all measured iterations and ranks, in nanoseconds.
    pub time_ns: u64,
    /// Part of it inside MPI, also in inner loops.
    pub mpi_ns: u64,
    /// Time of an iteration by rank, in nanoseconds.
    pub iteration_ns: Option<Spread>,
    /// Part of the time inside MPI by rank, from 0 to 1.
    pub mpi_share: Option<Spread>,
    /// Ratio of time in MPI to computing time, by rank.
    pub mpi_ratio: Option<Spread>,
    /// Same ratio for the last ten to twenty seconds.
    pub recent_mpi_ratio: Option<Spread>,
    /// Inner loops.
    pub inner: Vec<Loop>,
}

/// A call site of MPI.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct CallPlace {
    /// Called function.
    pub function: String,
    /// Calling function, with file and line; object and address where that is not known.
    pub place: String,
}

/// Least, mean and greatest value over the ranks.
#[derive(Copy, Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Least.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Greatest.
    pub max: f64,
}

impl From<reduce::Spread> for Spread {
    fn from(of: reduce::Spread) -> Spread {
        Spread { min: of.min, mean: of.mean, max: of.max }
    }
}

/// Address in the program: object and offset.
type Key = (u32, u64);

/// Names of call sites while traces are read.
#[derive(Default)]
struct Places {
    objects: Vec<Object>,
    numbers: HashMap<Object, u32>,
    functions: HashMap<Key, String>,
}

impl Places {
    fn object(&mut self, trace: &Trace, index: u32) -> u32 {
        let Some(row) = trace.object(index) else { return NONE };
        let id = &row.build_id[..row.build_id_length as usize];
        let build_id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let object = Object { path: row.path.to_string().into(), build_id: build_id.into() };
        let next = self.objects.len() as u32;
        *self.numbers.entry(object).or_insert_with_key(|object| {
            self.objects.push(object.clone());
            next
        })
    }

    /// Returns the sites of a rank. Rows that are no longer valid are left out, and are in no loop.
    fn sites(&mut self, trace: &Trace) -> Vec<CallSite<Key>> {
        let rows: Vec<_> = trace.loops.iter().filter(|row| row.row.calls > 0).collect();
        let number = |index: u32| rows.binary_search_by_key(&index, |row| row.index).ok();
        let sites = rows.iter().map(|row| {
            let row = &row.row;
            let key = (self.object(trace, row.object), row.offset);
            self.functions.entry(key).or_insert_with(|| {
                trace.function(row.function).unwrap_or_else(|| "MPI".to_owned())
            });
            CallSite {
                key,
                joins: Joins::of_kind(row.kind),
                around: number(row.around),
                figures: (row.is_head == 1).then_some(Figures {
                    iterations: row.calls,
                    turns: row.turns,
                    measured: Span { time: row.time_ns, mpi: row.mpi_ns },
                    recent: Span { time: row.recent_time_ns, mpi: row.recent_mpi_ns },
                }),
            }
        });
        sites.collect()
    }
}

/// Merges the loops of ranks. Returns `None` if loops were not searched for.
pub fn join<'a>(traces: impl Iterator<Item = &'a Trace>) -> Option<Loops> {
    let mut places = Places::default();
    let (mut lost, mut started) = (0_u64, u64::MAX);
    let mut processes = Vec::new();
    for trace in traces {
        let Ok(rank) = u32::try_from(trace.identity.rank) else { continue };
        if let Some(row) = trace.loops.first() {
            lost = lost.saturating_add(row.row.lost);
            started = started.min(trace.identity.realtime_ns);
            processes.push((rank, reduce::of_process(&places.sites(trace))));
        }
    }
    if processes.is_empty() {
        return None;
    }
    let ranks = processes.len();
    let merged = reduce::merge(processes);
    let mut symbols = Symbols::new(&places.objects, started);
    let loops = merged.iter().map(|of| named(of, ranks, &places, &mut symbols)).collect();
    Some(Loops { ranks, lost, loops })
}

fn named(of: &Merged<Key>, ranks: usize, places: &Places, symbols: &mut Symbols<'_>) -> Loop {
    let sites = of.blocks.iter().flat_map(Block::sites);
    let calls = sites.map(|key| {
        let names = symbols.names(Frame { object: key.0, offset: key.1 });
        let own = names.iter().find(|name| !name.is_of_compiler).or(names.first());
        CallPlace {
            function: places.functions.get(key).cloned().unwrap_or_default(),
            place: own.map(|name| name.text.clone()).unwrap_or_default(),
        }
    });
    Loop {
        calls: calls.collect(),
        ranks: of.ranks.clone(),
        is_everywhere: of.count == ranks,
        iterations: of.iterations,
        time_ns: of.total.measured.time,
        mpi_ns: of.total.measured.mpi,
        iteration_ns: of.iteration.map(Spread::from),
        mpi_share: of.mpi_share.map(Spread::from),
        mpi_ratio: of.ratio.map(Spread::from),
        recent_mpi_ratio: of.recent_ratio.map(Spread::from),
        inner: of.inner.iter().map(|of| named(of, ranks, places, symbols)).collect(),
    }
}

/// Headings of the table.
pub const HEADS: [&str; 7] =
    ["loop", "place", "ranks", "iterations", "iteration", "MPI %", "MPI/compute"];

/// A line of the table: a call, and the figures of the loop that it begins.
pub struct Line<'a> {
    depth: usize,
    call: &'a CallPlace,
    begins: Option<&'a Loop>,
}

/// Returns the lines of the tree, each loop before those inside.
pub fn lines(loops: &Loops) -> Vec<Line<'_>> {
    fn add<'a>(lines: &mut Vec<Line<'a>>, depth: usize, of: &'a Loop) {
        for (at, call) in of.calls.iter().enumerate() {
            let begins = (at == 0).then_some(of);
            lines.push(Line { depth: depth + usize::from(at > 0), call, begins });
        }
        for inner in &of.inner {
            add(lines, depth + 1, inner);
        }
    }
    let mut lines = Vec::new();
    for of in &loops.loops {
        add(&mut lines, 0, of);
    }
    lines
}

impl Line<'_> {
    /// Returns the cells; the first begins with `indent` once for each enclosing loop.
    pub fn cells(&self, indent: &str) -> Vec<String> {
        let mut cells =
            vec![indent.repeat(self.depth) + &clean(&self.call.function), clean(&self.call.place)];
        let Some(of) = self.begins else {
            cells.resize(HEADS.len(), String::new());
            return cells;
        };
        cells.extend([ranks_told(&of.ranks), of.iterations.to_string()]);
        cells.push(spread(of.iteration_ns, |value| units::time(value.round() as u64)));
        cells.push(spread(of.mpi_share, |value| format!("{:.1}", value * 100.0)));
        cells.push(spread(of.mpi_ratio, |value| format!("{value:.2}")));
        cells
    }
}

/// Returns the ranges of ranks; if there are many, the first ones and the total number:
/// `1,3,5,7,9,… 500 ranks`.
fn ranks_told(ranges: &[(u32, u32)]) -> String {
    const SHOWN: usize = 5;
    let range = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    let told: Vec<String> = ranges.iter().take(SHOWN).map(range).collect();
    if ranges.len() <= SHOWN {
        return told.join(",");
    }
    let ranks: u64 = ranges.iter().map(|(first, last)| u64::from(last - first) + 1).sum();
    format!("{},… {ranks} ranks", told.join(","))
}

/// Returns the mean, followed by the least and the greatest value where they differ.
fn spread(of: Option<Spread>, text: impl Fn(f64) -> String) -> String {
    let Some(Spread { min, mean, max }) = of else { return "-".to_owned() };
    let (min, mean, max) = (text(min), text(mean), text(max));
    if min == max { mean } else { format!("{mean} ({min} to {max})") }
}

/// Returns the table.
pub fn text(loops: &Loops, look: Look) -> String {
    if loops.loops.is_empty() {
        return "no rank called MPI from one place twice\n".to_owned();
    }
    let mut columns = vec![Align::Left; 2];
    columns.extend([Align::Right; 5]);
    let mut grid = Grid::new(&columns);
    grid.row(Weight::Head, HEADS.map(String::from).to_vec());
    for line in lines(loops) {
        let weight = if line.begins.is_some() { Weight::Sum } else { Weight::Plain };
        grid.row(weight, line.cells("  "));
    }
    grid.text(look)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_a_loop_are_ranges_and_few() {
        assert_eq!(ranks_told(&[(0, 63)]), "0-63");
        assert_eq!(ranks_told(&[(0, 0), (2, 4)]), "0,2-4");
        let odd: Vec<(u32, u32)> =
            (0..500).map(|number| (2 * number + 1, 2 * number + 1)).collect();
        assert_eq!(ranks_told(&odd), "1,3,5,7,9,… 500 ranks");
    }
}
