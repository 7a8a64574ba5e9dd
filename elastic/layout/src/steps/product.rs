//! Schedules with each axis coloured separately: the step of a message is the pair of the colours
//! of its axes. The steps of the axes multiply: the minimum if both axes are determined by the same
//! side, and more if one axis grows and the other shrinks.

use super::super::axis::{Axis, common_divisor};
use super::colour::{colour, meeting};
use super::staircase::Walk;
use super::{Edge, Pair};

#[derive(Clone, Debug)]
pub(crate) struct Product {
    rows: Colours,
    columns: Colours,
    minimal: bool,
}

/// The colours of one axis.
#[derive(Clone, Debug)]
enum Colours {
    /// Old part, new part, colour; by ascending old part.
    Listed { edges: Vec<(usize, usize, usize)>, count: usize },
    /// A Latin square over the parts that belong together modulo `graphs`.
    Latin { graphs: usize, width: usize },
}

impl Colours {
    fn of(old: &Axis, new: &Axis) -> Self {
        if old.is_single_run() && new.is_single_run() {
            let walk = Walk::new(old, new, |_, _| false);
            let edges: Vec<_> =
                walk.map(|edge| (edge.old, edge.new, edge.step.unwrap_or(0))).collect();
            let count = edges.iter().map(|edge| edge.2 + 1).max().unwrap_or(0);
            return Self::Listed { edges, count };
        }
        let latin = Self::latin(old, new);
        let Some(meeting) = meeting(old, new) else { return latin };
        let mut incoming = vec![0; new.parts()];
        meeting.iter().flatten().for_each(|&part| incoming[part] += 1);
        let outgoing = meeting.iter().map(Vec::len);
        let count = outgoing.chain(incoming).max().unwrap_or(0);
        if count == latin.count() {
            return latin;
        }
        let edges: Vec<(usize, usize)> = meeting
            .iter()
            .enumerate()
            .flat_map(|(old, parts)| parts.iter().map(move |&new| (old, new)))
            .collect();
        match colour((old.parts(), new.parts()), &edges, count) {
            Some(edges) => Self::Listed { edges, count },
            None => latin,
        }
    }

    fn latin(old: &Axis, new: &Axis) -> Self {
        let graphs = match (old, new) {
            (
                Axis::Cyclic { block, parts, .. },
                Axis::Cyclic { block: new_block, parts: new_parts, .. },
            ) if block == new_block => common_divisor(*parts, *new_parts),
            _ => 1,
        };
        let width = old.used_parts().max(new.used_parts()).div_ceil(graphs);
        Self::Latin { graphs, width }
    }

    fn count(&self) -> usize {
        match self {
            Self::Listed { count, .. } => *count,
            Self::Latin { width, .. } => *width,
        }
    }

    fn of_old(&self, old: usize, axes: (&Axis, &Axis)) -> Vec<(usize, usize)> {
        match self {
            Self::Listed { edges, .. } => {
                let first = edges.partition_point(|edge| edge.0 < old);
                let own = edges[first..].iter().take_while(|edge| edge.0 == old);
                own.map(|edge| (edge.1, edge.2)).collect()
            }
            Self::Latin { graphs, width } => {
                let parts = axes.1.parts_meeting(&axes.0.comb(old));
                parts.into_iter().map(|new| (new, latin(old, new, *graphs, *width))).collect()
            }
        }
    }

    fn of_new(&self, new: usize, axes: (&Axis, &Axis)) -> Vec<(usize, usize)> {
        match self {
            Self::Listed { edges, .. } => {
                let own = edges.iter().filter(|edge| edge.1 == new);
                own.map(|edge| (edge.0, edge.2)).collect()
            }
            Self::Latin { graphs, width } => {
                let parts = axes.0.parts_meeting(&axes.1.comb(new));
                parts.into_iter().map(|old| (old, latin(old, new, *graphs, *width))).collect()
            }
        }
    }
}

fn latin(old: usize, new: usize, graphs: usize, width: usize) -> usize {
    (new / graphs + width - old / graphs) % width
}

impl Product {
    pub fn of(pair: Pair) -> Self {
        let rows = Colours::of(&pair.old.rows, &pair.new.rows);
        let columns = Colours::of(&pair.old.columns, &pair.new.columns);
        Self { rows, columns, minimal: false }
    }

    pub fn is_minimal(&self) -> bool {
        self.minimal
    }

    pub fn known_minimal(self) -> Self {
        Self { minimal: true, ..self }
    }

    pub fn steps(&self) -> usize {
        self.rows.count().saturating_mul(self.columns.count())
    }

    fn edge(&self, pair: Pair, old: usize, new: usize, colours: (usize, usize)) -> Edge {
        let step = colours.0 * self.columns.count() + colours.1;
        let step = (!pair.is_self(old, new)).then_some(step);
        Edge { old, new, step, passed_on: false }
    }

    pub fn sends(&self, pair: Pair, old: usize) -> Vec<Edge> {
        let (row, column) = pair.old.grid.place(old);
        let rows = self.rows.of_old(row, (&pair.old.rows, &pair.new.rows));
        let columns = self.columns.of_old(column, (&pair.old.columns, &pair.new.columns));
        let mut edges = Vec::with_capacity(rows.len() * columns.len());
        for &(row, row_colour) in &rows {
            for &(column, colour) in &columns {
                let new = pair.new.grid.position(row, column);
                edges.push(self.edge(pair, old, new, (row_colour, colour)));
            }
        }
        edges
    }

    pub fn receives(&self, pair: Pair, new: usize) -> Vec<Edge> {
        let (row, column) = pair.new.grid.place(new);
        let rows = self.rows.of_new(row, (&pair.old.rows, &pair.new.rows));
        let columns = self.columns.of_new(column, (&pair.old.columns, &pair.new.columns));
        let mut edges = Vec::with_capacity(rows.len() * columns.len());
        for &(row, row_colour) in &rows {
            for &(column, colour) in &columns {
                let old = pair.old.grid.position(row, column);
                edges.push(self.edge(pair, old, new, (row_colour, colour)));
            }
        }
        edges
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::distribution::Distribution;
    use super::super::super::ranks::Ranks;
    use super::*;

    #[test]
    fn colours_are_as_many_as_the_busiest_part_meets() {
        let turns = Distribution::block_cyclic(12, 1, Ranks::first(4)).unwrap();
        let blocks = Distribution::block(12, Ranks::first(6)).unwrap();
        for (old, new) in [(&turns, &blocks), (&blocks, &turns)] {
            let product = Product::of(Pair { old, new });
            assert_eq!((product.steps(), product.is_minimal()), (3, false));
            assert!(product.known_minimal().is_minimal());
        }
        let product = Product::of(Pair { old: &turns, new: &turns });
        assert_eq!(product.steps(), 1);
    }
}
