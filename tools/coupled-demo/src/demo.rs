//! `coupled-demo run`: launches the three modes, watches them, compares and reports.

use std::fs;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use quo::{ObjectType, Topology};

use crate::fields;
use crate::launch::end_with_us;
use crate::report::{self, Measured, Report};
use crate::sample::{self, Sampler};
use coupled::deck::{Deck, Variant};
use coupled::result::Mode;

/// The request on the command line.
pub struct Request {
    pub deck: PathBuf,
    pub out: PathBuf,
    /// Ranks of the modes with one per core; as many as cores if not given.
    pub ranks: Option<usize>,
    pub variant: Option<Variant>,
    pub mpirun: PathBuf,
    /// The program `coupled`.
    pub program: PathBuf,
    /// Of each mode.
    pub timeout: Duration,
}

/// Ranks of each kind that the modes get on this machine.
struct Plan {
    cpus: usize,
    ranks: usize,
    workers: usize,
}

/// Runs the three modes and writes the report.
///
/// # Errors
/// If a mode cannot be launched, fails, takes too long or computes something else than the others.
pub fn demo(request: &Request) -> Result<()> {
    let text = fs::read_to_string(&request.deck)
        .with_context(|| format!("reading the deck {}", request.deck.display()))?;
    let deck =
        Deck::parse(&text).with_context(|| format!("in the deck {}", request.deck.display()))?;
    let plan = plan(&deck, request.ranks)?;
    deck.check_ranks(&text, plan.ranks)?;
    fs::create_dir_all(&request.out)
        .with_context(|| format!("making the directory {}", request.out.display()))?;

    let launcher = Launcher::of(&request.mpirun)?;
    for mode in Mode::ALL {
        run_mode(request, launcher, &plan, mode)?;
    }
    compare(&request.out)?;
    let runs = Mode::ALL.map(|mode| Measured::read(&result_path(&request.out, mode)));
    let report = Report::new(runs.into_iter().collect::<Result<_>>()?);
    let picture = request.out.join("report.svg");
    report::write_picture(&report, &picture)?;
    let mut out = std::io::stdout().lock();
    write!(out, "{}", report::table::text(&report))?;
    writeln!(out, "What each core did: {}", picture.display())?;
    Ok(())
}

fn plan(deck: &Deck, ranks: Option<usize>) -> Result<Plan> {
    let topology = Topology::live().context("looking at this machine")?;
    let cpus = topology.allowed().len().max(1);
    let cores = topology.count(ObjectType::Core).clamp(1, cpus);
    let ranks = ranks.unwrap_or(cores);
    ensure!(ranks > 0, "no ranks were asked for");
    let objects = topology.count(deck.coupling.over.object_type()).max(1);
    let workers = objects.saturating_mul(deck.coupling.max).min(ranks);
    Ok(Plan { cpus, ranks, workers })
}

fn result_path(out: &Path, mode: Mode) -> PathBuf {
    out.join(format!("{}.json", mode.name()))
}

fn fields_path(out: &Path, mode: Mode) -> PathBuf {
    out.join(format!("{}.fields.bin", mode.name()))
}

/// Family of the launcher: each has words of its own.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Launcher {
    OpenMpi,
    Hydra,
}

impl Launcher {
    fn of(program: &Path) -> Result<Launcher> {
        let output = Command::new(program)
            .arg("--version")
            .output()
            .with_context(|| format!("starting the launcher {}", program.display()))?;
        let version = String::from_utf8_lossy(&output.stdout);
        if version.contains("Open MPI") || version.contains("OpenRTE") {
            Ok(Launcher::OpenMpi)
        } else if version.contains("HYDRA") || version.contains("Intel(R) MPI") {
            Ok(Launcher::Hydra)
        } else {
            bail!("{} is of no MPI that is known here: {}", program.display(), version.trim());
        }
    }

    /// Arguments of the launcher in `mode`.
    fn arguments(self, plan: &Plan, mode: Mode) -> Vec<String> {
        let ranks = if mode == Mode::Under { plan.workers } else { plan.ranks };
        let share = plan.cpus / ranks.max(1);
        // Each rank of an under-subscribed run gets its part of the cores; one alone has them all.
        let wide = mode == Mode::Under && ranks > 1 && share > 1;
        let mut words = vec!["-n".to_owned(), ranks.to_string()];
        let mut say = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
        match self {
            Launcher::OpenMpi => {
                let crowded = ranks > plan.cpus;
                if crowded {
                    say(&["--oversubscribe"]);
                }
                if wide {
                    say(&["--map-by", &format!("slot:PE={share}"), "--bind-to", "core"]);
                } else if mode == Mode::Quo {
                    say(&["--bind-to", if crowded { "core:overload-allowed" } else { "core" }]);
                } else {
                    say(&["--bind-to", "none"]);
                }
            }
            Launcher::Hydra if wide => say(&["-bind-to", &format!("core:{share}")]),
            Launcher::Hydra if mode == Mode::Quo => say(&["-bind-to", "core"]),
            Launcher::Hydra => say(&["-bind-to", "none"]),
        }
        words
    }
}

fn run_mode(request: &Request, launcher: Launcher, plan: &Plan, mode: Mode) -> Result<()> {
    let result = result_path(&request.out, mode);
    let mut command = Command::new(&request.mpirun);
    command.args(launcher.arguments(plan, mode)).arg(&request.program).arg("run").arg("--progress");
    command.arg("--deck").arg(&request.deck).args(["--mode", mode.name()]);
    command.arg("--output").arg(&result);
    command.arg("--fields").arg(fields_path(&request.out, mode));
    if let Some(variant) = request.variant {
        command.args(["--variant", variant.name()]);
    }
    if rustix::process::geteuid().is_root() {
        // Open MPI asks for both, so that nobody runs jobs as root without knowing.
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }
    // Copies between processes may be forbidden in a container; Open MPI then complains at length.
    command.env("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
    // The same patience in barriers of threads for all modes. Left alone, GCC's OpenMP spins long if
    // the process was born on as many CPUs as it has threads, and hardly ever if it was born on one,
    // as the ranks are that quo widens later. The first wastes milliseconds on a busy machine, the
    // second costs L1 a third of its speed on a quiet one.
    if ["OMP_WAIT_POLICY", "GOMP_SPINCOUNT"].iter().all(|name| std::env::var_os(name).is_none()) {
        command.env("OMP_WAIT_POLICY", "active").env("GOMP_SPINCOUNT", "3000");
    }
    // The program decides how many threads each mode has.
    command.env_remove("OMP_NUM_THREADS").env_remove("OMP_PROC_BIND").env_remove("OMP_PLACES");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = end_with_us(&mut command)
        .spawn()
        .with_context(|| format!("launching mode {} with {command:?}", mode.name()))?;
    let mut job = Job { child, done: false };
    let mut display = Display::new(mode);
    let outcome = watch(&mut job, request.timeout, &mut display);
    display.finish(outcome.as_ref().ok().map(|(seconds, _)| *seconds));
    let (_, samples) = outcome.with_context(|| format!("mode {}", mode.name()))?;
    sample::write(&samples, &sample::path_for(&result))
}

/// A launched job; ended if dropped before it has ended by itself.
struct Job {
    child: Child,
    done: bool,
}

impl Job {
    fn end(&mut self) {
        if self.done {
            return;
        }
        self.done = true;
        let pid = rustix::process::Pid::from_child(&self.child);
        // The launcher ends its ranks when it is asked to end.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        if ends_within(pid, Duration::from_secs(5)) {
            let _ = self.child.wait();
            return;
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns true if a child that has not been waited for ends in so much time.
fn ends_within(pid: rustix::process::Pid, time: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{PidfdFlags, pidfd_open};
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: 0 };
    matches!(poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&time)), Ok(ready) if ready > 0)
}

impl Drop for Job {
    fn drop(&mut self) {
        self.end();
    }
}

enum Line {
    Out(String),
    Error(String),
}

/// Reads the output of the job until it ends; samples its processes meanwhile.
fn watch(
    job: &mut Job,
    timeout: Duration,
    display: &mut Display,
) -> Result<(f64, Vec<sample::Sample>)> {
    let lines = read_lines(&mut job.child)?;
    let start = Instant::now();
    let mut sampler = None;
    let mut complaints = String::new();
    loop {
        let left = timeout.saturating_sub(start.elapsed());
        match lines.recv_timeout(left.min(Duration::from_millis(200))) {
            Ok(Line::Out(line)) => match line.strip_prefix("progress ") {
                Some(progress) => {
                    if let Some(processes) = progress.strip_prefix("processes ") {
                        let processes =
                            processes.split(' ').filter_map(|pid| pid.parse().ok()).collect();
                        sampler = Some(Sampler::start(processes)?);
                    } else if let Some((done, all)) = parse_step(progress) {
                        display.update(done, all, start.elapsed());
                    }
                }
                None => display.say(&line),
            },
            Ok(Line::Error(line)) => {
                complaints += &line;
                complaints.push('\n');
            }
            Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                job.end();
                bail!("no end after {:.0} s; the job was ended", timeout.as_secs_f64());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let samples = sampler.map(Sampler::finish).unwrap_or_default();
    let status = job.child.wait().context("waiting for the launcher")?;
    job.done = true;
    if !status.success() {
        bail!("the job failed ({status})\n{}", complaints.trim_end());
    }
    Ok((start.elapsed().as_secs_f64(), samples))
}

fn parse_step(progress: &str) -> Option<(usize, usize)> {
    let (done, all) = progress.strip_prefix("step ")?.split_once(" of ")?;
    Some((done.parse().ok()?, all.parse().ok()?))
}

/// Both outputs of a child as one stream of lines, which ends when both do.
fn read_lines(child: &mut Child) -> Result<Receiver<Line>> {
    let (sender, lines) = channel();
    let out = child.stdout.take().context("no standard output")?;
    let error = child.stderr.take().context("no standard error")?;
    let also = sender.clone();
    spawn_reader(out, move |line| sender.send(Line::Out(line)).is_ok())?;
    spawn_reader(error, move |line| also.send(Line::Error(line)).is_ok())?;
    Ok(lines)
}

fn spawn_reader(
    from: impl std::io::Read + Send + 'static,
    mut give: impl FnMut(String) -> bool + Send + 'static,
) -> Result<()> {
    std::thread::Builder::new()
        .name("reader".to_owned())
        .spawn(move || {
            let mut from = BufReader::new(from);
            let mut line = Vec::new();
            while matches!(from.read_until(b'\n', &mut line), Ok(read) if read > 0) {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                line.clear();
                if !give(text) {
                    break;
                }
            }
        })
        .context("starting a reader")?;
    Ok(())
}

/// One line that is rewritten on a terminal; elsewhere one line per mode.
struct Display {
    mode: Mode,
    live: bool,
    said: Vec<String>,
}

impl Display {
    fn new(mode: Mode) -> Self {
        let display = Display { mode, live: std::io::stderr().is_terminal(), said: Vec::new() };
        if display.live {
            let _ = write!(std::io::stderr(), "{:<6}starting", mode.name());
        }
        display
    }

    fn update(&mut self, done: usize, all: usize, elapsed: Duration) {
        if !self.live {
            return;
        }
        let width = 30;
        let full = width * done.min(all) / all.max(1);
        let _ = write!(
            std::io::stderr(),
            "\r{:<6}[{}{}] {:>3} %  {:.0} s ",
            self.mode.name(),
            "#".repeat(full),
            ".".repeat(width - full),
            100 * done / all.max(1),
            elapsed.as_secs_f64()
        );
    }

    fn say(&mut self, line: &str) {
        self.said.push(line.to_owned());
    }

    /// Leaves one line behind; `None` if the mode failed.
    fn finish(&mut self, seconds: Option<f64>) {
        let clear = if self.live { "\r\x1b[K" } else { "" };
        let verdict = match (seconds, self.said.first()) {
            (Some(_), Some(said)) => {
                said.strip_prefix(&format!("{}: ", self.mode.name())).unwrap_or(said).to_owned()
            }
            (Some(seconds), None) => format!("done in {seconds:.1} s"),
            (None, _) => "failed".to_owned(),
        };
        let _ = writeln!(std::io::stderr(), "{clear}{:<6}{verdict}", self.mode.name());
    }
}

/// All modes must have computed the same.
fn compare(out: &Path) -> Result<()> {
    let first = fields::read(&fields_path(out, Mode::Under))?;
    for mode in [Mode::Over, Mode::Quo] {
        let other = fields::read(&fields_path(out, mode))?;
        for difference in fields::compare(&first, &other)? {
            ensure!(
                difference.relative <= fields::TOLERANCE,
                "modes under and {} differ in {} by {:e}",
                mode.name(),
                difference.field,
                difference.relative
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(launcher: Launcher, cpus: usize, ranks: usize, workers: usize, mode: Mode) -> String {
        launcher.arguments(&Plan { cpus, ranks, workers }, mode).join(" ")
    }

    #[test]
    fn each_mode_is_launched_with_its_ranks_and_bindings() {
        let open = |cpus, ranks, workers, mode| said(Launcher::OpenMpi, cpus, ranks, workers, mode);
        assert_eq!(open(2, 2, 1, Mode::Under), "-n 1 --bind-to none");
        assert_eq!(open(2, 2, 1, Mode::Over), "-n 2 --bind-to none");
        assert_eq!(open(2, 2, 1, Mode::Quo), "-n 2 --bind-to core");
        assert_eq!(open(8, 8, 2, Mode::Under), "-n 2 --map-by slot:PE=4 --bind-to core");
        assert_eq!(
            open(2, 3, 1, Mode::Quo),
            "-n 3 --oversubscribe --bind-to core:overload-allowed"
        );
        assert_eq!(open(2, 3, 1, Mode::Over), "-n 3 --oversubscribe --bind-to none");
        assert_eq!(said(Launcher::Hydra, 8, 8, 2, Mode::Under), "-n 2 -bind-to core:4");
        assert_eq!(said(Launcher::Hydra, 2, 3, 1, Mode::Quo), "-n 3 -bind-to core");
        assert_eq!(said(Launcher::Hydra, 2, 2, 1, Mode::Over), "-n 2 -bind-to none");
    }

    #[test]
    fn progress_is_understood_and_nonsense_is_not() {
        assert_eq!(parse_step("step 10 of 200"), Some((10, 200)));
        assert_eq!(parse_step("step ten of 200"), None);
        assert_eq!(parse_step("processes 1 2"), None);
    }

    #[test]
    fn a_job_that_does_not_end_is_ended_and_named() {
        let child = Command::new("sleep")
            .arg("1000")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id();
        let mut job = Job { child, done: false };
        let mut display = Display { mode: Mode::Quo, live: false, said: Vec::new() };
        let error = watch(&mut job, Duration::from_millis(50), &mut display).unwrap_err();
        assert!(error.to_string().contains("no end"), "{error}");
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn a_job_that_fails_says_what_it_said() {
        let child = Command::new("sh")
            .args(["-c", "echo it broke >&2; exit 3"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut job = Job { child, done: false };
        let mut display = Display { mode: Mode::Quo, live: false, said: Vec::new() };
        let error = watch(&mut job, Duration::from_secs(60), &mut display).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("it broke") && text.contains('3'), "{text}");
    }
}
