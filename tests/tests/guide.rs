//! The guide (`docs/`) followed as by its readers, page by page, against an installed quo: each
//! file is written, each command is run, and its output is as on the page.
//!
//! `QUO_TESTS_PREFIX` names an installation to use; otherwise one is created. Blocks for Slurm are
//! run by `guide_on_slurm`.

#![allow(clippy::print_stdout)] // It is the runner.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use quo_tests::guide::{Followed, Page, Prefix, Reader};
use quo_tests::{Checkout, Selection};

fn main() -> ExitCode {
    match pages_in_turn() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("{error:#}\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored\n");
            ExitCode::FAILURE
        }
    }
}

/// Returns true if all selected pages are right. The standard runner knows neither pages nor
/// skipped blocks.
fn pages_in_turn() -> Result<bool> {
    let checkout = Checkout::find()?;
    let pages = Page::all(checkout.root())?;
    let selection = Selection::of_this_program();
    let wanted: Vec<&Page> = pages.iter().filter(|page| selection.wants(&page.name)).collect();
    if selection.is_listing() {
        wanted.iter().for_each(|page| println!("{}: test", page.name));
        return Ok(true);
    }
    println!("\nrunning {} tests", wanted.len());
    let reader = reader(&checkout, &pages)?;
    let (mut passed, mut failed, mut ignored) = (0, 0, 0);
    for page in wanted {
        let start = Instant::now();
        let followed = reader.follow(page, None);
        let seconds = start.elapsed().as_secs_f64();
        match followed {
            Ok(Followed { done, skipped }) => {
                println!("test {} ... ok ({done} blocks, {seconds:.2} s)", page.name);
                passed += 1;
                for (line, reason) in skipped {
                    println!("test {}:{line} ... ignored: {reason}", page.name);
                    ignored += 1;
                }
            }
            Err(error) => {
                println!("test {} ... FAILED ({seconds:.2} s)\n{error:#}\n", page.name);
                failed += 1;
            }
        }
    }
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {word}. {passed} passed; {failed} failed; {ignored} ignored\n");
    Ok(failed == 0)
}

fn reader(checkout: &Checkout, pages: &[Page]) -> Result<Reader> {
    let apart = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guide");
    let prefix = match std::env::var_os("QUO_TESTS_PREFIX") {
        Some(folder) => Prefix::at(checkout, Path::new(&folder))?,
        None => Prefix::install(checkout, &apart.join("prefix"))?,
    };
    Reader::new(&apart, &prefix, pages)
}
