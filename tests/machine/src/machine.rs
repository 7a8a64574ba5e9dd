//! A machine from start to end.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tempfile::TempDir;

use crate::accelerator::{Accelerator, remember_failure};
use crate::arguments::{Engine, Files, arguments};
use crate::first_files::first_files;
use crate::frames::{Decoder, Frame};
use crate::kernel::Kernel;
use crate::shape::Shape;
use crate::task::Task;

const EMULATOR: &str = "qemu-system-x86_64";

/// Limit for the start with KVM, which takes two or three seconds. After it the machine is
/// considered hung.
const KVM_PATIENCE: Duration = Duration::from_secs(20);

/// Limit for the start with emulated CPUs, on a busy host.
const TCG_PATIENCE: Duration = Duration::from_secs(180);

/// Limit for the machine to read its command.
const SENDING: Duration = Duration::from_secs(60);

/// Number of console lines that an error shows.
const LAST_LINES: usize = 60;

/// How a command in a machine ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With this exit status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// With the machine, which was told to stop.
    Stopped,
}

/// Returns the reason why this host cannot emulate machines, if there is one.
#[must_use]
pub fn missing() -> Option<String> {
    if cfg!(not(target_arch = "x86_64")) {
        return Some("machines share the host's programs and are x86-64 only".to_owned());
    }
    find(EMULATOR).is_none().then(|| format!("{EMULATOR} is not installed"))
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// A machine that can run commands, each after a fresh start.
#[derive(Clone, Debug)]
pub struct Machine {
    shape: Shape,
    cache: PathBuf,
    accelerator: Accelerator,
    limit: Duration,
    results: Option<PathBuf>,
}

impl Machine {
    /// Creates a machine of this shape. Files that are fetched and built once are kept in the
    /// folder `cache`.
    #[must_use]
    pub fn new(shape: Shape, cache: PathBuf) -> Machine {
        let limit = Duration::from_secs(600);
        Machine { shape, cache, accelerator: Accelerator::default(), limit, results: None }
    }

    /// Chooses the accelerator.
    #[must_use]
    pub fn accelerator(mut self, accelerator: Accelerator) -> Machine {
        self.accelerator = accelerator;
        self
    }

    /// Sets the time limit of a command, including the start of the machine, instead of ten
    /// minutes.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Machine {
        self.limit = limit;
        self
    }

    /// Lets commands write to this folder of the host, under the same path. Everything else they
    /// write is lost when they end.
    #[must_use]
    pub fn results(mut self, folder: impl Into<PathBuf>) -> Machine {
        self.results = Some(folder.into());
        self
    }

    /// Starts the machine, runs the command in it and passes on its output.
    ///
    /// # Errors
    ///
    /// The machine does not start, the command is not found in it, the time is up, or the machine
    /// ends before the command: the error shows the last lines of its console.
    pub fn run(
        &self,
        task: &Task,
        output: &mut dyn Write,
        complaints: &mut dyn Write,
    ) -> Result<Ending> {
        self.run_until(task, output, complaints, None)
    }

    /// Does the same, but stops the machine as soon as there is something to read from `stop`.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub fn run_until(
        &self,
        task: &Task,
        output: &mut dyn Write,
        complaints: &mut dyn Write,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<Ending> {
        if let Some(reason) = missing() {
            bail!("no machine can be emulated: {reason}; try `cargo xtask setup --tests`");
        }
        let results = self.results.as_deref().map(whole_path).transpose()?;
        let kernel = Kernel::find(&self.cache)?;
        let first = first_files(&self.cache, &kernel)?;
        let mut failures = Vec::new();
        let engines = self.accelerator.engines(&self.cache);
        for (place, &engine) in engines.iter().enumerate() {
            let mut life = Life::start(&self.shape, engine, &kernel, &first, results.as_deref())?;
            let last = place + 1 == engines.len();
            let patience = match engine {
                _ if last => self.limit,
                Engine::Kvm => KVM_PATIENCE.min(self.limit),
                Engine::Tcg => TCG_PATIENCE.min(self.limit),
            };
            match life.comes_up(patience, stop) {
                Ok(true) => {
                    // The machine can start, so KVM was at fault.
                    if engine != engines[0] {
                        remember_failure(&self.cache);
                    }
                    life.send(&task.message(results.as_deref()))?;
                    return life.follow(self.limit, output, complaints, stop);
                }
                Ok(false) => return Ok(Ending::Stopped),
                Err(error) => failures.push(error),
            }
        }
        Err(failures.pop().unwrap_or_else(|| anyhow!("no accelerator")))
    }
}

fn whole_path(folder: &Path) -> Result<PathBuf> {
    folder.canonicalize().with_context(|| format!("the folder {}", folder.display()))
}

/// A running machine, ended when dropped.
struct Life {
    emulator: Child,
    port: UnixStream,
    decoder: Decoder,
    start: Instant,
    /// Readable by this user only.
    folder: TempDir,
}

/// Event of a watched machine.
enum Event {
    Told(Frame),
    /// A signal asks this process to stop.
    Stop,
    OutOfTime,
    /// The emulator has ended.
    Gone,
}

impl Life {
    fn start(
        shape: &Shape,
        engine: Engine,
        kernel: &Kernel,
        first_files: &Path,
        results: Option<&Path>,
    ) -> Result<Life> {
        let folder = tempfile::Builder::new().prefix("quo-machine-").tempdir()?;
        let (ours, theirs) = UnixStream::pair().context("making the port")?;
        ours.set_write_timeout(Some(SENDING))?;
        let console = folder.path().join("console");
        let files = Files { kernel: &kernel.image, first_files, console: &console, results };
        let mut command = emulator();
        command.args(arguments(shape, engine, files));
        let said = File::create(folder.path().join("emulator"))?;
        command.stdin(OwnedFd::from(theirs)).stdout(said.try_clone()?).stderr(said);
        let emulator = command.spawn().with_context(|| format!("starting {EMULATOR}"))?;
        // The command holds the far end of the port, which has to close with the emulator.
        drop(command);
        let (decoder, start) = (Decoder::default(), Instant::now());
        Ok(Life { emulator, port: ours, decoder, start, folder })
    }

    /// Waits until the machine asks for its command; returns false if `stop` was signalled.
    fn comes_up(&mut self, limit: Duration, stop: Option<BorrowedFd<'_>>) -> Result<bool> {
        match self.next(limit, stop)? {
            Event::Told(Frame::Ready) => Ok(true),
            Event::Stop => Ok(false),
            Event::Told(Frame::Failed(reason)) => Err(self.trouble(&reason)),
            Event::Told(frame) => Err(self.trouble(&format!("it began with {frame:?}"))),
            Event::OutOfTime => {
                let seconds = limit.as_secs();
                Err(self.trouble(&format!("the machine did not come up in {seconds} s")))
            }
            Event::Gone => Err(self.trouble("the machine ended before it was up")),
        }
    }

    fn send(&mut self, message: &[u8]) -> Result<()> {
        self.port.write_all(message).map_err(|error| {
            self.trouble(&format!("the machine did not take its command: {error}"))
        })
    }

    fn follow(
        &mut self,
        limit: Duration,
        output: &mut dyn Write,
        complaints: &mut dyn Write,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<Ending> {
        let pass = |to: &mut dyn Write, bytes: &[u8]| {
            to.write_all(bytes).and_then(|()| to.flush()).context("passing on what it wrote")
        };
        loop {
            match self.next(limit, stop)? {
                Event::Told(Frame::Output(bytes)) => pass(output, &bytes)?,
                Event::Told(Frame::Complaint(bytes)) => pass(complaints, &bytes)?,
                Event::Told(Frame::Exited(status)) => return Ok(Ending::Exited(status)),
                Event::Told(Frame::Killed(signal)) => return Ok(Ending::Killed(signal)),
                Event::Told(Frame::Failed(reason)) => bail!("in the machine: {reason}"),
                Event::Told(Frame::Ready) => {}
                Event::Stop => return Ok(Ending::Stopped),
                Event::OutOfTime => {
                    let seconds = limit.as_secs();
                    return Err(self.trouble(&format!("stopped after {seconds} s")));
                }
                Event::Gone => return Err(self.trouble("the machine ended before the command")),
            }
        }
    }

    fn next(&mut self, limit: Duration, stop: Option<BorrowedFd<'_>>) -> Result<Event> {
        let end = self.start + limit;
        loop {
            if let Some(frame) = self.decoder.next()? {
                return Ok(Event::Told(frame));
            }
            let left = end.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).context("time limit too long")?;
            let mut watched = vec![PollFd::new(&self.port, PollFlags::IN)];
            watched.extend(stop.map(|stop| PollFd::from_borrowed_fd(stop, PollFlags::IN)));
            match poll(&mut watched, Some(&timeout)) {
                Ok(0) => return Ok(Event::OutOfTime),
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error).context("watching the machine"),
            }
            if watched.get(1).is_some_and(|stop| !stop.revents().is_empty()) {
                return Ok(Event::Stop);
            }
            let mut bytes = [0; 65_536];
            match self.port.read(&mut bytes) {
                Ok(0) => return Ok(Event::Gone),
                Ok(length) => self.decoder.feed(&bytes[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(Event::Gone),
                Err(error) => return Err(error).context("reading from the machine"),
            }
        }
    }

    /// Creates an error with all messages of the machine and the emulator.
    fn trouble(&self, what: &str) -> anyhow::Error {
        let mut text = what.to_owned();
        for (name, title) in [("console", "the console's last lines"), ("emulator", EMULATOR)] {
            let said = fs::read(self.folder.path().join(name)).unwrap_or_default();
            let said = String::from_utf8_lossy(&said);
            let last = last_lines(&said);
            if !last.is_empty() {
                text.push_str(&format!("\n--- {title}\n{last}"));
            }
        }
        anyhow!(text)
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // Nothing can be lost: what the command wrote to the host is already there.
        let _already_ended = self.emulator.kill();
        let _reaped = self.emulator.wait();
    }
}

/// Returns a command for QEMU, which must not outlive this process.
fn emulator() -> Command {
    match find("setpriv") {
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL", EMULATOR]);
            command
        }
        None => Command::new(EMULATOR),
    }
}

fn last_lines(text: &str) -> String {
    // QEMU warns of each feature of this CPU model that the accelerator lacks.
    let tells = |line: &&str| !line.is_empty() && !line.contains(": warning: ");
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(tells).collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_console_is_shown() {
        let text: String = (0..100).map(|line| format!("line {line}\r\n\n")).collect();
        let last = last_lines(&text);
        assert_eq!(last.lines().count(), LAST_LINES);
        assert!(last.ends_with("line 99"));
        assert_eq!(last_lines("qemu-system-x86_64: warning: TCG doesn't support x\n"), "");
    }
}
