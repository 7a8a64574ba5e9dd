//! Checks of the prefix of an installation.

use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Returns the prefix as an absolute path. Nothing is created or changed.
pub fn checked(prefix: &Path) -> Result<PathBuf> {
    if prefix.as_os_str().is_empty() {
        bail!("--prefix is empty: name the folder to install into");
    }
    let Some(text) = prefix.to_str() else {
        bail!("--prefix {}: not UTF-8, which pkg-config files cannot hold", prefix.display());
    };
    // pkg-config splits at blanks, and make and the shell interpret the others.
    if let Some(bad) =
        text.chars().find(|c| c.is_whitespace() || c.is_control() || "$#'\"\\:".contains(*c))
    {
        bail!("--prefix {text:?}: {bad:?} in a path breaks pkg-config and what reads its answers");
    }
    if text.starts_with('~') {
        bail!("--prefix {text}: the shell has not replaced ~, as after =; write $HOME");
    }
    let absolute = std::path::absolute(prefix).with_context(|| format!("--prefix {text}"))?;
    let absolute = without_dots(&absolute);
    if absolute.parent().is_none() {
        bail!("--prefix {text}: that is the root folder; did a variable expand to nothing?");
    }
    if let Some(file) =
        absolute.ancestors().find(|path| path.exists()).filter(|path| !path.is_dir())
    {
        bail!("--prefix {text}: {} is not a folder", file.display());
    }
    Ok(absolute)
}

/// Refuses a destination into which this user cannot write: a build of minutes would be lost.
pub fn writable(destination: &Path) -> Result<()> {
    const FOLDERS: [&str; 5] = ["", "bin", "include", "lib", "share"];
    for folder in FOLDERS.map(|name| destination.join(name)) {
        let existing = folder.ancestors().find(|path| path.exists());
        let Some(existing) = existing else { continue };
        // A file without a name, which is not left behind.
        tempfile::tempfile_in(existing).with_context(|| {
            let (wanted, held) = (destination.display(), existing.display());
            format!(
                "--prefix: cannot write into {held}, so nothing can be installed in {wanted}; \
                 name a folder of yours, such as $HOME/quo"
            )
        })?;
    }
    Ok(())
}

/// Returns the place of a prefix in a tree that becomes the root folder elsewhere.
pub fn staged(destdir: &Path, prefix: &Path) -> Result<PathBuf> {
    let destdir =
        std::path::absolute(destdir).with_context(|| format!("--destdir {}", destdir.display()))?;
    Ok(destdir.join(prefix.strip_prefix("/").unwrap_or(prefix)))
}

fn without_dots(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            other => clean.push(other),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sensible_prefixes_become_absolute() {
        assert_eq!(checked(Path::new("/opt/quo/")).unwrap(), Path::new("/opt/quo"));
        assert_eq!(checked(Path::new("/opt/x/../quo")).unwrap(), Path::new("/opt/quo"));
        let here = std::env::current_dir().unwrap();
        assert_eq!(checked(Path::new("out/prefix")).unwrap(), here.join("out/prefix"));
    }

    #[test]
    fn folder_that_cannot_be_written_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(writable(&folder.path().join("new/prefix")).is_ok());
        // Root neither writes there.
        let error = writable(Path::new("/proc/quo")).unwrap_err();
        assert!(format!("{error:#}").contains("cannot write into /proc,"), "{error:#}");
    }

    #[test]
    fn a_staged_prefix_lies_below_its_tree() {
        let staged = staged(Path::new("/tmp/tree"), Path::new("/opt/quo")).unwrap();
        assert_eq!(staged, Path::new("/tmp/tree/opt/quo"));
    }

    #[test]
    fn nonsense_is_refused_with_its_reason() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let below = file.join("prefix");
        for (prefix, word) in [
            (Path::new(""), "empty"),
            (Path::new("/"), "root folder"),
            (Path::new("/usr/.."), "root folder"),
            (Path::new("/opt/my quo"), "breaks pkg-config"),
            (Path::new("$HOME/quo"), "breaks pkg-config"),
            (Path::new("~/quo"), "the shell has not replaced ~"),
            (&file, "not a folder"),
            (&below, "not a folder"),
        ] {
            let error = checked(prefix).unwrap_err().to_string();
            assert!(error.contains(word), "{}: {error}", prefix.display());
        }
    }
}
