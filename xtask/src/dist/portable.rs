//! The memory profiler for any distribution: its command needs no system library, and the object
//! that it loads into ranks only the C library, of the building machine's version or newer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{VERSION, archive};
use crate::{project, release, run};

/// Far more than one slow core needs: a user would rather wait than start again.
const LIMIT: Duration = Duration::from_secs(4 * 60 * 60);
const PRELOAD: &str = "libmemprof_preload.so";

/// Builds and packs the memory profiler.
pub fn make(out: &Path, debug: bool) -> Result<PathBuf> {
    let machine = std::env::consts::ARCH;
    let name = format!("memprof-{VERSION}-{machine}-linux");
    let work = tempfile::tempdir_in(out)
        .with_context(|| format!("making a folder in {}", out.display()))?;
    let tree = work.path().join(&name);
    let command = command(debug)?;
    let preload = preload(debug)?;
    let bytes = fs::read(&preload).with_context(|| format!("reading {}", preload.display()))?;
    let libc = newest_libc(&bytes)
        .with_context(|| format!("{}: it names no version of glibc", preload.display()))?;
    run::captured(Command::new(&command).arg("--generate").arg(tree.join("share")))
        .context("writing manual pages and completions")?;
    place(&command, &tree.join("bin/memprof"))?;
    place(&preload, &tree.join("lib").join(PRELOAD))?;
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        place(&project::root().join(licence), &tree.join(licence))?;
    }
    let about = tree.join("README");
    fs::write(&about, readme(machine, libc))
        .with_context(|| format!("writing {}", about.display()))?;
    println!(
        "memprof runs on any Linux for {machine}; profiled programs need glibc 2.{libc} or newer"
    );
    archive::pack(work.path(), &name, out)
}

/// Builds the command, statically linked with musl.
fn command(debug: bool) -> Result<PathBuf> {
    let host = project::triple()?;
    let target = host.replace("-gnu", "-musl");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut library = Command::new(rustc);
    library.current_dir(project::root()).args(["--print", "target-libdir", "--target", &target]);
    let library = PathBuf::from(run::captured(&mut library)?.trim());
    if !library.is_dir() {
        bail!(
            "linking memprof statically needs Rust's library for {target}: rustup target add {target}"
        );
    }
    let folder = project::base()?;
    let mut build = cargo(debug)?;
    // The linker for another MPI must not be used here.
    project::without_mpi_linker(&mut build)?.env("CARGO_TARGET_DIR", &folder);
    run::shown(build.args(["--target", &target, "--package", "memprof-command"]), LIMIT)?;
    Ok(folder.join(target).join(profile(debug)).join("memprof"))
}

fn preload(debug: bool) -> Result<PathBuf> {
    let folder = project::base()?;
    let mut build = cargo(debug)?;
    project::without_mpi_linker(&mut build)?.env("CARGO_TARGET_DIR", &folder);
    run::shown(build.args(["--package", "memprof-preload"]), LIMIT)?;
    Ok(folder.join(profile(debug)).join(PRELOAD))
}

fn cargo(debug: bool) -> Result<Command> {
    if !debug {
        return release::cargo();
    }
    let mut cargo = project::cargo()?;
    cargo.arg("build");
    Ok(cargo)
}

fn profile(debug: bool) -> &'static str {
    if debug { "debug" } else { "release" }
}

/// Copies a file with its mode; a program without debug information.
fn place(from: &Path, to: &Path) -> Result<()> {
    let copied = || -> Result<()> {
        fs::create_dir_all(to.parent().context("the new path has no folder")?)?;
        fs::copy(from, to)?;
        if to.parent().is_some_and(|folder| folder.ends_with("bin") || folder.ends_with("lib")) {
            run::captured(Command::new("strip").arg("--strip-debug").arg(to))?;
        }
        Ok(())
    };
    copied().with_context(|| format!("copying {} to {}", from.display(), to.display()))
}

/// Returns N of the newest glibc version 2.N of which an object needs a symbol.
fn newest_libc(object: &[u8]) -> Option<u32> {
    const START: &[u8] = b"GLIBC_2.";
    let starts = object.windows(START.len()).enumerate().filter(|(_, window)| *window == START);
    let digits = starts.map(|(at, _)| {
        let rest = object[at + START.len()..].iter();
        rest.take_while(|byte| byte.is_ascii_digit()).map(|&byte| char::from(byte)).collect()
    });
    digits.filter_map(|digits: String| digits.parse().ok()).max()
}

fn readme(machine: &str, libc: u32) -> String {
    format!(
        "memprof {VERSION} for Linux on {machine}\n\n\
        bin/memprof needs no library of the system. It reads traces, and profiles programs that are\n\
        linked with glibc 2.{libc} or newer: it loads lib/{PRELOAD} into them.\n\n\
        \x20   bin/memprof run -o out -- mpirun ./app\n\
        \x20   bin/memprof report out --html memory.html\n\n\
        Both files may lie anywhere as long as they stay in bin and lib of one folder, or\n\
        MEMPROF_PRELOAD names the second one. The path must have no space or colon.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_libc_is_compared_as_a_number() {
        let object = b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_PRIVATE\0";
        assert_eq!(newest_libc(object), Some(34));
        assert_eq!(newest_libc(b"\0GCC_3.0\0"), None);
    }
}
