//! Files of a checkpoint: each rank writes its own, with a table of sections and their checksums at
//! the end.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use quo_files::Folder;
use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

use super::super::block::Block;
use super::super::pieces::reserved;

/// Number of bytes with one checksum. A rank reads no more than the portions that it needs.
const PORTION: usize = 1 << 20;
const PREFIX: &str = "data";
/// Digits of the name of a generation.
const DIGITS: usize = 16;

/// Name of the file that makes a checkpoint complete.
pub(super) const MANIFEST: &str = "checkpoint";
const NEXT_MANIFEST: &str = "checkpoint.next";

/// Bytes of an array, a matrix or a list in the file of a rank.
#[derive(Debug, Serialize, Deserialize)]
struct Section {
    bytes: usize,
    /// One for each portion.
    checksums: Vec<u32>,
}

/// Description of the file of a rank in the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileRecord {
    bytes: u64,
    /// Beginning of the table, which ends with the file.
    table: u64,
    checksum: u32,
}

/// Returns a name for a generation of files that no other generation has.
pub(super) fn new_generation() -> io::Result<String> {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{:016x}", u64::from_ne_bytes(random)))
}

pub(super) fn is_generation(name: &str) -> bool {
    name.len() == DIGITS && name.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// Returns the name of the file of a rank.
pub(super) fn name_of(generation: &str, rank: usize) -> String {
    format!("{PREFIX}.{generation}.{rank}")
}

/// Returns the generation of a file that a rank has written; `None` for files of other kinds.
fn generation_of(name: &str) -> Option<&str> {
    let (generation, rank) = name.strip_prefix(PREFIX)?.strip_prefix('.')?.split_once('.')?;
    let is_rank = !rank.is_empty() && rank.bytes().all(|digit| digit.is_ascii_digit());
    (is_generation(generation) && is_rank).then_some(generation)
}

/// Removes the files of all generations except one, and an unfinished manifest.
pub(super) fn clear(folder: &Folder, kept: Option<&str>) {
    // Files that remain do no harm; the next checkpoint tries again.
    for name in folder.names().unwrap_or_default() {
        if name == NEXT_MANIFEST || generation_of(&name).is_some_and(|it| Some(it) != kept) {
            let _ = folder.remove(&name);
        }
    }
}

/// Returns the reason with which a checkpoint fails because of a file.
fn unwritten(folder: &Folder, name: &str, error: &io::Error) -> String {
    let path = folder.path().join(name);
    format!(
        "cannot write {}: {error}: free space, or choose another folder; the checkpoint before this one remains",
        path.display()
    )
}

/// Writes to a file that has `before` bytes.
fn put(file: &mut File, before: u64, bytes: &[u8]) -> io::Result<()> {
    // The kernel ends a process by a signal if it may not have files of that length.
    let limit = getrlimit(Resource::Fsize).current;
    if let Some(limit) = limit.filter(|limit| before + bytes.len() as u64 > *limit) {
        return Err(io::Error::other(format!(
            "files may have at most {limit} bytes here (ulimit -f)"
        )));
    }
    file.write_all(bytes)
}

/// Writes the file of a rank to the storage device. Leaves no file if that fails.
pub(super) fn write<'a>(
    folder: &Folder,
    name: &str,
    sections: impl Iterator<Item = Result<Cow<'a, [u8]>, String>>,
) -> Result<FileRecord, String> {
    let failed = |error: io::Error| unwritten(folder, name, &error);
    let mut file = folder.create(name).map_err(failed)?;
    let mut at = 0;
    let fill = || {
        let mut table = Vec::new();
        for section in sections {
            let bytes = section?;
            let mut checksums = Vec::new();
            for portion in bytes.chunks(PORTION) {
                put(&mut file, at, portion).map_err(failed)?;
                checksums.push(crc32fast::hash(portion));
                at += portion.len() as u64;
            }
            table.push(Section { bytes: bytes.len(), checksums });
        }
        let table = serde_json::to_vec(&table).map_err(|error| failed(error.into()))?;
        put(&mut file, at, &table).and_then(|()| file.sync_all()).map_err(failed)?;
        let bytes = at + table.len() as u64;
        Ok(FileRecord { bytes, table: at, checksum: crc32fast::hash(&table) })
    };
    fill().inspect_err(|_| {
        let _ = folder.remove(name);
    })
}

/// Puts a manifest in the place of the former one, once all files are on the storage device. If that
/// fails before the change, nothing of generations other than `former` remains. If the change itself
/// fails, all files remain: a network file system may have made it nevertheless.
pub(super) fn publish(
    folder: &Folder,
    manifest: &[u8],
    former: Option<&str>,
) -> Result<(), String> {
    let written = folder.create(NEXT_MANIFEST).and_then(|mut file| {
        put(&mut file, 0, manifest)?;
        file.sync_all()?;
        // The names of the files are stored before the manifest that refers to them.
        folder.sync()
    });
    if let Err(error) = written {
        clear(folder, former);
        return Err(unwritten(folder, MANIFEST, &error));
    }
    folder.rename(NEXT_MANIFEST, MANIFEST).map_err(|error| unwritten(folder, MANIFEST, &error))?;
    folder.sync().map_err(|error| {
        let path = folder.path().join(MANIFEST);
        format!(
            "{} is written, but may be lost if the machine fails now: {error}: write it again",
            path.display()
        )
    })
}

/// The file that a rank wrote.
#[derive(Debug)]
pub(super) struct StoredFile {
    file: File,
    path: String,
    /// With their beginnings.
    sections: Vec<(u64, Section)>,
}

impl StoredFile {
    /// Opens the file of a rank, and checks that it is the one of the manifest.
    pub fn open(
        folder: &Folder,
        name: &str,
        record: &FileRecord,
        sections: usize,
    ) -> Result<Self, String> {
        let path = folder.path().join(name).display().to_string();
        let file = folder.open_file(name).map_err(|error| match error.kind() {
            ErrorKind::NotFound => format!(
                "{path} is missing: it was removed, or the nodes of this job do not share the folder"
            ),
            _ => format!("{error}: make it readable"),
        })?;
        let unread = |error: io::Error| format!("cannot read {path}: {error}");
        let length = file.metadata().map_err(unread)?.len();
        if length != record.bytes {
            let expected = record.bytes;
            return Err(format!(
                "{path} has {length} bytes and not {expected}: it was changed; restore another checkpoint"
            ));
        }
        let damaged = || damaged(&path);
        let bytes = record.bytes.checked_sub(record.table).ok_or_else(damaged)?;
        let mut table = reserved(bytes as usize).map_err(|refusal| format!("{path}: {refusal}"))?;
        table.resize(bytes as usize, 0);
        file.read_exact_at(&mut table, record.table).map_err(unread)?;
        if crc32fast::hash(&table) != record.checksum {
            return Err(damaged());
        }
        let table: Vec<Section> = serde_json::from_slice(&table).map_err(|_| damaged())?;
        let mut begin = 0_u64;
        let mut listed = Vec::new();
        for section in table {
            let end = begin.checked_add(section.bytes as u64).ok_or_else(damaged)?;
            if section.checksums.len() != section.bytes.div_ceil(PORTION) {
                return Err(damaged());
            }
            listed.push((begin, section));
            begin = end;
        }
        if begin != record.table || listed.len() != sections {
            return Err(damaged());
        }
        Ok(Self { file, path, sections: listed })
    }

    /// Number of bytes of a section.
    pub fn bytes(&self, section: usize) -> usize {
        self.sections.get(section).map_or(0, |(_, section)| section.bytes)
    }

    /// Reads a range of a section into memory of the section's size, after checking it.
    pub fn read(&self, section: usize, range: Range<usize>) -> Result<Block, String> {
        let mut block = Block::new(self.bytes(section)).map_err(|error| {
            format!("no memory for {} bytes of {}: {error}", self.bytes(section), self.path)
        })?;
        self.read_into(section, range, block.bytes_mut())?;
        Ok(block)
    }

    /// Reads a section into memory of its size, after checking it.
    pub fn read_all(&self, section: usize, memory: &mut [u8]) -> Result<(), String> {
        self.read_into(section, 0..memory.len(), memory)
    }

    fn read_into(
        &self,
        section: usize,
        range: Range<usize>,
        memory: &mut [u8],
    ) -> Result<(), String> {
        let Some((begin, section)) = self.sections.get(section) else {
            return Err(damaged(&self.path));
        };
        if memory.len() != section.bytes || range.end > section.bytes {
            return Err(damaged(&self.path));
        }
        for portion in range.start / PORTION..range.end.div_ceil(PORTION) {
            let from = portion * PORTION;
            let place = &mut memory[from..section.bytes.min(from + PORTION)];
            self.file
                .read_exact_at(place, begin + from as u64)
                .map_err(|error| format!("cannot read {}: {error}", self.path))?;
            if crc32fast::hash(place) != section.checksums[portion] {
                return Err(damaged(&self.path));
            }
        }
        Ok(())
    }

    /// Returns the reason for a section that does not fit its description.
    pub fn unfit(&self) -> String {
        damaged(&self.path)
    }
}

fn damaged(path: &str) -> String {
    format!("{path} is damaged, its checksums differ: restore another checkpoint")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use quo_files::Access;

    use super::*;

    fn folder(place: &Path) -> Folder {
        Folder::make(&place.join("checkpoints"), Access::ReadOnly).unwrap()
    }

    fn written(folder: &Folder, sections: &[&[u8]]) -> FileRecord {
        let sections = sections.iter().map(|bytes| Ok(Cow::Borrowed(*bytes)));
        write(folder, "data.0", sections).unwrap()
    }

    #[test]
    fn sections_are_read_back_by_portions() {
        let place = tempfile::tempdir().unwrap();
        let folder = folder(place.path());
        let large: Vec<u8> = (0..PORTION * 2 + 5).map(|number| (number % 251) as u8).collect();
        let record = written(&folder, &[&[1, 2, 3], &[], &large]);
        let file = StoredFile::open(&folder, "data.0", &record, 3).unwrap();
        assert_eq!((file.bytes(0), file.bytes(1), file.bytes(2)), (3, 0, large.len()));
        assert_eq!(file.read(0, 0..3).unwrap().bytes(), [1, 2, 3]);
        assert!(file.read(1, 0..0).unwrap().bytes().is_empty());
        // Only the portion of the range is read.
        let part = file.read(2, PORTION + 7..PORTION + 8).unwrap();
        assert_eq!(part.bytes()[PORTION..2 * PORTION], large[PORTION..2 * PORTION]);
        assert_eq!(part.bytes()[1], 0);
        assert!(file.read(2, 0..large.len() + 1).is_err() && file.read(3, 0..1).is_err());
    }

    #[test]
    fn changed_cut_and_missing_files_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let folder = folder(place.path());
        let record = written(&folder, &[&[1, 2, 3], &[4; 9]]);
        let path = folder.path().join("data.0");
        let right = std::fs::read(&path).unwrap();
        let open = |sections| StoredFile::open(&folder, "data.0", &record, sections);
        let said = |result: Result<StoredFile, String>| result.unwrap_err();
        assert!(said(open(3)).ends_with("restore another checkpoint"));
        for at in 0..right.len() {
            let mut wrong = right.clone();
            wrong[at] ^= 1;
            std::fs::write(&path, wrong).unwrap();
            let read = open(2).and_then(|file| {
                file.read(0, 0..3)?;
                file.read(1, 0..9)
            });
            assert!(read.unwrap_err().contains("data.0 is damaged"), "{at}");
        }
        std::fs::write(&path, &right[1..]).unwrap();
        assert!(said(open(2)).contains("bytes and not"));
        std::fs::remove_file(&path).unwrap();
        assert!(said(open(2)).contains("data.0 is missing"));
    }

    #[test]
    fn failed_section_leaves_no_file() {
        let place = tempfile::tempdir().unwrap();
        let folder = folder(place.path());
        let sections = [Ok(Cow::Borrowed(&[1_u8; 9][..])), Err("no memory".to_owned())];
        assert_eq!(write(&folder, "data.0", sections.into_iter()), Err("no memory".to_owned()));
        assert_eq!(folder.names().unwrap().len(), 2);
    }

    #[test]
    fn only_files_of_other_generations_are_cleared() {
        let place = tempfile::tempdir().unwrap();
        let folder = folder(place.path());
        let (old, new) = (new_generation().unwrap(), new_generation().unwrap());
        let kept = [name_of(&new, 0), name_of(&new, 12), "data.csv".to_owned(), "data".to_owned()];
        let gone = [name_of(&old, 0), name_of(&old, 7), NEXT_MANIFEST.to_owned()];
        for name in kept.iter().chain(&gone) {
            folder.create(name).unwrap();
        }
        clear(&folder, Some(&new));
        let mut names = folder.names().unwrap();
        names.retain(|name| !name.starts_with('.'));
        names.sort();
        let mut kept = kept.to_vec();
        kept.sort();
        assert_eq!(names, kept);
    }
}
