//! `cargo xtask mpi`: the MPIs used for building and testing. `--mpi NAME` on any command selects
//! one.

mod capabilities;
mod catalogue;
mod fetch;
mod home;

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::project;
use capabilities::{BEHAVIOURS, Capabilities, QUESTIONS};
#[cfg(test)]
pub use catalogue::named;
pub use catalogue::{ALSO_TESTED, DEFAULT};
use catalogue::{CATALOGUE, Mpi};
pub use home::Home;

#[derive(Args)]
pub struct Options {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Show which MPIs are here, and their capabilities, which are determined once for each
    /// version.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Determine all capabilities again.
        #[arg(long, visible_alias = "probe-all")]
        again: bool,
        /// Show only these MPIs.
        names: Vec<String>,
    },
    /// Install some of the MPIs.
    Install {
        /// Names, as `list` prints them.
        #[arg(required = true)]
        names: Vec<String>,
    },
}

pub fn run(options: &Options) -> Result<()> {
    match &options.command {
        Action::List { json, again, names } => list(*json, *again, &all_named(names)?),
        Action::Install { names } => {
            for mpi in all_named(names)? {
                let word = if fetch::ensure(mpi)? { "installed" } else { "is here already" };
                println!("{} ({}) {word}", mpi.name, mpi.title);
            }
            Ok(())
        }
    }
}

/// Starts this command again with the MPI that `--mpi` or the environment selects, unless it is the
/// default. The command cannot use another MPI by mistake from then on.
pub fn enter(name: Option<&str>) -> Result<()> {
    let inside = std::env::var(project::MPI).ok();
    let home = match name {
        Some(name) if inside.as_deref() == Some(name) => None,
        Some(name) => Some(home::require(catalogue::named(name)?)?),
        None if inside.is_some() => None,
        None => home::of_environment()?,
    };
    let Some(home) = home else { return Ok(()) };
    let mut again = Command::new(std::env::current_exe().context("finding the running program")?);
    again.args(std::env::args_os().skip(1));
    home.enter(&mut again)?;
    Err(again.exec()).context("starting again with another MPI")
}

/// Returns the name of the selected MPI, if one was selected.
pub fn chosen() -> Option<String> {
    std::env::var(project::MPI).ok()
}

/// Fetches the MPIs on which suites run in addition to the default. If one is not available, its
/// suites are skipped.
pub fn provide_tested() {
    for name in ALSO_TESTED {
        if let Err(error) = provide(name) {
            println!("set-up: {error:#}\nset-up: going on; suites on {name} are skipped");
        }
    }
}

/// Provides an MPI on which suites run in addition to the default, fetching it if necessary; an
/// error gives the reason why it is not available.
pub fn provide(name: &str) -> Result<Home> {
    let mpi = catalogue::named(name)?;
    fetch::ensure(mpi)?;
    home::require(mpi)
}

/// Returns true if it compiles Fortran programs.
pub fn has_fortran(home: &Home) -> bool {
    home.program("mpifort").exists()
}

/// Returns the home of the selected MPI, if one was selected.
pub fn home_in_use() -> Result<Option<Home>> {
    match chosen() {
        None => Ok(None),
        Some(name) => Ok(Some(Home {
            folder: std::env::var_os("MPI_HOME")
                .context("an MPI was chosen, and MPI_HOME is not set")?
                .into(),
            build: project::target()?,
            name,
        })),
    }
}

/// Looks up all names before anything is done for one; no names means all MPIs.
fn all_named(names: &[String]) -> Result<Vec<&'static Mpi>> {
    match names {
        [] => Ok(CATALOGUE.iter().collect()),
        some => some.iter().map(|name| catalogue::named(name)).collect(),
    }
}

/// Returns the table of docs for the MPIs that are here: name with version, question and answer.
pub fn answers() -> Result<Vec<[String; 3]>> {
    let mut answers = Vec::new();
    for mpi in CATALOGUE {
        let Some(home) = home::find(mpi)? else { continue };
        let known = capabilities::of(mpi, &home, true)?;
        let mut answer = |row: &str, text: String| {
            answers.push([format!("{} {}", mpi.name, known.version()), row.to_owned(), text]);
        };
        answer(
            "standard it claims",
            known.to_json()["standard"].as_str().unwrap_or("?").to_owned(),
        );
        for (question, _, row) in QUESTIONS {
            let setting = known.setting(question).map(|setting| format!("with `{setting}`"));
            answer(row, setting.unwrap_or_else(|| known.answer(question).to_owned()));
        }
        for (situation, row) in BEHAVIOURS {
            answer(row, known.behaviour(situation).to_owned());
        }
    }
    Ok(answers)
}

fn list(as_json: bool, again: bool, wanted: &[&'static Mpi]) -> Result<()> {
    let mut rows = Vec::new();
    for &mpi in wanted {
        let known = match home::find(mpi)? {
            Some(home) => Some((capabilities::of(mpi, &home, again)?, home)),
            None => None,
        };
        rows.push((mpi, known));
    }
    if as_json {
        let rows: Vec<Value> = rows.iter().map(|(mpi, known)| entry(mpi, known.as_ref())).collect();
        println!("{:#}", json!({ "mpis": rows }));
    } else {
        print!("{}", table(&rows));
    }
    Ok(())
}

fn entry(mpi: &Mpi, known: Option<&(Capabilities, Home)>) -> Value {
    let mut entry = json!({
        "name": mpi.name,
        "title": mpi.title,
        "default": mpi.name == DEFAULT,
        "there": known.is_some(),
        "install": mpi.how_to_get(),
    });
    if let Some((capabilities, home)) = known {
        let program = |name| Some(home.program(name)).filter(|file| file.exists());
        entry["folder"] = json!(home.folder);
        entry["build"] = json!(home.build);
        entry["compilers"] = json!({
            "c": program("mpicc"), "cxx": program("mpicxx"), "fortran": program("mpifort"),
        });
        entry["launcher"] = json!(program("mpirun"));
        for key in ["version", "library", "standard", "can", "does"] {
            entry[key] = capabilities.to_json()[key].clone();
        }
    }
    entry
}

type Row<'a> = (&'a Mpi, Option<(Capabilities, Home)>);

/// Formats one line for each MPI, followed by an explanation of the columns.
fn table(rows: &[Row]) -> String {
    let mut lines = vec![vec!["name".to_owned(), "version".to_owned(), "MPI".to_owned()]];
    lines[0].extend(QUESTIONS.iter().map(|(_, head, _)| (*head).to_owned()));
    let (mut remarks, mut absent) = (Vec::new(), Vec::new());
    for (mpi, known) in rows {
        let Some((capabilities, _)) = known else {
            absent.push(format!("{}: not here; get it with: {}", mpi.name, mpi.how_to_get()));
            continue;
        };
        let standard = capabilities.to_json()["standard"].as_str().unwrap_or("?").to_owned();
        let mut line = vec![mpi.name.to_owned(), capabilities.version().to_owned(), standard];
        for (question, head, _) in QUESTIONS {
            let remark = capabilities.remark(question);
            let mark = if remark.is_some() { "*" } else { "" };
            line.push(format!("{}{mark}", capabilities.answer(question)));
            remarks.extend(remark.map(|text| format!("* {}, {head}: {text}", mpi.name)));
        }
        lines.push(line);
    }
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let cells: Vec<String> =
            line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    for part in [remarks, absent] {
        if !part.is_empty() {
            text += &format!("\n{}\n", part.join("\n"));
        }
    }
    text + "\nuse one with --mpi NAME: cargo xtask test --mpi mpich5\n"
}
