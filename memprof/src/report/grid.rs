//! Columns of text: widths by content, numbers to the right, nothing at the ends of lines. On a terminal that is too
//! narrow the columns that say least are left out.

use crate::terminal::Look;

/// Alignment of a column's text.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Weight of a row.
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
    least: Vec<usize>,
}

impl Grid {
    /// With these columns.
    pub fn new(align: &[Align]) -> Grid {
        Grid { align: align.to_vec(), rows: Vec::new(), least: Vec::new() }
    }

    /// The columns that may be left out where there is no room, the first of these first.
    pub fn least(mut self, columns: &[usize]) -> Grid {
        self.least = columns.to_vec();
        self
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
        let mut widths: Vec<usize> = (0..self.align.len()).map(width).collect();
        let room = look.width().unwrap_or(usize::MAX);
        let needed = |widths: &[usize]| {
            widths.iter().filter(|width| **width > 0).map(|width| width + 2).sum::<usize>()
        };
        for column in &self.least {
            if needed(&widths) <= room.saturating_add(2) {
                break;
            }
            widths[*column] = 0;
        }
        let mut out = String::new();
        for (weight, cells) in &self.rows {
            let mut line = String::new();
            for (column, align) in self.align.iter().enumerate() {
                let cell = cells.get(column).map_or("", String::as_str);
                let cell = if widths[column] > 0 { cell } else { "" };
                let pad = " ".repeat(widths[column] - cell.chars().count());
                if column > 0 && widths[column] > 0 {
                    line.push_str("  ");
                }
                match align {
                    Align::Left => line.extend([cell, pad.as_str()]),
                    Align::Right => line.extend([pad.as_str(), cell]),
                }
            }
            let line = cut(line.trim_end(), room);
            let line = line.as_str();
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

/// As much of a line as has room.
fn cut(line: &str, room: usize) -> String {
    match line.chars().nth(room) {
        None => line.to_owned(),
        Some(_) => line.chars().take(room.saturating_sub(1)).chain(['…']).collect(),
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

    #[test]
    fn narrow_terminal_drops_least_columns_and_cuts_long_lines() {
        let columns = [Align::Left, Align::Right, Align::Right];
        let mut grid = Grid::new(&columns).least(&[2, 1]);
        grid.row(Weight::Plain, ["component", "12 MiB", "34 MiB"].map(String::from));
        let of = |width| grid.text(Look::plain().narrow(width));
        assert_eq!(of(25), "component  12 MiB  34 MiB\n");
        assert_eq!(of(24), "component  12 MiB\n");
        assert_eq!(of(16), "component\n");
        assert_eq!(of(5), "comp…\n");
    }
}
