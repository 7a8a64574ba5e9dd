//! Finds the installed libquo, and the flags to build against it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{ArgGroup, Args, ValueEnum};

use crate::output;

/// Version of the QUO interface that `quo.h` offers.
const API_VERSION: &str = "1.4.1";

#[derive(Args)]
#[command(group = ArgGroup::new("asked").multiple(true))]
pub struct Options {
    /// Print the folder libquo is installed in
    #[arg(long, group = "asked")]
    prefix: bool,
    /// Print the flags for the compiler
    #[arg(long, group = "asked")]
    cflags: bool,
    /// Print the -I flags
    #[arg(long = "cflags-only-I", group = "asked")]
    cflags_only_include: bool,
    /// Print the flags for the linker; --libs-only-L, -l: parts
    #[arg(long, group = "asked")]
    libs: bool,
    /// Print the -L flags
    #[arg(long = "libs-only-L", group = "asked", hide = true)]
    libs_only_folders: bool,
    /// Print the -l flags
    #[arg(long = "libs-only-l", group = "asked", hide = true)]
    libs_only_names: bool,
    /// There are none; taken because scripts ask.
    #[arg(long, group = "asked", hide = true)]
    libs_only_other: bool,
    /// Language of the flags: C, C++ or Fortran
    #[arg(long, ignore_case = true, default_value = "C", hide_possible_values = true)]
    #[arg(requires = "asked", value_name = "LANGUAGE")]
    lang: Language,
    /// Print versions and what was built in
    #[arg(long, group = "asked")]
    config: bool,
}

#[derive(Copy, Clone, PartialEq, Eq, ValueEnum)]
enum Language {
    #[value(name = "C")]
    C,
    #[value(name = "C++", alias = "cxx")]
    Cxx,
    #[value(name = "Fortran")]
    Fortran,
}

pub fn run(options: &Options) -> Result<()> {
    let prefix = prefix()?;
    let mut lines = String::new();
    if options.prefix {
        lines += &format!("{}\n", prefix.display());
    }
    let mut flags = Vec::new();
    if options.cflags || options.cflags_only_include {
        flags.push(format!("-I{}", include(&prefix, options.lang)?.display()));
    }
    if options.libs || options.libs_only_folders {
        flags.push(format!("-L{}", library(&prefix)?.display()));
    }
    if options.libs || options.libs_only_names {
        flags.push("-lquo".to_owned());
    }
    if !flags.is_empty() || options.libs_only_other {
        lines += &format!("{}\n", flags.join(" "));
    }
    if options.config {
        lines += &output::table(&config(&prefix));
    }
    output::text(&lines)
}

/// Returns the parent of the `bin` folder of this program, so that an installation can be moved.
fn prefix() -> Result<PathBuf> {
    let program = std::env::current_exe().context("finding out where this program is")?;
    let program = program.canonicalize().unwrap_or(program);
    let prefix = program.parent().and_then(Path::parent);
    Ok(prefix.context("this program is in no folder")?.to_owned())
}

fn include(prefix: &Path, language: Language) -> Result<PathBuf> {
    let file = match language {
        Language::C | Language::Cxx => "quo.h",
        Language::Fortran => "quo.mod",
    };
    let folders =
        ["include", "include/quo/fortran", "include/quo", "lib/fortran/modules/quo", "finclude"];
    let found = folders.iter().map(|folder| prefix.join(folder)).find(|f| f.join(file).is_file());
    found.with_context(|| not_installed(prefix, file))
}

fn library(prefix: &Path) -> Result<PathBuf> {
    let folders = ["lib", "lib64"].map(|folder| prefix.join(folder));
    let has =
        |folder: &PathBuf| ["libquo.so", "libquo.a"].iter().any(|name| folder.join(name).is_file());
    folders.into_iter().find(has).with_context(|| not_installed(prefix, "libquo"))
}

fn not_installed(prefix: &Path, what: &str) -> String {
    format!("{what} is not installed in {}", prefix.display())
}

/// Returns the MPI that this program was built for, which is that of the library installed with it.
#[cfg(feature = "mpi")]
fn mpi() -> String {
    quo_mpi::built_for().to_string()
}

#[cfg(not(feature = "mpi"))]
fn mpi() -> String {
    "none".to_owned()
}

/// Returns the compiler that can read the installed module files, according to the file for
/// pkg-config.
fn fortran(prefix: &Path) -> String {
    let file = prefix.join("lib/pkgconfig/libquo-fortran.pc");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let compiler = text.lines().find_map(|line| line.strip_prefix("compiler="));
    compiler.map_or_else(|| "not installed".to_owned(), |compiler| format!("for {compiler}"))
}

fn config(prefix: &Path) -> Vec<Vec<String>> {
    let rows = [
        ("quo", env!("CARGO_PKG_VERSION").to_owned()),
        ("QUO interface", API_VERSION.to_owned()),
        ("prefix", prefix.display().to_string()),
        ("hwloc interface", quo::topology::hwloc_version()),
        ("MPI", mpi()),
        ("Fortran modules", fortran(prefix)),
        ("built for", format!("{} {}", std::env::consts::ARCH, std::env::consts::OS)),
    ];
    rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect()
}
