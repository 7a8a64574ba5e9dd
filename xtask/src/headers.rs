//! The C headers must compile alone, twice in a row, as every C and C++ that users have, without a
//! single warning.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{project, run};

const LANGUAGES: &[(&str, &str)] =
    &[("c", "c99"), ("c", "c11"), ("c++", "c++11"), ("c++", "c++17")];
const WARNINGS: &[&str] = &["-Wall", "-Wextra", "-Wpedantic", "-Wstrict-prototypes", "-Werror"];

/// Compiles each header in each language; the error holds every complaint.
pub fn check() -> Result<()> {
    let folder = project::root().join("bindings-c/include");
    let headers = headers_in(&folder)?;
    let mpi = mpi_include_flags()?;
    let mut complaints = String::new();
    for header in &headers {
        for (language, standard) in LANGUAGES {
            // A header for C++ says so by its name.
            if *language == "c" && header.extension().is_some_and(|end| end == "hpp") {
                continue;
            }
            complaints += &complaint(header, language, standard, &mpi)?;
        }
    }
    if complaints.is_empty() { Ok(()) } else { bail!("{complaints}") }
}

fn headers_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut headers: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "h" || end == "hpp"))
        .collect();
    headers.sort();
    if headers.is_empty() {
        bail!("no headers in {}", folder.display());
    }
    Ok(headers)
}

/// Where mpi.h is, as a system folder: its own warnings are not ours.
fn mpi_include_flags() -> Result<Vec<String>> {
    let line = run::captured(Command::new(quo_tests::mpicc()).arg("-show"))?;
    let folders = line.split_whitespace().filter_map(|word| word.strip_prefix("-I"));
    Ok(folders.flat_map(|folder| ["-isystem".to_owned(), folder.to_owned()]).collect())
}

fn complaint(header: &Path, language: &str, standard: &str, mpi: &[String]) -> Result<String> {
    let name = header.file_name().unwrap_or_default().to_string_lossy();
    let folder = header.parent().unwrap_or(Path::new("."));
    let compiler = if language == "c" { "cc" } else { "c++" };
    let mut command = Command::new(compiler);
    command.args(["-fsyntax-only", &format!("-std={standard}")]);
    let for_c_only = "-Wstrict-prototypes";
    command.args(WARNINGS.iter().filter(|flag| language == "c" || **flag != for_c_only));
    command.args(mpi).arg("-I").arg(folder).args(["-x", language, "-"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {compiler}"))?;
    if let Some(mut input) = child.stdin.take() {
        let program = format!("#include \"{name}\"\n#include \"{name}\"\n");
        std::io::Write::write_all(&mut input, program.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(String::new());
    }
    Ok(format!("{name} as {standard}:\n{}", String::from_utf8_lossy(&output.stderr)))
}
