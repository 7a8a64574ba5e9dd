//! Draws the pictures of the guide: phases over time from a trace that quo recorded, the cores of
//! ranks over time, and diagrams.
//!
//! floors: style < diagram < diagrams < timeline = cores

mod cores;
mod diagram;
mod diagrams;
mod style;
mod timeline;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

/// Draws the pictures of the guide.
#[derive(Parser)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Draw the phases of a trace that a program wrote with QUO_TRACE
    Phases {
        /// The trace
        trace: PathBuf,
        /// The SVG to write
        picture: PathBuf,
    },
    /// Run a command and draw which of its ranks runs on which core
    Cores {
        /// The SVG to write
        picture: PathBuf,
        /// Title of the picture
        title: String,
        /// What to run
        #[arg(trailing_var_arg = true, required = true)]
        command: Vec<String>,
    },
    /// Draw the diagrams into a folder
    Diagrams {
        /// Folder for the SVGs
        folder: PathBuf,
    },
}

fn main() -> Result<()> {
    match Options::parse().command {
        Command::Phases { trace, picture } => {
            let text = fs::read_to_string(&trace)
                .with_context(|| format!("cannot read the trace {}", trace.display()))?;
            let drawn = timeline::draw(&text)
                .with_context(|| format!("cannot draw the trace {}", trace.display()))?;
            fs::write(&picture, drawn)
                .with_context(|| format!("cannot write the picture {}", picture.display()))
        }
        Command::Cores { picture, title, command } => {
            let drawn = cores::record(&command, &title)?;
            fs::write(&picture, drawn)
                .with_context(|| format!("cannot write the picture {}", picture.display()))
        }
        Command::Diagrams { folder } => {
            for (name, drawn) in diagrams::all() {
                let path = folder.join(format!("{name}.svg"));
                fs::write(&path, drawn)
                    .with_context(|| format!("cannot write the picture {}", path.display()))?;
            }
            Ok(())
        }
    }
}
