//! Starts a command, and ends its ranks where MPI begins, after they have recorded themselves.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use quo_launch::{Launcher, preload};
use rustix::process::{Pid, Signal, kill_process_group};

use super::facts::{Facts, Process};
use super::process;

/// File name of the object loaded into the ranks.
const OBJECT: &str = "libquo_info_preload.so";
/// Folder for what the ranks record.
const FOLDER: &str = "QUO_DOCTOR_FOLDER";
/// Path of this program.
const COMMAND: &str = "QUO_DOCTOR_COMMAND";
/// Between two checks of the command.
const NAP: Duration = Duration::from_millis(20);
/// For the last output of a command that has ended.
const OUTPUT: Duration = Duration::from_secs(2);

/// Examines a command. What its ranks are goes into `ranks`, or the reason into `missing`.
///
/// # Errors
/// If the command cannot be started, or the object that is loaded into it is not there.
pub fn examine(command: &[OsString], limit: Duration, facts: &mut Facts) -> Result<()> {
    let launcher = Launcher::of(&command[0]);
    facts.launcher = name(launcher).map(str::to_owned);
    if launcher == Launcher::None && examine_alone(command, facts) {
        return Ok(());
    }
    let folder = tempfile::Builder::new()
        .prefix("quo-doctor-")
        .tempdir()
        .context("cannot make a folder for what the ranks record")?;
    let (ended, without_slots) = run(command, launcher, folder.path(), limit)?;
    facts.without_slots = without_slots;
    let (ranks, failed) = collect(folder.path())?;
    facts.missing = why_missing(&ranks, failed, ended, limit);
    facts.ranks = ranks;
    Ok(())
}

/// Examines a program that uses no MPI without running it. Returns false if it may use MPI.
fn examine_alone(command: &[OsString], facts: &mut Facts) -> bool {
    let program = process::find(&command[0]);
    let Some(objects) = process::linked(&program) else { return false };
    let is_mpi =
        |path: &String| path.rsplit('/').next().is_some_and(|name| name.starts_with("libmpi"));
    if objects.iter().any(is_mpi) || is_interpreter(&program) {
        return false;
    }
    facts.ranks = vec![process::read(&program.to_string_lossy(), objects, None)];
    true
}

/// Returns true for programs that load what they use while they run, or start the program proper.
fn is_interpreter(program: &Path) -> bool {
    let program = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // A version may follow: `python3.11`.
    let base = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    [
        "python",
        "julia",
        "R",
        "perl",
        "ruby",
        "bash",
        "dash",
        "sh",
        "env",
        "numactl",
        "taskset",
        "nice",
        "quo-elastic",
        "quo-run",
        "memprof",
    ]
    .contains(&base)
}

fn name(launcher: Launcher) -> Option<&'static str> {
    match launcher {
        Launcher::OpenMpi => Some("mpirun (Open MPI)"),
        Launcher::Hydra => Some("mpiexec (Hydra)"),
        Launcher::Srun => Some("srun (Slurm)"),
        Launcher::None => None,
    }
}

/// Runs the command to its end, or for `limit` at most. Returns its status, `None` if it was ended,
/// and what a launcher with too few slots printed.
fn run(
    command: &[OsString],
    launcher: Launcher,
    folder: &Path,
    limit: Duration,
) -> Result<(Option<ExitStatus>, Option<String>)> {
    let object = preload::find(OBJECT, "QUO_INFO_PRELOAD").map_err(anyhow::Error::msg)?;
    let own = std::env::current_exe().context("cannot find where quo-info itself is")?;
    let command = preload::merge(&object, command);
    let list = preload::list(&object, std::env::var_os("LD_PRELOAD").as_deref());
    let variables = [("LD_PRELOAD", list), (FOLDER, folder.into()), (COMMAND, own.into())];
    let (command, told) = launcher.pass(&command, &variables.each_ref().map(|(name, _)| *name));
    if let Some(told) = told {
        quo_terminal::complain("quo-info", &told);
    }
    let words = command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let mut child = Command::new(&command[0])
        .args(&command[1..])
        .envs(variables)
        .stdin(Stdio::null())
        // What the program prints is not the doctor's output.
        .stdout(std::io::stderr())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot run {words}"))?;
    let printed = child.stderr.take().map(pass_on);
    let ended = wait(&mut child, limit).with_context(|| format!("waiting for {words}"))?;
    // A process that outlives the launcher may keep the pipe open.
    let lacking = printed.and_then(|printed| printed.recv_timeout(OUTPUT).ok());
    Ok((ended, lacking))
}

/// Passes the errors of a command on to the user, and sends the line of a launcher that has too few
/// slots.
fn pass_on(errors: ChildStderr) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut errors = BufReader::new(errors);
        let mut line = Vec::new();
        while errors.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            let _ = std::io::stderr().write_all(&line);
            let text = String::from_utf8_lossy(&line);
            if let Some((_, wanted)) = text.split_once("not enough slots available") {
                let number = wanted.split_whitespace().last().unwrap_or_default();
                let _ = sender.send(format!("not enough slots for {number} processes"));
            }
            line.clear();
        }
    });
    receiver
}

fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let until = Instant::now() + limit;
    while Instant::now() < until {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        // Sleeps: the command is checked again.
        std::thread::sleep(NAP);
    }
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("no process")?;
    // Launchers end their ranks on SIGTERM; what is left is killed.
    let _ = kill_process_group(group, Signal::TERM);
    let until = Instant::now() + Duration::from_secs(5);
    while child.try_wait()?.is_none() && Instant::now() < until {
        // Sleeps: the launcher ends its ranks.
        std::thread::sleep(NAP);
    }
    let _ = kill_process_group(group, Signal::KILL);
    child.wait()?;
    Ok(None)
}

/// Writes what this process is, which was a rank until MPI began.
///
/// # Errors
/// If the object has not started this process, or a file cannot be read or written.
pub fn record() -> Result<()> {
    let folder =
        std::env::var_os(FOLDER).context("--rank is for the ranks of `quo-info doctor`")?;
    let own = |kind: &str| PathBuf::from(&folder).join(format!("{}.{kind}", std::process::id()));
    let maps = fs::read_to_string(own("maps")).context("reading the mappings of the rank")?;
    let mpi = String::from_utf8_lossy(&fs::read(own("mpi")).unwrap_or_default()).into_owned();
    let objects = process::objects_in(&maps);
    let program = objects.first().cloned().unwrap_or_default();
    // The object itself is not the program's.
    let objects = objects.into_iter().filter(|path| !path.ends_with(OBJECT)).collect();
    let seen = process::read(&program, objects, Some(mpi).filter(|text| !text.is_empty()));
    // A file has this name only once it is whole.
    let (part, whole) = (own("part"), own("json"));
    fs::write(&part, serde_json::to_vec(&seen)?).and_then(|()| fs::rename(part, whole))?;
    Ok(())
}

/// Reads what the ranks have written: the ranks in their order, and what went wrong in some.
fn collect(folder: &Path) -> Result<(Vec<Process>, Vec<String>)> {
    let (mut ranks, mut failed) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.extension().and_then(|it| it.to_str()) {
            Some("json") => ranks.push(serde_json::from_slice(&fs::read(&path)?)?),
            Some("error") => failed.push(fs::read_to_string(&path)?),
            _ => {}
        }
    }
    ranks.sort_by_key(|rank: &Process| rank.rank);
    failed.sort();
    failed.dedup();
    Ok((ranks, failed))
}

/// Returns why ranks are missing; `None` if all are there.
fn why_missing(
    ranks: &[Process],
    failed: Vec<String>,
    ended: Option<ExitStatus>,
    limit: Duration,
) -> Option<String> {
    let expected = ranks.iter().map(|rank| rank.ranks).max();
    if !failed.is_empty() {
        return Some(format!("ranks could not be examined: {}", failed.join("; ")));
    }
    let found = ranks.len() as u64;
    match (expected, ended) {
        (Some(expected), _) if found >= expected => None,
        (Some(expected), _) => Some(format!(
            "{found} of {expected} ranks were examined: the others are on other hosts without this \
             folder (set TMPDIR to a shared one), have no loader, or ended before MPI began"
        )),
        (None, None) => Some(format!(
            "no process reached the beginning of MPI within {} s; the command was ended",
            limit.as_secs()
        )),
        (None, Some(status)) if status.success() => {
            Some("no process began MPI; the command ran to its end".to_owned())
        }
        (None, Some(status)) => Some(format!(
            "no process began MPI, and the command ended with {status}: what it printed says why"
        )),
    }
}

/// Checks that the command is one that starts here.
///
/// # Errors
/// If a launcher has started the doctor itself.
pub fn check_side(command: &[OsString]) -> Result<()> {
    if let Some(started) = quo_launch::job::Started::read().filter(|_| command.is_empty()) {
        if !started.is_first() {
            std::process::exit(0);
        }
        bail!(
            "{} started the doctor {} times ({}); put the launcher behind it: \
             quo-info doctor -- mpirun -n {} ./program",
            started.by,
            started.number(),
            started.variable,
            started.number()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn ranks(numbers: &[u64], all: u64) -> Vec<Process> {
        numbers.iter().map(|&rank| Process { rank, ranks: all, ..Process::default() }).collect()
    }

    fn why(numbers: &[u64], status: Option<i32>) -> Option<String> {
        let ended = status.map(|code| ExitStatus::from_raw(code << 8));
        why_missing(&ranks(numbers, 2), Vec::new(), ended, Duration::from_secs(60))
    }

    #[test]
    fn missing_ranks_have_a_reason() {
        assert_eq!(why(&[0, 1], Some(0)), None);
        assert_eq!(why(&[0, 1], Some(1)), None);
        for (numbers, status, text) in [
            (&[0][..], Some(0), "1 of 2 ranks"),
            (&[], Some(0), "ran to its end"),
            (&[], Some(3), "ended with exit status: 3"),
            (&[], None, "within 60 s"),
        ] {
            let reason = why(numbers, status).unwrap();
            assert!(reason.contains(text), "{reason}");
        }
    }

    #[test]
    fn command_that_does_not_end_is_ended() {
        let mut child = Command::new("sleep").arg("100").process_group(0).spawn().unwrap();
        let begin = Instant::now();
        assert_eq!(wait(&mut child, Duration::from_millis(100)).unwrap(), None);
        assert!(begin.elapsed() < Duration::from_secs(50));
    }

    #[test]
    fn ranks_are_read_in_their_order() {
        let folder = tempfile::tempdir().unwrap();
        for rank in ranks(&[1, 0], 2) {
            let name = format!("{}.json", 90 - rank.rank);
            fs::write(folder.path().join(name), serde_json::to_vec(&rank).unwrap()).unwrap();
        }
        fs::write(folder.path().join("7.maps"), "").unwrap();
        let (ranks, failed) = collect(folder.path()).unwrap();
        assert_eq!(ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>(), [0, 1]);
        assert!(failed.is_empty());
    }
}
