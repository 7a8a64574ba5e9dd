//! The manifest of an installation: a text file in it, for later installations and for its removal.
//!
//! ```text
//! # a comment
//! version 0.1.0
//! folder lib
//! file 644 <SHA-256> include/quo.h
//! link libquo.so.8 lib/libquo.so
//! ```
//!
//! During an installation a path may have two lines, for the old and for the new file: both belong
//! to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

/// Path of the manifest below the prefix.
pub const PLACE: &str = "share/quo/install-manifest.txt";

const HEAD: &str = "# Installed by `cargo xtask install`; \
                    `cargo xtask uninstall` and the next installation read this.\n";

/// Content of one path when it was installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    File { digest: String, mode: u32 },
    Link { to: String },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    pub version: String,
    /// Folders that the installation created; `.` is the prefix itself.
    pub folders: BTreeSet<String>,
    pub entries: BTreeMap<String, Vec<Kind>>,
}

impl Manifest {
    /// Reads the manifest of a prefix, if there is one.
    pub fn read(prefix: &Path) -> Result<Option<Manifest>> {
        let file = prefix.join(PLACE);
        match fs::read_to_string(&file) {
            Ok(text) => Manifest::parse(&text)
                .with_context(|| format!("reading {}", file.display()))
                .map(Some),
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error).with_context(|| format!("reading {}", file.display())),
        }
    }

    pub fn add(&mut self, path: &str, kind: Kind) {
        let kinds = self.entries.entry(path.to_owned()).or_default();
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }

    /// Joins both manifests: the possible states after an interruption between them.
    pub fn joined(&self, other: &Manifest) -> Manifest {
        let mut joined = self.clone();
        joined.version.clone_from(&other.version);
        joined.folders.extend(other.folders.iter().cloned());
        for (path, kinds) in &other.entries {
            kinds.iter().for_each(|kind| joined.add(path, kind.clone()));
        }
        joined
    }

    pub fn text(&self) -> String {
        let mut text = format!("{HEAD}version {}\n", self.version);
        for folder in &self.folders {
            let _infallible = writeln!(text, "folder {folder}");
        }
        for (path, kinds) in &self.entries {
            for kind in kinds {
                let _infallible = match kind {
                    Kind::File { digest, mode } => writeln!(text, "file {mode:o} {digest} {path}"),
                    Kind::Link { to } => writeln!(text, "link {to} {path}"),
                };
            }
        }
        text
    }

    fn parse(text: &str) -> Result<Manifest> {
        let mut manifest = Manifest::default();
        for (number, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            manifest.parse_line(line).with_context(|| format!("line {}: {line:?}", number + 1))?;
        }
        if manifest.version.is_empty() {
            bail!("it names no version");
        }
        Ok(manifest)
    }

    fn parse_line(&mut self, line: &str) -> Result<()> {
        let (word, rest) = line.split_once(' ').context("one word only")?;
        match word {
            "version" => rest.clone_into(&mut self.version),
            "folder" => {
                self.folders.insert(safe(rest)?);
            }
            "file" => {
                let mut parts = rest.splitn(3, ' ');
                let mode = parts.next().and_then(|mode| u32::from_str_radix(mode, 8).ok());
                let digest = parts.next().filter(|digest| digest.len() == 64);
                let (Some(mode), Some(digest), Some(path)) = (mode, digest, parts.next()) else {
                    bail!("not a mode, a digest and a path");
                };
                self.add(&safe(path)?, Kind::File { digest: digest.to_owned(), mode });
            }
            "link" => {
                let (to, path) = rest.split_once(' ').context("not two paths")?;
                self.add(&safe(path)?, Kind::Link { to: to.to_owned() });
            }
            _ => bail!("unknown word"),
        }
        Ok(())
    }
}

/// Returns a path that stays below the prefix: an edited manifest must not remove other files.
fn safe(path: &str) -> Result<String> {
    let stays = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    if path == "." || (stays && !path.is_empty()) {
        return Ok(path.to_owned());
    }
    bail!("a path that does not stay below the prefix");
}

pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the current content of a path; `None` if there is nothing. A folder or a device is an
/// error, since it cannot have been installed.
pub fn found(path: &Path) -> Result<Option<Kind>> {
    let shown = || path.display().to_string();
    let data = match path.symlink_metadata() {
        Ok(data) => data,
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error).with_context(shown),
    };
    if data.is_symlink() {
        let to = fs::read_link(path).with_context(shown)?;
        return Ok(Some(Kind::Link { to: to.to_string_lossy().into_owned() }));
    }
    if !data.is_file() {
        bail!("{}: neither a file nor a link", shown());
    }
    let bytes = fs::read(path).with_context(|| format!("reading {}", shown()))?;
    let mode = data.permissions().mode() & 0o7777;
    debug_assert_eq!(mode, data.mode() & 0o7777);
    Ok(Some(Kind::File { digest: digest(&bytes), mode }))
}

/// Returns true if a path still has the installed content. Administrators may change its mode.
pub fn is_ours(now: &Kind, installed: &[Kind]) -> bool {
    installed.iter().any(|kind| match (now, kind) {
        (Kind::File { digest: now, .. }, Kind::File { digest, .. }) => now == digest,
        _ => now == kind,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Manifest {
        let mut manifest = Manifest { version: "0.1.0".to_owned(), ..Manifest::default() };
        manifest.folders.extend([".", "lib"].map(String::from));
        manifest.add("lib/libquo.so", Kind::Link { to: "libquo.so.8".to_owned() });
        manifest.add("include/quo.h", Kind::File { digest: digest(b"text"), mode: 0o644 });
        manifest
    }

    #[test]
    fn what_is_written_is_read_again() {
        assert_eq!(Manifest::parse(&example().text()).unwrap(), example());
    }

    #[test]
    fn during_an_installation_old_and_new_are_ours() {
        let mut newer = Manifest { version: "0.2.0".to_owned(), ..Manifest::default() };
        newer.add("include/quo.h", Kind::File { digest: digest(b"newer"), mode: 0o644 });
        let both = Manifest::parse(&example().joined(&newer).text()).unwrap();
        assert_eq!(both.version, "0.2.0");
        for text in ["text", "newer"] {
            let now = Kind::File { digest: digest(text.as_bytes()), mode: 0o600 };
            assert!(is_ours(&now, &both.entries["include/quo.h"]), "{text}");
        }
        let other = Kind::File { digest: digest(b"other"), mode: 0o644 };
        assert!(!is_ours(&other, &both.entries["include/quo.h"]));
        assert!(both.entries.contains_key("lib/libquo.so"));
    }

    #[test]
    fn lines_that_make_no_sense_are_named() {
        let long = digest(b"");
        for line in [
            format!("file 644 {long} ../bashrc"),
            format!("file 644 {long} /etc/passwd"),
            "link x lib/../../x".to_owned(),
            "folder ..".to_owned(),
            "file 999 00 lib/x".to_owned(),
            "wheel 1".to_owned(),
            "folder".to_owned(),
        ] {
            let error = Manifest::parse(&format!("version 1\n{line}\n")).unwrap_err();
            assert!(error.to_string().starts_with("line 2: "), "{line}: {error}");
        }
        assert!(Manifest::parse("").is_err());
    }

    #[test]
    fn a_digest_is_what_other_tools_compute() {
        let expected = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest(b""), expected);
    }
}
