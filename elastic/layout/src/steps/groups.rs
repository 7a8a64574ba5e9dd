//! Schedules from block-cyclic to block-cyclic: the graph of messages falls into disjoint complete
//! bipartite graphs.
//!
//! Along an axis with equal blocks, parts a of p and b of q have blocks in common exactly if a ≡ b
//! modulo gcd(p, q): gcd(p, q) complete graphs. The product of complete graphs over two axes is
//! complete again, so over any two grids, mixed ones too, there are gcd(Pr, Qr) · gcd(Pc, Qc)
//! complete graphs between m = PrPc / (that many) and n = QrQc / (that many) ranks. In such a graph
//! member x of one side and y of the other meet in step (y − x) mod max(m, n): a Latin square, with
//! as many steps as the busiest rank has messages, RC / min(P, Q) in the terms of the dissertation.
//! Each rank needs only a formula for it. Ranks that are on both sides of a graph get the same
//! number, so that all kept data fall into step 0; if nothing else does, that step is left out.
//!
//! The published order (section 3.4.1) is kept if both dimensions grow or both shrink. As printed
//! it has contention in some contractions; for these the roles are swapped, and the expansion is
//! read backwards.

use super::super::axis::{Axis, common_divisor, least_multiple};
use super::super::meet::{inverse, narrow, wide};
use super::{Edge, Pair};

/// The graphs along one axis.
#[derive(Clone, Copy, Debug)]
struct Along {
    /// Number of graphs: a part belongs to one by its number modulo this.
    graphs: usize,
    /// Number of parts with indices, from the first.
    old: usize,
    new: usize,
    /// True if the graphs are complete; otherwise they only contain all messages.
    exact: bool,
    /// True if blocks are equal and each pair of residues meets.
    periodic: bool,
}

impl Along {
    fn of(old: &Axis, new: &Axis) -> Self {
        let (old_used, new_used) = (old.used_parts(), new.used_parts());
        let mut along =
            Self { graphs: 1, old: old_used, new: new_used, exact: false, periodic: false };
        match (old, new) {
            (
                Axis::Cyclic { extent, block, parts },
                Axis::Cyclic { block: new_block, parts: new_parts, .. },
            ) => {
                let period = least_multiple(block * parts, new_block * new_parts);
                let full = period.is_some_and(|period| period <= *extent);
                if block == new_block {
                    let number = extent.div_ceil(*block);
                    let period = least_multiple(*parts, *new_parts);
                    along.graphs = common_divisor(*parts, *new_parts);
                    along.periodic = period.is_some_and(|period| period <= number);
                    along.exact = along.periodic;
                } else if full {
                    let divisor = common_divisor(block * parts, new_block * new_parts);
                    along.exact = divisor < block + new_block;
                }
                // A graph of one rank and its peers is complete.
                along.exact |= old_used <= 1 || new_used <= 1;
            }
            (Axis::Cuts(at), other) | (other, Axis::Cuts(at)) => {
                along.exact = other.parts() == 1 && at.windows(2).all(|cut| cut[0] < cut[1]);
            }
        }
        along
    }

    fn members(used: usize, graph: usize, graphs: usize) -> usize {
        used.saturating_sub(graph).div_ceil(graphs)
    }
}

/// The order of the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Steps {
    Latin,
    Published,
}

/// The graphs over both axes, or the graphs to ranks that each get the whole array.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    rows: Along,
    columns: Along,
    /// True if all new ranks are members, whatever their place.
    to_replicas: bool,
    order: Steps,
    /// Size of the larger side of the largest graph.
    width: usize,
    /// True if all data of step 0 stay on their ranks.
    skips_first: bool,
    minimal: bool,
}

/// Members of one graph by position, with ranks of both sides first.
struct Members {
    old: Vec<usize>,
    new: Vec<usize>,
}

impl Groups {
    pub fn on_grids(pair: Pair) -> Self {
        let rows = Along::of(&pair.old.rows, &pair.new.rows);
        let columns = Along::of(&pair.old.columns, &pair.new.columns);
        let mut groups = Self {
            rows,
            columns,
            to_replicas: false,
            order: Steps::Latin,
            width: 0,
            skips_first: false,
            minimal: rows.exact && columns.exact,
        };
        groups.measure(pair);
        let (old, new) = (pair.old.grid, pair.new.grid);
        let grows = old.rows <= new.rows && old.columns <= new.columns;
        let shrinks = old.rows >= new.rows && old.columns >= new.columns;
        if rows.periodic && columns.periodic && (grows || shrinks) {
            let skips = groups.published_keeps_first(pair);
            // Not used if it would take one more step.
            if skips || !groups.skips_first {
                groups.order = Steps::Published;
                groups.skips_first = skips;
            }
        }
        groups
    }

    /// Makes one graph of all ranks, most of which may have nothing in common.
    pub fn of_all(pair: Pair) -> Self {
        let along = |old, new| Along { graphs: 1, old, new, exact: false, periodic: false };
        let (old, new) = (pair.old.grid, pair.new.grid);
        let mut groups = Self {
            rows: along(old.rows, new.rows),
            columns: along(old.columns, new.columns),
            to_replicas: false,
            order: Steps::Latin,
            width: 0,
            skips_first: false,
            minimal: false,
        };
        groups.measure(pair);
        groups
    }

    pub fn to_replicas(pair: Pair) -> Self {
        let along = |axis: &Axis| Along {
            graphs: 1,
            old: axis.used_parts(),
            new: 1,
            exact: !matches!(axis, Axis::Cuts(at) if at.windows(2).any(|cut| cut[0] == cut[1])),
            periodic: false,
        };
        let (mut rows, columns) = (along(&pair.old.rows), along(&pair.old.columns));
        if pair.is_layered() {
            rows = Along { old: pair.old.grid.rows, exact: false, ..rows };
        }
        let mut groups = Self {
            rows,
            columns,
            to_replicas: true,
            order: Steps::Latin,
            width: 0,
            skips_first: false,
            minimal: rows.exact && columns.exact,
        };
        groups.measure(pair);
        groups
    }

    pub fn is_exact(&self) -> bool {
        self.rows.exact && self.columns.exact
    }

    pub fn is_minimal(&self) -> bool {
        self.minimal
    }

    pub fn known_minimal(self) -> Self {
        Self { minimal: true, ..self }
    }

    pub fn steps(&self) -> usize {
        self.width.saturating_sub(usize::from(self.skips_first))
    }

    /// Determines the width of the graphs, and whether all members of the smaller sides stay.
    fn measure(&mut self, pair: Pair) {
        let mut smaller = 0;
        for row in 0..self.rows.graphs {
            for column in 0..self.columns.graphs {
                let (old, new) = self.sizes(pair, (row, column));
                self.width = self.width.max(if old.min(new) == 0 { 0 } else { old.max(new) });
                smaller += old.min(new);
            }
        }
        let staying = (0..pair.old.ranks.len())
            .filter(|&position| {
                let new = pair.new.ranks.position(pair.old.ranks.at(position));
                let graph = self.old_graph(pair, position);
                graph.is_some() && new.is_some_and(|new| self.new_graph(pair, new) == graph)
            })
            .count();
        self.skips_first = staying == smaller;
    }

    fn sizes(&self, pair: Pair, (row, column): (usize, usize)) -> (usize, usize) {
        let (rows, columns) = (&self.rows, &self.columns);
        let size = |row_members: usize, column_members: usize| {
            Along::members(row_members, row, rows.graphs)
                * Along::members(column_members, column, columns.graphs)
        };
        let new = if self.to_replicas { pair.new.ranks.len() } else { size(rows.new, columns.new) };
        (size(rows.old, columns.old), new)
    }

    fn old_graph(&self, pair: Pair, position: usize) -> Option<(usize, usize)> {
        let (row, column) = pair.old.grid.place(position);
        let used = row < self.rows.old && column < self.columns.old;
        used.then(|| (row % self.rows.graphs, column % self.columns.graphs))
    }

    fn new_graph(&self, pair: Pair, position: usize) -> Option<(usize, usize)> {
        if self.to_replicas {
            return Some((0, 0));
        }
        let (row, column) = pair.new.grid.place(position);
        let used = row < self.rows.new && column < self.columns.new;
        used.then(|| (row % self.rows.graphs, column % self.columns.graphs))
    }

    fn members(&self, pair: Pair, graph: (usize, usize)) -> Members {
        let (rows, columns) = (self.rows, self.columns);
        let each = |row_end: usize, column_end: usize, grid: super::super::Grid| {
            (graph.0..row_end).step_by(rows.graphs).flat_map(move |row| {
                (graph.1..column_end)
                    .step_by(columns.graphs)
                    .map(move |column| grid.position(row, column))
            })
        };
        let all_old: Vec<usize> = each(rows.old, columns.old, pair.old.grid).collect();
        let all_new: Vec<usize> = if self.to_replicas {
            (0..pair.new.ranks.len()).collect()
        } else {
            each(rows.new, columns.new, pair.new.grid).collect()
        };
        let twin = |position: usize| {
            let new = pair.new.ranks.position(pair.old.ranks.at(position))?;
            (self.new_graph(pair, new) == Some(graph)).then_some(new)
        };
        let has_twin = |position: &usize| {
            pair.old
                .ranks
                .position(pair.new.ranks.at(*position))
                .is_some_and(|old| self.old_graph(pair, old) == Some(graph))
        };
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for &position in &all_old {
            if let Some(twin) = twin(position) {
                old.push(position);
                new.push(twin);
            }
        }
        old.extend(all_old.iter().filter(|&&position| twin(position).is_none()));
        new.extend(all_new.iter().filter(|&position| !has_twin(position)));
        Members { old, new }
    }

    fn latin(&self, old: usize, new: usize) -> usize {
        (new + self.width - old) % self.width
    }

    fn step(&self, pair: Pair, old: usize, new: usize, number: usize) -> Edge {
        let step = match pair.is_self(old, new) {
            true => None,
            false => Some(number - usize::from(self.skips_first)),
        };
        Edge { old, new, step, passed_on: false }
    }

    pub fn sends(&self, pair: Pair, old: usize) -> Vec<Edge> {
        let Some(graph) = self.old_graph(pair, old) else { return Vec::new() };
        let members = self.members(pair, graph);
        let own = members.old.iter().position(|&member| member == old).unwrap_or(0);
        let number = |(index, &new): (usize, &usize)| match self.order {
            Steps::Latin => self.step(pair, old, new, self.latin(own, index)),
            Steps::Published => self.step(pair, old, new, published(pair, old, new)),
        };
        members.new.iter().enumerate().map(number).collect()
    }

    pub fn receives(&self, pair: Pair, new: usize) -> Vec<Edge> {
        let Some(graph) = self.new_graph(pair, new) else { return Vec::new() };
        let members = self.members(pair, graph);
        let own = members.new.iter().position(|&member| member == new).unwrap_or(0);
        let number = |(index, &old): (usize, &usize)| match self.order {
            Steps::Latin => self.step(pair, old, new, self.latin(index, own)),
            Steps::Published => self.step(pair, old, new, published(pair, old, new)),
        };
        members.old.iter().enumerate().map(number).collect()
    }

    /// Returns true if all messages of the first step of the published order stay on their rank.
    fn published_keeps_first(&self, pair: Pair) -> bool {
        let (old, new) = (pair.old.grid, pair.new.grid);
        (0..old.rows.min(new.rows)).all(|row| {
            (0..old.columns.min(new.columns))
                .all(|column| pair.is_self(old.position(row, column), new.position(row, column)))
        })
    }
}

/// Returns the row of the table C_Send that contains this message; for contractions the table is
/// that from the new grid to the old.
fn published(pair: Pair, old: usize, new: usize) -> usize {
    let (old_grid, new_grid) = (pair.old.grid, pair.new.grid);
    let (from, to) = (old_grid.place(old), new_grid.place(new));
    let driver = (old_grid.rows.min(new_grid.rows), old_grid.columns.min(new_grid.columns));
    let row = common((from.0, old_grid.rows), (to.0, new_grid.rows));
    let column = common((from.1, old_grid.columns), (to.1, new_grid.columns));
    let columns =
        least_multiple(old_grid.columns, new_grid.columns).unwrap_or(usize::MAX) / driver.1;
    row / driver.0 * columns + column / driver.1
}

/// Returns the number below the least common multiple with these remainders, which agree modulo the
/// greatest common divisor.
fn common((first, by): (usize, usize), (second, and_by): (usize, usize)) -> usize {
    let divisor = common_divisor(by, and_by);
    let modulus = and_by / divisor;
    // first + turns * by = second (modulo and_by)
    let apart = (wide(second) - wide(first)) / wide(divisor);
    let inverse = inverse(wide(by / divisor), wide(modulus));
    first + narrow((apart * inverse).rem_euclid(wide(modulus))) * by
}
