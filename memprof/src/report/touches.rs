//! The matrix of owners and touchers as rows of text.

use super::grid::{Align, Grid, Weight};
use crate::model::{Touch, Touches};
use crate::terminal::{Look, clean};
use crate::units::{bytes, count};

/// Returns the name of the toucher, and its function: `mpi.core:libmpi.so.40 · MPI_Recv`.
pub fn toucher(cell: &Touch) -> String {
    let toucher = cell.toucher.as_deref().unwrap_or("not known");
    match &cell.mpi_function {
        Some(function) => format!("{} · {}", clean(toucher), clean(function)),
        None => clean(toucher),
    }
}

/// Returns a note about the completeness of the matrix.
pub fn note(touches: &Touches) -> String {
    let lost = match touches.lost {
        0 => "none lost".to_owned(),
        lost => format!("{lost} lost"),
    };
    format!(
        "{} page faults of {}, {lost}",
        touches.faults,
        count(touches.processes as usize, "process")
    )
}

/// Returns the largest cells, for the terminal; empty if page faults were not recorded.
pub fn text(touches: &Touches, limit: usize, look: Look) -> String {
    use Align::{Left, Right};
    if touches.processes == 0 {
        return String::new();
    }
    let mut grid = Grid::new(&[Left, Right, Left]);
    grid.row(Weight::Head, ["memory of", "", "first touched by"].map(String::from));
    for cell in touches.cells.iter().take(limit) {
        grid.row(Weight::Plain, [clean(&cell.owner), bytes(cell.bytes), toucher(cell)]);
    }
    if touches.cells.len() > limit {
        grid.row(Weight::Plain, [format!("{} smaller", touches.cells.len() - limit)]);
    }
    format!("\n{}{}\n", grid.text(look), look.dim(&note(touches)))
}
