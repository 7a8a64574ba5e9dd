//! `memprof`: where every byte went, per component, per rank, over time.
//!
//! Exit status: 0 when all went well, 1 when something failed, 2 for a wrong command line; of `run`
//! that of the command.

use clap::{Parser, Subcommand};
use memprof::terminal::say;
use memprof::{diff, export, flags, generate, live, report, run};
use quo_pages::Words;
use std::process::ExitCode;

/// Show where every byte went: per component, per rank, over time
#[derive(Parser)]
#[command(
    name = "memprof",
    version,
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = "\
        memprof run -- mpirun -n 4 ./app     # run a program, watch its ranks\n\
        memprof report memprof-app-1         # what its components held\n\
        memprof report memprof-app-1 --html page.html\n\n\
        Exit status: 0, 1 failure, 2 usage; of `run` that of the command.",
    max_term_width = 80
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Options),
    Report(report::Options),
    Time(memprof_time::Options),
    Live(live::Options),
    Flags(flags::Options),
    Diff(diff::Options),
    Export(export::Options),
    Sweep(memprof_sweep::Options),
    #[command(hide = true)]
    Generate(generate::Options),
}

/// Further text of the manual pages.
const PAGES: Words<'_> = Words {
    status: "0 when all went well, 1 when something failed, 2 for a wrong command line; \
        of memprof run that of the command.",
    see: "quo(7), mpirun(1)",
    names: None,
};

fn main() -> ExitCode {
    let arguments: Arguments = match quo_pages::parse(PAGES) {
        Ok(arguments) => arguments,
        Err(status) => return status,
    };
    let outcome = match arguments.command {
        Command::Run(options) => run::run(&options, memprof_time::summary),
        Command::Report(options) => report::run(&options),
        Command::Time(options) => memprof_time::run(&options),
        Command::Live(options) => live::run(&options),
        Command::Flags(options) => flags::run(&options),
        Command::Diff(options) => diff::run(&options),
        Command::Export(options) => export::run(&options),
        Command::Sweep(options) => memprof_sweep::run(&options),
        Command::Generate(options) => generate::run(&options),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            say(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn help_of_every_command_fits_a_small_terminal() {
        assert_eq!(quo_pages::oversized(Arguments::command()), [""; 0]);
    }
}
