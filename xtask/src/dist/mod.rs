//! `cargo xtask release`: the archives of a version. The source with all crates, for sites without
//! a network, a memory profiler that runs on any distribution, and the crates for a registry.

mod archive;
mod crates;
mod portable;
mod source;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::install::manifest;

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Args)]
pub struct Options {
    /// Archive to make: source, memprof or crates [default: the first two]
    #[arg(value_enum, hide_possible_values = true)]
    archive: Option<Archive>,
    /// Folder of the archives.
    #[arg(short, long = "output", alias = "out", value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// Do not optimise. For tests, to save minutes.
    #[arg(long, hide = true)]
    debug: bool,
}

#[derive(Copy, Clone, ValueEnum)]
enum Archive {
    /// Committed source, and all crates that a build on Linux needs.
    Source,
    /// The command memprof, statically linked, and the object that it loads into ranks.
    Memprof,
    /// The Rust libraries as for a registry, after a dry run of their publication.
    Crates,
}

pub fn run(options: &Options) -> Result<()> {
    let out = std::path::absolute(&options.out)?;
    fs::create_dir_all(&out).with_context(|| format!("creating {}", out.display()))?;
    let wanted = options.archive.map_or(vec![Archive::Source, Archive::Memprof], |one| vec![one]);
    for one in wanted {
        let archive = match one {
            Archive::Source => source::make(&out)?,
            Archive::Crates => crates::make(&out)?,
            Archive::Memprof => portable::make(&out, options.debug)?,
        };
        let bytes = fs::read(&archive).with_context(|| format!("reading {}", archive.display()))?;
        let name = archive.file_name().unwrap_or_default().to_string_lossy();
        // In the format of sha256sum.
        let line = format!("{}  {name}\n", manifest::digest(&bytes));
        let digest = out.join(format!("{name}.sha256"));
        fs::write(&digest, line).with_context(|| format!("writing {}", digest.display()))?;
        println!("{} ({:.1} MB)", archive.display(), bytes.len() as f64 / 1e6);
    }
    Ok(())
}
