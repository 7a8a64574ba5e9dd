//! `cargo xtask fresh`: does the README hold on a machine that has nothing? A minimal Debian in a
//! folder, a fresh clone of the commit, and the one command.

mod packages;
mod root;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use crate::{project, run, setup};
use root::Root;

const BOOTSTRAP_LIMIT: Duration = Duration::from_secs(20 * 60);
const LIMIT: Duration = Duration::from_secs(90 * 60);

/// Packages that the README asks for, and the certificates with which git and cargo reach the
/// network.
const README_ASKS_FOR: &str = "gcc,libc6-dev,git,python3,ca-certificates";

#[derive(Args)]
pub struct Options {
    /// The README's command to prove; both, each on a machine of its own, if not given.
    #[arg(value_enum)]
    command: Option<Proof>,
    /// The release of Debian.
    #[arg(long, value_name = "NAME", default_value = "bookworm")]
    suite: String,
    /// Keep the folder, to look into it.
    #[arg(long)]
    keep: bool,
}

#[derive(Copy, Clone, ValueEnum)]
enum Proof {
    Demo,
    Test,
}

impl Proof {
    fn name(self) -> &'static str {
        match self {
            Proof::Demo => "demo",
            Proof::Test => "test",
        }
    }
}

pub fn run(options: &Options) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!("fresh: changing the root folder needs root; run it as root or with sudo");
    }
    if !options.suite.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        || options.suite.starts_with('-')
    {
        bail!("fresh: {:?} is not the name of a release", options.suite);
    }
    setup::ensure_fresh()?;
    warn_of_what_is_not_committed()?;
    let base = base(&options.suite)?;
    let proofs = options.command.map_or(vec![Proof::Demo, Proof::Test], |proof| vec![proof]);
    for proof in proofs {
        prove(proof, &base, options)?;
    }
    Ok(())
}

fn warn_of_what_is_not_committed() -> Result<()> {
    let mut git = Command::new("git");
    git.current_dir(project::root()).args(["status", "--porcelain"]);
    let changes = run::captured(&mut git)?.lines().count();
    if changes > 0 {
        println!("fresh: {changes} changed files are not committed and not in what is proved");
    }
    Ok(())
}

fn folder() -> Result<PathBuf> {
    Ok(project::base()?.join("fresh"))
}

/// A minimal Debian as it comes, made once for each release.
fn base(suite: &str) -> Result<PathBuf> {
    let base = folder()?.join(suite);
    if base.exists() {
        return Ok(base);
    }
    std::fs::create_dir_all(folder()?)?;
    // Under another name until it is complete, so that one that was interrupted is not taken for it.
    let unfinished = folder()?.join(format!("{suite}.unfinished"));
    root::remove(&unfinished)?;
    println!("fresh: making a minimal Debian {suite} with {README_ASKS_FOR}");
    let mut debootstrap = Command::new(
        project::find_system_program("debootstrap").context("debootstrap is not installed")?,
    );
    debootstrap.args(["--variant=minbase", &format!("--include={README_ASKS_FOR}"), suite]);
    debootstrap.arg(&unfinished);
    let log = folder()?.join("debootstrap.log");
    let finished = run::logged(&mut debootstrap, &log, BOOTSTRAP_LIMIT)?;
    if !finished.ending.is_success() {
        let end: Vec<&str> = finished.output.lines().rev().take(10).collect();
        let end: Vec<&str> = end.into_iter().rev().collect();
        bail!("debootstrap: {}\n{}", finished.ending, end.join("\n"));
    }
    std::fs::rename(&unfinished, &base)?;
    Ok(base)
}

fn prove(proof: Proof, base: &Path, options: &Options) -> Result<()> {
    let command = format!("cargo xtask {}", proof.name());
    let root = Root::copy(base, &folder()?.join(format!("root-{}", proof.name())))?;
    let before = root.packages()?;
    root.trust_what_this_machine_trusts()?;
    root.clone_checkout(project::root())?;
    println!("fresh: {command} on Debian {}", options.suite);
    let start = Instant::now();
    let outcome = run::shown(&mut root.command(&["cargo", "xtask", proof.name()])?, LIMIT);
    let minutes = start.elapsed().as_secs_f64() / 60.0;
    let after = root.packages()?;
    let added = packages::added(&packages::installed(&before), &packages::installed(&after)).len();
    if options.keep {
        println!("fresh: the machine is in {}", root.path().display());
    } else {
        root::remove(root.path())?;
    }
    outcome.with_context(|| {
        format!("{command} on a bare Debian {}, after {minutes:.1} min", options.suite)
    })?;
    println!(
        "fresh: {command} succeeded in {minutes:.1} min on a bare Debian {}; its set-up installed {added} \
         packages",
        options.suite
    );
    Ok(())
}
