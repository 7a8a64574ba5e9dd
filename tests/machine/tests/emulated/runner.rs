//! Inside the machine: runs each check in its own process and prints a line for each.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use quo_machine::Shape;
use quo_tests::ends_within;
use rustix::process::Pid;

use crate::{alone, programs};

/// Time limit of a check, which sets its own limits for the programs it starts, possibly many.
const LIMIT: Duration = Duration::from_secs(3000);

/// Runs the checks of these names on this machine, which has the shape.
pub fn run_all(shape: &str, names: &[String]) -> ExitCode {
    let mut failed = false;
    for name in names {
        let start = Instant::now();
        let outcome = run_apart(shape, name);
        let seconds = start.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => println!("test {name} ... ok ({seconds:.1} s)"),
            Err(error) => {
                println!("{error:#}\ntest {name} ... FAILED ({seconds:.1} s)");
                failed = true;
            }
        }
    }
    ExitCode::from(u8::from(failed))
}

fn run_apart(shape: &str, name: &str) -> Result<()> {
    let mut said = tempfile::tempfile()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--check", shape, name]).stdin(Stdio::null());
    command.stdout(said.try_clone()?).stderr(said.try_clone()?);
    let mut child = command.spawn().context("starting a check")?;
    let in_time = ends_within(Pid::from_child(&child), LIMIT)?;
    if !in_time {
        child.kill()?;
    }
    let status = child.wait()?;
    let text = {
        let mut text = String::new();
        std::io::Seek::rewind(&mut said)?;
        std::io::Read::read_to_string(&mut said, &mut text)?;
        text
    };
    ensure!(in_time, "{text}\nstill running after {} s", LIMIT.as_secs());
    ensure!(status.success(), "{text}\n{status}");
    nothing_is_left()
}

/// Checks that a check has left nothing; no other process is on this machine.
fn nothing_is_left() -> Result<()> {
    let files = fs::read_dir("/dev/shm")?.flatten().map(|entry| entry.path());
    // The description of the machine stays for later processes.
    let stays = |path: &Path| path.to_string_lossy().contains("/quo-machine-");
    let segments: Vec<_> = files.filter(|path| !stays(path)).collect();
    ensure!(segments.is_empty(), "left in memory: {segments:?}");
    let own = std::process::id().to_string();
    for entry in fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name();
        let is_process = name.to_str().is_some_and(|name| name.parse::<u32>().is_ok());
        let mine = name == OsStr::new("1") || name == OsStr::new(&own);
        // Kernel threads have no command line, and neither has a process that has just ended.
        let command = fs::read(Path::new("/proc").join(&name).join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        ensure!(!is_process || mine || command.is_empty(), "left running: {command}");
    }
    Ok(())
}

/// Runs one check in this process.
pub fn run_here(shape: &str, name: &str) -> Result<()> {
    if let Some((_, check)) = alone::CHECKS.iter().find(|(known, _)| *known == name) {
        check(&Shape::named(shape)?);
        return Ok(());
    }
    let known = programs::of(shape, true);
    let (_, check) = known.iter().find(|(known, _)| *known == name).context("no such check")?;
    check()
}

/// Returns the names of the checks of a shape.
pub fn names(shape: &str, full: bool) -> Vec<&'static str> {
    let alone = alone::CHECKS.iter().map(|(name, _)| *name);
    alone.chain(programs::of(shape, full).into_iter().map(|(name, _)| name)).collect()
}
