//! The guide's blocks for Slurm, on the emulated hosts' Slurm: two nodes of four cores.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail, ensure};
use quo_hosts::slurm::{Options, Slurm, why_not};
use quo_hosts::suite::Skipped;
use quo_hosts::{Hosts, suite};
use quo_tests::Checkout;
use quo_tests::guide::{Page, Prefix, Reader};

fn main() -> ExitCode {
    suite::run(&[("pages_that_use_slurm_are_right", pages_that_use_slurm)], why_not())
}

fn pages_that_use_slurm() -> Result<()> {
    let checkout = Checkout::find()?;
    let pages = Page::all(checkout.root())?;
    // In a folder that every host sees. These pages run quo-info on Slurm; programs are compiled
    // and run elsewhere.
    let apart = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guide");
    let prefix = Prefix::at(&checkout, &apart.join("prefix"))?;
    fs::create_dir_all(prefix.folder.join("bin"))?;
    let installed = prefix.folder.join("bin/quo-info");
    let _absent = fs::remove_file(&installed);
    symlink(checkout.program("quo-info")?, installed)?;
    let reader = Reader::new(&apart, &prefix, &pages)?;

    let two_cpus = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() >= 2);
    if !two_cpus {
        bail!(Skipped("two CPUs are needed".to_owned()));
    }
    let slurm = Slurm::up(Hosts::up(&suite::set("guide"), 2)?, Options::default())?;
    for page in pages.iter().filter(|page| page.wants_slurm()) {
        reader.follow(page, Some(&|program| slurm.command(program)))?;
    }
    ensure!(slurm.leftovers()?.is_empty(), "left on the hosts: {:?}", slurm.leftovers()?);
    slurm.down()
}
