//! The coupled example: its decks and results, and the program in Fortran, which is made by make.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::checkout::Checkout;
use crate::compilers::{mpicc, mpifort};
use crate::fortran::fortran_support;
use crate::launch::Outcome;
use crate::library::run_compiler;
use crate::suite::Skipped;

/// Makes the mesh of the small deck smaller and its run shorter.
pub const TINY: [(&str, &str); 3] =
    [("nx = 96", "nx = 48"), ("ny = 96", "ny = 48"), ("steps = 200", "steps = 60")];

/// Writes the small deck with some text replaced to `path`.
///
/// # Errors
///
/// If the deck has no such text, or a file cannot be read or written.
pub fn small_deck(changes: &[(&str, &str)], path: &Path) -> Result<()> {
    let small = Checkout::find()?.root().join("examples/coupled/decks/small.toml");
    let mut text = fs::read_to_string(&small).context("reading the small deck")?;
    for (from, to) in changes {
        ensure!(text.contains(from), "the deck has no `{from}`");
        text = text.replace(from, to);
    }
    fs::write(path, text).with_context(|| format!("writing the deck {}", path.display()))
}

/// Writes a deck as the Fortran program reads it to `path`.
///
/// # Errors
///
/// The complaint of the command that checks the deck.
pub fn namelist(deck: &Path, path: &Path) -> Result<()> {
    let mut command = Command::new(Checkout::find()?.program("coupled-demo")?);
    let output = command.arg("namelist").arg(deck).output().context("starting coupled-demo")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::write(path, output.stdout).with_context(|| format!("writing {}", path.display()))
}

/// Checks that two results, or field files, hold the same bits.
///
/// # Errors
///
/// The comparison, where they do not.
pub fn expect_same_fields(a: &Path, b: &Path) -> Result<()> {
    let mut compare = Command::new(Checkout::find()?.program("coupled-demo")?);
    let output = compare.arg("compare").args([a, b]).output().context("starting the comparison")?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success() && said.matches("identical").count() == 4,
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Checks that all ranks of the example have left with `status`, and that one complaint was printed, with these words.
///
/// # Errors
///
/// The report of the run, where it was otherwise.
pub fn expect_refusal(outcome: &Outcome, status: i32, words: &[&str]) -> Result<()> {
    ensure!(!outcome.out_of_time, "{}", outcome.report());
    ensure!(outcome.status.code() == Some(status), "{}", outcome.report());
    let said: Vec<&str> =
        outcome.stderr.lines().filter(|line| line.starts_with("coupled: ")).collect();
    ensure!(said.len() == 1, "{} messages\n{}", said.len(), outcome.report());
    for word in words {
        ensure!(said[0].contains(word), "`{word}` is not in `{}`", said[0]);
    }
    outcome.expect_clean()?;
    Ok(())
}

/// The program with driver and L0 in Fortran, and L1 in C; made once.
///
/// # Errors
///
/// [`Skipped`] where the machine cannot make it; else the errors of the compilers.
pub fn coupled_fortran() -> Result<PathBuf> {
    static MADE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    if let Err(reason) = fortran_support() {
        bail!(Skipped(format!("{reason:#}")));
    }
    if Command::new("make").arg("--version").output().is_err() {
        bail!(Skipped("there is no make".to_owned()));
    }
    let made = MADE.get_or_init(|| make().map_err(|error| format!("{error:#}")));
    made.clone().map_err(|reason| anyhow!("{reason}"))
}

fn make() -> Result<PathBuf> {
    let checkout = Checkout::find()?;
    let root = checkout.root();
    let folder = checkout.build_folder().join("coupled-fortran");
    let mut make = Command::new("make");
    make.arg("-C").arg(root.join("examples/coupled")).args(["-s", "-j2"]);
    let library = checkout.library()?.folder().to_path_buf();
    let variables = [
        ("BUILD", folder.clone()),
        ("QUO_SOURCE", root.to_path_buf()),
        ("QUO_LIBRARY", library),
        ("MPICC", mpicc().into()),
        ("MPIFC", mpifort().into()),
        ("WARNINGS", "-Wall -Wextra -Werror".into()),
        // The new kind of run path yields to LD_LIBRARY_PATH.
        ("LDFLAGS", "-Wl,--disable-new-dtags".into()),
    ];
    for (name, value) in variables {
        make.arg(format!("{name}={}", value.display()));
    }
    run_compiler(&mut make)?;
    Ok(folder.join("coupled-fortran"))
}
