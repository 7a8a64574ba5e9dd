//! Hostile input for all readers of files, text and shared segments.
//!
//! A [`Target`] takes any bytes. It fails by a panic, a fatal signal, or too much time or memory;
//! an error of the reader under test is the right answer to bad input. `cargo xtask fuzz` drives
//! the targets by coverage; `quo-fuzz replay TARGET FILE` runs one on an input without the engine;
//! the inputs in `regressions/` failed once, and run with the ordinary tests.
#![allow(clippy::print_stdout)] // The seeds and replays are commands that talk to their user.

pub mod forge;
mod seeds;
mod targets;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

pub use targets::TARGETS;

/// A reader of outside input.
#[derive(Clone, Copy)]
pub struct Target {
    /// Name on the command line.
    pub name: &'static str,
    /// Kind of input.
    pub about: &'static str,
    /// Maximum length of inputs, in bytes.
    pub longest: usize,
    /// Reads an input and uses the result.
    pub run: fn(&[u8]),
    /// Good inputs to start from.
    pub seeds: fn() -> Result<Vec<Vec<u8>>>,
}

/// Returns the target of this name.
///
/// # Errors
/// There is no such target.
pub fn target(name: &str) -> Result<Target> {
    let found = TARGETS.iter().find(|target| target.name == name);
    found.copied().with_context(|| format!("there is no fuzz target `{name}`"))
}

/// Runs `list`, `seeds TARGET FOLDER` or `replay TARGET FILE...`; returns false for any other
/// arguments.
///
/// # Errors
/// An error of the files or the names.
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

/// Returns the inputs on which a target once failed.
///
/// # Errors
/// The inputs cannot be read.
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

/// Limits the memory of this process, so that trusting a claim of gigabytes aborts it.
///
/// # Errors
/// The kernel refuses.
pub fn limit_memory() -> Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limit = Rlimit { current: Some(MOST_MEMORY), maximum: Some(MOST_MEMORY) };
    setrlimit(Resource::As, limit).context("setrlimit")
}

/// Limit of the address space in bytes. The engine itself needs little.
const MOST_MEMORY: u64 = 2 << 30;
