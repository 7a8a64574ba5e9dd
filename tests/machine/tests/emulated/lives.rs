//! Starts and ends of machines, seen from the host.

use std::fs;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{geteuid, pipe};
use quo_machine::{Accelerator, Ending, Machine, Shape, Task};

/// A check with its name; its argument is the kernel's folder.
pub type Check = (&'static str, fn(&Path) -> Result<()>);

/// The reason why a check cannot run here.
#[derive(Debug)]
pub struct Skipped(pub &'static str);

impl std::fmt::Display for Skipped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Skipped {}

pub const CHECKS: &[Check] = &[
    ("output_status_and_results_come_back_and_nothing_else", comes_back),
    ("a_panic_is_an_error_that_shows_the_console", panics),
    ("a_machine_that_is_told_to_stop_is_gone", stops),
    ("a_machine_that_is_too_slow_is_gone", is_too_slow),
];

fn machine(cache: &Path) -> Result<Machine> {
    let machine = Machine::new(Shape::named("one-core")?, cache.to_owned());
    Ok(machine.accelerator(Accelerator::from_environment()?))
}

fn comes_back(cache: &Path) -> Result<()> {
    let results = tempfile::tempdir()?;
    let script = "echo out; echo complaint >&2; pwd; echo \"$NAME|$1\"; echo kept > \"$RESULTS/kept\"; \
        echo lost > \"$LOST\" && cat \"$LOST\"; nproc; exit 7";
    let lost = cache.join("written-in-a-machine");
    let task = Task::here(["sh", "-c", script, "sh", "two words"])?
        .folder("/usr")
        .env("NAME", "a value")
        .env("RESULTS", results.path())
        .env("LOST", &lost);
    let (mut output, mut complaints) = (Vec::new(), Vec::new());
    let machine = machine(cache)?.results(results.path());
    let ending = machine.run(&task, &mut output, &mut complaints)?;
    let output = String::from_utf8(output)?;
    ensure!(output == "out\n/usr\na value|two words\nlost\n1\n", "output {output:?}");
    ensure!(complaints == b"complaint\n", "{}", String::from_utf8_lossy(&complaints));
    ensure!(ending == Ending::Exited(7), "{ending:?}");
    ensure!(fs::read_to_string(results.path().join("kept"))? == "kept\n");
    ensure!(!lost.exists(), "a machine wrote {}", lost.display());
    nothing_is_left()
}

fn panics(cache: &Path) -> Result<()> {
    if !geteuid().is_root() {
        bail!(Skipped("only root may make a machine panic"));
    }
    let task = Task::here(["sh", "-c", "echo c > /proc/sysrq-trigger; exec tail -f /dev/null"])?;
    let machine = machine(cache)?.limit(Duration::from_secs(240));
    let outcome = machine.run(&task, &mut Vec::new(), &mut Vec::new());
    let error = format!("{:#}", outcome.err().context("the machine survived its panic")?);
    for words in ["ended before the command", "sysrq triggered crash"] {
        ensure!(error.contains(words), "`{words}` is not in:\n{error}");
    }
    nothing_is_left()
}

/// A writer that signals when there is output.
struct Bell(OwnedFd);

impl Write for Bell {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        nix::unistd::write(&self.0, b"!")?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn stops(cache: &Path) -> Result<()> {
    let (stop, bell) = pipe()?;
    let task = Task::here(["sh", "-c", "echo here; exec tail -f /dev/null"])?;
    let mut bell = Bell(bell);
    let ending =
        machine(cache)?.run_until(&task, &mut bell, &mut Vec::new(), Some(stop.as_fd()))?;
    ensure!(ending == Ending::Stopped, "{ending:?}");
    nothing_is_left()
}

fn is_too_slow(cache: &Path) -> Result<()> {
    let machine = machine(cache)?.accelerator(Accelerator::Tcg).limit(Duration::from_millis(300));
    let outcome = machine.run(&Task::here(["true"])?, &mut Vec::new(), &mut Vec::new());
    let error = format!("{:#}", outcome.err().context("no machine is up in no time")?);
    ensure!(error.contains("did not come up"), "{error}");
    nothing_is_left()
}

/// Checks that no emulator of this process runs, and that its folder is gone.
fn nothing_is_left() -> Result<()> {
    let children = waitpid(None, Some(WaitPidFlag::WNOHANG));
    ensure!(children == Err(Errno::ECHILD), "a process is left: {children:?}");
    for entry in fs::read_dir("/proc/self/fd")?.flatten() {
        // This suite's own output may go to a file of such a name.
        if ["0", "1", "2"].iter().any(|standard| entry.file_name() == *standard) {
            continue;
        }
        let open = fs::read_link(entry.path()).unwrap_or_default();
        ensure!(!open.to_string_lossy().contains("quo-machine-"), "{} is open", open.display());
    }
    Ok(())
}
