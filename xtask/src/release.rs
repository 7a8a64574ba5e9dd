//! The optimised build shared by install, demo and bench, so that no part is compiled twice.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::{project, run};

/// Far more than one slow core needs: a user would rather wait than start again.
const LIMIT: Duration = Duration::from_secs(4 * 60 * 60);

/// `quo` is always among the packages, since `--all-features` applies to the named packages: so it
/// is compiled once for all commands. `quo-mpi` is not: its feature needs libclang, and only Rust
/// programs that use MPI themselves need the feature.
const ARGUMENTS: &[&str] = &["--all-features", "--package", "quo", "--package", "quo-info"];

/// Returns a `cargo build --release` whose results name no folder of this machine. All optimised
/// builds start here: other flags would make cargo compile everything again.
pub fn cargo() -> Result<Command> {
    let mut cargo = project::cargo()?;
    cargo.args(["build", "--release"]);
    let flags = remappings(&folders()?);
    match std::env::var("RUSTFLAGS") {
        // Cargo takes the flags of one source only.
        Ok(given) => {
            let given = given.split_whitespace().map(str::to_owned);
            let all: Vec<String> = given.chain(flags).collect();
            cargo.env("CARGO_ENCODED_RUSTFLAGS", all.join("\x1f"))
        }
        Err(_) => {
            let quoted: Vec<String> = flags.iter().map(|flag| format!("{flag:?}")).collect();
            cargo.arg("--config").arg(format!("build.rustflags=[{}]", quoted.join(",")))
        }
    };
    Ok(cargo)
}

/// Returns the folders in which sources are compiled, and the names that replace them: panic
/// messages contain the paths of dependencies, which are below the user's home folder.
fn folders() -> Result<[(PathBuf, &'static str); 4]> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    command.current_dir(project::root()).args(["--print", "sysroot"]);
    let toolchain = PathBuf::from(run::captured(&mut command)?.trim());
    let home = |name| std::env::var_os(name).map(PathBuf::from);
    let cargo = home("CARGO_HOME").or_else(|| Some(home("HOME")?.join(".cargo")));
    let cargo = cargo.context("neither CARGO_HOME nor HOME says where cargo keeps sources")?;
    Ok([
        (toolchain, "/rust"),
        (cargo, "/cargo"),
        (project::root().to_owned(), "/quo"),
        (project::base()?, "/quo/target"),
    ])
}

/// Returns flags of rustc that replace folders by names. Of several matches, the last counts.
fn remappings(folders: &[(PathBuf, &str)]) -> Vec<String> {
    let mut folders: Vec<(&Path, &str)> =
        folders.iter().map(|(folder, name)| (folder.as_path(), *name)).collect();
    folders.sort_by_key(|(folder, _)| folder.components().count());
    folders
        .into_iter()
        .map(|(folder, name)| format!("--remap-path-prefix={}={name}", folder.display()))
        .collect()
}

/// Builds libquo, `quo`, `quo-info`, `quo-elastic` and `quo-run`, and returns the folder of the
/// results. All MPIs share the folder: for another MPI only the thin layer is built, which notices
/// the change.
pub fn build_library() -> Result<PathBuf> {
    let mut cargo = cargo()?;
    // The linker for another MPI is needed only with the crate mpi-sys: a change of it would make
    // cargo compile everything again.
    project::without_mpi_linker(&mut cargo)?;
    build_in(
        project::base()?,
        &["quo-c", "quo-elastic", "quo-run", "quo-run-preload", "quo-info-preload"],
        cargo,
    )
}

/// Builds `quo`, `quo-info` and other packages, and returns the folder of the results. Each MPI has
/// its own folder: the crate mpi-sys does not notice another MPI.
pub fn build(packages: &[&str]) -> Result<PathBuf> {
    build_in(project::target()?, packages, cargo()?)
}

/// Builds with cargo's own progress on the terminal.
fn build_in(folder: PathBuf, packages: &[&str], mut cargo: Command) -> Result<PathBuf> {
    println!("building {}, optimised", packages.join(" and "));
    let start = Instant::now();
    cargo.env("CARGO_TARGET_DIR", &folder);
    run::shown(
        cargo.args(ARGUMENTS).args(packages.iter().flat_map(|name| ["--package", name])),
        LIMIT,
    )?;
    println!("built in {:.0} s", start.elapsed().as_secs_f64());
    Ok(folder.join("release"))
}

/// Libraries of the memory profiler that ranks load and programs link.
const MEMPROF_LIBRARIES: &[&str] = &["memprof-preload", "memprof-api", "memprof-archive"];

/// Builds the memory profiler: its command, which is returned, the object for ranks, libmemprof,
/// and the archive for static programs. It depends on no MPI, so it is in the folder that all MPIs
/// share.
pub fn build_memprof() -> Result<PathBuf> {
    let packages = [&["memprof-command"], MEMPROF_LIBRARIES].concat();
    Ok(build_optimised(&packages)?.join("memprof"))
}

fn build_optimised(packages: &[&str]) -> Result<PathBuf> {
    println!("building memprof, optimised");
    let start = Instant::now();
    let folder = project::base()?;
    let mut build = cargo()?;
    project::without_mpi_linker(&mut build)?.env("CARGO_TARGET_DIR", &folder);
    build.args(packages.iter().flat_map(|name| ["--package", name]));
    run::shown(&mut build, LIMIT)?;
    println!("built in {:.0} s", start.elapsed().as_secs_f64());
    Ok(folder.join("release"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_inside_another_is_named_after_it() {
        let folders = ["/me/quo/build", "/me/quo", "/me/.cargo"];
        let named: Vec<_> =
            folders.map(PathBuf::from).into_iter().zip(["/b", "/q", "/c"]).collect();
        let flags = remappings(&named);
        let place = |folder: &str| flags.iter().position(|flag| flag.contains(folder)).unwrap();
        assert!(place("=/me/quo=/q") < place("=/me/quo/build=/b"), "{flags:?}");
    }
}
