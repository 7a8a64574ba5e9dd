//! The command line, in one place: the parser, and the source of manuals and completions.

use std::path::PathBuf;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::{bindings, doctor, environment, installed, plan, set, topology};

#[derive(Parser)]
#[command(
    name = "quo-info",
    version,
    about = "Show how to build against libquo, and what quo sees and would do on a machine",
    override_usage = "quo-info [OPTIONS] | quo-info <COMMAND>",
    disable_help_subcommand = true,
    subcommand_negates_reqs = true,
    args_conflicts_with_subcommands = true,
    arg_required_else_help = true,
    after_help = "Several options: their flags on one line. Exit status: 0, 1 failure, 2 usage.",
    max_term_width = 80
)]
pub struct Arguments {
    #[command(flatten)]
    pub installed: installed::Options,
    /// Write manual pages and shell completions into a folder, laid out as in share
    #[arg(long, hide = true, exclusive = true, value_name = "DIR")]
    pub generate: Option<PathBuf>,
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Subcommand)]
pub enum Command {
    /// Draw a machine, this one or another
    Topology(topology::Options),
    /// Show which ranks would work where, with how many threads
    Plan(plan::Options),
    /// Show which rank is bound where, and why; under mpirun: every rank
    Bindings(bindings::Options),
    /// Give a running job other CPUs, from its next phase on
    Set(set::Options),
    /// Say what here will not work, or not as expected, and what to do
    Doctor(doctor::Options),
    /// List the environment variables that are read
    Environment(environment::Options),
}

/// Returns the definition of the whole command line.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Parses the caller's arguments.
pub fn parsed() -> Result<Arguments, clap::Error> {
    let mut command = command();
    let mut matches: ArgMatches = command.try_get_matches_from_mut(std::env::args_os())?;
    Arguments::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_of_every_command_fits_a_small_terminal() {
        assert_eq!(quo_pages::oversized(command()), [""; 0]);
    }
}
