//! First touches of memory: the matrix of owners and touchers, where the kernel was asked.

use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;

/// Memory of one owner that one toucher made resident, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Touch {
    /// Owner of the memory.
    pub owner: Arc<str>,
    /// Component of the code that touched the memory; `None` where that is not known.
    pub toucher: Option<Arc<str>>,
    /// The function of MPI the thread was seen in, where the toucher is MPI.
    pub mpi_function: Option<Arc<str>>,
    /// Number of page faults.
    pub faults: u64,
    /// Bytes that became resident by them.
    pub bytes: u64,
}

/// All of a process, or of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Touches {
    /// Largest first.
    pub cells: Vec<Touch>,
    /// Number of page faults that the kernel reported.
    pub faults: u64,
    /// Number of page faults that the kernel could not report.
    pub lost: u64,
    /// Processes in which it was asked.
    pub processes: u32,
}

impl Touches {
    /// Sums over processes.
    pub fn sum<'a>(all: impl Iterator<Item = &'a Touches>) -> Touches {
        type Key<'a> = (&'a str, Option<&'a str>, Option<&'a str>);
        let mut sum = Touches::default();
        let mut known: HashMap<Key<'a>, usize> = HashMap::new();
        for touches in all {
            sum.faults = sum.faults.saturating_add(touches.faults);
            sum.lost = sum.lost.saturating_add(touches.lost);
            sum.processes += touches.processes;
            for cell in &touches.cells {
                let key = (&*cell.owner, cell.toucher.as_deref(), cell.mpi_function.as_deref());
                match known.get(&key) {
                    Some(at) => {
                        let into = &mut sum.cells[*at];
                        into.faults = into.faults.saturating_add(cell.faults);
                        into.bytes = into.bytes.saturating_add(cell.bytes);
                    }
                    None => {
                        known.insert(key, sum.cells.len());
                        sum.cells.push(cell.clone());
                    }
                }
            }
        }
        sum.sort();
        sum
    }

    /// Sorts the cells as promised.
    pub fn sort(&mut self) {
        self.cells.sort_by(|one, other| {
            (other.bytes.cmp(&one.bytes))
                .then_with(|| one.owner.cmp(&other.owner))
                .then_with(|| one.toucher.cmp(&other.toucher))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touches(bytes: u64) -> Touches {
        let cell = |owner: &str, function: Option<&str>, bytes| Touch {
            owner: owner.into(),
            toucher: Some("mpi.core".into()),
            mpi_function: function.map(Arc::from),
            faults: bytes / 4096,
            bytes,
        };
        let cells = vec![cell("app.exe", Some("MPI_Recv"), bytes), cell("app.exe", None, 4096)];
        Touches { cells, faults: bytes / 4096 + 1, lost: 2, processes: 1 }
    }

    #[test]
    fn cells_of_the_same_owner_toucher_and_function_add_up() {
        let sum = Touches::sum([touches(8192), touches(40_960)].iter());
        let seen: Vec<_> = sum.cells.iter().map(|cell| (cell.faults, cell.bytes)).collect();
        assert_eq!(seen, [(12, 49_152), (2, 8192)]);
        assert_eq!((sum.faults, sum.lost, sum.processes), (14, 4, 2));
    }
}
