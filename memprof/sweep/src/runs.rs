//! The jobs of a sweep, one after another; jobs that are finished are not run again.

use super::Options;
use anyhow::{Context, bail};
use memprof::run;
use memprof::terminal::say;
use memprof::{output, units};
use quo_terminal::child as signals;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// File next to the jobs that describes each and its state.
const JOURNAL: &str = "runs.json";

/// State of a folder.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Journal {
    memprof_sweep_runs: u32,
    mpirun: String,
    command: Vec<String>,
    done: Vec<String>,
    /// The job that is being run, or was when the sweep was interrupted.
    #[serde(default)]
    running: Option<String>,
}

impl Journal {
    fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let content = serde_json::to_string_pretty(self)?;
        output::write(&folder.join(JOURNAL), content.as_bytes()).map(|_| ())
    }
}

/// End of a sweep.
pub(super) enum Outcome {
    /// All jobs are there.
    Done(Vec<PathBuf>),
    /// A signal asked it to end, and the job ended with this status.
    Stopped(ExitStatus),
}

pub(super) fn run(options: &Options) -> anyhow::Result<Outcome> {
    let Some(folder) = &options.output else { bail!("a folder has to be named with -o") };
    quo_files::Folder::make(folder, quo_files::Access::ReadOnly)
        .with_context(|| format!("cannot use {}", folder.display()))?;
    let mut counts = options.ranks.clone();
    counts.sort_unstable();
    counts.dedup();
    let mut journal = open(folder, options)?;
    let mut folders = Vec::new();
    let total = counts.len() * options.repeat as usize;
    for repeat in 1..=options.repeat {
        for count in &counts {
            let name = match repeat {
                1 => format!("ranks-{count}"),
                repeat => format!("ranks-{count}-{repeat}"),
            };
            let job = folder.join(&name);
            folders.push(job.clone());
            if journal.done.contains(&name) && job.is_dir() {
                say(&format!("{name} is there"));
                continue;
            }
            say(&format!("{name}, job {} of {total}", folders.len()));
            clear(&job, journal.running.as_ref() == Some(&name))?;
            journal.running = Some(name.clone());
            journal.write(folder)?;
            let recorded = run::record(&recording(options, *count, job.clone())?)?;
            if signals::asked_to_end() {
                say("stopped; the same command goes on from here");
                return Ok(Outcome::Stopped(recorded.status));
            }
            if !recorded.status.success() {
                bail!(
                    "the job with {} failed ({}); when that is mended, the same command goes on from here",
                    units::count(*count as usize, "rank"),
                    recorded.status
                );
            }
            memprof::model::files(&job).with_context(|| {
                let ranks = units::count(*count as usize, "rank");
                format!("nothing was recorded with {ranks}; `memprof run` says why")
            })?;
            journal.done.push(name);
            journal.running = None;
            journal.write(folder)?;
        }
    }
    Ok(Outcome::Done(folders))
}

/// Reads the state of the folder, if it is for the same command.
fn open(folder: &Path, options: &Options) -> anyhow::Result<Journal> {
    let text = |part: &OsString| String::from_utf8_lossy(part.as_bytes()).into_owned();
    let wanted = Journal {
        memprof_sweep_runs: 1,
        mpirun: options.mpirun.clone(),
        command: options.command.iter().map(text).collect(),
        done: Vec::new(),
        running: None,
    };
    let file = folder.join(JOURNAL);
    let content = match std::fs::read(&file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(wanted),
        content => content.with_context(|| format!("cannot read {}", file.display()))?,
    };
    let found: Journal = serde_json::from_slice(&content)
        .with_context(|| format!("{} is no list of jobs of a sweep", file.display()))?;
    // Without a place for the number of ranks it stands at the end.
    let whole = |line: &str| match line.contains("{n}") {
        true => line.to_owned(),
        false => format!("{line} -n {{n}}"),
    };
    if whole(&found.mpirun) != whole(&wanted.mpirun) || found.command != wanted.command {
        bail!(
            "{} holds jobs of another command: {} ... {}; name another folder",
            folder.display(),
            found.mpirun,
            found.command.join(" ")
        );
    }
    Ok(found)
}

/// Removes the remains of an interrupted job: its traces, and the folder if nothing else is in it. Files of others
/// stay.
fn clear(job: &Path, ours: bool) -> anyhow::Result<()> {
    if !job.exists() {
        return Ok(());
    }
    if !ours && std::fs::read_dir(job).is_ok_and(|mut entries| entries.next().is_some()) {
        bail!("{} is not of this sweep; name another folder", job.display());
    }
    let cannot = || format!("cannot clear {} of an interrupted job", job.display());
    for file in memprof::model::files(job).unwrap_or_default() {
        std::fs::remove_file(&file).with_context(cannot)?;
    }
    std::fs::remove_dir(job).with_context(cannot)
}

/// Returns the command for `count` ranks.
fn recording(options: &Options, count: u32, folder: PathBuf) -> anyhow::Result<run::Options> {
    Ok(run::Options {
        output: Some(folder),
        all: false,
        interval: None,
        max_overhead: None,
        faults: false,
        exact: false,
        sync_interval: None,
        stacks: None,
        loops: false,
        loop_interval: None,
        mpi_time: false,
        components: None,
        report: false,
        quiet: true,
        command: command(&options.mpirun, count, &options.command)?,
    })
}

/// Returns launcher, its options, and the program.
pub(super) fn command(
    mpirun: &str,
    count: u32,
    program: &[OsString],
) -> anyhow::Result<Vec<OsString>> {
    let mut words = words(mpirun)?;
    if words.is_empty() {
        bail!("--mpirun is empty: give a launcher, such as mpirun");
    }
    if words.iter().any(|word| word.contains("{n}")) {
        for word in &mut words {
            *word = word.replace("{n}", &count.to_string());
        }
    } else {
        words.extend(["-n".to_owned(), count.to_string()]);
    }
    Ok(words.into_iter().map(OsString::from).chain(program.iter().cloned()).collect())
}

/// Words as a shell parts them: by spaces, with quotes and backslashes.
fn words(text: &str) -> anyhow::Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => {
                word.get_or_insert_default()
                    .push(letters.next().context("--mpirun ends in a backslash")?);
            }
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    if quote.is_some() {
        bail!("--mpirun has a quote that does not end");
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(mpirun: &str) -> Vec<String> {
        let words = command(mpirun, 4, &["./a b".into()]).unwrap();
        words.into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn the_number_of_ranks_goes_where_the_launcher_wants_it() {
        assert_eq!(line("mpirun"), ["mpirun", "-n", "4", "./a b"]);
        assert_eq!(
            line("mpirun -np {n} --oversubscribe"),
            ["mpirun", "-np", "4", "--oversubscribe", "./a b"]
        );
        assert_eq!(line("srun --ntasks={n}"), ["srun", "--ntasks=4", "./a b"]);
        assert_eq!(
            line("'my run' \"a \\\" b\" c\\ d"),
            ["my run", "a \" b", "c d", "-n", "4", "./a b"]
        );
    }

    #[test]
    fn a_launcher_that_cannot_be_read_is_refused() {
        for wrong in ["", "  ", "mpirun 'x", "mpirun \\"] {
            assert!(command(wrong, 4, &[]).is_err(), "{wrong}");
        }
    }
}
