//! Contexts of ranks that a real Slurm launched, on emulated hosts.

mod contexts;
mod endings;
mod facts;
mod masks;
mod room;
mod starts;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use quo_hosts::slurm::{Options, Slurm, why_not};
use quo_hosts::{Hosts, suite};
use quo_tests::Checkout;

fn main() -> ExitCode {
    let tests =
        [room::TESTS, starts::TESTS, contexts::TESTS, masks::TESTS, endings::TESTS].concat();
    suite::run(&tests, why_not())
}

/// Starts Slurm on two hosts, with a set name for this test program and purpose.
fn slurm(purpose: &str, options: Options) -> Result<Slurm> {
    Slurm::up(Hosts::up(&suite::set(purpose), 2)?, options)
}

/// Returns a program of this suite. It is compiled once, since a job may be running it when it is
/// needed again; it lies in cargo's folder for test files, so nothing is left behind.
fn program(name: &'static str) -> Result<PathBuf> {
    compiled(name, &["-pthread"])
}

/// As [`program`], with other flags for the compiler.
fn compiled(name: &'static str, flags: &[&str]) -> Result<PathBuf> {
    static COMPILED: Mutex<BTreeMap<&str, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(program) = compiled.get(name) {
        return Ok(program.clone());
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("slurm");
    std::fs::create_dir_all(&folder)?;
    let source = format!("tests/hosts/programs/{name}.c");
    let program = Checkout::find()?.compile_c(&source, &folder, flags)?;
    compiled.insert(name, program.clone());
    Ok(program)
}

/// Returns the CPUs that this program may use, and therefore the ranks that Slurm does not bind.
fn our_cpus() -> Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// Returns two of these CPUs.
fn two_cpus() -> Result<[usize; 2]> {
    match our_cpus()?[..] {
        [first, second, ..] => Ok([first, second]),
        _ => Err(suite::Skipped("two CPUs are needed".to_owned()).into()),
    }
}
