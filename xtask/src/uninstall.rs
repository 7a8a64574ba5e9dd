//! `cargo xtask uninstall --prefix DIR`: removes the files of `install`, and nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;

use crate::install::manifest::{self, Manifest};
use crate::install::place::{Prefix, remove_empty_folders};
use crate::install::prefix;

#[derive(Args)]
pub struct Options {
    /// Folder of the installation.
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,
    /// Also remove installed files that were changed since.
    #[arg(long)]
    purge: bool,
    /// List the files that would be removed, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

pub fn run(options: &Options) -> Result<()> {
    let prefix = prefix::checked(&options.prefix)?;
    let outcome = remove(&prefix, options.purge, options.dry_run)?;
    let shown = prefix.display();
    if options.dry_run {
        for path in &outcome.removed {
            println!("would remove {shown}/{path}");
        }
    }
    for path in &outcome.changed {
        println!("kept {shown}/{path}: it was changed after it was installed (--purge removes it)");
    }
    for path in &outcome.replaced {
        println!("kept {shown}/{path}: a folder or a device is there now");
    }
    for folder in &outcome.used {
        println!(
            "kept {}: it holds files that were not installed",
            in_prefix(&prefix, folder).display()
        );
    }
    let would = if options.dry_run { "would be " } else { "" };
    println!("{} files {would}removed from {shown}", outcome.removed.len());
    Ok(())
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    removed: Vec<String>,
    /// Files that were changed since the installation, and stay.
    changed: Vec<String>,
    /// Paths that are no longer files.
    replaced: Vec<String>,
    /// Installed folders into which other software put files.
    used: Vec<String>,
}

fn remove(folder: &Path, purge: bool, dry: bool) -> Result<Outcome> {
    let Some(mut manifest) = Manifest::read(folder)? else {
        bail!(
            "{}: there is no {}, so nothing was installed there by `cargo xtask install`",
            folder.display(),
            manifest::PLACE
        );
    };
    let prefix = Prefix { folder };
    let mut outcome = Outcome::default();
    if !dry {
        prefix.forget_unfinished(&manifest)?;
    }
    for (path, kinds) in std::mem::take(&mut manifest.entries) {
        match manifest::found(&folder.join(&path)) {
            Ok(None) => {}
            Ok(Some(now)) if purge || manifest::is_ours(&now, &kinds) => {
                if !dry {
                    prefix.remove(&path)?;
                }
                outcome.removed.push(path);
            }
            Ok(Some(_)) => {
                outcome.changed.push(path.clone());
                manifest.entries.insert(path, kinds);
            }
            Err(_) => outcome.replaced.push(path),
        }
    }
    if dry {
        return Ok(outcome);
    }
    if manifest.entries.is_empty() {
        prefix.remove(manifest::PLACE)?;
    }
    remove_empty_folders(folder, &mut manifest.folders)?;
    if !manifest.entries.is_empty() {
        // Remaining files can still be purged.
        prefix.write_manifest(&manifest)?;
    }
    outcome.used = used(folder, &manifest, &outcome);
    Ok(outcome)
}

/// Returns folders that stay because other software put files directly into them.
fn used(prefix: &Path, manifest: &Manifest, outcome: &Outcome) -> Vec<String> {
    let mut known: BTreeSet<PathBuf> = BTreeSet::from([prefix.join(manifest::PLACE)]);
    let told = manifest.entries.keys().chain(&outcome.replaced).chain(&manifest.folders);
    known.extend(told.map(|path| prefix.join(path)));
    let holds_more = |folder: &&String| {
        let entries = fs::read_dir(in_prefix(prefix, folder)).into_iter().flatten().flatten();
        entries.into_iter().any(|entry| !known.contains(&entry.path()))
    };
    manifest.folders.iter().filter(holds_more).cloned().collect()
}

fn in_prefix(prefix: &Path, name: &str) -> PathBuf {
    if name == "." { prefix.to_path_buf() } else { prefix.join(name) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::place::{Content, Item, install};

    fn installed() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path().join("prefix");
        let item = |path: &str, content| Item { path: path.to_owned(), content };
        let items = [
            item("include/quo.h", Content::File { bytes: b"header".to_vec(), mode: 0o644 }),
            item("lib/libquo.so.8", Content::File { bytes: b"library".to_vec(), mode: 0o755 }),
            item("lib/libquo.so", Content::Link { to: "libquo.so.8".to_owned() }),
        ];
        install(&prefix, &items, "1.0.0", false).unwrap();
        (folder, prefix)
    }

    #[test]
    fn nothing_is_left_of_what_was_installed() {
        let (folder, prefix) = installed();
        let outcome = remove(&prefix, false, false).unwrap();
        assert_eq!(outcome.removed.len(), 3);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(remove(&prefix, false, false).unwrap_err().to_string().contains("nothing was"));
    }

    #[test]
    fn what_python_compiled_goes_with_its_modules() {
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path().join("prefix");
        let content = Content::File { bytes: Vec::new(), mode: 0o644 };
        let item = Item { path: "lib/python/libquo/errors.py".to_owned(), content };
        install(&prefix, &[item], "1.0.0", false).unwrap();
        let compiled = prefix.join("lib/python/libquo/__pycache__");
        fs::create_dir(&compiled).unwrap();
        for name in ["errors.cpython-311.pyc", "errors.cpython-313.opt-1.pyc"] {
            fs::write(compiled.join(name), "").unwrap();
        }
        remove(&prefix, false, false).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_prefix_that_was_there_stays() {
        let folder = tempfile::tempdir().unwrap();
        let content = Content::File { bytes: Vec::new(), mode: 0o644 };
        let item = Item { path: "include/quo.h".to_owned(), content };
        install(folder.path(), &[item], "1.0.0", false).unwrap();
        remove(folder.path(), false, false).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn changed_and_added_files_stay_until_they_are_purged() {
        let (_folder, prefix) = installed();
        fs::write(prefix.join("include/quo.h"), "changed").unwrap();
        fs::write(prefix.join("include/mine.h"), "added").unwrap();
        let outcome = remove(&prefix, false, false).unwrap();
        assert_eq!(outcome.changed, ["include/quo.h"]);
        assert_eq!(outcome.used, ["include"]);
        assert!(!prefix.join("lib").exists());
        let again = remove(&prefix, false, false).unwrap();
        assert_eq!((again.removed.len(), again.changed.len()), (0, 1));

        let purged = remove(&prefix, true, false).unwrap();
        assert_eq!(purged.removed, ["include/quo.h"]);
        assert_eq!(fs::read_to_string(prefix.join("include/mine.h")).unwrap(), "added");
        assert!(!prefix.join("share").exists());
    }

    #[test]
    fn a_dry_run_changes_nothing() {
        let (_folder, prefix) = installed();
        let outcome = remove(&prefix, false, true).unwrap();
        assert_eq!(outcome.removed, ["include/quo.h", "lib/libquo.so", "lib/libquo.so.8"]);
        assert!(prefix.join("lib/libquo.so").exists() && prefix.join(manifest::PLACE).exists());
    }

    #[test]
    fn missing_file_or_new_folder_does_not_stop_the_rest() {
        let (_folder, prefix) = installed();
        fs::remove_file(prefix.join("lib/libquo.so")).unwrap();
        fs::remove_file(prefix.join("include/quo.h")).unwrap();
        fs::create_dir(prefix.join("include/quo.h")).unwrap();
        let outcome = remove(&prefix, true, false).unwrap();
        assert_eq!(outcome.removed, ["lib/libquo.so.8"]);
        assert_eq!(outcome.replaced, ["include/quo.h"]);
        assert!(prefix.join("include/quo.h").is_dir());
    }
}
