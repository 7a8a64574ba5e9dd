//! Columns of text: widths by content, numbers to the right, no spaces at the ends of lines. On a
//! terminal that is too narrow, long names are shortened and the least important columns are
//! omitted.

use crate::terminal::{Look, columns};

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
    /// One of many rows.
    Plain,
}

/// A table under construction.
#[derive(Debug)]
pub struct Grid {
    align: Vec<Align>,
    rows: Vec<(Weight, Vec<String>)>,
    least: Vec<usize>,
}

impl Grid {
    /// Creates a grid with these columns.
    pub fn new(align: &[Align]) -> Grid {
        Grid { align: align.to_vec(), rows: Vec::new(), least: Vec::new() }
    }

    /// Sets the columns that may be omitted if there is no room, in order.
    pub fn least(mut self, columns: &[usize]) -> Grid {
        self.least = columns.to_vec();
        self
    }

    /// Adds a row; missing cells are empty.
    pub fn row(&mut self, weight: Weight, cells: impl IntoIterator<Item = String>) {
        self.rows.push((weight, cells.into_iter().collect()));
    }

    /// Returns true if there are no rows except headings.
    pub fn is_empty(&self) -> bool {
        self.rows.iter().all(|(weight, _)| *weight == Weight::Head)
    }

    /// Returns the text, with two spaces between columns.
    pub fn text(&self, look: Look) -> String {
        let room = look.width().unwrap_or(usize::MAX);
        // The first text column; the last column is cut with its line.
        let names = self.align.iter().position(|align| *align == Align::Left);
        let names = names.filter(|column| column + 1 < self.align.len());
        let cell = |cells: &[String], column: usize| {
            let cell = cells.get(column).map_or("", String::as_str);
            match Some(column) == names {
                true => shorten(cell, (room / 2).max(LEAST_NAME)),
                false => cell.to_owned(),
            }
        };
        let width = |column: usize| {
            self.rows.iter().map(|(_, cells)| columns(&cell(cells, column))).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..self.align.len()).map(width).collect();
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
                let cell = if widths[column] > 0 { cell(cells, column) } else { String::new() };
                let pad = " ".repeat(widths[column] - columns(&cell));
                if column > 0 && widths[column] > 0 {
                    line.push_str("  ");
                }
                match align {
                    Align::Left => line.extend([cell, pad]),
                    Align::Right => line.extend([pad, cell]),
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

/// Minimum width that a name keeps, however narrow the terminal is.
const LEAST_NAME: usize = 24;

/// Cuts a line to fit.
fn cut(line: &str, room: usize) -> String {
    if columns(line) <= room {
        return line.to_owned();
    }
    head(line, room.saturating_sub(1)) + "…"
}

/// Removes the middle of a name that is too wide: the class is at the front, the version at the
/// end.
fn shorten(name: &str, room: usize) -> String {
    if columns(name) <= room {
        return name.to_owned();
    }
    let back: String = name.chars().rev().collect();
    let tail = head(&back, room / 3);
    head(name, room - columns(&tail) - 1) + "…" + &tail.chars().rev().collect::<String>()
}

/// Returns as much of the beginning as fits.
fn head(text: &str, room: usize) -> String {
    let mut kept = String::new();
    for letter in text.chars() {
        kept.push(letter);
        if columns(&kept) > room {
            kept.pop();
            break;
        }
    }
    kept
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

    #[test]
    fn long_or_wide_name_loses_its_middle_and_no_number() {
        let mut grid = Grid::new(&[Align::Left, Align::Right]).least(&[1]);
        let long = format!("app.lib:lib{}7.so", "0".repeat(200));
        grid.row(Weight::Plain, [long.clone(), "12 MiB".to_owned()]);
        grid.row(Weight::Plain, ["日本語".repeat(9), "3 MiB".to_owned()]);
        grid.row(Weight::Plain, ["a".to_owned(), "4 MiB".to_owned()]);
        let text = grid.text(Look::plain().narrow(80));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            format!("app.lib:lib{}…{}7.so  12 MiB", "0".repeat(15), "0".repeat(9))
        );
        assert_eq!(lines[1], "日本語日本語日本語日本語日…日本語日本語    3 MiB");
        assert!(lines.iter().all(|line| columns(line) == 48), "{text}");
        assert!(grid.text(Look::plain()).contains(&long));
    }
}
