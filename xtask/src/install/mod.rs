//! `cargo xtask install --prefix DIR`: libquo, its headers, quo-info and their papers.

mod pkg_config;
mod prefix;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

use crate::{project, release, setup};

/// The interface number of the shared library. bindings-c/build.rs writes it into the library.
const INTERFACE: &str = "8";

#[derive(Args)]
pub struct Options {
    /// Where to: bin, include, lib and share are made below it.
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,
}

pub fn run(options: &Options) -> Result<()> {
    let prefix = prefix::checked(&options.prefix)?;
    setup::ensure()?;
    let built = release::build("quo-c")?;
    let root = project::root();
    let installed = Prefix { folder: prefix };

    installed.copy(&built.join("quo-info"), "bin/quo-info", 0o755)?;
    for header in ["quo.h", "quo-xpm.h"] {
        let source = root.join("bindings-c/include").join(header);
        installed.copy(&source, &format!("include/{header}"), 0o644)?;
    }
    let full_name = format!("libquo.so.{INTERFACE}.0.0");
    let short_name = format!("libquo.so.{INTERFACE}");
    installed.copy(&built.join("libquo_c.so"), &format!("lib/{full_name}"), 0o755)?;
    installed.link(&full_name, &format!("lib/{short_name}"))?;
    installed.link(&short_name, "lib/libquo.so")?;
    installed.copy(&built.join("libquo_c.a"), "lib/libquo.a", 0o644)?;
    installed.write(pkg_config::text()?.as_bytes(), "lib/pkgconfig/libquo.pc", 0o644)?;
    for paper in papers(root)? {
        let name = paper.file_name().unwrap_or_default().to_string_lossy().into_owned();
        installed.copy(&paper, &format!("share/doc/quo/{name}"), 0o644)?;
    }

    let folder = installed.folder.display();
    println!("installed in {folder}");
    println!("use it with: export PKG_CONFIG_PATH={folder}/lib/pkgconfig");
    println!(
        "             mpicc program.c $(pkg-config --cflags --libs libquo) -Wl,-rpath,{folder}/lib"
    );
    Ok(())
}

/// Licences and documents at the top of the checkout.
fn papers(root: &Path) -> Result<Vec<PathBuf>> {
    let mut papers: Vec<PathBuf> = fs::read_dir(root)?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            path.is_file() && (name.starts_with("LICENSE-") || name.ends_with(".md"))
        })
        .collect();
    papers.sort();
    Ok(papers)
}

/// The folder that is installed into. Each file appears whole or not at all: programs that run with
/// the old one keep it.
struct Prefix {
    folder: PathBuf,
}

impl Prefix {
    fn copy(&self, source: &Path, name: &str, mode: u32) -> Result<()> {
        let bytes = fs::read(source).with_context(|| format!("reading {}", source.display()))?;
        self.write(&bytes, name, mode)
    }

    fn write(&self, bytes: &[u8], name: &str, mode: u32) -> Result<()> {
        self.replace(name, |new| {
            fs::write(new, bytes)?;
            fs::set_permissions(new, fs::Permissions::from_mode(mode))
        })
    }

    fn link(&self, destination: &str, name: &str) -> Result<()> {
        self.replace(name, |new| symlink(destination, new))
    }

    fn replace(&self, name: &str, make: impl Fn(&Path) -> std::io::Result<()>) -> Result<()> {
        let file = self.folder.join(name);
        let attempt = || {
            let parent = file.parent().unwrap_or(&self.folder);
            fs::create_dir_all(parent)?;
            let new = parent.join(format!(".new-{}", std::process::id()));
            make(&new)?;
            fs::rename(&new, &file).inspect_err(|_| {
                let _nothing_more_to_do = fs::remove_file(&new);
            })
        };
        attempt().with_context(|| format!("installing {}", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_links_are_replaced_and_nothing_else_appears() {
        let folder = tempfile::tempdir().unwrap();
        let prefix = Prefix { folder: folder.path().to_path_buf() };
        for content in ["old", "new"] {
            prefix.write(content.as_bytes(), "lib/libquo.so.8.0.0", 0o755).unwrap();
            prefix.link("libquo.so.8.0.0", "lib/libquo.so").unwrap();
        }
        let library = folder.path().join("lib/libquo.so");
        assert_eq!(fs::read_to_string(&library).unwrap(), "new");
        assert_eq!(library.metadata().unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(fs::read_dir(folder.path().join("lib")).unwrap().count(), 2);
    }

    #[test]
    fn what_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("lib"), "a file where a folder should be").unwrap();
        let prefix = Prefix { folder: folder.path().to_path_buf() };
        let error = prefix.write(b"", "lib/libquo.a", 0o644).unwrap_err();
        assert!(error.to_string().contains("lib/libquo.a"), "{error}");
    }
}
