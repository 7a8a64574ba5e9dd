//! Hostile input for whatever reads files, text and shared segments.
//!
//! A [`Target`] takes any bytes. It fails by a panic, a fatal signal, too much time or too much
//! memory; an error of the reader under test is the right answer to bad input. `cargo xtask fuzz`
//! drives the targets by coverage; `quo-fuzz replay TARGET FILE` runs one on an input without the
//! engine; the inputs in `regressions/` are those that once failed, and run with the ordinary
//! tests.
#![allow(clippy::print_stdout)] // The seeds and replays are commands that talk to their user.

pub mod forge;
mod seeds;
mod targets;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

pub use targets::TARGETS;

/// Something that reads input from outside.
#[derive(Clone, Copy)]
pub struct Target {
    /// As the command line has it.
    pub name: &'static str,
    /// The kind of input.
    pub about: &'static str,
    /// Inputs are not made longer than this, in bytes.
    pub longest: usize,
    /// Reads an input and uses the result.
    pub run: fn(&[u8]),
    /// Good inputs to begin with.
    pub seeds: fn() -> Result<Vec<Vec<u8>>>,
}

/// The target of this name.
///
/// # Errors
/// When there is none.
pub fn target(name: &str) -> Result<Target> {
    let found = TARGETS.iter().find(|target| target.name == name);
    found.copied().with_context(|| format!("there is no fuzz target `{name}`"))
}

/// Carries out `list`, `seeds TARGET FOLDER` and `replay TARGET FILE...`; `false` for anything else.
///
/// # Errors
/// Errors of the files or the names.
pub fn command(arguments: &[String]) -> Result<bool> {
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => {
            for target in TARGETS {
                println!("{} {} {}", target.name, target.longest, target.about);
            }
        }
        ["seeds", name, folder] => write_seeds(&target(name)?, Path::new(folder))?,
        ["replay", name, ref files @ ..] => {
            let target = target(name)?;
            for file in files {
                println!("{file}");
                (target.run)(&read(Path::new(file))?);
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn write_seeds(target: &Target, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let seeds = (target.seeds)()?;
    if seeds.is_empty() {
        bail!("{} has no seeds", target.name);
    }
    for (number, seed) in seeds.iter().enumerate() {
        let file = folder.join(format!("seed-{number:02}"));
        std::fs::write(&file, seed).with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(())
}

/// The inputs on which a target once failed.
///
/// # Errors
/// When they cannot be read.
pub fn regressions(target: &Target) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions").join(target.name);
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let entries = folder.read_dir().with_context(|| format!("reading {}", folder.display()))?;
    let files = entries.map(|entry| {
        let file = entry?.path();
        Ok((file.clone(), read(&file)?))
    });
    files.collect()
}

fn read(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("reading {}", file.display()))
}

/// Bounds the memory of this process, so that a claim of gigabytes that is believed is an abort.
///
/// # Errors
/// When the kernel refuses.
pub fn limit_memory() -> Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limit = Rlimit { current: Some(MOST_MEMORY), maximum: Some(MOST_MEMORY) };
    setrlimit(Resource::As, limit).context("setrlimit")
}

/// Bytes of addresses. The engine itself takes few.
const MOST_MEMORY: u64 = 2 << 30;
