//! The commands of the project: `cargo xtask setup | demo | test | bench | book | findings | fresh | fuzz | machine | mpi | mutants | tables | wheel | release | install | uninstall`.
//!
//! floors: output < run < project < tally < release < headers < findings < rules < machine < hosts < setup < mpi < tables < fuzz < mutants < bench <
//!     book < demo < wheel < install < dist < uninstall < test < fresh
// Its macros are used by all modules below.
#[macro_use]
mod output;

mod bench;
mod book;
mod demo;
mod dist;
mod findings;
mod fresh;
mod fuzz;
mod headers;
mod hosts;
mod install;
mod machine;
mod mpi;
mod mutants;
mod project;
mod release;
mod rules;
mod run;
mod setup;
mod tables;
mod tally;
mod test;
mod uninstall;
mod wheel;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Name of the command in its help and messages.
const NAME: &str = "cargo xtask";

#[derive(Parser)]
#[command(
    name = NAME,
    bin_name = NAME,
    about = "Set up, try, test, measure and install quo",
    after_long_help = "Exit status: 0, 1 failure, 2 usage; of `machine` that of the command.",
    disable_help_subcommand = true,
    help_template = "{about}\n{usage-heading} {usage}\n\n{all-args}{after-help}",
    max_term_width = 80
)]
struct Arguments {
    /// Build and run with this MPI, from `cargo xtask mpi list`
    #[arg(long, value_name = "NAME", global = true)]
    mpi: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install the system packages that builds need; --tests: and tests
    Setup {
        /// Install the tools of tests, too: of the gate, or of everything, gigabytes
        #[arg(long, value_name = "SUITE", num_args = 0..=1, default_missing_value = "full")]
        tests: Option<setup::Suite>,
    },
    /// Run a coupled program three ways and show the work of each core
    Demo(demo::Options),
    /// Run all checks and tests of the gate, or with --full all
    Test(test::Options),
    /// Measure every operation, compared with the kernel's own cost
    Bench(bench::Options),
    /// Build a searchable site of all pages.
    Book(book::Options),
    /// Show the recorded behaviours of other software again
    Findings(findings::Options),
    /// Run a command, or the parts of the table, on a bare Debian, as root
    Fresh(fresh::Options),
    /// Fuzz everything that reads files, text and segments
    Fuzz(fuzz::Options),
    /// Run a command on an emulated machine: packages, SMT, NUMA nodes
    Machine(machine::Options),
    /// List the MPIs to build for and test with, or install some
    Mpi(mpi::Options),
    /// Put small faults into the sources, which the tests must notice
    #[command(hide = true)]
    Mutants(mutants::Options),
    /// Run several hosts on this machine, with ranks on them.
    Hosts(hosts::Options),
    /// Write the tables of other software in docs/, from runs
    Tables(tables::Options),
    /// Build the Python package as a wheel for pip.
    Wheel(wheel::Options),
    /// Pack the source with all crates, and a static memprof
    Release(dist::Options),
    /// Build optimised and install the library and all commands
    ///
    /// The library for C, C++, Fortran and Python, quo-info, quo-elastic, quo-run and memprof.
    Install(install::Options),
    /// Remove the installed files, and nothing else.
    Uninstall(uninstall::Options),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return quo_pages::end(NAME, &error),
    };
    // Set-up installs what a build needs, so it runs without an MPI; the list covers all MPIs; a
    // bare system has its own.
    let needs_mpi = !matches!(
        arguments.command,
        Command::Setup { .. } | Command::Findings(_) | Command::Mpi(_) | Command::Fresh(_)
    );
    if needs_mpi && let Err(error) = mpi::enter(arguments.mpi.as_deref()) {
        eprintln!("{NAME}: {error:#}");
        return ExitCode::FAILURE;
    }
    let outcome = match arguments.command {
        Command::Setup { tests } => setup::run(tests).map(|()| {
            if tests == Some(setup::Suite::Full) {
                mpi::provide_tested();
            }
        }),
        Command::Demo(options) => demo::run(&options),
        Command::Test(options) => test::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Book(options) => book::run(&options),
        Command::Findings(options) => findings::run(&options),
        Command::Fresh(options) => fresh::run(&options, arguments.mpi.as_deref()),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::Machine(options) => machine::run(&options),
        Command::Mpi(options) => mpi::run(&options),
        Command::Mutants(options) => mutants::run(&options),
        Command::Hosts(options) => hosts::run(&options),
        Command::Tables(options) => tables::run(&options),
        Command::Wheel(options) => wheel::run(&options),
        Command::Release(options) => dist::run(&options),
        Command::Install(options) => install::run(&options),
        Command::Uninstall(options) => uninstall::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{NAME}: {error:#}");
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
