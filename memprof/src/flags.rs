//! `memprof flags`: how to link a static program so that it can be profiled.

use crate::{run, terminal};
use anyhow::{Context, bail};
use std::path::PathBuf;
use std::process::ExitCode;

/// Print the link line for static programs.
#[derive(Debug, clap::Args)]
#[command(after_help = "mpicc -static app.o $(memprof flags) -o app")]
pub struct Options {
    /// One word on each line
    #[arg(long)]
    pub lines: bool,
}

/// File name of the archive.
const ARCHIVE: &str = "libmemprof_static.a";
/// Options for the linker, one per line; `-LDIR` is the archive's folder.
const WORDS: &str = include_str!("../preload/link-flags.txt");

/// Runs the command.
///
/// # Errors
/// If the installation has no archive, or standard output cannot be written.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let archive = archive()?;
    let folder = archive.parent().context("the archive is in no folder")?;
    let name = folder.to_string_lossy();
    if !options.lines && name.contains(char::is_whitespace) {
        bail!(
            "{name}: a path with a space falls apart in $(memprof flags); install elsewhere, or copy \
             the archive and set MEMPROF_ARCHIVE"
        );
    }
    let words = words(&name);
    let between = if options.lines { "\n" } else { " " };
    terminal::print(&format!("{}\n", words.join(between)))?;
    Ok(ExitCode::SUCCESS)
}

fn words(folder: &str) -> Vec<String> {
    WORDS
        .lines()
        .map(|line| line.split('#').next().unwrap_or(line).trim())
        .filter(|word| !word.is_empty())
        .map(|word| match word {
            "-LDIR" => format!("-L{folder}"),
            word => word.to_owned(),
        })
        .collect()
}

/// Returns `MEMPROF_ARCHIVE`, or the archive next to the program or in the `lib` folders of its
/// installation.
fn archive() -> anyhow::Result<PathBuf> {
    let places = match std::env::var_os("MEMPROF_ARCHIVE") {
        Some(named) if !named.is_empty() => vec![PathBuf::from(named)],
        _ => {
            let program = std::env::current_exe()
                .and_then(|program| program.canonicalize())
                .context("cannot tell where memprof itself is")?;
            run::beside(&program, ARCHIVE)
        }
    };
    match places.iter().find(|place| place.is_file()) {
        Some(found) => std::path::absolute(found).context("cannot tell where the archive is"),
        None => {
            let list: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
            bail!(
                "{ARCHIVE} is not there; looked for {}. Set MEMPROF_ARCHIVE to its path",
                list.join(", ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_the_archive_and_wraps_the_allocator() {
        let words = words("/opt/lib");
        assert!(words.contains(&"-L/opt/lib".to_owned()));
        assert!(words.contains(&"-lmemprof_static".to_owned()));
        assert!(words.contains(&"-Wl,--wrap=malloc".to_owned()));
        assert!(words.iter().all(|word| word.starts_with('-') && !word.contains(' ')));
    }
}
