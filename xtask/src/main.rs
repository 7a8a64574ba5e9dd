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

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Set up, try, test, measure and install quo",
    after_help = "Exit status: 0, 1 failure, 2 usage; of `machine` that of the command."
)]
struct Arguments {
    /// Build and run with this MPI; `cargo xtask mpi list` names them.
    #[arg(long, value_name = "NAME", global = true)]
    mpi: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install the system packages the project needs and this machine lacks.
    Setup,
    /// Set up, then run a coupled program three ways and show the work of each core.
    Demo(demo::Options),
    /// Set up, then run all checks and tests of the gate, or with --full all of them.
    Test(test::Options),
    /// Measure every operation, compared with the kernel's own cost and with a reference library.
    Bench(bench::Options),
    /// Build a searchable site of all pages.
    Book(book::Options),
    /// Show again the behaviours of other software that are recorded in findings/.
    Findings(findings::Options),
    /// Run a command, or a part of the tests for each system of the table, on a bare Debian in a folder (root).
    Fresh(fresh::Options),
    /// Fuzz everything that reads files, text and segments, guided by coverage.
    Fuzz(fuzz::Options),
    /// Run a command on an emulated machine: several packages, SMT, NUMA nodes.
    Machine(machine::Options),
    /// List the MPIs to build for and test with, their capabilities and how to get them.
    Mpi(mpi::Options),
    /// Put small faults into the sources, each of which a test must notice.
    Mutants(mutants::Options),
    /// Run several hosts on this machine, with ranks on them.
    Hosts(hosts::Options),
    /// Run the programs behind the tables of other software in docs/, and write the tables.
    Tables(tables::Options),
    /// Build the Python package as a wheel for pip.
    Wheel(wheel::Options),
    /// Pack the source with all crates for sites without a network, and a static memprof.
    Release(dist::Options),
    /// Build optimised and install the library for C, C++, Fortran and Python, quo-info,
    /// quo-elastic, quo-run and memprof.
    Install(install::Options),
    /// Remove the installed files, and nothing else.
    Uninstall(uninstall::Options),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Set-up installs what a build needs, so it runs without an MPI; the list covers all MPIs; a
    // bare system has its own.
    let needs_mpi = !matches!(
        arguments.command,
        Command::Setup | Command::Findings(_) | Command::Mpi(_) | Command::Fresh(_)
    );
    if needs_mpi && let Err(error) = mpi::enter(arguments.mpi.as_deref()) {
        eprintln!("error: {error:#}");
        return ExitCode::FAILURE;
    }
    let outcome = match arguments.command {
        Command::Setup => setup::run().map(|()| mpi::provide_tested()),
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
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
