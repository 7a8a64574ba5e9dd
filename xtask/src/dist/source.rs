//! The source of a version with its crates: it builds without a network.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{VERSION, archive};
use crate::{project, run};

const LIMIT: Duration = Duration::from_secs(15 * 60);

/// Text added to the checkout's own `.cargo/config.toml`.
const CONFIGURATION: &str = r#"
# All crates are here: nothing is fetched.
[source.crates-io]
replace-with = "vendored-sources"

[source.vendored-sources]
directory = "vendor"
"#;

/// Linux targets, whose crates are kept complete. A crate for other systems only keeps its
/// manifest, which cargo reads to check the lock file; two thirds of the bytes are in such crates.
const MACHINES: &[&str] = &[
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "powerpc64le-unknown-linux-gnu",
    "riscv64gc-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
    "aarch64-unknown-linux-musl",
];

/// Packs the committed source and its crates.
pub fn make(out: &Path) -> Result<PathBuf> {
    let name = format!("quo-{VERSION}");
    let work = tempfile::tempdir_in(out)
        .with_context(|| format!("making a folder in {}", out.display()))?;
    let tree = work.path().join(&name);
    println!("packing what is committed");
    check_out(work.path(), &name)?;
    println!("adding the crates of Cargo.lock");
    vendor(&tree)?;
    let needed = needed(&tree)?;
    let stubs = empty_others(&tree.join("vendor"), &needed)?;
    // Cargo must still accept the lock file with the remaining files.
    metadata(&tree, MACHINES[0])?;
    println!("{} crates, {stubs} of them for other systems and left empty", needed.len() + stubs);
    archive::pack(work.path(), &name, out)
}

/// Unpacks the committed source into a new folder.
pub fn check_out(work: &Path, name: &str) -> Result<()> {
    let tar = work.join("checkout.tar");
    let mut git = Command::new("git");
    git.current_dir(project::root()).args(["archive", "--format=tar"]);
    git.arg(format!("--prefix={name}/")).arg("--output").arg(&tar).arg("HEAD");
    run::captured(&mut git).context("a release is packed from a git checkout")?;
    run::captured(Command::new("tar").arg("-C").arg(work).arg("-xf").arg(&tar))?;
    fs::remove_file(&tar).with_context(|| format!("removing {}", tar.display()))?;
    let changed = run::captured(
        Command::new("git").current_dir(project::root()).args(["status", "--porcelain"]),
    )?;
    if !changed.is_empty() {
        println!("{} changed files are not committed and not packed", changed.lines().count());
    }
    Ok(())
}

/// Returns a cargo call in the packed tree.
fn cargo(tree: &Path) -> Result<Command> {
    let mut cargo = project::cargo()?;
    cargo.current_dir(tree);
    Ok(cargo)
}

fn vendor(tree: &Path) -> Result<()> {
    let mut cargo = cargo(tree)?;
    cargo.args(["vendor", "--locked", "--versioned-dirs", "vendor"]);
    let log = project::base()?.join("xtask/release.log");
    let finished = run::logged(&mut cargo, &log, LIMIT)?;
    if !finished.ending.is_success() {
        bail!("cargo vendor: {}\n{}", finished.ending, finished.output.trim_end());
    }
    let file = tree.join(".cargo/config.toml");
    let own = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    fs::write(&file, own + CONFIGURATION).with_context(|| format!("writing {}", file.display()))
}

/// Returns the folders of the crates that any of the targets needs.
fn needed(tree: &Path) -> Result<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for machine in MACHINES {
        all.extend(crates(&metadata(tree, machine)?));
    }
    Ok(all)
}

fn metadata(tree: &Path, machine: &str) -> Result<Value> {
    let mut cargo = cargo(tree)?;
    cargo.args(["metadata", "--format-version", "1", "--locked", "--offline", "--all-features"]);
    let json = run::captured(cargo.args(["--filter-platform", machine]))?;
    serde_json::from_str(&json).context("reading cargo metadata")
}

/// Returns the crates in the output of `cargo metadata` that are not the project's own, by the
/// names of their folders.
fn crates(metadata: &Value) -> Vec<String> {
    let text = |package: &Value, key: &str| package[key].as_str().unwrap_or_default().to_owned();
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let foreign = packages.filter(|package| !package["source"].is_null());
    foreign.map(|it| format!("{}-{}", text(it, "name"), text(it, "version"))).collect()
}

/// Reduces each other crate to its manifest and an empty library. Returns their number.
fn empty_others(vendor: &Path, needed: &BTreeSet<String>) -> Result<usize> {
    let mut number = 0;
    let entries = fs::read_dir(vendor).with_context(|| format!("reading {}", vendor.display()))?;
    for entry in entries {
        let folder = entry?.path();
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !needed.contains(&name) {
            empty(&folder).with_context(|| format!("emptying {}", folder.display()))?;
            number += 1;
        }
    }
    Ok(number)
}

fn empty(folder: &Path) -> Result<()> {
    let manifest = fs::read_to_string(folder.join("Cargo.toml"))?;
    let sums: Value = serde_json::from_slice(&fs::read(folder.join(".cargo-checksum.json"))?)?;
    fs::remove_dir_all(folder)?;
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("Cargo.toml"), without_other_targets(&manifest)?)?;
    fs::write(folder.join("src/lib.rs"), "")?;
    // The package's digest stays: it is the one in the lock file.
    let sums = json!({ "files": {}, "package": sums["package"] });
    Ok(fs::write(folder.join(".cargo-checksum.json"), sums.to_string())?)
}

/// Returns the manifest with an empty library in place of all its targets, whose files are gone.
fn without_other_targets(manifest: &str) -> Result<String> {
    let mut manifest: toml::Table = manifest.parse().context("reading Cargo.toml of a crate")?;
    for target in ["bin", "example", "test", "bench"] {
        manifest.remove(target);
    }
    let library = toml::Table::from_iter([("path".to_owned(), "src/lib.rs".into())]);
    manifest.insert("lib".to_owned(), library.into());
    if let Some(package) = manifest.get_mut("package").and_then(toml::Value::as_table_mut) {
        for key in ["build", "links", "readme", "license-file"] {
            package.remove(key);
        }
    }
    Ok(manifest.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_of_others_are_named_as_their_folders() {
        let metadata = json!({ "packages": [
            { "name": "quo", "version": "0.1.0", "source": null },
            { "name": "libc", "version": "0.2.1", "source": "registry+https://x" },
        ] });
        assert_eq!(crates(&metadata), ["libc-0.2.1"]);
    }

    #[test]
    fn emptied_crate_keeps_its_digest_and_dependencies() {
        let folder = tempfile::tempdir().unwrap();
        let (keep, other) = (folder.path().join("a-1.0.0"), folder.path().join("b-2.0.0"));
        for place in [&keep, &other] {
            fs::create_dir_all(place.join("lib")).unwrap();
            fs::write(place.join("lib/import.a"), "bytes").unwrap();
            let manifest = "[package]\nname = \"b\"\nbuild = \"build.rs\"\n[lib]\npath = \"x.rs\"\n\
                [dependencies.c]\nversion = \"3\"\n";
            fs::write(place.join("Cargo.toml"), manifest).unwrap();
            fs::write(place.join(".cargo-checksum.json"), r#"{"files":{"x":"1"},"package":"d"}"#)
                .unwrap();
        }
        let needed = BTreeSet::from(["a-1.0.0".to_owned()]);
        assert_eq!(empty_others(folder.path(), &needed).unwrap(), 1);
        assert!(keep.join("lib/import.a").exists() && !other.join("lib").exists());
        let manifest = fs::read_to_string(other.join("Cargo.toml")).unwrap();
        assert!(manifest.contains("[dependencies.c]") && !manifest.contains("x.rs"), "{manifest}");
        let sums = fs::read_to_string(other.join(".cargo-checksum.json")).unwrap();
        assert_eq!(sums, r#"{"files":{},"package":"d"}"#);
    }
}
