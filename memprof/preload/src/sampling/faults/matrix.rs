//! First touches of memory: sums of page faults by owner, toucher and MPI function.

use crate::base::component::Component;

/// Maximum number of different cells, for which the trace has room.
pub const CELLS: usize = 512;

/// Sum of the page faults with the same owner, toucher and function.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub owner: Component,
    /// Component with the code that touched the memory; `u16::MAX` for none.
    pub toucher: u16,
    /// Index of a function plus one; 0 outside MPI.
    pub function: usize,
    pub faults: u64,
    pub bytes: u64,
    /// True if changed since it was last written.
    pub changed: bool,
}

const NOTHING: Cell =
    Cell { owner: Component(0), toucher: 0, function: 0, faults: 0, bytes: 0, changed: false };

pub struct Matrix {
    cells: [Cell; CELLS],
    count: usize,
    /// Index of the last fault's cell, to which the next fault usually belongs.
    last: usize,
    /// Number of faults without a cell.
    pub left_out: u64,
}

impl Matrix {
    pub const fn new() -> Matrix {
        Matrix { cells: [NOTHING; CELLS], count: 0, last: 0, left_out: 0 }
    }

    /// Adds a fault.
    pub fn add(&mut self, owner: Component, toucher: u16, function: usize, bytes: u64) {
        let is = |cell: &Cell| {
            cell.owner == owner && cell.toucher == toucher && cell.function == function
        };
        let used = &self.cells[..self.count];
        let place = match used.get(self.last) {
            Some(cell) if is(cell) => Some(self.last),
            _ => used.iter().position(is),
        };
        let place = match place {
            Some(place) => place,
            None if self.count < CELLS => {
                self.cells[self.count] = Cell { owner, toucher, function, ..NOTHING };
                self.count += 1;
                self.count - 1
            }
            None => {
                self.left_out += 1;
                return;
            }
        };
        self.last = place;
        let cell = &mut self.cells[place];
        cell.faults += 1;
        cell.bytes = cell.bytes.saturating_add(bytes);
        cell.changed = true;
    }

    /// Calls `each` with every cell that has changed since the last call.
    pub fn changes(&mut self, each: &mut dyn FnMut(usize, &Cell)) {
        for (index, cell) in self.cells[..self.count].iter_mut().enumerate() {
            if cell.changed {
                cell.changed = false;
                each(index, cell);
            }
        }
    }

    pub fn forget(&mut self) {
        (self.count, self.left_out) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_add_up_by_owner_toucher_and_function() {
        let mut matrix = Matrix::new();
        for round in 0..10 {
            matrix.add(Component(16), 17, 3, 4096);
            matrix.add(Component(16), 16, 0, if round == 0 { 2 << 20 } else { 4096 });
        }
        let mut seen = Vec::new();
        matrix
            .changes(&mut |index, cell| seen.push((index, cell.toucher, cell.faults, cell.bytes)));
        assert_eq!(seen, [(0, 17, 10, 40_960), (1, 16, 10, (2 << 20) + 9 * 4096)]);
        matrix.changes(&mut |_, _| panic!("nothing has changed"));
    }

    #[test]
    fn what_finds_no_cell_is_counted() {
        let mut matrix = Matrix::new();
        (0..CELLS + 5).for_each(|function| matrix.add(Component(16), 17, function, 1));
        assert_eq!((matrix.count, matrix.left_out), (CELLS, 5));
    }
}
