//! The command line.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use mpi::Threading;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives};

use crate::result::Mode;
use crate::run::{self, Stop};
use crate::{layout, resizing};

#[derive(Parser)]
#[command(name = "coupled", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a deck; started by an MPI launcher.
    Run {
        /// Way in which ranks and threads meet.
        #[arg(long)]
        mode: Mode,
        #[command(flatten)]
        request: run::Request,
    },
    /// Run a deck on ranks that come and go; started by an MPI launcher.
    Elastic {
        #[command(flatten)]
        request: run::Request,
        #[command(flatten)]
        sizes: resizing::Sizes,
    },
}

/// Runs the command that the command line names.
pub fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run { mode, request } => {
            run_under_mpi(Threading::Funneled, |world| run::run(world, mode, &request))
        }
        // A separate thread starts processes.
        Command::Elastic { request, sizes } => {
            run_under_mpi(Threading::Multiple, |world| resizing::run(world, &request, &sizes))
        }
    }
}

fn complain(message: &str, status: u8) -> ExitCode {
    // Nothing can be done about a standard error that is closed.
    let _ = writeln!(std::io::stderr(), "coupled: {message}");
    ExitCode::from(status)
}

fn run_under_mpi(
    threads: Threading,
    run: impl FnOnce(&SimpleCommunicator) -> Result<(), Stop>,
) -> ExitCode {
    let Some((universe, _)) = mpi::initialize_with_threading(threads) else {
        return complain("MPI could not be initialised", 1);
    };
    let world = universe.world().duplicate();
    let (message, status) = match run(&world) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Stop::Told(message)) => {
            return message.map_or(ExitCode::FAILURE, |message| complain(&message, 1));
        }
        Err(Stop::Failed(error)) if resizing::is_alone(&error) => {
            complain(&format!("{error:#}"), 1);
            world.abort(1)
        }
        Err(Stop::Deck(message)) => (Some(message), 2),
        Err(Stop::Failed(error)) => {
            let own = !error.is::<layout::Elsewhere>();
            (own.then(|| format!("{error:#}")), 1)
        }
    };
    // One rank prints, before any has exited: the launcher ends the others when the first one exits
    // with a status.
    let teller = layout::first_rank(&world, message.is_some());
    if let Some(message) = message.filter(|_| teller == Some(layout::rank(&world))) {
        complain(&message, status);
    }
    world.barrier();
    ExitCode::from(status)
}
