//! Puts files into a prefix. Each file appears complete or not at all; the files that exist at any
//! moment can be used and removed.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::manifest::{self, Kind, Manifest};

/// Name under which a file is written in its folder before it is renamed. One name, so that the
/// rest of an interrupted installation is found.
const UNFINISHED: &str = ".quo-install-unfinished";

/// Number of names that an error lists.
const NAMES: usize = 10;

/// Something to install.
pub struct Item {
    /// Path below the prefix.
    pub path: String,
    pub content: Content,
}

pub enum Content {
    File { bytes: Vec<u8>, mode: u32 },
    Link { to: String },
}

impl Item {
    fn kind(&self) -> Kind {
        match &self.content {
            Content::File { bytes, mode } => {
                Kind::File { digest: manifest::digest(bytes), mode: *mode }
            }
            Content::Link { to } => Kind::Link { to: to.clone() },
        }
    }
}

/// Changes found during an installation.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Files that the user had changed, by their new names.
    pub set_aside: Vec<String>,
    /// Number of files of the previous version that were removed.
    pub removed: usize,
    /// Files of the previous version that stay, since the user changed them.
    pub kept: Vec<String>,
}

/// Refuses a prefix in which other software has files of these names, as [`install`] does. Nothing is
/// changed.
pub fn check(prefix: &Path, items: &[Item], overwrite: bool) -> Result<()> {
    let old = Manifest::read(prefix)?.unwrap_or_default();
    let mut new = Manifest::default();
    items.iter().for_each(|item| new.add(&item.path, item.kind()));
    judge(prefix, &old, &new, overwrite).map(drop)
}

/// Installs the items in order, and removes the previous version's files that this one lacks.
pub fn install(prefix: &Path, items: &[Item], version: &str, overwrite: bool) -> Result<Report> {
    let old = Manifest::read(prefix)?;
    let had_manifest = old.is_some();
    let old = old.unwrap_or_default();
    let mut new = Manifest { version: version.to_owned(), ..Manifest::default() };
    items.iter().for_each(|item| new.add(&item.path, item.kind()));

    let changed = judge(prefix, &old, &new, overwrite)?;
    new.folders = old.folders.clone();
    new.folders.extend(absent_folders(prefix, items));
    let mut report = Report::default();
    let prefix = Prefix { folder: prefix };
    prefix.forget_unfinished(&new)?;
    if !had_manifest || old != new {
        prefix.write_manifest(&old.joined(&new))?;
    }
    for path in changed {
        report.set_aside.push(prefix.set_aside(&path)?);
    }
    for item in items {
        prefix.put(item)?;
    }
    for (path, kinds) in old.entries.iter().filter(|(path, _)| !new.entries.contains_key(*path)) {
        match manifest::found(&prefix.folder.join(path))? {
            Some(now) if manifest::is_ours(&now, kinds) => {
                prefix.remove(path)?;
                report.removed += 1;
            }
            Some(_) => report.kept.push(path.clone()),
            None => {}
        }
    }
    remove_empty_folders(prefix.folder, &mut new.folders)?;
    prefix.write_manifest(&new)?;
    Ok(report)
}

/// Returns the files that the user changed. Other software's files are overwritten only on request.
fn judge(prefix: &Path, old: &Manifest, new: &Manifest, overwrite: bool) -> Result<Vec<String>> {
    let (mut foreign, mut changed) = (Vec::new(), Vec::new());
    for (path, kinds) in &new.entries {
        let Some(now) = manifest::found(&prefix.join(path))? else { continue };
        if manifest::is_ours(&now, kinds) {
            continue;
        }
        match old.entries.get(path) {
            Some(installed) if manifest::is_ours(&now, installed) => {}
            Some(_) => changed.push(path.clone()),
            None => foreign.push(path.clone()),
        }
    }
    if foreign.is_empty() || overwrite {
        return Ok(changed);
    }
    let more = foreign.len().saturating_sub(NAMES);
    foreign.truncate(NAMES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    bail!(
        "{} holds files that `cargo xtask install` did not put there: {}{more}. Choose another prefix, \
         or replace them with --overwrite",
        prefix.display(),
        foreign.join(", ")
    );
}

/// Returns the folders that will be created, including `.` if the prefix is one.
fn absent_folders(prefix: &Path, items: &[Item]) -> BTreeSet<String> {
    let mut absent = BTreeSet::new();
    let paths = items.iter().map(|item| item.path.as_str()).chain([manifest::PLACE]);
    for path in paths {
        for folder in Path::new(path).ancestors().skip(1) {
            if !prefix.join(folder).is_dir() {
                let name = folder.to_string_lossy().into_owned();
                absent.insert(if name.is_empty() { ".".to_owned() } else { name });
            }
        }
    }
    absent
}

/// Removes the empty folders from the disk and from the set: other software's files stay.
pub fn remove_empty_folders(prefix: &Path, folders: &mut BTreeSet<String>) -> Result<()> {
    // Folders sort before their contents.
    for name in folders.clone().into_iter().rev() {
        let folder = if name == "." { prefix.to_path_buf() } else { prefix.join(&name) };
        match fs::remove_dir(&folder) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotADirectory
                ) =>
            {
                continue;
            }
            Err(error) => {
                return Err(error).with_context(|| format!("removing {}", folder.display()));
            }
        }
        folders.remove(&name);
    }
    Ok(())
}

/// Removes what Python has compiled from a module, and the folder of it once it is empty.
fn forget_compiled(module: &Path) -> Result<()> {
    let folder = module.with_file_name("__pycache__");
    let stem = format!("{}.", module.file_stem().unwrap_or_default().to_string_lossy());
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(&stem) && name.ends_with(".pyc") {
            let file = entry.path();
            fs::remove_file(&file).with_context(|| format!("removing {}", file.display()))?;
        }
    }
    let _others_are_left = fs::remove_dir(&folder);
    Ok(())
}

/// The folder of the installation.
pub struct Prefix<'a> {
    pub folder: &'a Path,
}

impl Prefix<'_> {
    fn put(&self, item: &Item) -> Result<()> {
        if manifest::found(&self.folder.join(&item.path))?.is_some_and(|now| now == item.kind()) {
            return Ok(());
        }
        self.replace(&item.path, |new| match &item.content {
            Content::File { bytes, mode } => {
                fs::write(new, bytes)?;
                fs::set_permissions(new, fs::Permissions::from_mode(*mode))
            }
            Content::Link { to } => symlink(to, new),
        })
    }

    pub fn write_manifest(&self, manifest: &Manifest) -> Result<()> {
        let text = manifest.text();
        let content = Content::File { bytes: text.into_bytes(), mode: 0o644 };
        self.put(&Item { path: manifest::PLACE.to_owned(), content })
    }

    /// Removes a file, and of a Python module what Python has compiled from it.
    pub fn remove(&self, path: &str) -> Result<()> {
        let file = self.folder.join(path);
        fs::remove_file(&file).with_context(|| format!("removing {}", file.display()))?;
        if file.extension().is_some_and(|end| end == "py") {
            forget_compiled(&file)?;
        }
        Ok(())
    }

    /// Renames a file that the user changed.
    fn set_aside(&self, path: &str) -> Result<String> {
        let free = (1..).map(|number| format!("{path}.changed-{number}"));
        let mut free = free.filter(|name| self.folder.join(name).symlink_metadata().is_err());
        let name = free
            .next()
            .with_context(|| format!("{path}: no free name to keep the changed file"))?;
        let (from, to) = (self.folder.join(path), self.folder.join(&name));
        fs::rename(&from, &to).with_context(|| format!("renaming {}", from.display()))?;
        Ok(name)
    }

    /// Removes the unfinished files of an interrupted installation.
    pub fn forget_unfinished(&self, manifest: &Manifest) -> Result<()> {
        let files = manifest.entries.keys().map(String::as_str).chain([manifest::PLACE]);
        let folders: BTreeSet<PathBuf> =
            files.filter_map(|path| Some(self.folder.join(path).parent()?.to_path_buf())).collect();
        for file in folders.iter().map(|folder| folder.join(UNFINISHED)) {
            if file.symlink_metadata().is_ok() {
                fs::remove_file(&file).with_context(|| format!("removing {}", file.display()))?;
            }
        }
        Ok(())
    }

    fn replace(&self, name: &str, make: impl Fn(&Path) -> io::Result<()>) -> Result<()> {
        let file = self.folder.join(name);
        let attempt = || {
            let parent = file.parent().unwrap_or(self.folder);
            fs::create_dir_all(parent)?;
            let new = parent.join(UNFINISHED);
            make(&new).and_then(|()| fs::rename(&new, &file)).inspect_err(|_| {
                let _nothing_more_to_do = fs::remove_file(&new);
            })
        };
        attempt().with_context(|| format!("installing {}", file.display()))
    }
}

#[cfg(test)]
#[path = "place_tests.rs"]
mod tests;
