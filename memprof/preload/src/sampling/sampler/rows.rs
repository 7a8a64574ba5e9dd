//! Row in the trace of each loaded object. Rows of unloaded objects stay, since call stacks refer
//! to them, until another object needs the room.

/// Number of objects that have rows.
pub const ROWS: usize = 512;

/// Address and identity of an object: another may be loaded at the same address later.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub low: usize,
    /// Exclusive.
    pub high: usize,
    pub base: usize,
    pub path: u64,
}

#[derive(Copy, Clone)]
struct Row {
    place: Place,
    /// True if the walk in progress, or else the last one, found the object.
    found: bool,
    loaded: bool,
}

/// The rows (see the module).
pub struct Rows {
    rows: [Row; ROWS],
    count: usize,
    /// True if a row was given to another object.
    pub reused: bool,
}

/// Returns a hash of a path.
pub fn number(path: &str) -> u64 {
    path.bytes().fold(0xcbf2_9ce4_8422_2325, |number, byte| {
        (number ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Rows {
    pub const fn new() -> Rows {
        const NONE: Place = Place { low: 0, high: 0, base: 0, path: 0 };
        let rows = [Row { place: NONE, found: false, loaded: false }; ROWS];
        Rows { rows, count: 0, reused: false }
    }

    /// Begins a pass over all objects.
    pub fn begin(&mut self) {
        self.rows[..self.count].iter_mut().for_each(|row| row.found = false);
    }

    /// Returns the row of a loaded object; `None` if there is no room.
    pub fn find(&mut self, place: Place) -> Option<usize> {
        let known = self.rows[..self.count].iter().position(|row| row.place == place);
        let index = match known {
            Some(index) => index,
            None if self.count < ROWS => {
                self.count += 1;
                self.count - 1
            }
            None => {
                let free = self.rows.iter().position(|row| !row.loaded)?;
                self.reused = true;
                free
            }
        };
        self.rows[index] = Row { place, found: true, loaded: true };
        Some(index)
    }

    /// Ends a pass: calls `each` with the rows of objects that are no longer loaded.
    pub fn end(&mut self, mut each: impl FnMut(usize)) {
        for (index, row) in self.rows[..self.count].iter_mut().enumerate() {
            if row.loaded && !row.found {
                row.loaded = false;
                each(index);
            }
        }
    }

    /// Returns the row of the object that an address is in, and the address in its file. Among
    /// unloaded objects, the last one there counts.
    pub fn at(&self, address: usize) -> Option<(u32, u64)> {
        let covers = |row: &Row| (row.place.low..row.place.high).contains(&address);
        let rows = &self.rows[..self.count];
        let loaded = rows.iter().position(|row| row.loaded && covers(row));
        let index = loaded.or_else(|| rows.iter().rposition(covers))?;
        Some((index as u32, address.wrapping_sub(rows[index].place.base) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: usize) -> Place {
        let low = number * 0x1000;
        Place { low, high: low + 0x1000, base: low, path: number as u64 }
    }

    fn told(rows: &mut Rows, places: impl IntoIterator<Item = Place>) -> (Vec<usize>, Vec<usize>) {
        let mut gone = Vec::new();
        rows.begin();
        let found = places.into_iter().map_while(|place| rows.find(place)).collect();
        rows.end(|index| gone.push(index));
        (found, gone)
    }

    #[test]
    fn what_is_unloaded_is_told_once_and_may_come_again() {
        let mut rows = Box::new(Rows::new());
        assert_eq!(told(&mut rows, [place(1), place(2)]), (vec![0, 1], vec![]));
        assert_eq!(told(&mut rows, [place(1)]), (vec![0], vec![1]));
        assert_eq!(told(&mut rows, [place(1)]), (vec![0], vec![]));
        assert_eq!(rows.at(0x2004), Some((1, 4)), "call stacks know it still");
        assert_eq!(told(&mut rows, [place(1), place(2)]), (vec![0, 1], vec![]));
        assert_eq!(told(&mut rows, []), (vec![], vec![0, 1]));
    }

    #[test]
    fn another_object_at_the_same_place_is_another() {
        let mut rows = Box::new(Rows::new());
        told(&mut rows, [place(1)]);
        let other = Place { path: 77, ..place(1) };
        assert_eq!(told(&mut rows, [other]), (vec![1], vec![0]));
        assert_eq!(rows.at(0x1010), Some((1, 16)));
    }

    #[test]
    fn rows_of_unloaded_objects_are_reused_when_none_are_left() {
        let mut rows = Box::new(Rows::new());
        let (found, _) = told(&mut rows, (1..=ROWS).map(place));
        assert_eq!(found.len(), ROWS);
        let (_, gone) = told(&mut rows, (1..=ROWS).filter(|number| *number != 7).map(place));
        assert_eq!(gone, [6]);
        assert!(!rows.reused);
        let all = (1..=ROWS).filter(|number| *number != 7).chain([1000, 1001]);
        let (found, _) = told(&mut rows, all.map(place));
        assert_eq!((found.len(), found.last()), (ROWS, Some(&6)));
        assert!(rows.reused);
    }
}
