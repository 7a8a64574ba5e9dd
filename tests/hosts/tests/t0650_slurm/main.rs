//! Contexts of ranks that a real Slurm launched, on hosts of our own.

mod contexts;
mod endings;
mod facts;
mod masks;
mod room;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use quo_hosts::slurm::{Options, Slurm, why_not};
use quo_hosts::{Hosts, suite};
use quo_tests::Checkout;

fn main() -> ExitCode {
    let tests = [room::TESTS, contexts::TESTS, masks::TESTS, endings::TESTS].concat();
    suite::run(&tests, why_not())
}

/// Slurm on two hosts, with a set name for this test program and purpose.
fn slurm(purpose: &str, options: Options) -> Result<Slurm> {
    Slurm::up(Hosts::up(&suite::set(purpose), 2)?, options)
}

/// Compiles a program of this room; where cargo keeps what tests make, so nothing is left behind.
fn program(name: &str) -> Result<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("slurm");
    std::fs::create_dir_all(&folder)?;
    Checkout::find()?.compile_c(&format!("tests/hosts/programs/{name}.c"), &folder, &["-pthread"])
}

/// The CPUs that this program may use, and so the ranks that Slurm does not bind.
fn our_cpus() -> Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// Two of them.
fn two_cpus() -> Result<[usize; 2]> {
    match our_cpus()?[..] {
        [first, second, ..] => Ok([first, second]),
        _ => Err(suite::Skipped("two CPUs are needed".to_owned()).into()),
    }
}
