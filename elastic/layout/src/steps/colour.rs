//! Schedules for any graph: its edges are coloured with as many colours as its busiest vertex has
//! edges (Kőnig).

use super::{Edge, MOST_EDGES, MOST_PAIRS, Pair};
use crate::axis::Axis;

/// For each part of the old axis, the parts of the new one that share elements with it.
pub(super) type Meeting = Vec<Vec<usize>>;

pub(super) fn meeting(old: &Axis, new: &Axis) -> Option<Meeting> {
    (old.parts().saturating_mul(new.parts()) <= MOST_PAIRS)
        .then(|| (0..old.parts()).map(|part| new.parts_meeting(&old.comb(part))).collect())
}

/// Returns the same for the rows of the grids, with the rows of all layers of ranks.
fn rows_meeting(pair: Pair) -> Option<Meeting> {
    let rows = meeting(&pair.old.rows, &pair.new.rows)?;
    if !pair.is_layered() {
        return Some(rows);
    }
    let layers = meeting(&pair.old.layers, &pair.new.layers)?;
    let parts = pair.new.rows.parts();
    let both = layers.iter().flat_map(|layers| {
        rows.iter().map(move |rows| {
            layers
                .iter()
                .flat_map(|layer| rows.iter().map(move |row| layer * parts + row))
                .collect()
        })
    });
    Some(both.collect())
}

fn incoming(meeting: &Meeting, parts: usize) -> Vec<usize> {
    let mut counts = vec![0; parts];
    meeting.iter().flatten().for_each(|&part| counts[part] += 1);
    counts
}

/// Graph of the senders and receivers, by axis.
pub(super) struct Graph {
    rows: Meeting,
    columns: Meeting,
}

impl Graph {
    /// Makes the graph; `None` if the axes have too many parts for examining each pair.
    pub fn of(pair: Pair) -> Option<Self> {
        let rows = rows_meeting(pair)?;
        let columns = meeting(&pair.old.columns, &pair.new.columns)?;
        Some(Self { rows, columns })
    }

    fn edges(&self) -> usize {
        let count = |meeting: &Meeting| meeting.iter().map(Vec::len).sum::<usize>();
        count(&self.rows).saturating_mul(count(&self.columns))
    }

    /// Largest number of messages that a rank sends or receives: no schedule has fewer steps.
    pub fn busiest(&self, pair: Pair) -> usize {
        let (old, new) = (pair.old, pair.new);
        let rows_in = incoming(&self.rows, new.grid.rows);
        let columns_in = incoming(&self.columns, new.columns.parts());
        let stays = |from: (usize, usize), to: (usize, usize)| {
            self.rows[from.0].binary_search(&to.0).is_ok()
                && self.columns[from.1].binary_search(&to.1).is_ok()
        };
        let sent = (0..old.ranks.len()).map(|position| {
            let place = old.grid.place(position);
            let twin = new.ranks.position(old.ranks.at(position));
            let kept = twin.is_some_and(|twin| stays(place, new.grid.place(twin)));
            self.rows[place.0].len() * self.columns[place.1].len() - usize::from(kept)
        });
        let received = (0..new.ranks.len()).map(|position| {
            let place = new.grid.place(position);
            let twin = old.ranks.position(new.ranks.at(position));
            let kept = twin.is_some_and(|twin| stays(old.grid.place(twin), place));
            rows_in[place.0] * columns_in[place.1] - usize::from(kept)
        });
        sent.chain(received).max().unwrap_or(0)
    }

    /// Assigns all messages to `steps` steps, which is [`Graph::busiest`]; `None` if there are too
    /// many.
    pub fn coloured(&self, pair: Pair, steps: usize) -> Option<Coloured> {
        if self.edges() > MOST_EDGES {
            return None;
        }
        let (old, new) = (pair.old, pair.new);
        let mut edges = Vec::new();
        let mut kept = Vec::new();
        for (row, new_rows) in self.rows.iter().enumerate() {
            for (column, new_columns) in self.columns.iter().enumerate() {
                let from = old.grid.position(row, column);
                for &new_row in new_rows {
                    for &new_column in new_columns {
                        let to = new.grid.position(new_row, new_column);
                        if pair.is_self(from, to) {
                            kept.push((from, to));
                        } else {
                            edges.push((from, to));
                        }
                    }
                }
            }
        }
        let colours = colour((old.ranks.len(), new.ranks.len()), &edges, steps)?;
        Some(Coloured { edges: colours, kept, steps })
    }
}

/// A whole schedule as the colouring found it.
#[derive(Clone, Debug)]
pub(crate) struct Coloured {
    /// Old position, new position, step.
    edges: Vec<(usize, usize, usize)>,
    kept: Vec<(usize, usize)>,
    pub steps: usize,
}

impl Coloured {
    pub fn all(&self, _: Pair) -> impl Iterator<Item = Edge> + '_ {
        let edge = |old, new, step| Edge { old, new, step, passed_on: false };
        let moved = self.edges.iter().map(move |&(old, new, step)| edge(old, new, Some(step)));
        moved.chain(self.kept.iter().map(move |&(old, new)| edge(old, new, None)))
    }

    pub fn sends(&self, pair: Pair, old: usize) -> Vec<Edge> {
        self.all(pair).filter(|edge| edge.old == old).collect()
    }

    pub fn receives(&self, pair: Pair, new: usize) -> Vec<Edge> {
        self.all(pair).filter(|edge| edge.new == new).collect()
    }
}

const FREE: u32 = u32::MAX;
/// Largest table of colours, in entries: 16 MiB.
const MOST_ENTRIES: usize = 1 << 22;

/// For each vertex of a side and each colour, the vertex at the other end.
struct Side {
    ends: Vec<u32>,
    colours: usize,
}

impl Side {
    fn new(vertices: usize, colours: usize) -> Self {
        Self { ends: vec![FREE; vertices * colours], colours }
    }

    fn at(&mut self, vertex: usize, colour: usize) -> &mut u32 {
        &mut self.ends[vertex * self.colours + colour]
    }

    fn free(&self, vertex: usize) -> Option<usize> {
        let start = vertex * self.colours;
        self.ends[start..start + self.colours].iter().position(|&end| end == FREE)
    }
}

/// Gives each edge of a bipartite graph one of `colours` colours, so that no two edges at a vertex
/// have the same. `None` if a vertex has more edges than colours, or the graph is too large.
pub(super) fn colour(
    vertices: (usize, usize),
    edges: &[(usize, usize)],
    colours: usize,
) -> Option<Vec<(usize, usize, usize)>> {
    let entries = vertices.0.checked_add(vertices.1)?.checked_mul(colours)?;
    if entries > MOST_ENTRIES {
        return None;
    }
    let mut sides = [Side::new(vertices.0, colours), Side::new(vertices.1, colours)];
    for &(from, to) in edges {
        let mine = sides[0].free(from)?;
        let theirs = sides[1].free(to)?;
        let chosen = if *sides[1].at(to, mine) == FREE {
            mine
        } else if *sides[0].at(from, theirs) == FREE {
            theirs
        } else {
            // The path of these two colours from `to` never reaches `from`.
            swap_along(&mut sides, to, mine, theirs);
            mine
        };
        *sides[0].at(from, chosen) = u32::try_from(to).ok()?;
        *sides[1].at(to, chosen) = u32::try_from(from).ok()?;
    }
    let mut coloured = Vec::with_capacity(edges.len());
    for (index, &end) in sides[0].ends.iter().enumerate().filter(|(_, end)| **end != FREE) {
        coloured.push((index / colours, usize::try_from(end).ok()?, index % colours));
    }
    Some(coloured)
}

/// Swaps the colours `first` and `second` along the path that leaves a vertex of the second side
/// with `first`.
fn swap_along(sides: &mut [Side; 2], start: usize, first: usize, second: usize) {
    let mut path = Vec::new();
    let (mut side, mut vertex, mut colours) = (1, start, (first, second));
    loop {
        let end = *sides[side].at(vertex, colours.0);
        let Ok(next) = usize::try_from(end) else { break };
        if end == FREE {
            break;
        }
        path.push((side, vertex, next, colours));
        (side, vertex, colours) = (1 - side, next, (colours.1, colours.0));
    }
    for &(side, vertex, next, colours) in &path {
        *sides[side].at(vertex, colours.0) = FREE;
        *sides[1 - side].at(next, colours.0) = FREE;
    }
    for &(side, vertex, next, colours) in &path {
        *sides[side].at(vertex, colours.1) = u32::try_from(next).unwrap_or(FREE);
        *sides[1 - side].at(next, colours.1) = u32::try_from(vertex).unwrap_or(FREE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn bipartite_graph_needs_as_many_colours_as_its_largest_degree(
            pairs in prop::collection::hash_set((0..14usize, 0..11usize), 0..110)
        ) {
            let edges: Vec<(usize, usize)> = pairs.into_iter().collect();
            let degree = |of: &dyn Fn(&(usize, usize)) -> usize, vertex| {
                edges.iter().filter(|edge| of(edge) == vertex).count()
            };
            let busiest = (0..14)
                .map(|vertex| degree(&|edge| edge.0, vertex).max(degree(&|edge| edge.1, vertex)))
                .max()
                .unwrap_or(0);
            let coloured = colour((14, 11), &edges, busiest).expect("enough colours");
            prop_assert_eq!(coloured.len(), edges.len());
            for (index, a) in coloured.iter().enumerate() {
                prop_assert!(a.2 < busiest && edges.contains(&(a.0, a.1)));
                for b in &coloured[..index] {
                    prop_assert!(a.2 != b.2 || (a.0 != b.0 && a.1 != b.1));
                }
            }
            prop_assert!(busiest == 0 || colour((14, 11), &edges, busiest - 1).is_none());
        }
    }
}
