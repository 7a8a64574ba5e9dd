//! Work of the leavers: it goes to the first rank with the resize, as data of the program's own kind.

use std::cell::RefCell;
use std::rc::Rc;

use elastic::data::{Carry, Seats};

use crate::result::RankRecord;

/// The records of those who left, on the first rank.
#[derive(Clone, Default)]
pub struct Leavers(Rc<RefCell<Kept>>);

#[derive(Default)]
struct Kept {
    /// Of this process, if it leaves.
    own: Vec<u8>,
    /// Came with the resize under way.
    came: Vec<RankRecord>,
    records: Vec<RankRecord>,
}

impl Leavers {
    /// This process leaves with the resize under way.
    ///
    /// # Errors
    /// If the record cannot be put into words.
    pub fn leave(&self, record: &RankRecord) -> Result<(), serde_json::Error> {
        self.0.borrow_mut().own = serde_json::to_vec(record)?;
        Ok(())
    }

    /// Records that came to this process.
    pub fn records(&self) -> Vec<RankRecord> {
        std::mem::take(&mut self.0.borrow_mut().records)
    }
}

impl Carry for Leavers {
    fn give(&mut self, seats: &Seats) -> Result<Vec<(usize, Vec<u8>)>, String> {
        let own = std::mem::take(&mut self.0.borrow_mut().own);
        let leaves = seats.new_rank.is_none();
        Ok(if leaves { vec![(0, own)] } else { Vec::new() })
    }

    fn take(&mut self, _: &Seats, pieces: Vec<(usize, Vec<u8>)>) -> Result<(), String> {
        let records = pieces.iter().filter(|(_, bytes)| !bytes.is_empty());
        let records = records.map(|(_, bytes)| serde_json::from_slice(bytes));
        self.0.borrow_mut().came =
            records.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        Ok(())
    }

    fn settle(&mut self, committed: bool) {
        let kept = &mut *self.0.borrow_mut();
        let came = std::mem::take(&mut kept.came);
        if committed {
            kept.records.extend(came);
        }
    }
}
