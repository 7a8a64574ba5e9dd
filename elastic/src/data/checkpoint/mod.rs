//! Checkpoints: the data of all ranks in a folder, which any number of ranks of a later job reads.
//!
//! Each rank writes its own parts, in the layout of the ranks that there are. Reading is a move from
//! those ranks to the present ones, with files in place of the memory of the former. A checkpoint is
//! complete with its manifest, which rank 0 renames once all files are on the storage device; until
//! then the checkpoint before it remains, and nothing of the ranks changes until all have read
//! and checked what they need.
//!
//! | content | file |
//! |---|---|
//! | the calls | this file |
//! | the description of a checkpoint, and whether registered data fit it | `manifest.rs` |
//! | files, their names and checksums | `files.rs` |
//! | reading the parts of a rank | `load.rs` |

mod files;
mod load;
mod manifest;

use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::Path;

use quo::group::WaitLimits;
use quo_files::{Access, Folder, Lock};
use serde::{Deserialize, Serialize};

use super::message::{HeldArrays, agreed, exchange};
use super::{DataError, Registry};
use load::Loaded;
use manifest::Manifest;

const CHECKPOINT: &str = "checkpoint";
const RESTORE: &str = "restore";

/// Why a rank cannot write or read a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Fault {
    Files(String),
    /// The registered data do not fit.
    Data(String),
}

impl From<String> for Fault {
    fn from(reason: String) -> Self {
        Self::Files(reason)
    }
}

/// First report of a rank.
#[derive(Serialize, Deserialize)]
struct Opening {
    /// The generation that rank 0 begins to write, or that this rank is about to read.
    generation: Option<String>,
    held: HeldArrays,
}

/// A checkpoint that rank 0 begins to write.
struct Begun {
    folder: Folder,
    _lock: Lock,
    generation: String,
    former: Option<String>,
    state: Vec<u8>,
}

impl Begun {
    fn new(path: &Path, state: Vec<u8>) -> Result<Self, String> {
        let folder = Folder::make(path, Access::ReadOnly).map_err(|error| error.to_string())?;
        let lock = folder.lock(false).map_err(|error| error.to_string())?;
        let lock = lock.ok_or_else(|| busy(&folder, "read or written"))?;
        let former = read_manifest(&folder)?.map(|manifest| manifest.generation);
        if former.is_none() {
            // The folder may be new. Not every file system can store the name of one now.
            let above = folder.path().parent().and_then(|above| std::fs::File::open(above).ok());
            above.map(|above| above.sync_all());
        }
        files::clear(&folder, former.as_deref());
        let generation = files::new_generation().map_err(|error| error.to_string())?;
        Ok(Self { folder, _lock: lock, generation, former, state })
    }
}

fn busy(folder: &Folder, what: &str) -> String {
    format!(
        "another job has {} {what} now: wait for it, or choose another folder",
        folder.path().display()
    )
}

fn read_manifest(folder: &Folder) -> Result<Option<Manifest>, String> {
    match folder.read(files::MANIFEST) {
        Ok(bytes) => {
            let path = folder.path().join(files::MANIFEST);
            Manifest::from_bytes(&path.display().to_string(), &bytes).map(Some)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// A checkpoint that is read, and locked on rank 0.
struct Opened {
    folder: Folder,
    manifest: Manifest,
    _lock: Option<Lock>,
}

/// Opens a checkpoint; `None` if there is none in the folder, or no folder.
fn open(path: &Path, is_first: bool) -> Result<Option<Opened>, String> {
    let folder = match Folder::open(path, Access::ReadOnly) {
        Ok(folder) => folder,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let lock = match is_first {
        true => folder.lock(true).map_err(|error| error.to_string())?,
        false => None,
    };
    if is_first && lock.is_none() {
        return Err(busy(&folder, "written"));
    }
    let manifest = read_manifest(&folder)?;
    Ok(manifest.map(|manifest| Opened { folder, manifest, _lock: lock }))
}

/// Adds the remedy for a file that one rank sees and another one does not.
fn unshared(error: &std::io::Error) -> String {
    format!("{error}: ranks on several nodes need a folder that all nodes share")
}

impl Registry {
    /// Writes all data to a folder, in a program that runs in one process. Over a world it is
    /// [`World::checkpoint_bytes`](crate::World::checkpoint_bytes). Local.
    ///
    /// # Errors
    /// [`DataError::Files`], [`DataError::Unstored`]; [`DataError::Unfit`] over a world of several
    /// ranks.
    pub fn checkpoint_bytes(
        &self,
        folder: &Path,
        state: Result<Vec<u8>, String>,
    ) -> Result<(), DataError> {
        self.check_serial(CHECKPOINT)?;
        let limits = WaitLimits { deadline: None, check_peers: &|| Ok(()) };
        self.write_checkpoint(folder, state, &limits)
    }

    /// Reads the data of a checkpoint, in a program that runs in one process. Over a world it is
    /// [`World::restore_bytes`](crate::World::restore_bytes). Local.
    ///
    /// # Errors
    /// As [`checkpoint_bytes`](Self::checkpoint_bytes).
    pub fn restore_bytes(
        &mut self,
        folder: &Path,
        accept: impl FnOnce(&[u8]) -> Result<(), String>,
    ) -> Result<bool, DataError> {
        self.check_serial(RESTORE)?;
        let limits = WaitLimits { deadline: None, check_peers: &|| Ok(()) };
        self.read_checkpoint(folder, accept, &limits)
    }

    fn check_serial(&self, call: &'static str) -> Result<(), DataError> {
        if self.seat.is_none_or(|(_, size)| size == 1) {
            return Ok(());
        }
        let reason = "the world writes and reads the data of its ranks";
        Err(DataError::Unfit { call, name: "data".to_owned(), reason })
    }

    /// Writes a checkpoint with the state of rank 0, unless a rank has a reason against it. Collective over the ranks, which are connected.
    pub(crate) fn write_checkpoint(
        &self,
        path: &Path,
        state: Result<Vec<u8>, String>,
        limits: &WaitLimits<'_>,
    ) -> Result<(), DataError> {
        let (rank, size) = self.seat.ok_or(DataError::NoRank { call: CHECKPOINT })?;
        let state = state.map_err(Fault::Data);
        let storable = state.and_then(|state| self.check_storable(path).map(|()| state));
        let begun = storable.and_then(|state| match rank {
            0 => Ok(Some(Begun::new(path, state)?)),
            _ => Ok(None),
        });
        let mine = begun.as_ref().map_err(Fault::clone).map(|begun| Opening {
            generation: begun.as_ref().map(|begun| begun.generation.clone()),
            held: self.stored(),
        });
        let all = self.agree(CHECKPOINT, mine, limits)?;
        let generation = all[0].generation.clone().unwrap_or_default();
        let held: Vec<_> = all.into_iter().map(|opening| opening.held).collect();
        let data = agreed(CHECKPOINT, &held)?;
        let begun = begun.ok().flatten();

        let name = files::name_of(&generation, rank);
        let opened;
        let folder = match &begun {
            Some(begun) => Ok(&begun.folder),
            None => {
                opened = Folder::open(path, Access::ReadOnly).map_err(|error| unshared(&error));
                opened.as_ref().map_err(|reason| Fault::Files(reason.clone()))
            }
        };
        let written =
            folder.clone().and_then(|folder| Ok(files::write(folder, &name, self.sections(rank))?));
        let records = self.agree(CHECKPOINT, written, limits).and_then(|records| {
            let next = files::name_of(&generation, (rank + 1) % size);
            let sees = folder.clone().and_then(|folder| {
                folder.open_file(&next).map_err(|error| Fault::Files(unshared(&error)))
            });
            self.agree(CHECKPOINT, sees.map(drop), limits).map(|_| records)
        });
        let records = records.inspect_err(|error| {
            // After another error rank 0 may be about to publish this file.
            if let (DataError::Files { .. }, Ok(folder)) = (error, &folder) {
                let _ = folder.remove(&name);
            }
        })?;
        let published = match &begun {
            None => Ok(()),
            Some(begun) => {
                let items = held[0].items.clone();
                let (generation, state) = (generation.clone(), begun.state.clone());
                let manifest = Manifest::new(generation, data, items, records, state).to_bytes();
                manifest.and_then(|manifest| {
                    files::publish(&begun.folder, &manifest, begun.former.as_deref())
                })
            }
        };
        self.agree(CHECKPOINT, published.map_err(Fault::Files), limits)?;
        if let Some(begun) = &begun {
            files::clear(&begun.folder, Some(&generation));
        }
        Ok(())
    }

    /// Reads a checkpoint; false if the folder has none. `accept` gets the state that was written, on
    /// all ranks, and can refuse it; then, as after any other error, nothing has changed. Collective
    /// over the ranks, which are connected.
    pub(crate) fn read_checkpoint(
        &mut self,
        path: &Path,
        accept: impl FnOnce(&[u8]) -> Result<(), String>,
        limits: &WaitLimits<'_>,
    ) -> Result<bool, DataError> {
        let (rank, size) = self.seat.ok_or(DataError::NoRank { call: RESTORE })?;
        let opened = self.check_storable(path).and_then(|()| Ok(open(path, rank == 0)?));
        let mine = opened.as_ref().map_err(Fault::clone).map(|found| Opening {
            generation: found.as_ref().map(|found| found.manifest.generation.clone()),
            held: self.stored(),
        });
        let all = self.agree(RESTORE, mine, limits)?;
        let other = all.iter().position(|opening| opening.generation != all[0].generation);
        if let Some(rank) = other {
            let reason = format!(
                "{} has another checkpoint here than on rank 0, or none: ranks on several nodes need a folder that all nodes share",
                path.display()
            );
            return Err(DataError::Files { call: RESTORE, rank, reason });
        }
        let held: Vec<_> = all.into_iter().map(|opening| opening.held).collect();
        let data = agreed(RESTORE, &held)?;
        let Ok(Some(Opened { folder, mut manifest, _lock })) = opened else { return Ok(false) };
        let loaded = self
            .load(&folder, &mut manifest, &data, (rank, size))
            .and_then(|loaded| accept(&manifest.state).map(|()| loaded).map_err(Fault::Data));
        self.agree(RESTORE, loaded.as_ref().map(drop).map_err(Fault::clone), limits)?;
        let Ok(Loaded { arrays, next, matrices, lists }) = loaded else { return Ok(false) };
        let mut arrived = Vec::new();
        for (at, list) in lists.iter().enumerate() {
            let given = self.items[at].others_by_owner(list, size);
            arrived.push(self.pass_items(RESTORE, at, (rank, given), limits)?);
        }
        for (items, (pieces, room)) in self.items.iter_mut().zip(arrived) {
            items.replace(room, &pieces);
        }
        (self.entries, self.next, self.matrices) = (arrays, next, matrices);
        Ok(true)
    }

    /// Refuses data that cannot be written or replaced now, and a folder without a name.
    fn check_storable(&self, path: &Path) -> Result<(), Fault> {
        if path.as_os_str().is_empty() {
            return Err(Fault::Data("the path of the folder is empty".to_owned()));
        }
        if let Some((name, _)) = self.callbacks.first() {
            return Err(Fault::Data(format!(
                "the callback `{name}` moves data that only the program knows: remove it and write those data elsewhere"
            )));
        }
        match self.exchanging() {
            Some(name) => Err(Fault::Data(format!(
                "an exchange of the ghost cells of `{name}` has begun: end it first"
            ))),
            None => Ok(()),
        }
    }

    /// Returns the facts about the data that have to be the same on all ranks.
    fn stored(&self) -> HeldArrays {
        HeldArrays {
            arrays: Some(self.entries.iter().map(|entry| entry.described.clone()).collect()),
            matrices: self.matrices.iter().map(|matrix| matrix.described.clone()).collect(),
            next: self.next,
            callbacks: self.carried().map(str::to_owned).collect(),
            items: self.items.iter().map(|items| (items.name.clone(), items.element)).collect(),
            ..HeldArrays::default()
        }
    }

    /// Returns the sections of this rank's file, in the order of the manifest.
    fn sections(&self, rank: usize) -> impl Iterator<Item = Result<Cow<'_, [u8]>, String>> {
        let arrays = self.entries.iter().map(|entry| Ok(Cow::Borrowed(entry.held())));
        let indices = self.entries.iter().map(move |entry| {
            let lines = entry.described.lines.as_ref().filter(|_| rank == 0);
            Ok(Cow::Owned(lines.map(|lines| lines.to_bytes()).unwrap_or_default()))
        });
        let matrices = self.matrices.iter().map(|matrix| {
            let name = &matrix.described.name;
            matrix.packed().map(Cow::Owned).map_err(|refusal| format!("`{name}`: {refusal}"))
        });
        let items = self.items.iter().map(|items| Ok(Cow::Borrowed(items.bytes())));
        arrays.chain(indices).chain(matrices).chain(items)
    }

    /// Gathers the values of all ranks, unless a rank has none: then all fail for its reason.
    /// Collective over the ranks.
    fn agree<T: Serialize + for<'a> Deserialize<'a>>(
        &self,
        call: &'static str,
        mine: Result<T, Fault>,
        limits: &WaitLimits<'_>,
    ) -> Result<Vec<T>, DataError> {
        let all = match &self.halo_group {
            Some(group) => exchange(call, group, &mine, limits)?,
            None => vec![mine],
        };
        let failed = |rank, fault| match fault {
            Fault::Files(reason) => DataError::Files { call, rank, reason },
            Fault::Data(reason) => DataError::Unstored { call, rank, reason },
        };
        let each = all.into_iter().enumerate();
        each.map(|(rank, one)| one.map_err(|fault| failed(rank, fault))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::Pattern;
    use super::*;

    fn with_data(values: f64) -> Registry {
        let mut registry = Registry::serial();
        registry.register_with("x", Pattern::block(3), &[values; 3]).unwrap();
        registry.register_matrix("A", 2, &[1, 2, 3], &[2, 1], &[values, values]).unwrap();
        registry.register_vector::<f64>("v", "A").unwrap();
        registry.register_items::<f64>("ants", |_, _| 0).unwrap();
        registry.resize_items("ants", 2).unwrap();
        registry.items_mut::<f64>("ants").unwrap().fill(values);
        registry
    }

    fn values(registry: &Registry) -> [f64; 3] {
        let x = registry.local(registry.array::<f64>("x").unwrap()).unwrap()[2];
        let a = registry.matrix::<f64>("A").unwrap().values[1];
        [x, a, registry.items::<f64>("ants").unwrap()[1]]
    }

    #[test]
    fn one_process_has_its_data_again() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("checkpoints");
        let mut registry = with_data(1.5);
        assert_eq!(registry.restore_bytes(&folder, |_| Err("asked".to_owned())), Ok(false));
        registry.checkpoint_bytes(&folder, Ok(vec![7])).unwrap();
        let mut other = with_data(2.5);
        let handle = other.array::<f64>("x").unwrap();
        let refused = other.restore_bytes(&folder, |_| Err("not mine".to_owned())).unwrap_err();
        assert_eq!(refused.to_string(), "restore: rank 0: not mine");
        assert_eq!(values(&other), [2.5; 3]);
        let mut state = Vec::new();
        let accept = |bytes: &[u8]| {
            state = bytes.to_vec();
            Ok(())
        };
        assert_eq!(other.restore_bytes(&folder, accept), Ok(true));
        assert_eq!((values(&other), state), ([1.5; 3], vec![7]));
        assert_eq!(other.local(handle).unwrap(), [1.5; 3]);
        let mut empty = Registry::serial();
        empty.register_items::<f64>("ants", |_, _| 0).unwrap();
        assert_eq!(empty.restore_bytes(&folder, |_| Ok(())), Ok(true));
        assert_eq!(values(&empty), [1.5; 3]);
        assert_eq!(empty.ghosts("v"), Ok(0));
        empty.register::<u8>("later", Pattern::block(1)).unwrap();
    }

    #[test]
    fn owner_that_is_no_rank_leaves_all_data() {
        let place = tempfile::tempdir().unwrap();
        with_data(1.5).checkpoint_bytes(place.path(), Ok(Vec::new())).unwrap();
        let mut other = with_data(2.5);
        other.remove("ants").unwrap();
        other.register_items::<f64>("ants", |_, _| 9).unwrap();
        let lost = other.restore_bytes(place.path(), |_| Ok(())).unwrap_err().to_string();
        assert!(
            lost.starts_with("restore: `ants`: rank 0: the owner of item 0 is rank 9"),
            "{lost}"
        );
        let x = other.array::<f64>("x").unwrap();
        assert_eq!(other.local(x).unwrap(), [2.5; 3]);
    }

    #[test]
    fn folder_in_use_and_several_ranks_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let mut registry = with_data(1.5);
        registry.checkpoint_bytes(place.path(), Ok(Vec::new())).unwrap();
        let folder = Folder::open(place.path(), Access::ReadOnly).unwrap();
        let lock = folder.lock(false).unwrap();
        assert!(lock.is_some());
        let busy = registry.checkpoint_bytes(place.path(), Ok(Vec::new())).unwrap_err();
        assert!(
            matches!(busy, DataError::Files { .. }) && busy.to_string().contains("another job")
        );
        let busy = registry.restore_bytes(place.path(), |_| Ok(())).unwrap_err();
        assert!(busy.to_string().contains("written now: wait for it"), "{busy}");
        drop(lock);
        let given = registry.checkpoint_bytes(place.path(), Err("no time".to_owned()));
        assert!(matches!(given, Err(DataError::Unstored { rank: 0, .. })), "{given:?}");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 3);
        let nowhere = registry.checkpoint_bytes(Path::new(""), Ok(Vec::new())).unwrap_err();
        assert!(nowhere.to_string().contains("the path of the folder is empty"), "{nowhere}");
        let two = Registry::new(Some((0, 2)));
        assert!(matches!(
            two.checkpoint_bytes(place.path(), Ok(Vec::new())),
            Err(DataError::Unfit { .. })
        ));
        let parked = Registry::new(None).checkpoint_bytes(place.path(), Ok(Vec::new()));
        assert_eq!(parked, Err(DataError::NoRank { call: "checkpoint" }));
    }
}
