//! The crates as published to a registry: under names that are free there, and with the metadata
//! that a registry requires.
//!
//! `quo` and `elastic` are taken on crates.io. Only packages are renamed; programs still write `use
//! quo::Context`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use toml::{Table, Value};

use super::{VERSION, archive, source};
use crate::{project, run};

const AUTHORS: &str = "The quo developers";

const LIMIT: Duration = Duration::from_secs(10 * 60);

/// Packs all crates, each in a registry's format, into one archive.
pub fn make(out: &Path) -> Result<PathBuf> {
    let work = tempfile::tempdir_in(out)
        .with_context(|| format!("making a folder in {}", out.display()))?;
    let tree = work.path().join("tree");
    source::check_out(work.path(), "tree")?;
    let names = rename_all(&tree)?;
    let packed = work.path().join("packed");
    let mut cargo = project::cargo()?;
    cargo.current_dir(&tree).args(["publish", "--dry-run", "--no-verify", "--allow-dirty"]);
    cargo.arg("--target-dir").arg(&packed);
    cargo.args(names.iter().flat_map(|name| ["--package", name]));
    let log = project::base()?.join("xtask/release.log");
    let finished = run::logged(&mut cargo, &log, LIMIT)?;
    if !finished.ending.is_success() {
        bail!("cargo publish --dry-run: {}\n{}", finished.ending, finished.output.trim_end());
    }
    let folder = format!("quo-crates-{VERSION}");
    fs::create_dir(work.path().join(&folder))?;
    for name in names {
        let file = format!("{name}-{VERSION}.crate");
        let found = ["package", "package/tmp-crate"].map(|place| packed.join(place).join(&file));
        let found = found.iter().find(|file| file.exists());
        let found = found.with_context(|| format!("cargo made no {file}"))?;
        fs::copy(found, work.path().join(&folder).join(&file))
            .with_context(|| format!("copying {file}"))?;
        println!("{name}");
    }
    archive::pack(work.path(), &folder, out)
}

/// Renames the packages of a tree that the root's manifest names, and returns their names.
fn rename_all(tree: &Path) -> Result<Vec<String>> {
    let root = tree.join("Cargo.toml");
    let mut manifest = read(&root)?;
    let names = manifest["workspace"]["metadata"]["registry"].clone();
    let names = names.as_table().context("Cargo.toml: workspace.metadata.registry is no table")?;
    let mut renamed = Vec::new();
    for (ours, theirs) in names {
        let theirs = theirs.as_str().with_context(|| {
            format!("workspace.metadata.registry: the name of {ours} is no text")
        })?;
        let dependency = manifest["workspace"]["dependencies"].get_mut(ours.as_str());
        let dependency = dependency.and_then(Value::as_table_mut);
        let dependency = dependency
            .with_context(|| format!("Cargo.toml: workspace.dependencies has no {ours}"))?;
        dependency.insert("package".to_owned(), theirs.into());
        let folder = dependency.get("path").and_then(Value::as_str);
        let file = tree
            .join(folder.with_context(|| format!("Cargo.toml: the dependency {ours} has no path"))?)
            .join("Cargo.toml");
        let mut package = read(&file)?;
        rename(&mut package, ours, theirs).with_context(|| format!("{}", file.display()))?;
        let folder = file.parent().context("a manifest in no folder")?;
        accompany(&mut package, folder, ours).with_context(|| format!("{}", file.display()))?;
        write(&file, &package)?;
        renamed.push(theirs.to_owned());
    }
    write(&root, &manifest)?;
    Ok(renamed)
}

fn rename(manifest: &mut Table, ours: &str, theirs: &str) -> Result<()> {
    let package = manifest.get_mut("package").and_then(Value::as_table_mut);
    let package = package.context("there is no [package]")?;
    package.insert("name".to_owned(), theirs.into());
    package.insert("publish".to_owned(), true.into());
    let library = manifest.entry("lib").or_insert_with(|| Table::new().into());
    let library = library.as_table_mut().context("lib is no table")?;
    library.entry("name").or_insert_with(|| ours.replace('-', "_").into());
    Ok(())
}

/// Puts a README and the licences of the project into the folder of a crate.
fn accompany(manifest: &mut Table, folder: &Path, ours: &str) -> Result<()> {
    let package = manifest.get_mut("package").and_then(Value::as_table_mut);
    let package = package.context("there is no [package]")?;
    package.insert("readme".to_owned(), "README.md".into());
    package.insert("authors".to_owned(), vec![AUTHORS].into());
    let text = |key: &str| package.get(key).and_then(Value::as_str).unwrap_or_default();
    let readme = readme(text("name"), text("description"), ours);
    fs::write(folder.join("README.md"), readme).context("writing README.md")?;
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(project::root().join(licence), folder.join(licence))
            .with_context(|| format!("copying {licence}"))?;
    }
    Ok(())
}

fn readme(name: &str, description: &str, ours: &str) -> String {
    let library = ours.replace('-', "_");
    format!(
        "# {name}\n\n{description}.\n\nA crate of quo, the runtime for coupled MPI+X programs. In \
         programs it is `{library}`:\n\n```toml\n[dependencies]\n{ours} = {{ package = \"{name}\", \
         version = \"{VERSION}\" }}\n```\n\nLicensed under the Apache License 2.0 or the MIT licence, \
         at your option.\n"
    )
}

fn read(file: &Path) -> Result<Table> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    text.parse().with_context(|| format!("reading {}", file.display()))
}

fn write(file: &Path, manifest: &Table) -> Result<()> {
    fs::write(file, manifest.to_string()).with_context(|| format!("writing {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crate_gets_a_readme_with_its_names_and_the_licences() {
        let folder = tempfile::tempdir().unwrap();
        let mut manifest: Table =
            "[package]\nname = \"quo-world\"\ndescription = \"Ranks come\"".parse().unwrap();
        accompany(&mut manifest, folder.path(), "elastic").unwrap();
        assert_eq!(manifest["package"]["readme"].as_str(), Some("README.md"));
        let text = fs::read_to_string(folder.path().join("README.md")).unwrap();
        assert!(text.starts_with("# quo-world\n\nRanks come.\n"), "{text}");
        assert!(text.contains("elastic = { package = \"quo-world\", version"), "{text}");
        assert!(folder.path().join("LICENSE-MIT").is_file());
    }

    #[test]
    fn renamed_package_keeps_the_name_of_its_library() {
        let mut manifest: Table =
            "[package]\nname = \"a-b\"\npublish.workspace = true".parse().unwrap();
        rename(&mut manifest, "a-b", "other").unwrap();
        assert_eq!(manifest["package"]["name"].as_str(), Some("other"));
        assert_eq!(manifest["package"]["publish"].as_bool(), Some(true));
        assert_eq!(manifest["lib"]["name"].as_str(), Some("a_b"));
        let mut named: Table = "[package]\nname = \"a\"\n[lib]\nname = \"c\"".parse().unwrap();
        rename(&mut named, "a", "other").unwrap();
        assert_eq!(named["lib"]["name"].as_str(), Some("c"));
    }
}
