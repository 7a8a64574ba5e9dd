//! Checks that each header compiles alone and when included twice, as every C and C++ version that
//! users have, without a single warning.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{project, run};

/// A way in which users compile a header.
struct Dialect {
    compiler: &'static str,
    language: &'static str,
    standard: &'static str,
    /// Warnings in addition to [`WARNINGS`].
    warnings: &'static [&'static str],
}

const fn dialect(
    compiler: &'static str,
    language: &'static str,
    standard: &'static str,
    warnings: &'static [&'static str],
) -> Dialect {
    Dialect { compiler, language, standard, warnings }
}

const C: &[&str] = &["-Wstrict-prototypes"];
const FOR_C: &[Dialect] = &[
    dialect("cc", "c", "c99", C),
    dialect("cc", "c", "c11", C),
    dialect("c++", "c++", "c++11", &[]),
    dialect("c++", "c++", "c++17", &[]),
];

/// Warnings of projects that include a header with code in it.
const STRICT: &[&str] = &["-Wshadow", "-Wconversion", "-Wnon-virtual-dtor", "-Woverloaded-virtual"];
const FOR_CXX: &[Dialect] = &[
    dialect("g++", "c++", "c++17", STRICT),
    dialect("g++", "c++", "c++20", STRICT),
    dialect("g++", "c++", "c++2b", STRICT),
    dialect("clang++", "c++", "c++17", STRICT),
    dialect("clang++", "c++", "c++20", STRICT),
    dialect("clang++", "c++", "c++2b", STRICT),
];

const WARNINGS: &[&str] = &["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

/// Compiles each header in each language; the error has all compiler output. Returns the missing
/// compilers.
pub fn check() -> Result<Vec<&'static str>> {
    let root = project::root();
    let mut headers = headers_in(&root.join("bindings-c/include"))?;
    headers.extend(headers_in(&root.join("memprof/api/include"))?);
    let mpi = mpi_include_flags()?;
    let (mut complaints, mut absent) = (String::new(), Vec::new());
    for header in &headers {
        // A header for C++ alone is named so.
        let is_cxx = header.extension().is_some_and(|end| end == "hpp");
        for dialect in if is_cxx { FOR_CXX } else { FOR_C } {
            if project::find_program(dialect.compiler).is_some() {
                complaints += &complaint(header, dialect, &mpi)?;
            } else if !absent.contains(&dialect.compiler) {
                absent.push(dialect.compiler);
            }
        }
    }
    if complaints.is_empty() { Ok(absent) } else { bail!("{complaints}") }
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

/// Returns flags that make the folder of mpi.h a system folder, to ignore its own warnings.
fn mpi_include_flags() -> Result<Vec<String>> {
    let line = run::captured(Command::new(quo_tests::mpicc()).arg("-show"))?;
    let folders = line.split_whitespace().filter_map(|word| word.strip_prefix("-I"));
    Ok(folders.flat_map(|folder| ["-isystem".to_owned(), folder.to_owned()]).collect())
}

fn complaint(header: &Path, dialect: &Dialect, mpi: &[String]) -> Result<String> {
    let Dialect { compiler, language, standard, warnings } = dialect;
    let name = header.file_name().unwrap_or_default().to_string_lossy();
    let folder = header.parent().unwrap_or(Path::new("."));
    let mut command = Command::new(compiler);
    command.args(["-fsyntax-only", &format!("-std={standard}")]).args(WARNINGS).args(*warnings);
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
    let complaints = String::from_utf8_lossy(&output.stderr);
    Ok(format!("{name} as {standard} with {compiler}:\n{complaints}"))
}
