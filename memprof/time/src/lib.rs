//! `memprof time`: where the ranks of a job spend their time, and how efficient its regions are.

mod figures;
mod gather;
mod loops;
mod page;
mod text;

use anyhow::bail;
use memprof::terminal::{self, Look, say};
use memprof::{output, units};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub use figures::{Efficiency, Share, efficiency};
pub use gather::{RankTime, Region, Times};
pub use loops::{CallPlace, Loop, Loops, Spread};

/// Show the time of a job inside and outside of MPI.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Recorded by `memprof run --mpi-time`. Efficiencies are those of POP: parallel = balance × communication."
)]
pub struct Options {
    /// The folder `memprof run` made
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Show each rank of each region
    #[arg(long)]
    pub ranks: bool,
    /// Show the loops of the program, with the places that call MPI; recorded by `memprof run --loops`
    #[arg(long)]
    pub loops: bool,
    /// Show only the region of this name
    #[arg(long, value_name = "NAME")]
    pub region: Option<String>,
    /// Print everything as JSON, into FILE if it is given
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
    /// Write a self-contained page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Version of the JSON form; fields are only added within one.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    memprof_time: u32,
    #[serde(flatten)]
    times: &'a Times,
}

/// Runs the command.
///
/// # Errors
/// If an argument does not fit the folder, no job can be read there, or the output cannot be written.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let mut times = gather::load(&options.folder)?;
    if let Some(name) = &options.region {
        times.keep(name)?;
    }
    if options.loops && times.loops.is_none() {
        let folder = options.folder.display();
        bail!("no loops in {folder}: record them with memprof run --loops");
    }
    if let Some(file) = &options.html {
        let bytes = output::write(file, page::page(&times).as_bytes())?;
        wrote(file, bytes);
    }
    match &options.json {
        Some(file) => {
            let document = Document { memprof_time: VERSION, times: &times };
            let text = serde_json::to_string(&document)? + "\n";
            match file.as_os_str() == "-" {
                true => drop(terminal::print(&text)?),
                false => wrote(file, output::write(file, text.as_bytes())?),
            }
        }
        None if options.html.is_none() => {
            let look = Look::stdout();
            match (&times.loops, options.loops) {
                (Some(loops), true) => {
                    let head = look.bold(&text::head(&times)) + "\n\n";
                    let notes = text::notes(&times, look);
                    terminal::print(&(head + &loops::text(loops, look) + &notes))?;
                }
                _ => drop(terminal::print(&text::text(&times, options.ranks, look))?),
            }
        }
        None => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the table of a folder, for the end of a run.
///
/// # Errors
/// If the folder holds no times that can be read.
pub fn summary(folder: &Path, look: Look) -> anyhow::Result<String> {
    Ok(text::text(&gather::load(folder)?, false, look))
}

fn wrote(file: &Path, bytes: u64) {
    say(&format!("wrote {} ({})", file.display(), units::bytes(bytes)));
}
