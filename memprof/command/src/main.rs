//! `memprof`: where every byte went, per component, per rank, over time.
//!
//! Exit status: 0 when all went well, 1 when something failed, 2 for a wrong command line; of `run`
//! that of the command.

use clap::{CommandFactory, Parser, Subcommand};
use memprof::terminal::say;
use memprof::{diff, export, flags, generate, live, report, run};
use quo_pages::Words;
use std::process::ExitCode;

/// Where every byte went: per component, per rank, over time.
///
///     memprof run -- mpirun -n 4 ./app     run a program and watch its ranks
///     memprof report memprof-app-1         what its components held
///     memprof report memprof-app-1 --html page.html
#[derive(Parser)]
#[command(
    name = "memprof",
    version,
    verbatim_doc_comment,
    arg_required_else_help = true,
    after_help = "Exit status: 0, 1 failure, 2 usage; of `run` that of the command."
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
    if let Some(folder) = quo_pages::asked(std::env::args_os()) {
        return match quo_pages::write_all(Arguments::command(), PAGES, &folder) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                say(&format!("{}: {error}", folder.display()));
                ExitCode::FAILURE
            }
        };
    }
    let outcome = match Arguments::parse().command {
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
