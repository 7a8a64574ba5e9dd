//! `cargo xtask fresh`: checks that the project works on a bare machine. A minimal Debian in a
//! folder, a clone of the commit, its set-up, then a command or the suites of the table in
//! docs/systems.md.

mod packages;
mod parts;
mod results;
mod root;
mod systems;
mod table;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::{project, run, setup};
use root::{Network, Root};
use systems::Systems;

/// Limit of set-up, of a command, and of the suites of one MPI.
const LIMIT: Duration = Duration::from_secs(3 * 60 * 60);

#[derive(Args)]
#[command(
    after_help = "The system stays in the build folder for the next time. The set-up may use the network, \
                        what follows may not."
)]
pub struct Options {
    /// The system, as tests/systems.toml names it.
    #[arg(long, value_name = "NAME", default_value = "debian12")]
    system: String,
    /// Start from a bare system instead of the kept one.
    #[arg(long)]
    new: bool,
    /// Try only this part of the table; may be given several times.
    #[arg(long = "part", value_name = "NAME")]
    parts: Vec<String>,
    /// List the systems and the parts and stop.
    #[arg(long, exclusive = true)]
    list: bool,
    /// Write docs/systems.md from the kept results and stop.
    #[arg(long, exclusive = true)]
    table: bool,
    /// A command to run in the checkout; without one, all parts of the table are tried and their results kept.
    #[arg(last = true)]
    command: Vec<String>,
}

/// Runs the command; `mpi` limits the parts to one of the system's MPIs.
pub fn run(options: &Options, mpi: Option<&str>) -> Result<()> {
    let systems = Systems::of_checkout()?;
    if options.list {
        print!("{systems}");
        return Ok(());
    }
    if options.table {
        println!("{}", table::write()?.display());
        return Ok(());
    }
    let system = systems.named(&options.system)?;
    let parts = systems.parts(&options.parts)?;
    let mpis = system.mpis(mpi)?;
    if !rustix::process::geteuid().is_root() {
        bail!("fresh: changing the root folder needs root; run it as root or with sudo");
    }
    setup::ensure_fresh()?;
    warn_of_what_is_not_committed()?;
    let place = folder()?.join(&system.name);
    if options.new {
        root::remove(&place)?;
    }
    let root = Root::of(system, place)?;
    root.update_checkout(project::root())?;
    set_up(&root, &system.title)?;
    if options.command.is_empty() {
        return parts::run(&root, system, &mpis, &parts, &systems.versions);
    }
    let words: Vec<&str> = options.command.iter().map(String::as_str).collect();
    run::shown(&mut root.command(&words, Network::Apart)?, LIMIT)
        .with_context(|| format!("{} on {}", words.join(" "), system.title))
}

fn folder() -> Result<PathBuf> {
    Ok(project::base()?.join("fresh"))
}

/// Runs the project's own set-up, with the network.
fn set_up(root: &Root, title: &str) -> Result<()> {
    let (before, start) = (root.packages()?, Instant::now());
    for words in
        [&["cargo", "fetch", "--locked", "--quiet"][..], &["cargo", "xtask", "setup", "--tests"]]
    {
        run::shown(&mut root.command(words, Network::Shared)?, LIMIT)
            .with_context(|| format!("{} on a bare {title}", words.join(" ")))?;
    }
    let after = root.packages()?;
    let added = packages::added(&packages::installed(&before), &packages::installed(&after)).len();
    let minutes = start.elapsed().as_secs_f64() / 60.0;
    println!("fresh: set-up on {title}: {added} packages installed in {minutes:.1} min");
    Ok(())
}

fn warn_of_what_is_not_committed() -> Result<()> {
    let mut git = Command::new("git");
    git.current_dir(project::root()).args(["status", "--porcelain"]);
    let changes = run::captured(&mut git)?.lines().count();
    if changes > 0 {
        println!("fresh: {changes} changed files are not committed and not in what is tried");
    }
    Ok(())
}
