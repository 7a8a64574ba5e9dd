//! Columns of text: widths by content, numbers to the right, nothing at the ends of lines.

use crate::terminal::Look;

/// Where a column's text stands.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// How a row is set.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Weight {
    /// A heading.
    Head,
    /// A group or a sum.
    Sum,
    /// One of many.
    Plain,
}

/// A table being made.
#[derive(Debug)]
pub struct Grid {
    align: Vec<Align>,
    rows: Vec<(Weight, Vec<String>)>,
}

impl Grid {
    /// With these columns.
    pub fn new(align: &[Align]) -> Grid {
        Grid { align: align.to_vec(), rows: Vec::new() }
    }

    /// One more row; cells that are left out are empty.
    pub fn row(&mut self, weight: Weight, cells: impl IntoIterator<Item = String>) {
        self.rows.push((weight, cells.into_iter().collect()));
    }

    /// Without rows but headings.
    pub fn is_empty(&self) -> bool {
        self.rows.iter().all(|(weight, _)| *weight == Weight::Head)
    }

    /// The text, two spaces between columns.
    pub fn text(&self, look: Look) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|(_, cells)| cells.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.align.len()).map(width).collect();
        let mut out = String::new();
        for (weight, cells) in &self.rows {
            let mut line = String::new();
            for (column, align) in self.align.iter().enumerate() {
                let cell = cells.get(column).map_or("", String::as_str);
                let pad = " ".repeat(widths[column] - cell.chars().count());
                if column > 0 && widths[column] > 0 {
                    line.push_str("  ");
                }
                match align {
                    Align::Left => line.extend([cell, pad.as_str()]),
                    Align::Right => line.extend([pad.as_str(), cell]),
                }
            }
            let line = line.trim_end();
            out.push_str(&match weight {
                Weight::Head => look.dim(line),
                Weight::Sum => look.bold(line),
                Weight::Plain => line.to_owned(),
            });
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_empty_ones_take_no_room() {
        let mut grid = Grid::new(&[Align::Left, Align::Right, Align::Left, Align::Right]);
        grid.row(Weight::Head, ["name", "bytes"].map(String::from));
        grid.row(Weight::Plain, ["µ", "12", "", "7"].map(String::from));
        assert_eq!(grid.text(Look::plain()), "name  bytes\nµ        12  7\n");
    }
}
