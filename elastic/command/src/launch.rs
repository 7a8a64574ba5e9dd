//! `quo-elastic launch`: starts an elastic program with the options that this MPI needs. The words
//! are made by a pure function of the MPI, the numbers and the hosts.

use std::ffi::OsString;
use std::os::unix::{fs::OpenOptionsExt, process::CommandExt};
use std::path::{Path, PathBuf};
use std::process::Command;

mod restart;
mod slurm;
mod watch;

use anyhow::{Context, Result, bail};
use clap::Args;
use rustix::fs::Access;

use crate::output::{complain, say};

/// Starts an elastic program
#[derive(Clone, Debug, Args)]
pub struct Launch {
    /// Fewest and most ranks; the job starts with the fewest
    #[arg(short = 'n', value_name = "MIN..MAX", value_parser = ranks)]
    ranks: Ranks,
    /// Hosts with slots, such as n1:8,n2:8 [default: this host, or the allocation]
    #[arg(long, value_name = "HOSTS", value_delimiter = ',', value_parser = host)]
    hosts: Vec<(String, u32)>,
    /// Name of the job, unless the program sets one
    #[arg(long)]
    name: Option<String>,
    /// Plan of sizes, unless the program sets one
    #[arg(long, value_name = "FILE", value_parser = plan_text)]
    plan: Option<String>,
    /// File to append events to, unless the program sets one
    #[arg(long, value_name = "FILE", value_parser = absolute)]
    log: Option<String>,
    /// Add and return nodes of Slurm, inside a job of Slurm
    #[arg(long)]
    slurm: bool,
    /// Launch all processes now and park the spare ones
    #[arg(long)]
    parked: bool,
    /// Restarts of a failed job at most, on the hosts that still answer
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    restarts: u32,
    /// Print the command with its reasons and stop
    #[arg(long)]
    show: bool,
    /// The launcher to use
    #[arg(long, value_name = "PATH", default_value = "mpirun")]
    mpirun: OsString,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// The fewest and the most ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ranks {
    min: u32,
    max: u32,
}

fn ranks(text: &str) -> Result<Ranks, String> {
    let wrong = || "two numbers of ranks, such as 2..8".to_owned();
    let (min, max) = text.split_once("..").ok_or_else(wrong)?;
    let (min, max) = (min.parse().map_err(|_| wrong())?, max.parse().map_err(|_| wrong())?);
    match (min, max) {
        (0, _) => Err("at least one rank".to_owned()),
        _ if min > max => Err("the first number is larger than the second".to_owned()),
        _ => Ok(Ranks { min, max }),
    }
}

fn host(text: &str) -> Result<(String, u32), String> {
    let parts = text.rsplit_once(':').and_then(|(name, slots)| Some((name, slots.parse().ok()?)));
    match parts {
        Some((name, slots)) if !name.is_empty() && slots > 0 => Ok((name.to_owned(), slots)),
        _ => Err("a host with its number of slots, such as n1:8".to_owned()),
    }
}

/// Variable with the plan of the ranks.
const PLAN: &str = "QUO_ELASTIC_PLAN";
/// Most bytes of a plan: the kernel starts no program with a longer variable.
const LONGEST_PLAN: usize = (128 << 10) - "=\0".len() - PLAN.len();

/// Returns the text of a plan in a file.
fn plan_text(path: &str) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    text.parse::<elastic::plan::Plan>().map_err(|error| error.to_string())?;
    let text = text.trim_end();
    if text.len() > LONGEST_PLAN {
        return Err(format!(
            "the plan has {} bytes, a variable of the ranks at most {LONGEST_PLAN}: shorten it, or give it to the \
             program's options",
            text.len()
        ));
    }
    Ok(text.to_owned())
}

/// Checks that a process here can append to a file, which need not exist.
fn can_append(path: &Path) -> std::io::Result<()> {
    if path.try_exists()? {
        // A pipe without a reader is an error, not a wait for one.
        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let mut options = std::fs::OpenOptions::new();
        return options.append(true).custom_flags(flags).open(path).map(drop);
    }
    let folder = path.parent().unwrap_or(path);
    std::fs::metadata(folder.join("."))?;
    Ok(rustix::fs::access(folder, Access::WRITE_OK)?)
}

/// Returns a path from the root: ranks may be started in another folder.
fn absolute(path: &str) -> Result<String, String> {
    let path = std::path::absolute(path).map_err(|error| error.to_string())?;
    path.into_os_string().into_string().map_err(|_| "the path is not UTF-8".to_owned())
}

/// An MPI by its launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mpi {
    Open { version: [u32; 3] },
    Mpich { version: [u32; 3] },
    Intel,
}

impl Mpi {
    /// Recognises what a launcher prints for `--version`.
    fn of(text: &str) -> Option<Self> {
        let version = numbers(text);
        if text.contains("Intel(R) MPI") {
            return Some(Self::Intel);
        }
        if text.contains("HYDRA") {
            return Some(Self::Mpich { version });
        }
        let is_open = ["Open MPI", "OpenRTE", "PRRTE"].iter().any(|name| text.contains(name));
        is_open.then_some(Self::Open { version })
    }

    fn name(&self) -> String {
        let shown = |[a, b, c]: &[u32; 3]| format!("{a}.{b}.{c}");
        match self {
            Self::Open { version } => format!("Open MPI {}", shown(version)),
            Self::Mpich { version } => format!("MPICH {}", shown(version)),
            Self::Intel => "Intel MPI".to_owned(),
        }
    }

    /// Returns why this MPI cannot start processes while the job runs; `None` if it can.
    fn cannot_spawn(&self, variable: &dyn Fn(&str) -> Option<String>) -> Option<&'static str> {
        match self {
            Self::Mpich { version: [..5, ..] } => Some("MPICH 4 cannot start processes"),
            Self::Intel if variable("I_MPI_SPAWN").as_deref() != Some("on") => {
                Some("Intel MPI needs I_MPI_SPAWN=on to start processes")
            }
            _ => None,
        }
    }
}

/// Returns the first version number of a text.
fn numbers(text: &str) -> [u32; 3] {
    let word = text
        .split_whitespace()
        .find(|word| word.starts_with(|first: char| first.is_ascii_digit()) && word.contains('.'));
    let mut parts = word.unwrap_or_default().split('.').map(|part| {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(0)
    });
    std::array::from_fn(|_| parts.next().unwrap_or(0))
}

/// What is started, and why so.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    words: Vec<OsString>,
    variables: Vec<(String, String)>,
    reasons: Vec<String>,
    /// Why the job cannot have its largest number of ranks.
    limit: Option<String>,
}

impl Plan {
    fn because(&mut self, reason: impl Into<String>) {
        self.reasons.push(reason.into());
    }

    fn variable(&mut self, name: &str, value: impl Into<String>) {
        self.variables.push((name.to_owned(), value.into()));
    }

    fn words(&mut self, words: &[&str]) {
        self.words.extend(words.iter().map(OsString::from));
    }
}

/// Runs the command; without restarts this process becomes the launcher.
///
/// # Errors
/// If the launcher is not there, its MPI is not known, or the numbers do not fit.
pub fn run(launch: &Launch) -> Result<u8> {
    let shown = launch.mpirun.to_string_lossy();
    let output = Command::new(&launch.mpirun)
        .arg("--version")
        .output()
        .with_context(|| format!("launch: cannot run {shown} --version"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let Some(mpi) = Mpi::of(&text) else {
        bail!(
            "launch: {shown} is of no MPI that is known here (Open MPI, MPICH, Intel MPI); start the \
             program by its own launcher with QUO_ELASTIC_RANKS={}..{} in the environment of all ranks",
            launch.ranks.min,
            launch.ranks.max
        );
    };
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
    let variable = |name: &str| std::env::var(name).ok();
    if let Some(log) = launch.log.as_deref().filter(|_| is_here(launch, &variable)) {
        can_append(Path::new(log)).with_context(|| format!("launch: cannot write --log {log}"))?;
    }
    let own = match launch.slurm {
        true => std::env::current_exe().context("launch: finding this program for --slurm")?,
        false => PathBuf::new(),
    };
    let machine = Machine { cpus, own: &own, variable: &variable };
    let plan = plan(launch, &mpi, &machine)?;
    if let Some(limit) = &plan.limit {
        complain(limit);
    }
    if launch.show {
        say(&text_of(&plan))?;
        return Ok(0);
    }
    if launch.restarts > 0 {
        return restart::run(launch, &mpi, &|launch| self::plan(launch, &mpi, &machine));
    }
    Err(command(&plan).exec()).with_context(|| format!("launch: cannot run {shown}"))
}

fn command(plan: &Plan) -> Command {
    let mut command = Command::new(&plan.words[0]);
    command.args(&plan.words[1..]).envs(plan.variables.iter().cloned());
    command
}

/// Quotes a word for a shell, if it needs that.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-:,=%+".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

fn text_of(plan: &Plan) -> String {
    let mut text = String::new();
    for (name, value) in &plan.variables {
        text += &format!("{name}={} ", quoted(value));
    }
    let words: Vec<_> = plan.words.iter().map(|word| quoted(&word.to_string_lossy())).collect();
    text += &format!("{}\n", words.join(" "));
    for reason in &plan.reasons {
        text += &format!("- {reason}\n");
    }
    text
}

/// What a plan depends on besides the options and the MPI.
struct Machine<'a> {
    cpus: u32,
    /// The path of this program.
    own: &'a Path,
    variable: &'a dyn Fn(&str) -> Option<String>,
}

/// Decides what to start.
fn plan(launch: &Launch, mpi: &Mpi, machine: &Machine<'_>) -> Result<Plan> {
    let Ranks { min, max } = launch.ranks;
    let variable = machine.variable;
    let job = launch.slurm.then(|| slurm::job(launch, mpi, variable)).transpose()?;
    let slots: u32 = launch.hosts.iter().map(|(_, slots)| slots).sum();
    if !launch.hosts.is_empty() && slots < max {
        bail!("launch: {max} ranks are asked for, the hosts have {slots} slots");
    }
    let cannot = mpi.cannot_spawn(variable);
    let parks = launch.parked || cannot.is_some();
    let processes = if parks { max } else { min };
    let mut plan = Plan { words: vec![launch.mpirun.clone()], ..Plan::default() };
    plan.because(match (parks, cannot) {
        (true, Some(reason)) => {
            format!(
                "{}: {reason}, so {max} processes are launched and {} sleep",
                mpi.name(),
                max - min
            )
        }
        (true, None) => {
            format!("{max} processes are launched, and {} sleep until they are ranks", max - min)
        }
        // The program decides at which thread level MPI begins.
        (false, _) => format!(
            "{}: {min} processes are launched, up to {} are started later, if the program begins MPI with \
             MPI_THREAD_MULTIPLE{}",
            mpi.name(),
            max - min,
            if launch.slurm { "" } else { "; else use --parked" }
        ),
    });
    plan.words(&["-n", &processes.to_string()]);
    let here = is_here(launch, variable);
    let crowded = here && max > machine.cpus;
    if launch.hosts.is_empty() && !launch.slurm {
        plan.limit = allocated_slots(variable).filter(|(_, slots)| *slots < max).map(|(name, slots)| {
            format!("launch: the allocation has {slots} slots ({name}): without more nodes the job cannot reach {max} ranks")
        });
    }
    plan.variable("QUO_ELASTIC_RANKS", format!("{min}..{max}"));
    // Nodes are asked for by the name of the job.
    let unnamed = job.as_ref().filter(|_| variable("QUO_ELASTIC_NAME").is_none());
    if let Some(name) = launch.name.as_ref().or(unnamed) {
        plan.variable("QUO_ELASTIC_NAME", name.clone());
        plan.because(format!("the job is known to quo-elastic as {name}"));
    }
    if let Some(text) = &launch.plan {
        plan.variable(PLAN, text.clone());
    }
    if let Some(path) = &launch.log {
        plan.variable("QUO_ELASTIC_LOG", path.clone());
    }
    if !launch.hosts.is_empty() {
        let list: Vec<String> =
            launch.hosts.iter().map(|(name, slots)| format!("{name}:{slots}")).collect();
        plan.variable("QUO_ELASTIC_HOSTS", list.join(","));
    }
    if launch.slurm {
        slurm::add(&mut plan, mpi, machine.own)?;
    }
    match mpi {
        Mpi::Open { version } => open_mpi(&mut plan, launch, *version, (max, crowded, here)),
        Mpi::Mpich { .. } | Mpi::Intel => hydra(&mut plan, launch, mpi, crowded),
    }
    plan.words.extend(launch.program.iter().cloned());
    Ok(plan)
}

/// Returns true if all ranks run on this host.
fn is_here(launch: &Launch, variable: &dyn Fn(&str) -> Option<String>) -> bool {
    let managers = ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"];
    launch.hosts.is_empty() && !managers.iter().any(|name| variable(name).is_some())
}

/// Returns the variable of the resource manager that gives the allocation's slots, and their number.
fn allocated_slots(variable: &dyn Fn(&str) -> Option<String>) -> Option<(&'static str, u32)> {
    let names = ["SLURM_TASKS_PER_NODE", "PBS_NP", "LSB_DJOB_NUMPROC"];
    names.into_iter().find_map(|name| Some((name, slots(&variable(name)?)?)))
}

/// Returns the sum of numbers as Slurm writes them: `4(x2),3` is 11.
fn slots(text: &str) -> Option<u32> {
    let of_nodes = |part: &str| match part.split_once("(x") {
        Some((tasks, nodes)) => {
            tasks.parse::<u32>().ok()?.checked_mul(nodes.strip_suffix(')')?.parse().ok()?)
        }
        None => part.parse().ok(),
    };
    text.split(',').try_fold(0_u32, |sum, part| sum.checked_add(of_nodes(part)?))
}

fn open_mpi(
    plan: &mut Plan,
    launch: &Launch,
    version: [u32; 3],
    (max, crowded, here): (u32, bool, bool),
) {
    if here {
        plan.words(&["--host", &format!("localhost:{max}")]);
        plan.because(format!("slots for {max} ranks: a start beyond them is refused"));
    } else if !launch.hosts.is_empty() {
        let list: Vec<String> =
            launch.hosts.iter().map(|(name, slots)| format!("{name}:{slots}")).collect();
        plan.words(&["--host", &list.join(",")]);
    }
    if version[0] < 5 {
        plan.variable("PMIX_MCA_gds", "hash");
        plan.because("PMIX_MCA_gds=hash: else each start leaves two mappings in the ranks");
        if crowded {
            plan.words(&["--oversubscribe", "--bind-to", "none"]);
        }
    } else {
        if version < [5, 0, 8] {
            plan.variable("OMPI_MCA_btl_tcp_disable_family", "6");
            plan.because("without IPv6: before 5.0.8 started processes are not found over it");
        }
        if crowded {
            plan.words(&["--map-by", ":oversubscribe", "--bind-to", "none"]);
        }
    }
    if crowded {
        plan.variable("OMPI_MCA_mpi_yield_when_idle", "1");
        plan.because("more ranks than CPUs: ranks that wait yield, and none is bound");
    }
    // Open MPI passes only named variables to ranks on other hosts.
    let names: Vec<String> = plan.variables.iter().map(|(name, _)| name.clone()).collect();
    for name in names.iter().filter(|name| name.starts_with("QUO_")) {
        plan.words(&["-x", name]);
    }
}

fn hydra(plan: &mut Plan, launch: &Launch, mpi: &Mpi, crowded: bool) {
    if !launch.hosts.is_empty() {
        let list: Vec<String> =
            launch.hosts.iter().map(|(name, slots)| format!("{name}:{slots}")).collect();
        plan.words(&["-hosts", &list.join(",")]);
    }
    match mpi {
        Mpi::Mpich { .. } if crowded => {
            plan.variable("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1");
            plan.because("more ranks than CPUs: ranks that wait yield");
        }
        Mpi::Intel if crowded => {
            plan.variable("I_MPI_PIN", "off");
            plan.because("more ranks than CPUs: none is bound");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
