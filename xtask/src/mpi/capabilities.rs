//! Capabilities of an MPI, determined by compiling and running small programs under its launcher.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use quo_tests::{BindTo, Family, Launcher, Outcome, Running, run_compiler};
use serde_json::{Map, Value, json};

use super::catalogue::{Mpi, Setting};
use super::home::{Home, hash};
use crate::{project, run};

/// Time limit of one program; each takes a second or two.
const LIMIT: Duration = Duration::from_secs(20);

/// The programs, by the names of the capabilities that they check.
const PROGRAMS: &[(&str, &str, &str)] = &[
    ("version", "c", include_str!("probes/version.c")),
    ("cxx", "cpp", include_str!("probes/cxx.cpp")),
    ("fortran", "f90", include_str!("probes/fortran.f90")),
    ("mpi_f08", "f90", include_str!("probes/mpi_f08.f90")),
    ("threads", "c", include_str!("probes/threads.c")),
    ("shared_windows", "c", include_str!("probes/shared_windows.c")),
    ("sessions", "c", include_str!("probes/sessions.c")),
    ("spawn", "c", include_str!("probes/spawn.c")),
    ("connect", "c", include_str!("probes/connect.c")),
    ("split_shared", "c", include_str!("probes/split_shared.c")),
    ("waits", "c", include_str!("probes/waits.c")),
    ("ends", "c", include_str!("probes/ends.c")),
    ("bound", "c", include_str!("probes/bound.c")),
    ("universe", "c", include_str!("probes/universe.c")),
];

/// The questions, in the order of the tables: the column heading of the list and the row of docs.
pub const QUESTIONS: &[(&str, &str, &str)] = &[
    ("cxx", "C++", "C++"),
    ("fortran", "Fortran", "Fortran, `use mpi`"),
    ("mpi_f08", "f08", "Fortran, `use mpi_f08` with gfortran"),
    ("threads", "threads", "thread level"),
    ("shared_windows", "windows", "shared windows"),
    ("split_shared", "split", "communicators of ranks that share memory"),
    ("sessions", "sessions", "sessions"),
    ("spawn", "spawn", "spawn"),
    ("connect", "connect", "accept and connect between two jobs"),
];

/// Further rows of docs, which have an answer under every MPI.
pub const BEHAVIOURS: &[(&str, &str)] = &[
    ("survive", "a job continues without a killed rank, by the options below"),
    ("killed", "status of the launcher if a rank is killed by SIGKILL"),
    ("exit", "if a rank ends with 3"),
    ("abort", "if a rank calls `MPI_Abort` with 7"),
    ("bound", "CPUs of a rank, without options, `-n 2`"),
    ("universe", "`MPI_UNIVERSE_SIZE`, without options, `-n 2`"),
    ("waits", "a rank that waits in `MPI_Recv`"),
    ("waits_crowded", "the same with more ranks than cores, by the options below"),
];

/// Findings about one MPI: version, standard, and an answer to each question.
#[derive(Clone, Debug)]
pub struct Capabilities(Value);

impl Capabilities {
    /// Returns the capabilities as JSON, the form in which they are kept.
    pub fn to_json(&self) -> &Value {
        &self.0
    }

    pub fn version(&self) -> &str {
        self.0["version"].as_str().unwrap_or("?")
    }

    /// Returns the answer to a question: yes or no, or the level.
    pub fn answer(&self, question: &str) -> &str {
        self.0["can"][question]["answer"].as_str().unwrap_or("?")
    }

    /// Returns what it does in a situation of [`BEHAVIOURS`].
    pub fn behaviour(&self, situation: &str) -> &str {
        self.0["does"][situation].as_str().unwrap_or("?")
    }

    /// Returns the setting that a capability needs.
    pub fn setting(&self, question: &str) -> Option<&str> {
        self.0["can"][question]["with"].as_str()
    }

    /// Returns the reason for a "no", or the setting that is needed first.
    pub fn remark(&self, question: &str) -> Option<String> {
        let entry = &self.0["can"][question];
        let with = entry["with"].as_str().map(|with| format!("with {with}"));
        with.or_else(|| entry["reason"].as_str().map(String::from))
    }
}

/// Returns the findings about an MPI; determined anew if they are missing, if the MPI's files or
/// the programs changed, or with `again`.
pub fn of(mpi: &Mpi, home: &Home, again: bool) -> Result<Capabilities> {
    let kept = project::base()?.join("mpi/probed").join(format!("{}.json", home.name));
    let key = key(home)?;
    if !again
        && let Ok(text) = fs::read_to_string(&kept)
        && let Ok(known) = serde_json::from_str::<Value>(&text)
        && known["key"] == json!(key)
    {
        return Ok(Capabilities(known));
    }
    eprintln!("finding out what {} can do", mpi.name);
    let mut found = Probe::new(mpi, home)?.all();
    found["key"] = json!(key);
    let folder = kept.parent().with_context(|| format!("{} is in no folder", kept.display()))?;
    fs::create_dir_all(folder)?;
    let new = folder.join(format!(".new-{}", std::process::id()));
    fs::write(&new, format!("{found:#}\n"))?;
    fs::rename(&new, &kept).with_context(|| format!("writing {}", kept.display()))?;
    Ok(Capabilities(found))
}

/// Returns a key that changes with the MPI and with the programs.
fn key(home: &Home) -> Result<String> {
    let version = run::captured(Command::new(home.program("mpirun")).arg("--version"))?;
    let flags = run::captured(Command::new(home.program("mpicc")).arg("-show"))?;
    let sources: String = PROGRAMS.iter().map(|(_, _, source)| *source).collect();
    let first = version.lines().take(2).map(str::trim).collect::<Vec<_>>().join(" ");
    let sum = hash(format!("{version}{flags}{sources}").as_bytes());
    Ok(format!("{first} {sum:08x}"))
}

struct Probe<'a> {
    mpi: &'a Mpi,
    home: &'a Home,
    launcher: Launcher,
    folder: tempfile::TempDir,
}

/// An answer, or the reason why there is none.
type Answer = Result<String, String>;

impl<'a> Probe<'a> {
    fn new(mpi: &'a Mpi, home: &'a Home) -> Result<Self> {
        let launcher = Launcher::of(home.program("mpirun"))?;
        Ok(Self { mpi, home, launcher, folder: tempfile::tempdir()? })
    }

    fn all(&self) -> Value {
        let mut can = Map::new();
        for (question, _, _) in QUESTIONS {
            can.insert((*question).to_owned(), self.entry(question));
        }
        let mut does = Map::new();
        for (situation, _) in BEHAVIOURS {
            does.insert((*situation).to_owned(), json!(self.usual_behaviour(situation)));
        }
        let told = self.run("version", 1, &[]).map(|outcome| outcome.stdout).unwrap_or_default();
        let field = |name: &str| {
            let line = told.lines().find_map(|line| line.strip_prefix(name));
            line.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        let library = field("library: ").unwrap_or_default();
        json!({
            "version": number(&library),
            "library": library,
            "standard": field("standard: "),
            "can": can,
            "does": does,
        })
    }

    /// A setting of the catalogue is made at once: without it the trial may end in a crash.
    fn entry(&self, question: &str) -> Value {
        let setting = match question {
            "spawn" => self.mpi.spawns_with,
            "connect" => self.mpi.connects_with,
            _ => None,
        };
        let reason = match (self.ask(question, setting), setting) {
            (Ok(answer), None) => return json!({ "answer": answer }),
            (Ok(answer), Some((name, value))) => {
                return json!({ "answer": answer, "with": format!("{name}={value}") });
            }
            (Err(reason), _) => reason,
        };
        if question == "connect"
            && self.launcher.family() == Family::OpenMpi4
            && let Ok(answer) = self.connect_through_server()
        {
            return json!({ "answer": answer, "with": "ompi-server" });
        }
        json!({ "answer": "no", "reason": reason })
    }

    fn ask(&self, question: &str, setting: Option<Setting>) -> Answer {
        match question {
            "connect" => self.connect(setting, &[]),
            "cxx" | "fortran" | "mpi_f08" => {
                let outcome = self.run(question, 1, &[])?;
                succeeded(&outcome).map(|()| "yes".to_owned())
            }
            "threads" | "spawn" => result(&self.run(question, 1, setting.as_slice())?),
            _ => result(&self.run(question, 2, setting.as_slice())?),
        }
    }

    /// Returns the middle answer of three about a status, which a launcher may miss.
    fn usual_behaviour(&self, situation: &str) -> String {
        let tries = if matches!(situation, "killed" | "exit" | "abort") { 3 } else { 1 };
        let answer = |_| self.behaviour(situation).unwrap_or_else(|reason| reason);
        let mut answers: Vec<String> = (0..tries).map(answer).collect();
        answers.sort();
        answers.swap_remove(tries / 2)
    }

    /// Returns what the MPI does in a situation of [`BEHAVIOURS`].
    fn behaviour(&self, situation: &str) -> Answer {
        let (program, argument) = match situation {
            "waits_crowded" => ("waits", None),
            "survive" | "killed" | "exit" | "abort" => ("ends", Some(situation)),
            _ => (situation, None),
        };
        let file = self.compile(program)?;
        let mut command = match situation {
            "bound" | "universe" => {
                let mut command = Command::new(self.home.program("mpirun"));
                command.args(["-n", "2"]);
                command.envs(
                    ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"]
                        .map(|it| (it, "1")),
                );
                command
            }
            "waits_crowded" => {
                let processors = std::thread::available_parallelism().map_or(1, usize::from);
                self.launch(processors + 1, &[])
            }
            _ => self.launch(2, &[]),
        };
        if situation == "survive" {
            let guard = self.launcher.survive(&mut command);
            command.args(guard);
        }
        let started = Running::start(command.arg(file).args(argument), situation, LIMIT);
        let outcome = started.and_then(Running::finish).map_err(|error| format!("{error:#}"))?;
        match (situation, outcome.status.code()) {
            ("killed" | "exit" | "abort", Some(code)) if !outcome.out_of_time => {
                Ok(code.to_string())
            }
            ("killed" | "exit" | "abort", _) => Err(reason(&outcome)),
            ("survive", _) if outcome.stdout.contains("result: yes") => Ok("yes".to_owned()),
            ("survive", _) => Ok("no".to_owned()),
            _ => result(&outcome),
        }
    }

    fn run(&self, name: &str, ranks: usize, settings: &[Setting]) -> Result<Outcome, String> {
        let program = self.compile(name)?;
        let mut command = self.launch(ranks, settings);
        let started = Running::start(command.arg(program), name, LIMIT);
        started.and_then(Running::finish).map_err(|error| format!("{error:#}"))
    }

    fn launch(&self, ranks: usize, settings: &[Setting]) -> Command {
        let mut command = self.launcher.command(ranks, BindTo::None);
        command.envs(settings.iter().copied());
        command
    }

    /// One job opens a port, and another one gets its name and connects.
    fn connect(&self, setting: Option<Setting>, options: &[&str]) -> Answer {
        let program = self.compile("connect")?;
        let start = |port: Option<&str>| {
            let mut command = self.launch(1, setting.as_slice());
            command.args(options).arg(&program).args(port);
            Running::start(&mut command, "connect", LIMIT).map_err(|error| format!("{error:#}"))
        };
        let server = start(None)?;
        let end = |server: Running| server.end().map_err(|error| format!("{error:#}"));
        if server.wait_for("port: ", 1).is_err() {
            return Err(reason(&end(server)?));
        }
        // The name ends with its line.
        let _whole = server.wait_for("\n", 1);
        let said = server.said();
        let port = said.lines().find_map(|line| line.strip_prefix("port: ")).unwrap_or_default();
        let client = start(Some(port))?.finish().map_err(|error| format!("{error:#}"))?;
        let answer = result(&client);
        if answer.is_err() {
            let _no_use_waiting = end(server)?;
            return answer;
        }
        let server = server.finish().map_err(|error| format!("{error:#}"))?;
        succeeded(&server).and(answer)
    }

    /// Jobs of Open MPI 4 connect through a server, which is started here.
    fn connect_through_server(&self) -> Answer {
        let address = self.folder.path().join("address");
        let mut command = Command::new("ompi-server");
        command.args(["--no-daemonize", "--report-uri"]).arg(&address);
        let server = Running::start(&mut command, "ompi-server", 3 * LIMIT)
            .map_err(|error| format!("{error:#}"))?;
        let end = Instant::now() + LIMIT;
        let written = || fs::read_to_string(&address).is_ok_and(|text| text.ends_with('\n'));
        while !written() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(50));
        }
        let place = format!("file:{}", address.display());
        let answer = self.connect(None, &["--mca", "pmix_server_uri", &place]);
        let _ended = server.end();
        answer
    }

    fn compile(&self, name: &str) -> Result<PathBuf, String> {
        let known = PROGRAMS.iter().find(|(known, ..)| *known == name);
        let Some((_, extension, source)) = known else {
            return Err(format!("there is no program {name}"));
        };
        let program = self.folder.path().join(name);
        if program.exists() {
            return Ok(program);
        }
        let compiler = match *extension {
            "cpp" => "mpicxx",
            "f90" => "mpifort",
            _ => "mpicc",
        };
        let compiler = self.home.program(compiler);
        if !compiler.exists() {
            return Err("it comes without a compiler for it".to_owned());
        }
        let file = self.folder.path().join(format!("{name}.{extension}"));
        fs::write(&file, source).map_err(|error| error.to_string())?;
        let mut command = Command::new(compiler);
        command.current_dir(self.folder.path()).arg(&file).arg("-o").arg(&program);
        run_compiler(&mut command).map_err(|error| complaint(&format!("{error:#}"), &file))?;
        Ok(program)
    }
}

/// Returns the program's own result.
fn result(outcome: &Outcome) -> Answer {
    succeeded(outcome)?;
    match outcome.stdout.lines().find_map(|line| line.strip_prefix("result: ")) {
        Some("no") | None => Err("it runs, and the numbers are wrong".to_owned()),
        Some(word) => Ok(word.to_owned()),
    }
}

fn succeeded(outcome: &Outcome) -> Result<(), String> {
    let clean = outcome.status.success() && !outcome.out_of_time && outcome.leftovers.is_empty();
    if clean { Ok(()) } else { Err(reason(outcome)) }
}

/// Returns the error in one line.
fn reason(outcome: &Outcome) -> String {
    if outcome.out_of_time {
        return format!("still waiting after {} s", LIMIT.as_secs());
    }
    let said = [outcome.stderr.as_str(), outcome.stdout.as_str()].join("\n");
    let mut lines = said.lines().map(str::trim);
    let telling = |line: &&str| {
        let words = [
            "not supported",
            "not currently supported",
            "no space",
            "rror in ",
            "Segmentation",
            "error while loading",
            "requires the support",
        ];
        words.iter().any(|word| line.contains(word))
    };
    // The innermost cause is last.
    lines.rfind(telling).map_or_else(|| outcome.status.to_string(), shortened)
}

/// Returns the first error of a compiler, without the path of the temporary folder.
fn complaint(said: &str, file: &Path) -> String {
    let line = said.lines().find(|line| line.to_lowercase().contains("error:"));
    let line = line.or_else(|| said.lines().nth(1)).unwrap_or(said);
    let place = file.display().to_string();
    shortened(line.replace(&place, &file.file_name().unwrap_or_default().to_string_lossy()).trim())
}

fn shortened(line: &str) -> String {
    line.chars().take(160).collect()
}

/// Returns the first number with a dot in a library's version text.
fn number(library: &str) -> String {
    let words = library.split(|c: char| c.is_whitespace() || c == ',');
    let numbers = words.map(|word| word.trim_start_matches('v'));
    let mut numbers =
        numbers.filter(|it| it.starts_with(|c: char| c.is_ascii_digit()) && it.contains('.'));
    numbers.next().unwrap_or("?").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_found_in_what_each_calls_itself() {
        for (library, expected) in [
            ("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4", "4.1.4"),
            ("MPICH Version: 5.0.2 MPICH Release date: Fri", "5.0.2"),
            ("Intel(R) MPI Library 2021.18.1 for Linux* OS", "2021.18.1"),
            ("", "?"),
        ] {
            assert_eq!(number(library), expected);
        }
    }

    #[test]
    fn a_compiler_s_first_error_is_the_reason() {
        let said = "cc: exit status: 1\n/tmp/x/sessions.c:7:5: error: unknown type name\nmore";
        let reason = complaint(said, Path::new("/tmp/x/sessions.c"));
        assert_eq!(reason, "sessions.c:7:5: error: unknown type name");
    }

    #[test]
    fn every_question_has_a_program() {
        for (question, ..) in QUESTIONS {
            assert!(PROGRAMS.iter().any(|(name, ..)| name == question), "{question}");
        }
    }
}
