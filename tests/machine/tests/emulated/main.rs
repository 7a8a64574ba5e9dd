//! Bindings, distribution and memory placement on machines with several packages, SMT and NUMA
//! nodes, judged by the kernel of such a machine.
//!
//! On the host this program boots each shape once, runs itself in it, and turns the lines it
//! receives into tests named `SHAPE::CHECK`. It takes names to run, `--exact`, `--skip NAME` and
//! `--list` like the standard runner. `QUO_MACHINE_ACCELERATOR` selects `kvm` or `tcg`. More
//! shapes, and every C test with a rank on each CPU, take half an hour or more:
//!
//! ```sh
//! QUO_MACHINE_SUITE=full cargo test --package quo-machine --test emulated
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, missing_docs)]

mod alone;
mod harness;
mod lives;
mod oracle;
mod programs;
mod ranks;
mod runner;

use std::process::ExitCode;

use quo_tests::Selection;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        // In the machine: all checks, one of them, or one rank of one of them.
        ["--inside", shape, ..] => runner::run_all(shape, &arguments[2..]),
        ["--check", shape, name] => match runner::run_here(shape, name) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error:#}");
                ExitCode::FAILURE
            }
        },
        ["--rank", pattern] => {
            ranks::run(pattern);
            ExitCode::SUCCESS
        }
        _ => harness::run(&Selection::of(arguments)),
    }
}
