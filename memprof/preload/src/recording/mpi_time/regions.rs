//! Sums of time per region: differences of the process's sums between begin and end.

use super::Totals;
use crate::recording::phases::{DEPTH, LIMIT};

/// Row of the part of the run between the end of `MPI_Init` and the beginning of `MPI_Finalize`.
pub const WHOLE: u16 = 0;
/// Row of `main`, the first phase of every process, which never exceeds the whole.
const MAIN: u16 = 1;

/// Sums of all regions, independent of the process.
pub struct Regions {
    /// By index of the phase plus one; the first is [`WHOLE`].
    sums: [Totals; LIMIT + 1],
    /// Open regions, innermost last: row, and the sums when the region began.
    open: [(u16, Totals); DEPTH + 1],
    depth: usize,
    /// Sums when MPI was ready.
    ready: Option<Totals>,
    has_ended: bool,
}

impl Regions {
    pub const fn new() -> Regions {
        Regions {
            sums: [Totals::ZERO; LIMIT + 1],
            open: [(0, Totals::ZERO); DEPTH + 1],
            depth: 0,
            ready: None,
            has_ended: false,
        }
    }

    /// Handles the begin or end of a phase.
    pub fn edge(&mut self, phase: u16, begins: bool, now: &Totals) {
        let row = phase + 1;
        if begins {
            if let Some(place) = self.open.get_mut(self.depth) {
                *place = (row, *now);
                self.depth += 1;
            }
            return;
        }
        let Some(top) = self.depth.checked_sub(1) else { return };
        self.depth = top;
        let (row, since) = self.open[top];
        // A region that is open inside itself counts its time once.
        let is_over = row == MAIN && self.has_ended;
        if !self.is_open(row)
            && !is_over
            && let Some(sum) = self.sums.get_mut(usize::from(row))
        {
            sum.add_between(&since, now);
        }
    }

    fn is_open(&self, row: u16) -> bool {
        self.open[..self.depth].iter().any(|(other, _)| *other == row)
    }

    /// Handles MPI being ready. The first time, the whole begins, and `main` with it; if MPI has
    /// ended before, both continue.
    pub fn mpi_is_ready(&mut self, now: &Totals) {
        if self.ready.is_none() {
            self.sums[usize::from(MAIN)] = Totals::ZERO;
        } else if !self.has_ended {
            return;
        }
        (self.ready, self.has_ended) = (Some(*now), false);
        for (row, since) in &mut self.open[..self.depth] {
            if *row == MAIN {
                *since = *now;
            }
        }
    }

    /// Handles the begin of MPI's shutdown, at which the whole ends.
    pub fn mpi_ends(&mut self, now: &Totals) {
        if let Some(ready) = self.ready
            && !self.has_ended
        {
            self.has_ended = true;
            self.sums[usize::from(WHOLE)].add_between(&ready, now);
            if let Some((_, since)) = self.open[..self.depth].iter().find(|(row, _)| *row == MAIN) {
                self.sums[usize::from(MAIN)].add_between(since, now);
            }
        }
    }

    /// Calls `each` with every row that is not empty, with open regions up to now.
    pub fn each(&self, now: &Totals, mut each: impl FnMut(u16, &Totals)) {
        for (row, sum) in (0..).zip(&self.sums) {
            let mut sum = *sum;
            // The outermost one, if the region is open inside itself.
            let open = self.open[..self.depth].iter().find(|(open, _)| *open == row);
            let open = open.filter(|_| row != MAIN || !self.has_ended);
            let whole = self.ready.filter(|_| row == WHOLE && !self.has_ended);
            if let Some(since) = whole.or(open.map(|(_, since)| *since)) {
                sum.add_between(&since, now);
            }
            if sum != Totals::ZERO {
                each(row, &sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(elapsed: u64, waited: u64) -> Totals {
        let mut totals = Totals { elapsed, ..Totals::ZERO };
        totals.mpi[1] = waited;
        totals.calls[1] = waited / 10;
        totals
    }

    fn rows(regions: &Regions, now: &Totals) -> Vec<(u16, u64, u64)> {
        let mut rows = Vec::new();
        regions.each(now, |row, sum| rows.push((row, sum.elapsed, sum.mpi[1])));
        rows
    }

    #[test]
    fn regions_hold_the_time_of_those_inside() {
        let mut regions = Regions::new();
        regions.edge(0, true, &at(0, 0));
        regions.edge(3, true, &at(100, 10));
        regions.edge(3, false, &at(150, 40));
        assert_eq!(rows(&regions, &at(200, 50)), [(1, 200, 50), (4, 50, 30)]);
        regions.edge(0, false, &at(300, 60));
        assert_eq!(rows(&regions, &at(900, 90)), [(1, 300, 60), (4, 50, 30)]);
    }

    #[test]
    fn region_inside_itself_counts_its_time_once() {
        let mut regions = Regions::new();
        for time in [0, 10, 20] {
            regions.edge(5, true, &at(time, 0));
        }
        assert_eq!(rows(&regions, &at(30, 0)), [(6, 30, 0)]);
        for time in [40, 50, 60] {
            regions.edge(5, false, &at(time, 0));
        }
        assert_eq!(rows(&regions, &at(70, 0)), [(6, 60, 0)]);
    }

    #[test]
    fn main_is_as_long_as_the_whole() {
        let mut regions = Regions::new();
        regions.edge(0, true, &at(0, 0));
        regions.edge(0, false, &at(7, 0));
        regions.edge(1, true, &at(7, 0));
        regions.edge(1, false, &at(20, 0));
        regions.edge(0, true, &at(20, 0));
        regions.mpi_is_ready(&at(21, 0));
        let of = |regions: &Regions, now| {
            let rows = rows(regions, &at(now, 0));
            rows.into_iter().filter(|row| row.0 <= MAIN).collect::<Vec<_>>()
        };
        assert_eq!(of(&regions, 30), [(WHOLE, 9, 0), (MAIN, 9, 0)]);
        // An open region keeps the outermost phase open as well.
        regions.edge(2, true, &at(30, 0));
        regions.mpi_ends(&at(40, 0));
        assert_eq!(of(&regions, 50), [(WHOLE, 19, 0), (MAIN, 19, 0)]);
        regions.mpi_is_ready(&at(60, 0));
        assert_eq!(of(&regions, 65), [(WHOLE, 24, 0), (MAIN, 24, 0)]);
    }

    #[test]
    fn whole_is_from_ready_to_the_first_end() {
        let mut regions = Regions::new();
        regions.mpi_ends(&at(1, 1));
        regions.mpi_is_ready(&at(10, 1));
        regions.mpi_is_ready(&at(20, 2));
        assert_eq!(rows(&regions, &at(30, 5)), [(WHOLE, 20, 4)]);
        regions.mpi_ends(&at(40, 6));
        regions.mpi_ends(&at(50, 9));
        assert_eq!(rows(&regions, &at(60, 9)), [(WHOLE, 30, 5)]);
    }
}
