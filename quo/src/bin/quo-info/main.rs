//! `quo-info`: how to build against libquo, what a machine looks like, what would be selected on it.
//!
//! Exit status: 0 when all went well, 1 when something failed, 2 for a wrong command line.

mod bindings;
mod environment;
mod installed;
mod output;
mod plan;
mod topology;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "quo-info",
    version,
    about = "How to build against libquo, and what quo sees and would do on a machine",
    disable_help_subcommand = true,
    subcommand_negates_reqs = true,
    args_conflicts_with_subcommands = true,
    arg_required_else_help = true,
    after_help = "With several options, the flags come on one line. Exit status: 0, 1 failure, 2 usage.",
    max_term_width = 100
)]
struct Arguments {
    #[command(flatten)]
    installed: installed::Options,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Draw a machine, this one or another
    Topology(topology::Options),
    /// Tell who would work where, with how many threads
    Plan(plan::Options),
    /// Tell who is bound where, and why (under mpirun: every rank)
    Bindings(bindings::Options),
    /// List the environment variables that are read
    Environment(environment::Options),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return output::usage(&error),
    };
    let outcome = match arguments.command {
        None => installed::run(&arguments.installed),
        Some(Command::Topology(options)) => topology::run(&options),
        Some(Command::Plan(options)) => plan::run(&options),
        Some(Command::Bindings(options)) => bindings::run(&options),
        Some(Command::Environment(options)) => environment::run(&options),
    };
    output::finish(outcome)
}
