//! Manifest of a checkpoint: what it has, how it lies in the files, and how it fits the data that
//! ranks have registered.

use serde::{Deserialize, Serialize};

use super::super::Pattern;
use super::super::message::{Agreed, Described, DescribedMatrix};
use super::files::{FileRecord, is_generation};

const TITLE: &str = "quo-checkpoint";
/// Raised with each change of the manifest or the files.
const FORMAT: &str = "1";
const BYTE_ORDER: &str = if cfg!(target_endian = "big") { "big" } else { "little" };

/// Description of all data of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    byte_order: String,
    pub generation: String,
    pub arrays: Vec<Described>,
    pub matrices: Vec<DescribedMatrix>,
    /// Names of lists, and bytes of an item.
    pub items: Vec<(String, usize)>,
    /// By rank.
    pub files: Vec<FileRecord>,
    /// The value of the program.
    pub state: Vec<u8>,
}

/// Data of a rank after a restore, with their numbers in the checkpoint.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub arrays: Vec<(usize, Described)>,
    pub matrices: Vec<usize>,
    /// The number of the next array.
    pub next: u64,
}

impl Manifest {
    pub fn new(
        generation: String,
        data: Agreed,
        items: Vec<(String, usize)>,
        files: Vec<FileRecord>,
        state: Vec<u8>,
    ) -> Self {
        let Agreed { mut arrays, matrices, .. } = data;
        // A pattern that was set for the next resize is not part of the data.
        arrays.iter_mut().for_each(|array| array.next = None);
        let byte_order = BYTE_ORDER.to_owned();
        Self { byte_order, generation, arrays, matrices, items, files, state }
    }

    pub fn to_bytes(&self) -> Result<Vec<u8>, String> {
        let text = serde_json::to_string(self).map_err(|error| error.to_string())?;
        let checksum = crc32fast::hash(text.as_bytes());
        Ok(format!("{TITLE} {FORMAT} {checksum:08x}\n{text}").into_bytes())
    }

    /// Reads a manifest; `path` is that of its file.
    pub fn from_bytes(path: &str, bytes: &[u8]) -> Result<Self, String> {
        let damaged = || format!("{path} is damaged: restore another checkpoint, or remove it");
        let text = std::str::from_utf8(bytes).map_err(|_| damaged())?;
        let (title, text) = text.split_once('\n').ok_or_else(damaged)?;
        let mut words = title.split(' ');
        if words.next() != Some(TITLE) {
            return Err(format!("{path} is no checkpoint: choose another folder"));
        }
        match words.next() {
            Some(FORMAT) => {}
            other => {
                let found = other.unwrap_or("none");
                return Err(format!(
                    "{path} has format {found}, and this library reads {FORMAT}: use the library that wrote it"
                ));
            }
        }
        let checksum = format!("{:08x}", crc32fast::hash(text.as_bytes()));
        if words.next() != Some(&checksum) || words.next().is_some() {
            return Err(damaged());
        }
        let read: Self = serde_json::from_str(text).map_err(|_| damaged())?;
        if read.byte_order != BYTE_ORDER {
            let found = read.byte_order;
            return Err(format!(
                "{path} has numbers in {found}-endian byte order, and this machine has {BYTE_ORDER}: restore it on a machine like that of the job"
            ));
        }
        let is_whole = is_generation(&read.generation)
            && !read.files.is_empty()
            && read.arrays.iter().all(|array| read.has_matrix_of(array));
        if is_whole { Ok(read) } else { Err(damaged()) }
    }

    /// Returns true if the matrix of a vector has as many rows as the vector has elements.
    fn has_matrix_of(&self, array: &Described) -> bool {
        array.matrix.as_ref().is_none_or(|name| {
            self.matrices
                .iter()
                .any(|matrix| matrix.name == *name && array.pattern == Pattern::block(matrix.rows))
        })
    }

    /// Number of sections in each file: the parts of arrays, the indices of arrays along nonzeros,
    /// matrices and lists, in this order.
    pub fn sections(&self) -> usize {
        self.list_section(self.items.len())
    }

    pub fn index_section(&self, array: usize) -> usize {
        self.arrays.len() + array
    }

    pub fn matrix_section(&self, matrix: usize) -> usize {
        2 * self.arrays.len() + matrix
    }

    pub fn list_section(&self, list: usize) -> usize {
        self.matrix_section(self.matrices.len()) + list
    }

    /// Returns the data after a restore: registered arrays and matrices keep their place and their
    /// pattern, and others follow. The reason if the data do not fit.
    pub fn target(&self, here: &Agreed, lists: &[(String, usize)]) -> Result<Target, String> {
        let mut target = Target { arrays: Vec::new(), matrices: Vec::new(), next: here.next };
        for array in &here.arrays {
            let found = self.arrays.iter().position(|stored| stored.name == array.name);
            let found = found.ok_or_else(|| lacks("array", &array.name))?;
            if let Some(difference) = difference(array, &self.arrays[found]) {
                return Err(difference);
            }
            // Only the checkpoint has the index of its matrix.
            let lines = self.arrays[found].lines.clone();
            target.arrays.push((found, Described { lines, ..array.clone() }));
        }
        for (number, stored) in self.arrays.iter().enumerate() {
            if here.arrays.iter().all(|array| array.name != stored.name) {
                target.arrays.push((number, Described { number: target.next, ..stored.clone() }));
                target.next += 1;
            }
        }
        for matrix in &here.matrices {
            let found = self.matrices.iter().position(|stored| stored.name == matrix.name);
            let found = found.ok_or_else(|| lacks("matrix", &matrix.name))?;
            let stored = &self.matrices[found];
            if stored != matrix {
                let describe = |matrix: &DescribedMatrix| {
                    let DescribedMatrix { rows, element, base, .. } = matrix;
                    format!("{rows} rows from {base} in elements of {element} bytes")
                };
                return Err(format!(
                    "the matrix `{}` has {}, and in the checkpoint {}: register it as it was",
                    matrix.name,
                    describe(matrix),
                    describe(stored)
                ));
            }
            target.matrices.push(found);
        }
        let others =
            self.matrices.iter().enumerate().filter(|(_, stored)| {
                here.matrices.iter().all(|matrix| matrix.name != stored.name)
            });
        target.matrices.extend(others.map(|(number, _)| number));
        self.check_lists(lists)?;
        Ok(target)
    }

    fn check_lists(&self, lists: &[(String, usize)]) -> Result<(), String> {
        for (name, element) in lists {
            match self.items.iter().find(|(stored, _)| stored == name) {
                None => return Err(lacks("list", name)),
                Some((_, stored)) if stored != element => {
                    return Err(format!(
                        "the items of `{name}` have {element} bytes, and in the checkpoint {stored}: register them as they were"
                    ));
                }
                Some(_) => {}
            }
        }
        match self.items.iter().find(|(name, _)| lists.iter().all(|(list, _)| list != name)) {
            Some((name, _)) => Err(format!(
                "the checkpoint has the list `{name}`: register it with the function of its owners before the restore"
            )),
            None => Ok(()),
        }
    }
}

fn lacks(kind: &str, name: &str) -> String {
    format!("the checkpoint has no {kind} `{name}`: register it after the restore")
}

/// Returns the difference of an array from its description in a checkpoint.
fn difference(array: &Described, stored: &Described) -> Option<String> {
    let name = &array.name;
    if array.element != stored.element {
        return Some(format!(
            "the elements of `{name}` have {} bytes, and in the checkpoint {}: register them as they were",
            array.element, stored.element
        ));
    }
    if array.matrix != stored.matrix || array.lines != stored.lines {
        return Some(format!(
            "`{name}` lies along another matrix than in the checkpoint: register it as it was"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(number: u64, name: &str, element: usize) -> Described {
        let (name, pattern) = (name.to_owned(), Pattern::block(10));
        Described { number, name, element, pattern, next: None, lines: None, matrix: None }
    }

    fn matrix(rows: usize) -> DescribedMatrix {
        DescribedMatrix { name: "A".to_owned(), rows, element: 8, base: 0 }
    }

    fn manifest() -> Manifest {
        let arrays = vec![array(0, "x", 8), array(1, "y", 4)];
        let data = Agreed { arrays, matrices: vec![matrix(7)], next: 2 };
        let record = serde_json::from_str(r#"{"bytes":9,"table":7,"checksum":1}"#).unwrap();
        let items = vec![("ants".to_owned(), 16)];
        Manifest::new("0123456789abcdef".to_owned(), data, items, vec![record], vec![1, 2])
    }

    fn here(arrays: &[Described]) -> Agreed {
        Agreed { arrays: arrays.to_vec(), matrices: Vec::new(), next: 5 }
    }

    fn ants(element: usize) -> [(String, usize); 1] {
        [("ants".to_owned(), element)]
    }

    #[test]
    fn manifest_is_read_back_and_changed_bytes_are_refused() {
        let manifest = manifest();
        let bytes = manifest.to_bytes().unwrap();
        assert_eq!(Manifest::from_bytes("m", &bytes), Ok(manifest));
        for at in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1;
            assert!(Manifest::from_bytes("m", &wrong).is_err(), "{at}");
            assert!(Manifest::from_bytes("m", &bytes[..at]).is_err(), "{at}");
        }
        let said = |text: &str| Manifest::from_bytes("m", text.as_bytes()).unwrap_err();
        assert_eq!(said("notes\nof mine"), "m is no checkpoint: choose another folder");
        assert!(said("quo-checkpoint 2 0\n").starts_with("m has format 2, and this library reads"));
    }

    #[test]
    fn manifest_of_another_byte_order_or_generation_is_refused() {
        let said = |manifest: Manifest| {
            Manifest::from_bytes("m", &manifest.to_bytes().unwrap()).unwrap_err()
        };
        let other = if BYTE_ORDER == "big" { "little" } else { "big" };
        let other = Manifest { byte_order: other.to_owned(), ..manifest() };
        assert!(said(other).contains("-endian byte order"));
        let elsewhere = Manifest { generation: "../../../../../x".to_owned(), ..manifest() };
        assert!(said(elsewhere).starts_with("m is damaged"));
        assert!(said(Manifest { files: Vec::new(), ..manifest() }).starts_with("m is damaged"));
        let mut vector = manifest();
        vector.arrays[0].matrix = Some("A".to_owned());
        assert!(said(vector).starts_with("m is damaged"));
    }

    #[test]
    fn registered_arrays_keep_numbers_and_others_are_added() {
        let target = manifest().target(&here(&[array(3, "y", 4)]), &ants(16)).unwrap();
        let added = Described { number: 5, ..array(0, "x", 8) };
        assert_eq!(target.arrays, [(1, array(3, "y", 4)), (0, added)]);
        assert_eq!((target.matrices, target.next), (vec![0], 6));
    }

    #[test]
    fn data_that_do_not_fit_are_named_with_both_descriptions() {
        let manifest = manifest();
        let said =
            |here: &Agreed, lists: &[(String, usize)]| manifest.target(here, lists).unwrap_err();
        let unknown = said(&here(&[array(0, "z", 8)]), &ants(16));
        assert!(unknown.starts_with("the checkpoint has no array `z`: register"), "{unknown}");
        let element = said(&here(&[array(0, "x", 4)]), &ants(16));
        assert!(element.contains("`x` have 4 bytes, and in the checkpoint 8"), "{element}");
        let rows = Agreed { matrices: vec![matrix(8)], ..here(&[]) };
        let rows = said(&rows, &ants(16));
        assert!(rows.contains("`A` has 8 rows from 0 in elements of 8 bytes, and"), "{rows}");
        let unregistered = said(&here(&[]), &[]);
        assert!(unregistered.starts_with("the checkpoint has the list `ants`"), "{unregistered}");
        let size = said(&here(&[]), &ants(8));
        assert!(size.contains("`ants` have 8 bytes, and in the checkpoint 16"), "{size}");
        let more = [ants(16), [("bees".to_owned(), 1)]].concat();
        assert!(said(&here(&[]), &more).contains("has no list `bees`"));
        let mut along = array(0, "x", 8);
        along.matrix = Some("A".to_owned());
        assert!(said(&here(&[along]), &ants(16)).contains("`x` lies along another matrix"));
    }
}
