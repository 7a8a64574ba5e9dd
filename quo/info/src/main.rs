//! `quo-info`: shows how to build against libquo, draws a machine, and shows a selection on it.
//!
//! Exit status: 0 on success, 1 if something failed, 2 for a wrong command line.

mod arguments;
mod bindings;
mod doctor;
mod environment;
mod generate;
mod installed;
mod output;
mod plan;
mod set;
mod topology;

use std::process::ExitCode;

use arguments::Command;

fn main() -> ExitCode {
    let arguments = match arguments::parsed() {
        Ok(arguments) => arguments,
        Err(error) => return quo_pages::end("quo-info", &error),
    };
    if let Some(folder) = &arguments.generate {
        return output::finish(generate::run(folder));
    }
    let outcome = match arguments.command {
        None => installed::run(&arguments.installed),
        Some(Command::Topology(options)) => topology::run(&options),
        Some(Command::Plan(options)) => plan::run(&options),
        Some(Command::Bindings(options)) => bindings::run(&options),
        Some(Command::Set(options)) => set::run(&options),
        Some(Command::Doctor(options)) => {
            return doctor::run(&options).unwrap_or_else(|error| output::finish(Err(error)));
        }
        Some(Command::Environment(options)) => environment::run(&options),
    };
    output::finish(outcome)
}
