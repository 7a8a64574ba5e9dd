//! `cargo xtask wheel`: the Python package as a file that pip installs. It is made of Python's own
//! zip and nothing that has to be fetched.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use clap::Args;
use sha2::{Digest, Sha256};
use toml::{Table, Value};

use crate::{project, run};

const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];
const TAG: &str = "py3-none-any";
/// Time of all files in the archive, so that equal files make equal archives: 1 January 2020.
const TIME: Duration = Duration::from_secs(1_577_880_000);

#[derive(Args)]
pub struct Options {
    /// Folder of the wheel.
    #[arg(short, long = "output", alias = "out", value_name = "DIR", default_value = "out")]
    out: PathBuf,
}

pub fn run(options: &Options) -> Result<()> {
    let out = std::path::absolute(&options.out)?;
    fs::create_dir_all(&out).with_context(|| format!("creating {}", out.display()))?;
    let work = tempfile::tempdir_in(&out)
        .with_context(|| format!("making a folder in {}", out.display()))?;
    let name = format!("libquo-{}", env!("CARGO_PKG_VERSION"));
    let files = contents(&name)?;
    for (path, bytes) in &files {
        let file = work.path().join(path);
        let folder = file.parent().context("a file in no folder")?;
        fs::create_dir_all(folder)?;
        fs::write(&file, bytes).with_context(|| format!("writing {}", file.display()))?;
        for one in [file.as_path(), folder] {
            fs::File::open(one)?.set_modified(SystemTime::UNIX_EPOCH + TIME)?;
        }
    }
    let wheel = out.join(format!("{name}-{TAG}.whl"));
    let mut zip = Command::new("python3");
    zip.current_dir(work.path()).args(["-m", "zipfile", "-c"]).arg(&wheel);
    run::captured(zip.args(["libquo", &format!("{name}.dist-info")]))
        .with_context(|| format!("packing {}", wheel.display()))?;
    println!("{}", wheel.display());
    Ok(())
}

/// Returns the files of the wheel with their paths in it: the package, its licences, and what pip
/// reads about it.
fn contents(name: &str) -> Result<Vec<(String, Vec<u8>)>> {
    let package = project::root().join("bindings-python");
    let read = |file: &Path| fs::read(file).with_context(|| format!("reading {}", file.display()));
    let mut files = Vec::new();
    for file in project::files_below(&package.join("libquo"))? {
        let is_source = |end: &std::ffi::OsStr| end == "py" || end == "typed";
        if file.extension().is_some_and(is_source) {
            files.push((file.strip_prefix(&package)?.display().to_string(), read(&file)?));
        }
    }
    files.sort();
    let info = format!("{name}.dist-info");
    for licence in LICENCES {
        let bytes = read(&project::root().join(licence))?;
        files.push((format!("{info}/licenses/{licence}"), bytes));
    }
    let manifest = String::from_utf8(read(&package.join("pyproject.toml"))?)?;
    let metadata = metadata(&manifest.parse()?).context("reading pyproject.toml")?;
    let readme = fs::read_to_string(package.join("README.md"))?;
    files.push((format!("{info}/METADATA"), format!("{metadata}\n{readme}").into_bytes()));
    let wheel = format!(
        "Wheel-Version: 1.0\nGenerator: quo ({})\nRoot-Is-Purelib: true\nTag: {TAG}\n",
        env!("CARGO_PKG_VERSION")
    );
    files.push((format!("{info}/WHEEL"), wheel.into_bytes()));
    let mut record = String::new();
    for (path, bytes) in &files {
        writeln!(record, "{path},sha256={},{}", base64(&Sha256::digest(bytes)), bytes.len())?;
    }
    writeln!(record, "{info}/RECORD,,")?;
    files.push((format!("{info}/RECORD"), record.into_bytes()));
    Ok(files)
}

/// Returns the head of a wheel's METADATA: the fields of `[project]` in pyproject.toml.
fn metadata(manifest: &Table) -> Result<String> {
    let project = manifest.get("project").and_then(Value::as_table).context("no [project]")?;
    let text = |key: &str| {
        let text = project.get(key).and_then(Value::as_str);
        text.with_context(|| format!("project.{key} is no text"))
    };
    let list = |table: &Table, key: &str| -> Vec<String> {
        let values = table.get(key).and_then(Value::as_array).into_iter().flatten();
        values.filter_map(|value| Some(value.as_str()?.to_owned())).collect()
    };
    let table = |key: &str| project.get(key).and_then(Value::as_table).cloned().unwrap_or_default();
    let mut lines = vec![
        "Metadata-Version: 2.4".to_owned(),
        format!("Name: {}", text("name")?),
        format!("Version: {}", env!("CARGO_PKG_VERSION")),
        format!("Summary: {}", text("description")?),
        format!("License-Expression: {}", text("license")?),
        format!("Requires-Python: {}", text("requires-python")?),
        format!("Keywords: {}", list(project, "keywords").join(",")),
    ];
    let authors = project.get("authors").and_then(Value::as_array).into_iter().flatten();
    let authors = authors.filter_map(|author| author.get("name")?.as_str());
    lines.extend(authors.map(|author| format!("Author: {author}")));
    lines.extend(LICENCES.map(|licence| format!("License-File: {licence}")));
    for (name, url) in table("urls") {
        lines.push(format!("Project-URL: {name}, {}", url.as_str().unwrap_or_default()));
    }
    lines.extend(list(project, "classifiers").iter().map(|value| format!("Classifier: {value}")));
    lines.extend(list(project, "dependencies").iter().map(|need| format!("Requires-Dist: {need}")));
    let extras = table("optional-dependencies");
    for extra in extras.keys() {
        lines.push(format!("Provides-Extra: {extra}"));
        let needs = list(&extras, extra);
        lines.extend(
            needs.iter().map(|need| format!("Requires-Dist: {need}; extra == \"{extra}\"")),
        );
    }
    lines.push("Description-Content-Type: text/markdown\n".to_owned());
    Ok(lines.join("\n"))
}

/// Encodes bytes as RECORD has them: base64 for URLs, without padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | usize::from(*part.get(at).unwrap_or(&0)));
        let digits = (0..=part.len()).map(|at| char::from(DIGITS[bits >> (18 - 6 * at) & 63]));
        text.extend(digits);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_encoded_without_padding() {
        for (bytes, expected) in
            [(&b"Man"[..], "TWFu"), (b"Ma", "TWE"), (b"M", "TQ"), (b"\xff\xfe", "__4")]
        {
            assert_eq!(base64(bytes), expected);
        }
    }

    #[test]
    fn wheel_has_licences_author_address_and_all_modules() {
        let files = contents("libquo-1").unwrap();
        let text = |path: &str| {
            let (_, bytes) = files.iter().find(|(name, _)| name == path).unwrap();
            String::from_utf8(bytes.clone()).unwrap()
        };
        let metadata = text("libquo-1.dist-info/METADATA");
        for line in [
            "License-Expression: MIT OR Apache-2.0",
            "License-File: LICENSE-MIT",
            "Author: The quo developers",
            "Project-URL: Homepage, https://quo.invalid",
            "Requires-Dist: numpy>=1.21; extra == \"numpy\"",
        ] {
            assert!(metadata.lines().any(|found| found == line), "{line}\n{metadata}");
        }
        let record = text("libquo-1.dist-info/RECORD");
        assert_eq!(record.lines().count(), files.len());
        for path in
            ["libquo/py.typed", "libquo/__init__.py", "libquo-1.dist-info/licenses/LICENSE-MIT"]
        {
            assert!(record.contains(&format!("{path},sha256=")), "{path}\n{record}");
        }
    }
}
