//! Reading of the parts of a rank from the files of the ranks that wrote a checkpoint.

use std::collections::BTreeMap;

use quo_files::Folder;

use super::super::block::Block;
use super::super::carry::{Carry, Seats};
use super::super::matrix::Matrix;
use super::super::matrix_index::MatrixIndex;
use super::super::message::{Agreed, Described};
use super::super::pieces::{Pieces, reserved};
use super::super::registry::Entry;
use super::super::{DataError, Registry};
use super::files::{StoredFile, name_of};
use super::manifest::Manifest;
use super::{Fault, RESTORE};
use crate::layout::{Distribution, LayoutError, Message, Ranks, Schedule};

/// Data of a rank as they are after the restore.
#[derive(Debug)]
pub(super) struct Loaded {
    pub arrays: Vec<Entry>,
    pub next: u64,
    pub matrices: Vec<Matrix>,
    /// Items of some of the ranks that wrote them, by list.
    pub lists: Vec<Block>,
}

/// Data that a rank needs from a file.
#[derive(Default)]
struct Wanted {
    /// With the number of the array after the restore.
    messages: Vec<(usize, Message)>,
    /// Numbers of matrices after the restore.
    matrices: Vec<usize>,
    items: bool,
}

impl Registry {
    /// Reads the data of this rank, and changes nothing. Local.
    pub(super) fn load(
        &self,
        folder: &Folder,
        manifest: &mut Manifest,
        here: &Agreed,
        (rank, size): (usize, usize),
    ) -> Result<Loaded, Fault> {
        read_indices(folder, manifest)?;
        let writers = manifest.files.len();
        let lists: Vec<_> =
            self.items.iter().map(|items| (items.name.clone(), items.element)).collect();
        let target = manifest.target(here, &lists).map_err(Fault::Data)?;
        let mut wanted: BTreeMap<usize, Wanted> = BTreeMap::new();
        let unfit = |error: DataError| match error {
            DataError::Memory { .. } => Fault::Files(error.to_string()),
            error => Fault::Data(error.to_string()),
        };
        let mut arrays = Vec::new();
        for (number, (stored, described)) in target.arrays.iter().enumerate() {
            let entry = Entry::new("register", described.clone(), rank, size).map_err(unfit)?;
            let stored = &manifest.arrays[*stored];
            let messages = messages(stored, writers, &entry, rank).map_err(|error| {
                Fault::Data(format!("array `{}`: {error}: register it as it was", described.name))
            })?;
            for (file, message) in messages {
                wanted.entry(file).or_default().messages.push((number, message));
            }
            arrays.push(entry);
        }
        let described = target.matrices.iter().map(|stored| manifest.matrices[*stored].clone());
        let mut matrices: Vec<_> = described.map(Matrix::without_rows).collect();
        for (number, matrix) in matrices.iter().enumerate() {
            for file in matrix.holders(writers, (rank, size)) {
                wanted.entry(file).or_default().matrices.push(number);
            }
        }
        if !lists.is_empty() {
            for file in rank * writers / size..(rank + 1) * writers / size {
                wanted.entry(file).or_default().items = true;
            }
        }

        let mut rows: Vec<Pieces> = vec![Vec::new(); matrices.len()];
        let mut items: Vec<Vec<Block>> = lists.iter().map(|_| Vec::new()).collect();
        for (file, wanted) in wanted {
            let stored = open(folder, manifest, file)?;
            for (number, message) in wanted.messages {
                let section = target.arrays[number].0;
                if stored.bytes(section) != message.source_bytes() {
                    return Err(stored.unfit().into());
                }
                let source = stored.read(section, message.source_span())?;
                let block = &mut arrays[number].block;
                block.make_ready(message.target_span());
                message
                    .copy(source.bytes(), block.bytes_mut())
                    .map_err(|error| Fault::Files(format!("{}: {error}", stored.unfit())))?;
            }
            for number in wanted.matrices {
                let section = manifest.matrix_section(target.matrices[number]);
                let packed = read_all(&stored, section)?;
                let piece = matrices[number]
                    .repacked(packed, (file, writers), (rank, size))
                    .map_err(|reason| format!("{}: {reason}", stored.unfit()))?;
                rows[number].push((file, piece));
            }
            if wanted.items {
                for ((name, element), blocks) in lists.iter().zip(&mut items) {
                    let list = manifest.items.iter().position(|(stored, _)| stored == name);
                    let section = manifest.list_section(list.unwrap_or_default());
                    let bytes = stored.bytes(section);
                    if !bytes.is_multiple_of(*element) {
                        return Err(stored.unfit().into());
                    }
                    blocks.push(stored.read(section, 0..bytes)?);
                }
            }
        }
        let seats =
            Seats { old_size: writers, new_size: size, old_rank: None, new_rank: Some(rank) };
        for (matrix, rows) in matrices.iter_mut().zip(rows) {
            let name = matrix.described.name.clone();
            let taken = matrix.take(&seats, rows);
            taken.map_err(|reason| Fault::Files(format!("`{name}`: {reason}")))?;
            matrix.end_transfer(true);
        }
        for entry in &mut arrays {
            let of = entry.described.matrix.as_ref();
            let of = of.and_then(|name| matrices.iter().find(|it| it.described.name == *name));
            let ghosts = of.map_or(0, |matrix| matrix.rows.ghosts.len());
            entry.add_ghosts(RESTORE, ghosts).map_err(unfit)?;
        }
        let lists = items.iter().map(|blocks| joined(blocks)).collect::<Result<_, _>>()?;
        Ok(Loaded { arrays, next: target.next, matrices, lists })
    }
}

fn open(folder: &Folder, manifest: &Manifest, file: usize) -> Result<StoredFile, String> {
    let name = name_of(&manifest.generation, file);
    StoredFile::open(folder, &name, &manifest.files[file], manifest.sections())
}

fn read_all(stored: &StoredFile, section: usize) -> Result<Vec<u8>, String> {
    let bytes = stored.bytes(section);
    let mut memory = reserved(bytes).map_err(|refusal| refusal.to_string())?;
    memory.resize(bytes, 0);
    stored.read_all(section, &mut memory)?;
    Ok(memory)
}

/// Completes arrays along nonzeros with the indices of their matrices, which rank 0 wrote.
fn read_indices(folder: &Folder, manifest: &mut Manifest) -> Result<(), String> {
    if manifest.arrays.iter().all(|array| array.lines.is_none()) {
        return Ok(());
    }
    let first = open(folder, manifest, 0)?;
    for number in 0..manifest.arrays.len() {
        let section = manifest.index_section(number);
        let array = &mut manifest.arrays[number];
        if array.lines.is_some() {
            let bytes = read_all(&first, section)?;
            let index = MatrixIndex::received(&bytes);
            array.lines = Some(index.map_err(|error| format!("{}: {error}", first.unfit()))?);
        }
    }
    Ok(())
}

/// Returns the messages that bring a rank its part of an array, each with the file of its source.
fn messages(
    stored: &Described,
    writers: usize,
    entry: &Entry,
    rank: usize,
) -> Result<Vec<(usize, Message)>, LayoutError> {
    let Entry { described, distribution, .. } = entry;
    let old = stored.over(stored.pattern, Ranks::first(writers))?;
    // Each rank reads copies of all elements from one file: ranks have none to pass on.
    let alone = |place| described.over(described.pattern, Ranks::list([place])?);
    let (me, new): (usize, Distribution) = match distribution.is_replicated() {
        true => (rank % writers, alone(rank % writers)?),
        false => (rank, distribution.clone()),
    };
    let part = Schedule::between(&old, &new, described.element)?.of(me);
    let kept = part.kept().iter().map(|message| (me, message.clone()));
    let received = part.steps().iter().filter_map(|step| step.receive());
    let received = received.map(|message| (message.peer(), message.clone()));
    Ok(kept.chain(received).collect())
}

/// Puts items of several files into one memory.
fn joined(blocks: &[Block]) -> Result<Block, String> {
    let bytes = blocks.iter().map(|block| block.bytes().len()).sum();
    let mut all =
        Block::new(bytes).map_err(|error| format!("no memory for {bytes} bytes: {error}"))?;
    let mut place = all.bytes_mut();
    for block in blocks {
        let (part, rest) = place.split_at_mut(block.bytes().len());
        part.copy_from_slice(block.bytes());
        place = rest;
    }
    Ok(all)
}
